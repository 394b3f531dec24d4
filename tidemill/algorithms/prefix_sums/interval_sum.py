"""Interval sums: the combination of all rows from one place up to another, from the few blocks that cover them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms.prefix_sums.blocks import PLACES, FoldLists, StateColumns
from tidemill.algorithms.prefix_sums.columns import comparable, different, lined_up, positions, ranges, sort_key
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, order_sums
from tidemill.algorithms.prefix_sums.routing import PATH, route_down
from tidemill.collections.collection import Collection
from tidemill.collections.ordered_lists import ordered_lists
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction
from tidemill.expressions.types import BOOL, INT64

LOW, LOW_COPY, LOW_PATH = "low#", "low copy#", "low path#"
"""The columns of where an interval begins: the place, the number of the row there, the path; place NULL: no bound."""
HIGH, HIGH_COPY, HIGH_PATH = "high#", "high copy#", "high path#"
"""The columns of where it ends; the row there is not in it any more."""
_PIECE: Final = "piece#"
_ALONE: Final = "alone#"
_NO_BOUND: Final = -2
BEYOND: Final = -1
"""Stands for the number of a row where the bound is after all rows at its place."""


def interval_sum(
    values: Collection | OrderSums,
    queries: Collection,
    /,
    *,
    low: str = "low",
    high: str = "high",
    low_copy: str | None = None,
    high_copy: str | None = None,
    **order: Any,
) -> Collection:
    """Return for each query the sums over the rows from the place ``low`` on to before the place ``high``.

    ``values`` are rows, with ``index=``, ``partition_by=``, the sums by name and whatever else `order_sums` takes, or
    what that gives. Queries have the columns of the partition and the two places; NULL is no bound. What other columns
    they have is in the result too, in which each different query is once. Where rows share a place with copies of
    theirs, ``low_copy`` and ``high_copy`` name columns for the number of the copy that bounds are at.

    >>> import tidemill as tm
    >>> from tidemill.algorithms import combine, interval_sum
    >>> flow = tm.Dataflow()
    >>> sales = flow.constant({"day": "int64", "sold": "int64"}, [(1, 5), (2, 3), (2, 4), (7, 1)])
    >>> weeks = flow.constant({"low": "int64", "high": "int64"}, [(0, 7), (2, 9), (3, 5)])
    >>> flow.output("weeks", interval_sum(sales, weeks, index="day", total=combine.sum("sold"), n=combine.rows()))
    >>> flow.start().snapshot("weeks")
    low  high  total  n
    ---  ----  -----  -
    0    7     12     3
    2    9     8      3
    3    5     NULL   0
    """
    given = values if isinstance(values, OrderSums) else order_sums(values, **order)
    blocks = given.blocks
    names = queries.schema.names
    at = given.partitioned(queries.distinct()).with_columns(**_bounds(low, low_copy, high, high_copy))
    for place, path in ((LOW, LOW_PATH), (HIGH, HIGH_PATH)):
        at = route_down(at, blocks.ways, blocks.parts, place, blocks.shape).rename({PATH: path})
    found = sums_between(given, at, names).select(*names, *given.states.flat)
    nothing = {f.name: lit(None).cast(f.dtype) for f in given.states.fields}
    missed = queries.distinct().antijoin(found, on=list(names), nulls_equal=True).with_columns(**nothing)
    return given.finished(found.concat(missed), names)


def _bounds(low: str, low_copy: str | None, high: str, high_copy: str | None) -> dict[str, Expr]:
    none = lit(0).cast("int64")
    return {
        LOW: col(low),
        LOW_COPY: col(low_copy).cast("int64") if low_copy else none,
        HIGH: col(high),
        HIGH_COPY: col(high_copy).cast("int64") if high_copy else none,
    }


def sums_between(order: OrderSums, located: Collection, keep: Sequence[str]) -> Collection:
    """Return the states of sums over intervals given by their bounds with paths; none where there is nothing in it.

    The columns kept have to be different for different intervals.
    """
    blocks, states = order.blocks, order.states
    keep = list(dict.fromkeys((*blocks.parts, *keep)))
    bounds = [LOW_PATH, LOW, LOW_COPY, HIGH_PATH, HIGH, HIGH_COPY]
    pieces = apply_table(located, _Pieces(blocks.shape.levels), bounds, keep=keep)
    inside = pieces.join(_every_block(order), on=blocks.key, nulls_equal=True)
    slices = [LOW, LOW_COPY, HIGH, HIGH_COPY, PLACES, *states.flat]
    summed = apply_table(inside, _FoldSlice(states), slices, keep=[*keep, _PIECE, _ALONE])
    together = ordered_lists(summed.filter(~col(_ALONE)), keep, _PIECE, states.flat)
    folded = apply_table(together, FoldLists(states), states.flat, keep=keep)
    return summed.filter(col(_ALONE)).select(*keep, *states.flat).concat(folded)


def _every_block(order: OrderSums) -> Collection:
    first, *others = order.blocks.nodes
    return first if order.blocks.shape.loop else first.concat(*others)


@attrs.frozen
class _Pieces(TableFunction):
    """The blocks that an interval is made of, in order, each with the bounds it has in there.

    From where the bounds' paths part, one piece; and on the way down to each bound, one on every level.
    """

    levels: int

    def schema(self, arguments: Schema) -> Schema:
        path, place = arguments.field(LOW_PATH), arguments.field(LOW)
        return Schema(
            (
                Field(_PIECE, INT64, nullable=False),
                Field(_ALONE, BOOL, nullable=False),
                Field(PATH, path.dtype, nullable=False),
                Field(LOW, place.dtype),
                Field(LOW_COPY, INT64, nullable=False),
                Field(HIGH, place.dtype),
                Field(HIGH_COPY, INT64, nullable=False),
            )
        )

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        low_path, low, low_copy, high_path, high, high_copy = arguments
        bounded = low is not None, high is not None
        if all(bounded) and sort_key(low) > sort_key(high):
            return
        lows = [(p, BEYOND) for p in low_path] + [(low, low_copy)] if bounded[0] else []
        highs = [(p, 0) for p in high_path] + [(high, high_copy)] if bounded[1] else []
        parting = 0
        while all(bounded) and parting < self.levels and low_path[parting] == high_path[parting]:
            parting += 1
        none = (None, _NO_BOUND)
        pieces = [(low_path[:d], lows[d], none) for d in range(self.levels, parting, -1) if bounded[0]]
        outer = low_path[:parting] if bounded[0] else high_path[:parting]
        pieces.append((outer, lows[parting] if bounded[0] else none, highs[parting] if bounded[1] else none))
        pieces += [(high_path[:d], none, highs[d]) for d in range(parting + 1, self.levels + 1) if bounded[1]]
        for i, (path, begin, end) in enumerate(pieces):
            yield i, len(pieces) == 1, path, *begin, *end

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        low_path, low, low_copy, high_path, high, high_copy = arguments
        lower, upper = _Bounds(low_path, low, low_copy, BEYOND), _Bounds(high_path, high, high_copy, 0)
        parting = _parting(lower, upper, self.levels)
        rows = (~_turned_round(low, high)).nonzero()[0]
        middle = np.where(lower.given, self.levels - parting, 0)
        parts = [(rows, middle[rows], parting[rows], lower.given[rows], upper.given[rows])]
        for depth in range(1, self.levels + 1):
            inside = rows[parting[rows] < depth]
            yes, no = np.ones(len(inside), np.bool_), np.zeros(len(inside), np.bool_)
            at = np.full(len(inside), depth)
            begin, end = lower.given[inside], upper.given[inside]
            left = (inside, self.levels - at, at, yes, no)
            right = (inside, middle[inside] + at - parting[inside], at, no, yes)
            parts += [tuple(c[begin] for c in left), tuple(c[end] for c in right)]
        owner, piece, depths, below, above = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.lexsort((piece, owner))
        owner, piece, depths, below, above = (c.take(order) for c in (owner, piece, depths, below, above))
        return owner, [
            pa.array(piece),
            pa.array(np.bincount(owner, minlength=len(low)).take(owner) == 1),
            _outer_paths(low_path, high_path, owner, depths, below),
            *lower.at(owner, depths, below, self.levels),
            *upper.at(owner, depths, above, self.levels),
        ]


class _Bounds:
    """One bound of many intervals."""

    def __init__(self, path: ListColumn, place: pa.Array, copy: pa.Array, of_block: int) -> None:
        self.path = path
        self.given = place.is_valid().to_numpy(zero_copy_only=False)
        self._place = place
        self._copy = copy.to_numpy(zero_copy_only=False)
        self._of_block = of_block

    def at(self, owner: Ints, depths: Ints, has: Any, levels: int) -> list[pa.Array]:
        """Return the bound in blocks at these depths: itself in an innermost one, else the block towards it."""
        innermost = depths == levels
        inside = len(self._place) + self.path.starts.take(owner) + depths
        place = pa.concat_arrays([self._place, self.path.values])
        taken = pa.array(np.where(innermost, owner, np.where(has, inside, 0)), mask=~has)
        copy = np.where(innermost, self._copy.take(owner), self._of_block)
        return [place.take(taken), pa.array(np.where(has, copy, _NO_BOUND))]


def _parting(lower: _Bounds, upper: _Bounds, levels: int) -> Ints:
    """Return how much the paths of two bounds have in common; nothing where there is but one."""
    found = np.zeros(len(lower.given), np.int64)
    rows = (lower.given & upper.given).nonzero()[0]
    a, b = comparable(lower.path.values, upper.path.values)
    alike = np.ones(len(rows), np.bool_)
    starts = lower.path.starts.take(rows), upper.path.starts.take(rows)
    for depth in range(levels):
        alike &= a.take(starts[0] + depth) == b.take(starts[1] + depth)
        found[rows] += alike
    return found


def _turned_round(low: pa.Array, high: pa.Array) -> Any:
    a, b = comparable(low, high)
    turned = a > b
    if high.null_count:
        turned &= high.is_valid().to_numpy(zero_copy_only=False)
    return turned


def _outer_paths(low: ListColumn, high: ListColumn, owner: Ints, depths: Ints, of_low: Any) -> ListColumn:
    """Return the first parts, of these lengths, of the lower or the higher path of rows."""
    starts = np.where(of_low, low.starts.take(owner), len(low.values) + high.starts.take(owner))
    both = starts * (int(depths.max(initial=0)) + 1) + depths
    first, which = different(both)
    lengths = depths.take(first)
    values = pa.concat_arrays([low.values, high.values]).take(pa.array(ranges(starts.take(first), lengths)))
    return ListColumn(values, np.concatenate((np.zeros(1, np.int64), lengths.cumsum())), which)


@attrs.frozen
class _FoldSlice(TableFunction):
    """The combination of what is between two bounds in a block."""

    states: StateColumns

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema(self.states.fields)

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        low, low_copy, high, high_copy, places, *lists = arguments
        begin, end = 0, len(places)
        if low_copy != _NO_BOUND:
            begin = sum(sort_key(p) < sort_key(low) or (low_copy == BEYOND and p == low) for p in places)
            begin += max(low_copy, 0)
        if high_copy != _NO_BOUND:
            end = sum(sort_key(p) < sort_key(high) or (high_copy == BEYOND and p == high) for p in places)
            end += max(high_copy, 0)
        return [tuple(self.states.whole([states[begin:end] for states in lists]))]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        low, low_copy, high, high_copy, *columns = arguments
        lists = lined_up(*columns)
        places, *states = lists.values
        begin, end = lists.starts, lists.ends
        for bound, place, copies in ((begin, low, low_copy), (end, high, high_copy)):
            copy = copies.to_numpy()
            for side, some in (("right", copy == BEYOND), ("left", copy >= 0)):
                rows = some.nonzero()[0]
                found = positions(lists, places, rows, place.take(pa.array(rows)), side)
                bound[rows] = found + np.maximum(copy[rows], 0)
        # A copy may be past the end where a query meets a list of another time; what comes of that cancels.
        ends = lists.ends
        return np.arange(len(low)), self.states.fold(states, np.minimum(begin, ends), np.minimum(end, ends))
