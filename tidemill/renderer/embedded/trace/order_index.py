"""A secondary index of a spine: the rows of groups in order, at the newest time, with rank and select.

Where user times are totally ordered and no loop is around, a group's contents change by moving on only. Then its rows
can be held consolidated and sorted, so that the first, the last, the one at a position and the position of one are
there without a look at the others, whatever was deleted before. The spine holds the truth: the index of a group is
built from it when first asked for, and given up where the spine is given other contents.
"""

from __future__ import annotations

import numpy as np

from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    UpdateArray,
    consolidated,
    grouped,
    indices,
    stacked,
)
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.sorted_rows import SortedRows
from tidemill.renderer.embedded.trace.transaction import Transaction

__all__ = ["OrderIndex"]

_Key = tuple[int, ...]


class OrderIndex:
    """`SortedRows` of some groups, by key. The first ``width`` codes of a row are its key, the order is of the others.

    ``index[key]`` is cheap, and stays what it is when the index changes.
    """

    def __init__(self, width: int, order: RowOrder, transaction: Transaction) -> None:
        self._width = width
        self._order = order
        self._transaction = transaction
        self._keys = np.empty((width, 0), np.int64)
        """The keys of the groups that are indexed."""
        self._groups: dict[_Key, SortedRows] = {}
        self._before: dict[_Key, SortedRows | None] = {}
        """The groups that the current step has changed, as they were."""

    def __getitem__(self, key: _Key) -> SortedRows:
        return self._groups[key]

    def has(self, keys: Codes) -> Bools:
        """Return of which of these keys the groups are indexed."""
        if not self._keys.shape[1]:
            return np.zeros(keys.shape[1], np.bool_)
        return indices(self._keys, keys) >= 0

    def add(self, keys: Codes, rows: UpdateArray) -> None:
        """Index the groups of these keys, with these rows: codes and counts, which are added up."""
        self._join()
        self._keys = np.concatenate((self._keys, keys), axis=1)
        nothing = SortedRows.of(self._order, rows[self._width :, :0])
        for key in map(tuple, keys.T.tolist()):
            self._put(key, nothing)
        self.apply(rows)

    def apply(self, change: UpdateArray) -> UpdateArray:
        """Add counts to rows of indexed groups; return the rows that have a negative count by then.

        The cost grows with the rows changed, and as the square root of the groups' rows.
        """
        change = consolidated(change)
        if not change.shape[1]:
            return change
        self._join()
        width = self._width
        negative: list[UpdateArray] = []
        order, starts = grouped(change[:width])
        for which in np.split(order, starts[1:].tolist()):
            of_group = change.take(which, axis=1)
            key = tuple(of_group[:width, 0].tolist())
            group, below_zero = self._groups[key].changed(of_group[width:])
            self._put(key, group)
            keys = of_group[:width, :1].repeat(below_zero.shape[1], axis=1)
            negative.append(np.concatenate((keys, below_zero)))
        return stacked(negative)

    def clear(self) -> None:
        """Index no group."""
        self._keys, self._groups, self._before = self._keys[:, :0], {}, {}
        self._transaction.leave(self)

    def commit(self) -> None:
        self._before = {}

    def rollback(self, state: UpdateArray) -> None:
        """Have the groups as they were before the step, and only those of the keys before."""
        self._keys = state
        for key, group in self._before.items():
            if group is None:
                del self._groups[key]
            else:
                self._groups[key] = group
        self._before = {}

    def _join(self) -> None:
        self._transaction.join(self, self._keys)

    def _put(self, key: _Key, group: SortedRows) -> None:
        self._before.setdefault(key, self._groups.get(key))
        self._groups[key] = group
