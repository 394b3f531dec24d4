"""The workloads, by name. Numbers are those of the project's issues; what is missing here is measured elsewhere."""

from benchmarks.workload import Workload
from benchmarks.workloads import one_row, sales, tpch, windows

_ONE_ROW: list[type[Workload]] = [
    one_row.Counts, one_row.Joined, one_row.Reachability, one_row.Closure, one_row.Debian, one_row.Least,
    one_row.LeastTen, windows.Before, windows.RunningSum, windows.Mean, windows.LeastAround, windows.LastHour,
    windows.FirstTen, windows.Ranks, windows.MeanOnClose,
]  # fmt: skip
_LARGE: list[type[Workload]] = [
    sales.ByCategory, sales.ByUser, sales.Dearest, sales.Everything, tpch.Pricing, tpch.Unshipped, tpch.Local,
    tpch.Profit, tpch.Large, sales.Accounts,
]  # fmt: skip
WORKLOADS: dict[str, type[Workload]] = {w.name: w for w in _ONE_ROW}
"""One row an epoch."""
TABLES: dict[str, type[Workload]] = {w.name: w for w in _LARGE}
"""Loads of large tables, and a thousand rows an epoch."""
ALL: dict[str, type[Workload]] = {**WORKLOADS, **TABLES}
