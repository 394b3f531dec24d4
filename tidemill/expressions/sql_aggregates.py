"""Aggregates in SQL text: ``COUNT(*)``, ``COUNT(DISTINCT x)``, ``FIRST(x ORDER BY t DESC)`` and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from sqlglot import exp

from tidemill.errors import SchemaError
from tidemill.expressions import aggregate_functions as functions
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.expr import Expr
from tidemill.expressions.sort_keys import SortKey


class Parser(Protocol):
    """What is asked of the parser of the text."""

    def expression(self, node: Any) -> Expr:
        """Return the expression that a node of sqlglot's stands for."""

    def unsupported(self, node: Any, why: str = "") -> SchemaError:
        """Return the error that names the node and the text."""


_PLAIN: Final[dict[str, Callable[[Any], Aggregate]]] = {
    "count": functions.count, "count_distinct": functions.count_distinct, "sum": functions.sum, "avg": functions.avg,
    "mean": functions.avg, "min": functions.min, "max": functions.max, "bool_or": functions.bool_or,
    "some": functions.bool_or, "any": functions.bool_or, "bool_and": functions.bool_and, "every": functions.bool_and,
    "stddev": functions.stddev, "stddev_samp": functions.stddev, "std": functions.stddev,
    "variance": functions.variance, "var_samp": functions.variance, "list": functions.list,
}  # fmt: skip
_ORDERED: Final[dict[str, Callable[..., Aggregate]]] = {
    "first": functions.first, "first_value": functions.first, "last": functions.last, "last_value": functions.last,
    "list": functions.list,
}  # fmt: skip
_INSTEAD: Final = {
    **dict.fromkeys(("any_value", "max_by", "min_by"), "FIRST(x ORDER BY t)"),
    **dict.fromkeys(("array_agg", "collect_list"), "LIST(x) FILTER (WHERE x IS NOT NULL)"),
}
AGGREGATES: Final = frozenset((*_PLAIN, *_ORDERED, *_INSTEAD))
"""Names of aggregates in SQL, in small letters."""


def aggregate(name: str, node: exp.Anonymous, parser: Parser) -> Expr:
    """Return the aggregate that a call stands for."""
    if name in _INSTEAD:
        raise parser.unsupported(node, f": write {_INSTEAD[name]}")
    if len(node.expressions) != 1:
        if name == "count" and not node.expressions:
            return functions.count()
        raise parser.unsupported(node, f": `{name}` takes one argument, not {len(node.expressions)}")
    (given,) = node.expressions
    if isinstance(given, exp.Order):
        return _ordered(name, given, node, parser)
    if isinstance(given, exp.Star):
        if name == "count":
            return functions.count()
        raise parser.unsupported(node, ": only COUNT takes *")
    if isinstance(given, exp.Distinct):
        if name == "count" and len(given.expressions) == 1:
            return functions.count_distinct(parser.expression(given.expressions[0]))
        raise parser.unsupported(node, ": DISTINCT is for COUNT of one value alone")
    if name not in _PLAIN:
        raise parser.unsupported(node, f": say in which order, as in {name.upper()}(x ORDER BY t)")
    return _PLAIN[name](parser.expression(given))


def _ordered(name: str, given: exp.Order, node: exp.Anonymous, parser: Parser) -> Expr:
    if name not in _ORDERED or isinstance(given.this, exp.Distinct):
        raise parser.unsupported(node, ": ORDER BY is for FIRST, LAST and LIST of all values alone")
    keys = [
        SortKey(parser.expression(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
        for o in given.expressions
    ]
    return _ORDERED[name](parser.expression(given.this), order_by=keys)
