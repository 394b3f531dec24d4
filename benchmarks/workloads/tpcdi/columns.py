"""Columns of random values as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAY = 86_400_000_000
"""In microseconds."""


def days(numbers: Any, missing: Any = None) -> pa.Array:
    """Return dates, by their numbers since 1970."""
    return pa.array(np.asarray(numbers).astype(np.int32), mask=missing).cast(pa.date32())


def moments(microseconds: Any) -> pa.Array:
    """Return timestamps, of whole seconds."""
    return pa.array(np.asarray(microseconds) // 1_000_000 * 1_000_000).cast(pa.timestamp("us"))


def decimals(hundredths: Any, precision: int, missing: Any = None, scale: int = 2) -> pa.Array:
    """Return decimals, by their numbers of the last place."""
    low = np.asarray(hundredths).astype(np.int64)
    words = np.stack([low, low >> 63], axis=1)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(low), [valid, pa.py_buffer(words)])


def numbers(values: Any, dtype: pa.DataType | None = None, missing: Any = None) -> pa.Array:
    """Return whole numbers."""
    return pa.array(np.asarray(values), mask=missing).cast(dtype or pa.int64())


def texts(before: str, values: Any, width: int = 0) -> pa.Array:
    """Return texts that end with a number."""
    return pa.array([f"{before}{v:0{width}d}" for v in np.asarray(values).tolist()], pa.string())


def named(choices: Sequence[str | None], places: Any) -> pa.Array:
    """Return the texts at some places of a list."""
    return pa.array(choices, pa.string()).take(pa.array(np.asarray(places)))


def picked(random: np.random.Generator, choices: Sequence[str | None], number: int) -> pa.Array:
    """Return random ones of some texts."""
    return named(choices, random.integers(0, len(choices), number))


def blanked(random: np.random.Generator, values: pa.Array, share: float) -> pa.Array:
    """Return values of which a share is missing."""
    keep = pa.array(random.random(len(values)) >= share)
    return pc.if_else(keep, values, pa.scalar(None, values.type))
