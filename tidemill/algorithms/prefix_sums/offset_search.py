"""Offset search: the place some number of rows or peer groups away from another. Up through the blocks, then down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms import combine
from tidemill.algorithms.prefix_sums.blocks import PLACES
from tidemill.algorithms.prefix_sums.columns import Lists, copy_numbers, extended, lined_up, positions, ranges
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, order_sums
from tidemill.algorithms.prefix_sums.routing import PATH
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction
from tidemill.expressions.types import INT64

FOUND: Final = "found#"
"""The place that a search is at; NULL where it is out of range, and on the way down."""
FOUND_COPY: Final = "copy#"
"""How many rows beyond the beginning of the block, or of the place, the search still has to go; may be negative."""
_STAGE: Final = "stage#"
_UP, _DOWN, _DONE = 0, 1, 2


def offset_search(
    rows: Collection | OrderSums,
    queries: Collection | None = None,
    /,
    *,
    offset: int | str,
    count: str = "rows",
    copies: str | None = None,
    found: str = "found",
    **order: Any,
) -> Collection:
    """Return for places the place ``offset`` rows away: before them where it is negative, after them where positive.

    ``rows`` are rows, with ``index=``, ``partition_by=`` and whatever else `order_sums` takes; ``count="groups"`` goes
    by different places in place of rows. Or they are what `order_sums` gives, ``count`` being the name of a count among
    its sums. Without ``queries`` the search is from each place of the rows; else ``queries`` has the columns of the
    partition and of the index, and ``offset`` may name a column of it. The result has the query's columns and
    ``found``, the index that is there: NULL out of range, where the offset is NULL, and where no row is at the place.

    Rows are counted from the first at a place, unless ``copies`` names a column for the number of a row among those at
    its place, from 0 on: queries have it, or the result gets it; and the result says of the row found in
    ``found_copy`` which it is.

    >>> import tidemill as tm
    >>> from tidemill.algorithms import offset_search
    >>> flow = tm.Dataflow()
    >>> sales = flow.constant({"day": "int64"}, [(1,), (2,), (2,), (7,)])
    >>> flow.output("rows", offset_search(sales, index="day", offset=2))
    >>> flow.output("days", offset_search(sales, index="day", offset=2, count="groups"))
    >>> run = flow.start()
    >>> list(run.snapshot("rows")), list(run.snapshot("days"))
    ([(1, 2), (2, 7), (7, None)], [(1, 7), (2, None), (7, None)])
    """
    if isinstance(rows, OrderSums):
        given = rows
    else:
        counted: dict[str, Any] = {count: combine.groups() if count == "groups" else combine.rows()}
        given = order_sums(rows, **counted, **order)
    if queries is None:
        reached = search_from_rows(given, int(offset), count, copies)
        kept = [*given.places, *([copies] if copies else [])]
    else:
        reached = _search_queries(given, queries, offset, count, copies)
        kept = list(queries.schema.names)
    return reached.select(*kept, **{found: col(FOUND), **({f"{found}_copy": col(FOUND_COPY)} if copies else {})})


def search_from_rows(order: OrderSums, offset: int, count: str, copies: str | None) -> Collection:
    """Return all places of rows, by copy where that has a name, beside the place so far away and the path to it."""
    levels, arguments = order.blocks.shape.levels, [PATH, PLACES, _counts(order, count)]
    first = _FromRows(order.index, levels, offset, copies)
    begun = apply_table(order.blocks.at(levels), first, arguments, keep=order.blocks.parts)
    return _search(order, begun, count, levels - 1)


def search_from(order: OrderSums, located: Collection, offset: Expr, copy: Expr, count: str) -> Collection:
    """Return places of rows, given with the paths of their blocks, beside the place so far away and the path to it."""
    begun = located.with_columns(
        **{FOUND: col(order.index), _STAGE: lit(_UP).cast("int64"), FOUND_COPY: offset + copy, PATH: col(PATH)}
    )
    return _search(order, begun, count, order.blocks.shape.levels)


def _counts(order: OrderSums, count: str) -> str:
    return order.states.names[order.counting(count)][0]


def _search_queries(
    order: OrderSums, queries: Collection, offset: int | str, count: str, copies: str | None
) -> Collection:
    by = (lit(offset) if isinstance(offset, int) else col(offset)).cast("int64")
    copy = col(copies).cast("int64") if copies else lit(0).cast("int64")
    asked = order.partitioned(queries.distinct())
    rows = order.blocks.entries[-1].select(*order.blocks.parts, order.index, PATH).distinct()
    located = asked.filter(by.is_not_null(), copy.is_not_null())
    located = located.join(rows, on=[*order.blocks.parts, order.index], nulls_equal=True)
    names = queries.schema.names
    reached = search_from(order, located, by, copy, count).select(*names, FOUND, FOUND_COPY)
    nowhere = {f.name: lit(None).cast(f.dtype) for f in reached.schema.fields[len(names) :]}
    missed = queries.distinct().antijoin(located, on=list(names), nulls_equal=True).with_columns(**nowhere)
    return reached.concat(missed)


def _search(order: OrderSums, begun: Collection, count: str, level: int) -> Collection:
    """Run searches that have reached blocks of this depth to their end."""
    blocks = order.blocks
    step = _Step(blocks.shape.levels)
    states = [f.name for f in step.schema(begun.schema)]
    kept = [n for n in begun.schema.names if n not in states]

    def gone_on(at: Collection, nodes: Collection) -> Collection:
        inside = at.join(nodes, on=blocks.key, nulls_equal=True)
        return apply_table(inside, step, [*states, PLACES, _counts(order, count)], keep=kept)

    def at_stage(found: Collection, stage: int) -> Collection:
        return found.filter(col(_STAGE) == stage)

    if blocks.shape.loop:
        every = begun.iterate(
            lambda at: begun.concat(gone_on(at.filter(col(_STAGE) != _DONE), blocks.nodes[0])),
            error_at=2 * blocks.shape.levels + 4,
            name="search",
        )
        return at_stage(every, _DONE).drop(_STAGE)
    levels = blocks.shape.levels
    done, rising, turned = [at_stage(begun, _DONE)], at_stage(begun, _UP), {}
    for outer in range(level, -1, -1):
        found = gone_on(rising, blocks.nodes[outer])
        if outer in (0, levels):
            done.append(at_stage(found, _DONE))
        if outer < levels:
            turned[outer] = at_stage(found, _DOWN)
        if outer > 0:
            rising = at_stage(found, _UP)
    falling = turned[0]
    for inner in range(1, levels + 1):
        falling = gone_on(falling, blocks.nodes[inner])
        if inner < levels:
            falling = falling.concat(turned[inner])
    return falling.concat(*done).drop(_STAGE)


# -- one step ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Step(TableFunction):
    """One step of a search, in one block: it ends there, goes down into a block inside, or up to the one around.

    A search on its way up stands at a thing in the block, and has so far to go from where that begins; on its way down,
    from where the block begins. Both ways it goes by counts alone, so before and after are no different.
    """

    levels: int

    def schema(self, arguments: Schema) -> Schema:
        path = arguments.field(PATH)
        assert path.dtype.element is not None, "a path is a list"
        return Schema(
            (
                Field(FOUND, path.dtype.element),
                Field(_STAGE, INT64, nullable=False),
                Field(FOUND_COPY, INT64, nullable=False),
                Field(PATH, path.dtype, nullable=False),
            )
        )

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        at, stage, offset, path, places, given = arguments
        counts = [n or 0 for n in given]
        before = sum(counts[: places.index(at)]) if stage == _UP else 0
        return [self.moved(path, places, counts, before + offset)]

    def moved(self, path: Any, places: Any, counts: Any, to: int) -> tuple[Any, ...]:
        """Return the state of a search that has to go ``to`` rows from where a block begins."""
        if 0 <= to < sum(counts):
            i = 0
            while to >= counts[i]:
                to -= counts[i]
                i += 1
            if len(path) < self.levels:
                return None, _DOWN, to, (*path, places[i])
            return places[i], _DONE, to + sum(counts[places.index(places[i]) : i]), path
        return (path[-1], _UP, to, path[:-1]) if path else (None, _DONE, 0, ())

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        at, stage, offset, path, *lists = arguments
        inside = lined_up(*lists)
        totals = _totals(inside)
        rows = np.arange(len(at))
        rising = (stage.to_numpy() == _UP).nonzero()[0]
        start = inside.starts
        start[rising] = positions(inside, inside.values[0], rising, at.take(pa.array(rising)), "left")
        return rows, self.moved_columns(path, inside, totals, totals.take(start) + offset.to_numpy())

    def moved_columns(self, path: ListColumn, inside: Lists, totals: Ints, to: Ints) -> list[Column]:
        """Return where searches get to; ``to`` counts from where the first of all lists begins."""
        places, starts = inside.values[0], totals.take(inside.starts)
        here = (to >= starts) & (to < totals.take(inside.ends))
        found = np.where(here, totals.searchsorted(to, "right") - 1, -1)
        lengths = path.ends - path.starts
        last, outermost = lengths == self.levels, lengths == 0
        end, down, up = here & last, here & ~last, ~here & ~outermost
        left = to - starts
        left[down] = to[down] - totals.take(found[down])
        if end.any():
            ends = end.nonzero()[0]
            first = positions(inside, places, ends, places.take(pa.array(found[end])), "left")
            left[end] = to[end] - totals.take(first)
        left[~here & outermost] = 0
        pool = pa.concat_arrays([places, path.values])
        at = np.where(end, found, np.where(up, len(places) + path.ends - 1, -1))
        stage = np.where(up, _UP, np.where(down, _DOWN, _DONE))
        moved = extended(path, places, np.where(down, found, np.where(up, -2, np.where(end, -1, -3))))
        return [pool.take(pa.array(at, mask=at < 0)), pa.array(stage), pa.array(left), moved]


def _totals(inside: Lists) -> Ints:
    """Return how many rows there are before each thing in all lists end to end."""
    counts = inside.values[1].fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate((np.zeros(1, np.int64), counts.cumsum()))


@attrs.frozen
class _FromRows(TableFunction):
    """The first step of searches from all that is in an innermost block."""

    index: str
    levels: int
    offset: int
    copies: str | None

    def schema(self, arguments: Schema) -> Schema:
        step = _Step(self.levels).schema(arguments)
        copy = (Field(self.copies, INT64, nullable=False),) if self.copies else ()
        return Schema((Field(self.index, step.fields[0].dtype, nullable=False), *copy, *step.fields))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        path, places, given = arguments
        counts = [n or 0 for n in given]
        step = _Step(self.levels)
        before = 0
        for i, (place, count) in enumerate(zip(places, counts, strict=True)):
            copy = i - places.index(place)
            if not copy or self.copies:
                head = (place, copy) if self.copies else (place,)
                yield (*head, *step.moved(path, places, counts, before + self.offset))
            before += count

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        path, *lists = arguments
        inside = lined_up(*lists)
        lengths = inside.ends - inside.starts
        at = ranges(inside.starts, lengths)
        owner = np.arange(len(lengths)).repeat(lengths)
        places = inside.values[0].take(pa.array(at))
        copy = copy_numbers(places, np.concatenate((np.zeros(1, np.int64), lengths.cumsum())))
        if not self.copies and copy.any():
            first = copy == 0
            at, owner, places = at[first], owner[first], places.filter(pa.array(first))
        step, totals = _Step(self.levels), _totals(inside)
        each = ListColumn(path.values, path.offsets, path.which.take(owner))
        of_each = Lists(inside.values, inside.offsets, inside.which.take(owner))
        made = step.moved_columns(each, of_each, totals, totals.take(at) + self.offset)
        return owner, [places, *([pa.array(copy)] if self.copies else []), *made]
