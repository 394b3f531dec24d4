"""Exact sums in Python's numbers, and what aggregates make of them: for blocks, summaries and the driver of Spark.

Sums of many groups at once are those of the embedded engine's kernels; these are the same, one by one.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tidemill.boundary.values import NAN, canonical_float
from tidemill.expressions.types import FLOAT64, DType

__all__ = ["Exact", "mean", "root", "sum_of", "together", "variance", "variance_of"]

_ALL_DIGITS: Final = decimal.Context(prec=80)


class Exact(NamedTuple):
    """A sum of numbers: a whole number of a power of two, and how many NaN and infinities are beside it.

    Of decimals it counts units of their last place.
    """

    whole: int = 0
    unit: int = 0
    nan: int = 0
    plus: int = 0
    minus: int = 0

    @classmethod
    def of(cls, value: Any, dtype: DType, power: int = 1) -> Exact:
        """Return a value of a type, or a power of it.

        >>> Exact.of(0.75, FLOAT64)
        Exact(whole=3, unit=-2, nan=0, plus=0, minus=0)
        """
        if dtype != FLOAT64:
            units = value.scaleb(dtype.scale, _ALL_DIGITS) if dtype.is_decimal else value
            return cls(int(units) ** power)
        if not math.isfinite(value):
            return cls(nan=int(value != value), plus=int(value > 0), minus=int(value < 0))  # noqa: PLR0124 - NaN
        number, parts = value.as_integer_ratio()
        return cls(number**power, (1 - parts.bit_length()) * power)

    def at_unit(self, unit: int) -> int:
        """Return the sum as a whole number of another unit, which is not larger."""
        return self.whole << (self.unit - unit)

    @property
    def special(self) -> float | None:
        """What NaN and infinities make of the sum; None where there are none."""
        if not (self.nan or self.plus or self.minus):
            return None
        return NAN if self.nan or (self.plus and self.minus) else math.inf if self.plus else -math.inf

    def rounded(self) -> float:
        """Return the float next to the sum.

        >>> Exact(1, 60).rounded(), together([Exact.of(0.1, FLOAT64)] * 10).rounded(), Exact(plus=2).rounded()
        (1.152921504606847e+18, 1.0, inf)
        """
        if self.special is not None:
            return self.special
        try:
            return self.whole / (1 << -self.unit) if self.unit < 0 else float(self.whole << self.unit)
        except OverflowError:
            return math.inf if self.whole > 0 else -math.inf


def together(sums: Iterable[Exact]) -> Exact:
    """Return what sums come to together."""
    wholes, units, *others = zip(*(list(sums) or [Exact()]), strict=True)
    unit = min(units)
    whole = sum([w << u - unit for w, u in zip(wholes, units, strict=True)])
    return Exact(whole, unit, *map(sum, others))


def sum_of(total: Exact, given: DType, to: DType) -> Any:
    """Return the value of a sum of numbers of a type; ``OverflowError`` where its own type does not hold it."""
    return total.rounded() if to == FLOAT64 else _decimal(total.at_unit(0) * 10 ** (to.scale - given.scale), to)


def mean(total: Exact, count: int, given: DType, to: DType) -> Any:
    """Return the mean: of floats the rounded sum over the count, else rounded once, decimals with halves up."""
    if given == FLOAT64:
        return canonical_float(total.rounded() / count)
    if not to.is_decimal:
        return canonical_float(total.at_unit(0) / count)
    whole = total.at_unit(0)
    units = (2 * abs(whole) * 10 ** (to.scale - given.scale) + count) // (2 * count)
    return _decimal(units if whole >= 0 else -units, to)


def _decimal(units: int, to: DType) -> decimal.Decimal:
    if abs(units) >= 10**to.precision:
        msg = f"{units} units of the last place do not fit {to}"
        raise OverflowError(msg)
    return decimal.Decimal(units).scaleb(-to.scale, _ALL_DIGITS)


def variance(total: Exact, squares: Exact, count: int, given: DType) -> float | None:
    """Return the sample variance, rounded once, from a sum and that of squares; None for fewer than two values."""
    if count < 2:  # noqa: PLR2004
        return None
    if total.special is not None:
        return NAN
    unit = min(total.unit, squares.unit // 2, 0)
    in_one = 10 ** (2 * given.scale if given.is_decimal else 0) << -2 * unit
    return variance_of(total.at_unit(unit), squares.at_unit(2 * unit), count, in_one)


def variance_of(total: int, squares: int, count: int, in_one: int) -> float:
    """Return the variance of at least two numbers, of whose squares so many units are one."""
    above = squares * count - total * total
    try:
        return above / (count * (count - 1) * in_one)
    except OverflowError:
        return math.inf if above > 0 else -math.inf


def root(variance: float) -> float:
    """Return the standard deviation of a variance; NaN of a negative one, which counts may make."""
    return math.sqrt(variance) if variance >= 0 else NAN
