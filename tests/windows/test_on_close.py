"""Windows whose values come once, on all engines and against the plain ones; and what is forgotten meanwhile."""

import attrs
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.closing_windows import ALL, ROW, V, W, calls, told, updates
from support.running import examples

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time

BATCHINGS = [all_at_once, time_by_time, shuffled(0), shuffled(1)]


@examples(50)
@given(found=updates(), named=calls(), marks=told(), delay=st.integers(0, 4))
def test_any_calls(engines, found, named, marks, delay):
    flow = tm.Dataflow()
    flow.output("out", flow.input("x", ROW, watermark=("ts", delay)).with_columns(**named, emit="on_close"))
    note(flow.explain())
    check_equivalent(flow, {"x": found, "x.watermark": marks}, engines=engines, batchings=BATCHINGS)


@pytest.mark.slow
@pytest.mark.parametrize("windows", [(W,), (V,), (ALL,)])
@examples(50)
@given(data=st.data(), found=updates(), marks=told())
def test_sliding_windows_and_plain_ones_that_wait(engines, windows, data, found, marks):
    """What slides gives the same as windows that keep all rows, in the same engine, under all passes."""
    named, delay = data.draw(calls(windows, unbounded=False)), data.draw(st.integers(0, 4))
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", delay))
    sliding = x.with_columns(**named, emit="on_close")
    assert [n.kind for n in flow.graph.nodes].count("SlidingWindows") == 1
    whole = {n: attrs_with(c, strategy="recompute") for n, c in named.items()}
    flow.output("out", sliding)
    flow.output("difference", sliding.concat(x.with_columns(**whole, emit="on_close").negate()))
    note(flow.explain())
    given = {"x": found, "x.watermark": marks}
    check_equivalent(flow, given, engines=engines, batchings=BATCHINGS, passes=True)
    with flow.start() as run:
        for name, some in given.items():
            run.update(name, some)
        run.advance_to(30)
        assert list(run.changes("difference")) == []


def attrs_with(call, **changes):
    return attrs.evolve(call, **changes)


@examples(50)
@given(data=st.data(), window=st.sampled_from([W, V, ALL]), found=updates(), delay=st.integers(0, 4))
def test_closed_rows_are_those_of_the_plain_windows_over_released_rows(data, window, found, delay):
    """Each row that is given has the values that it has in the plain windows over all rows released in the end."""
    named = data.draw(calls((window,)))
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", delay))
    flow.output("closed", x.with_columns(**named, emit="on_close"))
    flow.output("plain", x.sort_buffer("ts").with_columns(**named))
    with flow.start() as run:
        run.update("x", found)
        run.watermark("x", 10**6, time=8)
        run.advance_to(9)
        closed, plain = run.snapshot("closed").counts(), run.snapshot("plain").counts()
        assert all(plain.get(row, 0) >= count for row, count in closed.items())
        assert all(diff > 0 for _, _, diff in run.changes("closed"))


@pytest.mark.slow
@pytest.mark.parametrize("window", [W, ALL])
@examples(60)
@given(found=updates(), marks=told(), delay=st.integers(0, 3), gap=st.integers(0, 3))
def test_sessions(engines, window, found, marks, delay, gap):  # noqa: PLR0917 - drawn by name
    """Those that are over; beside them others with which all rows are kept, which come to the same."""
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", delay))
    over = x.with_columns(start=tm.session("ts", gap).over(window), emit="on_close")
    flow.output("over", over)
    two = {"start": tm.session("ts", gap).over(window), "number": tm.row_number().over(window)}
    flow.output("beside", x.with_columns(**two, next=tm.lead("v").over(window), emit="on_close"))
    flow.output("difference", x.with_columns(**two, emit="on_close").drop("number").concat(over.negate()))
    flow.output("plain", x.with_columns(start=tm.session("ts", gap).over(window)))
    check_equivalent(flow, {"x": found, "x.watermark": marks}, engines=engines, batchings=BATCHINGS, passes=True)
    with flow.start() as run:
        run.update("x", [u for u in found if u[2] > 0])
        run.advance_to(30)
        assert list(run.changes("difference")) == []


MUCH = 2**62


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize(
    ("frame", "values", "sums"),
    [
        # Behind the first row, which is forgotten then, the third one's frame lacks it: the others are too much.
        (W.rows_between(-2, 0), [-MUCH, MUCH, MUCH, -MUCH, -5], [-MUCH, 0, MUCH, MUCH, -5]),
        # Before the third row comes, the first two are too much: their frames are not closed then.
        (W.range_between(0, 2), [MUCH, MUCH, -MUCH, -5, -5], [MUCH, -5, -MUCH - 10, -10, -5]),
    ],
)
def test_only_sums_over_closed_frames_overflow(frame, values, sums, one_by_one):
    """Those over parts of frames, of rows that are kept for others or wait for more, are no errors."""
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 0))
    flow.output("out", x.with_columns(sum=tm.sum("v").over(frame), emit="on_close"))
    with flow.start() as run:
        for time, v in enumerate(values):
            run.insert("x", [("a", time, v)], time=time)
            if one_by_one:
                run.advance()
        run.watermark("x", 1000, time=len(values))
        run.advance_to(len(values) + 1)
        assert [row[3] for row in sorted(run.snapshot("out"))] == sums


def test_a_closed_frame_that_overflows_is_refused_at_its_row():
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 0))
    flow.output("out", x.with_columns(sum=tm.sum("v").over(W.rows_between(-1, 0)), emit="on_close"))
    with flow.start() as run:
        run.insert("x", [("a", 1, MUCH), ("a", 2, MUCH), ("a", 3, 0)])
        with pytest.raises(ExpressionError, match=r"row \('a', 2, \d+\): overflow in `sum AS sum`"):
            run.advance()


@pytest.mark.parametrize("emit", ["on_update", "on_close"])
@pytest.mark.parametrize("number", ["session 0", "session start 0", "session start 0~"])
def test_columns_may_have_any_names(emit, number):
    """Also those that calls' values and sessions have until they are named."""
    schema = {"k": "string", "ts": "int64", "call 0": "int64", "session 0#": "int64", "session start 0~": "int64"}
    flow = tm.Dataflow()
    x = flow.input("x", schema, watermark=("ts", 0))
    session = {"start": tm.session("ts", 1).over(W)}
    flow.output("alone", x.with_columns(**session, emit=emit))
    both = {number: tm.row_number().over(W) + 100, "of all": tm.row_number().over(ALL)}
    flow.output("both", x.with_columns(**both, **session, emit=emit).select("ts", number, "of all", "start"))
    with flow.start() as run:
        run.insert("x", [("a", 0, 7, 8, 9), ("a", 2, 7, 8, 9)])
        run.watermark("x", 100)
        run.advance()
        assert sorted(run.snapshot("alone")) == [("a", 0, 7, 8, 9, 0), ("a", 2, 7, 8, 9, 2)]
        assert sorted(run.snapshot("both")) == [(0, 101, 1, 0), (2, 102, 2, 2)]


MOST = 2**63 - 1


@pytest.mark.parametrize(
    "call",
    [
        tm.count().over(W.rows_between(0, MOST)), tm.count().over(W.groups_between(-MOST, MOST)),
        tm.lead("v", MOST).over(W), tm.count().over(W.range_between(-MOST, MOST)),
    ],
)  # fmt: skip
def test_what_waits_for_the_furthest_row_there_can_be(engines, call):
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 0))
    flow.output("out", x.with_columns(c=call, emit="on_close"))
    check_equivalent(flow, {"x": [(("a", time, 1), time, 1) for time in range(4)]}, engines=engines)


@pytest.mark.parametrize("emit", ["on_update", "on_close"])
def test_sessions_without_a_name_are_named_by_their_text(emit):
    x = tm.Dataflow().input("x", ROW, watermark="ts")
    session = tm.session("ts", 5).over(ALL)
    assert x.with_columns(session, emit=emit).schema.names[3:] == ("SESSION(ts, 5) OVER (ORDER BY ts)",)
    assert x.select("k", session).schema.names[1:] == ("SESSION(ts, 5) OVER (ORDER BY ts)",)
