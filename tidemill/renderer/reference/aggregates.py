"""What aggregates mean: the value of each for a multiset of rows, computed exactly and rounded once."""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

from tidemill.collections.aggregates import BoundAggregate
from tidemill.collections.types import DType
from tidemill.collections.validation import INT64_LIMIT, NAN, canonical_float
from tidemill.renderer.reference.traces import Contents, Row

__all__ = ["aggregate", "order"]

Multiset = dict[Any, int]


def aggregate(bound: BoundAggregate, rows: Contents) -> Any:  # noqa: PLR0911 - one line a function
    """Return the value of an aggregate for a group; ``OverflowError`` where its type cannot hold it."""
    if bound.column is None:
        return _integer(sum(rows.values()))
    values = _known_values(rows, bound.column)
    count = sum(values.values())
    if bound.function == "count":
        return _integer(count)
    if bound.function in ("min", "max"):
        choose = min if bound.function == "min" else max
        return choose(values, key=_value_order, default=None)
    if count == 0:
        return None
    if bound.function == "bool_or":
        return values.get(True, 0) > 0
    if bound.function == "bool_and":
        return values.get(False, 0) <= 0
    if bound.function in ("variance", "stddev"):
        return _spread(values, count, bound)
    return (_sum if bound.function == "sum" else _avg)(values, count, bound)


def order(row: Row) -> list[tuple[bool, bool, Any]]:
    """Return the key by which rows are sorted: column by column, nulls first, NaN greatest."""
    return [(False, False, False) if v is None else (True, *_value_order(v)) for v in row]


def _value_order(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def _known_values(rows: Contents, column: int) -> Multiset:
    """Return the values of a column that are not NULL, each with its count, which is not zero."""
    values: Multiset = defaultdict(int)
    for row, count in rows.items():
        if row[column] is not None:
            values[row[column]] += count
    return {value: count for value, count in values.items() if count}


def _sum(values: Multiset, _count: int, bound: BoundAggregate) -> Any:
    if bound.output.is_integer:
        return _integer(sum(value * count for value, count in values.items()))
    if bound.output.is_decimal:
        return _decimal(_exact_sum(values), bound.output)
    return _float_sum(values)


def _avg(values: Multiset, count: int, bound: BoundAggregate) -> Any:
    if bound.output.is_decimal:
        return _decimal(_exact_sum(values) / count, bound.output)
    if bound.input is not None and bound.input.is_integer:
        return canonical_float(sum(value * n for value, n in values.items()) / count)  # of two ints: rounded once
    return canonical_float(_float_sum(values) / count)


def _spread(values: Multiset, count: int, bound: BoundAggregate) -> float | None:
    """Return the sample variance or its root; None for fewer than two values."""
    if count < 2:  # noqa: PLR2004 - two values make a spread
        return None
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return NAN
    squares = sum((Fraction(value) ** 2 * n for value, n in values.items()), Fraction())
    exact = (squares * count - _exact_sum(values) ** 2) / (count * (count - 1))
    try:
        variance = canonical_float(float(exact))
    except OverflowError:
        variance = math.inf if exact > 0 else -math.inf
    if bound.function == "variance":
        return variance
    return canonical_float(math.sqrt(variance)) if variance >= 0 else NAN


def _exact_sum(values: Multiset) -> Fraction:
    return sum((Fraction(value) * count for value, count in values.items()), Fraction())


def _float_sum(values: Multiset) -> float:
    """Return the correctly rounded sum; with a NaN, or infinities of both signs, NaN, as IEEE adds them."""
    special = {math.copysign(v, v * n) for v, n in values.items() if math.isinf(v)}
    if any(math.isnan(v) for v in values) or len(special) == 2:  # noqa: PLR2004 - both infinities
        return NAN
    if special:
        return special.pop()
    exact = _exact_sum(values)
    try:
        return float(exact)
    except OverflowError:  # rounds to infinity
        return math.inf if exact > 0 else -math.inf


def _integer(value: int) -> int:
    if abs(value) > INT64_LIMIT:
        raise OverflowError
    return value


def _decimal(value: Fraction, to: DType) -> decimal.Decimal:
    """Return a fraction as a decimal of that scale, halves rounded away from zero."""
    digits = abs(value) * 10**to.scale
    rounded = math.floor(digits + Fraction(1, 2))
    if rounded >= 10**to.precision:
        raise OverflowError
    with decimal.localcontext(prec=100):
        return decimal.Decimal(rounded if value >= 0 else -rounded).scaleb(-to.scale)
