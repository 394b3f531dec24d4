"""Views over tables: each refresh leaves the tables as if they were computed anew, wherever it was cut off."""

import errno
import shutil
import subprocess
import sys
from collections import Counter
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from support import killed_views
from support.lakes import FEED, Cut, cut, orders

import tidemill as tm
from tidemill.errors import StateError, UnknownNameError, ViewError
from tidemill.views.journal import RefreshJournal


class Lake:
    """Three sources and three views, with what they ought to hold: worked out in plain Python."""

    def __init__(self, folder, *, feed=True):
        self.folder = folder
        self.rows, self.bag, self.prices = {}, [], {"north": 2, "south": 3}
        write_deltalake(folder / "orders", orders(), configuration=FEED if feed else None)
        (folder / "in").mkdir()
        self.drop_file([(0, "north", 1)])

    def put(self, rows):
        """Put orders by their id, in one version of the table."""
        self.rows |= {row[0]: row for row in rows}
        merge = DeltaTable(self.folder / "orders").merge(
            orders(*rows), "t.id = s.id", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def take(self, id_):
        self.rows.pop(id_, None)
        DeltaTable(self.folder / "orders").delete(f"id = {id_}")

    def drop_file(self, rows):
        self.bag += rows
        pq.write_table(orders(*rows), self.folder / "in" / f"{len(self.bag):05}.parquet")

    def read_prices(self):
        prices = pd.DataFrame({"region": list(self.prices), "price": list(self.prices.values())})
        return prices.astype({"region": "string", "price": "int64"})

    def views(self):
        views = tm.Views(self.folder / "state")
        by_id = views.source("orders", tm.delta(self.folder / "orders"), key="id")
        items = views.source("items", tm.files(self.folder / "in" / "*.parquet"))
        prices = views.source("prices", tm.snapshot(self.read_prices), key="region")
        totals = by_id.group_by("region").agg(total=tm.sum("amount"))
        views.view("totals", totals, to=tm.delta(self.folder / "totals"), key="region")
        ranked = by_id.with_columns(place=tm.row_number().over(tm.Window.partition_by("region").order_by("id")))
        views.view("ranked", ranked, to=tm.delta(self.folder / "ranked"), key="id", write="merge")
        priced = items.join(prices, on="region").select("id", worth="amount * price")
        views.view("priced", priced, to=tm.delta(self.folder / "priced"), write="changelog")
        views.view("count", items.agg(n=tm.count()), to=tm.files(self.folder / "count.parquet"))
        return views

    def expected(self):
        totals = Counter()
        for _, region, amount in self.rows.values():
            totals[region] += amount
        places = Counter()
        ranked = []
        for id_, (_, region, amount) in sorted(self.rows.items()):
            places[region] += 1
            ranked.append((id_, region, amount, places[region]))
        regions = {row[1] for row in self.rows.values()}
        priced = Counter((id_, amount * self.prices[r]) for id_, r, amount in self.bag if r in self.prices)
        return {
            "totals": Counter((r, totals[r]) for r in regions),
            "ranked": Counter(ranked),
            "priced": priced,
            "count": Counter([(len(self.bag),)]),
        }

    def found(self):
        tables = {name: DeltaTable(self.folder / name).to_pyarrow_table() for name in ("totals", "ranked", "priced")}
        tables["count"] = pq.read_table(self.folder / "count.parquet")
        found = {name: Counter(tuple(row.values()) for row in t.to_pylist()) for name, t in tables.items()}
        log, found["priced"] = found["priced"], Counter()
        for (*row, change, _), times in log.items():
            found["priced"][tuple(row)] += times if change == "insert" else -times
        found["priced"] = +found["priced"]
        return found


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.dictionaries(
                st.integers(0, 5), st.tuples(st.sampled_from(["north", "south", "west"]), st.integers(-3, 9))
            ),
        ),
        st.tuples(st.just("take"), st.integers(0, 5)),
        st.tuples(
            st.just("file"), st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["north", "west"]), st.just(1)))
        ),
        st.tuples(st.just("price"), st.sampled_from([{"north": 4}, {"west": 1, "north": 2}, {}])),
        st.tuples(st.just("refresh"), st.none()),
    ),
    max_size=8,
)


@pytest.mark.slow
@pytest.mark.parametrize("feed", [True, False], ids=["change feed", "file differences"])
@given(changes=CHANGES)
def test_every_refresh_leaves_what_computing_anew_would(tmp_path_factory, feed, changes):
    lake = Lake(tmp_path_factory.mktemp("lake"), feed=feed)
    for what, how in [*changes, ("refresh", None)]:
        if what == "put" and how:
            lake.put([(id_, *rest) for id_, rest in how.items()])
        elif what == "take":
            lake.take(how)
        elif what == "file" and how:
            lake.drop_file(how)
        elif what == "price":
            lake.prices = how
        elif what == "refresh":
            with lake.views() as views:
                views.refresh()
                assert lake.found() == lake.expected()
                assert not views.refresh().is_new


def test_a_refresh_reads_what_changed_and_says_so(tmp_path):
    lake = Lake(tmp_path)
    lake.put([(i, "north", i) for i in range(10)])
    with lake.views() as views:
        first = views.refresh()
        assert first.read == {"orders": 10, "items": 1, "prices": 2}
        assert {n: (v.way, v.rows) for n, v in first.views.items()} == {
            "totals": ("overwrite", 1),
            "ranked": ("overwrite", 10),
            "priced": ("overwrite", 1),
            "count": ("overwrite", 1),
        }
        lake.put([(3, "south", 7)])
        second = views.refresh()
    assert second.read == {"orders": 2, "items": 0, "prices": 0}  # what the row was, and what it is
    assert second.views["ranked"].way == "merge"
    assert second.views["ranked"].changed == 14  # the row, and the six behind it, before and after
    assert not second.views["count"].way
    assert lake.found() == lake.expected()
    with lake.views() as views:  # as another process
        assert not views.refresh().is_new
        assert [r.number for r in views.history()] == [1, 2]
        assert "refresh 2" in views.status()
        assert "source orders: delta(" in views.status()
        assert "view ranked: 14 changes of 10 rows: merge" in views.explain()
        assert str(second).splitlines()[1] == "  source orders: 2 rows, version 2"


def test_nothing_new_takes_no_copy_away_that_another_refresh_is_about_to_read(tmp_path):
    given = pa.table({"a": [1]})
    with tm.Views(tmp_path / "state") as views:
        views.view("x", views.source("x", tm.snapshot(lambda: given)))
        views.refresh()
        (copy,) = (tmp_path / "state").rglob("*.parquet")
        other = shutil.copy(copy, copy.with_stem("other"))  # as its plan has fixed it
        assert not views.refresh().is_new
        assert other.exists()
        copy.unlink()
        given = pa.table({"a": [2]})
        with pytest.raises(ViewError, match=r"its copy .* is gone: read it anew with views.refresh\(full=True\)"):
            views.refresh()
        views.refresh(full=True)
        assert list(views.snapshot("x")) == [(2,)]


def test_nothing_new_starts_nothing(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    with lake.views() as views:
        views.refresh()
    with lake.views() as views:
        monkeypatch.setattr(tm.Dataflow, "start", lambda *_, **__: pytest.fail("the run was started"))
        assert not views.refresh().is_new


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (RefreshJournal, "begin"),
        (tm.Run, "deliver"),
        (deltalake.table.TableMerger, "execute"),
        (deltalake, "write_deltalake"),
        (pq, "write_table"),
        (RefreshJournal, "done"),
        (tm.Views, "_tidy"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_a_refresh_that_was_cut_off_is_gone_on_with(tmp_path, monkeypatch, owner, name, after):
    lake = Lake(tmp_path)
    lake.put([(i, "north", i) for i in range(4)])
    with lake.views() as views:
        views.refresh()
    lake.put([(1, "south", 5), (9, "west", 2)])
    lake.drop_file([(7, "north", 1)])
    with monkeypatch.context() as cutting, lake.views() as views:
        cut(cutting, owner, name, after=after)
        with pytest.raises(Cut):
            views.refresh()
    lake.take(0)  # what came meanwhile has to wait for the next one, or is taken with this
    with lake.views() as views:
        if name != "_tidy":
            assert ("was cut off" in views.status()) == ((name, after) not in {("begin", False), ("done", True)})
        views.refresh()
        views.refresh()
        assert lake.found() == lake.expected()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (RefreshJournal, "begin"),
        (tm.Run, "deliver"),
        (deltalake, "write_deltalake"),
        (pq, "write_table"),
        (RefreshJournal, "done"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_a_full_disk_ends_a_refresh_and_the_next_one_goes_on(tmp_path, monkeypatch, owner, name):
    lake = Lake(tmp_path)
    lake.put([(i, "north", i) for i in range(4)])

    def full(*given, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    with lake.views() as views:
        views.refresh()
        lake.put([(1, "south", 5), (9, "west", 2)])
        lake.drop_file([(7, "north", 1)])
        with monkeypatch.context() as filled:
            filled.setattr(owner, name, full)
            with pytest.raises(OSError, match="No space left"):
                views.refresh()
        views.refresh()
        views.refresh()
        assert lake.found() == lake.expected()


def test_a_table_asked_for_anew_is_written_though_a_cut_off_refresh_did(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 4)])
    with monkeypatch.context() as cutting, lake.views() as views:
        cut(cutting, RefreshJournal, "done", after=False)
        with pytest.raises(Cut):
            views.refresh()
    DeltaTable(tmp_path / "totals").delete()
    with lake.views() as views:
        assert views.refresh(full=["totals"]).views["totals"].way == "overwrite"
        assert lake.found() == lake.expected()


def test_a_state_that_was_restored_goes_on_though_tables_are_ahead_of_it(tmp_path):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 1)])
    with lake.views() as views:
        views.refresh()
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    for id_ in (2, 3):
        lake.put([(id_, "south", 3)])
        with lake.views() as views:
            views.refresh()
    shutil.rmtree(tmp_path / "state")
    shutil.move(tmp_path / "copy", tmp_path / "state")
    lake.put([(3, "west", 5)])
    with lake.views() as views:
        assert views.refresh().number == 4
        assert lake.found() == lake.expected()


def test_a_refresh_twice_at_once_is_refused(tmp_path):
    lake = Lake(tmp_path)
    with lake.views() as first, lake.views() as second:
        first.refresh()
        lake.put([(1, "north", 1)])
        with pytest.raises(StateError, match="in use"):
            second.refresh()
    with lake.views() as views:
        views.refresh()
        assert lake.found() == lake.expected()


def test_a_refresh_that_another_one_overtakes_begins_anew(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 1)])
    with lake.views() as views:
        views.refresh()
    lake.put([(2, "north", 2)])
    opening = tm.Views._open

    def overtaken(views, name):
        monkeypatch.undo()
        with lake.views() as other:
            other.refresh()
        lake.put([(3, "south", 3)])
        return opening(views, name)

    monkeypatch.setattr(tm.Views, "_open", overtaken)
    with lake.views() as views:
        assert views.refresh().number == 3
        assert lake.found() == lake.expected()


def test_what_could_not_be_read_is_planned_anew(tmp_path, monkeypatch):
    pq.write_table(orders((1, "north", 1)), tmp_path / "a.parquet")
    deliver = tm.Run.deliver

    def written_meanwhile(*given, **named):
        monkeypatch.undo()
        pq.write_table(orders((1, "north", 1), (2, "north", 2)), tmp_path / "a.parquet")
        return deliver(*given, **named)

    with tm.Views(tmp_path / "state") as views:
        views.view("o", views.source("rows", tm.files(tmp_path / "*.parquet")))
        monkeypatch.setattr(tm.Run, "deliver", written_meanwhile)
        with pytest.raises(ViewError, match="was written while it was to be read"):
            views.refresh()
        views.refresh()
        assert len(views.snapshot("o")) == 2


def test_a_sink_that_somebody_else_wrote_to_is_refused_until_it_is_written_whole(tmp_path):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 1)])
    with lake.views() as views:
        views.refresh()
        DeltaTable(tmp_path / "ranked").optimize.compact()  # upkeep is nobody's writing
        DeltaTable(tmp_path / "ranked").delete("id = 1")
        lake.put([(2, "north", 1)])
        with pytest.raises(ViewError, match=r"somebody else wrote to it since version 0 \(DELETE\).*full=\[\.\.\.\]"):
            views.refresh()
        views.refresh(full=["ranked"])
        assert lake.found() == lake.expected()


def test_a_table_made_anew_is_refused_and_read_whole_when_asked(tmp_path):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 1)])
    with lake.views() as views:
        views.refresh()
    for path in (tmp_path / "orders").rglob("*"):
        if path.is_file():
            path.unlink()
    write_deltalake(tmp_path / "orders", orders((5, "west", 5)), mode="overwrite", configuration=FEED)
    lake.rows = {5: (5, "west", 5)}
    with lake.views() as views:
        with pytest.raises(ViewError, match=r"source 'orders' is another table than the one that was read.*full=True"):
            views.refresh()
        views.refresh(full=True)
        assert lake.found() == lake.expected()
        (state,) = tmp_path.glob("state/run-?")
        assert state.name != "run-1"


def test_a_file_written_anew_is_refused(tmp_path):
    lake = Lake(tmp_path)
    with lake.views() as views:
        views.refresh()
    pq.write_table(orders((0, "north", 2), (0, "north", 3)), tmp_path / "in" / "00001.parquet")
    with lake.views() as views, pytest.raises(ViewError, match="was written anew since it was read"):
        views.refresh()
    (tmp_path / "in" / "00001.parquet").unlink()
    with pytest.raises(ViewError, match="no file is there yet"):
        lake.views()


def test_a_vacuumed_feed_is_refused(tmp_path):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 1)])
    with lake.views() as views:
        views.refresh()
    lake.put([(1, "north", 2)])
    lake.put([(1, "north", 3)])
    for path in (tmp_path / "orders" / "_change_data").glob("*"):
        path.unlink()
    with lake.views() as views:
        with pytest.raises(ViewError, match=r"cannot be read any more.*full=True"):
            views.refresh()
        views.refresh(full=True)
        assert lake.found() == lake.expected()


def test_a_changed_view_is_written_whole_and_the_others_are_not(tmp_path):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 4), (2, "south", 5)])

    def declared(more):
        views = tm.Views(tmp_path / "state")
        rows = views.source("orders", tm.delta(tmp_path / "orders"), key="id")
        sums = rows.group_by("region").agg(total=tm.sum("amount"))
        views.view("sums", sums, to=tm.delta(tmp_path / "sums"), key="region")
        views.view("other", rows.select("id", x=f"amount + {more}"), to=tm.delta(tmp_path / "other"), key="id")
        if more:
            views.view("new", rows.select("id"), to=tm.delta(tmp_path / "new"))
        return views

    with declared(0) as views:
        views.refresh()
    lake.put([(1, "north", 7)])
    with declared(0) as views:
        views.refresh()
    with declared(10) as views:
        done = views.refresh()
        assert done.read == {"orders": 0}
        assert {name: view.way for name, view in done.views.items()} == {
            "sums": "",
            "other": "overwrite",
            "new": "overwrite",
        }
        assert not views.refresh().is_new
    assert sorted(row["x"] for row in DeltaTable(tmp_path / "other").to_pyarrow_table().to_pylist()) == [15, 17]
    lake.put([(3, "north", 1)])
    with declared(10) as views:
        assert views.refresh().read == {"orders": 1}
    assert sorted(row["id"] for row in DeltaTable(tmp_path / "new").to_pyarrow_table().to_pylist()) == [1, 2, 3]


def test_a_refresh_that_failed_and_one_in_full_double_nothing(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "north", 2)))

    def declared(key):
        views = tm.Views(tmp_path / "state")
        views.view("o", views.source("orders", tm.delta(tmp_path / "orders")), to=tm.delta(tmp_path / "o"), key=key)
        return views

    with declared("region") as views, pytest.raises(ViewError, match="2 rows have the key"):
        views.refresh()
    with declared("id") as views:
        views.refresh(full=True)
        assert sorted(row["id"] for row in DeltaTable(tmp_path / "o").to_pyarrow_table().to_pylist()) == [1, 2]


def test_a_view_that_gives_nothing_any_more_empties_its_table(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "north", 2)))

    def declared(least):
        views = tm.Views(tmp_path / "state")
        rows = views.source("orders", tm.delta(tmp_path / "orders"), key="id").filter(f"amount > {least}")
        views.view("o", rows, to=tm.delta(tmp_path / "o"), key="id", write="merge")
        return views

    for least, left in ((0, 2), (100, 0), (1, 1)):
        with declared(least) as views:
            views.refresh()
        assert DeltaTable(tmp_path / "o").count() == left


def test_another_table_for_a_view_or_another_way_is_written_whole(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1)))

    def refreshed(to, write, **more):
        with tm.Views(tmp_path / "state") as views:
            rows = views.source("orders", tm.delta(tmp_path / "orders"), key="id")
            renamed = rows.select("id", **{more.get("called", "n"): "amount"})
            views.view("o", renamed, to=tm.delta(tmp_path / to), key="id", write=write)
            views.refresh()
        return DeltaTable(tmp_path / to).to_pyarrow_table()

    assert refreshed("a", "merge").num_rows == 1
    write_deltalake(tmp_path / "orders", orders((2, "south", 2)), mode="append")
    assert refreshed("b", "merge").num_rows == 2
    write_deltalake(tmp_path / "orders", orders((3, "south", 3)), mode="append")
    assert refreshed("a", "merge").num_rows == 3
    assert refreshed("a", "changelog").column_names == ["id", "n", "_change", "_refresh"]
    assert refreshed("a", "merge", called="m").column_names == ["id", "m"]


def test_what_a_refresh_reads_of_the_history_does_not_grow_with_it(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    lake.put([(1, "north", 1)])
    with lake.views() as views:
        views.refresh()
    history = tmp_path / "state" / "history.jsonl"
    (line,) = history.read_bytes().splitlines()
    history.write_bytes(b"no refresh\n" * 100_000 + line + b"\n" + line[:40])  # and what a crash left
    lake.put([(2, "north", 1)])
    with lake.views() as views:
        assert views.refresh().number == 2
        assert not views.refresh().is_new
        assert "view totals" in views.explain()
        assert lake.found() == lake.expected()
    lines = history.read_bytes().splitlines()
    assert len(lines) == 100_002
    assert lines[-2] == line


def test_a_column_that_is_gone_is_named(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1)))
    with tm.Views(tmp_path / "state") as views:
        views.view("o", views.source("orders", tm.delta(tmp_path / "orders")))
        write_deltalake(
            tmp_path / "orders",
            orders((1, "north", 1)).drop_columns(["region"]),
            mode="overwrite",
            schema_mode="overwrite",
        )
        with pytest.raises(ViewError, match="source 'orders' has no column 'region' any more: it has id, amount"):
            views.refresh()


def test_what_is_declared_wrongly_is_refused_at_once(tmp_path):
    views = tm.Views(tmp_path / "state")
    pq.write_table(orders((1, "north", 1)), tmp_path / "a.parquet")
    rows = views.source("rows", tm.files(tmp_path / "a.parquet"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"to": "out"}, "expected one of tm.delta"),
        ({"to": tm.files("x.parquet"), "write": "merge"}, "takes overwrite"),
        ({"to": tm.files("x.parquet"), "write": "changelog"}, "takes overwrite"),
        ({"to": tm.files("folder"), "write": "overwrite"}, "takes changelog"),
        ({"to": tm.delta("x"), "write": "merge"}, "needs key="),
        ({"write": "sometimes"}, "expected one of auto, merge, overwrite, changelog"),
    ]
    for wrong, match in cases:
        with pytest.raises(ViewError, match=match):
            views.view("v", rows, **wrong)
    with pytest.raises(ViewError, match="expected one of tm.delta"):
        views.source("other", tmp_path)
    with pytest.raises(ViewError, match="without state"):
        tm.Views(tmp_path / "state", tm.Embedded(tmp_path / "other"))
    with pytest.raises(UnknownNameError, match="no view 'w'"):
        views.refresh(full=["w"])
    views.view("first", rows, to=tm.delta(tmp_path / "one"))
    with pytest.raises(ViewError, match="is written by the view 'first'"):
        views.view("second", rows, to=tm.delta(tmp_path / "one"))
    with pytest.raises(ViewError, match="columns called _change are tidemill's own"):
        views.view("third", rows.select(_change="id"))
    with pytest.raises(ViewError, match="there is no such table"):
        views.source("gone", tm.delta(tmp_path / "gone"))


def test_views_in_sql(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "south", 2)))
    with tm.Views(tmp_path / "state") as views:
        views.source("orders", tm.delta(tmp_path / "orders"), key="id")
        views.sql(
            "CREATE VIEW large AS SELECT * FROM orders WHERE amount > 1;"
            "CREATE MATERIALIZED VIEW by_region AS SELECT region, sum(amount) AS total FROM large GROUP BY region",
            to={"by_region": tm.delta(tmp_path / "by_region")},
            key={"by_region": "region"},
        )
        with pytest.raises(UnknownNameError, match="no materialized view 'by_regoin'"):
            views.sql("SELECT 1 AS x", to={"by_regoin": tm.delta(tmp_path / "x")})
        views.refresh()
        write_deltalake(tmp_path / "orders", orders((3, "south", 5)), mode="append")
        done = views.refresh()
        assert done.read == {"orders": 1}
        assert list(views.snapshot("by_region")) == [("south", 7)]
    assert DeltaTable(tmp_path / "by_region").to_pyarrow_table().to_pylist() == [{"region": "south", "total": 7}]


PROGRAM = """
import tidemill as tm
views = tm.Views({state!r})
rows = views.source("rows", tm.files({rows!r}))
views.view("sums", rows.group_by("region").agg(total=tm.sum("amount")), to=tm.delta({sums!r}), key="region")
"""


@pytest.mark.slow
def test_the_command_line_refreshes(tmp_path):
    pq.write_table(orders((1, "north", 4)), tmp_path / "rows.parquet")
    program = tmp_path / "views.py"
    program.write_text(
        PROGRAM.format(state=str(tmp_path / "state"), rows=str(tmp_path / "rows.parquet"), sums=str(tmp_path / "sums"))
    )

    def command(*options):
        return subprocess.run(  # noqa: S603
            [sys.executable, "-m", "tidemill", "views", str(program), *options],
            capture_output=True,
            text=True,
            check=False,
        )

    assert "never refreshed" in command("--status").stdout
    done = command("--refresh")
    assert done.returncode == 0, done.stderr
    assert "view sums: 1 changes, 1 rows, overwrite in" in done.stdout
    assert "nothing new" in command("--refresh").stdout
    assert "view sums: 1 changes, 1 rows, overwrite in" in command("--refresh", "--full").stdout
    assert "view sums: 1 changes of 1 rows: overwrite" in command("--explain").stdout
    assert [line[:10] for line in command("--history").stdout.splitlines() if line[0] == "r"] == [
        "refresh 1,",
        "refresh 2,",
    ]
    program.write_text("views = 3")
    assert "expected one tm.Views" in command("--refresh").stderr


@pytest.mark.slow
def test_refreshes_killed_at_random_moments_lose_and_double_nothing(tmp_path):
    found = killed_views.killed(tmp_path, versions=8, kills=4, seed=3)
    assert found["wrong"] == []
    assert found["kills"] >= 2  # a fast machine is done before the last ones


def test_moments_with_a_zone_leave_as_such(tmp_path):
    """Delta's TIMESTAMP stays one, in a schema that is taken from the table; it is UTC where a schema says no zone."""
    rows = pd.DataFrame({"id": [1], "at": pd.to_datetime(["2026-03-01 23:30"], utc=True)})
    write_deltalake(tmp_path / "in", rows)
    with tm.Views(tmp_path / "state") as views:
        moments = views.source("moments", tm.delta(tmp_path / "in"), key="id")
        views.view("kept", moments.with_columns(hour="hour(at)"), to=tm.delta(tmp_path / "kept"), key="id")
        views.view("file", moments, to=tm.files(tmp_path / "file.parquet"))
        schema = {"id": "int64", "at": "timestamp"}
        plain = views.source("plain", tm.delta(tmp_path / "in"), key="id", schema=schema)
        views.view("plain", plain, to=tm.delta(tmp_path / "plain"), key="id")
        views.refresh()
    kept, plain = (DeltaTable(tmp_path / n).to_pyarrow_table() for n in ("kept", "plain"))
    assert kept["at"].type == pq.read_table(tmp_path / "file.parquet")["at"].type == pa.timestamp("us", "UTC")
    assert kept["hour"].to_pylist() == [23]
    assert plain["at"].type == pa.timestamp("us")
    assert kept["at"].cast(pa.timestamp("us")) == plain["at"] == pa.chunked_array([[pd.Timestamp("2026-03-01 23:30")]])
