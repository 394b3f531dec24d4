"""The order in which updates and rows are given: the same for a few as for many."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidemill as tm
from tidemill.boundary.results import Updates, arrow_table
from tidemill.expressions.schema import Schema

VALUES = {
    "int64": st.integers(-(2**63) + 1, 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "float64": st.floats(),
    "bool": st.booleans(),
    "string": st.text(max_size=3),
    "binary": st.binary(max_size=3),
    "date": st.dates(),
    "timestamp": st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)),  # noqa: DTZ001 - wall times
    "decimal(9,2)": st.integers(-999, 999).map(lambda n: Decimal(n).scaleb(-2)),
}


def updates_of(schema, rows, times):
    none = tm.Antichain()
    times = np.array(times, np.int64).reshape(1, -1)
    return Updates(schema, ("epoch",), arrow_table(schema, rows), times, np.arange(1, len(rows) + 1), none, none)


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_a_few_are_sorted_as_many_are(kind, data):
    column = VALUES[kind] | st.none() | st.sampled_from([data.draw(VALUES[kind])])
    found = data.draw(st.lists(st.tuples(st.integers(0, 2), column, column), max_size=12))
    schema = Schema.of({"x": kind, "y": kind})
    few = updates_of(schema, [row for _, *row in found], [t for t, *_ in found])
    assert few._order_of_few().tolist() == few._order_of_many().tolist()


def test_a_few_are_not_given_to_arrow_to_sort(monkeypatch):
    """Its sorting costs as much to begin as the rest of a small epoch."""
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"k": "string", "v": "float64"}))
    asked = []
    sort = pc.sort_indices
    monkeypatch.setattr(pc, "sort_indices", lambda *a, **k: (asked.append(1), sort(*a, **k))[1])
    with flow.start() as run:
        for count in (3, 1000):
            run.insert("x", [(str(i), -float(i)) for i in range(count)])
            run.advance()
            changed = list(run.changes("x"))
            assert changed == sorted(changed, key=lambda u: (u[1], u[0]))
            assert len(asked) == (count > 3)
