"""Exact sums of floats by Catalyst: each float split without error into whole numbers, whose sums are exact.

A float is cut into limbs: rounded to a multiple of 2**-14, say, what is left, which is exact, to one of 2**-46, and so
on. All but the first limb are so small that hundreds of millions of them add up in 64 bits; where limbs do not, that is
an error in ANSI mode.

`THREE` limbs hold what most tables have: all digits of floats from 2**-26, or 0.000000015, on, with sums up to 2**47.
Floats that have bits elsewhere, NaN and the infinities raise `OUTSIDE`: the step is then taken again with `FIVE`, and
then with the kernels' sums, which have no limits.

All is SQL text, since a Column is many calls to Java; and few projections, for each takes Catalyst as long as many
rows. Within one, or an aggregation, Catalyst computes once what several columns depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
from pyspark.sql import DataFrame

__all__ = ["FIVE", "OUTSIDE", "THREE", "Limbs"]

OUTSIDE: Final = "tidemill: a float that limbs do not hold"

_DECIMAL_BITS: Final = 126
"""Numbers of so many bits have 38 decimal digits, the most that Spark's decimals may have."""
_LIMBS_AS_TEXTS: Final = 3
_RAISE: Final = f"raise_error('{OUTSIDE}')"


@attrs.frozen
class Limbs:
    """What limbs are multiples of, as powers of two: the first, and each of the others by ``width`` below."""

    first: int
    width: int
    count: int
    room: int = attrs.field(default=56, kw_only=True)
    """How many bits a float's first limb may have: a sum of limbs has 63."""

    @property
    def units(self) -> list[int]:
        """The powers of two, the highest first."""
        return [self.first - self.width * i for i in range(self.count)]

    def names(self, column: int) -> list[str]:
        """Return the names of the sums of the limbs of an input's column."""
        return [f"limb{column}_{i}" for i in range(self.count)]

    def split(self, data: DataFrame, columns: Mapping[int, bool]) -> tuple[DataFrame, dict[int, dict[str, str]]]:
        """Return updates, and of these columns of floats the limbs, by the names of their sums; NULL has none.

        Each column may have NULL or not. Up to three limbs are texts on what there is, in which Catalyst finds what is
        the same and computes it once: each projection would take it as long as many rows. The texts of more limbs would
        double with each.
        """
        rests = {c: f"coalesce(c{c}, 0D)" if nullable else f"c{c}" for c, nullable in columns.items()}
        wholes: dict[int, list[str]] = {c: [] for c in columns}
        for i, unit in enumerate(self.units[:-1]):
            made = []
            for c, rest in rests.items():
                part = f"rint({rest} * {2.0**-unit!r}D)"
                left = f"({rest} - {part} * {2.0**unit!r}D)"
                if self.count > _LIMBS_AS_TEXTS:
                    made += [f"{part} AS part{c}_{i}", f"{left} AS rest{c}_{i}"]
                    part, left = f"part{c}_{i}", f"rest{c}_{i}"
                wholes[c].append(f"floor({part})")
                rests[c] = left
            data = data.selectExpr("*", *made) if made else data
        return data, {
            c: dict(zip(self.names(c), [*wholes[c], self._last(c, rest)], strict=True)) for c, rest in rests.items()
        }

    def _last(self, column: int, rest: str) -> str:
        """Return the last limb, of what the others leave; an error where the limbs do not hold the float."""
        rest = f"({rest} * {2.0 ** -self.units[-1]!r}D)"
        held = f"coalesce(abs(c{column}), 0D) < {2.0 ** (self.first + self.room)!r}D AND rint({rest}) = {rest}"
        return f"IF({held}, floor({rest}), CAST({_RAISE} AS bigint))"

    def total(self, sums: Sequence[int]) -> float:
        """Return the float nearest to a sum of limbs."""
        whole = 0
        for limb in sums:
            whole = (whole << self.width) + limb
        return whole / (1 << -self.units[-1])

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


THREE: Final = Limbs(-14, 32, 3)
FIVE: Final = Limbs(20, 36, 5)
