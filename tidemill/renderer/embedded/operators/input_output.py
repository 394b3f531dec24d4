"""Where a dataflow meets the outside: inputs and outputs."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Input, Output
from tidemill.renderer.embedded.kernels.codec import FEW, Interner, encode, encode_row, encoders
from tidemill.renderer.embedded.kernels.memory import Room, stack
from tidemill.renderer.embedded.kernels.times import advance
from tidemill.renderer.embedded.kernels.updates import Ints, UpdateArray, consolidated, stacked
from tidemill.renderer.embedded.operator_registry import operator_of
from tidemill.renderer.embedded.operators.arrange import LARGE
from tidemill.renderer.embedded.operators.table_encoder import TableEncoder
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import Reordered, UpdateLayout
from tidemill.renderer.embedded.trace.pending import Alike
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs.writes import Queued

_MOST_IN_TAIL: Final = 4096
"""Contents are read whole, mostly: many updates are sorted at once, and merged less often."""
_UNREAD: Final = 1_000_000
_STEPS: Final = 100
"""Who reads changes reads them after a step, or after some."""


class InputOperator(Operator):
    """Input: updates are pending here until their times close. A constant's are there from the start."""

    consolidated = True

    def __init__(self, node: Input, region: Region, interner: Interner) -> None:
        self.schema = node.schema
        super().__init__(node, region, (len(self.schema),))
        self._interner = interner
        self._encoders = encoders(self.schema, interner)
        self.table_encoder: TableEncoder | None = None
        """How tables are encoded, where not all of each; counted as if what reads them had left the rest out."""
        self._left_out: list[tuple[Time, int]] = []
        """How many updates it left out, by the times that were not closed yet when somebody looked."""
        self.may_repeat = False
        """Whether nobody minds updates that are not consolidated: of many that is worth something."""
        if node.rows:
            least = (0,) * self.schedule.users
            self.queue(Queued(list(node.rows), least, 1))

    def queue(self, queued: Queued) -> None:
        """Have updates pending until their times close."""
        n = len(queued.batch)
        if n <= FEW or not isinstance(queued.times, tuple) or not isinstance(queued.diffs, int):
            self.ports[0].defer(self._updates(queued))
        elif self.table_encoder is not None and isinstance(queued.batch, pa.Table) and self.schedule.tracer is None:
            passed = self.table_encoder.passed(queued.batch, self.schedule.users + 1)
            if passed.many:
                whole = partial(self._whole, queued) if self.table_encoder.may_fail else None
                self.ports[0].defer(Alike(passed.codes, passed.many, queued.times, queued.diffs, whole))
            self._leave_out(queued.times, n - passed.many)
        elif n > LARGE and self.may_repeat and self.readers_take_rows:
            k = len(self.schema)
            matrix = encode(self.schema, queued.batch, self._interner, more_rows=self.schedule.users + 1)
            self.ports[0].defer(Alike(Room(matrix, k).rows(), n, queued.times, queued.diffs))
        else:
            self.ports[0].defer(self._updates(queued))

    def discard(self) -> None:
        """Drop the pending updates."""
        self.ports[0].refill(None)
        self._count(-sum(count for _, count in self._open_left_out()))
        self._left_out = []

    def _whole(self, queued: Queued) -> Alike:
        """Return the rows of a table that are pending, with all of their columns."""
        assert self.table_encoder is not None
        assert isinstance(queued.batch, pa.Table)
        assert isinstance(queued.times, tuple)
        assert isinstance(queued.diffs, int)
        codes = self.table_encoder.whole(queued.batch)
        return Alike(list(codes), codes.shape[1], queued.times, queued.diffs)

    def _leave_out(self, time: Time, count: int) -> None:
        self._left_out = [*self._open_left_out(), (time, count)]
        self._count(count)

    def _open_left_out(self) -> list[tuple[Time, int]]:
        lower = self.frontier.lower
        return [(time, count) for time, count in self._left_out if lower.beyond(time)]

    def _count(self, count: int) -> None:
        """Count updates that come, and go to the filter."""
        self.records_in += count
        self.records_out += count
        for operator, _ in self.consumers:
            operator.records_in += count

    def _updates(self, queued: Queued) -> UpdateArray:
        k, users, n = len(self.schema), self.schedule.users, len(queued.batch)
        if n == 1 and isinstance(queued.batch, list) and isinstance(queued.times, tuple):
            # One row of Python values, as services put in.
            return np.array([[*encode_row(queued.batch[0], self._encoders), *queued.times, queued.diffs]], np.int64).T
        updates = encode(self.schema, queued.batch, self._interner, more_rows=users + 1)
        if not isinstance(queued.times, tuple) or any(queued.times):  # else there are zeros
            updates[k : k + users] = np.array(queued.times, np.int64).reshape(-1, users).T
        updates[-1] = queued.diffs
        return updates

    def take_step_rows(self) -> list[Ints] | None:
        """Return the updates of the current step, which came as rows, if all that read them still want them so.

        That is as they came: whoever wants equal ones added up gets updates.
        """
        if not (self.may_repeat and self.readers_take_rows):
            return None
        rows = self.ports[0].take_rows()
        assert isinstance(rows, list)
        self.records_in += len(rows[0])
        return rows

    def take_step_updates(self) -> UpdateArray | None:
        """Return the updates of the current step; whoever takes them has them emitted."""
        updates = self.ports[0].take() if self.may_repeat else self.ports[0].take_consolidated()
        if updates is None:
            return None
        if self.may_repeat and updates.shape[1] <= LARGE:
            updates = consolidated(updates)
        self.records_in += updates.shape[1]
        return updates if updates.shape[1] else None

    def run(self) -> None:
        rows = self.take_step_rows() if self.ports[0].has_only_rows else None
        if rows is not None:
            self.emit_rows(rows, self.region.now)
            return
        updates = self.take_step_updates()
        if updates is not None:
            self.emit(updates, self.region.now)


class ContentsOperator(Operator):
    """The contents of an input, kept for operators that a later version of the dataflow has."""

    takes_rows = True

    def __init__(self, node: Input, region: Region) -> None:
        super().__init__(node, region, (len(node.schema),))
        types, users = [f.dtype for f in node.schema], self.schedule.users
        layout = UpdateLayout(tuple(range(len(types))), types, users, users)
        self.spine = Spine(layout, self.since, self.schedule.transaction, _MOST_IN_TAIL)

    def run(self) -> None:
        updates = self.ports[0].take_rows()
        if updates is None:
            return
        if len(updates[-1]) > _MOST_IN_TAIL:
            self.spine.append_rows(list(updates))
        else:
            self.spine.append(stack(updates) if isinstance(updates, list) else updates)

    def since(self) -> Antichain:
        return self.schedule.kept(self.frontier.lower)

    def spines(self) -> dict[str, Spine]:
        return {"spine": self.spine}


@operator_of(Output)
class OutputOperator(Operator):
    """Output: keeps the contents, the updates that were not read yet, and, where told to, those of the current step."""

    takes_rows = True

    def __init__(self, node: Output, region: Region) -> None:
        self.schema = node.schema
        super().__init__(node, region, (len(self.schema),))
        self.readers_since = self.frontier.lower
        """Times beyond it stay distinguishable for those who read the output."""
        types = [f.dtype for f in self.schema]
        columns = tuple(range(len(types)))
        users = self.schedule.users
        layout = UpdateLayout(columns, types, users, users)
        self.spine = Spine(layout, lambda: self.readers_since, self.schedule.transaction, _MOST_IN_TAIL)
        self._changes = node.changes
        self.unread: list[Reordered] = []
        self.unread_count = 0
        """How many updates were not read yet."""
        self.followers = 0
        """How many want its updates of each step."""
        self.is_recorded = False
        """Whether these are written down in steps that this process takes alone."""
        self._step_updates: list[Reordered] = []
        self._room = int(node.changes)
        self._piled_up = False

    def run(self) -> None:
        updates = self.ports[0].take_consolidated_rows()
        if updates is None:
            return
        if len(updates[-1]) > _MOST_IN_TAIL and self.schedule.tracer is None:
            held = self.spine.append_batch(updates)  # so that updates nobody has read yet are not there twice
            self.spine.check_counts(held.array)
            self._publish(held)
            return
        updates = stack(updates) if isinstance(updates, list) else updates
        self.spine.append(updates)
        self.spine.check_counts(updates)
        self.publish(updates)

    def publish(self, updates: UpdateArray) -> None:
        """Publish updates of the current step to those who read the output's changes."""
        if self.schedule.tracer is not None:
            self.schedule.tracer.emitted(self.node, updates)
        self._publish(Reordered(updates, None))

    def _publish(self, updates: Reordered) -> None:
        count = updates.array.shape[1]
        self.records_out += count
        is_wanted = self.followers > 0 or self.is_recorded
        if is_wanted or self._changes is not False:
            self.schedule.transaction.join(self, (len(self.unread), self.unread_count))
        if is_wanted:
            self._step_updates.append(updates)
        if self._changes is not False:
            self.unread.append(updates)
            self.unread_count += count

    def forget_unread(self, updates: UpdateArray | None = None) -> None:
        """Have only these updates unread; none, where there are none."""
        self.unread = [] if updates is None else [Reordered(updates, None)]
        self.unread_count = 0 if updates is None else updates.shape[1]

    def begins_to_pile_up(self) -> bool:
        """Return, once, that updates of many steps were not read, all of which are kept: nobody may want them."""
        if self._changes is not True or self._piled_up or len(self.unread) < _STEPS or self.unread_count < _UNREAD:
            return False
        self._piled_up = True
        return True

    def unread_updates(self) -> UpdateArray:
        """Return the updates that were not read yet."""
        return self._joined([updates.as_they_came() for updates in self.unread])

    def step_updates(self) -> UpdateArray:
        """Return the updates of the current step, where they are followed."""
        return self._joined([updates.as_they_came() for updates in self._step_updates])

    def _joined(self, arrays: list[UpdateArray]) -> UpdateArray:
        if not arrays:
            return np.empty((len(self.schema) + self.schedule.users + 1, 0), np.int64)
        return arrays[0] if len(arrays) == 1 else consolidated(stacked(arrays))

    def commit(self) -> None:
        self._step_updates = []
        if self._changes is not True and self.unread_count > self._room:
            self.forget_unread(self._folded(stacked([updates.array for updates in self.unread])))
            self._room = max(int(self._changes), 2 * self.unread_count)  # what did not fold is not tried again

    def rollback(self, state: tuple[int, int]) -> None:
        self._step_updates = []
        arrays, self.unread_count = state
        del self.unread[arrays:]

    def _folded(self, updates: UpdateArray) -> UpdateArray:
        return consolidated(advance(updates, len(self.schema), self.schedule.users, self.readers_since))

    def since(self) -> Antichain:
        return self.readers_since

    def spines(self) -> dict[str, Spine]:
        return {"spine": self.spine}
