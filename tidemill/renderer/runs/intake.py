"""What is put into a run, checked: rows to insert or delete, writes by key, change feeds, updates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tidemill.boundary.feed_formats import checked_format, translated
from tidemill.boundary.feeds import Feed
from tidemill.boundary.likeness import known_columns
from tidemill.boundary.rows import checked_batch, checked_rows, is_count
from tidemill.boundary.sorting_out import RefusedRow, sorted_out
from tidemill.boundary.update_tables import Names, listed_updates, table_of_updates
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Input, watermark_input
from tidemill.errors import EngineError, RowError, TidemillError, TimeError, brief
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import STRING
from tidemill.renderer.runs.executor import DataFrames
from tidemill.renderer.runs.failures import of_node
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.stepper import Stepper
from tidemill.renderer.runs.writes import (
    DELETE,
    EMPTY,
    PUT,
    Change,
    Queued,
    Writes,
    checked_puts,
    each_deleted,
    keys_of,
    writes_of,
)

OnError: TypeAlias = Literal["raise", "collect"]
"""What becomes of rows that do not fit: the whole batch is refused, or they are left out and returned."""


def require_key(node: Input, what: str) -> None:
    """Raise `RowError` for an input without a key, with what it would be needed for."""
    if not node.key:
        msg = f"{node.where} has no key to {what} by: declare it as flow.input(..., key=[...])"
        raise RowError(msg)


def require_order(node: Input, frontiers: Frontiers) -> None:
    """Raise `TimeError` where of two writes to a key at incomparable times neither would be the last."""
    if frontiers.users != 1:
        coordinates = frontiers.graph.coordinates
        msg = f"{node.where} has a key, which needs times of one coordinate: here they are {coordinates}"
        raise TimeError(msg)


def checked_change(node: Input, frontiers: Frontiers, rows: Any, time: Time, sign: int) -> Queued | Writes:
    """Return rows to insert, or with a negative sign to delete, at an open time; of an input with a key as writes."""
    if not node.key:
        return Queued(checked_batch(node.schema, rows, node.where), time, sign)
    writes = writes_of(node, rows, time, sign)
    require_order(node, frontiers)
    return writes


def _sorted_out_change(
    node: Input, frontiers: Frontiers, rows: Any, time: Time, sign: int
) -> tuple[Queued | Writes, list[RefusedRow]]:
    """Return those rows to insert or delete that fit, as `checked_change` does, and the others with their errors."""
    is_delete = sign < 0 and bool(node.key)
    check = each_deleted if is_delete else checked_puts
    keys = keys_of(node) if is_delete else None
    good, refused = sorted_out(node.schema, rows, node.where, lambda part, first: check(node, part, first), or_=keys)
    for _, error in refused:
        of_node(node, error)
    if not node.key:
        return Queued(good, time, sign), refused
    require_order(node, frontiers)
    return (Writes([], good, DELETE, time) if is_delete else Writes(good, [], PUT, time)), refused


@contextlib.contextmanager
def _about(node: Input) -> Iterator[None]:
    """Within the block errors say which input they are of."""
    try:
        yield
    except TidemillError as error:
        of_node(node, error)
        raise


class Intake:
    """Checks what is put into a run, and queues it. Errors say which input they are of."""

    def __init__(self, stepper: Stepper, dataframes: DataFrames | None) -> None:
        self._stepper = stepper
        self._frontiers = stepper.frontiers
        self._dataframes = dataframes
        self._told: dict[Input, dict[Time, Any]] = {}
        """The watermarks that this run was told: the last one for each time."""

    def change(
        self, node: Input, rows: Any, time: Any, sign: int, on_error: OnError = "raise"
    ) -> list[RefusedRow] | None:
        """Queue rows to insert, or with a negative sign to delete; return those left out, where some may be."""
        refused: list[RefusedRow] | None = None
        try:  # as `_about` does, of which a row would notice the calls
            rows = _known(node, rows)
            dataframes = self._dataframes_for(rows, on_error)
            at = self._frontiers.open_time(node, time)
            change: Change
            if dataframes is not None:
                change = dataframes.read(node, rows, at, sign)
            elif on_error == "collect":
                change, refused = _sorted_out_change(node, self._frontiers, rows, at, sign)
            else:
                change = checked_change(node, self._frontiers, rows, at, sign)
            self._stepper.queue(node, change)
        except TidemillError as error:
            of_node(node, error)
            raise
        return refused

    def feed(self, node: Input, feed: Any, op: str, time: Any, format: str = "op") -> None:  # noqa: A002 - as users say
        """Queue the writes of a change feed."""
        with _about(node):
            if checked_format(format) != "op":
                require_key(node, "apply a feed")
                feed, op = translated(format, node.schema, tuple(node.key), feed, node.where)
            elif node.ignores_extra:
                own = (op, time) if isinstance(time, str) else (op,)
                beside = tuple(Field(n, STRING) for n in own if n not in node.schema)
                feed = known_columns(Schema((*node.schema, *beside)), feed, node.where)
            if (dataframes := self._dataframes_for(feed)) is not None:
                self._stepper.queue(node, *dataframes.feed(node, feed, op, time))
            else:
                self._stepper.queue(node, checked_feed(node, self._frontiers, feed, op, time))

    def updates(self, node: Input, updates: Any, time: str | None = None, diff: str = "diff") -> None:
        """Queue ``(row, time, diff)`` triples, or a table of updates, with what its columns of these are called."""
        with _about(node):
            named = Names.of(self._frontiers.graph.coordinates, time, diff)
            if (dataframes := self._dataframes_for(updates)) is not None:
                self._stepper.queue(node, *dataframes.updates(node, updates, named))
            else:
                self._stepper.queue(node, checked_updates(node, self._frontiers, updates, named))

    def watermark(self, node: Input, value: Any, time: Any) -> None:
        """Queue what is told of an input's watermark; `TimeError` where it goes back."""
        with _about(node):
            self._watermark(node, value, time)

    def _dataframes_for(self, rows: Any, on_error: OnError = "raise") -> DataFrames | None:
        """Return what reads rows that are a DataFrame of the engine's; None for all others."""
        if on_error not in ("raise", "collect"):
            msg = f"on_error={on_error!r}: expected 'raise', or 'collect' to take the rows that fit and get the others"
            raise TidemillError(msg)
        if self._dataframes is None or not self._dataframes.reads(rows):
            return None
        if on_error == "collect":
            msg = "on_error='collect' is not for DataFrames of Spark, which are refused whole: give it df.toArrow()"
            raise EngineError(msg)
        return self._dataframes

    def _watermark(self, node: Input, value: Any, time: Any) -> None:
        told = self._frontiers.graph.inputs.get(watermark_input(node.name))
        if told is None:
            msg = f"{node.where} has no watermark: open it with flow.input(..., watermark=(column, delay)) or =column"
            raise TimeError(msg)
        at = self._frontiers.open_time(told, time)
        ((checked,),) = checked_rows(told.schema, [(value,)], told.where)
        known = self._told.setdefault(told, {})
        before = max((v for t, v in known.items() if t <= at), default=checked)
        after = min((v for t, v in known.items() if t > at), default=checked)
        if not before <= checked <= after:
            other = before if checked < before else after
            msg = f"{node.where}: a watermark of {checked} at {shown(at)} goes back: {other} was told"
            raise TimeError(msg)
        self._stepper.queue(told, Queued([(checked,)], at, 1))
        last = max((t for t in known if t <= at), default=at)
        self._told[told] = {t: v for t, v in known.items() if t > last} | {at: checked}

    def forget_told(self) -> None:
        """Forget which watermarks were told, some of which may have been taken back: the step looks again."""
        self._told.clear()


def _known(node: Input, rows: Any) -> Any:
    return known_columns(node.schema, rows, node.where) if node.ignores_extra else rows


def feed_of(node: Input, frontiers: Frontiers, op: str, time: Any) -> tuple[Feed, Time]:
    """Return what a feed for an input is made of, and the time of all its rows; of those that have their own, ()."""
    require_key(node, "apply a feed")
    column = time if isinstance(time, str) else None
    at = () if column else frontiers.open_time(node, time)
    return Feed(node.schema, tuple(node.key), op, column), at


def checked_feed(node: Input, frontiers: Frontiers, feed: Any, op: str, time: Any) -> Writes:
    """Return the writes of a change feed; ``op`` is its column of operations, ``time`` may name that of times."""
    made_of, at = feed_of(node, frontiers, op, time)
    given = made_of.writes(feed, node.where)
    rows = [w.row for w in given if w.row is not None]
    deleted = [w.key for w in given if w.row is None and w.key is not None]
    kinds = [PUT if w.row is not None else DELETE if w.key is not None else EMPTY for w in given]
    times = at or [frontiers.open_time(node, w.time) for w in given]
    require_order(node, frontiers)
    return Writes(rows, deleted, kinds, times)


def require_no_key(node: Input) -> None:
    """Raise `RowError` for an input with a key, whose rows updates would not keep unique."""
    if node.key:
        msg = f"{node.where} has a key: use upsert and delete, which keep its rows unique"
        raise RowError(msg)


def checked_updates(node: Input, frontiers: Frontiers, updates: Any, named: Names) -> Queued:
    """Return ``(row, time, diff)`` triples, or a table of them, as updates at open times."""
    require_no_key(node)
    table = table_of_updates(node.schema, updates, node.where, named)
    if table is not None:
        return Queued(table.rows, open_times(node, frontiers, table.times), table.diffs.tolist())
    triples = listed_updates(updates, node.where, node.schema, named)
    for number, triple in enumerate(triples):
        if not (isinstance(triple, (tuple, list)) and len(triple) == 3 and is_count(triple[2])):  # noqa: PLR2004
            msg = (
                f"{node.where}, update {number}: {brief(triple)} is not (row, time, diff), an integer of at most 2**31"
            )
            raise RowError(msg)
    rows = checked_rows(node.schema, [row for row, _, _ in triples], node.where)
    times = [frontiers.open_time(node, t) for _, t, _ in triples]
    return Queued(rows, times, [int(d) for _, _, d in triples])


def open_times(node: Input, frontiers: Frontiers, times: npt.NDArray[np.int64]) -> list[Time]:
    """Return times, a row each, of which many may be the same; `TimeError` where one is final."""
    different, which = np.unique(times, axis=0, return_inverse=True)
    checked = [frontiers.open_time(node, shown(tuple(t))) for t in different.tolist()]
    return [checked[i] for i in which.reshape(-1).tolist()]
