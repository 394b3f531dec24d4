"""A secondary index of a spine: the rows of groups in order, at the newest time, with rank and select.

Where user times are totally ordered and no loop is around, a group's contents change by moving on only. Then its rows
can be held consolidated and sorted, so that the first, the last, the one at a position and the position of one are
there without a look at the others, whatever was deleted before. The spine holds the truth: the index of a group is
built from it when first asked for, and given up where the spine is given other contents.
"""

from __future__ import annotations

import numpy as np

from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.updates import (
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    added_up,
    consolidated,
    grouped,
    indices,
    numbered,
    stacked,
)
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.sorted_rows import REBUILD, SortedRows
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

    def apply(self, change: Rows) -> UpdateArray:
        """Add counts to rows of indexed groups; return the rows that have a negative count by then.

        The change is given as a matrix of codes and counts, or as its rows. The cost grows with the rows changed, and
        as the square root of the groups' rows.
        """
        if len(change[-1]) > sorting.FEW:
            return self._apply_many(list(change))
        return self._apply_few(consolidated(np.stack(change) if isinstance(change, list) else change))

    def _apply_few(self, change: UpdateArray) -> UpdateArray:
        if not change.shape[1]:
            return change
        self._join()
        width = self._width
        negative = [change[:, :0]]
        if change.shape[1] == 1:
            key = tuple(change[:width, 0].tolist())
            group, below_zero = self._groups[key].changed(change[width:])
            self._put(key, group)
            return np.concatenate((change[:width], below_zero)) if below_zero.shape[1] else change[:, :0]
        order, starts = grouped(change[:width])
        for which in np.split(order, starts[1:].tolist()):
            of_group = change.take(which, axis=1)
            key = tuple(of_group[:width, 0].tolist())
            group, below_zero = self._groups[key].changed(of_group[width:])
            self._put(key, group)
            if below_zero.shape[1]:
                keys = of_group[:width, :1].repeat(below_zero.shape[1], axis=1)
                negative.append(np.concatenate((keys, below_zero)))
        return stacked(negative)

    def _apply_many(self, change: list[Ints]) -> UpdateArray:
        """Sort groups anew of which a good part changes, all at once, and change the others one by one."""
        self._join()
        codes = np.empty((self._width, len(change[-1])), np.int64)
        for row, given in zip(codes, change, strict=False):
            row[:] = given
        one, owner = numbered(codes)
        keys = list(map(tuple, codes.take(one, axis=1).T.tolist()))
        held = np.array([self._groups[key].distinct for key in keys], np.int64)
        anew = np.bincount(owner) * REBUILD > held
        if anew.all():
            return self._sorted_anew(keys, owner, change)
        if not anew.any():
            return self._apply_few(consolidated(np.stack(change)))
        changed = anew.take(owner)
        negative = self._apply_few(consolidated(np.stack([row.compress(~changed) for row in change])))
        number = anew.cumsum() - 1
        some = [key for key, again in zip(keys, anew.tolist(), strict=True) if again]
        rows = [row.compress(changed) for row in change]
        return stacked([negative, self._sorted_anew(some, number.take(owner.compress(changed)), rows)])

    def _sorted_anew(self, keys: list[_Key], owner: Ints, change: list[Ints]) -> UpdateArray:
        """Add a change to groups, given the number of each row's group; return what `apply` does."""
        rows = change[self._width :]
        held = [(i, chunk) for i, key in enumerate(keys) for chunk in self._groups[key].chunks]
        if held:
            rows = [np.concatenate((row, *(chunk[at] for _, chunk in held))) for at, row in enumerate(rows)]
            sizes = [chunk.shape[1] for _, chunk in held]
            owner = np.concatenate((owner, np.array([i for i, _ in held]).repeat(sizes)))
        order, new, _ = self._order.of(rows, owner)
        counts = rows[-1].take(order)
        if not new.all():  # rows that are there more than once are side by side
            starts = new.nonzero()[0]
            counts, order = added_up(counts[None], starts)[0], order.take(starts)
        if not counts.all():
            order, counts = order.compress(counts != 0), counts.compress(counts != 0)
        ends = owner.take(order).searchsorted(np.arange(len(keys)), "right").tolist()
        for key, start, end in zip(keys, [0, *ends], ends, strict=False):
            of_group = np.empty((len(rows), end - start), np.int64)
            for row, ordered in zip(rows, of_group, strict=True):
                row.take(order[start:end], out=ordered, mode="clip")
            of_group[-1] = counts[start:end]
            self._put(key, SortedRows.in_order(self._order, of_group))
        negative = (counts < 0).nonzero()[0]
        which = order.take(negative)
        found = [np.array([keys[i][at] for i in owner.take(which).tolist()], np.int64) for at in range(self._width)]
        return np.stack([*found, *(row.take(which) for row in rows[:-1]), counts.take(negative)])

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
