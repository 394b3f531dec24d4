"""Tables of PostgreSQL as sources: what was committed is read once, whatever was done to rows and keys."""

import contextlib
import itertools
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tidemill.errors import ViewError

pytestmark = pytest.mark.slow
NUMBERS = itertools.count()


class Shop:
    """A table of a server, and a view of its rows in the state alone."""

    def __init__(self, server, folder, identity="DEFAULT"):
        self.server, self.folder, self.name = server, folder, f"orders{next(NUMBERS)}"
        self.connection = __import__("psycopg").connect(server, autocommit=True)
        self.run("CREATE TABLE {} (id bigint PRIMARY KEY, region text, amount numeric(9, 2), paid boolean)")
        self.run(f"ALTER TABLE {{}} REPLICA IDENTITY {identity}")

    def run(self, text):
        return self.connection.execute(text.format(self.name))

    def views(self, key="id"):
        views = tm.Views(self.folder / f"state-{self.name}")
        orders = views.source("orders", tm.postgres(self.server, self.name), key=key)
        views.view("orders", orders, key=key)
        return views

    def refreshed(self, **options):
        with self.views() as views:
            done = views.refresh(**options)
            rows = sorted(views.snapshot("orders"))
        assert rows == sorted(self.run("SELECT * FROM {}").fetchall())
        return done

    def slot(self):
        return (self.folder / f"state-{self.name}" / "sources" / "orders" / "slot").read_text()

    def close(self):
        self.connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
        self.connection.close()


@pytest.fixture(params=["DEFAULT", "FULL"])
def shop(server, tmp_path, request):
    made = Shop(server, tmp_path, request.param)
    yield made
    made.close()


def test_a_refresh_reads_what_was_committed_since_the_last(shop):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1.5, true), (2, NULL, NULL, NULL), (3, '', -1, false)")
    assert shop.refreshed().read == {"orders": 3}
    assert not shop.refreshed().is_new
    shop.run("UPDATE {} SET amount = 7, paid = false WHERE id = 2")
    shop.run("DELETE FROM {} WHERE id = 1")
    shop.run("BEGIN; INSERT INTO {} VALUES (9, 'rolled back', 0, true); ROLLBACK")
    shop.run("BEGIN; INSERT INTO {0} VALUES (4, 'a', 1, true); UPDATE {0} SET id = 5 WHERE id = 4; COMMIT")
    done = shop.refreshed()
    assert done.read["orders"] <= 4  # one that changed, one that went, one that came, and its key before
    assert not shop.refreshed().is_new


OPERATIONS = st.lists(
    st.one_of(
        st.builds(
            "INSERT INTO {{}} VALUES ({}, '{}', {}, true) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount".format,
            st.integers(0, 4),
            st.sampled_from(["a", "b"]),
            st.integers(-9, 9),
        ),
        st.builds("DELETE FROM {{}} WHERE id = {}".format, st.integers(0, 4)),
        st.builds("UPDATE {{}} SET id = id + {} WHERE id = {}".format, st.sampled_from([5, 10]), st.integers(0, 4)),
        st.builds(
            "BEGIN; DELETE FROM {{}} WHERE id < {}; {}".format,
            st.integers(0, 9),
            st.sampled_from(["COMMIT", "ROLLBACK"]),
        ),
        st.just("refresh"),
    ),
    max_size=12,
)


@settings(max_examples=15)
@given(operations=OPERATIONS, identity=st.sampled_from(["DEFAULT", "FULL"]))
def test_every_refresh_holds_what_the_table_does(server, tmp_path_factory, operations, identity):
    psycopg = pytest.importorskip("psycopg")
    shop = Shop(server, tmp_path_factory.mktemp("shop"), identity)
    try:
        for operation in [*operations, "refresh"]:
            if operation == "refresh":
                shop.refreshed()
            else:
                with contextlib.suppress(psycopg.errors.UniqueViolation):  # of a key that another row has
                    shop.run(operation)
    finally:
        shop.close()


def test_a_refresh_that_was_cut_off_reads_the_same_again(shop, monkeypatch):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    shop.run("UPDATE {} SET amount = 2")
    with monkeypatch.context() as cutting, shop.views() as views:
        cutting.setattr(tm.Run, "deliver", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            views.refresh()
    shop.run("UPDATE {} SET amount = 3")
    with shop.views() as views:
        views.refresh()
        assert [row[2] for row in views.snapshot("orders")] == [2]  # up to where it had been fixed
    shop.refreshed()


def test_what_came_while_the_table_was_read_first_counts_once(shop, monkeypatch):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true), (2, 'south', 1, true)")
    with monkeypatch.context() as cutting, shop.views() as views:
        cutting.setattr(tm.Run, "deliver", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            views.refresh()  # the version is fixed, and the slot there
    shop.run("DELETE FROM {} WHERE id = 1")
    shop.run("UPDATE {} SET amount = 7 WHERE id = 2")
    shop.run("INSERT INTO {} VALUES (3, 'west', 1, true)")
    shop.refreshed()  # reads the table, with what came since
    shop.refreshed()  # reads what came since once more
    assert not shop.refreshed().is_new


def test_what_was_read_is_not_kept_by_the_server(shop):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    shop.run("UPDATE {} SET amount = 2")
    shop.refreshed()
    slot = shop.slot()
    peek = "SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)"
    assert shop.connection.execute(peek, [slot, slot]).fetchone() == (0,)


def test_what_was_read_and_not_forgotten_is_not_read_again(shop, monkeypatch):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    shop.run("TRUNCATE {}")
    with monkeypatch.context() as killed:
        killed.setattr("tidemill.views.postgres_feed.PostgresFeed.forget", lambda *_: None)
        shop.refreshed(full=True)
    shop.run("INSERT INTO {} VALUES (2, 'north', 1, true)")
    assert shop.refreshed().read == {"orders": 1}


def test_what_cannot_be_followed_is_refused_with_the_way_out(shop):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    shop.run("TRUNCATE {}")
    with shop.views() as views, pytest.raises(ViewError, match=r"it was truncated: .*full=True"):
        views.refresh()
    shop.refreshed(full=True)
    shop.run("INSERT INTO {} VALUES (2, 'north', 1, true)")
    shop.refreshed()
    shop.connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    with (
        shop.views() as views,
        pytest.raises(ViewError, match=r"the replication slot tidemill_\w+ is gone, or .*full=True"),
    ):
        views.refresh()
    shop.refreshed(full=True)
    with pytest.raises(ViewError, match=r"expected key="):
        shop.views(key=None)


def test_large_values_that_were_not_sent_are_refused_or_known(shop):
    shop.run("ALTER TABLE {} ALTER COLUMN region SET STORAGE EXTERNAL")
    shop.run("INSERT INTO {} VALUES (1, repeat('x', 100000), 1, true)")
    shop.refreshed()
    shop.run("UPDATE {} SET amount = 2")
    ((is_full,),) = shop.connection.execute(
        "SELECT relreplident = 'f' FROM pg_class WHERE relname = %s", [shop.name]
    ).fetchall()
    if is_full:
        shop.refreshed()
        return
    with shop.views() as views, pytest.raises(ViewError, match="did not send the large values of region"):
        views.refresh()


def test_another_key_than_the_tables_is_refused(server, tmp_path):
    shop = Shop(server, tmp_path)
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    try:
        with shop.views(key="region") as views:
            with pytest.raises(ViewError, match=r"its replica identity is \(id\), the key \(region\)"):
                views.refresh()
            shop.run("ALTER TABLE {} REPLICA IDENTITY FULL")
            views.refresh()
            shop.run("ALTER TABLE {} REPLICA IDENTITY DEFAULT")
            shop.run("UPDATE {} SET amount = 2")
            with pytest.raises(ViewError, match=r"its replica identity is \(id\), the key \(region\)"):
                views.refresh()
    finally:
        shop.close()


def test_a_table_that_nobody_can_follow_is_not_published(server, tmp_path, monkeypatch):
    shop = Shop(server, tmp_path, "NOTHING")
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    published = "SELECT count(*) FROM pg_publication_rel WHERE prrelid = '{}'::regclass"
    try:
        with shop.views() as views, pytest.raises(ViewError, match=r"its replica identity is \(\), the key \(id\)"):
            views.refresh()
        shop.run("UPDATE {} SET amount = 2")  # is not refused by the server
        shop.run("ALTER TABLE {} REPLICA IDENTITY DEFAULT")
        with monkeypatch.context() as full, shop.views() as views:
            full.setattr("tidemill.views.postgres_feed._CREATE_SLOT", "SELECT 1 / 0 FROM (SELECT %s) AS q")
            with pytest.raises(ViewError, match="division by zero"):
                views.refresh()
        assert shop.run(published).fetchone() == (0,)
        shop.refreshed()
        assert shop.run(published).fetchone() == (1,)
    finally:
        shop.close()


@pytest.mark.parametrize("made", ["table", "publication"])
def test_what_was_made_anew_is_followed_after_a_full_refresh(shop, made):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    if made == "table":
        shop.run("DROP TABLE {}")
        shop.run("CREATE TABLE {} (id bigint PRIMARY KEY, region text, amount numeric(9, 2), paid boolean)")
    else:
        shop.connection.execute(f"DROP PUBLICATION {shop.slot()}")
    shop.run("INSERT INTO {} VALUES (2, 'north', 1, true)")
    with shop.views() as views, pytest.raises(ViewError, match=r"the publication .* is gone, or has .*full=True"):
        views.refresh()
    shop.refreshed(full=True)
    shop.run("INSERT INTO {} VALUES (3, 'north', 1, true)")
    shop.run("DELETE FROM {} WHERE id < 3")
    assert shop.refreshed().is_new


def test_keys_may_be_two_rows_within_a_transaction(server, tmp_path):
    shop = Shop(server, tmp_path, "FULL")
    try:
        shop.run("ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED")
        shop.run("INSERT INTO {} SELECT g, 'same', 1, true FROM generate_series(1, 3) AS g")
        shop.refreshed()
        shop.run("UPDATE {} SET id = id + 1")  # of equal rows
        shop.refreshed()
        shop.run("UPDATE {} SET amount = id")
        shop.refreshed()
        shop.run("UPDATE {} SET id = 6 - id")  # of different ones
        shop.refreshed()
        shop.run("BEGIN; UPDATE {0} SET id = id + 1; DELETE FROM {0} WHERE id = 4; COMMIT")
        shop.refreshed()
    finally:
        shop.close()


def test_generated_columns_are_refused_and_may_be_left_out(server, tmp_path):
    shop = Shop(server, tmp_path)
    shop.run("ALTER TABLE {} ADD COLUMN twice numeric(9, 2) GENERATED ALWAYS AS (amount * 2) STORED")
    try:
        with pytest.raises(ViewError, match=r"does not send the generated columns twice: .*schema="):
            shop.views()
        table, columns = tm.postgres(server, shop.name), {"id": "int64", "amount": "decimal(9, 2)"}
        with tm.Views(tmp_path / "some") as views:
            views.view("rows", views.source("rows", table, key="id", schema=columns))
            for n in range(2):
                shop.run(f"INSERT INTO {{}} (id, amount) VALUES ({n}, {n})")
                views.refresh()
            assert sorted(views.snapshot("rows")) == [(0, 0), (1, 1)]
        with tm.Views(tmp_path / "all") as views:
            views.view("rows", views.source("rows", table, key="id", schema={**columns, "twice": "decimal(9, 2)"}))
            with pytest.raises(ViewError, match="no column 'twice'"):
                views.refresh()
    finally:
        shop.close()


def test_a_state_that_is_an_older_copy_is_refused(shop):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    state = shop.folder / f"state-{shop.name}"
    shutil.copytree(state, shop.folder / "copy")
    shop.run("INSERT INTO {} VALUES (2, 'north', 1, true)")
    shop.refreshed()
    shutil.rmtree(state)
    shutil.copytree(shop.folder / "copy", state)
    with shop.views() as views, pytest.raises(ViewError, match=r"is beyond what was read, .*full=True"):
        views.refresh()
    shop.refreshed(full=True)
    shop.run("INSERT INTO {} VALUES (3, 'north', 1, true)")
    assert shop.refreshed().read == {"orders": 1}


def test_a_slot_made_anew_by_a_full_refresh_that_was_killed_is_refused(shop, monkeypatch):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()
    shop.connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    shop.run("INSERT INTO {} VALUES (2, 'north', 1, true)")
    with monkeypatch.context() as killed, shop.views() as views:
        killed.setattr(
            "tidemill.views.journal.RefreshJournal.begin", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            views.refresh(full=True)
    with shop.views() as views, pytest.raises(ViewError, match=r"is beyond what was read, .*full=True"):
        views.refresh()
    shop.refreshed(full=True)


def test_a_table_that_rests_does_not_have_the_server_keep_what_others_write(shop):
    shop.run("INSERT INTO {} VALUES (1, 'north', 1, true)")
    shop.refreshed()

    def kept():
        query = "SELECT pg_current_wal_flush_lsn() - confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
        return shop.connection.execute(query, [shop.slot()]).fetchone()[0]

    for _ in range(2):
        shop.run("CREATE TABLE other{}(x int)")
        shop.connection.execute("SELECT pg_switch_wal()")  # to the next of its files
        shop.run("DROP TABLE other{}")
    assert kept() > 2**24
    assert not shop.refreshed().is_new
    assert kept() < 2**24
    shop.run("INSERT INTO {} VALUES (2, 'north', 1, true)")
    assert shop.refreshed().read == {"orders": 1}
    assert not shop.refreshed().is_new
