"""Random rows of many types, windows and calls over them: all functions, frames, orders, nulls, ties and counts."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from tidemill.boundary.rows import checked_rows
from tidemill.expressions import aggregate_functions as agg
from tidemill.expressions.expr import col
from tidemill.expressions.functions.dates import interval
from tidemill.expressions.schema import Schema
from tidemill.expressions.sort_keys import asc, desc
from tidemill.expressions.windows.calls import WindowCall
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

SchemaOf: TypeAlias = dict[str, str]
LIMIT: Final = 2**63 - 1
_moment = functools.partial(dt.datetime, tzinfo=None)
FEW: Final[dict[str, st.SearchStrategy[Any]]] = {
    "int64": st.sampled_from([0, 1, 2, 3, 5, 9]) | st.sampled_from([-LIMIT, LIMIT, LIMIT - 1, 2**62]),
    "int32": st.integers(-3, 6),
    "float64": st.sampled_from([0.0, 0.1, 1.0, 2.5, 1e20, -1e20, 1e-300, 1e300, 5e-324])
    | st.sampled_from([math.nan, math.inf, -math.inf]),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "a", "b", "ab"]),
    "date": st.dates(dt.date(2024, 1, 27), dt.date(2024, 3, 2)) | st.sampled_from([dt.date.min, dt.date.max]),
    "timestamp": st.datetimes(_moment(2024, 1, 30), _moment(2024, 2, 2))
    | st.sampled_from([_moment(1, 1, 1), _moment(9999, 12, 31, 23, 59, 59, 999999)]),
    "decimal(6,2)": st.decimals(-9, 9, places=1),
    "decimal(30,2)": st.decimals(-9, 9, places=2) | st.just(decimal.Decimal("9" * 28)),
    "list<int64>": st.lists(st.none() | st.integers(0, 2), max_size=2).map(tuple),
    "list<float64>": st.lists(st.none() | st.sampled_from([0.0, -0.0, 2.5, math.nan]), max_size=2).map(tuple),
}
"""Few values of each type, so that there are ties, and some from its ends."""

NUMBERS: Final = ("int64", "int32", "float64", "decimal(6,2)", "decimal(30,2)")


def _days(most: int) -> st.SearchStrategy[dt.timedelta]:
    return st.timedeltas(dt.timedelta(days=-most), dt.timedelta(days=most))


_months = st.integers(-2, 2).map(lambda n: interval(months=n))
DISTANCES: Final[dict[str, st.SearchStrategy[Any]]] = {
    **dict.fromkeys(("int64", "int32"), st.integers(-4, 4) | st.sampled_from([-LIMIT, LIMIT, -(2**63), 2**64])),
    "float64": st.sampled_from([-1.5, 0.1, 1.0, -0.1, 1e300]) | st.integers(-2, 2),
    **dict.fromkeys(("decimal(6,2)", "decimal(30,2)"), st.decimals(-4, 4, places=3) | st.integers(-3, 3)),
    "date": st.integers(-9, 9) | _days(9) | _months | st.just(interval(years=9000)),
    "timestamp": _days(3) | _months | st.just(dt.timedelta(days=-999999)),
}
"""Offsets of RANGE frames, for the types that have some."""

RANKINGS: Final = [
    row_number(),
    rank(),
    dense_rank(),
    percent_rank(),
    cume_dist(),
    ntile(3),
    ntile("abs(n) + 1"),
    ntile(100),
]


VALUES: Final[list[Any]] = [
    first_value,
    last_value,
    lambda x, **how: nth_value(x, 2, **how),
    lambda x, **how: nth_value(x, "abs(n) + 1", **how),
]


@st.composite
def rows(draw: st.DrawFn, schema: SchemaOf) -> dict[tuple[Any, ...], int]:
    """Draw rows of a schema, each with a count."""
    values = [st.none() | FEW[t.removesuffix(" not null")] for t in schema.values()]
    counted = draw(st.lists(st.tuples(st.tuples(*values), st.sampled_from([1, 1, 1, 2, 3])), max_size=9))
    checked = checked_rows(Schema.of(schema), [row for row, _ in counted], "rows")
    return dict(zip(checked, (count for _, count in counted), strict=True))


NUMBERS_ALONE: Final = {"k": "string", "t": "int64", "u": "int64", "x": "int64", "n": "int32"}


@st.composite
def schemas(draw: st.DrawFn) -> SchemaOf:
    """Draw columns to partition by, to order by twice, of values, and of small numbers."""
    t, u, x = (draw(st.sampled_from(list(FEW))) for _ in range(3))
    return {"k": "string", "t": t, "u": u, "x": x, "n": "int32"}


@st.composite
def frames(draw: st.DrawFn, window: Window, order_type: str | None) -> Window:
    """Draw a window with a frame, and with what it leaves out."""
    modes = (
        ["rows"]
        + ["groups"] * (len(window.order) > 0)
        + ["range"] * (len(window.order) == 1 and order_type in DISTANCES)
    )
    mode = draw(st.sampled_from([*modes, "peers", "none"]))
    bound: Any = st.just(UNBOUNDED) | st.just(0)
    if mode in ("rows", "groups"):
        bound |= st.integers(-3, 3)
    elif mode == "range" and order_type is not None:
        bound |= DISTANCES[order_type]
    start, end = draw(bound), draw(bound)
    if mode != "none":
        window = getattr(window, ("range" if mode == "peers" else mode) + "_between")(start, end)
    return window.exclude(draw(st.sampled_from(["no others", "no others", "current row", "group", "ties"])))


@st.composite
def windows(draw: st.DrawFn, schema: SchemaOf) -> tuple[Window, str | None]:
    """Draw a window's partitioning and order, and the type of the one column of it, if there is one."""
    window = Window.partition_by("k") if draw(st.booleans()) else Window()
    keys = draw(st.sampled_from([[], ["t"], ["t"], ["t"], ["t", "u"]]))
    nulls = st.sampled_from(["first", "last"])
    order = [draw(st.sampled_from([asc, desc]))(key, nulls=draw(nulls)) for key in keys]
    return (window.order_by(*order) if order else window), (schema["t"] if len(order) == 1 else None)


@st.composite
def calls(draw: st.DrawFn, schema: SchemaOf, window: Window, order_type: str | None) -> Any:
    """Draw a call of any function over a window, with a frame of its own."""
    framed = draw(frames(window, order_type))
    kind = draw(st.sampled_from(["ranking", "offset", "value", "count", "aggregate", "aggregate", "aggregate"]))
    ignore = draw(st.booleans())
    if kind == "ranking":
        return draw(st.sampled_from(RANKINGS)).over(framed)
    if kind == "offset":
        offset = draw(st.integers(-3, 3) | st.sampled_from(["n", LIMIT, -LIMIT]))
        default = draw(st.sampled_from([None, col("x")]))
        return draw(st.sampled_from([lag, lead]))("x", offset, default, ignore_nulls=ignore).over(framed)
    if kind == "value":
        function = draw(st.sampled_from(VALUES))
        return function("x", ignore_nulls=ignore).over(framed)
    if kind == "count":
        return agg.count().over(framed)
    names = ["count", "count_distinct", "min", "max", "list"]
    x = schema["x"]
    names += ["sum", "avg", "variance", "stddev"] * (x in NUMBERS) + ["bool_and", "bool_or"] * (x == "bool")
    name = draw(st.sampled_from(names))
    aggregate = getattr(agg, name)("x")
    if draw(st.booleans()):
        aggregate = aggregate.filter("n > 0")
    return aggregate.over(framed, distinct=name not in ("list", "count_distinct") and draw(st.booleans()))


@st.composite
def cases(draw: st.DrawFn, most: int = 3) -> tuple[SchemaOf, dict[tuple[Any, ...], int], dict[str, WindowCall]]:
    """Draw a schema, rows of it with counts, and calls over one partitioning and order."""
    schema = draw(schemas())
    window, order_type = draw(windows(schema))
    some = draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=most))
    return schema, draw(rows(schema)), {f"c{i}": call for i, call in enumerate(some)}


@st.composite
def changing_rows(
    draw: st.DrawFn,
    schema: SchemaOf,
    *,
    most: int = 6,
    latest: int = 2,
    least: int = 0,
    values: Mapping[str, Sequence[Any]] | None = None,
) -> list[tuple[tuple[Any, ...], int, int]]:
    """Draw updates: rows that come at some time and, some of them, go again at a later one."""
    columns = [st.none() | FEW[t] if values is None else st.sampled_from(values[name]) for name, t in schema.items()]
    found = []
    for row in draw(st.lists(st.tuples(*columns), min_size=least, max_size=most)):
        (checked,) = checked_rows(Schema.of(schema), [row], "rows")
        time, count = draw(st.integers(0, latest)), draw(st.sampled_from([1, 1, 2]))
        found.append((checked, time, count))
        if draw(st.booleans()):
            found.append((checked, time + draw(st.integers(0, latest)), -1))
    return found


# Over rows of three numbers.

TXY = {"k": "int64", "t": "int64", "x": "int64"}
W = Window.partition_by("k").order_by("t")
SMALL = {name: [None, 0, 1, 2] for name in TXY}


def several(c, strategy="auto"):
    """Calls over several windows, in expressions with each other and by themselves."""
    how = {"strategy": strategy}
    return c.with_columns(
        change=col("x") - lag("x").over(W, **how),
        near=agg.sum("x").over(W.rows_between(-1, 1).exclude("current row"), **how),
        peers=agg.count().over(W, **how) + rank().over(W, **how),
        place=row_number().over(Window.order_by(desc("x", nulls="first")), **how),
        share=agg.sum("x").over(Window.partition_by("k"), **how),
        kinds=agg.sum("x").over(Window.order_by("t").groups_between(-1, 1), distinct=True, **how),
        within=agg.max("x").over(Window.order_by("t").range_between(-1, UNBOUNDED), **how),
    )
