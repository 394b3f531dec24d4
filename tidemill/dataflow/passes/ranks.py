"""Limiting ranks: of a partition from which only the first rows are wanted, only those are numbered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from tidemill.dataflow.composites import SemiJoin, TopK, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Filter, Join, Map, Node, Threshold
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.ordering import OrderColumn, OrderKey
from tidemill.expressions.rewriting import column, conditions
from tidemill.expressions.schema import Field, Schema, unused_name
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

    ``row_number() <= k`` and what comes to the same (``2 > row_number() - 1``) takes a top-k before the window, or
    instead of it, where nothing but numbers is asked for; ``rank()`` and ``dense_rank()`` the peers of one. Only where
    all calls of the window look at no rows after the current one, or its peers, and where nobody else reads them; and
    not of more than `CEILING` rows of partitions that may be kept in their order. The filter may come after others,
    after columns that are computed from ranks, and after joins of these rows with others, as with the values of whole
    partitions.
    """
    if not any(isinstance(node, Windowed) for node in graph.nodes):
        return graph
    steps = _STEPS * len(graph.nodes)

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal steps
        if isinstance(node, Filter):
            steps, below = _limited(copy, inputs[0], node.predicate, steps)
            if below is not None:
                return copy.put(node, inputs=(below,))
        return copy.put(node, inputs=inputs)

    return rebuild(graph, rewrite)


def _limited(copy: Copy, source: Node, predicate: Bound, steps: int) -> tuple[int, Node | None]:
    """Return how many of the steps are left, and the source with a limit to its windows; None where there is none."""
    asked, way = [most for c in conditions(predicate) for most in _at_most(c)], list[Node]()
    between = (Arrange, Filter, Join, Map)
    while asked and len(way) < steps and isinstance(source, between) and copy.readers(source) <= 1:
        asked = [before for most in asked for before in _asked_before(source, most)]
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
    return CEILING if in_order else _MOST


# -- conditions -------------------------------------------------------------------------------------------------------

_UPPER: Final = {"le": 0, "eq": 0, "lt": -1}
_LOWER: Final = {"ge": 0, "eq": 0, "gt": 1}
_MOST: Final = 2**63 - 1
"""The greatest rank there is: a condition that lets all through is no limit, and engines count in 64 bits."""
_STEPS: Final = 50
"""How many operators below filters are looked through, for each of the graph: a long chain is not walked from each."""
_DEEPEST: Final = 100
"""How many calls inside one another are looked into."""
_Linear: TypeAlias = tuple[int, int | None, int]
"""A sign, a column or none, and what is added: plus or minus the column, and a whole number."""
_Most: TypeAlias = tuple[int, int, int]
"""A sign, a column, and the greatest value that plus or minus the column has in the rows that are asked for."""


def _at_most(condition: Bound) -> list[_Most]:
    """Return what follows from a condition for the values of a column.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> schema = Schema.of({"n": "int64"})
    >>> [_at_most(bind(expr(text), schema)) for text in ("n < 3", "5 >= n + 1", "-n > -4", "n > 3", "n * 2 < 3")]
    [[(1, 0, 2)], [(1, 0, 4)], [(1, 0, 3)], [(-1, 0, -4)], []]
    """
    if not isinstance(condition, BoundCall) or condition.function not in (*_UPPER, *_LOWER):
        return []
    left, right = map(_linear, condition.args)
    if left is None or right is None or (left[1] is None) == (right[1] is None):
        return []
    sign, index = left[:2] if left[1] is not None else (-right[0], right[1])
    assert index is not None
    rest = right[2] - left[2]  # sign * column, compared with this
    found = []
    if condition.function in _UPPER:
        found.append((sign, index, rest + _UPPER[condition.function]))
    if condition.function in _LOWER:
        found.append((-sign, index, -(rest + _LOWER[condition.function])))
    return found


def _asked_before(node: Node, asked: _Most) -> list[_Most]:
    """Return what is asked of the rows that an operator's are made of; of a join, of the left ones."""
    sign, index, most = asked
    if isinstance(node, Map):
        found = _linear(node.columns[index])
        if found is None or found[1] is None:
            return []
        return [(sign * found[0], found[1], most - sign * found[2])]
    if isinstance(node, Join):
        index = node.output[index]
        return [(sign, index, most)] if index < len(node.inputs[0].schema) else []
    return [asked]


def _linear(bound: Bound) -> _Linear | None:
    if isinstance(bound, BoundColumn):
        return (1, bound.index, 0) if bound.dtype.is_integer else None
    if isinstance(bound, BoundLiteral):
        whole = isinstance(bound.value, int) and not isinstance(bound.value, bool)
        return (1, None, bound.value) if whole else None
    if bound.depth > _DEEPEST:
        return None
    operands = [_linear(a) for a in bound.args]
    if bound.function not in ("add", "subtract", "negate") or None in operands:
        return None
    found: _Linear | None = None
    for place, operand in enumerate(operands):
        assert operand is not None
        turned = -1 if bound.function == "negate" or (bound.function == "subtract" and place) else 1
        sign, index, number = turned * operand[0], operand[1], turned * operand[2]
        if found is None:
            found = (sign, index, number)
        elif found[1] is not None and index is not None:
            return None
        else:
            found = (found[0] if index is None else sign, found[1] if index is None else index, found[2] + number)
    return found


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
