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

__all__ = ["SQUARED", "square_amounts", "with_products", "with_variances"]

SQUARED: Final = Limbs(0, 32, 3, room=31)
"""Limbs whose products fit 64 bits."""
_PLACES: Final = 6
_UNIT: Final = 1 << 128
"""Squares of the last limb count so many of a whole."""
_MASK: Final = (1 << 32) - 1

Batches = Iterator[pa.RecordBatch]


def with_products(data: DataFrame, columns: Iterable[int]) -> DataFrame:
    """Return updates with columns that were split, and the products of their limbs."""
    limbs = (f"{text} AS {name}" for c in columns for name, text in SQUARED.amounts(c).items())
    data = data.selectExpr("*", *limbs)
    made = []
    for c in columns:
        names = SQUARED.names(c)
        made += [f"{names[i]} * {names[j]} AS product{c}_{i}{j}" for i in range(3) for j in range(i, 3)]
    return data.selectExpr("*", *made)


def square_amounts(column: int) -> dict[str, str]:
    """Return the limbs of a column, and its squares by their places, by the names of their sums."""
    places: list[list[str]] = [[] for _ in range(_PLACES)]
    for i in range(3):
        for j in range(i, 3):
            twice = "" if i == j else "2L * "
            product = f"product{column}_{i}{j}"
            places[i + j].append(f"{twice}shiftright({product}, 32)")
            places[i + j + 1].append(f"{twice}({product} & {_MASK}L)")
    limbs = {name: name for name in SQUARED.names(column)}
    return limbs | {name: " + ".join(terms) for name, terms in zip(_squares(column), places, strict=True)}


def with_variances(sums: DataFrame, columns: Iterable[int]) -> DataFrame:
    """Return lines of sums with the variance of each column beside them, NULL for fewer than two values."""
    made = [T.StructField(f"v{c}", T.DoubleType()) for c in columns]
    return sums.mapInArrow(_task(tuple(columns)), T.StructType([*sums.schema.fields, *made]))


def _squares(column: int) -> list[str]:
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
    counts = batch.column(f"n{column}").to_pylist()
    totals = _joined(batch, SQUARED.names(column))
    squares = _joined(batch, _squares(column))
    return [
        variance(total, square, count, _UNIT) if count > 1 else None
        for total, square, count in zip(totals, squares, counts, strict=True)
    ]


def _joined(batch: pa.RecordBatch, names: list[str]) -> list[int]:
    """Return the whole numbers whose limbs are in columns, the highest first."""
    whole = [0] * batch.num_rows
    for name in names:
        whole = [(w << 32) + v for w, v in zip(whole, batch.column(name).to_pylist(), strict=True)]
    return whole
