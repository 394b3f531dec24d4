"""Large changes of a live run: a step taken on the executors, its state read from the disk and written there."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from pyspark.sql import DataFrame, SparkSession

from tidemill.dataflow.nodes import Input, Output
from tidemill.renderer.durable.large_change import LargeChange
from tidemill.renderer.durable.spill_files import ColdBatch, ColdFile, Layout, read_file
from tidemill.renderer.durable.spilled import Cold, ColdStore
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.spark.frames import Frame
from tidemill.renderer.spark.live.incoming import updates_of
from tidemill.renderer.spark.live.large_step import LargeStep
from tidemill.renderer.spark.live.large_upserts import differences, writes_here, writes_in_files
from tidemill.renderer.spark.live.on_disk import read_cold
from tidemill.renderer.spark.live.state_files import written

__all__ = ["LargeWork"]


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
            self._store.spilled(name, self._spines[name])
            added[name] = [attrs.evolve(f, columns=picked) for f in files[source]]
        for name, of_name in added.items():
            if of_name:
                self._add(name, ColdBatch(tuple(of_name)))
        for output in self._compiled.outputs:
            self._show(output, added.get(f"{output.id}/spine", []))

    def overwrite(
        self, node: Input, changes: Sequence[LargeChange], here: UpdateArray | None
    ) -> tuple[Frame | None, Sequence[ColdFile]]:
        """Take in writes to an input with a key; return what they change, and the files it is in.

        Where that is little, None and no files: the driver has it.
        """
        name, operator = f"{node.id}/spine", self._compiled.inputs[node]
        assert isinstance(operator, UpsertInputOperator)
        writes = [writes_in_files(self._spark, self._store, change) for change in changes]
        if here is not None:
            writes.append(writes_here(self._spark, self._compiled, node, here))
        data = differences(node, writes, self._held(name))
        files = self._written(name, [data])
        layout, rows = self._store.colds[name].layout, sum(f.rows for f in files)
        operator.records_in += sum(c.rows for c in changes) + (0 if here is None else here.shape[1])
        if rows <= self._few:
            if rows:
                block = self._block(layout, files)
                operator.rows.append(block)
                operator.inject(block)
            for file in files:
                (self._store.folder / file.name).unlink()
            return None, []
        self._add(name, ColdBatch(tuple(files)))
        width, coordinates = len(node.schema), layout.coordinates
        data = updates_of(read_cold(self._spark, self._store, layout, files), width, coordinates)
        at = {c.time for c in changes} | ({(t,) for t in here[-1].tolist()} if here is not None else set())
        time = at.pop() if len(at) == 1 else None
        return Frame(data, width, coordinates, time, rows, cheap=True, consolidated=True), files

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
        cold = self._store.spilled(name, self._spines[name])
        wanted = [name for name, _ in cold.layout.fields]
        data = functools.reduce(DataFrame.union, frames).select(*wanted)
        return written(self._store, name, data, has_lists=cold.layout.has_lists)

    def _add(self, name: str, batch: ColdBatch) -> None:
        cold = self._store.colds[name]
        self._compiled.schedule.transaction.join(_Added(cold), list(cold.cold_batches))
        cold.add(batch)

    def _show(self, output: Output, files: Sequence[ColdFile]) -> None:
        """Have those who read an output's changes read these: from the disk, where they are many."""
        operator = self._compiled.outputs[output]
        if not files or (output.changes is False and not operator.has_followers):
            return
        if sum(f.rows for f in files) > self._few and not operator.has_followers:
            self.unread[output] = tuple(files)
            return
        cold = self._store.colds[f"{output.id}/spine"]
        operator.publish(self._block(cold.layout, files))

    def _block(self, layout: Layout, files: Sequence[ColdFile]) -> UpdateArray:
        """Return what is in files, got into the driver."""
        tables = [read_file(self._store.folder, layout, f) for f in files]
        return np.concatenate([layout.encoded(t, self._store.interner) for t in tables], axis=1)


class _Added:
    """A batch that was added below a spine, which the step may have to take away again."""

    def __init__(self, cold: Cold) -> None:
        self._cold = cold

    def commit(self) -> None:
        """Keep it. Merging comes when the step is taken: it takes long, and may fail."""

    def rollback(self, state: list[ColdBatch]) -> None:
        """Have there what was there before."""
        self._cold.forget()
        self._cold.cold_batches = state
