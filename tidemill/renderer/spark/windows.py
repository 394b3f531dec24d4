"""Window calls in large steps of a live run: of what is stored, only the partitions that change are looked at."""

from __future__ import annotations

from typing import Final, cast

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Reduce
from tidemill.renderer.spark.frames import Frame, names, united, with_keys
from tidemill.renderer.spark.large_windows import STORED, windows_of_large
from tidemill.renderer.spark.tasks import applied
from tidemill.renderer.spark.window_tasks import WindowsKernel

_FEW_KEYS: Final = 100_000
"""Up to how many partitions their keys go to where stored rows are; beyond, these go to where the keys are."""


def changed_windows(
    node: Reduce, interval: tuple[Antichain, Antichain], new: Frame, stored: DataFrame, *, may_be_large: bool
) -> Frame:
    """Return the changes by new updates, with those stored before, of which only touched partitions are looked at.

    New ones are read twice. All are over times of one coordinate.
    """
    wanted = names(new.width, new.coordinates)
    keys = [f"c{k}" for k in node.keys]
    old = _touched(stored, new.data, keys).select(*wanted, F.lit(True).alias(STORED))
    updates = new.data.select(*wanted, F.lit(False).alias(STORED)).union(old)
    both = Frame(updates, new.width, new.coordinates, cheap=True)
    large, rest = windows_of_large(node, both, some_stored=True) if may_be_large else (None, both)
    found = [] if large is None else [large]
    if rest is not None:
        together = rest.data.repartition(*keys) if keys else rest.data.coalesce(1)
        data = applied(together, WindowsKernel(node, *interval))
        found.append(Frame(data, len(node.schema), new.coordinates, new.time))
    change = cast("Frame", united(found))  # there are new updates, of partitions that are large or are not
    return attrs.evolve(change, time=new.time, consolidated=True)  # partitions' keys are in the rows


def _touched(stored: DataFrame, new: DataFrame, keys: list[str]) -> DataFrame:
    """Return the stored updates of the partitions that new ones reach: one job, which asks how many these are."""
    if not keys:
        return stored
    wanted = new.select(*keys).distinct()
    few = wanted.limit(_FEW_KEYS + 1).toArrow()
    if len(few) <= _FEW_KEYS:
        wanted = F.broadcast(stored.sparkSession.createDataFrame(few, schema=wanted.schema))
    return with_keys(stored, wanted, keys)
