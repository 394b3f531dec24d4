"""Grouping whole partitions: values that all rows of one share are computed by a group, and joined to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from tidemill.dataflow.composites import Aggregate, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Join, Map, Node, Threshold
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.aggregates import AggregateCall as Grouped
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn
from tidemill.expressions.ordering import OrderKey
from tidemill.expressions.rewriting import column, column_uses
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.types import BOOL
from tidemill.expressions.windows.binding import BoundWindows
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, ValueCall, value_fields
from tidemill.expressions.windows.calls import ONCE_IS_ENOUGH
from tidemill.expressions.windows.in_order import is_of_group


def group_whole_partitions(graph: Graph) -> Graph:
    """Return the graph with calls over whole partitions as aggregates of groups, which are joined to the rows.

    A change then costs what it does to the aggregate, and the rows only where that changes. So too the first and the
    last value of a partition, of all or of those that are not NULL, and aggregates of distinct values, each of which is
    one row then. Without partitions the group is of all rows, and each is joined to its one row. Where a strategy was
    asked for, calls stay as they are. The groups are of the rows as they were before other calls were added to them, so
    that these can be of fewer rows then: see `limit_ranks`.
    """
    before: dict[Node, Node] = {}  # what stands for windowed rows, and for these before their calls were added

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert isinstance(node, Windowed)
        grouped: list[_Grouped | None] = []
        if node.bound.strategy == "auto":
            grouped = [_grouped(node.bound, call) for call in node.bound.windows.calls]
        made = _joined(copy, node, inputs[0], grouped, before) if any(grouped) else copy.put(node, inputs=inputs)
        before[made] = inputs[0]
        return made

    return rebuild(graph, rewrite, Windowed)


def _with_keys(copy: Copy, node: Windowed, rows: Node) -> tuple[Node, tuple[int, ...]]:
    """Return rows with a column for each key, and which these are: further ones where they are none of theirs."""
    places = tuple(k.index for k in node.keys if isinstance(k, BoundColumn))
    if len(places) == len(node.keys) and len(set(places)) == len(places):
        return rows, places
    names, width = rows.schema.names, len(rows.schema)
    fields = [Field(unused_name(f"key {i}#", names), k.dtype, k.nullable) for i, k in enumerate(node.keys)]
    columns = (*(column(rows.schema, i) for i in range(width)), *node.keys)
    made = copy.add(Map, node, rows, schema=Schema((*rows.schema, *fields)), columns=columns)
    return made, tuple(range(width, width + len(fields)))


@attrs.frozen
class _Grouped:
    """A call over whole partitions as an aggregate of groups."""

    call: Grouped
    once: bool = False
    """Whether of a group's rows with the same argument one is taken."""


def _grouped(bound: BoundWindows, call: BoundWindowCall) -> _Grouped | None:
    """Return a call as an aggregate of the group that its partition is; None where it is none."""
    if not is_of_group(call):
        return None
    assert isinstance(call, AggregateCall | ValueCall)
    columns, windows = bound.columns, bound.windows
    order = tuple(OrderKey(columns[o.column][1], o.descending, o.nulls_first) for o in (*windows.order, *windows.ties))
    if isinstance(call, ValueCall):
        function, value = call.function.removesuffix("_value"), columns[call.column][1]
        known = BoundCall("not", (BoundCall("is_null", (value,), BOOL),), BOOL) if call.ignore_nulls else None
        return _Grouped(Grouped(function, value, call.output, known, order))
    aggregate, function = call.aggregate, call.function
    if aggregate.column is None:
        return _Grouped(Grouped("count", None, call.output))
    once = call.distinct and function not in ONCE_IS_ENOUGH
    if once and function == "count":
        function, once = "count_distinct", False
    condition = None if aggregate.condition is None else columns[aggregate.condition][1]
    of_list = order if function == "list" and windows.order else ()
    return _Grouped(Grouped(function, columns[aggregate.column][1], call.output, condition, of_list), once=once)


def _joined(
    copy: Copy, node: Windowed, source: Node, grouped: Sequence[_Grouped | None], before: Mapping[Node, Node]
) -> Node:
    """Return the rows with the values of all calls: of some from groups, of the others, if any, from a window."""
    width = len(source.schema)
    fields = value_fields(node.bound.windows)
    own = [i for i, one in enumerate(grouped) if one is None]
    rows = _windowed(copy, node, source, own) if own else source
    at = {i: width + place for place, i in enumerate(own)}
    rows, keys = _with_keys(copy, node, rows)
    for some in _groupings(grouped):
        groups = _groups(copy, node, source, {i: one for i, one in enumerate(grouped) if one and i in some}, before)
        left = copy.add(Arrange, node, rows, schema=rows.schema, keys=keys)
        right = copy.add(Arrange, node, groups, schema=groups.schema, keys=tuple(range(len(keys))))
        there = len(rows.schema)
        at |= {i: there + len(keys) + place for place, i in enumerate(some)}
        if len(at) == len(fields):
            output, schema = (*range(width), *(at[i] for i in range(len(fields)))), node.schema
        else:
            output, schema = (*range(there), *(at[i] for i in some)), Schema((*rows.schema, *(fields[i] for i in some)))
            at |= {i: there + place for place, i in enumerate(some)}
        rows = copy.add(Join, node, left, right, schema=schema, output=output, nulls_equal=True)
    return rows


def _groupings(grouped: Sequence[_Grouped | None]) -> list[list[int]]:
    """Return the calls that groups of the same rows have: all rows, or one for each value of some argument."""
    found: dict[Bound | None, list[int]] = {}
    for i, one in enumerate(grouped):
        if one is not None:
            found.setdefault(one.call.argument if one.once else None, []).append(i)
    return list(found.values())


def _groups(
    copy: Copy, node: Windowed, source: Node, some: Mapping[int, _Grouped], before: Mapping[Node, Node]
) -> Node:
    """Return the keys of partitions with the values of some calls, all of which are of the same rows."""
    fields, names = value_fields(node.bound.windows), node.bound.windows.names
    rows, calls = _without_calls(source, node, tuple(one.call for one in some.values()), before)
    keys = node.keys
    if any(one.once for one in some.values()):
        values = [*keys, *dict.fromkeys(call.argument for call in calls if call.argument is not None)]
        made = Schema(tuple(Field(f"column {i}", value.dtype, value.nullable) for i, value in enumerate(values)))
        rows = copy.add(Map, node, rows, schema=made, columns=tuple(values))
        rows = copy.add(Threshold, node, rows, schema=made)
        keys = tuple(column(made, i) for i in range(len(keys)))
        calls = tuple(attrs.evolve(call, argument=column(made, len(keys))) for call in calls)
    shown = (Field(unused_name(f"key {i}#", names), k.dtype, k.nullable) for i, k in enumerate(node.keys))
    schema = Schema((*shown, *(attrs.evolve(fields[i], nullable=fields[i].nullable or not keys) for i in some)))
    return copy.add(Aggregate, node, rows, schema=schema, keys=keys, aggregates=calls)


def _without_calls(
    source: Node, node: Windowed, calls: tuple[Grouped, ...], before: Mapping[Node, Node]
) -> tuple[Node, tuple[Grouped, ...]]:
    """Return the rows before other window calls were added, where the groups do not need those, and the aggregates.

    As ties, the values of such calls distinguish only copies of one row, which are all the same to the aggregates then.
    """
    asked = len(node.bound.windows.order)
    while source in before:
        width = len(before[source].schema)
        fewer = tuple(attrs.evolve(c, order=(*c.order[:asked], *_without(c.order[asked:], width))) for c in calls)
        if any(i >= width for read in (*node.keys, *_read(fewer)) for i in column_uses(read)):
            break
        source, calls = before[source], fewer
    return source, calls


def _without(ties: Sequence[OrderKey], width: int) -> Iterator[OrderKey]:
    """Iterate over the ties that are not just a column beyond the first ones."""
    return (t for t in ties if not (isinstance(t.expression, BoundColumn) and t.expression.index >= width))


def _read(calls: Sequence[Grouped]) -> Iterator[Bound]:
    """Iterate over all that aggregates read."""
    for call in calls:
        yield from (e for e in (call.argument, call.condition) if e is not None)
        yield from (key.expression for key in call.order)


def _windowed(copy: Copy, node: Windowed, source: Node, some: Sequence[int]) -> Node:
    """Return the rows with the values of some of the calls."""
    windows = node.bound.windows
    fewer = attrs.evolve(
        windows, calls=tuple(windows.calls[i] for i in some), names=tuple(windows.names[i] for i in some)
    )
    schema = Schema((*source.schema, *value_fields(fewer)))
    bound = attrs.evolve(node.bound, windows=fewer)
    return copy.add(Windowed, node, source, schema=schema, bound=bound, most=node.most)
