"""What a checkpoint writes, and how long it takes, behind steps of several sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.runner import Figures, say


def checkpoints(*, rows: int, steps: Sequence[int]) -> Figures:
    """Return processor seconds and megabytes of the first checkpoint behind a load, and of one behind each step.

    Orders of some customers, with texts of which one in twenty is new, in sums, extremes and `lag` by customer; each
    step changes so many of them.
    """
    dice, found = np.random.default_rng(3), list[Figures]()
    with tempfile.TemporaryDirectory() as name, _flow().start(tm.Embedded(name)) as run:
        folder = Path(name)
        run.insert("orders", _orders(dice, np.arange(rows)))
        run.advance()
        for changed in (0, *steps):
            if changed:
                run.upsert("orders", _orders(dice, dice.choice(rows, changed, replace=False)))
                run.advance()
            before, began = {*folder.glob("checkpoint-*")}, process_time()
            run.checkpoint()
            taken = process_time() - began
            written = sum(path.stat().st_size for path in {*folder.glob("checkpoint-*")} - before)
            held = sum(path.stat().st_size for path in folder.glob("checkpoint-*"))
            found.append({"changed": changed, "cpu_s": taken, "written_mb": written / 1e6, "held_mb": held / 1e6})
            say(found[-1])
        return {"checkpoints": {"rows": rows, "state_rows": run.metrics().state_rows, "steps": found}}


def _flow() -> tm.Dataflow:
    flow = tm.Dataflow("orders")
    schema = {"id": "int64", "customer": "int64", "amount": "int64", "note": "string"}
    orders = flow.input("orders", schema, key="id")
    flow.output("sums", orders.group_by("customer").agg(s=tm.sum("amount"), most=tm.max("amount")))
    by_customer = tm.Window.partition_by("customer").order_by("id")
    flow.output("before", orders.with_columns(before=tm.lag("amount").over(by_customer)))
    return flow


def _orders(dice: np.random.Generator, ids: np.ndarray) -> pa.Table:
    notes = pa.array([f"note {n}" for n in dice.integers(0, 100_000, len(ids)).tolist()])
    return pa.table({"id": ids, "customer": ids % 50_000, "amount": dice.integers(1, 10_000, len(ids)), "note": notes})
