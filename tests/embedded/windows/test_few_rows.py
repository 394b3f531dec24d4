"""Ranks and aggregates over frames of a few rows, worked out row by row, are those that whole columns give."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.running import examples
from support.window_steps import changes

import tidemill as tm
from tidemill.renderer.embedded.windows import scalar
from tidemill.testing import check_equivalent, time_by_time

CALLS = {"n": tm.count("x"), "total": tm.sum("x"), "mean": tm.avg("x"), "least": tm.min("x"), "most": tm.max("x")}
NUMBERS = st.none() | st.integers(-3, 3) | st.sampled_from([2**61, -(2**61), 2**53 + 1])


W = tm.Window.partition_by("k").order_by("t")
ALL_CALLS = {
    **{name: call.over(W.rows_between(-2, 1)) for name, call in CALLS.items()},
    "number": tm.row_number().over(W),
    "place": tm.rank().over(W),
    "dense": tm.dense_rank().over(W),
    "part": tm.ntile(3).over(W),
    "before": tm.lag("x", 2).over(W),
    "after": tm.lead("t").over(W),
}
LOADED = [(0, i // 2, i) for i in range(20)]
ROWS = st.sampled_from(LOADED) | st.tuples(st.just(0), st.none() | st.integers(0, 9), NUMBERS)
CHANGES = st.lists(st.tuples(ROWS, st.sampled_from([1, 2, -1])), max_size=4)


def changed(names, steps):
    """What changes of the calls of these names in each step."""
    return changes({name: ALL_CALLS[name] for name in names}, LOADED, steps)


@pytest.mark.slow
def test_changes_of_few_rows_are_those_of_columns(small_is_large):
    """Step by step, of a partition in its order: rows that come, copies, rows that go, peers, rows without a time."""

    @examples(80)
    @example({"least"}, [[(LOADED[0], 2)]])
    @given(st.sets(st.sampled_from(sorted(ALL_CALLS)), min_size=1), st.lists(CHANGES, max_size=6))
    def check(names, steps):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scalar, "ROWS", -1)
            expected = changed(names, steps)
        assert changed(names, steps) == expected

    check()


def test_a_few_rows_that_change_are_looked_at_one_by_one(small_is_large, monkeypatch):
    found, changed = [], scalar.Scalar.changed
    monkeypatch.setattr(scalar.Scalar, "changed", lambda *given: found.append(changed(*given)) or found[-1])
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"k": "int64", "t": "int64", "x": "int64"}).with_columns(**ALL_CALLS))
    with flow.start() as run:
        run.insert("x", LOADED)
        run.advance()
        run.delete("x", [LOADED[3]])
        run.insert("x", [(0, 2, 100)])
        run.advance()
    (few,) = found
    assert few is not None
    assert 0 < few.gone < 10


UNORDERED = tm.Window.partition_by("k")
WITHOUT_ORDER = {
    "rank": tm.rank().over(UNORDERED),
    "dense": tm.dense_rank().over(UNORDERED),
    "total": tm.sum("x").over(UNORDERED),
}


@pytest.mark.parametrize("name", WITHOUT_ORDER)
def test_without_an_order_all_rows_are_peers(small_is_large, name):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"k": "int64", "x": "int64"}).with_columns(y=WITHOUT_ORDER[name]))
    rows = [(0, x) for x in range(6)]
    steps = [[((0, 9), 1)], [((0, 2), -1), ((0, 2), 2)], [((0, 0), -1), ((1, 4), 1)]]
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in run, reference:
            each.insert("x", rows)
            each.advance()
            for step in steps:
                for row, count in step:
                    (each.insert if count > 0 else each.delete)("x", [row] * abs(count))
                each.advance()
        assert sorted(map(repr, run.changes("y"))) == sorted(map(repr, reference.changes("y")))
        assert run.snapshot("y").counts() == reference.snapshot("y").counts()


@pytest.mark.parametrize("name", ALL_CALLS)
def test_each_call_by_itself_is_that_of_columns(small_is_large, monkeypatch, name):
    steps = [[((0, 4, 100), 1)], [(LOADED[9], -1)], [(LOADED[3], 2)], [((0, None, 5), 1)]]
    found = changed([name], steps)
    monkeypatch.setattr(scalar, "ROWS", -1)
    assert changed([name], steps) == found


@pytest.mark.parametrize("by", ["t", tm.desc("t")], ids=["up", "down"])
def test_one_row_in_frames_by_value(small_is_large, by):
    """The rows that it changes look further than it does, to both sides."""
    flow = tm.Dataflow()
    frame = tm.Window.order_by(by).range_between(-6, 3)
    flow.output("y", flow.input("x", {"t": "int64", "x": "int64"}).with_columns(y=tm.sum("x").over(frame)))
    loaded = [((t, 1 << t), 0, 1) for t in range(40)]
    check_equivalent(flow, {"x": [*loaded, ((20, 7), 1, 1), ((25, 1 << 25), 2, -1)]}, batchings=[time_by_time])
