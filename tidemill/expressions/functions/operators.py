"""Operators: arithmetic, comparison, logic, bits."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tidemill.expressions.functions.date_values import moved
from tidemill.expressions.functions.durations import is_of_intervals
from tidemill.expressions.functions.registry import (
    COMPARABLE,
    Function,
    Signature,
    TypeRule,
    all_of,
    as_decimal,
    bounded,
    common_type,
    either,
    fixed,
    never,
    same,
    two_numbers,
)
from tidemill.expressions.functions.values import ZERO, FailureError, exact, is_equal, is_less
from tidemill.expressions.intervals import DAYS, INTERVALS, MICROSECONDS, Interval
from tidemill.expressions.types import BOOL, DATE, FLOAT64, INT32, INT64, NULL, TIMESTAMP, DType

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
    """Return the function that a sign stands for: ``& | ~`` of bits beside a whole number, else of logic.

    What is added to or taken from an interval, a time of day or another moment has functions of its own.

    >>> by_type("&", [INT64, INT32]), by_type("&", [BOOL, NULL])
    ('bit_and', 'and')
    """
    if sign in _OF_INTERVALS:
        return _OF_INTERVALS[sign] if is_of_intervals(types, plus=sign == "add") else sign
    logic, bits = {"&": ("and", "bit_and"), "|": ("or", "bit_or"), "~": ("not", "bit_not")}[sign]
    return bits if any(t.is_integer for t in types) else logic


# What they mean.


def _moved_by(moment: dt.date, by: Any, sign: int) -> Any:
    kind, amount = (by.dtype, by.amount) if isinstance(by, Interval) else (DAYS, by)
    return moved(moment, kind, sign * amount)


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, dt.date):
        return _moved_by(a, b, 1)
    return _moved_by(b, a, 1) if isinstance(b, dt.date) else a + b


def _quotient_of(a: Any, b: Any) -> Any:
    if b == 0:
        raise FailureError(ZERO)
    if isinstance(a, decimal.Decimal):
        return (a / b).quantize(decimal.Decimal("1e-39"), decimal.ROUND_HALF_UP)  # as Spark does, before it rounds
    return a / b


def _int_quotient(a: Any, b: Any) -> int:
    if b == 0:
        raise FailureError(ZERO)
    if isinstance(a, decimal.Decimal):
        return int(a // b)
    quotient: int = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _floor_quotient(a: Any, b: Any) -> int:
    if b == 0:
        raise FailureError(ZERO)
    quotient: int = math.floor(a / b) if isinstance(a, decimal.Decimal) else a // b
    return quotient


def unless_by(*kinds: type) -> Callable[[Sequence[Any]], bool]:
    """Return whether a division may fail, by its literals: by a number of these kinds that is not zero it cannot."""
    return lambda literals: type(literals[1]) not in kinds or literals[1] == 0


def modulo(a: Any, b: Any) -> Any:
    """Return what is left of a division, with the sign of the dividend."""
    if b == 0:
        raise FailureError(ZERO)
    if isinstance(a, float):
        return math.nan if math.isinf(a) or math.isnan(b) else math.fmod(a, b)
    return a % b if isinstance(a, decimal.Decimal) else a - b * _int_quotient(a, b)


_Later = Callable[[], Any]


def _first(operands: Iterable[_Later], *, decisive: bool) -> bool | None:
    """Return what decides, from the first operand that has it on; without one NULL, if an operand is that."""
    undecided: bool | None = not decisive
    for operand in operands:
        value: bool | None = operand()
        if value is decisive:
            return decisive
        if value is None:
            undecided = None
    return undecided


def _in(value: _Later, *options: _Later) -> bool | None:
    """Return whether the value equals one of the options: the OR of these comparisons."""
    given = value()
    found = _first((functools.partial(_is, given, option) for option in options), decisive=True)
    return None if given is None else found


def _is(given: Any, option: _Later) -> bool | None:
    value = option()
    return None if given is None or value is None else is_equal(given, value)


def _equal_null_safe(a: Any, b: Any) -> bool:
    return a is b is None or (a is not None and b is not None and is_equal(a, b))


def _bits(types: tuple[DType, ...]) -> int:
    return 32 if types[0] == INT32 else 64


def _shift_left(types: tuple[DType, ...], value: int, count: int) -> int:
    whole = 1 << _bits(types)
    return _signed((value << (count & (_bits(types) - 1))) % whole, whole)


def _shift_right(types: tuple[DType, ...], value: int, count: int) -> int:
    return value >> (count & (_bits(types) - 1))


def _shift_right_unsigned(types: tuple[DType, ...], value: int, count: int) -> int:
    whole = 1 << _bits(types)
    return _signed(value % whole >> (count & (_bits(types) - 1)), whole)


def _signed(pattern: int, whole: int) -> int:
    """Return the number that a pattern of bits stands for in Java."""
    return pattern - whole if pattern >= whole // 2 else pattern


OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""Which comparison is true where another one is false."""
MIRRORED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Which comparison is another one with its operands the other way round."""
_OF_INTERVALS: Final = {"add": "interval_add", "subtract": "interval_subtract"}
SIGNS: Final = frozenset("&|~") | set(_OF_INTERVALS)

_NUMBERS: Final = "two numbers"
_MOVED: Final = "two numbers, or a date or timestamp and an interval"
_WHOLE: Final = "two whole numbers (int32, int64)"
_EXACT: Final = "two whole numbers or decimals"
_SHIFT: Final = "a whole number (int32, int64) and a number of bits (int32)"
_comparison = same(least=2, most=2, result=BOOL)
_sum, _difference, _product = (
    _arithmetic(_sum_type),
    _arithmetic(_sum_type),
    _arithmetic(lambda a, b: (a.precision + b.precision + 1, a.scale + b.scale)),
)

OPERATORS: Final = (
    Function("add", either(_sum, _moved(back=False)), _MOVED, sql="+", operator="Add", can_fail=True,
             python=exact(_add)),
    Function("subtract", either(_difference, _moved(back=True)), _MOVED, sql="-", operator="Sub", can_fail=True,
             python=exact(lambda a, b: _moved_by(a, b, -1) if isinstance(a, dt.date) else a - b)),
    Function("multiply", _product, _NUMBERS, sql="*", operator="Mul", can_fail=True, python=exact(operator.mul)),
    Function("divide", _divide, _NUMBERS, sql="/", operator="Div", can_fail=unless_by(float),
             python=exact(_quotient_of)),
    Function("int_divide", _int_divide, _EXACT, sql="DIV", operator="IntDiv", can_fail=unless_by(int), aliases=("div",),
             python=exact(_int_quotient)),
    Function("floor_divide", _int_divide, _EXACT, can_fail=True, python=exact(_floor_quotient)),
    Function("modulo", remainder, _NUMBERS, sql="%", operator="Mod", can_fail=unless_by(int, float), aliases=("mod",),
             python=exact(modulo)),
    Function("negate", number, "a number", sql="-", operator="Neg", can_fail=True, aliases=("negative",),
             python=lambda a: a.copy_negate() if isinstance(a, decimal.Decimal) else -a),
    Function("eq", _comparison, COMPARABLE, sql="=", operator="EQ", python=is_equal),
    Function("ne", _comparison, COMPARABLE, sql="<>", operator="NEQ", python=lambda a, b: not is_equal(a, b)),
    Function("lt", _comparison, COMPARABLE, sql="<", operator="LT", python=is_less),
    Function("le", _comparison, COMPARABLE, sql="<=", operator="LTE", python=lambda a, b: not is_less(b, a)),
    Function("gt", _comparison, COMPARABLE, sql=">", operator="GT", python=lambda a, b: is_less(b, a)),
    Function("ge", _comparison, COMPARABLE, sql=">=", operator="GTE", python=lambda a, b: not is_less(a, b)),
    Function("eq_null_safe", _comparison, COMPARABLE, sql="<=>", operator="NullSafeEQ", nullable=never,
             python=_equal_null_safe, sees_null=True),
    Function("in", same(least=1, result=BOOL), COMPARABLE, python=_in, lazy=True),
    Function("and", all_of(BOOL, BOOL, least=2), "two or more conditions (bool)", operator="And",
             python=lambda *operands: _first(operands, decisive=False), lazy=True),
    Function("or", all_of(BOOL, BOOL, least=2), "two or more conditions (bool)", operator="Or",
             python=lambda *operands: _first(operands, decisive=True), lazy=True),
    Function("not", fixed(BOOL, result=BOOL), "a condition (bool)", operator="Not", python=operator.not_),
    Function("is_null", _is_null, "a value", sql="IS NULL", nullable=never, aliases=("isnull",),
             python=lambda a: a is None, sees_null=True),
    # The engines keep -2**63 for NULL: where bits make it, that is an overflow.
    Function("bit_and", _whole(2), _WHOLE, sql="&", operator="BitwiseAnd", can_fail=True, python=operator.and_),
    Function("bit_or", _whole(2), _WHOLE, sql="|", operator="BitwiseOr", python=operator.or_),
    Function("bit_xor", _whole(2), _WHOLE, sql="^", operator="BitwiseXor", can_fail=True, python=operator.xor),
    Function("bit_not", _whole(1), "a whole number (int32, int64)", sql="~", operator="BitwiseNot", can_fail=True,
             python=operator.invert),
    Function("shift_left", _shift, _SHIFT, sql="SHIFTLEFT", operator="BitwiseLeftShift", can_fail=True,
             python=_shift_left, by_types=True),
    Function("shift_right", _shift, _SHIFT, sql="SHIFTRIGHT", operator="BitwiseRightShift", python=_shift_right,
             by_types=True),
    Function("shift_right_unsigned", _shift, _SHIFT, sql="SHIFTRIGHTUNSIGNED", python=_shift_right_unsigned,
             by_types=True),
)  # fmt: skip
