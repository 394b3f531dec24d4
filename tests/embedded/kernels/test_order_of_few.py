"""A few updates are sorted by their codes before they are decoded: in the order that all have."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidemill as tm
from tidemill.boundary import results
from tidemill.renderer.embedded import executor
from tidemill.renderer.embedded.kernels import codec

VALUES = {
    "int64": st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-2, 2),
    "int32": st.integers(-2, 2),
    "float64": st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 5e-324]),
    "bool": st.booleans(),
    "date": st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29)]),
    "timestamp": st.sampled_from([dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23), dt.datetime(2020, 2, 29)]),  # noqa: DTZ001
    "decimal(9,2)": st.integers(-3, 3).map(lambda n: decimal.Decimal(n).scaleb(-2)),
}
SCHEMA = dict(zip("abcdefg", VALUES, strict=True))


CHOICES: tuple[list[Any], ...] = (
    [None, 0, -2, 7, 2**63 - 1, -(2**63) + 1], [None, -2, 2], [None, math.nan, math.inf, -math.inf, -0.0, 5e-324, -2.5],
    [None, False, True], [None, dt.date(1, 1, 1), dt.date(2020, 2, 29)], [None, dt.datetime(1969, 12, 31, 23)],  # noqa: DTZ001
    [None, decimal.Decimal("-0.03"), decimal.Decimal("0.01")],
)  # fmt: skip


@given(rows=st.lists(st.tuples(*(st.none() | v for v in VALUES.values())), max_size=8))
def test_changes_and_contents_are_in_the_order_that_many_have(rows):
    same_order_by_codes(rows)


@pytest.mark.parametrize("count", [100, 2048, 2049])
def test_so_are_some_hundred(count):
    dice = random.Random(count)
    same_order_by_codes([tuple(dice.choice(choices) for choices in CHOICES) for _ in range(count)])


TEXTS = ["", "a", "A", "ab", "é", "z", "\uffff", "\U0001f600", None]
BLOBS = [b"", b"a", b"\xff", b"a\x00", None]
MIXED = {
    "texts first": ({"s": "string", "i": "int64"}, (TEXTS, range(3))),
    "a number first": ({"i": "int64", "s": "string", "f": "float64"}, (range(5), TEXTS, [None, math.nan, -1.5])),
    "an id first": ({"i": "int64", "s": "string"}, (range(10**6), TEXTS)),
    "bytes between": ({"f": "float64", "b": "binary", "s": "string"}, ([math.nan, None, 1.0], BLOBS, TEXTS)),
    "a list last": ({"s": "string", "l": "list<int64>"}, (TEXTS, [[], [1], [1, None], [2], None])),
}


@pytest.mark.parametrize("count", [2, 7, 64, 65, 300])
@pytest.mark.parametrize("mixed", list(MIXED))
def test_so_are_rows_with_texts(mixed, count):
    schema, choices = MIXED[mixed]
    dice = random.Random(count)
    same_order_by_codes([tuple(dice.choice(values) for values in choices) for _ in range(count)], schema)


def same_order_by_codes(rows, schema=SCHEMA):
    def read():
        flow = tm.Dataflow()
        flow.output("x", flow.input("x", schema))
        with flow.start() as run:
            run.update("x", [(row, i % 3, 1) for i, row in enumerate(rows)])
            run.advance_to(3)
            changes, contents = run.changes("x"), run.snapshot("x")
            return repr(
                (list(changes), list(contents), changes.to_arrow().to_pylist(), contents.to_arrow().to_pylist())
            )

    by_codes = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "few_in_order", lambda *_: None)
        assert read() == by_codes


def test_texts_are_not_looked_at_where_an_id_comes_first(monkeypatch):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"id": "int64", "s": "string"}))
    monkeypatch.setattr(codec, "order_ranks", None)
    with flow.start() as run:
        run.insert("x", [(2, "a"), (3, "c"), (1, "b")])
        run.advance()
        monkeypatch.setattr(results, "_sort_keys", None)
        assert run.changes("x").to_arrow().column("s").to_pylist() == ["b", "a", "c"]


def test_values_whose_codes_say_nothing_of_their_order_are_sorted_by_value():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"s": "string"}))
    with flow.start() as run:
        run.insert("x", [("b",), ("a",), (None,), ("c",)])
        run.advance()
        assert [row for row, _, _ in run.changes("x")] == [(None,), ("a",), ("b",), ("c",)]
