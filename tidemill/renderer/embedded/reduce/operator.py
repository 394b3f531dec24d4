"""Reduce: for each key at each time, rows computed from the group's accumulated rows."""

from __future__ import annotations

import numpy as np

from tidemill.dataflow.nodes import Arrange, Reduce, outside
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.memory import zeros
from tidemill.renderer.embedded.kernels.updates import Codes, Rows, UpdateArray, consolidated, expand
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import PENDING, KeyedOperator, Stored
from tidemill.renderer.embedded.reduce import (  # noqa: F401 - they fill the table
    aggregates,
    top_k,
    user_reduce,
    windows_in_loops,
)
from tidemill.renderer.embedded.reduce.logic import LOGICS, DesiredOutput, Logic, LogicContext
from tidemill.renderer.embedded.reduce.ordered_windows import OrderedWindowsOperator
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine


class ReduceOperator(KeyedOperator):
    """Reduce. At each interesting time it emits the desired output less what it produced before."""

    def __init__(self, node: Reduce, region: Region, interner: Interner, arranged: ArrangeOperator | None) -> None:
        self.schema = node.inputs[0].schema
        super().__init__(node, region, len(self.schema), node.keys)
        width = len(node.keys)
        around = LogicContext(self.schedule, self.since, interner, arranged)
        self.logic: Logic = LOGICS.of(node, type(node.logic))(node, around)
        self._sums = self.logic.sums if isinstance(self.logic, aggregates.AggregateLogic) else None
        self._one_row_a_group = isinstance(self.logic, aggregates.AggregateLogic)
        self.takes_rows = not self.logic.consolidates and node.keys == tuple(range(width)) and width > 0
        self.dropped = 0 if self.logic.keyed_output else width
        self.consolidated = not self.dropped  # without their keys, rows of several groups may be equal
        self._out_codes = self.dropped + len(node.schema)
        coordinates = node.scope.coordinates
        keys = [self.schema.fields[k] for k in node.keys[: self.dropped]]
        types = [f.dtype for f in (*keys, *node.schema)]
        layout = UpdateLayout(tuple(range(width)), types, coordinates, self.schedule.users)
        self._out = Spine(layout, self.since, self.schedule.transaction)
        if node.scalar:  # its row is there from the least time on, so that is a time to look at
            self.ports[PENDING].defer(np.zeros((coordinates, 1), np.int64))

    def run(self) -> None:
        change = self._changed()
        if change.shape[1]:
            self.emit(change[self.dropped :], self.region.now)

    def _changed(self) -> UpdateArray:
        """Do the work of the current round, and return what changes: updates of the output, after the key's codes.

        The first ``dropped`` rows of the block are no columns of the output.
        """
        work = self.begin(consolidate=self.logic.consolidates)
        if work is None:
            return np.empty((self._out_codes + self._coordinates + 1, 0), np.int64)
        keys = work.keys
        if work.sums is not None and self._sums is not None:
            gathered = [self._sums.gather_summed(keys, work.owner, work.sums)]
        else:
            gathered = self.logic.gather(keys, work.new_owner, work.new)
        owner, produced = self._out.find(keys)
        stored = [*gathered, Stored(owner, produced, self._out_codes)]
        interesting, seen = self.interesting_times(work, stored)
        desired = self.logic.desired(keys, interesting, seen[:-1])
        change = self._change(keys, interesting, desired, seen[-1])
        if not (self._one_row_a_group and isinstance(interesting, SingleTime) and not seen[-1].updates.shape[1]):
            change = consolidated(change)
        if change.shape[1]:
            self._out.append(change)
        return change

    def sums_of_many(self, keys: Codes, new: Rows) -> UpdateArray | None:
        return None if self._sums is None else self._sums.by_key(keys, new)

    def _change(
        self, keys: Codes, interesting: InterestingTimes, desired: DesiredOutput, produced: Stored
    ) -> UpdateArray:
        """Return the desired output less what was produced before, as updates at the interesting times."""
        if isinstance(interesting, SingleTime):
            return self._change_at_once(keys, interesting, desired, produced.updates)
        to, source, coefficient = interesting.coefficients()
        low = desired.at.searchsorted(source)
        pair, row = expand(low, desired.at.searchsorted(source, "right") - low)
        at, factor = to.take(pair), coefficient.take(pair)
        codes, users = self._out_codes, self.schedule.users
        put_in = np.empty((codes + self._coordinates + 1, len(at)), np.int64)
        put_in[: self.dropped] = keys[: self.dropped].take(interesting.keys.take(at), axis=1)
        put_in[self.dropped : codes] = desired.codes.take(row, axis=1)
        self.fill_times(put_in, codes, interesting, at)
        put_in[-1] = factor * desired.counts.take(row)
        if not produced.updates.shape[1]:
            return put_in
        at, which, coefficient = interesting.retractions(produced.owner, produced.updates[codes : codes + users])
        taken_out = produced.updates.take(which, axis=1)
        self.fill_times(taken_out, codes, interesting, at)
        taken_out[-1] *= -coefficient
        return np.concatenate((put_in, taken_out), axis=1)

    def _change_at_once(
        self, keys: Codes, interesting: SingleTime, desired: DesiredOutput, produced: UpdateArray
    ) -> UpdateArray:
        """Like `_change`, where all is at one time: all that was produced goes, all desired comes."""
        codes, n = self._out_codes, len(desired.at)
        change = zeros((codes + self._coordinates + 1, n + produced.shape[1]))
        if self.dropped:
            change[: self.dropped, :n] = keys[: self.dropped].take(interesting.keys_at(desired.at), axis=1)
        change[self.dropped : codes, :n] = desired.codes
        change[:codes, n:] = produced[:codes]
        self.fill_times(change, codes, interesting, desired.at, has_zeros=True)
        change[-1, :n] = desired.counts
        np.negative(produced[-1], out=change[-1, n:])
        return change

    def drop_derived(self) -> None:
        self.logic.drop_derived()

    def spines(self) -> dict[str, Spine]:
        return {"out": self._out, **self.logic.spines()}


@FACTORIES(Reduce)
def _reduce(node: Reduce, region: Region, made: CompileContext) -> Operator:
    (source,) = node.inputs
    calls = node.logic
    if isinstance(calls, Windows) and calls.in_order and node.scope.coordinates == 1:
        return OrderedWindowsOperator(node, calls, region, made.interner)
    arranged = made.arrangement(source) if isinstance(outside(source), Arrange) else None
    return ReduceOperator(node, region, made.interner, arranged)
