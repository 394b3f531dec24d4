"""Inputs with a key: the last write in an epoch wins, and becomes the difference from what was there."""

from __future__ import annotations

from typing import Any, TypeAlias

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input
from tidemill.renderer.runs.writes import Queued, Writes

Row = tuple[Any, ...]
Writing: TypeAlias = "dict[Time, dict[Row, Row | None]]"
"""The row that is written to each key at each time; None where it is deleted, of no columns, `_ALL`, where all are."""
_ALL: Row = ()


class Upserts:
    """The current row of each key of an input, and the writes of times not closed yet. Times are of one coordinate."""

    def __init__(self, node: Input) -> None:
        self._node = node
        self._rows: dict[Row, Row] = {}
        self._writes: Writing = {}
        self._resolved: tuple[list[Time], dict[Row, Row | None]] = ([], {})

    def write(self, writes: Writes) -> None:
        """Take checked writes. Of one key the last stays, of those before the input is emptied none."""
        for time, key, row in writes.listed(self._node.key):
            if key is None:
                self._writes[time] = {_ALL: None}
            else:
                self._writes.setdefault(time, {})[key] = row

    def resolve(self, frontier: Antichain) -> Queued:
        """Return the differences that the writes of the times now closing make; kept only when `commit` follows."""
        times = sorted(t for t in self._writes if not frontier.beyond(t))
        changed: dict[Row, Row | None] = {}
        rows: list[Row] = []
        at: list[Time] = []
        diffs: list[int] = []
        for time in times:
            written = self._writes[time]
            if _ALL in written:
                written = {**dict.fromkeys([*self._rows, *changed]), **written}
                del written[_ALL]
            for key, row in written.items():
                old = changed[key] if key in changed else self._rows.get(key)
                if old == row:
                    continue
                for one, diff in ((old, -1), (row, 1)):
                    if one is not None:
                        rows.append(one)
                        at.append(time)
                        diffs.append(diff)
                changed[key] = row
        self._resolved = (times, changed)
        return Queued(rows, at, diffs)

    def commit(self) -> None:
        """Make what was last resolved the current rows: the step was taken."""
        times, changed = self._resolved
        for time in times:
            del self._writes[time]
        for key, row in changed.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        self._resolved = ([], {})

    def queued(self) -> Writing:
        """Return the writes of times not closed yet."""
        return {time: dict(writes) for time, writes in self._writes.items()}

    def requeue(self, queued: Writing) -> None:
        """Have these writes of times not closed yet."""
        self._writes = queued

    def discard(self) -> None:
        """Forget the writes of times not closed yet."""
        self._writes.clear()
        self._resolved = ([], {})
