"""R1 to R4: what people have in tables: floats, strings, timestamps, several aggregates, thousand-row batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, NotSupportedError, Tables, Workload

CATEGORIES, ITEMS, USERS, DAYS = 100, 50_000, 200_000, 365
_FIRST_DAY = 19_723  # 2024-01-01
_MICROSECONDS = 86_400_000_000


class Sales(Workload):
    """Sales, of which no two amounts are alike, so that an order by them is one; as many come as leave in an epoch."""

    columns: ClassVar[dict[str, str]]
    threads = 1
    unique: ClassVar = {"sales": "amount"}
    SPARE = 100_000
    """Sales that may come in later."""

    @property
    def rows(self) -> int:
        """How many there are to begin with."""
        return int(5_000_000 * self.scale)

    def tables(self) -> Tables:
        self._all = self._sales(self.rows + self.SPARE)
        return {"sales": self._all.slice(0, self.rows)}

    def _sales(self, n: int) -> pa.Table:
        rng = np.random.default_rng(SEED)
        columns = {
            "item": lambda: pa.array(rng.integers(0, ITEMS, n)),
            "category": lambda: _named("category", CATEGORIES, rng, n),
            "user": lambda: _named("user", USERS, rng, n),
            "day": lambda: pa.array(_FIRST_DAY + rng.integers(0, DAYS, n).astype(np.int32)).view(pa.date32()),
            "at": lambda: pa.array(_FIRST_DAY * _MICROSECONDS + rng.integers(0, DAYS * _MICROSECONDS, n)).view(
                pa.timestamp("us")
            ),
            "amount": lambda: pa.array((rng.permutation(n) + 1) / 100),
        }
        return pa.table({name: columns[name]() for name in self.columns})

    def changes(self, tables: Tables) -> Iterator[Change]:
        for changes in self.bulk_changes(tables, 2):
            yield from changes

    def bulk_changes(self, tables: Tables, rows: int) -> Iterator[list[Change]]:
        half, gone = rows // 2, np.random.default_rng(SEED + 1).permutation(self.rows)
        for start in range(0, min(self.SPARE, self.rows) - half + 1, half):
            leaving = tables["sales"].take(gone[start : start + half]).combine_chunks()
            yield [Change("sales", leaving, -1), Change("sales", self._all.slice(self.rows + start, half), +1)]

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        self.outputs(tm, flow, flow.input("sales", self.columns))
        return flow

    def outputs(self, tm: Any, flow: Any, sales: Any) -> None:
        """Declare what is asked for."""
        raise NotImplementedError

    def pathway(self, pw: Any, tables: Any) -> Any:  # noqa: ARG002
        msg = "measured against DuckDB alone"
        raise NotSupportedError(msg)


class ByCategory(Sales):
    name = "R1"
    title = "5,000,000 sales, count and float sum by category and day"
    query = "SELECT category, day, count(*) AS n, sum(amount) AS total FROM sales GROUP BY category, day"
    columns: ClassVar = {"category": "string", "day": "date", "amount": "float64"}

    def outputs(self, tm: Any, flow: Any, sales: Any) -> None:
        flow.output("answer", sales.group_by("category", "day").agg(n=tm.count(), total=tm.sum("amount")))


class ByUser(Sales):
    name = "R2"
    title = "5,000,000 sales, count, float sum and last timestamp by 200,000 users"
    query = 'SELECT "user", count(*) AS n, sum(amount) AS total, max("at") AS "last" FROM sales GROUP BY "user"'
    columns: ClassVar = {"user": "string", "at": "timestamp", "amount": "float64"}

    def outputs(self, tm: Any, flow: Any, sales: Any) -> None:
        flow.output("answer", sales.group_by("user").agg(n=tm.count(), total=tm.sum("amount"), last=tm.max("at")))


class Dearest(Sales):
    name = "R3"
    title = "5,000,000 sales, the three dearest of each of 100 categories"
    query = (
        'SELECT unnest(max_by(struct_pack(category := category, "user" := "user", item := item, "at" := "at", '
        "amount := amount), amount, 3), recursive := true) FROM sales GROUP BY category"
    )
    columns: ClassVar = {
        "category": "string", "user": "string", "item": "int64", "at": "timestamp", "amount": "float64",
    }  # fmt: skip

    def outputs(self, tm: Any, flow: Any, sales: Any) -> None:
        top = sales.group_by("category").top_k(3, order_by=[tm.desc("amount")])
        flow.output("answer", top.select(*self.columns))


class Everything(Sales):
    """The three at once, of sales joined to their items."""

    name = "R4"
    title = "R1 to R3 at once, of 5,000,000 sales joined to 50,000 items"
    query = ByCategory.query
    columns: ClassVar = {
        "item": "int64", "user": "string", "day": "date", "at": "timestamp", "amount": "float64",
    }  # fmt: skip
    joined = "(SELECT * FROM sales JOIN items USING (item)) AS sales"
    queries: ClassVar = {
        "by_category": ByCategory.query.replace("FROM sales", f"FROM {joined}"),
        "by_user": ByUser.query.replace("FROM sales", f"FROM {joined}"),
        "dearest": Dearest.query.replace("FROM sales", f"FROM {joined}"),
    }

    def tables(self) -> Tables:
        rng = np.random.default_rng(SEED + 2)
        items = {"item": pa.array(np.arange(ITEMS)), "category": _named("category", CATEGORIES, rng, ITEMS)}
        return {"items": pa.table(items), **super().tables()}

    def outputs(self, tm: Any, flow: Any, sales: Any) -> None:
        joined = sales.join(flow.input("items", {"item": "int64", "category": "string"}), on="item")
        by_category = joined.group_by("category", "day").agg(n=tm.count(), total=tm.sum("amount"))
        by_user = joined.group_by("user").agg(n=tm.count(), total=tm.sum("amount"), last=tm.max("at"))
        flow.output("by_category", by_category)
        flow.output("by_user", by_user)
        top = joined.group_by("category").top_k(3, order_by=[tm.desc("amount")])
        flow.output("dearest", top.select("category", "user", "item", "at", "amount"))


class Accounts(Sales):
    """Rows are put by key, and the row that was there goes."""

    name = "R6"
    title = "upserts: 1,000,000 keys, count and float sum by region"
    query = "SELECT region, count(*) AS n, sum(balance) AS total FROM accounts GROUP BY region"
    key = "id"
    unique: ClassVar = {"accounts": "id"}

    @property
    def rows(self) -> int:
        return int(1_000_000 * self.scale)

    def tables(self) -> Tables:
        return {"accounts": self._accounts(np.arange(self.rows), np.random.default_rng(SEED))}

    @staticmethod
    def _accounts(ids: Any, rng: Any) -> pa.Table:
        n = len(ids)
        balances = rng.integers(-1_000_000, 1_000_000, n) / 100
        return pa.table({"id": ids, "region": _named("region", CATEGORIES, rng, n), "balance": balances})

    def bulk_changes(self, tables: Tables, rows: int) -> Iterator[list[Change]]:  # noqa: ARG002
        rng = np.random.default_rng(SEED + 1)
        while True:
            ids = rng.choice(self.rows, rows, replace=False)
            yield [Change("accounts", self._accounts(ids, rng), +1)]

    def tidemill(self, tm: Any) -> Any:
        flow = tm.Dataflow(self.name)
        schema = {"id": "int64", "region": "string", "balance": "float64"}
        accounts = flow.input("accounts", schema, key=self.key)
        flow.output("answer", accounts.group_by("region").agg(n=tm.count(), total=tm.sum("balance")))
        return flow


def _named(what: str, count: int, rng: Any, n: int) -> pa.Array:
    """Return random names out of so many."""
    names = pa.array([f"{what} {i:06}" for i in range(count)])
    return names.take(pa.array(rng.integers(0, count, n).astype(np.int32)))
