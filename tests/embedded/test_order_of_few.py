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
from tidemill.renderer.embedded import executor

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


@pytest.mark.parametrize("count", [100, 512, 513])
def test_so_are_some_hundred(count):
    dice = random.Random(count)
    same_order_by_codes([tuple(dice.choice(choices) for choices in CHOICES) for _ in range(count)])


def same_order_by_codes(rows):
    def read():
        flow = tm.Dataflow()
        flow.output("x", flow.input("x", SCHEMA))
        with flow.start() as run:
            run.update("x", [(row, i % 3, 1) for i, row in enumerate(rows)])
            run.advance_to(3)
            changes, contents = run.changes("x"), run.snapshot("x")
            return repr(
                (list(changes), list(contents), changes.to_arrow().to_pylist(), contents.to_arrow().to_pylist())
            )

    by_codes = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "few_in_order", lambda _schema, _updates: None)
        assert read() == by_codes


def test_values_whose_codes_say_nothing_of_their_order_are_sorted_by_value():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"s": "string"}))
    with flow.start() as run:
        run.insert("x", [("b",), ("a",), (None,), ("c",)])
        run.advance()
        assert [row for row, _, _ in run.changes("x")] == [(None,), ("a",), ("b",), ("c",)]
