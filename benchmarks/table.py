"""What there is to measure: each benchmark with what it is about, who it is compared with, its sizes, and where it is.

``python -m benchmarks NAME [size=value ...]`` runs it; what it measures is said at its function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    """A function of this package that returns figures, given sizes by name."""

    place: str
    """Its module and its name."""
    what: str
    against: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    """The figures that are shown, where that is not all of them."""


_EPOCHS = (
    "workload", "scale", "engine", "skipped", "load_s", "epoch_ms.min", "epoch_ms.median", "epoch_ms.p90",
    "epoch_ms.max", "step_ms.median", "read_ms.median", "processor_ms.median", "memory_mb", "state_rows", "answer_rows",
    "ratio", "load_cpu_s", "load_memory_mb", "load_ratio", "one_ms", "ten_ms", "rows", "epochs", "first_step_ms.median",
    "last_step_ms.median", "first_state_rows", "last_state_rows", "memory_growth_mb",
)  # fmt: skip
_NEW, _ORDERED = (1, 100, 10_000), ("W4", "W4s", "W7", "W7m", "W8", "W9", "W10", "W12")
_GRAPHS = {"algorithms": (), "of": ("Debian", "random"), "scale": 1.0}
_MANY, _ONE, _LARGE_ONE = (5_000_000, 1000), (100_000, 1), (2_000_000, 1)
"""Rows and partitions."""

TABLE = {
    "workloads": Benchmark(
        "epochs:workloads", "the workloads, one row or a thousand an epoch", "DuckDB, Pathway",
        {"names": (), "repeats": 3, "scale": 1, "quick": False, "pathway": "", "duckdb1_other": "", "debian": ""},
        _EPOCHS,
    ),
    "loads": Benchmark(
        "epochs:loads", "how loads grow with the rows", "the smallest",
        {"names": ("W1", "W3"), "scales": (1, 10, 30), "repeats": 3},
    ),
    "delta_joins": Benchmark(
        "joins:delta_joins", "triangles and TPC-H Q5 as delta joins", "chains of joins of two",
        {"edges": 100_000, "scale": 0.1, "epochs": 200},
    ),
    "range_joins": Benchmark(
        "joins:range_joins", "by a key and an inequality", "a filter behind the key",
        {"cases": ((1_000, 1_000, 0.01), (1_000, 1_000, 0.5), (300_000, 3, 0.5)), "new": _NEW, "steps": 30},
    ),
    "left_joins": Benchmark(
        "joins:left_joins", "stacks of left joins", "unions not consolidated",
        {"rows": 100_000, "depths": (1, 2, 3, 5, 10, 20, 30), "matches": (0, 50, 100), "megabytes": 6_000},
    ),
    "dynamic_filter": Benchmark(
        "values:dynamic_filter", "rows above a value that moves", "DuckDB",
        {"rows": (10**6, 10**7), "orders": (10**6, 10**7), "passed": (10, 1_000), "scale": 0.1, "steps": 100},
    ),
    "tpch": Benchmark(
        "tpch_sql:tpch", "the 22 queries of TPC-H in SQL, as rows of all tables change", "DuckDB",
        {"scale": 1, "epochs": 20, "orders": 100, "queries": (), "threads": 1, "megabytes": 0},
    ),
    "tpch_spark": Benchmark(
        "tpch_spark:tpch_spark", "TPC-H in SQL on Spark, from scratch and live", "DuckDB, for its answers",
        {"scale": 0.1, "epochs": 2, "orders": 100, "queries": ()},
    ),
    "planning": Benchmark(
        "planning:planning", "from a script of views to a dataflow", "-", {"views": 100, "rounds": 5}
    ),
    "nexmark": Benchmark(
        "nexmark:nexmark", "Nexmark in SQL: events in a second, and what queries hold", "DuckDB, for its answers",
        {"events": 50_000, "rate": 1000, "epochs": 50, "queries": ()},
    ),
    "tpcds": Benchmark(
        "tpcds:tpcds", "the 99 queries of TPC-DS in SQL; needs generator=, see benchmarks/README.md", "DuckDB",
        {"generator": "", "scale": 0.1, "batches": 10, "queries": (), "threads": 1},
    ),
    "tpcdi": Benchmark(
        "tpcdi:tpcdi", "TPC-DI in SQL: 48 views in three layers, kept up to date as batches arrive", "DuckDB",
        {"scale": 3, "shares": (0.00001, 0.001, 0.01), "threads": 1, "duckdb_memory": ""},
    ),
    "tpcdi_views": Benchmark(
        "tpcdi_views:tpcdi_views", "the same as a job: views over staged files, refreshed, with tables of gold",
        "DuckDB and Spark, computing and writing them anew",
        {"scale": 1, "shares": (0.00001, 0.001, 0.01), "threads": 2, "spark": False},
    ),
    "future_updates": Benchmark(
        "values:future_updates", "updates pending for later times", "-",
        {"sizes": (100_000, 1_000_000, 10_000_000), "each": 10, "epochs": 500},
    ),
    "graphs": Benchmark("graphs:graphs", "graph algorithms, an edge at a time", "networkx, scipy", _GRAPHS),
    "graphs_spark": Benchmark("graphs:graphs_spark", "the same on Spark, live and from scratch", "networkx", _GRAPHS),
    "windows": Benchmark(
        "windows:windows", "sums over an order, a row moved at a time", "window calls, all renderings",
        {"rows": 200_000, "partitions": 10, "epochs": 500, "bits": 5, "levels": 2},
    ),
    "window_curves": Benchmark(
        "windows:window_curves", "a change by partition, frame and share touched", "DuckDB, all renderings",
        {
            "curves": "abc", "epochs": 30, "sizes": (1_000, 10_000, 100_000, 1_000_000),
            "widths": (1, 5, 21, 101, 401, 1001, 4001),
        },
    ),
    "on_close": Benchmark("windows:on_close", "a stream on close, and what is held", "-", {"epochs": 1000, "scale": 1}),
    "soak": Benchmark(
        "streams:soak", "a stream behind a watermark, and what is held", "-",
        {
            "events": 2_000_000, "step": 5_000, "users": 2_000, "samples": 10, "on_time": True,
            "kinds": ("sessions", "by hour", "band join", "deduplication"),
        },
    ),
    "window_thresholds": Benchmark(
        "large_partitions:window_thresholds", "from where on order pays", "whole partitions",
        {
            "sizes": (128, 256, 512, 1024, 2048, 4096, 16384), "parts": (4, 8, 16, 32, 64, 128, 512), "total": 32_768,
            "halved": (50, 130, 260, 520, 1000), "epochs": 60,
        },
    ),
    "window_limits": Benchmark(
        "large_partitions:window_limits", "the first k rows of partitions", "all of them in order",
        {"sizes": (1_000, 10_000, 30_000, 100_000), "most": (10, 100, 1_000, 3_000, 10_000, 30_000)},
    ),
    "window_bulk": Benchmark(
        "large_partitions:window_bulk", "a thousand changed rows in one epoch", "one row",
        {"names": _ORDERED, "scale": 1, "rows": 1000, "times": 6},
    ),
    "window_half": Benchmark(
        "large_partitions:window_half", "half of all rows", "whole partitions",
        {"names": _ORDERED, "scale": 1, "times": 6},
    ),
    "window_memory": Benchmark(
        "large_partitions:window_memory", "bytes a row of windows in order", "-",
        {"names": ("W4", "W7", "W8", "W9"), "scale": 1, "changes": 1_000},
    ),
    "threads": Benchmark(
        "parts:threads", "what a second thread is worth", "one thread",
        {"rows": (100_000, 300_000, 500_000, 1_000_000, 5_000_000)},
    ),
    "step_log": Benchmark(
        "parts:step_log", "commits of durable runs", "SQLite",
        {"steps": {1: 1000, 1000: 300, 100_000: 20}, "rounds": 5, "folder": None},
    ),
    "migrations": Benchmark(
        "migrations:migrations", "a changed dataflow on a folder of state", "loading all of it",
        {"rows": 300_000, "rounds": 3},
    ),
    "checkpoints": Benchmark(
        "checkpoints:checkpoints", "checkpoints of a durable run, behind steps", "that behind a load",
        {"rows": 2_000_000, "steps": (1, 1000, 10_000, 10_000, 100_000, 100_000, 1)},
    ),
    "opening": Benchmark(
        "opening:opening", "going on with a state, from the start of a process", "nothing",
        {"flights": 88_000, "step": 1000, "rounds": 9, "sizes": (9_000, 300_000), "steps": (100, 1_000)},
    ),
    "refreshes": Benchmark(
        "refreshes:refreshes", "views over Delta tables, refreshed", "DuckDB, overwriting them",
        {"rows": 1_000_000, "shares": (0.0001, 0.001, 0.01), "write": "auto", "to": "delta", "steps": 10,
         "in_memory": 0},
    ),
    "spark": Benchmark(
        "spark:spark", "joins, recursion and histories on Spark", "Spark, from scratch",
        {"which": ("S1", "S2", "S3", "S4"), "scale": 1.0},
    ),
    "spark_memory": Benchmark(
        "spark_memory:spark_memory", "a driver after a large load: memory, first step by key", "Spark's own query",
        {"rows": 5_000_000, "in_memory": 1_000_000},
    ),
    "spark_costs": Benchmark(
        "spark_costs:spark_costs", "work on files of state: by row, page and megabyte", "-", {"rows": 2_500_000}
    ),
    "spark_keys": Benchmark(
        "spark_costs:spark_keys", "1,000 keys of state that is on the disk", "-",
        {"rows": (1_000_000, 10_000_000, 100_000_000), "times": 15},
    ),
    "spark_thresholds": Benchmark(
        "spark:spark_thresholds", "a value that moves, on Spark", "Spark", {"rows": 1_000_000, "steps": 9}
    ),
    "spark_handwritten": Benchmark(
        "spark_handwritten:spark_handwritten", "renderings", "PySpark by hand",
        {"words": (), "scale": 1.0, "warm": 10, "rounds": 5},
    ),
    "spark_windows": Benchmark(
        "spark_windows:spark_windows", "window calls from scratch", "Spark's own", {"many": _MANY, "one": _ONE}
    ),
    "spark_windows_large": Benchmark(
        "spark_windows:spark_windows_large", "a partition for more than one task", "Spark's own", {"one": _LARGE_ONE}
    ),
    "spark_windows_live": Benchmark(
        "spark_windows:spark_windows_live", "live runs, step by step", "Spark's own", {"many": _MANY, "one": _LARGE_ONE}
    ),
}  # fmt: skip
