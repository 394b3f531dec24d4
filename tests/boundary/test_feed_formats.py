"""Change feeds as Debezium, Maxwell and Delta write them, in and out."""

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start

import tidemill as tm
from tidemill.errors import RowError, SchemaError

ORDERS = {
    "id": "int64",
    "price": "decimal(10,2)",
    "on": "date",
    "at": "timestamp",
    "weight": "float64",
    "raw": "binary",
}
DAY, MOMENT = dt.date(2026, 3, 1), dt.datetime(2026, 3, 1, 12, 30, 0, 250)


@pytest.fixture
def run(engine):
    flow = tm.Dataflow()
    flow.output("orders", flow.input("orders", ORDERS, key="id"))
    flow.output("items", flow.input("items", {"item": "string", "n": "int64", "op": "string"}, key="item"))
    with start(flow, engine) as started:
        yield started


def contents(run, name="orders"):
    run.advance()
    return list(run.snapshot(name))


def unscaled(number):
    return base64.b64encode(number.to_bytes(8, "big", signed=True)).decode()


FIELDS: Any = [
    {"field": "id", "type": "int64"},
    {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"field": "on", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "weight", "type": "double"},
    {"field": "raw", "type": "bytes"},
    {"field": "not ours", "type": "string"},
]


def with_schema(payload, fields=FIELDS):
    parts = [{"field": name, "type": "struct", "fields": fields} for name in ("before", "after")]
    return {"schema": {"type": "struct", "fields": parts}, "payload": payload}


def kafka_row(number, cents):
    micros = (MOMENT - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    days = (DAY - dt.date(1970, 1, 1)).days
    raw = base64.b64encode(b"\0x").decode()
    return {
        "id": number,
        "price": unscaled(cents),
        "on": days,
        "at": micros,
        "weight": 0.1,
        "raw": raw,
        "not ours": "x",
    }


def test_envelopes_with_their_schema(run):
    feed = [
        with_schema({"op": "r", "before": None, "after": kafka_row(1, 1250)}),
        with_schema({"op": "c", "before": None, "after": kafka_row(2, -5)}),
        with_schema({"op": "u", "before": kafka_row(2, -5), "after": kafka_row(2, 7)}),
        with_schema({"op": "c", "before": None, "after": kafka_row(3, 1)}),
        with_schema({"op": "d", "before": kafka_row(3, 1), "after": None}),
        None,  # the tombstone behind it
    ]
    expected = [(i, Decimal(cents) / 100, DAY, MOMENT, 0.1, b"\0x") for i, cents in ((1, 1250), (2, 7))]
    run.apply("orders", [json.dumps(m) if m else None for m in feed], format="debezium")
    assert contents(run) == expected
    run.delete("orders", [(1,), (2,)])
    assert contents(run) == []
    run.apply("orders", feed, format="debezium")
    assert contents(run) == expected


def test_an_envelope_that_empties_the_table(run):
    rows = [with_schema({"op": "c", "before": None, "after": kafka_row(i, 1)}) for i in (1, 2, 3)]
    run.apply("orders", rows[:2], format="debezium")
    assert len(contents(run)) == 2
    run.apply("orders", [rows[1], with_schema({"op": "t", "before": None, "after": None}), rows[2]], format="debezium")
    assert [row[0] for row in contents(run)] == [3]
    run.apply("orders", [{"op": "t"}], format="debezium")
    assert contents(run) == []


def test_envelopes_without_a_schema_and_values_as_text(run):
    row = {
        "id": 1,
        "price": "12.50",
        "on": "2026-03-01",
        "at": "2026-03-01T14:30:00.00025+02:00",
        "weight": "0.1",
        "raw": None,
    }
    text = json.dumps({"op": "c", "after": row}) + "\n" + json.dumps({"op": "m", "message": {}}) + "\n"
    run.apply("orders", text, format="debezium")  # lines of JSON
    assert contents(run) == [(1, Decimal("12.50"), DAY, MOMENT, 0.1, None)]
    exact = '{"op": "u", "after": {"id": 1, "price": 0.10, "on": null, "at": null, "weight": 1, "raw": null}}'
    run.apply("orders", [exact.encode()], format="debezium")
    assert contents(run) == [(1, Decimal("0.10"), None, None, 1.0, None)]


def test_a_variable_scale_and_other_units(run):
    fields = [dict(f) for f in FIELDS]
    for name, value, expected in [
        ("io.debezium.time.Timestamp", 1_000_250, dt.datetime(1970, 1, 1, 0, 16, 40, 250_000)),
        ("io.debezium.time.NanoTimestamp", 250_000, dt.datetime(1970, 1, 1, 0, 0, 0, 250)),
        ("io.debezium.time.MicroTimestamp", -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    ]:
        fields[3] = {"field": "at", "type": "int64", "name": name}
        row = kafka_row(1, 0) | {"at": value, "price": {"scale": 1, "value": unscaled(-15)}}
        run.apply("orders", [with_schema({"op": "u", "after": row}, fields)], format="debezium")
        assert contents(run)[0][1:4] == (Decimal("-1.50"), DAY, expected)


def test_a_key_that_changes_goes(run):
    run.upsert("items", [("tea", 1, None), ("rye", 2, None)])
    message = {"op": "u", "before": {"item": "tea"}, "after": {"item": "milk", "n": 3, "op": "a column"}}
    run.apply("items", [message], format="debezium")
    assert contents(run, "items") == [("milk", 3, "a column"), ("rye", 2, None)]
    old = {"type": "update", "data": {"item": "oat", "n": 4, "op": None}, "old": {"item": "rye", "n": 2}}
    run.apply("items", [old], format="maxwell")
    assert contents(run, "items") == [("milk", 3, "a column"), ("oat", 4, None)]
    delta = [
        {"item": "cake", "n": 5, "op": None, "_change_type": "update_postimage", "_commit_version": 7},
        {"item": "milk", "n": 3, "op": None, "_change_type": "update_preimage", "_commit_version": 7},
    ]
    run.apply("items", delta, format="delta")
    assert contents(run, "items") == [("cake", 5, None), ("oat", 4, None)]


def test_a_deletion_by_the_key_beside_it(run):
    run.upsert("items", [("tea", 1, None)])
    run.apply(
        "items",
        [('{"payload": {"item": "tea"}}', '{"op": "d", "before": null}'), ('{"item": "tea"}', None)],
        format="debezium",
    )
    assert contents(run, "items") == []


def test_messages_of_maxwell(run):
    row = {"item": "tea", "n": 1, "op": None}
    feed = [
        {"type": "bootstrap-start"},
        {"type": "bootstrap-insert", "data": row},
        {"type": "insert", "data": row | {"item": "rye"}},
        {"type": "update", "data": row | {"n": 5}, "old": {"n": 1}},
        {"type": "delete", "data": row | {"item": "rye"}},
        {"type": "table-alter"},
    ]
    run.apply("items", feed, format="maxwell")
    assert contents(run, "items") == [("tea", 5, None)]


DELTA = {
    "item": ["tea", "tea", "rye", "rye", "oat"],
    "n": [2, 1, 1, 1, 9],
    "op": [None] * 5,
    "more": [1] * 5,
    "_change_type": ["update_postimage", "update_preimage", "delete", "insert", "delete"],
    "_commit_version": [2, 2, 3, 1, 1],
    "_commit_timestamp": [0] * 5,
}


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, lambda columns: pa.table(columns).to_pylist()])
def test_the_feed_of_delta_in_the_order_of_versions(run, make):
    run.upsert("items", [("oat", 1, None)])
    run.apply("items", make(DELTA), format="delta")
    assert contents(run, "items") == [("tea", 2, None)]


GOOD: Any = {"op": "c", "after": {"item": "good", "n": 1, "op": None}}


@pytest.mark.parametrize(
    ("name", "written_by", "message", "text"),
    [
        ("items", "debezium", "{", "is not JSON"),
        ("items", "debezium", {"after": {}}, "not an envelope of Debezium's"),
        ("items", "debezium", {"op": "x"}, "is none of Debezium's"),
        ("items", "debezium", {"op": "c", "after": None}, "op 'c' without after"),
        ("items", "debezium", {"op": "d"}, "without before, and without a key"),
        ("items", "debezium", {"op": "u", "after": {"item": "a", "op": None}}, "has no 'n', which is a column"),
        ("items", "debezium", {"op": "u", "after": {"item": "a", "n": "1", "op": None}}, "is not a valid int64"),
        (
            "items",
            "debezium",
            {"op": "u", "after": {"item": "a", "n": 1, "op": "__debezium_unavailable_value"}},
            "did not log the value",
        ),
        (
            "orders",
            "debezium",
            with_schema({"op": "c", "after": kafka_row(1, 1) | {"at": 5}}, FIELDS[:3]),
            "says no unit",
        ),
        ("orders", "debezium", with_schema({"op": "c", "after": kafka_row(1, 1) | {"raw": "%"}}), "cannot be read"),
        ("orders", "debezium", with_schema({"op": "c", "after": kafka_row(1, 1) | {"on": "soon"}}), "cannot be read"),
        ("items", "maxwell", {"type": "merge"}, "not a message of Maxwell's"),
        ("items", "delta", {"item": "a", "n": 1, "op": None, "_change_type": "merge"}, "expected one of insert"),
        ("items", "delta", ("a", 1), "has no names"),
    ],
)
def test_feeds_are_refused_whole(run, name, written_by, message, text):
    good = {
        "debezium": GOOD,
        "maxwell": {"type": "insert", "data": GOOD["after"]},
        "delta": {**GOOD["after"], "_change_type": "insert"},
    }[written_by]
    with pytest.raises(RowError, match=f"Input '{name}' .*(message|row) 1.*") as caught:
        run.apply(
            name,
            [good if name == "items" else with_schema({"op": "c", "after": kafka_row(9, 9)}), message],
            format=written_by,
        )
    assert text in str(caught.value)
    assert contents(run, name) == []


def test_formats_that_are_not_there(run):
    with pytest.raises(SchemaError, match="did you mean 'debezium'"):
        run.apply("items", [], format="debesium")
    with pytest.raises(RowError, match="no column '_change_type'"):
        run.apply("items", pa.table({"item": ["a"], "n": [1], "op": ["x"]}), format="delta")
    run.advance()
    with pytest.raises(SchemaError, match="is read, not written"):
        run.changes("items").to_feed("item", format="maxwell")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 2), st.integers(0, 4)), max_size=12),
    st.sampled_from(["op", "debezium", "delta"]),
    st.sets(st.integers(1, 4)),
)
@examples(60)
def test_what_is_written_is_read_as_it_was(writes, made, cuts):
    """One run's changes by key are another's feed, whatever the format, and in however many parts they are read."""
    schema = {"k": "string", "v": "int64"}
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", schema, key="k"))
    with flow.start() as first, flow.start() as second:
        for key, value, time in writes:
            if value is None:
                first.delete("x", [(key,)], time=time)
            else:
                first.upsert("x", [(key, value)], time=time)
        for end in sorted({*cuts, 5}):
            first.advance_to(end)
            changes = first.changes("x")
            feed = changes.to_feed("k", format=made)
            if made == "debezium":
                feed = [json.dumps(m) for m in feed]
            # all times of a part at once: the last row of a key is that of the end
            second.apply("x", feed if made != "op" else feed.drop_columns(["time"]), format=made)
            second.advance_to(end)
            assert list(second.snapshot("x")) == list(first.snapshot("x"))


def test_what_is_written():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"k": "string", "v": "int64"}, key="k"))
    with flow.start() as run:
        run.upsert("x", [("a", 1), ("b", 1)])
        run.advance()
        run.changes("x")
        run.upsert("x", [("a", 2), ("c", 3)])
        run.delete("x", [("b",)])
        run.advance()
        changes = run.changes("x")
        envelopes = changes.to_feed("k", format="debezium")
        assert [(m["op"], m["before"], m["after"]) for m in envelopes] == [
            ("u", {"k": "a", "v": 1}, {"k": "a", "v": 2}),
            ("d", {"k": "b", "v": 1}, None),
            ("c", None, {"k": "c", "v": 3}),
        ]
        assert {m["source"]["time"] for m in envelopes} == {1}
        assert [tuple(row.values()) for row in changes.to_feed("k", format="delta").to_pylist()] == [
            ("a", 1, 1, "update_preimage"),
            ("a", 2, 1, "update_postimage"),
            ("b", 1, 1, "delete"),
            ("c", 3, 1, "insert"),
        ]


def test_decimals_have_all_their_digits():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"k": "int64", "d": "decimal(38,2)"}, key="k"))
    number = 10**35 + 123
    data = base64.b64encode(number.to_bytes(16, "big", signed=True)).decode()
    fields = [
        {"field": "k"},
        {"field": "d", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ]
    feed = [
        with_schema({"op": "c", "after": {"k": 1, "d": data}}, fields),
        {"op": "c", "after": {"k": 2, "d": {"scale": 2, "value": data}}},
    ]
    with flow.start() as run:
        run.apply("x", feed, format="debezium")
        run.advance()
        assert [row[1] for row in run.snapshot("x")] == [Decimal(f"{10**33 + 1}.23")] * 2


def test_a_feed_of_delta_in_files(run, tmp_path):
    rows = pa.table(
        {"item": ["a", "a", "b"], "n": [1, 1, 2], "op": pa.array([None] * 3, pa.string())}
        | {"_change_type": ["insert", "delete", "insert"], "_commit_version": [1, 2, 2]}
    )
    pq.write_table(rows, tmp_path / "1.parquet")
    run.apply("items", tm.read_parquet(tmp_path / "1.parquet"), format="delta")
    assert contents(run, "items") == [("b", 2, None)]
    pq.write_table(rows.drop_columns(["_commit_version"]), tmp_path / "1.parquet")
    with pytest.raises(RowError, match="_commit_version"):  # their order is not known
        run.apply("items", tm.read_parquet(tmp_path / "1.parquet"), format="delta")


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_a_feed_of_delta_with_text_as_readers_have_it(run, kind):
    """deltalake's load_cdf gives views of strings, which Arrow's functions do not take."""
    columns = {
        "item": ["a", "a", "b"],
        "op": [None, "x", "y"],
        "_change_type": ["insert", "update_postimage", "insert"],
    }
    text = {name: pa.array(values, pa.string()).cast(kind) for name, values in columns.items()}
    feed = pa.table({**text, "n": [1, 2, 3], "_commit_version": [2, 3, 1]})
    run.apply("items", pa.RecordBatchReader.from_batches(feed.schema, feed.to_batches()), format="delta")
    assert contents(run, "items") == [("a", 2, "x"), ("b", 3, "y")]


def test_text_with_ends_of_lines_of_unicode_is_one_message(run):
    row = {"item": "a\u2028b\u0085", "n": 1, "op": None}
    text = "\r\n".join([json.dumps({"op": "c", "after": row}, ensure_ascii=False), "", '{"op": "m"}'])
    run.apply("items", text, format="debezium")
    assert contents(run, "items") == [(row["item"], 1, None)]


@pytest.mark.parametrize(
    ("written_by", "messages", "wrong"),
    [
        ("debezium", [None, {"op": "m"}, GOOD, {"op": "c", "after": {"item": "x", "n": "bad", "op": None}}], 3),
        ("debezium", [None, {"op": "d", "before": {"item": None}}], 1),
        (
            "delta",
            [
                {"item": "x", "n": v, "op": None, "_change_type": "insert", "_commit_version": c}
                for v, c in (("bad", 9), (1, 1))
            ],
            0,
        ),
        (
            "delta",
            pa.table(
                {
                    "item": ["x", "y"],
                    "n": ["bad", "1"],
                    "op": ["", ""],
                    "_change_type": ["insert"] * 2,
                    "_commit_version": [9, 1],
                }
            ),
            0,
        ),
        ("delta", [{"item": "x", "n": 1, "op": None, "_change_type": []}], 0),
        ("delta", [{"item": "x", "n": 1, "op": None, "_change_type": "insert", "_commit_version": "10"}], 0),
        ("maxwell", [{"type": "update", "data": [1], "old": {"item": "b"}}], 0),
        ("debezium", [('{"k": 1}', "[1]")], 0),
        ("debezium", [{"schema": "x", "payload": {"op": "c", "after": {"item": "x", "n": "bad", "op": None}}}], 0),
        ("debezium", [{"schema": {"fields": ["x"]}, "payload": {"op": "c", "after": 1}}], 0),
    ],
)
def test_errors_name_the_message_that_came(run, written_by, messages, wrong):
    with pytest.raises(RowError) as caught:
        run.apply("items", messages, format=written_by)
    assert caught.value.row_index in (wrong, None)
    assert contents(run, "items") == []


def test_a_key_that_is_plain_text_and_values_of_other_kinds(run):
    run.apply("items", [("abc", json.dumps(GOOD))], format="debezium")
    assert contents(run, "items") == [("good", 1, None)]
    row = {"id": 1, "price": None, "on": None, "at": None, "weight": None, "raw": None}
    for wrong in ({"on": True}, {"at": True}, {"at": "2026-03-01T12:00:00.123456789"}):
        with pytest.raises(RowError):
            run.apply("orders", [{"op": "c", "after": row | wrong}], format="debezium")
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"k": "int64", "many": "list<float64>"}, key="k"))
    with flow.start() as lists:
        lists.apply("x", ['{"op": "c", "after": {"k": 1, "many": [1.5, null]}}'], format="debezium")
        lists.advance()
        assert list(lists.snapshot("x")) == [(1, (1.5, None))]


@pytest.mark.parametrize(
    ("name", "number", "clock"),
    [
        ("io.debezium.time.Time", 1_500, dt.time(0, 0, 1, 500_000)), ("io.debezium.time.MicroTime", 5, dt.time(0, 0, 0, 5)),
        ("io.debezium.time.NanoTime", 86_399_999_999_000, dt.time.max),
        ("org.apache.kafka.connect.data.Time", 0, dt.time()),
    ],
)  # fmt: skip
def test_times_of_day_and_moments_with_a_zone(name, number, clock):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"id": "int64", "t": "time", "z": "timestamptz", "u": "uuid"}, key="id"))
    fields = [{"field": "t", "type": "int64", "name": name},
              {"field": "z", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}]  # fmt: skip
    with flow.start() as run:
        text = {
            "id": 1,
            "t": clock.isoformat(),
            "z": "2024-02-29T12:30:00+02:00",
            "u": "6BA7B810-9dad-11d1-80b4-00c04fd430c8",
        }
        run.apply("x", [{"op": "c", "after": text}], format="debezium")
        numbers = {"id": 2, "t": number, "z": 0, "u": None}
        run.apply("x", [with_schema({"op": "c", "after": numbers}, fields)], format="debezium")
        with pytest.raises(RowError, match="timestamptz"):
            run.apply("x", [{"op": "c", "after": text | {"z": "2024-02-29T12:30:00"}}], format="debezium")
        run.advance()
        assert list(run.snapshot("x")) == [
            (1, clock, dt.datetime(2024, 2, 29, 10, 30, tzinfo=dt.UTC), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            (2, clock, dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None),
        ]
