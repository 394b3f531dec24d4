"""Watermarks over whole histories: the driver collects the greatest value of each time, executors sort rows out by it.

The result of a watermark is a list of times and values, one for each time at which it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import LateRows, Mark, SortBuffer, Watermark
from tidemill.expressions.instants import value_of
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.frames import DIFF, Frame, consolidated
from tidemill.renderer.spark.linear import schema_of_updates
from tidemill.renderer.spark.tasks import done_in_executors

Steps: TypeAlias = list[tuple[int, int]]
"""The times at which a watermark moves, and the number that it moves to."""
Extremes: TypeAlias = list[tuple[int, int, int]]
"""Times of updates, with the least and the greatest number of a column at each."""


def extremes(frame: Frame | None, mark: Mark) -> Extremes:
    """Return a column's least and greatest values at each time, brought to the driver."""
    if frame is None:
        return []
    column = F.col(f"c{mark.column}")
    known = consolidated(frame).data.filter(column.isNotNull())
    found = known.groupBy("t0").agg(F.min(column), F.max(column)).toArrow()
    times, least, greatest = (_numbers(c.combine_chunks()) for c in found.columns)
    return sorted(zip(times.tolist(), least.tolist(), greatest.tolist(), strict=True))


def steps_of(node: Watermark, found: Sequence[Extremes]) -> Steps:
    """Return how a watermark moves, by what each of its inputs says; `StepError` where one that is told goes back."""
    reached: list[int | None] = [None] * len(found)
    steps: Steps = []
    told = [mark.told for mark in node.marks]
    of_time = sorted((time, number, least, greatest) for number, e in enumerate(found) for time, least, greatest in e)
    for place, (time, number, least, greatest) in enumerate(of_time):
        before = reached[number]
        if told[number] and before is not None and least < before:
            dtype = node.schema.fields[0].dtype
            raise failures.watermark_went_back(node, value_of(before, dtype), value_of(least, dtype), (time,))
        now = greatest - node.marks[number].delay
        reached[number] = now if before is None else max(before, now)
        if place + 1 < len(of_time) and of_time[place + 1][0] == time:
            continue
        mark = _least_of_sources(node, reached)
        if mark is not None and (not steps or mark > steps[-1][1]):
            steps.append((time, mark))
    return steps


def _least_of_sources(node: Watermark, reached: Sequence[int | None]) -> int | None:
    greatest: dict[int, int] = {}
    for mark, number in zip(node.marks, reached, strict=True):
        if number is not None:
            greatest[mark.source] = max(number, greatest.get(mark.source, number))
    sources = {mark.source for mark in node.marks}
    return min(greatest.values()) if len(greatest) == len(sources) else None


def sorted_out(node: SortBuffer | LateRows, frame: Frame, steps: Steps) -> Frame:
    """Return the rows that are released, at the times at which they are; or those that are late, or that are not."""
    data = done_in_executors(frame.data, _task(node, steps), schema_of_updates(node.schema, frame.coordinates))
    return Frame(data, frame.width, frame.coordinates)


def _task(node: SortBuffer | LateRows, steps: Steps) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    column, width = node.column, len(node.schema)
    extra = node.extra if isinstance(node, SortBuffer) else None
    drops_late = isinstance(node, SortBuffer) and node.drops_late
    on_time = isinstance(node, LateRows) and node.on_time
    since = np.array([time for time, _ in steps], np.int64)
    marks = [max(mark - (extra or 0), _LEAST) for _, mark in steps]
    limits = np.array(marks, np.int64)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values, times = _numbers(batch.column(column)), _numbers(batch.column(width))
            place = since.searchsorted(times)  # how many steps were before
            late = (place > 0) & (values < np.append(limits, 0).take(np.maximum(place - 1, 0)))
            if extra is None:
                yield batch.filter(pa.array(late != on_time))
                continue
            first = limits.searchsorted(values, "right")
            released = (first < len(limits)) & ~(late & drops_late)
            moved = np.maximum(times, np.append(since, 0).take(np.minimum(first, len(since))))
            columns = [*batch.columns[:width], pa.array(moved), batch.column(width + 1)]
            made = pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names[:width], "t0", DIFF])
            yield made.filter(pa.array(released))

    return task


_LEAST = -(2**63) + 1


def _numbers(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return values as the numbers that stand for them, NULL as the least."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    whole = column.cast(pa.int64())
    return np.asarray(whole.fill_null(_LEAST - 1).to_numpy(zero_copy_only=False), np.int64)
