"""The registry of scalar functions: what each takes, what it gives, and its name in SQL.

To add a function: an entry in ``FUNCTIONS``; a rule in ``renderer/embedded/scalar.py`` and one in
``renderer/reference/scalar.py``; and a builder in ``expressions.py``. Parsing, printing, binding and errors follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from tidemill.collections.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    DType,
)

__all__ = ["FUNCTIONS", "NULL", "Function", "Signature", "can_cast", "common_type", "widens"]

NULL: Final = DType("null")
"""The type of a bare NULL until what stands beside it says more. No column and no bound tree has it."""


@attrs.frozen
class Signature:
    """The types that a call's arguments are brought to, and the type of its result."""

    params: tuple[DType, ...]
    result: DType


# From the arguments' types to the signature; None where the function does not take them.
TypeRule: TypeAlias = Callable[[Sequence[DType]], Signature | None]


def _never(_nullable: Sequence[bool]) -> bool:
    return False


@attrs.frozen
class Function:
    """A scalar function.

    ``expects`` completes "expected ..." in errors; ``sql`` is Spark's name, or the operator's sign; ``sqlglot`` the
    class that SQL text is parsed to ("" where ``sql.py`` treats it by hand); ``can_fail`` says whether a row may be an
    error, which lets an engine evaluate the others without regard to CASE; ``literals`` are the positions of arguments
    that have to be literals.
    """

    name: str
    rule: TypeRule
    expects: str
    sql: str
    sqlglot: str = ""
    nullable: Callable[[Sequence[bool]], bool] = any
    can_fail: bool = False
    literals: tuple[int, ...] = ()


def common_type(types: Sequence[DType]) -> DType | None:
    """Return the narrowest type that all of these widen to; NULLs do not count; None where there is none.

    >>> common_type([INT32, INT64]), common_type([INT64, FLOAT64]), common_type([NULL, DATE])
    (int64, float64, date)
    """
    known = set(types) - {NULL}
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
    decimals = [_as_decimal(t) for t in known]
    scale = max(t.scale for t in decimals)
    precision = max(t.precision - t.scale for t in decimals) + scale
    return DType("decimal", precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def widens(source: DType, target: DType) -> bool:
    """Return whether a value may become one of the wider type without being asked to."""
    if source in (target, NULL) or (source, target) in ((INT32, INT64), (DATE, TIMESTAMP)):
        return True
    if target == FLOAT64:
        return source.is_numeric
    if target.is_decimal and source.is_numeric and source != FLOAT64:
        return common_type([_as_decimal(source), target]) == target
    return False


def can_cast(source: DType, target: DType) -> bool:
    """Return whether a cast exists at all (a value may still not fit)."""
    if source in (target, NULL) or STRING in (source, target):
        return True
    if source in (DATE, TIMESTAMP):
        return target in (DATE, TIMESTAMP)
    numeric_or_bool = {source.is_numeric or source == BOOL, target.is_numeric or target == BOOL}
    return numeric_or_bool == {True}


def _as_decimal(t: DType) -> DType:
    """Return Spark's decimal type for a type of whole numbers."""
    return {INT32: DType("decimal", 10, 0), INT64: DType("decimal", 20, 0)}.get(t, t)


# Type rules.


def _fixed(*params: DType, result: DType) -> TypeRule:
    def rule(types: Sequence[DType]) -> Signature | None:
        fits = len(types) == len(params) and all(t in (p, NULL) for t, p in zip(types, params, strict=True))
        return Signature(params, result) if fits else None

    return rule


def _all_of(param: DType, result: DType) -> TypeRule:
    """One argument or more, all of this type."""

    def rule(types: Sequence[DType]) -> Signature | None:
        fits = bool(types) and all(t in (param, NULL) for t in types)
        return Signature((param,) * len(types), result) if fits else None

    return rule


def _either(*rules: TypeRule) -> TypeRule:
    """The first rule that takes the arguments."""

    def rule(types: Sequence[DType]) -> Signature | None:
        return next((s for r in rules if (s := r(types)) is not None), None)

    return rule


def _same(*, least: int, most: int | None = None, result: DType | None = None) -> TypeRule:
    """So many arguments of a common type; the result is of that type, unless it is given."""

    def rule(types: Sequence[DType]) -> Signature | None:
        common = common_type(types)
        if common is None or not least <= len(types) <= (most or len(types)):
            return None
        return Signature((common,) * len(types), result or common)

    return rule


def _number(types: Sequence[DType]) -> Signature | None:
    return Signature((types[0],), types[0]) if len(types) == 1 and types[0].is_numeric else None


def _arithmetic(decimals: Callable[[DType, DType], tuple[int, int]]) -> TypeRule:
    """Two numbers; decimals keep their own types, and the operator says the result's precision and scale."""

    def rule(types: Sequence[DType]) -> Signature | None:
        if len(types) != 2 or not all(t.is_numeric or t == NULL for t in types):  # noqa: PLR2004 - two operands
            return None
        if FLOAT64 not in types and any(t.is_decimal for t in types):
            first, second = (_as_decimal(t if t != NULL else types[1 - i]) for i, t in enumerate(types))
            return Signature((first, second), _bounded(*decimals(first, second)))
        common = common_type(types)
        return Signature((common, common), common) if common else None

    return rule


def _sum_type(a: DType, b: DType) -> tuple[int, int]:
    scale = max(a.scale, b.scale)
    return max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale


def _product_type(a: DType, b: DType) -> tuple[int, int]:
    return a.precision + b.precision + 1, a.scale + b.scale


def _bounded(precision: int, scale: int) -> DType:
    """Return Spark's choice where 38 digits do not suffice: give up places after the point, but keep six of them."""
    if precision <= MAX_DECIMAL_PRECISION:
        return DType("decimal", precision, scale)
    kept = max(MAX_DECIMAL_PRECISION - (precision - scale), min(scale, 6))
    return DType("decimal", MAX_DECIMAL_PRECISION, kept)


def _divide(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 2 and all(t.is_numeric or t == NULL for t in types)  # noqa: PLR2004 - two operands
    return Signature((FLOAT64, FLOAT64), FLOAT64) if fits else None


def _int_divide(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 2 and all(t.is_integer or t == NULL for t in types)  # noqa: PLR2004 - two operands
    return Signature((INT64, INT64), INT64) if fits else None


def _modulo(types: Sequence[DType]) -> Signature | None:
    common = common_type(types)
    if len(types) != 2 or common not in (INT32, INT64, FLOAT64):  # noqa: PLR2004 - two operands
        return None
    return Signature((common, common), common)


def _is_null(types: Sequence[DType]) -> Signature | None:
    return Signature((types[0],), BOOL) if len(types) == 1 else None


def _case(types: Sequence[DType]) -> Signature | None:
    """Conditions and values in turn, and a value at the end."""
    conditions, values = types[:-1:2], [*types[1:-1:2], types[-1]]
    common = common_type(values)
    if common is None or any(t not in (BOOL, NULL) for t in conditions):
        return None
    return Signature((*(BOOL if i % 2 == 0 else common for i in range(len(types) - 1)), common), common)


def _case_nullable(nullable: Sequence[bool]) -> bool:
    return any(nullable[1:-1:2]) or nullable[-1]


_NUMBERS = "two numbers"
_COMPARABLE = "values of one type, or numbers"
_comparison = _same(least=2, most=2, result=BOOL)
_string = _fixed(STRING, result=STRING)
_string_test = _fixed(STRING, STRING, result=BOOL)

FUNCTIONS: Final[dict[str, Function]] = {
    f.name: f
    for f in (
        Function("add", _arithmetic(_sum_type), _NUMBERS, "+", "Add", can_fail=True),
        Function("subtract", _arithmetic(_sum_type), _NUMBERS, "-", "Sub", can_fail=True),
        Function("multiply", _arithmetic(_product_type), _NUMBERS, "*", "Mul", can_fail=True),
        Function("divide", _divide, _NUMBERS, "/", "Div", can_fail=True),
        Function("int_divide", _int_divide, "two whole numbers (int32, int64)", "DIV", "IntDiv", can_fail=True),
        Function("modulo", _modulo, "two whole numbers or floats", "%", "Mod", can_fail=True),
        Function("negate", _number, "a number", "-", "Neg", can_fail=True),
        Function("abs", _number, "a number", "ABS", "Abs", can_fail=True),
        Function("eq", _comparison, _COMPARABLE, "=", "EQ"),
        Function("ne", _comparison, _COMPARABLE, "<>", "NEQ"),
        Function("lt", _comparison, _COMPARABLE, "<", "LT"),
        Function("le", _comparison, _COMPARABLE, "<=", "LTE"),
        Function("gt", _comparison, _COMPARABLE, ">", "GT"),
        Function("ge", _comparison, _COMPARABLE, ">=", "GTE"),
        Function("eq_null_safe", _comparison, _COMPARABLE, "<=>", "NullSafeEQ", _never),
        Function("in", _same(least=1, result=BOOL), _COMPARABLE, "IN"),
        Function("and", _fixed(BOOL, BOOL, result=BOOL), "two conditions (bool)", "AND", "And"),
        Function("or", _fixed(BOOL, BOOL, result=BOOL), "two conditions (bool)", "OR", "Or"),
        Function("not", _fixed(BOOL, result=BOOL), "a condition (bool)", "NOT", "Not"),
        Function("is_null", _is_null, "a value", "IS NULL", nullable=_never),
        Function("case", _case, "conditions (bool) and " + _COMPARABLE, "CASE", nullable=_case_nullable),
        Function("coalesce", _same(least=1), _COMPARABLE, "COALESCE", "Coalesce", all),
        Function("least", _same(least=2), "two or more " + _COMPARABLE, "LEAST", "Least", all),
        Function("greatest", _same(least=2), "two or more " + _COMPARABLE, "GREATEST", "Greatest", all),
        Function("upper", _string, "a string", "UPPER", "Upper"),
        Function("lower", _string, "a string", "LOWER", "Lower"),
        Function("trim", _string, "a string", "TRIM"),
        Function("ltrim", _string, "a string", "LTRIM"),
        Function("rtrim", _string, "a string", "RTRIM"),
        Function("length", _either(_fixed(STRING, result=INT32), _fixed(BINARY, result=INT32)),
                 "a string or a binary", "LENGTH", "Length"),
        Function("concat", _all_of(STRING, STRING), "strings", "CONCAT", "Concat"),
        Function("substring", _fixed(STRING, INT64, INT64, result=STRING), "a string, a start and a length",
                 "SUBSTRING", "Substring", literals=(1, 2)),
        Function("like", _string_test, "a string and a pattern", "LIKE", "Like", literals=(1,)),
        Function("starts_with", _string_test, "a string and a prefix", "STARTSWITH", "StartsWith", literals=(1,)),
        Function("ends_with", _string_test, "a string and a suffix", "ENDSWITH", "EndsWith", literals=(1,)),
        Function("contains", _string_test, "a string and a part of it", "CONTAINS", "Contains", literals=(1,)),
    )
}  # fmt: skip
