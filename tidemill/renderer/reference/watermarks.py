"""The definition of watermarks, and of what waits for them: whole traces, at times of one coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.dataflow.lattice import Time
from tidemill.dataflow.nodes import LateRows, Mark, SortBuffer, Watermark
from tidemill.expressions.instants import number_of, value_of
from tidemill.renderer.reference.rules import IsFinal, Updates, by_contents
from tidemill.renderer.reference.traces import Row, Trace, contents, triples
from tidemill.renderer.runs import failures


@by_contents(Watermark)
def _watermark(node: Watermark, _final: IsFinal, *sources: Trace) -> Updates:
    """At each time the least that the sources say, once all do: of each, its greatest mark."""
    dtype = node.schema.fields[0].dtype
    before: int | None = None
    for t in sorted({time for trace in sources for _, time in trace}):
        said: dict[int, list[int]] = {mark.source: [] for mark in node.marks}
        for mark, trace in zip(node.marks, sources, strict=True):
            numbers = [number_of(v, dtype) - mark.delay for v, s in _values(mark, trace) if s <= t]
            said[mark.source] += numbers
            if mark.told:
                _check_told(node, mark, trace, t)
        now = min(max(numbers) for numbers in said.values()) if all(said.values()) else None
        if now != before:
            if before is not None:
                yield (value_of(before, dtype),), t, -1
            assert now is not None, "a watermark never goes"
            yield (value_of(now, dtype),), t, 1
        before = now


def _values(mark: Mark, trace: Trace) -> Iterator[tuple[Any, Time]]:
    """Iterate over a column's values in updates, whatever their diffs, with their times."""
    return ((row[mark.column], time) for row, time in trace if row[mark.column] is not None)


def _check_told(node: Watermark, mark: Mark, trace: Trace, t: Time) -> None:
    now = [value for value, time in _values(mark, trace) if time == t]
    before = [value for value, time in _values(mark, trace) if time < t]
    if now and before and min(now) < max(before):
        raise failures.watermark_went_back(node, max(before), min(now), t)


@by_contents(SortBuffer)
def _sort_buffer(node: SortBuffer, _final: IsFinal, source: Trace, watermark: Trace) -> Updates:
    """Move each update that is not late to the first time, from its own on, at which it is below the watermark."""
    for row, time, diff in triples(source):
        times = sorted({time, *(t for _, t in watermark if t > time)})
        released = next((t for t in times if _below(node, row, watermark, t)), None)
        if released is not None and not (node.drops_late and _is_late(node, row, watermark, time)):
            yield row, released, diff


@by_contents(LateRows)
def _late_rows(node: LateRows, _final: IsFinal, source: Trace, watermark: Trace) -> Updates:
    if not node.on_time:
        yield from late_updates(node, source, watermark)
        return
    yield from (update for update in triples(source) if not _is_late(node, update[0], watermark, update[1]))


def late_updates(node: SortBuffer | LateRows, source: Trace, watermark: Trace) -> Updates:
    """Iterate over the updates that come when the watermark has passed them, where these are dropped."""
    if isinstance(node, SortBuffer) and not node.drops_late:
        return iter(())
    return (update for update in triples(source) if _is_late(node, update[0], watermark, update[1]))


def _is_late(node: SortBuffer | LateRows, row: Row, watermark: Trace, time: Time) -> bool:
    (t,) = time
    return _below(node, row, watermark, (t - 1,))


def _below(node: SortBuffer | LateRows, row: Row, watermark: Trace, at: Time) -> bool:
    """Return whether a row is below the watermark of a time, NULL being less than any value."""
    dtype = node.schema.fields[node.column].dtype
    extra = node.extra if isinstance(node, SortBuffer) else 0
    value = row[node.column]
    for (mark,) in contents(watermark, at):
        return value is None or number_of(value, dtype) + extra < number_of(mark, dtype)
    return False
