"""Views whose rows have a key: two rows of one refuse a refresh whole, however tables are written."""

from collections import Counter
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lakes import FEED, orders

import tidemill as tm
from tidemill.errors import ViewError


def test_two_rows_of_one_key_are_refused(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "north", 2)))
    with tm.Views(tmp_path / "state") as views:
        source = views.source("orders", tm.delta(tmp_path / "orders"))
        views.view("o", source, to=tm.delta(tmp_path / "o"), key="region")
        with pytest.raises(ViewError, match=r"view 'o': 2 rows have the key \{'region': 'north'\}"):
            views.refresh()


@pytest.mark.parametrize("write", ["auto", "merge", "overwrite", "changelog"])
def test_a_second_row_of_a_key_is_refused_whole_until_it_is_gone(tmp_path, write):
    write_deltalake(tmp_path / "orders", orders((1, "north", 1), (2, "south", 2)))

    def declared():
        views = tm.Views(tmp_path / "state")
        rows = views.source("orders", tm.delta(tmp_path / "orders"))
        views.view("first", rows.agg(n=tm.count()), to=tm.delta(tmp_path / "first"), write="changelog")
        views.view("o", rows, to=tm.delta(tmp_path / "o"), key="id", write=write)
        return views

    with declared() as views:
        views.refresh()
    write_deltalake(tmp_path / "orders", orders((1, "west", 5), (3, "west", 3)), mode="append")
    for _ in range(2):  # another process is told so too, and nothing is delivered twice
        with declared() as views:
            with pytest.raises(ViewError, match=r"view 'o': 2 rows have the key \{'id': 1\}.*No table was written"):
                views.refresh()
            assert "refresh 2 was refused" in views.status() or "refresh 3 was refused" in views.status()
    assert [DeltaTable(tmp_path / name).version() for name in ("first", "o")] == [0, 0]
    DeltaTable(tmp_path / "orders").delete("id = 1 AND region = 'north'")
    with declared() as views:
        done = views.refresh()
        assert done.views["o"].changed == 3  # one row for another, and one more
        assert not views.refresh().is_new
    log = DeltaTable(tmp_path / "o").to_pyarrow_table().to_pylist()
    signs = Counter()
    for row in log:
        signs[row["id"], row["region"]] += -1 if row.get("_change") == "delete" else 1
    assert +signs == Counter([(1, "west"), (2, "south"), (3, "west")])
    assert sorted(DeltaTable(tmp_path / "first").to_pyarrow_table()["n"].to_pylist()) == [2, 2, 3]


def test_keys_that_the_dataflow_shows_to_be_unique_are_not_counted(tmp_path):
    views = tm.Views(tmp_path / "state")
    write_deltalake(tmp_path / "orders", orders((1, "north", 1)))
    keyed = views.source("keyed", tm.delta(tmp_path / "orders"), key="id")
    plain = views.source("plain", tm.delta(tmp_path / "orders"))
    names = keyed.group_by("region").agg(n=tm.count())
    in_order = tm.Window.partition_by("region").order_by("id")
    lagged = keyed.join(names, on="region", how="left").with_columns(last=tm.lag("id").over(in_order))
    for name, view, key in (("lagged", lagged, "id"), ("names", names, "region"), ("both", lagged, ("id", "last"))):
        views.view(name, view, key=key)
    assert [*views.flow.graph.outputs] == ["lagged", "names", "both"]
    views.view("by_region", lagged, key="region")
    views.view("plain", plain, key="id")
    counted = {name for name in views.flow.graph.outputs if name.endswith(": repeated keys")}
    assert counted == {"by_region: repeated keys", "plain: repeated keys"}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 3), st.sampled_from("nsw"), st.integers(1, 2)), min_size=1, max_size=3)),
        st.tuples(st.just("take"), st.tuples(st.integers(0, 3), st.sampled_from("nsw"))),
        st.tuples(st.just("refresh"), st.booleans()),
    ),
    max_size=10,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=20)
@given(steps=STEPS, write=st.sampled_from(["auto", "merge", "overwrite", "changelog"]))
def test_rows_of_one_key_are_refused_and_else_tables_hold_what_computing_anew_would(tmp_path_factory, steps, write):
    folder = tmp_path_factory.mktemp("lake")
    write_deltalake(folder / "orders", orders(), configuration=FEED)
    there: Counter[Any] = Counter()
    held: Counter[Any] = Counter()
    views = None
    for what, how in [*steps, ("refresh", True)]:
        if what == "put":
            there.update(how)
            write_deltalake(folder / "orders", orders(*how), mode="append")
        elif what == "take":
            id_, region = how
            there = Counter({row: n for row, n in there.items() if row[:2] != how})
            DeltaTable(folder / "orders").delete(f"id = {id_} AND region = '{region}'")
        else:
            if views is None:
                views = tm.Views(folder / "state")
                rows = views.source("orders", tm.delta(folder / "orders"))
                views.view("o", rows, to=tm.delta(folder / "o"), key="id", write=write)
            times = Counter(id_ for id_, _, _ in there.elements())
            if max(times.values(), default=0) > 1:
                with pytest.raises(ViewError, match="rows have the key"):
                    views.refresh()
            else:
                views.refresh()
                held = there.copy()
            found: Counter[Any] = Counter()
            if DeltaTable.is_deltatable(str(folder / "o")):
                for row in DeltaTable(folder / "o").to_pyarrow_table().to_pylist():
                    found[row["id"], row["region"], row["amount"]] += -1 if row.get("_change") == "delete" else 1
            assert +found == held
            if how:  # another process
                views.close()
                views = None


def test_a_source_that_fails_behind_a_refusal_doubles_nothing(tmp_path, monkeypatch):
    pq.write_table(orders((1, "north", 1)), tmp_path / "a.parquet")
    with tm.Views(tmp_path / "state") as views:
        rows = views.source("rows", tm.files(tmp_path / "*.parquet"))
        views.view("o", rows, to=tm.delta(tmp_path / "o"), key="id")
        views.view("n", rows.agg(n=tm.count()))
        views.refresh()
        pq.write_table(orders((1, "south", 1)), tmp_path / "b.parquet")
        with pytest.raises(ViewError, match="2 rows have the key"):
            views.refresh()
        pq.write_table(orders((2, "south", 1)), tmp_path / "c.parquet")
        with monkeypatch.context() as failing:
            failing.setattr(
                tm.Run, "deliver", lambda *_: next(iter(views._sources["rows"].source.changes({"z": 1}, {})))
            )
            with pytest.raises(ViewError, match="z is gone"):
                views.refresh()
        with pytest.raises(ViewError, match="2 rows have the key"):
            views.refresh()
        assert list(views.snapshot("n")) == [(3,)]
