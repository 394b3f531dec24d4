"""Random rows, windows and calls over them: all functions, frames, exclusions, orders, nulls, ties and counts."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

from hypothesis import strategies as st

import tidemill as tm
from tidemill.boundary.rows import checked_rows
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import (
    cume_dist,
    dense_rank,
    first_value,
    lag,
    last_value,
    lead,
    nth_value,
    ntile,
    percent_rank,
    rank,
    row_number,
)
from tidemill.expressions.windows.specification import Window

LIMIT = 2**63 - 1
FEW = {
    "int64": st.sampled_from([0, 1, 2, 3, 5, 9]) | st.sampled_from([-LIMIT, LIMIT, LIMIT - 1, 2**62]),
    "int32": st.integers(-3, 6),
    "float64": st.sampled_from([0.0, 0.1, 1.0, 2.5, 1e20, -1e20, 1e-300, 1e300, 5e-324]) | st.sampled_from([math.nan, math.inf, -math.inf]),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "a", "b", "ab"]),
    "date": st.dates(dt.date(2024, 1, 27), dt.date(2024, 3, 2)) | st.sampled_from([dt.date.min, dt.date.max]),
    "timestamp": st.datetimes(dt.datetime(2024, 1, 30), dt.datetime(2024, 2, 2)) | st.sampled_from([dt.datetime.min, dt.datetime.max]),
    "decimal(6,2)": st.decimals(-9, 9, places=1),
    "decimal(30,2)": st.decimals(-9, 9, places=2) | st.just(decimal.Decimal("9" * 28)),
    "list<int64>": st.lists(st.none() | st.integers(0, 2), max_size=2).map(tuple),
}  # fmt: skip
"""Few values of each type, so that there are ties, and some from its ends."""

NUMBERS = ("int64", "int32", "float64", "decimal(6,2)", "decimal(30,2)")
DISTANCES = {
    **dict.fromkeys(("int64", "int32"), st.integers(-4, 4) | st.sampled_from([-LIMIT, LIMIT])),
    "float64": st.sampled_from([-1.5, 0.1, 1.0, -0.1, 1e300]) | st.integers(-2, 2),
    **dict.fromkeys(("decimal(6,2)", "decimal(30,2)"), st.decimals(-4, 4, places=3) | st.integers(-3, 3)),
    "date": st.integers(-9, 9) | st.timedeltas(dt.timedelta(days=-9), dt.timedelta(days=9)) | st.integers(-2, 2).map(lambda n: tm.interval(months=n)) | st.just(tm.interval(years=9000)),
    "timestamp": st.timedeltas(dt.timedelta(days=-3), dt.timedelta(days=3)) | st.integers(-2, 2).map(lambda n: tm.interval(months=n)) | st.just(dt.timedelta(days=-999999)),
}  # fmt: skip
"""Offsets of RANGE frames, for the types that have some."""

RANKINGS = [row_number(), rank(), dense_rank(), percent_rank(), cume_dist(), ntile(3), ntile("abs(n) + 1"), ntile(100)]


VALUES: list[Any] = [
    first_value,
    last_value,
    lambda x, **how: nth_value(x, 2, **how),
    lambda x, **how: nth_value(x, "abs(n) + 1", **how),
]


@st.composite
def rows(draw, schema):
    """Rows of a schema, each with a count."""
    values = [st.none() | FEW[t.removesuffix(" not null")] for t in schema.values()]
    counted = draw(st.lists(st.tuples(st.tuples(*values), st.sampled_from([1, 1, 1, 2, 3])), max_size=9))
    checked = checked_rows(Schema.of(schema), [row for row, _ in counted], "rows")
    return dict(zip(checked, (count for _, count in counted)))


@st.composite
def schemas(draw):
    """Columns to partition by, to order by twice, of values, and of small numbers."""
    t, u, x = (draw(st.sampled_from(list(FEW))) for _ in range(3))
    return {"k": "string", "t": t, "u": u, "x": x, "n": "int32"}


@st.composite
def frames(draw, window, order_type):
    """A window with a frame, and with what it leaves out."""
    modes = (
        ["rows"]
        + ["groups"] * (len(window.order) > 0)
        + ["range"] * (len(window.order) == 1 and order_type in DISTANCES)
    )
    mode = draw(st.sampled_from([*modes, "peers", "none"]))
    bound: Any = st.just(UNBOUNDED) | st.just(0)
    if mode in ("rows", "groups"):
        bound |= st.integers(-3, 3)
    elif mode == "range":
        bound |= DISTANCES[order_type]
    start, end = draw(bound), draw(bound)
    if mode != "none":
        window = getattr(window, ("range" if mode == "peers" else mode) + "_between")(start, end)
    return window.exclude(draw(st.sampled_from(["no others", "no others", "current row", "group", "ties"])))


@st.composite
def windows(draw, schema):
    """A window's partitioning and order, and the type of the one column of it, if there is one."""
    window = Window.partition_by("k") if draw(st.booleans()) else Window()
    keys = draw(st.sampled_from([[], ["t"], ["t"], ["t"], ["t", "u"]]))
    nulls = st.sampled_from(["first", "last"])
    order = [draw(st.sampled_from([tm.asc, tm.desc]))(key, nulls=draw(nulls)) for key in keys]
    return (window.order_by(*order) if order else window), (schema["t"] if len(order) == 1 else None)


@st.composite
def calls(draw, schema, window, order_type):
    """A call of any function over a window, with a frame of its own."""
    framed = draw(frames(window, order_type))
    kind = draw(st.sampled_from(["ranking", "offset", "value", "count", "aggregate", "aggregate", "aggregate"]))
    ignore = draw(st.booleans())
    if kind == "ranking":
        return draw(st.sampled_from(RANKINGS)).over(framed)
    if kind == "offset":
        offset = draw(st.integers(-3, 3) | st.sampled_from(["n", LIMIT, -LIMIT]))
        default = draw(st.sampled_from([None, tm.col("x")]))
        return draw(st.sampled_from([lag, lead]))("x", offset, default, ignore_nulls=ignore).over(framed)
    if kind == "value":
        function = draw(st.sampled_from(VALUES))
        return function("x", ignore_nulls=ignore).over(framed)
    if kind == "count":
        return tm.count().over(framed)
    names = ["count", "count_distinct", "min", "max", "list"]
    x = schema["x"]
    names += ["sum", "avg", "variance", "stddev"] * (x in NUMBERS) + ["bool_and", "bool_or"] * (x == "bool")
    name = draw(st.sampled_from(names))
    aggregate = getattr(tm, name)("x")
    if draw(st.booleans()):
        aggregate = aggregate.filter("n > 0")
    return aggregate.over(framed, distinct=name not in ("list", "count_distinct") and draw(st.booleans()))


@st.composite
def cases(draw, most=3):
    """A schema, rows of it with counts, and calls over one partitioning and order."""
    schema = draw(schemas())
    window, order_type = draw(windows(schema))
    some = draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=most))
    return schema, draw(rows(schema)), {f"c{i}": call for i, call in enumerate(some)}


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


@st.composite
def changing_rows(draw, schema, most=6, latest=2):
    """Updates: rows that come at some time and, some of them, go again at a later one."""
    values = [st.none() | FEW[t] for t in schema.values()]
    found = []
    for row in draw(st.lists(st.tuples(*values), max_size=most)):
        (checked,) = checked_rows(Schema.of(schema), [row], "rows")
        time, count = draw(st.integers(0, latest)), draw(st.sampled_from([1, 1, 2]))
        found.append((checked, time, count))
        if draw(st.booleans()):
            found.append((checked, time + draw(st.integers(0, latest)), -1))
    return found
