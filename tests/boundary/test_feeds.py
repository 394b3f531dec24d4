"""Change feeds, in and out: insert, update and delete by key."""

import re
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, new_flow, start

import tidemill as tm
from tidemill.boundary.files import read_csv
from tidemill.boundary.results import Updates
from tidemill.boundary.rows import python_rows
from tidemill.errors import (
    ClosedRunError,
    EngineError,
    RowError,
    SchemaError,
    TimeError,
    UnknownColumnError,
    UnknownNameError,
)
from tidemill.expressions.schema import Schema

PRICES = {"item": "string", "price": "int64 not null", "note": "string"}


def prices():
    flow = tm.Dataflow()
    flow.output("prices", flow.input("prices", PRICES, key="item"))
    flow.output("plain", flow.input("plain", {"i": "int64"}))
    return flow


@pytest.fixture
def run(engine):
    with start(prices(), engine) as started:
        started.upsert("prices", [("tea", 3, None)])
        started.advance()
        yield started


def contents(run):
    run.advance()
    return list(run.snapshot("prices"))


FEED = [
    {"op": "insert", "item": "milk", "price": 1, "note": "fresh"},
    {"op": "U", "item": "tea", "price": 4, "note": None},
    {"op": "c", "item": "rum", "price": 9, "note": None},
    {"op": "D", "item": "rum", "price": None, "note": None},
]


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows, iter, pa.Table.from_pylist, pl.DataFrame, pd.DataFrame,
        lambda rows: [(r["item"], r["price"], r["note"], r["op"]) for r in rows],
        lambda rows: [{k: v for k, v in r.items() if v is not None or k == "note"} for r in rows],
    ],
)  # fmt: skip
def test_a_feed_of_every_make(run, make):
    run.apply("prices", make(FEED))
    assert contents(run) == [("milk", 1, "fresh"), ("tea", 4, None)]


def test_a_feed_from_a_file(run, tmp_path):
    path = tmp_path / "feed.csv"
    path.write_text("what,item,price,note\nd,tea,,\ni,rum,9,old\n")
    run.apply("prices", read_csv(path), op="what")
    assert contents(run) == [("rum", 9, "old")]


def test_the_last_row_of_a_key_in_an_epoch_wins(run):
    run.apply("prices", [("tea", 4, None, "u"), ("tea", 0, None, "d"), ("rum", 9, None, "i"), ("tea", 5, None, "i")])
    run.upsert("prices", [("rum", 8, None)])
    assert contents(run) == [("rum", 8, None), ("tea", 5, None)]
    run.apply("prices", [{"op": "delete", "item": "tea"}, {"op": "delete", "item": "was never there"}])
    assert contents(run) == [("rum", 8, None)]


def test_a_feed_that_takes_all_rows(run):
    run.upsert("prices", [("gin", 2, None)])
    run.apply("prices", [("rum", 9, None, "i"), (None, None, None, "truncate"), ("rum", 1, None, "i")])
    assert contents(run) == [("rum", 1, None)]
    assert list(run.changes("prices")) == [
        (("tea", 3, None), 0, 1),
        (("rum", 1, None), 1, 1),
        (("tea", 3, None), 1, -1),
    ]
    run.apply(
        "prices", [{"op": "T", "at": 5}, {"op": "i", "item": "gin", "price": 7, "note": None, "at": 3}], time="at"
    )
    run.advance_to(5)
    assert list(run.snapshot("prices")) == [("gin", 7, None), ("rum", 1, None)]
    assert contents(run) == []
    run.apply("prices", pa.table({"op": ["i"], "item": ["ale"], "price": [4], "note": [""]}))
    run.apply("prices", pa.table({"op": ["t"], **dict.fromkeys(PRICES, pa.nulls(1))}))
    assert contents(run) == []


def test_a_feed_that_takes_all_of_many_rows(run):
    run.upsert("prices", [(f"item {i}", i, None) for i in range(1000)])
    run.advance()
    run.apply("prices", [{"op": "t"}, *({"op": "i", "item": f"item {i}", "price": i, "note": "n"} for i in range(500))])
    run.changes("prices")
    assert contents(run) == sorted((f"item {i}", i, "n") for i in range(500))
    assert len(run.changes("prices")) == 1001 + 500


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_feed_that_takes_all_rows_many_times(run, is_timed):
    """Each looks at what was put since the one before: no deletion of all keys for each."""
    rows = [(f"item {i}", i, None, "i", i) for i in range(2000)]
    empties = [(None, None, None, "t", i) for i in range(2000)]
    feed = [row for both in zip(rows, empties, strict=True) for row in both] + [("item 3", 3, None, "i", 2000)]
    run.upsert("prices", [("gin", 2, None)])
    tracemalloc.start()
    if is_timed:
        run.apply("prices", [(*row[:4], row[4] + 1) for row in feed], time="at")
        run.advance_to(2001)
    else:
        run.apply("prices", [row[:4] for row in feed])
    assert contents(run) == [("item 3", 3, None)]
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()


def test_a_feed_with_times(run):
    run.apply("prices", [("tea", 4, None, "u", 3), ("tea", 5, None, "u", 1), ("tea", 0, None, "d", 5)], time="time")
    run.apply("prices", [("rum", 1, None, "i")], time=4)
    run.changes("prices")
    run.advance_to(9)
    tea, rum = [[("tea", n, None) for n in range(6)], ("rum", 1, None)]
    expected = [(tea[3], 1, -1), (tea[5], 1, 1), (tea[4], 3, 1), (tea[5], 3, -1), (rum, 4, 1), (tea[4], 5, -1)]
    assert list(run.changes("prices")) == expected


@pytest.mark.parametrize(
    ("feed", "kind", "text"),
    [
        ([("a", 1, None, "merge")], RowError, "row 1: 'merge' is not an operation: expected insert, update or delete"),
        ([("a", 1, None, None)], RowError, "row 1: None is not an operation"),
        (
            [(None, 1, None, "u")],
            RowError,
            "row 1: u of (None, 1, None): 'item' is NULL: the key columns must have values",
        ),
        ([(None, 1, None, "d")], RowError, "row 1: d of (None, 1, None): 'item' is NULL"),
        ([{"op": "update", "price": 1, "note": None}], RowError, "row 1: the keys are ['op', 'price', 'note']"),
        ([{"op": "delete", "price": 1}], RowError, "'item' is missing"),
        ([("a", None, None, "i")], RowError, "row 1: i of ('a', None, None): column price: int64 not null is NULL"),
        (
            [("a", "1", None, "i")],
            RowError,
            "row 1 ('a', '1', None, 'i'): column price: int64: '1' (str) is not a valid int64",
        ),
        (
            [("a", 1, None, "t")],
            RowError,
            "row 1: t of ('a', 1, None): it takes all rows, so that its columns are NULL",
        ),
        ([("a", 1, None)], RowError, "has 3 values, expected 4: item, price, note, op"),
    ],
)
def test_feeds_are_refused_whole(run, feed, kind, text):
    with pytest.raises(kind, match=r"Input 'prices' \(.*test_feeds.py:\d+\), " + ".*" + re.escape(text)):
        run.apply("prices", [("x", 1, None, "i"), *feed, ("y", 1, None, "i")])
    assert contents(run) == [("tea", 3, None)]


def test_feeds_that_cannot_be_applied(run):
    good = [("x", 1, None, "i", 5)]
    with pytest.raises(RowError, match=r"Input 'plain' \(.*\) has no key to apply a feed by: declare it"):
        run.apply("plain", [(1, "i")])
    with pytest.raises(UnknownNameError, match="did you mean 'prices'"):
        run.apply("price", [])
    with pytest.raises(SchemaError, match="'note' is a column of the input: call the feed's another name"):
        run.apply("prices", good, op="note")
    with pytest.raises(RowError, match="too many: 'extra': drop or rename"):
        run.apply("prices", pa.table({"item": ["a"], "price": [1], "note": ["x"], "op": ["i"], "extra": [1]}))
    with pytest.raises(TimeError, match="time 0 is not beyond its frontier"):
        run.apply("prices", [*good, ("y", 1, None, "i", 0)], time="when")
    with pytest.raises(TimeError, match="time 0 is not beyond its frontier"):
        run.apply("prices", [("y", 1, None, "i")], time=0)
    with pytest.raises(RowError, match="column when: int64 not null is NULL"):
        run.apply("prices", [("y", 1, None, "i", None)], time="when")
    assert contents(run) == [("tea", 3, None)]
    run.close()
    with pytest.raises(ClosedRunError):
        run.apply("prices", [])


def test_a_key_needs_times_of_one_coordinate(engine):
    flow = new_flow(2)
    flow.output("x", flow.input("x", {"k": "int64"}, key="k"))
    with start(flow, engine) as run, pytest.raises(TimeError, match="needs times of one coordinate"):
        run.apply("x", [(1, "i")])


def test_tables_delete_by_key_alone(run):
    run.delete("prices", pl.DataFrame({"item": ["tea"]}))
    assert contents(run) == []


def updates_of(triples, engine, schema=None, coordinates=1):
    flow = new_flow(coordinates)
    flow.output("x", flow.input("x", schema or {"k": "string", "v": "int64"}))
    with start(flow, engine) as run:
        run.update("x", triples)
        run.close_inputs()
        return run.changes("x")


def test_updates_as_a_feed(engine):
    triples = [
        (("a", 1), 0, 1),
        (("b", 1), 0, 1),
        (("a", 1), 2, -1),
        (("a", None), 2, 1),
        (("b", 1), 2, -1),
        (("b", 2), 5, 1),
    ]
    feed = updates_of(triples, engine).to_feed(key=["k"])
    assert feed.column_names == ["k", "v", "time", "op"]
    assert [tuple(r.values()) for r in feed.to_pylist()] == [
        ("a", 1, 0, "insert"), ("b", 1, 0, "insert"), ("a", None, 2, "update"), ("b", 1, 2, "delete"),
        ("b", 2, 5, "insert"),
    ]  # fmt: skip
    assert updates_of([], engine).to_feed("k").num_rows == 0
    assert updates_of(triples, engine).to_feed("k", time="t", op="o").column_names == ["k", "v", "t", "o"]


def test_a_feed_at_times_of_several_coordinates(engine):
    feed = updates_of([(("a", 1), (0, 1), 1), (("a", 1), (1, 0), -1)], engine, coordinates=2).to_feed("k")
    assert feed.to_pylist() == [
        {"k": "a", "v": 1, "event": 0, "correction": 1, "op": "insert"},
        {"k": "a", "v": 1, "event": 1, "correction": 0, "op": "delete"},
    ]


@pytest.mark.parametrize(
    ("triples", "text"),
    [
        (
            [(("a", 1), 0, 1), (("a", 2), 0, 1)],
            r"key (k) = ('a',) has several rows at one time, such as ('a', 1): a",
        ),
        ([(("b", 7), 0, 1), (("a", 1), 0, 2)], "key (k) = ('a',) has several rows at one time, such as ('a', 1)"),
        ([(("a", 1), 0, 1), (("a", 2), 4, 1)], "key (k) = ('a',) has several rows, or negative ones, from one time to"),
        ([(("a", 1), 0, -1), (("a", 2), 4, -1)], "such as ('a', 2)"),
    ],
)
def test_a_feed_needs_a_unique_key(engine, triples, text):
    with pytest.raises(RowError, match=re.escape(text)):
        updates_of(triples, engine).to_feed("k")


def test_feeds_that_cannot_be_made(engine):
    updates = updates_of([(("a", 1), 0, 1)], engine)
    with pytest.raises(UnknownColumnError, match="no column 'kk'.*did you mean 'k'"):
        updates.to_feed("kk")
    with pytest.raises(SchemaError, match="to_feed needs a key"):
        updates.to_feed([])
    with pytest.raises(SchemaError, match="clash: rename them with time= and op="):
        updates.to_feed("k", op="v")


ROWS = st.tuples(st.sampled_from([1.0, float("nan"), 0.0]), st.sampled_from(["a", "b"]), st.none() | st.integers(0, 3))
OPS = st.sampled_from(["insert", "update", "delete"])


@examples(30)
@given(st.lists(st.tuples(ROWS, OPS, st.integers(0, 4)), max_size=12))
def test_a_feed_out_and_in_again_changes_nothing(engine, steps):
    def keyed():
        flow = tm.Dataflow()
        flow.output("x", flow.input("x", {"f": "float64", "k": "string", "v": "int64"}, key=["k", "f"]))
        return start(flow, engine)

    with keyed() as one, keyed() as two:
        one.apply("x", [(*row, op, time) for row, op, time in steps], time="time")
        one.close_inputs()
        changes = one.changes("x")
        two.apply("x", changes.to_feed(["f", "k"]), time="time")
        two.close_inputs()
        assert repr(list(two.changes("x"))) == repr(list(changes))


# One meaning for all batchings: what a feed is depends on the changes, not on how they are cut.

SMALL = st.tuples(
    st.sampled_from([1.0, float("nan"), None]), st.sampled_from(["a", None]), st.none() | st.integers(0, 1)
)
CHANGES = st.lists(st.tuples(SMALL, st.integers(0, 4), st.sampled_from([1, 1, 1, -1])), max_size=9)
CUTS = st.sets(st.integers(1, 4)).map(sorted)
FKV = {"f": "float64", "k": "string", "v": "int64"}


def plain(name="x", **options):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", FKV, **options))
    return flow


def fed(run, cuts):
    """Return the rows of a run's feeds, read up to each of these times, and whether one was refused in the end."""
    found: list[str] = []
    for cut in [*cuts, 5]:
        run.advance_to(cut)
        try:
            found += map(repr, python_rows(run.changes("x").to_feed(["k", "f"])))
        except RowError as error:
            assert "has several rows" in str(error) or "has a NULL in it" in str(error)
            return found, True
    return found, False


@examples(40)
@given(changes=CHANGES, cuts=CUTS, keyed=st.booleans())
def test_a_feed_is_the_same_in_all_batchings(engine, changes, cuts, keyed):
    """Whether rows with one key, or rows with negative counts, come together in one batch or not.

    Whoever applies the feeds has then what there is.
    """
    valid = consistent(changes) if keyed else changes
    with start(plain(), engine) as one, start(plain(), engine) as other:
        one.update("x", valid)
        other.update("x", valid)
        at_once, is_refused = fed(one, [])
        in_parts, is_refused_too = fed(other, cuts)
        assert is_refused_too == is_refused
        assert is_refused or in_parts == at_once
        there = list(one.snapshot("x")) if not is_refused else []
    if not is_refused:
        with start(plain(), engine) as one, start(plain(key=["f", "k"]), engine) as to:
            one.update("x", valid)
            for cut in [*cuts, 5]:
                one.advance_to(cut)
                to.apply("x", one.changes("x").to_feed(["k", "f"]), time="time")
            to.advance_to(5)
            assert repr(list(to.snapshot("x"))) == repr(there)


def test_keys_with_null_are_refused_as_inputs_refuse_them(engine):
    with start(plain(), engine) as run:
        run.insert("x", [(1.0, None, 2), (2.0, "a", None)])
        run.advance()
        changes = run.changes("x")
        with pytest.raises(RowError, match=r"key \(f, k\) = \(1.0, None\) has a NULL in it, such as \(1.0, None, 2\)"):
            changes.to_feed(["f", "k"], format="debezium")
        assert changes.to_feed("f").num_rows == 2


def consistent(changes):
    """Return changes of which each puts a row in the place of that with its key."""
    there: dict[str, tuple[object, ...]] = {}
    found = []
    for row, time, diff in sorted(changes, key=lambda c: c[1]):
        key = repr(row[:2])
        if key in there:
            found.append((there.pop(key), time, -1))
        if diff > 0:
            there[key] = row
            found.append((row, time, 1))
    return found


TWO_ROWS = [(("a", 1), 0, 1), (("a", 2), 1, 1), (("a", 1), 2, -1)]
ANOTHER = [(("a", 1), 0, 1), (("a", 5), 1, -1), (("a", 2), 1, 1)]


@pytest.mark.parametrize("triples", [TWO_ROWS, ANOTHER], ids=["two rows", "a row that was not there"])
@pytest.mark.parametrize("stops", [[3], [1, 3], [1, 2, 3], [2, 3]], ids=str)
def test_a_second_row_of_a_key_is_refused_whenever_it_is_read(engine, triples, stops):
    flow = new_flow()
    flow.output("x", flow.input("x", {"k": "string", "v": "int64"}))
    with start(flow, engine) as run:
        run.update("x", triples)
        text = r"key \(k\) = \('a',\) has several rows, or negative ones, from one time to the next"
        first = next(stop for stop in stops if stop > 1)  # that reads time 1, at which there is another row
        for stop in stops[: stops.index(first)]:
            run.advance_to(stop)
            assert run.changes("x").to_feed("k").num_rows == 1
        run.advance_to(first)
        with pytest.raises(RowError, match=text):
            run.changes("x").to_feed("k")


def test_behind_what_was_refused_there_is_no_feed_until_the_key_is_unique(engine):
    with start(plain(), engine) as run:
        run.update("x", [((1.0, "a", 0), 0, 1), ((1.0, "a", 1), 1, 1), ((2.0, "b", 1), 2, 1), ((1.0, "a", 0), 3, -1)])
        run.update("x", [((3.0, "c", 1), 4, 1)])
        run.advance_to(1)
        assert run.changes("x").to_feed(["k", "f"]).num_rows == 1
        for stop in (2, 3, 4):
            run.advance_to(stop)
            with pytest.raises(RowError, match="has several rows, or negative ones"):
                run.changes("x").to_feed(["k", "f"])
        run.advance_to(5)
        assert run.changes("x").to_feed(["k", "f"]).to_pylist() == [
            {"f": 3.0, "k": "c", "v": 1, "time": 4, "op": "insert"}
        ]


def test_a_feed_may_be_asked_for_again_and_later(engine):
    """In their order, feeds need nothing but each other; and one may be made twice, and by several keys."""
    with start(plain(), engine) as run:
        run.update("x", [((1.0, "a", 0), 0, 1), ((1.0, "a", 0), 1, -1), ((1.0, "a", 1), 1, 1), ((1.0, "a", 1), 2, -1)])
        batches = []
        for stop in (1, 2, 3):
            run.advance_to(stop)
            batches.append(run.changes("x"))
    for key in ("k", ["f"], ["k", "f", "v"]):
        for _ in range(2):
            ops = [
                batch.to_feed(key, time=name).column("op").to_pylist() for batch in batches for name in ("t", "time")
            ]
            wanted = ["update"] if key != ["k", "f", "v"] else ["delete", "insert"]
            assert [sorted(o) for o in ops] == [["insert"]] * 2 + [wanted] * 2 + [["delete"]] * 2


def test_a_feed_out_of_order_looks_up_what_was_there(engine):
    flow = plain()
    with start(flow, engine, keep=1) as run:
        run.update("x", [((1.0, "a", 0), 0, 1), ((2.0, "b", 0), 1, 1), ((1.0, "a", 1), 2, 1), ((3.0, "c", 1), 3, 1)])
        run.advance_to(2)
        assert run.changes("x", since=0).to_feed("k").num_rows == 1  # the first was never fed
        run.advance_to(3)
        with pytest.raises(RowError, match="has several rows"):
            run.changes("x", since=1).to_feed("k")
        assert run.changes("x").to_feed(["k", "v"]).num_rows == 3
        run.advance_to(4)
        late = run.changes("x", since=2)
        with pytest.raises(
            RowError, match=r"has several rows, or negative ones, before these changes, such as \(1.0, 'a'"
        ):
            late.to_feed("k")
        assert late.to_feed(["f", "v"]).num_rows == 1
        run.advance_to(9)
        with pytest.raises(TimeError, match="can no longer be told .*; or call to_feed before the run goes on"):
            late.to_feed("v")
    with pytest.raises(ClosedRunError):
        late.to_feed("v")


def test_a_run_that_goes_on_knows_what_was_there(tmp_path):
    for stop, more in ((1, [((1.0, "a", 0), 0, 1)]), (2, [((1.0, "a", 1), 1, 1)])):
        with plain().start(tm.Embedded(tmp_path)) as run:
            run.update("x", more)
            run.advance_to(stop)
            changes = run.changes("x")
            if stop == 1:
                assert changes.to_feed("k").num_rows == 1
            else:
                with pytest.raises(RowError, match="has several rows"):
                    changes.to_feed("k")


def test_changes_that_are_not_of_a_run_begin_at_the_least_time():
    made = pa.table({"k": ["a"]})
    times, diffs = np.array([[3]]), np.array([1])
    lower = [tm.Antichain([(at,)]) for at in (0, 3)]
    first, later = (Updates(Schema.of({"k": "string"}), ("epoch",), made, times, diffs, at, at) for at in lower)
    assert first.to_feed("k").num_rows == 1
    with pytest.raises(EngineError, match="what was there before these changes is not known"):
        later.to_feed("k")
