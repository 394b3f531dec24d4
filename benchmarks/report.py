"""The results as a page of text."""

from __future__ import annotations

from typing import Any

from benchmarks.table import figure, text_table

Result = dict[str, Any]


def report(results: dict[str, Any]) -> str:
    """Return all tables that there are results for."""
    parts = [", ".join(f"{k.replace('_', ' ')} {v}" for k, v in results["machine"].items() if v is not None)]
    for title, key, shown in (
        ("One row an epoch: from the change to its effect in hand (ms)", "epochs", _epochs),
        ("Ten times the rows, one row an epoch (median ms)", "growth", _growth),
        ("The same row inserted and deleted, epoch after epoch (ms)", "endurance", _endurance),
        ("Many rows an epoch (ms)", "bulk", _bulk),
        ("Large tables, and a thousand rows an epoch", "batches", _batches),
    ):
        if results.get(key):
            parts.append(f"{title}\n\n{shown(results[key])}")
    return "\n\n".join([*parts, *_cautions(results)])


def _epochs(measured: list[Result]) -> str:
    head = ["", "engine", "load s", "min", "median", "p90", "max", "step", "read", "cpu"]
    head += ["memory MB", "state rows", "beside answer", "times"]
    rows = []
    for m in measured:
        name = m["workload"] + (f" x{m['scale']}" if m["scale"] > 1 else "")
        if "skipped" in m:
            rows.append([name, m["engine"], *["-"] * (len(head) - 2)])
            continue
        epoch, state = m["epoch_ms"], [m["state_rows"], _beside_answer(m)]
        figures = [m["load_s"], *(epoch[p] for p in ("min", "median", "p90", "max")), m["step_ms"]["median"]]
        figures += [m["read_ms"]["median"], m["processor_ms"]["median"], m["memory_mb"]]
        rows.append([name, m["engine"], *map(figure, [*figures, *state, m.get("ratio")])])
    titles = {m["workload"]: f"{m['workload']:5}{m['title']}" for m in measured}
    skipped = [f"{m['workload']:5}not measured with {m['engine']}: {m['skipped']}" for m in measured if "skipped" in m]
    return "\n".join([text_table(head, rows), "", *titles.values(), *skipped])


def _beside_answer(measured: Result) -> int | None:
    """Return how many rows are kept to go on from, without the answer itself."""
    answer = measured["answer_rows"]
    return None if answer is None else measured["state_rows"] - answer


def _growth(measured: list[Result]) -> str:
    rows = [[m["workload"], m["engine"], *(figure(m[p]) for p in ("one_ms", "ten_ms", "ratio"))] for m in measured]
    return text_table(["", "engine", "rows x1", "rows x10", "ratio"], rows)


def _endurance(measured: list[Result]) -> str:
    rows = []
    for m in measured:
        for end in ("first", "last"):
            step = m[f"{end}_step_ms"]
            figures = [step["median"], step["p90"], step["max"], m[f"{end}_state_rows"]]
            rows.append([m["workload"], f"{end} {step['epochs']:,} of {m['epochs']:,}", *map(figure, figures)])
    grown = f"memory grew by {figure(measured[0]['memory_growth_mb'])} MB between them"
    return text_table(["", "epochs", "median", "p90", "max", "state rows"], rows) + "\n" + grown


def _bulk(measured: list[Result]) -> str:
    rows = []
    for m in measured:
        figures = [m["rows"], m["epoch_ms"]["median"], m["epoch_ms"]["max"], m["step_ms"]["median"], m["memory_mb"]]
        rows.append([m["workload"], m["engine"], *map(figure, figures), figure(m.get("ratio"))])
    return text_table(["", "engine", "rows", "median", "max", "step", "memory MB", "times"], rows)


def _batches(measured: list[Result]) -> str:
    head = ["", "engine", "load s", "cpu", "memory MB", "step ms", "read ms", "cpu ms", "memory MB", "state rows"]
    rows = []
    for m in measured:
        name = m["workload"] + (f" x{m['scale']:g}" if m["scale"] != 1 else "")
        figures = [m["load_s"], m["load_cpu_s"], m["load_memory_mb"], m["step_ms"]["median"], m["read_ms"]["median"]]
        figures += [m["processor_ms"]["median"], m["memory_mb"], m["state_rows"], m.get("load_ratio")]
        rows.append([name, m["engine"], *map(figure, figures)])
    titles = {m["workload"]: f"{m['workload']:5}{m['title']}" for m in measured}
    note = "load / query: tidemill's load in units of DuckDB's whole query, both in processor time, on one thread."
    return "\n".join([text_table([*head, "load / query"], rows), "", *titles.values(), note])


def _cautions(results: dict[str, Any]) -> list[str]:
    """Return whether the answers agree, and whether others were using the machine."""
    compared = [r for part in ("epochs", "bulk", "batches") for r in results.get(part, []) if "runs" in r]
    wrong = sorted({f"{r['workload']} x{r['scale']}" for r in compared if r.get("wrong")})
    said = [f"ANSWERS DIFFER: {', '.join(wrong)}" if wrong else "All engines gave the same answers."]
    busiest = max((run["load_average"] or 0 for r in compared for run in r["runs"]), default=0)
    if busiest > results["machine"]["cores"]:
        said.append(
            f"The machine was busy: a load average of {busiest} on {results['machine']['cores']} cores. That lengthens "
            "epochs, most of all those of engines with several threads, so the ratios flatter tidemill: measure again."
        )
    return said
