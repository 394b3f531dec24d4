"""Calls with a frame as sums over its rows, and what is done with them in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from tidemill.algorithms import combine
from tidemill.algorithms.combine import Combination
from tidemill.algorithms.prefix_sums.each_value import each_value
from tidemill.algorithms.prefix_sums.quotients import LastValues
from tidemill.collections.collection import Collection
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.expr import col
from tidemill.expressions.functions.values import row_order
from tidemill.expressions.schema import Field
from tidemill.expressions.windows.bound import AggregateCall, ValueCall
from tidemill.expressions.windows.frames import Frame

FramedCall = AggregateCall | ValueCall


@attrs.frozen
class Summary:
    """The sum that a call is of, and whether the order of peers matters to it."""

    combination: Combination
    by_row: bool
    nth: int | str | None = None
    """Which of the values in a list is wanted: its number, or the column that has it."""
    last_rows: bool = False
    """Whether it is of the last rows up to the current one, that is, a prefix sum."""
    by_value: bool = False
    """Whether a list is in the order of its values, for the window has none."""

    def finished(self, rows: Collection, name: str, field: Field) -> Collection:
        """Return rows, with the finished sum in a column, with the call's value in its place."""
        if self.by_value:
            given = "values#"
            return each_value(rows.rename({name: given}), _in_order, [given], attrs.evolve(field, name=name)).drop(
                given
            )
        if self.nth is None:
            return rows
        values = "values#"
        renamed = rows.rename({name: values})
        wanted = Field(name, field.dtype)
        if isinstance(self.nth, str):
            return each_value(renamed, _nth, [values, self.nth], wanted).drop(values)
        return each_value(renamed, _NthOf(self.nth), [values], wanted).drop(values)


def summary(call: FramedCall, names: tuple[str, ...], *, ordered: bool) -> Summary:
    """Return what a call sums up, of rows with columns of these names, and with an order or without."""
    found = _summary(call, names, ordered=ordered)
    if not _ends_soon(call.frame) or found.combination.condition is not None:
        return found
    return attrs.evolve(found, combination=_of_last_rows(found.combination, call.frame), last_rows=True)


def _summary(call: FramedCall, names: tuple[str, ...], *, ordered: bool) -> Summary:
    if isinstance(call, AggregateCall):
        a_list = call.function == "list"
        return Summary(_aggregate(call, names), by_row=a_list and ordered, by_value=a_list and not ordered)
    value = col(names[call.column])
    if call.function in ("first_value", "last_value"):
        choose = combine.first if call.function == "first_value" else combine.last
        return Summary(choose(value, ignore_nulls=call.ignore_nulls), by_row=True)
    known = value.is_not_null() if call.ignore_nulls else None
    if isinstance(call.n, BoundLiteral):
        number = call.n.value
        made = combine.list(value, first=1 if number is None else number)
        return Summary(made.filter(known), by_row=True, nth=0 if number is None else number)
    assert call.n is not None
    return Summary(combine.list(value).filter(known), by_row=True, nth=names[call.n])


_MOST_LAST_ROWS: Final = 16
"""Up to so many rows before the current one, a frame is the last ones of all rows up to it, and needs no search."""


def _ends_soon(frame: Frame) -> bool:
    """Return whether a frame is made of the last few rows up to the current one."""
    few = frame.mode == "rows" and isinstance(frame.start, int) and isinstance(frame.end, int)
    return few and frame.exclusion == "no others" and -_MOST_LAST_ROWS <= frame.start <= frame.end <= 0  # type: ignore[operator]


def _of_last_rows(given: Combination, frame: Frame) -> Combination:
    """Return the combination of the frame's rows, as one of all rows up to the current one."""
    assert isinstance(frame.start, int)
    assert isinstance(frame.end, int)
    kept, left_out = 1 - frame.start, -frame.end
    return attrs.evolve(given, combiner=lambda t: LastValues(given.combiner(t), t, kept, left_out))


def _aggregate(call: AggregateCall, names: tuple[str, ...]) -> Combination:
    aggregate, function = call.aggregate, call.function
    if aggregate.column is None:
        return combine.rows()
    value = col(names[aggregate.column])
    made: Callable[[Any], Combination] = getattr(combine, function)
    if call.distinct and function not in _ONCE_IS_ENOUGH:
        return combine.distinct(value, of=made)
    condition = None if aggregate.condition is None else col(names[aggregate.condition])
    return made(value).filter(condition)


_ONCE_IS_ENOUGH: Final = ("min", "max", "bool_and", "bool_or")
"""Aggregates to which it does not matter how often a value is there."""


def _in_order(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(values, key=lambda v: row_order((v,))))


@attrs.frozen
class _NthOf:
    """The value of a number in a list; of number 0, none."""

    number: int

    def __call__(self, values: tuple[Any, ...]) -> Any:
        return values[self.number - 1] if 0 < self.number <= len(values) else None


def _nth(values: tuple[Any, ...], number: int | None) -> Any:
    return None if number is None or number > len(values) else values[number - 1]
