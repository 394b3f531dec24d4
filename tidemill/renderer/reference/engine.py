"""The engine that runs the specification."""

from __future__ import annotations

import attrs

from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.renderer.reference.executor import ReferenceExecutor
from tidemill.renderer.reference.rules import RULES
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.stepper import Stepper


@attrs.frozen
class Reference:
    """The engine that says what is right: slow, obvious, and what all others are tested against.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow("counts")
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> with flow.start(tm.Reference()) as run:
    ...     run.insert("x", [("a",), ("a",), ("b",)])
    ...     run.advance()
    ...     sorted(run.snapshot("n"))
    [('a', 2), ('b', 1)]
    """

    def start(self, plan: GraphPlan, keep: int = 0) -> Run:
        """Return a run of the graph as it was built."""
        graph = plan.taking(RULES.composites).without_passes()
        frontiers = Frontiers(graph, keep)
        return Run(Stepper(ReferenceExecutor(graph, frontiers.progress), frontiers))
