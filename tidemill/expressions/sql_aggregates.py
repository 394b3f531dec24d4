"""Aggregates in SQL text: ``COUNT(*)``, ``COUNT(DISTINCT x)``, ``FIRST(x ORDER BY t DESC)`` and their like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from sqlglot import exp

from tidemill.errors import SchemaError
from tidemill.expressions import aggregate_functions as functions
from tidemill.expressions import composed_aggregates as composed
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.expr import Expr, call
from tidemill.expressions.functions.choice import when
from tidemill.expressions.functions.lists import array_distinct, size
from tidemill.expressions.sort_keys import SortKey


class Parser(Protocol):
    """What is asked of the parser of the text."""

    def expression(self, node: Any) -> Expr:
        """Return the expression that a node of sqlglot's stands for."""

    def sort_value(self, node: Any) -> Expr:
        """Return what an ORDER BY goes by."""

    def unsupported(self, node: Any, why: str = "") -> SchemaError:
        """Return the error that names the node and the text."""


def _count(*arguments: Any, distinct: bool = False) -> Expr:
    if distinct:
        return functions.count_distinct(*arguments)
    return functions.count(arguments[0]) if len(arguments) == 1 else functions.count(call("row_text", *arguments))


def _list(argument: Any, *, order_by: Any = None, distinct: bool = False) -> Expr:
    return _once(functions.list(argument, order_by=order_by), "list", argument, distinct=distinct)


def _collect_list(argument: Any, *, order_by: Any = None, distinct: bool = False) -> Expr:
    return _once(composed.collect_list(argument, order_by=order_by), "array_agg", argument, distinct=distinct)


def _once(values: Expr, name: str, argument: Any, *, distinct: bool) -> Expr:
    return composed.composed(name, array_distinct(values), argument) if distinct else values


def _list_or_null(argument: Any, *, order_by: Any = None, distinct: bool = False) -> Expr:
    values = _list(argument, order_by=order_by, distinct=distinct)
    return composed.composed("array_agg", when(size(values) > 0, values).otherwise(None), argument)


def _by_known(build: Callable[..., Aggregate]) -> Callable[..., Expr]:
    return lambda argument, by: build(argument, by).filter(argument.is_not_null())


def _first_of(build: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda argument, *, order_by: build(argument, order_by=order_by)


_FIRST, _LAST = map(_first_of, (functions.first, functions.last))
_BUILDERS: Final[dict[str, Callable[..., Expr]]] = {
    "count": _count, "sum": functions.sum, "avg": functions.avg, "mean": functions.avg, "min": functions.min,
    "max": functions.max, "bool_or": functions.bool_or, "some": functions.bool_or, "any": functions.bool_or,
    "bool_and": functions.bool_and, "every": functions.bool_and,
    "stddev": functions.stddev, "stddev_samp": functions.stddev, "std": functions.stddev,
    "variance": functions.variance, "var_samp": functions.variance,
    "first": _FIRST, "first_value": _FIRST, "last": _LAST, "last_value": _LAST,
    "list": _list, "collect_list": _collect_list, "array_agg": _collect_list, "listagg": composed.string_agg,
    "count_distinct": functions.count_distinct,
    "#list": _list_or_null, "#min_by": _by_known(composed.min_by), "#max_by": _by_known(composed.max_by),
    **{
        name: getattr(composed, name)
        for name in (
            "any_value", "bit_and", "bit_or", "bit_xor", "collect_set", "corr", "count_if", "covar_pop", "covar_samp",
            "max_by", "median", "min_by", "mode", "percentile", "regr_avgx", "regr_avgy", "regr_count",
            "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "stddev_pop", "string_agg",
            "var_pop",
        )
    },
}  # fmt: skip
_WITHIN: Final[dict[str, Callable[..., Expr]]] = {
    "percentile_cont": composed.percentile, "percentile_disc": composed.percentile_disc, "mode": composed.mode,
}  # fmt: skip
"""Aggregates of the one value that their WITHIN GROUP orders by."""
_ONCE_IS_ENOUGH: Final = (
    "min", "max", "bool_or", "bool_and", "some", "any", "every", "any_value", "collect_set", "bit_and", "bit_or",
)  # fmt: skip
"""Aggregates for which DISTINCT makes no difference."""
AGGREGATES: Final = frozenset((*_BUILDERS, *_WITHIN))
"""Names of aggregates in SQL, in small letters."""


def aggregate(name: str, node: exp.Anonymous, parser: Parser, within: Sequence[exp.Expression] = ()) -> Expr:
    """Return the aggregate that a call stands for, with what it is ordered by in WITHIN GROUP."""
    given, order, distinct = list(node.expressions), within, False
    if given and isinstance(given[-1], exp.Order):
        order, given[-1] = given[-1].expressions, given[-1].this
    if given and isinstance(given[0], exp.Distinct):
        given[:1], distinct = given[0].expressions, True
    if any(isinstance(g, exp.Star) for g in given):
        if name != "count" or distinct or order:
            raise parser.unsupported(node, ": only COUNT takes *")
        given = []
    if not given and name == "count":
        return functions.count()
    if within and name in _WITHIN:
        return _within_group(name, node, parser, given, within)
    if name not in _BUILDERS:
        raise parser.unsupported(node, f": write {name.upper()}(...) WITHIN GROUP (ORDER BY x)")
    build = _BUILDERS[name]
    parameters, options = inspect.signature(build).parameters, dict[str, Any]()
    if distinct and name not in _ONCE_IS_ENOUGH:
        if "distinct" not in parameters:
            raise parser.unsupported(node, f": {name.upper().lstrip('#')} does not take DISTINCT")
        options["distinct"] = True
    if order:
        if "order_by" not in parameters:
            raise parser.unsupported(node, ": ORDER BY is for FIRST, LAST and LIST, ARRAY_AGG and STRING_AGG alone")
        options["order_by"] = [sort_key(o, parser) for o in order]
    elif "order_by" in parameters and parameters["order_by"].default is inspect.Parameter.empty:
        raise parser.unsupported(node, f": say in which order, as in {name.upper()}(x ORDER BY t)")
    return _built(build, node, [parser.expression(g) for g in given], options, parser)


def _within_group(
    name: str, node: exp.Anonymous, parser: Parser, given: Sequence[Any], within: Sequence[exp.Expression]
) -> Expr:
    if len(within) != 1:
        raise parser.unsupported(node, f": {name.upper()} is of the one value that WITHIN GROUP orders by")
    arguments = [parser.expression(within[0].this), *map(parser.expression, given)]
    return _built(_WITHIN[name], node, arguments, {"descending": bool(within[0].args.get("desc"))}, parser)


def _built(
    build: Callable[..., Expr], node: exp.Anonymous, arguments: list[Expr], options: dict[str, Any], parser: Parser
) -> Expr:
    try:
        inspect.signature(build).bind(*arguments, **options)
    except TypeError:
        what = f"{len(arguments)} argument" + "s" * (len(arguments) != 1)
        raise parser.unsupported(node, f": `{node.name.lower()}` does not take {what}") from None
    return build(*arguments, **options)


def sort_key(node: exp.Expression, parser: Parser) -> SortKey:
    """Return a key of an ORDER BY."""
    return SortKey(parser.sort_value(node.this), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
