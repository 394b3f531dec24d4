"""Frames of the last few rows, as sums over the order: whole columns at once, a row moved, and recomputed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidemill as tm
from tidemill.renderer.embedded.operators import table_function

CALLS: dict[str, Any] = {
    "sum": tm.sum("x"), "avg": tm.avg("x"), "min": tm.min("x"), "max": tm.max("x"), "count": tm.count("x"),
    "rows": tm.count(), "total": tm.sum("f"), "first": tm.first_value("x"),
    "last": tm.last_value("f"), "spread": tm.stddev("x"),
}  # fmt: skip
FRAMES = [(-4, 0), (-4, -2), (0, 0), (-16, 0), (-3, -3)]


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 4])
@pytest.mark.parametrize("frame", FRAMES)
def test_frames_of_the_last_rows(frame, few, monkeypatch):
    monkeypatch.setattr(table_function, "FEW_ROWS", few)
    window = tm.Window.partition_by("p").order_by("t").rows_between(*frame)
    flow, dice = tm.Dataflow(), np.random.default_rng(abs(hash(frame)) % 2**32)
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64", "f": "float64"})
    for how in ("recompute", "prefix_sum"):
        flow.output(how, rows.with_columns(**{n: call.over(window, strategy=how) for n, call in CALLS.items()}))

    def row(t):
        x = None if dice.random() < 0.2 else int(dice.integers(-5, 5))
        return int(dice.integers(3)), t, x, None if x is None else x / 4

    given = [row(t // 2) for t in range(200)]  # with ties, and copies
    with flow.start() as run:
        run.insert("rows", given + given[:20])
        run.advance()
        for number in range(6):
            run.delete("rows", [given.pop(int(dice.integers(len(given))))])
            run.insert("rows", [row(int(dice.integers(100))) for _ in range(number % 3)])
            run.advance()
            assert list(run.snapshot("prefix_sum")) == list(run.snapshot("recompute"))


def test_sums_at_rows_are_no_lists_of_values():
    """What is kept of values is one list for each block, and no function is called for each row."""
    window = tm.Window.partition_by("p").order_by("t").rows_between(-4, 0)
    flow = tm.Dataflow()
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    flow.output("out", rows.with_columns(y=tm.sum("x").over(window, strategy="prefix_sum")))
    with flow.start() as run:
        *_, at_rows = (n for n in run.graph.nodes if n.kind == "FlatMap")
        assert at_rows.describe() == "Spread"
        assert not any(f.dtype.is_list for f in at_rows.schema)


def test_a_frame_that_ends_before_the_first_row_is_empty():
    """Where fewer rows come before than are left out, none is left."""
    window = tm.Window.order_by("t").rows_between(-3, -3)
    flow = tm.Dataflow()
    rows = flow.input("rows", {"t": "int64"})
    flow.output("out", rows.select("t", y=tm.sum("t").over(window, strategy="prefix_sum")))
    with flow.start() as run:
        run.insert("rows", [(t,) for t in range(5)])
        run.advance()
        assert list(run.snapshot("out")) == [(0, None), (1, None), (2, None), (3, 0), (4, 1)]
