"""Window calls worked out by the recompute kernel, and by the reference beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.boundary.results import arrow_table
from tidemill.boundary.rows import checked_rows, python_rows
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.bound import CallError, value_fields
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows, encode
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.ordering import GivenRows
from tidemill.renderer.reference.windows import with_values


def values(schema, rows: Any, **calls):
    """Return ``(row, values of the calls)`` for each copy of each row, by partition and in the order of the first call.

    All calls are over one partitioning and order. That the reference says the same is checked.
    """
    wide, bound = wide_rows(schema, rows, calls)
    found = by_kernel(wide, bound)
    expected = by_reference(wide, bound)
    assert Counter(row for row in found) == expected
    inputs, width = bound.windows.row, len(bound.columns)
    return [(tuple(row[i] for i in inputs), row[width:]) for row in found]


def column(schema, rows: Any, call):
    """Return a call's values, for each copy of each row, by partition and in the call's order."""
    return [v for _, (v,) in values(schema, rows, value=call)]


def wide_rows(schema, rows, calls):
    """Return the rows that calls are computed from, with their counts, and the calls as they are bound."""
    schema = Schema.of(schema)
    rows = rows if isinstance(rows, dict) else Counter(checked_rows(schema, rows, "rows"))
    (bound,) = bind_windows(calls.items(), schema)
    arrays = [c.combine_chunks() for c in arrow_table(schema, list(rows)).columns]
    columns = [compile_scalar(b)(arrays, len(rows)) for _, b in bound.columns]
    wide = Schema(tuple(Field(name, b.dtype, b.nullable) for name, b in bound.columns))
    table = pa.table(columns, schema=wide.to_arrow())
    return (wide, dict(zip(python_rows(table), rows.values()))), bound


def by_kernel(wide, bound):
    schema, rows = wide
    interner = Interner()
    codes = encode(schema, list(rows), interner)
    keys = {key: i for i, key in enumerate(dict.fromkeys(row[: bound.keys] for row in rows))}
    partition = np.array([keys[row[: bound.keys]] for row in rows], np.int64)
    given = GivenRows(partition, codes.reshape(len(schema), len(rows)), np.array(list(rows.values()), np.int64))
    source, found = recompute(bound.windows, schema.dtypes, given, interner)
    out = Schema((*schema, *value_fields(bound.windows)))
    return decode_rows(out, np.concatenate((given.codes.take(source, axis=1), found)), interner)


def by_reference(wide, bound):
    partitions = defaultdict(dict)
    for row, count in wide[1].items():
        partitions[row[: bound.keys]][row] = count
    found = Counter()
    for rows in partitions.values():
        found.update(with_values(bound.windows, rows))
    return found


def outcome(compute, *given):
    """Return what is computed, or which call failed and why."""
    try:
        return compute(*given)
    except CallError as error:
        return error.call, error.reason
