"""Partitions kept in their order, however small; and what was worked out in order."""

import pytest

from tidemill.renderer.durable import spill_files
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.windows import few_changes, many_changes, ordered, recompute
from tidemill.testing.renderings import FEW_ARE_MANY, SMALL_IS_LARGE, thresholds


@pytest.fixture
def small_is_large():
    """Partitions of three rows are kept in order, and so on; on the disk, too, a page has two rows."""
    with thresholds(SMALL_IS_LARGE, {spill_files: {"PAGE": 2}}):
        yield


@pytest.fixture
def few_are_many(small_is_large):
    """Any two changed rows of a partition are many, and some rows as much as is looked at at a time."""
    with thresholds(FEW_ARE_MANY):
        yield


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
    monkeypatch.setattr(
        ordered, "call_values", lambda rows, values: lengths.append(len(rows)) or call_values(rows, values)
    )
    return lengths
