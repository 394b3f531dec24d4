"""Sums over an order, one row moved at a time: ``python -m benchmarks.windows [--rows 200000] [--json FILE]``.

LAG and a sum over ROWS 4 PRECEDING, composed of the functions in ``tidemill.algorithms`` and as window calls in both
renderings, in 10 partitions; and window calls in one partition of 1,000 to 100,000 rows. Figures are of processor time,
so that they can be taken beside other work; ``one_row_step_ms`` is the same for the least dataflow there is, a sum by
key, taken before and after, to scale them by.
"""

import argparse
import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.measure import peak_memory
from benchmarks.table import figure, text_table
from tidemill.algorithms import (
    BlockShape,
    block_sums,
    combine,
    interval_sum,
    offset_search,
    order_sums,
    prefix_sum,
    unique_index,
)

PARTITIONS = 10
BACK = 4
SCHEMA = {"p": "int64", "t": "int64", "x": "int64"}


def lag(rows: tm.Collection, shape: BlockShape) -> tm.Collection:
    unique = unique_index(rows, order_by="t", partition_by="p")
    before = prefix_sum(unique, **_order(shape), copies="copy", lag=combine.last("x"))
    return unique.distinct().join(before, on=["p", "index"]).select(*SCHEMA, "lag")


def frame_of_a_list(rows: tm.Collection, shape: BlockShape) -> tm.Collection:
    """The last values before each row, as a list that its block and those before it give."""
    unique = unique_index(rows, order_by="t", partition_by="p")
    before = prefix_sum(unique, **_order(shape), copies="copy", recent=combine.list("x", last=BACK))
    total = tm.col("x")
    for i in range(BACK):
        total += tm.get(tm.col("recent"), i).fill_null(0)
    return unique.distinct().join(before, on=["p", "index"]).select(*SCHEMA, total=total)


def frame_of_blocks(rows: tm.Collection, shape: BlockShape) -> tm.Collection:
    """The place where each frame begins is searched for, and the blocks from there to the row are added up."""
    unique = unique_index(rows, order_by="t", partition_by="p")
    order = order_sums(unique, **_order(shape), n=combine.rows(), total=combine.sum("x"))
    frames = offset_search(order, offset=-BACK, count="n", copies="copy", found="low")
    frames = frames.with_columns(high="index", after=tm.col("copy") + 1)
    sums = interval_sum(order, frames, low_copy="low_copy", high_copy="after")
    return unique.distinct().join(sums, on=["p", "index"]).select(*SCHEMA, "total")


def called(call: Any, window: tm.Window, strategy: str) -> Any:
    """Return the dataflow of a window call."""
    return lambda rows, _shape: rows.with_columns(y=call.over(window, strategy=strategy))


BY_T = tm.Window.partition_by("p").order_by("t")
CALLS: dict[str, tuple[Any, tm.Window]] = {
    "LAG": (tm.lag("x"), BY_T),
    "sum ROWS 4 PRECEDING": (tm.sum("x"), BY_T.rows_between(-BACK, 0)),
    "sum ROWS 50 PRECEDING TO 50 FOLLOWING": (tm.sum("x"), BY_T.rows_between(-50, 50)),
    "max RANGE of a thousandth of all": (tm.max("x"), BY_T.range_between(-(2**30), 0)),
    "row_number": (tm.row_number(), BY_T),
}
STRATEGIES = ("auto", "recompute", "prefix_sum")


def _order(shape: BlockShape) -> dict[str, Any]:
    return {"index": "index", "partition_by": "p", "unique": True, "shape": shape}


CASES = {
    "LAG": lag,
    "ROWS 4 PRECEDING, by a list of the last values": frame_of_a_list,
    "ROWS 4 PRECEDING, by search and interval sum": frame_of_blocks,
}


def measured(build: Any, rows: int, epochs: int, shape: BlockShape, partitions: int = PARTITIONS) -> dict[str, Any]:
    """Return the figures of a load and of epochs in each of which a row moves to another place."""
    flow = tm.Dataflow("windows")
    flow.output("out", build(flow.input("rows", SCHEMA), shape), changes=False)
    dice = np.random.default_rng(0)
    columns = [
        dice.integers(0, partitions, rows),
        dice.choice(2**40, rows, replace=False),
        dice.integers(-99, 99, rows),
    ]
    table = pa.table(dict(zip(SCHEMA, columns, strict=True)))
    moved, places = dice.permutation(rows)[:epochs], dice.choice(2**40, epochs, replace=False)
    before = peak_memory()
    with flow.start() as run:
        start = process_time()
        run.insert("rows", table)
        run.advance_to(1)
        load = process_time() - start
        first, seconds = run.metrics(), []
        state, held = first.state_rows, sum(m.bytes for m in first)
        for epoch, (k, place) in enumerate(zip(moved.tolist(), places.tolist(), strict=True), 1):
            p, t, x = (int(c[k]) for c in columns)
            start = process_time()
            run.update("rows", [((p, t, x), epoch, -1), ((p, place, x), epoch, 1)])
            run.advance_to(epoch + 1)
            seconds.append(process_time() - start)
        given = sum(b.records_in - a.records_in for a, b in zip(first, run.metrics(), strict=True)) / epochs
        operators = len(first)
    ms = np.array(seconds) * 1e3
    return {
        "load_s": round(load, 2),
        "epoch_ms": {"median": round(float(np.median(ms)), 2), "mean": round(float(ms.mean()), 2),
                     "p99": round(float(np.percentile(ms, 99)), 2), "worst": round(float(ms.max()), 2)},
        "records_per_epoch": round(given),
        "state_rows": state,
        "state_bytes_a_row": round(held / rows),
        "more_memory_mb": round(peak_memory() - before),
        "operators": operators,
    }  # fmt: skip


def by_partition_size(epochs: int) -> dict[str, dict[str, dict[int, Any]]]:
    """Return the epochs of window calls in one partition, by call, rendering and size; of row_number no large ones."""
    found: dict[str, dict[str, dict[int, Any]]] = {}
    for name, (call, window) in CALLS.items():
        for strategy in STRATEGIES:
            sizes = (1000, 10_000) if name == "row_number" else (1000, 10_000, 100_000)
            made = {n: measured(called(call, window, strategy), n, epochs, BlockShape(), 1) for n in sizes}
            found.setdefault(name, {})[strategy] = made
    return found


def one_row_step(epochs: int = 1000) -> float:
    """Return the milliseconds of a step with one row through a sum by key."""
    flow = tm.Dataflow("least")
    rows = flow.input("rows", {"k": "int64", "v": "int64"})
    flow.output("sums", rows.group_by("k").agg(total=tm.sum("v")), changes=False)
    with flow.start() as run:
        run.insert("rows", pa.table({"k": np.arange(200_000) % 1000, "v": np.arange(200_000)}))
        run.advance_to(1)
        seconds = []
        for epoch in range(1, epochs):
            start = process_time()
            run.insert("rows", [(epoch, epoch)])
            run.advance_to(epoch + 1)
            seconds.append(process_time() - start)
    return round(float(np.median(seconds)) * 1e3, 3)


def by_level(rows: int, shape: BlockShape) -> dict[str, dict[int, int]]:
    """Return how many blocks there are on each level, of indexes of several kinds in one partition."""
    dice = np.random.default_rng(0)
    even = dice.choice(2**40, rows, replace=False)
    kinds = {
        "scattered over 40 bits": even,
        "scattered over 60 bits": dice.choice(2**60, rows, replace=False),
        "20 leading zero bits, 20 trailing": (even & (2**20 - 1)) << 20,
        "in 100 clusters": dice.integers(0, 100, rows) * 2**50 + dice.integers(0, 2**20, rows),
    }
    found = {}
    for name, index in kinds.items():
        flow = tm.Dataflow("levels")
        values = flow.input("rows", {"i": "int64"})
        flow.output("levels", block_sums(values, index="i", shape=shape).group_by("level").agg(n=tm.count()))
        with flow.start() as run:
            run.insert("rows", pa.table({"i": index}))
            run.advance_to(1)
            found[name] = dict(sorted(run.snapshot("levels")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description="Sums over an order.")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--bits", type=int, default=5)
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shape = BlockShape(options.bits, options.levels)
    steps = [one_row_step()]
    builds = dict(CASES)
    for name in ("LAG", "sum ROWS 4 PRECEDING"):
        builds |= {f"{name} OVER, by {how}": called(*CALLS[name], how) for how in STRATEGIES}
    cases = {name: measured(build, options.rows, options.epochs, shape) for name, build in builds.items()}
    sizes = by_partition_size(min(60, options.epochs))
    steps.append(one_row_step())
    levels = by_level(options.rows // PARTITIONS, shape)
    report = {
        "machine": machine(),
        "rows": options.rows,
        "partitions": PARTITIONS,
        "epochs": options.epochs,
        "shape": {"bits": options.bits, "levels": options.levels},
        "one_row_step_ms": steps,
        "cases": cases,
        "one_partition": sizes,
        "blocks_by_level": levels,
    }
    head = ["", "load s", "epoch ms", "p99", "worst", "records an epoch", "state rows", "more MB"]
    rows = [
        [name, figure(c["load_s"]), *(figure(c["epoch_ms"][k]) for k in ("median", "p99", "worst"))]
        + [figure(c[k]) for k in ("records_per_epoch", "state_rows", "more_memory_mb")]
        for name, c in cases.items()
    ]
    print(text_table(head, rows))
    print(f"\na one-row step of a sum by key: {steps[0]} ms before, {steps[1]} ms after\n")
    kinds = [[name, *map(str, counts.values())] for name, counts in levels.items()]
    print(text_table(["blocks by level", *map(str, next(iter(levels.values())))], kinds))
    lines = [
        [
            name,
            how,
            f"{n:,}",
            figure(m["epoch_ms"]["median"]),
            figure(m["epoch_ms"]["worst"]),
            figure(m["records_per_epoch"]),
        ]
        for name, renderings in sizes.items()
        for how, by_size in renderings.items()
        for n, m in by_size.items()
    ]
    print()
    print(text_table(["one partition", "", "rows", "epoch ms", "worst", "records an epoch"], lines))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
