"""Temporal filters: rows that are there for a time, by the user's time or by a clock that is a collection."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from tidemill.collections.builder import Builder
from tidemill.collections.dynamic_filters import dynamic_filter
from tidemill.collections.joins import inner_join
from tidemill.collections.selection import with_columns
from tidemill.collections.sets import concat
from tidemill.dataflow.composites import CLOCKED, TemporalFilter
from tidemill.dataflow.nodes import Node, Threshold
from tidemill.errors import SchemaError, TimeError, did_you_mean
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import col, lit
from tidemill.expressions.schema import unused_name
from tidemill.expressions.sql_text import as_expr, to_sql


def temporal_filter(  # noqa: PLR0917 - what can be said
    builder: Builder, rows: Node, valid_from: Any, valid_to: Any, clock: Node | None, coordinate: str | None
) -> Node:
    """Return the rows while they are valid; what its parameters mean is said at ``Collection.temporal_filter``."""
    if valid_from is None and valid_to is None:
        msg = "temporal_filter: neither valid_from nor valid_to: give a column or an expression for one of them"
        raise SchemaError(msg)
    if clock is not None:
        return _by_clock(builder, rows, valid_from, valid_to, clock, coordinate)
    axis = _coordinate(builder.graph.coordinates, coordinate)
    begin, end = (_time(rows, value, name) for value, name in ((valid_from, "valid_from"), (valid_to, "valid_to")))
    return builder.add(TemporalFilter, rows, valid_from=begin, valid_to=end, coordinate=axis)


def _coordinate(names: tuple[str, ...], given: str | None) -> int:
    if given is None:
        if len(names) > 1:
            msg = (
                f"temporal_filter: times have {len(names)} coordinates ({', '.join(names)}): "
                f"say which one it is about, as in coordinate={names[0]!r}"
            )
            raise TimeError(msg)
        return 0
    if given not in names:
        msg = f"temporal_filter: coordinate={given!r} is none of {', '.join(names)}{did_you_mean(given, names)}"
        raise TimeError(msg)
    return names.index(given)


def _time(rows: Node, value: Any, name: str) -> Bound | None:
    if value is None:
        return None
    bound = bind(as_expr(value, rows.schema), rows.schema)
    if not bound.dtype.is_integer:
        msg = (
            f"temporal_filter: {name} {to_sql(bound)} is of type {bound.dtype}: expected an integer, as times of "
            "the dataflow are; give the time that it stands for, or a clock=... to compare it with"
        )
        raise SchemaError(msg)
    return bound


def _by_clock(  # noqa: PLR0917 - as above
    builder: Builder, rows: Node, valid_from: Any, valid_to: Any, clock: Node, coordinate: str | None
) -> Node:
    """Return the rows that are valid at the one value that the clock shows."""
    if coordinate is not None:
        msg = f"temporal_filter: coordinate={coordinate!r} and a clock: rows are compared with the clock; give one"
        raise SchemaError(msg)
    if len(clock.schema) != 1:
        msg = f"temporal_filter: the clock has the columns {clock.schema}: expected one, that shows what time it is"
        raise SchemaError(msg)
    (shown,) = clock.schema.names
    begin, end = (unused_name(name, set(rows.schema.names)) for name in ("begin", "end"))
    bounds = {begin: valid_from, end: valid_to}
    bounds = {name: as_expr(value, rows.schema) for name, value in bounds.items() if value is not None}
    compared = {begin: (begin, "<=", shown), end: (end, ">", shown)}
    wide = with_columns(builder, rows, list(bounds.items()))
    parts = []
    for known in _choices(list(bounds)):
        unknown = [name for name in bounds if name not in known]
        if all(wide.schema.field(name).nullable for name in unknown):
            some = wide
            for name in unknown:
                some = builder.filter(some, bind(col(name).is_null(), some.schema))
            said = [[compared[name] for name in known]]
            filtered = dynamic_filter(builder, some, said, clock, None, CLOCKED) if known else None
            parts.append(_if_any(builder, some, clock) if filtered is None else filtered)
    return builder.pick(concat(builder, parts[0], parts[1:]), rows.schema.names)


def _choices(names: list[str]) -> list[tuple[str, ...]]:
    """Return all choices among names, the largest first."""
    return [chosen for size in range(len(names), -1, -1) for chosen in combinations(names, size)]


def _if_any(builder: Builder, rows: Node, clock: Node) -> Node:
    """Return the rows while the clock shows anything: whatever that is, so that they stay when it changes."""
    shown = unused_name("shown", set(rows.schema.names))
    some = builder.add(Threshold, builder.compute(clock, [(shown, lit(value=True))]))
    return builder.pick(inner_join(builder, rows, some, [], "_right", nulls_equal=False), rows.schema.names)
