"""The two orders of a window's rows: of peer groups, and of rows, by copy, with no ties left."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from tidemill.algorithms import combine
from tidemill.algorithms.combine import Combination
from tidemill.algorithms.prefix_sums.offset_search import search_from_rows
from tidemill.algorithms.prefix_sums.order_index import index_with_ties, order_index
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, order_sums
from tidemill.algorithms.prefix_sums.routing import BlockShape
from tidemill.collections.collection import Collection
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.ordering import OrderColumn, hash_of_row
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.windows.bound import MOST_COPIES, Windows

PEERS: Final = "peers#"
"""The column of the place of a row's peer group: all that the ORDER BY says."""
ROW: Final = "row#"
"""The column of the place of a row, which it shares with none but copies of it."""
COPY: Final = "copy number#"
"""The column of the number of a copy, from 0 on."""
ROWS, GROUPS = "rows", "groups"
"""The counts in every order: of rows, and of peer groups."""
_EVERYTHING: Final = "everything#"
_COLLISION_BITS: Final = MOST_COPIES.bit_length()
"""So that copies of a row have places of their own, even where columns that were added distinguish them, not a hash."""
_SHAPE: Final = BlockShape(bits=6, levels=2)
"""Fewer levels than usual: up to some hundred thousand rows in a partition, what each operator costs counts more."""


class Orders:
    """A window's rows, and the block sums of both orders, with those sums that calls have asked for."""

    def __init__(self, rows: Collection, windows: Windows, keys: int) -> None:
        self.windows = windows
        self.rows = rows if keys else rows.with_columns(**{_EVERYTHING: lit(value=True)})
        self.parts = rows.schema.names[:keys] or (_EVERYTHING,)
        self._sums: Mapping[bool, dict[str, Combination]] = {False: {}, True: {}}
        self._orders: dict[tuple[tuple[str, ...], bool], OrderSums] = {}

    def ask(self, name: str, combination: Combination, *, by_row: bool) -> None:
        """Have a sum in the order of rows, or in that of peer groups; to be called before orders are made."""
        self._sums[by_row][name] = combination

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return self.rows.schema.names

    @functools.cached_property
    def copies(self) -> Collection:
        """The rows by copy: each with the number of one of its copies."""
        found = search_from_rows(self.order(ROWS, by_row=True), 0, ROWS, COPY).select(*self.parts, ROW, COPY)
        return self.with_places.distinct().join(found, on=[*self.parts, ROW], nulls_equal=True)

    def key(self, *, by_row: bool) -> list[str]:
        """Return the columns that identify a row, by copy, or a peer group."""
        return [*self.parts, ROW, COPY] if by_row else [*self.parts, PEERS]

    @functools.cached_property
    def with_peers(self) -> Collection:
        """The rows with the places of their peer groups."""
        keys = self._sort_keys(self.windows.order)
        if not keys:
            return self.rows.with_columns(**{PEERS: lit(b"")})
        return order_index(self.rows, order_by=keys, name=PEERS)

    @functools.cached_property
    def with_places(self) -> Collection:
        """The rows with the places of their peer groups and their own."""
        keys = self._sort_keys(self.windows.order)
        return index_with_ties(self.with_peers, keys, self._tie, self.parts, ROW, collision_bits=_COLLISION_BITS)

    @property
    def _tie(self) -> Expr:
        """The expression that breaks ties: the hash that calls have for it; any, where nothing depends on it."""
        for tie in self.windows.ties[:1]:
            if tie.column not in self.windows.row:
                return col(self.names[tie.column])
        return hash_of_row(self.rows.schema)

    def _sort_keys(self, order: tuple[OrderColumn, ...]) -> list[SortKey]:
        return [SortKey(col(self.names[o.column]), o.descending, o.nulls_first) for o in order]

    @functools.cached_property
    def _of_peers(self) -> OrderSums:
        sums = {ROWS: combine.rows(), GROUPS: combine.groups(), **self._sums[False]}
        return order_sums(self.with_peers, index=PEERS, partition_by=self.parts, shape=_SHAPE, unique=False, **sums)

    @functools.cached_property
    def _of_rows(self) -> OrderSums:
        sums = {ROWS: combine.rows(), **self._sums[True]}
        return order_sums(self.with_places, index=ROW, partition_by=self.parts, unique=True, shape=_SHAPE, **sums)

    def order(self, *sums: str, by_row: bool) -> OrderSums:
        """Return the order of rows, or of peer groups, with these sums alone: others change without a need."""
        if (sums, by_row) not in self._orders:
            whole = self._of_rows if by_row else self._of_peers
            self._orders[sums, by_row] = whole.only(*sums)
        return self._orders[sums, by_row]
