"""The demo of views over tables: a small lake, three days, a late correction, a changed view, a kill in the middle."""

from __future__ import annotations

import contextlib
import os
import random
import runpy
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemill.demo.data import DemoError
from tidemill.views.views import Views

JOB: Final = """\
import tidemill as tm

views = tm.Views("state")
orders = views.source("orders", tm.delta("orders"), key="id")
customers = views.source("customers", tm.delta("customers"), key="customer")

in_region = orders.join(customers, on="customer")
by_region = in_region.group_by("region").agg(orders=tm.count(), total=tm.sum("amount"))
newest_first = tm.Window.partition_by("customer").order_by(tm.desc("day"), tm.desc("id"))
latest = orders.with_columns(place=tm.row_number().over(newest_first)).filter("place = 1")

views.view("by_region", by_region, to=tm.delta("by_region"), key="region")
views.view("latest", latest.drop("place"), to=tm.duckdb("shop.duckdb", "latest"), key="customer")
views.view("large", in_region.filter("amount > 990"), to=tm.delta("large"), write="changelog")
"""
BEFORE: Final = 'total=tm.sum("amount"))'
AFTER: Final = 'total=tm.sum("amount"), largest=tm.max("amount"))'
QUERIES: Final = {
    "by_region": "SELECT region, count(*), sum(amount) {} FROM orders JOIN customers USING (customer) GROUP BY region",
    "latest": "SELECT DISTINCT ON (customer) * FROM orders ORDER BY customer, day DESC, id DESC",
    "large": "SELECT id, customer, day, amount, region FROM orders JOIN customers USING (customer) WHERE amount > 990",
}
"""The same views in SQL, for DuckDB, which computes them anew to check them."""
ORDERS: Final = pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("day", pa.int64()), ("amount", pa.int64())])
REGIONS: Final = ("north", "east", "south", "west")
MANY: Final = {"orders": 50_000, "a day": 500, "customers": 2_000}


def run() -> int:
    """Play the demo, and return 0 if every view was right after each refresh, 1 otherwise."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tidemill") as folder, contextlib.chdir(folder):
        right = _Shop(random.Random(40)).play()  # noqa: S311 - a play, not a secret
    told = "All views were right each time" if right else "A VIEW WAS WRONG"
    print(f"\n{told}; {time.perf_counter() - began:.0f} s.")
    return 0 if right else 1


class _Shop:
    """The lake in the folder that one is in, and what happens to it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = 0
        self._right = True
        self._more = ""
        """What the changed view has beside."""

    def play(self) -> bool:
        """Let three days pass; return whether all was right."""
        many = MANY["customers"]
        customers = {"customer": range(many), "region": [self._rng.choice(REGIONS) for _ in range(many)]}
        self._append("customers", pa.table({name: list(values) for name, values in customers.items()}))
        self._append("orders", self._orders(MANY["orders"], day=1))
        Path("job.py").write_text(JOB, encoding="utf-8")
        _say(
            "A lake of two Delta tables, and a job that keeps three tables up to date from them",
            f"orders has {MANY['orders']:,} rows, customers {many:,}. This is the whole job, job.py:",
        )
        print(_indented(JOB))
        _say("Monday night: tidemill views job.py --refresh", "The first time it reads everything.")
        self._refresh()
        _say(
            f"Tuesday: {MANY['a day']} more orders",
            "It reads what came, by the versions of the Delta tables, and writes what that changes.",
        )
        self._append("orders", self._orders(MANY["a day"], day=2))
        self._refresh()
        _say("The same again, with nothing new", "Versions are compared, and nothing is started.")
        self._refresh()
        self._correct()
        self._change()
        self._kill()
        return self._right

    def _correct(self) -> None:
        from deltalake import DeltaTable  # noqa: PLC0415 - of the extra

        _say(
            "Wednesday, a late correction: an order of Monday was of 1,000,000, not of what was typed",
            "A row that changes is one that goes and one that comes; whatever followed from it follows anew.",
        )
        DeltaTable("orders").update({"amount": "1000000"}, predicate="id = 7")
        self._refresh()
        log = DeltaTable("large").to_pyarrow_table().to_pylist()
        of_it = sorted((row for row in log if row["id"] == 7), key=lambda row: row["_refresh"])  # noqa: PLR2004
        print("  in the changelog of large orders now:", *of_it, sep="\n    ")

    def _change(self) -> None:
        _say(
            "A changed view: by_region is to say the largest order, too",
            f"In job.py {AFTER} takes the place of {BEFORE}\n"
            "The new column is computed from what the state holds: no source is read again, no other table written.",
        )
        Path("job.py").write_text(JOB.replace(BEFORE, AFTER), encoding="utf-8")
        self._more = ", max(amount)"
        self._refresh()

    def _kill(self) -> None:
        _say(
            f"Wednesday night: {MANY['a day']} more orders, and the job is killed (SIGKILL) between two tables",
            "The versions to read were on the disk before anything was read, and each table keeps, in the transaction\n"
            "of its rows, which refresh wrote it: so the next one goes on, and writes nothing twice.",
        )
        self._append("orders", self._orders(MANY["a day"], day=3))
        first = Path("by_region", "_delta_log")
        before = len(list(first.glob("*.json")))
        job = [sys.executable, "-m", "tidemill", "views", "job.py", "--refresh"]
        here = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "PYTHONPATH": here}
        with subprocess.Popen(job, stdout=subprocess.DEVNULL, env=env) as child:  # noqa: S603 - our own program
            while child.poll() is None and len(list(first.glob("*.json"))) == before:
                time.sleep(0.001)
            child.kill()
        with _job() as views:
            told = views.status()
        print(_indented(told))
        if "was cut off" not in told:
            print("  (this time it was done before the kill)")
        self._refresh()

    def _refresh(self) -> None:
        with _job() as views:
            print(_indented(str(views.refresh())))
        wrong = [name for name, rows in self._found().items() if rows != self._anew(name)]
        self._right &= not wrong
        print(f"  {'WRONG: ' + ', '.join(wrong) if wrong else 'as DuckDB computes them anew'}")

    def _found(self) -> dict[str, Counter[Any]]:
        """Return what the tables hold: of the changelog what it comes to."""
        import duckdb  # noqa: PLC0415 - of the extra
        from deltalake import DeltaTable  # noqa: PLC0415 - of the extra

        with duckdb.connect("shop.duckdb") as connection:
            latest = connection.execute("FROM latest").fetchall()
        log: Counter[Any] = Counter()
        for *row, change, _ in _rows(DeltaTable("large").to_pyarrow_table()):
            log[tuple(row)] += 1 if change == "insert" else -1
        by_region = Counter(_rows(DeltaTable("by_region").to_pyarrow_table()))
        return {"by_region": by_region, "latest": Counter(latest), "large": +log}

    def _anew(self, name: str) -> Counter[Any]:
        import duckdb  # noqa: PLC0415 - of the extra
        from deltalake import DeltaTable  # noqa: PLC0415 - of the extra

        with duckdb.connect() as connection:
            for table in ("orders", "customers"):
                connection.register(table, DeltaTable(table).to_pyarrow_table())
            return Counter(connection.execute(QUERIES[name].format(self._more)).fetchall())

    def _orders(self, many: int, *, day: int) -> pa.Table:
        first, self._next = self._next, self._next + many
        draw = self._rng.randrange
        rows = [(i, draw(MANY["customers"]), day, draw(1, 1000)) for i in range(first, self._next)]
        return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], ORDERS)

    @staticmethod
    def _append(name: str, rows: pa.Table) -> None:
        from deltalake import write_deltalake  # noqa: PLC0415 - of the extra

        write_deltalake(name, rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def require_extras() -> None:
    """Say what to install, where something is missing."""
    try:
        import deltalake  # noqa: F401, PLC0415 - to see whether it is there
        import duckdb  # noqa: F401, PLC0415 - as above
    except ImportError as error:
        msg = f"the demo of views needs {error.name}: pip install 'tidemill[delta,duckdb]'"
        raise DemoError(msg) from error


def _job() -> Views:
    views = runpy.run_path("job.py")["views"]
    assert isinstance(views, Views)
    return views


def _rows(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    return (tuple(row.values()) for row in table.to_pylist())


def _say(title: str, text: str) -> None:
    print(f"\n-- {title}\n{_indented(text)}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())
