"""Sums over frames bounded by value, straight from the codes of a few stretches of rows, are those of the kernel."""

import datetime as dt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from running import examples
from window_steps import changes

import tidemill as tm
from tidemill.renderer.embedded.windows.sums_by_value import SumsByValue

AGGREGATES = {"n": tm.count("x"), "rows": tm.count(), "total": tm.sum("x"), "mean": tm.avg("x")}
FRAMES = {
    "before": (-3, 0),
    "around": (-2, 5),
    "after": (0, 4),
    "peers": (0, 0),
    "far": (-(2**62), 1),
    "up_to": (tm.UNBOUNDED, 0),
    "from": (-2, tm.UNBOUNDED),
}
W = tm.Window.partition_by("k").order_by("t")
DOWN = tm.Window.partition_by("k").order_by(tm.desc("t"))
CALLS = {
    f"{of}_{where}{'_down' if w is DOWN else ''}": call.over(w.range_between(*frame))
    for of, call in AGGREGATES.items()
    for where, frame in FRAMES.items()
    for w in (W, DOWN)
}
UP = sorted(name for name in CALLS if not name.endswith("_down"))
LOADED = [(0, i // 2, i) for i in range(40)] + [(1, 3 * i, -i) for i in range(40)]
ROWS = st.sampled_from(LOADED) | st.tuples(
    st.integers(0, 1), st.none() | st.integers(-2, 25), st.none() | st.integers(-9, 9) | st.just(2**61)
)
CHANGES = st.lists(st.tuples(ROWS, st.sampled_from([1, 2, -1])), max_size=4)


def changed(names, steps):
    """What changes of the calls of these names in each step."""
    return changes({name: CALLS[name] for name in names}, LOADED, steps)


def test_they_are_those_of_the_kernel(small_is_large):
    """Step by step: rows that come and go, copies, peers, rows without a time or a number, sums that are too large."""

    @examples(100)
    @example(["total_before"], [[((0, 5, 2**61), 2)], [((0, 6, 2**61), 2)], [((0, 6, 2**61), 1)]])
    @example(["total_before"], [[((0, 5, -(2**61)), 2)], [((0, 6, -(2**61)), 2)], [((0, 6, -(2**61)), 1)]])
    @example(["total_up_to"], [[((0, 0, 2**62), 1)], [((0, 0, 2**62 - 781), 1)], [((0, 15, 1), 1)]])  # all before, too
    @example(["total_from", "n_from", "mean_from"], [[((0, 5, 3), 1)], [((0, 5, None), 1)]])
    @example(["rows_from_down", "rows_up_to_down", "total_up_to_down"], [[((0, 5, 3), 1)], [((0, 15, 1), -1)]])
    @example(["rows_far", "total_far"], [[((1, 16, 5), 1)]])  # no row has the next value
    @example(["mean_around", "n_far"], [[((0, None, 3), 1)], [((0, 4, None), 1)], [((0, 4, None), -1)]])
    @given(
        st.lists(st.sampled_from(UP), min_size=1, max_size=3, unique=True)
        | st.lists(st.sampled_from([f"{name}_down" for name in UP]), min_size=1, max_size=3, unique=True),
        st.lists(CHANGES, max_size=5),
    )
    def check(names, steps):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SumsByValue, "write", lambda *_: False)
            expected = changed(names, steps)
        assert changed(names, steps) == expected

    check()


@pytest.fixture
def asked(small_is_large, monkeypatch):
    """Whether changes were worked out so, each time that it was asked."""
    found, write = [], SumsByValue.write
    monkeypatch.setattr(SumsByValue, "write", lambda *given: found.append(write(*given)) or found[-1])
    return found


def change(schema, call, rows, come):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", schema).with_columns(y=call))
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        run.insert("x", [come])
        run.advance()
        assert len(run.changes("y"))


def test_sums_of_an_hour_are_worked_out_so(asked):
    start, hour = dt.datetime(2020, 1, 1), tm.Window.order_by("t").range_between(-dt.timedelta(hours=1), 0)  # noqa: DTZ001
    rows = [(start + dt.timedelta(minutes=i), i) for i in range(300)]
    change({"t": "timestamp", "x": "int64"}, tm.sum("x").over(hour), rows, (start + dt.timedelta(seconds=30), 7))
    assert asked == [True]


AROUND = tm.Window.order_by("t").range_between(-3, 0)


@pytest.mark.parametrize(
    ("t", "x", "call"),
    [
        ("float64", "int64", tm.sum("x").over(AROUND)),
        ("int64", "float64", tm.sum("x").over(AROUND)),
        ("int64", "int64", tm.min("x").over(AROUND)),
        ("int64", "int64", tm.count_distinct("x").over(AROUND)),
        ("int64", "int64", tm.sum("x").over(AROUND.exclude("ties"))),
        ("int64", "int64", tm.sum("x").over(tm.Window.order_by("t").range_between(-3, -1))),
    ],
)
def test_others_are_not(asked, t, x, call):
    change({"t": t, "x": x}, call, [(i, i) for i in range(300)], (7, 7))
    assert asked == []
