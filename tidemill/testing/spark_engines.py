"""Spark among the engines that `check_equivalent` compares: whole histories, and live runs, each in its own folder."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Node
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.reference.executor import Given, ReferenceExecutor
from tidemill.renderer.reference.traces import Trace
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.stepper import Stepper
from tidemill.renderer.spark.live import Spark


@attrs.frozen
class SparkHistories:
    """An engine for whole histories only: its runs answer once their inputs are closed. On the active session.

    The driver takes loops into which no more than ``in_driver`` updates come.
    """

    whole_histories: ClassVar[bool] = True
    in_driver: int = 0

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run that renders when all inputs are closed."""
        graph = plan.without_passes()
        frontiers = Frontiers(graph, keep)
        executor = ReferenceExecutor(graph, frontiers.progress, partial(_Rendered.of, self.in_driver))
        return Run(Stepper(executor, frontiers))


@attrs.frozen
class SparkLive:
    """An engine of durable runs on the active session, whose state goes with them; checkpoints come often.

    Executors take changes of more than ``in_driver`` rows.
    """

    in_driver: int = 1_000_000

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run with a new folder for its state."""
        from tidemill.renderer.spark.session import active_session  # noqa: PLC0415 - needs the extra

        session = active_session()
        folder = tempfile.mkdtemp(prefix="tidemill-live-")
        try:
            run = Spark(session, folder, checkpoint_every=3, in_driver=self.in_driver).start(plan, keep)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
        return run


@attrs.define
class _Rendered:
    """What Spark makes of all updates once the inputs are closed, and nothing before: see `Evaluation`."""

    traces: dict[Node, Trace]
    seconds: dict[Node, float] = attrs.field(factory=dict)

    @classmethod
    def of(cls, in_driver: int, graph: Graph, given: Given, frontiers: Mapping[Node, Antichain]) -> _Rendered:
        """Return it; a loop into which no more than ``in_driver`` updates come is the driver's."""
        from tidemill.renderer.spark.dataframes import rows_of, updates_of  # noqa: PLC0415
        from tidemill.renderer.spark.render import render  # noqa: PLC0415
        from tidemill.renderer.spark.session import active_session  # noqa: PLC0415 - needs the extra

        traces: dict[Node, Trace] = {node: {} for node in graph.nodes}
        if any(frontiers[node].elements for node in graph.inputs.values()):
            return cls(traces)
        spark = active_session()
        assert spark is not None, "start a session first, as with tm.local_spark()"
        time, diff = None if len(graph.coordinates) > 1 else "tidemill time", "tidemill diff"
        names = [*([time] if time else graph.coordinates), diff]
        frames = {
            node.name: updates_of(spark, node, [(*row, *at, count) for row, at, count in updates], names)
            for node, updates in given.items()
        }
        for name, frame in render(lambda _: graph, spark, frames, time, diff, in_driver).items():
            output, width = graph.outputs[name], len(graph.outputs[name].schema)
            whole = Schema((*output.schema, *(Field(of, INT64) for of in names)))
            trace = traces[output]
            for *row, count in rows_of(whole, frame):  # an update may be there in several parts
                update = tuple(row[:width]), tuple(row[width:])
                trace[update] = trace.get(update, 0) + count
            traces[output] = {update: count for update, count in trace.items() if count}
        return cls(traces)
