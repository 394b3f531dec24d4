"""Changes of outputs on the disk, for subscribers that have not acknowledged them.

Those since the last checkpoint are in the log, in the frames of their steps. A checkpoint, which makes the log anew,
writes what is still wanted of them to a file of its own; such files are merged as they become similar in size, without
what nobody wants any more. So it is one pass over the changes for each doubling, and the files stay few.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from tidemill.boundary.results import Updates
from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.durable.log_reading import Base, Commit, Entry
from tidemill.renderer.durable.output_changes import OutputShapes, StepChanges, array_name
from tidemill.renderer.embedded import array_file
from tidemill.renderer.runs.executor import Cursor

_RATIO: Final = 4
"""A file is merged with the next older one when that has less than this many times its updates."""


@attrs.frozen
class Part:
    """Changes of an output in a step."""

    output: str
    lower: Any
    upper: Any
    rows: int
    packed: Callable[[], Any] = attrs.field(eq=False)

    def in_memory(self) -> Part:
        """Return it with its content read."""
        array = self.packed()
        return attrs.evolve(self, packed=lambda: array)

    def is_wanted(self, readers: Sequence[Antichain]) -> bool:
        """Return whether some of it is beyond where one of these readers is."""
        upper = Antichain(tuple(t) for t in self.upper)
        return any(not reader.dominates(upper) for reader in readers)


class KeptChanges:
    """See `Recorder`. ``entries`` gives what is in the log."""

    def __init__(self, folder: Path, entries: Callable[[], Sequence[Entry]], shapes: OutputShapes) -> None:
        self._folder = folder
        self._entries = entries
        self._shapes = shapes
        self._readers: Callable[[], Mapping[str, Sequence[Antichain]]] = self._named
        self._open: tuple[str, array_file.Arrays, dict[str, Any]] | None = None
        """The file that was read last: subscribers go on in it."""

    @property
    def _last(self) -> Commit:
        return self._entries()[-1].commit

    def cursors(self) -> dict[str, Cursor]:
        """See `Recorder`."""
        return {
            name: Cursor(output, None if upto is None else Antichain(map(tuple, upto)))
            for name, (output, upto) in self._last.cursors.items()
        }

    def started_anew(self, changed: Collection[str]) -> dict[str, tuple[str, Any]]:
        """Return where subscribers are once outputs give something else: those of these begin with all they hold."""
        there = {n: c for n, c in self._last.cursors.items() if c[0] in self._shapes.schemas}
        return {n: (output, None if output in changed else upto) for n, (output, upto) in there.items()}

    def keep_for(self, readers: Callable[[], Mapping[str, Sequence[Antichain]]]) -> None:
        """See `Recorder`."""
        self._readers = readers

    def _named(self) -> dict[str, list[Antichain]]:
        found: dict[str, list[Antichain]] = {}
        for cursor in self.cursors().values():
            if cursor.upto is not None:
                found.setdefault(cursor.output, []).append(cursor.upto)
        return found

    def changes_since(self, output: str, frontier: Antichain, most: int) -> list[Updates]:
        """See `Recorder`."""
        found: list[Updates] = []
        for part in self._parts():
            if sum(map(len, found)) >= most:
                break
            if part.output == output and part.is_wanted([frontier]):
                found.append(self._shapes.updates(output, part.packed(), part.lower, part.upper))
        return found

    def _parts(self) -> Iterator[Part]:
        """Return all there is, oldest first, so that each output's come in their order."""
        entries = self._entries()
        base = entries[0].commit.base
        assert base is not None
        for file in base.kept:
            yield from self._in_file(file)
        for entry in entries[1:]:
            yield from in_frame(entry)

    def _in_file(self, file: Sequence[Any]) -> Iterator[Part]:
        name, checksum, _ = file
        if self._open is None or self._open[0] != name:
            self._close()
            header, arrays = array_file.read(self._folder / name, checksum, later=True)
            self._open = name, arrays, header
        _, arrays, header = self._open
        for i, (output, lower, upper, rows) in enumerate(header["parts"]):
            yield Part(output, lower, upper, rows, partial(arrays.__getitem__, str(i)))

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def carried(self, base: Base, step: StepChanges | None = None) -> tuple[Any, ...]:
        """Write what is wanted of the log, and of the step at hand, to a file; return all files for the next base."""
        readers = self._readers()
        files = [f for f in base.kept if any(p.is_wanted(readers.get(p.output, ())) for p in self._in_file(f))]
        entries = self._entries()[1:]
        new = [p for e in entries for p in in_frame(e) if p.is_wanted(readers.get(p.output, ()))]
        if step is not None:
            listing, arrays = step.record([name for name in readers if name in self._shapes.schemas])
            new += _parts_of(listing, arrays.__getitem__)
        merged, size = new, sum(p.rows for p in new)
        while files and size and files[-1][2] < _RATIO * size:
            merged = [p for p in self._in_file(files.pop()) if p.is_wanted(readers.get(p.output, ()))] + merged
            merged = [p.in_memory() for p in merged]
            size = sum(p.rows for p in merged)
        if not merged:
            return tuple(files)
        name = f"changes-{uuid.uuid4().hex[:16]}"
        header = {"parts": [[p.output, p.lower, p.upper, p.rows] for p in merged]}
        checksum = array_file.write(self._folder / name, header, ((str(i), p.packed()) for i, p in enumerate(merged)))
        return (*files, (name, checksum, size))

    def close(self) -> None:
        """Let go of what is open."""
        self._close()


def in_frame(entry: Entry) -> Iterator[Part]:
    """Return what outputs changed in a step. Its frame is read once, and only if the changes are."""
    frame: list[Any] = []

    def array(name: str) -> Any:
        if not frame:
            frame.append(entry.frame())
        return frame[0].arrays[name]

    return iter(_parts_of(entry.changes, array))


def _parts_of(listing: Mapping[str, Sequence[Any]], array: Callable[[str], Any]) -> list[Part]:
    return [
        Part(output, lower, upper, rows, partial(array, array_name(output, i)))
        for output, parts in listing.items()
        for i, (lower, upper, rows) in enumerate(parts)
    ]
