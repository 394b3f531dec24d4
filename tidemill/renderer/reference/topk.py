"""The first rows of a group in an order."""

from __future__ import annotations

from tidemill.expressions.binding import bind
from tidemill.expressions.ordering import OrderColumn, TopK, hash_of_row
from tidemill.expressions.schema import Schema
from tidemill.renderer.reference.expressions import evaluate
from tidemill.renderer.reference.ordering import in_order
from tidemill.renderer.reference.traces import Contents


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
