"""Feedback: the way back from the end of a loop's round to the beginning of the next."""

from __future__ import annotations

from tidemill.dataflow.nodes import Feedback
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.makers import operator_of
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.runs import failures


@operator_of(Feedback, interner=True)
class FeedbackOperator(Operator):
    """Feedback. Consolidates a round's changes and sends what is left to its Variable, one iteration later."""

    consolidated = True

    def __init__(self, node: Feedback, region: Region, interner: Interner) -> None:
        super().__init__(node, region, (len(node.schema),))
        self._feedback = node
        self._limits = node.limits
        self._interner = interner

    def run(self) -> None:
        updates = self.ports[0].take_consolidated()
        if updates is None:
            return
        now = self.region.now
        assert now
        iteration = now[-1] + 1
        if self._limits.return_at is not None and iteration >= self._limits.return_at:
            return
        if self._limits.error_at is not None and iteration >= self._limits.error_at:
            (row,) = decode_rows(self.node.schema, updates[: len(self.node.schema), :1], self._interner)
            raise failures.iteration_limit(self._feedback, row)
        moved = updates.copy()
        moved[-2] += 1
        self.emit(moved, (*now[:-1], iteration))
