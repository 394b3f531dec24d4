"""What aggregates make of the list of a group's values, those that cannot be added up: entries in the registry.

They are functions of lists as others are, exact and rounded once, and have no builders: aggregates are made of them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from tidemill.expressions.functions.lists import hashable, in_order, known, of_list, same_list
from tidemill.expressions.functions.registry import Function, Signature, always, never
from tidemill.expressions.functions.values import FailureError, value_order
from tidemill.expressions.types import BOOL, FLOAT64, NULL, STRING, DType, list_type

_TWO: Final = 2


def _with_share(types: Sequence[DType]) -> Signature | None:
    """Take a list, a share, which SQL writes as a decimal, and a truth value."""
    fits = len(types) == 3 and types[1].is_numeric  # noqa: PLR2004
    return of_list(FLOAT64, BOOL)((types[0], FLOAT64, types[2])) if fits else None


def _of_numbers(types: Sequence[DType]) -> Signature | None:
    found = _with_share(types)
    return Signature(found.params, FLOAT64) if found and found.result.is_numeric else None


def _of_whole(types: Sequence[DType]) -> Signature | None:
    return of_list()(types) if types and types[0].element is not None and types[0].element.is_integer else None


def _of_pairs(types: Sequence[DType]) -> Signature | None:
    return of_list(STRING, result=FLOAT64)(types) if types and types[0] == list_type(list_type(FLOAT64)) else None


def _row(types: Sequence[DType]) -> Signature | None:
    return Signature(tuple(types), STRING) if types and NULL not in types else None


def _check_share(literals: Sequence[Any]) -> str | None:
    share = literals[1]
    return None if 0 <= share <= 1 else f"{share!r} is no share of the values: expected a number from 0 to 1"


# What they mean.


def _place(count: int, share: float) -> Fraction:
    """Return a share of a number: exactly, the share being what it is written as."""
    return count * Fraction(repr(share))


def _ordered(values: tuple[Any, ...], descending: bool) -> list[Any]:
    return in_order(values)[:: -1 if descending else 1]


def _continuous(values: tuple[Any, ...], share: float, descending: bool) -> float | None:
    """Return the number at a place between the first and the last; between two, from both in proportion."""
    ordered = _ordered(values, descending)
    if not ordered:
        return None
    place = _place(len(ordered) - 1, share)
    low, part = ordered[int(place)], place - int(place)
    high = ordered[int(place) + 1] if part else low
    if low == high or not part:
        return float(low) + 0.0
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return low + float(high)
    return float(Fraction(low) * (1 - part) + Fraction(high) * part) + 0.0


def _discrete(values: tuple[Any, ...], share: float, descending: bool) -> Any:
    """Return the first value up to which, itself included, there is such a share of the values."""
    ordered = _ordered(values, descending)
    return ordered[max(math.ceil(_place(len(ordered), share)), 1) - 1] if ordered else None


def _mode(values: tuple[Any, ...], descending: bool) -> Any:
    """Return the value that is there most often; of several the least, or the greatest."""
    some = known(values)
    counts = Counter(map(hashable, some))
    most = max(counts.values(), default=0)
    ends = [v for v in some if counts[hashable(v)] == most]
    return (max if descending else min)(ends, key=value_order, default=None)


def _bits(combine: Callable[[int, int], int]) -> Callable[[tuple[Any, ...]], int | None]:
    return lambda values: functools.reduce(combine, some) if (some := known(values)) else None


def _regression(given: Sequence[Any], wanted: str) -> float | None:  # noqa: PLR0911 - one a statistic
    """Return what says how y goes with x, of pairs (y, x): worked out exactly, and rounded once.

    Roots are those of what was rounded.
    """
    pairs = [p for p in given if p is not None and None not in p]
    if any(len(p) != _TWO for p in pairs):
        reason = "there is a list that is no pair"
        raise FailureError(reason)
    n = len(pairs)
    if n < (2 if wanted == "covar_samp" else 1):
        return None
    if not all(math.isfinite(v) for pair in pairs for v in pair):
        return math.nan
    (ys, y_unit), (xs, x_unit) = (_whole([p[i] for p in pairs]) for i in (0, 1))
    sum_y, sum_x = sum(ys), sum(xs)
    # n times the sums of products around the means, in units
    yy, xx = (n * sum(v * v for v in of) - total**2 for of, total in ((ys, sum_y), (xs, sum_x)))
    xy = n * sum(map(operator.mul, ys, xs)) - sum_y * sum_x
    products = Fraction(xy) * y_unit * x_unit
    if wanted in _DIVISORS:
        return _rounded(products / _DIVISORS[wanted](n))
    if not xx or (wanted == "corr" and not yy):
        return None
    slope = Fraction(xy, xx) * y_unit / x_unit
    if wanted == "slope":
        return _rounded(slope)
    if wanted == "intercept":
        return _rounded((sum_y * y_unit - slope * sum_x * x_unit) / n)
    r2 = _rounded(Fraction(xy * xy, xx * yy)) if yy else 1.0
    if wanted == "r2":
        return r2
    return math.sqrt(r2) if xy >= 0 else -math.sqrt(r2)  # xy itself may be too large for one


_DIVISORS: Final[dict[str, Callable[[int], int]]] = {
    "covar_pop": lambda n: n * n, "covar_samp": lambda n: n * (n - 1), "sxy": lambda n: n,
}  # fmt: skip


def _whole(values: Sequence[float]) -> tuple[list[int], Fraction]:
    """Return floats as whole numbers of a unit, which is a power of two."""
    ratios = [v.as_integer_ratio() for v in values]
    parts = max(d for _, d in ratios)
    return [n * (parts // d) for n, d in ratios], Fraction(1, parts)


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact) + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _row_text(*values: Any) -> str:
    """Return a text that is the same for equal values, and for no others."""
    return repr(tuple(map(hashable, (v + 0.0 if isinstance(v, float) else v for v in values))))


_SHARE: Final = "a list of numbers, a share (float64) and whether from the greatest (bool)"

LIST_SUMMARIES: Final = (
    Function("list_percentile", _of_numbers, _SHARE, nullable=always, literals=(1, 2), check=_check_share,
             python=_continuous),
    Function("list_percentile_disc", _with_share, _SHARE, nullable=always, literals=(1, 2), check=_check_share,
             python=_discrete),
    Function("list_mode", of_list(BOOL), "a list, and whether of several the greatest (bool)", nullable=always,
             literals=(1,), python=_mode),
    Function("list_bit_and", _of_whole, "a list of whole numbers", nullable=always, can_fail=True,
             python=_bits(operator.and_)),
    Function("list_bit_or", _of_whole, "a list of whole numbers", nullable=always, python=_bits(operator.or_)),
    Function("list_bit_xor", _of_whole, "a list of whole numbers", nullable=always, can_fail=True,
             python=_bits(operator.xor)),
    Function("list_regression", _of_pairs, "a list of pairs of float64 and what is wanted", nullable=always,
             literals=(1,), can_fail=True, python=_regression),
    Function("list_or_empty", same_list(), "a list", nullable=never, sees_null=True,
             python=lambda values: values or ()),
    Function("row_text", _row, "values", python=_row_text),
)  # fmt: skip
