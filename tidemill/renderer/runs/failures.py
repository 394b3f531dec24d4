"""What a step that cannot be taken says: the same words for every engine, each naming node, key, row and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from tidemill.dataflow.composites import CLOCKED
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Feedback, Input, Map, Node, Reduce
from tidemill.dataflow.origins import column_for
from tidemill.errors import (
    CountOverflowError,
    ExpressionError,
    IterationLimitError,
    NegativeCountError,
    StepError,
    TidemillError,
    brief,
)
from tidemill.expressions.ordering import TopK
from tidemill.expressions.windows.bound import CallError, Windows
from tidemill.renderer.runs.determinism import functions_before

Row = tuple[Any, ...]
E = TypeVar("E", bound=TidemillError)


def of_node(node: Node, error: E, **data: Any) -> E:
    """Return an error with the node that it comes from, and with what else is known, as data."""
    return error.about(operator=node.title, site=node.site, **data)


def expression_failed(
    node: Node, row: Row, error: ExpressionError, *, column: str | None = None, time: Any = None
) -> ExpressionError:
    """Return the error of an expression, told with the node that evaluates it, the row, the column and user time."""
    if isinstance(node, Map) and column is not None:
        read = node.columns[node.schema.index(column)].columns()
        if (told := not_worked_out(node, row, read, error.reason, time)) is not None:
            return told
        column = dict(node.fails_as).get(column, column)
    if node.part_of is not None:  # its columns are not those of the operator that users know
        column = None
    made = ExpressionError(f"{node.where}, row {brief(row)}: {error.reason}", error.sql, error.row_index)
    return of_node(node, made, row=row, column=column, time=time)


def not_worked_out(node: Node, row: Row, read: Iterable[int], reason: str, time: Any = None) -> ExpressionError | None:
    """Return the error of what a node works out of columns that users do not know; None where it does no such thing."""
    names = node.inputs[0].schema.names
    value = None if node.origins is None else node.origins.value(names[i] for i in read)
    if node.origins is None or value is None:
        return None
    known = node.origins.known(names, row)
    where = f"{node.where}, row {brief(known)}" if known else node.where
    return of_node(node, ExpressionError(f"{where}: {reason}", str(value)), row=known, column=value.name, time=time)


def ends_before_it_begins(node: Node, row: Row, begin: int, end: int, time: Any) -> ExpressionError:
    """Return the error of a row that is valid until a time before the one from which it is."""
    reason = (
        f"{node.where}, row {brief(row)}: valid_to {end} is before valid_from {begin}; filter out, or correct, rows "
        "that end before they begin"
    )
    return of_node(node, ExpressionError(reason, "temporal_filter(valid_from, valid_to)"), row=row, time=time)


def overflow(node: Node, key: Row, name: str, function: str) -> ExpressionError:
    """Return the error of an aggregate whose value at a time does not fit the type of its column."""
    value = None if node.origins is None else node.origins.value((name,))
    function, name = (function, column_for(name)) if value is None else (value.function, value.name)
    made = ExpressionError(f"{node.where}, key {brief(key)}: overflow", f"{function} AS {name}")
    return of_node(node, made, row=key, column=name)


def no_window_value(node: Node, windows: Windows, row: Row, error: CallError) -> ExpressionError:
    """Return the error of a window call that has no value for a row, given with all that calls read."""
    own = tuple(row[i] for i in windows.row)
    function, name = windows.named(error.call)
    name = column_for(name)
    made = ExpressionError(f"{node.where}, row {brief(own)}: {error.reason}", f"{function} AS {name}")
    return of_node(node, made, row=own, column=name)


def negative_count(node: Node, key: Row, row: Row, count: int) -> NegativeCountError:
    """Return the error of a group that holds a row less than no times, where that has no meaning."""
    if isinstance(node, Reduce) and isinstance(node.logic, TopK):  # rows made wide to be sorted
        row = tuple(row[i] for i in node.logic.row)
    names = node.inputs[0].schema.names
    if node.origins is not None and len(row) == len(names):
        row = node.origins.known(names, row)
    msg = (
        f"{node.where}, key {brief(key)}: row {brief(row)} has the count {count}, and a negative count has no meaning "
        "here: insert the row before it is deleted, or look for what takes it away twice"
    )
    if before := functions_before(node):
        named = ", ".join(f"{f.describe()!r} of {f.where}" for f in before)
        msg += f"; or a function before it does not give the same each time for the same row: {named}"
    return of_node(node, NegativeCountError(msg), row=row)


def one_row(node: Node, rows: Sequence[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """Return the rows of the side that a dynamic filter compares with: at most one, else it is a `StepError`."""
    named = [row for row, count in rows for _ in range(min(count, 2))]
    if len(named) > 1:
        side, of, other = "right side", "dynamic", ", or use join(..., where=...)"
        if node.name == CLOCKED:
            side, of, other = "clock", "temporal", ""
        msg = (
            f"{node.where}: the {side} has more than one row, {brief(named[0])} and {brief(named[1])}, and a {of} "
            f"filter compares with one: aggregate it without keys, as in {side.split()[0]}.agg(v=tm.max('v')){other}"
        )
        raise of_node(node, StepError(msg), row=named[1])
    return list(rows)


def not_monotone(node: Node, monotone: str, before: Row | None, after: Row | None) -> StepError:
    """Return the error of a right side that moves otherwise than was declared."""
    moved = "went away" if after is None else f"became {brief(after)}"
    msg = (
        f"{node.where}: the right side was declared monotone={monotone!r}, and its row {brief(before)} {moved}: rows "
        "behind it are not kept any more; leave monotone= out"
    )
    return of_node(node, StepError(msg), row=after or before)


def too_many(node: Node) -> StepError:
    """Return the error of a row whose count has grown so large that sums and products of it could overflow."""
    msg = (
        f"{node.where}: a row's count is beyond 2**31, more copies of it than this operator takes: "
        "have fewer before it, as by distinct()"
    )
    return of_node(node, StepError(msg))


def count_overflow(node: Node | None = None) -> CountOverflowError:
    """Return the error of counts, or of sums that an operator keeps, that 64 bits do not hold."""
    where = "the dataflow" if node is None else node.where
    msg = (
        f"{where}: the count of a row, or a sum, is beyond 2**63 - 1: look for a loop that adds rows to themselves, or "
        "have distinct() make the counts 1"
    )
    return CountOverflowError(msg) if node is None else of_node(node, CountOverflowError(msg))


def out_of_memory(node: Node, error: MemoryError) -> StepError:
    """Return the error of an operator whose rows memory does not hold."""
    why = f" ({error})" if str(error) else ""
    msg = (
        f"{node.where}: memory does not hold the rows that it works out{why}: filter before it, have it match by a key "
        "that more of the rows differ in, or take smaller steps"
    )
    return of_node(node, StepError(msg))


def not_unique(node: Input, row: Row, count: int, time: Time) -> NegativeCountError:
    """Return the error of a row of a unique input that is there twice, or less than no times."""
    msg = f"{node.where} is unique, but row {brief(row)} has the count {count} at time {shown(time)}: expected 0 or 1"
    return of_node(node, NegativeCountError(msg), row=row, time=shown(time))


def watermark_went_back(node: Node, before: Any, value: Any, time: Time) -> StepError:
    """Return the error of a watermark that was told and is less than one told for an earlier time."""
    msg = (
        f"{node.where}: a watermark of {value} was told for time {shown(time)}, after {before} for an earlier time: "
        "it cannot go back; discard() what is queued, and tell greater ones"
    )
    return of_node(node, StepError(msg), time=shown(time))


def iteration_limit(node: Feedback, row: Row) -> IterationLimitError:
    """Return the error of a loop that still changed in the last iteration it was allowed."""
    limit = node.limits.error_at
    msg = (
        f"{node.scope.kind} {node.scope.name!r} ({node.scope.site.location}) has not settled: {node.name!r} still "
        f"changed in iteration {limit} (error_at={limit}), among others row {brief(row)}; raise error_at, or make the "
        "counts settle, as distinct() does"
    )
    made = IterationLimitError(msg).about(site=node.scope.site)
    return of_node(node, made, row=row)
