"""A change that an unbounded frame does not notice costs a search, not the rows after it."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import TXY, W
from support.running import examples

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

SO_FAR = W.rows_between(tm.UNBOUNDED, 0)
FROM_HERE = W.rows_between(0, tm.UNBOUNDED)
BY_VALUE = W.range_between(tm.UNBOUNDED, 0)
COUNT = 5000


def of(call, window):
    flow = tm.Dataflow("settling")
    flow.output("y", flow.input("x", TXY).with_columns(c=call.over(window)))
    return flow


def changed(flow, rows, *steps):
    """Make changes, each a step, and return the output's; they are what the reference engine says."""
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        list(run.changes("y"))
        for come, go in steps:
            run.insert("x", come)
            run.delete("x", go)
            run.advance()
        found = run.snapshot("y").counts()
    with flow.start() as whole:
        gone = [row for _, go in steps for row in go]
        whole.insert("x", [row for row in [*rows, *(row for come, _ in steps for row in come)] if row not in gone])
        whole.advance()
        assert found == whole.snapshot("y").counts()


@pytest.mark.parametrize(
    ("call", "window", "value"),
    [
        (tm.max("x"), SO_FAR, 3),
        (tm.max("x"), BY_VALUE, 3),
        (tm.max("x"), W.groups_between(tm.UNBOUNDED, 1), 3),
        (tm.min("x"), SO_FAR, 40),
        (tm.sum("x"), SO_FAR, 0),
        (tm.sum("x"), SO_FAR, None),
        (tm.avg("x"), SO_FAR, None),
        (tm.count("x"), SO_FAR, None),
        (tm.stddev("x"), SO_FAR, None),
        (tm.first_value("x"), SO_FAR, 99),
        (tm.nth_value("x", 5), SO_FAR, 99),
        (tm.last_value("x"), W.rows_between(tm.UNBOUNDED, 1), 99),
    ],
)
def test_what_a_running_value_does_not_notice_costs_a_search(call, window, value, in_order, looked_at):
    rows = [(0, t, 50 if t == 5 else 10 + t % 30) for t in range(COUNT)]
    changed(of(call, window), rows, ([(0, 20, value)], []), ([], [(0, 20, value)]), ([(0, 900, value)], []))
    assert len(in_order) == 3
    assert max(looked_at) < 20


@pytest.mark.parametrize(
    ("call", "value"),
    [(tm.max("x"), 3), (tm.sum("x"), 0), (tm.last_value("x"), 99), (tm.first_value("x"), 99), (tm.min("x"), 40)],
)
def test_the_same_for_frames_to_the_last_row(call, value, in_order, looked_at):
    rows = [(0, t, 50 if t == COUNT - 5 else 10 + t % 30) for t in range(COUNT)]
    changed(of(call, FROM_HERE), rows, ([(0, COUNT - 20, value)], []), ([], [(0, COUNT - 20, value)]))
    assert len(in_order) == 2
    assert max(looked_at) < 20


@pytest.mark.parametrize(("window", "place"), [(SO_FAR, 100), (FROM_HERE, 3900)])
def test_what_is_beaten_later_costs_the_rows_up_to_there(window, place, in_order, looked_at):
    """Across chunks, to the row; and an edit that is reached before that counts, too."""
    rows = [(0, t, 90 if t == 2000 else t % 30) for t in range(4000)]
    large = (0, place, 70)
    other = (0, (place + 2000) // 2, 80)
    changed(of(tm.max("x"), window), rows, ([large], []), ([other], [large]), ([], [(0, 2000, 90)]))
    assert len(in_order) == 3
    assert looked_at[0] in range(2 * 1900, 2 * 1900 + 10)
    assert looked_at[1] in range(2 * 1900, 2 * 1900 + 10)
    assert looked_at[2] > 3900


@pytest.mark.parametrize("window", [SO_FAR, BY_VALUE, W.groups_between(tm.UNBOUNDED, 1)])
def test_what_the_last_row_beats(window, in_order):
    """There is no row after the one that decides; of an edit by itself, and of two far from each other."""
    rows = [(0, t, 90 if t == 2999 else t % 30) for t in range(3000)]
    changed(of(tm.max("x"), window), rows, ([(0, 2000, 70)], []), ([(0, 1000, 60), (0, 2500, 80)], []))
    assert len(in_order) == 2


def test_terms_that_cancel_out_cost_the_rows_between_them(in_order, looked_at):
    rows = [(0, t, t % 30) for t in range(COUNT)]
    changed(of(tm.sum("x"), SO_FAR), rows, ([(0, 100, 7), (0, 1100, -7)], []))
    assert len(in_order) == 1
    assert looked_at[0] in range(2 * 1000, 2 * 1000 + 10)


@pytest.mark.parametrize(
    ("call", "window", "sign"),
    [
        (tm.max("x"), SO_FAR, 1),
        (tm.max("x"), FROM_HERE, -1),
        (tm.first_value("x", ignore_nulls=True), SO_FAR, 1),
        (tm.last_value("x", ignore_nulls=True), FROM_HERE, -1),
    ],
)
def test_what_beats_a_change_may_go_with_another_one(call, window, sign, in_order):
    """Two rows with the value go, far from each other: either of them is made up for by the other one."""
    rows = [(0, sign * t, {1000: 90, 2000: 90, 3000: 7}.get(t)) for t in range(4000)]
    changed(of(call, window), rows, ([], [(0, sign * 1000, 90), (0, sign * 2000, 90)]))
    assert len(in_order) == 1


LATE = [
    W.rows_between(tm.UNBOUNDED, -3),
    W.groups_between(tm.UNBOUNDED, -3),
    W.range_between(tm.UNBOUNDED, -3),
    W.range_between(tm.UNBOUNDED, 3),
    *(W.rows_between(tm.UNBOUNDED, 0).exclude(out) for out in ("current row", "group", "ties")),
    W.range_between(tm.UNBOUNDED, 2).exclude("group"),
]


@pytest.mark.parametrize("window", LATE)
@pytest.mark.parametrize(("call", "value"), [(tm.max("x"), 3), (tm.sum("x"), 0), (tm.first_value("x"), 99)])
def test_frames_that_end_elsewhere_than_at_their_row(window, call, value, in_order, looked_at):
    """What the change does not matter to is seen some rows later, or without some of them."""
    rows = [(0, t, 50 if t == 5 else 10 + t % 30) for t in range(COUNT)]
    changed(of(call, window), rows, ([(0, 20, value)], []), ([], [(0, 20, value)]), ([(0, 900, value)], []))
    assert len(in_order) == 3
    assert max(looked_at) < 40


@pytest.mark.parametrize("window", LATE)
def test_frames_that_end_elsewhere_see_later_what_beats_a_change(window, in_order, looked_at):
    rows = [(0, t, 90 if t == 2000 else t % 30) for t in range(4000)]
    changed(of(tm.max("x"), window), rows, ([(0, 1000, 70)], []), ([(0, 1500, 80)], [(0, 1000, 70)]))
    assert len(in_order) == 2
    assert max(looked_at) < 2 * 1000 + 20


@pytest.mark.parametrize("window", [SO_FAR, FROM_HERE])
@pytest.mark.parametrize("dtype", ["string", "decimal(38,2)"])
def test_text_that_is_not_the_greatest_costs_a_search(window, dtype, in_order, looked_at):
    place, best = (20, 5) if window is SO_FAR else (COUNT - 20, COUNT - 5)

    def value(number):
        return f"tidemills {number:02}" if dtype == "string" else Decimal(10**34 + number)

    flow = tm.Dataflow("text")
    flow.output("y", flow.input("x", {**TXY, "x": dtype}).with_columns(c=tm.max("x").over(window)))
    rows = [(0, t, value(50 if t == best else 10 + t % 30)) for t in range(COUNT)]
    changed(flow, rows, ([(0, place, value(3))], []), ([], [(0, place, value(3))]), ([(0, place, value(49))], []))
    assert len(in_order) == 3
    assert max(looked_at) < 20


CALLS: list[Any] = [
    tm.max("x"), tm.min("x"), tm.sum("x"), tm.count("x"), tm.avg("x"), tm.first_value("x"), tm.last_value("x"),
    tm.first_value("x", ignore_nulls=True), tm.last_value("x", ignore_nulls=True), tm.nth_value("x", 2),
    tm.nth_value("x", 2, ignore_nulls=True), tm.bool_and(tm.col("x") > 0), tm.bool_or(tm.col("x") > 0),
    tm.stddev("x"),
]  # fmt: skip
WINDOWS = [
    SO_FAR,
    BY_VALUE,
    W.groups_between(tm.UNBOUNDED, 1),
    W.rows_between(tm.UNBOUNDED, 2),
    W.rows_between(tm.UNBOUNDED, -1),
]
WINDOWS += [
    FROM_HERE,
    W.range_between(0, tm.UNBOUNDED),
    W.groups_between(-1, tm.UNBOUNDED),
    W.rows_between(1, tm.UNBOUNDED),
]
WINDOWS += [
    W.rows_between(tm.UNBOUNDED, -3),
    W.rows_between(3, tm.UNBOUNDED),
    W.range_between(tm.UNBOUNDED, 2),
    W.range_between(tm.UNBOUNDED, -2),
    W.range_between(-1, tm.UNBOUNDED),
    W.range_between(2, tm.UNBOUNDED),
    W.groups_between(tm.UNBOUNDED, -2),
    W.groups_between(2, tm.UNBOUNDED),
]
EXCLUSIONS = ["no others", "current row", "group", "ties"]


@pytest.mark.slow
@examples(200)
@given(data=st.data())
@pytest.mark.usefixtures("small_is_large")
def test_values_of_few_kinds_that_come_and_go(data):
    """Small ones, so that changes often make no difference."""
    window = st.builds(lambda w, out: w.exclude(out), st.sampled_from(WINDOWS), st.sampled_from(EXCLUSIONS))
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(CALLS), window), min_size=1, max_size=2))
    flow = tm.Dataflow("settling")
    flow.output("y", flow.input("x", TXY).with_columns(**{f"c{i}": c.over(w) for i, (c, w) in enumerate(drawn)}))
    values: dict[str, list[Any]] = {"k": [1], "t": list(range(8)), "x": [None, 0, 0, 1, 2]}
    found = data.draw(updates(TXY, 1, max_size=24, latest=6, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])
