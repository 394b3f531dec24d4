"""The values of aggregates, from exact sums and counts, of all groups or frames at once.

Sums are int64, or Python's numbers in object arrays, in units of the last digit of their values' type; results are
rounded once. Sums of floats are rounded before. There are values ``some``where, or everywhere if that is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes, is_long_decimal
from tidemill.renderer.embedded.kernels.long_decimals import codes_of
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints, largest

Refuse: TypeAlias = Callable[[Bools], object]
"""Raises an error for values that do not fit, where they are marked, unless nobody asks for these."""

_EXACT: Final = 1 << 53
"""Whole numbers up to this are floats, and the quotient of two floats is rounded correctly."""


def room_of(function: str, given: DType, to: DType) -> int:
    """Return by how much numbers may grow while a sum is made a value."""
    return 4 * 10 ** (to.scale - given.scale) if function == "avg" and to.is_decimal else 1


def value_codes(  # noqa: PLR0917 - sums with all that makes values of them
    function: str,
    totals: Any,
    counts: Any,
    some: Bools | None,
    types: tuple[DType, DType],
    interner: Interner,
    refuse: Refuse,
) -> Ints:
    """Return the codes of a sum, a mean, or whether any or all values are true, from sums of whole numbers.

    Types are those of the values and of the result. Sums themselves need no counts. In int64 there has to be room for
    what `room_of` tells.
    """
    given, to = types
    if function in ("bool_or", "bool_and"):
        return or_null(some, totals > 0 if function == "bool_or" else counts - totals <= 0)
    if function == "avg":
        counts = filled(some, counts, 1)
        if not to.is_decimal:
            return or_null(some, float_codes(quotients(totals, counts)))
        sign = np.sign(counts)
        totals = halves_up(totals * sign * 10 ** (to.scale - given.scale), counts * sign)
    limit = 10**to.precision - 1 if to.is_decimal else INT64_LIMIT
    if totals.dtype == object or limit < INT64_LIMIT:
        beyond = ((totals > limit) | (totals < -limit)).astype(np.bool_, copy=False)
        beyond = beyond if some is None else beyond & some
        if beyond.any():
            refuse(beyond)
            totals = np.where(beyond, 0, totals)
    if is_long_decimal(to):
        return or_null(some, codes_of(filled(some, totals), interner))
    return or_null(some, filled(some, totals).astype(np.int64, copy=False))


def mean_codes(totals: Any, counts: Ints, some: Bools | None) -> Ints:
    """Return the codes of means of floats, whose sums are given."""
    with np.errstate(invalid="ignore", over="ignore"):
        return or_null(some, float_codes(totals / filled(some, counts, 1)))


def spread_codes(  # noqa: PLR0917 - likewise
    function: str, totals: Any, squares: Any, counts: Ints, in_one: int, special: Bools | None
) -> Ints:
    """Return the codes of sample variances or their roots, from sums, and sums of squares in units of 1 / ``in_one``.

    NULL for fewer than two values, NaN where there are ``special`` ones.
    """
    several = counts > 1
    numbers = counts if max(largest(counts), 1) ** 2 * in_one <= INT64_LIMIT else counts.astype(object)
    pairs = np.where(several, numbers * (numbers - 1), 1)
    found = quotients(squares * numbers - totals * totals, pairs * in_one)
    if function == "stddev":
        with np.errstate(invalid="ignore"):  # counts may be negative
            found = np.sqrt(found)
    if special is not None:
        found = np.where(special, math.nan, found)
    return or_null(several, float_codes(found))


def or_null(some: Bools | None, codes: Ints) -> Ints:
    """Return codes, NULL where there are no values."""
    return codes if some is None else np.where(some, codes, NULL)


def filled(some: Bools | None, values: Any, other: int = 0) -> Any:
    """Return numbers, and another one where there are none."""
    return values if some is None else np.where(some, values, other)


def quotients(numerators: Any, denominators: Any) -> Any:
    """Return correctly rounded float quotients of int64 or of Python numbers in object arrays; no denominator is 0.

    >>> quotients(np.array([1, 2**62 + 1]), np.array([3, 2])).tolist()
    [0.3333333333333333, 2.305843009213694e+18]
    """
    if numerators.dtype == denominators.dtype == np.int64 and max(map(largest, (numerators, denominators))) <= _EXACT:
        return numerators / denominators
    small = (np.abs(numerators) <= _EXACT) & (np.abs(denominators) <= _EXACT)
    small = small.astype(np.bool_, copy=False)
    result = np.empty(len(numerators))
    result[small] = numerators[small].astype(np.float64) / denominators[small].astype(np.float64)
    large = ~small
    result[large] = _quotients(numerators[large].astype(object), denominators[large].astype(object))
    return result


def _quotient(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:  # rounds to infinity
        return math.inf if (numerator > 0) == (denominator > 0) else -math.inf


_quotients = np.frompyfunc(_quotient, 2, 1)


def halves_up(numerators: Any, denominators: Any) -> Any:
    """Return quotients rounded to whole numbers, halves away from zero; denominators are positive.

    >>> halves_up(np.array([5, -5, 4]), np.array([2, 2, 3])).tolist()
    [3, -3, 1]
    """
    size = np.abs(numerators)
    rounded = size // denominators
    rounded = rounded + (2 * (size - rounded * denominators) >= denominators)
    return np.where(numerators < 0, -rounded, rounded)
