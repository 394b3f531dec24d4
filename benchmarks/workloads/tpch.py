"""R5: five queries of TPC-H, by their numbers, as orders come and go with their line items."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workload import SEED, Change, Tables, Workload

GENERATOR = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
LINES_OF_AN_ORDER = 4
"""On average: an order has one to seven."""
_TYPES = {
    "date": "date not null",
    "key": "int64 not null",
    "number": "int32 not null",
    "price": "decimal(15, 2) not null",
    "text": "string not null",
}
_COLUMNS = {
    "l_orderkey": "key", "l_partkey": "key", "l_suppkey": "key", "l_quantity": "price", "l_extendedprice": "price",
    "l_discount": "price", "l_tax": "price", "l_returnflag": "text", "l_linestatus": "text", "l_shipdate": "date",
    "o_orderkey": "key", "o_custkey": "key", "o_totalprice": "price", "o_orderdate": "date", "o_shippriority": "number",
    "c_custkey": "key", "c_name": "text", "c_nationkey": "key", "c_mktsegment": "text",
    "s_suppkey": "key", "s_nationkey": "key", "n_nationkey": "key", "n_name": "text", "n_regionkey": "key",
    "r_regionkey": "key", "r_name": "text", "p_partkey": "key", "p_name": "text",
    "ps_partkey": "key", "ps_suppkey": "key", "ps_supplycost": "price",
}  # fmt: skip
_ORDERS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
"""The tables that change, and what tells which rows are of an order."""

REVENUE = "l_extendedprice * (1 - l_discount)"


class Tpch(Workload):
    """Whole orders leave and others come. Decimals and dates are as the generator gives them, so answers are exact."""

    columns: ClassVar[dict[str, tuple[str, ...]]]
    """The columns that the query needs, by table."""
    threads = 1
    unique: ClassVar = _ORDERS
    SPARE = 0.1
    """The part of the orders that is not there at first."""

    def __init_subclass__(cls) -> None:
        cls.inputs = {t: {column: _TYPES[_COLUMNS[column]] for column in some} for t, some in cls.columns.items()}

    def tables(self) -> Tables:
        names = dict.fromkeys(("orders", *self.columns))  # orders say which line items come and go together
        with tempfile.TemporaryDirectory() as folder:
            read = generated(Path(folder), self.scale, *names)
        found = {name: read[name].select(columns) for name, columns in self.columns.items()}
        keys = np.asarray(read["orders"]["o_orderkey"])
        self._orders = np.random.default_rng(SEED).permutation(keys)
        self._all = {name: found[name] for name in _ORDERS if name in found}
        self._order_of = {name: np.asarray(read[name][key]) for name, key in _ORDERS.items() if name in found}
        self._there = int(len(keys) * (1 - self.SPARE))
        spare = np.sort(self._orders[self._there :])
        for name, order in self._order_of.items():
            found[name] = found[name].filter(pa.array(~_among(order, spare)))
        return found

    def changes(self, tables: Tables) -> Iterator[Change]:
        for changes in self.bulk_changes(tables, 2 * LINES_OF_AN_ORDER):
            yield from changes

    def bulk_changes(self, tables: Tables, rows: int) -> Iterator[list[Change]]:  # noqa: ARG002
        orders = rows // 2 // LINES_OF_AN_ORDER
        for start in range(0, len(self._orders) - self._there - orders + 1, orders):
            leaving, coming = self._orders[start:][:orders], self._orders[self._there + start :][:orders]
            changes = []
            for name in self._all:
                changes += [Change(name, self._of(name, leaving), -1), Change(name, self._of(name, coming), +1)]
            yield changes

    def _of(self, name: str, orders: Any) -> pa.Table:
        """Return a table's rows of some orders."""
        here = self._order_of[name]
        starts, ends = here.searchsorted(np.sort(orders)), here.searchsorted(np.sort(orders), "right")
        places = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        return self._all[name].take(np.concatenate(places)).combine_chunks()


class Pricing(Tpch):
    """Without a key, so rows to delete are found by their values."""

    unique: ClassVar = {}
    name = "R5q1"
    title = "TPC-H Q1: sums and averages of all line items but the last, by two flags"
    columns: ClassVar = {
        "lineitem": (
            "l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_returnflag", "l_linestatus", "l_shipdate",
        ),
    }  # fmt: skip
    query = f"""
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
            sum({REVENUE}) AS sum_disc_price, sum({REVENUE} * (1 + l_tax)) AS sum_charge,
            CAST(avg(l_quantity) AS DECIMAL(19, 6)) AS avg_qty,
            CAST(avg(l_extendedprice) AS DECIMAL(19, 6)) AS avg_price,
            CAST(avg(l_discount) AS DECIMAL(19, 6)) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus
    """

    def answer(self, tm: Any, **tables: Any) -> Any:
        shipped = tables["lineitem"].filter("l_shipdate <= DATE '1998-09-02'")
        return shipped.group_by("l_returnflag", "l_linestatus").agg(
            sum_qty=tm.sum("l_quantity"),
            sum_base_price=tm.sum("l_extendedprice"),
            sum_disc_price=tm.sum(REVENUE),
            sum_charge=tm.sum(f"{REVENUE} * (1 + l_tax)"),
            avg_qty=tm.avg("l_quantity"),
            avg_price=tm.avg("l_extendedprice"),
            avg_disc=tm.avg("l_discount"),
            count_order=tm.count(),
        )


class Unshipped(Tpch):
    name = "R5q3"
    title = "TPC-H Q3: the ten unshipped orders of most revenue"
    columns: ClassVar = {
        "customer": ("c_custkey", "c_mktsegment"),
        "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"),
        "lineitem": ("l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"),
    }
    query = f"""
        SELECT l_orderkey, o_orderdate, o_shippriority, sum({REVENUE}) AS revenue
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
            AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10
    """

    def answer(self, tm: Any, **tables: Any) -> Any:
        building = tables["customer"].filter("c_mktsegment = 'BUILDING'")
        orders = tables["orders"].filter("o_orderdate < DATE '1995-03-15'")
        lines = tables["lineitem"].filter("l_shipdate > DATE '1995-03-15'")
        chosen = orders.semijoin(building, on={"o_custkey": "c_custkey"})
        sold = lines.join(chosen, on={"l_orderkey": "o_orderkey"})
        sums = sold.group_by("l_orderkey", "o_orderdate", "o_shippriority").agg(revenue=tm.sum(REVENUE))
        return sums.group_by().top_k(10, order_by=[tm.desc("revenue"), "o_orderdate"])


class Local(Tpch):
    name = "R5q5"
    title = "TPC-H Q5: revenue from suppliers of the customer's own nation, by nation"
    columns: ClassVar = {
        "customer": ("c_custkey", "c_nationkey"),
        "orders": ("o_orderkey", "o_custkey", "o_orderdate"),
        "lineitem": ("l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"),
        "supplier": ("s_suppkey", "s_nationkey"),
        "nation": ("n_nationkey", "n_name", "n_regionkey"),
        "region": ("r_regionkey", "r_name"),
    }
    query = f"""
        SELECT n_name, sum({REVENUE}) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
            AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
            AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name
    """

    def answer(self, tm: Any, **tables: Any) -> Any:
        asia = tables["region"].filter("r_name = 'ASIA'")
        nations = tables["nation"].semijoin(asia, on={"n_regionkey": "r_regionkey"})
        customers = tables["customer"].join(nations, on={"c_nationkey": "n_nationkey"})
        orders = tables["orders"].filter("o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'")
        ordered = orders.join(customers, on={"o_custkey": "c_custkey"})
        sold = tables["lineitem"].join(ordered, on={"l_orderkey": "o_orderkey"})
        local = sold.semijoin(tables["supplier"], on={"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"})
        return local.group_by("n_name").agg(revenue=tm.sum(REVENUE))


class Profit(Tpch):
    name = "R5q9"
    title = "TPC-H Q9: profit on green parts, by nation and year"
    columns: ClassVar = {
        "part": ("p_partkey", "p_name"),
        "partsupp": ("ps_partkey", "ps_suppkey", "ps_supplycost"),
        "supplier": ("s_suppkey", "s_nationkey"),
        "nation": ("n_nationkey", "n_name"),
        "orders": ("o_orderkey", "o_orderdate"),
        "lineitem": ("l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount"),
    }
    query = f"""
        SELECT n_name, CAST(year(o_orderdate) AS INTEGER) AS o_year,
            sum({REVENUE} - ps_supplycost * l_quantity) AS sum_profit
        FROM part, supplier, lineitem, partsupp, orders, nation
        WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
            AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%'
        GROUP BY n_name, o_year
    """

    def answer(self, tm: Any, **tables: Any) -> Any:
        green = tables["part"].filter("p_name LIKE '%green%'")
        supplied = tables["partsupp"].semijoin(green, on={"ps_partkey": "p_partkey"})
        suppliers = tables["supplier"].join(tables["nation"], on={"s_nationkey": "n_nationkey"})
        offers = supplied.join(suppliers, on={"ps_suppkey": "s_suppkey"})
        sold = tables["lineitem"].join(offers, on={"l_partkey": "ps_partkey", "l_suppkey": "ps_suppkey"})
        dated = sold.join(tables["orders"], on={"l_orderkey": "o_orderkey"})
        profit = tm.sum(f"{REVENUE} - ps_supplycost * l_quantity")
        return dated.group_by("n_name", o_year="year(o_orderdate)").agg(sum_profit=profit)


class Large(Tpch):
    name = "R5q18"
    title = "TPC-H Q18: the hundred dearest of the orders of more than 300 pieces"
    columns: ClassVar = {
        "customer": ("c_custkey", "c_name"),
        "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"),
        "lineitem": ("l_orderkey", "l_quantity"),
    }
    query = """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
            AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate LIMIT 100
    """

    def answer(self, tm: Any, **tables: Any) -> Any:
        sums = tables["lineitem"].group_by("l_orderkey").agg(quantity=tm.sum("l_quantity"))
        large = sums.filter("quantity > 300")
        orders = tables["orders"].join(large, on={"o_orderkey": "l_orderkey"})
        bought = orders.join(tables["customer"], on={"o_custkey": "c_custkey"})
        chosen = bought.select("c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity")
        return chosen.group_by().top_k(100, order_by=[tm.desc("o_totalprice"), "o_orderdate"])


def generated(folder: Path, scale: float, *names: str) -> dict[str, pa.Table]:
    """Return tables at a scale: at 1 there are 1,500,000 orders and four times as many line items."""
    options = ["--scale-factor", str(scale), "--tables", ",".join(names), "--output-dir", str(folder)]
    subprocess.run([GENERATOR, "parquet", *options], check=True, capture_output=True)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet")) for name in names}


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose strings are of the type that every reader knows, without what Parquet says of columns."""
    types = [pa.string() if f.type == pa.string_view() else f.type for f in table.schema]
    return table.cast(pa.schema([pa.field(f.name, t, f.nullable) for f, t in zip(table.schema, types, strict=True)]))


def _among(values: Any, ordered: Any) -> Any:
    """Return which of some values are among others that are in order."""
    at = ordered.searchsorted(values).clip(max=len(ordered) - 1)
    return ordered[at] == values
