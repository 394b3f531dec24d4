"""Window calls in order over frames that go on to the partition's first row, or to its last."""

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import TXY, W
from support.running import examples

import tidemill as tm
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.windows import affected
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

pytestmark = pytest.mark.usefixtures("small_is_large")

DOWN = tm.Window.partition_by("k").order_by(tm.desc("t", nulls="first"))
ENDLESS = [
    W.rows_between(tm.UNBOUNDED, 0),
    W.rows_between(tm.UNBOUNDED, -2).exclude("current row"),
    W.rows_between(tm.UNBOUNDED, 1).exclude("group"),
    W.rows_between(-1, tm.UNBOUNDED),
    W.rows_between(2, tm.UNBOUNDED),
    W,
    W.range_between(tm.UNBOUNDED, 2),
    W.range_between(1, tm.UNBOUNDED).exclude("ties"),
    W.range_between(tm.UNBOUNDED, -2),
    W.range_between(3, tm.UNBOUNDED),
    DOWN.range_between(tm.UNBOUNDED, -2).exclude("current row"),
    DOWN.range_between(-1, tm.UNBOUNDED),
    W.groups_between(tm.UNBOUNDED, -1),
    W.groups_between(0, tm.UNBOUNDED).exclude("current row"),
]
ADDED_UP: dict[str, list[Any]] = {
    "int64": [None, 0, 1, 5, -3, 2**63 - 1, -(2**62)],
    "float64": [None, 0.5, 0.1, 1e20, -1e20, 3e-300, math.nan, math.inf, -math.inf],
    "decimal(38,2)": [None, Decimal("0.10"), Decimal("-7.00"), Decimal(2**62), Decimal(-(10**35)), Decimal(10**35)],
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ADDED_UP)
@examples(80)
@given(data=st.data())
def test_frames_without_a_bound(data, dtype):
    """What is before the rows that are looked at, or after them, is counted, added up and compared, not gone through."""
    functions: list[Any] = [tm.count(), tm.count("x"), tm.sum("x"), tm.avg("x"), tm.stddev("x"), tm.variance("x")]
    functions += [tm.min("x"), tm.max("x"), tm.list("x"), tm.list("x").filter("t > 3")]
    one: list[Any] = [tm.first_value, tm.last_value, lambda x, **how: tm.nth_value(x, 3, **how)]
    ends = [of_frame("x", ignore_nulls=ignored) for of_frame in one for ignored in (False, True)]
    calls_drawn = data.draw(
        st.lists(st.tuples(st.sampled_from([*functions, *ends]), st.sampled_from(ENDLESS)), min_size=1, max_size=3)
    )
    flow = tm.Dataflow("endless")
    schema = {"k": "int64", "t": "int64", "x": dtype}
    calls_made = {f"c{i}": function.over(window) for i, (function, window) in enumerate(calls_drawn)}
    flow.output("y", flow.input("x", schema).with_columns(**calls_made))
    values: dict[str, list[Any]] = {"k": [1, 1, 1, 2], "t": [None, *range(8), 12, 13], "x": ADDED_UP[dtype]}
    found = data.draw(updates(schema, 1, max_size=24, latest=5, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


TEXTS: dict[str, list[Any]] = {
    "string": [
        None,
        "",
        "tidemills 1",
        "tidemills 2",
        "tidemills 10",
        "tidemills \N{LATIN SMALL LETTER U WITH DIAERESIS}",
    ],
    "binary": [None, b"", b"\xff", b"tidemills 1", b"tidemills 2", b"tidemills"],
    "list<string>": [None, (), (None,), ("tidemills 1",), ("tidemills 1", "a"), ("tidemills 2",)],
    "list<float64>": [None, (), (math.nan,), (1.5, None), (1.5, -math.inf), (2.5,)],
    "decimal(38,2)": [*ADDED_UP["decimal(38,2)"], Decimal(10**35 + 1), Decimal(-(10**35) - 1), Decimal(2**61)],
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TEXTS)
@examples(60)
@given(data=st.data())
def test_extremes_of_values_whose_codes_are_in_no_order(data, dtype):
    """Values that begin alike, too: what is beyond the rows looked at is compared by value."""
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from([tm.min, tm.max]), st.sampled_from(ENDLESS)), min_size=1, max_size=3)
    )
    flow = tm.Dataflow("extremes")
    schema = {"k": "int64", "t": "int64", "x": dtype}
    calls_made = {f"c{i}": function("x").over(window) for i, (function, window) in enumerate(drawn)}
    flow.output("y", flow.input("x", schema).with_columns(**calls_made))
    values: dict[str, list[Any]] = {"k": [1], "t": [None, *range(12)], "x": TEXTS[dtype]}
    found = data.draw(updates(schema, 1, max_size=24, latest=8, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


@pytest.mark.parametrize("frame", [(tm.UNBOUNDED, -2), (tm.UNBOUNDED, 2), (2, tm.UNBOUNDED), (-2, tm.UNBOUNDED)])
@pytest.mark.parametrize("by", [tm.asc, tm.desc])
@pytest.mark.parametrize("apart", [1, 7])
def test_a_range_that_ends_before_its_row_or_begins_after_it(frame, by, apart, in_order):
    """What lies between the row and the bound is in no frame, and there may be nothing there."""
    window = tm.Window.partition_by("k").order_by(by("t")).range_between(*frame)
    calls: list[Any] = [tm.count(), tm.sum("x"), tm.max("x"), tm.first_value("x"), tm.last_value("x")]
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(**{f"c{i}": call.over(window) for i, call in enumerate(calls)}))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, i * apart, i) for i in range(12)])
            each.advance()
            each.insert("x", [(0, 6 * apart, 100)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 1


def test_values_that_are_not_null_beyond_the_rows_looked_at(in_order, looked_at):
    so_far, from_here = W.rows_between(tm.UNBOUNDED, -1), W.rows_between(1, tm.UNBOUNDED)
    flow = tm.Dataflow()
    rows = flow.input("x", TXY)
    flow.output(
        "y",
        rows.with_columns(
            f=tm.first_value("x", ignore_nulls=True).over(so_far), l=tm.last_value("x", ignore_nulls=True).over(so_far)
        ),
    )
    flow.output("z", rows.with_columns(f=tm.first_value("x", ignore_nulls=True).over(from_here)))
    with flow.start() as run:
        run.insert("x", [(0, i, i if i in (3, 5, 90) else None) for i in range(100)])
        run.advance()
        run.insert("x", [(0, 80, 7)])
        run.advance()
        shown = {row[1]: row[3:] for row in run.snapshot("y") if row[2] is None}
        assert (shown[3 + 1], shown[79], shown[89], shown[99]) == ((3, 3), (3, 5), (3, 7), (3, 90))
        ahead = {row[1]: row[3] for row in run.snapshot("z") if row[2] is None}
        assert (ahead[0], ahead[50], ahead[85], ahead[95]) == (3, 7, 90, None)
    assert len(in_order) == 2
    assert max(looked_at) < 200


def test_a_late_change_of_a_running_sum_looks_at_the_rows_behind_it(in_order, looked_at):
    flow = tm.Dataflow()
    running = W.rows_between(tm.UNBOUNDED, 0)
    calls_made = {"s": tm.sum("x").over(running), "m": tm.max("x").over(running), "f": tm.first_value("x").over(W)}
    flow.output("y", flow.input("x", TXY).with_columns(**calls_made))
    with flow.start() as run:
        run.insert("x", [(0, i, i) for i in range(3000)])
        run.advance()
        run.insert("x", [(0, 2990, 7)])
        run.advance()
        assert list(run.snapshot("y"))[-1] == (0, 2999, 2999, 2999 * 1500 + 7, 2999, 0)
    assert len(in_order) == 1
    assert looked_at[0] < 30


def test_an_early_change_of_a_sum_to_the_end_looks_at_the_rows_before_it(in_order, looked_at):
    flow = tm.Dataflow()
    from_here = W.rows_between(0, tm.UNBOUNDED)
    calls_made = {
        "s": tm.sum("x").over(from_here),
        "m": tm.max("x").over(from_here),
        "l": tm.last_value("x").over(from_here),
    }
    flow.output("y", flow.input("x", TXY).with_columns(**calls_made))
    with flow.start() as run:
        run.insert("x", [(0, i, i) for i in range(3000)])
        run.advance()
        run.delete("x", [(0, 9, 9)])
        run.advance()
        first, *_ = run.snapshot("y")
        assert first == (0, 0, 0, 2999 * 1500 - 9, 2999, 2999)
    assert len(in_order) == 1
    assert looked_at[0] < 30


def test_lag_that_passes_over_nulls_reaches_as_far_as_there_are_values(in_order, looked_at):
    flow = tm.Dataflow()
    before, after = (of("x", 2, ignore_nulls=True).over(W) for of in (tm.lag, tm.lead))
    flow.output("y", flow.input("x", TXY).with_columns(before=before, after=after))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, i, i if i % 10 == 0 else None) for i in range(400)])
            each.advance()
            each.insert("x", [(0, 203, 7)])
            each.advance()
            each.delete("x", [(0, 210, 210)])
            each.advance()
            each.insert("x", [(0, 307, None)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 3
    # From two values before the rows that change to two after, and nothing around these; of one without a value, itself.
    assert looked_at == [2 * 31 + 1, 2 * 32 - 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("frame", [(tm.UNBOUNDED, 0), (0, tm.UNBOUNDED)])
@pytest.mark.parametrize("dtype", ["int64", "float64", "decimal(30,2)"])
def test_spreads_and_nth_values_over_frames_without_a_bound(frame, dtype, in_order, looked_at):
    window = W.rows_between(*frame)
    calls: list[Any] = [tm.stddev("x"), tm.variance("x"), tm.nth_value("x", 2), tm.nth_value("x", 3, ignore_nulls=True)]
    flow = tm.Dataflow()
    rows = flow.input("x", {"k": "int64", "t": "int64", "x": dtype})
    flow.output("y", rows.with_columns(**{f"c{i}": call.over(window) for i, call in enumerate(calls)}))
    kind = {"int64": int, "float64": float, "decimal(30,2)": Decimal}[dtype]
    place = 295 if frame[0] is tm.UNBOUNDED else 5
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, i, None if i % 7 == 0 else kind(i % 5 * 10**6)) for i in range(300)])
            each.advance()
            each.insert("x", [(0, place, kind(3))])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 1
    assert looked_at[0] < 30


def test_values_near_others_that_are_null_are_counted_by_rows_beyond_these(in_order, monkeypatch):
    """Of edits that are looked at together, the last one with a value says how far its like are looked for."""
    monkeypatch.setattr(affected, "TOGETHER", 64)
    flow = tm.Dataflow()
    before, after = (of("x", ignore_nulls=True).over(W) for of in (tm.lag, tm.lead))
    flow.output("y", flow.input("x", TXY).with_columns(before=before, after=after))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, i, i if i % 20 == 0 else None) for i in range(100)])
            each.advance()
            each.insert("x", [(0, t, 7 if t == 50 else None) for t in (43, 45, 50, 53, 55)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 1


def test_there_is_no_third_row_where_only_two_are_before_those_looked_at(in_order):
    flow = tm.Dataflow()
    third = tm.nth_value("x", 3).over(W.rows_between(tm.UNBOUNDED, 1).exclude("group"))
    flow.output("y", flow.input("x", TXY).with_columns(third=third))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, t, x) for x, t in enumerate([1, 2, 3, 3, 3, 4, 5])])
            each.advance()
            each.insert("x", [(0, 3, 9)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 1


@pytest.mark.parametrize(
    "window", [W.rows_between(tm.UNBOUNDED, 0), W.rows_between(0, tm.UNBOUNDED), W.rows_between(-9, 9)]
)
@pytest.mark.parametrize("call", [tm.list("x"), tm.list("x").filter("x > 20")])
def test_lists_are_made_of_the_rows_that_have_a_change_alone(call, window, in_order, monkeypatch):
    """With the values before or after, as far as they are asked for; of rows that are only looked at there are none."""
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(c=call.over(window)))
    rows = [(0, t, t) for t in range(300)]
    place = {None: 289, 0: 10, -9: 150}[call.over(window).window.frame.start]
    with flow.start() as run, flow.start() as whole:
        run.insert("x", rows)
        run.advance()
        made, number = list[int](), Interner.number
        monkeypatch.setattr(Interner, "number", lambda some, value: made.append(1) or number(some, value))
        run.insert("x", [(0, place, 77)])
        run.advance()
        assert len(in_order) == 1
        assert len(made) <= 2 * 21
        whole.insert("x", [*rows, (0, place, 77)])
        whole.advance()
        assert run.snapshot("y").counts() == whole.snapshot("y").counts()
