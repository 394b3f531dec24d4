"""Exact sums and variances of floats by Catalyst: each float is cut into limbs, whose sums are whole numbers.

A float is rounded to a multiple of 2**-6, say; what is left of it is a float as well, and is rounded to a multiple of
2**-42, and so on: these parts, as whole numbers of their units, add up exactly. A square is two floats, exactly: the
product as it is rounded, and the error of that, which halves of few bits tell (Dekker 1971); both are cut alike.

Sums of limbs become the next float by way of Java's decimals; where variances are wanted, by Python's whole numbers.
Floats with bits outside of the limbs, NaN and the infinities raise `OUTSIDE`: the kernels add these up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - what everybody calls it

from tidemill.boundary.exact_sums import variance_of

OUTSIDE: Final = "tidemill: a float that limbs do not hold"

_RAISE: Final = f"CAST(raise_error('{OUTSIDE}') AS double)"
_EXACT_BITS: Final = 53
"""Whole numbers of how many bits are floats."""
_DECIMAL_BITS: Final = 126
"""Numbers of how many bits have 38 decimal digits, the most that Spark's decimals may have."""
_HALVES: Final = f"{2.0**27 + 1!r}D"
"""A float times this, less what that is more than the float, is its upper 26 bits."""

Batches = Iterator[pa.RecordBatch]


@attrs.frozen
class Limbs:
    """The units of limbs, as powers of two: ``first``, and each of the others by ``width`` below."""

    first: int
    width: int
    count: int
    high: int
    """Floats from 2**high on are not held. It is at most 51 above the first: rounding has no bits for more."""

    @property
    def units(self) -> list[int]:
        """The powers of two, the highest first."""
        return [self.first - self.width * i for i in range(self.count)]

    def names(self, column: str) -> list[str]:
        """Return the names of the limbs of a column, and of their sums."""
        return [f"{column}_limb{i}" for i in range(self.count)]

    def whole(self, sums: Iterable[int]) -> int:
        """Return the number that limbs stand for, in units of the last."""
        whole = 0
        for limb in sums:
            whole = (whole << self.width) + limb
        return whole

    def selected(self, column: str, value: str) -> list[str]:
        """Return the selects of a float's limbs, each made of those before it; the last raises if they do not hold it.

        Spark knows columns of a select in the ones after them.
        """
        *names, last = self.names(column)
        made, rest = [], value
        for name, unit in zip(names, self.units, strict=False):
            made.append(f"{_rounded(rest, unit)} AS {name}")
            rest = f"({rest} - {name})"
        held = f"abs({value}) < {2.0**self.high!r}D AND {_rounded(rest, self.units[-1])} = {rest}"
        return [*made, f"IF({held}, {rest}, {_RAISE}) AS {last}"]

    def sums(self, column: str, diff: str) -> dict[str, str]:
        """Return the sums of a column's limbs, in whole numbers of their units."""
        return _sums(self.names(column), self.units, diff)

    def as_decimal(self, column: str) -> str:
        """Return the float nearest to the limbs' sums: a decimal, which Java rounds; an error where it is too long."""
        most = 1 << (_DECIMAL_BITS - 1 - self.width * (self.count - 1))
        names, units = self.names(column), self.units
        parts = (f"CAST({n} AS decimal(20)) * {1 << (u - units[-1])}BD" for n, u in zip(names, units, strict=True))
        total = f"CAST({' + '.join(parts)} AS double) * {2.0 ** units[-1]!r}D"
        return f"IF({names[0]} BETWEEN {-most} AND {most}, {total}, {_RAISE})"


SUMMED: Final = Limbs(-6, 36, 3, high=45)
"""All digits of floats from 2**-26, or 0.000000015, on, up to 2**45."""
WITH_SQUARES: Final = Limbs(8, 30, 4, high=38)
"""The same where squares are added up too: from 2**-30 on, up to 2**38."""
SQUARES: Final = Limbs(46, 30, 8, high=76)
"""The limbs of their squares."""


def _rounded(text: str, unit: int) -> str:
    """Return a float as the next multiple of 2**unit: beside a number with that as its last bit, it loses the rest."""
    beside = f"{1.5 * 2.0 ** (_EXACT_BITS - 1 + unit)!r}D"
    return f"(({text} + {beside}) - {beside})"


def _sums(names: Iterable[str], units: Iterable[int], diff: str) -> dict[str, str]:
    return {n: f"sum(floor({n} * {2.0**-u!r}D) * {diff})" for n, u in zip(names, units, strict=True)}


def _of_square(column: str) -> str:
    return f"{column}_square"


def selected_squares(column: str, value: str) -> list[str]:
    """Return the selects of a square's limbs: of the product and of its error, which has none of the first limb."""
    upper, product, error = (f"{column}_{part}" for part in ("upper", "product", "error"))
    high, low = upper, f"({value} - {upper})"
    made = [
        f"{value} * {_HALVES} - ({value} * {_HALVES} - {value}) AS {upper}",
        f"{value} * {value} AS {product}",
        f"((({high} * {high} - {product}) + 2D * {high} * {low}) + {low} * {low}) AS {error}",
    ]
    rests = [product, error]
    names = SQUARES.names(_of_square(column))
    for i, (name, unit) in enumerate(zip(names[:-1], SQUARES.units, strict=False)):
        parts = [_rounded(rest, unit) for rest in rests[: 2 if i else 1]]
        cuts = [f"{name}_{side}" for side in ("product", "error")[: len(parts)]]
        made += [f"{part} AS {cut}" for part, cut in zip(parts, cuts, strict=True)]
        made.append(f"{' + '.join(cuts)} AS {name}")
        rests[: len(cuts)] = [f"({rest} - {cut})" for rest, cut in zip(rests, cuts, strict=False)]
    return [*made, f"{rests[0]} + {rests[1]} AS {names[-1]}"]


def sums_of_squares(column: str, diff: str) -> dict[str, str]:
    """Return the sums of the squares' limbs of a column."""
    return SQUARES.sums(_of_square(column), diff)


def with_spreads(sums: DataFrame, totals: Sequence[int], spreads: Sequence[int]) -> DataFrame:
    """Return lines of sums with the total of each column beside them, and with the variance of those with squares."""
    made = [T.StructField(f"total{c}", T.DoubleType()) for c in totals]
    made += [T.StructField(f"v{c}", T.DoubleType()) for c in spreads]
    return sums.mapInArrow(_task(totals, spreads), T.StructType([*sums.schema.fields, *made]))


def _task(totals: Sequence[int], spreads: Sequence[int]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            made = batch
            for c in totals:
                made = made.append_column(f"total{c}", _column(batch, WITH_SQUARES.names(f"c{c}"), _total))
            for c in spreads:
                names = [*WITH_SQUARES.names(f"c{c}"), *SQUARES.names(_of_square(f"c{c}")), f"n{c}"]
                made = made.append_column(f"v{c}", _column(batch, names, _variance))
            yield made

    return run


def _column(batch: pa.RecordBatch, names: Iterable[str], made: Callable[[Sequence[int]], float | None]) -> pa.Array:
    rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    return pa.array(map(made, rows), pa.float64())


def _total(sums: Sequence[int]) -> float:
    return WITH_SQUARES.whole(sums) / (1 << -WITH_SQUARES.units[-1])


def _variance(sums: Sequence[int]) -> float | None:
    """Return the variance of a group, rounded once, from its limbs, its squares' limbs and its count."""
    *limbs, count = sums
    if count < 2:  # noqa: PLR2004
        return None
    total, squares = (
        WITH_SQUARES.whole(limbs[: WITH_SQUARES.count]),
        SQUARES.whole(limbs[WITH_SQUARES.count :]),
    )
    return variance_of(total, squares, count, 1 << -SQUARES.units[-1])
