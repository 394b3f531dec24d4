"""Operators and what chooses between values: arithmetic, comparison, logic, bits, CASE and its like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tidemill.expressions.functions.registry import (
    COMPARABLE,
    NULL,
    Function,
    Signature,
    TypeRule,
    as_decimal,
    bounded,
    common_type,
    either,
    fixed,
    never,
    same,
    two_numbers,
)
from tidemill.expressions.intervals import INTERVALS, MICROSECONDS
from tidemill.expressions.types import BOOL, DATE, FLOAT64, INT32, INT64, TIMESTAMP, DType

__all__ = ["OPERATORS", "SIGNS", "by_type", "number", "remainder"]

_PAIR: Final = 2


def _arithmetic(decimals: Callable[[DType, DType], tuple[int, int]]) -> TypeRule:
    """Two numbers; decimals keep their own types, and the operator says the result's precision and scale."""

    def rule(types: Sequence[DType]) -> Signature | None:
        if not two_numbers(types):
            return None
        if FLOAT64 not in types and any(t.is_decimal for t in types):
            first, second = (as_decimal(t if t != NULL else types[1 - i]) for i, t in enumerate(types))
            return Signature((first, second), bounded(*decimals(first, second)))
        common = common_type(types)
        return Signature((common, common), common) if common else None

    return rule


def _sum_type(a: DType, b: DType) -> tuple[int, int]:
    scale = max(a.scale, b.scale)
    return max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale


def _product_type(a: DType, b: DType) -> tuple[int, int]:
    return a.precision + b.precision + 1, a.scale + b.scale


def _quotient_type(a: DType, b: DType) -> tuple[int, int]:
    scale = max(6, a.scale + b.precision + 1)
    return a.precision - a.scale + b.scale + scale, scale


def _remainder_type(a: DType, b: DType) -> tuple[int, int]:
    scale = max(a.scale, b.scale)
    return min(a.precision - a.scale, b.precision - b.scale) + scale, scale


_quotient = _arithmetic(_quotient_type)
remainder = _arithmetic(_remainder_type)


def _divide(types: Sequence[DType]) -> Signature | None:
    if not two_numbers(types):
        return None
    if FLOAT64 not in types and any(t.is_decimal for t in types):
        return _quotient(types)
    return Signature((FLOAT64, FLOAT64), FLOAT64)


def _int_divide(types: Sequence[DType]) -> Signature | None:
    if not two_numbers(types) or FLOAT64 in types:
        return None
    if any(t.is_decimal for t in types):
        first, second = (as_decimal(t if t != NULL else types[1 - i]) for i, t in enumerate(types))
        return Signature((first, second), INT64)
    return Signature((INT64, INT64), INT64)


def _moved(*, back: bool) -> TypeRule:
    """Take a date or timestamp and an interval, or a date and days; the other way round for a sum alone."""

    def rule(types: Sequence[DType]) -> Signature | None:
        if len(types) != _PAIR:
            return None
        if not back and (types[0] in INTERVALS or types[1] in (DATE, TIMESTAMP)):
            found = rule((types[1], types[0]))
            return Signature(found.params[::-1], found.result) if found else None
        moment, by = types
        if moment == DATE and by.is_integer:
            return Signature((DATE, INT32), DATE)
        if moment not in (DATE, TIMESTAMP) or by not in INTERVALS:
            return None
        result = DATE if moment == DATE and by != MICROSECONDS else TIMESTAMP
        return Signature((result, by), result)

    return rule


def number(types: Sequence[DType]) -> Signature | None:
    """Take one number, and give one of its type."""
    return Signature((types[0],), types[0]) if len(types) == 1 and types[0].is_numeric else None


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


def _whole(count: int) -> TypeRule:
    """So many whole numbers, of the wider one's type."""

    def rule(types: Sequence[DType]) -> Signature | None:
        common = common_type(types)
        whole = len(types) == count and common is not None and common.is_integer
        return Signature((common,) * count, common) if common and whole else None

    return rule


def _shift(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == _PAIR and types[0].is_integer and (types[1].is_integer or types[1] == NULL)
    return Signature((types[0], INT32), types[0]) if fits else None


def by_type(sign: str, types: Sequence[DType]) -> str:
    """Return the function that one of Python's signs ``& | ~`` stands for: of bits beside a whole number, else logic.

    >>> by_type("&", [INT64, INT32]), by_type("&", [BOOL, NULL])
    ('bit_and', 'and')
    """
    logic, bits = {"&": ("and", "bit_and"), "|": ("or", "bit_or"), "~": ("not", "bit_not")}[sign]
    return bits if any(t.is_integer for t in types) else logic


SIGNS: Final = frozenset("&|~")

_NUMBERS: Final = "two numbers"
_MOVED: Final = "two numbers, or a date or timestamp and an interval"
_WHOLE: Final = "two whole numbers (int32, int64)"
_EXACT: Final = "two whole numbers or decimals"
_SHIFT: Final = "a whole number (int32, int64) and a number of bits (int32)"
_comparison = same(least=2, most=2, result=BOOL)
_sum, _difference, _product = _arithmetic(_sum_type), _arithmetic(_sum_type), _arithmetic(_product_type)

OPERATORS: Final = (
    Function("add", either(_sum, _moved(back=False)), _MOVED, "+", "Add", can_fail=True),
    Function("subtract", either(_difference, _moved(back=True)), _MOVED, "-", "Sub", can_fail=True),
    Function("multiply", _product, _NUMBERS, "*", "Mul", can_fail=True),
    Function("divide", _divide, _NUMBERS, "/", "Div", can_fail=True),
    Function("int_divide", _int_divide, _EXACT, "DIV", "IntDiv", can_fail=True, aliases=("div",)),
    Function("modulo", remainder, _NUMBERS, "%", "Mod", can_fail=True, aliases=("mod",)),
    Function("negate", number, "a number", "-", "Neg", can_fail=True, aliases=("negative",)),
    Function("eq", _comparison, COMPARABLE, "=", "EQ"),
    Function("ne", _comparison, COMPARABLE, "<>", "NEQ"),
    Function("lt", _comparison, COMPARABLE, "<", "LT"),
    Function("le", _comparison, COMPARABLE, "<=", "LTE"),
    Function("gt", _comparison, COMPARABLE, ">", "GT"),
    Function("ge", _comparison, COMPARABLE, ">=", "GTE"),
    Function("eq_null_safe", _comparison, COMPARABLE, "<=>", "NullSafeEQ", never),
    Function("in", same(least=1, result=BOOL), COMPARABLE, "IN"),
    Function("and", fixed(BOOL, BOOL, result=BOOL), "two conditions (bool)", "AND", "And"),
    Function("or", fixed(BOOL, BOOL, result=BOOL), "two conditions (bool)", "OR", "Or"),
    Function("not", fixed(BOOL, result=BOOL), "a condition (bool)", "NOT", "Not"),
    Function("is_null", _is_null, "a value", "IS NULL", nullable=never, aliases=("isnull",)),
    Function("case", _case, "conditions (bool) and " + COMPARABLE, "CASE", nullable=_case_nullable),
    Function("coalesce", same(least=1), COMPARABLE, "COALESCE", nullable=all, aliases=("ifnull", "nvl")),
    Function("least", same(least=2), "two or more " + COMPARABLE, "LEAST", nullable=all),
    Function("greatest", same(least=2), "two or more " + COMPARABLE, "GREATEST", nullable=all),
    # The engines keep -2**63 for NULL: where bits make it, that is an overflow.
    Function("bit_and", _whole(2), _WHOLE, "&", "BitwiseAnd", can_fail=True),
    Function("bit_or", _whole(2), _WHOLE, "|", "BitwiseOr"),
    Function("bit_xor", _whole(2), _WHOLE, "^", "BitwiseXor", can_fail=True),
    Function("bit_not", _whole(1), "a whole number (int32, int64)", "~", "BitwiseNot", can_fail=True),
    Function("shift_left", _shift, _SHIFT, "SHIFTLEFT", "BitwiseLeftShift", can_fail=True),
    Function("shift_right", _shift, _SHIFT, "SHIFTRIGHT", "BitwiseRightShift"),
    Function("shift_right_unsigned", _shift, _SHIFT, "SHIFTRIGHTUNSIGNED"),
)
