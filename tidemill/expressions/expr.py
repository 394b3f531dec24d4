"""Scalar expressions as users write them: an untyped tree of columns, literals and calls, built by Python operators.

Nothing here knows a schema. ``binding.bind`` turns such a tree into a typed one, which is what engines evaluate.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, NoReturn

import attrs

from tidemill.completion import OfUsers
from tidemill.errors import SchemaError
from tidemill.expressions.intervals import of_timedelta
from tidemill.expressions.literals import literal_type
from tidemill.expressions.types import DType, dtype


def _binary(function: str) -> tuple[Callable[[Expr, Any], Expr], Callable[[Expr, Any], Expr]]:
    """Return the methods for an operator of Python's, with an expression on the left, and on the right of a value."""

    def before(self: Expr, other: Any) -> Expr:
        return call(function, self, other)

    def behind(self: Expr, other: Any) -> Expr:
        return call(function, other, self)

    return before, behind


class Expr(OfUsers):
    """A scalar expression: use Python's operators and the methods below; Python values beside it are literals.

    Strings beside an operator and in these methods are literals, too. In functions such as ``tm.upper("name")`` a
    string is a column or SQL text, as it is in ``select``; a literal is ``tm.lit("...")`` there.

    ``==`` builds an expression, so expressions themselves have no truth value. NULL follows SQL: ``&``, ``|`` and
    ``~`` are the three-valued AND, OR and NOT of conditions, and operations on the bits of whole numbers, as always
    are ``^``, ``<<`` and ``>>``. AND and OR guard: in ``(b != 0) & (a / b > 1)`` a division by zero is no error, since
    what is on the left has decided. ``/`` gives a float64 (of decimals a decimal). ``//``, which PySpark does not
    have, is Python's: the whole number below the quotient, an int64. ``%`` is PySpark's and SQL's: what is left has the
    sign of the dividend. What goes with ``%`` is ``tm.div``, and with ``//`` and a positive divisor ``tm.pmod``.
    ``timedelta`` and ``tm.interval`` move dates and times. Expressions may be 1,000 levels deep; conditions joined by
    AND, or by OR, are one level, however many.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import to_sql
    >>> schema = Schema.of({"origin": "string", "delay": "int64"})
    >>> print(to_sql(bind((col("delay") / 60 > 1.5) & col("origin").isin(["JFK", "LAX"]), schema)))
    delay / 60 > 1.5 AND origin IN ('JFK', 'LAX')
    """

    __slots__ = ()

    _between_layers: ClassVar[frozenset[str]] = frozenset(
        {
            "argument", "arguments", "branches", "condition", "distinct", "function", "ignore_nulls",
            "input_expression", "label", "name", "order_by", "parts", "read_from", "reads_text", "window", "with_parts",
        }
    )  # fmt: skip

    reads_text: ClassVar[bool] = False
    """Whether the node says itself, when it is bound, what strings in it stand for."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that this one is made of."""
        return ()

    @property
    def label(self) -> Hashable:
        """What the node says besides its parts; nodes of one class are alike where labels and parts are."""
        raise NotImplementedError

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        """Return the same node made of other expressions, as many as it has parts."""
        assert not parts, "a node without parts"
        return self

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("modulo")
    __pow__, __rpow__ = _binary("power")
    __and__, __rand__ = _binary("&")
    __or__, __ror__ = _binary("|")
    __xor__, __rxor__ = _binary("bit_xor")
    __lshift__, __rlshift__ = _binary("shift_left")
    __rshift__, __rrshift__ = _binary("shift_right")
    __lt__, __gt__ = _binary("lt")[0], _binary("gt")[0]
    __le__, __ge__ = _binary("le")[0], _binary("ge")[0]

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return call("ne", self, other)

    def __neg__(self) -> Expr:
        return call("negate", self)

    def __invert__(self) -> Expr:
        return call("~", self)

    # Since == builds a tree, only identity can serve as the hash of one.
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        msg = (
            f"`{self!r}` has no truth value while the dataflow is being built: write `(a) & (b)` for Python's `a and "
            "b`, `(a) | (b)` for `a or b`, `~(a)` for `not a`, `(low < x) & (x < high)` for `low < x < high`, "
            "`x.isin([...])` for `in`, `tm.when(a, ...)` for `if`; or SQL text, as in filter('x > 1 AND y < 3')"
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

    def try_cast(self, to: Any) -> Expr:
        """Return the value as another type; NULL where it does not fit."""
        return call("try_cast", self, str(dtype(to)))

    def isin(self, values: Iterable[Any]) -> Expr:
        """Return whether this equals one of the values: NULL if it is NULL, or if none matches and one is NULL."""
        return call("in", self, *values)

    def between(self, low: Any, high: Any) -> Expr:
        """Return ``low <= this AND this <= high``."""
        return call("and", self >= low, self <= high)

    def fill_null(self, value: Any) -> Expr:
        """Return the other value where this is NULL."""
        return call("coalesce", self, value)

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

    def field(self, name: str) -> Expr:
        """Return a field of a struct, by its name; NULL of no struct."""
        return call("field", self, name)

    def alias(self, name: str) -> Expr:
        """Return the same expression under a column name, for ``select``."""
        return Alias(self, name)


@attrs.frozen(eq=False, repr=False)
class Column(Expr):
    """A column, by name."""

    name: str
    read_from: str | None = attrs.field(default=None, repr=False)
    """The string that a function took, where the name stands in one: it may have been meant as a literal."""

    @property
    def label(self) -> Hashable:
        return self.name


@attrs.frozen(eq=False, repr=False)
class Text(Expr):
    """A string where a function takes a column: a column's name or SQL text. Which of them, the schema says."""

    text: str

    @property
    def label(self) -> Hashable:
        return self.text


@attrs.frozen(eq=False, repr=False)
class Literal(Expr):
    """A Python value. Its type may still adapt to what stands beside it: ``1`` beside an int32 is an int32."""

    value: Any

    @property
    def label(self) -> Hashable:
        return type(self.value).__name__, repr(self.value)


@attrs.frozen(eq=False, repr=False)
class Call(Expr):
    """A function of the registry (``functions.FUNCTIONS``) and its arguments."""

    function: str
    args: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.args

    @property
    def label(self) -> Hashable:
        return self.function

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        return Call(self.function, tuple(parts))


@attrs.frozen(eq=False, repr=False)
class Cast(Expr):
    """A conversion that the user asked for."""

    arg: Expr
    dtype: DType

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.arg,)

    @property
    def label(self) -> Hashable:
        return self.dtype

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        (arg,) = parts
        return Cast(arg, self.dtype)


@attrs.frozen(eq=False, repr=False)
class Alias(Expr):
    """An expression with a column name of its own."""

    arg: Expr
    name: str

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.arg,)

    @property
    def label(self) -> Hashable:
        return self.name

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        (arg,) = parts
        return Alias(arg, self.name)


@attrs.frozen(eq=False, repr=False)
class When(Expr):
    """A CASE that may still grow: conditions and values in turn; NULL where no condition holds.

    A string is a column or SQL text in a condition, and in a value itself.
    """

    branches: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.branches

    @property
    def label(self) -> Hashable:
        return None

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        return When(tuple(parts))

    def when(self, condition: Any, value: Any) -> When:
        """Return the CASE with a further branch."""
        return When((*self.branches, operand(condition), lit(value)))

    def otherwise(self, value: Any) -> Expr:
        """Return the whole CASE, with the value where no condition holds; a string is itself."""
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
    'x'
    """
    if isinstance(value, Expr):
        return value
    if not isinstance(value, (bool, int, float, str, bytes)) and getattr(value, "shape", None) == ():
        value = value.item()  # a NumPy scalar
    if isinstance(value, dt.timedelta):
        value = of_timedelta(value)
    literal_type(value)
    return Literal(value)


def operand(value: Any) -> Expr:
    """Return what stands where a function takes a column: a string is a column or SQL text, all else as in `lit`.

    >>> type(operand("x")).__name__, type(operand(1)).__name__
    ('Text', 'Literal')
    """
    return Text(value) if isinstance(value, str) else lit(value)


def call(function: str, *args: Any) -> Expr:
    """Return the call of a function of the registry; Python values, strings among them, are literals."""
    return Call(function, tuple(lit(a) for a in args))
