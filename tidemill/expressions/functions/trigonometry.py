"""Functions of angles and their like: their entries in the registry, and their builders. All engines give the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tidemill.expressions.expr import Expr, call, lit, operand
from tidemill.expressions.functions.registry import Function, always, floats

# What they mean.


def _total(compute: Callable[..., float]) -> Callable[..., float]:
    """Return a function as Java has it: NaN where there is no value, and infinities beyond the largest float."""

    def run(*values: float) -> float:
        try:
            return compute(*values) + 0.0
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, values[0]) if compute is math.sinh else math.inf

    return run


def _cot(angle: float) -> float:
    tangent = math.tan(angle)
    return 1 / tangent if tangent else math.inf


def _secant(angle: float) -> float:
    return 1 / math.cos(angle)  # the cosine of no float is 0


def _cosecant(angle: float) -> float:
    sine = math.sin(angle)
    return 1 / sine if sine else math.inf


def _log(base: float, value: float) -> float | None:
    if base <= 0 or value <= 0:
        return None
    below = math.log(base)
    return math.log(value) / below if below else math.nan if value == 1 else math.copysign(math.inf, math.log(value))


def _cbrt(value: float) -> float:
    root = math.cbrt(value)
    return float(round(root)) if math.isfinite(root) and round(root) ** 3 == value else root


_OF_ONE: Final[dict[str, Callable[[float], float]]] = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "cot": _cot, "sec": _secant, "csc": _cosecant,
    "asin": math.asin, "acos": math.acos,
    "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "degrees": math.degrees,
    "radians": math.radians, "cbrt": _cbrt, "expm1": math.expm1,
}  # fmt: skip

TRIGONOMETRY: Final = (
    *(Function(n, floats(1), "a number", python=_total(f)) for n, f in _OF_ONE.items()),
    Function("atan2", floats(2), "two numbers", python=_total(math.atan2)),
    Function("hypot", floats(2), "two numbers", python=_total(math.hypot)),
    Function("log1p", floats(1), "a number", nullable=always, python=lambda a: None if a <= -1 else math.log1p(a)),
    Function("log", floats(2), "a base and a number", nullable=always, python=_log),
)  # fmt: skip


# Builders.


def sec(angle: Any) -> Expr:
    """Return the secant of an angle in radians, 1 by its cosine."""
    return call("sec", operand(angle))


def csc(angle: Any) -> Expr:
    """Return the cosecant of an angle in radians, 1 by its sine; infinity of 0."""
    return call("csc", operand(angle))


def pi() -> Expr:
    """Return the number pi."""
    return lit(math.pi)


def sin(angle: Any) -> Expr:
    """Return the sine of an angle in radians."""
    return call("sin", operand(angle))


def cos(angle: Any) -> Expr:
    """Return the cosine of an angle in radians."""
    return call("cos", operand(angle))


def tan(angle: Any) -> Expr:
    """Return the tangent of an angle in radians."""
    return call("tan", operand(angle))


def cot(angle: Any) -> Expr:
    """Return the cotangent of an angle in radians; infinity of 0."""
    return call("cot", operand(angle))


def asin(value: Any) -> Expr:
    """Return the angle in radians whose sine this is; NaN beyond -1 and 1."""
    return call("asin", operand(value))


def acos(value: Any) -> Expr:
    """Return the angle in radians whose cosine this is; NaN beyond -1 and 1."""
    return call("acos", operand(value))


def atan(value: Any) -> Expr:
    """Return the angle in radians whose tangent this is."""
    return call("atan", operand(value))


def atan2(y: Any, x: Any) -> Expr:
    """Return the angle in radians of a point, from the axis of x on."""
    return call("atan2", operand(y), operand(x))


def sinh(value: Any) -> Expr:
    """Return the hyperbolic sine."""
    return call("sinh", operand(value))


def cosh(value: Any) -> Expr:
    """Return the hyperbolic cosine."""
    return call("cosh", operand(value))


def tanh(value: Any) -> Expr:
    """Return the hyperbolic tangent."""
    return call("tanh", operand(value))


def degrees(angle: Any) -> Expr:
    """Return an angle in radians as one in degrees."""
    return call("degrees", operand(angle))


def radians(angle: Any) -> Expr:
    """Return an angle in degrees as one in radians."""
    return call("radians", operand(angle))


def hypot(a: Any, b: Any) -> Expr:
    """Return the root of the sum of two squares."""
    return call("hypot", operand(a), operand(b))


def cbrt(value: Any) -> Expr:
    """Return the cube root."""
    return call("cbrt", operand(value))


def expm1(value: Any) -> Expr:
    """Return e to the power of the value, less 1, exact for small values too."""
    return call("expm1", operand(value))


def log1p(value: Any) -> Expr:
    """Return the natural logarithm of the value and 1, exact for small values too; NULL of -1 and below."""
    return call("log1p", operand(value))


def log(base: Any, value: Any) -> Expr:
    """Return the logarithm to a base, as Spark's ``log(base, x)`` does; NULL where one of them is not above 0.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"x": "float64"}, [(8.0,), (0.0,)])
    >>> flow.output("out", c.select("x", log=tm.log(2, "x"), sin=tm.round(tm.sin(tm.pi() / 6 + tm.col("x") * 0), 3)))
    >>> flow.start().snapshot("out")
    x    log   sin
    ---  ----  ---
    0.0  NULL  0.5
    8.0  3.0   0.5
    """
    return call("log", operand(base), operand(value))
