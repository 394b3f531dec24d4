"""Aggregates over frames of a few rows, worked out row by row, are those that whole columns give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples

import tidemill as tm
from tidemill.renderer.embedded.windows import aggregates
from tidemill.renderer.embedded.windows.few_rows import aggregate_of_few

CALLS = {"n": tm.count("x"), "total": tm.sum("x"), "mean": tm.avg("x"), "least": tm.min("x"), "most": tm.max("x")}
NUMBERS = st.none() | st.integers(-3, 3) | st.sampled_from([2**61, -(2**61), 2**53 + 1])


def valued(rows, frame):
    flow = tm.Dataflow()
    w = tm.Window.partition_by("k").order_by("t").rows_between(*frame)
    flow.output("y", flow.input("x", {"k": "int64", "t": "int64", "x": "int64"}).with_columns(
        **{name: call.over(w) for name, call in CALLS.items()}
    ))  # fmt: skip
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        return run.snapshot("y").counts()


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 2), NUMBERS), max_size=20), st.integers(-4, 3), st.integers(0, 4))
def test_they_are_those_of_columns(numbers, low, width):
    rows = [(k, t, x) for t, (k, x) in enumerate(numbers)]
    frame = low, low + width
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregates, "FEW", -1)
        expected = outcome(rows, frame)
    assert outcome(rows, frame) == expected


def outcome(rows, frame):
    """Return the values, or that a sum is too large: which row is named may differ from one way to the other."""
    try:
        return valued(rows, frame)
    except tm.errors.ExpressionError as error:
        assert "overflow" in str(error)
        return "overflow"


def test_a_sum_that_is_too_large_is_refused_as_elsewhere():
    rows = [(0, t, 2**62) for t in range(3)]
    with pytest.raises(tm.errors.ExpressionError, match="overflow"):
        valued(rows, (-1, 0))


def test_few_rows_are_worked_out_one_by_one(monkeypatch):
    asked = []
    of_few = aggregate_of_few
    monkeypatch.setattr(aggregates, "aggregate_of_few", lambda *given: asked.append(of_few(*given)) or asked[-1])
    valued([(0, t, t) for t in range(32)], (-1, 0))
    assert len(asked) == len(CALLS)
    assert None not in [None if a is None else len(a) for a in asked]
    valued([(0, t, t) for t in range(33)], (-1, 0))
    assert len(asked) == len(CALLS)
