"""Exact sums of floats by Catalyst: each float cut without error into parts, whose sums are whole numbers: limbs.

`NEAR` limbs hold what most tables have: all digits of floats from 2**-26, or 0.000000015, on, up to 2**45. Floats that
have bits elsewhere, NaN and the infinities raise `OUTSIDE`, as do more rows of a group than add up as floats: the step
is then taken again with `FAR`, and then with the kernels' sums, which have no limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
from pyspark.sql import DataFrame

from tidemill.renderer.spark.exact_parts import EXACT_BITS, ROUNDED_BITS, Chain, Part, rounded

OUTSIDE: Final = "tidemill: a float that limbs do not hold"
UNDECIDED: Final = "tidemill: a variance that sums of squares with a bound do not tell"

_DECIMAL_BITS: Final = 126
"""Numbers of so many bits have 38 decimal digits, the most that Spark's decimals may have."""
_RAISE: Final = f"raise_error('{OUTSIDE}')"


@attrs.frozen
class Limbs:
    """What limbs are multiples of, as powers of two: the first, and each of the others by ``width`` below."""

    first: int
    width: int
    count: int
    room: int = attrs.field(default=ROUNDED_BITS, kw_only=True)
    """How many bits a float's first limb may have: a sum of limbs has 63."""
    in_floats: bool = attrs.field(default=False, kw_only=True)
    """Whether parts of rows that are there once are added up as floats."""

    @property
    def units(self) -> list[int]:
        """The powers of two, the highest first."""
        return [self.first - self.width * i for i in range(self.count)]

    @property
    def in_one(self) -> int:
        """How many of the last unit are one."""
        return 1 << (self.width * (self.count - 1) - self.first)

    @property
    def most_rows(self) -> int:
        """Of how many rows parts of ``width`` bits add up as floats."""
        return 1 << (EXACT_BITS - self.width)

    def names(self, column: int) -> list[str]:
        """Return the names of the sums of the limbs of an input's column."""
        return [f"limb{column}_{i}" for i in range(self.count)]

    def chain(self, value: str) -> Chain:
        """Return how a float is cut into limbs."""
        return Chain(value, self.units[:-1])

    def parts(self, column: int, texts: Sequence[str]) -> dict[str, Part]:
        """Return what a chain came to, by the names of the sums; an error where limbs do not hold the float."""
        *others, rest = texts
        held = f"coalesce(abs(c{column}), 0D) < {2.0 ** (self.first + self.room)!r}D"
        last = f"IF({held} AND {rounded(rest, self.units[-1])} = {rest}, {rest}, CAST({_RAISE} AS double))"
        cuts = zip(self.names(column), [*others, last], self.units, strict=True)
        return {n: Part(text, u, few_bits=self.room <= self.width or u != self.first) for n, text, u in cuts}

    def counted(self, count: str) -> str:
        """Return the count of a group's rows; an error where they are too many to add up as floats."""
        return f"IF({count} <= {self.most_rows}L, {count}, CAST({_RAISE} AS bigint))" if self.in_floats else count

    def total(self, sums: Sequence[int]) -> float:
        """Return the float nearest to a sum of limbs."""
        return self.whole(sums) / self.in_one

    def whole(self, sums: Iterable[int]) -> int:
        """Return the number that limbs come to, in units of the last."""
        whole = 0
        for limb in sums:
            whole = (whole << self.width) + limb
        return whole

    def rounded(self, data: DataFrame, columns: Iterable[int]) -> tuple[DataFrame, dict[int, str]]:
        """Return lines of sums, with more columns if need be, and for each input's column the float that is its sum."""
        below = self.width * (self.count - 1)
        if below >= _DECIMAL_BITS:
            return self._rounded_by_digits(data, columns)
        return data, {c: self._rounded_as_decimal(self.names(c), _DECIMAL_BITS - 1 - below) for c in columns}

    def _rounded_as_decimal(self, sums: list[str], most: int) -> str:
        """Return the float nearest to limbs, the first of at most so many bits: a decimal, which Java rounds."""
        whole = " + ".join(
            f"CAST({s} AS decimal(20)) * {1 << (self.units[i] - self.units[-1])}BD" for i, s in enumerate(sums)
        )
        fits = f"{sums[0]} BETWEEN {-(1 << most)} AND {1 << most}"
        return f"IF({fits}, CAST({whole} AS double) * {2.0 ** self.units[-1]!r}D, CAST({_RAISE} AS double))"

    def _rounded_by_digits(self, data: DataFrame, columns: Iterable[int]) -> tuple[DataFrame, dict[int, str]]:
        """Return the same as `math.fsum` rounds.

        Carried over, limbs are digits, all but the first not negative. They are added up from the first on until one
        leaves an error; that is half of the last place at most, and where it is exactly that, what is below decides.
        """
        data = data.selectExpr("*", *(text for c in columns for text in self._digits(c)))
        for i in range(1, self.count + 1):
            made = []
            for c in columns:
                total, error, below = (f"{name}{c}_{i - 1}" for name in ("total", "error", "below"))
                digit = f"digit{c}_{i}"
                added = f"({total} + {digit})"
                made += [
                    f"IF({error} = 0D, {added}, {total}) AS total{c}_{i}",
                    f"IF({error} = 0D, {digit} - ({added} - {total}), {error}) AS error{c}_{i}",
                    f"{below} OR {error} <> 0D AND {digit} <> 0D AS below{c}_{i}",
                ]
            data = data.selectExpr("*", *made)
        return data, {
            c: _nearest(*(f"{name}{c}_{self.count}" for name in ("total", "error", "below"))) for c in columns
        }

    def _digits(self, column: int) -> list[str]:
        """Return the digits of a sum, as floats; one more than limbs, whose first may be too long for a float."""
        *others, carried = self.names(column)
        mask, digits = (1 << self.width) - 1, []
        for i, name in enumerate(reversed(others), 1):
            digits.append(f"({carried} & {mask}L) * {2.0 ** self.units[-i]!r}D")
            carried = f"({name} + shiftright({carried}, {self.width}))"
        digits.append(f"({carried} & {mask}L) * {2.0**self.first!r}D")
        digits.append(f"shiftright({carried}, {self.width}) * {2.0 ** (self.first + self.width)!r}D")
        first, *rest = digits[::-1]
        start = [f"{first} AS total{column}_0", f"0D AS error{column}_0", f"false AS below{column}_0"]
        return [*start, *(f"{text} AS digit{column}_{i}" for i, text in enumerate(rest, 1))]


def _nearest(total: str, error: str, below: str) -> str:
    """Return a total, or the float after it, where the error is half of the way there and something is below."""
    after = f"({total} + 2D * {error})"
    return f"IF({below} AND {error} > 0D AND {after} - {total} = 2D * {error}, {after}, {total})"


NEAR: Final = Limbs(-6, 24, 4, in_floats=True)
FAR: Final = Limbs(20, 36, 5)
