"""A program: tidemill over Spark Connect, whose server is a JVM of its own."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path

from pyspark.sql import SparkSession
from support.elsewhere import LEAST_WORK, compared, say
from support.running import KV, many_examples, new_flow
from test_errors import FAILING, message, render

import tidemill as tm
from tidemill.renderer.spark.java import java_home

ERRORS = ["division by zero", "sum overflows", "negative count", "map_rows raises", "a loop that does not settle"]

AT_TWO_COORDINATES = ["spark", "spark-live"] if many_examples() else ["spark-live"]
"""Engines compared there: what is rendered calls the kernels that a live run calls, too."""


def connected():
    """A session, on the packaged Java where there is none; sent to the server are the settings that it takes."""
    os.environ.update({"JAVA_HOME": home} if (home := java_home()) else {})
    builder = SparkSession.builder.remote("local[2]")
    for name, value in LEAST_WORK.items():
        if name.startswith("spark.sql."):
            builder = builder.config(name, value)
    return builder.getOrCreate()


def raised(function, *arguments):
    """The error that a call raises: its kind, its text, and what is said of its cause."""
    try:
        function(*arguments)
    except tm.TidemillError as error:
        return [type(error).__name__, str(error), "".join(traceback.format_exception(error))]
    return ["", "nothing was raised", ""]


def both_raised(spark, build, given):
    """What rendering raises, and what the embedded engine does: its kind and how it begins."""
    kind, beginning, _ = message(build, given)
    return [raised(render, spark, build, given), [kind.__name__, beginning]]


def doubled(spark, twice=lambda row: (row.k, 2 * row.v)):
    """A dataflow that needs Python on the executors, rendered."""
    flow = new_flow()
    flow.output("out", flow.input("a", KV).map_rows(twice, KV))
    return tm.render(flow, spark, {"a": spark.sql("SELECT 1L AS k, 2L AS v")})["out"]


def holding(lock):
    return lambda row: (row.k, lock)


def live(spark, folder):
    """A live run, DataFrames in and out, kept in a folder and gone on with."""
    flow = new_flow()
    flow.output("n", flow.input("a", KV).group_by("k").agg(n=tm.sum("v")))
    engine = tm.Spark(spark, state=folder, in_driver=2)  # the server's executors take what is more
    with flow.start(engine) as run:
        run.insert("a", spark.sql("SELECT * FROM VALUES (1L, 2L), (1L, 3L), (2L, 4L) AS t(k, v)"))
        run.advance()
    with flow.start(engine) as run:
        run.delete("a", spark.sql("SELECT 1L AS k, 3L AS v"))
        run.advance()
        plan = flow.explain(spark=spark)
        changes, now = run.changes("n").to_spark(), run.snapshot("n").to_spark()
        return {
            "kind": type(now).__module__,
            "plan": plan[plan.index("Spark's plan") :],
            "changes": [changes.columns, sorted(map(list, changes.collect()))],
            "now": sorted(map(list, now.collect())),
            "foreach_batch": raised(run.foreach_batch, "a"),
        }


def shipped(spark):
    """Where executors look for modules once tidemill was sent to them."""
    tm.ship(spark)

    def where(batches):
        import sys  # noqa: PLC0415 - the executor's

        import pyarrow as pa  # noqa: PLC0415 - as above

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": sys.path})

    return [row.path for row in spark.range(0, 1, 1, 1).mapInArrow(where, "path string").collect()]


def not_in_connect_mode(spark):
    mode = os.environ.pop("SPARK_CONNECT_MODE_ENABLED")
    try:
        return raised(doubled, spark)
    finally:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = mode


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    spark = connected()
    (folder / "without tidemill").touch()  # see `without_tidemill` in test_connect
    said = {"without tidemill": raised(doubled, spark)}
    (folder / "without tidemill").unlink()
    said |= {
        "with it": sorted(map(list, doubled(spark).collect())),
        "not in Connect mode": not_in_connect_mode(spark),
        "unsent": raised(doubled, spark, holding(threading.Lock())),
        "ended": raised(doubled, spark, lambda row: os._exit(7)),
        "one coordinate": compared(["reference", "spark"]),
        "two coordinates": compared(["reference", *AT_TWO_COORDINATES], coordinates=2),
        "live": live(spark, folder / "state"),
    }
    said["shipped"] = shipped(spark)
    said["errors"] = {name: both_raised(spark, *FAILING[name]) for name in ERRORS}
    spark.stop()
    say(said)
