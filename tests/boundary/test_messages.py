"""Messages one by one: what each puts or deletes, by its value, its key, or a column that says so."""

import re
from decimal import Decimal
from typing import Any

import pytest

from tidemill.boundary.messages import InputColumns, changes_of
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

SCHEMA = Schema.of({"id": "int64", "region": "string", "amount": "decimal(9, 2)"})
ROW = {"id": 1, "region": "north", "amount": 1}


def changes(written_as: str, key: Any, value: Any, by: tuple[str, ...] = ("id",)) -> list[Any]:
    columns = InputColumns(SCHEMA, () if written_as == "json" else by)
    return list(changes_of(written_as, (key, value), columns, 3, "here"))


@pytest.mark.parametrize(
    ("written_as", "key", "value", "put", "row"),
    [
        ("json", b"any", b'{"id": 1, "amount": 1.5, "more": []}', "upsert", (1, None, Decimal("1.5"))),
        ("json", None, {}, "upsert", (None, None, None)),
        ("upsert", b"1", b'{"region": "a"}', "upsert", (1, "a", None)),
        ("upsert", b'{"id": 1, "more": 2}', {"id": 1}, "upsert", (1, None, None)),
        ("upsert", None, ROW, "upsert", (1, "north", Decimal(1))),
        ("upsert", {"payload": {"id": 4}, "schema": {}}, None, "delete", (4, None, None)),
        ("op", None, {"op": "D", "id": 1}, "delete", (1, None, None)),
        ("op", None, {"op": "create", "id": 1}, "upsert", (1, None, None)),
        ("delta", None, {"_change_type": "update_preimage", **ROW}, "delete", (1, None, None)),
        ("delta", None, {"_change_type": "insert", **ROW}, "upsert", (1, "north", Decimal(1))),
    ],
)
def test_a_message_puts_or_deletes_a_row(written_as, key, value, put, row):
    assert changes(written_as, key, value) == [(put, row)]


@pytest.mark.parametrize(
    ("key", "name"),
    [(b"a b", "a b"), (b'"a b"', "a b"), (b"7", "7"), (b"true", "true"), ("x", "x"), (b'{"region": "r"}', "r")],
)
def test_a_key_of_text_may_have_no_quotes(key, name):
    assert changes("upsert", key, None, by=("region",)) == [("delete", (None, name, None))]


def test_a_key_of_several_columns_is_an_object():
    both = ("id", "region")
    assert changes("upsert", {"id": 1, "region": "a"}, {}, both) == [("upsert", (1, "a", None))]
    assert changes("upsert", b"1-a", {"id": 1, "region": "a"}, both) == [("upsert", (1, "a", None))]
    with pytest.raises(RowError, match="the key b'1-a' does not say id, region"):
        changes("upsert", b"1-a", None, both)


BAD = [
    ("json", None, b"{", "is not JSON"),
    ("json", None, None, "format='upsert' has it delete the row of its key"),
    ("json", None, [1], r"\[1\] is no object"),
    ("json", None, {**ROW, "id": "x"}, "column id: .* is not a valid int64"),
    ("json", None, {**ROW, "amount": "much"}, "column amount: .*cannot be read"),
    ("upsert", None, None, "there is no value, and the key None does not say id"),
    ("upsert", {"other": 1}, None, "does not say id"),
    ("upsert", None, {"region": "a"}, "has no 'id'"),
    ("upsert", 2, ROW, "its key says that id is 2, and its value 1"),
    ("op", None, {"op": "merge", "id": 1}, "does not say in 'op' what is done: expected one of insert, "),
    ("op", None, {"op": "delete"}, "has no 'id'"),
    ("debezium", None, {"op": "x"}, "is none of Debezium's"),
    ("maxwell", None, 1, "is not a message of Maxwell's"),
    ("delta", None, ROW, "does not say in '_change_type' what is done: expected one of insert, update_post"),
]


@pytest.mark.parametrize(("written_as", "key", "value", "text"), BAD)
def test_a_message_that_does_not_fit_is_named(written_as, key, value, text):
    with pytest.raises(RowError) as caught:
        changes(written_as, key, value)
    assert re.search(rf"here, (message|row) 3\b.*{text}", str(caught.value))
    assert caught.value.row_index == 3
