"""TPC-H's fifth query by a delta join: what Asia's suppliers sell to customers of their own nation, kept up to date.

Its WHERE is the list of columns that are equal. Six tables are joined and only they are kept, indexed by these columns;
a chain of joins would keep line items with their orders, these with their customers, and so on.
"""

import subprocess
import sysconfig
import tempfile

import pyarrow.parquet as pq

import tidemill as tm

TABLES = {
    "customer": "c_custkey c_nationkey", "orders": "o_orderkey o_custkey o_orderdate", "region": "r_regionkey r_name",
    "lineitem": "l_orderkey l_suppkey l_extendedprice l_discount", "supplier": "s_suppkey s_nationkey",
    "nation": "n_nationkey n_regionkey n_name",
}  # fmt: skip
TYPE = {"o_orderdate": "date", "n_name": str, "r_name": str, "l_extendedprice": (M := "decimal(15,2)"), "l_discount": M}
EQUAL: list[tuple[str, ...]] = [("c_custkey", "o_custkey"), ("o_orderkey", "l_orderkey"), ("l_suppkey", "s_suppkey")]
EQUAL += [("c_nationkey", "s_nationkey", "n_nationkey"), ("n_regionkey", "r_regionkey")]


def build() -> tm.Dataflow:
    """Return the dataflow: six tables in, revenue by nation out."""
    flow = tm.Dataflow("local suppliers")
    tables = {n: flow.input(n, {c: TYPE.get(c, "int64") for c in names.split()}) for n, names in TABLES.items()}
    tables["region"] = tables["region"].filter("r_name = 'ASIA'")
    tables["orders"] = tables["orders"].filter("year(o_orderdate) = 1994")
    sold = tm.join_all(list(tables.values()), on=EQUAL)
    flow.output("revenue", sold.group_by("n_name").agg(revenue=tm.sum("l_extendedprice * (1 - l_discount)")))
    return flow


def main() -> None:
    """Show the revenue at scale 0.01 (pip install tpchgen-cli), and what goes with one supplier."""
    with tempfile.TemporaryDirectory() as folder, build().start() as run:
        command = f"{sysconfig.get_path('scripts')}/tpchgen-cli parquet -s 0.01 --output-dir {folder}"
        subprocess.run(command.split(), check=True, capture_output=True)  # noqa: S603 - a program that we name
        for name, columns in TABLES.items():
            run.insert(name, pq.read_table(f"{folder}/{name}.parquet", columns=columns.split()))
        run.advance()
        print(run.changes("revenue"), end="\n\n")
        run.delete("supplier", [(11, 18)])
        run.advance()
        print("Without supplier 11, of China:", run.changes("revenue"), sep="\n")


if __name__ == "__main__":
    main()
