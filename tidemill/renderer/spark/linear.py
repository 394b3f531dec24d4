"""Operators that look at one update at a time, as expressions on columns; users' functions by the batch in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Filter, Inspect, Map, Node, Retime
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.spark.failures import in_task
from tidemill.renderer.spark.frames import DIFF, Frame, columns, consolidated, names, times
from tidemill.renderer.spark.row_tasks import row_task
from tidemill.renderer.spark.scalars import native_sql
from tidemill.renderer.spark.types import struct

if TYPE_CHECKING:
    pass

__all__ = ["entered", "filtered", "left", "mapped", "moved", "negated", "retimed", "schema_of_updates", "worked"]


def mapped(node: Map, frame: Frame, *, carefully: bool) -> Frame:
    """Return a Map's output: in Catalyst where all of its expressions are Spark's own."""
    texts = [native_sql(c) for c in node.columns]
    if None in texts or (carefully and not all(t in frame.data.columns for t in texts)):
        return worked(node, frame, carefully=carefully)
    new = [F.expr(cast("str", t)).alias(name) for t, name in zip(texts, columns(len(texts)), strict=True)]
    rest = [F.col(name) for name in [*times(frame.coordinates), DIFF]]
    return frame.projected(frame.data.select(*new, *rest), width=len(texts), consolidated=False)


def filtered(node: Filter, frame: Frame, *, carefully: bool) -> Frame:
    """Return a Filter's output, likewise."""
    text = native_sql(node.predicate)
    if text is None or carefully:
        return worked(node, frame, carefully=carefully)
    return frame.of(frame.data.filter(F.expr(text)), cheap=frame.cheap, consolidated=frame.consolidated)


def worked(node: Node, frame: Frame, *, carefully: bool) -> Frame:
    """Return what a node makes of batches of updates in Python; if carefully, of consolidated ones only."""
    if carefully:
        frame = consolidated(frame)
    users = frame.coordinates - _loops(node)
    task = in_task(row_task(node, users))
    data = frame.data.mapInArrow(task, schema_of_updates(node.schema, frame.coordinates))
    time = None if isinstance(node, Retime) else frame.time
    return Frame(
        data, len(node.schema), frame.coordinates, time, consolidated=isinstance(node, Inspect) and frame.consolidated
    )


def negated(frame: Frame) -> Frame:
    """Return the same rows with negated counts."""
    kept = [F.col(name) for name in names(frame.width, frame.coordinates)[:-1]]
    return frame.projected(frame.data.select(*kept, (-F.col(DIFF)).alias(DIFF)))


def entered(frame: Frame) -> Frame:
    """Return the updates with one coordinate more, at 0."""
    last = f"t{frame.coordinates}"
    data = frame.data.withColumn(last, F.lit(0).cast("bigint")).select(*names(frame.width, frame.coordinates + 1))
    return frame.projected(data, coordinates=frame.coordinates + 1)


def left(frame: Frame) -> Frame:
    """Return the updates with one coordinate less."""
    data = frame.data.select(*names(frame.width, frame.coordinates - 1))
    return frame.projected(data, coordinates=frame.coordinates - 1, consolidated=False)


def moved(frame: Frame, coordinate: int, by: int) -> Frame:
    """Return the updates moved along a loop's coordinate of time, or the user's where they are at several."""
    data = frame.data.withColumn(f"t{coordinate}", F.col(f"t{coordinate}") + F.lit(by).cast("bigint"))
    return frame.projected(data, time=None if coordinate == 0 else frame.time)


def retimed(node: Retime, frame: Frame, *, carefully: bool) -> Frame:
    """Return a Retime's output. What is all at one time has its new time worked out here."""
    users = frame.coordinates - _loops(node)
    if frame.time is not None:
        steps = node.steps or [0] * users
        to = tuple(c + s for c, s in zip(frame.time, steps, strict=True))
        to = functions.moved_time(node, frame.time) if node.steps is None else to
        data = frame.data
        for i, c in enumerate(to):
            data = data.withColumn(f"t{i}", F.lit(c).cast("bigint"))
        return frame.projected(data, time=to)
    if node.steps is None:
        return worked(node, frame, carefully=carefully)
    for i, step in enumerate(node.steps):
        frame = moved(frame, i, step)
    return frame


def schema_of_updates(schema: Schema, coordinates: int) -> object:
    """Return the Spark schema of updates of rows of a schema, with our names."""
    row = [Field(name, f.dtype) for name, f in zip(columns(len(schema)), schema, strict=True)]
    rest = [Field(name, INT64) for name in [*times(coordinates), DIFF]]
    return struct(Schema((*row, *rest)))


def _loops(node: Node) -> int:
    return sum(1 for scope in node.scope if scope.parent is not None)
