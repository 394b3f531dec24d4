"""Tasks that executors run row by row: expressions that Catalyst lacks or means differently, and users' functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.rows import checked_rows, python_rows, python_values
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Filter, FlatMap, Inspect, Map, Node, Retime
from tidemill.errors import ExpressionError, UserFunctionError
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.schema import Schema
from tidemill.expressions.table_functions import Column, ListColumn, TableCall, arrow_of
from tidemill.expressions.types import FLOAT64
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.runs import failures
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.runs.registry import Registry
from tidemill.renderer.spark.frames import names
from tidemill.renderer.spark.tasks import Batches, detached

_WORK: Final = Registry[Callable[[Any, int], Callable[[pa.RecordBatch], pa.RecordBatch]]]("Spark engine")
"""For each class of nodes, what makes a function from batch to batch of the node and the number of user coordinates."""


def row_task(node: Node, users: int, at: Time | None = None) -> Callable[[Batches], Batches]:
    """Return the task that does a node's work on batches of updates: the row's columns, the time's, the diff.

    With a time, the batches have rows only, of updates that are all at this time with a diff of 1, and so have those
    that are made of them: what is the same for all need not be moved between Java and Python.
    """
    node = detached(node)
    work = _WORK.of(node)

    def task(batches: Batches) -> Batches:
        apply = work(node, users)
        for batch in batches:
            if batch.num_rows and at is None:
                yield apply(batch)
            elif batch.num_rows:
                made = apply(_as_updates(batch, at or ()))
                yield made.select(list(range(made.num_columns - len(at or ()) - 1)))

    return task


def _as_updates(rows: pa.RecordBatch, at: Time) -> pa.RecordBatch:
    """Return rows as updates at a time."""
    same = [pa.array(np.full(rows.num_rows, value, np.int64)) for value in (*at, 1)]
    return pa.RecordBatch.from_arrays([*rows.columns, *same], names=names(rows.num_columns, len(at)))


@_WORK(Map)
def _map(node: Map, users: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    schema = node.inputs[0].schema
    scalars = [None if isinstance(c, BoundColumn) else compile_scalar(c) for c in node.columns]

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        given, made = batch.columns, []
        try:
            for column, scalar in zip(node.columns, scalars, strict=True):
                if isinstance(column, BoundColumn):
                    made.append(given[column.index])
                elif scalar is not None:
                    made.append(_canonical(scalar(given, batch.num_rows), column))
        except ExpressionError as error:
            raise _failed(node, batch, error, users, node.schema.names[len(made)]) from None
        return _batch(made, given[len(schema) :], batch)

    return apply


@_WORK(Filter)
def _filter(node: Filter, users: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    predicate = compile_scalar(node.predicate)

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return batch.filter(predicate(batch.columns, batch.num_rows))
        except ExpressionError as error:
            raise _failed(node, batch, error, users) from None

    return apply


@_WORK(FlatMap)
def _flat_map(node: FlatMap, users: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    width, schema = len(node.inputs[0].schema), node.schema

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        if node.single and (columns := mapped_at_once(node, batch.columns[:width], batch.num_rows)) is not None:
            return _batch(columns, batch.columns[width:], batch)
        found = []
        for at, row in enumerate(_rows(batch, width)):
            try:
                found.append(functions.mapped_rows(node, row))
            except (ExpressionError, UserFunctionError) as error:
                error.about(time=_user_time(batch, at, width, users))
                raise
        owner = pa.array(np.arange(len(found)).repeat([len(rows) for rows in found]))
        made = [row for rows in found for row in rows]
        values = zip(*made, strict=True) if made else [()] * len(schema)
        arrays = [pa.array(c, f.dtype.arrow) for c, f in zip(values, schema, strict=True)]
        return _batch(arrays, [c.take(owner) for c in batch.columns[width:]], batch)

    if isinstance(node.function, TableCall):
        call = node.function

        def apply_table(batch: pa.RecordBatch) -> pa.RecordBatch:
            made = made_by_table(call, schema, batch.columns)
            if made is None:
                return apply(batch)
            return _batch(made[1], [c.take(made[0]) for c in batch.columns[width:]], batch)

        return apply_table
    return apply


def mapped_at_once(node: FlatMap, given: list[pa.Array], count: int) -> list[pa.Array] | None:
    """Return the columns of the one row that a function makes of each; None where one of them is wrong."""
    make, function = functions.row_type(node.inputs[0].schema.names), node.function
    rows = map(make, *map(python_values, given)) if given else (make() for _ in range(count))
    try:
        made = checked_rows(node.schema, map(function, rows), "")
    except Exception:  # noqa: BLE001 - whatever it is, it is raised again for its row
        return None
    columns = zip(*made, strict=True) if made else [()] * len(node.schema)
    return [pa.array(values, f.dtype.arrow) for f, values in zip(node.schema, columns, strict=True)]


@_WORK(Inspect)
def _inspect(node: Inspect, users: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    width = len(node.schema)
    del users

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        times = zip(*(c.to_pylist() for c in batch.columns[width:-1]), strict=True)
        for row, time, diff in zip(_rows(batch, width), times, batch.columns[-1].to_pylist(), strict=True):
            functions.inspect(node, row, time, diff)
        return batch

    return apply


@_WORK(Retime)
def _retime(node: Retime, users: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    if node.column is not None:
        return functools.partial(_to_own_times, node, node.column, users)
    width = len(node.schema)
    known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        given = list(zip(*(c.to_pylist() for c in batch.columns[width : width + users]), strict=True))
        for time in given:
            if time not in known:
                known[time] = functions.moved_time(node, time)
        moved = [pa.array(c, pa.int64()) for c in zip(*(known[t] for t in given), strict=True)]
        return _batch(batch.columns[:width], [*moved, *batch.columns[width + users :]], batch)

    return apply


def _to_own_times(node: Retime, column: int, users: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return updates moved to the times that a column of their rows gives; NULL has them stay."""
    width = len(node.schema)
    to = batch.columns[column].cast(pa.int64())
    if node.since is not None:
        since = batch.columns[node.since].cast(pa.int64())
        wrong = pc.fill_null(pc.less(to, since), False)
        if pc.any(wrong).as_py():
            at = pc.index(wrong, True).as_py()
            (row,) = _rows(batch.slice(at, 1), width)
            time = _user_time(batch, at, width, users)
            raise failures.ends_before_it_begins(node, row, since[at].as_py(), to[at].as_py(), time)
    rest = list(batch.columns[width:])
    rest[node.coordinate] = pc.max_element_wise(rest[node.coordinate], to)
    return _batch(batch.columns[:width], rest, batch)


def _canonical(values: pa.Array, column: Bound) -> pa.Array:
    """Return floats with 0.0 for -0.0."""
    if column.dtype != FLOAT64:
        return values
    return pa.array(values.to_numpy(zero_copy_only=False) + 0.0, mask=values.is_null().to_numpy(zero_copy_only=False))


def _batch(columns: list[pa.Array], rest: list[pa.Array], like: pa.RecordBatch) -> pa.RecordBatch:
    """Return updates as a batch, the time's columns and the diff named as before."""
    names = [f"c{i}" for i in range(len(columns))] + like.schema.names[len(like.schema.names) - len(rest) :]
    return pa.RecordBatch.from_arrays([*columns, *rest], names=names)


def _rows(batch: pa.RecordBatch, width: int) -> list[tuple[Any, ...]]:
    return python_rows(pa.Table.from_batches([batch]).select(list(range(width)))) if width else [()] * batch.num_rows


def _failed(
    node: Node, batch: pa.RecordBatch, error: ExpressionError, users: int, column: str | None = None
) -> ExpressionError:
    at, width = error.row_index or 0, len(node.inputs[0].schema)
    (row,) = _rows(batch.slice(at, 1), width)
    time = _user_time(batch, at, width, users)
    return failures.expression_failed(node, row, error, column=column, time=time)


def _user_time(batch: pa.RecordBatch, at: int, width: int, users: int) -> Any:
    """Return the user time of an update, as users write it."""
    return shown(tuple([c[at].as_py() for c in batch.columns[width : width + users]]))


def made_by_table(call: TableCall, schema: Schema, given: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]] | None:
    """Return for each row that a table function makes the one it is made from, and the columns; None where it fails."""
    try:
        owner, made = call.function.columns(*(_argument(given[i]) for i in call.arguments))
    except Exception:  # noqa: BLE001 - whatever it is, it is raised again for its row
        return None
    rows = pa.array(owner)
    columns = [given[i].take(rows) for i in call.kept] + [arrow_of(c) for c in made]
    return rows, [c.cast(f.dtype.arrow) for c, f in zip(columns, schema, strict=True)]


def _argument(column: pa.Array) -> Column:
    if pa.types.is_list(column.type) and not column.null_count:
        return ListColumn.of(column)
    return column
