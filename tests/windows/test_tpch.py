"""Window calls over the tables of TPC-H, as SQL text that DuckDB reads too, kept up to date as orders come and go."""

from typing import Any

import attrs
import pyarrow as pa
import pytest
from support import tpch

import tidemill as tm

ORDERS = {
    "before": "lag(o_totalprice) over (partition by o_custkey order by o_orderdate, o_orderkey)",
    "second": "lag(o_orderdate, 2, o_orderdate) over (partition by o_custkey order by o_orderdate, o_orderkey)",
    "spent": "sum(o_totalprice) over (partition by o_custkey order by o_orderdate)",
    "week": "sum(o_totalprice) over (order by o_orderdate range between interval '6' day preceding and current row)",
    "open": "count(*) filter (where o_orderstatus = 'O') over (partition by o_clerk order by o_orderdate)",
    "place": "rank() over (partition by o_orderpriority order by o_totalprice desc)",
    "quarter": "ntile(4) over (partition by o_orderpriority order by o_totalprice, o_orderkey)",
    "share": "cume_dist() over (partition by o_clerk order by o_orderdate)",
    "near": (
        "max(o_totalprice) over (partition by o_clerk order by o_orderdate "
        "groups between 1 preceding and 1 following exclude ties)"
    ),
    "clerks": "count(distinct o_clerk) over (partition by o_custkey)",
}
LINES = {
    "line": "row_number() over (partition by l_orderkey order by l_linenumber)",
    "last": "sum(l_quantity) over (partition by l_suppkey order by l_shipdate, l_orderkey, l_linenumber rows 3 preceding)",
    "late": "max(l_receiptdate) over (partition by l_suppkey order by l_shipdate range unbounded preceding)",
    "least": (
        "min(l_extendedprice) over (partition by l_partkey order by l_shipdate "
        "range between interval '1' month preceding and interval '1' month following exclude current row)"
    ),
    "revenue": "sum(l_extendedprice * (1 - l_discount)) over (partition by l_orderkey)",
    "reason": "first_value(l_returnflag) over (partition by l_orderkey order by l_linenumber desc)",
}
BEST = "row_number() over (partition by l_shipmode order by l_extendedprice desc, l_orderkey, l_linenumber)"
CALLS = {"orders": (["o_orderkey"], ORDERS), "lineitem": (["l_orderkey", "l_linenumber"], LINES)}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Orders and their lines, in twenty parts."""
    made = tpch.tables(tmp_path_factory.mktemp("tpch"), 0.01, "orders", "lineitem")
    return tpch.orders_in_parts(made, 20)


def rendered(text: str, strategy: str) -> Any:
    """The call that a text is, in a rendering."""
    call: Any = tm.expr(text)
    return attrs.evolve(call, strategy=strategy)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "count"), [("auto", 20), ("prefix_sum", 4)])
def test_orders_come_and_go(parts, strategy, count):
    parts = parts[:count]
    flow = tm.Dataflow("tpch")
    for name, (key, calls) in CALLS.items():
        given = flow.input(name, parts[0][name].schema)
        called = {n: rendered(text, strategy) for n, text in calls.items()}
        flow.output(f"{name}_calls", given.with_columns(**called).select(*key, *calls))
        if name == "lineitem":
            flow.output("best", given.with_columns(place=BEST).filter("place <= 5").select("l_orderkey", "place"))
    there = list(range(count - 2))
    with flow.start() as run:
        change(run.insert, [parts[n] for n in there])
        run.advance()
        compare(run, [parts[n] for n in there])
        for gone, new in ((0, count - 2), (1, count - 1)):
            change(run.delete, [parts[gone]])
            change(run.insert, [parts[new]])
            run.advance()
            there = [n for n in [*there, new] if n != gone]
            compare(run, [parts[n] for n in there])


def change(write, some):
    for part in some:
        for name, table in part.items():
            write(name, table)


def compare(run, some):
    tables = {name: pa.concat_tables([part[name] for part in some]) for name in CALLS}
    for name, (key, calls) in CALLS.items():
        columns = ", ".join([*key, *(f'{text} AS "{n}"' for n, text in calls.items())])
        expected = tpch.by_duckdb(f"SELECT {columns} FROM {name}", **tables)
        assert tpch.rows_of(run.snapshot(f"{name}_calls").to_arrow()) == tpch.rows_of(expected)
    expected = tpch.by_duckdb(f"SELECT l_orderkey, {BEST} AS place FROM lineitem QUALIFY place <= 5", **tables)
    assert tpch.rows_of(run.snapshot("best").to_arrow()) == tpch.rows_of(expected)
