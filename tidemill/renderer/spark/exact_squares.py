"""Exact variances of floats by Catalyst: sums of their limbs and of their squares' parts; the quotient in Python.

A square is two floats, exactly: the product as it is rounded, and the error of that, which halves of few bits tell
(Dekker 1971). Both are cut into parts of the same units, which are added up. Of a group's sums, Python's whole numbers
make the variance, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - what everybody calls it

from tidemill.renderer.embedded.reduce.aggregates import variance
from tidemill.renderer.spark.exact_floats import Limbs
from tidemill.renderer.spark.exact_parts import Chain, Part, Summand

_HALVES: Final = f"{2.0**27 + 1!r}D"
"""A float times this, less what that is more than the float, is its upper 26 bits."""

Batches = Iterator[pa.RecordBatch]


class Squares(Protocol):
    """How floats' squares are added up, and what that makes of a group's variance."""

    @property
    def limbs(self) -> Limbs:
        """The limbs of the floats of which squares are added up."""

    def names(self, column: int) -> list[str]:
        """Return the names of the sums that a variance takes beside those of the limbs."""

    def selects(self, values: Mapping[int, str]) -> list[list[str]]:
        """Return selects of further columns, of the columns' values as texts."""

    def chains(self, column: int) -> dict[str, Chain]:
        """Return what is cut, of these columns."""

    def parts(self, column: int, value: str, cuts: Mapping[str, list[str]]) -> Mapping[str, Summand]:
        """Return what the chains came to, by the names of the sums."""

    def variance(self, limbs: Iterable[int], squares: Sequence[Any], count: int) -> float | None:
        """Return the variance of a group from the sums of its limbs and its squares; None for fewer than two values."""


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
        made = []
        for c, value in values.items():
            made += [product(c, value), f"{error(c, value, f'({value} * {value})')} AS c{c}_error"]
        return [[upper(c, value) for c, value in values.items()], made]

    def chains(self, column: int) -> dict[str, Chain]:
        """Return how a square's two floats are cut; the error is too small for the first place."""
        cut_error = Chain(f"c{column}_error", self.units[1:-1])
        return {f"product{column}": Chain(f"c{column}_product", self.units[:-1]), f"error{column}": cut_error}

    def parts(self, column: int, value: str, cuts: Mapping[str, list[str]]) -> dict[str, Part]:  # noqa: ARG002 - see Squares
        """Return the places of the squares."""
        first, *products = cuts[f"product{column}"]
        texts = [first, *(f"({p} + {e})" for p, e in zip(products, cuts[f"error{column}"], strict=True))]
        return {n: Part(text, u) for n, text, u in zip(self.names(column), texts, self.units, strict=True)}

    def variance(self, limbs: Iterable[int], squares: Sequence[int], count: int) -> float | None:
        """Return the variance of a group, rounded once."""
        if count < 2:  # noqa: PLR2004
            return None
        whole = self.limbs.whole
        return variance(whole(limbs), whole(squares), count, self.limbs.in_one**2)


def upper(column: int, value: str) -> str:
    """Return the upper 26 bits of a value, as a column."""
    return f"{value} * {_HALVES} - ({value} * {_HALVES} - {value}) AS c{column}_upper"


def product(column: int, value: str) -> str:
    """Return a value's square as it is rounded, as a column."""
    return f"{value} * {value} AS c{column}_product"


def error(column: int, value: str, rounded: str) -> str:
    """Return what a value's square is more than it is rounded to, from the upper bits."""
    high, low = f"c{column}_upper", f"({value} - c{column}_upper)"
    return f"((({high} * {high} - {rounded}) + 2D * {high} * {low}) + {low} * {low})"


def with_variances(sums: DataFrame, columns: Iterable[int], squared: Squares) -> DataFrame:
    """Return lines of sums with the variance of each column beside them, NULL for fewer than two values."""
    made = [T.StructField(f"v{c}", T.DoubleType()) for c in columns]
    return sums.mapInArrow(_task(tuple(columns), squared), T.StructType([*sums.schema.fields, *made]))


def _task(columns: tuple[int, ...], squared: Squares) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            made = batch
            for c in columns:
                made = made.append_column(f"v{c}", pa.array(_variances(batch, c, squared), pa.float64()))
            yield made

    return run


def _variances(batch: pa.RecordBatch, column: int, squared: Squares) -> list[float | None]:
    limbs, squares, (counts,) = (
        [batch.column(name).to_pylist() for name in found]
        for found in (squared.limbs.names(column), squared.names(column), [f"n{column}"])
    )
    groups = zip(zip(*limbs, strict=True), zip(*squares, strict=True), counts, strict=True)
    return [squared.variance(*group) for group in groups]


NEAR_SQUARED: Final = Squared(Limbs(-1, 31, 3, room=31, in_floats=True))
FAR_SQUARED: Final = Squared(Limbs(8, 30, 4, room=30))
