"""Calling a user's functions: what they get, what they may give, and what is said when they fail.

Shared by the engines, so that a function that is wrong is wrong in the same way and words everywhere.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import attrs

from tidemill.boundary.rows import checked_rows, is_count
from tidemill.dataflow.lattice import Time, as_time, less_equal, shown
from tidemill.dataflow.nodes import FlatMap, Inspect, Node, Reduce, Retime, Threshold
from tidemill.errors import RowError, TimeError, UserFunctionError, brief
from tidemill.expressions.aggregates import OneRow, UserReduce
from tidemill.expressions.table_functions import TableCall
from tidemill.expressions.windows.bound import CallError, RowCheck
from tidemill.renderer.runs import failures
from tidemill.renderer.runs.failures import of_node

Row = tuple[Any, ...]


@attrs.frozen
class Subject:
    """What a function was called for, in words, and as the data of errors."""

    what: str
    given: Any
    row: Row | None = None
    time: Any = None

    def __str__(self) -> str:
        return f"{self.what} {brief(self.given)}"

    def in_error(self, node: Node, error: UserFunctionError) -> UserFunctionError:
        """Return an error with these data."""
        return of_node(node, error, row=self.row, time=self.time)


def mapped_rows(node: FlatMap, row: Row) -> list[Row]:
    """Return the checked rows that ``map_rows`` or ``flat_map`` makes of a row."""
    given = row_type(node.inputs[0].schema.names)(*row)
    subject = Subject("row", row, row)
    if isinstance(node.function, TableCall):
        return _checked(node, subject, _made_by_table(node, subject, node.function, row))
    result = _call(node, subject, node.function, given)
    return _checked(node, subject, [result] if node.single else _listed(node, subject, result))


def _made_by_table(node: FlatMap, subject: Subject, call: TableCall, row: Row) -> list[Row]:
    try:
        return call(row)
    except OverflowError as error:
        told = failures.not_worked_out(node, row, call.arguments, "overflow")
        if told is None:
            raise _raised(node, subject, error) from error
        raise told from None
    except Exception as error:
        raise _raised(node, subject, error) from error


def reduced_rows(node: Reduce, key: Row, rows: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """Return the checked ``(row, count)`` pairs that a user's reduce makes of a group, sorted and not empty."""
    logic = cast("UserReduce", node.logic)
    if isinstance(logic.function, OneRow):
        return failures.one_row(node, rows)
    subject = Subject("key", key, key)
    pairs = _listed(node, subject, _call(node, subject, logic.function, key, rows))
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and is_count(pair[1])):  # noqa: PLR2004 - a pair
            raise _returned(node, subject, f"{brief(pair)}, which is not (row, count), an integer of at most 2**31")
    checked = _checked(node, subject, [row for row, _ in pairs])
    return list(zip(checked, [int(count) for _, count in pairs], strict=True))


def thresholded(node: Threshold, row: Row, count: int) -> int:
    """Return the count that a user's threshold gives a row; for a count of 0 it has to be 0."""
    assert node.function is not None, "without a function it is distinct, which each engine knows"
    if isinstance(node.function, RowCheck):
        return _checked_row(node, node.function, row, count)
    subject = Subject(f"count {count} of row", row, row)
    result = _call(node, subject, node.function, row, count)
    if not is_count(result):
        raise _returned(node, subject, f"{brief(result)}, which is not an integer of at most 2**31")
    if count == 0 and result != 0:
        raise _returned(
            node, subject, f"{brief(result)}: it has to be 0, since all rows that are nowhere have the count 0"
        )
    return int(result)


def _checked_row(node: Threshold, check: RowCheck, row: Row, count: int) -> int:
    """Return the count of a row of windows; the errors are those of windows over whole partitions."""
    if count < 0:
        raise failures.negative_count(node, check.key(row), check.own(row), count)
    try:
        return check(row, count)
    except CallError as error:
        raise failures.no_window_value(node, check.windows, row, error) from None


def moved_time(node: Retime, time: Time) -> Time:
    """Return the user time to which a user's delay moves a user time."""
    assert node.function is not None, "fixed steps are added, not called"
    subject = Subject("time", shown(time), time=shown(time))
    result = _call(node, subject, node.function, shown(time))
    try:
        moved = as_time(result, len(time))
    except TimeError as error:
        raise _returned(node, subject, str(error)) from None
    if not less_equal(time, moved):
        raise _returned(node, subject, f"{brief(result)}: a time can only be moved forward")
    return moved


def inspect(node: Inspect, row: Row, time: Time, diff: int) -> None:
    """Show an update to a user's function."""
    subject = Subject("update", (row, shown(time), diff), row, shown(time))
    _call(node, subject, node.function, row, shown(time), diff)


@lru_cache(maxsize=1024)
def row_type(names: tuple[str, ...]) -> Callable[..., Row]:
    """Return the named tuple as which functions get rows; names that Python does not allow become ``_0``, ``_1``..."""
    make = cast("Any", namedtuple)  # noqa: PYI024 - the fields are known at run time only
    made = make("Row", names, rename=True)
    made.__columns__ = names  # by which it goes when it is returned
    return cast("Callable[..., Row]", made)


def _call(node: Node, subject: Subject, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        raise _raised(node, subject, error) from error


def _raised(node: Node, subject: Subject, error: Exception) -> UserFunctionError:
    msg = f"{node.where}: {_name(node)} raised {type(error).__name__}: {error}, for {subject}"
    return subject.in_error(node, UserFunctionError(msg))


def _listed(node: Node, subject: Subject, result: Any) -> list[Any]:
    if isinstance(result, (str, bytes, Mapping)) or not isinstance(result, Iterable):
        raise _returned(node, subject, f"{brief(result)}, which is not an iterable of rows")
    return cast("list[Any]", _call(node, subject, list, result))  # a generator runs the user's code only now


def _checked(node: Node, subject: Subject, rows: list[Any]) -> list[Row]:
    schema = node.schema
    try:
        return checked_rows(schema, rows, "its result")
    except RowError as error:
        msg = f"{node.where}: {_name(node)} returned a wrong row for {subject}: {error}"
        raise subject.in_error(node, UserFunctionError(msg).about(column=error.column)) from None


def _returned(node: Node, subject: Subject, what: str) -> UserFunctionError:
    made = UserFunctionError(f"{node.where}: {_name(node)} returned, for {subject}, {what}")
    return subject.in_error(node, made)


def _name(node: Node) -> str:
    function = getattr(node.logic if isinstance(node, Reduce) else node, "function", None)
    return f"the function {getattr(function, '__qualname__', type(function).__name__)!r}"
