"""W13: a sliding average over an append-only stream, each row given once; DuckDB computes the whole query anew."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, NotSupportedError, Tables, Workload

MEAN = "avg(x) OVER (PARTITION BY p ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)"
APART = 1_000_000
"""Microseconds from one row to the next; some of them come in another order."""
DELAY = dt.timedelta(seconds=20)


class MeanOnClose(Workload):
    """A million rows have gone past; ten come each epoch, a little out of order, and as many are given."""

    name = "W13"
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
                "t": times.cast("timestamp[us]"),
                "x": dice.integers(-99, 99, count),
            }
        )

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        schema = {"p": "int64", "t": "timestamp", "x": "int64"}
        events = flow.input("events", schema, watermark=("t", DELAY))
        flow.output("answer", events.with_columns(y=MEAN, emit="on_close"))
        return flow

    def pathway(self, pw: Any, tables: Any) -> Any:  # noqa: ARG002
        msg = "Pathway has no frames of rows"
        raise NotSupportedError(msg)
