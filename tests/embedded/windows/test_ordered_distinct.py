"""DISTINCT aggregates in order over frames from an end of the partition on: each value counts in its first row alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import FEW, TXY, W
from support.running import examples

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

SO_FAR = W.rows_between(tm.UNBOUNDED, 0)
FROM_HERE = W.rows_between(0, tm.UNBOUNDED)
DOWN = tm.Window.partition_by("k").order_by(tm.desc("t", nulls="first"))
ENDLESS = [
    SO_FAR,
    FROM_HERE,
    W.rows_between(tm.UNBOUNDED, -2),
    W.rows_between(tm.UNBOUNDED, 2),
    W.rows_between(-1, tm.UNBOUNDED),
    W.rows_between(2, tm.UNBOUNDED),
    W,
    W.range_between(tm.UNBOUNDED, 2),
    W.range_between(3, tm.UNBOUNDED),
    DOWN.range_between(-1, tm.UNBOUNDED),
    DOWN,
    W.groups_between(tm.UNBOUNDED, -1),
    W.groups_between(0, tm.UNBOUNDED),
]
NUMBERS = (tm.sum, tm.avg, tm.stddev, tm.variance)
BESIDE: list[Any] = [tm.count(), tm.count("x"), tm.max("x"), tm.last_value("x"), tm.row_number(), tm.lag("x")]


def of(call, window, *, distinct=True):
    flow = tm.Dataflow("distinct")
    flow.output("y", flow.input("x", TXY).with_columns(c=call.over(window, **({"distinct": True} if distinct else {}))))
    return flow


@st.composite
def distinct_calls(draw, dtype):
    window = draw(st.sampled_from(ENDLESS))
    column = draw(st.sampled_from(["x", "x", "x", "k", "t"]))
    one = draw(st.sampled_from([tm.count, *(NUMBERS if dtype != "string" or column != "x" else ())]))(column)
    if draw(st.booleans()):
        one = one.filter("t > 1")
    return one.over(window, distinct=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int64", "float64", "string", "decimal(30,2)"])
@examples(60)
@given(data=st.data())
@pytest.mark.usefixtures("small_is_large")
def test_any_distinct_calls(data, dtype):
    """Several columns, from both ends, beside other calls: copies of a row have the values that go together."""
    drawn = data.draw(st.lists(distinct_calls(dtype), min_size=1, max_size=3))
    others = data.draw(st.lists(st.tuples(st.sampled_from(BESIDE), st.sampled_from(ENDLESS)), max_size=2))
    drawn += [call.over(window) for call, window in others]
    flow = tm.Dataflow("distinct")
    schema = {"k": "int64", "t": "int64", "x": dtype}
    flow.output("y", flow.input("x", schema).with_columns(**{f"c{i}": call for i, call in enumerate(drawn)}))
    x = [None, *data.draw(st.lists(FEW[dtype], min_size=1, max_size=4))]
    values: dict[str, list[Any]] = {"k": [1, 1, 1, 2], "t": [None, *range(6)], "x": x}
    found = data.draw(updates(schema, 1, max_size=24, latest=5, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


CALLS: list[Any] = [tm.count("x"), tm.sum("x"), tm.avg("x"), tm.variance("x"), tm.bool_or(tm.col("x") > 0)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("window", "sign"), [(SO_FAR, 1), (FROM_HERE, -1)])
def test_what_distinct_values_do_not_notice_costs_a_search(call, window, sign, in_order, looked_at):
    """A value that was there before; and where its first row goes, the rows up to the next one that has it."""
    rows = [(0, sign * t, t % 30) for t in range(5000)]
    steps = [([(0, sign * 100, 7)], []), ([(0, sign * 3000, 29)], [(0, sign * 100, 7)]), ([], [(0, sign * 7, 7)])]
    with of(call, window).start() as run:
        run.insert("x", rows)
        run.advance()
        for come, go in steps:
            run.insert("x", come)
            run.delete("x", go)
            run.advance()
            for row in go:
                rows.remove(row)
            rows += come
        found = run.snapshot("y").counts()
    with of(call, window).start() as whole:
        whole.insert("x", rows)
        whole.advance()
        assert found == whole.snapshot("y").counts()
    assert in_order
    assert max(looked_at) < 2 * 30 + 10


@pytest.mark.parametrize(("window", "place"), [(SO_FAR, 4990), (FROM_HERE, 9)])
def test_a_new_value_costs_the_rows_that_see_it(window, place, in_order, looked_at):
    with of(tm.sum("x"), window).start() as run:
        run.insert("x", [(0, t, t % 30) for t in range(5000)])
        run.advance()
        run.insert("x", [(0, place, 1000)])
        run.advance()
        values = {row[1]: row[3] for row in run.snapshot("y") if row[2] != 1000}
    assert [values[0], values[4999]] == ([0, 435 + 1000] if window is SO_FAR else [435 + 1000, 19])
    assert in_order
    assert max(looked_at) < 30


@pytest.mark.slow
def test_copies_of_a_row_have_its_value_in_the_first_of_them(in_order):
    """A copy that comes before all others is the one that is seen first; from the end it is the last one."""
    flow = tm.Dataflow("copies")
    rows = flow.input("x", TXY)
    both = {"up": tm.count("x").over(SO_FAR, distinct=True), "down": tm.count("x").over(FROM_HERE, distinct=True)}
    flow.output("y", rows.with_columns(**both))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(0, t, t % 7) for t in range(10, 400)])
            each.advance()
            for _ in range(3):
                each.insert("x", [(0, 5, 100)])
                each.insert("x", [(0, 500, 100)])
                each.advance()
            each.delete("x", [(0, 5, 100)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
        found = run.snapshot("y").counts()
        assert found[0, 5, 100, 1, 8] == 2  # all of the copies see one value, and after them there are all
        assert found[0, 500, 100, 8, 1] == 3
    assert in_order


def test_rows_that_are_there_less_than_no_times_are_named_as_users_know_them():
    """In the order of their columns, without what is beside them, and by what users partition by."""
    with of(tm.sum("x"), SO_FAR).start() as run:
        run.insert("x", [(0, 1, 5)])
        run.advance()
        run.delete("x", [(0, 2, 5)])
        with pytest.raises(tm.errors.NegativeCountError, match=r"key \(0,\): row \(0, 2, 5\)") as raised:
            run.advance()
    assert raised.value.row == (0, 2, 5)


@pytest.mark.parametrize("how", [None, tm.Reference()])
def test_rows_that_are_there_too_often_are_so_in_the_call_that_was_asked_for(how):
    with of(tm.sum("x"), SO_FAR).start(how) as run:
        run.update("x", [((0, 1, 5), 0, 2**30)])
        with pytest.raises(tm.errors.ExpressionError, match="`sum AS c`") as raised:
            run.advance()
    assert raised.value.column == "c"
