"""Exact sums of floats by Catalyst: each float cut without error into parts, whose sums are whole numbers: limbs.

`NEAR` limbs hold what most tables have: all digits of floats from 2**-26, or 0.000000015, on, up to 2**45. Floats that
have bits elsewhere, NaN and the infinities raise `OUTSIDE`, as do more rows of a group than add up as floats: the step
is then taken again with `FAR`, and then with the kernels' sums, which have no limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from tidemill.renderer.spark.exact_parts import EXACT_BITS, ROUNDED_BITS, Chain, Part, rounded

OUTSIDE: Final = "tidemill: a float that limbs do not hold"

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

    def as_decimal(self, column: int) -> str | None:
        """Return the float nearest to a column's limbs, a decimal that Java rounds; None where limbs are too many."""
        most = _DECIMAL_BITS - 1 - self.width * (self.count - 1)
        if most < 0:
            return None
        sums = self.names(column)
        whole = " + ".join(
            f"CAST({s} AS decimal(20)) * {1 << (self.units[i] - self.units[-1])}BD" for i, s in enumerate(sums)
        )
        fits = f"{sums[0]} BETWEEN {-(1 << most)} AND {1 << most}"
        return f"IF({fits}, CAST({whole} AS double) * {2.0 ** self.units[-1]!r}D, CAST({_RAISE} AS double))"


NEAR: Final = Limbs(-6, 24, 4, in_floats=True)
FAR: Final = Limbs(20, 36, 5)
