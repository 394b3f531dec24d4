"""Large changes of a live run: a step taken on the executors, its state read from the disk and written there."""

from __future__ import annotations

import contextlib
import functools
import re
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
from tidemill.errors import EngineError, StateError
from tidemill.renderer.durable.cold import Cold, ColdStore
from tidemill.renderer.durable.coldfiles import ColdBatch, ColdFile, Layout, read_file
from tidemill.renderer.durable.putdown import PutDown
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.spine import Spine
from tidemill.renderer.spark.boundary import Names, given, taken
from tidemill.renderer.spark.frames import DIFF, Frame, columns, times
from tidemill.renderer.spark.live.largestep import LargeStep
from tidemill.renderer.spark.live.ondisk import read_cold
from tidemill.renderer.spark.live.statistics import may_be_wrong

__all__ = ["LargeWork", "few_of", "frame_in_files", "put_down"]


_FEW: Final = 100_000
"""Rows of a DataFrame that are got to see whether there are more: one job instead of two."""


_UNWRITABLE: Final = re.compile(
    r"No space left on device|Mkdirs failed[^\n]*|Permission denied|Read-only file system|Disk quota exceeded"
)
"""How Spark says that it could not write."""


def few_of(data: Any, most: int) -> pa.Table | None:
    """Return a DataFrame's rows as a table, where there are few."""
    most = min(most, _FEW)
    table = data.limit(most + 1).toArrow()
    return table if len(table) <= most else None


def put_down(  # noqa: PLR0917 - made in one place
    store: ColdStore, spark: SparkSession, node: Input, data: Any, time: Time, diff: int
) -> PutDown | None:
    """Check a DataFrame's rows and write them to files in one go; None where there are none.

    ``RowError`` where a row does not fit. So the DataFrame is computed once, whatever it comes from, and an arrangement
    of the input needs not write it again.
    """
    schema: Schema = node.schema
    by = Names(tuple(f"tidemill time {i}" for i in range(len(time))), "tidemill diff")
    updates = given(node, data, by)
    row = [F.col(name).alias(f"v{i}") for i, name in enumerate(columns(len(schema)))]
    values = Layout((), tuple(f.dtype for f in schema), 0, 0, 0)
    change = PutDown.in_files(node, time, diff, written(store, f"{node.id}/input", values, updates.select(*row)))
    if not change.files:
        return None
    paths = [store.folder / file.name for file in change.files]
    try:
        if may_be_wrong(schema, paths):
            taken({node: frame_in_files(spark, store, change).data}, by)
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        raise
    return change


def frame_in_files(spark: SparkSession, store: ColdStore, change: PutDown) -> Frame:
    """Return a large change as a DataFrame."""
    width, coordinates = len(change.node.schema), len(change.time)
    row = [F.col(f"v{i}").alias(name) for i, name in enumerate(columns(width))]
    data = read_cold(spark, store, change.layout, change.files)
    data = data.select(*row, *times(coordinates), F.col("w0").alias(DIFF))
    return Frame(data, width, coordinates, change.time, rows=change.rows, cheap=True)


def written(store: ColdStore, name: str, layout: Layout, data: DataFrame) -> list[ColdFile]:
    """Write updates ``v0, ...``, ``t0, ...``, ``w0, ...``, in no order, and return the files."""
    wanted = [name for name, _ in layout.fields]
    folder = store.folder / f"writing-{uuid.uuid4().hex[:8]}"
    dictionary = "false" if layout.has_lists else "true"
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        data.select(*wanted).write.option("parquet.enable.dictionary", dictionary).parquet(str(folder))
        files = [_moved(store, name, part) for part in _parts(folder)]
        store.flush_later([f.name for f in files])
        return [f for f in files if f.rows]
    except Exception as error:
        if isinstance(error, OSError) or (found := _UNWRITABLE.search(str(error))):
            what = error if isinstance(error, OSError) else found[0] if found else ""
            msg = f"{store.folder} could not be written ({what}): nothing was taken; make room or mend what is wrong"
            raise StateError(msg) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parts(folder: Path) -> list[Path]:
    """Return the files that Spark wrote; also of nothing it writes one."""
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts:
        msg = (
            f"{folder}: what Spark wrote there is not there, so its executors have other disks: give tm.Spark a state= "
            "on one that they share with this process, or an in_driver= that no change goes beyond"
        )
        raise EngineError(msg)
    return parts


def _moved(store: ColdStore, name: str, part: Path) -> ColdFile:
    path = store.new_path(name)
    part.rename(path)
    return ColdFile(path.name, pq.read_metadata(path).num_rows, sorted=False)


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

    def run(self, given: Mapping[Input, Frame | None], files: Mapping[Input, Sequence[ColdFile]]) -> None:
        """Take in large changes, and what else came to the operators; some inputs' changes are what is in files."""
        held = functools.cache(self._held)
        step = LargeStep(self._spark, self._compiled, given, held, self._few, set(files), carefully=self._carefully)
        step.run()
        added = {name: self._written(name, frames) for name, frames in step.added.items()}
        for name, (source, picked) in step.same.items():
            self._store.below(name, self._spines[name])
            added[name] = [attrs.evolve(f, columns=picked) for f in files[source]]
        for name, of_name in added.items():
            if of_name:
                self._add(name, ColdBatch(tuple(of_name)))
        for output in self._compiled.outputs:
            self._show(output, added.get(f"{output.id}/spine", []))
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
        """Write what an arrangement holds more, and return the files."""
        cold = self._store.below(name, self._spines[name])
        return written(self._store, name, cold.layout, functools.reduce(DataFrame.union, frames))

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
        tables = [read_file(self._store.folder, cold.layout, f) for f in files]
        operator.show(np.concatenate([cold.layout.encoded(t, self._store.interner) for t in tables], axis=1))


class _Added:
    """A batch that was added below a spine, which the step may have to take away again."""

    def __init__(self, cold: Cold, before: list[ColdBatch]) -> None:
        self._cold = cold
        self._before = before

    def commit(self) -> None:
        """Keep it, and merge what has become similar in size, where there is room for that."""
        with contextlib.suppress(OSError):
            self._cold.settle()

    def rollback(self) -> None:
        """Have there what was there before."""
        self._cold.forget()
        self._cold.cold_batches = self._before
