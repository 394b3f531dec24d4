"""Framing self-joins: an aggregation over the rows near each row is a window, and not a join of all with all."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from tidemill.dataflow.composites import Aggregate, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Enter, Filter, Join, Map, Node, arranged_keys, outside
from tidemill.dataflow.passes.bands import Band, band_of
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.dataflow.passes.row_keys import row_key, row_keys
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.aggregates import ORDERED, AggregateCall, BoundAggregate
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral, walk
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.rewriting import (
    all_true,
    can_fail,
    column,
    column_uses,
    columns_among,
    conditions,
    moved,
    substituted,
)
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.types import BOOL, FLOAT64, INT64
from tidemill.expressions.windows.binding import BoundWindows
from tidemill.expressions.windows.bound import AggregateCall as WindowAggregate
from tidemill.expressions.windows.bound import Windows


def frame_self_joins(graph: Graph) -> Graph:
    """Return the graph with aggregates over the rows near each row as window calls over ``RANGE`` frames.

    That is a collection joined with itself where some columns are equal (any number, also none) and the distance in one
    more is bounded, ``b.t between a.t - 5 and a.t``, then grouped by a's row, and aggregated over b's columns alone.
    The join has all pairs of a key, the window as many rows as there are.

    It has to be known that no row is there twice: the collection is an input declared unique or with a key, a group's
    aggregates, a ``distinct()``, or some of the rows of these. With other counts a join does what windows do not: it
    takes negative ones, and any number of copies. The groups have to be of one row, by a key of it, or else of rows
    with equal values in all columns that the condition is about; then the aggregates have to be those that can be put
    together from each row's: not first, last, list, variance or stddev, and of sums and averages those of integers.

    Nor are there frames where there are further conditions on either row, where an offset is no literal, where a float
    or what is moved by months is compared strictly or not as it stands (``b.t >= a.t - 0.1`` is), where anybody else
    reads the pairs, or where an argument can fail, if it may be that of a row which is near no other.
    """

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Aggregate)
        if node.keys:
            found = _found(copy, node, inputs[0])
            if found is not None:
                return _framed(copy, node, found)
        return copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite, Aggregate)


Columns: TypeAlias = Sequence[Bound]
"""Columns, as expressions."""


@attrs.frozen
class _SelfJoin:
    """An aggregation over the rows near each row, all as expressions of one row of the collection."""

    base: Node
    band: Band
    keys: tuple[Bound, ...]
    calls: tuple[AggregateCall, ...]
    row_key: frozenset[int]

    @property
    def is_single(self) -> bool:
        """Whether each group is of one row."""
        return self.row_key <= self._grouped

    @property
    def _grouped(self) -> set[int]:
        """The columns that are the same in all rows of a group."""
        return columns_among(self.keys)

    @property
    def can_be_framed(self) -> bool:
        """Whether a window gives each group its aggregates, and no error beyond theirs."""
        if any(call.function in ORDERED for call in self.calls):
            return False
        if not self.band.has_row_itself and any(can_fail(c.argument) for c in self.calls if c.argument is not None):
            return False
        alike = {*self.band.keys, self.band.column} <= self._grouped
        return self.is_single or (alike and None not in map(_together, self.calls))


# -- finding ----------------------------------------------------------------------------------------------------------


def _found(copy: Copy, node: Aggregate, source: Node) -> _SelfJoin | None:
    """Return what an aggregate says, if it is over the rows near each row of one collection."""
    path = _path(copy, source)
    sides = _sides(path[-1]) if path else None
    if sides is None:
        return None
    base, known, *columns = sides
    width = len(base.schema)
    asked = _asked(node, path, columns)
    if asked is not None and _sides_of(asked[0], width) == {1}:  # the groups are of the right side's rows
        columns = [_with_index(side, lambda i: (i + width) % (2 * width)) for side in columns]
        asked = _asked(node, path, columns)
    band = None if asked is None else _band(path, columns, width=width)
    if asked is None or band is None or _sides_of(asked[0], width) != {0} or _sides_of(asked[1], width) - {1}:
        return None
    arguments = iter(_with_index(asked[1], lambda i: i - width))
    calls = tuple(c if c.argument is None else attrs.evolve(c, argument=next(arguments)) for c in node.aggregates)
    grouped = columns_among(asked[0])
    known = next((key for key in row_keys(base) if key <= grouped), known)
    found = _SelfJoin(base, band, tuple(asked[0]), calls, known)
    return found if found.can_be_framed else None


def _asked(node: Aggregate, path: Sequence[Node], sides: Sequence[Columns]) -> tuple[Columns, Columns] | None:
    """Return the keys and the arguments of an aggregate over pairs of rows."""
    arguments = [c.argument for c in node.aggregates if c.argument is not None]
    found = _of_pairs([*node.keys, *arguments], path, sides)
    return None if found is None else (found[: len(node.keys)], found[len(node.keys) :])


def _with_index(expressions: Columns, to: Callable[[int], int]) -> list[Bound]:
    """Return expressions over columns at other places."""
    return [moved(e, to) for e in expressions]


def _path(copy: Copy, source: Node) -> list[Node]:
    """Return the path from an aggregate down to a join, which is last; empty if its end has several readers."""
    path = [source]
    while copy.readers(path[-1]) <= 1 and isinstance(path[-1], (Filter, Map)):
        path.append(path[-1].inputs[0])
    return path if copy.readers(path[-1]) <= 1 else []


def _sides(join: Node) -> tuple[Node, frozenset[int], Columns, Columns] | None:
    """Return the collection that both sides of a self-join are made of row by row, its key, and the sides' columns.

    None if it is no self-join, or if it is not known that no row of the collection is there twice.
    """
    if not isinstance(join, Join):
        return None
    left, right = (dict(_ways(outside(side).inputs[0])) for side in join.inputs)
    for base in left:
        known = row_key(base) if base in right else None
        if known is not None:
            width = len(base.schema)
            return base, known, left[base], _with_index(right[base], functools.partial(operator.add, width))
    return None


def _ways(node: Node) -> Iterator[tuple[Node, Columns]]:
    """Iterate over what a node is made of row by row, nearest first, with its columns as expressions over that."""
    columns: Columns | None = [column(node.schema, i) for i in range(len(node.schema))]
    while columns is not None:
        yield node, columns
        if not isinstance(node, Map):
            return
        columns = _over(columns, node.columns)
        (node,) = node.inputs


def _over(expressions: Columns, columns: Columns) -> list[Bound] | None:
    """Return expressions with columns replaced by what these are; None where that would not be the same, or too much.

    A computed float is brought into its one form (no -0.0, one NaN) before anything else is made of it.
    """
    for expression in expressions:
        if not isinstance(expression, BoundColumn):
            inner = [columns[i] for i in column_uses(expression)]
            if any(isinstance(c, BoundCall) and c.dtype == FLOAT64 for c in inner):
                return None
    found = [substituted(e, lambda part: columns[part.index]) for e in expressions]
    return found if all(sum(1 for _ in walk(e)) <= _MOST_PARTS for e in found) else None


_MOST_PARTS: Final = 100
"""How many parts an expression is made to have."""


def _of_pairs(expressions: Columns, path: Sequence[Node], sides: Sequence[Columns]) -> list[Bound] | None:
    """Return expressions over what comes out of a path as expressions over pairs of rows of the collection."""
    found: list[Bound] | None = list(expressions)
    for node in path:
        if found is not None and isinstance(node, Map):
            found = _over(found, node.columns)
    if found is None:
        return None
    join = path[-1]
    assert isinstance(join, Join)
    both_sides = [*sides[0], *sides[1]]
    return _over(found, [both_sides[i] for i in join.output])


def _band(path: Sequence[Node], sides: Sequence[Columns], *, width: int) -> Band | None:
    """Return the band that the pairs are in which come through."""
    asked: list[Bound] = []
    for i, node in enumerate(path):
        if isinstance(node, Filter):
            found = _of_pairs(list(conditions(node.predicate)), path[i + 1 :], sides)
            if found is None:
                return None
            asked += found
    join = path[-1]
    assert isinstance(join, Join)
    function = "eq_null_safe" if join.nulls_equal else "eq"
    for places in zip(*map(arranged_keys, join.inputs), strict=True):
        pair = tuple(side[place] for side, place in zip(sides, places, strict=True))
        asked.append(BoundCall(function, pair, BOOL))
    return band_of(asked, width)


def _sides_of(expressions: Iterable[Bound], width: int) -> set[int]:
    """Return whose columns expressions over pairs read: those of the left row, 0, or of the right one, 1."""
    return {int(i >= width) for e in expressions for i in column_uses(e)}


_REPEATABLE: Final = {"min": "min", "max": "max", "bool_and": "bool_and", "bool_or": "bool_or", "count_distinct": "min"}
"""Aggregates that do not depend on how often a row is there, and those that give the one value of a group's rows."""


def _together(call: AggregateCall) -> str | None:
    """Return what makes a group's aggregate of the values of its rows, which are all equal; None where nothing does."""
    if call.function == "count":
        return "sum"
    if call.function in ("sum", "avg"):
        assert call.argument is not None
        return {"sum": "sum", "avg": "min"}[call.function] if call.argument.dtype.is_integer else None
    return _REPEATABLE.get(call.function)


# -- making -----------------------------------------------------------------------------------------------------------


def _framed(copy: Copy, node: Aggregate, found: _SelfJoin) -> Node:
    """Return the groups, made of each row's window."""
    found, rows = _narrowed(copy, node, found)
    needed = [column(rows.schema, i) for i in sorted(found.band.not_null) if rows.schema.fields[i].nullable]
    if needed:
        rows = copy.add(Filter, node, rows, schema=rows.schema, predicate=all_true(*map(_known, needed)))
    width, counts = len(rows.schema), not found.band.has_row_itself
    calls = (*found.calls, *([AggregateCall("count", None, INT64)] if counts else []))
    made = _windowed(copy, node, rows, calls, found.band)
    if counts:
        several = BoundCall("gt", (column(made.schema, width + len(found.calls)), BoundLiteral(0, INT64)), BOOL, False)
        made = copy.add(Filter, node, made, schema=made.schema, predicate=several)
    values = tuple(column(made.schema, width + i) for i in range(len(found.calls)))
    if found.is_single:
        made = copy.add(Map, node, made, schema=node.schema, columns=(*found.keys, *values))
    else:
        together = tuple(
            AggregateCall(str(_together(call)), value, call.output)
            for call, value in zip(found.calls, values, strict=True)
        )
        made = copy.add(Aggregate, node, made, schema=node.schema, keys=found.keys, aggregates=together)
    return _entered(copy, made, node.scope)


def _known(asked: Bound) -> BoundCall:
    return BoundCall("not", (BoundCall("is_null", (asked,), BOOL, nullable=False),), BOOL, nullable=False)


def _narrowed(copy: Copy, node: Node, found: _SelfJoin) -> tuple[_SelfJoin, Node]:
    """Return the rows with only the columns that are asked for, and what is asked for over these."""
    base, band = found.base, found.band
    read = {*found.row_key, *band.keys, band.column}
    read_by_calls = [c.argument for c in found.calls if c.argument is not None]
    for expression in (*found.keys, *read_by_calls):
        read.update(column_uses(expression))
    kept = sorted(read)
    if len(kept) == len(base.schema):
        return found, base
    schema = Schema(tuple(base.schema.fields[i] for i in kept))
    rows = copy.add(Map, node, base, schema=schema, columns=tuple(column(base.schema, i) for i in kept))
    keys, arguments = _with_index(found.keys, kept.index), iter(_with_index(read_by_calls, kept.index))
    calls = tuple(c if c.argument is None else attrs.evolve(c, argument=next(arguments)) for c in found.calls)
    own = frozenset(map(kept.index, found.row_key))
    return _SelfJoin(rows, band.over(kept), tuple(keys), calls, own), rows


def _windowed(copy: Copy, node: Node, rows: Node, calls: Sequence[AggregateCall], band: Band) -> Node:
    """Return the rows with the values of window calls after them."""
    own = [column(rows.schema, i) for i in range(len(rows.schema))]
    first = [own[i] for i in band.keys]
    columns: list[tuple[str, Bound]] = [(f"key {i}", key) for i, key in enumerate(first)]

    def place(name: str, bound: Bound) -> int:
        there = [b for _, b in columns]
        if bound not in there:
            columns.append((name, bound))
            return len(there)
        return there.index(bound)

    row = tuple(place(f"row {c.name}", c) for c in own)
    framed: list[WindowAggregate] = []
    for i, call in enumerate(calls):
        function, argument = call.function.removesuffix("_distinct"), call.argument
        of = None if argument is None else place(f"value {i}", argument)
        one = BoundAggregate(function, of, None if argument is None else argument.dtype, call.output)
        framed.append(WindowAggregate(one, band.frame, function != call.function))
    names = [unused_name(f"value {i}#", rows.schema.names) for i in range(len(calls))]
    order = (OrderColumn(row[band.column]),)
    windows = Windows(order, (), tuple(framed), tuple(names), row)
    fields = (Field(n, c.output, c.nullable) for n, c in zip(names, framed, strict=True))
    schema = Schema((*rows.schema, *fields))
    return copy.add(Windowed, node, rows, schema=schema, bound=BoundWindows(tuple(columns), len(first), windows))


def _entered(copy: Copy, node: Node, scope: Scope) -> Node:
    """Return a node as it is inside of a scope."""
    if node.scope is scope:
        return node
    assert scope.parent is not None
    inside = _entered(copy, node, scope.parent)
    return copy.graph.put(
        Enter(
            id=len(copy.graph.nodes), name=node.name, scope=scope, schema=node.schema, site=node.site, inputs=(inside,)
        )
    )
