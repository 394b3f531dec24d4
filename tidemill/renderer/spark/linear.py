"""Operators that look at one update at a time, as expressions on columns; users' functions by the batch in Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Filter, FlatMap, Inspect, Map, Negate, Node, Retime
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.runs.registry import Registry
from tidemill.renderer.spark.frames import DIFF, Frame, columns, names, times
from tidemill.renderer.spark.row_tasks import row_task
from tidemill.renderer.spark.strategy import Strategy
from tidemill.renderer.spark.tasks import done_in_executors
from tidemill.renderer.spark.types import struct

RULES: Final = Registry[Callable[[Any, Frame, Strategy], Frame]]("Spark engine")
"""For each class of nodes that look at one update at a time, what makes a frame of the node and its input's."""


@RULES(Map)
def mapped(node: Map, frame: Frame, strategy: Strategy) -> Frame:
    """Return a Map's output: in Catalyst where it may compute all of its expressions."""
    texts = [strategy.sql(c) for c in node.columns]
    if None in texts:
        return in_python(node, frame, strategy)
    new = [f"{text} AS {name}" for text, name in zip(texts, columns(len(texts)), strict=True)]
    rest = [*times(frame.coordinates), DIFF]
    kept = {c.index for c in node.columns if isinstance(c, BoundColumn)}
    consolidated = frame.consolidated and len(kept) == frame.width  # rows that differed still do
    return frame.projected(frame.data.selectExpr(*new, *rest), width=len(texts), consolidated=consolidated)


@RULES(Filter)
def filtered(node: Filter, frame: Frame, strategy: Strategy) -> Frame:
    """Return a Filter's output, likewise."""
    text = strategy.sql(node.predicate)
    if text is None:
        return in_python(node, frame, strategy)
    known = {"cheap": frame.cheap, "consolidated": frame.consolidated, "inserted": frame.inserted}
    return frame.of(frame.data.filter(text), **known)


@RULES(FlatMap, Inspect)
def in_python(node: Node, frame: Frame, strategy: Strategy) -> Frame:
    """Return a node's output for batches of updates, in the executors' Python."""
    frame = strategy.prepared(frame)
    users, width = frame.coordinates - _loops(node), len(node.schema)
    kept = isinstance(node, Inspect) and frame.consolidated
    of_rows = frame.inserted and frame.width and width and users == frame.coordinates
    if of_rows and frame.time is not None and not isinstance(node, Retime):
        alone = frame.data.select(*columns(frame.width))
        rows = done_in_executors(alone, row_task(node, users, frame.time), schema_of_rows(node.schema))
        same = zip((*frame.time, 1), [*times(users), DIFF], strict=True)
        data = rows.selectExpr("*", *(f"{value}L AS {name}" for value, name in same))
        return Frame(data, width, users, frame.time, consolidated=kept, inserted=True)
    schema = schema_of_updates(node.schema, frame.coordinates)
    data = done_in_executors(frame.data, row_task(node, users), schema)
    time = None if isinstance(node, Retime) else frame.time
    return Frame(data, width, frame.coordinates, time, consolidated=kept)


@RULES(Negate)
def _negate(_node: Negate, frame: Frame, _strategy: Strategy) -> Frame:
    return negated(frame)


def negated(frame: Frame) -> Frame:
    """Return the same rows with negated counts."""
    kept = names(frame.width, frame.coordinates)[:-1]
    return frame.projected(frame.data.selectExpr(*kept, f"-{DIFF} AS {DIFF}"), inserted=False)


def entered(frame: Frame) -> Frame:
    """Return the updates with one coordinate more, at 0."""
    *kept, diff = names(frame.width, frame.coordinates)
    data = frame.data.selectExpr(*kept, f"0L AS t{frame.coordinates}", diff)
    return frame.projected(data, coordinates=frame.coordinates + 1)


def left_scope(frame: Frame) -> Frame:
    """Return the updates with one coordinate less."""
    data = frame.data.select(*names(frame.width, frame.coordinates - 1))
    return frame.projected(data, coordinates=frame.coordinates - 1, consolidated=False)


def moved(frame: Frame, coordinate: int, by: int) -> Frame:
    """Return the updates moved along one coordinate of time, a loop's or one of the user's."""
    moving = f"t{coordinate}"
    every = names(frame.width, frame.coordinates)
    data = frame.data.selectExpr(*(f"{name} + {by}L AS {name}" if name == moving else name for name in every))
    return frame.projected(data, time=None if coordinate == 0 else frame.time)


@RULES(Retime)
def retimed(node: Retime, frame: Frame, strategy: Strategy) -> Frame:
    """Return a Retime's output. Where all updates are at one time, the driver computes the new one."""
    users = frame.coordinates - _loops(node)
    if node.since is not None:  # rows are checked, with errors of our own
        return in_python(node, frame, strategy)
    if node.column is not None:
        time, own = f"t{node.coordinate}", F.col(columns(frame.width)[node.column]).cast("bigint")
        return frame.projected(
            frame.data.withColumn(time, F.greatest(F.col(time), own)),  # which passes over NULL
            time=None,
            consolidated=False,
        )
    if frame.time is not None:
        steps = node.steps or [0] * users
        to = tuple(c + s for c, s in zip(frame.time, steps, strict=True))
        to = functions.moved_time(node, frame.time) if node.steps is None else to
        data = frame.data
        for i, c in enumerate(to):
            data = data.withColumn(f"t{i}", F.lit(c).cast("bigint"))
        return frame.projected(data, time=to)
    if node.steps is None:
        return in_python(node, frame, strategy)
    for i, step in enumerate(node.steps):
        frame = moved(frame, i, step)
    return frame


def schema_of_updates(schema: Schema, coordinates: int) -> object:
    """Return the Spark schema of updates of rows of a schema, with our names."""
    rest = [Field(name, INT64) for name in [*times(coordinates), DIFF]]
    return struct(Schema((*_row(schema), *rest)))


def schema_of_rows(schema: Schema) -> object:
    """Return the Spark schema of the rows alone."""
    return struct(Schema(_row(schema)))


def _row(schema: Schema) -> tuple[Field, ...]:
    return tuple(Field(name, f.dtype) for name, f in zip(columns(len(schema)), schema, strict=True))


def _loops(node: Node) -> int:
    return sum(1 for scope in node.scope if scope.parent is not None)
