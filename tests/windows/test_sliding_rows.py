"""Frames of so many rows before each row, closed once and given row by row where few rows come: as whole columns do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples

import tidemill as tm
from tidemill.renderer.embedded.reduce import sliding_windows
from tidemill.renderer.embedded.windows.sliding_rows import Slid, SlidingRows
from tidemill.testing.closing_windows import ROW, V, W, told, updates

FRAMES = st.tuples(st.integers(-4, 0), st.integers(-4, 0)).map(sorted)
FUNCTIONS = [tm.count, tm.sum, tm.avg, tm.min, tm.max]


@st.composite
def calls(draw):
    window = draw(st.sampled_from([W, V]))
    found = {
        f.__name__: f("v").over(window.rows_between(*draw(FRAMES))) for f in draw(st.sets(st.sampled_from(FUNCTIONS)))
    }
    return {**found, "before": tm.lag("ts", draw(st.integers(0, 3))).over(window)}


def changes(named, found, marks):
    """All that a run gives, step by step."""
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 2))
    flow.output("out", x.with_columns(**named, emit="on_close"))
    given_out = []
    with flow.start() as run:
        for time in range(8):
            run.update("x", [u for u in found if u[1] == time])
            run.update("x.watermark", [u for u in marks if u[1] == time])
            run.advance_to(time + 1)
            given_out.append(sorted(map(repr, run.changes("out"))))
    return given_out


@pytest.mark.parametrize("few", [-1, 2])
def test_row_by_row_or_by_columns(few):
    """By columns always, or where more than so many rows come: then the one goes on from what the other left."""

    @examples(60)
    @given(named=calls(), found=updates(size=14), marks=told())
    def check(named, found, marks):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sliding_windows, "FEW_NEW", few)
            expected = changes(named, found, marks)
        assert changes(named, found, marks) == expected

    check()


NAMED = {
    "mean": tm.avg("v").over(W.rows_between(-4, 0)),
    "before": tm.lag("v", 2).over(W),
    "earlier": tm.max("v").over(W.rows_between(-3, -2)),
}


@pytest.mark.parametrize(
    ("more", "by_row"),
    [
        ({}, True),
        ({"number": tm.row_number().over(W)}, False),
        ({"next": tm.lead("v").over(W)}, False),
        ({"near": tm.sum("v").over(W.range_between(-3, 0))}, False),
    ],
)
def test_which_calls_go_row_by_row(monkeypatch, more, by_row):
    found, slide = [], SlidingRows.slide
    monkeypatch.setattr(SlidingRows, "slide", lambda *given: found.append(slide(*given)) or found[-1])
    rows = [(("ab"[i % 2], i, i * i), i // 4, 1) for i in range(32)]
    assert sum(map(len, changes({**NAMED, **more}, rows, []))) > 0
    assert len(found) == (8 if by_row else 0)
    assert all(isinstance(slid, Slid) for slid in found)


def test_what_is_kept_are_the_rows_that_frames_to_come_look_at():
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 0))
    flow.output("out", x.with_columns(sum=tm.sum("v").over(W.rows_between(-2, 0)), emit="on_close"))
    with flow.start() as run:
        for time in range(50):
            run.insert("x", [("ab"[time % 2], time, 1)])
            run.advance()
        run.compact()
        (slides,) = (o for o in run.metrics() if o.kind == "SlidingWindows")
        assert slides.state_rows == 4
        assert max(run.snapshot("out")) == ("b", 47, 1, 3)
