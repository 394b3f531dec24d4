"""Grouping whole partitions: what is the same for all rows of one is computed by a group, and joined to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from tidemill.dataflow.composites import Aggregate, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Join, Node
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.aggregates import AggregateCall as Grouped
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.ordering import OrderKey
from tidemill.expressions.rewriting import column_uses
from tidemill.expressions.schema import Schema, unused_name
from tidemill.expressions.windows.binding import BoundWindows
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, ValueCall, value_fields
from tidemill.expressions.windows.in_order import ONCE_IS_ENOUGH

__all__ = ["group_whole_partitions"]


def group_whole_partitions(graph: Graph) -> Graph:
    """Return the graph with calls over whole partitions as aggregates of groups, which are joined to the rows.

    A change then costs what it does to the aggregate, and the rows only where that changes. So too the first and the
    last value of a partition. Where it is partitioned by expressions, or not at all, and where a strategy was asked
    for, calls stay as they are. The groups are of the rows as they were before other calls were added to them, so that
    these can be of fewer rows then: see `limit_ranks`.
    """
    before: dict[Node, Node] = {}  # what stands for windowed rows, and for these before their calls were added

    def rewrite(copy: Copy, node: Node, inputs: tuple[Node, ...]) -> Node:
        if not isinstance(node, Windowed):
            return copy.put(node, inputs=inputs)
        grouped: list[Grouped | None] = []
        if node.bound.strategy == "auto" and _keys(node):
            grouped = [_grouped(node.bound, call) for call in node.bound.windows.calls]
        made = _joined(copy, node, inputs[0], grouped, before) if any(grouped) else copy.put(node, inputs=inputs)
        before[made] = inputs[0]
        return made

    return rebuild(graph, rewrite)


def _keys(node: Windowed) -> tuple[int, ...]:
    """Return the columns that rows are partitioned by; none where there are others than columns."""
    found = tuple(k.index for k in node.keys if isinstance(k, BoundColumn))
    return found if len(found) == len(node.keys) and len(set(found)) == len(found) else ()


def _grouped(bound: BoundWindows, call: BoundWindowCall) -> Grouped | None:
    """Return a call as an aggregate of the group that its partition is; None where it is none."""
    if not isinstance(call, (AggregateCall, ValueCall)) or not call.frame.whole:
        return None
    columns, windows = bound.columns, bound.windows
    order = tuple(OrderKey(columns[o.column][1], o.descending, o.nulls_first) for o in (*windows.order, *windows.ties))
    if isinstance(call, ValueCall):
        if call.function == "nth_value" or call.ignore_nulls:
            return None
        return Grouped(call.function.removesuffix("_value"), columns[call.column][1], call.output, order=order)
    aggregate, function = call.aggregate, call.function
    if aggregate.column is None:
        return Grouped("count", None, call.output)
    if call.distinct and function not in ONCE_IS_ENOUGH:
        if function != "count":
            return None
        function = "count_distinct"
    condition = None if aggregate.condition is None else columns[aggregate.condition][1]
    of_list = order if function == "list" and windows.order else ()
    return Grouped(function, columns[aggregate.column][1], call.output, condition, of_list)


def _joined(
    copy: Copy, node: Windowed, source: Node, grouped: Sequence[Grouped | None], before: Mapping[Node, Node]
) -> Node:
    """Return the rows with the values of all calls: of some from groups, of the others, if any, from a window."""
    keys, width = _keys(node), len(source.schema)
    fields = value_fields(node.bound.windows)
    own = [i for i, one in enumerate(grouped) if one is None]
    rows = _windowed(copy, node, source, own) if own else source
    names = [unused_name(f"key {i}#", node.bound.windows.names) for i in range(len(keys))]
    of_groups = Schema(
        (
            *(attrs.evolve(source.schema.fields[k], name=n) for k, n in zip(keys, names, strict=True)),
            *(f for f, one in zip(fields, grouped, strict=True) if one is not None),
        )
    )
    calls = tuple(one for one in grouped if one is not None)
    grouped_rows, calls = _without_calls(source, node, calls, before)
    groups = copy.add(Aggregate, node, grouped_rows, schema=of_groups, keys=node.keys, aggregates=calls)
    left = copy.add(Arrange, node, rows, schema=rows.schema, keys=keys)
    right = copy.add(Arrange, node, groups, schema=of_groups, keys=tuple(range(len(keys))))
    at = {i: width + place for place, i in enumerate(own)}
    others = (i for i, one in enumerate(grouped) if one is not None)
    at |= {i: len(rows.schema) + len(keys) + place for place, i in enumerate(others)}
    output = (*range(width), *(at[i] for i in range(len(fields))))
    return copy.add(Join, node, left, right, schema=node.schema, output=output, nulls_equal=True)


def _without_calls(
    source: Node, node: Windowed, calls: tuple[Grouped, ...], before: Mapping[Node, Node]
) -> tuple[Node, tuple[Grouped, ...]]:
    """Return the rows before other window calls were added, where the groups do not need those, and the aggregates.

    As ties, the values of such calls tell apart copies of one row alone, which are all the same to the aggregates then.
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
