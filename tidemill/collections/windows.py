"""Window calls in expressions: operators that add them as columns, and the expressions over these."""

from __future__ import annotations

from collections.abc import Hashable

from tidemill.collections.builder import Builder, Named
from tidemill.dataflow.added_columns import columns_before_added
from tidemill.dataflow.composites import Windowed
from tidemill.dataflow.nodes import Node
from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.schema import Schema, unused_name
from tidemill.expressions.structure import key, replaced, resolve
from tidemill.expressions.windows.binding import BoundWindows, bind_windows
from tidemill.expressions.windows.bound import value_fields
from tidemill.expressions.windows.calls import WindowCall, calls_in
from tidemill.expressions.windows.in_order import SEVERAL_COORDINATES

Calls = dict[Hashable, tuple[str, WindowCall]]


def with_window_calls(builder: Builder, node: Node, named: Named) -> tuple[Node, Named]:
    """Return the rows with the values of the window calls in expressions behind them, and expressions over these rows.

    Calls of one partitioning and one order are one operator's.
    """
    calls = each_once(named, taken=set(node.schema.names))
    if not calls:
        return node, named
    for bound in bind_windows(calls.values(), node.schema, columns_before_added(node)):
        _check_strategy(bound, node.scope.coordinates)
        schema = Schema((*node.schema, *value_fields(bound.windows)))
        node = builder.add(Windowed, node, schema=schema, bound=bound)
    return node, over_values(named, calls)


def over_values(named: Named, calls: Calls) -> Named:
    """Return expressions over rows that have the values of calls as columns."""

    def column(part: Expr) -> Expr | None:
        return col(calls[key(part)][0]) if isinstance(part, WindowCall) else None

    return [(name, replaced(e, column)) for name, e in named]


def _check_strategy(bound: BoundWindows, coordinates: int) -> None:
    """Refuse calls that were asked to be kept in order, and cannot be."""
    if bound.strategy != "ordered":
        return
    reasons = dict.fromkeys(bound.windows.names, SEVERAL_COORDINATES) if coordinates > 1 else bound.look_at_all
    for name, reason in reasons.items():
        msg = (
            f"{name}: over(strategy='ordered'): a change costs its whole partition here, since: {reason}; expected "
            "strategy='auto', 'recompute' or 'prefix_sum'"
        )
        raise SchemaError(msg)


def each_once(named: Named, taken: set[str]) -> Calls:
    """Return the calls by their structure, named as the user did or, inside of an expression, like its column."""
    found: Calls = {}
    whole = [(name, e) for name, e in named if isinstance(resolve(e), WindowCall)]
    for name, expression in [*whole, *named]:
        for call in calls_in(expression):
            if key(call) not in found:
                own = unused_name(name if resolve(expression) is call else f"{name}#", taken)
                taken.add(own)
                found[key(call)] = own, call
    return found
