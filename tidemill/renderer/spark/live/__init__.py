"""Live runs on Spark: kept up to date step by step, durable, with DataFrames in and out.

Small steps are taken by the embedded engine in the driver, large ones by the executors: `executor` decides which.
`inputs` takes the DataFrames that users put in, which `incoming` checks, writing large ones to files, `mixed_changes`
those whose rows have times and diffs of their own; `outputs` is what they read. `executor_step` is the
step on executors: it walks the graph and has each operator run where its changes are. `state_frames` turns updates in
the driver into DataFrames and back, and shows what operators hold as DataFrames; `spilled_state` reads what
arrangements hold on the disk and adds what a step writes, in files that `state_files` reads and writes.
`file_tasks` has executors look through these, sort, merge and check them.
`frontier_split` keeps back the updates that belong to later steps, `upserts` turns large writes by key into updates.
`spilled_results` are contents and changes of outputs that stay on the disk until they are looked at.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.late import Late
from tidemill.renderer.runs.run import Run

if TYPE_CHECKING:
    import pyspark.sql as ps

    from tidemill.renderer.embedded import state as states
else:
    ps = Late("pyspark.sql", "tidemill[spark]")
    states = Late("tidemill.renderer.embedded.state")

__all__ = ["Spark"]


@attrs.frozen
class Spark:
    """The engine for runs beside Spark: `flow.start(tm.Spark(spark, state="folder/"))`.

    Small changes are computed in the driver, where a step costs milliseconds; the session is used for what comes as a
    DataFrame and goes out as one, and not touched otherwise.

    ``state``, a folder of the driver's machine, makes a run durable, ``checkpoint_every`` says how many steps going on
    repeats, and ``in_memory`` how many updates of state are held in memory: all as with `Embedded`.

    A DataFrame of more than ``in_driver`` rows that is inserted or deleted is not collected: the step that takes it is
    rendered onto DataFrames and runs on the executors, which read the state and write additions to it, so the folder
    has to be one that they see. The DataFrame is computed when it is put in (what is below a shuffle twice,
    since its first rows are fetched before). With ``in_driver=0`` every step runs so, where it can. What such a step
    makes for later ones is pending in the driver's memory: updates and times where two times join to one that does not
    close yet, what `delay` moves, what is ahead of other inputs. The same holds for inputs with a key: the executors
    compare what is upserted or deleted with the current rows, and go on with the changes. Two different rows of one key
    in such a DataFrame are refused (``RowError``), as it does not say which is the last; several DataFrames are taken
    in the order of the calls. Of a change feed (`Run.apply`, ``foreach_batch(op=...)``) the last row of a key counts,
    in the DataFrame's order. A large DataFrame of updates (`Run.update`) may have 100 different times and diffs.
    """

    spark: ps.SparkSession
    state: str | os.PathLike[str] | None = None
    checkpoint_every: int = attrs.field(default=1000, kw_only=True)
    in_memory: int = attrs.field(default=20_000_000, kw_only=True)
    in_driver: int = attrs.field(default=1_000_000, kw_only=True)

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run of the graph, which goes on where the last one on the folder ``state`` committed."""
        return self._run(plan, keep, None)

    def load(self, plan: GraphPlan, saved: states.Saved) -> Run:
        """Return a run that goes on from what was saved by one after the passes of the plan."""
        return self._run(plan, 0, saved)

    def _run(self, plan: GraphPlan, keep: int, saved: states.Saved | None) -> Run:
        from tidemill.renderer.durable.start import open_state  # noqa: PLC0415 - its kernels cost more than all the rest
        from tidemill.renderer.embedded.compile import FACTORIES  # noqa: PLC0415
        from tidemill.renderer.spark.live.executor import SparkExecutor  # noqa: PLC0415 - imports pyspark
        from tidemill.renderer.spark.live.inputs import SparkDataFrames  # noqa: PLC0415
        from tidemill.renderer.spark.step import COMPOSITES  # noqa: PLC0415

        plan = plan.taking(FACTORIES.composites & COMPOSITES)
        state = open_state(
            plan,
            keep,
            self.state,
            checkpoint_every=self.checkpoint_every,
            in_memory=self.in_memory,
            saved=saved,
        )
        try:
            executor = SparkExecutor(self.spark, state, self.in_driver)
            return state.run(executor, SparkDataFrames(self.spark, state, self.in_driver))
        except BaseException:
            state.close()
            raise
