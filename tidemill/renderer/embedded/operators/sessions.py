"""Sessions that are over: rows of open sessions wait, and nothing is kept of rows given out."""

from __future__ import annotations

import numpy as np

from tidemill.dataflow.composites import ClosedSessions
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray, consolidated, numbered
from tidemill.renderer.embedded.operator_registry import operator_of
from tidemill.renderer.embedded.operators.timers import Timers
from tidemill.renderer.embedded.operators.watermarks import ROWS, AfterWatermark, limits_of
from tidemill.renderer.embedded.schedule import Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures

_GREATEST = 2**63 - 1


@operator_of(ClosedSessions, interner=True)
class ClosedSessionsOperator(AfterWatermark):
    """ClosedSessions. The state is the rows of open sessions, and which partitions to look at when."""

    consolidated = True

    def __init__(self, node: ClosedSessions, region: Region, interner: Interner) -> None:
        super().__init__(node, region, node.column)
        self._schema = node.inputs[ROWS].schema
        self._interner = interner
        self._keys = node.keys
        self._gap = node.gap
        layout = UpdateLayout(tuple(range(node.keys)), self._schema.dtypes, 1, self.schedule.users)
        self._open = Spine(layout, self.since, self.schedule.transaction)
        self._due = Timers(self, node.keys, 0)
        """Partitions by the end of a session, which is over when the watermark is a gap beyond it."""
        self.ports.append(self._due)

    def run(self) -> None:
        new = self.ports[ROWS].take_consolidated()
        times, marks, state = self.take_limits()
        limits = limits_of(marks, self._gap)
        due = self._due.take_below(int(limits[-1])) if len(times) > 1 else None
        if new is not None and new[-1].min() < 0:
            raise self._negative(new)
        if new is not None or due is not None:
            self._look_at(new, due, times, limits)
        self.keep(state, None)

    def _look_at(self, new: UpdateArray | None, due: UpdateArray | None, times: Ints, limits: Ints) -> None:
        k, width = self._keys, self._width
        blocks = [b[:k] for b in (new, due) if b is not None]
        every = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        one, owner = numbered(every)
        keys = every.take(one, axis=1)
        found, stored = self._open.find(keys)
        rows = consolidated(np.concatenate((found[None], stored[:width], stored[-1:])))
        before = rows.shape[1]
        if new is not None:
            rows = np.concatenate((rows, np.concatenate((owner[None, : new.shape[1]], new[:width], new[-1:]))), axis=1)
        if not rows.shape[1]:
            return
        order = np.lexsort((rows[1 + self._column], rows[0]))
        starts, ends = self._borders(rows[0].take(order), rows[1 + self._column].take(order))
        lengths = ends - starts
        values = rows[1 + self._column].take(order)
        first, last = values.take(starts), values.take(ends - 1)
        since = limits.searchsorted(last, "right")
        over = since < len(limits)
        self._emit_over(rows, order, np.repeat(over, lengths), np.repeat(first, lengths), times, since, lengths)
        self._change_open(rows, order, np.repeat(over, lengths), before, int(max(times[-1], 0)))
        waiting = ~over & (last != NULL)
        if waiting.any():
            which = rows[0].take(order.take(starts.compress(waiting)))
            self._due.hold(np.concatenate((keys.take(which, axis=1), last.compress(waiting)[None])))

    def _borders(self, owner: Ints, values: Ints) -> tuple[Ints, Ints]:
        """Return where sessions start and end among rows in their order."""
        before = values[:-1]
        apart = values[1:] > np.minimum(before, _GREATEST - self._gap) + self._gap
        apart |= (before == NULL) & (values[1:] != NULL)
        apart |= owner[1:] != owner[:-1]
        cuts = apart.nonzero()[0] + 1
        return np.concatenate(([0], cuts)), np.concatenate((cuts, [len(values)]))

    def _emit_over(  # noqa: PLR0917 - the parts of one table
        self, rows: UpdateArray, order: Ints, over: Ints, first: Ints, times: Ints, since: Ints, lengths: Ints
    ) -> None:
        """Give the rows of sessions that are over, at the times since which they are."""
        places = over.nonzero()[0]
        if not len(places):
            return
        own = rows.take(order.take(places), axis=1)
        at = times.take(np.repeat(since, lengths).take(places))
        self.emit(
            consolidated(np.concatenate((own[1:-1], first.take(places)[None], at[None], own[-1:]))), self.region.now
        )

    def _change_open(self, rows: UpdateArray, order: Ints, over: Ints, before: int, time: int) -> None:
        """Hold the new rows of open sessions, and the old ones of others no longer."""
        change = np.where(np.arange(rows.shape[1]) < before, 0, rows[-1])
        gone = order.compress(over)
        change[gone] -= rows[-1].take(gone)
        some = change.nonzero()[0]
        if len(some):
            updates = np.empty((self._width + 2, len(some)), np.int64)
            rows[1:-1].take(some, axis=1, out=updates[: self._width])
            updates[-2], updates[-1] = time, change.take(some)
            self._open.append(updates)

    def _negative(self, new: UpdateArray) -> Exception:
        place = int((new[-1] < 0).argmax())
        fields = self._schema.fields
        (key,) = decode_rows(Schema(fields[: self._keys]), new[: self._keys, [place]], self._interner)
        (row,) = decode_rows(Schema(fields[self._keys :]), new[self._keys : self._width, [place]], self._interner)
        return failures.negative_count(self.node, key, row, int(new[-1, place]))

    def spines(self) -> dict[str, Spine]:
        return {"open sessions": self._open}

    def drop_state(self) -> None:
        super().drop_state()
        self._due.refill(None)
