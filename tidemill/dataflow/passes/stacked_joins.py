"""Joining by deltas: a stack of joins as one delta join, where all arrangements are there or much would be between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from tidemill.dataflow.composites import DeltaJoin, Lookup
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Join, Map, Node, Reduce
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.dataflow.passes.row_keys import is_told_apart_by

Column = tuple[int, int]
"""A relation, and which of its columns."""

_LEAST: Final = 3
_MOST_JOINS: Final = 16
"""Joins in a stack: changes of each relation are looked up in all others, so of more joins several stacks are made."""
_LOOK_UP: Final = (DeltaJoin, Join, Reduce)
_THERE: Final = "all arrangements are there"
_CIRCLE: Final = "the joins close a circle, and before it join a collection with itself by keys that repeat"


def join_by_deltas(graph: Graph) -> Graph:
    """Return the graph with a delta join for each stack of joins that has all arrangements for it, or closes a circle.

    A stack is an inner join of which a side is an inner join, and so on, with nobody else to read what lies between.
    Each of its collections is arranged by the columns by which it is joined; a change of the last one has to find the
    others from its end. So a stack is taken if that goes by these arrangements, as where all are joined by the same
    columns, or by those that other joins have. What was kept of the joins between is kept no more. Not in loops.

    A join closes a circle whose keys are of several collections of the other side, as the third of triangles: what the
    joins before give is cut down by it alone. Where one of these joins a collection with itself by keys that repeat, as
    far as is known, that is more than the collection has: all paths of two edges. So such a stack is taken though
    collections are to be arranged by further columns. Joins of different collections are mostly by what is there once
    in one of them, known or not, and then less is kept by a chain.
    """
    found = _stacks(graph)
    if not found:
        return graph
    made: dict[tuple[Node, tuple[int, ...]], Node] = {}

    def arranged(copy: Copy, node: Arrange, source: Node) -> Node:
        """Return an arrangement in the copy: the one that a delta join before asked for, if there is one."""
        at = (source, node.keys)
        if at not in made:
            made[at] = copy.put(node, inputs=(source,))
        return made[at]

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Arrange):
            return arranged(copy, node, inputs[0])
        if node not in found:
            return copy.put(node, inputs=inputs)
        stack, paths = found[node]
        return _delta_join(copy, stack, paths, [arranged(copy, a, copy.now(a.inputs[0])) for a in stack.ports])

    return rebuild(graph, rewrite, (Arrange, Join))


def _stacks(graph: Graph) -> dict[Node, tuple[Stack, list[list[Lookup]]]]:
    """Return the stacks that need nothing new, by their tops; where the whole of one does, perhaps a part does not."""
    found: dict[Node, tuple[Stack, list[list[Lookup]]]] = {}
    taken: set[Node] = set()
    for node in reversed(graph.nodes):
        if isinstance(node, Join) and tops_stack(node) and node not in taken:
            stack = Stack(graph, node)
            paths = stack.paths(may_arrange=False)
            if paths is None and stack.holds_what_repeats:
                stack = Stack(graph, node)
                paths = stack.paths(may_arrange=True)
            if paths is not None:
                found[node] = (stack, paths)
                taken |= stack.joins
    return found


def tops_stack(node: Node) -> bool:
    """Return whether a node is a join, outside of loops, of which a side is another's result."""
    return isinstance(node, Join) and node.scope.parent is None and any(_below(side) for side in node.inputs)


def _below(side: Node) -> Join | None:
    """Return the join whose rows, or columns of them, a side of a join arranges."""
    if not isinstance(side, Arrange):
        return None
    (node,) = side.inputs
    while isinstance(node, Map) and node.picked is not None:
        (node,) = node.inputs
    return node if isinstance(node, Join) else None


def _joined_alone(graph: Graph, side: Node, by: Join) -> Join | None:
    """Return the join below a side, if nothing from it up to there has another reader, and NULLs are treated alike."""
    below = _below(side)
    if below is None or below.nulls_equal != by.nulls_equal:
        return None
    node = side
    while node is not below:
        if len(graph.consumers(node)) != 1:
            return None
        (node,) = node.inputs
    return below if len(graph.consumers(below)) == 1 else None


def _repeats(join: Node) -> bool:
    """Return whether a join's keys may be there several times on both sides: then it may give more than they have."""
    return not any(isinstance(s, Arrange) and is_told_apart_by(s.inputs[0], s.keys) for s in join.inputs)


def _bare(side: Node) -> Node:
    """Return the collection whose columns a side of a join has."""
    while isinstance(side, Arrange) or (isinstance(side, Map) and side.picked is not None):
        (side,) = side.inputs
    return side


class Stack:
    """A stack of joins, flat: its relations, which of their columns are equal, and which come out."""

    def __init__(self, graph: Graph, top: Join) -> None:
        self._graph = graph
        self.top = top
        self.relations: list[Arrange] = []
        self.joins: set[Node] = set()
        self._equal: list[tuple[Column, Column]] = []
        self._sides: dict[Node, list[tuple[list[Column], set[int]]]] = {}
        """Of each side of each join the columns that it is joined by, and its relations."""
        self.output = self._flattened(top)
        self._classes = self._made_classes()
        keys = {column for columns in self._classes for column in columns}
        wanted = {*self.output, *keys}
        self.used = [sorted(c for r, c in wanted if r == i) for i in range(len(self.relations))]
        self.ports: list[Arrange] = []
        self.owners: list[int] = []
        for relation, arrange in enumerate(self.relations):  # the first of each brings its changes
            self._port(relation, arrange)

    @property
    def holds_what_repeats(self) -> bool:
        """Whether a join closes a circle, and one before the last joins a collection with itself by what repeats."""
        closes_circle = any(not self._with_all(*side) for sides in self._sides.values() for side in sides)
        return closes_circle and any(
            _repeats(join) and set.intersection(*({_bare(self.relations[r]) for r in of_side} for _, of_side in sides))
            for join, sides in self._sides.items()
            if join is not self.top
        )

    def _with_all(self, keys: list[Column], relations: set[int]) -> set[int]:
        """Return those of a side's relations that have all columns by which it is joined, or others equal to them."""
        for key in keys:
            (columns,) = (c for c in self._classes if key in c)
            relations = relations & {r for r, _ in columns}
        return relations

    def paths(self, *, may_arrange: bool) -> list[list[Lookup]] | None:
        """Return how changes of each relation find all others, if there are arrangements for it or they may be made."""
        self.may_arrange = may_arrange
        if len(self.relations) < _LEAST or not all(isinstance(a, Arrange) for a in self.relations):
            return None
        for columns in self._classes:
            types = {self.relations[r].schema.dtypes[c] for r, c in columns}
            if len({r for r, _ in columns}) < len(columns) or len(types) > 1:
                return None  # two columns of a relation would have to be compared, or values of two types
        found = [self._path(start) for start in range(len(self.relations))]
        return None if any(path is None for path in found) else [path for path in found if path is not None]

    def _flattened(self, join: Join) -> list[Column]:
        """Take in a join and what is below it; return where its columns come from."""
        self.joins.add(join)
        columns: list[Column] = []
        keys: list[list[Column]] = []
        for side in join.inputs:
            own = self._side(join, side)
            keys.append([own[k] for k in side.keys] if isinstance(side, Arrange) else [])
            columns += own
            self._sides.setdefault(join, []).append((keys[-1], {r for r, _ in own}))
        self._equal += zip(*keys, strict=False)
        return [columns[c] for c in join.output]

    def _side(self, join: Join, side: Node) -> list[Column]:
        below = _joined_alone(self._graph, side, join) if len(self.joins) < _MOST_JOINS else None
        if below is None:
            self.relations.append(side)  # type: ignore[arg-type] # `paths` refuses what is no Arrange
            return [(len(self.relations) - 1, c) for c in range(len(side.schema))]
        between: list[Map] = []
        (node,) = side.inputs
        while isinstance(node, Map):
            between.append(node)
            (node,) = node.inputs
        columns = self._flattened(below)
        for picking in reversed(between):
            columns = [columns[p] for p in picking.picked or ()]
        return columns

    def _made_classes(self) -> list[set[Column]]:
        classes: list[set[Column]] = []
        for pair in self._equal:
            joined = set(pair).union(*(c for c in classes if c & set(pair)))
            classes = [*(c for c in classes if not c & joined), joined]
        return classes

    def _path(self, start: int) -> list[Lookup] | None:
        bound, path = [start], list[Lookup]()
        while len(bound) < len(self.relations):
            free = [r for r in range(len(self.relations)) if r not in bound]
            ways = [False, True] if self.may_arrange else [False]
            found = next((lookup for new in ways for r in free if (lookup := self._lookup(r, bound, new=new))), None)
            if found is None:
                return None
            path.append(found)
            bound.append(found.relation)
        return path

    def _lookup(self, relation: int, bound: Sequence[int], *, new: bool) -> Lookup | None:
        """Return how a relation is found by all of its columns that equal known ones, if it is arranged so or made to.

        Of those the first that are known: so it need not wait for others that are looked up by the same.
        """
        known: dict[int, Column] = {}
        for columns in self._classes:
            own = next((c for r, c in columns if r == relation), None)
            other = min((c for c in columns if c[0] in bound), key=lambda c: bound.index(c[0]), default=None)
            if own is not None and other is not None:
                known[own] = other
        arrange = self._arrangement(relation, known)
        if arrange is None and known and new:
            arrange = attrs.evolve(self.relations[relation], keys=tuple(sorted(known)), drops_nulls=False)
        if arrange is None:
            return None
        return Lookup(
            relation,
            self._port(relation, arrange),
            tuple((r, self.used[r].index(c)) for r, c in (known[k] for k in arrange.keys)),
            tuple(self.used[relation].index(k) for k in arrange.keys),
        )

    def _arrangement(self, relation: int, keys: Mapping[int, Column]) -> Arrange | None:
        """Return an arrangement of a relation by these columns: that of the stack, or one that others look up."""
        own = self.relations[relation]
        others = [n for n, _ in self._graph.consumers(own.inputs[0]) if isinstance(n, Arrange) and n is not own]
        for arrange in (own, *others):
            readers = [n for n, _ in self._graph.consumers(arrange)]
            is_there = any(arrange is leaf for leaf in self.relations) or any(
                isinstance(n, _LOOK_UP) and n not in self.joins for n in readers
            )
            if keys and is_there and sorted(arrange.keys) == sorted(keys):
                return arrange
        return None

    def _port(self, relation: int, arrange: Arrange) -> int:
        for port, known in enumerate(self.ports):
            is_same = known is arrange or (known.inputs == arrange.inputs and known.keys == arrange.keys)
            if is_same and self.owners[port] == relation:
                return port
        self.ports.append(arrange)
        self.owners.append(relation)
        return len(self.ports) - 1


def _delta_join(copy: Copy, stack: Stack, paths: list[list[Lookup]], inputs: list[Node]) -> Node:
    count = len(stack.relations)
    return copy.add(
        DeltaJoin,
        stack.top,
        *inputs,
        schema=stack.top.schema,
        ports=tuple(tuple(p for p, owner in enumerate(stack.owners) if owner == r) for r in range(count)),
        columns=tuple(tuple(stack.used[owner]) for owner in stack.owners),
        lookups=tuple(map(tuple, paths)),
        output=tuple((r, stack.used[r].index(c)) for r, c in stack.output),
        nulls_equal=stack.top.nulls_equal,
        why=_CIRCLE if stack.may_arrange else _THERE,
    )
