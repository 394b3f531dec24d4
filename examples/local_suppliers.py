"""TPC-H's fifth query by a delta join: what Asia's suppliers sell to customers of their own nation, kept up to date.

Its WHERE is the list of columns that are equal. Six tables are joined and only they are kept, indexed by these columns;
a chain of joins would keep line items with their orders, these with their customers, and so on.
"""

import subprocess
import sysconfig
import tempfile

import pyarrow.parquet as pq

import tidemill as tm

GENERATOR = f"{sysconfig.get_path('scripts')}/tpchgen-cli"  # pip install tpchgen-cli
TABLES = ["customer", "orders", "lineitem", "supplier", "nation", "region"]
EQUAL: list[tuple[str, ...]] = [("c_custkey", "o_custkey"), ("o_orderkey", "l_orderkey"), ("l_suppkey", "s_suppkey")]
EQUAL += [("c_nationkey", "s_nationkey", "n_nationkey"), ("n_regionkey", "r_regionkey")]

if __name__ == "__main__":  # show the revenue at scale 0.01, and what goes with one supplier
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([GENERATOR, "parquet", "-s", "0.01", "--output-dir", folder], check=True, capture_output=True)
        tables = {name: pq.read_table(f"{folder}/{name}.parquet") for name in TABLES}

    flow = tm.Dataflow("local suppliers")
    joined = {name: flow.input(name, table.schema) for name, table in tables.items()}
    joined["region"] = joined["region"].filter("r_name = 'ASIA'")
    joined["orders"] = joined["orders"].filter("year(o_orderdate) = 1994")
    sold = tm.join_all(list(joined.values()), on=EQUAL)
    flow.output("revenue", sold.group_by("n_name").agg(revenue=tm.sum("l_extendedprice * (1 - l_discount)")))

    with flow.start() as run:
        for name, table in tables.items():
            run.insert(name, table)
        run.advance()
        print(run.changes("revenue"), end="\n\n")
        run.delete("supplier", tables["supplier"].slice(10, 1))
        run.advance()
        print("Without supplier 11, of China:", run.changes("revenue"), sep="\n")
