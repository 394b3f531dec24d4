"""Feedback: the way back from the end of a loop's round to the beginning of the next."""

from __future__ import annotations

import numpy as np

from tidemill.collections.schema import Schema
from tidemill.dataflow.lattice import shown
from tidemill.dataflow.nodes import Feedback
from tidemill.errors import IterationLimitError
from tidemill.renderer.embedded.codec import Interner, decode_rows
from tidemill.renderer.embedded.schedule import Operator, Region

__all__ = ["FeedbackOperator"]


class FeedbackOperator(Operator):
    """Feedback. Consolidates a round's changes and sends what is left to its Variable, one iteration later."""

    def __init__(self, node: Feedback, region: Region, interner: Interner) -> None:
        super().__init__(node, region, (len(node.schema),))
        self._limits = node.limits
        self._interner = interner

    def run(self) -> None:
        block = self.ports[0].take_consolidated()
        if block is None:
            return
        now = self.region.now
        assert now
        iteration = now[-1] + 1
        if self._limits.return_at is not None and iteration >= self._limits.return_at:
            return
        if self._limits.error_at is not None and iteration >= self._limits.error_at:
            self._raise_limit(block[:, 0].tolist())
        moved = block.copy()
        moved[-2] += 1
        self.emit(moved, (*now[:-1], iteration))

    def _raise_limit(self, update: list[int]) -> None:
        schema: Schema = self.node.schema
        codes = len(schema)
        (row,) = decode_rows(schema, np.array(update[:codes], np.int64)[:, None], self._interner)
        scope, users = self.node.scope, self.schedule.users
        time = shown(tuple(update[codes : codes + users]))
        msg = (
            f"{scope.kind} {scope.name!r} ({scope.site.location}) still changed in iteration {self._limits.error_at}, "
            f"which is its limit: {self.node.name!r} has row {row} with diff {update[-1]:+d} at time {time}; raise "
            "error_at=, or end the body with distinct() or an aggregate so that it settles"
        )
        raise IterationLimitError(msg)
