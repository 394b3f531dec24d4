"""The definition of each primitive operator: from the whole traces of its inputs to the whole trace of its output.

Linear operators say what becomes of one update. All others say what the output holds when the inputs hold this, and
`at_every_time` makes a trace of it, for all times that are final.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from tidemill.boundary.values import canonical
from tidemill.dataflow import nodes
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Node
from tidemill.errors import UserFunctionError
from tidemill.expressions.aggregates import Aggregates, UserReduce
from tidemill.expressions.functions.values import row_order
from tidemill.expressions.ordering import TopK
from tidemill.expressions.windows.bound import CallError, Windows
from tidemill.renderer.reference.aggregates import aggregate, taking_part
from tidemill.renderer.reference.ordering import first_rows
from tidemill.renderer.reference.rules import (
    IsFinal,
    Updates,
    by_contents,
    check_counts,
    evaluated,
    linear,
    user_part,
    user_time_of_row,
)
from tidemill.renderer.reference.traces import Contents, Row, Trace, at_every_time, by_key, triples
from tidemill.renderer.reference.windows import with_hash, with_values
from tidemill.renderer.runs import failures
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.runs.registry import Registry

# Linear operators: update by update.


@linear(nodes.Map)
def _map(node: nodes.Map, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        columns = zip(node.columns, node.schema.names, strict=True)
        values = [canonical(evaluated(node, column, row, column=name, time=time)) for column, name in columns]
        yield tuple(values), time, diff


@linear(nodes.Filter)
def _filter(node: nodes.Filter, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        if evaluated(node, node.predicate, row, time=time) is True:
            yield row, time, diff


@linear(nodes.FlatMap)
def _flat_map(node: nodes.FlatMap, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        try:
            rows = functions.mapped_rows(node, row)
        except UserFunctionError as error:
            error.about(time=shown(user_part(node, time)))
            raise
        for made in rows:
            yield made, time, diff


@linear(nodes.Negate)
def _negate(_: nodes.Negate, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        yield row, time, -diff


@linear(nodes.Concat)
def _concat(_: nodes.Concat, *sources: Trace) -> Updates:
    for source in sources:
        yield from triples(source)


@linear(nodes.Consolidate, nodes.Arrange, nodes.Inspect, nodes.Output)
def _same(_: Node, source: Trace) -> Updates:
    yield from triples(source)


# Operators that move records in time.


@linear(nodes.Retime)
def _retime(node: nodes.Retime, source: Trace) -> Updates:
    """Only user coordinates move; iterations stay."""
    *_, root = node.scope
    users = root.coordinates
    for row, time, diff in triples(source):
        user = time[:users]
        if node.steps is not None:
            moved = tuple(c + step for c, step in zip(user, node.steps, strict=True))
        elif node.column is not None:
            begin = None if node.since is None else row[node.since]
            moved = user_time_of_row(node, row, user, row[node.column], begin)
        else:
            moved = functions.moved_time(node, user)
        yield row, moved + time[users:], diff


@linear(nodes.Enter)
def _enter(_: nodes.Enter, source: Trace) -> Updates:
    for row, time, diff in triples(source):
        yield row, (*time, 0), diff


@linear(nodes.Leave)
def _leave(node: nodes.Leave, source: Trace) -> Updates:
    """Add up all iterations, or those before the limit."""
    for row, time, diff in triples(source):
        if node.limits.return_at is None or time[-1] < node.limits.return_at:
            yield row, time[:-1], diff


@linear(nodes.Feedback)
def _feedback(node: nodes.Feedback, source: Trace) -> Updates:
    """Move everything one iteration on; what arrives at or after the limit is cut."""
    for row, time, diff in triples(source):
        if node.limits.return_at is None or time[-1] + 1 < node.limits.return_at:
            yield row, (*time[:-1], time[-1] + 1), diff


# Operators on whole contents: key by key, at every time.


@by_contents(nodes.Join)
def _join(node: nodes.Join, final: IsFinal, left: Trace, right: Trace) -> Updates:
    lefts, rights = (by_key(t, nodes.arranged_keys(n)) for t, n in zip((left, right), node.inputs, strict=True))
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


@by_contents(nodes.Reduce)
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
    return _LOGICS.of(node, type(node.logic))(node, node.logic, key, rows)


_LOGICS: Final = Registry[Callable[[nodes.Reduce, Any, Row, Contents], Contents]]("reference engine")


@_LOGICS(TopK)
def _first(node: nodes.Reduce, logic: TopK, key: Row, rows: Contents) -> Contents:
    check_counts(node, key, rows)
    return first_rows(logic, node.inputs[0].schema, rows)


@_LOGICS(Windows)
def _windows(node: nodes.Reduce, logic: Windows, key: Row, rows: Contents) -> Contents:
    check_counts(node, key, _projected(rows, logic.row))
    try:
        found = with_values(logic, with_hash(logic, node.inputs[0].schema, rows))
    except CallError as error:
        raise failures.no_window_value(node, logic, error.row, error) from None
    kept, calls = logic.kept(len(key)), len(logic.calls)
    return {(*(row[i] for i in kept), *row[-calls:]): count for row, count in found.items()}


@_LOGICS(UserReduce)
def _by_function(node: nodes.Reduce, _logic: UserReduce, key: Row, rows: Contents) -> Contents:
    if not rows:
        return {}
    check_counts(node, key, rows)
    result: Contents = defaultdict(int)
    for made, count in functions.reduced_rows(node, key, _without_key(node, rows)):
        result[made] += count
    return result


@_LOGICS(Aggregates)
def _aggregated(node: nodes.Reduce, logic: Aggregates, key: Row, rows: Contents) -> Contents:
    for bound in logic.columns:
        if bound.tells_apart:
            check_counts(node, key, _projected(taking_part(bound, rows), bound.tells_apart))
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


@by_contents(nodes.Threshold)
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
