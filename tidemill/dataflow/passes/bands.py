"""Bands: conditions that the values of two rows in a column are within a distance, as frames of windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.functions.operators import MIRRORED
from tidemill.expressions.intervals import DAY_MICROSECONDS, DAYS, MICROSECONDS, MONTHS, Interval
from tidemill.expressions.literals import INT64_MAX
from tidemill.expressions.types import BINARY, BOOL, DATE, FLOAT64, INT32, INT64, STRING, TIMESTAMP, DType
from tidemill.expressions.windows.frames import Frame, Offset


@attrs.frozen
class Band:
    """A condition on pairs of rows of one collection: equal values in some columns, near ones in another."""

    keys: tuple[int, ...]
    not_null: frozenset[int]
    """The columns whose NULL has no partner, not even NULL."""
    column: int
    frame: Frame
    """The rows beside a row, in a window that is sorted by the column."""

    @property
    def has_row_itself(self) -> bool:
        """Whether a row is in its own frame, if it has values in all columns that are asked for."""
        ends = ((self.frame.start, 1), (self.frame.end, -1))
        return all(end is None or sign * _amount(end) <= 0 for end, sign in ends)

    def over(self, kept: Sequence[int]) -> Band:
        """Return the band of rows that have only these of the columns."""
        keys, not_null = map(kept.index, self.keys), map(kept.index, self.not_null)
        return Band(tuple(keys), frozenset(not_null), kept.index(self.column), self.frame)


def band_of(conditions: Iterable[Bound], width: int) -> Band | None:
    """Return the band that conditions describe, of pairs: a row's ``width`` columns, then those of the row beside.

    None where they ask for anything else as well, or for what is no frame.
    """
    keys: dict[int, bool] = {}  # whether NULL, too, is equal to NULL
    bounds: list[_Bound] = []
    for condition in conditions:
        equal = _equal(condition, width)
        if equal is not None:
            column, nulls = equal
            keys[column] = keys.get(column, True) and nulls
            continue
        found = _bounds(condition, width)
        if found is None:
            return None
        bounds += found
    columns = {bound.column for bound in bounds}
    if len(columns) != 1 or columns & keys.keys():
        return None
    (column,) = columns
    frame = _frame(bounds)
    if frame is None:
        return None
    refusing = {key for key, nulls in keys.items() if not nulls}
    return Band(tuple(keys), frozenset((*refusing, column)), column, frame)


def distances(condition: Bound) -> Iterator[tuple[int, int, int]]:
    """Iterate over what a condition says of how far columns are apart: one, another, and a number of units.

    The first has at least the value of the other plus that number, where the condition is true.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> schema = Schema.of({"a": "int64", "b": "int64", "c": "int64"})
    >>> texts = ["a < b - 3", "abs(a - b) <= 5", "a = b", "a + b < c", "a < 7"]
    >>> [list(distances(bind(expr(text), schema))) for text in texts]
    [[(1, 0, 3)], [(1, 0, -5), (0, 1, -5)], [(0, 1, 0), (1, 0, 0)], [], []]
    """
    for function, left, right in _comparisons(condition):
        total = _Sum()
        if not (total.add(left, 1) and total.add(right, -1)):
            continue
        uses = sorted((n, i) for i, n in total.of.items() if n)
        if [n for n, _ in uses] != [-1, 1] or any(total.types[i] not in _UNITS for _, i in uses):
            continue
        (_, less), (_, more) = uses
        for is_lower in _ENDS[function]:
            yield (more, less, -total.number) if is_lower else (less, more, total.number)


# -- conditions -------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Bound:
    """One end of the frame: the values beside are at least, or at most, so far from the row's own."""

    column: int
    dtype: DType
    is_lower: bool
    offset: Offset
    strict: bool = False


def _equal(condition: Bound, width: int) -> tuple[int, bool] | None:
    """Return the column that has to be equal, and whether NULL is equal to NULL."""
    if not isinstance(condition, BoundCall) or condition.function not in ("eq", "eq_null_safe"):
        return None
    sides = [_widened(a) for a in condition.args]
    places = sorted(s.index for s in sides if isinstance(s, BoundColumn))
    if len(places) != len(sides) or not all(map(_is_plain, (s.dtype for s in sides))):
        return None
    if places[0] < width and places[1] == places[0] + width:
        return places[0], condition.function == "eq_null_safe"
    return None


def _bounds(condition: Bound, width: int) -> list[_Bound] | None:
    """Return the bounds that a comparison states; None where it is about anything else."""
    found: list[_Bound] = []
    for function, left, right in _comparisons(condition):
        some = _of_whole_numbers(function, left, right, width) or _as_it_stands(function, left, right, width)
        if some is None:
            return None
        found += some
    return found or None


def _comparisons(condition: Bound) -> Iterator[tuple[str, Bound, Bound]]:
    """Iterate over the comparisons that a condition consists of: one, or of an absolute value two."""
    if not isinstance(condition, BoundCall) or condition.function == "ne" or condition.function not in MIRRORED:
        return
    function, (left, right) = condition.function, condition.args
    if isinstance(right, BoundCall) and right.function == "abs":
        function, left, right = MIRRORED[function], right, left
    within = isinstance(left, BoundCall) and left.function == "abs" and function in ("le", "lt")
    if isinstance(left, BoundCall) and within and isinstance(right, BoundLiteral) and isinstance(right.value, int):
        yield function, left.args[0], right
        yield MIRRORED[function], left.args[0], attrs.evolve(right, value=-right.value)
    else:
        yield function, left, right


def _of_whole_numbers(function: str, left: Bound, right: Bound, width: int) -> list[_Bound] | None:
    """Return the bounds of what is counted in whole numbers, or not moved at all, however it is written."""
    found = _difference(left, right, width)
    if found is None:
        return None
    column, dtype, sign, number = found
    if sign < 0:
        function, number = MIRRORED[function], -number
    strict, counted = function in ("gt", "lt"), dtype in _UNITS
    bounds: list[_Bound] = []
    for is_lower in _ENDS[function]:
        amount = -number + (strict and counted) * (1 if is_lower else -1)
        if abs(amount) > INT64_MAX:
            return None
        offset: Offset = amount if not amount or dtype.is_integer else Interval(_UNITS[dtype], amount)
        bounds.append(_Bound(column, dtype, is_lower, offset, strict and not counted))
    return bounds


_ENDS: Final = {"ge": (True,), "gt": (True,), "le": (False,), "lt": (False,), "eq": (True, False)}
"""Whether a comparison of a value beside with the row's own is a lower bound; equality is both."""


def _difference(left: Bound, right: Bound, width: int) -> tuple[int, DType, int, int] | None:
    """Return (column, type, sign, constant) if left less right is a column's difference between two rows; else None.

    With sign 1 it is the value there less the one here, plus the constant; with -1 the other way round.
    """
    total = _Sum()
    if not (total.add(left, 1) and total.add(right, -1)):
        return None
    uses = {i: n for i, n in total.of.items() if n}
    here = min(uses, default=width)
    if here >= width or uses.keys() != {here, here + width} or abs(uses[here]) != 1:
        return None
    dtype = total.types[here]
    if uses[here] != -uses[here + width] or not _is_plain(dtype):
        return None
    return here, dtype, uses[here + width], total.number


def _as_it_stands(function: str, left: Bound, right: Bound, width: int) -> list[_Bound] | None:
    """Return the bound of a comparison with the row's own value moved as frames move it: rounded, or by months."""
    if isinstance(left, BoundCall):
        function, left, right = MIRRORED[function], right, left
    if not isinstance(left, BoundColumn) or not isinstance(right, BoundCall) or function not in ("ge", "le"):
        return None
    if right.function not in ("add", "subtract") or right.dtype != left.dtype:
        return None
    own, by = right.args
    if right.function == "add" and isinstance(own, BoundLiteral):
        own, by = by, own
    of_column = isinstance(own, BoundColumn) and own.index < width and left.index == own.index + width
    offset = _moving(by, left.dtype) if isinstance(by, BoundLiteral) else None
    if not of_column or offset is None:
        return None
    return [
        _Bound(left.index - width, left.dtype, function == "ge", -offset if right.function == "subtract" else offset)
    ]


def _moving(by: BoundLiteral, dtype: DType) -> float | Interval | None:
    """Return by how much a literal moves values of a type, where that is no whole number of units."""
    if isinstance(by.value, Interval) and by.dtype == MONTHS:
        return by.value
    return by.value if dtype == FLOAT64 and isinstance(by.value, float) and math.isfinite(by.value) else None


def _is_plain(dtype: DType) -> bool:
    """Return whether values of a type have no parts, which may be NULL."""
    return dtype in (*_UNITS, FLOAT64, STRING, BINARY, BOOL) or dtype.is_decimal


# -- sums of columns and whole numbers --------------------------------------------------------------------------------

_UNITS: Final = {INT32: INT64, INT64: INT64, DATE: DAYS, TIMESTAMP: MICROSECONDS}
"""The types whose values are whole numbers of a unit, and what that is."""
_Part: TypeAlias = tuple[Bound, int]


@attrs.define
class _Sum:
    """How often each column is in a sum, and the number beside."""

    of: dict[int, int] = attrs.Factory(dict)
    types: dict[int, DType] = attrs.Factory(dict)
    number: int = 0

    def add(self, bound: Bound, sign: int) -> bool:
        """Add an expression; return whether it is a sum, its arithmetic that of whole numbers."""
        todo: list[_Part] = [(bound, sign)]
        while todo:
            part, sign = todo.pop()
            part = _widened(part)
            if isinstance(part, BoundColumn):
                if part.dtype != bound.dtype and not (part.dtype.is_integer and bound.dtype.is_integer):
                    return False
                self.of[part.index] = self.of.get(part.index, 0) + sign
                self.types[part.index] = part.dtype
            elif isinstance(part, BoundLiteral):
                number = _whole(part.value, bound.dtype)
                if number is None:
                    return False
                self.number += sign * number
            elif part.dtype not in _UNITS or part.function not in ("add", "subtract", "negate"):
                return False
            else:
                *first, last = part.args
                todo += [*((a, sign) for a in first), (last, sign if part.function == "add" else -sign)]
        return True


def _widened(bound: Bound) -> Bound:
    """Return what an expression was before it became of a wider type of whole numbers."""
    while isinstance(bound, BoundCall) and bound.function == "cast" and bound.dtype == INT64:
        if bound.args[0].dtype != INT32:
            break
        (bound,) = bound.args
    return bound


def _whole(value: object, dtype: DType) -> int | None:
    """Return a literal as a number of a type's units; None where it is no whole one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if dtype.is_integer or dtype == DATE else None
    if isinstance(value, Interval) and value.dtype == DAYS:
        return {DATE: value.amount, TIMESTAMP: value.amount * DAY_MICROSECONDS}.get(dtype)
    if isinstance(value, Interval) and value.dtype == MICROSECONDS and dtype == TIMESTAMP:
        return value.amount
    return None


# -- frames -----------------------------------------------------------------------------------------------------------


def _amount(offset: Offset) -> Any:
    return offset.amount if isinstance(offset, Interval) else offset


def _frame(bounds: list[_Bound]) -> Frame | None:
    """Return the frame between bounds; None where there is none with these."""
    lower = _innermost([b for b in bounds if b.is_lower], sign=1)
    upper = _innermost([b for b in bounds if not b.is_lower], sign=-1)
    if lower is _NONE_FITS or upper is _NONE_FITS:
        return None
    start, end = (None if b is None else b.offset for b in (lower, upper))
    if not any(b is not None and b.strict for b in (lower, upper)):
        return Frame("range", start, end)
    if start or end:
        return None
    # Of values that cannot be moved by the least there is, the peers are left out.
    start = start if lower is None else int(lower.strict)
    end = end if upper is None else -int(upper.strict)
    return Frame("groups", start, end)


_NONE_FITS: Final = _Bound(-1, INT64, is_lower=True, offset=0)


def _innermost(bounds: list[_Bound], sign: int) -> _Bound | None:
    """Return which of several bounds of one end holds, where that can be said without the rows."""
    if len(bounds) < 2:  # noqa: PLR2004 - nothing to choose between
        return bounds[0] if bounds else None
    units = {b.offset.dtype if isinstance(b.offset, Interval) else None for b in bounds if b.offset}
    if len(units) > 1 or any(b.dtype not in _UNITS for b in bounds):
        return _NONE_FITS
    return max(bounds, key=lambda b: sign * _amount(b.offset))
