"""Unique keys of the rows of a collection, as far as a dataflow shows: columns with no values twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from tidemill.dataflow.composites import (
    Aggregate,
    AntiJoin,
    ComparingFilter,
    OuterJoin,
    PartneredJoin,
    RangeJoin,
    SemiJoin,
    SetOperation,
    TopK,
    Windowed,
)
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Consolidate,
    Enter,
    Filter,
    Input,
    Inspect,
    Join,
    Leave,
    Map,
    Node,
    Reduce,
    Retime,
    Threshold,
    arranged_keys,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.aggregates import Aggregates
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.ordering import TopK as FirstRows
from tidemill.expressions.rewriting import conditions

Keys: TypeAlias = tuple[frozenset[int], ...]
"""Sets of columns, the smallest first: in each of them no two rows have the same values. Of no column, for one row."""

_SOME_OF_THE_SAME: Final = (
    AntiJoin, Arrange, ComparingFilter, Consolidate, Enter, Filter, Inspect, Leave, Retime, SemiJoin, TopK, Windowed,
)  # fmt: skip
"""Operators whose rows are those of their first input, no more often than there, with its columns first."""
_PASSED_ON: Final = (*_SOME_OF_THE_SAME, Join, Map, OuterJoin, RangeJoin, Reduce, SetOperation, Threshold)
_MOST_KEYS: Final = 4
"""How many keys are known of a collection: a join has one for each pair of its sides' keys."""
_KNOWN: Final[WeakKeyDictionary[Node, Keys]] = WeakKeyDictionary()


def row_keys(node: Node) -> Keys:
    """Return sets of columns each of which is unique to a row, at every time; none where that is not known.

    Then no two rows have the same values in them, no row is there twice, and none has a negative count.
    """
    todo = [node]
    while todo:
        reads = todo[-1].inputs if isinstance(todo[-1], _PASSED_ON) else ()
        unknown = [source for source in reads if source not in _KNOWN]
        if unknown:
            todo += unknown
        elif (one := todo.pop()) not in _KNOWN:
            _KNOWN[one] = _least(_found(one, [_KNOWN[source] for source in reads]))
    return _KNOWN[node]


def row_key(node: Node) -> frozenset[int] | None:
    """Return the smallest set of columns that is unique to a row; None where that is not known."""
    return next(iter(row_keys(node)), None)


def is_told_apart_by(node: Node, columns: Iterable[int]) -> bool:
    """Return whether no two rows have the same values in these columns."""
    given = frozenset(columns)
    return any(key <= given for key in row_keys(node))


def join_once(graph: Graph) -> Graph:
    """Return the graph with outer, semi and anti joins by unique keys marked: these need one join, not two.

    Where no key is there twice on one side, a row of the other has one partner at the most, so that its pairs, without
    the partner's columns, are the rows that have one: else these are found by a second join, with the distinct keys. So
    with inputs that have a key, groups, ``top_k(1)``, ``distinct`` and the first of ``row_number``, and what selects,
    filters and joins make of them. Where there is a condition, rows of the other side have to be unique, too.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, PartneredJoin)
        keys = zip(inputs, zip(*node.on, strict=True) if node.on else ((), ()), strict=True)
        left, right = (is_told_apart_by(side, map(side.schema.index, names)) for side, names in keys)
        if node.condition is not None and not all(map(row_keys, inputs)):
            left = right = False  # the counts of pairs say who has a partner then, which are not those of rows
        return copy.put(node, inputs=inputs, once=(left, right))

    return rebuild(graph, rewrite, PartneredJoin)


def without_keys(graph: Graph) -> Graph:
    """Return the graph with inputs that have no keys, for callers whose updates are not checked for keys."""
    if not any(node.key for node in graph.inputs.values()):
        return graph

    def rewrite(copy: Copy, node: Node, _: tuple[Node, ...]) -> Node:
        return copy.put(node, key=())

    made = rebuild(graph, rewrite, Input, keep_unread=True)
    made.freeze()
    return made


def _least(keys: Iterable[frozenset[int]]) -> Keys:
    """Return keys without those that have all columns of another, and not too many."""
    found: list[frozenset[int]] = []
    for key in sorted(keys, key=lambda key: (len(key), sorted(key))):
        if not any(less <= key for less in found):
            found.append(key)
    return tuple(found[:_MOST_KEYS])


def _found(node: Node, sources: Sequence[Keys]) -> Iterator[frozenset[int]]:
    """Iterate over the keys of a node's rows, given those of its inputs."""
    if isinstance(node, (Join, RangeJoin)):
        yield from _of_pairs(node, *sources)
    elif isinstance(node, OuterJoin):
        keys = {node.inputs[1].schema.index(right) for _, right in node.on}
        if node.how == "left" and any(key <= keys for key in sources[1]):
            yield from sources[0]
    elif isinstance(node, Map):
        places = {c.index: i for i, c in reversed([*enumerate(node.columns)]) if isinstance(c, BoundColumn)}
        yield from _at(places, sources[0])
    elif isinstance(node, Filter):
        fixed = {*_fixed(node.predicate)}
        yield from (key - fixed for key in sources[0])
    elif _has_each_once(node) or (isinstance(node, Reduce) and isinstance(node.logic, FirstRows)):
        yield from sources[0]
    elif isinstance(node, _SOME_OF_THE_SAME) and not (isinstance(node, Retime) and node.steps is None):
        yield from sources[0]  # other times may bring what takes a row away before the row
    yield from _made(node)


def _has_each_once(node: Node) -> bool:
    """Return whether a node has rows of its first input once each."""
    if isinstance(node, SetOperation):
        return node.operation != "except_all"
    return isinstance(node, Threshold) and node.function is None


def _made(node: Node) -> Iterator[frozenset[int]]:
    """Iterate over the unique keys of rows that are made by an operator or come in."""
    whole = frozenset(range(len(node.schema)))
    if isinstance(node, Input):
        if node.key:
            yield frozenset(node.key)
        elif node.unique if node.rows is None else len(set(node.rows)) == len(node.rows):
            yield whole
    elif isinstance(node, Aggregate) or (isinstance(node, Reduce) and isinstance(node.logic, Aggregates)):
        yield frozenset(range(len(node.keys)))
    elif isinstance(node, (Reduce, TopK, Windowed)):
        yield from _of_first(node)
    elif _has_each_once(node):
        yield whole


def _of_first(node: Reduce | TopK | Windowed) -> Iterator[frozenset[int]]:
    """Iterate over the unique keys of rows of which there is one in each group, or which have numbers there."""
    width = len(node.schema)
    if isinstance(node, Reduce) and isinstance(node.logic, FirstRows):
        keys = range(len(node.keys))
        if node.logic.numbered:
            yield frozenset((*keys, width - 1))
        elif node.logic.count == 1:
            yield frozenset(keys)
    elif isinstance(node, TopK) and node.count == 1:
        yield from _columns(node.keys)
    elif isinstance(node, Windowed):
        for i, call in enumerate(reversed(node.bound.windows.calls), 1):
            if getattr(call, "function", None) == "row_number":
                yield from (key | {width - i} for key in _columns(node.keys))


def _columns(keys: Sequence[Bound]) -> Iterator[frozenset[int]]:
    """Iterate over the set of columns that keys are, if they are columns."""
    found = frozenset(key.index for key in keys if isinstance(key, BoundColumn))
    if all(isinstance(key, BoundColumn) for key in keys):
        yield found


def _fixed(predicate: Bound) -> Iterator[int]:
    """Iterate over the columns that have one value in all rows that pass."""
    for condition in conditions(predicate):
        if isinstance(condition, BoundCall) and condition.function == "eq":
            columns = [a.index for a in condition.args if isinstance(a, BoundColumn)]
            if len(columns) == 1 and any(isinstance(a, BoundLiteral) for a in condition.args):
                yield columns[0]


def _at(places: dict[int, int], keys: Keys) -> Iterator[frozenset[int]]:
    """Iterate over the keys all of whose columns have places."""
    yield from (frozenset(places[i] for i in key) for key in keys if key <= places.keys())


def _of_pairs(node: Join | RangeJoin, left: Keys, right: Keys) -> Iterator[frozenset[int]]:
    """Iterate over the keys of pairs: of one side, where each of its rows has one partner at the most; or of both."""
    width = len(node.inputs[0].schema)
    if isinstance(node, RangeJoin):
        joined = list(node.keys)
    else:
        joined = list(zip(*map(arranged_keys, node.inputs), strict=True))
    places = {c: i for i, c in reversed([*enumerate(node.output)])}
    for l, r in joined:  # a column that does not come out may be equal to one that does
        for one, other in ((l, width + r), (width + r, l)):
            if one in places:
                places.setdefault(other, places[one])
    shifted = tuple(frozenset(width + i for i in key) for key in right)
    if any(key <= {r for _, r in joined} for key in right):
        yield from _at(places, left)
    if any(key <= {l for l, _ in joined} for key in left):
        yield from _at(places, shifted)
    yield from _at(places, tuple(l | r for l, r in itertools.product(left, shifted)))
