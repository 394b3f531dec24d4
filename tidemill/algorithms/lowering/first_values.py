"""DISTINCT over frames with one bound: of each value only the first row counts, seen from the unbounded side.

Whether a row is its value's first depends only on rows with that value. So a window partitioned by the value finds it,
and a row that comes or goes changes at most one other row; what remains is an aggregate over a column with NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidemill.collections.collection import Collection
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.expr import col
from tidemill.expressions.functions.choice import when
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.rewriting import column
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, CallLabel, OffsetCall, Windows
from tidemill.expressions.windows.in_order import counts_only_first_values


def has_calls_of_first_values(windows: Windows) -> bool:
    """Return whether the window has an order and a DISTINCT call that can be computed from first values."""
    return bool(windows.order) and any(map(counts_only_first_values, windows.calls))


def with_first_values(rows: Collection, windows: Windows, keys: int) -> tuple[Collection, Windows]:
    """Return the rows with first-value columns, and the same calls over these, none of them DISTINCT any more.

    If a value's first row has copies, only the first copy has the value; seen from the end, only the last copy.
    """
    sources = [_FirstOf.of(call) for call in windows.calls]
    ties = windows.ties or _all_columns(windows, keys)
    places: dict[_FirstOf, int] = {}
    for one in sorted({a for a in sources if a is not None}):
        call = sources.index(one)
        label = CallLabel(windows.calls[call].function, windows.names[call], keys)
        given = attrs.evolve(windows, ties=ties, carried=_carried(rows, windows), label=label)
        rows = _with_first(rows, given, keys, one)
        places[one] = len(rows.schema) - 1
        ties = (*ties, OrderColumn(places[one], nulls_first=one.from_end))
    calls = tuple(
        call if one is None else _of_first(call, places[one]) for call, one in zip(windows.calls, sources, strict=True)
    )
    more = tuple(places.values())
    return rows, attrs.evolve(windows, calls=calls, ties=ties if windows.ties else (), carried=more)


@attrs.frozen(order=True)
class _FirstOf:
    """A column of which only the first row of each value counts; ``from_end``, the last."""

    from_end: bool
    column: int

    @staticmethod
    def of(call: BoundWindowCall) -> _FirstOf | None:
        """Return the first-value column from which to compute a call; None if from the rows as they are."""
        if not isinstance(call, AggregateCall) or not counts_only_first_values(call):
            return None
        assert call.aggregate.column is not None
        return _FirstOf(call.frame.end is None, call.aggregate.column)


def _of_first(call: BoundWindowCall, place: int) -> AggregateCall:
    """Return the call over the first-value column, no longer DISTINCT."""
    assert isinstance(call, AggregateCall)
    return attrs.evolve(call, aggregate=attrs.evolve(call.aggregate, column=place), distinct=False)


def _all_columns(windows: Windows, keys: int) -> tuple[OrderColumn, ...]:
    """Return columns that put peers in some fixed order, on which no call depends."""
    alike = {o.column for o in windows.order}
    return tuple(OrderColumn(c) for c in windows.own(keys) if c not in alike)


def _carried(rows: Collection, windows: Windows) -> tuple[int, ...]:
    return tuple(i for i in range(len(rows.schema)) if i not in windows.row)


def _with_first(rows: Collection, windows: Windows, keys: int, asked: _FirstOf) -> Collection:
    """Return the rows with one more column: the value in the first row that has it (or the last), else NULL."""
    schema, value = rows.schema, asked.column
    width = keys + (value >= keys)
    places = [*range(keys), *([value] if value >= keys else ()), *(i for i in range(keys, len(schema)) if i != value)]
    place_of = {place: i for i, place in enumerate(places)}
    by_value = rows.map_columns([(schema.names[i], column(schema, i)) for i in places])
    dtype, name = schema.fields[value].dtype, unused_name(f"first {schema.names[value]}", schema.names)
    # The value one row back (or ahead) among rows with the same value: NULL in the first (or last) of them.
    function = "lead" if asked.from_end else "lag"
    neighbour = OffsetCall(function, place_of[value], BoundLiteral(1, INT64), BoundLiteral(None, dtype), dtype)
    made = Windows(
        order=_moved(windows.order, place_of),
        ties=_moved(windows.ties, place_of),
        calls=(neighbour,),
        names=(name,),
        row=tuple(place_of[i] for i in windows.row),
        carried=tuple(place_of[i] for i in windows.carried if place_of[i] >= width),
        only_in_order=windows.only_in_order,
        label=windows.label,
    )
    there = made.kept(width)
    fields = (*(by_value.schema.fields[i] for i in there), Field(name, dtype, nullable=True))
    found = by_value.reduce_by(tuple(range(width)), made, Schema(fields))
    first = when(col(name).is_null(), col(schema.names[value])).otherwise(None)
    back = [(schema.names[i], column(found.schema, there.index(place_of[i]))) for i in range(len(schema))]
    return found.map_columns([*back, (name, bind(first, found.schema))])


def _moved(order: Sequence[OrderColumn], place_of: dict[int, int]) -> tuple[OrderColumn, ...]:
    return tuple(attrs.evolve(o, column=place_of[o.column]) for o in order)
