"""Pushing projections down: columns that nobody reads are dropped before rows are kept or looked up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import attrs

from tidemill.dataflow.composites import (
    Aggregate,
    ComparingFilter,
    DeltaJoin,
    Lookup,
    OuterJoin,
    PartneredJoin,
    RangeJoin,
    TopK,
    Windowed,
)
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Enter,
    Feedback,
    Filter,
    Join,
    Leave,
    Map,
    Negate,
    Node,
    Retime,
    Variable,
)
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.dataflow.passes.window_columns import (
    narrowed_window,
    places_of_window,
    read_by_first_rows,
    read_by_group,
    read_by_window,
)
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.rewriting import column, column_uses, substituted
from tidemill.expressions.schema import Field, Schema, unused_name

Places: TypeAlias = tuple[int, ...]
"""The columns of a node of the old graph that are left of it, in order."""

_PASS_ON: Final = (Consolidate, Enter, Filter, Leave, Negate, Retime)
_NARROWED: Final = (
    Aggregate, Arrange, ComparingFilter, Concat, DeltaJoin, Join, Map, RangeJoin, TopK, Variable,
)  # fmt: skip


def prune_columns(graph: Graph) -> Graph:
    """Return the graph with columns that nobody reads dropped by maps and joins, and before arrangements.

    Window calls and aggregates that nobody reads are not computed, and windows keep no columns but those that are read
    or that break ties: see `read_by_window`. What a loop computes for nothing but itself it does not compute.

    Rows that become equal add up, as they would later. Operators that have to distinguish rows (distinct, a threshold),
    or to show them whole to a function, read all columns; so do those not known here.
    """
    return rebuild(graph, _Pruning(graph).rewrite)


def columns_read(graph: Graph, node: Node) -> set[int]:
    """Return the columns of a node that make a difference to what is stored or shown.

    Columns that maps drop unread do not.
    """
    found: set[int] = set()
    todo = [node]
    while todo:
        for consumer, _ in graph.consumers(todo.pop()):
            if isinstance(consumer, Map):
                found.update(i for bound in consumer.columns for i in column_uses(bound))
            elif isinstance(consumer, Filter):
                found.update(column_uses(consumer.predicate))
                todo.append(consumer)
            else:
                found.update(range(len(node.schema)))
    return found


class _Pruning:
    def __init__(self, graph: Graph) -> None:
        self._read: dict[Node, set[int]] = defaultdict(set)
        """The columns of each node that are read."""
        self._left: dict[Node, Places] = {}
        self._shares_later = any(isinstance(node, PartneredJoin) for node in graph.nodes)
        """Whether more will look up in arrangements than do now, which then have to be as they are."""
        self._some = False
        """Whether a node of which nothing is read keeps one column all the same: not while reads are being found."""
        variables = [node for node in graph.nodes if isinstance(node, Variable)]
        for self._some in (False, True) if variables else (True,):
            self._see(graph)
            before: list[Places] = []
            while before != (before := [self._wanted(node) for node in variables]):
                self._see(graph)

    def _see(self, graph: Graph) -> None:
        """Collect the columns that are read, from the outputs back; reads through variables come in the next pass."""
        for node in reversed(graph.nodes):
            for port, source in enumerate(node.inputs):
                self._read[source].update(self._reads(node, port))

    def _reads(self, node: Node, port: int) -> Iterable[int]:
        """Return which columns a node reads of an input."""
        if isinstance(node, Map):
            return (i for w in self._wanted(node) for i in column_uses(node.columns[w]))
        if isinstance(node, (Concat, Arrange, TopK)) or (isinstance(node, ComparingFilter) and port == 0):
            return self._wanted(node)
        if isinstance(node, (Join, RangeJoin)):
            return _read_of_pairs(node, port, self._wanted(node))
        if isinstance(node, DeltaJoin):
            return _read_by_join(node, port, self._wanted(node))
        return self._read_of(node, port)

    def _read_of(self, node: Node, port: int) -> Iterable[int]:
        """Return which columns a node reads of an input that does not just pick them."""
        if isinstance(node, Feedback):
            return self._wanted(node.variable)
        if isinstance(node, Windowed):
            kept = read_by_window(node, self._read[node])
            return range(len(node.inputs[0].schema)) if kept.hashed else kept.columns
        if isinstance(node, Aggregate):
            return read_by_group(node, (i - len(node.keys) for i in self._wanted(node) if i >= len(node.keys)))
        if isinstance(node, PartneredJoin) and node.condition is None:
            return _read_of_partners(node, port, self._read[node])
        if isinstance(node, _PASS_ON):
            return {*self._read[node], *_used_by(node)}
        return range(len(node.inputs[port].schema))

    def _wanted(self, node: Node) -> Places:
        """Return which columns a node that can drop some has to keep: at least one."""
        wanted = {*self._read[node], *_used_by(node)}
        if isinstance(node, TopK):
            wanted = read_by_first_rows(node, wanted)
        elif isinstance(node, Aggregate) and self._some and len(wanted) == len(node.keys):
            functions = [call.function for call in node.aggregates]  # one of them says that there is a group
            wanted.add(len(wanted) + (functions.index("count") if "count" in functions else 0))
        return tuple(sorted(wanted)) or (0,) * self._some

    def rewrite(self, copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Return the node over narrower inputs, narrower itself where it can be."""
        sources = [self._left[source] for source in node.inputs]
        if isinstance(node, Windowed):
            made, self._left[node] = _window(copy, node, inputs[0], sources[0], self._read[node])
            return made
        if isinstance(node, _PASS_ON) or (isinstance(node, Arrange) and self._shares_later):
            (left,) = sources
        elif isinstance(node, PartneredJoin):
            left = _given_by_partners(node, *sources)
        elif isinstance(node, Feedback):
            left = self._left[node.variable]
        elif isinstance(node, _NARROWED):
            left = self._wanted(node)
        else:
            left = tuple(range(len(node.schema)))
        self._left[node] = left
        if isinstance(node, (Concat, Arrange, Feedback, TopK)):
            pairs = zip(inputs, sources, strict=True)
            inputs = tuple(_projected(copy, node, source, have, left) for source, have in pairs)
        if isinstance(node, RangeJoin):
            wanted = [tuple(sorted(set(self._reads(node, port)))) for port in (0, 1)]
            needed = zip(inputs, sources, wanted, strict=True)
            inputs, sources = tuple(_projected(copy, node, *one) for one in needed), wanted
        if isinstance(node, ComparingFilter):
            inputs = (_projected(copy, node, inputs[0], sources[0], left), inputs[1])
            sources[0] = left
        return copy.put(_narrowed(node, sources, left), inputs=inputs)


def _narrowed(node: Node, sources: list[Places], left: Places) -> Node:
    """Return a node that gives these columns, over inputs of which those are left."""
    given = [source.schema for source in node.inputs]
    if all(len(some) == len(s) for some, s in zip((left, *sources), (node.schema, *given), strict=True)):
        return node
    schema = Schema(tuple(node.schema.fields[i] for i in left))
    fields: dict[str, Any] = {}
    if isinstance(node, Map):
        fields = {"columns": tuple(_moved(node.columns[i], sources[0]) for i in left)}
    elif isinstance(node, Filter):
        fields = {"predicate": _moved(node.predicate, sources[0])}
    elif isinstance(node, DeltaJoin):
        fields = _fields_of_join(node, sources, left)
    elif isinstance(node, ComparingFilter):
        both = (*sources[0], *(len(node.inputs[0].schema) + i for i in sources[1]))
        conditions = tuple((left.index(l), how, sources[1].index(r)) for l, how, r in node.conditions)
        fields = {"predicate": _moved(node.predicate, both), "conditions": conditions}
    elif isinstance(node, RangeJoin):
        width, (l, how, r) = len(node.inputs[0].schema), node.comparison
        both = (*sources[0], *(width + i for i in sources[1]))
        fields = {"output": tuple(both.index(node.output[i]) for i in left), "predicate": _moved(node.predicate, both)}
        fields["comparison"] = (sources[0].index(l), how, sources[1].index(r))
        fields["keys"] = tuple((sources[0].index(l), sources[1].index(r)) for l, r in node.keys)
    elif isinstance(node, Aggregate):
        fields = _fields_of_group(node, sources[0], left)
    elif isinstance(node, TopK):
        order = tuple(attrs.evolve(key, expression=_moved(key.expression, left)) for key in node.order)
        hashed = node.hashed if len(left) == len(node.schema) else None
        fields = {"keys": tuple(_moved(key, left) for key in node.keys), "order": order, "hashed": hashed}
    elif isinstance(node, Retime):
        column, since = (None if c is None else left.index(c) for c in (node.column, node.since))
        fields = {"column": column, "since": since}
    elif isinstance(node, Arrange):
        fields = {"keys": tuple(left.index(k) for k in node.keys)}
    elif isinstance(node, Join):
        width = len(node.inputs[0].schema)
        both = (*sources[0], *(width + i for i in sources[1]))
        fields = {"output": tuple(both.index(node.output[i]) for i in left)}
    return attrs.evolve(node, schema=schema, **fields)


def _moved(bound: Bound, left: Places) -> Bound:
    return substituted(bound, lambda c: attrs.evolve(c, index=left.index(c.index)))


def _projected(copy: Copy, node: Node, source: Node, have: Places, want: Places) -> Node:
    """Return a source with these of its columns only."""
    if have == want:
        return source
    picked: tuple[BoundColumn, ...] = tuple(column(source.schema, have.index(i)) for i in want)
    schema = Schema(tuple(source.schema.fields[c.index] for c in picked))
    return copy.add(Map, node, source, schema=schema, columns=picked)


def _read_of_pairs(node: Join | RangeJoin, port: int, left: Places) -> Iterable[int]:
    """Return which columns of a side are read for these columns of pairs; of either one, where both have one index."""
    width = len(node.inputs[0].schema)
    picked = [node.output[w] for w in left]
    if isinstance(node, RangeJoin):
        compared = [*node.keys, (node.comparison[0], node.comparison[2])]
        picked += [place for l, r in compared for place in (l, width + r)]
        if node.has_one_index:
            return {p % width for p in picked}
    return [p - width * port for p in picked if (p >= width) == bool(port)]


def _used_by(node: Node) -> Iterable[int]:
    """Return the columns that an operator looks at itself, of those that it passes on."""
    if isinstance(node, Arrange):
        return node.keys
    if isinstance(node, Aggregate):
        return range(len(node.keys))
    if isinstance(node, ComparingFilter):
        return [l for l, _, _ in node.conditions]
    if isinstance(node, Filter):
        return column_uses(node.predicate)
    return [c for c in (node.column, node.since) if c is not None] if isinstance(node, Retime) else []


def _read_by_join(node: DeltaJoin, port: int, left: Places) -> list[int]:
    (relation,) = (r for r, ports in enumerate(node.ports) if port in ports)
    return [node.columns[port][c] for c in _columns_of(node, left)[relation]]


def _columns_of(node: DeltaJoin, left: Places) -> list[list[int]]:
    """Return the columns of each relation that a delta join asks by, is asked by, or gives out among these."""
    found: list[set[int]] = [set() for _ in node.ports]
    for path in node.lookups:
        for lookup in path:
            found[lookup.relation].update(lookup.own)
            for r, c in lookup.key:
                found[r].add(c)
    for i in left:
        r, c = node.output[i]
        found[r].add(c)
    return [sorted(columns) for columns in found]


def _fields_of_join(node: DeltaJoin, sources: list[Places], left: Places) -> dict[str, Any]:
    """Return what a delta join is that gives these columns, over inputs of which those are left."""
    kept = _columns_of(node, left)
    owners = {p: r for r, ports in enumerate(node.ports) for p in ports}

    def place(at: tuple[int, int]) -> tuple[int, int]:
        return at[0], kept[at[0]].index(at[1])

    def moved(lookup: Lookup) -> Lookup:
        own = tuple(kept[lookup.relation].index(c) for c in lookup.own)
        return attrs.evolve(lookup, key=tuple(map(place, lookup.key)), own=own)

    return {
        "columns": tuple(
            tuple(source.index(node.columns[p][c]) for c in kept[owners[p]]) for p, source in enumerate(sources)
        ),
        "lookups": tuple(tuple(map(moved, path)) for path in node.lookups),
        "output": tuple(place(node.output[i]) for i in left),
    }


def _fields_of_group(node: Aggregate, source: Places, left: Places) -> dict[str, Any]:
    """Return what groups are with some of their aggregates, over rows of which those columns are left."""
    calls: list[Any] = []
    for call in (node.aggregates[i] for i in range(len(node.aggregates)) if len(node.keys) + i in left):
        argument, condition = (e and _moved(e, source) for e in (call.argument, call.condition))
        order = tuple(attrs.evolve(key, expression=_moved(key.expression, source)) for key in call.order)
        calls.append(attrs.evolve(call, argument=argument, condition=condition, order=order))
    hashed = node.hashed if any(call.order for call in calls) else None
    keys = tuple(_moved(key, source) for key in node.keys)
    return {"keys": keys, "aggregates": tuple(calls), "hashed": hashed}


def _others(node: PartneredJoin) -> list[int]:
    """Return the right columns that are no keys."""
    keys = {right for _, right in node.on}
    return [i for i, name in enumerate(node.inputs[1].schema.names) if name not in keys]


def _read_of_partners(node: PartneredJoin, port: int, read: set[int]) -> set[int]:
    """Return which columns of a side a join reads, if these of its own are: of the left also what names clash with."""
    left, right = (source.schema for source in node.inputs)
    keys = {node.inputs[port].schema.index(pair[port]) for pair in node.on}
    others = _others(node)
    if port:
        return keys | {others[i - len(left)] for i in read if i >= len(left)}
    clash = {left.index(right.names[i]) for i in others if right.names[i] in left.names}
    return keys | {i for i in read if i < len(left)} | (clash if isinstance(node, OuterJoin) else set())


def _given_by_partners(node: PartneredJoin, left: Places, right: Places) -> Places:
    """Return which columns a join gives of sides that have these."""
    width = len(node.inputs[0].schema)
    of_right = [width + at for at, i in enumerate(_others(node)) if i in right]
    return (*left, *of_right) if isinstance(node, OuterJoin) else left


def _window(copy: Copy, node: Windowed, source: Node, have: Places, read: set[int]) -> tuple[Node, Places]:
    """Return the rows with the calls that are read, and which columns of the window's these are."""
    kept = read_by_window(node, read)
    if not kept.calls:
        return source, have
    columns, width = node.bound.columns, len(node.inputs[0].schema)
    want = have if isinstance(source, Windowed) and not kept.hashed else kept.columns
    picked: list[Bound] = [column(source.schema, have.index(i)) for i in want]
    fields = [source.schema.fields[have.index(i)] for i in want]
    own = [node.bound.windows.row[i] for i in want]
    if kept.hashed:
        own.append(node.bound.windows.ties[0].column)
        hash_of = columns[own[-1]][1]
        picked.append(_moved(hash_of, have))
        fields.append(Field(unused_name("hash#", node.schema.names), hash_of.dtype, hash_of.nullable))
    schema = Schema(tuple(fields))
    rows = source if want == have else copy.add(Map, node, source, schema=schema, columns=tuple(picked))
    over: dict[int, Bound] = {}
    for place in places_of_window(node, kept, want):
        is_hash = kept.hashed and place == own[-1]
        over[place] = column(schema, len(want)) if is_hash else _moved(columns[place][1], want)
    values = tuple(node.schema.fields[width + i] for i in kept.calls)
    made: Node = copy.put(
        attrs.evolve(node, schema=Schema((*schema, *values)), **narrowed_window(node, kept, over, own)), inputs=(rows,)
    )
    left = (*want, *(width + i for i in kept.calls))
    if kept.hashed:
        shown = tuple(column(made.schema, i) for i in range(len(made.schema)) if i != len(want))
        fields = [made.schema.fields[c.index] for c in shown]
        made = copy.add(Map, node, made, schema=Schema(tuple(fields)), columns=shown)
    return made, left
