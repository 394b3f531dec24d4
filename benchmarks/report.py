"""The results as a page of text."""

from __future__ import annotations

from typing import Any

from benchmarks.table import figure, text_table

_EPOCHS = ["", "engine", "load s", "median ms", "p90", "max", "step ms", "read ms", "memory MB", "state rows", "times"]


def report(results: dict[str, Any]) -> str:
    """Return all tables that there are results for."""
    parts = [_machine(results["machine"])]
    for title, key, shown in (
        ("One row an epoch, change to answer in hand", "epochs", _epochs),
        ("Ten times the rows, one row an epoch", "growth", _growth),
        ("The same row inserted and deleted, epoch after epoch", "endurance", _endurance),
        ("Many rows an epoch", "bulk", _bulk),
    ):
        if results.get(key):
            parts.append(f"{title}\n\n{shown(results[key])}")
    wrong = [f"{r['workload']} x{r['scale']} ({r['engine']})" for r in results.get("epochs", []) if r.get("wrong")]
    parts.append("ANSWERS DIFFER: " + ", ".join(wrong) if wrong else "All engines gave the same answers.")
    return "\n\n".join(parts)


def _machine(machine: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine.items() if value is not None)


def _epochs(measured: list[dict[str, Any]]) -> str:
    rows = []
    for m in measured:
        name = m["workload"] + (f" x{m['scale']}" if m["scale"] > 1 else "")
        if "skipped" in m:
            rows.append([name, m["engine"], *["-"] * 8, m["skipped"]])
            continue
        epoch = m["epoch_ms"]
        figures = [m["load_s"], epoch["median"], epoch["p90"], epoch["max"], m["step_ms"]["median"]]
        figures += [m["read_ms"]["median"], m["memory_mb"]]
        state = "-" if m["state_rows"] is None else f"{m['state_rows']:,}"
        rows.append([name, m["engine"], *map(figure, figures), state, figure(m.get("ratio"))])
    titles = {m["workload"]: m["title"] for m in measured}
    return text_table(_EPOCHS, rows) + "\n\n" + "\n".join(f"{name:4} {title}" for name, title in titles.items())


def _growth(measured: list[dict[str, Any]]) -> str:
    rows = [
        [m["workload"], m["engine"], figure(m["one_ms"]), figure(m["ten_ms"]), figure(m["ratio"])] for m in measured
    ]
    return text_table(["", "engine", "1x: median ms", "10x: median ms", "ratio"], rows)


def _endurance(measured: list[dict[str, Any]]) -> str:
    rows = [
        [m["workload"], f"{m['epochs']:,} epochs"]
        + [figure(m[f"{end}_step_ms"][part]) for end in ("first", "last") for part in ("median", "max")]
        + [f"{m['first_state_rows']:,}", f"{m['last_state_rows']:,}", figure(m["memory_growth_mb"])]
        for m in measured
    ]
    head = ["", "", "first 1,000: median ms", "max", "last 1,000: median ms", "max", "state rows first", "last", "MB more"]
    return text_table(head, rows)


def _bulk(measured: list[dict[str, Any]]) -> str:
    rows = [
        [m["workload"], m["engine"], f"{m['rows']:,}", *(figure(m["epoch_ms"][p]) for p in ("median", "max"))]
        + [figure(m["step_ms"]["median"]), figure(m["memory_mb"]), figure(m.get("ratio"))]
        for m in measured
    ]
    return text_table(["", "engine", "rows", "median ms", "max", "step ms", "memory MB", "times"], rows)
