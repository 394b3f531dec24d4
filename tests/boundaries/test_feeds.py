"""Change feeds, in and out: insert, update and delete by key."""

import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples, new_flow, start

import tidemill as tm
from tidemill.boundary.files import read_csv
from tidemill.errors import ClosedRunError, RowError, SchemaError, TimeError, UnknownColumnError, UnknownNameError

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
