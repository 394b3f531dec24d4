"""Comparing columns of codes with one row: what is true, and where rows may be for which two such rows differ."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, is_interned, is_long_decimal, order_ranks
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.embedded.trace.row_order import RowOrder

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_GREATEST: Final = 2**63 - 1

Value: TypeAlias = tuple[int, ...] | None
"""The codes of the right row; None where there is none."""


class Comparison(NamedTuple):
    """How a left column compares with a right one, of the same type."""

    left: int
    how: str
    right: int
    dtype: DType


class Truth(NamedTuple):
    """The values of comparisons, for some rows."""

    each: Any
    """A row of bools for each comparison; False where NULL is compared."""
    known: Bools
    """Which rows have no NULL in the columns compared."""

    def all(self) -> Bools:
        """Return for which rows all comparisons are true."""
        found: Bools = self.each[0] if len(self.each) == 1 else self.each.all(axis=0)
        return found


def truth(comparisons: Sequence[Comparison], left: Codes, value: Value, interner: Interner) -> Truth:
    """Return the values of comparisons of left rows with the right row; with None for it, none is true."""
    if len(comparisons) == 1:
        return _single_truth(comparisons[0], left[comparisons[0].left], value, interner)
    n = left.shape[1]
    each, known = np.zeros((len(comparisons), n), np.bool_), None
    for found, c in zip(each, comparisons, strict=True):
        codes = left[c.left]
        there = codes != NULL
        known = there if known is None else known & there
        if value is not None and value[c.right] != NULL:
            numbers, number = _in_order(codes, value[c.right], c, interner)
            np.logical_and(_COMPARE[c.how](numbers, number), there, out=found)
    assert known is not None, "there is a comparison"
    return Truth(each, known)


def _single_truth(c: Comparison, codes: Ints, value: Value, interner: Interner) -> Truth:
    there: Bools = codes != NULL
    if value is None or value[c.right] == NULL:
        return Truth(np.zeros((1, len(codes)), np.bool_), there)
    numbers, number = _in_order(codes, value[c.right], c, interner)
    return Truth((_COMPARE[c.how](numbers, number) & there)[None], there)


def _in_order(codes: Ints, code: int, c: Comparison, interner: Interner) -> tuple[Ints, int]:
    """Return numbers that compare as values do."""
    if c.how in ("=", "<>") or not (is_interned(c.dtype) or is_long_decimal(c.dtype)):
        return codes, code
    ranks = order_ranks(np.append(codes, code), c.dtype, interner)
    return ranks[:-1], int(ranks[-1])


def affected(comparisons: Sequence[Comparison], old: Value, new: Value, order: RowOrder) -> list[Range]:
    """Return the ranges of an order by one column whose rows may compare differently with one value than with another.

    That is exact where the order's numbers are the codes; else rows may be there that begin like those that are meant.
    """
    found: list[Range] = []
    for c in comparisons:
        one, other = (None if v is None or v[c.right] == NULL else v[c.right] for v in (old, new))
        if one != other:
            numbers = [None if v is None else order.number_of(v) for v in (one, other)]
            found += _ranges(c.how, *numbers, exact=order.numbers_are_codes)
    return merged_ranges(found)


def _ranges(how: str, old: int | None, new: int | None, *, exact: bool) -> list[Range]:
    if old is None or new is None:
        value = new if old is None else old
        assert value is not None
        if how == "=":
            return [(value, _after(value))]
        if how == "<>":
            return [(NULL, None)]
        return [(NULL, _after(value))] if how.startswith("<") else [(value, None)]
    if how in ("=", "<>"):
        return [(old, _after(old)), (new, _after(new))]
    low, high = min(old, new), max(old, new)
    if not exact:
        return [(low, _after(high))]
    return [(low, high)] if how in ("<", ">=") else [(low + 1, _after(high))]


def _after(number: int) -> int | None:
    return None if number == _GREATEST else number + 1


def merged_ranges(ranges: list[Range]) -> list[Range]:
    """Return ranges that cover the same, and do not overlap."""
    merged: list[Range] = []
    for low, high in sorted(ranges, key=operator.itemgetter(0)):
        if merged and (merged[-1][1] is None or low <= merged[-1][1]):
            last = merged[-1][1]
            merged[-1] = (merged[-1][0], None if last is None or high is None else max(last, high))
        else:
            merged.append((low, high))
    return merged
