"""Draw README's picture: ``python -m benchmarks.picture RESULTS.json PICTURE.png``. Needs matplotlib."""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {"tidemill": "#0b6e99", "pathway": "#8a8f98", "duckdb": "#d9a441"}
LABELS = {"tidemill": "tidemill", "pathway": "pathway (streaming)", "duckdb": "DuckDB (the query anew)"}

TITLES = {
    "W1": "count by key",
    "W2": "join",
    "W3": "reachability",
    "W5": "transitive\nclosure",
    "W6": "what gnome needs\nin Debian",
    "W11": "least of\na million",
    "W11k": "first ten of\na million",
}


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def main(results: str, picture: str) -> None:
    """Draw the median epoch of each engine and workload."""
    measured = json.loads(Path(results).read_text())["epochs"]
    measured = [m for m in measured if m["scale"] == 1 and "epoch_ms" in m]
    names = list(dict.fromkeys(m["workload"] for m in measured))
    engines = [e for e in LABELS if any(m["engine"] == e for m in measured)]
    figure, axes = plt.subplots(figsize=(9, 4.2), dpi=110)
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        medians = {m["workload"]: m["epoch_ms"]["median"] for m in measured if m["engine"] == engine}
        places = [n + (i - (len(engines) - 1) / 2) * width for n, name in enumerate(names) if name in medians]
        bars = axes.bar(places, list(medians.values()), width * 0.92, color=COLOURS[engine], label=LABELS[engine])
        axes.bar_label(bars, labels=[_short(v) for v in medians.values()], fontsize=7, padding=1)
    axes.set_yscale("log")
    axes.set_ylim(0.05, 2000)
    axes.set_ylabel("ms for a change of one row, median")
    axes.set_xticks(range(len(names)), [f"{n}\n{TITLES.get(n, '')}" for n in names], fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper left", fontsize=9)
    figure.tight_layout()
    Path(picture).parent.mkdir(exist_ok=True)
    figure.savefig(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
