"""Bound trees to SQL text, by sqlglot in Spark's dialect."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import itertools
import math
import threading
from collections.abc import Sequence
from typing import Final

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from tidemill.errors import SchemaError
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral, walk
from tidemill.expressions.calls import MisfitError, bind_call, bind_cast
from tidemill.expressions.conversions import Operand
from tidemill.expressions.functions import FUNCTIONS, NULL, widens
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.date_values import EPOCH
from tidemill.expressions.functions.dates import DAY_UNITS, WITH_UNIT
from tidemill.expressions.intervals import Interval, interval_text, unit_length
from tidemill.expressions.literals import literal_type
from tidemill.expressions.recursion_guard import recursion_guard
from tidemill.expressions.types import DATE, INT64, INTERVAL, STRING, TIME, TIMESTAMP, UUID, DType

DIALECT: Final = "spark"
_SPARK: Final = Dialect.get_or_raise(DIALECT)


class _Here(threading.local):
    """sqlglot's writer, one for each thread: to make it takes as long as to write a short text."""

    def __init__(self) -> None:
        self.generator = _SPARK.generator()


_here: Final = _Here()

_FEW: Final = 30
"""Parts of an expression whose text is kept: larger ones are rare, and would hold memory."""


def print_sql(bound: Bound, *, explicit: bool) -> str:
    """Return a bound tree as Spark SQL text; what is meant by ``explicit`` is said at ``sql_text.to_sql``.

    Many operators have the same expressions, and each is printed where it is compared and where it is drawn.
    """
    parts = list(itertools.islice(walk(bound), _FEW + 1))
    is_small = len(parts) <= _FEW and not any(
        isinstance(p, BoundLiteral) and isinstance(p.value, (str, bytes, tuple)) and len(p.value) > _FEW for p in parts
    )
    return (_kept if is_small else _printed)(bound, explicit)


@functools.lru_cache(1 << 12)
def _kept(bound: Bound, explicit: bool) -> str:
    return _printed(bound, explicit)


@recursion_guard
def _printed(bound: Bound, explicit: bool) -> str:
    try:
        return str(_here.generator.generate(_print(bound, explicit=explicit), copy=False))
    except SqlglotError as error:
        if isinstance(error.__cause__, RecursionError):  # sqlglot read a type's name where the stack ended
            raise error.__cause__ from None
        raise


# How strongly operators bind, loosest first; whatever is not here needs no parentheses.
_STRENGTH: Final = {
    name: strength
    for strength, names in enumerate(
        (
            ("or",),
            ("and",),
            ("not",),
            ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "in", "is_null", "like"),
            ("bit_and", "bit_or", "bit_xor"),
            ("add", "subtract"),
            ("multiply", "divide", "int_divide", "modulo"),
            ("negate", "bit_not"),
        )
    )
    for name in names
}
_BITS: Final = {"bit_and", "bit_or", "bit_xor"}
_LEFT_ASSOCIATIVE: Final = {"add", "subtract", "multiply", "divide", "int_divide", "modulo", "and", "or", *_BITS}


def _print(bound: Bound, *, explicit: bool) -> exp.Expression:
    if isinstance(bound, BoundColumn):
        return exp.column(exp.to_identifier(bound.name, quoted=not bound.name.isidentifier()), copy=False)
    if isinstance(bound, BoundLiteral):
        return _bare(bound) if not explicit and _loosened(bound).bound == bound else _typed(bound)
    if bound.function == "cast":
        return exp.cast(_print(bound.args[0], explicit=explicit), _type(bound.dtype), copy=False, dialect=DIALECT)
    if explicit and (zoneless := _without_zone(bound)) is not None:
        return _print(zoneless, explicit=True)
    operands = [Operand(a) for a in bound.args] if explicit else _shortest(bound)
    args = [_print_operand(o, explicit=explicit) for o in operands]
    return _call(bound.function, args, [o.bound for o in operands])


_COUNTED: Final = {"timestamp_seconds": "SECOND", "timestamp_millis": "MILLISECOND", "timestamp_micros": "MICROSECOND"}
_FIRST: Final = BoundLiteral(dt.datetime(1, 1, 1), TIMESTAMP)  # noqa: DTZ001 - timestamps have no zone


def _without_zone(bound: BoundCall) -> Bound | None:
    """Return a function for which Spark goes by the session's time zone without that; None of any other function.

    DATE_TRUNC and TIMESTAMPDIFF take a timestamp without zone for wall time of the session's zone, where clocks change:
    hours come twice there, or not at all. UNIX_MICROS, TIMESTAMPADD and casts to and from dates do not.
    """
    if bound.function in _COUNTED:
        counted = BoundLiteral(_COUNTED[bound.function], STRING)
        return _made("timestampadd", counted, bound.args[0], BoundLiteral(EPOCH, TIMESTAMP))
    if bound.function == "date_trunc":
        unit, moment = bound.args
        assert isinstance(unit, BoundLiteral)
        if unit.value == "DAY":
            return _cast(_cast(moment, DATE), TIMESTAMP)
        if unit.value in DAY_UNITS:
            return _cast(_made("trunc", _cast(moment, DATE), unit), TIMESTAMP)
        units = _whole_units(unit, _FIRST, moment)
        assert units is not None
        return _made("timestampadd", unit, units, _FIRST)
    if bound.function == "timestampdiff":
        return _whole_units(*bound.args)
    return None


def _whole_units(unit: Bound, start: Bound, end: Bound) -> Bound | None:
    """Return the number of whole units from start to end, towards zero; None of months, which have no one length."""
    assert isinstance(unit, BoundLiteral)
    length = unit_length(unit.value)
    if length is None:
        return None
    apart = _made("subtract", _made("unix_micros", end), _made("unix_micros", start))
    return _made("int_divide", apart, BoundLiteral(length, INT64))


def _made(function: str, *args: Bound) -> Bound:
    return bind_call(function, tuple(map(Operand, args)))


def _cast(arg: Bound, to: DType) -> Bound:
    return bind_cast(Operand(arg), to)


def _print_operand(operand: Operand, *, explicit: bool) -> exp.Expression:
    if isinstance(operand.bound, BoundLiteral):
        return _bare(operand.bound) if operand.loose else _typed(operand.bound)
    return _print(operand.bound, explicit=explicit)


def _shortest(call: BoundCall) -> Sequence[Operand]:
    """Return the arguments without the conversions and literals' types that binding puts back by itself."""
    whole = [Operand(a) for a in call.args]
    if call.dtype == NULL:
        return [_loosened(a) for a in call.args]  # a call that could not be typed, printed for the error that says so
    for shorten in (lambda a: _loosened(_narrowed(a)), _loosened, lambda a: Operand(_narrowed(a))):
        short = tuple(shorten(a) for a in call.args)
        try:
            if bind_call(call.function, short) == call:
                return short
        except (MisfitError, SchemaError):
            continue
    return whole


def _narrowed(arg: Bound) -> Bound:
    """Return an argument without the widening around it."""
    widened = isinstance(arg, BoundCall) and arg.function == "cast" and widens(arg.args[0].dtype, arg.dtype)
    return arg.args[0] if widened and isinstance(arg, BoundCall) else arg


def _loosened(arg: Bound) -> Operand:
    """Return what a literal's shortest text would be bound to."""
    if not isinstance(arg, BoundLiteral):
        return Operand(arg)
    value = arg.value
    if value is None:
        return Operand(BoundLiteral(None, NULL), loose=True)
    if isinstance(value, float) and math.isfinite(value) and "e" not in repr(value):
        if repr(value) == "-0.0":
            return Operand(arg)  # read as a decimal it would lose its sign
        value = int(value) if value.is_integer() else decimal.Decimal(repr(value))
    elif isinstance(value, decimal.Decimal) and "." not in f"{value:f}":
        value = int(value)
    if isinstance(value, (int, decimal.Decimal)) and not isinstance(value, bool):
        return Operand(BoundLiteral(value, literal_type(value) or NULL), loose=True)
    return Operand(arg, loose=arg.dtype == STRING)


def _bare(literal: Bound) -> exp.Expression:
    """Return a literal in its shortest form; what it is bound to depends on its neighbours."""
    assert isinstance(literal, BoundLiteral)
    value = literal.value
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, (int, decimal.Decimal)) or (isinstance(value, float) and "e" in repr(value)):
        text = f"{value:f}" if isinstance(value, decimal.Decimal) else repr(value)
        number = exp.Literal.number(text.lstrip("-"))
        return exp.Neg(this=number) if text.startswith("-") else number
    return _typed(literal)


def _typed(literal: BoundLiteral) -> exp.Expression:
    """Return a literal in a form that says its type."""
    value, to = literal.value, literal.dtype
    if isinstance(value, (bool, str)) and to != UUID:
        return _bare(literal)
    if isinstance(value, Interval):
        return _interval(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    inner: exp.Expression = exp.Null()
    if isinstance(value, float):
        if "e" in repr(value):
            return _bare(literal)
        if repr(value) == "-0.0":
            return exp.Neg(this=exp.Literal.number("0e0"))
        special = None if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
        inner = exp.Literal.string(special) if special else _bare(BoundLiteral(decimal.Decimal(repr(value)), to))
    elif isinstance(value, (int, decimal.Decimal)):
        inner = _bare(literal)
    elif value is not None:
        inner = exp.Literal.string(cast_value(value, to, STRING))
    return inner if to == NULL else exp.cast(inner, _type(to), copy=False, dialect=DIALECT)


def _interval(value: Interval) -> exp.Expression:
    text, first, last = interval_text(value)
    unit: exp.Expression = exp.Var(this=first)
    if last:
        unit = exp.IntervalSpan(this=unit, expression=exp.Var(this=last))
    return exp.Interval(this=exp.Literal.string(text), unit=unit)


def _type(to: DType) -> exp.DataType:
    if to in (INTERVAL, TIME, UUID):  # which sqlglot does not build, or would write as others in this dialect
        return exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=to.name.upper())
    return exp.DataType.build(_type_name(to), dialect=DIALECT)


def _type_name(to: DType) -> str:
    if to.element is not None:
        return f"ARRAY<{_type_name(to.element)}>"
    if to.fields:
        fields = [f"{exp.to_identifier(n, quoted=True).sql(dialect=DIALECT)}: {_type_name(of)}" for n, of in to.fields]
        return f"STRUCT<{', '.join(fields)}>"
    return _SPARK_TYPES.get(to.name, str(to))


_SPARK_TYPES: Final = {
    "int64": "BIGINT", "int32": "INT", "float64": "DOUBLE", "bool": "BOOLEAN", "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP_LTZ",
}  # fmt: skip


def _call(function: str, args: list[exp.Expression], nodes: Sequence[Bound]) -> exp.Expression:
    if function == "case":
        ifs = [exp.If(this=c, true=v) for c, v in zip(args[:-1:2], args[1:-1:2], strict=True)]
        default = None if isinstance(args[-1], exp.Null) else args[-1]
        return exp.Case(ifs=ifs, default=default)
    strength = _STRENGTH.get(function)
    if function in WITH_UNIT and isinstance(nodes[0], BoundLiteral):
        args = [exp.Var(this=str(nodes[0].value)), *args[1:]]
    if function == "field" and isinstance(nodes[1], BoundLiteral):
        of = args[0] if isinstance(args[0], (exp.Column, exp.Dot)) else exp.paren(args[0], copy=False)
        return exp.Dot(this=of, expression=exp.to_identifier(nodes[1].value, quoted=not nodes[1].value.isidentifier()))
    if strength is None:
        return exp.Anonymous(this=FUNCTIONS[function].sql, expressions=args)
    pairs = enumerate(zip(args, nodes, strict=True))
    wrapped = [_wrapped(a, n, function, left=i == 0 and function in _LEFT_ASSOCIATIVE) for i, (a, n) in pairs]
    if function == "in":
        return exp.In(this=wrapped[0], expressions=args[1:])
    if function == "is_null":
        return exp.Is(this=wrapped[0], expression=exp.Null())
    kind = getattr(exp, FUNCTIONS[function].operator)
    if len(wrapped) == 1:
        node: exp.Expression = kind(this=wrapped[0])
    else:
        node = functools.reduce(lambda left, right: kind(this=left, expression=right), wrapped)
    if function == "divide":
        node.set("typed", False)
        node.set("safe", False)
    return node


def _wrapped(arg: exp.Expression, node: Bound, function: str, *, left: bool) -> exp.Expression:
    """Return an operand, in parentheses where it binds no stronger than its operator."""
    strength = _STRENGTH[function]
    if isinstance(arg, exp.Neg):
        inner = _STRENGTH["negate"]
    elif isinstance(node, BoundCall) and not isinstance(arg, exp.Cast):
        inner = _STRENGTH.get(node.function, len(_STRENGTH))
        left = left and not (function in _BITS and node.function != function)  # & | ^ differ in strength for Spark
    else:
        return arg
    return arg if inner > strength or (left and inner == strength) else exp.paren(arg, copy=False)
