"""Functions of numbers over Arrow columns."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.arrow_arrays import arrow_scalar, numbers_of, plain_array
from tidemill.expressions.bound import BoundCall
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.types import FLOAT64
from tidemill.renderer.embedded.expressions.decimals import fewer_places, rounded
from tidemill.renderer.embedded.expressions.kernels import (
    FALSE,
    Apply,
    Rule,
    by_distinct,
    checked,
    kernel,
    literal,
    numbers,
    plain,
    spread,
    with_nulls,
)
from tidemill.renderer.embedded.expressions.python_rule import python_rule

_FLOAT64: Final = pa.float64()
_ZERO: Final = arrow_scalar(0.0, _FLOAT64)


# Rounding.


def _round(bound: BoundCall) -> Apply:
    places = literal(bound, 1)
    if bound.args[0].dtype == FLOAT64:
        return lambda value, _places: _round_floats(value, places)
    if places < 0:
        return python_rule(bound)
    if not bound.dtype.is_decimal:
        return lambda value, _places: value
    return checked(bound, lambda value, _places: rounded(value, places).cast(bound.dtype.arrow))


def _round_floats(value: pa.Array, places: int) -> pa.Array:
    """Round what a float64 prints as: exactly in the shortest digits, by floats where these cannot be near a tie."""
    x = numbers(value)
    result = np.zeros(len(x))
    slow = np.ones(len(x), bool)
    if 0 <= places <= 15:  # noqa: PLR2004 - 10**15 is exact, and leaves room
        with np.errstate(all="ignore"):
            scaled = np.abs(x) * 10.0**places
            whole = np.floor(scaled)
            rest = scaled - whole
            slow = ~((scaled < 1e9) & (np.abs(rest - 0.5) > 1e-6))  # noqa: PLR2004 - the product is off by 1e-7 at most
            result = np.copysign((whole + (rest > 0.5)) / 10.0**places, x) + 0.0  # noqa: PLR2004 - halves
    if slow.any():
        exactly = FUNCTIONS["round"].python
        found = by_distinct(plain_array(_FLOAT64, x[slow]), lambda v: exactly(v, places), _FLOAT64)
        result[slow] = numbers_of(found)
    return with_nulls(result, [value], _FLOAT64)


def _whole(bound: BoundCall) -> Apply:
    given, to = bound.args[0].dtype, bound.dtype
    if given.is_integer or given == to:
        return lambda value: value
    if given.is_decimal:
        mode = "down" if bound.function == "floor" else "up"
        return checked(bound, lambda value: fewer_places(value, 0, mode).cast(to.arrow))
    towards = kernel(bound.function)
    return checked(bound, lambda value: _floats_to_whole(towards(value)))


def _floats_to_whole(value: pa.Array) -> pa.Array:
    """Return whole floats as int64: NaN as 0, which is Java's cast."""
    known = pc.if_else(pc.is_nan(value), _ZERO, value)
    if pc.any(pc.greater_equal(pc.abs(known), arrow_scalar(2.0**63, _FLOAT64))).as_py():
        raise OverflowError
    return known.cast(pa.int64())


# Functions of floats.


def _sign(_bound: BoundCall) -> Apply:
    sign = kernel("sign")
    return lambda value: pc.if_else(pc.equal(value, _ZERO), value, sign(value))  # -0.0 stays


def _logarithm(name: str) -> Rule:
    compute = kernel(name)
    nothing = arrow_scalar(None, _FLOAT64)
    return lambda _bound: lambda value: pc.if_else(pc.less_equal(value, _ZERO), nothing, compute(value))


def _power(_bound: BoundCall) -> Apply:
    compute = kernel("power")

    def apply(*values: Any) -> pa.Array:
        base, exponent = spread(values)
        found = compute(base, exponent)
        # C takes 1 to any power, and -1 to an infinite one, for 1; Java takes these for NaN.
        odd = pc.and_(pc.equal(pc.abs(base), arrow_scalar(1.0, _FLOAT64)), pc.invert(pc.is_finite(exponent)))
        return pc.if_else(odd, arrow_scalar(math.nan, _FLOAT64), found)

    return apply


NUMBER_RULES: Final[dict[str, Rule]] = {
    "abs": lambda bound: checked(bound, kernel("abs_checked")),
    "round": _round,
    "floor": _whole,
    "ceil": _whole,
    "sign": _sign,
    "sqrt": plain("sqrt"),
    "ln": _logarithm("ln"),
    "log10": _logarithm("log10"),
    "log2": _logarithm("log2"),
    "power": _power,
    "isnan": lambda _bound: lambda value: pc.is_nan(value).fill_null(FALSE),
}
