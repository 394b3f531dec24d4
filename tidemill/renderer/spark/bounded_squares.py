"""Variances of floats by Catalyst from squares whose sum is known but for a small error: most often that tells them.

A square's first bits are cut into three places, whose sums are exact; what is left is added up as floats, as it comes.
The sum of squares then is between two numbers. If the variances that these would make are the same float, it is that of
the group, for rounding does not change the order of numbers. Else the step is taken again with exact squares, which are
twice as many places and take Spark a fifth longer. No bounds tell a variance of zero; the greatest value does.

How small the error is. Of n rows, at most 2**22, let p be the squares as they are rounded, e their errors, r what is
left of p after its places, |r| <= u with u half of the last place's unit. Cutting is exact, as is e; |e| <= 2**-53 p.
Added up as floats are the numbers r + e, each rounded, in any order: at most n roundings on the way of each, none of
which is by more than 2**-53 of its result. By the usual bound (Higham 2002, 4.2) the sum is wrong by at most

    g sum |r + e| <= g (n u + 2**-53 sum p),  where g = n 2**-53 / (1 - n 2**-53) <= 2**-53 n (1 + 2**-30)

The sum of p is that of squares, Q, but for 2**-53 of it, and Q what was found but for the error; so with |found| for
sum p, and 2**-52 for 2**-53, the bound is more than that. A place is exact: the first has parts that are not negative,
so that no sum on the way was greater than the last one, which is checked to have 53 bits; the others' have 31 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from tidemill.renderer.embedded.reduce.aggregates import variance
from tidemill.renderer.spark.exact_floats import FAR, NEAR, UNDECIDED, Limbs
from tidemill.renderer.spark.exact_parts import EXACT_BITS, Chain
from tidemill.renderer.spark.exact_squares import FAR_SQUARED, NEAR_SQUARED, Squares, error, product, upper

_PLACES: Final = 3
_WIDTH: Final = 32
"""How far apart places are: then their parts have 31 bits and a sign."""


class UndecidedError(Exception):
    """Raised where bounds of a group's squares do not tell its variance."""


@attrs.frozen
class _Aggregate:
    """What is not made a whole number once it is added up, which is the driver's to do."""

    call: str

    def sum(self, *, in_floats: bool, times: str = "") -> str:
        """Return the aggregate of rows that are there once."""
        assert in_floats
        assert not times
        return self.call


@attrs.frozen
class Bounded:
    """The limbs of floats, and the first place of their squares: it, as a power of two, and two places below."""

    limbs: Limbs
    first: int

    @property
    def units(self) -> list[int]:
        """The powers of two of which squares' places are multiples, the highest first."""
        return [self.first - _WIDTH * i for i in range(_PLACES)]

    def names(self, column: int) -> list[str]:
        """Return the names of the sums of the places, of that of what is left, and of the greatest value."""
        return [*(f"square{column}_{i}" for i in range(_PLACES + 1)), f"greatest{column}"]

    def selects(self, values: Mapping[int, str]) -> list[list[str]]:
        """Return the select of products, and of what their errors are made of."""
        return [[text for c, value in values.items() for text in (upper(c, value), product(c, value))]]

    def chains(self, column: int) -> dict[str, Chain]:
        """Return how products are cut."""
        return {f"product{column}": Chain(f"c{column}_product", self.units)}

    def parts(self, column: int, value: str, cuts: Mapping[str, list[str]]) -> dict[str, _Aggregate]:
        """Return the sums, and the greatest value."""
        *places, rest = cuts[f"product{column}"]
        rest = f"{rest} + {error(column, value, f'c{column}_product')}"
        calls = [*(f"sum({text})" for text in (*places, rest)), f"max(c{column})"]
        return {name: _Aggregate(call) for name, call in zip(self.names(column), calls, strict=True)}

    def bounds(self, sums: Sequence[float], count: int) -> tuple[int, int]:
        """Return what the sum of squares is not below and not above, in units of the last limb's square."""
        if not 0 <= sums[0] < 2.0 ** (self.first + EXACT_BITS):
            raise UndecidedError(UNDECIDED)
        bits = 2 * self.limbs.in_one.bit_length() - 2  # below one; whatever is added up is a multiple of the last
        found = sum(int(math.ldexp(x, bits)) for x in sums)
        half = 1 << (bits + self.units[-1] - 1)
        most = count * (count * half + (abs(found) >> EXACT_BITS) + 1)
        most = (most >> (EXACT_BITS - 1)) + 1
        return found - most, found + most

    def variance(self, limbs: Iterable[int], squares: Sequence[float], count: int) -> float | None:
        """Return the variance of a group, rounded once; `UndecidedError` where that is not known."""
        if count < 2:  # noqa: PLR2004
            return None
        *sums, greatest = squares
        total = self.limbs.whole(limbs)
        if total == count * int(greatest * self.limbs.in_one):  # no value is less than the greatest
            return 0.0
        least, most = (
            variance(total, of_squares, count, self.limbs.in_one**2) for of_squares in self.bounds(sums, count)
        )
        if least != most:
            raise UndecidedError(UNDECIDED)
        return least


@attrs.frozen
class FloatSums:
    """How Catalyst adds up floats: by limbs, and with squares where variances are wanted."""

    limbs: Limbs
    squares: Squares
    squares_of_rows: Squares
    """The squares of rows that are there once, at one time."""

    @classmethod
    def exact(cls, limbs: Limbs, squares: Squares) -> FloatSums:
        """Return sums with the same squares of all updates."""
        return cls(limbs, squares, squares)


BOUNDED: Final = Bounded(NEAR_SQUARED.limbs, 16)
"""Whose places have the first bits of squares of up to 2**30, of up to 2**69 together; what is left is below 2**-48."""
FIRST: Final = FloatSums(NEAR, NEAR_SQUARED, BOUNDED)
EXACT: Final = FloatSums.exact(NEAR, NEAR_SQUARED)
LONG: Final = FloatSums.exact(FAR, FAR_SQUARED)
