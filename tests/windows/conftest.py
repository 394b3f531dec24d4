"""Partitions kept in their order, however small; and what was worked out in order."""

import pytest

from tidemill.renderer.durable import spill_files
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace import spine
from tidemill.renderer.embedded.windows import (
    few_changes,
    lone_extremes,
    many_changes,
    many_cuts,
    many_runs,
    ordered,
    ordered_partition,
    reach,
    recompute,
    sums_by_delta,
    sums_by_value,
)


@pytest.fixture
def small_is_large(monkeypatch):
    """Partitions of three rows are kept in order, two rows a chunk; all of them may change at once, hardly together.

    On the disk, too, a page has two rows.
    """
    monkeypatch.setattr(spine, "TAIL", 1)  # its rows are not counted when a partition's size is looked up
    monkeypatch.setattr(ordered_windows, "LARGE", 3)
    monkeypatch.setattr(ordered_windows, "SMALL", 2)
    monkeypatch.setattr(ordered_windows, "MANY", 1)
    monkeypatch.setattr(ordered_partition, "CHUNK", 2)
    monkeypatch.setattr(spill_files, "PAGE", 2)
    monkeypatch.setattr(ordered, "PIECE", 3)
    monkeypatch.setattr(reach, "NEAR", 2)


@pytest.fixture
def few_are_many(small_is_large, monkeypatch):
    """Any two changed rows of a partition are many, and some rows as much as is looked at at a time."""
    monkeypatch.setattr(ordered_windows, "FEW", 0)
    monkeypatch.setattr(ordered_windows, "AT_ONCE", 2)
    monkeypatch.setattr(many_runs, "NEAR", 2)
    monkeypatch.setattr(lone_extremes, "NEAR", 2)
    monkeypatch.setattr(lone_extremes, "FEW", 1)
    monkeypatch.setattr(lone_extremes, "BLOCK", 8)
    monkeypatch.setattr(many_cuts, "BLOCK", 8)
    monkeypatch.setattr(many_cuts, "SHORT", 3)
    monkeypatch.setattr(sums_by_delta, "BLOCK", 8)


@pytest.fixture
def at_once(monkeypatch):
    """How often changes were worked out at once."""
    made = []
    worked_out = many_changes.CallsOfMany.updates
    monkeypatch.setattr(
        many_changes.CallsOfMany,
        "updates",
        lambda calls, edits, time: made.extend(edits) or worked_out(calls, edits, time),
    )
    return made


@pytest.fixture
def in_order(monkeypatch):
    """How often changes were worked out in order, not by whole partitions."""
    made = []
    changed_rows = ordered.changed_rows
    monkeypatch.setattr(
        ordered_windows, "changed_rows", lambda *given, **named: made.append(given) or changed_rows(*given, **named)
    )
    return made


@pytest.fixture
def looked_at(monkeypatch):
    """How many rows were looked at, each time that changes were worked out in order; without loads."""
    lengths = []
    call_values, rows_with_values = recompute.call_values, ordered.rows_with_values

    def loaded(*given):
        before = len(lengths)
        yield from rows_with_values(*given)
        del lengths[before:]

    changed_few = few_changes.changed_few

    def few(calls, rows, runs, *given, **named):
        found = changed_few(calls, rows, runs, *given, **named)
        lengths.extend([sum(2 * (run.end - run.first) + run.shift for run in runs)] * (found is not None))
        return found

    monkeypatch.setattr(ordered, "changed_few", few)
    monkeypatch.setattr(ordered_windows, "rows_with_values", loaded)
    write = sums_by_value.SumsByValue.write

    def written(by_value, codes, *given):
        found = write(by_value, codes, *given)
        lengths.extend([len(codes)] * found)
        return found

    monkeypatch.setattr(sums_by_value.SumsByValue, "write", written)
    monkeypatch.setattr(
        ordered, "call_values", lambda rows, values: lengths.append(len(rows)) or call_values(rows, values)
    )
    return lengths
