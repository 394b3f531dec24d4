"""Reduce: for each key at each time, rows computed from the group's accumulated rows."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import Aggregates, UserReduce
from tidemill.expressions.ordering import TopK
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, UpdateArray, consolidated, expand
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import PENDING, KeyedOperator, Stored
from tidemill.renderer.embedded.reduce.aggregates import AggregateLogic
from tidemill.renderer.embedded.reduce.top_k import TopKLogic
from tidemill.renderer.embedded.reduce.user_reduce import UserReduceLogic
from tidemill.renderer.embedded.schedule import Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine

__all__ = ["DesiredOutput", "Logic", "ReduceOperator"]


class DesiredOutput(NamedTuple):
    """The rows that a Reduce should give: the interesting time that each is at (ascending), its codes, its count."""

    at: Ints
    codes: Codes
    counts: Ints


class Logic(Protocol):
    """What a Reduce computes, and the state it needs of its input."""

    linear: bool
    """Whether it is a function of sums over the group, so that new updates need not be consolidated first."""
    keyed_output: bool
    """Whether its rows begin with the key."""

    def gather(self, keys: Codes, owner: Ints, new: UpdateArray) -> list[Stored]:
        """Return all updates of the keys, those stored and the new ones, whose keys' numbers are given; store these."""

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        """Return the rows that should be there at each interesting time."""

    def spines(self) -> dict[str, Spine]: ...

    def drop_derived(self) -> None: ...


class ReduceOperator(KeyedOperator):
    """Reduce. At each interesting time it emits the desired output less what it produced before."""

    def __init__(self, node: Reduce, region: Region, interner: Interner, arranged: ArrangeOperator | None) -> None:
        self.schema: Schema = node.inputs[0].schema
        super().__init__(node, region, len(self.schema), node.keys)
        width = len(node.keys)
        self.logic: Logic
        if isinstance(node.logic, Aggregates):
            self.logic = AggregateLogic(node, self.schedule, self.since, interner)
        elif isinstance(node.logic, TopK):
            self.logic = TopKLogic(node, self.schedule, self.since, interner)
        else:
            assert isinstance(node.logic, UserReduce)
            assert arranged is not None
            self.logic = UserReduceLogic(node, arranged, interner)
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
        """Do the work of the current round, and return what changes: updates of the output behind the key's codes.

        The first ``dropped`` rows of the block are no columns of the output.
        """
        nothing = np.empty((self._out_codes + self._coordinates + 1, 0), np.int64)
        work = self.begin(consolidate=not self.logic.linear)
        if work is None:
            return nothing
        keys = work.keys
        gathered = self.logic.gather(keys, work.new_owner, work.new)
        owner, produced = self._out.find(keys)
        stored = [*gathered, Stored(owner, produced, self._out_codes)]
        interesting, seen = self.interesting_times(work, stored)
        desired = self.logic.desired(keys, interesting, seen[:-1])
        change = consolidated(self._change(keys, interesting, desired, seen[-1]))
        if change.shape[1]:
            self._out.append(change)
        return change

    def _change(
        self, keys: Codes, interesting: InterestingTimes, desired: DesiredOutput, produced: Stored
    ) -> UpdateArray:
        """Return the desired output less what was produced before, as updates at the interesting times."""
        if isinstance(interesting, SingleTime):
            at, row, factor = desired.at, np.arange(len(desired.at)), np.ones(1, np.int64)
        else:
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

    def drop_derived(self) -> None:
        self.logic.drop_derived()

    def spines(self) -> dict[str, Spine]:
        return {"out": self._out, **self.logic.spines()}
