"""R1 to R4: what people have in tables: floats, strings, timestamps, several aggregates, thousand-row batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED, Change, Tables, Workload

CATEGORIES, ITEMS, USERS, DAYS = 100, 50_000, 200_000, 365
_FIRST_DAY = 19_723  # 2024-01-01
_MICROSECONDS = 86_400_000_000


class Sales(Workload):
    """Sales, of which no two amounts are alike, so that an order by them is one; as many come as leave in an epoch."""

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
        return pa.table({name: columns[name]() for name in self.inputs["sales"]})

    def changes(self, tables: Tables) -> Iterator[Change]:
        for changes in self.bulk_changes(tables, 2):
            yield from changes

    def bulk_changes(self, tables: Tables, rows: int) -> Iterator[list[Change]]:
        half, gone = rows // 2, np.random.default_rng(SEED + 1).permutation(self.rows)
        for start in range(0, min(self.SPARE, self.rows) - half + 1, half):
            leaving = tables["sales"].take(gone[start : start + half]).combine_chunks()
            yield [Change("sales", leaving, -1), Change("sales", self._all.slice(self.rows + start, half), +1)]


def _by_category(tm: Any, sales: Any) -> Any:
    return sales.group_by("category", "day").agg(n=tm.count(), total=tm.sum("amount"))


def _by_user(tm: Any, sales: Any) -> Any:
    return sales.group_by("user").agg(n=tm.count(), total=tm.sum("amount"), last=tm.max("at"))


def _dearest(tm: Any, sales: Any) -> Any:
    top = sales.group_by("category").top_k(3, order_by=[tm.desc("amount")])
    return top.select("category", "user", "item", "at", "amount")


class ByCategory(Sales):
    name = "R1"
    title = "5,000,000 sales, count and float sum by category and day"
    query = "SELECT category, day, count(*) AS n, sum(amount) AS total FROM sales GROUP BY category, day"
    inputs: ClassVar = {"sales": {"category": "string", "day": "date", "amount": "float64"}}

    def answer(self, tm: Any, **tables: Any) -> Any:
        return _by_category(tm, tables["sales"])


class ByUser(Sales):
    name = "R2"
    title = "5,000,000 sales, count, float sum and last timestamp by 200,000 users"
    query = 'SELECT "user", count(*) AS n, sum(amount) AS total, max("at") AS "last" FROM sales GROUP BY "user"'
    inputs: ClassVar = {"sales": {"user": "string", "at": "timestamp", "amount": "float64"}}

    def answer(self, tm: Any, **tables: Any) -> Any:
        return _by_user(tm, tables["sales"])


class Dearest(Sales):
    name = "R3"
    title = "5,000,000 sales, the three dearest of each of 100 categories"
    query = (
        'SELECT unnest(max_by(struct_pack(category := category, "user" := "user", item := item, "at" := "at", '
        "amount := amount), amount, 3), recursive := true) FROM sales GROUP BY category"
    )
    inputs: ClassVar = {"sales": {
        "category": "string", "user": "string", "item": "int64", "at": "timestamp", "amount": "float64",
    }}  # fmt: skip

    def answer(self, tm: Any, **tables: Any) -> Any:
        return _dearest(tm, tables["sales"])


class Everything(Sales):
    """The three at once, of sales joined to their items."""

    name = "R4"
    title = "R1 to R3 at once, of 5,000,000 sales joined to 50,000 items"
    query = ByCategory.query
    inputs: ClassVar = {
        "items": {"item": "int64", "category": "string"},
        "sales": {"item": "int64", "user": "string", "day": "date", "at": "timestamp", "amount": "float64"},
    }
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

    def answer(self, tm: Any, **tables: Any) -> Any:
        joined = tables["sales"].join(tables["items"], on="item")
        return {
            "by_category": _by_category(tm, joined), "by_user": _by_user(tm, joined), "dearest": _dearest(tm, joined),
        }  # fmt: skip


class Accounts(Sales):
    """Rows are put by key, and the row that was there goes."""

    name = "R6"
    title = "upserts: 1,000,000 keys, count and float sum by region"
    query = "SELECT region, count(*) AS n, sum(balance) AS total FROM accounts GROUP BY region"
    key = "id"
    inputs: ClassVar = {"accounts": {"id": "int64", "region": "string", "balance": "float64"}}
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

    def answer(self, tm: Any, **tables: Any) -> Any:
        return tables["accounts"].group_by("region").agg(n=tm.count(), total=tm.sum("balance"))


def _named(what: str, count: int, rng: Any, n: int) -> pa.Array:
    """Return random names out of so many."""
    names = pa.array([f"{what} {i:06}" for i in range(count)])
    return names.take(pa.array(rng.integers(0, count, n).astype(np.int32)))
