"""The levels of a graph: a tree of boxes from functions and statements of the user's down to calls and operators.

A call is what users wrote: a join with the arrangements it needs, a left join with all that it was lowered to. Calls
are inside of the statements, blocks and functions around their lines, as long as a box has no way out of it and back.
Where a box would hold too many others that way, they are put together by the outputs that need them, then by place.
"""

from __future__ import annotations

import functools
import heapq
import math
import operator
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from tidemill.dataflow import nodes
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.dataflow.scopes import Scope
from tidemill.renderer.diagram.called import call_title, call_word, result_of
from tidemill.renderer.diagram.written import ProgramPart, parts_around
from tidemill.site import Site

GroupKind: TypeAlias = Literal["flow", "loop", "function", "block", "statement", "call", "outputs", "part"]
MOST: Final = 40
"""Boxes that one box holds at most, where operators and loops may be put together."""
_AT_ONCE: Final = 16
"""Up to so many they are not put together by place alone; where the explorer has room, such parts have no borders."""
_PARTS: Final = 16
"""Into how many a box is divided where nothing else is known, at most."""
_TRIED: Final = 4
"""Boxes of one part of the program, the newest of them, to which an operator may be put."""
_SHORT: Final = 12
"""Letters of names of which two are the title of a box."""
_FEW: Final = 24
"""Calls and loops up to which statements need no boxes."""


@attrs.define
class DrawnGroup:
    """A box that holds operators and other boxes."""

    id: int
    kind: GroupKind
    title: str
    line: str
    parent: int | None
    scope: int
    """The scope that it is of, or in."""
    operators: list[int] = attrs.field(factory=list)
    """Those directly inside."""
    result: int | None = None
    """Of a call, the operator that gives its rows."""


@attrs.frozen
class _Atom:
    """What is never divided by statements: a call, or a loop."""

    nodes: tuple[Node, ...]
    loop: Scope | None
    path: tuple[ProgramPart, ...]

    @property
    def first(self) -> int:
        """The first number of its operators; of a loop, of all that is inside."""
        return self.nodes[0].id


def levels_of(graph: Graph) -> list[DrawnGroup]:
    """Return the boxes of a graph, those around others first; the first one is the whole. Cost: a few walks."""
    return _Levels(graph).groups


class _Levels:
    """The boxes of a graph while they are made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.groups: list[DrawnGroup] = []
        self.own: dict[Scope, list[Node]] = defaultdict(list)
        self.inner: dict[Scope, list[Scope]] = defaultdict(list)
        for node in graph.nodes:
            self.own[_drawn_in(node)].append(node)
        used = {around for scope in self.own for around in scope}
        for scope in graph.scopes:
            if scope.parent is not None and scope in used:
                self.inner[scope.parent].append(scope)
        self.outputs = _outputs_of(graph)
        inputs = [n for n in graph.nodes if isinstance(n, nodes.Input)]
        self.builders = {p for n in inputs for p in parts_around(n.site) if p.kind == "function"}
        self._scope(graph.root, None)

    def _group(self, kind: GroupKind, title: str, line: str, parent: int | None, scope: Scope) -> DrawnGroup:
        made = DrawnGroup(len(self.graph.nodes) + len(self.groups), kind, title, line, parent, scope.id)
        self.groups.append(made)
        return made

    def _scope(self, scope: Scope, parent: int | None) -> None:
        kind: GroupKind = "flow" if scope.parent is None else "loop"
        group = self._group(kind, scope.name, str(scope.site), parent, scope)
        own = [n for n in self.own[scope] if not _is_fixed(n)]
        group.operators += [n.id for n in self.own[scope] if _is_fixed(n)]
        atoms = self._atoms(scope, own)
        depth = 0 if len(atoms) > _FEW else None
        self._fill(group, scope, atoms, depth)

    def _atoms(self, scope: Scope, own: Sequence[Node]) -> list[_Atom]:
        """Return the calls and the loops of a scope, each after what it reads."""
        insides = {inner: tuple(sorted(self._inside(inner), key=lambda n: n.id)) for inner in self.inner[scope]}
        owner: dict[Node, Node | Scope] = {n: n for n in own}
        owner |= {n: inner for inner, inside in insides.items() for n in inside}
        reads: dict[Node | Scope, list[Node | Scope]] = {item: [] for item in owner.values()}
        for node, item in owner.items():
            reads[item] += [owner[s] for s in node.inputs if s in owner and owner[s] is not item]
        firsts: dict[Node | Scope, int] = {n: n.id for n in own}
        firsts |= {inner: inside[0].id for inner, inside in insides.items()}
        items = [item for (item,) in _in_order([[i] for i in sorted(reads, key=firsts.__getitem__)], reads)]
        keys = _call_keys(self.graph, own)
        found = []
        for call in _contracted(items, reads, keys.get):
            if isinstance(call[0], Scope):
                found.append(_Atom(insides[call[0]], call[0], self._parts(call[0].site)))
            else:
                found.append(_Atom(tuple(call), None, self._parts(result_of(self.graph, call).site)))
        return found

    def _parts(self, site: Site) -> tuple[ProgramPart, ...]:
        """Return the parts of the program around a line, but for functions that make the dataflow as a whole."""
        return tuple(p for p in parts_around(site) if p not in self.builders)

    def _inside(self, scope: Scope) -> Iterator[Node]:
        yield from self.own[scope]
        for inner in self.inner[scope]:
            yield from self._inside(inner)

    def _reads(self, atoms: Sequence[_Atom]) -> dict[_Atom, list[_Atom]]:
        owner = {node: atom for atom in atoms for node in atom.nodes}
        found = {}
        for atom in atoms:
            sources = {owner[s] for node in atom.nodes for s in node.inputs if s in owner}
            found[atom] = sorted(sources - {atom}, key=lambda a: a.first)
        return found

    def _fill(self, group: DrawnGroup, scope: Scope, atoms: list[_Atom], depth: int | None) -> None:
        """Put atoms into a group, by the parts of the program at this depth of their paths and below."""
        if depth is not None:
            found = self._by_parts(atoms, depth)
            if found is not None:
                at, clusters = found
                self._divide(group, scope, clusters, lambda c: self._named(c[0].path[at], c), at + 1)
                return
        if len(atoms) <= _AT_ONCE:
            for atom in atoms:
                self._put(group, scope, atom)
            return
        if len(atoms) > MOST:
            clusters = self._clusters(atoms, lambda a: frozenset[str]().union(*[self.outputs[n] for n in a.nodes]))
            if 1 < len(clusters) <= MOST and max(map(len, clusters)) < len(atoms):
                self._divide(group, scope, clusters, self._for_outputs, None)
                return
        chunks = [[a for pair in chunk for a in pair] for chunk in _chunks(self._paired(atoms))]
        self._divide(group, scope, chunks, self._part, None)

    def _paired(self, atoms: list[_Atom]) -> list[list[_Atom]]:
        """Return atoms in their order, what reads nothing with its reader where that comes next."""
        reads = self._reads(atoms)
        pairs: list[list[_Atom]] = []
        for atom in atoms:
            if pairs and not reads[pairs[-1][-1]] and pairs[-1][-1] in reads[atom]:
                pairs[-1].append(atom)
            else:
                pairs.append([atom])
        return pairs

    def _by_parts(self, atoms: list[_Atom], depth: int) -> tuple[int, list[list[_Atom]]] | None:
        """Return the first depth from this one on at which parts of the program divide atoms, and how."""
        for at in range(depth, max((len(a.path) for a in atoms), default=0)):
            clusters = self._clusters(atoms, lambda a, at=at: a.path[at] if len(a.path) > at else None)  # type: ignore[misc]
            if len(clusters) > 1:
                return at, clusters
        return None

    def _clusters(self, atoms: list[_Atom], key: Callable[[_Atom], Hashable]) -> list[list[_Atom]]:
        return _contracted(atoms, self._reads(atoms), key)

    def _divide(
        self,
        group: DrawnGroup,
        scope: Scope,
        clusters: list[list[_Atom]],
        told: Callable[[list[_Atom]], tuple[GroupKind, str, str]],
        depth: int | None,
    ) -> None:
        """Put each cluster into a group of its own inside of one; too many of them are put together as atoms are."""
        if len(clusters) > MOST:
            for chunk in _chunks(clusters):
                lines = _lines([a for cluster in chunk for a in cluster])
                made = self._group(
                    "part", _listed([self._name_of(cluster) for cluster in chunk]), lines, group.id, scope
                )
                self._divide(made, scope, chunk, told, depth)
            return
        for cluster in clusters:
            if len(cluster) == 1:
                self._put(group, scope, cluster[0])
            else:
                kind, title, line = told(cluster)
                self._fill(self._group(kind, title, line, group.id, scope), scope, cluster, depth)

    def _name_of(self, cluster: list[_Atom]) -> str:
        """Return how the innermost part of the program around a cluster is called, or what is in the cluster."""
        names = (part.name for part in reversed(cluster[0].path) if part.name)
        return next(names, "") or _what(self.graph, cluster)

    def _put(self, group: DrawnGroup, scope: Scope, atom: _Atom) -> None:
        if atom.loop is not None:
            self._scope(atom.loop, group.id)
        elif len(atom.nodes) == 1:
            group.operators.append(atom.first)
        else:
            result = result_of(self.graph, atom.nodes)
            title = call_title(self.graph, atom.nodes)
            made = self._group("call", title, str(result.site), group.id, scope)
            made.operators, made.result = [n.id for n in atom.nodes], result.id

    def _named(self, part: ProgramPart, atoms: list[_Atom]) -> tuple[GroupKind, str, str]:
        outputs = [n.name for a in atoms for n in a.nodes if isinstance(n, nodes.Output)]
        name = part.name or ", ".join(outputs[:3]) or _what(self.graph, atoms)
        return part.kind, name, part.line if part.kind == "statement" else str(atoms[0].nodes[-1].site)

    def _part(self, atoms: list[_Atom]) -> tuple[GroupKind, str, str]:
        return "part", _from_to(self.graph, atoms), _lines(atoms)

    def _for_outputs(self, atoms: list[_Atom]) -> tuple[GroupKind, str, str]:
        names = sorted(frozenset[str]().union(*[self.outputs[n] for a in atoms for n in a.nodes]))
        told = " and ".join(names) if len(names) <= 2 else f"for {len(names)} outputs"  # noqa: PLR2004 - so many fit
        return "outputs", told or "read by nothing", _lines(atoms)


def _drawn_in(node: Node) -> Scope:
    return node.inputs[0].scope if isinstance(node, nodes.Leave) else node.scope


def _is_fixed(node: Node) -> bool:
    """Return whether a node is where its loop begins or ends."""
    return isinstance(node, nodes.Enter | nodes.Leave | nodes.Variable | nodes.Feedback)


def _outputs_of(graph: Graph) -> dict[Node, frozenset[str]]:
    """Return for each node the outputs that need it."""
    found: dict[Node, frozenset[str]] = dict.fromkeys(graph.nodes, frozenset())
    for node in reversed(graph.nodes):
        mine = found[node] | ({node.name} if isinstance(node, nodes.Output) else frozenset())
        found[node] = mine
        for source in node.inputs:
            if not mine <= found[source]:
                found[source] |= mine
    return found


def _call_keys(graph: Graph, own: Sequence[Node]) -> dict[Node, Hashable]:
    """Return for each node of a scope which call it is of; what only arranges or picks columns is of its neighbour."""
    keys: dict[Node, Hashable] = {}
    for node in own:
        keys[node] = (node.call.id, node.part_of, node.site) if node.call is not None else node
        (source,) = node.inputs if isinstance(node, nodes.Map) and len(node.inputs) == 1 else (None,)
        if isinstance(node, nodes.Map) and node.picked is not None and node.call is None and source in keys:
            alone = len(graph.consumers(source)) == 1 and source.site == node.site
            if alone and not isinstance(source, nodes.Input | nodes.Arrange):
                keys[node] = keys[source]
    arranging = {n for n in own if n.part_of == "Arrange" or (n.call is None and isinstance(n, nodes.Arrange))}
    for node in reversed([n for n in own if n in arranging]):
        readers = {keys.get(reader) for reader, _ in graph.consumers(node)}
        if len(readers) == 1 and None not in readers:
            (keys[node],) = readers
            continue
        # Several calls read it, or loops: it is of what it arranges, or one call would seem to read another.
        other = node
        while other in arranging and other.inputs[0] in keys:
            other = other.inputs[0]
        keys[node] = keys[other]
    return keys


def _contracted(items: Sequence[Any], reads: dict[Any, list[Any]], key: Callable[[Any], Hashable]) -> list[list[Any]]:
    """Return items put together by their keys, in an order in which each comes after what it reads.

    An item is put to others of its key where no way leads from these over others to it. Those without a key are alone.
    """
    clusters: list[list[Any]] = []
    of: dict[Any, int] = {}
    before: list[int] = []  # the clusters that lead to each one, as bits
    readers: list[set[int]] = []
    newest: dict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=_TRIED))
    for item in items:
        wanted = key(item)
        sources = {of[s] for s in reads[item] if s in of}
        leading = functools.reduce(operator.or_, (before[s] for s in sources), 0)
        tried = newest[wanted] if wanted is not None else ()
        place = next((c for c in reversed(tried) if not leading >> c & 1), len(clusters))
        if place == len(clusters):
            clusters.append([])
            before.append(0)
            readers.append(set())
            newest[wanted].append(place)
        clusters[place].append(item)
        of[item] = place
        for source in sources - {place}:
            readers[source].add(place)
        _lead_on(place, leading | sum(1 << s for s in sources - {place}), before, readers)
    return _in_order(clusters, reads)


def _lead_on(place: int, leading: int, before: list[int], readers: list[set[int]]) -> None:
    """Have a cluster, and all it leads to, know which clusters lead there."""
    waiting = [(place, leading & ~(1 << place))]
    while waiting:
        here, more = waiting.pop()
        if more & ~before[here]:
            before[here] |= more
            waiting += [(reader, before[here] | 1 << here) for reader in readers[here]]


def _in_order(clusters: list[list[Any]], reads: dict[Any, list[Any]]) -> list[list[Any]]:
    of = {item: i for i, cluster in enumerate(clusters) for item in cluster}
    before = [{of[s] for item in cluster for s in reads[item] if s in of} - {i} for i, cluster in enumerate(clusters)]
    after: dict[int, list[int]] = defaultdict(list)
    for i, sources in enumerate(before):
        for source in sources:
            after[source].append(i)
    waits = {i: len(sources) for i, sources in enumerate(before)}
    ready = [i for i, count in waits.items() if not count]
    found = []
    while ready:
        here = heapq.heappop(ready)
        found.append(clusters[here])
        for reader in after[here]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, reader)
    assert len(found) == len(clusters), "no way leads out of a box and back"
    return found


def _chunks(items: list[Any]) -> list[list[Any]]:
    """Return items in a few parts of about one size, in their order."""
    each = -(-len(items) // min(_PARTS, math.isqrt(len(items))))
    return [items[i : i + each] for i in range(0, len(items), each)]


def _what(graph: Graph, atoms: list[_Atom]) -> str:
    """Return what there is most of, for boxes that nobody has named."""
    counts = Counter("loop" if a.loop is not None else call_word(graph, a.nodes) for a in atoms)
    words = sorted(counts, key=lambda word: (word in {"input", "output"}, -counts[word]))
    return ", ".join(f"{counts[word]} {word}s" if counts[word] > 1 else word for word in words[:3])


def _from_to(graph: Graph, atoms: list[_Atom]) -> str:
    """Return from which to which call of the most frequent kind atoms are; what there is, if names do not say that."""
    words = {a: call_word(graph, a.nodes) for a in atoms if a.loop is None}
    counts = Counter(word for word in words.values() if word not in {"input", "output"})
    word = counts.most_common(1)[0][0] if counts else ""
    names = [call_title(graph, a.nodes).removeprefix(word).strip() for a, of in words.items() if of == word]
    if not names or names[0] == names[-1] or not all(0 < len(name) <= _SHORT for name in (names[0], names[-1])):
        return _what(graph, atoms)
    return f"{word} {names[0]}..{names[-1]}"


def _listed(names: list[str]) -> str:
    """Return some names as the title of a box that holds what they name."""
    told = [f"{name} × {count}" if count > 1 else name for name, count in Counter(names).items()]  # noqa: RUF001 - times
    return ", ".join(told) if len(told) <= 2 else f"{told[0]}, {told[1]} and {len(told) - 2} more"  # noqa: PLR2004 - so many fit


def _lines(atoms: list[_Atom]) -> str:
    sites = dict.fromkeys(str(a.nodes[-1].site) for a in atoms)
    first, *others = sites
    return f"{first} and {len(others)} more" if others else first
