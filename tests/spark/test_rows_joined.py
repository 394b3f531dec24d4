"""Joins and windows of rows without times and counts: Spark's own joins, with what the reference engine gives."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.left_joins import stack
from support.running import examples

import tidemill as tm
from tidemill.renderer.spark import step
from tidemill.renderer.spark.join import NotOfRowsError, partnered

LEFT = {"k": "int64", "j": "string", "x": "int64"}
RIGHT = {"r": "int64", "j": "string", "x": "float64"}
NAMES = {"l": "k bigint, j string, x bigint", "r": "r bigint, j string, x double"}
KEYS = st.sampled_from([None, 1, 2, 3])
TEXTS = st.sampled_from([None, "", "a", "é"])
ROWS = {
    "l": st.lists(st.tuples(KEYS, TEXTS, st.integers(-2, 2)), max_size=12),
    "r": st.lists(st.tuples(KEYS, TEXTS, st.sampled_from([None, -0.0, 0.5, 2.0])), max_size=12),
}
HOWS: list[Any] = ["left", "right", "full", "semi", "anti"]
ON = {"k": "r"}


def flow_of_joins():
    """All kinds of joins: with one key or two or none, with a condition or without, NULLs equal or not."""
    flow = tm.Dataflow("joins")
    left, right = flow.input("l", LEFT), flow.input("r", RIGHT)
    for how in HOWS:
        flow.output(how, left.join(right, on=ON, how=how))
        flow.output(f"{how} by two", left.join(right, on={"k": "r", "j": "j"}, how=how, nulls_equal=True))
        flow.output(f"{how} where", left.join(right, on={"j": "j"}, how=how, where="x < x_right"))
    flow.output("stack", left.join(right, on=ON, how="left").join(right, on={"k": "r"}, how="left", suffix="_2"))
    flow.output("counted", left.join(right, on=ON, how="full").group_by("k").agg(n=tm.count(), s=tm.sum("x_right")))
    ranked = left.with_columns(n=tm.row_number().over(tm.Window.partition_by("j").order_by("x")))
    flow.output("after windows", ranked.join(right, on=ON, how="left"))
    flow.output("inner", left.join(right, on=ON))
    return flow


def rendered(spark, flow, rows, **options):
    """The rows of each output with their counts, and how many updates there are of them."""
    frames = {name: spark.createDataFrame(rows[name], NAMES[name]) for name in NAMES}
    found = {}
    for name, data in tm.render(flow, spark, frames, **options).items():
        lines = [tuple(line) for line in data.collect()]
        counts = Counter()
        for *row, time, diff in lines:
            assert time == 0
            counts[repr(tuple(row))] += diff
        found[name] = counts, len(lines)
    return found


def expected(flow, rows):
    with flow.start(tm.Reference()) as run:
        for name in NAMES:
            run.insert(name, rows[name])
        run.close_inputs()
        return {
            name: Counter({repr(r): n for r, n in run.snapshot(name).counts().items()}) for name in flow.graph.outputs
        }


@pytest.fixture
def no_lowered_joins(monkeypatch):
    def refuse(*_given):
        pytest.fail("made of a distinct, an inner join and a union")

    monkeypatch.setattr(step.Step, "of_threshold", refuse)


@pytest.mark.usefixtures("no_lowered_joins")
@examples(3)
@given(rows=st.fixed_dictionaries(ROWS))
def test_joins_of_rows_are_those_of_the_reference_engine(spark, rows):
    flow = flow_of_joins()
    right = expected(flow, rows)
    for name, (counts, lines) in rendered(spark, flow, rows).items():
        assert counts == right[name], name
        assert lines == (len(counts) if name == "counted" else counts.total()), "equal rows are not added up"


COUNTED = {
    "of counts": lambda l, r: (l.concat(r.select(k="r", j="j", x="1").negate()), r),
    "of the right": lambda l, r: (l, r.concat(r.filter("r = 2").negate()).concat(r.filter("r = 2"))),
    "of a difference": lambda l, r: (l.except_all(l.filter("x > 0")), r),
}


@pytest.mark.parametrize("sides", COUNTED.values(), ids=COUNTED.keys())
def test_joins_of_counts_are_lowered(spark, monkeypatch, sides):
    tried = []

    def noted(*given):
        try:
            return partnered(*given)
        except NotOfRowsError:
            tried.append(given)
            raise

    monkeypatch.setattr(step, "partnered", noted)
    flow = tm.Dataflow("joins")
    left, right = sides(flow.input("l", LEFT), flow.input("r", RIGHT))
    for how in HOWS:
        flow.output(how, left.join(right, on=ON, how=how))
    rows = {"l": [(1, "a", 1), (1, "a", 1), (2, "", 2), (None, "a", 0)], "r": [(1, "a", 0.5), (2, None, 1.0)]}
    found = rendered(spark, flow, rows)
    assert {name: counts for name, (counts, _) in found.items()} == expected(flow, rows)
    assert len(tried) == 1


def test_conditions_that_spark_has_not_and_errors_in_them_are_left_to_the_lowering(spark):
    flow = tm.Dataflow("joins")
    left, right = flow.input("l", LEFT), flow.input("r", RIGHT)
    flow.output("texts", left.join(right, on=ON, how="left", where="CAST(j AS bigint) = 1"))
    flow.output("quotients", left.join(right, on=ON, how="anti", where="10 / x > x_right"))
    rows: dict[str, list[Any]] = {"l": [(1, "1", 5), (2, "1", 5), (3, "b", 0)], "r": [(1, "a", 0.5), (2, "a", 3.0)]}
    found = rendered(spark, flow, rows)
    assert {name: counts for name, (counts, _) in found.items()} == expected(flow, rows)
    rows["r"].append((3, "a", 1.0))
    with pytest.raises(tm.errors.ExpressionError):
        rendered(spark, flow, rows)


def test_a_stack_of_left_joins_is_as_many_joins_of_spark_and_no_jobs_before_it_is_read(spark):
    depth = 6
    frames = {"t": spark.sql("SELECT id AS x, id AS y FROM range(50)")}
    frames |= {f"d{i}": spark.sql(f"SELECT id * 2 AS x, id AS z{i} FROM range(20)") for i in range(depth)}
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    out = tm.render(stack(depth), spark, frames)["out"]
    assert len(tracker.getJobIdsForGroup(None)) == before
    assert out._jdf.queryExecution().optimizedPlan().toString().count("Join LeftOuter") == depth
    assert "Aggregate" not in out._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(tuple(row) for row in out.collect()) == sorted(
        (i, i, *[i // 2 if i % 2 == 0 and i < 40 else None] * depth, 0, 1) for i in range(50)
    )
