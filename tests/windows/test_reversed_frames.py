"""Frames that begin behind their end: empty in every row, in all renderings, and a warning where they are written."""

import datetime as dt
import inspect
import itertools
import warnings
from decimal import Decimal
from typing import Any

import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import EmptyFrameWarning
from tidemill.expressions.windows.frames import UNBOUNDED, Frame
from tidemill.testing import all_at_once, check_equivalent, time_by_time

BY_T = tm.Window.partition_by("k").order_by("t")
SCHEMA = {"k": "int64", "t": "date", "x": "int64"}
DAYS = [dt.date(1, 1, 1), dt.date(2024, 1, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31), None]
ROWS = [(k, day, x) for k in (1, 2) for x, day in enumerate([*DAYS, DAYS[1]])]
BEHIND = {
    "rows": (0, -1), "rows ": (2, 1), "rows  ": (-1, -2), "rows   ": (2**62, -(2**62)), "groups": (1, 0),
    "groups ": (-1, -3), "range": (1, 0), "range ": (dt.timedelta(0), tm.interval(months=-1)),
    "range  ": (tm.interval(months=2), tm.interval(months=1)), "range   ": (tm.interval(years=9000), 1),
    "range    ": (2, dt.timedelta(hours=47)), "range     ": (tm.interval(days=1), tm.interval(months=-1)),
}  # fmt: skip
NOTHING: dict[str, tuple[Any, Any]] = {
    "n": (tm.count(), 0), "some": (tm.count("x").filter("x > 1"), 0), "kinds": (tm.count_distinct("x"), 0),
    "list": (tm.list("x"), ()), "sum": (tm.sum("x"), None), "avg": (tm.avg("x"), None), "max": (tm.max("x"), None),
    "first": (tm.first_value("x"), None), "last": (tm.last_value("x", ignore_nulls=True), None),
    "nth": (tm.nth_value("x", 2), None), "spread": (tm.stddev("x"), None),
}  # fmt: skip


SUMMED = ("rows", "groups ", "range ", "range     ")
"""Those that are rendered as sums too, which takes longer."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frame", "strategy"), [*itertools.product(BEHIND, ["auto", "recompute"]), *((f, "prefix_sum") for f in SUMMED)]
)
def test_they_are_empty_in_all_renderings(frame, strategy):
    """Whatever is left out of them, at whatever distance the bounds are, and as rows change.

    But that a row without a value to be at a distance from has its peers in any RANGE, as ever.
    """
    window = getattr(BY_T, f"{frame.strip()}_between")(*BEHIND[frame])
    calls = dict(itertools.islice(NOTHING.items(), 3 if strategy == "prefix_sum" else None))
    flow, made = tm.Dataflow(), {n: c.over(window, strategy=strategy) for n, (c, _) in calls.items()}
    made["others"] = tm.count().over(window.exclude("ties"), strategy=strategy)
    flow.output("y", flow.input("x", SCHEMA).with_columns(**made))
    updates = [(row, 0, 1 + (row[2] == 2)) for row in ROWS] + [(row, 1, -1) for row in ROWS[::3]]
    check_equivalent(flow, {"x": updates}, batchings=[time_by_time])
    with start(flow, "embedded") as run:
        run.update("x", updates)
        run.advance_to(2)
        rows = [row for row in run.snapshot("y") if row[1] is not None or not frame.startswith("range")]
    assert rows
    assert {row[len(SCHEMA) :] for row in rows} == {(*(value for _, value in calls.values()), 0)}


def test_on_close_too():
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA, watermark=("t", dt.timedelta(0)))
    window = BY_T.rows_between(0, -1)
    flow.output("y", x.with_columns(**{n: c.over(window) for n, (c, _) in NOTHING.items()}, emit="on_close"))
    updates = [(row, row[2], 1) for row in ROWS if row[1] is not None]
    check_equivalent(flow, {"x": updates}, batchings=[all_at_once, time_by_time])


WRITTEN = {
    "rows": lambda: BY_T.rows_between(0, -1),
    "on the class": lambda: tm.Window.groups_between(1, 0),
    "a literal": lambda: BY_T.range_between(tm.lit(1), 0.5),
    "decimals": lambda: BY_T.range_between(Decimal("0.2"), Decimal("0.1")),
    "days and hours": lambda: BY_T.range_between(dt.timedelta(days=1), dt.timedelta(hours=23)),
    "days and months": lambda: BY_T.range_between(dt.timedelta(days=1), tm.interval(months=-1)),
    "text": lambda: tm.expr("sum(x) over (order by t rows between current row and 1 preceding)"),
    "text of a column": lambda: collection().with_columns(
        s="sum(x) over (order by t range between interval 1 day following and current row)"
    ),
}


def collection(flow=None):
    return (flow or tm.Dataflow()).input("x", SCHEMA)


@pytest.mark.parametrize("written", WRITTEN)
def test_building_warns_at_the_users_line(written):
    """Once for each frame that is written, in Python or in SQL, at the innermost line that is not tidemill's."""
    with pytest.warns(EmptyFrameWarning, match=r"^\w+ BETWEEN .* begins behind its end, so it is empty") as caught:
        WRITTEN[written]()
    (warning,) = caught
    lines, first = inspect.getsourcelines(WRITTEN[written])
    assert warning.filename == __file__
    assert first <= warning.lineno < first + len(lines)


def test_the_warning_names_the_frame_and_what_to_do():
    text = (
        "ROWS BETWEEN CURRENT ROW AND 1 PRECEDING begins behind its end, so it is empty; Spark, DuckDB and "
        "Materialize refuse such a frame: expected the bound that comes first in the order first"
    )
    with pytest.warns(EmptyFrameWarning) as caught:
        BY_T.rows_between(0, -1)
    assert [str(w.message) for w in caught] == [text]


@pytest.mark.parametrize(
    ("mode", "start", "end"),
    [
        *(("rows", a, b) for a, b in [(-1, 0), (0, 0), (-2, -2), (3, 3), (UNBOUNDED, -9), (9, UNBOUNDED)]),
        ("range", tm.interval(months=1), dt.timedelta(days=29)),  # which is later depends on the month
        ("range", dt.timedelta(days=28), tm.interval(months=1)),
        ("range", tm.interval(months=-1), dt.timedelta(days=1)),
        ("range", dt.timedelta(days=1), tm.interval(hours=24)),
    ],
)
def test_other_frames_are_built_without_a_word(mode, start, end):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Frame.of(mode, start, end)


def test_finding_a_call_in_a_flow_and_running_it_warns_no_more():
    with pytest.warns(EmptyFrameWarning):
        window = BY_T.rows_between(0, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flow = tm.Dataflow()
        flow.output("y", collection(flow).with_columns(n=tm.count().over(window)))
        flow.start().advance()


BESIDE = {"rows": [(1, 4), (-4, -1)], "groups": [(1, 2), (-2, -1)], "range": [(1, 2), (-2, -1)]}


@pytest.mark.parametrize("out", ["ties", "group", "current row"])
def test_a_row_outside_of_its_frame_does_not_come_back_where_its_ties_are_left_out(out):
    """Whole columns of values, and peer groups that are taken as a row each."""
    window, frames = tm.Window.order_by("t"), [(mode, *bounds) for mode, some in BESIDE.items() for bounds in some]
    calls: list[Any] = [tm.max("x"), tm.min("x"), tm.sum("x"), tm.count(), tm.last_value("x")]
    flow = tm.Dataflow("beside")
    columns = {
        f"{mode} {low} {number}": call.over(getattr(window, f"{mode}_between")(low, high).exclude(out))
        for mode, low, high in frames
        for number, call in enumerate(calls)
    }
    flow.output("y", flow.input("x", {"t": "int64", "x": "int64"}).with_columns(**columns))
    rows = [((i // 3, 100 + i * 7 % 12), i % 2, 1) for i in range(12)]
    check_equivalent(flow, {"x": rows}, batchings=[all_at_once])
