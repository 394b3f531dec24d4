"""Draw the pictures of docs/benchmarks.md from what was measured: ``python -m benchmarks.plots``. Needs matplotlib.

The same results give the same files, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.picture import COLOURS, LABELS, TITLES

RESULTS: Final = Path(__file__).parent / "results"
PICTURES: Final = Path(__file__).parents[1] / "docs" / "pictures"
MORE_TITLES: Final = TITLES | {
    "W4": "lag, 10 partitions",
    "W4s": "running sum",
    "W7": "avg, 5 rows",
    "W8": "min, GROUPS\nEXCLUDE TIES",
    "W9": "sum, RANGE 1 h",
    "W12": "ranks, ntile",
    "R1": "by category\nand day",
    "R2": "by 200,000\nusers",
    "R3": "three dearest",
    "R4": "the three\nat once",
    "R5q1": "TPC-H Q1",
    "R5q3": "TPC-H Q3",
    "R5q5": "TPC-H Q5",
    "R5q9": "TPC-H Q9",
    "R5q18": "TPC-H Q18",
    "R6": "upserts",
}
STRATEGIES: Final = {"recompute": "#d9a441", "prefix_sum": "#0b6e99"}


def measured(name: str) -> Any:
    """Return the results of a run."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def bars(axes: Axes, entries: Sequence[Mapping[str, Any]], ylabel: str) -> None:
    """Draw the median epoch of each engine and workload, on a logarithmic scale."""
    entries = [e for e in entries if e["scale"] == 1 and "epoch_ms" in e]
    names = list(dict.fromkeys(e["workload"] for e in entries))
    engines = [engine for engine in LABELS if any(e["engine"] == engine for e in entries)]
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        medians = {e["workload"]: e["epoch_ms"]["median"] for e in entries if e["engine"] == engine}
        places = [n + (i - (len(engines) - 1) / 2) * width for n, name in enumerate(names) if name in medians]
        drawn = axes.bar(places, list(medians.values()), width * 0.92, color=COLOURS[engine], label=LABELS[engine])
        axes.bar_label(drawn, labels=[f"{v:.2g}" if v < 10 else f"{v:,.0f}" for v in medians.values()], fontsize=7)
    axes.set_yscale("log")
    axes.set_ylim(top=axes.get_ylim()[1] * 4)
    axes.set_ylabel(ylabel)
    axes.set_xticks(range(len(names)), [f"{n}\n{MORE_TITLES.get(n, '')}" for n in names], fontsize=8)
    axes.legend(frameon=False, ncols=len(engines), loc="upper left", fontsize=9)


def epochs(axes: Axes) -> None:
    """Draw epochs of one row: the run with all engines."""
    runs = [measured("embedded")["epochs"], measured("large_groups")["epochs"]]  # a later one of some
    last = {(e["workload"], e["engine"], e["scale"]): e for run in runs for e in run}
    bars(axes, list(last.values()), "ms for a change of one row")


def tables(axes: Axes) -> None:
    """Draw epochs of a thousand rows in large tables."""
    bars(axes, measured("tables")["batches"], "ms for a change of 1,000 rows")


def windows(axes: Axes) -> None:
    """Draw epochs of one row through window calls over large partitions."""
    bars(axes, measured("windows_in_order")["epochs"], "ms for a change of one row")


def delta_costs(axes: Axes) -> None:
    """Draw what a moved row costs by the rows of its partition, in the renderings that go anywhere."""
    marks = iter("osD^v")
    for call, strategies in measured("windows")["one_partition"].items():
        mark = next(marks)
        for strategy, sizes in strategies.items():
            points = sorted((int(rows), found["epoch_ms"]["median"]) for rows, found in sizes.items())
            label = f"{call}, {strategy}"
            axes.plot(*zip(*points, strict=True), marker=mark, ms=5, color=STRATEGIES[strategy], label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows in the partition")
    axes.set_ylabel("ms for a row that moves")
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def on_spark(axes: Axes) -> None:
    """Draw what Spark takes from scratch, and a step of a run that is kept up to date."""
    found = measured("spark")
    five, twenty = (found["S1"][f"{rows} rows, loaded by the executors"] for rows in (5_000_000, 20_000_000))
    work = {
        "sums of a join,\n5 million rows": (five["plain_query"]["seconds"], five["step"]["seconds"]),
        "the same,\n20 million rows": (twenty["plain_query"]["seconds"], twenty["step"]["seconds"]),
        "reachability,\n1,000,000 edges": (found["S2"]["render"]["seconds"], found["S2"]["step"]["seconds"]),
    }
    for i, label in enumerate(("from scratch", "a step, kept up to date")):
        seconds = [1000 * pair[i] for pair in work.values()]
        colour = ("#d9a441", "#0b6e99")[i]
        drawn = axes.bar([n + (i - 0.5) * 0.4 for n in range(len(work))], seconds, 0.37, color=colour, label=label)
        axes.bar_label(drawn, labels=[f"{s:.2g}" if s < 10 else f"{s:,.0f}" for s in seconds], fontsize=7)
    axes.set_yscale("log")
    axes.set_ylim(top=axes.get_ylim()[1] * 4)
    axes.set_ylabel("ms")
    axes.set_xticks(range(len(work)), list(work), fontsize=8)
    axes.legend(frameon=False, ncols=2, loc="upper left", fontsize=9)


def main() -> None:
    """Draw all pictures."""
    plt.rcParams.update({"svg.hashsalt": "tidemill", "svg.fonttype": "path", "font.size": 9})
    for draw in (epochs, tables, windows, delta_costs, on_spark):
        figure, axes = plt.subplots(figsize=(9, 3.8))
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        figure.savefig(PICTURES / f"bench-{draw.__name__.replace('_', '-')}.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
