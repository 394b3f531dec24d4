"""Saved runs, to be gone on with later: all spines, pending updates, timers, and the interned values."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import value_array
from tidemill.dataflow.fingerprint import describe, difference, require_same_functions
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.errors import StateError
from tidemill.renderer.embedded import array_file as container
from tidemill.renderer.embedded.array_file import Member
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.interner import Interner, Piece
from tidemill.renderer.embedded.kernels.updates import UpdateArray, stacked
from tidemill.renderer.embedded.operators.input_output import OutputOperator
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs.frontiers import Frontiers

Stored: TypeAlias = "tuple[int, Callable[[], UpdateArray], Member | None]"
"""How many updates there are, what reads them, and the array of a file that they are."""
_UNREAD: Final = "unread"
INTERNED: Final = ("kinds", "lengths", "bytes")
"""The arrays of interned values: a letter for the kind of each, the lengths of texts or bytes, and these."""
_KINDS: Final[dict[str, type]] = {"s": str, "b": bytes, "i": int, "l": tuple, "-": type(None)}


def save(compiled: Compiled, path: Path, header: Mapping[str, Any]) -> None:
    """Write all of the state between two steps to a file, atomically; ``header`` says where the run is."""
    container.write(path, header_of(compiled, header), _arrays(compiled))


def header_of(
    compiled: Compiled,
    header: Mapping[str, Any],
    *,
    spilled: Mapping[str, Any] | None = None,
    large: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return what is said of the state, beside where the run is; ``spilled`` and ``large`` say where some of it is."""
    rows = {str(o.place): size for o in operators_of(compiled.root) if (size := o.state_rows)}
    kept_since = compiled.schedule.kept_since
    return {
        "graph": describe(compiled.graph),
        **header,
        "cold": spilled or {},
        "large": large,
        "rows": rows,
        "kept_since": None if kept_since is None else kept_since.elements,
        "room": compiled.interner.room,
    }


def read(path: Path, checksum: str | None = None, *, later: bool = False) -> Saved:
    """Return the run saved to a file; `StateError` where it is damaged, none of ours, or has another checksum.

    With ``later`` arrangements and interned values are read, and checked, when they are first looked at.
    """
    return Saved(path, *container.read(path, checksum, later=later), later)


@attrs.frozen
class Saved:
    """State that was saved to a file, and is to be gone on from."""

    path: Path
    header: dict[str, Any]
    arrays: container.Arrays
    later: bool = False

    @property
    def steps(self) -> int:
        """How many had been taken."""
        return int(self.header.get("steps", 0))

    @property
    def sources(self) -> Mapping[str, int]:
        """The last batch of each source that had been taken."""
        found: dict[str, int] = self.header.get("sources", {})
        return found

    def restore(self, compiled: Compiled, frontiers: Frontiers, make_room: Callable[[], object] | None = None) -> None:
        """Bring operators that were just made, of the same graph, to this state, and frontiers to where it is.

        ``make_room`` is called after each of them, where not all of it is to be in memory.
        """
        said = self.header["graph"]  # of a folder the log has said it
        different = None if self.later else difference(said, describe(compiled.graph))
        if different is not None:
            msg = (
                f"{self.path} was saved by another dataflow: {different}; load it with the flow it was made with, and "
                "with why=True if that run was started so"
            )
            raise StateError(msg)
        if "functions" in self.header:  # a folder's are in its log
            require_same_functions(self.header["functions"], compiled.graph, str(self.path), "start a new run")
        frontiers.restore(self.header)
        self.place(compiled, frontiers)
        self.fill(compiled, lambda place: place, make_room)
        if not self.later:
            self.arrays.close()

    def fill(
        self,
        compiled: Compiled,
        place_of: Callable[[str], str | None],
        make_room: Callable[[], object] | None = None,
    ) -> None:
        """Give operators what was saved of those whose places are said for theirs; nothing where that is None."""
        names = _names_by_owner(self.arrays)
        compiled.interner.load_later(self._load_interned)
        if self.later:
            compiled.interner.keep_stored(tuple(self._pieces()))
            compiled.interner.room = self.header.get("room")  # else what each run lets lie would pile up
        else:
            compiled.interner.load()
        for operator in operators_of(compiled.root):
            owned = names[f"operators/{place_of(str(operator.place))}"]
            load_operator(operator, self._stored(owned), later=self.later)
            if make_room is not None:
                make_room()

    def interner(self) -> Interner:
        """Return the interned values."""
        interner = Interner()
        self._load_interned(interner)
        return interner

    def _load_interned(self, interner: Interner) -> None:
        for names in self._interned():
            _load_interned(interner, {name: self.arrays[key] for name, key in zip(INTERNED, names, strict=True)})

    def _interned(self) -> list[list[str]]:
        """Return the names of the arrays of each piece of the interned values, the first ones first."""
        ends = [
            *itertools.takewhile(self._has_piece, (f"@{i}" for i in itertools.count())),
            *filter(self._has_piece, ("",)),
        ]
        return [[f"interned/{name}{end}" for name in INTERNED] for end in ends]

    def _has_piece(self, end: str) -> bool:
        return f"interned/{INTERNED[0]}{end}" in self.arrays

    def _pieces(self) -> Iterator[Piece]:
        for names in self._interned():
            members = tuple(map(self.arrays.member, names))
            yield Piece(members[0].columns, members)

    def _stored(self, names: Iterable[tuple[str, str]]) -> dict[str, list[Stored]]:
        """Return the arrays of an operator by name: of an arrangement there may be several."""
        found = defaultdict[str, "list[Stored]"](list)
        for name, key in names:
            read, member = partial(self.arrays.__getitem__, key), self.arrays.member(key)
            found[name.partition("@")[0]].append((member.columns, read, member if self.later else None))
        return found

    def place(self, compiled: Compiled, frontiers: Frontiers, needed: Mapping[Input, Antichain] | None = None) -> None:
        """Bring operators to where frontiers are that were restored from the header, without what they hold."""
        for frontier, upper in compiled.uppers(dict(frontiers.needed if needed is None else needed)).items():
            frontier.upper = frontier.lower = upper
        for output, outlet in compiled.outputs.items():
            outlet.readers_since = frontiers.since[output]
        if compiled.holders and self.header.get("kept_since") is not None:
            compiled.schedule.kept_since = Antichain(map(tuple, self.header["kept_since"]))

    def of_operator(self, place: str) -> dict[str, UpdateArray]:
        """Return the saved arrays of the operator at a place, in memory then."""
        stored = self._stored(_names_by_owner(self.arrays)[f"operators/{place}"])
        return {name: _together(found) for name, found in stored.items()}


def kept_otherwise(what: str) -> StateError:
    """Return the error of state that this engine's operators do not have."""
    msg = f"{what} is in the state, and this engine keeps none: go on with the engine that it was saved by"
    return StateError(msg)


def spines_of(compiled: Compiled) -> dict[str, tuple[Operator, Spine]]:
    """Return all arrangements, and whose they are, by names that stay."""
    operators = list(operators_of(compiled.root))
    return {f"{o.place}/{name}": (o, spine) for o in operators for name, spine in o.spines().items()}


def operators_of(region: Region) -> Iterator[Operator]:
    """Return all operators of a region and those inside it, in order."""
    for place in sorted(region.items):
        item = region.items[place]
        if isinstance(item, Operator):
            yield item
        else:
            yield from operators_of(item)


def _arrays(compiled: Compiled) -> Iterator[tuple[str, Any]]:
    """Iterate over the arrays to be written, of one operator after the other: they need not all be in memory."""
    for operator in operators_of(compiled.root):
        for name, array in dump_operator(operator, whole=True).items():
            yield f"operators/{operator.place}/{name}", array
    for name, array in dump_interned(compiled.interner.values()).items():
        yield f"interned/{name}", array


def dump_operator(operator: Operator, *, whole: bool) -> dict[str, UpdateArray]:
    """Return the state of an operator. Changes that were not read are in the whole alone: folders' runs begin anew."""
    found = {name: s.all_updates() if whole else s.updates_in_memory() for name, s in operator.spines().items()}
    found |= dump_waiting(operator)
    if whole and isinstance(operator, OutputOperator):
        found[_UNREAD] = operator.unread_updates()
    return {name: block for name, block in found.items() if block.shape[1]}


def dump_waiting(operator: Operator) -> dict[str, UpdateArray]:
    """Return the updates that wait at an operator's ports."""
    found = dict[str, UpdateArray]()
    for i, port in enumerate(operator.ports):
        if port.pending:
            port.pending.widen()
            found[f"port{i}"] = stacked(port.pending.arrays())
    return {name: block for name, block in found.items() if block.shape[1]}


def in_memory(blocks: Mapping[str, UpdateArray]) -> dict[str, list[Stored]]:
    """Return the arrays of `dump_operator` in the form that `load_operator` takes."""
    return {name: [(block.shape[1], partial(lambda block: block, block), None)] for name, block in blocks.items()}


def load_operator(operator: Operator, saved: Mapping[str, Sequence[Stored]], *, later: bool = False) -> None:
    """Give an operator that was just made what `dump_operator` returned of it; ``later`` reads it when looked at."""
    spines = operator.spines()
    for name in saved:
        if name not in spines and not name.startswith("port") and name != _UNREAD:
            raise kept_otherwise(f"{operator.node.where}: {name}")
    for name, store in spines.items():
        if name in saved and later:
            store.refill_later(saved[name])
        elif name in saved:
            store.refill(_together(saved[name]))
        else:  # what constants evaluated to when the run was started is below, or was nothing
            store.evict()
    for i, port in enumerate(operator.ports):
        port.refill(_copied(saved, f"port{i}"))
    if isinstance(operator, OutputOperator):
        operator.forget_unread(_copied(saved, _UNREAD))
    operator.drop_derived()


def _together(stored: Sequence[Stored]) -> UpdateArray:
    """Return updates that may be in several arrays as one."""
    return stacked([read() for _, read, _ in stored])


def _copied(saved: Mapping[str, Sequence[Stored]], name: str) -> UpdateArray | None:
    """Return what may be written to."""
    return _together(saved[name]).copy() if name in saved else None


def dump_interned(values: Sequence[Any]) -> dict[str, Any]:
    """Return interned values: a letter for the kind of each, and its text or bytes, end to end (see `INTERNED`)."""
    if (texts := _ends_and_content(values)) is not None:  # as mostly
        return {"kinds": np.full(len(values), ord("s"), np.uint8), "lengths": np.diff(texts[0]), "bytes": texts[1]}
    kinds = bytearray()
    pieces: list[bytes] = []
    for value in values:  # what was released keeps its number
        letter = next(letter for letter, kind in _KINDS.items() if isinstance(value, kind))
        kinds += letter.encode()
        pieces.append(_piece(value))
    return {
        "kinds": np.frombuffer(bytes(kinds), np.uint8),
        "lengths": np.array([len(p) for p in pieces], np.int64),
        "bytes": np.frombuffer(b"".join(pieces), np.uint8),
    }


def _ends_and_content(values: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return where texts end that lie end to end, after 0, and their bytes; None if they are no texts elsewhere."""
    if not values or not all(type(value) is str for value in values):
        return None
    try:
        _, ends, content = value_array(list(values), pa.large_string()).buffers()
    except UnicodeError:  # surrogates
        return None
    offsets = np.frombuffer(ends, np.int64)[: len(values) + 1]
    return offsets, np.frombuffer(content or b"", np.uint8)[: offsets[-1]]


def _piece(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, tuple):  # a list, as the codes of its values
        return np.array(value, "<i8").tobytes()
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _value(kind: str, piece: bytes) -> Any:
    if kind == "-":
        return None
    if kind == "l":
        return tuple(np.frombuffer(piece, "<i8").tolist())
    text = piece if kind == "b" else piece.decode("utf-8", "surrogatepass")
    return int(text) if kind == "i" else text


def _load_interned(interner: Interner, saved: dict[str, Any]) -> None:
    kinds, lengths, content = saved["kinds"], saved["lengths"], saved["bytes"]
    ends = np.concatenate((np.zeros(1, np.int64), lengths.cumsum()))
    values: list[Any] = [None] * len(kinds)
    is_text = kinds == ord("s")
    if is_text.all() and (whole := _texts(lengths, content)) is not None:  # as mostly
        interner.add_all(whole)
        return
    texts = _texts(lengths.compress(is_text), content.compress(np.repeat(is_text, lengths)))
    others = range(len(kinds)) if texts is None else np.flatnonzero(~is_text).tolist()
    for i in others:
        values[i] = _value(chr(kinds[i]), content[ends[i] : ends[i + 1]].tobytes())
    if texts is not None:
        for i, text in zip(np.flatnonzero(is_text).tolist(), texts, strict=True):
            values[i] = text
    interner.add_all(values)


def _texts(lengths: Any, content: Any) -> list[str] | None:
    """Return texts that lie end to end; None where some have surrogates, which are no text elsewhere."""
    ends = np.concatenate((np.zeros(1, np.int64), lengths.cumsum()))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(content))]
    texts = pa.Array.from_buffers(pa.large_string(), len(lengths), buffers)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    found: list[str] = texts.to_pylist()
    return found


def _names_by_owner(keys: Iterable[str]) -> defaultdict[str, list[tuple[str, str]]]:
    """Return the names of arrays, each with its key, by what holds them: an operator, or the interned values."""
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in keys:
        owner, _, name = key.rpartition("/")
        found[owner].append((name, key))
    return found
