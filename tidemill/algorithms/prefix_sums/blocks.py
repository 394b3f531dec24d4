"""Sums over blocks: the values at each place, combined block by block up to the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from tidemill.algorithms.prefix_sums.columns import lined_up, shortened
from tidemill.algorithms.prefix_sums.combiners import Combiner, split
from tidemill.algorithms.prefix_sums.routing import PATH, BlockShape, Routes, depth, routes
from tidemill.collections.collection import Collection
from tidemill.collections.ordered_lists import ordered_lists
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, TableFunction

PLACES: Final = "places#"
"""The column of the places in a block, in order; in a block of blocks their separators."""


@attrs.frozen
class StateColumns:
    """The combiners of several sums, and the columns of their states, sum by sum."""

    combiners: tuple[Combiner, ...]
    names: tuple[tuple[str, ...], ...]

    @property
    def flat(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(n for names in self.names for n in names)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns."""
        pairs = zip(self.combiners, self.names, strict=True)
        return tuple(Field(n, t) for c, names in pairs for n, t in zip(names, c.types, strict=True))

    def split(self, columns: Sequence[Any]) -> Iterable[tuple[Combiner, Sequence[Any]]]:
        """Return each combiner with its part of the columns."""
        return split(self.combiners, columns)

    def whole(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the state of each sum over lists of states, by column."""
        return [v for c, lists in self.split(columns) for v in c.whole(zip(*lists, strict=True))]

    def fold(self, columns: Sequence[Any], starts: Ints, ends: Ints) -> list[Column]:
        """Return the columns of the states from each start to before each end, combined."""
        return [made for c, states in self.split(columns) for made in c.fold(states, starts, ends)]


def state_columns(combiners: Mapping[str, Combiner]) -> StateColumns:
    """Return the columns for the states of sums of these names."""
    names = tuple(tuple(f"state {i} {name}#" for i in range(len(c.types))) for name, c in combiners.items())
    return StateColumns(tuple(combiners.values()), names)


@attrs.frozen
class Blocks:
    """An order cut into blocks, with the sums over each."""

    parts: tuple[str, ...]
    index: str
    shape: BlockShape
    states: StateColumns
    ways: Routes
    nodes: tuple[Collection, ...]
    """By depth: each block with lists of what is in it, in order. With a loop, those of all depths in each."""
    entries: tuple[Collection, ...]
    """By depth: what is in the blocks, a row each: the block's path, place and state."""

    def at(self, level: int) -> Collection:
        """Return the blocks at a depth, with the lists of what is in them."""
        return self.nodes[level].filter(depth() == level) if self.shape.loop else self.nodes[level]

    def only(self, states: StateColumns) -> Blocks:
        """Return the same blocks with some of their sums."""
        nodes = tuple(n.select(*self.key, PLACES, *states.flat) for n in self.nodes)
        entries = tuple(e.select(*self.key, self.index, *states.flat) for e in self.entries)
        return attrs.evolve(self, states=states, nodes=nodes, entries=entries)

    @property
    def key(self) -> list[str]:
        """The columns that identify a block."""
        return [*self.parts, PATH]

    @classmethod
    def of(
        cls, placed: Collection, parts: Sequence[str], index: str, states: StateColumns, shape: BlockShape
    ) -> Blocks:
        """Return the blocks of rows that have a place each, not NULL, and the state that is there."""
        names = (*parts, index, *states.flat)
        ways = routes(placed.select(*names), parts, index, shape)
        key, inner = [*parts, PATH], ways.located

        def listed(entries: Collection) -> Collection:
            return ordered_lists(entries, key, index, (index, *states.flat)).rename({index: PLACES})

        def outward(nodes: Collection) -> Collection:
            return apply_table(nodes, Fold(states, index), [PATH, *states.flat], keep=parts)

        if shape.loop:
            every = inner.iterate(
                lambda entries: inner.concat(outward(listed(entries).filter(depth() > 0)).select(*inner.schema.names)),
                error_at=shape.levels + 2,
                name="block sums",
            )
            nodes = (listed(every),) * (shape.levels + 1)
            entries = tuple(every.filter(depth() == d) for d in range(shape.levels + 1))
            return cls(tuple(parts), index, shape, states, ways, nodes, entries)
        by_depth, lists = [inner], [listed(inner)]
        for _ in range(shape.levels):
            by_depth.append(outward(lists[-1]))
            lists.append(listed(by_depth[-1]))
        return cls(tuple(parts), index, shape, states, ways, tuple(lists[::-1]), tuple(by_depth[::-1]))


@attrs.frozen
class FoldLists(TableFunction):
    """The combination of lists of states."""

    states: StateColumns

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema(self.states.fields)

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        return [tuple(self.states.whole(arguments))]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        lists = lined_up(*arguments)
        return np.arange(len(lists.which)), self.states.fold(lists.values, lists.starts, lists.ends)


@attrs.frozen
class Fold(TableFunction):
    """A block as it stands in the block around it: the path of that, its own separator, what is in it combined."""

    states: StateColumns
    index: str

    def schema(self, arguments: Schema) -> Schema:
        path = arguments.field(PATH)
        assert path.dtype.element is not None, "a path is a list"
        return Schema((path, Field(self.index, path.dtype.element), *self.states.fields))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        path, *lists = arguments
        return [(path[:-1], path[-1], *self.states.whole(lists))]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        path, *lists = arguments
        owner, folded = FoldLists(self.states).columns(*lists)
        return owner, [*shortened(path), *folded]
