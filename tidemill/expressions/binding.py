"""Binding: from an expression and a schema to a typed tree, the form that engines evaluate and that prints as SQL.

A bound tree is immutable, hashable and comparable by value. Every conversion stands in it as a call of ``cast``,
whether the user asked for it or one type widens to another.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tidemill.errors import SchemaError, UnknownColumnError, did_you_mean
from tidemill.expressions.expr import INT64_MAX, Call, Cast, Column, Expr, Literal, as_expr, literal_type, resolve
from tidemill.expressions.functions import FUNCTIONS, NULL, Function, Signature, can_cast, common_type, widens
from tidemill.expressions.functions.operators import SIGNS, by_type
from tidemill.expressions.intervals import INTERVALS, unit_of
from tidemill.expressions.types import BOOL, DATE, FLOAT64, INT32, INT64, STRING, TIMESTAMP, DType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.expressions.schema import Schema

__all__ = [
    "Bound",
    "BoundCall",
    "BoundColumn",
    "BoundLiteral",
    "Operand",
    "bind",
    "bind_call",
    "bind_cast",
    "bind_predicate",
]

INT32_MAX = 2**31 - 1
_SPECIAL_FLOATS = {"NaN", "Infinity", "-Infinity"}


class _Printed:
    """What all bound nodes share: they print as SQL."""

    __slots__ = ()

    def sql(self, *, explicit: bool = False) -> str:
        """Return the expression as Spark SQL, short: binding the text again gives an equal tree.

        ``explicit=True`` writes the type of every literal and every widening out, so that nothing is left to the
        rules of whoever reads the text.
        """
        from tidemill.expressions.sql_out import to_sql  # noqa: PLC0415 - sqlglot is imported only where SQL is used

        return to_sql(self, explicit=explicit)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.sql()


@attrs.frozen
class BoundColumn(_Printed):
    """A column by its position."""

    index: int
    name: str
    dtype: DType
    nullable: bool = True

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on."""
        return frozenset((self.index,))


def _literal_key(value: Any) -> tuple[str, str]:
    """Tell 0.0 from -0.0 and take NaN for equal to itself: two equal trees have to mean the same."""
    return type(value).__name__, repr(value)


@attrs.frozen
class BoundLiteral(_Printed):
    """A value of a type, or NULL of a type."""

    value: Any = attrs.field(eq=_literal_key)
    dtype: DType

    @property
    def nullable(self) -> bool:
        """Whether the value may be NULL."""
        return self.value is None

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on: none."""
        return frozenset()


@attrs.frozen
class BoundCall(_Printed):
    """A function of the registry, or ``cast`` to the node's own type."""

    function: str
    args: tuple[Bound, ...]
    dtype: DType
    nullable: bool = True

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on."""
        return frozenset().union(*(a.columns() for a in self.args))


Bound: TypeAlias = BoundColumn | BoundLiteral | BoundCall


@attrs.frozen
class Operand:
    """An argument on its way into a call; ``loose`` for a literal whose type may adapt to its neighbours."""

    bound: Bound
    loose: bool = False


def bind(expression: Expr, schema: Schema, *, expected: DType | None = None) -> Bound:
    """Return the typed tree of an expression over the columns of a schema.

    With ``expected`` the result is of that type, widened if need be, or it is an error. ``SchemaError`` (for an unknown
    column ``UnknownColumnError``) names the expression, the types given and what was expected.

    >>> from tidemill.expressions.expr import col, expr
    >>> from tidemill.expressions.schema import Schema
    >>> schema = Schema.of({"delay": "int64", "n": "int32 not null"})
    >>> bind(col("n"), schema), bind(col("n") + 1, schema).dtype
    (BoundColumn(index=1, name='n', dtype=int32, nullable=False), int32)
    >>> bind(expr("delay / n"), schema).dtype
    float64
    >>> bind(expr("delay * 'x'"), schema)
    Traceback (most recent call last):
    ...
    tidemill.errors.SchemaError: `delay * 'x'` gets int64 and string: * expects two numbers; cast one of them
    """
    operand = _bind(expression, schema)
    bound = operand.bound
    if bound.dtype in INTERVALS:
        msg = f"`{_text(bound)}` is no value of a column: add it to a date or a timestamp"
        raise SchemaError(msg)
    if expected is not None:
        if not widens(bound.dtype, expected) and not (operand.loose and _fits(bound, expected)):
            msg = f"`{_text(bound)}` is of type {bound.dtype}: expected {expected}"
            raise SchemaError(msg)
        return _coerce(bound, expected)
    if bound.dtype == NULL:
        msg = "NULL alone has no type: give it one, as in lit(None).cast('int64') or CAST(NULL AS BIGINT)"
        raise SchemaError(msg)
    return bound


def bind_predicate(value: Any, schema: Schema, what: str) -> Bound:
    """Return a condition as the user gives it (an expression or SQL text), bound; ``what`` asks for it, in errors."""
    bound = bind(as_expr(value, schema), schema)
    if bound.dtype != BOOL:
        msg = f"{what}: {bound.sql()} is of type {bound.dtype}: expected bool"
        raise SchemaError(msg)
    return bound


def _bind(expression: Expr, schema: Schema) -> Operand:
    expression = resolve(expression)
    if isinstance(expression, Literal):
        return _literal(expression.value)
    if isinstance(expression, Column):
        return Operand(_column(expression.name, schema))
    if isinstance(expression, Cast):
        return Operand(bind_cast(_bind(expression.arg, schema), expression.dtype))
    assert isinstance(expression, Call)
    return Operand(bind_call(expression.function, tuple(_bind(a, schema) for a in expression.args)))


def _column(name: str, schema: Schema) -> BoundColumn:
    if name not in schema:
        msg = f"no column `{name}` in {schema}: {did_you_mean(name, schema.names)}"
        raise UnknownColumnError(msg)
    field = schema.field(name)
    return BoundColumn(schema.index(name), name, field.dtype, field.nullable)


def _literal(value: Any) -> Operand:
    found = literal_type(value)
    loose = value is None or (isinstance(value, (int, str, decimal.Decimal)) and not isinstance(value, bool))
    return Operand(_typed(value, found or NULL), loose)


def _typed(value: Any, to: DType) -> BoundLiteral:
    """Return a literal of a type that holds it, in that type's Python form."""
    if value is None:
        return BoundLiteral(None, to)
    if to == FLOAT64:
        return BoundLiteral(float(value), to)
    if to.is_decimal:
        with decimal.localcontext(prec=100):
            exact = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-to.scale))
            return BoundLiteral(exact + 0, to)  # a decimal has no -0
    if to == TIMESTAMP and not isinstance(value, dt.datetime):
        return BoundLiteral(dt.datetime.combine(value, dt.time()), to)
    if to == DATE and isinstance(value, dt.datetime):
        return BoundLiteral(value.date(), to)
    return BoundLiteral(value, to)


# Calls.


def bind_call(function: str, operands: tuple[Operand, ...]) -> Bound:
    """Return the typed call: literals adapted to their neighbours, arguments widened, types checked."""
    if function in SIGNS:
        function = by_type(function, [o.bound.dtype for o in operands])
    spec = FUNCTIONS.get(function)
    if spec is None:
        msg = f"no function {function!r}: {did_you_mean(function, FUNCTIONS)}"
        raise SchemaError(msg)
    args = _adapt(operands, spec.literals)
    _check_literals(spec, args)
    args, signature = _signature(spec, args)
    if function == "in" and len(args) == 1:
        return BoundLiteral(value=False, dtype=BOOL)
    literals = [a.value if isinstance(a, BoundLiteral) else None for a in args]
    if any(literals[i] is None for i in spec.literals):
        return BoundLiteral(None, signature.result)
    if spec.check and (wrong := spec.check(literals)):
        msg = f"`{_text(_untyped(function, args))}`: {wrong}"
        raise SchemaError(msg)
    if spec.unit is not None:
        args[spec.unit] = BoundLiteral(unit_of(str(literals[spec.unit])), STRING)
    if spec.refine:
        signature = spec.refine(signature, literals)
    coerced = tuple(_coerce(a, p) for a, p in zip(args, signature.params, strict=True))
    if function == "negate" and (negative := _negative(coerced[0])) is not None:
        return negative
    return BoundCall(function, coerced, signature.result, spec.nullable([a.nullable for a in coerced]))


def _negative(literal: Bound) -> BoundLiteral | None:
    """Return a number with its sign changed, since that is how its text will be read."""
    if not isinstance(literal, BoundLiteral) or literal.value is None or literal.value == -INT32_MAX - 1:
        return None
    return _typed(-literal.value, literal.dtype)


def _signature(spec: Function, args: list[Bound]) -> tuple[list[Bound], Signature]:
    """Return the arguments, with what was left out at the end, and the types they are brought to."""
    for given in (args, *([*args, *(_literal(v).bound for v in spec.optional[i:])] for i in range(len(spec.optional)))):
        signature = spec.rule([a.dtype for a in given])
        if signature is None or len(signature.params) != len(given):
            continue
        if all(_reaches(a, p, by_day=spec.by_day) for a, p in zip(given, signature.params, strict=True)):
            if NULL in signature.params:
                msg = (
                    f"NULL has no type in `{_text(_untyped(spec.name, args))}`: give it one, as in CAST(NULL AS BIGINT)"
                )
                raise SchemaError(msg)
            return given, signature
    types = " and ".join(str(a.dtype) for a in args) or "nothing"
    msg = f"`{_text(_untyped(spec.name, args))}` gets {types}: {spec.sql} expects {spec.expects}; {_hint(spec, args)}"
    raise SchemaError(msg)


def _check_literals(spec: Function, args: Sequence[Bound]) -> None:
    for i in spec.literals:
        if i < len(args) and not isinstance(args[i], BoundLiteral):
            msg = f"`{_text(args[i])}` in `{_text(_untyped(spec.name, args))}` has to be a literal"
            raise SchemaError(msg)


def bind_cast(operand: Operand, to: DType) -> Bound:
    """Return a value as another type; literals that have one at once become literals of that type."""
    arg = operand.bound
    if isinstance(arg, BoundLiteral) and (arg.dtype == NULL or _fits(arg, to)):
        return _coerce(arg, to)
    if arg.dtype == to:
        return arg
    if not can_cast(arg.dtype, to):
        msg = f"`{_text(arg)}` is of type {arg.dtype}: there is no cast from {arg.dtype} to {to}"
        raise SchemaError(msg)
    return BoundCall("cast", (arg,), to, arg.nullable)


def _adapt(operands: Sequence[Operand], literals: Sequence[int]) -> list[Bound]:
    """Return the arguments with each loose literal in the type that its neighbours suggest."""
    beside = {o.bound.dtype for o in operands if not o.loose}
    return [_adapted(o.bound, beside) if o.loose and i not in literals else o.bound for i, o in enumerate(operands)]


def _adapted(literal: Bound, beside: set[DType]) -> Bound:
    assert isinstance(literal, BoundLiteral)
    value = literal.value
    if isinstance(value, int) and not beside & {INT64, FLOAT64}:
        if any(t.is_decimal for t in beside):
            exact = decimal.Decimal(value)
            return _typed(exact, literal_type(exact) or NULL)
        if INT32 in beside and _fits(literal, INT32):
            return _typed(value, INT32)
    if isinstance(value, str) and STRING not in beside:
        for to in (TIMESTAMP, DATE):
            if to in beside:
                return _coerce(literal, to) if _fits(literal, to) else literal
    return literal


def _reaches(arg: Bound, to: DType, *, by_day: bool) -> bool:
    if widens(arg.dtype, to) or (by_day and (arg.dtype, to) == (TIMESTAMP, DATE)):
        return True
    return isinstance(arg, BoundLiteral) and _fits(arg, to) and arg.dtype != STRING


def _fits(literal: Bound, to: DType) -> bool:  # noqa: PLR0911 - one line a family of types
    """Return whether a literal is a literal of another type as well, without any loss."""
    if not isinstance(literal, BoundLiteral):
        return False
    value, source = literal.value, literal.dtype
    if value is None or source == to:
        return source == to
    if source == STRING:
        return (to in (DATE, TIMESTAMP) and _moment(value, to) is not None) or (
            to == FLOAT64 and value in _SPECIAL_FLOATS
        )
    if not source.is_numeric or source == FLOAT64 or not to.is_numeric:
        return False
    if to.is_integer:
        bound = INT32_MAX if to == INT32 else INT64_MAX
        return source.is_integer and -bound - (to == INT32) <= value <= bound
    if to.is_decimal:
        exact = decimal.Decimal(value)
        scaled = exact.scaleb(to.scale, decimal.Context(prec=100))
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**to.precision
    return True


def _coerce(arg: Bound, to: DType) -> Bound:
    if arg.dtype == to:
        return arg
    if not isinstance(arg, BoundLiteral):
        return BoundCall("cast", (arg,), to, arg.nullable)
    if arg.dtype == STRING and to in (DATE, TIMESTAMP):
        return BoundLiteral(_moment(arg.value, to), to)
    return _typed(arg.value, to)


def _moment(text: str, to: DType) -> dt.date | None:
    """Return the date or timestamp that text in ISO form stands for, or None."""
    try:
        return dt.date.fromisoformat(text) if to == DATE else dt.datetime.fromisoformat(text)
    except ValueError:
        return None


# Errors.


def _hint(spec: Function, args: Sequence[Bound]) -> str:
    known = {a.dtype for a in args} - {NULL}
    if spec.name == "subtract" and known and known <= {DATE, TIMESTAMP}:
        return "datediff(end, start) gives days, timestampdiff('second', start, end) whole units"
    return "cast one of them" if len(known) > 1 and common_type(list(known)) is None else "cast the argument"


def _untyped(function: str, args: Sequence[Bound]) -> BoundCall:
    return BoundCall(function, tuple(args), NULL)


def _text(bound: Bound) -> str:
    return bound.sql()
