"""Rows of three numbers, and windows over them; beside them what `tidemill.testing.window_calls` draws."""

from __future__ import annotations

import tidemill as tm
from tidemill.testing.window_calls import FEW, LIMIT, calls, cases, changing_rows, schemas, windows

__all__ = ["FEW", "LIMIT", "SMALL", "TXY", "W", "calls", "cases", "changing_rows", "schemas", "several", "windows"]

TXY = {"k": "int64", "t": "int64", "x": "int64"}
W = tm.Window.partition_by("k").order_by("t")
SMALL = {name: [None, 0, 1, 2] for name in TXY}


def several(c, strategy="auto"):
    """Calls over several windows, in expressions with each other and by themselves."""
    how = {"strategy": strategy}
    return c.with_columns(
        change=tm.col("x") - tm.lag("x").over(W, **how),
        near=tm.sum("x").over(W.rows_between(-1, 1).exclude("current row"), **how),
        peers=tm.count().over(W, **how) + tm.rank().over(W, **how),
        place=tm.row_number().over(tm.Window.order_by(tm.desc("x", nulls="first")), **how),
        share=tm.sum("x").over(tm.Window.partition_by("k"), **how),
        kinds=tm.sum("x").over(tm.Window.order_by("t").groups_between(-1, 1), distinct=True, **how),
        within=tm.max("x").over(tm.Window.order_by("t").range_between(-1, tm.UNBOUNDED), **how),
    )
