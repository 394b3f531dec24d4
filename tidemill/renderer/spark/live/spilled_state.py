"""The arrangements of a live run on the disk: executors read it, and a step adds what they write."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from pyspark.sql import DataFrame, SparkSession

from tidemill.dataflow.nodes import Node
from tidemill.renderer.durable.spill_files import SpilledBatch, SpillFile, read_file
from tidemill.renderer.durable.spilled import SpilledSpine, SpillFolder
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.spark.large_windows import LargestPartition
from tidemill.renderer.spark.live.state_files import read_files, write_files


@attrs.frozen(eq=False)
class SpilledState:
    """The spilled batches of a run's spines, by the spines' names. What a step adds is gone if it is rolled back."""

    spark: SparkSession
    compiled: Compiled
    store: SpillFolder
    spines: Mapping[str, Spine]
    in_driver: int
    """How many rows are worth computing in the driver, at most."""
    largest: defaultdict[Node, LargestPartition]
    """How large the partitions of windows are, which is remembered from step to step."""

    def spilled(self, name: str) -> SpilledSpine:
        """Return the spilled updates of a spine."""
        return self.store.beneath(name, self.spines[name])

    def read(self, name: str, ranges: Sequence[Range] | None = None) -> DataFrame | None:
        """Return the contents of an arrangement, all spilled before: values ``v0``, times ``t0``, weights ``w0``.

        Of one that lies in order, with ``ranges``, what may be in these: pages without any are not read.
        """
        if self.spines[name].in_memory:
            self.store.spill(name, self.spines[name])
        spilled = self.store.spilled.get(name)
        files = [] if spilled is None else [f for batch in spilled.spilled_batches for f in batch.files]
        return self.read_files(name, files, ranges) if files else None

    def rows(self, name: str) -> int:
        """Return how many updates an arrangement holds below."""
        spilled = self.store.spilled.get(name)
        return 0 if spilled is None else sum(f.rows for batch in spilled.spilled_batches for f in batch.files)

    def read_files(self, name: str, files: Sequence[SpillFile], ranges: Sequence[Range] | None = None) -> DataFrame:
        """Return the contents of an arrangement's files, as they are on the disk; with ``ranges``, as `read` does."""
        return read_files(self.spark, self.store, self.spilled(name).layout, files, ranges)

    def block(self, name: str, files: Sequence[SpillFile]) -> UpdateArray:
        """Return the contents of an arrangement's files, collected on the driver."""
        layout = self.spilled(name).layout
        tables = [read_file(self.store.folder, layout, f) for f in files]
        return np.concatenate([layout.encoded(t, self.store.interner) for t in tables], axis=1)

    def write(self, name: str, frames: Sequence[DataFrame]) -> list[SpillFile]:
        """Write updates of an arrangement, which does not hold them yet, and return the files."""
        layout = self.spilled(name).layout
        data = functools.reduce(DataFrame.union, frames).select(*(column for column, _ in layout.fields))
        return write_files(self.store, name, data, has_lists=layout.has_lists)

    def add(self, name: str, files: Sequence[SpillFile]) -> None:
        """Have an arrangement hold what files hold."""
        spilled = self.spilled(name)
        self.compiled.schedule.transaction.join(_Addition(spilled), list(spilled.spilled_batches))
        spilled.add(SpilledBatch(tuple(files)))


class _Addition:
    """A batch that was added below a spine, which the step may have to take away again."""

    def __init__(self, spilled: SpilledSpine) -> None:
        self._spilled = spilled

    def commit(self) -> None:
        """Keep it. Merging comes when the step is taken: it takes long, and may fail."""

    def rollback(self, state: list[SpilledBatch]) -> None:
        """Have there what was there before."""
        self._spilled.forget()
        self._spilled.spilled_batches = state
