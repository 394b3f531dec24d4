"""Decimals: Spark's rules of digits, kept by Arrow where it has them, else with more digits or row by row."""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.expressions.bound import BoundCall
from tidemill.renderer.embedded.expressions.casts import round_decimal
from tidemill.renderer.embedded.expressions.kernels import Apply, spread
from tidemill.renderer.embedded.expressions.places import rounded


def decimal_rule(bound: BoundCall, compute: Apply) -> Apply:
    """Arrow has Spark's rules up to 38 digits; beyond, compute with twice as many and round."""
    a, b = (arg.dtype for arg in bound.args)
    to = bound.dtype.arrow
    probe = (pa.array([], pa.decimal256(t.precision, t.scale)) for t in (a, b))
    try:
        exact = compute(*probe).type
    except pa.ArrowInvalid:
        return by_row(bound)  # 77 digits: more than Arrow has
    if exact.precision <= to.precision:
        return compute
    wide = [pa.decimal256(t.precision, t.scale) for t in (a, b)]

    def apply(x: Any, y: Any) -> Any:
        found = _in_few_digits(compute, x, y)
        if found is None:
            found = compute(x.cast(wide[0]), y.cast(wide[1]))
        return rounded(found, to.scale).cast(to)

    return apply


def _in_few_digits(compute: Apply, x: Any, y: Any) -> Any:
    """Return the exact result, computed in as many digits as the values have; None where 38 are not enough for it.

    Types say how many digits there may be. Mostly there are fewer, and 128 bits take a fifth of the time of 256.
    """
    few = [pa.decimal128(_digits(value), value.type.scale) for value in (x, y)]
    try:
        compute(*(pa.array([], t) for t in few))
    except pa.ArrowInvalid:
        return None
    return compute(x.cast(few[0]), y.cast(few[1]))


def _digits(value: Any) -> int:
    """Return how many digits the decimals of a column have, or a single one, those after the point included."""
    ends = [value.as_py()] if isinstance(value, pa.Scalar) else pc.min_max(value).as_py().values()
    scale: int = value.type.scale
    digits: list[int] = [end.adjusted() + 1 + scale for end in ends if end]  # neither none nor zero
    return max(1, scale, *digits)


def by_row(bound: BoundCall) -> Apply:
    """Python's decimals, row by row: for what Arrow has not, or only with other results."""
    operate, to = _DECIMAL[bound.function], bound.dtype

    def exact(x: decimal.Decimal | None, y: decimal.Decimal | None) -> Any:
        if x is None or y is None:
            return None
        result = operate(x, y)
        return round_decimal(result, to) if to.is_decimal else int(result)

    def apply(*values: Any) -> Any:
        columns = [v.to_pylist() for v in spread(values)]
        with decimal.localcontext(prec=200):
            return pa.array(map(exact, *columns), to.arrow)

    return apply


def _quotient(x: decimal.Decimal, y: decimal.Decimal) -> decimal.Decimal:
    """Return a quotient as Spark makes it: to 39 places first."""
    return _not_zero(x, y).__truediv__(y).quantize(_PLACES, decimal.ROUND_HALF_UP)


def _not_zero(x: decimal.Decimal, y: decimal.Decimal) -> decimal.Decimal:
    if y == 0:
        raise ZeroDivisionError
    return x


def _positive(x: decimal.Decimal, y: decimal.Decimal) -> decimal.Decimal:
    rest = _not_zero(x, y) % y
    return (rest + y) % y if rest < 0 else rest


_PLACES: Final = decimal.Decimal(1).scaleb(-39)
_DECIMAL: Final[dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _quotient,
    "int_divide": lambda x, y: _not_zero(x, y) // y,
    "floor_divide": lambda x, y: decimal.Decimal(math.floor(_not_zero(x, y) / y)),
    "modulo": lambda x, y: _not_zero(x, y) % y,
    "pmod": _positive,
}
