"""Exact variances of floats by Catalyst: sums of their limbs and of their squares' parts; the quotient in Python.

A square is two floats, exactly: the product as it is rounded, and the error of that, which halves of few bits tell
(Dekker 1971). Both are cut into parts of the same units, which are added up. Of a group's sums, Python's whole numbers
make the variance, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - what everybody calls it

from tidemill.boundary.exact_sums import variance_of
from tidemill.renderer.spark.exact_floats import FAR, NEAR, Limbs
from tidemill.renderer.spark.exact_parts import Chain, Part

_HALVES: Final = f"{2.0**27 + 1!r}D"
"""A float times this, less what that is more than the float, is its upper 26 bits."""

Batches = Iterator[pa.RecordBatch]


@attrs.frozen
class Squared:
    """The limbs of floats and, at twice as many places as far apart, of their squares."""

    limbs: Limbs

    @property
    def units(self) -> list[int]:
        """The powers of two of which squares' places are multiples, the highest first."""
        limbs = self.limbs
        return [2 * limbs.first + limbs.width * (1 - i) for i in range(2 * limbs.count)]

    def names(self, column: int) -> list[str]:
        """Return the names of the sums of a column's squares, by their places."""
        return [f"square{column}_{i}" for i in range(2 * self.limbs.count)]

    def selects(self, values: Mapping[int, str]) -> list[list[str]]:
        """Return selects of squares as two floats each."""
        upper, both = [], []
        for c, value in values.items():
            upper.append(f"{value} * {_HALVES} - ({value} * {_HALVES} - {value}) AS c{c}_upper")
            both += [f"{value} * {value} AS c{c}_product", f"{_error(c, value)} AS c{c}_error"]
        return [upper, both]

    def chains(self, column: int) -> dict[str, Chain]:
        """Return how a square's two floats are cut; the error is too small for the first place."""
        cut_error = Chain(f"c{column}_error", self.units[1:-1])
        return {f"product{column}": Chain(f"c{column}_product", self.units[:-1]), f"error{column}": cut_error}

    def parts(self, column: int, cuts: Mapping[str, list[str]]) -> dict[str, Part]:
        """Return the places of the squares."""
        first, *products = cuts[f"product{column}"]
        texts = [first, *(f"({p} + {e})" for p, e in zip(products, cuts[f"error{column}"], strict=True))]
        return {n: Part(text, u) for n, text, u in zip(self.names(column), texts, self.units, strict=True)}

    def variance(self, sums: Sequence[int]) -> float | None:
        """Return the variance of a group, rounded once, from its limbs, its squares and its count."""
        *places, count = sums
        if count < 2:  # noqa: PLR2004
            return None
        total, squares = map(self.limbs.whole, (places[: self.limbs.count], places[self.limbs.count :]))
        return variance_of(total, squares, count, self.limbs.in_one**2)


def _error(column: int, value: str) -> str:
    """Return what a value's square is more than it is rounded to, from the upper 26 bits."""
    high, low = f"c{column}_upper", f"({value} - c{column}_upper)"
    return f"((({high} * {high} - ({value} * {value})) + 2D * {high} * {low}) + {low} * {low})"


class FloatSums(NamedTuple):
    """How Catalyst adds up floats: by limbs, or by others that have squares where variances are wanted."""

    limbs: Limbs
    squared: Squared


def with_floats(sums: DataFrame, totals: Sequence[int], limbs: Limbs, spreads: Sequence[int]) -> DataFrame:
    """Return lines of sums with the total of each column beside them, and with its variance of these columns."""
    made = [T.StructField(f"total{c}", T.DoubleType()) for c in totals]
    made += [T.StructField(f"v{c}", T.DoubleType()) for c in spreads]
    return sums.mapInArrow(_task(totals, limbs, spreads), T.StructType([*sums.schema.fields, *made]))


def _task(totals: Sequence[int], limbs: Limbs, spreads: Sequence[int]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            made = batch
            for c in totals:
                made = made.append_column(f"total{c}", _column(batch, limbs.names(c), limbs.total))
            for c in spreads:
                names = [*limbs.names(c), *Squared(limbs).names(c), f"n{c}"]
                made = made.append_column(f"v{c}", _column(batch, names, Squared(limbs).variance))
            yield made

    return run


def _column(batch: pa.RecordBatch, names: Iterable[str], made: Callable[[tuple[Any, ...]], float | None]) -> pa.Array:
    rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    return pa.array(map(made, rows), pa.float64())


NEAREST: Final = FloatSums(NEAR, Squared(Limbs(-1, 31, 3, room=31, in_floats=True)))
FARTHER: Final = FloatSums(FAR, Squared(Limbs(8, 30, 4, room=30)))
