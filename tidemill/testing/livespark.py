"""Live runs on Spark among the engines that `check_equivalent` compares: durable, each in a folder of its own."""

from __future__ import annotations

import shutil
import tempfile
import weakref

import attrs

from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.renderer.runs.run import Run
from tidemill.renderer.spark.live import Spark


@attrs.frozen
class SparkLive:
    """An engine of durable runs on the active session, whose state goes with them; checkpoints come often.

    Executors take changes of more than ``in_driver`` rows.
    """

    in_driver: int = 1_000_000

    def start(self, plan: GraphPlan, keep: int) -> Run:
        """Return a run with a new folder for its state."""
        from tidemill.renderer.spark.local import active_session  # noqa: PLC0415 - needs the extra

        session = active_session()
        folder = tempfile.mkdtemp(prefix="tidemill-live-")
        try:
            run = Spark(session, folder, checkpoint_every=3, in_driver=self.in_driver).start(plan, keep)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
        return run
