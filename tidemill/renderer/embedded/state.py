"""Saving a run and going on with it later: all spines, what waits, and the interned values."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidemill.dataflow.fingerprint import describe, difference
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.dataflow.passes.pipeline import Passes, optimised, passes_named
from tidemill.errors import StateError
from tidemill.renderer.embedded import array_file as container
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import UpdateArray, stacked
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.spine import Spine

if TYPE_CHECKING:
    from tidemill.renderer.embedded.run import EmbeddedRun

__all__ = ["load", "operators_of", "restore", "save", "spines_of"]

_KINDS: Final[dict[str, type]] = {"s": str, "b": bytes, "d": decimal.Decimal, "l": tuple, "-": type(None)}


def save(
    run: EmbeddedRun,
    path: Path,
    *,
    cold: Mapping[str, Any] | None = None,
    large: Sequence[Any] = (),
    at: Mapping[Input, Antichain] | None = None,
) -> None:
    """Write the state of a run between two steps to a file, atomically.

    With ``cold`` that is what it holds in memory, and this and ``large`` about where the rest is; with ``at``, at
    the end of a step that brings the inputs to these frontiers.
    """
    frontiers = run.input_frontiers if at is None else at
    arrays: dict[str, Any] = {}
    for operator in operators_of(run.compiled.root):
        for name, array in _dump(operator, whole=cold is None).items():
            arrays[f"operators/{operator.place}/{name}"] = array
    arrays |= {f"interned/{name}": a for name, a in _dump_interned(run.compiled.interner).items()}
    header = {
        "graph": describe(run.graph),
        "passes": run.passes,
        "keep": run.keep,
        "frontiers": {n.name: f.elements for n, f in frontiers.items()},
        "since": {n.name: f.elements for n, f in run.since_at(frontiers).items()},
        "cold": cold or {},
        "large": large,
    }
    container.write(path, header, arrays)


def load(path: Path, graph: Graph, passes: Passes | None) -> EmbeddedRun:
    """Return a run of a frozen graph that goes on from a saved state, after the passes it was saved with."""
    from tidemill.renderer.embedded.run import EmbeddedRun  # noqa: PLC0415 - a run saves itself

    header, arrays = container.read(path)
    saved = header["passes"]
    if passes is not None:
        given = [p.__name__ for p in passes_named(passes)]
        if given != saved:
            msg = (
                f"{path} was saved after the passes {_listed(saved)}, and passes={passes!r} asks for {_listed(given)}: "
                "the state is that of the graph as they leave it; load it without passes=, or start anew"
            )
            raise StateError(msg)
    run = EmbeddedRun(optimised(graph, saved), 0, saved)
    _restore(run, path, header, arrays)
    return run


def restore(run: EmbeddedRun, path: Path) -> dict[str, Any]:
    """Bring a run that was just started to a saved state of the same graph, and return the header of the file."""
    header, arrays = container.read(path)
    _restore(run, path, header, arrays)
    return header


def spines_of(run: EmbeddedRun) -> dict[str, tuple[Operator, Spine]]:
    """Return all arrangements of a run, and whose they are, by names that stay."""
    operators = list(operators_of(run.compiled.root))
    return {f"{o.place}/{name}": (o, spine) for o in operators for name, spine in o.spines().items()}


def _listed(passes: list[str]) -> str:
    return ", ".join(passes) or "(none)"


def _restore(run: EmbeddedRun, path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Bring a run that was just started to a saved state of the same graph."""
    different = difference(header["graph"], run.graph)
    if different is not None:
        msg = f"{path} was saved by another dataflow: {different}; load it with the flow it was made with"
        raise StateError(msg)
    run.keep = header["keep"]
    graph = run.graph
    run.go_on_from({graph.inputs[n]: _antichain(f) for n, f in header["frontiers"].items()})
    run.since.update({graph.outputs[n]: _antichain(f) for n, f in header["since"].items()})
    _load_interned(run.compiled.interner, _part(arrays, "interned/"))
    for operator in operators_of(run.compiled.root):
        _load(operator, _part(arrays, f"operators/{operator.place}/"))
    for output, outlet in run.compiled.outputs.items():
        outlet.readers_since = run.since[output]
        outlet.unread = []
        run.read[output] = run.progress.user_frontier(
            output, run.input_frontiers
        )  # changes begin where the state was committed


def operators_of(region: Region) -> Iterator[Operator]:
    """Return all operators of a region and those inside it, in order."""
    for place in sorted(region.items):
        item = region.items[place]
        if isinstance(item, Operator):
            yield item
        else:
            yield from operators_of(item)


def _dump(operator: Operator, *, whole: bool) -> dict[str, UpdateArray]:
    found = {name: s.all_updates() if whole else s.updates_in_memory() for name, s in operator.spines().items()}
    for i, port in enumerate(operator.ports):
        if port.pending:
            found[f"port{i}"] = stacked(port.pending.arrays())
    return {name: block for name, block in found.items() if block.shape[1]}


def _load(operator: Operator, saved: dict[str, UpdateArray]) -> None:
    for name, store in operator.spines().items():
        if name in saved:
            store.refill(saved[name])
        else:  # what constants came to when the run was started is below, or was nothing
            store.evict()
    for i, port in enumerate(operator.ports):
        port.refill(saved.get(f"port{i}"))
    operator.drop_derived()


def _dump_interned(interner: Interner) -> dict[str, Any]:
    """Return the interned values: a letter for the kind of each, and its text or bytes, end to end."""
    kinds = bytearray()
    pieces: list[bytes] = []
    for value in interner.values():  # what was released keeps its number
        letter = next(letter for letter, kind in _KINDS.items() if isinstance(value, kind))
        kinds += letter.encode()
        pieces.append(_piece(value))
    return {
        "kinds": np.frombuffer(bytes(kinds), np.uint8),
        "lengths": np.array([len(p) for p in pieces], np.int64),
        "bytes": np.frombuffer(b"".join(pieces), np.uint8),
    }


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
    return decimal.Decimal(str(text)) if kind == "d" else text


def _load_interned(interner: Interner, saved: dict[str, Any]) -> None:
    content, at = saved["bytes"].tobytes(), 0
    interner.forget()
    for kind, length in zip(saved["kinds"].tobytes().decode(), saved["lengths"].tolist(), strict=True):
        piece = content[at : at + length]
        at += length
        interner.add(_value(kind, piece))


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _antichain(elements: Any) -> Antichain:
    return Antichain(tuple(t) for t in elements)
