"""Random rows that come out of order, watermarks, and window calls whose frames close."""

from typing import Any

from hypothesis import strategies as st

import tidemill as tm

ROW = {"k": "string", "ts": "int64", "v": "int64"}


def updates(latest: int = 4, size: int = 9) -> Any:
    """Updates most of whose ts grows with the time; some are late, some take rows away before these are released."""

    def insert_and_delete(drawn: Any) -> Any:
        (k, ts, v), time, count, after = drawn
        row = (k, None if ts is None else ts + 2 * time, v)
        return [(row, time, count)] if after is None else [(row, time, count), (row, time + after, -count)]

    row = st.tuples(st.sampled_from("ab"), st.none() | st.integers(-1, 9), st.none() | st.integers(0, 3))
    drawn = st.tuples(row, st.integers(0, latest), st.sampled_from([1, 1, 1, 2, 3]), st.none() | st.integers(0, 2))
    return st.lists(drawn.map(insert_and_delete), max_size=size).map(lambda lists: [u for us in lists for u in us])


W = tm.Window.partition_by("k").order_by("ts")
V = tm.Window.partition_by("k").order_by("ts", tm.desc("v"))
ALL = tm.Window.order_by("ts")
DISTANCE = st.integers(-3, 3)


@st.composite
def frames(draw: Any, windows: Any = (W, ALL), *, unbounded: bool = True) -> Any:
    window = draw(st.sampled_from(windows))
    mode = draw(st.sampled_from(["rows", "groups", "range"] if window is not V else ["rows", "groups"]))
    start, end = draw(DISTANCE), draw(DISTANCE)
    if unbounded and draw(st.booleans()):
        start = tm.UNBOUNDED
    framed = getattr(window, f"{mode}_between")(start, end)
    return framed.exclude(draw(st.sampled_from(["no others", "no others", "current row", "group", "ties"])))


@st.composite
def calls(draw: Any, windows: Any = (W, ALL, V), *, unbounded: bool = True) -> dict[str, Any]:
    def one() -> Any:
        kind = draw(st.sampled_from(["rank", "offset", "frame", "frame"]))
        if kind == "rank":
            return draw(st.sampled_from([tm.row_number, tm.rank, tm.dense_rank]))().over(draw(st.sampled_from(windows)))
        if kind == "offset":
            ignore = unbounded and draw(st.booleans())
            function = draw(st.sampled_from([tm.lag, tm.lead]))
            return function("v", draw(DISTANCE), draw(st.none() | st.just(-1)), ignore_nulls=ignore).over(
                draw(st.sampled_from(windows))
            )
        made = draw(st.sampled_from(MADE))
        return made().over(draw(frames(windows, unbounded=unbounded)))

    return {f"c{i}": one() for i in range(draw(st.integers(1, 3)))}


MADE = [
    lambda: tm.sum("v"), lambda: tm.count(), lambda: tm.min("v"), lambda: tm.avg("v"), lambda: tm.first_value("v"),
    lambda: tm.last_value("v", ignore_nulls=True), lambda: tm.nth_value("v", 2), lambda: tm.list("v"),
]  # fmt: skip


def told(latest: int = 30) -> Any:
    marks = st.lists(st.tuples(st.integers(0, 7), st.integers(-3, latest)), max_size=3)
    return marks.map(
        lambda found: [((value,), time, 1) for (time, _), value in zip(sorted(found), sorted(v for _, v in found))]
    )
