"""Delta tables whose rows are marked as gone: they hold what writing them anew would, as others read them, too."""

from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from support.lakes import FEED, Cut, cut, orders

import tidemill as tm
from tidemill.errors import ViewError
from tidemill.views import deletion_vectors, writing
from tidemill.views.stores import CHANGE

ROWS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("amount", pa.int64())])
KEYS = st.tuples(st.integers(0, 3), st.sampled_from(["x", "y"]))


class Kept:
    """A table of rows with a key, and what it ought to hold."""

    def __init__(self, folder, rows):
        self.folder, self.rows, self.number = folder, dict(rows), 1
        self.sink = tm.delta(folder, deletion_vectors=True)
        self.sink.overwrite(self.table(self.rows), "job", 1)

    @staticmethod
    def table(rows):
        return pa.Table.from_pylist([{"a": a, "b": b, "amount": n} for (a, b), n in rows.items()], ROWS)

    def merge(self, wanted):
        """Have the rows of some keys be so, or gone where they are None."""
        kinds = {
            key: "delete" if n is None else "update" if key in self.rows else "insert"
            for key, n in wanted.items()
            if n is not None or key in self.rows
        }
        rows = self.table({key: wanted[key] for key in kinds}).append_column(
            CHANGE, pa.array([*kinds.values()], pa.string())
        )
        self.number += 1
        self.sink.merge(rows, ["a", "b"], "job", self.number)
        self.rows = {key: n for key, n in {**self.rows, **wanted}.items() if n is not None}

    def require_equal(self):
        expected = Counter((a, b, n) for (a, b), n in self.rows.items())
        assert Counter(tuple(row.values()) for row in self.sink.rows().to_pylist()) == expected
        assert Counter(pl.read_delta(str(self.folder)).iter_rows()) == expected
        assert self.sink.refresh("job") == self.number


STEPS = st.lists(
    st.one_of(
        st.dictionaries(KEYS, st.none() | st.integers(0, 9), min_size=1),
        st.sampled_from(["compact", "checkpoint", "vacuum", "overwrite"]),
    ),
    max_size=8,
)


@given(first=st.dictionaries(KEYS, st.integers(0, 9)), steps=STEPS)
def test_a_table_of_marked_rows_holds_what_it_should(tmp_path_factory, first, steps):
    kept = Kept(tmp_path_factory.mktemp("table"), first)
    for step in steps:
        table = DeltaTable(kept.folder)
        if step == "compact":
            table.optimize.compact()
        elif step == "checkpoint":
            table.create_checkpoint()
        elif step == "vacuum":
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        elif step == "overwrite":
            kept.number += 1
            kept.sink.overwrite(kept.table(kept.rows), "job", kept.number)
        else:
            kept.merge(step)
        kept.require_equal()


@pytest.mark.parametrize(
    "gone", [[0], [65_535, 65_536], range(4096), range(4097), range(0, 140_000, 3), range(1, 140_000)]
)
def test_any_places_are_marked(tmp_path, gone):
    """Lists of places and bits, in one part of a bitmap and in several."""
    sink = tm.delta(tmp_path, deletion_vectors=True)
    sink.overwrite(pa.table({"id": np.arange(140_000)}), "job", 1)
    files = set(DeltaTable(tmp_path).file_uris())
    sink.merge(pa.table({"id": pa.array(gone, pa.int64()), CHANGE: ["delete"] * len(gone)}), ["id"], "job", 2)
    assert sorted(sink.rows()["id"].to_pylist()) == sorted(set(range(140_000)) - set(gone))
    assert set(DeltaTable(tmp_path).file_uris()) == files  # none was written anew


def test_the_log_gets_a_checkpoint_as_often_as_the_librarys(tmp_path, monkeypatch):
    monkeypatch.setattr(deletion_vectors, "_CHECKPOINT_EACH", 4)
    kept = Kept(tmp_path, {(0, "x"): 1})
    for n in range(9):
        kept.merge({(n % 4, "x"): n, (0, "y"): None if n % 2 else n})
    kept.require_equal()
    assert sorted(path.name[18:20] for path in (tmp_path / "_delta_log").glob("*.checkpoint.parquet")) == ["04", "08"]


@pytest.mark.parametrize(
    "how",
    [{"partition_by": ["b"]}, {"configuration": FEED}, {"configuration": {"delta.dataSkippingNumIndexedCols": "1"}}],
)
def test_a_table_that_asks_more_of_who_writes_is_merged_by_the_library(tmp_path, how):
    write_deltalake(tmp_path, Kept.table({(1, "x"): 1, (2, "y"): 2}), **how)
    kept = Kept(tmp_path, {(1, "x"): 1, (2, "y"): 2})
    assert not deletion_vectors.can_mark(DeltaTable(tmp_path))
    kept.merge({(1, "x"): None, (3, "x"): 3})
    assert sorted(kept.sink.rows().to_pydict()["a"]) == [2, 3]
    assert not list(tmp_path.glob("deletion_vector*"))


def test_a_table_that_was_there_gets_vectors(tmp_path):
    """Also one that a view was written to before."""
    write_deltalake(tmp_path, Kept.table({(1, "x"): 1, (2, "y"): 2}))
    before = set(DeltaTable(tmp_path).file_uris())
    gone = Kept.table({(2, "y"): 2}).append_column(CHANGE, pa.array(["delete"]))
    tm.delta(tmp_path, deletion_vectors=True).merge(gone, ["a", "b"], "job", 2)
    assert tm.delta(tmp_path).rows().to_pylist() == [{"a": 1, "b": "x", "amount": 1}]
    assert set(DeltaTable(tmp_path).file_uris()) == before
    assert deletion_vectors.can_mark(DeltaTable(tmp_path))


def test_a_commit_that_came_between_stays(tmp_path, monkeypatch):
    kept = Kept(tmp_path, {(1, "x"): 1})
    whole = deletion_vectors._commit

    def late(*given):
        write_deltalake(tmp_path, kept.table({(5, "x"): 5}), mode="append")
        whole(*given)

    monkeypatch.setattr(deletion_vectors, "_commit", late)
    with pytest.raises(ViewError, match="somebody else wrote version 1 meanwhile"):
        kept.merge({(1, "x"): 2})
    assert sorted(kept.sink.rows()["amount"].to_pylist()) == [1, 5]
    assert not list((tmp_path / "_delta_log").glob("*.tmp"))


@pytest.fixture
def lake(tmp_path):
    write_deltalake(tmp_path / "orders", orders(*((i, "north", i) for i in range(50))), configuration=FEED)
    return tmp_path


def job(lake, write="auto"):
    views = tm.Views(lake / "state")
    rows = views.source("orders", tm.delta(lake / "orders"), key="id")
    doubled = rows.select("id", twice="amount * 2")
    views.view("doubled", doubled, to=tm.delta(lake / "doubled", deletion_vectors=True), key="id", write=write)
    return views


def doubled(lake):
    found = tm.delta(lake / "doubled").rows()
    return sorted(zip(found["id"].to_pylist(), found["twice"].to_pylist(), strict=True))


def test_a_refresh_marks_rows_and_auto_takes_it_for_much_less(lake):
    with job(lake) as views:
        views.refresh()
    DeltaTable(lake / "orders").delete("id < 3")
    DeltaTable(lake / "orders").update({"amount": "9"}, predicate="id = 7")
    with job(lake, "merge") as views:
        assert views.refresh().views["doubled"].way == "merge"
        assert not views.refresh().is_new
    assert doubled(lake) == [(i, 18 if i == 7 else 2 * i) for i in range(3, 50)]
    sink = tm.delta(lake / "doubled", deletion_vectors=True)
    assert sink.seconds("merge", 5_000_000, 5000) < sink.seconds("overwrite", 5_000_000, 5000) / 5


def test_a_way_that_was_slow_once_is_tried_again_and_left_while_it_is_slow(tmp_path):
    flow = tm.Dataflow()
    sink = tm.delta(tmp_path, deletion_vectors=True)
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


@pytest.mark.parametrize("name", ["_bitmap", "_sync", "_commit"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_refresh_that_was_cut_off_marks_rows_once(lake, monkeypatch, name, after):
    with job(lake, "merge") as views:
        views.refresh()
    DeltaTable(lake / "orders").update({"amount": "9"}, predicate="id = 7")
    with monkeypatch.context() as patched, job(lake, "merge") as views, pytest.raises(Cut):
        cut(patched, deletion_vectors, name, after=after)
        views.refresh()
    with job(lake, "merge") as views:
        assert views.refresh().views["doubled"].way == ("again" if (name, after) == ("_commit", True) else "merge")
    assert doubled(lake) == [(i, 18 if i == 7 else 2 * i) for i in range(50)]


def test_a_table_with_marked_rows_is_a_source(lake):
    with job(lake, "merge") as views:
        views.refresh()
        DeltaTable(lake / "orders").delete("id < 40")
        views.refresh()
    with tm.Views(lake / "next") as views:
        read = views.source("doubled", tm.delta(lake / "doubled"), key="id")
        views.view("sum", read.agg(n=tm.count(), total=tm.sum("twice")), to=tm.files(lake / "sum.parquet"))
        views.refresh()
        assert list(views.snapshot("sum")) == [(10, 890)]
