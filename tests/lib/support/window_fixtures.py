"""Partitions kept in their order, however small; and what was worked out in order."""

import pytest
from support.renderings import FEW_ARE_MANY, SMALL_IS_LARGE, thresholds

from tidemill.renderer.durable import spill_files
from tidemill.renderer.embedded.windows import changes, scalar
from tidemill.renderer.embedded.windows.affected import affected
from tidemill.renderer.embedded.windows.evaluate import call_values


@pytest.fixture
def small_is_large():
    """Partitions of three rows are kept in order, and so on; on the disk, too, a page has two rows."""
    with thresholds(SMALL_IS_LARGE, {spill_files: {"PAGE": 2, "PAGE_IN_ORDER": 2}}):
        yield


@pytest.fixture
def few_are_many(small_is_large):
    """Any two changed rows of a partition are many, and some rows as much as is looked at at a time."""
    with thresholds(FEW_ARE_MANY):
        yield


@pytest.fixture
def at_once(monkeypatch):
    """How often what edits of a partition affect was worked out."""
    made = []
    monkeypatch.setattr(changes, "affected", lambda *given, **named: made.append(given) or affected(*given, **named))
    return made


@pytest.fixture
def in_order(monkeypatch):
    """How often changes were worked out in order, not by whole partitions."""
    made = []
    changed, few = changes.Evaluator.changed, scalar.Scalar.changed

    def by_row(*given):
        found = few(*given)
        made.extend([given] * (found is not None))
        return found

    monkeypatch.setattr(changes.Evaluator, "changed", lambda *given: made.append(given) or changed(*given))
    monkeypatch.setattr(scalar.Scalar, "changed", by_row)
    return made


@pytest.fixture
def looked_at(monkeypatch):
    """How many rows were looked at, each time that changes were worked out in order, by columns; without loads."""
    lengths = []
    rows_with_values = changes.Evaluator.rows_with_values

    def loaded(*given):
        before = len(lengths)
        yield from rows_with_values(*given)
        del lengths[before:]

    monkeypatch.setattr(scalar, "ROWS", -1)
    monkeypatch.setattr(changes.Evaluator, "rows_with_values", loaded)
    monkeypatch.setattr(
        changes, "call_values", lambda rows, values: lengths.append(len(rows)) or call_values(rows, values)
    )
    return lengths
