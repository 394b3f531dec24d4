"""Functions of numbers: their entries in the registry, and their builders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.expressions.expr import Expr, call
from tidemill.expressions.functions.operators import number, remainder
from tidemill.expressions.functions.registry import NULL, Function, Signature, bounded, fixed, never
from tidemill.expressions.types import BOOL, FLOAT64, INT32, INT64, DType

__all__ = [
    "NUMBERS", "abs", "ceil", "exp", "floor", "isnan", "ln", "log2", "log10", "pmod", "power", "round", "shiftleft",
    "shiftright", "shiftrightunsigned", "sign", "sqrt",
]  # fmt: skip


def _round(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 2 and types[0].is_numeric and (types[1].is_integer or types[1] == NULL)  # noqa: PLR2004 - a number and places
    return Signature((types[0], INT32), types[0]) if fits else None


def _rounded(signature: Signature, literals: Sequence[Any]) -> Signature:
    """Return Spark's type of a rounded decimal: one more digit before the point, and no more places than asked for."""
    given, places = signature.params[0], literals[1]
    if not given.is_decimal:
        return signature
    whole = given.precision - given.scale + 1
    if places < 0:
        return Signature(signature.params, bounded(max(whole, 1 - places), 0))
    scale = min(given.scale, places)
    return Signature(signature.params, bounded(whole + scale, scale))


def _whole(types: Sequence[DType]) -> Signature | None:
    if len(types) != 1 or not types[0].is_numeric:
        return None
    given = types[0]
    if not given.is_decimal:
        return Signature((given if given == FLOAT64 else INT64,), INT64)
    return Signature((given,), bounded(given.precision - given.scale + 1, 0) if given.scale else given)


def _floats(count: int) -> Callable[[Sequence[DType]], Signature | None]:
    def rule(types: Sequence[DType]) -> Signature | None:
        fits = len(types) == count and all(t.is_numeric or t == NULL for t in types)
        return Signature((FLOAT64,) * count, FLOAT64) if fits else None

    return rule


def _always(_nullable: Sequence[bool]) -> bool:
    return True


NUMBERS: Final = (
    Function("abs", number, "a number", "ABS", can_fail=True),
    Function("round", _round, "a number and a number of places", "ROUND", can_fail=True, literals=(1,), optional=(0,),
             refine=_rounded),
    Function("floor", _whole, "a number", "FLOOR", can_fail=True),
    Function("ceil", _whole, "a number", "CEIL", can_fail=True, aliases=("ceiling",)),
    Function("sign", _floats(1), "a number", "SIGN", aliases=("signum",)),
    Function("sqrt", _floats(1), "a number", "SQRT"),
    Function("exp", _floats(1), "a number", "EXP"),
    Function("ln", _floats(1), "a number", "LN", nullable=_always),
    Function("log10", _floats(1), "a number", "LOG10", nullable=_always),
    Function("log2", _floats(1), "a number", "LOG2", nullable=_always),
    Function("power", _floats(2), "two numbers", "POWER", aliases=("pow",)),
    Function("pmod", remainder, "two numbers", "PMOD", can_fail=True),
    Function("isnan", fixed(FLOAT64, result=BOOL), "a float64", "ISNAN", nullable=never),
)  # fmt: skip


# Builders.


def abs(value: Any) -> Expr:  # noqa: A001 - SQL's name; reached as tm.abs, and never star-exported
    """Return the absolute value."""
    return call("abs", value)


def round(value: Any, places: int = 0) -> Expr:  # noqa: A001 - see abs
    """Return the number with so many places after the point, halves away from zero; before it if negative.

    A float64 is rounded as it prints: ``round(1.005, 2)`` is 1.01. A decimal gets a type with fewer places.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> bind(round(col("price"), 1), Schema.of({"price": "decimal(10,2)"})).dtype
    decimal(10,1)
    """
    return call("round", value, places)


def floor(value: Any) -> Expr:
    """Return the greatest whole number that is not above: an int64, or for a decimal a decimal."""
    return call("floor", value)


def ceil(value: Any) -> Expr:
    """Return the least whole number that is not below: an int64, or for a decimal a decimal."""
    return call("ceil", value)


def sign(value: Any) -> Expr:
    """Return -1.0, 0.0 or 1.0."""
    return call("sign", value)


def sqrt(value: Any) -> Expr:
    """Return the square root, NaN of a negative number."""
    return call("sqrt", value)


def exp(value: Any) -> Expr:
    """Return e to the power of the value. Engines may differ in the last digit."""
    return call("exp", value)


def ln(value: Any) -> Expr:
    """Return the natural logarithm, NULL of a number not above 0. Engines may differ in the last digit."""
    return call("ln", value)


def log10(value: Any) -> Expr:
    """Return the logarithm to base 10, NULL of a number not above 0. Engines may differ in the last digit."""
    return call("log10", value)


def log2(value: Any) -> Expr:
    """Return the logarithm to base 2, NULL of a number not above 0. Engines may differ in the last digit."""
    return call("log2", value)


def power(value: Any, exponent: Any) -> Expr:
    """Return the value to the power of the exponent, a float64. Engines may differ in the last digit."""
    return call("power", value, exponent)


def pmod(value: Any, divisor: Any) -> Expr:
    """Return the remainder that is not negative where the divisor is not (``%`` has the sign of the dividend)."""
    return call("pmod", value, divisor)


def isnan(value: Any) -> Expr:
    """Return whether a float64 is NaN; false for NULL."""
    return call("isnan", value)


def shiftleft(value: Any, bits: Any) -> Expr:
    """Return a whole number's bits moved up, also written ``<<``; of ``bits`` only the last 5 (int32) or 6 count."""
    return call("shift_left", value, bits)


def shiftright(value: Any, bits: Any) -> Expr:
    """Return a whole number's bits moved down with its sign kept, also written ``>>``."""
    return call("shift_right", value, bits)


def shiftrightunsigned(value: Any, bits: Any) -> Expr:
    """Return a whole number's bits moved down, zeros coming in."""
    return call("shift_right_unsigned", value, bits)
