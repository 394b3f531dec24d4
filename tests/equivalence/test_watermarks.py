"""What waits for a watermark, on all engines: rows out of order, deletions, watermarks told and computed."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time

ROW = {"k": "string", "ts": "int64", "v": "int64"}


def rows():
    """Updates whose ts grows with the time, some of them late."""
    row = st.tuples(st.sampled_from("ab"), st.none() | st.integers(-2, 12), st.integers(0, 2))
    update = st.tuples(row, st.integers(0, 6), st.sampled_from([1, 1, 1, 2, -1]))
    grown = update.map(lambda u: ((u[0][0], None if u[0][1] is None else u[0][1] + 2 * u[1], u[0][2]), u[1], u[2]))
    return st.lists(update | grown, max_size=16)


def told(latest=20):
    """Watermarks that never go back."""
    return st.lists(st.tuples(st.integers(0, 6), st.integers(-3, latest)), max_size=4).map(
        lambda found: [((value,), time, 1) for (time, _), value in zip(sorted(found), sorted(v for _, v in found))]
    )


BATCHINGS = [all_at_once, time_by_time, shuffled(0), shuffled(1)]


@pytest.mark.slow
@pytest.mark.parametrize("watermark", [("ts", 0), ("ts", 3), "ts"])
@examples(40)
@given(found=rows(), marks=told())
def test_sorted_and_late_rows(engines, watermark, found, marks):
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=watermark)
    flow.output("sorted", x.sort_buffer("ts"))
    flow.output("late", x.select("v", "ts").late_rows("ts"))
    check_equivalent(flow, {"x": found, "x.watermark": marks}, engines=engines, batchings=BATCHINGS)


@pytest.mark.slow
@examples(40)
@given(a=rows(), b=rows(), marks=told())
def test_the_least_watermark_of_several_inputs(engines, a, b, marks):
    flow = tm.Dataflow()
    one, two = flow.input("a", ROW, watermark=("ts", 2)), flow.input("b", ROW, watermark="ts")
    both = one.filter("v < 2").concat(two, one)
    flow.output("sorted", both.sort_buffer("ts"))
    flow.output("by k", both.sort_buffer("ts").group_by("k").agg(n=tm.count(), last=tm.max("ts")))
    given = {"a": a, "b": b, "b.watermark": marks}
    check_equivalent(flow, given, engines=engines, batchings=BATCHINGS, passes=True)


@examples(40)
@given(found=rows(), values=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=5))
def test_a_watermark_that_goes_back_is_an_error_everywhere(engines, found, values):
    flow = tm.Dataflow()
    flow.output("sorted", flow.input("x", ROW, watermark="ts").sort_buffer("ts"))
    note(values)
    marks = [((value,), time, 1) for time, value in values]
    check_equivalent(flow, {"x": found, "x.watermark": marks}, engines=engines, batchings=BATCHINGS)


@examples(40)
@given(found=rows())
def test_what_is_sorted_and_what_is_late_is_all_in_the_end(found):
    """Nothing is lost: the rows released and the late ones add up to all, once the watermark has passed all."""
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 3))
    flow.output("out", x.sort_buffer("ts").concat(x.late_rows("ts")))
    flow.output("in", x)
    late = flow.input("y", ROW, watermark=("ts", 3)).late_rows("ts")
    flow.output("late", late)
    with flow.start() as run:
        run.update("x", found)
        run.update("y", found)
        run.watermark("x", 1000, time=7)
        run.advance_to(8)
        assert run.snapshot("out").counts() == run.snapshot("in").counts()
        counted = {o.late for o in run.metrics() if o.kind == "LateRows"}
        assert counted == {sum(abs(diff) for _, _, diff in run.changes("late"))}
