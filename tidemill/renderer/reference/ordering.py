"""The orders of rows that users ask for."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.expressions.functions.values import row_order
from tidemill.expressions.ordering import OrderColumn
from tidemill.renderer.reference.traces import Row


def in_order(rows: Iterable[Row], by: Sequence[OrderColumn]) -> list[Row]:
    """Return rows sorted by some of their columns."""
    return sorted(rows, key=lambda row: [_rank(row[o.column], o) for o in by])


def _rank(value: Any, by: OrderColumn) -> Any:
    """Return what sorts as a value does in an order."""
    null = value is None
    place = 0 if null and by.nulls_first else 2 if null else 1
    return place, _Reversed(row_order((value,))) if by.descending else row_order((value,))


@functools.total_ordering
class _Reversed:
    """What sorts the other way round."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]
