"""The first rows of a group in an order."""

from __future__ import annotations

import functools
from typing import Any

from tidemill.collections.ordering import OrderColumn, TopK
from tidemill.renderer.reference.aggregates import order
from tidemill.renderer.reference.traces import Contents

__all__ = ["first_rows"]


def first_rows(logic: TopK, rows: Contents) -> Contents:
    """Return the first rows in the order, copy by copy, as many as there is room for."""
    room = logic.count
    found: Contents = {}
    for row in sorted(rows, key=lambda row: [_rank(row[o.column], o) for o in logic.order]):
        found[row] = min(rows[row], room)
        room -= found[row]
        if not room:
            break
    return found


def _rank(value: Any, by: OrderColumn) -> Any:
    """Return what sorts as a value does in an order."""
    null = value is None
    place = 0 if null and by.nulls_first else 2 if null else 1
    return place, _Reversed(order((value,))) if by.descending else order((value,))


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
