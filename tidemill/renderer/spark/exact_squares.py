"""Exact variances of floats by Catalyst: sums of their limbs and of their squares' parts; the quotient in Python.

A square is two floats, exactly: the product as it is rounded, and the error of that, which halves of few bits tell
(Dekker 1971). Both are cut into parts of the same units, which are added up. Of a group's sums, Python's whole numbers
make the variance, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - what everybody calls it

from tidemill.renderer.embedded.reduce.aggregates import variance
from tidemill.renderer.spark.exact_floats import FAR, NEAR, Limbs
from tidemill.renderer.spark.exact_parts import Chain, Part

__all__ = ["FAR_SQUARED", "NEAR_SQUARED", "SQUARED", "Squared", "squares", "variance_of", "with_variances"]

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

    @property
    def in_one(self) -> int:
        """How many of the last unit are one."""
        limbs = self.limbs
        return 1 << (2 * (limbs.width * (limbs.count - 1) - limbs.first))

    def names(self, column: int) -> list[str]:
        """Return the names of the sums of a column's squares, by their places."""
        return [f"square{column}_{i}" for i in range(2 * self.limbs.count)]

    def chains(self, product: str, error: str) -> list[Chain]:
        """Return how a square's two floats are cut; the error is too small for the first place."""
        return [Chain(product, self.units[:-1]), Chain(error, self.units[1:-1])]

    def parts(self, column: int, products: list[str], errors: list[str]) -> dict[str, Part]:
        """Return what the chains came to, by the names of the sums."""
        texts = [products[0], *(f"({p} + {e})" for p, e in zip(products[1:], errors, strict=True))]
        return {n: Part(text, u) for n, text, u in zip(self.names(column), texts, self.units, strict=True)}


def squares(values: Mapping[str, str]) -> list[list[str]]:
    """Return selects of the squares of values, given by name and text, as ``name_product`` and ``name_error``."""
    upper = "{0} * {1} - ({0} * {1} - {0}) AS {2}_upper"
    made = []
    for name, text in values.items():
        high = f"{name}_upper"
        low = f"({text} - {high})"
        error = f"(({high} * {high} - {text} * {text}) + 2D * {high} * {low}) + {low} * {low}"
        made += [f"{text} * {text} AS {name}_product", f"{error} AS {name}_error"]
    return [[upper.format(text, _HALVES, name) for name, text in values.items()], made]


def with_variances(sums: DataFrame, columns: Iterable[int], squared: Squared) -> DataFrame:
    """Return lines of sums with the variance of each column beside them, NULL for fewer than two values."""
    made = [T.StructField(f"v{c}", T.DoubleType()) for c in columns]
    return sums.mapInArrow(_task(tuple(columns), squared), T.StructType([*sums.schema.fields, *made]))


def _task(columns: tuple[int, ...], squared: Squared) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            made = batch
            for c in columns:
                made = made.append_column(f"v{c}", pa.array(_variances(batch, c, squared), pa.float64()))
            yield made

    return run


def _variances(batch: pa.RecordBatch, column: int, squared: Squared) -> list[float | None]:
    limbs, squares, (counts,) = (
        [batch.column(name).to_pylist() for name in found]
        for found in (squared.limbs.names(column), squared.names(column), [f"n{column}"])
    )
    groups = zip(zip(*limbs, strict=True), zip(*squares, strict=True), counts, strict=True)
    return [variance_of(squared, *group) for group in groups]


def variance_of(squared: Squared, limbs: Iterable[int], squares: Iterable[int], count: int) -> float | None:
    """Return the variance of a group from the sums of its limbs and its squares; None for fewer than two values."""
    if count < 2:  # noqa: PLR2004
        return None
    whole = squared.limbs.whole
    return variance(whole(limbs), whole(squares), count, squared.in_one)


NEAR_SQUARED: Final = Squared(Limbs(-1, 31, 3, room=31, in_floats=True))
FAR_SQUARED: Final = Squared(Limbs(8, 30, 4, room=30))
SQUARED: Final = {NEAR: NEAR_SQUARED, FAR: FAR_SQUARED}
"""The limbs of floats of which squares are added up, instead of those of floats that are not."""
