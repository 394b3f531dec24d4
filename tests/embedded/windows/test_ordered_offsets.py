"""Lag and lead in order by so many rows as each row says: rows that look over a change, wherever they are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import LIMIT, TXY, W
from support.running import examples

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

OFFSETS = TXY | {"n": "int64"}
FUNCTIONS: list[Any] = [
    tm.lag("x", "n"),
    tm.lead("x", "n"),
    tm.lag("x", "n", tm.col("t")),
    tm.lead("x", tm.col("n") - 1),
]
BESIDE: list[Any] = [tm.lag("x", 2), tm.max("x"), tm.row_number(), tm.lead("x", 1, ignore_nulls=True)]


def of(**calls):
    flow = tm.Dataflow("offsets")
    flow.output("y", flow.input("x", OFFSETS).with_columns(**{name: call.over(W) for name, call in calls.items()}))
    return flow


@examples(150)
@given(data=st.data())
@pytest.mark.usefixtures("small_is_large")
def test_any_offsets(data):
    """Forwards, backwards, to the row itself, NULL, beyond the ends; several edits a step, near each other and apart."""
    calls = data.draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=2))
    calls += data.draw(st.lists(st.sampled_from(BESIDE), max_size=1))
    flow = of(**{f"c{i}": call for i, call in enumerate(calls)})
    n = data.draw(st.lists(st.integers(-9, 9) | st.sampled_from([None, LIMIT, -LIMIT]), min_size=1, max_size=4))
    values: dict[str, list[Any]] = {"k": [1], "t": [None, *range(14)], "x": [None, 1, 2, 3, 4, 5], "n": n}
    found = data.draw(updates(OFFSETS, 1, max_size=30, latest=5, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


@pytest.mark.parametrize("function", [tm.lag, tm.lead])
def test_a_change_costs_the_rows_up_to_the_farthest_that_looks_over_it(function, in_order, looked_at):
    """Rows with offsets that go beyond the ends, or do not reach it, do not matter."""
    sign = 1 if function is tm.lag else -1
    offsets = {2000: 1990, 2500: 300, 3000: 10**9, 2900: -5, 100: LIMIT}
    rows = [(0, sign * t, t % 50, offsets.get(t, t % 4)) for t in range(5000)]
    steps = [([(0, sign * 4000, 77, 2)], []), ([(0, sign * 2300, 77, 2)], []), ([], [(0, sign * 10, 10, 2)])]
    costs = []
    with of(c=function("x", "n")).start() as run:
        run.insert("x", rows)
        run.advance()
        for come, go in steps:
            looked_at.clear()
            run.insert("x", come)
            run.delete("x", go)
            run.advance()
            costs.append(sum(looked_at))
        found = run.snapshot("y").counts()
    with of(c=function("x", "n")).start() as whole:
        whole.insert("x", [row for row in rows if row not in steps[2][1]] + steps[0][0] + steps[1][0])
        whole.advance()
        assert found == whole.snapshot("y").counts()
    assert len(in_order) == 3
    assert costs[0] < 30
    assert 2 * 200 < costs[1] < 2 * 310
    assert 2 * 1990 < costs[2] < 2 * 2010


def test_what_is_beyond_the_ends_may_come_into_the_partition(in_order):
    """With the rows that come, at a place far from those that look there."""
    flow = of(back=tm.lag("x", "n"), ahead=tm.lead("x", "n"))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, t, t, {350: 351, 360: 362, 20: 280, 10: 292}.get(t, 0)) for t in range(300)])
            each.insert("x", [(0, t, t, {350: 351, 360: 362}.get(t, 0)) for t in range(300, 400)])
            each.advance()
            each.insert("x", [(0, 345, t, 1) for t in range(3)])
            each.advance()
            each.insert("x", [(0, -1, 7, 1), (0, 399, 8, 400), (0, 400, 9, 0)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
    assert len(in_order) == 2
