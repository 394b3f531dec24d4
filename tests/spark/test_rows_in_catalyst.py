"""Lists and extremes of rows that have no counts: computed by Catalyst, and the same as everywhere."""

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.renderer.spark import step

SCHEMA = {"k": "int64", "i": "int32", "x": "float64", "s": "string", "t": "timestamp", "b": "bool"}
NAN = math.nan
VALUES = [
    st.sampled_from([0, 1, None]),
    st.sampled_from([-5, 0, 1, 2, 2**31 - 1, None]),
    st.sampled_from([0.0, -0.0, 0.1, -1e300, math.inf, NAN, None]),
    st.sampled_from(["", "a", "ab", "é", "\U0001f600", "｡", None]),
    st.sampled_from([dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1, 0, 0, 0, 1), None]),
    st.sampled_from([True, False, None]),
]
LISTS = {
    "lists": lambda c: c.group_by("k").agg(l=tm.list("x"), m=tm.list("s"), n=tm.count("x"), h=tm.list("i")),
    "lists and extremes": lambda c: c.group_by("b").agg(l=tm.list("t"), h=tm.max("x"), low=tm.min("s"), n=tm.count()),
    "extremes and sums": lambda c: c.group_by("k").agg(h=tm.max("x"), low=tm.min("t"), s=tm.sum("i"), b=tm.max("b")),
    "of what is distinct": lambda c: c.distinct().group_by("k").agg(l=tm.list("s"), h=tm.min("x")),
}


def flow_of(builds):
    flow = tm.Dataflow("rows")
    rows = flow.input("rows", SCHEMA)
    for name, build in builds.items():
        flow.output(name, build(rows))
    return flow


def expected(flow, names, rows):
    run = flow.start(tm.Reference())
    run.insert("rows", rows)
    run.advance()
    return {name: sorted(map(repr, run.snapshot(name).counts().items())) for name in names}


def rendered(spark, flow, rows):
    data = spark.createDataFrame(rows, "k bigint, i int, x double, s string, t timestamp_ntz, b boolean")
    found = {}
    for name, lines in tm.render(flow, spark, {"rows": data}).items():
        updates = [tuple(tuple(v) if isinstance(v, list) else v for v in line) for line in lines.collect()]
        assert {time for *_, time, _ in updates} <= {0}
        found[name] = sorted(repr((tuple(row), n)) for *row, _, n in updates)
    return found


@pytest.fixture
def no_kernels(monkeypatch):
    def refuse(*_given, **_named):
        pytest.fail("computed by the kernels")

    monkeypatch.setattr(step, "KeyedRound", refuse)


@pytest.mark.usefixtures("no_kernels")
@examples(4)
@given(rows=st.lists(st.tuples(*VALUES), max_size=40))
def test_they_are_those_of_the_reference_engine(spark, rows):
    flow = flow_of(LISTS)
    assert rendered(spark, flow, rows) == expected(flow, LISTS, rows)


def test_rows_with_counts_have_lists_made_by_the_kernels_and_the_same(spark):
    flow = flow_of({"lists": LISTS["lists"]})
    rows = [(1, 2, 0.5, "a", None, True), (1, 2, 0.5, "a", None, True), (1, None, None, None, None, None)]
    data = spark.createDataFrame(rows, "k bigint, i int, x double, s string, t timestamp_ntz, b boolean")
    found = tm.render(flow, spark, {"rows": data.selectExpr("*", "CAST(1 AS bigint) AS diff")})
    lists = [tuple(line)[:5] for line in found["lists"].collect()]
    assert lists == [(1, [None, 0.5, 0.5], [None, "a", "a"], 2, [None, 2, 2])]
