"""Contents and changes of outputs that stay on the disk, and are collected only when they are looked at."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.results import Rows, Updates
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.expressions.schema import Field, Schema
from tidemill.renderer.durable.spill_files import SpillFile, read_file
from tidemill.renderer.durable.spilled import SpilledSpine, SpillFolder
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated, stacked
from tidemill.renderer.spark.live.state_files import read_files
from tidemill.renderer.spark.types import struct


class _Lazy:
    """Contents of `Rows` and `Updates` that ``load`` loads when they are first asked for, and not for ``frame``."""

    _load: Callable[[], Any]
    _frame: Callable[[], DataFrame]

    def __getattr__(self, name: str) -> Any:
        if name not in ("_columns", "_times", "_counts"):
            raise AttributeError(name)
        found = self._load()
        self._columns, self._times, self._counts = found._columns, found._times, found._counts  # noqa: SLF001 - its like
        return getattr(self, name)

    def to_spark(self) -> DataFrame:
        """Return a DataFrame of what ``to_arrow`` gives, in no order, which reads the run's files itself.

        The files are there as long as this object and the run are.
        """
        return self._frame()


class SpilledRows(_Lazy, Rows):
    """See `Rows`."""

    def __init__(
        self, schema: Schema, time: Time | None, load: Callable[[], Rows], frame: Callable[[], DataFrame]
    ) -> None:
        super().__init__(schema, pa.table({}), np.empty(0, np.int64), time)
        _make_lazy(self, load, frame)


class SpilledUpdates(_Lazy, Updates):
    """See `Updates`."""

    def __init__(  # noqa: PLR0917 - as Updates
        self,
        schema: Schema,
        coordinates: Sequence[str],
        lower: Antichain,
        upper: Antichain,
        load: Callable[[], Updates],
        frame: Callable[[], DataFrame],
    ) -> None:
        none = np.empty((len(coordinates), 0), np.int64)
        super().__init__(schema, coordinates, pa.table({}), none, none[0], lower, upper)
        _make_lazy(self, load, frame)


def _make_lazy(of: Any, load: Callable[[], Any], frame: Callable[[], DataFrame]) -> None:
    del of._columns, of._times, of._counts  # noqa: SLF001 - its own
    of._sorted = False  # noqa: SLF001
    of._load, of._frame = load, frame  # noqa: SLF001


@attrs.frozen
class SpilledOutput:
    """Updates of an output, in files and in the driver."""

    spark: SparkSession
    store: SpillFolder
    spilled: SpilledSpine
    files: tuple[SpillFile, ...]
    in_driver: pa.Table
    """Those in the driver, by value: codes may be released meanwhile."""

    def updates(self) -> UpdateArray:
        """Return all updates, brought to the driver."""
        layout, interner = self.spilled.layout, self.store.interner
        tables = [read_file(self.store.folder, layout, f) for f in self.files]
        return consolidated(stacked([layout.encoded(table, interner) for table in (*tables, self.in_driver)]))

    def frame(self) -> DataFrame:
        """Return all updates as a DataFrame ``v0, ...``, ``t0, ...``, ``w0``."""
        layout = self.spilled.layout
        data = read_files(self.spark, self.store, layout, self.files)
        schema = Schema(tuple(Field(name, dtype) for name, dtype in layout.fields))
        return data.union(self.spark.createDataFrame(self.in_driver, schema=struct(schema)))


def pin(store: SpillFolder, files: Iterable[SpillFile], by: object) -> None:
    """Keep files as long as an object lives."""
    names = [f.name for f in files]
    store.pin(names)
    weakref.finalize(by, store.unpin, names)


def contents_at(data: DataFrame, width: int, at: Time | None) -> DataFrame:
    """Return the rows of updates ``v0, ...``, ``t0, ...``, ``w0`` up to a time, each as often as its count."""
    row = [f"v{i}" for i in range(width)]
    for i, last in enumerate(at or ()):
        data = data.filter(F.col(f"t{i}") <= last)
    counted = data.groupBy(*row).agg(F.sum("w0").cast("int").alias("n")).filter(F.col("n") > 0)
    copies = F.explode(F.array_repeat(F.lit(0), F.col("n"))).alias("copy")
    return counted.select(*row, copies).select(*row)


def compacted(data: DataFrame, width: int, since: Antichain) -> DataFrame:
    """Return updates with times advanced to a frontier, consolidated."""
    ends = list(zip(*since.elements, strict=True))  # of each coordinate
    for i, bounds in enumerate(ends):
        reached = [F.greatest(F.col(f"t{i}"), F.lit(c).cast("bigint")) for c in bounds]
        data = data.withColumn(f"t{i}", F.least(*reached) if len(reached) > 1 else reached[0])
    coordinates = len(ends) or sum(name.startswith("t") for name in data.columns)
    return summed(data, width, coordinates)


def summed(data: DataFrame, width: int, coordinates: int) -> DataFrame:
    """Return updates with the weights of equal rows at equal times added up, zeros dropped."""
    keys = [*(f"v{i}" for i in range(width)), *(f"t{i}" for i in range(coordinates))]
    return data.groupBy(*keys).agg(F.sum("w0").alias("w0")).filter(F.col("w0") != 0)
