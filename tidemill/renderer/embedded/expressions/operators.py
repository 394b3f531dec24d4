"""Operators over Arrow columns: comparison, arithmetic, bits, CASE and its like."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.arrow_arrays import arrow_scalar, plain_array, truths_of, value_array
from tidemill.expressions.bound import BoundCall, BoundLiteral
from tidemill.expressions.intervals import INTERVALS
from tidemill.expressions.types import DATE, FLOAT64, INT64, TIMESTAMP, DType
from tidemill.renderer.embedded.expressions.dates import move_rule
from tidemill.renderer.embedded.expressions.decimals import decimal_rule
from tidemill.renderer.embedded.expressions.kernels import (
    FALSE,
    NO_BOOL,
    ONE,
    TRUE,
    Apply,
    Rule,
    checked,
    kernel,
    numbers,
    plain,
    spread,
    with_nulls,
)
from tidemill.renderer.embedded.expressions.lists import NESTED_COMPARISON
from tidemill.renderer.embedded.expressions.python_rule import python_rule

_if_else = kernel("if_else")
_coalesce = kernel("coalesce")
_invert = kernel("invert")
_is_null = kernel("is_null", pc.NullOptions())
_is_valid = kernel("is_valid")
_is_nan = kernel("is_nan")
_any_of = kernel("or")
_all_of = kernel("and")
_equal = kernel("equal")
_not_equal = kernel("not_equal")
_less = kernel("less")
_less_equal = kernel("less_equal")
_greater_equal = kernel("greater_equal")
_add, _subtract, _multiply = (kernel(f"{name}_checked") for name in ("add", "subtract", "multiply"))
_divide, _plus = kernel("divide_checked"), kernel("add")
_ZERO: Final = arrow_scalar(0, pa.int64())

# Comparison.


def _float_equal(a: Any, b: Any) -> Any:
    return _any_of(_equal(a, b), _all_of(_is_nan(a), _is_nan(b)))


def _float_ge(a: Any, b: Any) -> Any:
    return _any_of(_greater_equal(a, b), _is_nan(a))


# For floats: NaN equals itself and is greater than every number.
_FLOAT_COMPARISON: Final[dict[str, Apply]] = {
    "eq": _float_equal,
    "ne": lambda a, b: _invert(_float_equal(a, b)),
    "ge": _float_ge,
    "le": lambda a, b: _float_ge(b, a),
    "lt": lambda a, b: _invert(_float_ge(a, b)),
    "gt": lambda a, b: _invert(_float_ge(b, a)),
}
COMPARISON: Final[dict[str, Apply]] = {
    "eq": _equal,
    "ne": kernel("not_equal"),
    "ge": _greater_equal,
    "le": _less_equal,
    "lt": _less,
    "gt": kernel("greater"),
}


def _comparisons(given: DType) -> dict[str, Apply]:
    """Return the kernel that compares two columns of a type."""
    return NESTED_COMPARISON if given.is_nested else _FLOAT_COMPARISON if given == FLOAT64 else COMPARISON


def _comparison(bound: BoundCall, function: str = "") -> Apply:
    return _comparisons(bound.args[0].dtype)[function or bound.function]


def _eq_null_safe(bound: BoundCall) -> Apply:
    equal = _comparison(bound, "eq")

    def apply(a: Any, b: Any) -> Any:
        return _coalesce(equal(a, b), _all_of(_is_null(a), _is_null(b)))

    return apply


def _in(bound: BoundCall) -> Apply:
    # Arrow's look-up goes by bits for floats, and would tell 0.0 from -0.0.
    given = bound.args[0].dtype
    if given != FLOAT64 and not given.is_nested and all(isinstance(a, BoundLiteral) for a in bound.args[1:]):
        return _in_literals(bound)
    equal = _comparisons(given)["eq"]
    either = kernel("or_kleene")

    def apply(value: Any, *options: Any) -> Any:
        return functools.reduce(either, [equal(value, o) for o in options])

    return apply


def _in_literals(bound: BoundCall) -> Apply:
    options = [a.value for a in bound.args[1:] if isinstance(a, BoundLiteral)]
    wanted = value_array([o for o in options if o is not None], bound.args[0].dtype.arrow)
    look_up = kernel("is_in", pc.SetLookupOptions(wanted))
    if None in options:
        return lambda value, *_options: _if_else(look_up(value), TRUE, NO_BOOL)
    return lambda value, *_options: _if_else(_is_valid(value), look_up(value), NO_BOOL)


def _extreme(function: str) -> Rule:
    """Pairwise, since Arrow's own kernels let any number win over NaN."""

    def rule(bound: BoundCall) -> Apply:
        better = _comparisons(bound.dtype)[function]

        def pick(a: Any, b: Any) -> Any:
            return _if_else(_coalesce(better(b, a), _is_null(a)), b, a)

        return lambda *values: functools.reduce(pick, values)

    return rule


def _case(_bound: BoundCall) -> Apply:
    def apply(*values: Any) -> Any:
        result = values[-1]
        for i in range(len(values) - 3, -1, -2):
            result = _if_else(_coalesce(values[i], FALSE), values[i + 1], result)
        return result

    return apply


def _chained(name: str) -> Rule:
    pair = kernel(name)
    return lambda _bound: lambda *values: functools.reduce(pair, values)


# Arithmetic.


def _arithmetic(compute: Apply) -> Rule:
    def rule(bound: BoundCall) -> Apply:
        if bound.dtype in (DATE, TIMESTAMP):
            return _moving(bound)
        if bound.dtype.is_decimal:
            return checked(bound, decimal_rule(bound, compute))
        if bound.dtype == FLOAT64:
            return compute
        return checked(bound, _not_reserved(bound, compute))

    return rule


def _moving(bound: BoundCall) -> Apply:
    """Move a date or a timestamp by what stands on the other side of the sign."""
    swap = bound.args[0].dtype not in (DATE, TIMESTAMP)
    by = bound.args[0 if swap else 1]
    apply = move_rule(bound, bound.dtype, by.dtype, -1 if bound.function == "subtract" else 1)
    if by.dtype in INTERVALS:
        assert isinstance(by, BoundLiteral)
        amount = by.value.amount
        return lambda *values: apply(values[swap], amount)
    return lambda a, b: apply(b, a) if swap else apply(a, b)


def _not_reserved(bound: BoundCall, compute: Apply) -> Apply:
    """Refuse -2**63 as a result: the engines keep it for NULL."""
    last = bound.args[-1]
    adds_some = bound.function == "add" and isinstance(last, BoundLiteral) and (last.value or 0) >= 0
    if bound.dtype != INT64 or adds_some:
        return compute

    def apply(*values: Any) -> Any:
        result = compute(*values)
        _subtract(result, ONE)  # overflows for exactly that value
        return result

    return apply


def _divide_rule(bound: BoundCall) -> Apply:
    if bound.args[0].dtype.is_decimal:
        return python_rule(bound)
    return checked(bound, _divide)


def _floor_divide(bound: BoundCall) -> Apply:
    if bound.args[0].dtype.is_decimal:
        return python_rule(bound)

    def apply(a: Any, b: Any) -> Any:
        quotient = _divide(a, b)
        rest = _subtract(a, _multiply(quotient, b))
        is_above = _all_of(_not_equal(rest, _ZERO), _not_equal(_less(rest, _ZERO), _less(b, _ZERO)))
        return _if_else(is_above, _subtract(quotient, ONE), quotient)

    return checked(bound, _not_reserved(bound, apply))


def _modulo(bound: BoundCall) -> Apply:
    if bound.dtype.is_decimal:
        return python_rule(bound)
    positive = bound.function == "pmod"
    if bound.dtype == FLOAT64:
        return checked(bound, lambda a, b: _float_modulo(a, b, positive=positive))

    def apply(a: Any, b: Any) -> Any:
        rest = _subtract(a, _multiply(_divide(a, b), b))
        if not positive:
            return rest
        turned = _all_of(_less(rest, _ZERO), _less(_ZERO, b))
        return _if_else(turned, _plus(rest, b), rest)

    if bound.dtype == INT64:
        return checked(bound, apply)
    # -2**31 % -1 is 0, but its quotient is no int32.
    return checked(bound, lambda a, b: apply(a.cast(pa.int64()), b.cast(pa.int64())).cast(pa.int32()))


def _float_modulo(a: Any, b: Any, *, positive: bool) -> Any:
    valid = _divide(a, b).is_valid()  # raises for a zero
    x, y = _numbers(a), _numbers(b)
    with np.errstate(invalid="ignore"):
        result = np.fmod(x, y)
        if positive:
            result = np.where(result < 0, np.fmod(result + y, y), result)
    return plain_array(pa.float64(), result, ~truths_of(valid))


def _numbers(value: Any) -> Any:
    """Return floats as NumPy's, some number for NULL."""
    if isinstance(value, pa.Array):
        return numbers(value)
    return value.as_py() if value.is_valid else math.nan


# Bits.


def _bits(name: str) -> Rule:
    compute = kernel(name)
    return lambda bound: checked(bound, _not_reserved(bound, compute))


def _shift(bound: BoundCall) -> Apply:
    """Java's shifts: of the number of bits only the last 5 or 6 count, and what is shifted out is lost."""
    wide = bound.dtype == INT64
    signed, unsigned = (np.int64, np.uint64) if wide else (np.int32, np.uint32)
    as_is = bound.function == "shift_right"
    shift = np.left_shift if bound.function == "shift_left" else np.right_shift

    def apply(*values: Any) -> pa.Array:
        columns = spread(values)
        bits = numbers(columns[1]) & (63 if wide else 31)
        number = numbers(columns[0]) if as_is else numbers(columns[0]).view(unsigned)
        return with_nulls(shift(number, bits.astype(number.dtype)).view(signed), columns, bound.dtype.arrow)

    return checked(bound, _not_reserved(bound, apply))


OPERATOR_RULES: Final[dict[str, Rule]] = {
    "add": _arithmetic(_add),
    "subtract": _arithmetic(_subtract),
    "multiply": _arithmetic(_multiply),
    "divide": _divide_rule,
    "int_divide": _divide_rule,
    "floor_divide": _floor_divide,
    "modulo": _modulo,
    "pmod": _modulo,
    "negate": lambda bound: checked(bound, kernel("negate_checked")),
    **dict.fromkeys(COMPARISON, _comparison),
    "eq_null_safe": _eq_null_safe,
    "in": _in,
    "and": _chained("and_kleene"),
    "or": _chained("or_kleene"),
    "not": plain("invert"),
    "is_null": plain("is_null", pc.NullOptions()),
    "case": _case,
    "coalesce": plain("coalesce"),
    "least": _extreme("lt"),
    "greatest": _extreme("gt"),
    "bit_and": _bits("bit_wise_and"),
    "bit_or": _bits("bit_wise_or"),
    "bit_xor": _bits("bit_wise_xor"),
    "bit_not": _bits("bit_wise_not"),
    "shift_left": _shift,
    "shift_right": _shift,
    "shift_right_unsigned": _shift,
}
