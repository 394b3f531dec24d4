"""Updates as a DataFrame: the row's columns ``c0, c1, ...``, the time's ``t0, t1, ...`` and ``d``, the diff.

Columns go by position inside, so that no name of the user's can clash with another, or with ours, in whatever way the
session compares names. What is known without a job is noted beside the DataFrame.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Time
from tidemill.renderer.spark.session import is_connected

DIFF = "d"
_SMALL_CELLS = 400_000
"""Up to how many values a DataFrame is broadcast to the executors rather than shuffled."""
_ROWS_A_PARTITION = 100_000
_SHALLOW = 4
_SEEN = "tidemill"
_Instead = Callable[[DataFrame], tuple[DataFrame, Mapping[str, int]]]
_instead: ContextVar[_Instead | None] = ContextVar("tidemill_instead", default=None)


@attrs.frozen(eq=False)
class Frame:
    """Updates, and what is known of them."""

    data: DataFrame
    width: int
    """How many columns a row has."""
    coordinates: int
    time: Time | None = None
    """The user time at which all updates are, where it is known to be one."""
    rows: int | None = None
    """How many there are, where that is known."""
    cheap: bool = False
    """Whether computing them again costs no more than reading their source."""
    depth: int | None = None
    """How many projections they are away from a checkpoint; None where there is none below them."""
    consolidated: bool = False
    inserted: bool = False
    """Whether every diff is known to be 1."""

    def of(self, data: DataFrame, **known: Any) -> Frame:
        """Return other updates of the same width and time, of which nothing else is known but what is said."""
        return attrs.evolve(Frame(data, self.width, self.coordinates, self.time), **known)

    def projected(self, data: DataFrame, **changed: Any) -> Frame:
        """Return the updates after a projection, which leaves true what was known of them."""
        depth = None if self.depth is None else self.depth + 1
        return attrs.evolve(self, data=data, **{"depth": depth, **changed})


def columns(width: int) -> list[str]:
    """Return the names of a row's columns."""
    return [f"c{i}" for i in range(width)]


def times(coordinates: int) -> list[str]:
    """Return the names of a time's columns."""
    return [f"t{i}" for i in range(coordinates)]


def names(width: int, coordinates: int) -> list[str]:
    """Return the names of all columns of updates."""
    return [*columns(width), *times(coordinates), DIFF]


def consolidated(frame: Frame) -> Frame:
    """Return the updates with the diffs of equal rows at equal times added up, zeros dropped."""
    if frame.consolidated:
        return frame
    keys = names(frame.width, frame.coordinates)[:-1]
    summed = frame.data.groupBy(*keys).agg(F.expr(f"sum({DIFF}) AS {DIFF}"))
    return frame.of(summed.filter(f"{DIFF} != 0"), consolidated=True)


def materialised(frame: Frame) -> Frame | None:
    """Return the updates computed, cut off from their lineage, and counted; None where there are none.

    Counting and computing are one job.
    """
    if frame.rows is None or frame.depth is None or frame.depth > _SHALLOW:
        data, counts = checkpointed(frame.data, F.count(F.lit(1)).alias("rows"))
        frame = attrs.evolve(frame, data=data, rows=counts["rows"], cheap=True, depth=0)
    return frame if frame.rows else None


def computed(frame: Frame) -> Frame:
    """Return the updates computed and cut off from their lineage, as `materialised` does but for counting them."""
    if frame.rows is not None and frame.depth is not None:
        return frame
    return attrs.evolve(frame, data=frame.data.localCheckpoint(), cheap=True, depth=0)


def checkpointed(data: DataFrame, *counts: Column) -> tuple[DataFrame, Mapping[str, int]]:
    """Return lines computed and cut off from their lineage, and the values of aggregates over them: one job."""
    if (instead := _instead.get()) is not None:
        return instead(data)
    if is_connected(data):  # where an Observation is not told of checkpoints, but the execution has it on record
        watched = data.observe(_SEEN, *counts)
        return watched.localCheckpoint(), dict(watched.executionInfo.flows)[_SEEN]
    seen = Observation()
    data = data.observe(seen, *counts).localCheckpoint()
    return data, seen.get


def is_planning() -> bool:
    """Return whether nothing is computed, but what would be is noted."""
    return _instead.get() is not None


@contextlib.contextmanager
def planning(instead: _Instead) -> Iterator[None]:
    """Within the block, call this instead of computing anything: it returns a stand-in for the outcome."""
    token = _instead.set(instead)
    try:
        yield
    finally:
        _instead.reset(token)


def united(frames: Sequence[Frame]) -> Frame | None:
    """Return the union of updates of the same width; None where there is nothing to unite."""
    if len(frames) <= 1:
        return frames[0] if frames else None
    data = functools.reduce(DataFrame.union, [f.data for f in frames])
    known = [f.rows for f in frames if f.rows is not None]
    rows = sum(known) if len(known) == len(frames) else None
    if rows is not None and all(f.depth is not None for f in frames):  # many small pieces would be as many tasks
        data = data.coalesce(1 + rows // _ROWS_A_PARTITION)
    time = frames[0].time if all(f.time == frames[0].time for f in frames) else None
    cheap, inserted = (all(f.cheap for f in frames), all(f.inserted for f in frames))
    return Frame(data, frames[0].width, frames[0].coordinates, time, rows, cheap=cheap, inserted=inserted)


def is_small(frame: Frame) -> bool:
    """Return whether the updates are known to be few enough to be broadcast."""
    return frame.rows is not None and frame.rows * (frame.width + frame.coordinates + 1) <= _SMALL_CELLS


def with_keys(data: DataFrame, keys: DataFrame, names_of_keys: Sequence[str], how: str = "left_semi") -> DataFrame:
    """Return the lines that have one of these keys; or with "left_anti" those that have none of them."""
    if not names_of_keys:
        return data
    renamed = keys.toDF(*(f"k_{name}" for name in names_of_keys))
    same = " AND ".join(f"{name} <=> k_{name}" for name in names_of_keys)
    return data.join(renamed, F.expr(same), how)
