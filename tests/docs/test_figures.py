"""Figures that pages say in words or in tables of their own are those that were measured, in benchmarks/results."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README, WHEN_NOT, BENCHMARKS, FRONT = (
    ROOT / name for name in ("README.md", "docs/when-not.md", "docs/benchmarks.md", "docs/index.md")
)


@cache
def results(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def said(page):
    return " ".join(page.read_text().split())


def milliseconds(ms):
    return f"{ms:.2g} ms" if ms < 10 else f"{ms:,.0f} ms"


def medians(name, kind):
    """The medians of epochs at the usual size, by what the work is called and by engine."""
    found = {}
    for m in results(name)[kind]:
        if m["scale"] == 1 and "epoch_ms" in m:
            found.setdefault((m["workload"], m["title"]), {})[m["engine"]] = milliseconds(m["epoch_ms"]["median"])
    return found


def test_the_table_of_the_readme_is_what_was_measured():
    measured = {
        title: by
        for (_, title), by in {**medians("embedded", "epochs"), **medians("windows_in_order", "epochs")}.items()
    }
    measured["TPC-H Q5 at scale 1, a thousand changed rows"] = next(
        by for (workload, _), by in medians("tables", "batches").items() if workload == "R5q5"
    )
    spark = results("spark")["S1"]["5000000 rows, loaded by the executors"]
    step, query = milliseconds(1e3 * spark["step"]["seconds"]), f"Spark {spark['plain_query']['seconds']:.2g} s"
    measured["on Spark: 5 million sales joined to 100,000 items, a thousand changed rows"] = {
        "tidemill": step,
        "duckdb": query,
    }
    rows = re.findall(r"^\| (.+?) \| (.*?) \| (.*?) ?\| (.*?) \|$", said_lines(README, "| | tidemill |"), re.MULTILINE)
    assert len(rows) >= 7
    for work, *shown in rows:
        by = measured[work]
        assert shown == [by["tidemill"], by.get("pathway", ""), by["duckdb"]], work


def said_lines(page, head):
    """The lines of the table with this head, but for its first two."""
    table = page.read_text().partition(head)[2].partition("\n\n")[0]
    return table.partition("\n")[2].partition("\n")[2]


@pytest.mark.parametrize("page", [README, WHEN_NOT, BENCHMARKS])
def test_what_a_load_takes_is_said_alike(page):
    ratios = [m["load_ratio"] for m in results("tables")["batches"] if m["scale"] == 1 and m["engine"] == "tidemill"]
    assert f"takes {min(ratios):.2g} to {max(ratios):.2g} times the processor time of" in said(page)


@pytest.mark.parametrize("page", [WHEN_NOT, BENCHMARKS])
def test_what_a_large_change_takes_is_said_alike(page):
    ms = {m["engine"]: m["epoch_ms"]["median"] for m in results("embedded")["bulk"] if m["workload"] == "W1"}
    assert f"DuckDB takes {ms['duckdb']:.0f} ms and tidemill {ms['tidemill']:.0f}" in said(page)


def test_what_is_said_of_duckdbs_loads():
    loads = [m["load_s"] for m in results("embedded")["epochs"] if m["scale"] == 1 and m["engine"] == "duckdb"]
    assert max(loads) < 0.02, loads
    assert "DuckDB loads all of W1 to W6 in under 0.02 s" in said(BENCHMARKS)


def test_the_front_page_says_what_one_row_takes():
    found = medians("embedded", "epochs")
    ms = [
        float(by["tidemill"].removesuffix(" ms"))
        for (workload, _), by in found.items()
        if workload in {"W1", "W2", "W3"}
    ]
    low, high = re.search(r"A change of one row takes \[([\d.]+) to ([\d.]+) ms\]", said(FRONT)).groups()
    assert float(low) <= min(ms) and max(ms) <= float(high)


def test_what_partitions_that_are_not_in_order_take():
    curves = results("window_curves")
    anew, sums = (
        {
            m["rows"]: m["ms"]
            for m in curves["by_size"]
            if (m["frame"], m["call"], m["rendering"]) == ("ROWS", "sum", how)
        }
        for how in ("recompute", "prefix_sum")
    )
    (narrow,) = (
        m["ms"] for m in curves["by_width"] if (m["width"], m["call"], m["rendering"]) == (1, "sum", "prefix_sum")
    )
    assert f"{anew[1_000]:.1g} ms for 1,000 rows and {anew[100_000]:.0f} ms for 100,000" in said(WHEN_NOT)
    assert f"it is {sums[100_000]:.0f} ms for 100,000, and {narrow:.2g} ms with frames of one row" in said(WHEN_NOT)


def test_what_closures_gain():
    ms = {
        m["engine"]: m["epoch_ms"]["median"]
        for m in results("embedded")["epochs"]
        if m["workload"] == "W5" and m["scale"] == 1
    }
    assert f"(W5): only {ms['duckdb'] / ms['tidemill']:.1f} times faster than computing them anew" in said(BENCHMARKS)


def test_no_cell_of_the_comparison_is_a_question_and_what_is_cited_is_listed():
    tables, _, sources = (ROOT / "docs" / "compared.md").read_text().partition("## Where it is said")
    assert "| ? |" not in tables
    cited, listed = (
        set(re.findall(pattern, text)) for pattern, text in ((r"\[(\d)\] ", tables), (r"- \*\*\[(\d)\]\*\*", sources))
    )
    assert cited == listed
