"""The definitions of composites, from SQL's: what the primitives that they are lowered to have to give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import attrs

from tidemill.boundary.values import canonical
from tidemill.dataflow import composites
from tidemill.dataflow.composites import Composite
from tidemill.dataflow.lattice import MAX_COORDINATE
from tidemill.expressions.ordering import OrderColumn, TopK
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.windows.bound import CallError
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
from tidemill.renderer.reference.windows import with_values
from tidemill.renderer.runs import failures

Pairs = dict[tuple[Row, Row], int]


@by_contents(composites.OuterJoin, composites.SemiJoin, composites.AntiJoin)
def _joined(node: composites.PartneredJoin, final: IsFinal, left: Trace, right: Trace) -> Updates:
    """Look at the rows of each key, of which those with NULL in it have partners only if nulls are equal."""
    lefts, rights = (
        by_key(trace, tuple(source.schema.index(pair[side]) for pair in node.on))
        for side, (trace, source) in enumerate(zip((left, right), node.inputs, strict=True))
    )
    for key in {**lefts, **rights}:
        meet = node.nulls_equal or None not in key

        def joined(a: Contents, b: Contents, *, meet: bool = meet) -> Contents:
            return _JOINS[type(node)](node, a, b, meet)

        yield from triples(at_every_time(joined, lefts.get(key, {}), rights.get(key, {}), final=final))


def _outer(node: composites.OuterJoin, lefts: Contents, rights: Contents, meet: bool) -> Contents:
    left, right = (source.schema for source in node.inputs)
    rest = _no_keys(node)
    found: Contents = defaultdict(int)
    for (l, r), count in _pairs(node, lefts, rights, meet).items():
        found[l + tuple(r[i] for i in rest)] += count
    if node.how in ("left", "full"):
        for l in lefts.keys() - _partnered(node, 0, lefts, rights, meet):
            found[l + (None,) * len(rest)] += lefts[l]
    if node.how in ("right", "full"):
        keys = dict(node.on)
        for r in rights.keys() - _partnered(node, 1, lefts, rights, meet):
            own = tuple(r[right.index(keys[name])] if name in keys else None for name in left.names)
            found[own + tuple(r[i] for i in rest)] += rights[r]
    return found


def _semi(node: composites.PartneredJoin, lefts: Contents, rights: Contents, meet: bool) -> Contents:
    return {l: lefts[l] for l in _partnered(node, 0, lefts, rights, meet)}


def _anti(node: composites.PartneredJoin, lefts: Contents, rights: Contents, meet: bool) -> Contents:
    return {l: lefts[l] for l in lefts.keys() - _partnered(node, 0, lefts, rights, meet)}


_JOINS: Final[dict[type, Callable[[Any, Contents, Contents, bool], Contents]]] = {
    composites.OuterJoin: _outer,
    composites.SemiJoin: _semi,
    composites.AntiJoin: _anti,
}


def _pairs(node: composites.PartneredJoin, lefts: Contents, rights: Contents, meet: bool) -> Pairs:
    """Return the pairs that fit, of rows with the same key, counts multiplied."""
    found = {(l, r): m * n for l, m in lefts.items() for r, n in rights.items() if meet}
    if node.condition is None:
        return found
    rest = _no_keys(node)
    return {
        (l, r): count
        for (l, r), count in found.items()
        if evaluated(node, node.condition, l + tuple(r[i] for i in rest)) is True
    }


def _partnered(node: composites.PartneredJoin, side: int, lefts: Contents, rights: Contents, meet: bool) -> set[Row]:
    """Return the rows of a side that have a partner: by the counts of the others, or of the pairs for a condition."""
    own, others = (lefts, rights) if side == 0 else (rights, lefts)
    if node.condition is None:
        return set(own) if meet and sum(others.values()) > 0 else set()
    counts: Contents = defaultdict(int)
    for pair, count in _pairs(node, lefts, rights, meet).items():
        counts[pair[side]] += count
    return {row for row, count in counts.items() if count > 0}


def _no_keys(node: composites.PartneredJoin) -> list[int]:
    keys = {r for _, r in node.on}
    return [i for i, name in enumerate(node.inputs[1].schema.names) if name not in keys]


@by_contents(composites.DynamicFilter)
def _dynamic_filter(node: composites.DynamicFilter, final: IsFinal, left: Trace, right: Trace) -> Updates:
    """Compare each left row with the right one, if there is one."""

    def passing(lefts: Contents, rights: Contents) -> Contents:
        check_counts(node, (), rights)
        one = failures.one_row(node, sorted(rights.items(), key=repr))
        return {l: n for l, n in lefts.items() for r, _ in one if evaluated(node, node.predicate, l + r) is True}

    yield from triples(at_every_time(passing, left, right, final=final))


@by_contents(composites.DeltaJoin)
def _delta_join(node: composites.DeltaJoin, final: IsFinal, *arrangements: Trace) -> Updates:
    relations = [arrangements[ports[0]] for ports in node.ports]
    yield from triples(at_every_time(lambda *found: _combinations(node, found), *relations, final=final))


def _combinations(node: composites.DeltaJoin, relations: tuple[Contents, ...]) -> Contents:
    """Return the rows of all relations that fit, begun with the first: counts multiplied."""
    found = [({0: row}, count) for row, count in _columns_that_matter(node, 0, relations).items()]
    for lookup in node.lookups[0]:
        rows = _columns_that_matter(node, lookup.relation, relations)
        found = [
            ({**known, lookup.relation: row}, m * n)
            for known, m in found
            for row, n in rows.items()
            if all(
                known[r][c] == row[own] and (node.nulls_equal or row[own] is not None)
                for (r, c), own in zip(lookup.key, lookup.own, strict=True)
            )
        ]
    result: Contents = defaultdict(int)
    for known, count in found:
        result[tuple(known[r][c] for r, c in node.output)] += count
    return result


def _columns_that_matter(node: composites.DeltaJoin, relation: int, relations: tuple[Contents, ...]) -> Contents:
    found: Contents = defaultdict(int)
    for row, count in relations[relation].items():
        found[tuple(row[c] for c in node.columns[node.ports[relation][0]])] += count
    return found


_COUNTS: Final[dict[str, Callable[[int, int], int]]] = {
    "except_all": lambda m, n: max(m - n, 0),
    "except_distinct": lambda m, n: int(m > 0 >= n),
    "intersect": lambda m, n: int(m > 0 and n > 0),
}


@by_contents(composites.SetOperation)
def _set_operation(node: composites.SetOperation, final: IsFinal, left: Trace, right: Trace) -> Updates:
    whole = tuple(range(len(node.schema)))
    lefts, rights = by_key(left, whole), by_key(right, whole)
    for row in {**lefts, **rights}:

        def counted(a: Contents, b: Contents, *, row: Row = row) -> Contents:
            return {row: _COUNTS[node.operation](a.get(row, 0), b.get(row, 0))}

        yield from triples(at_every_time(counted, lefts.get(row, {}), rights.get(row, {}), final=final))


@by_contents(composites.TopK)
def _top_k(node: composites.TopK, final: IsFinal, source: Trace) -> Updates:
    return _of_each_group(_first, node, final, source)


def _of_each_group(function: Callable[..., Contents], node: Any, final: IsFinal, source: Trace) -> Updates:
    """Give the results of a function for each group's rows at every time, groups being those of the node's keys."""
    groups: dict[Row, Trace] = defaultdict(dict)
    for (row, time), diff in source.items():
        groups[_values(node, node.keys, row)][row, time] = diff
    for key, group in groups.items():
        yield from triples(at_every_time(lambda rows, key=key: function(node, key, rows), group, final=final))


def _first(node: composites.TopK, key: Row, rows: Contents) -> Contents:
    """Return the first rows: sorted by what is asked for, their hash, and themselves."""
    check_counts(node, key, rows)
    width = len(node.schema)
    asked = tuple(by.expression for by in node.order)
    wide = {(*row, *_values(node, asked, row)): count for row, count in rows.items()}
    fields = [Field(f"order {i}", expression.dtype, True) for i, expression in enumerate(asked)]
    schema = Schema((*(attrs.evolve(f, name=f"row {f.name}") for f in node.schema), *fields))
    order = tuple(OrderColumn(width + i, by.descending, by.nulls_first) for i, by in enumerate(node.order))
    found = first_rows(TopK(node.count, order, tuple(range(width)), hashed=node.hashed), schema, wide)
    return {row[:width]: count for row, count in found.items()}


@by_contents(composites.Windowed)
def _windowed(node: composites.Windowed, final: IsFinal, source: Trace) -> Updates:
    return _of_each_group(_with_calls, node, final, source)


def _with_calls(node: composites.Windowed, key: Row, rows: Contents) -> Contents:
    """Return the rows with the values of the calls, computed from all that these read."""
    check_counts(node, key, rows)
    windows, columns = node.bound.windows, tuple(b for _, b in node.bound.columns)
    try:
        found = with_values(windows, {_values(node, columns, row): count for row, count in rows.items()})
    except CallError as error:
        raise failures.no_window_value(node, windows, error.row, error) from None
    return {(*(row[i] for i in windows.row), *row[len(columns) :]): count for row, count in found.items()}


@linear(composites.TemporalFilter)
def _temporal_filter(node: composites.TemporalFilter, source: Trace) -> Updates:
    """Look at one update at a time: it holds from its row's beginning on, and is taken back at its row's end."""
    for row, time, diff in triples(source):
        begin, end = (
            None if bound is None else evaluated(node, bound, row, time=time)
            for bound in (node.valid_from, node.valid_to)
        )
        user = user_part(node, time)
        loops = time[len(user) :]
        if end is not None and end < MAX_COORDINATE:  # beyond, there are no times
            yield row, user_time_of_row(node, row, user, end, begin) + loops, -diff
        if begin is None or begin < MAX_COORDINATE:
            yield row, user_time_of_row(node, row, user, begin, None) + loops, diff


def _values(node: Composite, expressions: tuple[Any, ...], row: Row) -> Row:
    return tuple(canonical(evaluated(node, expression, row)) for expression in expressions)
