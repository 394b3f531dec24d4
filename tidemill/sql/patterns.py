"""LIKE and ILIKE: of one pattern, or of any or all of several that are written out."""

from __future__ import annotations

from sqlglot import exp

from tidemill.expressions.expr import Call, Expr
from tidemill.expressions.functions.text import ilike
from tidemill.sql.moments import DialectParser


def like(parser: DialectParser, node: exp.Like | exp.ILike) -> Expr:
    """Return whether a text is like a pattern; DuckDB's have no escapes."""
    of = node.expression
    patterns = _listed(parser, node, of.this) if isinstance(of, (exp.Any, exp.All)) else [of]
    if parser.dialect.name == "duckdb" and any("\\" in pattern.name for pattern in patterns):
        raise parser.unsupported(node, ": a backslash is no escape in DuckDB's patterns")
    value = parser.expression(node.this)
    found = [_like(node, value, parser.expression(pattern)) for pattern in patterns]
    is_negated = bool(node.args.get("negate"))  # what is returned is negated for it: x NOT LIKE ALL is NOT (x LIKE ANY)
    together = "or" if isinstance(of, exp.Any) != is_negated else "and"
    return found[0] if len(found) == 1 else Call(together, tuple(found))


def _like(node: exp.Like | exp.ILike, value: Expr, pattern: Expr) -> Expr:
    return ilike(value, pattern) if isinstance(node, exp.ILike) else Call("like", (value, pattern))


def _listed(parser: DialectParser, node: exp.Expression, given: exp.Expression) -> list[exp.Expression]:
    """Return the patterns of ANY or ALL: in Spark a list of them, in PostgreSQL an array."""
    inner = given.this if isinstance(given, exp.Paren) else given
    array, is_spark = isinstance(inner, exp.Array), parser.dialect.functions is None
    found = inner.expressions if array or isinstance(inner, exp.Tuple) else [inner]
    is_written = found and not any(isinstance(each, (exp.Query, exp.Array)) for each in found)
    if not is_written or array == is_spark or not (is_spark or parser.dialect.folds):
        how = "ANY ('a%', 'b%')" if is_spark else "ANY (ARRAY['a%', 'b%'])"
        why = f": write out the patterns, as in LIKE {how}" if is_spark or parser.dialect.folds else ""
        raise parser.unsupported(node, why or ": DuckDB's LIKE is of one pattern: write one beside the other")
    return [*found]
