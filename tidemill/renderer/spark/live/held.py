"""What operators hold before a large step, on the disk and in the driver, as DataFrames for the executors to read."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Enter, Join, Node
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.spark import linear
from tidemill.renderer.spark.frames import DIFF, Frame, times
from tidemill.renderer.spark.keyed import lines_of
from tidemill.renderer.spark.keyed_tasks import ARRANGED, STORE, layout_of
from tidemill.renderer.spark.live.exchange import frame_of

__all__ = ["Held", "Stored"]

Stored = Callable[[str], DataFrame | None]
"""What an arrangement of that name holds: values ``v0``, times ``t0``, weights ``w0`` and on; None of nothing."""


class Held:
    """Looks up what there is."""

    def __init__(self, spark: SparkSession, compiled: Compiled, stored: Stored) -> None:
        self._spark = spark
        self._compiled = compiled
        self._stored = stored

    def frame(self, source: Node, block: UpdateArray) -> Frame:
        """Return updates of a node that the driver holds."""
        return frame_of(self._spark, self._compiled, source.schema, block)

    def met(self, node: Join, side: int) -> list[Frame]:
        """Return what the other side of a join has met: what is arranged less what it was not given yet."""
        port = self._compiled.operators[node].ports[side]
        waiting = [] if port.index is None else [port.index.all_updates()]
        unmet = [*waiting, *(block for blocks in port.rounds.values() for block in blocks)]
        source = node.inputs[side]
        return [*self._arranged(source), *(linear.negated(self.frame(source, b)) for b in unmet if b.shape[1])]

    def lines(self, node: Node, place: str) -> list[Frame]:
        """Return what the arrangements of a keyed operator hold, as lines of its tables."""
        layout = layout_of(node)
        found = []
        for number, kept in enumerate(layout.stores):
            if kept.name == ARRANGED:
                same = [*kept.columns, *times(layout.coordinates)]
                arranged = self._arranged(node.inputs[0])
                found += [lines_of(layout, STORE + number, frame.data, same, {DIFF: "w0"}) for frame in arranged]
            elif (data := self._stored(f"{place}/{kept.name}")) is not None:
                renamed = {f"v{i}": name for i, name in enumerate(kept.columns)}
                same = layout.numbers[: layout.coordinates + kept.weights]
                found.append(lines_of(layout, STORE + number, data, same, renamed))
        return [Frame(data, len(layout.fields), 0, cheap=True) for data in found]

    def _arranged(self, node: Node) -> list[Frame]:
        """Return what an arrangement holds, from wherever it was entered."""
        if isinstance(node, Enter):
            return [linear.entered(frame) for frame in self._arranged(node.inputs[0])]
        data = self._stored(f"{node.id}/spine")
        width, coordinates = len(node.schema), node.scope.coordinates
        if data is None:
            return []
        row = [F.col(f"v{i}").alias(f"c{i}") for i in range(width)]
        return [Frame(data.select(*row, *times(coordinates), F.col("w0").alias(DIFF)), width, coordinates, cheap=True)]
