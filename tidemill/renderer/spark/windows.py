"""Window calls on executors: of partitions that are too large for a task, and in large steps of a live run.

Of what is stored, a step looks only at the partitions that change.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.schema import Schema
from tidemill.renderer.spark.frames import DIFF, Frame, columns, names, united
from tidemill.renderer.spark.large_windows import in_stretches, large_apart, times_of
from tidemill.renderer.spark.stretch_tasks import VERSION
from tidemill.renderer.spark.tasks import done_in_executors
from tidemill.renderer.spark.types import struct
from tidemill.renderer.spark.window_tasks import STORED, WindowsTask

_FEW_KEYS: Final = 100_000
"""Up to so many partitions, their keys go to where stored rows are; beyond, these go to where the keys are."""


def windows_of_large(node: Reduce, frame: Frame) -> tuple[Frame | None, Frame | None]:
    """Return the output's updates for partitions that are too large for one task, and the updates of the others.

    Where nothing is stored. None for either where there are none.
    """
    apart = large_apart(node, frame)
    if apart.large is None:
        return None, apart.rest
    large = apart.large
    at = [large.time] if large.time is not None else times_of(large.data) if large.coordinates == 1 else None
    found = None
    if at is not None:
        version = F.lit(0) if large.time is not None else _number(at) - 1
        lines = large.data.select(*columns(large.width), version.cast("int").alias(VERSION), DIFF)
        found = in_stretches(node, lines, apart.rows, at, inserted=large.inserted)
    if found is None:
        return None, frame
    return Frame(found, len(node.schema), large.coordinates, large.time), apart.rest


def _number(times: Sequence[Time]) -> Column:
    """Return which of the times an update is at, from 1 on."""
    return F.array_position(F.array(*(F.lit(t).cast("bigint") for (t,) in times)), F.col("t0"))


def changed_windows(
    node: Reduce, interval: tuple[Antichain, Antichain], new: Frame, stored: DataFrame, *, may_be_large: bool
) -> Frame:
    """Return what new updates change, with those stored before, of which only touched partitions are looked at.

    New ones are read twice. All are over times of one coordinate.
    """
    task = WindowsTask.of(node, *interval)
    wanted = names(new.width, new.coordinates)
    keys = [f"c{k}" for k in node.keys]
    old = _touched(stored, new.data, keys).select(*wanted, F.lit(True).alias(STORED))
    lines = new.data.select(*wanted, F.lit(False).alias(STORED)).union(old)
    both = Frame(lines, new.width, new.coordinates, cheap=True)
    large, rest = _changes_of_large(node, both) if may_be_large else (None, both)
    found = [] if large is None else [large]
    if rest is not None:
        together = rest.data.repartition(*keys) if keys else rest.data.coalesce(1)
        data = done_in_executors(together, task.run, struct(Schema(tuple(task.made))))
        found.append(Frame(data, len(node.schema), new.coordinates, new.time))
    change = united(found)
    assert change is not None, "there are new updates, of partitions that are large or are not"
    return attrs.evolve(change, time=new.time, consolidated=True)  # partitions' keys are in the rows


def _changes_of_large(node: Reduce, lines: Frame) -> tuple[Frame | None, Frame | None]:
    """Return what changes in partitions that are too large for one task, and the lines of the others."""
    apart = large_apart(node, lines)
    if apart.large is None:
        return None, apart.rest
    data = apart.large.data
    at = times_of(data.filter(~F.col(STORED)))
    if at is None:
        return None, lines
    version = F.when(F.col(STORED), 0).otherwise(_number(at)).cast("int").alias(VERSION)
    numbered = data.select(*columns(lines.width), version, DIFF)
    found = in_stretches(node, numbered, apart.rows, [None, *at], inserted=False)
    return (None, lines) if found is None else (Frame(found, len(node.schema), lines.coordinates), apart.rest)


def _touched(stored: DataFrame, new: DataFrame, keys: list[str]) -> DataFrame:
    """Return the stored updates of the partitions that new ones come to: one job, which asks how many these are."""
    if not keys:
        return stored
    renamed = new.select(*keys).distinct().toDF(*(f"k_{name}" for name in keys))
    few = renamed.limit(_FEW_KEYS + 1).toArrow()
    if len(few) <= _FEW_KEYS:
        renamed = F.broadcast(stored.sparkSession.createDataFrame(few, schema=renamed.schema))
    same = [F.col(name).eqNullSafe(F.col(f"k_{name}")) for name in keys]
    return stored.join(renamed, functools.reduce(Column.__and__, same), "left_semi")
