"""Sorted files of state as DataFrames, whose pages executors read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np
from pyspark.sql import DataFrame, SparkSession

from tidemill.boundary.arrow_arrays import bool_array, numbers_of
from tidemill.expressions.schema import Field, Schema
from tidemill.renderer.durable.page_files import HASH
from tidemill.renderer.durable.spill_files import Layout, Pages, SpillFile
from tidemill.renderer.embedded.kernels.updates import Bools, Ints
from tidemill.renderer.embedded.trace.elsewhere import Range
from tidemill.renderer.spark.tasks import Batches, done_in_executors
from tidemill.renderer.spark.types import struct

_PAGES: Final = 1 << 13
"""Pages of a task: about a million rows."""
_TOGETHER: Final = 1 << 9
"""Pages of a batch that a task gives."""


@attrs.frozen
class _Part:
    """Some pages of a file."""

    file: SpillFile
    pages: Sequence[int]


def read_pages(
    spark: SparkSession, folder: Path, layout: Layout, files: Sequence[SpillFile], ranges: Sequence[Range] | None
) -> DataFrame:
    """Return what is in sorted files; with ``ranges`` of the order in which they lie, of these alone."""
    parts = [part for file in files for part in _parts(Pages(folder, file), file, ranges)]
    names = [name for name, _ in layout.fields]

    def read(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _read(folder, parts[number], names, ranges)

    given = spark.range(0, len(parts), 1, max(1, len(parts)))
    return done_in_executors(given, read, struct(Schema(tuple(Field(*field) for field in layout.fields))))


def _parts(pages: Pages, file: SpillFile, ranges: Sequence[Range] | None) -> Iterator[_Part]:
    which = pages.all() if ranges is None else sorted({p for some in ranges for p in pages.within(*some)})
    for at in range(0, len(which), _PAGES):
        yield _Part(file, tuple(which[at : at + _PAGES]))


def _read(folder: Path, part: _Part, names: list[str], ranges: Sequence[Range] | None) -> Batches:
    pages = Pages(folder, part.file)
    for at in range(0, len(part.pages), _TOGETHER):
        table = pages.read(part.pages[at : at + _TOGETHER])
        if ranges is not None:
            table = table.filter(bool_array(_within(numbers_of(table.column(HASH)), ranges)))
        yield from table.select(names).to_batches()


def _within(numbers: Ints, ranges: Sequence[Range]) -> Bools:
    """Return whether numbers of an order are in one of the ranges."""
    found: Bools = np.zeros(len(numbers), np.bool_)
    for low, high in ranges:
        found |= (numbers >= low) if high is None else (numbers >= low) & (numbers < high)
    return found
