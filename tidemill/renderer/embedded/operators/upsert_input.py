"""Inputs with a key: pending writes, and the current row of each key, as an arrangement."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.kernels.codec import FEW, Interner, encode, encode_row
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, UpdateArray, consolidated, grouped
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators.input_output import InputOperator
from tidemill.renderer.embedded.schedule import Port, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs.writes import DELETE, EMPTY, PUT, Writes, keys_of

_FEW_FOUND: Final = 64
"""Updates of a few keys that are looked at one by one; of keys that are often written there may be more."""
_in_order: Final = itemgetter(-1, -2)
"""By time and number."""


class UpsertInputOperator(InputOperator):
    """Input with a key: the last write to a key in an epoch becomes the difference from the row that was there.

    A write is a column: the codes of a row, NULL beside the key where it deletes, NULL where it empties the input; its
    kind; its number, as of several to one key at one time that with the greatest counts; its time.
    """

    def __init__(self, node: Input, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        self._width = len(self.schema)
        self._keys = keys_of(node)
        types = [f.dtype for f in self.schema]
        self.ports = [Port(self, self._width + 2, 0)]
        users = self.schedule.users
        layout = UpdateLayout(node.key, types, users, users)
        self.rows = Spine(layout, self.since, self.schedule.transaction)
        """The current row of each key."""
        self._key = layout.key_rows
        self._next = 0
        self._injected: UpdateArray | None = None

    def number(self, count: int = 1) -> int:
        """Return the first of ``count`` numbers, greater than those of all writes before."""
        self._next += count
        return self._next - count

    def number_after(self, number: int) -> None:
        """Give out only numbers greater than this one from now on."""
        self._next = max(self._next, number + 1)

    def write(self, writes: Writes, number: int | None = None) -> None:
        """Have writes pending until their times close. With ``number``, that is the number of all."""
        k, n = self._width, len(writes)
        if n == 1 and writes.kinds == PUT and isinstance(writes.rows, list) and isinstance(writes.times, tuple):
            # What services write: a row, in Python.
            number = self.number() if number is None else number
            codes = [*encode_row(writes.rows[0], self._encoders), 1, number, writes.times[0]]
            self.ports[0].defer(np.array(codes, np.int64)[:, None])
            return
        if writes.kinds == PUT:
            updates = encode(self.schema, writes.rows, self._interner, more_rows=3)
            updates[k] = PUT
        else:
            updates = np.empty((k + 3, n), np.int64)
            updates[:k], updates[k] = NULL, writes.kinds
            updates[:k, updates[k] == PUT] = encode(self.schema, writes.rows, self._interner)
            deletes = updates[k] == DELETE
            updates[np.ix_(np.array(self.rows.layout.keys), deletes)] = encode(
                self._keys, writes.deleted, self._interner
            )
        if number is not None:
            updates[k + 1] = number
        else:
            first = self.number(n)
            updates[k + 1] = np.arange(first, first + n)
        updates[-1] = [time for (time,) in writes.times] if isinstance(writes.times, list) else writes.times[0]
        self.ports[0].defer(updates)

    @property
    def is_emptied(self) -> bool:
        """Whether a pending write empties it."""
        return any((writes[self._width] == EMPTY).any() for writes in self.ports[0].pending.arrays())

    def inject(self, updates: UpdateArray) -> None:
        """Have updates emitted in the current step that were taken, or made elsewhere."""
        self._injected = updates
        self.region.wake(self)

    def take_step_updates(self) -> UpdateArray | None:
        if self._injected is not None:
            updates, self._injected = self._injected, None
            return updates
        writes = self.ports[0].take()
        if writes is None:
            return None
        self.records_in += writes.shape[1]
        if (writes[self._width] == EMPTY).any():
            writes = self._with_deletions(writes)
        updates = (self._few_differences if writes.shape[1] <= FEW else self._differences)(writes)
        if not updates.shape[1]:
            return None
        self.rows.append(updates)
        return updates

    def _with_deletions(self, writes: UpdateArray) -> UpdateArray:
        """Return writes with deletions in the place of each that empties the input.

        Of the keys that may be there then: those put since the one before, or there before all, which is the first's.
        """
        k = self._width
        writes = writes.take(np.lexsort((writes[k + 1], writes[-1])), axis=1)
        rows = self.rows.all_updates()
        current = consolidated(np.concatenate((rows[:k], rows[-1:])))
        empties = writes[k] == EMPTY
        before = empties.cumsum()
        put = (writes[k] == PUT) & (before < before[-1])
        which = np.concatenate((np.zeros(current.shape[1], np.int64), before.compress(put)))
        deletions = writes.take(empties.nonzero()[0].take(which), axis=1)
        deletions[self._key] = np.concatenate((current[self._key], writes[self._key].compress(put, axis=1)), axis=1)
        deletions[k] = DELETE
        return np.concatenate((writes.compress(~empties, axis=1), deletions), axis=1)

    def _few_differences(self, writes: UpdateArray) -> UpdateArray:
        """Like `_differences`, for few writes: in Python, where NumPy's calls cost more than their work."""
        k, places = self._width, self.rows.layout.keys
        _, found = self.rows.find(writes[self._key])
        if found.shape[1] > _FEW_FOUND:
            found = consolidated(np.concatenate((found[:k], found[-1:])))
        counts: dict[tuple[int, ...], int] = {}
        for update in found.T.tolist():
            codes = tuple(update[:k])
            counts[codes] = counts.get(codes, 0) + update[-1]
        current = {tuple([row[i] for i in places]): row for row, count in counts.items() if count > 0}
        last: dict[tuple[int, tuple[int, ...]], tuple[int, ...] | None] = {}
        for write in sorted(writes.T.tolist(), key=_in_order):
            last[write[-1], tuple([write[i] for i in places])] = tuple(write[:k]) if write[k] == PUT else None
        changes: list[list[int]] = []
        for (time, key), new in last.items():
            old = current.pop(key, None)
            if old is not None and old != new:
                changes.append([*old, time, -1])
            if new is not None:
                current[key] = new
                if old != new:
                    changes.append([*new, time, 1])
        return np.array(changes, np.int64).reshape(-1, k + 2).T

    def _differences(self, writes: UpdateArray) -> UpdateArray:
        """Return the changes that writes make: a row that differs from the one before replaces it."""
        k = self._width
        writes, firsts = self._last_ones(writes)
        new = writes[: k + 1]
        if firsts is None:
            before = self._current(new[self._key])
        else:
            before = np.empty_like(new)
            before[:, 1:] = new[:, :-1]
            before[:, firsts] = self._current(new[self._key].take(firsts, axis=1))
        changed = (new != before).any(axis=0)
        goes, comes = (changed & (rows[k] > 0) for rows in (before, new))
        gone = np.count_nonzero(goes)
        updates = np.empty((k + 2, gone + np.count_nonzero(comes)), np.int64)
        updates[:k, :gone], updates[:k, gone:] = before[:k, goes], new[:k, comes]
        updates[k, :gone], updates[k, gone:] = writes[-1, goes], writes[-1, comes]
        updates[-1, :gone], updates[-1, gone:] = -1, 1
        return updates

    def _last_ones(self, writes: UpdateArray) -> tuple[UpdateArray, UpdateArray | None]:
        """Return the last write to each key at each time, by key and then time, and where a key's first one is.

        As they are, and None, where each is to another key.
        """
        n = writes.shape[1]
        order, starts = grouped(writes[self._key])
        if len(starts) == n:
            return writes, None
        number = np.zeros(n, np.int64)
        number[starts[1:]] = 1
        of_key = np.empty(n, np.int64)
        of_key[order] = number.cumsum()
        order = np.lexsort((writes[self._width + 1], writes[-1], of_key))
        of_key, times = of_key.take(order), writes[-1].take(order)
        last = np.ones(n, np.bool_)
        last[:-1] = (of_key[1:] != of_key[:-1]) | (times[1:] != times[:-1])
        of_key = of_key.compress(last)
        firsts = np.flatnonzero(np.diff(of_key, prepend=-1))
        return writes.take(order.compress(last), axis=1), firsts

    def _current(self, keys: Codes) -> UpdateArray:
        """Return the current rows of keys, and 1 for each; where there is none the key with NULL, and 0."""
        k = self._width
        owner, found = self.rows.find(keys)
        rows = np.full((k + 1, keys.shape[1]), NULL)
        rows[self._key] = keys
        rows[k] = 0
        if len(owner):
            if found[-1].min() < 0:  # rows that went are there still, with what took them away
                found = consolidated(np.concatenate((owner[None], found[:k], found[-1:])))
                owner, found = found[0], found[1:]
            rows[:k, owner] = found[:k]
            rows[k, owner] = 1
        return rows

    def since(self) -> Antichain:
        return self.schedule.kept(self.frontier.lower)

    def spines(self) -> dict[str, Spine]:
        return {"spine": self.rows}

    def drop_derived(self) -> None:
        for updates in self.ports[0].pending.arrays():
            self.number_after(int(updates[self._width + 1].max()))

    def clear(self) -> None:
        super().clear()
        self._injected = None


@FACTORIES(Input)
def _input(node: Input, region: Region, made: CompileContext) -> InputOperator:
    return (UpsertInputOperator if node.key else InputOperator)(node, region, made.interner)
