"""Frames without times and diffs: what is only selected, filtered and mapped is what Spark's own select is."""

import pytest

import tidemill as tm
from tidemill.errors import ExpressionError, RowError, UserFunctionError

AB = {"a": "int64", "b": "float64"}
ROWS = "SELECT * FROM VALUES (1L, 0.5D), (1L, 0.5D), (2L, -0.0D), (NULL, NULL) AS (a, b)"


def rendered(spark, build, sql=ROWS, schema=None):
    flow = tm.Dataflow("plain")
    flow.output("out", build(flow.input("x", schema or AB)))
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    out = tm.render(flow, spark, {"x": spark.sql(sql)})["out"]
    return out, len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) - before


def lines(frame):
    return sorted(map(repr, map(tuple, frame.collect())))


def test_a_select_is_left_to_be_computed_and_has_a_line_for_each_row(spark):
    out, jobs = rendered(
        spark, lambda x: x.filter("a < 2 OR b = 0").select("a", c="b * 2").concat(x.select("a", c="b"))
    )
    assert jobs == 0
    assert lines(out) == sorted(
        ["(1, 1.0, 0, 1)"] * 2 + ["(2, 0.0, 0, 1)"] * 2 + ["(1, 0.5, 0, 1)"] * 2 + ["(None, None, 0, 1)"]
    )


def test_what_may_fail_is_computed_at_once(spark):
    out, jobs = rendered(spark, lambda x: x.select(c="a + 1"))
    assert jobs > 0
    assert lines(out) == sorted(["(2, 0, 1)"] * 2 + ["(3, 0, 1)", "(None, 0, 1)"])
    with pytest.raises(ExpressionError, match="division by zero"):
        rendered(spark, lambda x: x.select(c="1 / a"), "SELECT 0L AS a, 1D AS b")
    out, _ = rendered(spark, lambda x: x.map_rows(lambda row: (row.a,), {"a": "int64"}))
    assert lines(out) == sorted(["(1, 0, 1)"] * 2 + ["(2, 0, 1)", "(None, 0, 1)"])
    with pytest.raises(UserFunctionError, match="returned a wrong row for row"):
        rendered(spark, lambda x: x.map_rows(lambda row: row, {"a": "int64"}))


def test_frames_with_diffs_are_consolidated(spark):
    out, _ = rendered(spark, lambda x: x.select("a"), ROWS.replace("*", "*, 2L AS diff"))
    assert lines(out) == ["(1, 0, 4)", "(2, 0, 2)", "(None, 0, 2)"]


@pytest.mark.parametrize("build", [lambda x: x.select("a"), lambda x: x.group_by("a").agg(n=tm.count())])
def test_null_where_there_must_be_a_value_is_found_at_once(spark, build):
    with pytest.raises(RowError, match=r"Input 'x'.*column a: int64 not null is NULL.*in 1 of 4 rows"):
        rendered(spark, build, schema={"a": "int64 not null", "b": "float64"})


def test_a_number_that_is_none_here_is_found_at_the_latest_when_it_is_read(spark):
    least = "SELECT -9223372036854775807L - 1L AS a, 1D AS b"
    with pytest.raises(RowError, match=r"column a: int64 holds what is not a valid int64 here: overflow"):
        rendered(spark, lambda x: x.agg(s=tm.sum("a")), least)
    out, _ = rendered(spark, lambda x: x.select("a"), least)
    with pytest.raises(Exception, match=r"a value that the schema does not allow: Input 'x' .*, column a: int64"):
        out.collect()


def test_aggregates_of_plain_rows_take_one_pass(spark):
    flow = tm.Dataflow("plain")
    x = flow.input("x", AB)
    flow.output("out", x.group_by("a").agg(s=tm.sum("b"), n=tm.count()))
    seen = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    out = tm.render(flow, spark, {"x": spark.sql(ROWS).mapInArrow(counted, "a bigint, b double")})["out"]
    assert lines(out) == ["(1, 1.0, 2, 0, 1)", "(2, 0.0, 1, 0, 1)", "(None, None, 1, 0, 1)"]
    assert seen.value == 4


def test_columns_of_an_input_are_chosen_and_checked_in_one_projection(spark, capsys):
    schema = {"a": "int64", "b": "float64", "unread": "int64 not null"}
    out, _ = rendered(spark, lambda x: x.select("b", "a", again="b"), f"SELECT *, 7L AS unread FROM ({ROWS})", schema)
    assert lines(out) == sorted(["(0.5, 1, 0.5, 0, 1)"] * 2 + ["(0.0, 2, 0.0, 0, 1)", "(None, None, None, 0, 1)"])
    out.explain(extended=True)
    analysed = capsys.readouterr().out.partition("Analyzed Logical Plan")[2].partition("Optimized Logical Plan")[0]
    assert analysed.count("column a: int64") == 1, "of column b none is needed"
    assert "column b" not in analysed
    assert analysed.count(" AS c0#") == 2, "one projection checks, one picks, before the one that names them"


def test_an_empty_frame(spark):
    for build in (lambda x: x.select("a"), lambda x: x.group_by("a").agg(n=tm.count()), lambda x: x.distinct()):
        assert lines(rendered(spark, build, ROWS + " WHERE a > 5")[0]) == []
    assert lines(rendered(spark, lambda x: x.agg(s=tm.sum("b")), ROWS + " WHERE a > 5")[0]) == ["(None, 0, 1)"]


@pytest.mark.parametrize("text", ["${env:HOME}", "\\${env:HOME}", "\\\\${spark.app.name}'", "$${a}"])
def test_what_looks_like_a_variable_of_spark_is_text(spark, text):
    flow = tm.Dataflow("plain")
    x = flow.input("x", {"s": "string"})
    flow.output("out", x.filter(tm.col("s") == text).select("s", t=tm.lit(text)))
    data = spark.createDataFrame([(text,), ("b",)], "s string")
    assert lines(tm.render(flow, spark, {"x": data})["out"]) == [repr((text, text, 0, 1))]
