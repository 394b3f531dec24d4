"""Extremes of ROWS around each row, of which many change at once, far from one another: running extremes from each."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples
from table_steps import check_steps, to_and_fro

import tidemill as tm
from tidemill.renderer.embedded.windows.lone_extremes import LoneExtremes

SCHEMA = {"p": "int64", "t": "int64", "x": "int64", "f": "float64"}
ORDERS = (
    tm.Window.order_by("t"),
    tm.Window.order_by(tm.desc("t"), "x"),
    tm.Window.partition_by("p").order_by(tm.asc("t", nulls="last")),
)
COLUMNS = ["p", "t", "x", "f"]


@pytest.fixture
def alone(monkeypatch):
    """How many edits were far from others, and of how many, each time."""
    found = []
    changed = LoneExtremes.changed

    def noted(lone, rows, edits):
        around, left = changed(lone, rows, edits)
        found.append((len(edits.places) - len(left.places), len(edits.places)))
        return around, left

    monkeypatch.setattr(LoneExtremes, "changed", noted)
    return found


def rows_of(dice, count, times, values):
    """Return random rows; where times are few, there are copies of some."""
    p, t, x, f = (dice.integers(0, most, count) for most in (2, times, values, values))
    t, x = pa.array(t, mask=dice.random(count) < 0.05), pa.array(x, mask=dice.random(count) < 0.1)
    return pa.table({"p": p, "t": t, "x": x, "f": pa.array(f / 4, mask=dice.random(count) < 0.1)})


def flow_of(calls, kept=COLUMNS):
    flow = tm.Dataflow("alone")
    rows = flow.input("rows", SCHEMA).with_columns(**{f"y{i}": call for i, call in enumerate(calls)})
    flow.output("y", rows.select(*kept, *(f"y{i}" for i in range(len(calls)))))
    return flow


@pytest.mark.usefixtures("few_are_many")
@examples(100)
@given(
    st.tuples(st.sampled_from(ORDERS), st.integers(0, 4), st.integers(0, 4)),
    st.lists(st.tuples(st.sampled_from([tm.min, tm.max]), st.sampled_from("xf")), min_size=1, max_size=2),
    st.sampled_from([COLUMNS, ["t", "x"], ["f"]]),
    st.tuples(st.integers(10, 120), st.integers(2, 9), st.sampled_from([3, 40, 10**6]), st.integers(1, 9)),
    st.integers(0, 2**32),
)
def test_changes_are_those_of_the_reference_engine(over, some, kept, sizes, seed):
    order, before, after = over
    rows, edits, times, values = sizes
    flow = flow_of([extreme(column).over(order.rows_between(-before, after)) for extreme, column in some], kept)
    dice = np.random.default_rng(seed)
    loaded, more = rows_of(dice, rows, times, values), rows_of(dice, edits, times, values)
    check_steps(flow, to_and_fro(dice, loaded, more, edits))


@pytest.mark.parametrize("times", [5, 10**6])
def test_edits_far_from_others_and_near_them(times, few_are_many, alone):
    """Rows among many copies of theirs, too: of these some change near one edit, and some near another."""
    flow = flow_of([tm.min("x").over(ORDERS[0].rows_between(-2, 3)), tm.max("f").over(ORDERS[0].rows_between(-2, 3))])
    dice = np.random.default_rng(6)
    loaded, more = rows_of(dice, 400, times, 3), rows_of(dice, 20, times, 3)
    check_steps(flow, to_and_fro(dice, loaded, more, 20))
    assert [of for _, of in alone] == [len(set(zip(*more.to_pydict().values(), strict=True))), 20, 40] or times == 5
    assert all(count > 0 for count, _ in alone)
    assert any(count < of for count, of in alone)


def test_frames_that_are_not_around_each_row_are_looked_at_otherwise(few_are_many, alone):
    w = ORDERS[0]
    over = [
        [tm.min("x").over(w.rows_between(1, 3))],
        [tm.min("x").over(w.rows_between(-3, 3).exclude("current row"))],
        [tm.min("x").over(w.rows_between(-3, 3)), tm.min("x").over(w.rows_between(-2, 3))],
        [tm.min("x").over(w.rows_between(-3, 3)), tm.sum("x").over(w.rows_between(-3, 3))],
        [tm.min("x").over(w.groups_between(-3, 3))],
    ]
    dice = np.random.default_rng(7)
    loaded, more = rows_of(dice, 200, 10**6, 5), rows_of(dice, 8, 10**6, 5)
    for calls in over:
        check_steps(flow_of(calls), to_and_fro(dice, loaded, more, 8))
    assert alone == []


@pytest.mark.parametrize("from_end", range(12))
def test_edits_as_far_from_the_ends_as_frames_reach(from_end, few_are_many, alone):
    """Of those that just are, and that just are not: a row goes or comes at that place, far from all other edits."""
    w = ORDERS[0].rows_between(-2, 3)
    flow = flow_of([tm.min("x").over(w), tm.max("f").over(w)])
    times = np.arange(300) * 10
    loaded = pa.table({"p": times * 0, "t": times, "x": times * 7 % 31, "f": times * 3 % 17 / 4})
    edited = loaded.take([from_end, *range(60, 241, 30), 299 - from_end])
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("rows", loaded)
            each.advance()
            each.changes("y")
        for change in ("delete", "insert"):
            for each in (run, reference):
                getattr(each, change)("rows", edited)
                each.advance()
            assert sorted(run.changes("y")) == sorted(reference.changes("y"))
    assert all(count > 0 for count, _ in alone)
