"""What an entry of the registry of scalar functions says, and the rules of types that entries share.

**To add a function**, write its entry and its builder in the module of its family beside this one (a new family's
entries go into ``FUNCTIONS`` in ``functions/__init__.py``). The entry is all that is needed::

    Function("initcap", string, "a string", python=_initcap)

- a name, the rule of its types, what it expects (for errors); in SQL it has its name in capitals, if no other is given;
- ``python``: what it means, of one row's values. The reference engine evaluates exactly that, and so does every engine
  that has nothing faster. Results are exact: ``python`` may return an int or a Decimal of any size, and what does not
  fit the type is an overflow. Where there is no value it raises ``FailureError`` with the reason, and the entry says
  ``can_fail``.

Parsing, printing, binding, errors and evaluation by every engine follow. The builder is for Python: what it takes for
columns it passes through ``expr.operand``, by which a string is a column or SQL text. Its docstring, which names the
parameters that are literals, is the function's documentation, and ``tidemill/__init__.py`` makes it public.

**To make it fast**, give the embedded engine a kernel over Arrow columns: a rule under the function's name in a module
of ``renderer/embedded/expressions``. Where Spark's function of that name means the same, add the name to ``NATIVE`` in
``renderer/spark/scalars.py``. Tests compare all of them value by value: add the function to those of
``tests/expressions`` and ``tests/spark/test_expressions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tidemill.expressions.functions.values import fitted
from tidemill.expressions.intervals import DAYS, INTERVALS, MICROSECONDS
from tidemill.expressions.types import (
    BOOL,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    DType,
)

MOMENTS: Final = (DATE, TIMESTAMP, TIMESTAMPTZ)
COMPARABLE: Final = "values of one type, or numbers"


@attrs.frozen
class Signature:
    """The types that a call's arguments are brought to, and the type of its result."""

    params: tuple[DType, ...]
    result: DType


# From the arguments' types to the signature; None where the function does not take them.
TypeRule: TypeAlias = Callable[[Sequence[DType]], Signature | None]


def never(_nullable: Sequence[bool]) -> bool:
    """Return that the result is never NULL."""
    return False


def always(_nullable: Sequence[bool]) -> bool:
    """Return that the result may be NULL whatever the arguments are."""
    return True


@attrs.frozen
class Function:
    """A scalar function.

    ``expects`` completes "expected ..." in errors; ``sql`` is Spark's name, or the operator's sign, where it is not the
    function's in capitals, and ``aliases`` are further names; ``operator`` the class of sqlglot's that stands for it
    where SQL has syntax and not a name;
    ``can_fail`` says whether a row may be an error, for some functions by the call's literals (as ``check`` gets them);
    what cannot, an engine may evaluate without regard to CASE or AND.

    ``literals`` are the positions of arguments that have to be literals; if one of them is NULL, so is the call.
    ``check`` says what is wrong with a call's literals (by position; None for what is no literal), and ``refine``
    changes the signature according to them. ``optional`` are literals for arguments at the end that were left out.
    Where arguments stand ``apart`` a literal does not take the type of those beside it.
    With ``by_day`` a timestamp may stand where a date is expected. ``unit`` is the position of a unit of time's name,
    which is put in full and in capitals.

    ``python`` is the meaning: the value for the arguments of a row. A call with a NULL among them is NULL, unless the
    function ``sees_null``. One that is ``lazy`` gets functions that give the arguments, and calls those it needs; one
    that goes ``by_types`` gets the tuple of the arguments' types first.
    """

    name: str
    rule: TypeRule
    expects: str
    sql: str = attrs.Factory(lambda self: self.name.upper(), takes_self=True)
    operator: str = ""
    nullable: Callable[[Sequence[bool]], bool] = any
    can_fail: bool | Callable[[Sequence[Any]], bool] = False
    literals: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    optional: tuple[Any, ...] = ()
    check: Callable[[Sequence[Any]], str | None] | None = None
    refine: Callable[[Signature, Sequence[Any]], Signature] | None = None
    by_day: bool = False
    unit: int | None = None
    python: Callable[..., Any] = attrs.field(kw_only=True)
    sees_null: bool = False
    lazy: bool = False
    by_types: bool = False
    apart: bool = False

    def value(self, values: Sequence[Any], types: tuple[DType, ...], result: DType) -> Any:
        """Return the value for the arguments of one row; ``FailureError`` where there is none."""
        if not self.sees_null and any(v is None for v in values):
            return None
        return fitted(self.python(types, *values) if self.by_types else self.python(*values), result)


def common_type(types: Sequence[DType]) -> DType | None:  # noqa: PLR0911 - one line a family of types
    """Return the narrowest type that all of these widen to; NULLs do not count; None where there is none.

    >>> common_type([INT32, INT64]), common_type([INT64, FLOAT64]), common_type([NULL, DATE])
    (int64, float64, date)
    """
    known = set(types) - {NULL}
    if known & INTERVALS:
        return INTERVAL if known <= {INTERVAL, DAYS, MICROSECONDS} else None
    if len(known) <= 1:
        return next(iter(known), NULL)
    if known == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if not all(t.is_numeric for t in known):
        return None
    if FLOAT64 in known:
        return FLOAT64
    if known == {INT32, INT64}:
        return INT64
    decimals = [as_decimal(t) for t in known]
    scale = max(t.scale for t in decimals)
    precision = max(t.precision - t.scale for t in decimals) + scale
    return DType("decimal", precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def widens(source: DType, target: DType) -> bool:
    """Return whether a value may become one of the wider type without being asked to."""
    if source in (target, NULL) or (source, target) in ((INT32, INT64), (DATE, TIMESTAMP)):
        return True
    if target == INTERVAL:
        return source in (DAYS, MICROSECONDS)
    if target == FLOAT64:
        return source.is_numeric
    if target.is_decimal and source.is_numeric and source != FLOAT64:
        return common_type([as_decimal(source), target]) == target
    return False


def keeps_all(source: DType, target: DType) -> bool:
    """Return whether every value of one type is one of the other too: what becomes another type without being asked to.

    >>> keeps_all(INT32, FLOAT64), keeps_all(INT64, FLOAT64), keeps_all(INT64, DType("decimal", 20, 0))
    (True, False, True)
    """
    return widens(source, target) and (target != FLOAT64 or source in (FLOAT64, INT32, NULL))


def lossless_type(types: Sequence[DType]) -> DType | None:
    """Return the narrowest type that holds all values of all of these; None where there is none."""
    common = common_type(types)
    return common if common is not None and all(keeps_all(t, common) for t in types) else None


def can_cast(source: DType, target: DType) -> bool:
    """Return whether a cast exists at all (a value may still not fit)."""
    if source in INTERVALS:
        return target == INTERVAL and widens(source, target)
    if source not in (target, NULL) and (source.is_nested or target.is_nested):
        return False
    if source in (target, NULL) or STRING in (source, target):
        return True
    if source in MOMENTS:
        return target in MOMENTS or (target == TIME and source != DATE)
    numeric_or_bool = {source.is_numeric or source == BOOL, target.is_numeric or target == BOOL}
    return numeric_or_bool == {True}


def as_decimal(t: DType) -> DType:
    """Return Spark's decimal type for a type of whole numbers."""
    return _WHOLE_AS_DECIMAL.get(t, t)


_WHOLE_AS_DECIMAL: Final = {INT32: DType("decimal", 10, 0), INT64: DType("decimal", 20, 0)}


def bounded(precision: int, scale: int) -> DType:
    """Return Spark's choice where 38 digits do not suffice: give up places after the point, but keep six of them."""
    if precision <= MAX_DECIMAL_PRECISION:
        return DType("decimal", precision, scale)
    kept = max(MAX_DECIMAL_PRECISION - (precision - scale), min(scale, 6))
    return DType("decimal", MAX_DECIMAL_PRECISION, kept)


# Type rules.


def fixed(*params: DType, result: DType) -> TypeRule:
    """Return the rule for so many arguments of these types."""

    def rule(types: Sequence[DType]) -> Signature | None:
        fits = len(types) == len(params) and not INTERVALS & set(types)
        return Signature(params, result) if fits and all(map(_may_be, types, params)) else None

    return rule


def _may_be(given: DType, param: DType) -> bool:
    """Return whether a type is right, or else may be: whether a literal or a timestamp serves is seen when binding."""
    return given in (param, NULL) or (param.is_integer and given.is_integer) or (param, given) == (DATE, TIMESTAMP)


def all_of(param: DType, result: DType, *, least: int = 1) -> TypeRule:
    """Return the rule for so many arguments or more, all of this type."""

    def rule(types: Sequence[DType]) -> Signature | None:
        fits = len(types) >= least and all(t in (param, NULL) for t in types)
        return Signature((param,) * len(types), result) if fits else None

    return rule


def as_columns(types: Sequence[DType]) -> list[DType] | None:
    """Return the types in which columns hold such values: literals of days as intervals; None where none holds one.

    >>> as_columns([INT64, DAYS])
    [int64, interval]
    """
    held = [common_type([t]) for t in types]
    return None if None in held else [t for t in held if t is not None]


def floats(count: int) -> TypeRule:
    """Return the rule for so many numbers, as floats."""

    def rule(types: Sequence[DType]) -> Signature | None:
        fits = len(types) == count and all(t.is_numeric or t == NULL for t in types)
        return Signature((FLOAT64,) * count, FLOAT64) if fits else None

    return rule


def either(*rules: TypeRule) -> TypeRule:
    """Return the rule that is the first of these to take the arguments."""

    def rule(types: Sequence[DType]) -> Signature | None:
        return next((s for r in rules if (s := r(types)) is not None), None)

    return rule


def same(*, least: int, most: int | None = None, result: DType | None = None) -> TypeRule:
    """Return the rule for so many arguments of a common type; the result is of that type, unless it is given."""

    def rule(types: Sequence[DType]) -> Signature | None:
        common = common_type(types)
        if common is None or not least <= len(types) <= (most or len(types)):
            return None
        return Signature((common,) * len(types), result or common)

    return rule


def two_numbers(types: Sequence[DType]) -> bool:
    """Return whether these are two numbers, or NULLs."""
    return len(types) == 2 and all(t.is_numeric or t == NULL for t in types)  # noqa: PLR2004 - two operands
