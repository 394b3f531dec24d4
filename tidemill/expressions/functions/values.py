"""What the Python meanings of functions share: failures, exact results brought to their type, the order of values.

Values are Python's: int, float, bool, str, bytes, date, naive datetime, Decimal, tuples for lists, and None for NULL.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from tidemill.expressions.types import INT32, DType

OVERFLOW: Final = "overflow"
ZERO: Final = "division by zero"
_ALL_DIGITS: Final = decimal.Context(prec=1000)


class FailureError(Exception):
    """Why a function has no value for its arguments."""


def exact(operate: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operation with room for every digit of two decimals."""

    def run(*values: Any) -> Any:
        with decimal.localcontext(prec=300):
            return operate(*values)

    return run


def fitted(value: Any, to: DType) -> Any:
    """Return an exact result as a value of its type; -2**63 is none of int64's, the engines keep it for NULL."""
    if value is None:
        return None
    if to.is_integer and not (-(2**31) <= value < 2**31 if to == INT32 else -(2**63) < value < 2**63):
        raise FailureError(OVERFLOW)
    return rounded(value, to) if to.is_decimal else value


def rounded(value: decimal.Decimal, to: DType) -> decimal.Decimal:
    """Return a decimal with the places of its type, halves rounded away from zero."""
    found = to_places(value, -to.scale)
    if found.adjusted() + to.scale >= to.precision:
        raise FailureError(OVERFLOW)
    return found or found.copy_abs()  # a decimal has no -0


def to_places(value: decimal.Decimal, exponent: int) -> decimal.Decimal:
    """Return a decimal with its last place at a power of ten, halves rounded away from zero."""
    return value.quantize(decimal.Decimal(1).scaleb(exponent), decimal.ROUND_HALF_UP, _ALL_DIGITS)


# Order: NaN equals itself and is greater than every number; lists go by their values.


def row_order(row: Iterable[Any]) -> tuple[tuple[bool, bool, Any], ...]:
    """Return the key by which rows are sorted: column by column, nulls first, NaN greatest.

    >>> nan = float("nan")
    >>> sorted([((1, 2),), ((1,),), (None,), ((nan,),), ((None, 3),), ((),)], key=row_order)
    [(None,), ((),), ((None, 3),), ((1,),), ((1, 2),), ((nan,),)]
    """
    return tuple([(False, False, False) if v is None else (True, *value_order(v)) for v in row])


def value_order(value: Any) -> tuple[bool, Any]:
    """Return the key by which values are sorted that are not NULL: NaN greatest, lists as rows are."""
    if isinstance(value, tuple):
        return False, row_order(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def is_equal(a: Any, b: Any) -> bool:
    """Return whether two values that are not NULL are equal."""
    return value_order(a) == value_order(b)


def is_less(a: Any, b: Any) -> bool:
    """Return whether a value that is not NULL comes before another."""
    return value_order(a) < value_order(b)
