"""Block sums, to be seen: one row for each block of an order."""

from __future__ import annotations

from typing import Any

from tidemill.algorithms import combine
from tidemill.algorithms.prefix_sums.blocks import PLACES, FoldLists
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, order_sums
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import lit


def block_sums(values: Collection | OrderSums, /, *, level: str = "level", **order: Any) -> Collection:
    """Return the sums over each block of an order: the partition, the level, the place it begins at, the sums.

    ``values`` are rows, with ``index=``, ``partition_by=``, the sums by name and whatever else `order_sums` takes, to
    which counts of ``rows`` and of ``groups``, that is, different places, are added; or what `order_sums` gives. Level
    0 are the places, the highest level is the whole partition, which begins before all places, as the first block of
    every level does: there the index is NULL. Cost: a change of a row changes one block of each level; and now and
    then, the less often the larger it is, cuts a block in two or joins two.

    >>> import tidemill as tm
    >>> from tidemill.algorithms import BlockShape, block_sums, combine
    >>> flow = tm.Dataflow()
    >>> sales = flow.constant({"day": "int64", "sold": "int64"}, [(d, d * d) for d in range(6)] + [(3, 100)])
    >>> shape = BlockShape(bits=1, levels=1)
    >>> flow.output("sums", block_sums(sales, index="day", total=combine.sum("sold"), shape=shape))
    >>> [row for row in flow.start().snapshot("sums") if row[0] > 0]
    [(1, 0, 1, 1, 0), (1, 1, 6, 5, 155), (2, None, 7, 6, 155)]
    """
    if isinstance(values, OrderSums):
        given = values
    else:
        given = order_sums(values, **{"rows": combine.rows(), "groups": combine.groups(), **order})
    blocks, states = given.blocks, given.states
    columns = [*blocks.parts, given.index, *states.flat]
    levels = blocks.shape.levels
    parts = [blocks.entries[d].with_columns(**{level: _number(levels - d)}) for d in range(levels + 1)]
    whole = apply_table(blocks.at(0), FoldLists(states), states.flat, keep=[*blocks.parts, PLACES])
    place = blocks.entries[0].schema.field(given.index).dtype
    parts.append(whole.with_columns(**{given.index: lit(None).cast(place), level: _number(levels + 1)}))
    first, *others = (p.select(*columns, level) for p in parts)
    return given.finished(first.concat(*others), [*given.partition_by, level, given.index])


def _number(level: int) -> Any:
    return lit(level).cast("int64")
