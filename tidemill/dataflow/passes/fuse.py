"""Fusing linear operators: chains of row-by-row operators become one operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from tidemill.dataflow.nodes import Concat, Filter, Join, Map, Negate, Node
from tidemill.dataflow.passes.rebuild import Copy, rebuild
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.rewriting import all_true, can_fail, column_uses, conditions, substituted
from tidemill.expressions.types import FLOAT64

if TYPE_CHECKING:
    from tidemill.dataflow.graph import Graph


def fuse_linear(graph: Graph) -> Graph:
    """Return the graph with chains of maps, of filters and of concats fused into one operator each; negations cancel.

    A map that only picks columns is merged into the join before it; one that changes nothing is dropped. No expression
    is evaluated more often than before, and a fused operator has the name and line of the one that may fail.
    """
    return rebuild(graph, lambda copy, node, inputs: _FUSED[type(node)](copy, node, *inputs), tuple(_FUSED))


def _map(copy: Copy, node: Map, source: Node) -> Node:
    fused = node
    while isinstance(source, Map) and (source.picked is not None or copy.readers(source) <= 1):
        composed = _composed(fused.columns, source)
        if composed is None:
            break
        fails = any(can_fail(c) for c in source.columns)
        origin, fails_as = (source, _failing_columns(fused, source)) if fails else (fused, fused.fails_as)
        fused = attrs.evolve(
            fused, columns=composed, fails_as=fails_as,
            name=origin.name, site=origin.site, origins=origin.origins, part_of=origin.part_of, call=origin.call,
        )  # fmt: skip
        (source,) = source.inputs
    picked = fused.picked
    if picked is not None:
        if picked == tuple(range(len(source.schema))) and fused.schema == source.schema:
            return source
        if isinstance(source, Join) and copy.readers(source) <= 1:
            output = tuple(source.output[i] for i in picked)
            return copy.put(source, inputs=source.inputs, schema=fused.schema, output=output)
    return copy.put(fused, inputs=(source,))


def _failing_columns(outer: Map, inner: Map) -> tuple[tuple[str, str | None], ...]:
    """Return, for outer columns that read inner columns which may fail, which one it is; None for several."""
    known_as = {name: name for name in inner.schema.names} | dict(inner.fails_as)
    found: list[tuple[str, str | None]] = []
    for name, expression in zip(outer.schema.names, outer.columns, strict=True):
        failing = {known_as[inner.schema.names[i]] for i in column_uses(expression) if can_fail(inner.columns[i])}
        if failing:
            found.append((name, failing.pop() if len(failing) == 1 else None))
    return tuple(found)


def _composed(outer: tuple[Bound, ...], inner: Map) -> tuple[Bound, ...] | None:
    """Return the outer expressions over the inner Map's input; None if the result would differ, or cost more.

    Rows that the inner Map makes equal may cancel out. So an outer expression that can fail may skip it only if it
    keeps distinct rows distinct, and the columns' names, which errors show. Computed floats are normalised (no -0.0,
    one NaN) between the two.
    """
    within = inner.columns
    if any(can_fail(c) for c in outer):
        sources = inner.inputs[0].schema
        names = tuple(c.name for c in within if isinstance(c, BoundColumn))
        if inner.picked is None or len(set(inner.picked)) < len(sources) or inner.schema.names != names:
            return None
    uses = Counter(i for c in outer for i in column_uses(c))
    used_inside = {i for c in outer if not isinstance(c, BoundColumn) for i in column_uses(c)}
    for i, expression in enumerate(within):
        if isinstance(expression, BoundColumn):
            continue
        if uses[i] > 1 and not isinstance(expression, BoundLiteral):
            return None
        if i in used_inside and expression.dtype == FLOAT64:
            return None
    found = tuple(substituted(c, lambda column: within[column.index]) for c in outer)
    return None if any(isinstance(c, BoundCall) and c.depth > _MOST_CONDITIONS for c in found) else found


def _filter(copy: Copy, node: Filter, source: Node) -> Node:
    if isinstance(source, Filter) and copy.readers(source) <= 1 and not can_fail(node.predicate):
        together = all_true(source.predicate, node.predicate)
        if len(list(conditions(together))) <= _MOST_CONDITIONS:
            return copy.put(source, inputs=source.inputs, predicate=together)
    return copy.put(node, inputs=(source,))


def _negate(copy: Copy, node: Negate, source: Node) -> Node:
    return source.inputs[0] if isinstance(source, Negate) else copy.put(node, inputs=(source,))


def _concat(copy: Copy, node: Concat, *inputs: Node) -> Node:
    flat: list[Node] = []
    for source in inputs:
        few = isinstance(source, Concat) and copy.readers(source) <= 1 and len(source.inputs) <= _MOST_CONDITIONS
        flat += source.inputs if few else (source,)
    if len(flat) == 1 and flat[0].schema.names == node.schema.names:
        return flat[0]
    return copy.put(node, inputs=tuple(flat))


_MOST_CONDITIONS: Final = 100
"""The most conditions or nested calls of a fused operator; a concat of more inputs is not merged into another."""

_FUSED: Final[dict[type[Node], Callable[..., Node]]] = {
    Map: _map,
    Filter: _filter,
    Negate: _negate,
    Concat: _concat,
}
