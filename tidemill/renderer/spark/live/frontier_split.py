"""Updates that a step on executors makes for later steps: at times beyond the frontiers of operators that read them.

A join of updates at incomparable times may be at a time that does not close yet, a delay moves updates to such times,
and where inputs advance apart, one reader of a collection may be further than another. Updates that are too early for a
reader are brought to the driver, and are pending at its port as in any step.
"""

from __future__ import annotations

import functools

import attrs
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Feedback, Join, Node, Retime, Variable
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.spark.frames import Frame, checkpointed, times
from tidemill.renderer.spark.live.state_frames import block_of


def is_beyond(frontier: Antichain) -> Column:
    """Return whether the user time of a line is beyond a frontier."""
    found = F.lit(False)
    for element in frontier.elements:
        reached = [F.col(name) >= c for name, c in zip(times(len(element)), element, strict=True)]
        found |= functools.reduce(Column.__and__, reached)
    return found


class FrontierSplit:
    """Splits updates into those that all readers take in this step, and those beyond the frontier of one of them."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._feedback = {n.variable: n for n in compiled.graph.nodes if isinstance(n, Feedback)}
        self._floors: dict[Node, Antichain] = {}

    def split(self, node: Node, frame: Frame) -> tuple[Frame, UpdateArray | None]:
        """Return the updates that all readers of a node take in this step, and the rest in the driver; None if empty.

        One job, where this cannot be told beforehand.
        """
        floor = self._floor(node)
        if not floor.elements or not self._may_be_beyond(node, floor):
            return frame, None
        if frame.time is not None and not floor.beyond(frame.time):
            return frame, None
        beyond = is_beyond(floor)
        if not frame.cheap:
            counts = F.count(F.lit(1)).alias("rows"), F.count(F.when(beyond, 1)).alias("beyond")
            data, seen = checkpointed(frame.data, *counts)
            frame = attrs.evolve(frame, data=data, rows=seen["rows"], cheap=True, depth=0)
            if not seen["beyond"]:
                return frame, None
        block = block_of(self._compiled, node.schema, frame.of(frame.data.filter(beyond)))
        if not block.shape[1]:
            return frame, None
        rows = None if frame.rows is None else frame.rows - block.shape[1]
        rest = attrs.evolve(frame, data=frame.data.filter(~beyond), rows=rows)
        block = consolidated(block)
        return rest, block if block.shape[1] else None

    def _floor(self, node: Node) -> Antichain:
        """Return the frontier up to which all readers of a node take its updates in this step."""
        if node not in self._floors:
            self._floors[node] = self._meet_of_readers(self._compiled.operators[node])
        return self._floors[node]

    def _meet_of_readers(self, operator: Operator) -> Antichain:
        found = Antichain()
        for reader, _ in operator.consumers:  # some only pass updates on; in every loop there is one that does not
            found = found.meet(reader.frontier.upper if reader.ports else self._meet_of_readers(reader))
        return found

    def _may_be_beyond(self, node: Node, floor: Antichain) -> bool:
        """Return whether a node may give updates beyond a frontier, when its input is not beyond its own."""
        if isinstance(node, Retime) or (isinstance(node, Join) and self._compiled.schedule.users > 1):
            return True
        source = self._feedback[node] if isinstance(node, Variable) else node
        return self._compiled.operators[source].frontier.upper != floor
