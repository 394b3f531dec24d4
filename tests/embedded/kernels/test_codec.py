"""Codes: what goes in comes out, few rows or many, and equal codes mean equal values."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.boundary.results import arrow_table
from tidemill.boundary.rows import checked_rows, python_rows
from tidemill.expressions.functions.values import row_order
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels import codec

VALUES = {
    "int64": st.integers(-(2**63) + 1, 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "float64": st.floats(),
    "bool": st.booleans(),
    "string": st.text(max_size=3),
    "binary": st.binary(max_size=3),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "decimal(10,2)": st.decimals(-(10**7), 10**7, places=2),
    "decimal(18,0)": st.integers(-(10**18) + 1, 10**18 - 1).map(decimal.Decimal),
    "decimal(38,3)": st.decimals(-(10**30), 10**30, places=3),
    "list<float64>": st.lists(st.none() | st.floats(), max_size=3).map(tuple),
    "list<list<string>>": st.lists(
        st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2).map(tuple), max_size=2
    ).map(tuple),
}
SCHEMA = Schema.of({f"c{i}": t for i, t in enumerate(VALUES)})
ROWS = st.lists(st.tuples(*(st.none() | v for v in VALUES.values())), min_size=1, max_size=5)


@given(ROWS)
def test_there_and_back(rows):
    checked = checked_rows(SCHEMA, rows, "rows")
    interner = codec.Interner()
    few = codec.encode(SCHEMA, checked, interner)
    assert (few == codec.encode(SCHEMA, arrow_table(SCHEMA, checked), interner)).all()
    assert (few == codec.encode(SCHEMA, checked * 20, interner)[:, : len(rows)]).all()
    assert repr(codec.decode_rows(SCHEMA, few, interner)) == repr(checked)
    decoded = pa.table(codec.decode(SCHEMA, few, interner), names=SCHEMA.names)
    assert repr(python_rows(decoded)) == repr(checked)


@pytest.mark.parametrize("name", VALUES)
def test_codes_are_equal_when_values_are_and_in_their_order(name):
    schema = Schema.of({"c": name})

    @given(st.lists(VALUES[name].map(lambda v: (v,)), min_size=2, max_size=6))
    def check(rows):
        interner = codec.Interner()
        checked = [row[0] for row in checked_rows(schema, rows, "rows")]
        codes = codec.encode(schema, [(v,) for v in checked], interner)[0]
        ranks = codec.order_ranks(codes, schema.dtypes[0], interner)
        for i, a in enumerate(checked):
            for j, b in enumerate(checked):
                same = row_order((a,)) == row_order((b,))
                assert (codes[i] == codes[j]) == same
                less = row_order((a,)) < row_order((b,))
                assert (ranks[i] < ranks[j]) == less

    check()


def test_an_interner_serves_what_came_late():
    interner = codec.Interner()
    for text in "abcdefg":  # one by one: a regression, where the decoding table was taken for full when it was not
        number = interner.number(text)
        assert interner.objects(np.array([number])).tolist() == [text]


def test_the_edges_of_time():
    schema = Schema.of({"d": "date", "t": "timestamp"})
    rows = [(dt.date.min, dt.datetime.min), (dt.date.max, dt.datetime.max)]
    interner = codec.Interner()
    assert codec.decode_rows(schema, codec.encode(schema, rows * 10, interner), interner) == rows * 10
