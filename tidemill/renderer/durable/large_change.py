"""Large changes that wait for their time in files, and are part of a run's state there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Input
from tidemill.renderer.durable.spill_files import ColdFile, Layout, read_file
from tidemill.renderer.runs.run import Queued
from tidemill.renderer.runs.writes import Writes

__all__ = ["LargeChange"]


@attrs.frozen(eq=False)
class LargeChange:
    """Checked updates, all put into an input at one time with one diff, in files of our own."""

    node: Input
    time: Time
    diff: int
    files: tuple[ColdFile, ...]
    unread: tuple[int, ...]
    """The columns that no operator reads: they are NULL here. Of keys to delete, all others."""
    number: int = 0
    """Of an input with a key: which of several writes to one key at one time is the last, that with the greatest."""

    @classmethod
    def of(cls, listing: Mapping[str, Any], inputs: Mapping[str, Input]) -> LargeChange:
        """Return what was written down."""
        time, diff, unread = tuple(listing["time"]), listing["diff"], tuple(listing["unread"])
        files = (ColdFile(name, rows, sorted=False) for name, rows in listing["files"])
        change = cls.in_files(inputs[listing["input"]], time, diff, files, unread)
        return attrs.evolve(change, number=listing["number"])

    @classmethod
    def in_files(
        cls, node: Input, time: Time, diff: int, files: Iterable[ColdFile], unread: tuple[int, ...]
    ) -> LargeChange:
        """Return rows that are in files of their values alone, without those that are not read."""
        constants = (*((f"v{i}", None) for i in unread), *((f"t{i}", c) for i, c in enumerate(time)), ("w0", diff))
        return cls(node, time, diff, tuple(attrs.evolve(f, constants=constants) for f in files), unread)

    def listing(self) -> dict[str, Any]:
        """Return what is to be written down."""
        files = [[f.name, f.rows] for f in self.files]
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
            return Writes(table, [], True, self.time)
        return Writes([], table.select(list(self.node.key)), False, self.time)

    def _table(self, folder: Path) -> pa.Table:
        table = pa.concat_tables([read_file(folder, self.layout, f) for f in self.files])
        schema = self.node.schema
        columns = [table.column(f"v{i}").cast(f.dtype.arrow) for i, f in enumerate(schema)]
        return pa.Table.from_arrays(columns, names=list(schema.names))
