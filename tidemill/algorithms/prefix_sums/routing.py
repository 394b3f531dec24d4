"""Routing of places to blocks: from the whole down to the innermost block, by the separators in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

import tidemill.expressions.aggregate_functions as agg
from tidemill.algorithms.prefix_sums.columns import Lists, extended, positions, sort_key
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table
from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.hashing import hash64
from tidemill.expressions.functions.lists import size
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction
from tidemill.expressions.types import INT64, DType, list_type

PATH: Final = "path#"
"""The column of a block's path: the separators it lies after, outermost first. That of the whole is empty."""
_HEIGHT: Final = "height#"
_CHILDREN: Final = "children#"
_HASH: Final = "hash#"


@attrs.frozen
class BlockShape:
    """How an order is cut into blocks.

    A place begins a block with the probability ``1 / 2**bits``, and among those one that is around it with the same
    probability again, so a block holds about ``2**bits`` others. Blocks lie ``levels`` deep; enough where partitions
    have up to about ``2**(bits * (levels + 1))`` rows, and what is beyond makes the outermost block longer. ``loop``
    has the rounds done by a loop in place of an operator each. Results do not depend on any of these.
    """

    bits: int = 5
    levels: int = 3
    loop: bool = False

    def __attrs_post_init__(self) -> None:
        if min(self.bits, self.levels) < 1:
            msg = f"BlockShape: bits={self.bits}, levels={self.levels}: expected at least 1 of each"
            raise SchemaError(msg)


@attrs.frozen
class Routes:
    """The ways from the whole to the innermost blocks."""

    children: tuple[Collection, ...]
    """By depth: the separators in each block, as a list. With a loop it is the same collection for all."""
    located: Collection
    """The places, with the path of the innermost block each belongs to."""


def depth() -> Expr:
    """Return how deep a block lies."""
    return size(col(PATH))


def routes(values: Collection, parts: Sequence[str], index: str, shape: BlockShape) -> Routes:
    """Return the ways for the places in a column, which is not NULL, and the rows with their paths."""
    first = values.select(*parts).distinct()
    rest = values.schema.fields[len(parts) :]
    head = first.with_columns(**{f.name: lit(None).cast(f.dtype) for f in rest})
    hashed = values.concat(head).with_columns(**{_HASH: hash64(col(index))})
    height = _Height(shape.bits, shape.levels, values.schema.field(index).dtype)
    start = apply_table(hashed, height, [index, _HASH], keep=values.schema.names)
    key, names = [*parts, PATH], values.schema.names

    def inward(at: Collection) -> tuple[Collection, Collection]:
        """Return the separators in the blocks around these places, and the places one block further in."""
        high = at.filter(col(_HEIGHT) >= shape.levels - depth(), depth() < shape.levels)
        children = high.group_by(*key).agg(**{_CHILDREN: agg.list(index)})
        return children, _routed(at, children, key, index, [*names, _HEIGHT])

    if shape.loop:
        every = start.iterate(lambda at: start.concat(inward(at)[1]), error_at=shape.levels + 2, name="routes")
        children = (inward(every)[0],) * shape.levels
        at = every.filter(depth() == shape.levels)
    else:
        at, by_depth = start, []
        for _ in range(shape.levels):
            separators, at = inward(at)
            by_depth.append(separators)
        children = tuple(by_depth)
    return Routes(children, at.filter(col(index).is_not_null()).drop(_HEIGHT))


def route_down(places: Collection, ways: Routes, parts: Sequence[str], index: str, shape: BlockShape) -> Collection:
    """Return any places with the paths of the innermost blocks they belong to; none in a partition without rows."""
    names = places.schema.names
    start = apply_table(places, _Whole(places.schema.field(index).dtype), [index], keep=names)
    key = [*parts, PATH]
    if shape.loop:
        (children, *_) = ways.children

        def body(at: Collection) -> Collection:
            return start.concat(_routed(at, children, key, index, names))

        return start.iterate(body, error_at=shape.levels + 2, name="routes").filter(depth() == shape.levels)
    at = start
    for children in ways.children:
        at = _routed(at, children, key, index, names)
    return at


def _routed(at: Collection, children: Collection, key: list[str], index: str, kept: Iterable[str]) -> Collection:
    inside = at.join(children, on=key, nulls_equal=True)
    return apply_table(inside, _Route(), [index, PATH, _CHILDREN], keep=kept)


@attrs.frozen
class _Whole(TableFunction):
    """The path of the whole, for any place."""

    place: DType

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema((Field(PATH, list_type(self.place), nullable=False),))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        del arguments
        return [((),)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        n = len(arguments[0])
        empty = ListColumn(pa.array([], self.place.arrow), np.zeros(2, np.int64), np.zeros(n, np.int64))
        return np.arange(n), [empty]


@attrs.frozen
class _Height(TableFunction):
    """How many levels up a place is a separator, from its hash; NULL on all. And the path of the whole."""

    bits: int
    levels: int
    place: DType

    def schema(self, arguments: Schema) -> Schema:
        path = _Whole(self.place).schema(arguments)
        return Schema((Field(_HEIGHT, INT64, nullable=False), *path.fields))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        place, hashed = arguments
        height = self.levels
        while height and place is not None and hashed % (1 << self.bits * height):
            height -= 1
        return [(height, ())]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        place, hashed = arguments
        hashes = hashed.to_numpy(zero_copy_only=False)
        height = np.zeros(len(hashes), np.int64)
        for level in range(1, self.levels + 1):
            height += (hashes & ((1 << self.bits * level) - 1)) == 0
        if place.null_count:
            height[place.is_null().to_numpy(zero_copy_only=False)] = self.levels
        owner, (path,) = _Whole(self.place).columns(place)
        return owner, [pa.array(height), path]


@attrs.frozen
class _Route(TableFunction):
    """The path of the block a place belongs to inside a block, from its path and the separators in it."""

    def schema(self, arguments: Schema) -> Schema:
        return arguments.project([PATH])

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        place, path, children = arguments
        return [((*path, max((c for c in children if sort_key(c) <= sort_key(place)), key=sort_key)),)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        place, path, children = arguments
        rows = np.arange(len(place))
        inside = Lists([children.values], children.offsets, children.which)
        at = positions(inside, children.values, rows, place, "right") - 1
        return rows, [extended(path, children.values, at)]
