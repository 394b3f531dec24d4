"""Window calls by Spark's own windows: taken where they mean the same, and then the same as the reference's values."""

import datetime as dt
import decimal
from typing import Any

import pytest
import random_windows
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from running import examples, new_flow

import tidemill as tm
from tidemill.errors import ExpressionError, NegativeCountError
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.binding import bind_windows
from tidemill.renderer.spark import native_windows
from tidemill.renderer.spark.dataframes import updates_of
from tidemill.testing import all_at_once, check_equivalent

SCHEMA = {
    "k": "string", "t": "timestamp", "n": "int64", "x": "float64", "b": "bool", "m": "decimal(28,2)", "w": "decimal(29,2)",
    "d": "date",
}  # fmt: skip
W = tm.Window.partition_by("k").order_by("t")
SOME: Any = (-31, 0)


def shared(call, schema):
    """Whether Spark's own window means the same as a call."""
    (bound,) = bind_windows([("call", call)], Schema.of(schema))
    return all(native_windows._in_spark(c, bound.windows) is not None for c in bound.windows.calls)


NATIVE = {
    "row_number": tm.row_number().over(W),
    "row_number without an order": tm.row_number().over(tm.Window()),
    "rank": tm.rank().over(W),
    "dense_rank": tm.dense_rank().over(W),
    "percent_rank": tm.percent_rank().over(W),
    "cume_dist": tm.cume_dist().over(W),
    "ntile": tm.ntile(7).over(W),
    "lag": tm.lag("x", 3, 1.5).over(W),
    "lead of known values": tm.lead("x", -2, ignore_nulls=True).over(W),
    "lag with a default by row": tm.lag("n", 1, tm.col("n")).over(W),
    "first of a few": tm.first_value("m").over(W.rows_between(-3, 3)),
    "first of the default frame": tm.first_value("m").over(W),
    "last of so many": tm.last_value("t", ignore_nulls=True).over(W.rows_between(tm.UNBOUNDED, -1)),
    "third of all": tm.nth_value("d", 3).over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
    "count of peers": tm.count().over(W.range_between(0, 0)),
    "count up to here": tm.count("x").over(W.groups_between(tm.UNBOUNDED, 0)),
    "sum of whole numbers": tm.sum("n").filter("x > 0").over(W),
    "sum of decimals": tm.sum("m").over(W.rows_between(*SOME)),
    "mean of whole numbers": tm.avg("n").over(W.rows_between(*SOME)),
    "mean of all": tm.avg("n").over(tm.Window.partition_by("k")),
    "least float": tm.min("x").over(W),
    "greatest, each once": tm.max("k").over(W, distinct=True),
    "all true": tm.bool_and("b").over(W.rows_between(0, 4)),
    "any true": tm.bool_or("b").over(W),
}
BY_KERNELS = {
    "rank without an order": tm.rank().over(tm.Window()),
    "ntile by row": tm.ntile("n").over(W),
    "lag by row": tm.lag("x", "n").over(W),
    "lag so far that Spark's ints end": tm.lag("x", 2**31).over(W),
    "nth by row": tm.nth_value("x", "n").over(W),
    "last of peers, whose order Spark does not know": tm.last_value("x").over(W),
    "first known of peers": tm.first_value("x", ignore_nulls=True).over(W),
    "sum of floats": tm.sum("x").over(W),
    "mean of floats": tm.avg("x").over(W),
    "variance": tm.variance("n").over(W),
    "stddev": tm.stddev("n").over(W),
    "mean of decimals": tm.avg("m").over(W),
    "sum of decimals that may overflow": tm.sum("w").over(W),
    "list": tm.list("n").over(W),
    "count of values, each once": tm.count("n").over(W, distinct=True),
    "count_distinct": tm.count_distinct("n").over(W),
    "sum of values, each once": tm.sum("n").over(W, distinct=True),
    "EXCLUDE": tm.count().over(W.exclude("current row")),
    "all but": tm.count().over(tm.Window.partition_by("k").exclude("ties")),
    "GROUPS with an offset": tm.count().over(W.groups_between(-1, 0)),
    "RANGE with an offset": tm.count().over(W.range_between(dt.timedelta(days=-1), 0)),
    "frames too long to be added up anew": tm.sum("n").over(W.rows_between(-32, 0)),
    "frames up to the end": tm.sum("n").over(W.rows_between(0, tm.UNBOUNDED)),
    "groups up to the end": tm.sum("n").over(W.range_between(0, tm.UNBOUNDED)),
    "no frame at all": tm.count().over(W.rows_between(1, -1)),
    "bounds beyond Spark's ints": tm.count().over(W.rows_between(tm.UNBOUNDED, 2**31)),
}  # fmt: skip


@pytest.mark.parametrize("name", NATIVE)
def test_calls_that_spark_computes(name):
    assert shared(NATIVE[name], SCHEMA)


@pytest.mark.parametrize("name", BY_KERNELS)
def test_calls_that_the_kernels_compute(name):
    assert not shared(BY_KERNELS[name], SCHEMA)


@pytest.fixture
def taken(monkeypatch):
    """The functions of the calls that Spark's own windows have computed."""
    found = []
    windowed = native_windows.windowed

    def noted(node, frame, *, is_shown):
        found.extend(call.function for call in node.logic.calls)
        return windowed(node, frame, is_shown=is_shown)

    monkeypatch.setattr(native_windows, "windowed", noted)
    return found


@st.composite
def cases(draw):
    """Rows with copies, and some of many random calls over one partitioning and order: those that Spark shares."""
    schema = {**draw(random_windows.schemas()), "x": draw(st.sampled_from(list(random_windows.FEW)))}
    window, order_type = draw(random_windows.windows(schema))
    some = draw(st.lists(random_windows.calls(schema, window, order_type), min_size=24, max_size=24))
    some = [call for call in some if shared(call, schema)][:8]
    return schema, draw(random_windows.rows(schema)), {f"c{i}": call for i, call in enumerate(some)}


def test_random_calls_agree_with_the_reference(spark, taken):
    @settings(examples(16, least=3), phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=cases())
    def agree(case):
        schema, rows, calls = case
        assume(rows and calls)
        flow = new_flow()
        flow.output("out", flow.input("x", schema).with_columns(**calls))
        updates = [(row, 0, count) for row, count in rows.items()]
        check_equivalent(flow, {"x": updates}, engines=["reference", "spark"], batchings=[all_at_once])

    agree()
    assert taken


def values():
    """One of the same few values in each row, so that there are ties in the order, equal rows and NULL everywhere."""
    moment = dt.datetime(2024, 3, 1)
    day = dt.timedelta(days=1)
    return [
        (
            "ab"[i % 2],
            None if i % 5 == 0 else moment + day * (i % 3),
            None if i % 4 == 0 else i % 6,
            [None, 0.5, float("nan"), -2.0][i % 4],
            [None, True, False][i % 3],
            decimal.Decimal(i % 7).scaleb(-2),
            None,
            (moment + day * (i % 4)).date(),
        )
        for i in range(60)
    ]


def render(spark, flow, updates):
    data = updates_of(spark, flow.graph.inputs["x"], [(*row, 0, diff) for row, diff in updates], ["time", "diff"])
    return tm.render(flow, spark, {"x": data})["out"]


@pytest.mark.parametrize("copies", [1, 3])
def test_all_of_them_agree_with_the_reference(spark, taken, copies):
    flow = new_flow()
    flow.output("out", flow.input("x", SCHEMA).with_columns(**{f"c{i}": c for i, c in enumerate(NATIVE.values())}))
    updates = [(row, 0, 1 + i % copies) for i, row in enumerate(values())]
    check_equivalent(flow, {"x": updates}, engines=["reference", "spark"], batchings=[all_at_once])
    assert len(taken) >= len(NATIVE) - 2  # means of whole partitions are groups'


def test_what_is_not_shown_is_not_looked_at(spark, taken, monkeypatch):
    """Rows are there twice, but only a sum of theirs is asked for."""
    monkeypatch.setattr(native_windows, "checkpointed", None)
    flow = new_flow()
    before = flow.input("x", SCHEMA).select("k", before=tm.lag("n").over(W))
    flow.output("out", before.group_by("k").agg(total=tm.sum("before"), rows=tm.count()))
    updates = [(row, 0, 1 + i % 2) for i, row in enumerate(values())]
    check_equivalent(flow, {"x": updates}, engines=["reference", "spark"], batchings=[all_at_once])
    assert taken == ["lag"]


def test_rows_of_a_unique_input_are_not_looked_at(spark, taken, monkeypatch):
    monkeypatch.setattr(native_windows, "checkpointed", None)
    flow = new_flow()
    flow.output(
        "out",
        flow.input("x", {"k": "int64"}, unique=True).with_columns(n=tm.row_number().over(tm.Window.order_by("k"))),
    )
    assert sorted(map(tuple, render(spark, flow, [((i,), 1) for i in (7, 5)]).collect())) == [
        (5, 1, 0, 1),
        (7, 2, 0, 1),
    ]
    assert taken == ["row_number"]


@pytest.mark.parametrize("updates", [[((5,), 2), ((6,), 1)], [((5,), 1), ((6,), 1), ((5,), 1)]])
@pytest.mark.parametrize(("call", "found"), [(tm.rank(), [(5, 1, 0, 2), (6, 3, 0, 1)]), (tm.row_number(), [(5, 1, 0, 1), (5, 2, 0, 1), (6, 3, 0, 1)])])  # fmt: skip
def test_copies_of_equal_values_are_one_line(spark, taken, updates, call, found):
    flow = new_flow()
    flow.output("out", flow.input("x", {"k": "int64"}).with_columns(n=call.over(tm.Window.order_by("k"))))
    assert sorted(map(tuple, render(spark, flow, updates).collect())) == found
    assert taken == [call.function]


def test_what_is_taken_back_at_once_is_not_there(spark, taken):
    flow = new_flow()
    flow.output("out", flow.input("x", {"k": "int64"}).with_columns(n=tm.row_number().over(tm.Window.order_by("k"))))
    updates = [((5,), 1), ((6,), 2), ((5,), -1), ((7,), 1), ((6,), -1), ((8,), 0)]
    assert sorted(map(tuple, render(spark, flow, updates).collect())) == [(6, 1, 0, 1), (7, 2, 0, 1)]
    assert taken == ["row_number"]


@pytest.mark.parametrize(
    ("updates", "kind", "message"),
    [
        ([((5,), -1)], NegativeCountError, r"row \(5,\) has the count -1, and a negative count has no meaning here"),
        ([((5,), 2**24 + 1)], ExpressionError, "the row is there 16777217 times, each of them a row of its own"),
        ([((2**63 - 1,), 1), ((1,), 1)], ExpressionError, "overflow"),
    ],
)
def test_errors_are_those_of_the_kernels(spark, taken, updates, kind, message):
    flow = new_flow()
    flow.output("out", flow.input("x", {"k": "int64"}).with_columns(n=tm.sum("k").over(tm.Window.order_by("k"))))
    with pytest.raises(kind, match=message):
        render(spark, flow, updates)
    assert taken == ["sum"]


def test_parts_of_a_frame_may_overflow_and_means_of_large_sums_are_exact(spark, taken):
    most, window = 2**63 - 1, tm.Window.order_by("k").rows_between(-2, 0)
    flow = new_flow()
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("out", x.with_columns(total=tm.sum("v").over(window), mean=tm.avg("v").over(window)))
    updates = [((1, -most), 1), ((2, most), 1), ((3, most), 1)]
    found = sorted(map(tuple, render(spark, flow, updates).collect()))
    assert [row[2:4] for row in found] == [(-most, float(-most)), (0, 0.0), (most, most / 3)]
    assert taken == ["sum", "avg"]


def test_other_times_and_loops_are_the_kernels(spark, taken):
    flow = new_flow()
    x = flow.input("x", random_windows.TXY)
    place = tm.row_number().over(random_windows.W)
    flow.output("loop", x.iterate(lambda c: c.with_columns(x=place).concat(x).distinct(), return_at=2))
    check_equivalent(flow, {"x": [((1, 2, 3), 0, 1)]}, engines=["reference", "spark"], batchings=[all_at_once])
    flow = new_flow()
    flow.output("out", flow.input("x", random_windows.TXY).with_columns(n=place))
    updates = [((1, 2, 3), 0, 1), ((1, 2, 4), 1, 1)]
    check_equivalent(flow, {"x": updates}, engines=["reference", "spark"], batchings=[all_at_once])
    assert taken == []
