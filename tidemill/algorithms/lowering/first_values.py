"""DISTINCT over frames from an end of the partition on: of each value its first row alone, seen from there.

Whether a row is that, only rows with the same value decide. So it is found by a window over these, and a row that comes
or goes changes what is said of one other row at the most; what is left is an aggregate of other rows' NULLs.
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
from tidemill.expressions.windows.bound import AggregateCall, AskedFor, BoundWindowCall, OffsetCall, Windows
from tidemill.expressions.windows.in_order import adds_up_first_values


def needs_first_values(windows: Windows) -> bool:
    """Return whether there is a call whose frames are made of first values, in a window with an order."""
    return bool(windows.order) and any(map(adds_up_first_values, windows.calls))


def with_first_values(rows: Collection, windows: Windows, keys: int) -> tuple[Collection, Windows]:
    """Return rows with more columns, and calls over them that come to the same: none that `adds_up_first_values`.

    Of copies of a row that is a value's first, the first one is to have it; seen from the end, the last one.
    """
    asked = [_Asked.of(call) for call in windows.calls]
    ties = windows.ties or _all_columns(windows, keys)
    places: dict[_Asked, int] = {}
    for one in sorted({a for a in asked if a is not None}):
        call = asked.index(one)
        asked_for = AskedFor(windows.calls[call].function, windows.names[call], keys)
        given = attrs.evolve(windows, ties=ties, carried=_carried(rows, windows), asked_for=asked_for)
        rows = _with_first(rows, given, keys, one)
        places[one] = len(rows.schema) - 1
        ties = (*ties, OrderColumn(places[one], nulls_first=one.from_end))
    calls = tuple(
        call if one is None else _of_first(call, places[one]) for call, one in zip(windows.calls, asked, strict=True)
    )
    more = tuple(places.values())
    return rows, attrs.evolve(windows, calls=calls, ties=ties if windows.ties else (), carried=more)


@attrs.frozen(order=True)
class _Asked:
    """The first row of each value of a column, or the last."""

    from_end: bool
    column: int

    @staticmethod
    def of(call: BoundWindowCall) -> _Asked | None:
        """Return what a call is to be computed from; None where it is from the rows as they are."""
        if not isinstance(call, AggregateCall) or not adds_up_first_values(call):
            return None
        assert call.aggregate.column is not None
        return _Asked(call.frame.end is None, call.aggregate.column)


def _of_first(call: BoundWindowCall, place: int) -> AggregateCall:
    """Return the call of a column that has each value once."""
    assert isinstance(call, AggregateCall)
    return attrs.evolve(call, aggregate=attrs.evolve(call.aggregate, column=place), distinct=False)


def _all_columns(windows: Windows, keys: int) -> tuple[OrderColumn, ...]:
    """Return what tells apart rows that are peers, in some order: none of the calls depends on it."""
    alike = {o.column for o in windows.order}
    return tuple(OrderColumn(c) for c in windows.own(keys) if c not in alike)


def _carried(rows: Collection, windows: Windows) -> tuple[int, ...]:
    return tuple(i for i in range(len(rows.schema)) if i not in windows.row)


def _with_first(rows: Collection, windows: Windows, keys: int, asked: _Asked) -> Collection:
    """Return rows with one more column: the value of a column in the first row, or the last, that has it, else NULL."""
    schema, value = rows.schema, asked.column
    width = keys + (value >= keys)
    places = [*range(keys), *([value] if value >= keys else ()), *(i for i in range(keys, len(schema)) if i != value)]
    now = {place: i for i, place in enumerate(places)}
    by_value = rows.map_columns([(schema.names[i], column(schema, i)) for i in places])
    dtype, name = schema.fields[value].dtype, unused_name(f"first {schema.names[value]}", schema.names)
    # Among rows with the same value: NULL where there is none before, or behind.
    function = "lead" if asked.from_end else "lag"
    near = OffsetCall(function, now[value], BoundLiteral(1, INT64), BoundLiteral(None, dtype), dtype)
    made = Windows(
        order=_moved(windows.order, now),
        ties=_moved(windows.ties, now),
        calls=(near,),
        names=(name,),
        row=tuple(now[i] for i in windows.row),
        carried=tuple(now[i] for i in windows.carried if now[i] >= width),
        only_in_order=windows.only_in_order,
        asked_for=windows.asked_for,
    )
    there = made.kept(width)
    fields = (*(by_value.schema.fields[i] for i in there), Field(name, dtype, nullable=True))
    found = by_value.reduce_by(tuple(range(width)), made, Schema(fields))
    first = when(col(name).is_null(), col(schema.names[value])).otherwise(None)
    back = [(schema.names[i], column(found.schema, there.index(now[i]))) for i in range(len(schema))]
    return found.map_columns([*back, (name, bind(first, found.schema))])


def _moved(order: Sequence[OrderColumn], now: dict[int, int]) -> tuple[OrderColumn, ...]:
    return tuple(attrs.evolve(o, column=now[o.column]) for o in order)
