"""Sums over frames bounded by value, where many rows of a partition change at once, are the reference engine's."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm

SCHEMA = {"k": "int64", "t": "int64", "x": "int64", "n": "int32"}
AGGREGATES = {"n": tm.count("x"), "rows": tm.count(), "total": tm.sum("x"), "mean": tm.avg("x"), "short": tm.sum("n")}
FRAMES = {
    "before": (-3, 0), "around": (-2, 5), "after": (0, 4), "peers": (0, 0), "far": (-(2**62), 1),
    "farther": (1 - 2**63, 5), "farthest": (1 - 2**63, 2**63 - 1), "next": (-1, 1),
}  # fmt: skip
W = tm.Window.partition_by("k").order_by("t")
DOWN = tm.Window.partition_by("k").order_by(tm.desc("t"))
LAST = tm.Window.partition_by("k").order_by(tm.asc("t", nulls="last"))
CALLS = {
    name: [call.over(w.range_between(*FRAMES[frame])) for call in AGGREGATES.values() for frame in FRAMES]
    for name, w in (("up", W), ("down", DOWN), ("last", LAST))
}
MOST = 2**63 - 1
LOADED = [(0, i // 2, i, 1) for i in range(24)] + [(1, 3 * i, -i, i % 2) for i in range(24)]
ROWS = st.sampled_from(LOADED) | st.tuples(
    st.integers(0, 1),
    st.integers(-2, 80) | st.sampled_from([-MOST, 2 - MOST, MOST - 3, MOST]),
    st.integers(-9, 9),
    st.integers(-1, 1),
)
RARE = st.tuples(
    st.integers(0, 1), st.none() | st.integers(-2, 25), st.none() | st.integers(-9, 9) | st.just(2**61), st.just(0)
)
CHANGES = st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 2, -1, -1, -2])), max_size=12)


def changes(engine, calls, steps):
    """What changes in each step, each update as often as it comes; a step that is refused is left out."""
    flow, found = tm.Dataflow(), list[Any]()
    flow.output("y", flow.input("x", SCHEMA).with_columns(**{f"y{i}": call for i, call in enumerate(calls)}))
    with flow.start(engine) as run:
        for step in [[(row, 1) for row in LOADED], *steps]:
            for row, count in step:
                (run.insert if count > 0 else run.delete)("x", [row] * abs(count))
            try:
                run.advance()
            except tm.errors.TidemillError:
                run.discard()
                found.append("refused")
                continue
            found.append(sorted(run.changes("y"), key=repr))
    return found


@pytest.mark.slow
@examples(200)
@given(
    st.sampled_from(sorted(CALLS)).flatmap(lambda name: st.lists(st.sampled_from(CALLS[name]), min_size=1, max_size=3)),
    st.lists(CHANGES, min_size=1, max_size=4),
)
@example(
    [CALLS["up"][0]], [[((0, MOST, 1, 1), 1), ((0, MOST - 2, 1, 1), 1)], [((0, MOST, 1, 1), 1), ((0, 80, 1, 1), 1)]]
)
@example(
    [CALLS["up"][5]],
    [[((0, MOST - 3, 1, 1), 1), ((0, -3, 1, 1), 1)], [((0, MOST, 2, 1), 1), ((0, MOST, 3, 1), 1)]],
)
@example([CALLS["down"][0]], [[((0, MOST, 0, 0), 1)], [((0, 0, 0, 1), 1), ((0, MOST - 3, 0, 0), 1)]])
@pytest.mark.usefixtures("few_are_many")
def test_changes_are_those_of_the_reference(calls, steps):
    assert changes(tm.Embedded(), calls, steps) == changes(tm.Reference(), calls, steps)


@pytest.mark.slow
@examples(100)
@given(st.sampled_from(sorted(CALLS)), st.data())
@pytest.mark.usefixtures("few_are_many")
def test_rows_without_a_value_and_large_sums_are_worked_out_too(name, data):
    calls = data.draw(st.lists(st.sampled_from(CALLS[name]), min_size=1, max_size=2))
    step = st.lists(st.tuples(ROWS | RARE, st.sampled_from([1, -1])), max_size=8)
    steps = data.draw(st.lists(step, min_size=1, max_size=3))
    assert changes(tm.Embedded(), calls, steps) == changes(tm.Reference(), calls, steps)


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_rows_without_peers_that_add_nothing_go_and_come(few_are_many, name):
    """A row of zero that goes leaves its own sum as it was, and no rows to take the mean of."""
    steps = [[((1, 0, 0, 0), -1), ((1, 6, -2, 0), -1)], [((1, 0, 0, 0), 1), ((1, 6, -2, 0), 1)]]
    calls = [AGGREGATES[name].over(W.range_between(0, 0))]
    found = changes(tm.Embedded(), calls, steps)
    assert [[diff for _, _, diff in step] for step in found[1:]] == [[-1, -1], [1, 1]]
    assert found == changes(tm.Reference(), calls, steps)


def test_a_mean_that_stays_as_it_was_in_front_of_a_row_that_goes(few_are_many):
    calls = [tm.avg("x").over(W.range_between(0, 0))]
    steps = [[((1, 0, 0, 1), 1), ((1, 6, -2, 0), -1)]]
    found = changes(tm.Embedded(), calls, steps)
    assert [(row[:2], diff) for row, _, diff in found[-1]] == [((1, 0), 1), ((1, 6), -1)]
    assert found == changes(tm.Reference(), calls, steps)


@pytest.mark.parametrize("name", ["n", "mean", "total"])
def test_a_number_that_is_null_is_neither_counted_nor_added(few_are_many, name):
    calls = [AGGREGATES[name].over(W.range_between(-3, 0))]
    steps = [[((1, 5, None, 0), 1), ((1, 9, -3, 1), -1)], [((1, 4, 7, 0), 1), ((1, 9, -3, 1), 1)]]
    found = changes(tm.Embedded(), calls, steps)
    assert found == changes(tm.Reference(), calls, steps)


@pytest.mark.parametrize(
    ("more", "edits"),
    [
        ([], [((1, 500, 2**62, 0), 2)]),  # copies of one row, around which there are none
        ([], [((1, 500, 2**62, 0), 1), ((1, 500, 2**62, 1), 1)]),
        ([((1, 500, 2**61 - (n == 0), n), 1) for n in range(4)], [((1, 500, 1, 0), 1)]),  # many, of which each has room
    ],
)
def test_sums_just_beyond_64_bits_are_refused(few_are_many, more, edits):
    calls = [tm.sum("x").over(W.range_between(0, 0))]
    beside = ((1, 6, -2, 0), -1)
    steps = [[*more, ((1, 90, 1, 1), 1)], [*edits, beside]]
    found = changes(tm.Embedded(), calls, steps)
    assert found[-1] == "refused"
    assert found == changes(tm.Reference(), calls, steps)


@pytest.mark.parametrize("order", [tm.asc("t", nulls="last"), tm.desc("t", nulls="first")])
def test_a_row_without_a_value_at_an_end_of_those_looked_at_is_worked_out_too(few_are_many, order):
    calls = [tm.sum("x").over(tm.Window.partition_by("k").order_by(order).range_between(*FRAMES["farthest"]))]
    steps = [[((1, None, 5, 0), 1)], [((1, 0, 0, 0), -1), ((1, 6, -2, 0), -1)], [((1, 69, 1, 0), 1), ((1, 9, 3, 0), 1)]]
    found = changes(tm.Embedded(), calls, steps)
    assert found == changes(tm.Reference(), calls, steps)


def test_a_step_that_is_refused_leaves_no_trace(few_are_many):
    """Where something has no value for a sum that was worked out, what was there before the step is there again."""
    flow = tm.Dataflow()
    rows = flow.input("x", SCHEMA).with_columns(y=tm.sum("x").over(W.range_between(-3, 0)))
    flow.output("y", rows)
    flow.output("z", rows.select(z="1 / (y - 100)"))
    with flow.start() as run:
        run.insert("x", [(0, t, 1, 0) for t in range(20)])
        run.advance()
        before = sorted(run.snapshot("y"))
        run.insert("x", [(0, 3, 96, 0), (0, 7, 5, 0)])
        run.delete("x", [(0, 12, 1, 0)])
        with pytest.raises(tm.errors.TidemillError, match="zero"):
            run.advance()
        run.insert("x", [(0, 3, 4, 0)])
        run.delete("x", [(0, 3, 96, 0)])
        run.advance()
        after = {row[1:3]: row[-1] for row in run.snapshot("y")}
        assert [after[t, 1] for t in (2, 3, 7, 10, 14, 16)] == [3, 8, 9, 9, 3, 4]
        run.delete("x", [(0, 3, 4, 0), (0, 7, 5, 0)])
        run.insert("x", [(0, 12, 1, 0)])
        run.advance()
        assert sorted(run.snapshot("y")) == before


@pytest.mark.parametrize("order", [tm.asc("t"), tm.desc("t")])
def test_frames_farther_than_any_number(few_are_many, order):
    """Two numbers may be farther apart than the greatest is from zero, and then an offset between them is no int64."""
    over = tm.Window.partition_by("k").order_by(order)
    calls = [tm.sum("x").over(over.range_between(*far)) for far in ((-(2**63), 0), (0, 2**63), (-(2**64), 2**64))]
    ends = [((0, t, n, 0), 1) for n, t in enumerate((-MOST, 2 - MOST, MOST - 2, MOST))]
    steps = [ends, [((0, 5, 7, 1), 1), ((0, 2 - MOST, 1, 0), -1)], [((0, MOST - 2, 2, 0), -1), ((0, -MOST, 9, 1), 1)]]
    found = changes(tm.Embedded(), calls, steps)
    assert found == changes(tm.Reference(), calls, steps)


def test_rows_that_tie_with_the_last_ones_looked_at_go_where_they_belong(few_are_many):
    """Of peers, of which all but the values that are added up are alike, those are taken out that were there before."""
    calls = [tm.sum("x").over(W.range_between(0, 0))]
    comes = [((1, 3 * i, 100 + i, 0), 1) for i in range(24)]
    goes = [((1, 3 * i, -i, i % 2), -1) for i in range(24)]
    for steps in ([comes, goes], [comes, [*goes[::2], *goes[1::4]]]):
        found = changes(tm.Embedded(), calls, steps)
        assert found == changes(tm.Reference(), calls, steps)


def test_thousands_of_rows_of_one_partition():
    """Not with small limits: several blocks, rows at equal times, beside partitions computed whole."""
    dice = np.random.default_rng(11)

    def some(count):
        return pa.table({
            "k": np.zeros(count, np.int64), "t": dice.integers(0, 60_000, count),
            "x": dice.integers(-(2**40), 2**40, count), "n": np.ones(count, np.int32),
        }, pa.schema([("k", "int64"), ("t", "int64"), ("x", "int64"), ("n", "int32")]))  # fmt: skip

    loaded, more = some(60_000), some(600)
    goes = loaded.take(pa.array(dice.choice(60_000, 600, replace=False)))
    flow = tm.Dataflow()
    calls = {"total": tm.sum("x").over(W.range_between(-90, 30)), "mean": tm.avg("n").over(W.range_between(-9, 0))}
    flow.output("y", flow.input("x", SCHEMA).with_columns(**calls))
    with flow.start() as run, flow.start() as whole:
        for changed in (
            [("insert", loaded)],
            [("insert", more)],
            [("delete", goes)],
            [("insert", goes), ("delete", more)],
        ):
            for put, rows in changed:
                getattr(run, put)("x", rows)
            run.advance()
        whole.insert("x", loaded)
        whole.advance()
        assert sorted(run.snapshot("y")) == sorted(whole.snapshot("y"))
