"""SQL text to expressions and bound trees to SQL text, by sqlglot in Spark's dialect.

The only module of ``collections`` that imports sqlglot; the others import this one where they need it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.collections.binding import Bound, BoundCall, BoundColumn, BoundLiteral, Operand, bind_call
from tidemill.collections.expressions import Alias, Call, Cast, Column, Expr, Literal, literal_type, nullif
from tidemill.collections.functions import FUNCTIONS, NULL, widens
from tidemill.collections.types import FLOAT64, INT32, INT64, STRING, TIMESTAMP, DType, dtype
from tidemill.errors import SchemaError

__all__ = ["parse", "to_sql"]

_DIALECT: Final = "spark"


def parse(text: str) -> Expr:
    """Return the expression that SQL text stands for; ``SchemaError`` names what is wrong or not supported.

    >>> parse("a <=> 1")
    Call(function='eq_null_safe', args=(Column(name='a'), Literal(value=1)))
    >>> parse("sum(a)")
    Traceback (most recent call last):
    ...
    tidemill.errors.SchemaError: SUM(a) in `sum(a)` is not supported in a scalar expression
    """
    try:
        tree = sqlglot.parse_one(text, dialect=_DIALECT)
    except SqlglotError as error:
        reason = str(error).splitlines()[0]
        msg = f"`{text}` is not a SQL expression: {reason}. A literal string is tm.lit({text!r})"
        raise SchemaError(msg) from None
    return _Parser(text).expression(tree)


class _Parser:
    """Turns sqlglot's nodes into ours; keeps the text for errors."""

    def __init__(self, text: str) -> None:
        self.text = text

    def expression(self, node: Any) -> Expr:
        if rule := _SPECIAL.get(type(node)):
            found = rule(self, node)
            if found is not None:
                return found
        elif name := _BY_CLASS.get(type(node)):
            return Call(name, tuple(self.expression(a) for a in _arguments(node)))
        raise self.unsupported(node)

    def unsupported(self, node: Any) -> SchemaError:
        what = node.sql(dialect=_DIALECT) if isinstance(node, exp.Expression) else str(node)
        return SchemaError(f"{what} in `{self.text}` is not supported in a scalar expression")

    def column(self, node: exp.Column) -> Expr | None:
        plain = isinstance(node.this, exp.Identifier) and not node.args.get("table")
        return Column(node.name) if plain else None

    def literal(self, node: exp.Literal) -> Expr:
        text = node.name
        if node.is_string:
            return Literal(text)
        if "e" in text.lower():
            return Literal(float(text))
        return Literal(decimal.Decimal(text) if "." in text else int(text))

    def negative(self, node: exp.Neg) -> Expr:
        return -self.expression(node.this)

    def cast(self, node: exp.Cast) -> Expr | None:
        if node.args.get("safe") or node.args.get("format"):
            return None
        to = self.type(node.to)
        return Cast(self.expression(node.this), to)

    def type(self, node: exp.DataType) -> DType:
        known = _TYPES.get(node.this)
        if known is not None:
            return known
        try:
            return dtype(node.sql(dialect=_DIALECT))
        except SchemaError:
            raise self.unsupported(node) from None

    def case(self, node: exp.Case) -> Expr:
        subject = self.expression(node.this) if node.this else None
        args: list[Expr] = []
        for branch in node.args["ifs"]:
            test = self.expression(branch.this)
            args += [test if subject is None else subject == test, self.expression(branch.args["true"])]
        default = node.args.get("default")
        return Call("case", (*args, self.expression(default) if default else Literal(None)))

    def if_(self, node: exp.If) -> Expr:
        false = node.args.get("false")
        args = (node.this, node.args["true"], false or exp.Null())
        return Call("case", tuple(self.expression(a) for a in args))

    def is_(self, node: exp.Is) -> Expr | None:
        value = self.expression(node.this)
        if isinstance(node.expression, exp.Null):
            return value.is_null()
        if isinstance(node.expression, exp.Boolean):
            return value.eq_null_safe(self.expression(node.expression))
        return None

    def in_(self, node: exp.In) -> Expr | None:
        if set(node.args) - {"this", "expressions"} and any(node.args.get(k) for k in ("query", "unnest", "field")):
            return None
        return self.expression(node.this).isin([self.expression(e) for e in node.expressions])

    def between(self, node: exp.Between) -> Expr | None:
        if node.args.get("symmetric"):
            return None
        return self.expression(node.this).between(self.expression(node.args["low"]), self.expression(node.args["high"]))

    def trim(self, node: exp.Trim) -> Expr | None:
        name = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper())
        return None if name is None or node.expression else Call(name, (self.expression(node.this),))

    def substring(self, node: exp.Substring) -> Expr:
        length = node.args.get("length")
        start = self.expression(node.args["start"])
        rest = self.expression(length) if length else Literal(2**31 - 1)
        return Call("substring", (self.expression(node.this), start, rest))


_TYPES: Final = {
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,  # what sqlglot makes of Spark's TIMESTAMP; ours have no zone
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.INT: INT32,
    exp.DataType.Type.BIGINT: INT64,
    exp.DataType.Type.DOUBLE: FLOAT64,
}

_SPECIAL: Final[dict[type, Callable[[_Parser, Any], Expr | None]]] = {
    exp.Paren: lambda p, n: p.expression(n.this),
    exp.Alias: lambda p, n: Alias(p.expression(n.this), n.alias),
    exp.Column: _Parser.column,
    exp.Literal: _Parser.literal,
    exp.Null: lambda _p, _n: Literal(None),
    exp.Boolean: lambda _p, n: Literal(bool(n.this)),
    exp.HexString: lambda _p, n: Literal(bytes.fromhex(n.name)),
    exp.Neg: _Parser.negative,
    exp.Cast: _Parser.cast,
    exp.TryCast: _Parser.cast,
    exp.Case: _Parser.case,
    exp.If: _Parser.if_,
    exp.Is: _Parser.is_,
    exp.In: _Parser.in_,
    exp.Between: _Parser.between,
    exp.Trim: _Parser.trim,
    exp.Substring: _Parser.substring,
    exp.Nullif: lambda p, n: nullif(p.expression(n.this), p.expression(n.expression)),
    exp.NullSafeNEQ: lambda p, n: ~p.expression(n.this).eq_null_safe(p.expression(n.expression)),
    exp.DPipe: lambda p, n: Call("concat", (p.expression(n.this), p.expression(n.expression))),
}

_BY_CLASS: Final = {getattr(exp, f.sqlglot): f.name for f in FUNCTIONS.values() if f.sqlglot}


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    """Return a function's arguments in order, lists of them spread, flags left out."""
    found: list[exp.Expression] = []
    for name in node.arg_types:
        value = node.args.get(name)
        if isinstance(value, list):
            found += value
        elif isinstance(value, exp.Expression):
            found.append(value)
    return found


# Printing.


def to_sql(bound: Bound, *, explicit: bool = False) -> str:
    """Return a bound tree as Spark SQL text.

    >>> to_sql(BoundCall("cast", (BoundColumn(0, "a b", INT32),), INT64), explicit=True)
    'CAST(`a b` AS BIGINT)'
    """
    return _print(bound, explicit=explicit).sql(dialect=_DIALECT)


# How strongly operators bind, loosest first; whatever is not here needs no parentheses.
_STRENGTH: Final = {
    name: strength
    for strength, names in enumerate(
        (
            ("or",),
            ("and",),
            ("not",),
            ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "in", "is_null", "like"),
            ("add", "subtract"),
            ("multiply", "divide", "int_divide", "modulo"),
            ("negate",),
        )
    )
    for name in names
}
_LEFT_ASSOCIATIVE: Final = {"add", "subtract", "multiply", "divide", "int_divide", "modulo", "and", "or"}


def _print(bound: Bound, *, explicit: bool) -> exp.Expression:
    if isinstance(bound, BoundColumn):
        return exp.column(exp.to_identifier(bound.name, quoted=not bound.name.isidentifier()))
    if isinstance(bound, BoundLiteral):
        return _bare(bound) if not explicit and _loosened(bound).bound == bound else _typed(bound)
    if bound.function == "cast":
        return exp.cast(_print(bound.args[0], explicit=explicit), _type(bound.dtype), dialect=_DIALECT)
    operands = [Operand(a) for a in bound.args] if explicit else _shortest(bound)
    args = [_print_operand(o, explicit=explicit) for o in operands]
    return _call(bound.function, args, [o.bound for o in operands])


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
        except SchemaError:
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
    if isinstance(value, (bool, str)):
        return _bare(literal)
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
        text = value.isoformat(sep=" ") if isinstance(value, dt.datetime) else value.isoformat()
        inner = exp.Literal.string(text)
    return inner if to == NULL else exp.cast(inner, _type(to), dialect=_DIALECT)


def _type(to: DType) -> exp.DataType:
    return exp.DataType.build(_SPARK_TYPES.get(to.name, str(to)), dialect=_DIALECT)


_SPARK_TYPES: Final = {
    "int64": "BIGINT", "int32": "INT", "float64": "DOUBLE", "bool": "BOOLEAN", "timestamp": "TIMESTAMP_NTZ",
}  # fmt: skip


def _call(function: str, args: list[exp.Expression], nodes: Sequence[Bound]) -> exp.Expression:
    if function == "case":
        ifs = [exp.If(this=c, true=v) for c, v in zip(args[:-1:2], args[1:-1:2], strict=True)]
        default = None if isinstance(args[-1], exp.Null) else args[-1]
        return exp.Case(ifs=ifs, default=default)
    strength = _STRENGTH.get(function)
    if strength is None:
        return exp.Anonymous(this=FUNCTIONS[function].sql, expressions=args)
    pairs = enumerate(zip(args, nodes, strict=True))
    wrapped = [_wrapped(a, n, strength, left=i == 0 and function in _LEFT_ASSOCIATIVE) for i, (a, n) in pairs]
    if function == "in":
        return exp.In(this=wrapped[0], expressions=args[1:])
    if function == "is_null":
        return exp.Is(this=wrapped[0], expression=exp.Null())
    kind = getattr(exp, FUNCTIONS[function].sqlglot)
    if len(wrapped) == 1:
        node: exp.Expression = kind(this=wrapped[0])
    else:
        node = kind(this=wrapped[0], expression=wrapped[1])
    if function == "divide":
        node.set("typed", False)
        node.set("safe", False)
    return node


def _wrapped(arg: exp.Expression, node: Bound, strength: int, *, left: bool) -> exp.Expression:
    """Return an operand, in parentheses where it binds no stronger than its operator."""
    if isinstance(arg, exp.Neg):
        inner = _STRENGTH["negate"]
    elif isinstance(node, BoundCall):
        inner = _STRENGTH.get(node.function, len(_STRENGTH))
    else:
        return arg
    return arg if inner > strength or (left and inner == strength) else exp.paren(arg, copy=False)
