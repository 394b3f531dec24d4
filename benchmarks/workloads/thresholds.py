"""TPC-H Q11 and Q22: rows above a value that is itself an aggregate, as dataflows and as SQL."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["IDLE", "IMPORTANT", "QUERIES", "Query"]

Query = tuple[dict[str, dict[str, str]], str, Any]
"""The columns of each table, the question in SQL, and a function from tm and the tables to the answer."""

_MONEY: Final = "decimal(15, 2) not null"
_KEY: Final = "int64 not null"
_COUNTRIES: Final = "('13', '31', '23', '29', '30', '18', '17')"

_STOCK: Final = """FROM partsupp, supplier, nation
    WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'"""


def _important(tm: Any, partsupp: Any, supplier: Any, nation: Any) -> Any:
    german = supplier.semijoin(nation.filter("n_name = 'GERMANY'"), on={"s_nationkey": "n_nationkey"})
    stock = partsupp.semijoin(german, on={"ps_suppkey": "s_suppkey"})
    value = tm.sum("ps_supplycost * ps_availqty").cast("decimal(14, 2)")
    least = stock.agg(value=value).select(least="CAST(value * 0.0001 AS DECIMAL(18, 6))")
    return stock.group_by("ps_partkey").agg(value=value).dynamic_filter("value", ">", least)


def _idle(tm: Any, customer: Any, orders: Any) -> Any:
    customers = customer.select("c_custkey", "c_acctbal", cntrycode="substring(c_phone, 1, 2)")
    customers = customers.filter(f"cntrycode IN {_COUNTRIES}")
    mean = customers.filter("c_acctbal > 0").agg(mean=tm.avg("c_acctbal"))
    rich = customers.dynamic_filter("c_acctbal", ">", mean)
    idle = rich.antijoin(orders, on={"c_custkey": "o_custkey"})
    return idle.group_by("cntrycode").agg(numcust=tm.count(), totacctbal=tm.sum("c_acctbal"))


IMPORTANT: Final[Query] = (
    {
        "partsupp": {"ps_partkey": _KEY, "ps_suppkey": _KEY, "ps_availqty": "int32 not null", "ps_supplycost": _MONEY},
        "supplier": {"s_suppkey": _KEY, "s_nationkey": _KEY},
        "nation": {"n_nationkey": _KEY, "n_name": "string not null"},
    },
    f"""SELECT ps_partkey, CAST(sum(ps_supplycost * ps_availqty) AS DECIMAL(14, 2)) AS value {_STOCK}
    GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (
        SELECT sum(ps_supplycost * ps_availqty) * 0.0001 {_STOCK})""",
    _important,
)
"""Q11: the parts that are a noticeable share of what suppliers of a nation have in stock."""

IDLE: Final[Query] = (
    {
        "customer": {"c_custkey": _KEY, "c_phone": "string not null", "c_acctbal": _MONEY},
        "orders": {"o_custkey": _KEY},
    },
    f"""SELECT substring(c_phone, 1, 2) AS cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal
    FROM customer WHERE substring(c_phone, 1, 2) IN {_COUNTRIES}
        AND c_acctbal > (SELECT avg(c_acctbal) FROM customer
            WHERE c_acctbal > 0 AND substring(c_phone, 1, 2) IN {_COUNTRIES})
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
    GROUP BY cntrycode""",
    _idle,
)
"""Q22: customers without an order who have more than the mean of what those of some countries have."""

QUERIES: Final = {"Q11": IMPORTANT, "Q22": IDLE}
