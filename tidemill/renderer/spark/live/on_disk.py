"""Contents and changes of outputs that are on the disk, and come to the driver only when they are looked at."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.results import Rows, Updates
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType
from tidemill.renderer.durable.spill_files import ColdFile, Layout, read_file
from tidemill.renderer.durable.spilled import Cold, ColdStore
from tidemill.renderer.embedded.kernels.updates import UpdateArray, consolidated, stacked
from tidemill.renderer.spark.types import spark_type, struct

__all__ = ["DiskRows", "DiskUpdates", "Parts", "contents", "folded", "pin", "read_cold", "summed"]


class _OnDisk:
    """What `Rows` and `Updates` hold is got by ``load`` when it is first asked for; ``frame`` goes without it."""

    _load: Callable[[], Any]
    _frame: Callable[[], DataFrame]

    def __getattr__(self, name: str) -> Any:
        if name not in ("_table", "_times", "_counts"):
            raise AttributeError(name)
        found = self._load()
        self._table, self._times, self._counts = found._table, found._times, found._counts  # noqa: SLF001 - its like
        return getattr(self, name)

    def to_spark(self) -> DataFrame:
        """Return a DataFrame of what ``to_arrow`` gives, in no order, which reads the run's files itself.

        The files are there as long as this object and the run are.
        """
        return self._frame()


class DiskRows(_OnDisk, Rows):
    """See `Rows`."""

    def __init__(
        self, schema: Schema, time: Time | None, load: Callable[[], Rows], frame: Callable[[], DataFrame]
    ) -> None:
        super().__init__(schema, pa.table({}), np.empty(0, np.int64), time)
        _made_lazy(self, load, frame)


class DiskUpdates(_OnDisk, Updates):
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
        _made_lazy(self, load, frame)


def _made_lazy(of: Any, load: Callable[[], Any], frame: Callable[[], DataFrame]) -> None:
    del of._table, of._times, of._counts  # noqa: SLF001 - its own
    of._sorted = False  # noqa: SLF001
    of._load, of._frame = load, frame  # noqa: SLF001


@attrs.frozen
class Parts:
    """Updates of an output: some in files, and some in the driver."""

    spark: SparkSession
    store: ColdStore
    cold: Cold
    files: tuple[ColdFile, ...]
    here: pa.Table
    """What is in the driver, by value: codes may be released while this is there."""

    def updates(self) -> UpdateArray:
        """Return them all, in the driver."""
        layout, interner = self.cold.layout, self.store.interner
        tables = [read_file(self.store.folder, layout, f) for f in self.files]
        return consolidated(stacked([layout.encoded(table, interner) for table in (*tables, self.here)]))

    def frame(self) -> DataFrame:
        """Return them all as a DataFrame ``v0, ...``, ``t0, ...``, ``w0``."""
        layout = self.cold.layout
        data = read_cold(self.spark, self.store, layout, self.files)
        schema = Schema(tuple(Field(name, dtype) for name, dtype in layout.fields))
        return data.union(self.spark.createDataFrame(self.here, schema=struct(schema)))


def pin(store: ColdStore, files: Iterable[ColdFile], by: object) -> None:
    """Keep files as long as an object is there."""
    names = [f.name for f in files]
    store.pin(names)
    weakref.finalize(by, store.unpin, names)


def read_cold(spark: SparkSession, store: ColdStore, layout: Layout, files: Sequence[ColdFile]) -> DataFrame:
    """Return what cold files hold as a DataFrame."""
    alike: dict[Any, list[ColdFile]] = {}
    for file in files:  # those that are sorted have a column more
        alike.setdefault((file.sorted, file.columns, file.constants), []).append(file)
    found = []
    for some in alike.values():
        data = spark.read.parquet(*(str(store.folder / f.name) for f in some))
        found.append(data.select(*(_column(source, t).alias(name) for name, t, source in some[0].sources(layout))))
    return functools.reduce(DataFrame.union, found)


def _column(source: str | int | None, dtype: DType) -> Column:
    return F.col(source) if isinstance(source, str) else F.lit(source).cast(spark_type(dtype))


def contents(data: DataFrame, width: int, at: Time | None) -> DataFrame:
    """Return the rows of updates ``v0, ...``, ``t0, ...``, ``w0`` up to a time, each as often as its count."""
    row = [f"v{i}" for i in range(width)]
    for i, last in enumerate(at or ()):
        data = data.filter(F.col(f"t{i}") <= last)
    counted = data.groupBy(*row).agg(F.sum("w0").cast("int").alias("n")).filter(F.col("n") > 0)
    copies = F.explode(F.array_repeat(F.lit(0), F.col("n"))).alias("copy")
    return counted.select(*row, copies).select(*row)


def folded(data: DataFrame, width: int, since: Antichain) -> DataFrame:
    """Return updates added up at times that are told apart only from a frontier on, less those that come to nothing."""
    ends = list(zip(*since.elements, strict=True))  # of each coordinate
    for i, bounds in enumerate(ends):
        reached = [F.greatest(F.col(f"t{i}"), F.lit(c).cast("bigint")) for c in bounds]
        data = data.withColumn(f"t{i}", F.least(*reached) if len(reached) > 1 else reached[0])
    coordinates = len(ends) or sum(name.startswith("t") for name in data.columns)
    return summed(data, width, coordinates)


def summed(data: DataFrame, width: int, coordinates: int) -> DataFrame:
    """Return updates with equal rows at equal times added up, less those that come to nothing."""
    keys = [*(f"v{i}" for i in range(width)), *(f"t{i}" for i in range(coordinates))]
    return data.groupBy(*keys).agg(F.sum("w0").alias("w0")).filter(F.col("w0") != 0)
