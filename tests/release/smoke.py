"""Try an installed tidemill, with what it needs and no more: ``python smoke.py``, and on Spark with ``--spark``.

Run by tests/release/check.py in clean environments, from a folder that is not the repository.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidemill as tm


def orders(*, loops: bool = True) -> tm.Dataflow:
    """Return a dataflow with something of everything: a join, aggregates, a window, SQL, a regular expression, a loop."""
    flow = tm.Dataflow("orders")
    placed = flow.input("orders", {"id": "int64", "customer": "string", "euros": "decimal(10, 2)"})
    customers = flow.input("customers", {"customer": "string", "country": "string"})
    parents = flow.input("parents", {"customer": "string", "parent": "string"})
    joined = placed.join(customers, on="customer")
    flow.output("totals", joined.group_by("country").agg(total=tm.sum("euros"), mean=tm.avg("euros")))
    by_id = tm.Window.partition_by("customer").order_by("id")
    flow.output("running", placed.select("id", so_far=tm.sum("euros").over(by_id)))
    text = "SELECT country, count(*) AS n FROM orders JOIN customers USING (customer) GROUP BY country"
    flow.output("counts", flow.sql(text))
    flow.output("a_names", customers.filter(tm.regexp_like("customer", "^a(?=n)")))

    if not loops:
        return flow

    def one_up(here: tm.Collection) -> tm.Collection:
        above = here.join(parents, on={"above": "customer"}).select("customer", above="parent")
        return above.concat(placed.select("customer", above="customer")).distinct()

    start = placed.select("customer", above="customer").distinct()
    flow.output("above", start.iterate(one_up))
    return flow


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "orders": [(1, "ann", "3.50"), (2, "ann", "4.50"), (3, "bob", "10.00")],
    "customers": [("ann", "NL"), ("bob", "BE")],
    "parents": [("ann", "bob"), ("bob", "ann")],
}


def embedded() -> None:
    """Run it in this process: rows in several ways, a step, a retraction, a state that is kept, pictures."""
    ids, names, euros = zip(*ROWS["orders"], strict=True)
    schema = pa.schema([("id", pa.int64()), ("customer", pa.string()), ("euros", pa.decimal128(10, 2))])
    table = pa.table([pa.array(ids), pa.array(names), pa.array([Decimal(e) for e in euros])], schema=schema)
    with tempfile.TemporaryDirectory() as folder:
        engine = tm.Embedded(state=Path(folder) / "state")
        with orders().start(engine) as run:
            run.insert("orders", table)
            run.insert("customers", ROWS["customers"])
            run.insert("parents", ROWS["parents"])
            run.advance()
            held(run, "totals", [("BE", "10.00"), ("NL", "8.00")], columns=2)
            held(run, "counts", [("BE", 1), ("NL", 2)])
            held(run, "a_names", [("ann", "NL")])
            held(run, "running", [(1, "3.50"), (2, "8.00"), (3, "10.00")])
            assert len(list(run.snapshot("above"))) == 4
            assert run.to_svg().startswith("<svg")
            assert "<html" in run.to_html()[:500]
        with orders().start(engine) as run:
            run.delete("orders", table.slice(1, 1))
            run.advance()
            held(run, "totals", [("BE", "10.00"), ("NL", "3.50")], columns=2)
            held(run, "running", [(1, "3.50"), (3, "10.00")])


def held(run: tm.Run, output: str, expected: list[tuple[Any, ...]], columns: int | None = None) -> None:
    """Compare what an output holds with rows, by their text."""
    found = sorted(tuple(map(str, row[:columns])) for row in run.snapshot(output))
    assert found == [tuple(map(str, row)) for row in expected], (output, found)


def on_spark() -> None:
    """Run it on Spark's DataFrames."""
    spark = tm.local_spark("local[1]", spark_ui_enabled="false")
    flow = orders(loops=False)  # which would be some dozens of jobs
    schema = {"orders": "id long, customer string, euros string", "customers": "customer string, country string",
              "parents": "customer string, parent string"}  # fmt: skip
    given = {name: spark.createDataFrame(rows, schema[name]) for name, rows in ROWS.items()}
    given["orders"] = given["orders"].selectExpr("id", "customer", "cast(euros as decimal(10, 2)) euros")
    found = tm.render(flow, spark, given)
    totals = sorted((row.country, str(row.total)) for row in found["totals"].collect())
    assert totals == [("BE", "10.00"), ("NL", "8.00")], totals
    assert sorted(str(row.so_far) for row in found["running"].collect()) == ["10.00", "3.50", "8.00"]
    spark.stop()


def main() -> None:
    """Try it, and tell the versions that it ran with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true", help="on Spark, too")
    given = parser.parse_args()
    checkout = Path(__file__).resolve().parents[2]
    assert not Path(tm.__file__).is_relative_to(checkout), f"{tm.__file__} is the checkout's, not an installed one"
    assert (Path(tm.__file__).parent / "py.typed").exists()
    embedded()
    said = subprocess.run([sys.executable, "-m", "tidemill", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in said.stdout
    if given.spark:
        on_spark()
    packages = ("tidemill", "pyarrow", "numpy", *(["pyspark", "pandas"] if given.spark else []))
    print(f"python {sys.version.split()[0]}", *(f"{p} {importlib.metadata.version(p)}" for p in packages), sep=", ")


if __name__ == "__main__":
    main()
