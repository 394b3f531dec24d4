"""Large changes of a live run: a step taken on the executors, its state read from the disk and written there."""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.collections.schema import Schema
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input, Output
from tidemill.errors import StateError
from tidemill.renderer.durable.cold import Cold, ColdStore
from tidemill.renderer.durable.coldfiles import ColdBatch, ColdFile
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.spine import Spine
from tidemill.renderer.spark.boundary import Names, given, table_of, taken
from tidemill.renderer.spark.frames import DIFF, Frame
from tidemill.renderer.spark.live.largestep import LargeStep
from tidemill.renderer.spark.live.ondisk import read_cold

__all__ = ["LargeChange", "LargeWork"]


_FEW: Final = 10_000
"""Rows of a DataFrame that are got to see whether there are more: one job instead of two."""


@attrs.frozen(eq=False)
class LargeChange:
    """Checked rows of a DataFrame, all put into an input at one time with one diff."""

    node: Input
    frame: Frame
    time: Time
    diff: int

    def updates(self) -> Frame:
        """Return them as updates."""
        whole = {f"t{i}": c for i, c in enumerate(self.time)} | {DIFF: self.diff}
        data = self.frame.data
        for name, value in whole.items():
            data = data.withColumn(name, F.lit(value).cast("bigint"))
        return self.frame.projected(data, time=self.time)


def sorted_out(node: Input, data: Any, most: int) -> tuple[Any, Frame | None]:
    """Return a DataFrame's rows as a table, where there are at most so many; else checked, and left where they are.

    ``RowError`` where a row does not fit.
    """
    few = data.limit(min(most, _FEW) + 1).toArrow()
    if len(few) <= min(most, _FEW):
        return few, None
    by = Names(("tidemill time",), "tidemill diff")
    frame = taken({node: given(node, data, by)}, by)[node]
    if frame is None or (frame.rows or 0) <= most:
        return data.toArrow(), None
    return None, frame


def collected(change: LargeChange) -> pa.Table:
    """Return the rows of a large change."""
    schema: Schema = change.node.schema
    return table_of(schema, change.frame.data, 0)[0]


class LargeWork:
    """The work of one step. Nothing of the run is changed but at the end, and that can be rolled back."""

    def __init__(
        self,
        spark: SparkSession,
        compiled: Compiled,
        store: ColdStore,
        spines: Mapping[str, Spine],
        few: int,
        *,
        carefully: bool,
    ) -> None:
        self._spark = spark
        self._compiled = compiled
        self._store = store
        self._spines = spines
        self._few = few
        self._carefully = carefully
        self.unread: dict[Output, tuple[ColdFile, ...]] = {}
        """Changes of outputs that stay on the disk until they are read."""

    def run(self, given: Mapping[Input, Frame | None]) -> None:
        """Take in large changes, and what else came to the operators."""
        held = functools.cache(self._held)
        step = LargeStep(self._spark, self._compiled, given, held, self._few, carefully=self._carefully)
        step.run()
        written = {name: self._written(name, frames) for name, frames in step.added.items()}
        for name, files in written.items():
            if files:
                self._add(name, ColdBatch(tuple(files)))
        for output in self._compiled.outputs:
            self._show(output, written.get(f"{output.id}/spine", []))
        for node, frame in step.deltas.items():
            if frame is not None and frame.rows is not None:
                self._compiled.operators[node].records_out += frame.rows

    def _held(self, name: str) -> DataFrame | None:
        """Return what an arrangement held before this step, all of it written to the disk."""
        if self._spines[name].view.size:
            self._store.spill(name, self._spines[name])
        cold = self._store.colds.get(name)
        if cold is None or not cold.cold_batches:
            return None
        files = [f for batch in cold.cold_batches for f in batch.files]
        return read_cold(self._spark, self._store, cold.layout, files)

    # -- out ----------------------------------------------------------------------------------------------------------

    def _written(self, name: str, frames: Sequence[DataFrame]) -> list[ColdFile]:
        """Write updates of an arrangement, in no order, and return the files."""
        cold = self._store.below(name, self._spines[name])
        data = frames[0]
        for frame in frames[1:]:
            data = data.union(frame)
        wanted = [name for name, _ in cold.layout.fields]
        self._store.folder.mkdir(parents=True, exist_ok=True)
        folder = self._store.folder / f"writing-{uuid.uuid4().hex[:8]}"
        try:
            dictionary = "false" if cold.layout.has_lists else "true"
            data.select(*wanted).write.option("parquet.enable.dictionary", dictionary).parquet(str(folder))
            return [f for part in sorted(folder.glob("part-*.parquet")) if (f := self._moved(name, part)).rows]
        except OSError as error:
            msg = f"{self._store.folder} could not be written ({error}): the step was not taken and is queued still"
            raise StateError(msg) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _moved(self, name: str, part: Path) -> ColdFile:
        path = self._store.new_path(name)
        part.rename(path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return ColdFile(path.name, pq.read_metadata(path).num_rows, sorted=False)

    def _add(self, name: str, batch: ColdBatch) -> None:
        cold = self._store.colds[name]
        self._compiled.schedule.touched.append(_Added(cold, list(cold.cold_batches)))
        cold.add(batch)

    def _show(self, output: Output, files: Sequence[ColdFile]) -> None:
        """Have those who read an output's changes read these: from the disk, where they are many."""
        operator = self._compiled.outputs[output]
        if not files or (output.changes is False and not operator.followed):
            return
        if sum(f.rows for f in files) > self._few and not operator.followed:
            self.unread[output] = tuple(files)
            return
        cold = self._store.colds[f"{output.id}/spine"]
        tables = [pq.read_table(self._store.folder / f.name) for f in files]
        operator.show(np.concatenate([cold.layout.encoded(t, self._store.interner) for t in tables], axis=1))


class _Added:
    """A batch that was added below a spine, which the step may have to take away again."""

    def __init__(self, cold: Cold, before: list[ColdBatch]) -> None:
        self._cold = cold
        self._before = before

    def commit(self) -> None:
        """Keep it."""

    def rollback(self) -> None:
        """Have there what was there before."""
        self._cold.clear()
        self._cold.cold_batches = self._before
