"""Exact sums of floats by Catalyst: each float split without error into whole numbers, whose sums are exact.

A float is cut into limbs: multiples of 2**20, 2**-16, 2**-52, 2**-88 and 2**-124. Adding 1.5 * 2**(k + 52) to it and
taking that away again rounds it to a multiple of 2**k, in double arithmetic as Java has it; what is left is exact, and
is cut at the next power. All but the first limb are at most 2**35 in size, so hundreds of millions of them add up in
64 bits; where they do not, that is an error in ANSI mode. Of a group's sums, carried over, the leading 62 bits and one
more that says whether there is anything below make one integer; Java's conversion to a double rounds that correctly.

Floats that have bits elsewhere, NaN and the infinities raise `OUTSIDE`: the step is then taken again with the kernels'
sums, which have no limits.

All is SQL text, since a Column is many calls to Java; and one projection after the other, so that Catalyst computes
once what several limbs depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame

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
    """Return updates with the limbs of these columns of floats beside them; of NULL all are 0."""
    steps = _Steps(data)
    rests = {c: f"rest{c}" for c in columns}
    steps.then(
        {
            rest: f"IF(abs(coalesce(c{c}, 0D)) < {_LIMIT!r}D, coalesce(c{c}, 0D), {_raise('double')})"
            for c, rest in rests.items()
        }
    )
    for place, unit in enumerate(_UNITS):
        far = 1.5 * 2.0 ** (unit + _MANTISSA)
        steps.then({f"cut{c}": f"{rest} + {far!r}D - {far!r}D" for c, rest in rests.items()})
        cut = {limb(c, place): f"CAST(cut{c} * {2.0**-unit!r}D AS bigint)" for c in rests}
        steps.then({**cut, **{rest: f"{rest} - cut{c}" for c, rest in rests.items()}})
    last = {limb(c, LIMBS - 1): rest for c, rest in rests.items()}
    steps.then({name: f"IF({rest} = 0D, {name}, {_raise('bigint')})" for name, rest in last.items()})
    return steps.data


def with_rounded_sums(data: DataFrame, sums: Mapping[int, str]) -> DataFrame:
    """Return lines with one float for the sums of a column's limbs, correctly rounded, by its name in ``sums``."""
    steps = _Steps(data)
    limbs = {c: [limb(c, i) for i in range(LIMBS)] for c in sums}
    steps.then({f"negative{c}": f"{_carried(of)[0]} < 0" for c, of in limbs.items()})
    steps.then({name: f"IF(negative{c}, -{name}, {name})" for c, of in limbs.items() for name in of})
    steps.then({name: digit for of in limbs.values() for name, digit in zip(of, _digits(of), strict=True)})
    steps.then({name: value for c, of in limbs.items() for name, value in _leading_limbs(c, of).items()})
    steps.then({name: value for c in sums for name, value in _joined_limbs(c).items()})
    steps.then({f"room{c}": _room(f"whole{c}") for c in sums})
    steps.then({f"taken{c}": f"shiftright(next{c}, {_WIDTH} - room{c})" for c in sums})
    steps.then({name: _rounded(c) for c, name in sums.items()})
    return steps.data


class _Steps:
    """Projections of a table one after the other, each of which adds columns or computes them anew."""

    def __init__(self, data: DataFrame) -> None:
        self.data = data
        self._names = dict.fromkeys(data.columns)

    def then(self, made: Mapping[str, str]) -> None:
        kept = [name for name in self._names if name not in made]
        self.data = self.data.selectExpr(*kept, *(f"{text} AS {name}" for name, text in made.items()))
        self._names |= dict.fromkeys(made)


def _raise(dtype: str) -> str:
    return f"CAST(raise_error('{OUTSIDE}') AS {dtype})"


def _carried(limbs: list[str]) -> list[str]:
    """Return limbs, the highest first, each with what the lower ones carry."""
    found = [limbs[-1]]
    for name in reversed(limbs[:-1]):
        found.append(f"({name} + shiftright({found[-1]}, {_WIDTH}))")
    return found[::-1]


def _digits(limbs: list[str]) -> list[str]:
    """Return the digits of a sum that is not negative: all but the first have 36 bits."""
    first, *others = _carried(limbs)
    return [first, *(f"{value} & {_MASK}L" for value in others)]


def _leading_limbs(column: int, limbs: list[str]) -> dict[str, str]:
    """Return the first digit that is not 0, the two after it, whether there is anything below, and their unit."""
    digits = [*limbs, "0L", "0L"]
    wanted: dict[str, list[str]] = {
        "first": digits,
        "second": digits[1:],
        "third": digits[2:],
        "below": [" OR ".join(["false", *(f"{d} <> 0" for d in limbs[i + 3 :])]) for i in range(LIMBS)],
        "unit": [str(unit) for unit in _UNITS],
    }
    none = {"below": "false", "unit": "0"}
    found = {}
    for name, values in wanted.items():
        cases = " ".join(f"WHEN {limbs[i]} <> 0 THEN {values[i]}" for i in range(LIMBS))
        found[f"{name}{column}"] = f"CASE {cases} ELSE {none.get(name, '0L')} END"
    return found


def _joined_limbs(column: int) -> dict[str, str]:
    """Return two digits as one number, or the first alone where that is long enough, and the digit after it."""
    first, second, third, below, unit = (f"{name}{column}" for name in ("first", "second", "third", "below", "unit"))
    short = f"{first} < {1 << (_LEADING - _WIDTH)}L"
    return {
        f"whole{column}": f"IF({short}, shiftleft({first}, {_WIDTH}) | {second}, {first})",
        f"next{column}": f"IF({short}, {third}, {second})",
        below: f"{below} OR NOT ({short}) AND {third} <> 0",
        unit: f"IF({short}, {unit} - {_WIDTH}, {unit})",
    }


def _room(whole: str) -> str:
    """Return how many bits of the next digit there is room for; a logarithm's error is no matter, there is one more."""
    bits = f"IF({whole} > 0, CAST(floor(log2(CAST({whole} AS double))) AS int), {_LEADING})"
    return f"greatest(0, least({_WIDTH}, {_LEADING - 1} - {bits}))"


def _rounded(column: int) -> str:
    room, following, taken = f"room{column}", f"next{column}", f"taken{column}"
    dropped = f"({following} <> shiftleft({taken}, {_WIDTH} - {room}) OR below{column})"
    leading = f"(shiftleft(whole{column}, {room}) | {taken} | IF({dropped}, 1L, 0L))"
    size = f"CAST({leading} AS double) * power(2D, unit{column} - {room})"
    return f"IF(negative{column}, -({size}), {size})"
