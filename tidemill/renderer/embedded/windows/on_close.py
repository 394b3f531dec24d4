"""Window calls over rows that come in order: each row is given once, and what no frame to come looks at is forgotten.

The state is, of each partition, the rows that are not closed and those before them that frames still look at; where
ranks are asked for, how many were forgotten; and which partitions to look at when the watermark has come so far.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tidemill.dataflow.composites import SlidingWindows
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.bound import CallError, RankingCall
from tidemill.expressions.windows.closing import FrameReach, reach_of
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, UpdateArray, consolidated, numbered
from tidemill.renderer.embedded.operator_registry import operator_of
from tidemill.renderer.embedded.operators.timers import Timers
from tidemill.renderer.embedded.operators.watermarks import ROWS, AfterWatermark, limits_of
from tidemill.renderer.embedded.schedule import Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.windows.evaluate import call_values
from tidemill.renderer.embedded.windows.frame import Partitions
from tidemill.renderer.embedded.windows.ordering import GivenRows, OrderedRows, chunks, in_order, run_lengths
from tidemill.renderer.runs import failures

NEVER: Final = 2**63 - 1
"""The time of what has not come."""


class _Arrivals(NamedTuple):
    """Rows in their order, and when they came."""

    ordered: OrderedRows
    sizes: Ints
    """How many rows each partition has."""
    released: Ints
    """The time at which each row was released; -1 for before the step."""
    values: Ints
    """The codes of the rows' values in the order."""


class _Touched(NamedTuple):
    """Partitions that a step looks at, with all that is there of them."""

    keys: Codes
    owner: Ints
    """The number of the key of each row."""
    rows: Codes
    counts: Ints
    released: Ints
    """When each row was released; -1 for before the step."""


@operator_of(SlidingWindows, interner=True)
class SlidingWindowsOperator(AfterWatermark):
    """SlidingWindows, of calls that look back a bounded way."""

    consolidated = True

    def __init__(self, node: SlidingWindows, region: Region, interner: Interner) -> None:
        super().__init__(node, region, node.column)
        self._windows = node.windows
        self._interner = interner
        self._schema = node.inputs[ROWS].schema
        self._types = self._schema.dtypes
        reach = reach_of(node.windows, self._types[node.column])
        assert reach is not None, "windows that look at all rows before are made of others"
        self._reach: FrameReach = reach
        self._distance = node.distance
        self._keys = node.keys
        self._kept = np.array(node.windows.kept(node.keys), np.int64)
        keys = tuple(range(node.keys))
        transaction = self.schedule.transaction
        layout = UpdateLayout(keys, self._types, 1, self.schedule.users)
        self._rows = Spine(layout, self.since, transaction)
        layout = UpdateLayout(keys, [*self._types[: node.keys], INT64, INT64], 1, self.schedule.users)
        self._forgotten = Spine(layout, self.since, transaction)
        """Of each partition, how many rows and peer groups are not there any more."""
        self._due = Timers(self, node.keys, 0)
        """Partitions that change, by how far the watermark has to come."""
        self.ports.append(self._due)

    def run(self) -> None:
        new = self.ports[ROWS].take_consolidated()
        times, marks, state = self.take_limits()
        due = self._due.take_below(int(marks[-1])) if len(times) > 1 else None
        if new is not None or due is not None:
            self._slide(self._touched(new, due), times, marks)
        self.keep(state, None)

    def _touched(self, new: UpdateArray | None, due: UpdateArray | None) -> _Touched:
        width, k = self._width, self._keys
        blocks = [b[:k] for b in (new, due) if b is not None]
        every = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        one, owner = numbered(every)
        keys = every.take(one, axis=1)
        found, stored = self._rows.find(keys)
        stored = consolidated(np.concatenate((found[None], stored[: self._width], stored[-1:])))
        before = stored.shape[1]
        if new is None:
            return _Touched(keys, stored[0], stored[1:-1], stored[-1], np.full(before, -1))
        if new[-1].min() < 0:
            raise self._negative(new)
        both = np.empty((width + 3, before + new.shape[1]), np.int64)
        both[:-1, :before], both[-1, :before] = stored, -1
        both[0, before:], both[1:-2, before:] = owner[: new.shape[1]], new[:width]
        both[-2, before:], both[-1, before:] = new[-1], new[width]
        return _Touched(keys, both[0], both[1:-2], both[-2], both[-1])

    def _slide(self, touched: _Touched, times: Ints, marks: Ints) -> None:
        """Give the rows that are closed now, and forget those that nothing looks at any more."""
        if not len(touched.owner):
            return
        ordered, rows = self._in_order(touched)
        closed = _closed_at(rows, self._reach, times, limits_of(marks, self._distance) if self._distance else None)
        is_closed = closed != NEVER
        closing = is_closed & (closed >= 0)
        now = closing.nonzero()[0]
        gone = ~_still_needed(rows, self._reach, is_closed, int(marks[-1]))
        if len(now) or self._reach.ranks:
            values = self._values(touched, ordered, closing)
            if self._reach.ranks:
                self._count_before(touched, rows, values, gone, int(times[-1]))
            self._give(touched, ordered, now, values, closed)
        self._remember(touched, ordered, gone)
        if self._distance or self._reach.distance_before:
            self._wait(touched, rows, is_closed, gone, int(marks[-1]))

    def _give(self, touched: _Touched, ordered: OrderedRows, now: Ints, values: Codes, closed: Ints) -> None:
        """Give the rows at some positions, each at the time at which it was closed."""
        if not len(now):
            return
        kept = len(self._kept)
        block = np.empty((kept + len(values) + 2, len(now)), np.int64)
        block[:kept] = touched.rows.take(ordered.source.take(now), axis=1).take(self._kept, axis=0)
        values.take(now, axis=1, out=block[kept:-2])
        closed.take(now, out=block[-2])
        block[-1] = 1
        self.emit(block if ordered.all_differ else consolidated(block), self.region.now)

    def _in_order(self, touched: _Touched) -> tuple[OrderedRows, _Arrivals]:
        try:
            ordered = in_order(self._windows, self._types, GivenRows(*touched[1:4]), self._interner)
        except CallError as error:
            raise self._failed(touched, error) from None
        source = ordered.source
        sizes = run_lengths(ordered.starts, len(source))
        released, column = touched.released.take(source), touched.rows[self._column].take(source)
        return ordered, _Arrivals(ordered, sizes, released, column)

    def _values(self, touched: _Touched, ordered: OrderedRows, closing: Bools) -> Codes:
        """Return the calls' values for the rows that are closed now; frames of others lack rows, or are still open."""
        values = np.empty((len(self._windows.calls), len(ordered.source)), np.int64)
        done = 0
        for chunk in chunks(ordered):
            part = slice(done, done + len(chunk.source))
            rows = Partitions(self._windows, self._types, touched.rows, self._interner, chunk, evaluated=closing[part])
            try:
                call_values(rows, values[:, part])
            except CallError as error:
                raise self._failed(touched, error) from None
            done = part.stop
        return values

    def _failed(self, touched: _Touched, error: CallError) -> Exception:
        (row,) = decode_rows(self._schema, touched.rows[:, [error.row]], self._interner)
        return failures.no_window_value(self.node, self._windows, row, error)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _remember(self, touched: _Touched, ordered: OrderedRows, gone: Bools) -> None:
        """Hold what came, and no longer what is at positions that are gone."""
        left = touched.counts - np.bincount(ordered.source.compress(gone), minlength=len(touched.counts))
        change = left - np.where(touched.released < 0, touched.counts, 0)
        some = change.nonzero()[0]
        if len(some):
            updates = np.empty((self._width + 2, len(some)), np.int64)
            touched.rows.take(some, axis=1, out=updates[: self._width])
            updates[-2] = np.maximum(touched.released.take(some), 0)
            updates[-1] = change.take(some)
            self._rows.append(updates if ordered.all_differ else consolidated(updates))

    def _count_before(self, touched: _Touched, rows: _Arrivals, values: Codes, gone: Bools, time: int) -> None:
        """Add to ranks what was forgotten before, and note what is forgotten now."""
        owner, found = self._forgotten.find(touched.keys)
        k, ordered = self._keys, rows.ordered
        before = np.zeros((2, touched.keys.shape[1]), np.int64)
        for row, counts in enumerate(found[k : k + 2]):
            np.add.at(before[row], owner, counts * found[-1])
        number = touched.owner.take(ordered.source)
        for position, call in enumerate(self._windows.calls):
            if isinstance(call, RankingCall):
                values[position] += before[int(call.function == "dense_rank")].take(number)
        if not gone.any():
            return
        more = np.zeros_like(before)
        np.add.at(more[0], number, gone)
        np.add.at(more[1], number.take(ordered.peer_starts), gone.take(ordered.peer_starts))
        changed = more[0].nonzero()[0]
        old = changed.compress(before[0].take(changed))
        block = np.empty((k + 4, len(old) + len(changed)), np.int64)
        block[:k] = touched.keys.take(np.concatenate((old, changed)), axis=1)
        block[k : k + 2, : len(old)] = before.take(old, axis=1)
        block[k : k + 2, len(old) :] = (before + more).take(changed, axis=1)
        block[-2] = max(time, 0)
        block[-1, : len(old)], block[-1, len(old) :] = -1, 1
        self._forgotten.append(block)

    def _wait(self, touched: _Touched, rows: _Arrivals, is_closed: Bools, gone: Bools, mark: int) -> None:
        """Have partitions looked at again when the watermark closes rows of them, or lets rows be forgotten."""
        reach = self._reach
        starts, sizes = rows.ordered.starts, rows.sizes
        last = starts + sizes - 1
        closed = np.add.reduceat(is_closed, starts, dtype=np.int64)
        here = closed < sizes
        value = rows.values.take(np.where(here, starts + closed, last))
        further = np.where(here, self._distance, reach.distance_before)
        number = np.minimum(value, NEVER - further) + further
        some = (number >= mark) & (value != NULL) & ~gone.take(last)
        if some.any():
            which = touched.owner.take(rows.ordered.source.take(starts.compress(some)))
            self._due.hold(np.concatenate((touched.keys.take(which, axis=1), number.compress(some)[None])))

    def _negative(self, new: UpdateArray) -> Exception:
        position = int((new[-1] < 0).argmax())
        fields, own = self._schema.fields, list(self._windows.row)
        (key,) = decode_rows(Schema(fields[: self._keys]), new[: self._keys, [position]], self._interner)
        (row,) = decode_rows(Schema(tuple(fields[i] for i in own)), new[own][:, [position]], self._interner)
        return failures.negative_count(self.node, key, row, int(new[-1, position]))

    def spines(self) -> dict[str, Spine]:
        return {"sliding rows": self._rows, "forgotten": self._forgotten}

    def drop_state(self) -> None:
        super().drop_state()
        self._due.refill(None)


def _closed_at(rows: _Arrivals, reach: FrameReach, times: Ints, limits: Ints | None) -> Ints:
    """Return when each row's frames were closed: -1 for before the step, `NEVER` where they are not.

    ``limits`` say, where it matters, below what values of the order rows are far enough behind the watermark since
    each of the times.
    """
    found = rows.released.copy()
    if reach.rows_after:
        end = (rows.ordered.starts + rows.sizes).repeat(rows.sizes)
        _wait_for(found, rows.released, np.arange(len(found)) + min(reach.rows_after, len(found)), end)
    if reach.groups_after:
        starts = rows.ordered.peer_starts
        last = np.append(starts.searchsorted(rows.ordered.starts)[1:], len(starts)).repeat(rows.sizes)
        group = np.arange(len(starts)).repeat(run_lengths(starts, len(found)))
        wanted = group + min(reach.groups_after, len(starts))
        first = np.append(starts, len(found)).take(np.minimum(wanted, len(starts)))
        first[wanted >= last] = len(found)
        _wait_for(found, rows.released, first, np.full(len(found), len(found)))
    if limits is not None:
        since = limits.searchsorted(rows.values, "right")
        np.maximum(found, np.append(times, NEVER).take(since), out=found)
    return found


def _wait_for(found: Ints, released: Ints, positions: Ints, ends: Ints) -> None:
    """Let rows be closed no sooner than the rows at these positions came, where a position is before the end."""
    here = positions < ends
    waited = np.full(len(found), NEVER)
    waited[here] = released.take(positions[here])
    np.maximum(found, waited, out=found)


def _still_needed(rows: _Arrivals, reach: FrameReach, is_closed: Bools, watermark: int) -> Bools:
    """Return which rows are open, or may be in the frame of an open row or of one to come."""
    sizes, starts, peers = rows.sizes, rows.ordered.starts, rows.ordered.peer_starts
    n = len(is_closed)
    closed = np.add.reduceat(is_closed, starts, dtype=np.int64)
    first = starts + closed  # the first row that is not closed, which may be the next that comes
    ends = np.concatenate((peers, [n]))
    group = ends.searchsorted(first, "right") - 1  # its peer group, which may be the next as well
    least = ends.take(np.maximum(group - reach.groups_before, 0))
    needed: Bools = np.arange(n) >= np.minimum(first - reach.rows_before, least).repeat(sizes)
    if reach.distance_before:
        values = np.where(closed < sizes, rows.values.take(np.minimum(first, n - 1)), watermark)
        least = np.maximum(values, NULL + reach.distance_before) - reach.distance_before
        needed |= rows.values >= least.repeat(sizes)
    if reach.ranks:  # whole peer groups are forgotten
        kept = np.logical_or.reduceat(needed, peers)
        needed = kept.repeat(run_lengths(peers, n))
    return needed
