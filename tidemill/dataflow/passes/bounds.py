"""Bounds on columns: values below which no row is inserted or deleted any more, and rows that need not be kept then.

A bound begins where late rows are dropped, or where a clock that never goes back lets rows go. It goes through
operators as the rules below say. From it follows what each operator may forget: `forgetting`.

It is for times of one coordinate, outside of loops: there is nothing to say of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tidemill.dataflow.composites import ClosedSessions, OrderedDynamicFilter, RangeJoin, SlidingWindows
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Filter,
    Inspect,
    Join,
    LateRows,
    Map,
    Negate,
    Node,
    Reduce,
    SortBuffer,
    Threshold,
    Watermark,
    arranged_keys,
)
from tidemill.dataflow.passes.bands import distances
from tidemill.expressions.aggregates import Aggregates
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.instants import INSTANTS, shown_distance
from tidemill.expressions.ordering import TopK
from tidemill.expressions.rewriting import conditions, moved, substituted
from tidemill.expressions.rising import rises_with
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows


@attrs.frozen
class Limit:
    """A value that grows with the time: what a mark shows, and what is then made of it."""

    mark: Watermark | OrderedDynamicFilter
    """Its source: a watermark, or a filter by a clock, for the value of its clock."""
    column: int
    """Which column of the watermark, or of the clock, that is."""
    steps: tuple[int | Bound, ...] = ()
    """Distances to be added, in the units of `tidemill.expressions.instants`, and expressions of the one value."""

    def plus(self, distance: int) -> Limit:
        """Return the limit so much later."""
        last = self.steps[-1] if self.steps else None
        if isinstance(last, int):
            return attrs.evolve(self, steps=(*self.steps[:-1], last + distance))
        return attrs.evolve(self, steps=(*self.steps, distance)) if distance else self

    def then(self, bound: Bound) -> Limit:
        """Return the limit that an expression makes of it."""
        return attrs.evolve(self, steps=(*self.steps, bound))

    @property
    def shown(self) -> DType:
        """The type of what the mark shows."""
        return _shown_by(self.mark).schema.fields[self.column].dtype

    def describe(self) -> str:
        """Return it in a few words."""
        source = _shown_by(self.mark)
        text = f"#{source.id}.{source.schema.names[self.column]}"
        dtype = self.shown
        for step in self.steps:
            if isinstance(step, int):
                text += f" {'-' if step < 0 else '+'} {shown_distance(abs(step), dtype)}"
            else:
                text, dtype = _made_of(step, text), step.dtype
        return text


Limits: TypeAlias = frozenset[Limit]
"""Limits of which the least counts."""
ByColumn: TypeAlias = Mapping[int, Limits]
_MOST_LIMITS: Final = 8
"""More limits are not followed: that would take longer than it saves."""


@attrs.frozen
class ColumnBounds:
    """The bounds of the rows that a node gives."""

    columns: ByColumn = attrs.Factory(dict)
    """At each time no row comes, and none goes, whose value of the column is below what the limits were before."""
    at_once: tuple[frozenset[int], ...] | None = None
    """Rows with equal values in these columns come at one time alone; any of each set. None: nothing is known."""

    def at(self, places: Mapping[int, Sequence[int]]) -> ColumnBounds:
        """Return the bounds of rows that have some of the columns, at these places."""
        columns = {place: self.columns[i] for i in self.columns for place in places.get(i, ())}
        if self.at_once is None:
            return ColumnBounds(columns)
        sets = tuple(frozenset(p for i in some for p in places.get(i, ())) for some in self.at_once)
        return ColumnBounds(columns, sets if all(sets) else None)

    def tells(self, keys: Iterable[int]) -> bool:
        """Return whether all rows with the same values in these columns come at one time."""
        given = frozenset(keys)
        return self.at_once is not None and all(some & given for some in self.at_once)


@attrs.frozen
class Forget:
    """Which rows of an arrangement, or of what else an operator keeps, nobody asks for any more."""

    columns: ByColumn
    """Those whose value in any of these columns, as they are there, is below its limits."""
    at_once: bool = False
    """All that were there when the last step ended."""

    def describe(self, names: Sequence[str]) -> str:
        """Return it in a few words."""
        parts = []
        for column, limits in sorted(self.columns.items()):
            told = sorted(limit.describe() for limit in limits)
            parts.append(f"{names[column]} < " + (told[0] if len(told) == 1 else f"the least of {', '.join(told)}"))
        return " or ".join([*parts, *(["all that was there before the step"] if self.at_once else [])])


def bounds(graph: Graph) -> dict[Node, ColumnBounds]:
    """Return the bounds of each node, as far as there are any."""
    found: dict[Node, ColumnBounds] = {}
    for node in graph.nodes if len(graph.coordinates) == 1 else ():
        rule = _RULES.get(type(node))
        if node.scope is not graph.root or rule is None:
            continue
        known = rule(node, _of(found, node))
        if isinstance(node, Filter) and isinstance(pairs := node.inputs[0], _PAIRS):
            known = _of_pairs(pairs, _of(found, pairs), _said_by(node, pairs))
        if known.columns or known.at_once is not None:
            found[node] = known
    return found


def forgetting(graph: Graph) -> dict[tuple[Node, int], Forget]:
    """Return what may be forgotten of what each operator keeps of its inputs, by the columns of these.

    That is groups that no row will come for any more, and rows that none of the other side will meet any more.
    """
    known = bounds(graph)
    found: dict[tuple[Node, int], Forget | None] = {}
    for node in graph.nodes if known else ():
        if node.scope is not graph.root:
            continue
        if isinstance(node, Arrange):
            found[node, 0] = _either([_asked_by(graph, known, *reader) for reader in graph.consumers(node)])
        elif isinstance(node, Reduce):
            found[node, 0] = _of_groups(known.get(node.inputs[0], _NONE), node.keys)
        elif isinstance(node, Threshold):
            found[node, 0] = _of_groups(known.get(node.inputs[0], _NONE), range(len(node.schema)))
        elif isinstance(node, RangeJoin):
            both = [_asked_by(graph, known, node, side) for side in (0, 1)]
            found |= {(node, side): _either(both) if node.has_one_index else both[side] for side in (0, 1)}
    return {place: one for place, one in found.items() if one is not None and (one.columns or one.at_once)}


def explain_forgetting(graph: Graph) -> str:
    """Return which operators of a graph forget what, a line each; nothing where none does."""
    lines = []
    for (node, side), forget in forgetting(graph).items():
        source = node.inputs[side]
        of = f" of #{source.id}" if len(node.inputs) > 1 else ""
        lines.append(f"  #{node.id} {node.kind}{of}: {forget.describe(source.schema.names)}")
    return "\n".join(["forgets behind watermarks and clocks:", *lines]) if lines else ""


# -- what is known of the rows that operators give --------------------------------------------------------------------

_NONE: Final = ColumnBounds()
_PAIRS: Final = (Join, RangeJoin)
_Rule: TypeAlias = Callable[[Any, list[ColumnBounds]], ColumnBounds]


def _of(found: Mapping[Node, ColumnBounds], node: Node) -> list[ColumnBounds]:
    return [found.get(source, _NONE) for source in node.inputs]


def _same(_node: Node, sources: list[ColumnBounds]) -> ColumnBounds:
    """Return that rows of the input are given at the same times."""
    return sources[0]


def _of_concat(_node: Concat, sources: list[ColumnBounds]) -> ColumnBounds:
    if len(sources) == 1:
        return sources[0]
    return ColumnBounds(_known({c: _union(s.columns[c] for s in sources) for c in _in_all(s.columns for s in sources)}))


def _of_map(node: Map, sources: list[ColumnBounds]) -> ColumnBounds:
    (source,) = sources
    columns: dict[int, Limits] = {}
    for place, bound in enumerate(node.columns):
        rises = rises_with(bound)
        if rises is None or rises not in source.columns or bound.dtype not in INSTANTS:
            continue
        if isinstance(bound, BoundColumn):
            columns[place] = source.columns[rises]
        else:
            of_one = moved(bound, lambda _: 0)
            columns[place] = frozenset(limit.then(of_one) for limit in source.columns[rises])
    return attrs.evolve(source.at(_picked(node)), columns=columns)


def _of_late_rows(node: LateRows, sources: list[ColumnBounds]) -> ColumnBounds:
    """Return that no late row comes any more; of the late ones themselves nothing is known."""
    source, _ = sources
    if not node.on_time:
        return _NONE
    return attrs.evolve(source, columns={**source.columns, node.column: _by_watermark(node, 0)})


def _of_sort_buffer(node: SortBuffer, sources: list[ColumnBounds]) -> ColumnBounds:
    """Return that of a row: it is given when the watermark passes it, or when it comes, late or as its input's are."""
    more: Limits | None = frozenset() if node.drops_late else sources[0].columns.get(node.column)
    return _NONE if more is None else ColumnBounds(_known({node.column: _by_watermark(node, -node.extra) | more}))


def _of_sliding_windows(node: SlidingWindows, sources: list[ColumnBounds]) -> ColumnBounds:
    """Return the same, where no call waits for rows to come, however late these do."""
    more = sources[0].columns.get(node.column)
    if node.closing or more is None:
        return _NONE
    kept = node.windows.kept(node.keys)
    limits = _by_watermark(node, -node.distance) | more
    return ColumnBounds(_known({place: limits for place, column in enumerate(kept) if column == node.column}))


def _of_sessions(node: ClosedSessions, _sources: list[ColumnBounds]) -> ColumnBounds:
    """Return that a session's rows are given at one time: no later one of the partition begins where it does."""
    alike = [_equal_to(node.inputs[0], key) for key in range(node.keys)]
    return ColumnBounds(at_once=(*alike, frozenset((len(node.schema) - 1,))))


def _of_clocked(node: OrderedDynamicFilter, _sources: list[ColumnBounds]) -> ColumnBounds:
    """Return that a row goes when the clock passes it, and comes before that, if at all."""
    if node.monotone != "increasing":
        return _NONE
    columns = {l: frozenset((Limit(node, r),)) for l, how, r in node.conditions if how in (">", ">=")}
    return ColumnBounds({c: limits for c, limits in columns.items() if node.schema.fields[c].dtype in INSTANTS})


def _of_reduce(node: Reduce, sources: list[ColumnBounds]) -> ColumnBounds:
    """Return that a group's rows change when rows of it come."""
    places: dict[int, list[int]] = {}
    kept: Sequence[int] = ()
    if isinstance(node.logic, Aggregates):
        kept = node.keys
    elif isinstance(node.logic, TopK):
        kept = range(len(node.inputs[0].schema))
    elif isinstance(node.logic, Windows):
        kept = node.logic.kept(len(node.keys))
    alike = {c: key for key in reversed(node.keys) for c in _equal_to(node.inputs[0], key)}
    for place, column in enumerate(kept):
        if column in alike:
            places.setdefault(alike[column], []).append(place)
    (source,) = sources
    known = source if source.tells(node.keys) else ColumnBounds(source.columns)
    return known.at(places)


def _of_pairs(
    node: Join | RangeJoin, sources: list[ColumnBounds], said: Iterable[tuple[int, int, int]] = ()
) -> ColumnBounds:
    """Return that a pair comes and goes with one of its rows: a column is bounded by its side, and by the other."""
    width = len(node.inputs[0].schema)
    own = {**sources[0].columns, **{width + c: limits for c, limits in sources[1].columns.items()}}
    columns: dict[int, Limits] = {}
    for one, other, distance in (*_joined(node), *said):
        if (one < width) != (other < width) and one in own and other in own:
            columns.setdefault(one, own[one] | _plus(own[other], distance))
    return ColumnBounds(_known({place: columns[c] for place, c in enumerate(node.output) if c in columns}))


_RULES: Final[dict[type, _Rule]] = {
    Arrange: _same,
    Concat: _of_concat,
    ClosedSessions: _of_sessions,
    Consolidate: _same,
    Filter: _same,
    Inspect: _same,
    Join: _of_pairs,
    LateRows: _of_late_rows,
    Map: _of_map,
    Negate: _same,
    OrderedDynamicFilter: _of_clocked,
    RangeJoin: _of_pairs,
    Reduce: _of_reduce,
    SlidingWindows: _of_sliding_windows,
    SortBuffer: _of_sort_buffer,
    Threshold: _same,
}


# -- what follows from that for what is kept --------------------------------------------------------------------------


def _of_groups(known: ColumnBounds, keys: Iterable[int]) -> Forget:
    """Return which groups no row comes for any more."""
    keys = [*keys]
    return Forget({k: known.columns[k] for k in keys if k in known.columns}, at_once=bool(keys) and known.tells(keys))


def _asked_by(graph: Graph, known: Mapping[Node, ColumnBounds], reader: Node, side: int) -> Forget | None:
    """Return which rows of an input an operator does not ask for any more; None where that is not known."""
    of = _of(known, reader)
    if reader.scope is not graph.root:
        return None
    if isinstance(reader, Reduce):
        return _of_groups(of[side], reader.keys)
    if not isinstance(reader, _PAIRS):
        return None
    said: Iterable[tuple[int, int, int]] = ()
    readers = graph.consumers(reader)
    if len(readers) == 1 and isinstance(pairs := readers[0][0], Filter):
        said = _said_by(pairs, reader)  # other pairs are made for nobody
    width = len(reader.inputs[0].schema)
    own, other = (0, width) if side == 0 else (width, 0)
    theirs = {other + c: limits for c, limits in of[1 - side].columns.items()}
    here = range(own, own + len(reader.inputs[side].schema))
    met = {a - own: _plus(theirs[b], by) for a, b, by in (*said, *_joined(reader)) if a in here and b in theirs}
    return Forget(_known(met))


def _either(asked: Sequence[Forget | None]) -> Forget | None:
    """Return the rows that none of several readers looks up any more."""
    known = [one for one in asked if one is not None]
    if not known or len(known) < len(asked):
        return None
    columns = {c: _union(one.columns[c] for one in known) for c in _in_all(one.columns for one in known)}
    return Forget(_known(columns), at_once=all(one.at_once for one in known))


# -- pairs, and columns -----------------------------------------------------------------------------------------------


def _joined(node: Join | RangeJoin) -> Iterator[tuple[int, int, int]]:
    """Iterate over which columns of pairs are at least what others are, as `distances` does, by how they are joined."""
    width = len(node.inputs[0].schema)
    keys = node.keys if isinstance(node, RangeJoin) else zip(*map(arranged_keys, node.inputs), strict=True)
    for l, r in keys:
        yield l, width + r, 0
        yield width + r, l, 0
    if isinstance(node, RangeJoin):
        l, how, r = node.comparison
        yield (width + r, l, 0) if how.startswith("<") else (l, width + r, 0)


def _said_by(node: Filter, pairs: Join | RangeJoin) -> Iterator[tuple[int, int, int]]:
    """Iterate over the same, by what a filter says of pairs."""
    for condition in conditions(node.predicate):
        for one, other, distance in distances(condition):
            yield pairs.output[one], pairs.output[other], distance


def _equal_to(node: Node, column: int) -> frozenset[int]:
    """Return the columns that a column is a copy of, or that are one of it; itself among them."""
    while isinstance(node, (Arrange, Consolidate, Filter)):
        (node,) = node.inputs
    if not isinstance(node, Map):
        return frozenset((column,))
    return frozenset(i for i, bound in enumerate(node.columns) if bound == node.columns[column])


def _picked(node: Map) -> Mapping[int, Sequence[int]]:
    """Return where a map has the columns that it leaves as they are."""
    places: dict[int, list[int]] = {}
    for place, bound in enumerate(node.columns):
        if isinstance(bound, BoundColumn):
            places.setdefault(bound.index, []).append(place)
    return places


# -- limits -----------------------------------------------------------------------------------------------------------


def _made_of(step: Bound, text: str) -> str:
    """Return an expression of one value, which is told by a text."""
    return to_sql(substituted(step, lambda column: attrs.evolve(column, name=text))).replace(f"`{text}`", text)


def _by_watermark(node: Node, distance: int) -> Limits:
    _, mark = node.inputs
    assert isinstance(mark, Watermark)
    return frozenset((Limit(mark, 0).plus(distance),))


def _shown_by(mark: Node) -> Node:
    return mark.inputs[1] if isinstance(mark, OrderedDynamicFilter) else mark


def _plus(limits: Limits, distance: int) -> Limits:
    return frozenset(limit.plus(distance) for limit in limits)


def _union(limits: Iterable[Limits]) -> Limits:
    return frozenset().union(*limits)


def _in_all(columns: Iterable[ByColumn]) -> set[int]:
    return set.intersection(*(set(some) for some in columns))


def _known(columns: ByColumn) -> ByColumn:
    """Return the columns with not too many limits."""
    return {column: limits for column, limits in columns.items() if len(limits) <= _MOST_LIMITS}
