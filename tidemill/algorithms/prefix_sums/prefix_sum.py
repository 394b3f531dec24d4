"""Prefix sums: the combination of all that comes before a place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms.prefix_sums.blocks import PLACES, StateColumns
from tidemill.algorithms.prefix_sums.columns import (
    copy_numbers,
    extended,
    lined_up,
    positions,
    ranges,
    sort_key,
)
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, order_sums
from tidemill.algorithms.prefix_sums.routing import PATH, depth, route_down
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import lit
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction, arrow_of
from tidemill.expressions.types import INT64


def prefix_sum(
    values: Collection | OrderSums,
    at: Collection | None = None,
    /,
    *,
    copies: str | None = None,
    **order: Any,
) -> Collection:
    """Return for each place the sums over all rows before it, those at the place itself left out.

    ``values`` are rows, with ``index=``, ``partition_by=``, the sums by name and whatever else `order_sums` takes, or
    what that gives. Places are those of the rows, or those in ``at``, a collection with the columns of the partition
    and of the index; a place is there once in the result, however many rows are at it. ``copies`` names a column for
    the number of a copy, from 0 on: then each row that shares its place with copies of itself has a row in the result,
    over those before it, the earlier copies among them.

    >>> import tidemill as tm
    >>> from tidemill.algorithms import combine, prefix_sum
    >>> flow = tm.Dataflow()
    >>> sales = flow.constant({"day": "int64", "sold": "int64"}, [(1, 5), (2, 3), (2, 4), (7, 1)])
    >>> before = prefix_sum(sales, index="day", total=combine.sum("sold"), latest=combine.max("sold"))
    >>> flow.output("before", before)
    >>> flow.start().snapshot("before")
    day  total  latest
    ---  -----  ------
    1    NULL   NULL
    2    5      5
    7    12     5
    """
    given = values if isinstance(values, OrderSums) else order_sums(values, **order)
    if at is None:
        return _at_rows(given, copies)
    return _at_places(given, at)


def _at_rows(order: OrderSums, copies: str | None) -> Collection:
    sums = sums_before_rows(order, copies)
    return order.finished(sums, [*order.places, *([copies] if copies else [])], at_rows=True)


def sums_before_rows(order: OrderSums, copies: str | None, *, inclusive: bool = False) -> Collection:
    """Return all places of rows, by copy where that has a name, beside the states of the sums over the rows before.

    If inclusive, what is at the place, or the copy itself, counts as well. States are those of ``order.at_rows``.
    """
    leaf = _Spread(order.states, order.index, inner=False, copies=copies, inclusive=inclusive, at_rows=order.at_rows)
    return apply_table(_innermost(order), leaf, _spread_arguments(order), keep=order.blocks.parts)


def _at_places(order: OrderSums, at: Collection) -> Collection:
    """Return the sums at any places: what comes before the innermost block, and what is before the place in that."""
    blocks, states = order.blocks, order.states
    places = order.partitioned(at.select(*order.places).distinct())
    located = route_down(places, blocks.ways, blocks.parts, order.index, blocks.shape)
    met = located.join(_innermost(order), on=blocks.key, nulls_equal=True)
    arguments = [order.index, PLACES, *states.flat, *_before(states).flat]
    found = apply_table(met, _PrefixAt(states), arguments, keep=order.places)
    nothing = places.select(*order.places, **{f.name: lit(None).cast(f.dtype) for f in states.fields})
    missed = nothing.antijoin(found, on=list(order.places), nulls_equal=True)
    return order.finished(found.concat(missed), order.places)


def _before(states: StateColumns) -> StateColumns:
    """Return the columns for the states of what comes before a block."""
    return StateColumns(states.combiners, tuple(tuple(f"{n}<" for n in names) for names in states.names))


def _spread_arguments(order: OrderSums) -> list[str]:
    return [PATH, PLACES, *order.states.flat, *_before(order.states).flat]


def _innermost(order: OrderSums) -> Collection:
    """Return the innermost blocks, with lists of what is in them, and the state of what comes before each."""
    blocks, states = order.blocks, order.states
    before = _before(states)
    spread = _Spread(states, order.index, inner=True, copies=None)
    zeros = {f.name: lit(None).cast(f.dtype) for f in before.fields}
    whole = blocks.at(0)

    def inward(of_blocks: Collection, nodes: Collection) -> Collection:
        inside = nodes.join(of_blocks, on=blocks.key, nulls_equal=True)
        return apply_table(inside, spread, _spread_arguments(order), keep=blocks.parts)

    if blocks.shape.loop:
        nodes = blocks.nodes[0]
        start = whole.select(*blocks.key, **zeros).distinct()
        every = start.iterate(
            lambda at: start.concat(inward(at.filter(depth() < blocks.shape.levels), nodes)),
            error_at=blocks.shape.levels + 2,
            name="prefix sums",
        )
        return nodes.join(every.filter(depth() == blocks.shape.levels), on=blocks.key, nulls_equal=True)
    inside = whole.with_columns(**zeros)
    for depth_of in range(1, blocks.shape.levels + 1):
        at = apply_table(inside, spread, _spread_arguments(order), keep=blocks.parts)
        inside = blocks.nodes[depth_of].join(at, on=blocks.key, nulls_equal=True)
    return inside


@attrs.frozen
class _Spread(TableFunction):
    """For each thing in a block, the combination of what comes before it: before the block, and before it in that.

    What is in an inner block is a block, which has a path; what is in an innermost one is a place.
    """

    states: StateColumns
    index: str
    inner: bool
    copies: str | None
    inclusive: bool = False
    at_rows: StateColumns | None = None
    """The columns of what is made of the states, where these are at rows."""

    def schema(self, arguments: Schema) -> Schema:
        path = arguments.field(PATH)
        assert path.dtype.element is not None, "a path is a list"
        states = (_before(self.states) if self.at_rows is None else self.at_rows).fields
        if self.inner:
            return Schema((path, *states))
        copy = (Field(self.copies, INT64, nullable=False),) if self.copies else ()
        return Schema((Field(self.index, path.dtype.element, nullable=False), *copy, *states))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        path, places, *rest = arguments
        lists, before = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        copy = 0
        for i, place in enumerate(places):
            copy = copy + 1 if i and places[i - 1] == place and not self.inner else 0
            if copy and not self.copies:
                continue
            end = i + self.inclusive
            so_far = self.states.whole([(b, *states[:end]) for b, states in zip(before, lists, strict=True)])
            if self.at_rows is not None:
                so_far = [v for c, state in self.states.split(so_far) for v in c.row_state(tuple(state))]
            head = ((*path, place),) if self.inner else (place, copy) if self.copies else (place,)
            yield (*head, *so_far)

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        path, *rest = arguments
        width = len(self.states.flat)
        lists, before = lined_up(*rest[: width + 1]), [arrow_of(c) for c in rest[width + 1 :]]
        lengths = lists.ends - lists.starts
        at = pa.array(ranges(lists.starts, lengths))
        places, *states = (v.take(at) for v in lists.values)
        offsets = np.concatenate((np.zeros(1, np.int64), lengths.cumsum()))
        owner = np.arange(len(lengths)).repeat(lengths)
        made: list[Column] = []
        for (combiner, own), (_, earlier) in zip(self.states.split(states), self.states.split(before), strict=True):
            if self.at_rows is None:
                made += combiner.scan(own, offsets, earlier)
            else:
                made += combiner.scan_rows(own, offsets, earlier, inclusive=self.inclusive)
        if self.inner:
            outer = ListColumn(path.values, path.offsets, path.which.take(owner))
            return owner, [extended(outer, places, np.arange(len(owner))), *made]
        copy = copy_numbers(places, offsets)
        if self.copies:
            return owner, [places, pa.array(copy), *made]
        if copy.any():
            first = pa.array(copy == 0)
            return owner[copy == 0], [c.filter(first) for c in (places, *made)]
        return owner, [places, *made]


@attrs.frozen
class _PrefixAt(TableFunction):
    """The combination of what comes before a block and what is before a place in it."""

    states: StateColumns

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema(self.states.fields)

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        place, places, *rest = arguments
        lists, before = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        end = sum(sort_key(p) < sort_key(place) for p in places)
        return [tuple(self.states.whole([(b, *states[:end]) for b, states in zip(before, lists, strict=True)]))]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        place, *rest = arguments
        width = len(self.states.flat)
        lists, before = lined_up(*rest[: width + 1]), [arrow_of(c) for c in rest[width + 1 :]]
        rows = np.arange(len(place))
        places, *states = lists.values
        ends = positions(lists, places, rows, place, "left")
        inside = self.states.fold(states, lists.starts, ends)
        return rows, _together(self.states, before, inside)


def _together(states: StateColumns, left: Sequence[Column], right: Sequence[Column]) -> list[Column]:
    """Return, row by row, two states combined."""
    both = [pa.concat_arrays([arrow_of(a), arrow_of(b)]) for a, b in zip(left, right, strict=True)]
    rows = np.arange(len(both[0]) // 2 if both else 0)
    turn = pa.array(np.stack((rows, rows + len(rows)), axis=1).ravel())
    return states.fold([b.take(turn) for b in both], 2 * rows, 2 * rows + 2)
