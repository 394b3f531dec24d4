"""Tables in databases: they hold what computing anew would, wherever a refresh was cut off, and whoever wrote to them."""

import datetime as dt
import itertools
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.lakes import Cut, orders

import tidemill as tm
from tidemill.errors import ViewError
from tidemill.views.databases import DatabaseTable
from tidemill.views.journal import RefreshJournal, digest_of

KINDS = [pytest.param("duckdb"), pytest.param("postgres", marks=pytest.mark.slow)]
NUMBERS = itertools.count()


@pytest.fixture(params=KINDS)
def table(request, tmp_path):
    """Return what makes a table of a database by its name: one with no tables."""
    if request.param == "duckdb":
        return lambda name: tm.duckdb(tmp_path / "x.duckdb", name)
    conninfo, schema = request.getfixturevalue("server"), f"s{next(NUMBERS)}"
    run_sql(tm.postgres(conninfo, "x"), f"CREATE SCHEMA {schema}")
    return lambda name: tm.postgres(conninfo, f"{schema}.{name}")


def run_sql(table, text):
    with table._transaction() as connection:
        connection.execute(text.format(table._table))


def drop_file(folder, rows):
    pq.write_table(orders(*rows), folder / f"{len(list(folder.glob('*.parquet'))):03}.parquet")


class Shop:
    """Orders in files, and three views of them in a database."""

    def __init__(self, folder, table):
        self.folder, self.table, self.orders = folder, table, {}

    def put(self, *rows):
        """Put orders by their id."""
        self.orders |= {row[0]: row for row in rows}
        pq.write_table(orders(*self.orders.values()), self.folder / "orders.parquet")

    def views(self):
        views = tm.Views(self.folder / "state")
        orders = views.source("orders", tm.snapshot(self.folder / "orders.parquet"), key="id")
        sums = orders.group_by("region").agg(total=tm.sum("amount"))
        views.view("sums", sums, to=self.table("sums"), key="region")
        views.view("rows", orders, to=self.table("rows"), key="id", write="merge")
        views.view("log", orders.filter("amount > 4"), to=self.table("log"), write="changelog")
        return views

    def expected(self):
        sums = Counter()
        for _, region, amount in self.orders.values():
            sums[region] += amount
        large = sorted(row for row in self.orders.values() if row[2] > 4)
        return {"sums": sorted(sums.items()), "rows": sorted(self.orders.values()), "log": large}

    def found(self):
        found = {n: [tuple(r.values()) for r in self.table(n)().to_pylist()] for n in ("sums", "rows", "log")}
        log = Counter()
        for *row, change, _ in found["log"]:
            log[tuple(row)] += 1 if change == "insert" else -1
        return {**{n: sorted(rows) for n, rows in found.items()}, "log": sorted(log.elements())}


def test_refreshes_leave_what_computing_anew_would(tmp_path, table):
    shop = Shop(tmp_path, table)
    shop.put(*((i, "north", i) for i in range(8)))
    with shop.views() as views:
        assert {v.way for v in views.refresh().views.values()} == {"overwrite"}
        shop.put((3, "south", 9), (20, "west", 5))
        done = views.refresh()
        assert (done.views["rows"].way, done.views["log"].way) == ("merge", "changelog")
        assert shop.found() == shop.expected()
        del shop.orders[3]
        shop.put((4, "north", 1))
        views.refresh()
        assert shop.found() == shop.expected()
    with shop.views() as views:
        assert not views.refresh().is_new
        assert "secret" not in views.status() + (tmp_path / "state" / "history.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "where",
    [
        (DatabaseTable, "_note", 1),
        (DatabaseTable, "merge", 1),
        (DatabaseTable, "append", 1),
        (RefreshJournal, "done", 1),
    ],
    ids=lambda where: f"{where[1]} {where[2]}",
)
def test_a_refresh_that_was_cut_off_is_gone_on_with(tmp_path, table, monkeypatch, where, after):
    owner, name, nth = where
    shop = Shop(tmp_path, table)
    shop.put(*((i, "north", i) for i in range(8)))
    with shop.views() as views:
        views.refresh()
    shop.put((3, "south", 9), (20, "west", 5))
    whole, calls = getattr(owner, name), itertools.count(1)

    def ends(*given):
        is_it = next(calls) == nth
        if after or not is_it:
            whole(*given)
        if is_it:
            raise Cut

    with monkeypatch.context() as cutting, shop.views() as views:
        cutting.setattr(owner, name, ends)
        with pytest.raises(Cut):
            views.refresh()
    shop.put((0, "north", 7))
    with shop.views() as views:
        views.refresh()
        views.refresh()
        assert shop.found() == shop.expected()


def test_what_another_job_wrote_before_it_was_killed_is_not_written_again(tmp_path, table, monkeypatch):
    """A job that goes on with a refresh looks at the tables once nobody else has the state."""
    shop = Shop(tmp_path, table)
    shop.put(*((i, "north", i) for i in range(8)))
    with shop.views() as views:
        views.refresh()
    shop.put((3, "south", 9), (20, "west", 5))

    def refresh_up_to(owner, name):
        def ends(*_):
            raise Cut

        with monkeypatch.context() as cutting, shop.views() as views:
            cutting.setattr(owner, name, ends)
            with pytest.raises(Cut):
                views.refresh()

    refresh_up_to(tm.Run, "deliver")  # the plan is there
    with shop.views() as views:
        opened = views._open

        def opened_late(name):
            refresh_up_to(RefreshJournal, "done")
            return opened(name)

        views._open = opened_late
        views.refresh()
    assert shop.found() == shop.expected()


@pytest.mark.parametrize(
    ("foreign", "id_"),
    [("DELETE FROM {} WHERE id = 1", 1), ("INSERT INTO {} VALUES (3, 'west', 3)", 3)],
    ids=["a row is gone", "a row came"],
)
def test_somebody_elses_writing_is_noticed_where_keys_change(tmp_path, table, foreign, id_):
    shop = Shop(tmp_path, table)
    shop.put((1, "north", 1), (2, "south", 7))
    with shop.views() as views:
        views.refresh()
        run_sql(table("rows"), foreign)
        shop.put((id_, "north", 9))
        with pytest.raises(ViewError, match=r"rows'\): somebody else wrote to it"):
            views.refresh()
        views.refresh(full=["rows"])
        assert shop.found() == shop.expected()


def test_a_table_that_is_gone_or_made_otherwise_is_written_whole(tmp_path, table):
    shop = Shop(tmp_path, table)
    shop.put((1, "north", 1), (2, "south", 7))
    with shop.views() as views:
        views.refresh()
        run_sql(table("rows"), "DROP TABLE {}")
        done = views.refresh()
        assert done.views["rows"].way == "overwrite"
        assert shop.found() == shop.expected()
    with tm.Views(tmp_path / "state") as views:
        orders = views.source("orders", tm.snapshot(tmp_path / "orders.parquet"), key="id")
        views.view("rows", orders.select("id", region="amount", more="'x'"), to=table("rows"), key="id")
        views.refresh()
        assert table("rows")().to_pylist() == [
            {"id": 1, "region": 1, "more": "x"},
            {"id": 2, "region": 7, "more": "x"},
        ]


def steps(table):
    """Return which refresh is noted of each table."""
    with table._transaction() as connection:
        return dict(connection.execute(f"SELECT name, refresh FROM {table.steps}").fetchall())


@pytest.mark.parametrize("done", range(5))
def test_the_tables_of_a_database_are_all_brought_up_to_a_refresh_or_none(tmp_path, table, monkeypatch, done):
    """Cut off before the first table, before the others, before they are noted, and before the refresh is done."""
    shop = Shop(tmp_path, table)
    shop.put(*((i, "north", i) for i in range(8)))
    calls = itertools.count()

    def up_to(whole):
        def ends(*given):
            if next(calls) == done:
                raise Cut
            whole(*given)

        return ends

    with shop.views() as views:
        views.refresh()
        before = shop.found()
        shop.put((3, "south", 9), (20, "west", 5))
        with monkeypatch.context() as cutting, pytest.raises(Cut):
            for name in ("overwrite", "merge", "append", "_note"):
                cutting.setattr(DatabaseTable, name, up_to(getattr(DatabaseTable, name)))
            cutting.setattr(RefreshJournal, "done", up_to(RefreshJournal.done))
            views.refresh()
        assert shop.found() == (shop.expected() if done == 4 else before)
        assert steps(table("rows")) == dict.fromkeys(before, 2 if done == 4 else 1)
        assert {w.way == "again" for w in views.refresh().views.values()} == {done == 4}
        assert shop.found() == shop.expected()
        assert steps(table("rows")) == dict.fromkeys(before, 2)


def test_the_tables_of_several_schemas_are_noted_beside_each(tmp_path):
    with duckdb.connect(tmp_path / "x.duckdb") as connection:
        connection.execute("CREATE SCHEMA a; CREATE SCHEMA b")
    rows = [1]
    with tm.Views(tmp_path / "state") as views:
        source = views.source("rows", tm.snapshot(lambda: pa.table({"x": rows})))
        tables = {name: tm.duckdb(tmp_path / "x.duckdb", name) for name in ("a.t", "t", "b.t", "b.u")}
        for name, to in tables.items():
            views.view(name, source, to=to, key="x")
        views.refresh()
        rows.append(2)
        assert {w.changed for w in views.refresh().views.values()} == {1}
        assert not views.refresh().is_new
    assert [sorted(to()["x"].to_pylist()) for to in tables.values()] == [[1, 2]] * 4
    assert [steps(to) for to in tables.values()] == [{"t": 2}, {"t": 2}, {"t": 2, "u": 2}, {"t": 2, "u": 2}]


def test_an_error_at_one_table_names_it_and_leaves_the_others_of_its_database(tmp_path, table):
    shop = Shop(tmp_path, table)
    shop.put((1, "north", 1), (2, "south", 7))
    with shop.views() as views:
        views.refresh()
        sums = table("sums")().to_pylist()
        run_sql(table("rows"), "ALTER TABLE {} DROP COLUMN amount")
        shop.put((1, "north", 3))
        with pytest.raises(ViewError, match=r"rows'\): .*amount"):
            views.refresh()
        assert table("sums")().to_pylist() == sums
        views.refresh(full=["rows"])
        assert shop.found() == shop.expected()


def test_an_error_of_the_transaction_names_the_database(tmp_path, monkeypatch):
    shop = Shop(tmp_path, lambda name: tm.duckdb(tmp_path / "x.duckdb", name))
    shop.put((1, "north", 1))

    def full(*_):
        msg = "no space left"
        raise duckdb.IOException(msg)

    with shop.views() as views:
        with monkeypatch.context() as patched:
            patched.setattr(DatabaseTable, "_note", full)
            with pytest.raises(ViewError, match=r"^duckdb\('[^']*x\.duckdb'\): .*no space left"):
                views.refresh()
        views.refresh()
        assert shop.found() == shop.expected()


@pytest.mark.parametrize("write", ["merge", "changelog"])
def test_a_table_that_two_jobs_write_holds_what_the_last_one_does(tmp_path, table, write):
    def refreshed(state, amount):
        rows = pa.table({"id": [1, 2], "amount": [amount, amount + 1]})
        with tm.Views(tmp_path / state) as views:
            source = views.source("rows", tm.snapshot(lambda: rows), key="id")
            views.view("rows", source, to=table("rows"), key="id", write=write)
            views.refresh()
            assert not views.refresh().is_new
        found = Counter()
        for row in table("rows")().to_pylist():
            found[row["id"], row["amount"]] += -1 if row.get("_change") == "delete" else 1
        assert +found == Counter([(1, amount), (2, amount + 1)])

    for state, amount in [("one", 10), ("two", 20), ("one", 30), ("one", 40), ("two", 50), ("one", 60)]:
        refreshed(state, amount)
    if write == "changelog":  # and nothing of what the other job told
        assert {row["amount"] for row in table("rows")().to_pylist()} == {60, 61}


@pytest.mark.slow
def test_options_that_the_user_gives_stay(tmp_path, server, monkeypatch):
    run_sql(tm.postgres(server, "x"), "CREATE SCHEMA elsewhere")
    rows = pa.table({"at": [dt.datetime(2024, 1, 2)]})
    with tm.Views(tmp_path / "state") as views:
        to = tm.postgres(f"{server} options='-c search_path=elsewhere'", "given")
        views.view("given", views.source("given", tm.snapshot(lambda: rows)), to=to)
        views.refresh()
    assert tm.postgres(server, "elsewhere.given")().to_pylist() == rows.to_pylist()
    monkeypatch.setenv("PGOPTIONS", "-c search_path=elsewhere -c DateStyle=German")
    assert tm.postgres(server, "given")().to_pylist() == rows.to_pylist()


VALUES = {
    "b": [True, None, False],
    "i": pa.array([1, None, -(2**31)], pa.int32()),
    "l": [2**62, 0, None],
    "f": [0.1, None, float("inf")],
    "t": ["", None, 'a,"b"\n\\.\\N'],
    "n": [Decimal("1.50"), None, Decimal("-0.01")],
    "d": [dt.date(1, 1, 1), None, dt.date(2024, 2, 29)],
    "s": [dt.datetime(2024, 1, 1, 12, 0, 0, 5), None, dt.datetime(1900, 1, 1)],
}


def test_values_go_in_and_come_out_as_they_are(tmp_path, table):
    rows = pa.table(VALUES)
    pq.write_table(rows, tmp_path / "rows.parquet")
    with tm.Views(tmp_path / "state") as views:
        source = views.source("rows", tm.snapshot(tmp_path / "rows.parquet"))
        views.view("rows", source, to=table("rows"))
        for name in VALUES:  # and a column alone, whose NULL is an empty line
            views.view(name, source.select(name), to=table(f"only_{name}"))
        views.refresh()

    def told(found):
        return Counter(tuple(row.values()) for row in found.to_pylist())

    assert told(table("rows")()) == told(rows)
    for name in VALUES:
        assert told(table(f"only_{name}")()) == told(rows.select([name]))
    with tm.Views(tmp_path / "other") as views:  # and on from there
        again = views.source("again", tm.snapshot(table("rows")))
        views.view("again", again, to=table("again"))
        views.refresh()
        run_sql(table("rows"), "DELETE FROM {} WHERE b")
        assert views.refresh().views["again"].changed == 1
        assert told(table("again")()) == told(rows.slice(1))


def test_what_cannot_be_is_refused_and_says_what(tmp_path, table):
    with pytest.raises(ViewError, match="there is no such table"):
        table("nothing")()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with tm.Views(tmp_path / "state") as views:
        views.view("x", views.source("x", tm.snapshot(tmp_path / "x.parquet")), to=table("x"))
        with pytest.raises(ViewError, match="written by the view 'x'"):
            views.view("y", views.flow.constant({"x": "int64"}, [(1,)]), to=table("x"))


def test_a_file_of_duckdb_that_is_not_one_is_refused(tmp_path):
    (tmp_path / "x.duckdb").write_text("no database" * 1000)
    with pytest.raises(ViewError, match=r"duckdb\(.*x\.duckdb', 't'\): "):
        tm.duckdb(tmp_path / "x.duckdb", "t")()
    with duckdb.connect(tmp_path / "y.duckdb") as connection:
        connection.execute("CREATE SCHEMA a; CREATE TABLE a.t AS SELECT 1 AS x")
    assert tm.duckdb(tmp_path / "y.duckdb", "a.t")().to_pylist() == [{"x": 1}]


def test_the_fixed_costs_of_a_refresh_do_not_grow_with_its_views(tmp_path, monkeypatch):
    """A file of DuckDB is opened once, and has one connection to see what is in it and one to write to it.

    What is declared is digested once.
    """
    connect, seen = duckdb.connect, {"opened": 0, "open": 0, "connections": 0, "digests": 0}

    class Counted:
        def __init__(self, path):
            self.connection = connect(path)

        def __enter__(self):
            seen["opened"] += seen["open"] == 0
            seen["connections"] += 1
            seen["open"] += 1
            return self.connection.__enter__()

        def __exit__(self, *raised):
            seen["open"] -= 1
            return self.connection.__exit__(*raised)

    def digest(*declared):
        seen["digests"] += 1
        return digest_of(*declared)

    shop = Shop(tmp_path, lambda name: tm.duckdb(tmp_path / "x.duckdb", name))
    shop.put((1, "north", 7))
    with shop.views() as views:
        views.refresh()
        monkeypatch.setattr(duckdb, "connect", Counted)
        monkeypatch.setattr("tidemill.views.views.digest_of", digest)
        shop.put((1, "north", 9))
        assert [w.changed for w in views.refresh().views.values()] == [2, 2, 2]
        assert seen == {"opened": 1, "open": 0, "connections": 4, "digests": 0}  # two of these keep it open
    with shop.views() as views:
        views.refresh()
        assert seen == {"opened": 2, "open": 0, "connections": 6, "digests": 1}


def test_a_database_of_duckdb_in_memory_is_refused():
    for path in ("", ":memory:", ":memory:shop"):
        with pytest.raises(ViewError, match="in memory is gone .* expected the path of a file"):
            tm.duckdb(path, "t")


def test_keys_that_are_lists_are_not_merged_by(tmp_path):
    rows = pa.table({"k": [[1], [2]], "v": [1, 2]})
    with tm.Views(tmp_path / "state") as views:
        source = views.source("x", tm.snapshot(lambda: rows))
        with pytest.raises(ViewError, match="write='merge' by the lists or structs k: give a key of plain values"):
            views.view("x", source, to=tm.duckdb(tmp_path / "x.duckdb", "t"), key="k", write="merge")
        views.view("x", source, to=tm.duckdb(tmp_path / "x.duckdb", "t"), key="k")
        views.refresh()
        rows = pa.table({"k": [[1], [2]], "v": [1, 3]})
        assert views.refresh().views["x"].way == "overwrite"
        assert "overwrite" in views.explain()
        assert "merge 0" not in views.explain()
    assert sorted(tm.duckdb(tmp_path / "x.duckdb", "t")()["v"].to_pylist()) == [1, 3]


def test_passwords_are_not_told_and_what_is_no_conninfo_is_refused():
    pytest.importorskip("psycopg")
    told = repr(tm.postgres("host=db password=one sslpassword=two", "t"))
    assert told == "postgres('host=db', 't')"
    assert "one" not in repr(tm.postgres("postgresql://me:one@db/shop?sslpassword=two", "t"))
    with pytest.raises(ViewError, match=r"tm.postgres\(..., 't'\): not a conninfo: expected what psycopg takes, as"):
        tm.postgres("nothing", "t")
    with pytest.raises(ViewError, match="%25") as told_of:
        tm.postgres("postgresql://me:secret%zz@db/shop", "t")
    assert "secret" not in str(told_of.value)
    assert told_of.value.__suppress_context__


@pytest.mark.slow
def test_rows_larger_than_what_csv_is_read_in_are_read_whole(server):
    large = tm.postgres(server, "large")
    run_sql(large, "CREATE TABLE {} AS SELECT i AS id, repeat('y', 3000000) AS x FROM generate_series(1, 2) AS i")
    assert [len(x) for x in large()["x"].to_pylist()] == [3_000_000, 3_000_000]


@pytest.mark.slow
def test_values_that_arrow_does_not_have_are_refused_with_what_to_do(server, tmp_path):
    moments = tm.postgres(server, "moments")
    run_sql(moments, "CREATE TABLE {} (id bigint PRIMARY KEY, at timestamp)")
    with tm.Views(tmp_path / "state") as views:
        views.view("moments", views.source("moments", moments, key="id"))
        views.refresh()
        run_sql(moments, "INSERT INTO {} VALUES (1, 'infinity')")
        with pytest.raises(ViewError, match=r"postgres\(.*such as 'infinity' .*: have the column as text, or NULL"):
            views.refresh()
    with pytest.raises(ViewError, match=r"postgres\(.*such as 'infinity' .*: have the column as text, or NULL"):
        moments()
    run_sql(tm.postgres(server, "arrays"), "CREATE TABLE {} (many numeric(9, 2)[])")
    with pytest.raises(ViewError, match=r"column 'many' is of type numeric\(9,.*\)\[\], which is not read: cast it"):
        tm.postgres(server, "arrays")()


@pytest.mark.slow
def test_columns_that_postgres_has_no_type_for_are_named(tmp_path, server):
    pq.write_table(pa.table({"x": [[1]]}), tmp_path / "x.parquet")
    with tm.Views(tmp_path / "state") as views:
        rows = views.source("x", tm.snapshot(tmp_path / "x.parquet"))
        views.view("x", rows, to=tm.postgres(server, "lists"))
        with pytest.raises(ViewError, match=r"column 'x' is of type list<.*, which it does not take"):
            views.refresh()
    run_sql(tm.postgres(server, "points"), "CREATE TABLE {} (at point)")
    with pytest.raises(ViewError, match="column 'at' is of type point, which is not read"):
        tm.postgres(server, "points")()
    with pytest.raises(ViewError, match=r"postgres\('host=/nowhere', 'x'\): "):
        tm.postgres("host=/nowhere", "x")()
