"""Structs on Spark: rendered and live, with the results of the reference engine; Spark's own structs in and out."""

import pytest
from support.typed_flows import STRUCT_ROWS, STRUCTS, of_structs

import tidemill as tm
from tidemill.expressions.schema import Schema
from tidemill.renderer.spark.types import struct

UPDATES = [(r, t, 1) for t in (0, 2) for r in STRUCT_ROWS] + [(r, 1, -1) for r in STRUCT_ROWS[:2]]


def test_rendered_and_live(spark):
    tm.testing.check_equivalent(of_structs(), {"x": UPDATES}, engines=["reference", tm.Spark(spark)])


def test_data_frames_in_and_out(spark):
    frame = spark.createDataFrame([(k, s, t) for k, s, t in STRUCT_ROWS], struct(Schema.of(STRUCTS)))
    flow = tm.Dataflow()
    x = flow.input("x", STRUCTS)
    flow.output("out", x)
    flow.output("n", x.count("n"))
    found = tm.render(flow, spark, {"x": frame})
    assert found["out"].select("k", "s.a", "t.f").count() == len(STRUCT_ROWS)
    with flow.start(tm.Spark(spark)) as run:
        run.insert("x", found["out"].select("k", "s", "t"))
        run.advance()
        assert repr(list(run.snapshot("n"))) == repr(sorted_counts())
        assert run.snapshot("out").to_spark().select("s.b").count() == len(STRUCT_ROWS)


def sorted_counts():
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", STRUCTS).count("n"))
    with flow.start() as run:
        run.insert("x", STRUCT_ROWS)
        run.advance()
        return list(run.snapshot("n"))


def test_the_hash_is_sparks(spark):
    frame = spark.createDataFrame(STRUCT_ROWS, struct(Schema.of(STRUCTS)))
    flow = tm.Dataflow()
    flow.output("h", flow.constant(STRUCTS, STRUCT_ROWS).select(h=tm.xxhash64("k", "s", "t")))
    theirs = frame.selectExpr("xxhash64(k, s, t) h").collect()
    assert sorted(h for (h,) in theirs) == sorted(h for (h,) in flow.start().snapshot("h"))


def test_fields_of_other_names_are_refused(spark):
    frame = spark.createDataFrame([((1,),)], "s struct<b: bigint>")
    flow = tm.Dataflow()
    flow.output("out", flow.input("x", {"s": "struct<a: int64>"}))
    with pytest.raises(tm.errors.RowError, match="expected struct<a:bigint>"):
        tm.render(flow, spark, {"x": frame})
