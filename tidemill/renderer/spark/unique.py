"""The check of inputs declared unique: that every count is 0 or 1 at every time."""

from __future__ import annotations

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.frames import DIFF, Frame, columns
from tidemill.renderer.spark.keyed import KeyedRound


def check_unique(node: Input, frame: Frame) -> None:
    """Raise where a row's count is not 0 or 1 at some time, naming both. One job."""
    if frame.coordinates > 1:
        keyed = KeyedRound(node, frame.coordinates, (), Antichain.minimum(frame.coordinates), Antichain())
        keyed.once(frame, None).change.data.count()  # type: ignore[union-attr]  # raises what the kernel finds
        return
    row = columns(frame.width)
    window = Window.partitionBy(*row).orderBy("t0").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    summed = frame.data.groupBy(*row, "t0").agg(F.sum(DIFF).alias("n"))
    running = summed.select(*row, "t0", F.sum("n").over(window).alias("n"))
    for *shown, time, count in running.filter(~F.col("n").isin(0, 1)).limit(1).collect():
        raise failures.not_unique(node, tuple(shown), count, (time,))
