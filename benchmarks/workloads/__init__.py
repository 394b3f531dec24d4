"""The workloads, by name. Numbers are those of the project's issues; what is missing here is measured elsewhere."""

from benchmarks.workload import Workload
from benchmarks.workloads.closure import Closure
from benchmarks.workloads.counts import Counts
from benchmarks.workloads.debian import Debian
from benchmarks.workloads.joined import Joined
from benchmarks.workloads.least import Least, LeastTen
from benchmarks.workloads.on_close import MeanOnClose
from benchmarks.workloads.reachability import Reachability
from benchmarks.workloads.sales import Accounts, ByCategory, ByUser, Dearest, Everything
from benchmarks.workloads.tpch import Large, Local, Pricing, Profit, Unshipped
from benchmarks.workloads.windows import Before, FirstTen, LastHour, LeastAround, Mean, Ranks, RunningSum

WORKLOADS: dict[str, type[Workload]] = {
    w.name: w
    for w in (
        Counts,
        Joined,
        Reachability,
        Closure,
        Debian,
        Least,
        LeastTen,
        Before,
        RunningSum,
        Mean,
        LeastAround,
        LastHour,
        FirstTen,
        Ranks,
        MeanOnClose,
    )
}
"""One row an epoch."""
TABLES: dict[str, type[Workload]] = {
    w.name: w for w in (ByCategory, ByUser, Dearest, Everything, Pricing, Unshipped, Local, Profit, Large, Accounts)
}
"""Loads of large tables, and a thousand rows an epoch."""
ALL: dict[str, type[Workload]] = {**WORKLOADS, **TABLES}
