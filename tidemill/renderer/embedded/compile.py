"""From a graph to operators: one for each node, wired up, in the regions of its scopes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tidemill.dataflow.collector import collector_paused
from tidemill.dataflow.composites import DeltaJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, common
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Enter,
    Feedback,
    Filter,
    Input,
    Join,
    Leave,
    Map,
    Negate,
    Node,
    Output,
    Reduce,
    Variable,
    outside,
)
from tidemill.dataflow.passes.bounds import forgetting
from tidemill.dataflow.progress import Progress, Reach
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.bound import BoundColumn
from tidemill.renderer.embedded.forgetting import Forgetting
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators import (  # noqa: F401 - they fill the table
    dynamic_filter,
    range_join,
    sessions,
    table_function,
    upsert_input,
    watermarks,
)
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.delta_join import DeltaJoinOperator
from tidemill.renderer.embedded.operators.input_output import ContentsOperator, InputOperator, OutputOperator
from tidemill.renderer.embedded.operators.join import JoinOperator
from tidemill.renderer.embedded.operators.linear import EnterWire, FilterOperator, MapOperator, ProjectWire
from tidemill.renderer.embedded.operators.table_encoder import table_encoder
from tidemill.renderer.embedded.operators.threshold import UniqueCheck
from tidemill.renderer.embedded.operators.upsert_input import UpsertInputOperator
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.schedule import Frontier, Operator, Region, Schedule
from tidemill.renderer.embedded.windows import on_close  # noqa: F401 - it fills the table, too

__all__ = ["FACTORIES", "Compiled"]  # the table is for others once it is filled


class Compiled:
    """A graph's operators, and the frontiers they share."""

    @collector_paused()
    def __init__(
        self, graph: Graph, progress: Progress, *, kept: Collection[str] = (), interner: Interner | None = None
    ) -> None:
        """Make them. What the inputs hold that are ``kept`` is, for operators to come; codes are of the interner."""
        self.graph = graph
        self.interner = Interner() if interner is None else interner
        self.frontiers: dict[Reach, Frontier] = {}
        self._progress = progress
        self._example: dict[Frontier, Node] = {}
        self.schedule = Schedule(len(graph.coordinates), self._frontier_of)
        self.root = Region(self.schedule, None, -1)
        self._regions: dict[Scope, Region] = {graph.root: self.root}
        for scope in graph.scopes[1:]:
            self._make_region(scope)
        self.operators: dict[Node, Operator] = {}
        self.inputs: dict[Input, InputOperator] = {}
        self.outputs: dict[Output, OutputOperator] = {}
        self.checks: dict[Node, UniqueCheck] = {}
        """The operators that hold the rows of inputs declared unique."""
        self.holders: dict[Node, Operator] = {}
        """The operators that hold the contents of inputs that are kept."""
        for node in graph.nodes:
            self._add(node)
        for name in kept:
            self._hold(graph.inputs[name])
        self._wire()
        self.forgetting = Forgetting(self.operators, forgetting(graph))
        """Tells spines of rows that nobody looks up any more."""
        least = Antichain.minimum(len(graph.coordinates))
        at_first = dict.fromkeys(graph.inputs.values(), least)
        self.eager = any(f != least for f in progress.user_frontiers(self.outputs, at_first).values())
        """Whether an output has complete times from the start: it depends on constants alone, or on delayed inputs."""
        self.live = [frontier for reach, frontier in self.frontiers.items() if reach]
        """Those of the frontiers that inputs reach."""

    def arrangement(self, node: Node) -> ArrangeOperator:
        """Return the operator that has the arrangement a node stands for, wherever it was entered from."""
        operator = self.operators[outside(node)]
        assert isinstance(operator, ArrangeOperator)
        return operator

    def region(self, scope: Scope) -> Region:
        """Return a scope at work."""
        return self._regions[scope]

    def uppers(self, frontiers: Mapping[Input, Antichain]) -> dict[Frontier, Antichain]:
        """Return where each frontier is when the inputs' are these.

        What only constants reach is complete at once. Unless an output waits for it, it is computed with the first
        step, so that frontiers need not differ.
        """
        same = None if self._progress.delays else common(frontiers.values())
        if same is not None and not self.eager:
            return dict.fromkeys(self.frontiers.values(), same)
        furthest = Antichain()
        if not self.eager:
            for i, frontier in enumerate(frontiers.values()):
                furthest = frontier if i == 0 else furthest.join(frontier)
        found = self._progress.user_frontiers(self._example.values(), frontiers)
        return {f: found[self._example[f]] if reach else furthest for reach, f in self.frontiers.items()}

    def _frontier_of(self, node: Node) -> Frontier:
        reach = self._progress.reach(node)
        if reach not in self.frontiers:
            self.frontiers[reach] = Frontier(Antichain.minimum(self.schedule.users))
            self._example[self.frontiers[reach]] = node
        return self.frontiers[reach]

    def _make_region(self, scope: Scope) -> None:
        assert scope.parent is not None
        place = self.graph.last_id(scope)
        parent = self._regions[scope.parent]
        region = Region(self.schedule, parent, place)
        self._regions[scope] = region
        parent.items[place] = region

    def _add(self, node: Node) -> None:
        region = self._regions[node.scope]
        operator = FACTORIES.of(node)(node, region, self)
        self.operators[node] = operator
        region.items[operator.place] = operator
        if isinstance(operator, InputOperator):
            assert isinstance(node, Input)
            self.inputs[node] = operator
            if node.unique:
                check = UniqueCheck(node, region, self.interner)
                check.place = node.id + 0.5
                region.items[check.place] = check
                operator.consumers.append((check, 0))
                self.checks[node] = check
        elif isinstance(operator, OutputOperator):
            assert isinstance(node, Output)
            self.outputs[node] = operator

    def _hold(self, node: Input) -> None:
        """Have what an input holds be found: where it is anyway, or in an operator of its own."""
        self.schedule.kept_since = Antichain.minimum(self.schedule.users)
        operator = self.inputs[node]
        arranged = [self.operators[r] for r, _ in self.graph.consumers(node) if isinstance(r, Arrange)]
        shared = [a for a in arranged if isinstance(a, ArrangeOperator) and not a.drops_nulls]
        if isinstance(operator, UpsertInputOperator):
            self.holders[node] = operator
        elif shared:
            self.holders[node] = shared[0]
            shared[0].holds_input = True
        else:
            contents = ContentsOperator(node, operator.region)
            contents.place = node.id + 0.25
            operator.region.items[contents.place] = contents
            operator.consumers.append((contents, 0))
            self.holders[node] = contents

    def _wire(self) -> None:
        for node, operator in self.operators.items():
            operator.consumers += [(self.operators[reader], port) for reader, port in self.graph.consumers(node)]
            if isinstance(node, Feedback):
                operator.consumers.append((self.operators[node.variable], 0))
        for node, operator in self.operators.items():
            if isinstance(operator, ArrangeOperator):
                operator.may_repeat = _only_joins_read(operator)
                operator.few_are_consolidated = isinstance(node.inputs[0], Input)
                operator.consolidated = not operator.may_repeat
        for source_node, source_operator in self.inputs.items():
            source_operator.may_repeat = _may_repeat(source_operator)
            source_operator.consolidated = not source_operator.may_repeat
            if source_node not in self.holders:  # else all of each table is held
                source_operator.table_encoder = table_encoder(self.graph, source_node, self.interner)
        for node, operator in self.operators.items():
            # A Variable has its Feedback alone, which consolidates.
            if isinstance(node, _PASSING) or _keeps_apart(node):
                operator.consolidated = all(self.operators[source].consolidated for source in node.inputs)
            for port, source in zip(operator.ports, node.inputs, strict=False):
                port.consolidated = self.operators[source].consolidated
            if isinstance(node, (DeltaJoin, Join, Reduce)):
                for source in node.inputs:
                    if isinstance(outside(source), Arrange):
                        self.arrangement(source).readers.append(operator)


def _only_joins_read(operator: Operator) -> bool:
    """Return whether all that read an operator are joins, be they in loops that it is taken into."""
    return all(
        isinstance(reader, _BILINEAR) or (isinstance(reader, EnterWire) and _only_joins_read(reader))
        for reader, _ in operator.consumers
    )


def _may_repeat(operator: Operator) -> bool:
    """Return whether all that read an operator take updates as they come, consolidated or not."""
    passing, seen = [operator], {operator}
    while passing:
        readers = {reader for reader, _ in passing.pop().consumers}
        linear = {reader for reader in readers if isinstance(reader, (ProjectWire, MapOperator, FilterOperator))}
        if not readers or not all(map(_takes_repeated, readers - linear)):
            return False
        passing += linear - seen
        seen |= linear
    return True


def _keeps_apart(node: Node) -> bool:
    """Return whether distinct rows stay distinct, if they are not dropped: all columns are still there."""
    if isinstance(node, Map):
        there = {c.index for c in node.columns if isinstance(c, BoundColumn)}
        return len(there) == len(node.inputs[0].schema)
    return isinstance(node, Filter)


def _takes_repeated(operator: Operator) -> bool:
    if isinstance(operator, ReduceOperator):
        return not operator.logic.consolidates
    return isinstance(operator, ContentsOperator) or (isinstance(operator, ArrangeOperator) and operator.may_repeat)


_BILINEAR: Final = (DeltaJoinOperator, JoinOperator)
_PASSING: Final = (Concat, Enter, Leave, Negate, Variable)
"""Operators that pass each array on unchanged, but for a sign or a constant coordinate."""
