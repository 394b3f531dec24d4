"""Rows that are looked through by columns come out as if each value had been looked at."""

import datetime as dt
import decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.boundary import rows as boundary_rows
from tidemill.boundary.rows import checked_rows, plain_rows
from tidemill.errors import RowError
from tidemill.expressions.schema import Schema

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 0, 5)
ODD = [
    *[None, True, 0, 2**31, -(2**31), 2**63 - 1, -(2**63), 1.5, -0.0, float("nan"), float("inf"), decimal.Decimal(1)],
    *["a", "äß", "\ud800", b"a", dt.date(2024, 2, 29), MOMENT, MOMENT.replace(fold=1)],
    MOMENT.replace(tzinfo=dt.UTC),
]
OF_TYPE = {
    "int32": st.integers(-(2**31), 2**31 - 1), "int64": st.integers(-(2**63) + 1, 2**63 - 1), "bool": st.booleans(),
    "float64": st.floats(), "string": st.text(max_size=3), "binary": st.binary(max_size=3), "date": st.dates(),
    "timestamp": st.datetimes(), "decimal(5,2)": st.integers(-9, 9).map(decimal.Decimal),
}  # fmt: skip


def looked_at(schema, rows):
    """Rows looked at value by value, or what is wrong with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundary_rows, "FEW", len(rows))
        return found(schema, rows)


def found(schema, rows):
    try:
        return repr(checked_rows(schema, rows, "input 'x'"))
    except RowError as error:
        return f"{error}"


def drawn_of(dtype, plain):
    """Values of a type, or now and then any."""
    return OF_TYPE[dtype] if plain else st.sampled_from(ODD)


@given(st.data())
@examples(200)
def test_by_columns_is_value_by_value(data):
    names = data.draw(st.lists(st.sampled_from(list(OF_TYPE)), min_size=1, max_size=3))
    schema = Schema.of({f"c{i}": t + data.draw(st.sampled_from(["", " not null"])) for i, t in enumerate(names)})
    often = st.integers(0, 9)
    columns = [often.flatmap(partial(drawn_of, t)) for t in names]
    rows = data.draw(st.lists(st.tuples(*columns), min_size=3, max_size=6))
    assert found(schema, rows) == looked_at(schema, rows)


def test_rows_as_they_are_kept_are_not_looked_at_one_by_one():
    schema = Schema.of({"i": "int64", "s": "string", "t": "timestamp", "f": "float64"})
    rows = [(1, "ä", MOMENT, -0.0), (None, None, None, None)]
    assert repr(plain_rows(schema, rows)) == repr([(1, "ä", MOMENT, 0.0), (None, None, None, None)])
    for other in ([1, "a", MOMENT, 0.0], (1, "a", MOMENT), (1, "a", MOMENT.replace(fold=1), 0.0), (1, "a", None, 0)):
        assert plain_rows(schema, [*rows, other]) is None


def test_what_is_handed_in_may_change_afterwards():
    rows = [(1,), (2,), (3,)]
    kept = checked_rows(Schema.of({"i": "int64"}), rows, "input 'x'")
    rows.append((4,))
    assert kept == [(1,), (2,), (3,)]
