"""What dynamic filters with a right side declared monotone keep: the rows that a move may still change, and no others."""

import operator
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, embedded, examples, new_flow

import tidemill as tm
from tidemill.dataflow.composites import OrderedDynamicFilter
from tidemill.renderer.embedded.kernels.updates import NULL, consolidated
from tidemill.renderer.embedded.operators.dynamic_filter import DynamicFilterOperator
from tidemill.renderer.embedded.trace.spine import TAIL

COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def filter_of(run):
    compiled = embedded(run).compiled
    (found,) = (o for node, o in compiled.operators.items() if isinstance(node, OrderedDynamicFilter))
    return found


def rows_of(spine):
    """The rows of two int columns that a spine has, whatever their times, with their counts."""
    rows = consolidated(spine.all_updates()[[0, 1, -1]])
    return Counter({tuple(None if c == NULL else c for c in row): n for *row, n in rows.T.tolist()})


@pytest.fixture
def looked_at(monkeypatch):
    """How many kept updates each comparison with a value goes through."""
    found = []
    truth = DynamicFilterOperator._truth
    monkeypatch.setattr(
        DynamicFilterOperator, "_truth", lambda self, u, v: found.append(u.shape[1]) or truth(self, u, v)
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("comparison", "monotone"), [
    ("<", "increasing"), (">=", "increasing"), ("<=", "decreasing"), (">", "decreasing"),
])  # fmt: skip
def test_many_small_moves_leave_behind_what_they_passed(comparison, monotone, looked_at):
    """The kind: a retraction is of what a move settles, not of all that is found beside it, be it settled long before.

    With every move what is kept is that which the value has not passed, and no more retractions beside it than merging
    lets lie; and a move looks at the rows that it passes and at the tail, from the first move to the last.
    """
    n, by = 5000, 10
    flow = new_flow()
    left, right = flow.input("left", {"v": "int64"}), flow.input("right", {"x": "int64"})
    best = right.agg(x=tm.max("x") if monotone == "increasing" else tm.min("x"))
    flow.output("out", left.dynamic_filter("v", comparison, best, monotone=monotone), changes=False)
    sign = 1 if monotone == "increasing" else -1
    with flow.start() as run:
        run.insert("left", [(sign * i,) for i in range(n)])
        run.insert("right", [(0,)])
        run.advance()
        (spine,) = [spine for name, spine in filter_of(run).spines().items() if name != "right"]
        looked_at.clear()
        for passed in range(by, n - 100 + 1, by):
            run.insert("right", [(sign * passed,)])
            run.advance()
            assert spine.size <= 2 * (n - passed) + 3 * TAIL
        assert len(looked_at) == 2 * (n - 100) // by  # with the value before, and with the value after
        assert max(looked_at) <= 2 * (by + 1) + TAIL
        run.compact()
        assert spine.size in {100, 99}


def test_a_window_that_slides_takes_the_same_memory_and_work_for_ever(looked_at):
    """Rows come in front of a value that rises, and go after it: no trace of them is left."""
    flow = new_flow()
    left = flow.input("left", {"v": "int64"})
    now = left.agg(x=tm.max("v")).select(x="x - 50")
    flow.output("out", left.dynamic_filter("v", ">", now, monotone="increasing"), changes=False)
    kept, seen = [], []
    with flow.start() as run:
        for i in range(300):
            looked_at.clear()
            run.insert("left", [(10 * i + j,) for j in range(10)])
            run.advance()
            kept.append(sum(s.size for name, s in filter_of(run).spines().items() if name != "right"))
            seen.append(sum(looked_at))
    assert max(kept[150:]) <= max(kept[:150])
    assert max(seen[150:]) <= max(seen[:150])


SMALL = st.none() | st.integers(-7, 7)
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.tuples(SMALL, SMALL), st.sampled_from([1, 1, -1])), max_size=4),
        st.none() | st.tuples(*[st.none() | st.integers(0, 2)] * 2),
        st.sampled_from(["", "", "compact", "spill"]),
    ),
    min_size=3,
    max_size=8,
)  # fmt: skip


@pytest.mark.slow
@examples(150)
@given(
    steps=STEPS,
    how=st.lists(st.sampled_from([(c, op, x) for c in KV for op in COMPARE for x in "xy"]), min_size=1, max_size=2),
    monotone=st.sampled_from(["increasing", "decreasing"]),
)
def test_what_is_kept_is_what_may_still_change(steps, how, monotone, tmp_path_factory):
    """The kind, whatever comes first and however the sides move: rows, a value, one of two values, deletions.

    A row may change until a comparison is false of it for good, or all are true of it for good. Rows lie in the tail,
    sorted, or on the disk.
    """
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64", "y": "int64"})
    most, greatest = (tm.max, max) if monotone == "increasing" else (tm.min, min)
    best = right.agg(x=most("x"), y=most("y"))
    flow.output("out", left.dynamic_filter(how, best, monotone=monotone), changes=False)
    rows, reached = Counter((v, -v) for v in range(-8, 9)), {"x": None, "y": None}
    sign = 1 if monotone == "increasing" else -1
    on_disk = any(then == "spill" for _, _, then in steps)
    with flow.start(tm.Embedded(state=tmp_path_factory.mktemp("state")) if on_disk else tm.Embedded()) as run:
        run.insert("left", list(rows))
        run.advance()
        run.compact()
        for time, (some, moved, then) in enumerate(steps, 1):
            values = [] if moved is None else [tuple(None if by is None else sign * (time + by) for by in moved)]
            run.update("left", [(row, time, n) for row, n in some])
            run.insert("right", values)
            run.advance()
            if then:
                getattr(run, then)()
            for row, n in some:
                rows[row] += n
            for x, value in (pair for row in values for pair in zip("xy", row, strict=True)):
                reached[x] = greatest((v for v in (reached[x], value) if v is not None), default=None)
            left_open = {r: n for r, n in rows.items() if n and may_change(r, reached, how, monotone)}
            for name, spine in filter_of(run).spines().items():
                assert name == "right" or rows_of(spine) == left_open


def may_change(row, reached, how, monotone):
    of = dict(zip("kv", row, strict=True))
    if any(of[c] is None for c, _, _ in how):
        return False
    true = [reached[x] is not None and COMPARE[op](of[c], reached[x]) for c, op, x in how]
    falls = [op.startswith(">") == (monotone == "increasing") for _, op, _ in how]
    lost = any(f and reached[x] is not None and not t for f, t, (_, _, x) in zip(falls, true, how, strict=True))
    return not lost and (any(falls) or not all(true))
