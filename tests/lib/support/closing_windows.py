"""Random rows that come out of order, watermarks, and window calls whose frames close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from tidemill.expressions import aggregate_functions as agg
from tidemill.expressions.sort_keys import desc
from tidemill.expressions.windows import functions
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.specification import Window

ROW: Final = {"k": "string", "ts": "int64", "v": "int64"}


def updates(latest: int = 4, size: int = 9, least: int = 0) -> Any:
    """Return a strategy for updates whose ts mostly grows with the time.

    Some are late, some take rows away before these are released.
    """

    def insert_and_delete(drawn: Any) -> Any:
        (k, ts, v), time, count, after = drawn
        row = (k, None if ts is None else ts + 2 * time, v)
        return [(row, time, count)] if after is None else [(row, time, count), (row, time + after, -count)]

    row = st.tuples(st.sampled_from("ab"), st.none() | st.integers(-1, 9), st.none() | st.integers(0, 3))
    drawn = st.tuples(row, st.integers(0, latest), st.sampled_from([1, 1, 1, 2, 3]), st.none() | st.integers(0, 2))
    return st.lists(drawn.map(insert_and_delete), min_size=least, max_size=size).map(
        lambda lists: [u for us in lists for u in us]
    )


W = Window.partition_by("k").order_by("ts")
V = Window.partition_by("k").order_by("ts", desc("v"))
ALL = Window.order_by("ts")
DISTANCE = st.integers(-3, 3)


@st.composite
def frames(draw: st.DrawFn, windows: Sequence[Window] = (W, ALL), *, unbounded: bool = True) -> Window:
    """Draw one of some windows with a frame that ends somewhere."""
    window = draw(st.sampled_from(windows))
    mode = draw(st.sampled_from(["rows", "groups", "range"] if window is not V else ["rows", "groups"]))
    start: Any = UNBOUNDED if unbounded and draw(st.booleans()) else draw(DISTANCE)
    framed: Window = getattr(window, f"{mode}_between")(start, draw(DISTANCE))
    return framed.exclude(draw(st.sampled_from(["no others", "no others", "current row", "group", "ties"])))


@st.composite
def calls(draw: st.DrawFn, windows: Sequence[Window] = (W, ALL, V), *, unbounded: bool = True) -> dict[str, Any]:
    """Draw calls over some windows, by their names."""

    def one() -> Any:
        kind = draw(st.sampled_from(["rank", "offset", "frame", "frame"]))
        if kind == "rank":
            return draw(st.sampled_from(_RANKS)).over(draw(st.sampled_from(windows)))
        if kind == "offset":
            ignore = unbounded and draw(st.booleans())
            made = draw(st.sampled_from(_OFFSETS))(
                "v", draw(DISTANCE), draw(st.none() | st.just(-1)), ignore_nulls=ignore
            )
            return made.over(draw(st.sampled_from(windows)))
        return draw(st.sampled_from(_MADE)).over(draw(frames(windows, unbounded=unbounded)))

    return {f"c{i}": one() for i in range(draw(st.integers(1, 3)))}


_RANKS: Final = (functions.row_number(), functions.rank(), functions.dense_rank())
_OFFSETS: Final[tuple[Any, ...]] = (functions.lag, functions.lead)
_MADE: Final[tuple[Any, ...]] = (
    agg.sum("v"), agg.count(), agg.min("v"), agg.avg("v"), functions.first_value("v"),
    functions.last_value("v", ignore_nulls=True), functions.nth_value("v", 2), agg.list("v"),
)  # fmt: skip


def told(latest: int = 30) -> Any:
    """Return a strategy for what watermarks are told to be, which never goes back."""
    marks = st.lists(st.tuples(st.integers(0, 7), st.integers(-3, latest)), max_size=3)
    return marks.map(_never_back)


def _never_back(found: list[tuple[int, int]]) -> list[tuple[tuple[int], int, int]]:
    times, values = (sorted(some) for some in zip(*found, strict=True)) if found else ([], [])
    return [((value,), time, 1) for time, value in zip(times, values, strict=True)]
