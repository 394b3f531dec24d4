"""Taking down what operators do in a step, while a run logs events."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.kernels.codec import decode_rows
from tidemill.renderer.embedded.kernels.interner import Interner
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.runs.step_events import OperatorTrace


class Tracer:
    """The traces of a step's operators, by their nodes' ids."""

    def __init__(self, users: int, interner: Interner, rows: int) -> None:
        self._users = users
        self._interner = interner
        self._rows = rows
        """How many updates of each operator are noted in full."""
        self._traces: defaultdict[int, OperatorTrace] = defaultdict(OperatorTrace)

    def ran(self, node: Node, now: tuple[int, ...] | None) -> None:
        """Take down that an operator had a turn in a round."""
        self._traces[node.id].rounds.add(now or ())

    def emitted(self, node: Node, updates: UpdateArray) -> None:
        """Take down at which times an operator emitted updates."""
        trace = self._traces[node.id]
        times = updates[-1 - node.scope.coordinates : -1]
        found, counts = np.unique(times, axis=1, return_counts=True)
        for time, count in zip(found.T.tolist(), counts.tolist(), strict=True):
            trace.emitted(tuple(time), count)
            trace.rounds.add(tuple(time[self._users :]))
        if (room := self._rows - len(trace.rows)) > 0:
            some, columns = updates[:, :room], -1 - node.scope.coordinates
            rows = decode_rows(node.schema, some[:columns], self._interner)
            trace.rows += zip(rows, map(tuple, some[columns:-1].T.tolist()), some[-1].tolist(), strict=True)

    def take(self) -> dict[int, OperatorTrace]:
        """Return the traces of the step, and begin another."""
        taken, self._traces = self._traces, defaultdict(OperatorTrace)
        return dict(taken)
