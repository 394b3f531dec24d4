"""What is in a folder of state, for who only reads it: beside the process whose run it is, and without the dataflow.

The contents of an output are those of the last checkpoint and what its steps since have changed, as it stands in their
frames. Nothing is locked: files that are gone, since there was a checkpoint meanwhile, are looked for anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import numpy as np

from tidemill.boundary.results import Rows, parts_of
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import StateError, UnknownNameError, did_you_mean
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable.kept_changes import in_frame
from tidemill.renderer.durable.last_commit import last_said
from tidemill.renderer.durable.log_reading import Entry, Log, segment_number
from tidemill.renderer.durable.output_changes import OutputShapes
from tidemill.renderer.durable.spill_files import Layout, SpillFile, read_file
from tidemill.renderer.embedded.kernels.codec import Interner, decode, encode
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated
from tidemill.renderer.embedded.state import Saved, read

T = TypeVar("T")
_TRIES: Final = 5
"""How often files that cannot be read are looked at, where nothing else in the folder changes."""
_PAUSE: Final = 0.02


@attrs.define
class _Contents:
    """The contents of an output after some step, as codes of an interner: the rows, and how often each is there."""

    rows: UpdateArray
    interner: Interner
    number: int
    """The last commit that is in it."""
    step: int


class ReadState:
    """The outputs in a folder of state, as of the last step that was taken: `tm.read_state` makes it.

    Each call looks for new steps. What was read of an output is kept, so the next look at it costs what has changed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._state: str | None = None
        """What tells the state from all others."""
        self._log = Log([], 0, 0)
        self._saved: tuple[bytes, Saved] | None = None
        """The checkpoint, by the digest of its commit, while outputs are read from it."""
        self._contents: dict[str, _Contents] = {}
        self._looking(lambda: None)

    # -- for users --------------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> list[str]:
        """The outputs' names."""
        return self._looking(lambda: list(self._shapes.schemas))

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return self._looking(lambda: self._entries[-1].commit.step)

    def frontier(self, name: str) -> Antichain:
        """Return up to where an output is complete: what is not beyond it is final."""
        return self._looking(lambda: self._frontier(name))

    def snapshot(self, name: str) -> Rows:
        """Return what an output holds after the last step: of times with several coordinates, of all complete ones."""
        return self._looking(lambda: self._rows(name))

    def snapshots(self, *names: str) -> dict[str, Rows]:
        """Return what several outputs hold, all if none is named, after one and the same step."""
        return self._looking(lambda: {name: self._rows(name) for name in names or self._shapes.schemas})

    def __repr__(self) -> str:
        entries = self._entries
        return f"ReadState({str(self._folder)!r}, seen after step {entries[-1].commit.step})"

    # -- how it is done ---------------------------------------------------------------------------------------------

    @property
    def _shapes(self) -> OutputShapes:
        base = self._entries[0].commit.base
        assert base is not None
        if base.outputs is None:
            msg = (
                f"{self._folder} was written by a tidemill that does not say what its outputs are: start its flow on "
                "it once, and call run.checkpoint()"
            )
            raise StateError(msg)
        return OutputShapes.read(base.outputs)

    def _looking(self, read_it: Callable[[], T]) -> T:
        """Return what is read after a look at the folder; tried again while the folder changes under it."""
        tries, seen = 0, None
        with self._lock:
            while True:
                before = self._names()
                try:
                    self._look()
                    return read_it()
                except (StateError, OSError):
                    tries = tries + 1 if before == seen else 1
                    if tries == _TRIES and before == self._names():
                        raise
                    seen = before
                    self._entries = []
                    time.sleep(_PAUSE)

    def _names(self) -> list[str]:
        return sorted(name for name in os.listdir(self._folder) if name.startswith(("log-", "checkpoint-")))  # noqa: PTH208 - hot

    def _look(self) -> None:
        """Have all commits up to the last one whose process knew that it was on the disk."""
        numbers = [n for name in os.listdir(self._folder) if (n := segment_number(name)) is not None]  # noqa: PTH208
        if not numbers:
            msg = f"{self._folder} holds no state: expected the folder of a run, as in tm.Embedded(state=...)"
            raise StateError(msg)
        last, digest = last_said(self._folder)
        if not self._entries or self._log.segments != max(numbers) or self._is_another(last, digest):
            self._log = Log.read(self._folder)
            base = self._log.entries[0].commit.base if self._log.entries else None
            state, self._state = self._state, None if base is None else base.id
            if state != self._state:  # another one was begun here
                self._contents.clear()
        elif last is None or last > self._log.entries[-1].commit.number:
            self._log = self._log.grown(self._folder)
        known = [e for e in self._log.entries if last is None or e.commit.number <= last]
        self._entries = known or self._log.entries[:1]  # whole, and nobody said so before a crash

    def _is_another(self, last: int | None, digest: str) -> bool:
        """Return whether the last commit is not what was read under its number."""
        return any(e.commit.number == last and e.digest.hex() != digest for e in self._entries[-1:])

    def _frontier(self, name: str) -> Antichain:
        self._schema(name)
        for entry in reversed(self._entries):
            if name in entry.upto:
                return Antichain(map(tuple, entry.upto[name]))
        saved = self._checkpoint()
        if saved is None or "upto" not in saved.header:
            return Antichain.minimum(len(self._shapes.coordinates))
        return Antichain(map(tuple, saved.header["upto"][name]))

    def _schema(self, name: str) -> Schema:
        schemas = self._shapes.schemas
        if name not in schemas:
            msg = f"no output {name!r}: {did_you_mean(name, schemas)}"
            raise UnknownNameError(msg)
        return schemas[name]

    def _rows(self, name: str) -> Rows:
        schema = self._schema(name)
        contents = self._up_to_date(name, schema)
        columns = decode(schema, contents.rows[:-1], contents.interner)
        frontier = self._frontier(name).elements
        at = (frontier[0][0] - 1,) if frontier and len(frontier[0]) == 1 and frontier[0][0] else None
        return Rows(schema, columns, contents.rows[-1], at)

    def _up_to_date(self, name: str, schema: Schema) -> _Contents:
        first, last = self._entries[0].commit, self._entries[-1].commit
        contents = self._contents.get(name)
        if contents is None or (contents.number < first.number > 0 and contents.step != first.step):
            contents = self._from_checkpoint(name, schema)
        shapes, blocks = self._shapes, [contents.rows]
        for entry in self._entries:
            if entry.commit.number > contents.number:
                for part in in_frame(entry):
                    if part.output == name:
                        found = shapes.updates(name, part.packed(), part.lower, part.upper)
                        table, _, diffs = parts_of(found)
                        block = encode(schema, table, contents.interner, more_rows=1)
                        block[-1] = diffs
                        blocks.append(block)
        rows = contents.rows if len(blocks) == 1 else consolidated(np.concatenate(blocks, axis=1))
        self._contents[name] = _Contents(rows, contents.interner, last.number, last.step)
        return self._contents[name]

    def _from_checkpoint(self, name: str, schema: Schema) -> _Contents:
        first, saved = self._entries[0].commit, self._checkpoint()
        if saved is None or not first.step:  # what constants came to is among the changes of the first step
            return _Contents(np.empty((len(schema) + 1, 0), np.int64), Interner(), first.number, first.step)
        interner, place, k = saved.interner(), saved.header["outputs"][name], len(schema)
        held = saved.of_operator(place)
        blocks = [held["spine"]] if "spine" in held else []
        blocks += self._spilled(saved.header["cold"].get(f"{place}/spine", ()), schema, interner)
        whole = np.concatenate(blocks, axis=1) if blocks else np.empty((k + 1, 0), np.int64)
        return _Contents(consolidated(np.concatenate((whole[:k], whole[-1:]))), interner, first.number, first.step)

    def _spilled(self, batches: Iterable[Any], schema: Schema, interner: Interner) -> Sequence[UpdateArray]:
        users = len(self._shapes.coordinates)
        layout = Layout(tuple(range(len(schema))), schema.dtypes, users, users, 1)
        files = [SpillFile.listed(file) for batch in batches for file in batch]
        return [layout.encoded(read_file(self._folder / "cold", layout, file), interner) for file in files]

    def _checkpoint(self) -> Saved | None:
        first = self._entries[0]
        base = first.commit.base
        assert base is not None
        if base.file is None:
            return None
        if self._saved is None or self._saved[0] != first.digest:
            self._saved = first.digest, read(self._folder / base.file, base.checksum, later=True)
        return self._saved[1]
