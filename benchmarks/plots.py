"""Draw the pictures of docs/benchmarks.md, and README's, from what was measured: ``python -m benchmarks.plots``.

Needs matplotlib. The same results give the same files, byte for byte.
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

RESULTS: Final = Path(__file__).parent / "results"
DOCS: Final = Path(__file__).parents[1] / "docs"
COLOURS: Final = {"tidemill": "#0b6e99", "pathway": "#8a8f98", "duckdb": "#d9a441"}
LABELS: Final = {"tidemill": "tidemill", "pathway": "pathway (streaming)", "duckdb": "DuckDB (the query anew)"}
TITLES: Final = {
    "W1": "count by key", "W2": "join", "W3": "reachability", "W5": "transitive\nclosure",
    "W6": "what gnome needs\nin Debian", "W11": "least of\na million", "W11k": "first ten of\na million",
    "W4": "lag, 10 partitions", "W4s": "running sum", "W7": "avg, 5 rows", "W8": "min, GROUPS\nEXCLUDE TIES",
    "W9": "sum, RANGE 1 h", "W10": "row_number\n<= 10", "W12": "ranks, ntile", "W13": "avg on close,\nten rows",
    "R1": "by category\nand day", "R2": "by 200,000\nusers", "R3": "three dearest", "R4": "the three\nat once",
    "R5q1": "TPC-H Q1", "R5q3": "TPC-H Q3", "R5q5": "TPC-H Q5", "R5q9": "TPC-H Q9", "R5q18": "TPC-H Q18",
    "R6": "upserts",
}  # fmt: skip
STRATEGIES: Final = {"in order": "#2a9d5c", "recompute": "#d9a441", "prefix_sum": "#0b6e99"}


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
    axes.set_xticks(range(len(names)), [f"{n}\n{TITLES.get(n, '')}" for n in names], fontsize=8)
    axes.legend(frameon=False, ncols=len(engines), loc="upper left", fontsize=9)


def epochs(axes: Axes) -> None:
    """Draw epochs of one row: the run with all engines."""
    bars(axes, measured("embedded")["epochs"], "ms for a change of one row")


def tables(axes: Axes) -> None:
    """Draw epochs of a thousand rows in large tables."""
    bars(axes, measured("tables")["batches"], "ms for a change of 1,000 rows")


def windows(axes: Axes) -> None:
    """Draw epochs of one row through window calls over large partitions."""
    bars(axes, measured("windows_in_order")["epochs"], "ms for a change of one row")


def by_size(axes: Axes) -> None:
    """Draw curve (a): one row changed, by the rows of its partition; frames of ROWS, and calls without a frame."""
    found = [p for p in measured("window_curves")["by_size"] if p["frame"] == "ROWS"]
    curves(axes, found, "rows", "rows in the partition")
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def by_width(axes: Axes) -> None:
    """Draw curve (b): one row changed in a partition of 100,000, by the rows in a frame."""
    curves(axes, measured("window_curves")["by_width"], "width", "rows in a frame")
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def by_share(axes: Axes) -> None:
    """Draw curve (c): a row changed in each of some partitions of 1,000 rows, beside all computed anew."""
    found = measured("window_curves")["by_share"]
    for rendering in ("in order", "recompute"):
        points = [(100 * p["share"], p["ms"]) for p in found if p["rendering"] == rendering]
        axes.plot(*zip(*points, strict=True), marker="o", ms=5, color=STRATEGIES[rendering], label=rendering)
    for p, style in zip((p for p in found if "anew" in p["rendering"]), ("--", ":"), strict=True):
        axes.axhline(p["ms"], color="#777777", ls=style, label=p["rendering"])
    for against, share in measured("window_curves")["crossover"].items():
        if share is not None:
            rendering = against.split(" against ")[0]
            ms = next(p["ms"] for p in found if p["rendering"] == rendering and p["share"] == share)
            axes.plot(100 * share, ms, marker="x", ms=12, mew=2, color="#c0392b")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("% of 1,000 partitions touched (x: from here on computing all anew is as fast)")
    axes.set_ylabel("ms of processor time")
    axes.legend(frameon=False, fontsize=8)


def curves(axes: Axes, found: Sequence[Mapping[str, Any]], by: str, xlabel: str) -> None:
    """Draw a line for each call and rendering."""
    marks = dict(zip(dict.fromkeys(p["call"] for p in found), "osD^v", strict=False))
    for call, rendering in dict.fromkeys((p["call"], p["rendering"]) for p in found):
        points = [(p[by], p["ms"]) for p in found if (p["call"], p["rendering"]) == (call, rendering)]
        label = f"{call}, {rendering}"
        axes.plot(*zip(*points, strict=True), marker=marks[call], ms=4, color=STRATEGIES[rendering], label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel("ms of processor time")


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
    for draw in (epochs, tables, windows, by_size, by_width, by_share, on_spark):
        figure, axes = plt.subplots(figsize=(9, 3.8))
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        name = draw.__name__.replace("_", "-")
        figure.savefig(DOCS / "pictures" / f"bench-{name}.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
