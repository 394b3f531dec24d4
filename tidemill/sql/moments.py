"""Dates and timestamps where dialects differ from Spark's: parts of them, ages, and what templates of text may have."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from sqlglot import exp

from tidemill.expressions.expr import Call, Cast, Expr, Literal, lit
from tidemill.expressions.functions import NULL
from tidemill.expressions.functions.dates import AGE, extract
from tidemill.expressions.intervals import DAY_MICROSECONDS, MONTHS, Interval, microseconds_of
from tidemill.expressions.sql_aggregates import Parser
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import DATE, FLOAT64, INT32, INT64, INTERVAL, TIMESTAMP, TIMESTAMPTZ, DType
from tidemill.expressions.types import decimal_type as decimal_of
from tidemill.sql.dialects import Dialect


class DialectParser(Parser, Protocol):
    """What is asked of the parser of a query's expressions, whose dialect is known."""

    @property
    def dialect(self) -> Dialect:
        """The text's dialect."""

    def type_of(self, expression: Expr, node: Any) -> DType:
        """Return the type of an expression."""

    def equal(self, left: Expr, right: Expr, node: Any) -> Expr:
        """Return whether two values are equal."""


_PARTS: Final = frozenset(("year", "month", "day", "quarter", "week", "hour", "minute", "doy"))
_OTHER_PARTS: Final[dict[str, Callable[[Expr], Expr]]] = {
    "isodow": lambda moment: extract("dow_iso", moment),
    "dow": lambda moment: extract("dow", moment) - 1,
    "isoyear": lambda moment: extract("yearofweek", moment),
}
"""Parts of dates that PostgreSQL and DuckDB have, and Spark by other names or numbers."""
_TWO: Final = 2


def extracted(parser: DialectParser, node: exp.Extract) -> Expr:
    """Return a part of a date, or of an age; those that dialects count differently are refused."""
    part, moment = node.name.lower(), node.expression
    if part == "epoch" and isinstance(moment.unnest(), exp.Sub):
        return _seconds(parser, moment)
    dtype = parser.type_of(of := parser.expression(moment), moment)
    if dtype == AGE:
        if part not in _AGE_PARTS:
            raise parser.unsupported(node, f": of an age expected one of {', '.join(_AGE_PARTS)}")
        return Cast(_AGE_PARTS[part](of), INT32)
    if part == "epoch":
        return _seconds(parser, moment)
    if dtype == INTERVAL:
        raise parser.unsupported(node, ": hours of an interval may be more than a day's there")
    if part in _PARTS:
        return extract(part, of)
    if part not in _OTHER_PARTS:
        raise parser.unsupported(node, f": expected one of {', '.join(sorted({*_PARTS, *_OTHER_PARTS, 'epoch'}))}")
    return _OTHER_PARTS[part](of)


def date_part(parser: DialectParser, node: exp.Anonymous) -> Expr:
    """Return a part by its name in quotes: a bigint in DuckDB's dialect, a float64 in those of PostgreSQL's family."""
    part, *moments = node.expressions or [None]
    if len(moments) != 1 or not isinstance(part, exp.Literal) or not part.is_string:
        raise parser.unsupported(node, ": expected the name of a part, written out, and a moment")
    made = exp.Extract(this=exp.Var(this=part.name), expression=moments[0])
    made.meta.update(node.meta)
    is_whole = parser.dialect.name == "duckdb" and part.name.lower() != "epoch"
    return Cast(extracted(parser, made), INT64 if is_whole else FLOAT64)


def _part(field: str, size: int, within: int = 0) -> Callable[[Expr], Expr]:
    """Return what takes whole units out of a field of an age, and of these what is left of larger ones."""

    def part(of: Expr) -> Expr:
        units = Call("int_divide", (of.field(field), lit(size)))
        return units % within if within else units

    return part


_AGE_PARTS: Final[dict[str, Callable[[Expr], Expr]]] = {
    "year": _part("months", 12), "month": _part("months", 1, 12), "day": _part("days", 1),
    "hour": _part("microseconds", 3_600_000_000), "minute": _part("microseconds", 60_000_000, 60),
}  # fmt: skip


def age(parser: DialectParser, node: exp.Anonymous) -> Expr:
    """Return the age between two moments; one of today is refused, since it changes by itself."""
    if len(node.expressions) == 1:
        why = ": it changes while its input does not: compare with now() - INTERVAL ... in WHERE"
        raise parser.unsupported(node, why)
    return Call("age", tuple(map(parser.expression, node.expressions)))


def comparable(parser: DialectParser, of: Expr, node: Any) -> Expr:
    """Return what ages and intervals are compared by beside ages: microseconds, months being of 30 days."""
    plain = resolve(of)
    if isinstance(plain, Literal) and isinstance(given := plain.value, Interval):
        length = given.amount * 30 * DAY_MICROSECONDS if given.dtype == MONTHS else microseconds_of(given)
        return lit(length).cast(INT64)
    if parser.type_of(of, node) != AGE:
        return of
    months, days, micros = (of.field(name) for name, _ in AGE.fields)
    return (months.cast(INT64) * 30 + days) * DAY_MICROSECONDS + micros


def _seconds(parser: DialectParser, moment: exp.Expression) -> Expr:
    """Return the seconds since 1970, or between two timestamps: a float64, in PostgreSQL's family a decimal."""
    inner: Any = moment.unnest()
    apart = isinstance(inner, exp.Sub) and not inner.args.get("negate")
    of = [parser.expression(m) for m in ((inner.this, inner.expression) if apart else (moment,))]
    if apart and any(parser.type_of(m, inner) not in (TIMESTAMP, TIMESTAMPTZ, NULL) for m in of):
        raise parser.unsupported(moment, ": EXTRACT(EPOCH FROM a - b) is of two timestamps: cast dates")
    micros = [Call("unix_micros", (m,)) for m in of]
    found = micros[0] - micros[1] if apart else micros[0]
    if parser.dialect.float_division:
        return found / 1e6
    return Cast(Cast(found, decimal_of(19)) * lit(decimal.Decimal("0.000001")), decimal_of(20, 6))


_OF_RISINGWAVE: Final = re.compile(
    r"(HH24|hh24|HH12|hh12|HH|hh|AM|PM|am|pm|MI|mi|SS|ss|YYYY|yyyy|YY|yy|IYYY|iyyy|IY|iy|MM|mm|Mon|DD|dd|US|us|MS|ms"
    r"|[^A-Za-z0-9%\"\\])*"
)
"""Templates that RisingWave, which translates them for another library, reads as PostgreSQL does."""


def template_differs(parser: DialectParser, given: list[exp.Expression]) -> str:
    """Return why TO_CHAR means something else in a dialect of PostgreSQL's family."""
    name = parser.dialect.name
    if name == "postgres" or len(given) != _TWO:
        return ""
    if parser.type_of(parser.expression(given[0]), given[0]) not in (DATE, TIMESTAMP):
        return f": TO_CHAR of {name} is of timestamps"
    if name == "materialize" and "FM" in given[1].name.upper():
        return ": FM is PostgreSQL's"
    if name == "risingwave" and not _OF_RISINGWAVE.fullmatch(given[1].name):
        return ": RisingWave has YYYY, YY, IYYY, IY, MM, Mon, DD, HH24, HH12, MI, SS, MS, US, AM and signs between them"
    return ""
