"""The definition of each primitive operator: from the whole traces of its inputs to the whole trace of its output.

Linear operators say what becomes of one update. All others say what the output holds when the inputs hold this, and
`at_every_time` makes a trace of it, for all times that are final.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from tidemill.boundary.rows import canonical
from tidemill.dataflow import nodes
from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import Node
from tidemill.errors import ExpressionError
from tidemill.expressions.aggregates import Aggregates
from tidemill.expressions.functions.values import row_order
from tidemill.expressions.ordering import TopK
from tidemill.renderer.reference.aggregates import aggregate, taking_part
from tidemill.renderer.reference.expressions import evaluate
from tidemill.renderer.reference.topk import first_rows
from tidemill.renderer.reference.traces import Contents, Row, Trace, at_every_time, by_key, consolidated, triples
from tidemill.renderer.runs import failures
from tidemill.renderer.runs import user_functions as functions

__all__ = ["RULES"]

Updates = Iterator[tuple[Row, Time, int]]
IsFinal = Callable[[Time], bool]


# Linear operators: update by update.


def _map(node: nodes.Map, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        yield tuple(canonical(_evaluated(node, column, row)) for column in node.columns), time, diff


def _filter(node: nodes.Filter, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        if _evaluated(node, node.predicate, row) is True:
            yield row, time, diff


def _flat_map(node: nodes.FlatMap, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        for made in functions.mapped_rows(node, row):
            yield made, time, diff


def _negate(_: nodes.Negate, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        yield row, time, -diff


def _concat(_: nodes.Concat, *sources: Trace) -> Updates:
    for source in sources:
        yield from triples(source)


def _same(_: Node, source: Trace) -> Updates:
    yield from triples(source)


# Operators that move records in time.


def _retime(node: nodes.Retime, source: Trace) -> Updates:
    """Only user coordinates move; iterations stay."""
    *_, root = node.scope
    users = root.coordinates
    for row, time, diff in triples(source):
        user = time[:users]
        if node.steps is not None:
            moved = tuple(c + step for c, step in zip(user, node.steps, strict=True))
        else:
            moved = functions.moved_time(node, user)
        yield row, moved + time[users:], diff


def _enter(_: nodes.Enter, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        yield row, (*time, 0), diff


def _leave(node: nodes.Leave, source: Trace) -> Updates:
    """Add up all iterations, or those before the limit."""
    for row, time, diff in triples(source):
        if node.limits.return_at is None or time[-1] < node.limits.return_at:
            yield row, time[:-1], diff


def _feedback(node: nodes.Feedback, source: Trace) -> Updates:
    """Move everything one iteration on; what arrives at or after the limit is cut."""
    for row, time, diff in triples(source):
        if node.limits.return_at is None or time[-1] + 1 < node.limits.return_at:
            yield row, (*time[:-1], time[-1] + 1), diff


# Operators on whole contents: key by key, at every time.


def _join(node: nodes.Join, final: IsFinal, left: Trace, right: Trace) -> Updates:
    lefts, rights = (by_key(t, arranged_keys(n)) for t, n in zip((left, right), node.inputs, strict=True))
    for key in lefts.keys() & rights.keys():
        if node.nulls_equal or None not in key:
            pairs = at_every_time(lambda a, b: _pairs(node, a, b), lefts[key], rights[key], final=final)
            yield from triples(pairs)


def _pairs(node: nodes.Join, lefts: Contents, rights: Contents) -> Contents:
    found: Contents = defaultdict(int)
    for left, m in lefts.items():
        for right, n in rights.items():
            both = left + right
            found[tuple(both[i] for i in node.output)] += m * n
    return found


def _reduce(node: nodes.Reduce, final: IsFinal, source: Trace) -> Updates:
    groups = by_key(source, node.keys)
    always: list[Time] = []
    if node.scalar:  # one group, that has its row from the least time on
        groups = {(): source}
        always = [(0,) * node.scope.coordinates]
    for key, group in groups.items():
        reduced = at_every_time(lambda rows, key=key: _reduced(node, key, rows), group, also=always, final=final)
        yield from triples(reduced)


def _reduced(node: nodes.Reduce, key: Row, rows: Contents) -> Contents:
    if isinstance(node.logic, Aggregates):
        return _aggregated(node, node.logic, key, rows)
    if not rows:
        return {}
    _check_counts(node, key, rows)
    if isinstance(node.logic, TopK):
        return first_rows(node.logic, rows)
    result: Contents = defaultdict(int)
    for made, count in functions.reduced_rows(node, key, _without_key(node, rows)):
        result[made] += count
    return result


def _aggregated(node: nodes.Reduce, logic: Aggregates, key: Row, rows: Contents) -> Contents:
    for bound in logic.columns:
        if bound.tells_apart:
            _check_counts(node, key, _projected(taking_part(bound, rows), bound.tells_apart))
    present = rows if logic.present is None else {r: n for r, n in rows.items() if r[logic.present] is not None}
    if not node.scalar and sum(present.values()) == 0:
        return {}
    values = []
    for name, bound in zip(logic.names, logic.columns, strict=True):
        try:
            values.append(aggregate(bound, rows))
        except OverflowError:
            raise failures.overflow(node, key, name, bound.function) from None
    return {(*key, *values): 1}


def _projected(rows: Contents, columns: tuple[int, ...]) -> Contents:
    values: Contents = defaultdict(int)
    for row, count in rows.items():
        values[tuple(row[c] for c in columns)] += count
    return values


def _without_key(node: nodes.Reduce, rows: Contents) -> list[tuple[Row, int]]:
    rest = [i for i in range(len(node.inputs[0].schema.names)) if i not in node.keys]
    pairs = [(tuple(row[i] for i in rest), count) for row, count in rows.items()]
    return sorted(pairs, key=lambda pair: row_order(pair[0]))


def _check_counts(node: Node, key: Row, rows: Contents) -> None:
    for row, count in rows.items():
        if count < 0:
            raise failures.negative_count(node, key, row, count)


def _threshold(node: nodes.Threshold, final: IsFinal, source: Trace) -> Updates:
    every_column = tuple(range(len(node.schema.names)))
    for row, group in by_key(source, every_column).items():
        if node.function is not None:
            functions.thresholded(node, row, 0)
        counts = at_every_time(lambda rows, row=row: {row: _new_count(node, row, rows)}, group, final=final)
        yield from triples(counts)


def _new_count(node: nodes.Threshold, row: Row, rows: Contents) -> int:
    count = rows.get(row, 0)
    if node.function is None:
        return 1 if count > 0 else 0
    return functions.thresholded(node, row, count) if count else 0


# What they share.


def _evaluated(node: Node, expression: Any, row: Row) -> Any:
    try:
        return evaluate(expression, row)
    except ExpressionError as error:
        raise failures.expression_failed(node, row, error) from None


def arranged_keys(node: Node) -> tuple[int, ...]:
    """Return by which columns an arrangement is, however deep into loops it was brought."""
    while isinstance(node, nodes.Enter):
        (node,) = node.inputs
    assert isinstance(node, nodes.Arrange)
    return node.keys


def _linear(rule: Callable[..., Updates]) -> Callable[..., Trace]:
    return lambda node, _final, *sources: consolidated(rule(node, *sources))


def _by_contents(rule: Callable[..., Updates]) -> Callable[..., Trace]:
    return lambda node, final, *sources: consolidated(rule(node, final, *sources))


RULES: Final[dict[type[Node], Callable[..., Trace]]] = {
    nodes.Map: _linear(_map),
    nodes.Filter: _linear(_filter),
    nodes.FlatMap: _linear(_flat_map),
    nodes.Negate: _linear(_negate),
    nodes.Concat: _linear(_concat),
    nodes.Join: _by_contents(_join),
    nodes.Reduce: _by_contents(_reduce),
    nodes.Threshold: _by_contents(_threshold),
    nodes.Consolidate: _linear(_same),
    nodes.Arrange: _linear(_same),
    nodes.Retime: _linear(_retime),
    nodes.Enter: _linear(_enter),
    nodes.Leave: _linear(_leave),
    nodes.Feedback: _linear(_feedback),
    nodes.Inspect: _linear(_same),
    nodes.Output: _linear(_same),
}
