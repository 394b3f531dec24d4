"""Live runs on Spark: DataFrames in and out, batches of Structured Streaming exactly once, agreement with the others."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from support.elsewhere import QUICK_JAVA
from support.running import examples

import tidemill as tm

EXAMPLE = Path(__file__).parents[2] / "examples" / "streaming_flights.py"
SCHEMA = {"k": "string", "i": "int32 not null", "d": "date", "t": "timestamp", "x": "decimal(9,2)", "f": "float64"}


def test_dataframes_in_and_out(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", SCHEMA))
    frame = spark.sql(
        "SELECT * FROM VALUES ('a', 1, DATE '2020-01-01', TIMESTAMP_NTZ '2020-01-01 10:00:00.000001', 1.25BD, 1.5D), "
        "(NULL, 2, NULL, NULL, NULL, double('NaN')) AS t(k, i, d, t, x, f)"
    )
    with flow.start(tm.Spark(spark, state=tmp_path)) as run:
        run.insert("x", frame)
        run.insert("x", frame.filter("k = 'a'"))
        run.advance()
        out = run.snapshot("o").to_spark()
        assert [f.dataType.simpleString() for f in out.schema] == [
            "string", "int", "date", "timestamp_ntz", "decimal(9,2)", "double",
        ]  # fmt: skip
        assert sorted(map(repr, out.collect())) == sorted(map(repr, [*frame.collect(), frame.collect()[0]]))
        since = run.changes("o").to_spark()
        assert since.columns == [*SCHEMA, "time", "diff"]
        assert sorted(tuple(r)[-2:] for r in since.collect()) == [(0, 1), (0, 2)]
        assert run.changes("o").to_spark().count() == 0
    with flow.start() as run:
        run.advance()
        with pytest.raises(tm.errors.EngineError, match="for runs on tm.Spark"):
            run.snapshot("o").to_spark()


@examples(5, least=5)
@given(tm.testing.dataflows(coordinates=1))
def test_it_agrees_with_the_reference(spark, case):
    tm.testing.check_equivalent(case.flow, case.updates, engines=["reference", "spark-live"])


def arrive(folder, count):
    (folder / "arriving").mkdir(exist_ok=True)
    for i in range(count):
        path = folder / "arriving" / f"{i}.parquet"
        pq.write_table(pa.table({"origin": ["JFK", "EWR", f"A{i}"], "delay": [10 * i, None, i]}), path)
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))  # Spark takes them by their age


def changes(folder):
    return {p.name: pq.read_table(p).to_pylist() for p in sorted((folder / "changes" / "by_origin").iterdir())}


def test_a_stream_whose_driver_is_killed(spark, tmp_path, capsys):
    """The example, killed after its second epoch: changes and contents are those of a run that was left in peace."""
    spec: Any = importlib.util.spec_from_file_location("streaming_flights", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in (killed, undisturbed):
        folder.mkdir()
        arrive(folder, 5)
    command = [sys.executable, str(EXAMPLE), str(killed)]
    quick = {**os.environ, **QUICK_JAVA}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=quick) as process:
        lines = [process.stdout.readline() for _ in range(2)]
        os.killpg(process.pid, signal.SIGKILL)
    assert lines == ["epoch 1\n", "epoch 2\n"]
    example.take(str(killed))
    assert "epoch 5" in capsys.readouterr().out
    example.take(str(undisturbed))
    assert changes(killed) == changes(undisturbed)
    assert len(changes(killed)) == 5
    with example.build().start(tm.Spark(spark, state=killed / "state")) as run:
        assert run.snapshot("by_origin").counts()["JFK", 5, 20.0] == 1
        assert run.frontier("flights") == tm.Antichain([5])


def test_batches_of_a_feed(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"k": "int64", "v": "int64"}, key="k"))
    with flow.start(tm.Spark(spark, state=tmp_path)) as run:
        take = run.foreach_batch("x", source="query", op="what")
        for _ in range(2):
            take(spark.sql("SELECT 1L AS k, 2L AS v, 'insert' AS what UNION ALL SELECT 3L, 4L, 'insert'"), 0)
        take(spark.sql("SELECT 1L AS k, 9L AS v, 'delete' AS what"), 1)
        take(spark.sql("SELECT 5L AS k, 9L AS v, 'insert' AS what"), 0)
        assert list(run.snapshot("o")) == [(3, 4)]
        with pytest.raises(tm.errors.UnknownNameError, match="no input 'y'"):
            run.foreach_batch("y")


def test_a_function_that_was_changed_is_noticed(spark, tmp_path):
    """As on the embedded engine, whose state it is (tests/durable/test_changed_functions.py): steps were mixed."""

    def by(number):
        def f(row):
            return (row.i + number,)

        flow = tm.Dataflow()
        flow.output("y", flow.input("x", {"i": "int64"}).map_rows(f, {"i": "int64"}))
        return flow

    engine = tm.Spark(spark, state=tmp_path, in_driver=2)
    with by(1).start(engine) as run:
        run.insert("x", spark.range(10).toDF("i"))
        run.advance()
    with pytest.raises(tm.errors.StateError, match="its variable 'number' changed.*or give this one another folder"):
        by(2).start(engine)
    with by(1).start(engine) as run:
        run.delete("x", spark.range(10).toDF("i"))
        run.advance()
        assert not run.snapshot("y").counts()
