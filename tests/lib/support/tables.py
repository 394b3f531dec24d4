"""Any schema and rows of it, and rows made to look as those from elsewhere."""

from __future__ import annotations

import decimal

import pyarrow as pa
from hypothesis import strategies as st

from tidemill.boundary.results import arrow_table
from tidemill.boundary.rows import checked_batch, checked_rows, python_rows
from tidemill.expressions.schema import Schema

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
    "list<int64>": st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1), max_size=3).map(tuple),
    "list<list<int64>>": st.lists(
        st.none() | st.lists(st.none() | st.integers(2**53 - 2, 2**53 + 2), max_size=3).map(tuple), max_size=2
    ).map(tuple),
    "list<float64>": st.lists(st.none() | st.floats(), max_size=3).map(tuple),
    "list<list<string>>": st.lists(
        st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2).map(tuple), max_size=2
    ).map(tuple),
}


@st.composite
def batches(draw, types=tuple(VALUES), *, nulls=True):
    """A schema and rows of it, the values as checked rows have them."""
    names = draw(st.lists(st.sampled_from(types), min_size=1, max_size=4))
    odd = draw(st.sampled_from(["", " b", '"', "é", "'", ","]))
    forbids = [draw(st.booleans()) or not nulls for _ in names]
    schema = Schema.of({f"c{i}{odd}": t + " not null" * f for i, (t, f) in enumerate(zip(names, forbids))})
    values = [VALUES[t] if f else st.none() | VALUES[t] for t, f in zip(names, forbids)]
    return schema, checked_rows(schema, draw(st.lists(st.tuples(*values), max_size=6)), "rows")


def table_of(batch):
    schema, rows = batch
    return arrow_table(schema, rows)


def read_back(schema, data):
    """Return what comes in through a boundary, as Python rows."""
    return python_rows(checked_batch(schema, data, "input 'x'"))


class Stream:
    """Nothing but an ``__arrow_c_stream__``."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Array:
    """Nothing but an ``__arrow_c_array__``."""

    def __init__(self, table):
        (self._batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)
