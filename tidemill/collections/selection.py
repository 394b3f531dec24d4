"""Columns of rows: chosen, computed, renamed, with window calls and sessions in their expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.collections.builder import Builder, Named
from tidemill.collections.on_close import with_calls_on_close
from tidemill.collections.sessions import with_sessions
from tidemill.collections.windows import with_window_calls
from tidemill.dataflow.nodes import Node
from tidemill.errors import SchemaError, brief, did_you_mean
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, to_sql
from tidemill.expressions.structure import output_name
from tidemill.expressions.windows.calls import calls_in, sessions_in


def named_expressions(positional: Iterable[Any], by_name: Mapping[str, Any], schema: Schema) -> list[tuple[str, Expr]]:
    """Return expressions with their names: a positional one has its own, or a column's, or its text."""
    named = [_named(value, schema) for value in positional]
    return [*named, *((name, as_expr(value, schema)) for name, value in by_name.items())]


def _named(value: Any, schema: Schema) -> tuple[str, Expr]:
    expression = as_expr(value, schema)
    name = output_name(expression)
    if name is not None:
        return name, expression
    if calls_in(expression) or sessions_in(expression):
        return display(expression), expression
    return (value if isinstance(value, str) else to_sql(bind(expression, schema))), expression


def select(builder: Builder, node: Node, named: Named) -> Node:
    """Return the rows with just these columns."""
    if not named:
        msg = "select() without columns: name at least one"
        raise SchemaError(msg)
    rows, named = _with_calls(builder, node, named)
    return builder.compute(rows, named)


def with_columns(builder: Builder, node: Node, named: Named, emit: Any = "on_update") -> Node:
    """Return the rows with these columns added, or in the places of those with the same names."""
    if emit not in ("on_update", "on_close"):
        known = did_you_mean(str(emit), ["on_update", "on_close"])
        msg = f"with_columns(emit={emit!r}): {known}; a column called emit is added by select, or renamed"
        raise SchemaError(msg)
    calls = _with_calls if emit == "on_update" else with_calls_on_close
    rows, over_rows = calls(builder, node, named)
    bound: dict[str, Bound] = {name: bind(col(name), rows.schema) for name in node.schema.names}
    bound |= {name: bind(e, rows.schema, alone=True) for name, e in over_rows}
    return builder.map(rows, bound.items())


def _with_calls(builder: Builder, node: Node, named: Named) -> tuple[Node, Named]:
    node, named = with_window_calls(builder, node, named)
    return with_sessions(builder, node, named)


def rename(builder: Builder, node: Node, names: Mapping[str, str]) -> Node:
    """Return the same rows with columns renamed, given as old name -> new name."""
    for old in names:
        node.schema.index(old)
    return builder.compute(node, [(names.get(name, name), col(name)) for name in node.schema.names])


def drop(builder: Builder, node: Node, names: Iterable[str]) -> Node:
    """Return the rows without these columns."""
    dropped = {node.schema.index(name) for name in names}
    kept = [name for i, name in enumerate(node.schema.names) if i not in dropped]
    if not kept:
        msg = "drop() would leave no column: keep at least one"
        raise SchemaError(msg)
    return builder.pick(node, kept)


def fill_null(builder: Builder, node: Node, value: Any) -> Node:
    """Return the rows with NULL replaced; which columns one value fits is said by their types, numbers fit numbers."""
    if isinstance(value, Mapping):
        filled = [(name, col(name).fill_null(v)) for name, v in value.items()]
    else:
        kind = bind(lit(value), node.schema).dtype
        fitting = [f.name for f in node.schema if f.dtype == kind or (f.dtype.is_numeric and kind.is_numeric)]
        filled = [(name, col(name).fill_null(value)) for name in fitting]
    if not filled:
        msg = f"fill_null({brief(value)}): no column of {node.schema} can hold that value"
        raise SchemaError(msg)
    return with_columns(builder, node, filled)
