"""The first rows of a group in an order."""

from __future__ import annotations

from tidemill.expressions.ordering import TopK
from tidemill.renderer.reference.ordering import in_order
from tidemill.renderer.reference.traces import Contents

__all__ = ["first_rows"]


def first_rows(logic: TopK, rows: Contents) -> Contents:
    """Return the first rows in the order, copy by copy, as many as there is room for."""
    room = logic.count
    found: Contents = {}
    for row in in_order(rows, logic.order):
        found[row] = min(rows[row], room)
        room -= found[row]
        if not room:
            break
    return found
