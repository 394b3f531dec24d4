"""Window calls in a large step of a live run: on executors, and of what is stored only the partitions that change."""

from __future__ import annotations

import functools
from typing import Final

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.schema import Schema
from tidemill.renderer.spark.failures import with_encoded_errors
from tidemill.renderer.spark.frames import Frame, names
from tidemill.renderer.spark.types import struct
from tidemill.renderer.spark.window_tasks import STORED, WindowsTask

__all__ = ["changed_windows"]

_FEW_KEYS: Final = 100_000
"""Up to so many partitions, their keys go to where stored rows are; beyond, these go to where the keys are."""


def changed_windows(node: Reduce, interval: tuple[Antichain, Antichain], new: Frame, stored: DataFrame) -> Frame:
    """Return what new updates change, with those stored before, of which only touched partitions are looked at.

    New ones are read twice. All are over times of one coordinate.
    """
    task = WindowsTask.of(node, *interval)
    wanted = names(new.width, new.coordinates)
    keys = [f"c{k}" for k in node.keys]
    old = _touched(stored, new.data, keys).select(*wanted, F.lit(True).alias(STORED))
    lines = new.data.select(*wanted, F.lit(False).alias(STORED)).union(old)
    together = lines.repartition(*keys) if keys else lines.coalesce(1)
    data = together.mapInArrow(with_encoded_errors(task.run), struct(Schema(tuple(task.made))))
    found = new.of(data, consolidated=True)
    return attrs.evolve(found, width=len(node.schema))


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
