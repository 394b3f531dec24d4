"""Rows and times that do not fit are refused whole: the message names input, row and column; nothing is left behind."""

import datetime as dt
import decimal
import re

import pyarrow as pa
import pytest
from support.running import KV, new_flow, start

import tidemill as tm
from tidemill.errors import ClosedRunError, RowError, TimeError, UnknownNameError

WIDE = {
    "i": "int64", "j": "int32", "f": "float64", "b": "bool", "s": "string", "r": "binary", "y": "date",
    "t": "timestamp", "d": "decimal(5,2)", "n": "string not null",
}  # fmt: skip
GOOD = (1, 2, 0.5, True, "x", b"x", dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), decimal.Decimal("1.25"), "n")


def wrong(column, value):
    row = list(GOOD)
    row[list(WIDE).index(column)] = value
    return tuple(row)


VALUES = [
    ("i", "1", "column i: int64: '1' (str) is not a valid int64"),
    ("i", 1.5, "1.5 (float) is not a valid int64: not a whole number"),
    ("i", True, "True (bool) is not a valid int64"),
    ("i", 2**63, "is not a valid int64: overflow"),
    ("i", -(2**63), "is not a valid int64: overflow"),
    ("j", 2**31, "is not a valid int32: overflow"),
    ("f", "0.5", "'0.5' (str) is not a valid float64"),
    ("f", 10**400, "is not a valid float64: overflow"),
    ("b", 1, "1 (int) is not a valid bool"),
    ("s", b"x", "b'x' (bytes) is not a valid string"),
    ("s", "\ud800", "is not a valid string"),
    ("r", "x", "'x' (str) is not a valid binary"),
    ("y", dt.datetime(2024, 1, 1), "is not a valid date"),
    ("y", "2024-01-01", "'2024-01-01' (str) is not a valid date"),
    ("t", dt.date(2024, 1, 1), "is not a valid timestamp"),
    ("t", dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "one of type timestamptz has"),
    ("d", 0.1, "0.1 (float) is not a valid decimal(5,2)"),
    ("d", decimal.Decimal("1.255"), "more than 2 digits after the point"),
    ("d", decimal.Decimal(1000), "overflow"),
    ("d", decimal.Decimal("1e90"), "overflow"),
    ("d", decimal.Decimal("NaN"), "not a finite number"),
    ("n", None, "column n: string not null is NULL: nulls are not allowed here"),
]
SHAPES = [
    ([GOOD[:3]], "has 3 values, expected 10: i, j, f"),
    ([{"i": 1}], "the keys are ['i'], expected ['i', 'j'"),
    ([7], "row 0: 7 is not a row: expected a tuple or a dict"),
    (["abcdefghij"], "'abcdefghij' is not a row"),
    (7, "7 is not a batch of rows"),
    ("rows", "'rows' is not a batch of rows"),
    ({"i": 1}, "is not a batch of rows"),
]


@pytest.fixture
def run(engine):
    flow = new_flow()
    flow.output("wide", flow.input("wide", WIDE))
    flow.output("kv", flow.input("kv", KV))
    flow.output("keyed", flow.input("keyed", KV, key=["k"]))
    with start(flow, engine) as started:
        yield started


def assert_untouched(run):
    """Nothing was queued: closing the epoch gives nothing but a row inserted now."""
    run.insert("wide", [GOOD])
    run.advance()
    assert list(run.snapshot("wide")) == [GOOD]
    assert len(run.snapshot("kv")) == len(run.snapshot("keyed")) == 0


@pytest.mark.parametrize(("column", "value", "text"), VALUES)
def test_values_of_the_wrong_type(run, column, value, text):
    rows = [GOOD, wrong(column, value)]
    place = r"Input 'wide' \(.*test_bad_batches.py:\d+\), row 1 .*"
    for feed in (
        lambda: run.insert("wide", rows),
        lambda: run.delete("wide", rows),
        lambda: run.update("wide", [(row, 0, 1) for row in rows]),
        lambda: run.insert("wide", [dict(zip(WIDE, row, strict=True)) for row in rows]),
    ):
        with pytest.raises(RowError, match=place + re.escape(text)):
            feed()
    assert_untouched(run)


@pytest.mark.parametrize(("rows", "text"), SHAPES)
def test_batches_of_the_wrong_shape(run, rows, text):
    with pytest.raises(RowError, match=r"Input 'wide' \(.*\).*" + re.escape(text)):
        run.insert("wide", rows)
    assert_untouched(run)


@pytest.mark.parametrize(
    ("updates", "kind", "text"),
    [
        ([((1, 1), 0)], RowError, "update 0: ((1, 1), 0) is not (row, time, diff)"),
        ([((1, 1), 0, 1), ((1, 1), 0, 1.5)], RowError, "update 1: ((1, 1), 0, 1.5) is not (row, time, diff)"),
        ([((1, 1), 0, True)], RowError, "is not (row, time, diff)"),
        ([((1, 1), 0, 2**70)], RowError, "an integer of at most"),
        ([((1, 1), -1, 1)], TimeError, "-1 is not a time here"),
        ([((1, 1), (0, 0), 1)], TimeError, "(0, 0) is not a time here"),
        ([((1, 1), 2**62, 1)], TimeError, "is not a time here"),
    ],
)
def test_updates_of_the_wrong_shape(run, updates, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        run.update("kv", updates)
    assert_untouched(run)


def test_times_that_are_final(run):
    run.advance_to(2)
    for feed in (
        lambda: run.update("kv", [((1, 1), 5, 1), ((1, 1), 1, 1)]),
        lambda: run.insert("kv", [(1, 1)], time=1),
    ):
        with pytest.raises(TimeError, match=r"Input 'kv' \(.*\): time 1 is not beyond its frontier Antichain\(2\)"):
            feed()
    with pytest.raises(TimeError, match=r"advance_to\(1\) closes nothing"):
        run.advance_to(1)
    run.close_input("kv")
    with pytest.raises(TimeError, match="no time given, and it is closed"):
        run.insert("kv", [(1, 1)])
    with pytest.raises(TimeError, match="is not beyond its frontier"):
        run.insert("kv", [(1, 1)], time=9)
    run.advance_to(9)
    assert len(run.changes("kv")) == 0


def test_arrow_tables_that_do_not_fit(run):
    good = {"k": pa.array([1, 2]), "v": pa.array([1, None])}
    cases = [
        (pa.table({"k": good["k"]}), "the table has columns ['k'], expected ['k', 'v']"),
        (pa.table({**good, "v": pa.array(["a", "b"])}), "column 'v' has Arrow type string, expected int64"),
        (pa.table({**good, "v": pa.array([1.0, 0.5])}), "row 1: column v: int64: Float value 0.500000 was truncated"),
        (pa.table({**good, "k": pa.array([1, 2**63], pa.uint64())}), "column k: int64"),
        (pa.table({**good, "k": pa.array([1, -(2**63)])}), "overflow"),
    ]
    for table, text in cases:
        with pytest.raises(RowError, match=re.escape(text)):
            run.insert("kv", table)
    nulls = pa.table({name: pa.array([value, None]) for name, value in zip(WIDE, GOOD, strict=True)})
    nulls = nulls.set_column(1, "j", pa.array([2, None], pa.int32()))
    nulls = nulls.set_column(8, "d", pa.array([GOOD[8], None], pa.decimal128(5, 2)))
    with pytest.raises(RowError, match="row 1: column n: string not null is NULL"):
        run.insert("wide", nulls)
    assert_untouched(run)


def test_names_that_are_not_there(run):
    for ask in (
        lambda: run.insert("kvs", []), lambda: run.update("kvs", []), lambda: run.delete("kvs", []),
        lambda: run.upsert("kvs", []), lambda: run.close_input("kvs"), lambda: run.advance_to(1, input="kvs"),
        lambda: run.snapshot("kvs"), lambda: run.changes("kvs"), lambda: run.frontier("kvs"),
    ):  # fmt: skip
        with pytest.raises(UnknownNameError, match="'kvs': did you mean 'kv'"):
            ask()


def test_keys_have_their_rules(run):
    with pytest.raises(RowError, match=r"Input 'kv' \(.*\) has no key to upsert by"):
        run.upsert("kv", [(1, 1)])
    with pytest.raises(RowError, match=r"Input 'keyed' \(.*\) has a key: use upsert and delete"):
        run.update("keyed", [((1, 1), 0, 1)])
    with pytest.raises(RowError, match=r"key \(None,\) has a NULL in it"):
        run.upsert("keyed", [(2, 2), (None, 1)])
    assert_untouched(run)


@pytest.mark.parametrize("time", [-1, "1", None, 1.0, (1, 1), tm.Antichain([(1, 1)])])
def test_frontiers_that_are_no_times(run, time):
    with pytest.raises(TimeError, match="is not a time here"):
        run.advance_to(time)
    assert_untouched(run)


def test_a_closed_run(run):
    run.advance()
    run.close()
    run.close()
    for ask in (
        lambda: run.insert("kv", [(1, 1)]), lambda: run.update("kv", []), lambda: run.delete("kv", []),
        lambda: run.upsert("keyed", []), run.advance, lambda: run.advance_to(5), run.close_inputs,
        lambda: run.close_input("kv"), lambda: run.snapshot("kv"), lambda: run.changes("kv"),
        lambda: run.frontier("kv"), run.metrics, run.discard, run.__enter__,
    ):  # fmt: skip
        with pytest.raises(ClosedRunError, match=r"this run of 'test' is closed: start another with flow.start\(\)"):
            ask()
