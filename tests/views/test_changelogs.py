"""Views written as changelogs: in tables of a lake and in folders of files."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.lakes import Cut, cut, orders

import tidemill as tm
from tidemill.errors import ViewError
from tidemill.views.journal import RefreshJournal


def test_the_log_of_a_changed_view_goes_on_with_the_difference(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "south", 2)))

    def refreshed(more, **options):
        with tm.Views(tmp_path / "state") as views:
            rows = views.source("orders", tm.delta(tmp_path / "orders"), key="id")
            worth = rows.select("id", worth=f"amount * {more} - if(id = 1, {more} - 1, 0)")
            views.view("log", options.pop("also", lambda c: c)(worth), to=tm.delta(tmp_path / "log"), write="changelog")
            done = views.refresh(**options)
            assert not views.refresh().is_new
        log = DeltaTable(tmp_path / "log").to_pyarrow_table().to_pylist()
        return done.views["log"], sorted((r["_refresh"], r["_change"], r["id"], r["worth"]) for r in log)

    before = [(1, "insert", 1, 1), (1, "insert", 2, 2)]
    assert refreshed(1)[1] == before
    before += [(2, "delete", 2, 2), (2, "insert", 2, 20)]  # the row that is the same is not told again
    done, log = refreshed(10)
    assert (done.way, done.changed, log) == ("changelog", 2, before)
    write_deltalake(tmp_path / "orders", orders((3, "south", 3)), mode="append")
    before += [(3, "delete", 2, 20), (3, "insert", 2, 40), (3, "insert", 3, 60)]
    assert refreshed(20)[1] == before
    with pytest.raises(
        ViewError, match=r"id int64, worth int64, n int64 now, and its changelog .* id int64, worth int64:"
    ):
        refreshed(20, also=lambda c: c.with_columns(n="id"))
    assert refreshed(20)[1] == before  # the declaration as it was
    assert refreshed(20, full=["log"])[1] == [(5, "insert", i, w) for i, w in ((1, 1), (2, 40), (3, 60))]


def test_a_changelog_of_files_has_one_for_each_refresh(tmp_path, monkeypatch):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "south", 2)))

    def refreshed(write="changelog", **options):
        with tm.Views(tmp_path / "state") as views:
            rows = views.source("orders", tm.delta(tmp_path / "orders"), key="id")
            views.view("log", rows.select("id"), to=tm.files(tmp_path / "log"), write=write)
            return views.refresh(**options)

    def files():
        return sorted(path.name for path in (tmp_path / "log").iterdir())

    refreshed()
    write_deltalake(tmp_path / "orders", orders((3, "south", 3)), mode="append")
    with monkeypatch.context() as cutting:
        cut(cutting, RefreshJournal, "done", after=False)
        with pytest.raises(Cut):
            refreshed()
    refreshed()
    assert files() == ["step-0000000002.parquet", "steps-0000000000-0000000001.parquet"]
    assert [tuple(row.values()) for row in tm.read_changelog(tmp_path / "log").to_pylist()] == [
        (1, "insert", 1), (2, "insert", 1), (3, "insert", 2),
    ]  # fmt: skip
    DeltaTable(tmp_path / "orders").delete("id = 1")
    refreshed(full=["log"])
    assert files() == ["steps-0000000000-0000000003.parquet"]
    assert {row["_refresh"] for row in tm.read_changelog(tmp_path / "log").to_pylist()} == {3}
    with pytest.raises(ViewError, match="its changelog to a folder"):
        refreshed(write="auto")


def test_a_changelog_of_files_that_a_state_begun_anew_writes_is_its_own(tmp_path):
    rows = pa.table({"a": [0]})

    def refreshed(state):
        with tm.Views(tmp_path / state) as views:
            views.view(
                "log", views.source("x", tm.snapshot(lambda: rows)), to=tm.files(tmp_path / "log"), write="changelog"
            )
            done = views.refresh()
            assert not views.refresh().is_new
        assert sorted(tm.read_changelog(tmp_path / "log")["a"].to_pylist()) == rows["a"].to_pylist()
        return done.number

    for i in range(4):
        rows = pa.table({"a": range(i + 1)})
        assert refreshed("one") == i + 1
    assert refreshed("two") == 1
    rows = pa.table({"a": range(5)})
    assert refreshed("two") == 2
    assert refreshed("one") == 5
