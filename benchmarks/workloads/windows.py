"""W4 to W13: window calls over large partitions, a row an epoch; DuckDB computes the whole query anew."""

import datetime as dt
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workload import SEED, Change, Row, Tables, Workload

INPUTS = {"events": {"p": "int64", "t": "timestamp", "x": "int64"}}
MICROSECONDS = "timestamp[us]"


class Windowed(Workload):
    """Delete a loaded row, insert one at another time, in turn. Times are distinct: engines agree on the order."""

    on_one_thread_too = True
    inputs: ClassVar = INPUTS
    without_pathway = "Pathway has pointers to the next and the last row, and no frames"
    rows: ClassVar[int]
    partitions: ClassVar[int] = 1
    over: ClassVar[str]
    """The column with the call, as SQL text that tidemill and DuckDB read alike."""
    most: ClassVar[int | None] = None
    """The largest value of it that is asked for."""
    apart: ClassVar[int] = 36_000_000
    """Microseconds from one row of the table to the next."""

    def __init_subclass__(cls) -> None:
        cls.query = f"SELECT p, t, x, {cls.over} AS y FROM events"
        if cls.most is not None:
            cls.query = f"SELECT * FROM ({cls.query}) WHERE y <= {cls.most}"

    @property
    def count(self) -> int:
        return round(self.rows * self.scale)

    def tables(self) -> Tables:
        dice, n = np.random.default_rng(SEED), self.count
        times = pa.array(dice.permutation(n) * self.apart).cast(MICROSECONDS)
        return {
            "events": pa.table({"p": dice.integers(0, self.partitions, n), "t": times, "x": dice.integers(-99, 99, n)})
        }

    def changes(self, tables: Tables) -> Iterator[Change]:
        dice = np.random.default_rng(SEED + 1)
        for at in dice.permutation(self.count).tolist():
            (row,) = tables["events"].slice(at, 1).to_pylist()
            yield Change("events", [tuple(row.values())], -1)
            yield Change("events", [self.moved(row, dice)], 1)

    def moved(self, row: dict[str, Any], dice: np.random.Generator) -> Row:
        """Return a row as it comes back: at a time between those of two others."""
        at = int(dice.integers(self.count)) * self.apart + 1 + int(dice.integers(self.apart - 1))
        return row["p"], np.datetime64(at, "us").item(), row["x"]

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        rows = tables["events"].with_columns(y=self.over)
        return rows if self.most is None else rows.filter(f"y <= {self.most}")


class Before(Windowed):
    """The row before, in each of ten partitions."""

    name = "W4"
    title = "lag of 200,000 rows in 10 partitions"
    rows = 200_000
    partitions = 10
    over = "lag(x) OVER (PARTITION BY p ORDER BY t)"


class RunningSum(Windowed):
    """Rows come and go among the last hundred of each partition."""

    name = "W4s"
    title = "running sum of 200,000 rows in 10 partitions, changes among the last 100 rows of each"
    rows = 200_000
    partitions = 10
    over = "CAST(sum(x) OVER (PARTITION BY p ORDER BY t) AS BIGINT)"

    def changes(self, tables: Tables) -> Iterator[Change]:
        return _back_and_forth(tables["events"], "descending", 100 * self.partitions)


class Mean(Windowed):
    name = "W7"
    title = "avg ROWS 4 PRECEDING of 1,000,000 rows in one partition"
    rows = 1_000_000
    over = "avg(x) OVER (ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)"


class LeastAround(Windowed):
    """Ten rows are peers."""

    name = "W8"
    title = "min GROUPS 100 PRECEDING..100 FOLLOWING EXCLUDE TIES of 1,000,000 rows in one partition"
    rows = 1_000_000
    over = "min(x) OVER (ORDER BY date_trunc('day', t) GROUPS BETWEEN 100 PRECEDING AND 100 FOLLOWING EXCLUDE TIES)"
    apart = 8_640_000_000


class LastHour(Windowed):
    name = "W9"
    title = "sum RANGE 1 hour PRECEDING of 1,000,000 rows in one partition, 100 an hour"
    rows = 1_000_000
    over = "CAST(sum(x) OVER (ORDER BY t RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS BIGINT)"


class FirstTen(Windowed):
    """Rows come and go among the first ten of each partition."""

    name = "W10"
    title = "row_number() <= 10 of 1,000,000 rows in 100 partitions, changes among the first 10 rows of each"
    rows = 1_000_000
    partitions = 100
    over = "row_number() OVER (PARTITION BY p ORDER BY t)"
    most = 10

    def changes(self, tables: Tables) -> Iterator[Change]:
        return _back_and_forth(tables["events"], "ascending", 10 * self.partitions)


class Ranks(Windowed):
    """A row moves by ten places."""

    name = "W12"
    title = "rank, dense_rank, ntile of 100,000 rows in one partition, a row moved by 10 places"
    rows = 100_000
    over = "rank() OVER (ORDER BY t) + dense_rank() OVER (ORDER BY t) * 1000000 + ntile(100) OVER (ORDER BY t) * 7"

    def steps(self, tables: Tables) -> Iterator[list[Change]]:
        changes = self.changes(tables)
        return (list(pair) for pair in zip(changes, changes, strict=False))

    def moved(self, row: dict[str, Any], dice: np.random.Generator) -> Row:
        del dice
        return row["p"], row["t"] + dt.timedelta(microseconds=10 * self.apart + 1), row["x"]


def _back_and_forth(events: pa.Table, order: str, count: int) -> Iterator[Change]:
    """Delete one of so many rows that come first in an order, insert it a microsecond later, in turn."""
    rows = events.take(pc.sort_indices(events, [("t", order)])[:count]).to_pylist()
    for at in np.random.default_rng(SEED + 1).permutation(count).tolist():
        p, t, x = rows[at].values()
        yield Change("events", [(p, t, x)], -1)
        yield Change("events", [(p, t + dt.timedelta(microseconds=1), x)], 1)


# -- once and for all -------------------------------------------------------------------------------------------------

MEAN = "avg(x) OVER (PARTITION BY p ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)"
APART = 1_000_000
"""Microseconds from one row to the next; some of them come in another order."""


class MeanOnClose(Workload):
    """A million rows have gone past; ten come each epoch, a little out of order, and as many are given."""

    name = "W13"
    inputs: ClassVar = INPUTS
    watermark = ("t", dt.timedelta(seconds=20))
    without_pathway = "Pathway has no frames of rows"
    on_one_thread_too = True
    title = "avg ROWS 4 PRECEDING on close, ten new rows an epoch after 1,000,000"
    query = (
        f"SELECT * FROM (SELECT p, t, x, {MEAN} AS y FROM events) "
        "WHERE t < (SELECT max(t) FROM events) - INTERVAL 20 SECOND"
    )

    @property
    def count(self) -> int:
        return round(1_000_000 * self.scale)

    def tables(self) -> Tables:
        return {"events": self._rows(np.random.default_rng(SEED), 0, self.count)}

    def changes(self, tables: Tables) -> Iterator[Change]:
        dice = np.random.default_rng(SEED + 1)
        at = len(tables["events"])
        while True:
            rows = self._rows(dice, at, 10)
            yield Change("events", [tuple(row.values()) for row in rows.to_pylist()], 1)
            at += 10

    @staticmethod
    def _rows(dice: np.random.Generator, first: int, count: int) -> pa.Table:
        number = first + np.arange(count)
        times = pa.array((number + dice.integers(-5, 5, count)) * APART + number % APART)  # no two are equal
        return pa.table(
            {
                "p": dice.integers(0, 10, count),
                "t": times.cast(MICROSECONDS),
                "x": dice.integers(-99, 99, count),
            }
        )

    def answer(self, tm: Any, **tables: Any) -> Any:  # noqa: ARG002
        return tables["events"].with_columns(y=MEAN, emit="on_close")
