"""A distributed step of a live run: from what came in and the state on the disk to what state there is more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Enter, Input, Join, Node, Output, Reduce, Threshold
from tidemill.renderer.embedded.schedule import Frontier
from tidemill.renderer.spark import linear
from tidemill.renderer.spark.frames import DIFF, Frame, columns, materialised, times
from tidemill.renderer.spark.keyed import KeyedRound, due_line, lines_of
from tidemill.renderer.spark.keyedtasks import ARRANGED, KIND, STORE, Kept, Layout, layout_of
from tidemill.renderer.spark.state import Loops, Trace
from tidemill.renderer.spark.step import Step

__all__ = ["LargeStep"]

Held = Callable[[str], DataFrame | None]
"""What an arrangement of this name holds, as values ``v0``, times ``t0``, weights ``w0`` and on; None of nothing."""


class LargeStep(Step):
    """See `Step`. Times are of one coordinate, and all updates at times that close in this step."""

    lives = True

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        spark: SparkSession,
        graph: Graph,
        given: Mapping[Input, Frame | None],
        held: Held,
        frontier: Frontier,
        due: Collection[Node],
        *,
        carefully: bool = False,
    ) -> None:
        super().__init__(spark, graph, given, carefully=carefully)
        self.added: dict[str, list[DataFrame]] = defaultdict(list)
        """What each arrangement holds more, by its name."""
        self._held = held
        self._lower, self._upper = frontier.settled, frontier.upper
        self._due = due
        """The groups without keys that are looked at whatever comes in."""

    def _begin(self) -> None:
        for node in self._graph.nodes:
            if isinstance(node, Join):
                for source in node.inputs:
                    self._traces[source] = Trace(self._users, self._arranged(source))
            elif isinstance(node, (Reduce, Threshold)):
                self._traces[node] = Trace(self._users, self._lines(node, f"{node.id}"))
            if node in self._due:
                self._owe(node, (0,) * (node.scope.coordinates - self._users), due_line(self._spark, node))

    # -- what there is ------------------------------------------------------------------------------------------------

    def _arranged(self, node: Node) -> list[Frame]:
        """Return what an arrangement holds, from wherever it was entered."""
        if isinstance(node, Enter):
            return [linear.entered(frame) for frame in self._arranged(node.inputs[0])]
        data = self._held(f"{node.id}/spine")
        width, coordinates = len(node.schema), node.scope.coordinates
        if data is None:
            return []
        row = [F.col(f"v{i}").alias(f"c{i}") for i in range(width)]
        return [Frame(data.select(*row, *times(coordinates), F.col("w0").alias(DIFF)), width, coordinates, cheap=True)]

    def _lines(self, node: Node, place: str) -> list[Frame]:
        """Return what the arrangements of a keyed operator hold, as lines of its tables."""
        layout = layout_of(node)
        found = []
        for number, kept in enumerate(layout.stores):
            if kept.name == ARRANGED:
                found += [_as_lines(layout, number, kept, frame) for frame in self._arranged(node.inputs[0])]
            elif (data := self._held(f"{place}/{kept.name}")) is not None:
                renamed = {f"v{i}": name for i, name in enumerate(kept.columns)}
                same = layout.numbers[: layout.coordinates + kept.weights]
                found.append(lines_of(layout, STORE + number, data, same, renamed))
        return [Frame(data, len(layout.fields), 0, cheap=True) for data in found]

    # -- what there is more -------------------------------------------------------------------------------------------

    def _shared(self, node: Node, frame: Frame | None, now: Loops) -> Frame | None:
        if frame is not None and isinstance(node, (Arrange, Output)):
            if not frame.cheap or isinstance(node, Output):
                frame = materialised(frame)
            if frame is not None:
                row = [F.col(name).alias(f"v{i}") for i, name in enumerate(columns(frame.width))]
                data = frame.data.select(*row, *times(frame.coordinates), F.col(DIFF).alias("w0"))
                self.added[f"{node.id}/spine"].append(data)
        return super()._shared(node, frame, now)

    def _keep(self, around: KeyedRound, lines: Frame) -> None:
        node, layout = around.node, around.layout
        place = node.id + 0.5 if isinstance(node, Input) else node.id
        for number, kept in enumerate(layout.stores):
            if kept.name != ARRANGED:  # that is the arrangement's own
                row = [F.col(name).alias(f"v{i}") for i, name in enumerate(kept.columns)]
                numbers = layout.numbers[: layout.coordinates + kept.weights]
                data = lines.data.filter(F.col(KIND) == STORE + number).select(*row, *numbers)
                self.added[f"{place}/{kept.name}"].append(data)

    # -- rules that differ --------------------------------------------------------------------------------------------

    def of_input(self, node: Input, now: Loops) -> Frame | None:
        frame = self._given.get(node)
        if frame is not None and node.unique:
            around = KeyedRound(node, self._users, now, self._lower, self._upper)
            came = around.step(frame, self._lines(node, f"{node.id + 0.5}"), None)
            if came.kept is not None:
                self._keep(around, came.kept)
        return frame

    def of_threshold(self, node: Threshold, now: Loops) -> Frame | None:
        return self._looked_at(node, now)

    def of_reduce(self, node: Reduce, now: Loops) -> Frame | None:
        return self._looked_at(node, now)

    def _looked_at(self, node: Node, now: Loops) -> Frame | None:
        (frame,) = self._inputs(node)
        if frame is None and (node, now) not in self._owed:
            return None
        return self._keyed(node, frame, now)


def _as_lines(layout: Layout, number: int, kept: Kept, frame: Frame) -> DataFrame:
    return lines_of(layout, STORE + number, frame.data, [*kept.columns, *times(layout.coordinates)], {DIFF: "w0"})
