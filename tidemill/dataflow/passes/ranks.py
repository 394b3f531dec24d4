"""Limiting ranks: where only the first rows of a partition are wanted, only those are numbered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

import attrs

from tidemill.dataflow.composites import SemiJoin, TopK, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Filter, Join, Map, Node, Threshold
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.functions.operators import MIRRORED, OPPOSITE
from tidemill.expressions.ordering import OrderColumn, OrderKey
from tidemill.expressions.rewriting import column, conditions
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.types import FLOAT64
from tidemill.expressions.windows.bound import (
    MOST_COPIES,
    AggregateCall,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
)

CEILING: Final = 10_000
"""Of more first rows than these a limit costs more than partitions kept in their order do, unless they are some
ten times as large: two structures are to be changed then, and at least as many rows numbered anew.

See `python -m benchmarks window_limits`: it halves a step in a partition of 100,000 rows, and doubles it in 30,000.
"""


def limit_ranks(graph: Graph) -> Graph:
    """Return the graph with windows over the first rows of partitions alone, where a filter wants no others.

    ``row_number() <= k`` and its equivalents (``2 > row_number() - 1``, ``IN (1, 2)``, bounds on both sides of
    an ``OR``) takes a top-k before the window, or instead of it, where nothing but numbers is asked for; ``rank()`` and
    ``dense_rank()`` the peers of one. Only where all calls of the window look at no rows after the current one, or its
    peers, and where nobody else reads them; and not of more than `CEILING` rows of partitions that may be kept in their
    order. The filter may come after others, after columns that are computed from ranks, and after joins of these rows
    with others, as with the values of whole partitions.
    """
    if not any(isinstance(node, Windowed) for node in graph.nodes):
        return graph
    steps = _STEPS * len(graph.nodes)

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal steps
        assert isinstance(node, Filter)
        steps, below = _limited(copy, inputs[0], node.predicate, steps)
        return copy.put(node, inputs=inputs if below is None else (below,))

    return rebuild(graph, rewrite, Filter)


def _limited(copy: Copy, source: Node, predicate: Bound, steps: int) -> tuple[int, Node | None]:
    """Return how many of the steps are left, and the source with its windows limited; None if there is no limit."""
    flags, way = list(conditions(predicate)), list[Node]()
    asked = [most for c in flags for most in _at_most(c)]
    between = (Arrange, Filter, Join, Map)
    while (asked or flags) and len(way) < steps and isinstance(source, between) and copy.readers(source) <= 1:
        flags = list(_flags_before(source, flags))
        asked = [before for most in asked for before in _asked_before(source, most)]
        asked += [most for c in flags if isinstance(source, Map) for most in _at_most(c)]
        way.append(source)
        source = source.inputs[0]
    steps -= len(way)
    if copy.readers(source) > 1 or not isinstance(source, Windowed):
        return steps, None
    made = _first(copy, source, asked)
    for node in reversed(way if made is not None else []):
        assert made is not None
        made = copy.put(node, inputs=(made, *node.inputs[1:]))
    return steps, made


def _first(copy: Copy, source: Windowed, asked: Sequence[_Most]) -> Node | None:
    """Return the window over the first rows, or peers, of each partition, if no others are asked for."""
    for sign, index, most in asked:
        ranking = _ranking(source, index) if sign > 0 else None
        if ranking is None or most > _worth_it(source) or not _looks_back(source, ranking):
            continue
        count = max(most, 0)
        if source.most is None or count < source.most:
            if ranking == "row_number" and source.bound.numbers_rows and 0 < count <= MOST_COPIES:
                return copy.put(source, inputs=source.inputs, most=count)  # which its lowering makes use of
            first = _first_rows if ranking == "row_number" else _first_peers
            rows = first(copy, source, count, ranking)
            return None if rows is None else copy.put(source, inputs=(rows,), most=count)
    return None


def _worth_it(source: Windowed) -> int:
    """Return the greatest rank that is worth a limit."""
    bound = source.bound
    in_order = bound.strategy in ("auto", "ordered") and source.scope.coordinates == 1 and not bound.look_at_all
    return CEILING if in_order else _GREATEST_RANK


# -- conditions -------------------------------------------------------------------------------------------------------

_GREATEST_RANK: Final = 2**63 - 1
"""The greatest rank there is: a condition that lets all through is no limit, and engines count in 64 bits."""
_WHOLE: Final = 2**53
"""Below this whole numbers are floats as they are."""
_STEPS: Final = 50
"""How many operators below filters are looked through, for each of the graph: a long chain is not walked from each."""
_DEEPEST: Final = 100
"""How many calls inside one another are looked into."""
_Linear: TypeAlias = tuple[Fraction, int | None, Fraction]
"""A factor, a column or none, and what is added to their product."""
_Most: TypeAlias = tuple[int, int, int]
"""A sign, a column, and the greatest value that plus or minus the column has in the rows that are asked for."""


def _at_most(condition: Bound, *, holds: bool = True) -> list[_Most]:
    """Return the limits on columns that follow where a condition is true, or false.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> def shown(text):
    ...     return _at_most(bind(expr(text), Schema.of({"n": "int64"})))
    >>> [shown(text) for text in ("n < 3", "5 >= n + 1", "-n > -4", "n > 3", "n * 2 < 3")]
    [[(1, 0, 2)], [(1, 0, 4)], [(1, 0, 3)], [(-1, 0, -4)], [(1, 0, 1)]]
    >>> [shown(text) for text in ("n < 2.5", "NOT n > 2", "n IN (1, 2)", "n = 1 OR n < 4", "n = 1 OR n <> 4")]
    [[(1, 0, 2)], [(1, 0, 2)], [(1, 0, 2), (-1, 0, -1)], [(1, 0, 3)], []]
    """
    if not isinstance(condition, BoundCall) or condition.depth > _DEEPEST:
        return []
    function, args = condition.function, condition.args
    if function == "not":
        return _at_most(args[0], holds=not holds)
    if function in ("and", "or"):
        found = [_at_most(part, holds=holds) for part in args]
        return [most for some in found for most in some] if (function == "and") == holds else _in_any(found)
    if function == "in":
        return _in_any([_compared("eq", args[0], value) for value in args[1:] if not _is_null(value)]) if holds else []
    function = "eq" if function == "eq_null_safe" and not any(map(_is_null, args)) else function
    compared = function if holds else OPPOSITE.get(function, "")
    return _compared(compared, *args) if compared in MIRRORED and compared != "ne" else []


def _is_null(bound: Bound) -> bool:
    return isinstance(bound, BoundLiteral) and bound.value is None


def _in_any(found: Sequence[Sequence[_Most]]) -> list[_Most]:
    """Return the limits that follow where one of several conditions holds, given those of each."""
    each = [{most[:2]: min(m[2] for m in some if m[:2] == most[:2]) for most in some} for some in found]
    common = [key for key in (each[0] if each else ()) if all(key in one for one in each)]
    return [(*key, max(one[key] for one in each)) for key in common]


def _compared(how: str, first: Bound, second: Bound) -> list[_Most]:
    """Return the limits that follow from a comparison of a column with a number, however they are written."""
    left, right = _linear(first), _linear(second)
    if left is None or right is None or (left[1] is None) == (right[1] is None):
        return []
    if left[1] is None:
        left, right, how = right, left, MIRRORED[how]
    number = right[2] - left[2]
    if FLOAT64 in (first.dtype, second.dtype) and abs(number) >= _WHOLE:
        return []
    factor, index = left[:2]
    assert index is not None
    found = []
    if how in ("lt", "le", "eq"):
        found.append(_least(factor, index, number, strictly=how == "lt"))
    if how in ("gt", "ge", "eq"):
        found.append(_least(-factor, index, -number, strictly=how == "gt"))
    return found


def _least(factor: Fraction, index: int, number: Fraction, *, strictly: bool) -> _Most:
    """Return the limits that follow from a factor times a column being less than a number, or no greater."""
    most = number / abs(factor)
    return (1 if factor > 0 else -1), index, math.ceil(most) - 1 if strictly else math.floor(most)


def _asked_before(node: Node, asked: _Most) -> list[_Most]:
    """Return a bound on an operator's output as bounds on its input; of a join, on the left input."""
    sign, index, most = asked
    if isinstance(node, Map):
        found = _linear(node.columns[index]) if node.columns[index].dtype.is_integer else None
        if found is None or found[1] is None:
            return []
        return [_least(sign * found[0], found[1], most - sign * found[2], strictly=False)]
    if isinstance(node, Join):
        index = node.output[index]
        return [(sign, index, most)] if index < len(node.inputs[0].schema) else []
    return [asked]


def _flags_before(node: Node, flags: Sequence[Bound]) -> Iterator[Bound]:
    """Iterate over what columns that have to be true are made of."""
    for flag in flags:
        if isinstance(flag, BoundColumn):
            if isinstance(node, Map):
                yield from conditions(node.columns[flag.index])
            elif not isinstance(node, Join):
                yield flag
            elif (place := node.output[flag.index]) < len(node.inputs[0].schema):
                yield column(node.inputs[0].schema, place)


def _linear(bound: Bound) -> _Linear | None:
    """Return a whole number as a factor of a column and what is added; or of another type, as it is."""
    if isinstance(bound, BoundColumn):
        return (Fraction(1), bound.index, Fraction(0)) if bound.dtype.is_integer else None
    if isinstance(bound, BoundLiteral):
        is_number = isinstance(bound.value, (int, float, Decimal)) and not isinstance(bound.value, bool)
        return (Fraction(1), None, Fraction(bound.value)) if is_number and math.isfinite(bound.value) else None
    if bound.depth > _DEEPEST:
        return None
    if bound.function == "cast" and bound.args[0].dtype.is_integer:
        to = bound.dtype
        wide = to == FLOAT64 or to.is_decimal or to.is_integer
        return _linear(bound.args[0]) if wide else None
    if bound.function not in ("add", "subtract", "multiply", "negate") or not bound.dtype.is_integer:
        return None
    operands = [_linear(a) for a in bound.args]
    return None if None in operands else _worked_out(bound.function, [o for o in operands if o is not None])


def _worked_out(function: str, operands: Sequence[_Linear]) -> _Linear | None:
    (factor, index, added), *rest = operands
    if function == "negate":
        return -factor, index, -added
    for more, other, number in rest:
        if index is not None and other is not None:
            return None
        if function == "multiply":
            by = number if other is None else added
            if not by:
                return None
            factor, added = (factor if other is None else more) * by, added * number
        else:
            sign = 1 if function == "add" else -1
            factor, added = (factor if other is None else sign * more), added + sign * number
        index = other if index is None else index
    return factor, index, added


# -- windows ----------------------------------------------------------------------------------------------------------


def _ranking(node: Windowed, index: int) -> str | None:
    """Return which function has the values of a column, if it is one that counts rows, or peers, up to the current."""
    calls = node.bound.windows.calls
    place = index - (len(node.schema) - len(calls))
    call = calls[place] if place >= 0 else None
    counting = ("row_number", "rank", "dense_rank")
    return call.function if isinstance(call, RankingCall) and call.function in counting else None


def _looks_back(node: Windowed, ranking: str) -> bool:
    """Return whether no call depends on rows after those that are left."""
    return all(_up_to_here(call, peers=ranking != "row_number") for call in node.bound.windows.calls)


def _up_to_here(call: BoundWindowCall, *, peers: bool) -> bool:
    """Return whether a call looks at no rows after the current one, its peers aside."""
    if isinstance(call, RankingCall):
        return call.function in ("row_number", "rank", "dense_rank")
    if isinstance(call, OffsetCall):
        if not isinstance(call.offset, BoundLiteral):
            return False
        by = call.offset.value or 0
        return bool(by >= 0 if call.function == "lag" else by <= 0)
    assert isinstance(call, (ValueCall, AggregateCall))
    frame = call.frame
    if not isinstance(frame.end, int) or frame.end > 0:
        return False
    return frame.mode == "rows" or peers


def _order_key(node: Windowed, by: OrderColumn) -> OrderKey:
    return OrderKey(node.bound.columns[by.column][1], by.descending, by.nulls_first)


def _first_rows(copy: Copy, node: Windowed, count: int, _ranking: str) -> Node | None:
    """Return the first rows of each partition."""
    windows, source = node.bound.windows, node.inputs[0]
    order = tuple(_order_key(node, by) for by in (*windows.order, *windows.ties))
    if not order or not count:
        return None
    own = tuple(windows.row.index(i) for i in windows.hash_columns)
    hashed = None if windows.hashed is None else own
    return copy.add(TopK, node, source, schema=source.schema, keys=node.keys, order=order, count=count, hashed=hashed)


def _first_peers(copy: Copy, node: Windowed, count: int, ranking: str) -> Node | None:
    """Return the rows of the first peer groups of each partition, or of those that the first rows are in."""
    windows, source = node.bound.windows, node.inputs[0]
    order = [_order_key(node, by) for by in windows.order]
    if not order or not count:
        return None
    of_rows = [column(source.schema, i) for i in range(len(source.schema))]
    places = [*node.keys, *(key.expression for key in order)]
    fields = [Field(unused_name(f"place {i}#", source.schema.names), p.dtype, p.nullable) for i, p in enumerate(places)]
    wide = Schema((*source.schema, *fields))
    rows: Node = copy.add(Map, node, source, schema=wide, columns=(*of_rows, *places))
    if ranking == "dense_rank":
        own = tuple(column(wide, i) for i in range(len(of_rows), len(wide)))
        peers: Node = copy.add(Map, node, rows, schema=Schema(tuple(fields)), columns=own)
        peers = copy.add(Threshold, node, peers, schema=peers.schema)
        own = tuple(column(peers.schema, i) for i in range(len(fields)))
        keys, by = own[: len(node.keys)], own[len(node.keys) :]
        sorted_by = tuple(attrs.evolve(key, expression=e) for key, e in zip(order, by, strict=True))
        peers = copy.add(TopK, node, peers, schema=peers.schema, keys=keys, order=sorted_by, count=count)
    else:  # of the rows as they are, which errors name
        peers = copy.add(TopK, node, source, schema=source.schema, keys=node.keys, order=tuple(order), count=count)
        peers = copy.add(Map, node, peers, schema=Schema(tuple(fields)), columns=tuple(places))
    pairs = tuple((f.name, f.name) for f in fields)
    kept = copy.add(SemiJoin, node, rows, peers, schema=wide, on=pairs, nulls_equal=True)
    back = tuple(column(wide, i) for i in range(len(of_rows)))
    return copy.add(Map, node, kept, schema=source.schema, columns=back)
