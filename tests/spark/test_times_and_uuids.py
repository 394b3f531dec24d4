"""Moments with a zone, times of day, intervals and UUIDs on Spark, whose session's zone must not matter."""

from support.typed_flows import TIME_ROWS, of_times

import tidemill as tm

UPDATES = [(r, t, 1) for t in (0, 2) for r in TIME_ROWS] + [(r, 1, -1) for r in TIME_ROWS[:2]]


def test_rendered_and_live(spark):
    spark.conf.set("spark.sql.timeType.enabled", "true")
    tm.testing.check_equivalent(of_times(), {"x": UPDATES}, engines=["reference", tm.Spark(spark)])


def test_sparks_timestamps_come_in_and_go_out_as_instants(spark):
    frame = spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00Z' z, TIMESTAMP_NTZ'2024-01-01 00:00:00' n")
    flow = tm.Dataflow()
    x = flow.input("x", like=frame)
    assert [str(f.dtype) for f in x.schema] == ["timestamptz", "timestamp"]
    flow.output("x", x.filter("HOUR(z) = 0 AND HOUR(n) = 0"))
    assert tm.render(flow, spark, {"x": frame})["x"].select("z", "n").exceptAll(frame).count() == 0
    with flow.start(tm.Spark(spark)) as run:
        run.insert("x", frame)
        run.advance()
        assert run.snapshot("x").to_spark().exceptAll(frame).count() == 0
        assert [str(z) for z, _ in run.snapshot("x")] == ["2024-01-01 00:00:00+00:00"]
    with flow.start() as run:
        run.insert("x", frame)
        run.advance()
        assert [str(z) for z, _ in run.snapshot("x")] == ["2024-01-01 00:00:00+00:00"]
