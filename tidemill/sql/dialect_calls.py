"""Calls of functions whose meaning in a dialect is another than Spark's: refused, or read as what they mean there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp

from tidemill.expressions.aggregate_functions import avg
from tidemill.expressions.aggregate_functions import sum as sum_of
from tidemill.expressions.composed_aggregates import composed
from tidemill.expressions.expr import Call, Expr, lit
from tidemill.expressions.types import FLOAT64, INT64, MAX_DECIMAL_PRECISION, decimal_type
from tidemill.sql import moments
from tidemill.sql.moments import DialectParser

NULL_LAST: Final = ": in lists and structs NULL is last there: compare what they hold"
_EXTREMES: Final = frozenset(("min", "max", "greatest", "least"))
_BY: Final = frozenset(("min_by", "max_by", "arg_min", "arg_max"))


def differs(parser: DialectParser, name: str, given: list[exp.Expression], within: Sequence[exp.Expression]) -> str:  # noqa: PLR0911 - one line a difference
    """Return why a call means something else in a dialect that is not Spark's, or may."""
    if name == "count" and isinstance(given[0] if given else None, exp.Distinct) and len(given[0].expressions) > 1:
        return ": COUNT(DISTINCT ...) of several values is of rows in other systems, and of Spark alone of values"
    if name in ("string_agg", "listagg") and len(_arguments(given)) != 2:  # noqa: PLR2004
        return ": write what stands between the values"
    if name == "mode" and given and parser.dialect.name != "duckdb":
        return ": write MODE() WITHIN GROUP (ORDER BY x)"
    if name in ("median", "percentile_cont") and parser.dialect.name == "duckdb":
        of = [o.this for o in within] or given
        dtype = parser.type_of(parser.expression(of[0]), of[0]) if of else None
        if dtype is not None and dtype.is_decimal:
            return f": of decimals DuckDB's {name.upper()} is a decimal: cast it to DOUBLE"
    if name in ("substring", "substr", "left", "right") and not all(is_positive(a) for a in given[1:]):
        return f": {name.upper()} is for places that are numbers written out, from 1 on, since others differ"
    if name in ("substring", "substr") and len(given) not in (2, 3):
        return ": expected a text, a place and a length"
    if name == "split_part" and not (len(given) == 3 and is_positive(given[2]) and _is_text(given[1])):  # noqa: PLR2004
        return ": SPLIT_PART is for delimiters and numbers that are written out, from 1 on, since others differ"
    ordered = given[1:] if name in _BY else _arguments(given) if name in _EXTREMES else ()
    if any(parser.type_of(parser.expression(a), a).is_nested for a in ordered):
        return NULL_LAST
    if name in ("greatest", "least") and any(isinstance(a, exp.Null) for a in given):
        return ": a bare NULL has no type"
    return moments.template_differs(parser, given) if name == "to_char" else ""


def is_positive(node: exp.Expression) -> bool:
    """Return whether a number is written out, and above 0."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) > 0


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and bool(node.name)


def _arguments(given: Sequence[Any]) -> list[Any]:
    """Return the arguments of an aggregate without ORDER BY and DISTINCT around them."""
    found = [g.this if isinstance(g, exp.Order) else g for g in given]
    return [a for g in found for a in (g.expressions if isinstance(g, exp.Distinct) else [g])]


def _rounded(parser: DialectParser, node: exp.Anonymous) -> Expr:
    """Return a rounded number: DuckDB rounds what a float is, and not how it prints."""
    args = tuple(parser.expression(e) for e in node.expressions)
    dtype = parser.type_of(args[0], node) if args else None
    if dtype is not None and dtype.is_decimal:
        return Call("round", args)
    if parser.dialect.name == "duckdb" and dtype == FLOAT64:
        return Call("round_scaled", args)
    raise parser.unsupported(node, ": ROUND is for decimals, since floats are rounded differently")


def _split(parser: DialectParser, node: exp.Anonymous) -> Expr:
    """Return the pieces of a text between delimiters; of an empty one PostgreSQL makes no pieces, DuckDB one."""
    if len(given := node.expressions) != 2 or not _is_text(given[1]):  # noqa: PLR2004
        raise parser.unsupported(node, ": expected a text and a delimiter that is written out, and not empty")
    text = parser.expression(given[0])
    pieces = Call("split", (text, lit(re.sub(r"([^\w\s])", r"\\\1", given[1].name)), lit(-1)))
    if not parser.dialect.folds:
        return pieces
    return Call("case", (Call("eq", (text, lit(""))), Call("slice", (pieces, lit(1), lit(0))), pieces))


def _nullif(parser: DialectParser, node: exp.Anonymous) -> Expr:
    """Return NULL where two values are equal as the dialect compares them."""
    if len(node.expressions) != 2:  # noqa: PLR2004
        raise parser.unsupported(node, ": expected two values")
    value, other = map(parser.expression, node.expressions)
    return Call("case", (parser.equal(value, other, node), lit(None), value))


def tried(parser: DialectParser, node: exp.Anonymous) -> Expr:
    """Return Spark's TRY_SUM or TRY_AVG: NULL where SUM or AVG would be an overflow."""
    if len(given := node.expressions) != 1 or isinstance(given[0], (exp.Distinct, exp.Star)):
        raise parser.unsupported(node, ": expected a number, without DISTINCT")
    argument = parser.expression(given[0])
    dtype, build = parser.type_of(argument, node), sum_of if node.name.lower() == "try_sum" else avg
    if dtype.is_integer and build is sum_of:
        whole = sum_of(argument.cast(decimal_type(MAX_DECIMAL_PRECISION)))
        return composed("try_sum", whole.try_cast(INT64), argument)
    if dtype.is_decimal and dtype.precision > MAX_DECIMAL_PRECISION - _MORE_DIGITS:
        raise parser.unsupported(node, ": a decimal of so many digits may overflow: cast it")
    return build(argument)


_MORE_DIGITS: Final = 10
"""How many digits a sum of decimals has more than they have."""

OWN: Final[dict[str, Callable[[DialectParser, exp.Anonymous], Expr]]] = {
    "round": _rounded, "nullif": _nullif, "age": moments.age, "date_part": moments.date_part,
    **dict.fromkeys(("string_to_array", "string_split", "str_split", "split"), _split),
}  # fmt: skip
"""Functions that are read here."""
