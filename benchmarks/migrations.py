"""What a change of code costs that is started on a folder of state: operators kept and loaded, rows, seconds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.runner import Figures, seconds

View = Callable[[Any, Any], Any]


def _changes() -> Mapping[str, tuple[Mapping[str, str], Mapping[str, View]]]:
    """Return versions of a dataflow: columns that come to the orders, and views."""
    sums: View = lambda o, _: o.group_by("customer").agg(n=tm.count(), s=tm.sum("amount"))  # noqa: E731
    least: View = lambda o, _: o.group_by("customer").agg(n=tm.count(), s=tm.min("amount"))  # noqa: E731
    joined: View = lambda o, c: o.join(c, on={"customer": "id"}).group_by("region").agg(s=tm.sum("amount"))  # noqa: E731
    large: View = lambda o, _: o.filter("amount > 900").select("id", "amount")  # noqa: E731
    larger: View = lambda o, _: o.filter("amount > 950").select("id", "amount")  # noqa: E731
    by_row: View = lambda o, _: o.map_rows(lambda r: (r.amount % 7,), {"rest": "int64"}).count("n")  # noqa: E731
    other: View = lambda o, _: o.map_rows(lambda r: (r.amount % 9,), {"rest": "int64"}).count("n")  # noqa: E731
    over: View = lambda o, c: sums(o, c).filter("n > 30")  # noqa: E731
    before = {"sums": sums, "joined": joined, "large": large, "by_row": by_row}
    return {
        "nothing": ({}, before),
        "outputs renamed and reordered": ({}, {"rest": by_row, "great": large, "region": joined, "customer": sums}),
        "a column that only the function is given": ({"note": "string"}, before),
        "one view gone": ({}, {name: view for name, view in before.items() if name != "joined"}),
        "a view of another view": ({}, {**before, "over": over}),
        "a changed expression": ({}, {**before, "large": larger}),
        "a changed aggregate": ({}, {**before, "sums": least}),
        "a new join": ({}, {**before, "named": lambda o, c: o.join(c, on={"customer": "id"}).select("id", "region")}),
        "a changed function": ({}, {**before, "by_row": other}),
        "all views changed": ({}, {name: _of_some(view) for name, view in before.items()}),
    }


def _of_some(view: View) -> View:
    """Return the view of some of the orders."""
    return lambda orders, customers: view(orders.filter("id > 0"), customers)


def _flow(columns: Mapping[str, str], views: Mapping[str, View]) -> tm.Dataflow:
    flow = tm.Dataflow("shop")
    orders = flow.input("orders", {"id": "int64", "customer": "int64", "amount": "int64", **columns})
    customers = flow.input("customers", {"id": "int64", "region": "int64"})
    for name, view in views.items():
        flow.output(name, view(orders, customers))
    return flow


def _opened(version: tuple[Mapping[str, str], Mapping[str, View]], folder: Path) -> None:
    _flow(*version).start(tm.Embedded(folder, threads=1)).close()


def _tables(rows: int) -> Mapping[str, pa.Table]:
    dice, many = np.random.default_rng(7), max(rows // 20, 1)
    orders = {"id": np.arange(rows), "customer": dice.integers(0, many, rows), "amount": dice.integers(0, 1000, rows)}
    return {"orders": pa.table(orders), "customers": pa.table({"id": np.arange(many), "region": np.arange(many) % 50})}


def migrations(*, rows: int, rounds: int) -> Figures:
    """Measure each change of code on a folder with these rows: the best of some rounds, in seconds of processor time.

    ``seconds`` is what the start takes, after which snapshots can be read; ``anew`` is what loading all rows into a
    folder of the changed dataflow takes, with the checkpoint. A function of rows reads
    each column, one that is new too.
    """
    changes, tables, found = _changes(), _tables(rows), list[Figures]()
    with tempfile.TemporaryDirectory() as place:
        state = Path(place) / "state"

        def load(flow: tm.Dataflow, folder: Path) -> None:
            with flow.start(tm.Embedded(folder, threads=1)) as run:
                for name, table in tables.items():
                    more = [f for f in flow.graph.inputs[name].schema.names if f not in table.column_names]
                    run.insert(
                        name, table if not more else table.append_column(more[0], pa.nulls(len(table), pa.string()))
                    )
                run.advance()
                run.checkpoint()

        load(_flow(*changes["nothing"]), state)
        for change, version in changes.items():
            plan = _flow(*version).plan(state)
            taken, anew = [], []
            for i in range(rounds):
                copy, other = Path(place) / f"copy {i}", Path(place) / f"other {i}"
                shutil.copytree(state, copy)
                taken.append(seconds(partial(_opened, version, copy), process_time))
                anew.append(seconds(partial(load, _flow(*version), other), process_time))
                shutil.rmtree(copy)
                shutil.rmtree(other)
            counts = {"kept": len(plan.kept), "loaded": len(plan.new), "dropped": len(plan.dropped), "rows": plan.rows}
            found.append(
                {"change": change, **counts, "seconds": min(taken), "estimated": plan.seconds, "anew": min(anew)}
            )
    return {"migrations": found}
