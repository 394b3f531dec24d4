"""Window calls in SQL text: ``LAG(x) OVER (PARTITION BY p ORDER BY t)``, ``SUM(x) OVER (... ROWS 4 PRECEDING)``."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any, Final

import attrs
from sqlglot import exp

from tidemill.errors import SchemaError
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.composed_aggregates import Composition
from tidemill.expressions.expr import Expr, Literal
from tidemill.expressions.intervals import Interval
from tidemill.expressions.sql_aggregates import Parser, sort_key
from tidemill.expressions.structure import resolve
from tidemill.expressions.windows import functions
from tidemill.expressions.windows.calls import RANKINGS
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import WindowFunction
from tidemill.expressions.windows.specification import Window

_OF_VALUES: Final[dict[str, Callable[..., WindowFunction]]] = {
    "lag": functions.lag, "lead": functions.lead, "nth_value": functions.nth_value,
    "first_value": functions.first_value, "first": functions.first_value, "any_value": functions.first_value,
    "last_value": functions.last_value, "last": functions.last_value,
}  # fmt: skip
_RANKINGS: Final[dict[str, Callable[..., WindowFunction]]] = {name: getattr(functions, name) for name in RANKINGS}
WINDOW_FUNCTIONS: Final = frozenset((*_RANKINGS, *_OF_VALUES))
"""Names of functions in SQL, in small letters, that with OVER are no aggregates."""
_TAKE_A_FLAG: Final = ("first_value", "first", "any_value", "last_value", "last")
_CURRENT_ROW: Final = "CURRENT ROW"


def window_call(node: exp.Window, parser: Parser) -> Expr:
    """Return the call of a function over a window."""
    window = _window(node, parser)
    called, ignore_nulls = _without_nulls(node.this)
    name = called.name.lower() if isinstance(called, exp.Anonymous) else ""
    if name in WINDOW_FUNCTIONS:
        return _function(name, called, parser, ignore_nulls=ignore_nulls).over(window)
    if isinstance(called, exp.Filter):
        _refuse_filter(called, parser)
    if ignore_nulls:
        raise parser.unsupported(node, ": IGNORE NULLS is for LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE")
    aggregate = parser.expression(called)
    if not isinstance(aggregate, (Aggregate, Composition)):
        raise parser.unsupported(node, ": expected a window function or an aggregate before OVER")
    return aggregate.over(window)


def _function(name: str, called: exp.Anonymous, parser: Parser, *, ignore_nulls: bool) -> WindowFunction:
    given = list(called.expressions)
    ignore_nulls = ignore_nulls or name == "any_value"
    for place, argument in enumerate(given):  # it stands behind the last, or behind the value
        given[place], inside = _without_nulls(argument)
        ignore_nulls = ignore_nulls or inside
        if isinstance(given[place], exp.Order):
            text = given[place].this.sql(dialect="spark")
            why = f": over a window the order is the window's: write {name.upper()}({text}) OVER (... ORDER BY ...)"
            raise parser.unsupported(called, why)
    arguments = [parser.expression(a) for a in given]
    if name in _TAKE_A_FLAG and len(arguments) == 2:  # noqa: PLR2004 - the value, and Spark's isIgnoreNull
        flag = resolve(arguments.pop())
        if not isinstance(flag, Literal) or not isinstance(flag.value, bool):
            raise parser.unsupported(called, ": expected TRUE or FALSE for whether NULLs are ignored")
        ignore_nulls = ignore_nulls or flag.value
    try:
        if name in _RANKINGS:
            made = _RANKINGS[name](*arguments)
            return attrs.evolve(made, ignore_nulls=ignore_nulls)
        return _OF_VALUES[name](*arguments, ignore_nulls=ignore_nulls)
    except TypeError:
        raise parser.unsupported(called, f": `{name}` does not take {len(arguments)} arguments") from None


def _refuse_filter(filtered: exp.Filter, parser: Parser) -> None:
    """Raise for a window function with FILTER, which only aggregates have."""
    called, ignore_nulls = _without_nulls(filtered.this)
    name = called.name.lower() if isinstance(called, exp.Anonymous) else ""
    if name in WINDOW_FUNCTIONS:
        function = _function(name, called, parser, ignore_nulls=ignore_nulls)
        function.filter(parser.expression(filtered.expression.this))


def _without_nulls(node: Any) -> tuple[Any, bool]:
    """Return a call, or its argument, without IGNORE NULLS or RESPECT NULLS, and whether it had the former."""
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        return node.this, isinstance(node, exp.IgnoreNulls)
    return node, False


def _window(node: exp.Window, parser: Parser) -> Window:
    if node.args.get("alias"):
        hint = ": write the window out, or name it in Python: w = tm.Window.partition_by(...), tm.sum('x').over(w)"
        raise parser.unsupported(node, hint)
    window = Window.partition_by(*map(parser.expression, node.args.get("partition_by") or ()))
    if order := node.args.get("order"):
        window = window.order_by(*(sort_key(o, parser) for o in order.expressions))
    if spec := node.args.get("spec"):
        window = _framed(window, spec, parser)
    return window


def _framed(window: Window, spec: exp.WindowSpec, parser: Parser) -> Window:
    between = {"rows": window.rows_between, "groups": window.groups_between, "range": window.range_between}
    given = spec.args
    if given.get("start") == "UNBOUNDED" and _side(given, "start") == "FOLLOWING":
        raise parser.unsupported(spec, ": a frame cannot begin at the partition's end")
    if given.get("end") == "UNBOUNDED" and _side(given, "end") == "PRECEDING":
        raise parser.unsupported(spec, ": a frame cannot end at the partition's start")
    if given.get("end") is None and _side(given, "start") == "FOLLOWING":
        start = f"{given['start'].sql(dialect='spark')} FOLLOWING"
        kind = str(given["kind"]).upper()
        why = f": a frame that begins there does not end at the current row: write {kind} BETWEEN {start} AND ..."
        raise parser.unsupported(f"{kind} {start}", why)
    framed = between[str(given["kind"]).lower()](_bound(spec, "start", parser), _bound(spec, "end", parser))
    return framed.exclude(given["exclude"].name) if given.get("exclude") else framed


def _side(given: dict[str, Any], which: str) -> str:
    return str(given.get(f"{which}_side") or "").upper()


def _bound(spec: exp.WindowSpec, which: str, parser: Parser) -> Any:
    """Return a bound as windows take it: negative for rows before."""
    node = spec.args.get(which) or _CURRENT_ROW
    if isinstance(node, str):
        return 0 if node == _CURRENT_ROW else UNBOUNDED
    found = resolve(parser.expression(node))
    value = found.value if isinstance(found, Literal) else None
    before = _side(spec.args, which) == "PRECEDING"
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal, Interval)) or _negative(value):
        what = node.sql(dialect="spark")
        side = "PRECEDING" if before else "FOLLOWING"
        why = f": {what} {side}: expected a number or an interval, not negative: the word after it says which way"
        raise SchemaError(parser.unsupported(spec).args[0] + why)
    return -value if before else value


def _negative(value: Any) -> bool:
    amount = value.amount if isinstance(value, Interval) else value
    return bool(amount < 0)
