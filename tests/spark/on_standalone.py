"""A program: tidemill on a standalone cluster, whose Python has no tidemill until it is sent there."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

from support.elsewhere import LEAST_WORK, say
from support.running import KV, new_flow
from support.standalone import cluster

import tidemill as tm
from tidemill.renderer.spark.live import file_tasks

THERE = (
    "numpy",
    "numpy.libs",
    "pandas",
    "py4j",
    "pyarrow",
    "pyarrow.libs",
    "pyspark",
    "dateutil",
    "pytz",
    "six.py",
    "tzdata",
)
"""What PySpark needs for Arrow, with what that needs."""


def python_without_tidemill(folder):
    """Make an environment of Python that has what PySpark needs; return its Python."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/*/site-packages")
    found = [Path(place) / name for name in THERE for place in sys.path if (Path(place) / name).exists()]
    for path in found:
        if not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def doubled(spark):
    """What executors' Python makes of some rows, by a function and by a kernel; or the error."""
    flow = new_flow()
    flow.output(
        "out", flow.input("a", KV).map_rows(lambda row: (row.k, 2 * row.v), KV).group_by("k").agg(m=tm.median("v"))
    )
    try:
        rows = tm.render(flow, spark, {"a": spark.sql("SELECT 1L AS k, 2L AS v")})["out"].collect()
    except tm.TidemillError as error:
        return f"{type(error).__name__}: {error}"
    return [list(row) for row in rows]


def kept(spark, folder):
    """A run whose state executors write, sort, merge and check; and what jobs that took."""
    flow = tm.Dataflow("kept")
    sales, items = (flow.input(name, KV) for name in ("sales", "items"))
    flow.output("sums", sales.join(items, on="k").group_by("v_right").agg(n=tm.count(), s=tm.sum("v")))
    engine, found, work = tm.Spark(spark, folder, in_memory=100, in_driver=500), [], []
    done = file_tasks.done

    def counted(spark, tasks):
        work.extend(type(task).__name__ for task in tasks)
        return done(spark, tasks)

    file_tasks.done = counted
    for epoch in range(4):
        with flow.start(engine) as run:
            rows = spark.range(epoch * 2000, epoch * 2000 + 2000, 1, 3)
            run.insert("sales", rows.selectExpr("id % 1000 AS k", "id AS v"))
            run.insert("items", [(epoch, epoch), (999 - epoch, epoch)])
            run.advance()
            run.insert("items", [(500 + epoch, epoch)])  # looks up sales
            run.advance()
            if epoch == 3:
                run.compact()
            found.append(sorted(map(list, run.snapshot("sums"))))
            run.checkpoint()
    return {"found": found, "work": sorted(set(work))}


def expected():
    keys, found = [], []
    for epoch in range(4):
        keys += [(epoch, epoch), (999 - epoch, epoch), (500 + epoch, epoch)]
        of = {e: [v for k, c in keys if c == e for v in range(epoch * 2000 + 2000) if v % 1000 == k] for _, e in keys}
        found.append([[e, len(values), sum(values)] for e, values in sorted(of.items())])
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = str(python_without_tidemill(folder / "python"))
    (folder / "cluster").mkdir()
    with cluster(folder / "cluster", environment={"PYTHONPATH": ""}) as made:
        spark = tm.local_spark(
            made.url, **LEAST_WORK, **{"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        )
        said = {"before": doubled(spark)}
        tm.ship(spark)
        tm.ship(spark, "support")
        said["after"] = doubled(spark)
        said["kept"] = kept(spark, folder / "state")
        said["expected"] = expected()
        try:
            tm.ship(spark, "numpy")
        except tm.TidemillError as error:
            said["compiled"] = f"{type(error).__name__}: {error}"
        spark.stop()
    say(said)
