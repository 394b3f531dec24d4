"""The meaning of aggregates: the value of each for a multiset of rows, computed exactly and rounded once."""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

from tidemill.boundary.list_columns import MOST_VALUES
from tidemill.boundary.values import INT64_LIMIT, NAN, canonical_float
from tidemill.expressions.aggregates import ORDERED, BoundAggregate
from tidemill.expressions.functions.values import value_order
from tidemill.expressions.types import DType
from tidemill.renderer.reference.ordering import in_order
from tidemill.renderer.reference.traces import Contents

Multiset = dict[Any, int]


def aggregate(bound: BoundAggregate, rows: Contents) -> Any:  # noqa: PLR0911 - one line a function
    """Return the value of an aggregate for a group; ``OverflowError`` where its type cannot hold it."""
    if bound.column is None:
        return _integer(sum(rows.values()))
    if bound.function in ORDERED:
        return _of_ordered(bound, taking_part(bound, rows))
    values = _known_values(rows, bound.column)
    count = sum(values.values())
    if bound.function == "count":
        return _integer(count)
    if bound.function in ("min", "max"):
        choose = min if bound.function == "min" else max
        return choose(values, key=value_order, default=None)
    if count == 0:
        return None
    if bound.function == "bool_or":
        return values.get(True, 0) > 0
    if bound.function == "bool_and":
        return values.get(False, 0) <= 0
    if bound.function in ("variance", "stddev"):
        return _spread(values, count, bound)
    return (_sum if bound.function == "sum" else _avg)(values, count, bound)


def taking_part(bound: BoundAggregate, rows: Contents) -> Contents:
    """Return the rows that an aggregate looks at, with their counts: those for which its condition is true."""
    return rows if bound.condition is None else {r: n for r, n in rows.items() if r[bound.condition] is True}


def _of_ordered(bound: BoundAggregate, rows: Contents) -> Any:
    """Return the first value in an order, the last one, or all of them; NULL is a value as any other."""
    assert bound.column is not None
    ordered = in_order(rows, bound.order)
    if bound.function == "list":
        length = sum(rows.values())
        if length > MOST_VALUES:
            raise OverflowError
        return tuple(row[bound.column] for row in ordered for _ in range(rows[row]))
    if not ordered:
        return None
    return ordered[0 if bound.function == "first" else -1][bound.column]


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
