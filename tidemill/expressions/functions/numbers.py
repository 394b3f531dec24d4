"""Functions of numbers: their entries in the registry, and their builders."""

from __future__ import annotations

import builtins
import decimal
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.operators import modulo, number, remainder, unless_by
from tidemill.expressions.functions.registry import Function, Signature, always, bounded, fixed, floats, never
from tidemill.expressions.functions.values import OVERFLOW, FailureError, exact, to_places
from tidemill.expressions.types import BOOL, FLOAT64, INT32, INT64, MAX_DECIMAL_PRECISION, NULL, DType

_MOST_PLACES: Final = 300


def _round(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 2 and types[0].is_numeric and (types[1].is_integer or types[1] == NULL)  # noqa: PLR2004 - a number and places
    return Signature((types[0], INT32), types[0]) if fits else None


def _rounded(signature: Signature, literals: Sequence[Any]) -> Signature:
    """Return Spark's type of a rounded decimal: one more digit before the point, and no more places than asked for."""
    given, places = signature.params[0], literals[1]
    if not given.is_decimal:
        return signature
    whole = given.precision - given.scale + 1
    scale = min(given.scale, max(places, 0))
    precision = whole + scale if places >= 0 else max(whole, 1 - places)
    return Signature(signature.params, DType("decimal", min(precision, MAX_DECIMAL_PRECISION), scale))


def _whole(types: Sequence[DType]) -> Signature | None:
    if len(types) != 1 or not types[0].is_numeric:
        return None
    given = types[0]
    if not given.is_decimal:
        return Signature((given if given == FLOAT64 else INT64,), INT64)
    return Signature((given,), bounded(given.precision - given.scale + 1, 0) if given.scale else given)


# What they mean.


def _pmod(a: Any, b: Any) -> Any:
    rest = modulo(a, b)
    return modulo(rest + b, b) if rest < 0 else rest


def _rounded_to(value: Any, places: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    digits = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    _, _, exponent = digits.as_tuple()
    if isinstance(exponent, int) and places < -exponent:
        digits = to_places(digits, min(-places, 500))
    if isinstance(value, decimal.Decimal):
        return digits
    return int(digits) if isinstance(value, int) else float(digits) + 0.0  # never -0.0


def _rounded_scaled(value: float, places: int) -> float:
    """Return DuckDB's rounding: what is next to the product with a power of ten, divided by that."""
    unit = 10.0 ** builtins.abs(places)
    scaled = value * unit if places >= 0 else value / unit
    if not math.isfinite(scaled):
        return value
    whole = float(math.trunc(scaled))
    rest: float | Fraction = builtins.abs(scaled - whole)
    if rest == 0.5 and places > 0:  # noqa: PLR2004 - of a half that the product was rounded to, the exact one counts
        rest = builtins.abs(Fraction(value) * int(unit) - int(whole))
    if rest >= 0.5:  # noqa: PLR2004 - away from zero
        whole += math.copysign(1.0, scaled)
    return (whole / unit if places >= 0 else whole * unit) + 0.0


def _few_places(literals: Sequence[Any]) -> str | None:
    within = literals[1] is None or builtins.abs(literals[1]) <= _MOST_PLACES
    return None if within else f"a float is rounded to {-_MOST_PLACES} to {_MOST_PLACES} places"


def _whole_number(towards: Callable[[Any], int]) -> Callable[[Any], Any]:
    def whole(value: Any) -> Any:
        if isinstance(value, float):
            if math.isnan(value):
                return 0  # Java's cast
            if math.isinf(value):
                raise FailureError(OVERFLOW)
        found = towards(value)
        return decimal.Decimal(found) if isinstance(value, decimal.Decimal) else found

    return whole


def _logarithm(compute: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda value: None if value <= 0 else compute(value)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: float, exponent: float) -> float:
    if math.isnan(exponent) or (builtins.abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    odd = math.isfinite(exponent) and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:  # a zero to a negative power, or a negative number to a broken one
        return math.copysign(math.inf, base if odd else 1.0) if base == 0 else math.nan


NUMBERS: Final = (
    Function("abs", number, "a number", can_fail=True,
             python=lambda a: a.copy_abs() if isinstance(a, decimal.Decimal) else builtins.abs(a)),
    Function("round", _round, "a number and a number of places", can_fail=True, literals=(1,), optional=(0,),
             refine=_rounded, python=_rounded_to),
    Function("round_scaled", fixed(FLOAT64, INT32, result=FLOAT64), "a float64 and a number of places", literals=(1,),
             optional=(0,), check=_few_places, python=_rounded_scaled),
    Function("floor", _whole, "a number", can_fail=True, python=_whole_number(math.floor)),
    Function("ceil", _whole, "a number", can_fail=True, aliases=("ceiling",), python=_whole_number(math.ceil)),
    Function("sign", floats(1), "a number", aliases=("signum",),
             python=lambda a: a if a == 0 or math.isnan(a) else math.copysign(1.0, a)),
    Function("sqrt", floats(1), "a number", python=lambda a: math.nan if a < 0 else math.sqrt(a)),
    Function("exp", floats(1), "a number", python=_exp),
    Function("ln", floats(1), "a number", nullable=always, python=_logarithm(math.log)),
    Function("log10", floats(1), "a number", nullable=always, python=_logarithm(math.log10)),
    Function("log2", floats(1), "a number", nullable=always, python=_logarithm(math.log2)),
    Function("power", floats(2), "two numbers", aliases=("pow",), python=_power),
    Function("pmod", remainder, "two numbers", can_fail=unless_by(int, float), python=exact(_pmod)),
    Function("isnan", fixed(FLOAT64, result=BOOL), "a float64", nullable=never,
             python=lambda a: a is not None and math.isnan(a), sees_null=True),
)  # fmt: skip


# Builders.


def abs(value: Any) -> Expr:  # noqa: A001 - SQL's name; reached as tm.abs, and never star-exported
    """Return the absolute value."""
    return call("abs", operand(value))


def round(value: Any, places: int = 0) -> Expr:  # noqa: A001 - see abs
    """Return the number with so many places after the point, halves away from zero; before it if negative.

    ``places`` is a literal. A float64 is rounded as it prints: ``round(1.005, 2)`` is 1.01. A decimal gets a type with
    fewer places.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> bind(round(col("price"), 1), Schema.of({"price": "decimal(10,2)"})).dtype
    decimal(10,1)
    """
    return call("round", operand(value), places)


def floor(value: Any) -> Expr:
    """Return the greatest whole number that is not above: an int64, or for a decimal a decimal."""
    return call("floor", operand(value))


def ceil(value: Any) -> Expr:
    """Return the least whole number that is not below: an int64, or for a decimal a decimal."""
    return call("ceil", operand(value))


def sign(value: Any) -> Expr:
    """Return -1.0, 0.0 or 1.0."""
    return call("sign", operand(value))


def sqrt(value: Any) -> Expr:
    """Return the square root, NaN of a negative number."""
    return call("sqrt", operand(value))


def exp(value: Any) -> Expr:
    """Return e to the power of the value. Engines may differ in the last digit."""
    return call("exp", operand(value))


def ln(value: Any) -> Expr:
    """Return the natural logarithm, NULL of a number not above 0. Engines may differ in the last digit."""
    return call("ln", operand(value))


def log10(value: Any) -> Expr:
    """Return the logarithm to base 10, NULL of a number not above 0. Engines may differ in the last digit."""
    return call("log10", operand(value))


def log2(value: Any) -> Expr:
    """Return the logarithm to base 2, NULL of a number not above 0. Engines may differ in the last digit."""
    return call("log2", operand(value))


def power(value: Any, exponent: Any) -> Expr:
    """Return the value to the power of the exponent, a float64. Engines may differ in the last digit."""
    return call("power", operand(value), operand(exponent))


def pmod(value: Any, divisor: Any) -> Expr:
    """Return the remainder that is not negative where the divisor is not (``%`` has the sign of the dividend)."""
    return call("pmod", operand(value), operand(divisor))


def div(value: Any, divisor: Any) -> Expr:
    """Return the quotient as SQL's ``DIV`` has it: an int64, truncated towards zero (``//`` is the one below).

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"n": "int64"}, [(-7,), (7,)])
    >>> n = tm.col("n")
    >>> flow.output("out", c.select("n", div=tm.div("n", 2), rest=n % 2, floor=n // 2, positive_rest=tm.pmod("n", 2)))
    >>> flow.start().snapshot("out")
    n   div  rest  floor  positive_rest
    --  ---  ----  -----  -------------
    -7  -3   -1    -4     1
    7   3    1     3      1
    """
    return call("int_divide", operand(value), operand(divisor))


def isnan(value: Any) -> Expr:
    """Return whether a float64 is NaN; false for NULL."""
    return call("isnan", operand(value))


def shiftleft(value: Any, bits: Any) -> Expr:
    """Return a whole number's bits moved up, also written ``<<``; of ``bits`` only the last 5 (int32) or 6 count."""
    return call("shift_left", operand(value), operand(bits))


def shiftright(value: Any, bits: Any) -> Expr:
    """Return a whole number's bits moved down with its sign kept, also written ``>>``."""
    return call("shift_right", operand(value), operand(bits))


def shiftrightunsigned(value: Any, bits: Any) -> Expr:
    """Return a whole number's bits moved down, zeros coming in."""
    return call("shift_right_unsigned", operand(value), operand(bits))
