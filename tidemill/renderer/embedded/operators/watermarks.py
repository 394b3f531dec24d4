"""Watermarks, and rows that wait for them: the state is the waiting rows, and a number or two."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.dataflow.nodes import LateRows, Node, SortBuffer, Watermark
from tidemill.expressions.instants import least_number, value_of
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray, consolidated
from tidemill.renderer.embedded.operator_registry import operator_of
from tidemill.renderer.embedded.operators.timers import Numbers, Timers
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.runs import failures

ROWS: Final = 0
MARKS: Final = 1
"""The ports of what waits for a watermark."""
_BEFORE: Final = np.array([-1])
"""The time of what was before the step."""


@operator_of(Watermark)
class WatermarkOperator(Operator):
    """Watermark: of each input the greatest mark so far is kept."""

    consolidated = True

    def __init__(self, node: Watermark, region: Region) -> None:
        super().__init__(node, region, tuple(len(source.schema) for source in node.inputs))
        self._marks = node.marks
        sources = [mark.source for mark in node.marks]
        self._of_sources = [np.flatnonzero(np.equal(sources, source)) for source in range(max(sources) + 1)]
        """The places of each source's marks."""
        self._dtype = node.schema.fields[0].dtype
        self._least = least_number(self._dtype)
        self._greatest = Numbers(self, [NULL] * len(node.marks))
        self.ports.append(self._greatest)

    def run(self) -> None:
        new = {number: found for number in range(len(self._marks)) if (found := self._new(number)) is not None}
        if not new:
            return
        before = self._greatest.now
        times, reached = _reached(new, before)
        self._check_told(new, times, reached)
        after = reached[:, -1].tolist()
        if after != before:
            self._greatest.become(after)
            self._emit_changes(times, self._least_of_sources(reached))

    def shown(self, _column: int) -> int:
        """Return the watermark's number; NULL where there is none."""
        return int(self._least_of_sources(np.array(self._greatest.now)[:, None])[0])

    def _new(self, number: int) -> tuple[Ints, Ints] | None:
        """Return the times of an input's new updates, and what they say; None where they say nothing."""
        updates = self.ports[number].take_consolidated()
        if updates is None:
            return None
        mark = self._marks[number]
        values, at = updates[mark.column], updates[self.ports[number].codes]
        known = values != NULL
        if not known.all():
            values, at = values.compress(known), at.compress(known)
            if not len(at):
                return None
        if mark.delay:
            values = np.maximum(values, self._least + mark.delay) - mark.delay
        return at, values

    def _least_of_sources(self, reached: Ints) -> Ints:
        """Return the watermark at each time: of a source the greatest mark, of all sources the least."""
        each = [reached[places].max(axis=0) for places in self._of_sources]
        least: Ints = each[0] if len(each) == 1 else np.min(each, axis=0)
        return least

    def _emit_changes(self, times: Ints, marks: Ints) -> None:
        if len(times) == 1:
            (before, now), (time,) = marks.tolist(), times.tolist()
            if now != before:
                changes = [[now, time, 1]] if before == NULL else [[before, time, -1], [now, time, 1]]
                self.emit(np.array(changes).T, self.region.now)
            return
        changed = (marks[1:] != marks[:-1]).nonzero()[0]
        goes = changed.compress(marks.take(changed) != NULL)
        rows = np.concatenate((marks.take(goes), marks.take(changed + 1)))
        at = np.concatenate((times.take(goes), times.take(changed)))
        diffs = np.concatenate((np.full(len(goes), -1), np.ones(len(changed), np.int64)))
        self.emit(np.stack((rows, at, diffs)), self.region.now)

    def _check_told(self, new: dict[int, tuple[Ints, Ints]], times: Ints, reached: Ints) -> None:
        for number, (at, values) in new.items():
            if not self._marks[number].told:
                continue
            place = times.searchsorted(at)
            back = (values < reached[number].take(place)).nonzero()[0]
            if len(back):
                first = back[at.take(back).argmin()]
                least = values.compress(at == at[first]).min()
                before, now = (value_of(int(n), self._dtype) for n in (reached[number, place[first]], least))
                raise failures.watermark_went_back(self.node, before, now, (int(at[first]),))


def _reached(new: dict[int, tuple[Ints, Ints]], before: list[int]) -> tuple[Ints, Ints]:
    """Return the times of updates, and of each mark the greatest so far: before the step, and since each time."""
    earliest = min([int(at.min()) for at, _ in new.values()])
    if earliest == max([int(at.max()) for at, _ in new.values()]):  # a step of one time
        greatest = {number: int(values.max()) for number, (_, values) in new.items()}
        now = [max(mark, greatest.get(number, NULL)) for number, mark in enumerate(before)]
        return np.array([earliest]), np.array([before, now]).T
    times = np.unique(np.concatenate([at for at, _ in new.values()]))
    reached = np.full((len(before), len(times) + 1), NULL)
    reached[:, 0] = before
    for number, (at, values) in new.items():
        np.maximum.at(reached[number], times.searchsorted(at) + 1, values)
    return times, np.maximum.accumulate(reached, axis=1)


class AfterWatermark(Operator):
    """The base of operators that look whether a watermark, from the second port, has passed a column of each row."""

    def __init__(self, node: Node, region: Region, column: int, extra: int = 0) -> None:
        self._width = len(node.inputs[ROWS].schema)
        super().__init__(node, region, (self._width, 1))
        self._column = column
        self._extra = extra
        self._state = Numbers(self, [NULL, 0])
        """The last watermark, and how many rows were late."""
        self.ports.append(self._state)

    @property
    def late(self) -> int:
        """How many rows, and deletions of rows, were late."""
        return self._state.now[1]

    def take_limits(self) -> tuple[Ints, Ints, list[int]]:
        """Return the times from which on there is another watermark, the first being before the step, and limits.

        A row's value of the column is below the watermark where it is less than the limit. Last, the numbers to keep.
        """
        updates = self.ports[MARKS].take_consolidated()
        state = self._state.now
        if updates is None:
            return _BEFORE, limits_of(np.array(state[:1]), self._extra), state
        comes = updates.compress(updates[2] > 0, axis=1)
        if comes.shape[1] > 1:
            comes = comes.take(comes[1].argsort(kind="stable"), axis=1)
        times, marks = np.concatenate((_BEFORE, comes[1])), np.concatenate((np.array(state[:1]), comes[0]))
        state[0] = int(marks[-1])
        return times, limits_of(marks, self._extra), state

    def late_ones(self, rows: UpdateArray, times: Ints, limits: Ints) -> Ints:
        """Return which updates are late, as booleans."""
        at = rows[self._width]
        late: Ints = rows[self._column] < limits.take(times.searchsorted(at) - 1)
        return late

    def keep(self, state: list[int], late: UpdateArray | None) -> None:
        """Keep the numbers, with these late updates added to those before."""
        if late is not None and late.shape[1]:
            state[1] += int(np.abs(late[-1]).sum())
        if state != self._state.now:
            self._state.become(state)


def limits_of(marks: Ints, extra: int) -> Ints:
    """Return below what values are less than watermarks, with an extra distance; NULL where there is no watermark."""
    if not extra:
        return marks
    limits: Ints = np.maximum(marks, NULL + 1 + extra) - extra
    limits[marks == NULL] = NULL
    return limits


@operator_of(SortBuffer)
class SortBufferOperator(AfterWatermark):
    """SortBuffer: what waits is held by its values of the column, so what is released is found by a search."""

    consolidated = True

    def __init__(self, node: SortBuffer, region: Region) -> None:
        super().__init__(node, region, node.column, node.extra)
        self._drops_late = node.drops_late
        self._held = Timers(self, self._width)
        self.ports.append(self._held)

    def run(self) -> None:
        rows = self.ports[ROWS].take_consolidated()
        times, limits, state = self.take_limits()
        released: list[UpdateArray] = []
        if len(times) > 1:
            due = self._held.take_below(int(limits[-1]))
            if due is not None:
                due = due.copy()  # it may be what a step that fails goes back to
                due[self._width] = times.take(limits.searchsorted(due[self._column], "right"))
                released.append(due)
        late = None
        if rows is not None:
            if int(rows[self._column].min()) < limits[-1]:
                late, rows = self._parted(rows, times, limits, released)
            self._wait(rows)
        self.keep(state, late)
        if released:
            self.emit(consolidated(np.concatenate(released, axis=1)), self.region.now)

    def _parted(
        self, rows: UpdateArray, times: Ints, limits: Ints, released: list[UpdateArray]
    ) -> tuple[UpdateArray | None, UpdateArray]:
        """Return the updates that are late, and those that wait, and add those that are released in this step."""
        late = None
        if self._drops_late:
            is_late = self.late_ones(rows, times, limits)
            if is_late.any():
                late, rows = rows.compress(is_late, axis=1), rows.compress(~is_late, axis=1)
        first = limits.searchsorted(rows[self._column], "right")
        now = first < len(limits)
        if now.any():
            going = rows.compress(now, axis=1)
            going[self._width] = np.maximum(going[self._width], times.take(first.compress(now)))
            released.append(going)
            rows = rows.compress(~now, axis=1)
        return late, rows

    def _wait(self, rows: UpdateArray) -> None:
        """Hold updates, by their values of the column."""
        if rows.shape[1]:
            held = rows.copy()
            held[self._width] = held[self._column]
            self._held.hold(held)

    def drop_state(self) -> None:
        super().drop_state()
        self._held.refill(None)


@operator_of(LateRows)
class LateRowsOperator(AfterWatermark):
    """LateRows."""

    consolidated = True

    def __init__(self, node: LateRows, region: Region) -> None:
        super().__init__(node, region, node.column)
        self._on_time = node.on_time

    def run(self) -> None:
        rows = self.ports[ROWS].take_consolidated()
        times, limits, state = self.take_limits()
        late = None
        if rows is not None and (not self._on_time or int(rows[self._column].min()) < limits[-1]):
            is_late = self.late_ones(rows, times, limits)
            late = rows.compress(is_late, axis=1)
            rows = rows.compress(~is_late, axis=1)
        given = rows if self._on_time else late
        if given is not None:
            self.emit(given, self.region.now)
        self.keep(state, late)
