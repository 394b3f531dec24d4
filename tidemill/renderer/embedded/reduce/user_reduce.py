"""A Reduce by a user's Python function."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import UserReduce
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows, encode, order_ranks
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, Rows, UpdateArray, consolidated
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.logic import LOGICS, DesiredOutput, LogicContext
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures
from tidemill.renderer.runs import user_functions as functions

Row = tuple[Any, ...]


class UserReduceLogic:
    """Calls ``fn(key, [(row without key, count), ...])`` for each group. Its state is the shared arrangement."""

    consolidates = True
    keyed_output = False

    def __init__(self, node: Reduce, arranged: ArrangeOperator, interner: Interner) -> None:
        self._node = node
        self._arranged = arranged
        self._interner = interner
        schema = node.inputs[0].schema
        rest = [i for i in range(len(schema)) if i not in node.keys]
        self._rest = np.array(rest, np.int64)
        self._rest_schema = Schema(tuple(schema.fields[i] for i in rest))
        self._key_schema = Schema(tuple(schema.fields[i] for i in node.keys))

    def drop_derived(self) -> None:
        """Nothing is computed from the arrangement."""

    def spines(self) -> dict[str, Spine]:
        return {}

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> list[Stored]:
        del owner, new  # already in the arrangement
        spine = self._arranged.spine
        found, updates = spine.find(keys)
        coordinates = self._node.scope.coordinates
        codes = len(self._arranged.schema)
        missing = codes + coordinates + 1 - len(updates)
        if missing:  # arranged outside of the loop: iteration 0 in it
            zeros = np.zeros((missing, updates.shape[1]), np.int64)
            updates = np.concatenate((updates[:-1], zeros, updates[-1:]))
        return [Stored(found, updates, codes)]

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        ((owner, updates, codes),) = seen
        users = self._arranged.schedule.users
        at, which = interesting.pairs(owner, updates[codes : codes + users])
        rows = updates.take(self._rest, axis=0).take(which, axis=1)
        groups = consolidated(np.concatenate((at[None], rows, updates[-1:].take(which, axis=1))))
        groups = groups.take(self._sorted(groups), axis=1)
        values = decode_rows(self._rest_schema, groups[1:-1], self._interner)
        counts = groups[-1].tolist()
        names = decode_rows(self._key_schema, keys, self._interner)
        bounds = np.concatenate((groups[0].searchsorted(np.arange(len(interesting))), [groups.shape[1]])).tolist()
        made: list[tuple[Any, ...]] = []
        made_at: list[int] = []
        made_counts: list[int] = []
        for i, key in enumerate(interesting.keys.tolist()):
            low, high = bounds[i], bounds[i + 1]
            if low < high:
                group = list(zip(values[low:high], counts[low:high], strict=True))
                for row, count in self._call(names[key], group):
                    made.append(row)
                    made_at.append(i)
                    made_counts.append(count)
        schema = self._node.schema
        return DesiredOutput(
            np.array(made_at, np.int64), encode(schema, made, self._interner), np.array(made_counts, np.int64)
        )

    def _sorted(self, groups: UpdateArray) -> Ints:
        """Return an order by group and, in it, by row: nulls first, NaN last."""
        ranks = [order_ranks(c, f.dtype, self._interner) for c, f in zip(groups[1:-1], self._rest_schema, strict=True)]
        return np.lexsort((*reversed(ranks), groups[0]))

    def _call(self, key: Row, group: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
        for row, count in group:
            if count < 0:
                raise failures.negative_count(self._node, key, row, count)
        return functions.reduced_rows(self._node, key, group)


@LOGICS(UserReduce)
def _logic(node: Reduce, around: LogicContext) -> UserReduceLogic:
    assert around.arranged is not None, "what a user's function looks at is arranged"
    return UserReduceLogic(node, around.arranged, around.interner)
