"""How window calls are kept up to date, where users ask for it and where they do not: what is said, what is refused."""

import re
from typing import Any

import pytest
from support.random_windows import TXY, W

import tidemill as tm

BY_T = tm.Window.order_by("t")
ENDLESS = W.rows_between(tm.UNBOUNDED, 0)
LOOK_AT_ALL: dict[str, Any] = {
    "the window has no ORDER BY": tm.sum("x").over(tm.Window.partition_by("k")),
    "IGNORE NULLS by an offset that is another for each row": tm.lag("x", tm.col("t"), ignore_nulls=True).over(W),
    "its frame is the whole partition": tm.sum("x").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
    "sum(DISTINCT ...) with EXCLUDE over a frame unbounded on one side": tm.sum("x").over(
        ENDLESS.exclude("ties"), distinct=True
    ),
    "nth_value, but of at most 100 rows, over a frame unbounded on one side": tm.nth_value("x", 101).over(ENDLESS),
    "a RANGE by value over decimals of more than 18 digits": tm.count().over(
        tm.Window.partition_by("k").order_by(tm.col("t").cast("decimal(30,2)")).range_between(-1, 0)
    ),
}


def asked(call, strategy):
    return call.function.over(call.window, strategy=strategy, **({"distinct": True} if call.distinct else {}))


@pytest.mark.parametrize("reason", LOOK_AT_ALL)
def test_what_looks_at_all_is_said_and_refused_where_an_order_was_asked_for(reason):
    flow = tm.Dataflow()
    rows = flow.input("x", TXY)
    flow.output("y", rows.with_columns(c=LOOK_AT_ALL[reason]))
    text = flow.explain()
    assert "recompute (auto)" in text
    is_of_group = "by a group" in text
    assert f"c: recomputed, a change costs its partition, since {reason}\n" in text or is_of_group
    assert is_of_group == (not LOOK_AT_ALL[reason].window.order or reason == "its frame is the whole partition")
    text = (
        f"c: over(strategy='ordered'): a change costs its whole partition here, since: {reason}; expected "
        "strategy='auto', 'recompute' or 'prefix_sum'"
    )
    with pytest.raises(tm.errors.SchemaError, match=re.escape(text)):
        rows.with_columns(c=asked(LOOK_AT_ALL[reason], "ordered"))


def test_what_is_kept_in_order_is_said():
    flow = tm.Dataflow()
    rows = flow.input("x", TXY)
    kept = {"a": tm.lag("x", 2, ignore_nulls=True).over(W), "b": tm.stddev("x").over(ENDLESS)}
    flow.output("y", rows.with_columns(**kept))
    flow.output("z", rows.with_columns(a=tm.rank().over(W, strategy="ordered")))
    text = flow.explain()
    assert text.count("in order or recompute (auto)") == 1
    assert text.count("ordered (as asked)") == 1


def test_in_loops_partitions_are_computed_whole():
    flow = tm.Dataflow()
    rows = flow.input("x", {"t": "int64"})

    def numbered(strategy):
        n = tm.row_number().over(BY_T, strategy=strategy)
        return rows.iterate(lambda here: here.with_columns(n=n).select("t").distinct())

    flow.output("y", numbered("auto"))
    assert "since it is in a loop, or over times of several coordinates\n" in flow.explain()
    with pytest.raises(tm.errors.SchemaError, match=r"n: over\(strategy='ordered'\).* since: it is in a loop"):
        numbered("ordered")


@pytest.mark.usefixtures("small_is_large")
def test_an_order_that_was_asked_for_is_kept(in_order):
    flow = tm.Dataflow()
    calls = {"a": tm.lag("x").over(W, strategy="ordered"), "b": tm.sum("x").over(ENDLESS, strategy="ordered")}
    flow.output("y", flow.input("x", TXY).with_columns(**calls))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, i, i) for i in range(20)])
            each.advance()
            each.insert("x", [(0, 7, 100)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 1
