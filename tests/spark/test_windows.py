"""Window calls on Spark, rendered and live: the kernels, run on whole partitions in executors, say what the others do."""

import datetime as dt
import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import cases
from support.running import examples

import tidemill as tm
from tidemill.expressions.schema import Schema
from tidemill.renderer.spark import step
from tidemill.renderer.spark.types import struct
from tidemill.testing import all_at_once, check_equivalent, time_by_time
from tidemill.testing.spark_engines import SparkLive

TXY = {"k": "int64", "t": "timestamp", "x": "float64"}
W = tm.Window.partition_by("k").order_by("t")
AT = [dt.datetime(2024, 3, day, 12) for day in (1, 2, 3)]
CHANGES = [(1, AT[0], 0.1, 1), (1, AT[1], 1e20, 2), (2, None, None, 1), (1, AT[1], 1e20, -1), (2, AT[2], -0.5, 1)]
TIMES: dict[int, list[Any]] = {1: [0, 1, 0, 2, 1], 2: [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]}


@pytest.mark.parametrize("coordinates", [1, 2])
def test_engines_agree(spark, coordinates):
    flow = tm.Dataflow(time="epoch" if coordinates == 1 else ("event", "correction"))
    x = flow.input("x", TXY)
    flow.output(
        "calls",
        x.with_columns(
            change=tm.col("x") - tm.lag("x").over(W),
            near=tm.sum("x").over(W.range_between(tm.interval(days=-1), 0)),
            place=tm.row_number().over(tm.Window.order_by(tm.desc("x"))),
            behind=tm.count().over(W.rows_between(0, -1)),  # empty, though Spark's own windows refuse it
            behind_too=tm.sum("x").over(W.range_between(tm.interval(days=1), 0)),
        ),
    )
    flow.output(
        "loop",
        x.distinct().iterate(
            lambda c: c.with_columns(x=tm.min("x").over(W.rows_between(-1, 0))).concat(x).distinct(), return_at=3
        ),
    )
    updates = [(tuple(row), time, count) for (*row, count), time in zip(CHANGES, TIMES[coordinates])]
    engines: list[Any] = ["reference", "embedded", "spark"]
    if coordinates == 1:
        engines.append(SparkLive(in_driver=0))
    check_equivalent(flow, {"x": updates}, engines=engines, batchings=[all_at_once, time_by_time])


def test_windows_over_a_join_without_any_pairs_have_no_rows(spark):
    flow = tm.Dataflow()
    x, y = flow.input("x", TXY), flow.input("y", {"k": "int64"})
    flow.output("calls", x.join(y, on="k").with_columns(place=tm.row_number().over(W)))
    updates: dict[str, Any] = {"x": [((1, AT[0], 0.1), 0, 1)], "y": [((2,), 0, 1)]}
    engines: list[Any] = ["reference", "spark", SparkLive(in_driver=0)]
    check_equivalent(flow, updates, engines=engines, batchings=[all_at_once])


def test_engines_agree_on_sums_over_the_order(spark):
    """The other rendering: joins, groups and table functions, with no task that sees a whole partition."""
    flow = tm.Dataflow()
    x = flow.input("x", TXY)
    flow.output("calls", x.with_columns(before=tm.lag("x").over(W, strategy="prefix_sum")))
    updates = [(tuple(row), time, count) for (*row, count), time in zip(CHANGES, TIMES[1])]
    check_equivalent(flow, {"x": updates}, engines=["reference", "embedded", "spark"], batchings=[all_at_once])


def test_ties_behind_steps_that_add_columns_are_those_before(spark):
    """In tasks, rendered and live, as in the other engines: of windows, top-k, first and list."""
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "v": "string", "t": "int64"})
    w = tm.Window.partition_by("k").order_by("t")
    more = x.with_columns(n=tm.row_number().over(w)).select(tm.expr("v || 'x'").alias("e"), "t", "v", "k", "n")
    both = more.with_columns(again=tm.row_number().over(w), near=tm.list("v").over(w.rows_between(-1, 0)))
    flow.output("windows", both)
    flow.output("unequal", both.filter("n <> again"))
    flow.output("first", more.with_columns(again=tm.row_number().over(w)).filter("again <= 2").filter("n <> again"))
    for name, c in (("before", x), ("behind", more)):
        flow.output(f"top {name}", c.group_by("k").top_k(2, order_by="t").select("k", "v", "t"))
        flow.output(f"groups {name}", c.group_by("k").agg(f=tm.first("v", order_by="t"), l=tm.list("v", order_by="t")))
    rows = [(k, v, t) for k in (1, 2) for v in "abcdef" for t in (0, 1)]
    updates = [(row, i % 2, 1) for i, row in enumerate(rows)]
    check_equivalent(
        flow, {"x": updates}, engines=["reference", "spark", SparkLive(in_driver=0)], batchings=[all_at_once]
    )
    frames = tm.render(flow, spark, {"x": spark.createDataFrame(rows, "k bigint, v string, t bigint")})
    found = {name: sorted(map(tuple, frame.collect()), key=repr) for name, frame in frames.items()}
    assert found["windows"]
    assert not found["unequal"] + found["first"]
    for what in ("top", "groups"):
        assert found[f"{what} before"] == found[f"{what} behind"]


BY_T = "over (partition by k order by t nulls first, id"
BY_DAY = "over (partition by k order by t nulls first"
SPARKS = {
    "lag": f"lag(x, 2, -1.0) {BY_T})",
    "known": f"lag(x, 1) ignore nulls {BY_T})",
    "lead": f"lead(id) {BY_T} desc)",
    "number": f"row_number() {BY_T})",
    "rank": "rank() over (partition by k order by t desc nulls last)",
    "dense": f"dense_rank() {BY_DAY})",
    "percent": f"percent_rank() {BY_DAY})",
    "dist": f"cume_dist() {BY_DAY})",
    "fifth": f"ntile(5) {BY_T})",
    "first": f"first_value(x) ignore nulls {BY_T} rows between 3 preceding and 1 preceding)",
    "last": f"last_value(id) {BY_T} rows between 1 following and 3 following)",
    "third": f"nth_value(id, 3) {BY_T} rows between unbounded preceding and unbounded following)",
    "total": f"sum(id) {BY_T} rows between 2 preceding and 2 following)",
    "so_far": f"sum(id) {BY_DAY})",
    "count": f"count(x) {BY_DAY} range between unbounded preceding and current row)",
    "days": f"max(x) {BY_DAY} range between interval '1' day preceding and interval '2' day following)",
    "least": f"min(x) {BY_T} rows between unbounded preceding and 1 preceding)",
    "mean": f"avg(id) {BY_T} rows 4 preceding)",
    "some": f"count(*) filter (where x > 0) {BY_DAY})",
    "all": "sum(id) over (partition by k)",
}


def test_values_are_those_of_sparks_own_windows(spark):
    dice = random.Random(5)
    days = [None, *(dt.datetime(2024, 3, d, h) for d in range(1, 9) for h in (0, 12))]
    rows = [(i, i % 3, dice.choice(days), dice.choice([None, -1.5, 0.0, 2.25, 7.0])) for i in range(120)]
    schema = {"id": "int64", "k": "int64", "t": "timestamp", "x": "float64"}
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", schema).select("id", **SPARKS))
    columns = "id bigint, k bigint, t timestamp_ntz, x double"
    given = spark.createDataFrame(rows, columns)
    ours = tm.render(flow, spark, {"x": given})["y"].select("id", *SPARKS).orderBy("id").collect()
    given.createOrReplaceTempView("given_rows")
    texts = ", ".join(f"{text} AS `{name}`" for name, text in SPARKS.items())
    theirs = spark.sql(f"SELECT id, {texts} FROM given_rows ORDER BY id").collect()
    for name in SPARKS:
        assert [(r.id, r[name]) for r in ours] == [(r.id, r[name]) for r in theirs], name


KTV = {"k": "string", "t": "float64", "v": "int64", "x": "float64", "s": "string", "b": "bool", "d": "decimal(6,2)"}
KTV_TEXT = "k string, t double, v bigint, x double, s string, b boolean, d decimal(6,2)"
V = tm.Window.partition_by("k").order_by(tm.desc("t"))
SO_FAR = V.rows_between(tm.UNBOUNDED, 0)
OWN = {
    "number": tm.row_number().over(V),
    "rank": tm.rank().over(V),
    "dense": tm.dense_rank().over(V),
    "nulls last": tm.rank().over(tm.Window.partition_by("k").order_by(tm.asc("v", nulls="last"))),
    "percent": tm.percent_rank().over(V),
    "dist": tm.cume_dist().over(V),
    "third": tm.ntile(3).over(V),
    "lag": tm.lag("s", 2, "none").over(V),
    "lead": tm.lead("x").over(V),
    "first": tm.first_value("v", ignore_nulls=True).over(V.rows_between(-2, 1)),
    "last": tm.last_value("s").over(SO_FAR),
    "second": tm.nth_value("x", 2).over(SO_FAR),
    "near": tm.sum("v").over(V.rows_between(-2, 2)),
    "floats": tm.sum("x").over(SO_FAR),
    "mean": tm.avg("x").over(V.rows_between(-3, -1)),
    "whole mean": tm.avg("v").over(V.rows_between(0, 3)),
    "total": tm.sum("d").over(tm.Window.partition_by("k")),
    "peers": tm.count("b").over(V.range_between(tm.UNBOUNDED, 0)),
    "greatest": tm.max("x").over(V.groups_between(tm.UNBOUNDED, 0)),
    "least": tm.min("s").over(SO_FAR),
    "some": tm.bool_or("b").over(SO_FAR),
    "all": tm.bool_and("b").over(tm.Window.partition_by("k", "b")),
}
"""Calls that mean the same in Spark's own windows."""
ROWS_KTV = st.tuples(
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, 0.0, -0.0, 1.0, math.nan]),
    st.none() | st.integers(-3, 3),
    st.sampled_from([None, 0.1, 1e9, -1e9, 2.0**-60, -0.0]),
    st.sampled_from([None, "", "é", "z"]),
    st.sampled_from([None, True, False]),
    st.none() | st.decimals(-9, 9, places=2),
)


def agree(spark, flow, rows, text):
    """Check that a rendering of rows has what the reference engine has, or an error as it has one."""
    with flow.start(tm.Reference()) as run:
        run.insert("x", rows)
        try:
            run.close_inputs()
        except tm.errors.StepError as error:
            with pytest.raises(type(error)):
                [frame.collect() for frame in tm.render(flow, spark, {"x": spark.createDataFrame(rows, text)}).values()]
            return
        expected = {n: Counter({repr(r): c for r, c in run.snapshot(n).counts().items()}) for n in flow.graph.outputs}
    for name, frame in tm.render(flow, spark, {"x": spark.createDataFrame(rows, text)}).items():
        found: Counter[str] = Counter()
        for *row, time, diff in map(tuple, frame.collect()):
            assert time == 0
            found[repr(tuple(tuple(v) if isinstance(v, list) else v for v in row))] += diff
        assert found == expected[name], name


@examples(3)
@given(rows=st.lists(ROWS_KTV, max_size=25))
def test_calls_of_rows_are_sparks_own_windows(spark, rows):
    def refuse(*_given, **_named):
        pytest.fail("computed by the kernels")

    flow = tm.Dataflow()
    x = flow.input("x", KTV)
    flow.output("all", x.with_columns(**OWN))
    flow.output("ranks", x.with_columns(rank=OWN["rank"]))
    some = tm.Dataflow()
    few = some.input("x", KTV).select("k", "t").with_columns(number=OWN["number"], lag=tm.lag("t").over(V))
    some.output("numbered", few)
    agree(spark, some, rows, KTV_TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "KeyedRound", refuse)
        agree(spark, flow, rows, KTV_TEXT)


@examples(6)
@given(cases())
def test_windows_of_random_rows_are_those_of_the_reference_engine(spark, case):
    schema, rows, calls = case
    flow = tm.Dataflow()
    x = flow.input("x", schema)
    for name, call in calls.items():
        flow.output(name, x.with_columns(**{name: call}))
    given_rows = [row for row, count in rows.items() for _ in range(min(abs(count), 3))]
    agree(spark, flow, given_rows, struct(Schema.of(schema)))


def test_floats_far_apart_are_added_up_by_the_kernels(spark):
    flow = tm.Dataflow()
    near = tm.Window.partition_by("k").order_by("x").rows_between(-1, 0)
    flow.output("y", flow.input("x", {"k": "int64", "x": "float64"}).with_columns(s=tm.sum("x").over(near)))
    agree(spark, flow, [(1, 1e300), (1, math.inf), (2, 5e-324), (2, 0.5)], "k bigint, x double")
