"""Floats cut into parts without error, by Catalyst: what is left of a number once it is rounded, and of that again.

A float is rounded to a multiple of 2**-6, say; what is left of it is a float as well, and is rounded to a multiple of
2**-30, and so on. So few bits has a part that sums of many are exact: of millions of rows already as floats, which take
Spark least, and of whole numbers of 64 bits for as many as there are.

All is SQL text, since a Column is many calls to Java; and few selects, for each takes Catalyst as long as many rows.
Within one Catalyst computes once what several columns depend on, but it has to find that out: the text doubles with
each part that is cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

EXACT_BITS: Final = 53
"""Whole numbers of so many bits are floats."""
ROUNDED_BITS: Final = 51
"""Up to so many bits may a number have above the unit to which it is rounded."""
_IN_ONE_TEXT: Final = 2
"""How many parts are cut off in one select."""


def rounded(text: str, unit: int) -> str:
    """Return a float as the next multiple of 2**unit: beside a number whose last bit that is, it loses what is below.

    It is of `ROUNDED_BITS` above the unit at most.
    """
    beside = f"{1.5 * 2.0 ** (EXACT_BITS - 1 + unit)!r}D"
    return f"(({text} + {beside}) - {beside})"


@attrs.frozen
class Part:
    """What is added up of each row: a multiple of 2**unit."""

    text: str
    unit: int
    few_bits: bool = True
    """Whether it is so small that many rows' sum is a float; as the first part may not be."""

    def sum(self, *, in_floats: bool, times: str = "") -> str:
        """Return the sum over a group's rows, as a whole number of units."""
        scale = f"{2.0**-self.unit!r}D"
        if in_floats and self.few_bits:
            return f"CAST(sum({self.text}) * {scale} AS bigint)"
        return f"sum(floor({self.text} * {scale}){times})"


@attrs.frozen
class Chain:
    """A float, and the units to which it is rounded in turn; the last part is what then is left."""

    text: str
    units: Sequence[int]


def cut(chains: Mapping[str, Chain]) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Return selects of further columns, each from the one before, and chains' parts as texts on the last."""
    parts: dict[str, list[str]] = {name: [] for name in chains}
    rests = {name: chain.text for name, chain in chains.items()}
    left = {name: list(chain.units) for name, chain in chains.items()}
    selects = []
    while any(left.values()):
        last = all(len(units) <= _IN_ONE_TEXT for units in left.values())
        made = []
        for name, units in left.items():
            now, left[name] = units[:_IN_ONE_TEXT], units[_IN_ONE_TEXT:]
            texts, rest = _cut_off(rests[name], now)
            if now and not last:
                given = [f"{name}_{len(parts[name]) + i}" for i in range(len(now))]
                made += [f"{text} AS {part}" for text, part in zip(texts, given, strict=True)]
                made.append(f"{rest} AS {given[-1]}_rest")
                texts, rest = given, f"{given[-1]}_rest"
            parts[name] += texts
            rests[name] = rest
        if made:
            selects.append(made)
    return selects, {name: [*parts[name], rests[name]] for name in chains}


def _cut_off(text: str, units: Sequence[int]) -> tuple[list[str], str]:
    """Return a float's parts, and what is left of it."""
    texts = []
    for unit in units:
        part = rounded(text, unit)
        texts.append(part)
        text = f"({text} - {part})"
    return texts, text
