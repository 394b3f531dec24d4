"""Where a run is: its inputs' frontiers, and what follows from them for its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, as_time, common, shown
from tidemill.dataflow.nodes import Input, Node, Output, watermark_input
from tidemill.dataflow.progress import Progress
from tidemill.errors import TimeError
from tidemill.renderer.runs.failures import of_node

_NEVER: Final = Antichain()
"""Nothing is beyond it."""


@attrs.frozen
class Move:
    """Where a step brings a run."""

    inputs: Mapping[Input, Antichain]
    """The frontiers of all inputs after it."""
    needed: Mapping[Input, Antichain]
    """Up to where each input's updates have to be processed.

    What no output shows yet waits at its input. There it can be corrected or discarded when a step is refused because
    of it; further on, operators would have taken it in for good.
    """
    since: Mapping[Output, Antichain]
    """From where on outputs' times stay distinguishable then: the last complete ones, less those to be kept."""


class Frontiers:
    """The frontiers of a run's inputs, and from where on the times of its outputs are told apart.

    ``keep`` is that of ``flow.start``.
    """

    def __init__(self, graph: Graph, keep: int) -> None:
        self.graph = graph
        self.keep = keep
        self.progress = Progress(graph)
        self.users = len(graph.coordinates)
        least = Antichain.minimum(self.users)
        self.inputs: Mapping[Input, Antichain] = dict.fromkeys(graph.inputs.values(), least)
        self.needed: Mapping[Input, Antichain] = self.inputs
        """Up to where each input's updates have been worked in."""
        self.since: Mapping[Output, Antichain] = dict.fromkeys(graph.outputs.values(), least)
        """From where on each output's times stay distinguishable."""
        self.read: dict[Output, Antichain] = dict(self.since)
        """Up to where each output's changes have been read."""
        self.step_refused = False
        """Whether the last step could not be taken: updates at times that were to be closed may be corrected."""
        self._floor: Mapping[Input, Antichain] = {}
        """Up to where inputs were worked in by a version of the dataflow that needed more of them; mostly nothing."""
        self._of: dict[Node, Antichain] = {}
        """The frontiers of all nodes, once one was asked for after a step."""

    def move(self, moved: Mapping[Input, Antichain]) -> Move:
        """Return the step that brings some inputs to these frontiers."""
        inputs = {**self.inputs, **moved}
        return Move(inputs, self._needed(inputs), self._since(inputs))

    def _needed(self, inputs: Mapping[Input, Antichain]) -> Mapping[Input, Antichain]:
        found = self._shown(inputs)
        return {n: f.join(self._floor[n]) for n, f in found.items()} if self._floor else found

    def _shown(self, inputs: Mapping[Input, Antichain]) -> Mapping[Input, Antichain]:
        if not self.progress.delays and (not inputs or common(inputs.values()) is not None):  # none is ahead
            return inputs
        return self.progress.needed(self.graph.outputs.values(), inputs)

    def _since(self, inputs: Mapping[Input, Antichain]) -> dict[Output, Antichain]:
        found: dict[Output, Antichain] = {}
        last, kept = None, _NEVER  # outputs mostly have one frontier
        frontiers = self.progress.user_frontiers(self.since, inputs)
        for output, since in self.since.items():
            frontier = frontiers[output]
            if frontier is not last:
                last = frontier
                kept = behind(frontier, self.keep)
            found[output] = kept if frontier.elements else since
        return found

    def since_at(self, inputs: Mapping[Input, Antichain], closed: Mapping[str, Antichain]) -> dict[Output, Antichain]:
        """Return from where on outputs' times are told apart; said by name, where all times are complete."""
        frontiers = self.progress.user_frontiers(self.since, inputs)
        return {o: s if frontiers[o].elements else closed[o.name] for o, s in self._since(inputs).items()}

    def settle(self, move: Move) -> None:
        """Be there: the step was taken."""
        self.inputs, self.needed, self.since, self.step_refused = move.inputs, move.needed, move.since, False
        self._of = {}

    def begin_reading(self) -> None:
        """Have changes begin here: whoever goes on from saved state has missed those before."""
        for output in self.read:
            self.read[output] = self.of(output)

    # -- saved and restored -------------------------------------------------------------------------------------------

    def saved(self, inputs: Mapping[Input, Antichain] | None = None) -> dict[str, Any]:
        """Return what goes into the header of saved state, now or when the inputs' frontiers are these."""
        frontiers = self.inputs if inputs is None else inputs
        return {
            "keep": self.keep,
            "frontiers": {n.name: f.elements for n, f in frontiers.items()},
            "since": {n.name: f.elements for n, f in self._since(frontiers).items()},
            "needed": {n.name: f.elements for n, f in self._needed(frontiers).items()},
        }

    def reading(self) -> dict[str, Any]:
        """Return up to where changes have been read, for a header of state that has what was not."""
        return {n.name: f.elements for n, f in self.read.items()}

    def restore(self, header: Mapping[str, Any]) -> None:
        """Be where a header of saved state says."""
        self.keep = header["keep"]
        inputs = {self.graph.inputs[n]: _antichain(f) for n, f in header["frontiers"].items()}
        since = {self.graph.outputs[n]: _antichain(f) for n, f in header["since"].items()}
        if "needed" in header:  # else it is of before an operator could be new
            needed = {self.graph.inputs[n]: _antichain(f) for n, f in header["needed"].items()}
            self._floor = {} if needed == self._shown(inputs) else needed
        self.settle(Move(inputs, self._needed(inputs), since))
        self.begin_reading()
        self.read.update({self.graph.outputs[n]: _antichain(f) for n, f in header.get("read", {}).items()})

    # -- asked about --------------------------------------------------------------------------------------------------

    def of(self, node: Node) -> Antichain:
        """Return the frontier of a node: what is not beyond it is final."""
        if not self._of:
            self._of = self.progress.user_frontiers(self.graph.nodes, self.inputs)
        return self._of[node]

    def last_complete(self, node: Output) -> Time | None:
        """Return the last complete time of an output; None where all times are complete."""
        frontier = self.of(node).elements
        if not frontier:
            return None
        if self.users > 1:
            msg = f"{node.where}: with times {self.graph.coordinates} say which one: snapshot({node.name!r}, at=...)"
            raise TimeError(msg)
        if frontier[0][0] == 0:
            msg = f"{node.where} is complete at no time yet: advance the inputs first, as in run.advance()"
            raise TimeError(msg)
        return (frontier[0][0] - 1,)

    def readable_time(self, node: Output, at: Any) -> Time | None:
        """Return a time at which an output can be read, the last complete one for None; `TimeError` if it is none."""
        time = self.last_complete(node) if at is None else as_time(at, self.users)
        if time is None:
            return None
        frontier = self.of(node)
        if frontier.beyond(time):
            msg = f"{node.where} is not complete at {shown(time)}: its frontier is {frontier}; advance the inputs first"
            raise of_node(node, TimeError(msg), time=shown(time))
        if not self.since[node].beyond(time):
            msg = (
                f"{node.where} at {shown(time)} can no longer be told from later times: only {self._told(node)} can; "
                f"start the run with {self._keep_for(node, time)} to look so far back"
            )
            raise of_node(node, TimeError(msg), time=shown(time))
        return time

    def distinguishable_time(self, node: Output, since: Any) -> Time:
        """Return a time since which the changes of an output can be told; `TimeError` if it is none."""
        time = as_time(since, self.users)
        if not self.since[node].beyond(time):
            msg = (
                f"{node.where}: changes since {shown(time)} can no longer be told apart, only those since "
                f"{self._told(node)}: say since= such a time, or start the run with {self._keep_for(node, time)}"
            )
            raise of_node(node, TimeError(msg), time=shown(time))
        return time

    def _told(self, node: Output) -> str:
        """Return the times of an output that can be told apart, in words."""
        return " or ".join(str(shown(t)) for t in self.since[node].elements) + " and later"

    def _keep_for(self, node: Output, time: Time) -> str:
        """Return the argument of a run's start by which a time could be told apart now."""
        behind = max(c - wanted for t in self.since[node].elements for c, wanted in zip(t, time, strict=True))
        return f"keep={self.keep + behind} or more (it has keep={self.keep})"

    def open_time(self, node: Input, time: Any) -> Time:
        """Return a time that is not final at an input, for None that which is its frontier; `TimeError` if it is."""
        frontier = self.inputs[node]
        if time is None:
            if len(frontier.elements) == 1:
                return frontier.elements[0]
            state = f"its frontier is {frontier}" if frontier.elements else "it is closed"
            msg = f"{node.where}: no time given, and {state}: say time=..."
            raise of_node(node, TimeError(msg))
        t = as_time(time, self.users)
        if not (frontier.beyond(t) or (self.step_refused and self.needed[node].beyond(t))):
            msg = f"{node.where}: time {shown(t)} is not beyond its frontier {frontier}: it is final"
            raise of_node(node, TimeError(msg), time=shown(t))
        return t

    def with_watermark(self, node: Input) -> list[Input]:
        """Return an input and that of its watermark, if it has one: where one moves, both do."""
        told = self.graph.inputs.get(watermark_input(node.name))
        return [node] if told is None else [node, told]

    # -- moving on ----------------------------------------------------------------------------------------------------

    def advanced_to(self, time: Any, some: Sequence[Input] | None = None) -> Move:
        """Return the step by which the inputs, or some, close times not beyond these; `TimeError` if none moves."""
        elements = time if isinstance(time, Antichain) else [time]
        wanted = Antichain([as_time(t, self.users) for t in elements])
        nodes = list(self.inputs) if some is None else some
        moved: dict[Input, Antichain] = {}
        last = after = wanted
        moves = False
        for n in nodes:  # those that are at one object stay so
            if self.inputs[n] is not last:
                last = self.inputs[n]
                after = last.join(wanted)
                moves = moves or after != last
            moved[n] = after
        if not moves and (nodes or self.users > 1):
            now = ", ".join(f"{n.name}: {self.inputs[n]}" for n in nodes)
            msg = f"advance_to({time!r}) closes nothing: the inputs are there already or beyond ({now})"
            raise TimeError(msg)
        return self.move(moved)

    def closed(self, inputs: Iterable[Input]) -> Move:
        """Return the step by which inputs close all times."""
        return self.move(dict.fromkeys(inputs, Antichain()))

    def next_epoch(self) -> Move:
        """Return the step that closes the earliest epoch still open. For times of one coordinate."""
        if self.users != 1:
            msg = f"advance() is for times of one coordinate, here they are {self.graph.coordinates}: use advance_to"
            raise TimeError(msg)
        fronts = [f.elements[0][0] for f in self.inputs.values() if f.elements]
        if not fronts and self.inputs:
            msg = "advance() closes nothing: all inputs are closed"
            raise TimeError(msg)
        return self.advanced_to(min(fronts, default=0) + 1)


def behind(frontier: Antichain, keep: int) -> Antichain:
    """Return from where on times stay distinguishable at a frontier, where so many before the last one are to."""
    return Antichain([tuple([max(0, c - 1 - keep) for c in t]) for t in frontier.elements])


def _antichain(elements: Any) -> Antichain:
    return Antichain(tuple(t) for t in elements)
