"""Scalar expressions as users write them: an untyped tree of columns, literals and calls, built by Python operators.

Nothing here knows a schema. ``binding.bind`` turns such a tree into a typed one, which is what engines evaluate.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.intervals import Interval, of_timedelta
from tidemill.expressions.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT64,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    DType,
    decimal_type,
    dtype,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from tidemill.expressions.schema import Schema

__all__ = [
    "Alias", "Call", "Cast", "Column", "Expr", "Literal", "SqlText", "When", "as_expr", "call", "coalesce", "col",
    "expr", "greatest", "identical", "key", "least", "lit", "literal_type", "nullif", "output_name", "resolve", "when",
]  # fmt: skip

INT64_MAX = 2**63 - 1


class Expr:
    """A scalar expression: use Python's operators and the methods below; Python values beside it are literals.

    ``==`` builds an expression; to compare two trees use ``identical(a, b)``. NULL follows SQL: ``&``, ``|`` and
    ``~`` are the three-valued AND, OR and NOT of conditions, and operations on the bits of whole numbers, as always
    are ``^``, ``<<`` and ``>>``. ``/`` gives a float64 (of decimals a decimal), ``//`` is SQL's ``div``: an int64,
    truncated towards zero; ``%`` has the sign of the dividend. ``timedelta`` and ``tm.interval`` move dates and times.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> schema = Schema.of({"origin": "string", "delay": "int64"})
    >>> print(bind((col("delay") / 60 > 1.5) & col("origin").isin(["JFK", "LAX"]), schema))
    delay / 60 > 1.5 AND origin IN ('JFK', 'LAX')
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return call("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return call("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return call("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return call("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return call("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return call("int_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return call("int_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return call("modulo", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return call("modulo", other, self)

    def __neg__(self) -> Expr:
        return call("negate", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return call("ne", self, other)

    def __lt__(self, other: Any) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return call("ge", self, other)

    def __and__(self, other: Any) -> Expr:
        return call("&", self, other)

    def __rand__(self, other: Any) -> Expr:
        return call("&", other, self)

    def __or__(self, other: Any) -> Expr:
        return call("|", self, other)

    def __ror__(self, other: Any) -> Expr:
        return call("|", other, self)

    def __xor__(self, other: Any) -> Expr:
        return call("bit_xor", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return call("bit_xor", other, self)

    def __lshift__(self, other: Any) -> Expr:
        return call("shift_left", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return call("shift_left", other, self)

    def __rshift__(self, other: Any) -> Expr:
        return call("shift_right", self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return call("shift_right", other, self)

    def __pow__(self, other: Any) -> Expr:
        return call("power", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return call("power", other, self)

    def __invert__(self) -> Expr:
        return call("~", self)

    # Since == builds a tree, only identity can serve as the hash of one.
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        msg = (
            f"{self!r} has no truth value while the dataflow is being built: use & | ~ instead of and, or, not, "
            "and identical(a, b) to compare two expressions"
        )
        raise SchemaError(msg)

    def eq_null_safe(self, other: Any) -> Expr:
        """Return SQL's ``<=>``: equality for which NULL equals NULL; never NULL itself."""
        return call("eq_null_safe", self, other)

    def is_null(self) -> Expr:
        """Return whether the value is NULL; never NULL itself."""
        return call("is_null", self)

    def is_not_null(self) -> Expr:
        """Return whether the value is not NULL; never NULL itself."""
        return call("not", self.is_null())

    def cast(self, to: Any) -> Expr:
        """Return the value as another type; a value that does not fit is an error when the row is evaluated."""
        return Cast(self, dtype(to))

    def isin(self, values: Iterable[Any]) -> Expr:
        """Return whether this equals one of the values: NULL if it is NULL, or if none matches and one is NULL."""
        return call("in", self, *values)

    def between(self, low: Any, high: Any) -> Expr:
        """Return ``low <= this AND this <= high``."""
        return call("and", self >= low, self <= high)

    def fill_null(self, value: Any) -> Expr:
        """Return the other value where this is NULL."""
        return coalesce(self, value)

    def like(self, pattern: str) -> Expr:
        r"""Return whether the whole string matches: ``%`` any characters, ``_`` one, ``\`` escapes those and itself."""
        return call("like", self, pattern)

    def rlike(self, pattern: str) -> Expr:
        """Return whether a regular expression matches anywhere in the string."""
        return call("regexp_like", self, pattern)

    def startswith(self, prefix: str) -> Expr:
        """Return whether the string begins with another, a literal."""
        return call("starts_with", self, prefix)

    def endswith(self, suffix: str) -> Expr:
        """Return whether the string ends with another, a literal."""
        return call("ends_with", self, suffix)

    def contains(self, part: str) -> Expr:
        """Return whether another string, a literal, occurs in the string."""
        return call("contains", self, part)

    def alias(self, name: str) -> Expr:
        """Return the same expression under a column name, for ``select``."""
        return Alias(self, name)


@attrs.frozen(eq=False)
class Column(Expr):
    """A column, by name."""

    name: str


@attrs.frozen(eq=False)
class Literal(Expr):
    """A Python value. Its type may still adapt to what stands beside it: ``1`` beside an int32 is an int32."""

    value: Any


@attrs.frozen(eq=False)
class Call(Expr):
    """A function of the registry (``functions.FUNCTIONS``) and its arguments."""

    function: str
    args: tuple[Expr, ...]


@attrs.frozen(eq=False)
class Cast(Expr):
    """A conversion that the user asked for."""

    arg: Expr
    dtype: DType


@attrs.frozen(eq=False)
class Alias(Expr):
    """An expression with a column name of its own."""

    arg: Expr
    name: str


@attrs.frozen(eq=False)
class SqlText(Expr):
    """SQL text that is parsed when it is bound, so that sqlglot is imported only where SQL is used."""

    text: str


@attrs.frozen(eq=False)
class When(Expr):
    """A CASE that may still grow: conditions and values in turn; NULL where no condition holds."""

    branches: tuple[Expr, ...]

    def when(self, condition: Any, value: Any) -> When:
        """Return the CASE with a further branch."""
        return When((*self.branches, lit(condition), lit(value)))

    def otherwise(self, value: Any) -> Expr:
        """Return the whole CASE, with the value where no condition holds."""
        return Call("case", (*self.branches, lit(value)))


def col(name: str) -> Expr:
    """Return the column of this name."""
    if not isinstance(name, str) or not name:
        msg = f"{name!r} is not a column name: expected a non-empty string"
        raise SchemaError(msg)
    return Column(name)


def lit(value: Any) -> Expr:
    """Return a Python value as an expression (and an expression as it is).

    >>> lit("x")
    Literal(value='x')
    """
    if isinstance(value, Expr):
        return value
    if not isinstance(value, (bool, int, float, str, bytes)) and hasattr(value, "item"):
        value = value.item()  # a NumPy scalar
    if isinstance(value, dt.timedelta):
        value = of_timedelta(value)
    literal_type(value)
    return Literal(value)


def expr(sql: str) -> Expr:
    """Return the expression that SQL text stands for (Spark's dialect; strings in quotes, names with blanks in ``).

    >>> identical(expr("a + 1"), col("a") + 1)
    True
    """
    if not isinstance(sql, str):
        msg = f"{sql!r} is not SQL text: expected a string; tm.lit(value) makes a literal"
        raise SchemaError(msg)
    return SqlText(sql)


def as_expr(value: Any, schema: Schema) -> Expr:
    """Return what a value in an expression's place means: a column's name that column, any other string SQL text.

    >>> from tidemill.expressions.schema import Schema
    >>> schema = Schema.of({"a b": "int64"})
    >>> as_expr("a b", schema), as_expr("`a b` + 1", schema), as_expr(5, schema)
    (Column(name='a b'), SqlText(text='`a b` + 1'), Literal(value=5))
    """
    if isinstance(value, str):
        return Column(value) if value in schema else SqlText(value)
    return lit(value)


def when(condition: Any, value: Any) -> When:
    """Return a CASE: ``when(c, v).when(c2, v2).otherwise(w)``; branches are evaluated only for the rows they are for.

    >>> identical(when(col("a") > 0, 1).otherwise(0), expr("CASE WHEN a > 0 THEN 1 ELSE 0 END"))
    True
    """
    return When(()).when(condition, value)


# What chooses between values. Other functions have their builders beside their entries in ``functions``.


def coalesce(*values: Any) -> Expr:
    """Return the first value that is not NULL; later ones are evaluated only where all before are NULL."""
    return call("coalesce", *values)


def nullif(value: Any, other: Any) -> Expr:
    """Return the value, or NULL where it equals the other."""
    return Call("case", (lit(value) == lit(other), lit(None), lit(value)))


def least(*values: Any) -> Expr:
    """Return the least value that is not NULL."""
    return call("least", *values)


def greatest(*values: Any) -> Expr:
    """Return the greatest value that is not NULL; NaN is greater than any number."""
    return call("greatest", *values)


# Structure.


def resolve(expression: Expr) -> Expr:
    """Return the expression without the wrappers that carry no meaning: aliases, SQL text, a negated literal."""
    if isinstance(expression, Alias):
        return resolve(expression.arg)
    if isinstance(expression, SqlText):
        from tidemill.expressions.sql_in import parse  # noqa: PLC0415 - sqlglot is imported only where SQL is used

        return resolve(parse(expression.text))
    if isinstance(expression, When):
        return Call("case", (*expression.branches, Literal(None)))
    if isinstance(expression, Call) and expression.function == "negate":
        arg = resolve(expression.args[0])
        numbers = (int, float, decimal.Decimal, Interval)
        if isinstance(arg, Literal) and isinstance(arg.value, numbers) and not isinstance(arg.value, bool):
            return Literal(arg.value.copy_negate() if isinstance(arg.value, decimal.Decimal) else -arg.value)
    return expression


def output_name(expression: Expr) -> str | None:
    """Return the column name that an expression brings along: its alias or, for a plain column, the column's."""
    if isinstance(expression, Alias):
        return expression.name
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, SqlText):
        from tidemill.expressions.sql_in import parse  # noqa: PLC0415 - see resolve

        return output_name(parse(expression.text))
    return None


def key(expression: Expr) -> Hashable:
    """Return a hashable key, the same for two expressions of the same structure."""
    expression = resolve(expression)
    if isinstance(expression, Column):
        return ("column", expression.name)
    if isinstance(expression, Literal):
        return ("literal", type(expression.value).__name__, repr(expression.value))
    if isinstance(expression, Cast):
        return ("cast", expression.dtype, key(expression.arg))
    assert isinstance(expression, Call)
    return (expression.function, *map(key, expression.args))


def identical(a: Expr, b: Expr) -> bool:
    """Return whether two expressions have the same structure (``==`` builds an expression instead).

    >>> identical(col("a") + 1, col("a") + 1), identical(col("a") + 1, col("a") + 1.0)
    (True, False)
    """
    return key(a) == key(b)


def literal_type(value: Any) -> DType | None:  # noqa: PLR0911 - one line a type
    """Return the type of a Python value where nothing beside it says otherwise; None for NULL, which has none.

    >>> literal_type(1), literal_type(decimal.Decimal("0.05"))
    (int64, decimal(2,2))
    """
    if value is None:
        return None
    if isinstance(value, Interval):
        return value.dtype
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        # -2**63 is left out: the engines keep it for NULL.
        return INT64 if -INT64_MAX <= value <= INT64_MAX else _decimal_type(decimal.Decimal(value))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return _decimal_type(value)
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return TIMESTAMP
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return DATE
    for python, found in ((float, FLOAT64), (str, STRING), (bytes, BINARY)):
        if isinstance(value, python):
            return found
    msg = (
        f"{value!r} of type {type(value).__name__} cannot be a literal: expected bool, int, float, str, bytes, date, a "
        "datetime without a zone, a timedelta, a finite Decimal or None"
    )
    raise SchemaError(msg)


def _decimal_type(value: decimal.Decimal) -> DType:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > MAX_DECIMAL_PRECISION:
        msg = f"{value} has more than {MAX_DECIMAL_PRECISION} digits: no decimal type holds it"
        raise SchemaError(msg)
    return decimal_type(precision, scale)


def call(function: str, *args: Any) -> Expr:
    """Return the call of a function of the registry; Python values are literals."""
    return Call(function, tuple(lit(a) for a in args))
