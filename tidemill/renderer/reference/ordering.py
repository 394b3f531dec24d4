"""The orders of rows that users ask for, and the first rows by them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.expressions.binding import bind
from tidemill.expressions.functions.values import row_order
from tidemill.expressions.ordering import OrderColumn, TopK, hash_of_row
from tidemill.expressions.schema import Schema
from tidemill.renderer.reference.expressions import evaluate
from tidemill.renderer.reference.traces import Contents, Row


def in_order(rows: Iterable[Row], by: Sequence[OrderColumn]) -> list[Row]:
    """Return rows sorted by some of their columns."""
    return sorted(rows, key=lambda row: [_rank(row[o.column], o) for o in by])


def _rank(value: Any, by: OrderColumn) -> Any:
    """Return a key that sorts as a value does in an order."""
    null = value is None
    place = 0 if null and by.nulls_first else 2 if null else 1
    return place, _Descending(row_order((value,))) if by.descending else row_order((value,))


@functools.total_ordering
class _Descending:
    """A key that sorts the other way round."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


def first_rows(logic: TopK, schema: Schema, rows: Contents) -> Contents:
    """Return the first rows in the order, copy by copy, as many as there is room for, numbered or not."""
    tie = bind(hash_of_row(schema, logic.hash_columns), schema)
    by_tie = {(evaluate(tie, row), *(row[i] for i in logic.row)): row for row in rows}
    ties = in_order(by_tie, [OrderColumn(i) for i in range(1 + len(logic.row))])
    room = logic.count
    found: Contents = {}
    for row in in_order([by_tie[tied] for tied in ties], logic.order):  # sorting leaves what is equal as it was
        copies = min(rows[row], room)
        if logic.numbered:
            found |= {(*row, logic.count - room + place): 1 for place in range(1, copies + 1)}
        else:
            found[row] = copies
        room -= copies
        if not room:
            break
    return found
