"""Checkpoints: the state between two steps in a file, but for what is in files of checkpoints before.

Batches are immutable, so one that was written once need not be written again: a checkpoint says in which file it is. A
spine is settled first: all that no file has becomes one batch, merged with those that are stored where these have
hardly more updates, as the spine itself would merge them. So a checkpoint costs what has changed, and an update is
written O(log n) times. The same goes for interned values, as long as none of their numbers were given to others.

A file of before of which less than half is in use, and the smallest of many files, are let go of: what is in use of
them is written anew. So there are at most `_FILES` of them, no larger than twice what they hold that is in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tidemill.renderer.embedded import array_file
from tidemill.renderer.embedded.array_file import Member
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.interner import Piece
from tidemill.renderer.embedded.kernels.updates import stacked
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.embedded.state import INTERNED, dump_interned, dump_waiting, header_of, operators_of
from tidemill.renderer.embedded.trace.batch import Batch
from tidemill.renderer.embedded.trace.spine import Spine

LEAST: Final = 1 << 14
"""Updates, or interned values, of a piece that is worth being apart from what comes later."""
_FILES: Final = 16
_RATIO: Final = 4
"""Values are written as another piece if there are this many times as many before them."""


@attrs.define
class Checkpoint:
    """What a checkpoint has written, and where else is what it refers to."""

    path: Path
    checksum: str = ""
    elsewhere: dict[str, Member] = attrs.field(factory=dict)
    """Arrays in other files, by their names here."""
    _batches: list[tuple[Batch, str]] = attrs.field(factory=list)
    _values: int = 0
    """How many values are in the piece of interned ones that was written."""
    _pieces: tuple[Piece, ...] = ()

    @property
    def others(self) -> list[str]:
        """The files of before that it refers to."""
        return sorted({member.file for member in self.elsewhere.values()})

    @classmethod
    def write(
        cls, compiled: Compiled, path: Path, header: Mapping[str, Any], spilled: Mapping[str, Any], large: Sequence[Any]
    ) -> Checkpoint:
        """Write the state between two steps, or as a step leaves it, to a file, atomically.

        ``header`` says where the run is, ``spilled`` and ``large`` where the rest of its state is.
        """
        made = cls(path)
        kept = _worth_keeping(compiled, path.parent)
        whole = header_of(compiled, header, spilled=spilled, large=large)
        made.checksum = array_file.write(path, whole, made._arrays(compiled, kept), made.elsewhere)
        return made

    def _arrays(self, compiled: Compiled, kept: set[str]) -> Iterator[tuple[str, Any]]:
        """Iterate over the arrays to be written, of one operator after the other."""
        for operator in operators_of(compiled.root):
            for name, spine in operator.spines().items():
                yield from self._of_spine(f"operators/{operator.place}/{name}", spine, kept)
            for name, array in dump_waiting(operator).items():
                yield f"operators/{operator.place}/{name}", array
        yield from self._of_interned(compiled, kept)

    def _of_spine(self, name: str, spine: Spine, kept: set[str]) -> Iterator[tuple[str, Any]]:
        for i, batch in enumerate(spine.view.batches, 1):
            key = f"{name}@{i}"
            if batch.stored is not None and batch.stored.file in kept:
                self.elsewhere[key] = batch.stored
            else:
                yield key, batch.updates
                self._batches.append((batch, key))
        rest = stacked(list(spine.arrays_beside()))
        if rest.shape[1]:
            yield name, rest

    def _of_interned(self, compiled: Compiled, kept: set[str]) -> Iterator[tuple[str, Any]]:
        interner, pieces = compiled.interner, compiled.interner.pieces
        if not all(member.file in kept for piece in pieces for member in piece.members):
            pieces = ()
        stored = sum(piece.count for piece in pieces)
        if interner.is_loaded or not pieces:
            self._values = len(interner) - stored
            if self._values * _RATIO > stored:
                pieces, stored, self._values = (), 0, len(interner)
        for i, piece in enumerate(pieces):
            self.elsewhere |= {f"interned/{name}@{i}": m for name, m in zip(INTERNED, piece.members, strict=True)}
        self._pieces = pieces
        if self._values:
            for name, array in dump_interned(interner.values()[stored:]).items():
                yield f"interned/{name}", array

    def committed(self, compiled: Compiled) -> None:
        """Take note that it is what there is after a crash: the next one may refer to what it has written."""
        for batch, name in self._batches:
            batch.stored = self._member(name, batch.size)
        members = tuple(self._member(f"interned/{name}", self._values) for name in INTERNED)
        new = (Piece(self._values, members),) if self._values >= LEAST else ()
        compiled.interner.keep_stored((*self._pieces, *new))

    def _member(self, name: str, columns: int) -> Member:
        return Member(self.path.name, self.checksum, name, columns)


def settle(compiled: Compiled) -> None:
    """Merge what no file has, for the next checkpoint to be small."""
    for _, spine in _spines(compiled):
        spine.settle(LEAST)


def unstored(compiled: Compiled) -> int:
    """Return how many updates a checkpoint would write, about."""
    return sum(spine.unstored for _, spine in _spines(compiled))


def _spines(compiled: Compiled) -> Iterator[tuple[Operator, Spine]]:
    return ((operator, s) for operator in operators_of(compiled.root) for s in operator.spines().values())


def _worth_keeping(compiled: Compiled, folder: Path) -> set[str]:
    """Return the files that go on being referred to."""
    used = Counter[str]()
    for _, spine in _spines(compiled):
        for batch in spine.view.batches:
            if batch.stored is not None:
                used[batch.stored.file] += 8 * spine.layout.rows * batch.size
    for piece in compiled.interner.pieces:
        for name, member in zip(INTERNED, piece.members, strict=True):
            used[member.file] += member.columns * (8 if name == "lengths" else 1)
    there = {name for name in used if (folder / name).exists()}
    half = [name for name in there if 2 * used[name] >= (folder / name).stat().st_size]
    return set(sorted(half, key=lambda name: -used[name])[:_FILES])
