"""Exact variances of floats by Catalyst: sums of their limbs and of their squares' limbs; the quotient in Python.

The three limbs of a float have 32 bits each, so that the product of any two has 64 at most: six products, whose halves
of 32 bits go to six places and add up there. Of a group's sums, Python's whole numbers make the variance, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - what everybody calls it

from tidemill.renderer.embedded.reduce.aggregates import variance
from tidemill.renderer.spark.exact_floats import Limbs

__all__ = ["SQUARED", "square_amounts", "squares_of", "variance_of", "with_variances"]

SQUARED: Final = Limbs(0, 32, 3, room=31)
"""Limbs whose products fit 64 bits."""
_PLACES: Final = 6
_UNIT: Final = 1 << 128
"""Squares of the last limb count so many of a whole."""
_MASK: Final = (1 << 32) - 1

Batches = Iterator[pa.RecordBatch]


def square_amounts(column: int) -> dict[str, str]:
    """Return the limbs of a column, and its squares by their places, by the names of their sums.

    The limbs are columns of these names.
    """
    places: list[list[str]] = [[] for _ in range(_PLACES)]
    limbs = SQUARED.names(column)
    for i in range(3):
        for j in range(i, 3):
            twice = "" if i == j else "2L * "
            product = f"({limbs[i]} * {limbs[j]})"
            places[i + j].append(f"{twice}shiftright({product}, 32)")
            places[i + j + 1].append(f"{twice}({product} & {_MASK}L)")
    squares = zip(squares_of(column), places, strict=True)
    return {name: name for name in limbs} | {name: " + ".join(terms) for name, terms in squares}


def with_variances(sums: DataFrame, columns: Iterable[int]) -> DataFrame:
    """Return lines of sums with the variance of each column beside them, NULL for fewer than two values."""
    made = [T.StructField(f"v{c}", T.DoubleType()) for c in columns]
    return sums.mapInArrow(_task(tuple(columns)), T.StructType([*sums.schema.fields, *made]))


def squares_of(column: int) -> list[str]:
    """Return the names of the sums of a column's squares, by their places."""
    return [f"square{column}_{i}" for i in range(_PLACES)]


def _task(columns: tuple[int, ...]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            made = batch
            for c in columns:
                made = made.append_column(f"v{c}", pa.array(_variances(batch, c), pa.float64()))
            yield made

    return run


def _variances(batch: pa.RecordBatch, column: int) -> list[float | None]:
    limbs, squares, (counts,) = (
        [batch.column(name).to_pylist() for name in found]
        for found in (SQUARED.names(column), squares_of(column), [f"n{column}"])
    )
    groups = zip(zip(*limbs, strict=True), zip(*squares, strict=True), counts, strict=True)
    return [variance_of(*group) for group in groups]


def variance_of(limbs: Iterable[int], squares: Iterable[int], count: int) -> float | None:
    """Return the variance of a group from the sums of its limbs and its squares; None for fewer than two values."""
    return variance(_joined(limbs), _joined(squares), count, _UNIT) if count > 1 else None


def _joined(limbs: Iterable[int]) -> int:
    """Return the whole number that limbs come to, the highest first."""
    whole = 0
    for limb in limbs:
        whole = (whole << 32) + limb
    return whole
