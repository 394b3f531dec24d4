"""What is run where Spark is not in this process: graphs, their updates, and what each engine makes of them.

Programs of tests/spark are started by tests, each in a process of its own, since a process has one session. What they
find they say in one line of JSON, with the reference engine's answer beside it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from support.running import KV, many_examples, traces

import tidemill as tm

LEAST_WORK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.ui.explainMode": "simple",  # what a plan is written as for each job, though nobody reads it
    "spark.log.level": "OFF",
}
"""Settings of a session for tests, whose rows are few."""
if not many_examples():
    # To compile queries costs more than all else that Spark does for a few rows. Where tests draw many examples, they are
    # compiled, as users' queries are.
    LEAST_WORK |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"}
"""Environment in which Java compiles what runs often quickly rather than well: nothing here runs for long.

Room for what is compiled is what Java takes by itself where it compiles well; else it takes 48 MB, which Spark fills, and
goes on throwing away what it has compiled and compiling it anew.
"""


@contextlib.contextmanager
def fetching_at_most(spark, size):
    """Within the block, the driver may fetch so much: a setting that a session cannot change while it runs."""
    settings = spark.sparkContext._jsc.sc().conf()  # noqa: SLF001
    settings.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        settings.remove("spark.driver.maxResultSize")


SCHEMAS = {"x": {"k": "int64", "f": "float64"}}


def two_hops(a, b):
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


OUTPUTS = {
    "loop": lambda a, b, x: a.iterate(lambda here: two_hops(here, b).concat(a).distinct(), error_at=50),
    "loop of a user's reduce": lambda a, b, x: a.distinct().iterate(
        lambda here: two_hops(here, b.distinct()).concat(a).distinct().group_by("k").reduce(
            lambda key, rows: [((*key, rows[0][0][0]), 1)], KV), return_at=3
    ),
    "map_rows": lambda a, b, x: a.map_rows(lambda row: (row.k + 10, row.v * row.v), KV),
    "reduce": lambda a, b, x: a.distinct().group_by("k").reduce(
        lambda key, rows: [((*key, sum(n for _, n in rows)), 1)], KV),
    "join": lambda a, b, x: a.join(b, on="k", how="left"),
    "sums of floats": lambda a, b, x: x.group_by("k").agg(s=tm.sum("f"), m=tm.avg("f")),
}  # fmt: skip


def updates(coordinates, seed=0):
    """Some updates to each input, a third of them taken back at a later time."""
    dice, found = random.Random(seed), {"a": [], "b": [], "x": []}
    for name, of in found.items():
        for _ in range(9):
            value = dice.choice([1e20, 0.1, -3.5, 2.0**-30]) if name == "x" else dice.randrange(4)
            time = tuple(dice.randrange(3) for _ in range(coordinates))
            after = tuple(c + dice.randrange(2) for c in time)
            row = (dice.randrange(4), value)
            changes = [(time, 1), (after, -1)] if dice.random() < 0.3 else [(time, 1)]
            of += [(row, t[0] if coordinates == 1 else t, diff) for t, diff in changes]
    return found


def compared(engines=("reference", "spark"), coordinates=1):
    """Each output's updates by each of the engines."""
    build = lambda a, b, x: [make(a, b, x) for make in OUTPUTS.values()]  # noqa: E731
    more = {"coordinates": coordinates, "schema": SCHEMAS}
    found = [traces(engine, build, updates(coordinates), **more) for engine in engines]
    return {name: list(map(repr, results)) for name, results in zip(OUTPUTS, zip(*found))}


def say(result):
    sys.stdout.write(json.dumps(result) + "\n")


def links_to_spark(folder):
    """Make a SPARK_HOME in which what Spark writes there can be thrown away."""
    folder.mkdir()
    for path in Path(str(importlib.util.find_spec("pyspark").origin)).parent.iterdir():
        (folder / path.name).symlink_to(path)
    return str(folder)


def tools_without_java(folder):
    """Make a PATH with the machine's tools, but for Java."""
    folder.mkdir()
    for tool in (tool for source in ("/usr/bin", "/bin") for tool in Path(source).iterdir()):
        if not tool.name.startswith("java") and not (folder / tool.name).exists():
            (folder / tool.name).symlink_to(tool)
    return str(folder)


def run_apart(program, *arguments, path=None, **environment):
    """Run a program of tests/spark in a process of its own; return what it said."""
    file = Path(__file__).parents[2] / "spark" / program
    paths = filter(None, [path, str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])  # for executors, too
    known = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")}
    done = subprocess.run(
        [sys.executable, str(file), *map(str, arguments)],
        env={**known, **QUICK_JAVA, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])
