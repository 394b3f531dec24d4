"""Large changes that are queued in files until their times close, and are part of a run's state there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input
from tidemill.errors import StateError
from tidemill.renderer.durable.spill_files import Layout, SpillFile, read_file
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.runs.writes import DELETE, PUT, Queued, Writes


@attrs.frozen(eq=False)
class LargeChange:
    """Checked updates, all put into an input at one time with one diff, in files of our own."""

    node: Input
    time: Time
    diff: int
    files: tuple[SpillFile, ...]
    unread: tuple[int, ...]
    """The columns that no operator reads: they are NULL here. Of keys to delete, all others."""
    number: int = 0
    """Of an input with a key: which of several writes to one key at one time is the last, that with the greatest."""

    @classmethod
    def of(cls, listing: Mapping[str, Any], inputs: Mapping[str, Input]) -> LargeChange:
        """Return what was written down."""
        files, node = map(SpillFile.listed, listing["files"]), inputs[listing["input"]]
        change = cls.in_files(node, tuple(listing["time"]), listing["diff"], files, tuple(listing["unread"]))
        return attrs.evolve(change, number=listing["number"])

    @classmethod
    def in_files(
        cls, node: Input, time: Time, diff: int, files: Iterable[SpillFile], unread: tuple[int, ...]
    ) -> LargeChange:
        """Return rows that are in files of their values alone, without those that are not read."""
        constants = (*((f"v{i}", None) for i in unread), *((f"t{i}", c) for i, c in enumerate(time)), ("w0", diff))
        return cls(node, time, diff, tuple(attrs.evolve(f, constants=constants) for f in files), unread)

    def listing(self) -> dict[str, Any]:
        """Return what is to be written down."""
        files = [attrs.evolve(f, constants=()).listing() for f in self.files]  # which are given again
        return {
            "input": self.node.name,
            "time": self.time,
            "diff": self.diff,
            "files": files,
            "unread": self.unread,
            "number": self.number,
        }

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    def __len__(self) -> int:
        return self.rows

    @property
    def layout(self) -> Layout:
        """What updates in the files look like."""
        types = tuple(f.dtype for f in self.node.schema)
        return Layout((), types, len(self.time), len(self.time), 1)

    def queued(self, folder: Path) -> Queued:
        """Return them in memory."""
        return Queued(self._table(folder), self.time, self.diff)

    def writes(self, folder: Path) -> Writes:
        """Return them in memory, as those to an input with a key."""
        table = self._table(folder)
        if self.diff > 0:
            return Writes(table, [], PUT, self.time)
        return Writes([], table.select(list(self.node.key)), DELETE, self.time)

    def _table(self, folder: Path) -> pa.Table:
        table = pa.concat_tables([read_file(folder, self.layout, f) for f in self.files])
        schema = self.node.schema
        columns = [table.column(f"v{i}").cast(f.dtype.arrow) for i, f in enumerate(schema)]
        return pa.Table.from_arrays(columns, names=list(schema.names))


class LargeChanges:
    """Those that no step has taken yet, and those that the step at hand takes."""

    def __init__(self, executor: EmbeddedExecutor, store: SpillFolder) -> None:
        self.pending: list[LargeChange] = []
        self.taken: list[LargeChange] = []
        """Pending ones that the step at hand takes."""
        self._executor = executor
        self._store = store
        self._logged: list[str] = []
        """Files that the log refers to since its base: they stay, whether or not a step took them."""

    def queue(self, change: LargeChange) -> None:
        """Take a large change at an open time."""
        if change.node.key:
            change = attrs.evolve(change, number=self._executor.keyed_input(change.node).number())
        self._hold(change)

    def _hold(self, change: LargeChange) -> None:
        self.pending.append(change)
        names = [f.name for f in change.files]
        self._logged += names
        self._store.pin(names)

    def discard(self) -> None:
        """Forget those that are pending."""
        self.pending = []

    def due(self, frontiers: Mapping[Input, Antichain]) -> list[LargeChange]:
        """Return those whose times are closed at these frontiers."""
        return [c for c in self.pending if not frontiers[c.node].beyond(c.time)]

    def bring_in(self, changes: Sequence[LargeChange]) -> None:
        """Queue changes in memory, as others are."""
        folder = self._store.folder
        for change in changes:
            if change.node.key:
                self._executor.keyed_input(change.node).write(change.writes(folder), change.number)
            else:
                self._executor.queue(change.node, change.queued(folder))
            self.pending.remove(change)

    @property
    def remaining(self) -> list[LargeChange]:
        """Those that are pending when the step at hand is taken."""
        return [c for c in self.pending if c not in self.taken]

    def commit(self) -> None:
        """Take note that the step at hand was taken."""
        self.pending, self.taken = self.remaining, []

    def rollback(self) -> None:
        """Have pending what the step at hand did not take after all."""
        self.taken = []

    def checkpointed(self) -> None:
        """Let go of files that only the log referred to."""
        self._store.unpin(self._logged)
        self._logged = [f.name for change in self.pending for f in change.files]
        self._store.pin(self._logged)

    def listing(self) -> list[dict[str, Any]]:
        """Return what a checkpoint has to say of those that remain."""
        return [change.listing() for change in self.remaining]

    def restore(self, listing: Iterable[Mapping[str, Any]], inputs: Mapping[str, Input]) -> None:
        """Have pending what a checkpoint listed."""
        for one in listing:
            change = LargeChange.of(one, inputs)
            self._hold(change)
            if change.node.key:
                self._executor.keyed_input(change.node).number_after(change.number)

    def require_flushed(self) -> None:
        """Return when all files of the run are on the disk; `StateError` where those of a pending change may not be."""
        error = None
        try:
            self._store.flushed()
        except OSError as found:
            error = found
        lost = {c.node.name for c in self.pending if self._store.doubtful.intersection(f.name for f in c.files)}
        if lost:
            msg = (
                f"a large change of {', '.join(map(repr, sorted(lost)))} may not be on the disk, which could not write "
                "it: run.discard() what is queued, and put it in again"
            )
            raise StateError(msg) from error
        if error is not None:
            raise error
