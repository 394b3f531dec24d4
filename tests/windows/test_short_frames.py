"""Sums over frames of a few rows, added up one by one, are those of prefix sums."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples

import tidemill as tm
from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.windows import sums
from tidemill.renderer.embedded.windows.frames import frame_parts
from tidemill.renderer.embedded.windows.ordering import OrderedRows
from tidemill.renderer.embedded.windows.partitions import Partitions
from tidemill.renderer.embedded.windows.sums import FrameSums, ShortFrameSums


def partitions(sizes):
    ends = np.cumsum(sizes)
    ordered = OrderedRows(np.arange(int(ends[-1])), ends - sizes, ends - sizes)
    anything: Any = None
    return Partitions(anything, (), anything, anything, ordered)


@examples(60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from([1, 2**62, 10**30]),
)
def test_sums_of_neighbours_are_differences_of_prefix_sums(sizes, before, after, unit):
    rows = partitions(np.array(sizes))
    numbers = np.array([(i * i - 7) * unit for i in range(len(rows))], object)
    if unit != 10**30:  # int64, that goes round
        numbers = np.array([(int(n) + 2**63) % 2**64 - 2**63 for n in numbers], np.int64)
    found = ShortFrameSums(rows, before, after).of(numbers)
    expected = FrameSums(frame_parts(rows, Frame.of("rows", -before, after))).of(numbers)
    assert found.tolist() == expected.tolist()
    assert found.dtype == expected.dtype


LONG = np.array([100, 80])


@pytest.mark.parametrize(
    ("frame", "sizes", "is_short"),
    [
        (Frame.of("rows", -4, 0), LONG, True),
        (Frame.of("rows", 0, 8), LONG, True),
        (Frame.of("rows", -4, 5), LONG, False),
        (Frame.of("rows", -4, -1), LONG, False),
        (Frame.of("rows", tm.UNBOUNDED, 0), LONG, False),
        (Frame.of("range", -4, 0), LONG, False),
        (Frame("rows", -4, 0, exclusion="current row"), LONG, False),
        (Frame.of("rows", -4, 0), np.full(9, 20), False),
    ],
)
def test_which_frames_are_short(frame, sizes, is_short):
    assert (ShortFrameSums.of_frame(partitions(sizes), frame) is not None) == is_short


def test_a_window_call_uses_them_and_gives_the_same(monkeypatch):
    """With floats that are far apart, NULL and NaN, and whole numbers too large for a word."""
    rng = np.random.default_rng(2)
    dice = enumerate(rng.normal(0, 90, 300))
    rows: list[Any] = [(i % 3, i, float(x) if i % 7 else None, int(x) * 10**17) for i, x in dice]
    rows += [(3, i, x, None) for i, x in enumerate([1e300, -1e-300, float("nan"), float("inf"), 5e-324] * 20)]

    def found():
        flow = tm.Dataflow()
        x = flow.input("x", {"k": "int64", "t": "int64", "f": "float64", "d": "decimal(38,0)"})
        frame = tm.Window.partition_by("k").order_by("t").rows_between(-2, 1)
        calls = {"s": tm.sum("f"), "d": tm.sum("d"), "a": tm.avg("f"), "v": tm.variance("d"), "n": tm.count("f")}
        flow.output("o", x.with_columns(**{n: c.over(frame, strategy="recompute") for n, c in calls.items()}))
        with flow.start() as run:
            run.insert("x", rows)
            run.advance()
            return sorted(map(repr, run.snapshot("o")))

    of, called = ShortFrameSums.of, []
    monkeypatch.setattr(ShortFrameSums, "of", lambda self, numbers: called.append(numbers) or of(self, numbers))
    short = found()
    assert called
    monkeypatch.setattr(sums, "_SHORT", 0)
    called.clear()
    assert found() == short
    assert not called
