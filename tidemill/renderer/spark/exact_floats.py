"""Exact sums of floats by Catalyst: each float split without error into whole numbers, whose sums are exact.

A float is cut into limbs: multiples of 2**20, 2**-16, 2**-52, 2**-88 and 2**-124. Adding 1.5 * 2**(k + 52) to it and
taking that away again rounds it to a multiple of 2**k, in double arithmetic as Java has it; what is left is exact, and
is cut at the next power. All but the first limb are at most 2**35 in size, so hundreds of millions of them add up in
64 bits; where they do not, that is an error in ANSI mode. Of a group's sums, carried over, the leading 62 bits and one
more that says whether there is anything below make one integer, and Java's conversion to a double rounds that correctly.

Floats that have bits elsewhere, NaN and the infinities raise `OUTSIDE`: the step is then taken again with the kernels'
sums, which have no limits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

__all__ = ["LIMBS", "OUTSIDE", "limb", "with_limbs", "with_rounded_sums"]

OUTSIDE: Final = "tidemill: a float that five limbs do not hold"

_WIDTH: Final = 36
_UNITS: Final = (20, -16, -52, -88, -124)
"""What the limbs are multiples of, as powers of two."""
LIMBS: Final = len(_UNITS)
_LIMIT: Final = 2.0**70
"""Below it, rounding to a multiple of the first unit is exact to half of that."""
_MANTISSA: Final = 52
_MASK: Final = (1 << _WIDTH) - 1
_LEADING: Final = 62
"""How many bits of a sum are rounded to the 53 of a double."""


def limb(column: int, place: int) -> str:
    """Return the name of the column that has the limb in a place, or its sum, of an input's column."""
    return f"limb{column}_{place}"


def with_limbs(data: DataFrame, columns: Iterable[int]) -> DataFrame:
    """Return updates with the limbs of these columns of floats beside them; of NULL all are 0.

    Step by step, each a projection of its own, so that Catalyst computes what several limbs depend on once.
    """
    columns = list(columns)
    outside = F.raise_error(F.lit(OUTSIDE))
    rests = {}
    for c in columns:
        value = F.coalesce(F.col(f"c{c}"), F.lit(0.0))
        rests[c] = F.when(F.abs(value) < _LIMIT, value).otherwise(outside.cast("double"))
    data = _beside(data, {_rest(c): value for c, value in rests.items()})
    for place, unit in enumerate(_UNITS):
        far = 1.5 * 2.0 ** (unit + _MANTISSA)
        data = _beside(data, {_cut(c): F.col(_rest(c)) + F.lit(far) - F.lit(far) for c in columns})
        cut = {limb(c, place): (F.col(_cut(c)) * F.lit(2.0**-unit)).cast("bigint") for c in columns}
        data = _beside(data, {**cut, **{_rest(c): F.col(_rest(c)) - F.col(_cut(c)) for c in columns}})
    last = {
        c: F.when(F.col(_rest(c)) == 0.0, F.col(limb(c, LIMBS - 1))).otherwise(outside.cast("bigint")) for c in columns
    }
    return _beside(data, {limb(c, LIMBS - 1): value for c, value in last.items()})


def with_rounded_sums(data: DataFrame, sums: dict[int, str]) -> DataFrame:
    """Return lines with one float for the sums of a column's limbs, correctly rounded, by its name in ``sums``."""
    data = _beside(data, {f"negative{c}": _carried(_limbs(c))[0] < 0 for c in sums})
    size = {limb(c, i): F.when(F.col(f"negative{c}"), -s).otherwise(s) for c in sums for i, s in enumerate(_limbs(c))}
    data = _beside(data, size)
    data = _beside(data, {limb(c, i): d for c in sums for i, d in enumerate(_digits(_limbs(c)))})
    data = _beside(data, {name: value for c in sums for name, value in _leading_limbs(c).items()})
    data = _beside(data, {name: value for c in sums for name, value in _joined_limbs(c).items()})
    data = _beside(data, {f"room{c}": _room(c) for c in sums})
    return _beside(data, {name: _rounded(c) for c, name in sums.items()})


def _beside(data: DataFrame, made: dict[str, Column]) -> DataFrame:
    kept = [name for name in data.columns if name not in made]
    return data.select(*kept, *(value.alias(name) for name, value in made.items()))


def _rest(column: int) -> str:
    return f"rest{column}"


def _cut(column: int) -> str:
    return f"cut{column}"


def _limbs(column: int) -> list[Column]:
    return [F.col(limb(column, i)) for i in range(LIMBS)]


def _carried(limbs: list[Column]) -> list[Column]:
    """Return limbs, the highest first, each with what the lower ones carry."""
    found = [limbs[-1]]
    for value in reversed(limbs[:-1]):
        found.append(value + F.shiftright(found[-1], _WIDTH))
    return found[::-1]


def _digits(limbs: list[Column]) -> list[Column]:
    """Return the digits of a sum that is not negative: all but the first have 36 bits."""
    first, *others = _carried(limbs)
    return [first, *(value.bitwiseAND(F.lit(_MASK)) for value in others)]


def _leading_limbs(column: int) -> dict[str, Column]:
    """Return the first digit that is not 0, the two after it, whether there is anything below, and their unit."""
    zero = F.lit(0).cast("bigint")
    digits = [*_limbs(column), zero, zero]
    first, second, third, below, unit = zero, zero, zero, F.lit(False), F.lit(0)
    for i in reversed(range(LIMBS)):
        here = digits[i] != 0
        rest = functools.reduce(Column.__or__, [d != 0 for d in digits[i + 3 : LIMBS]], F.lit(False))
        first = F.when(here, digits[i]).otherwise(first)
        second = F.when(here, digits[i + 1]).otherwise(second)
        third = F.when(here, digits[i + 2]).otherwise(third)
        below = F.when(here, rest).otherwise(below)
        unit = F.when(here, F.lit(_UNITS[i])).otherwise(unit)
    named = zip(("first", "second", "third", "below", "unit"), (first, second, third, below, unit), strict=True)
    return {f"{name}{column}": value for name, value in named}


def _joined_limbs(column: int) -> dict[str, Column]:
    """Return two digits as one number, or the first alone where that is long enough, and the digit after it."""
    first, second, third = (F.col(f"{name}{column}") for name in ("first", "second", "third"))
    short = first < 1 << (_LEADING - _WIDTH)
    below = F.col(f"below{column}")
    return {
        f"whole{column}": F.when(short, F.shiftleft(first, _WIDTH).bitwiseOR(second)).otherwise(first),
        f"next{column}": F.when(short, third).otherwise(second),
        f"below{column}": F.when(short, below).otherwise(below | (third != 0)),
        f"unit{column}": F.col(f"unit{column}") - F.when(short, F.lit(_WIDTH)).otherwise(F.lit(0)),
    }


def _room(column: int) -> Column:
    """Return how many bits of the next digit there is room for; a logarithm's error is no matter, there is one more."""
    whole = F.col(f"whole{column}")
    bits = F.when(whole > 0, F.floor(F.log2(whole.cast("double")))).otherwise(F.lit(_LEADING))
    return F.greatest(F.lit(0), F.least(F.lit(_WIDTH), F.lit(_LEADING - 1) - bits)).cast("int")


def _rounded(column: int) -> Column:
    whole, following, room = (F.col(f"{name}{column}") for name in ("whole", "next", "room"))
    out = F.lit(_WIDTH) - room
    taken = F.call_function("shiftright", following, out)
    dropped = following - F.call_function("shiftleft", taken, out)
    sticky = F.when((dropped != 0) | F.col(f"below{column}"), F.lit(1).cast("bigint")).otherwise(
        F.lit(0).cast("bigint")
    )
    leading = F.call_function("shiftleft", whole, room).bitwiseOR(taken).bitwiseOR(sticky)
    size = leading.cast("double") * F.pow(F.lit(2.0), (F.col(f"unit{column}") - room).cast("double"))
    return F.when(F.col(f"negative{column}"), -size).otherwise(size)
