"""Orders of values and rows: nulls first, NaN greatest, lists by their values; and the orders that users ask for."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.expressions.ordering import OrderColumn
from tidemill.renderer.reference.traces import Row

__all__ = ["in_order", "order", "value_order"]


def order(row: Row) -> list[tuple[bool, bool, Any]]:
    """Return the key by which rows are sorted: column by column, nulls first, NaN greatest."""
    return [(False, False, False) if v is None else (True, *value_order(v)) for v in row]


def value_order(value: Any) -> tuple[bool, Any]:
    """Return the key by which values are sorted that are not NULL: NaN greatest, lists as rows are."""
    if isinstance(value, tuple):
        return False, order(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def in_order(rows: Iterable[Row], by: Sequence[OrderColumn]) -> list[Row]:
    """Return rows sorted by some of their columns."""
    return sorted(rows, key=lambda row: [_rank(row[o.column], o) for o in by])


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
