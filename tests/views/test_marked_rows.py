"""Delta tables in which rows are marked as gone by deletion vectors, and which way of writing `auto` takes."""

import shutil
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.views import writing

pytest.importorskip("deltalake")

MARKED = Path(__file__).parent / "marked"
"""Rows 1 to 4; from version 1 on row 2 is gone and 3 has changed, both by marks; in version 2 there is a row 5."""


@pytest.mark.parametrize("begun", [0, 1, 2])
def test_a_table_with_marked_rows_is_a_source_from_any_version_on(tmp_path, begun):
    shutil.copytree(MARKED, tmp_path / "lake")
    log, later = tmp_path / "lake" / "_delta_log", tmp_path / "later"
    later.mkdir()
    for version in range(begun + 1, 3):
        (log / f"{version:020}.json").rename(later / f"{version:020}.json")
    for _ in range(2):
        with tm.Views(tmp_path / "state") as views:
            rows = views.source("rows", tm.delta(tmp_path / "lake"), key="id")
            views.view("sums", rows.agg(n=tm.count(), total=tm.sum("amount")), to=tm.files(tmp_path / "sums.parquet"))
            views.refresh()
            found = list(views.snapshot("sums"))
        for path in later.iterdir():
            path.rename(log / path.name)
    assert found == [(4, 133)]


def test_a_way_that_was_slow_once_is_tried_again_and_left_while_it_is_slow(tmp_path, monkeypatch):
    flow = tm.Dataflow()
    sink = tm.delta(tmp_path)
    monkeypatch.setattr(type(sink), "seconds", lambda _, way, *_sizes: {"merge": 0.6, "overwrite": 5.0}.get(way, 9.0))
    view = writing.DeclaredView("v", flow.input("x", {"id": "int64"}), sink, ("id",), "auto")
    paces, ways = {}, []
    for n in range(60):
        costs = view.costs(5_000_000, 5000, paces)
        ways.append(min((seconds, way) for way, seconds in costs.items())[1])
        is_busy = n == 5 or n >= 30  # once, and from then on
        paces = writing._paced(paces, ways[-1], 400.0 if ways[-1] == "merge" and is_busy else 1.0)
    assert ways[:6] == ["merge"] * 6
    assert ways[6] == "overwrite"
    assert ways[20:31] == ["merge"] * 11
    assert ways[31:].count("merge") < 5
