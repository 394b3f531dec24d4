"""Columns made without a look at what they are: the same as Arrow makes of them, cut anywhere, and back."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.boundary import arrow_arrays as arrays

NUMBERS = [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]
VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats() | st.sampled_from([-0.0, math.nan]),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3) | st.sampled_from(["é", "\0", "\U0001f600"]),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.binary(): st.binary(max_size=3),
    pa.decimal128(9, 2): st.decimals(-9999, 9999, places=2),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(0, 9), max_size=2),
}


def columns(of):
    return st.lists(st.none() | of, max_size=20)


def cut(array, data):
    start = data.draw(st.integers(0, len(array)))
    return slice(start, start + data.draw(st.integers(0, len(array) - start)))


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@given(st.data())
def test_values_from_python(dtype, data):
    values = data.draw(columns(VALUES[dtype]))
    for given_values in (values, tuple(values)):
        made = arrays.value_array(given_values, dtype)
        made.validate(full=True)
        assert made.type == dtype
        assert repr(made.to_pylist()) == repr(pa.array(values, dtype).to_pylist())
    for value in values[:3]:
        assert repr(arrays.arrow_scalar(value, dtype)) == repr(pa.scalar(value, dtype))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=20), st.data())
def test_numbers_there_and_back(dtype, rows, data):
    values, null = np.array([v for v, _ in rows], dtype.to_pandas_dtype()), np.array([n for _, n in rows], bool)
    for mask in (None, null):
        made = arrays.plain_array(dtype, values, mask)
        made.validate(full=True)
        here = cut(made, data)
        some = made.slice(here.start, here.stop - here.start)
        known = [None if mask is not None and n else v for v, n in rows]
        assert some.to_pylist() == known[here]
        assert arrays.numbers_of(some).tolist() == [0 if v is None else v for v in known[here]]
        whole = pa.chunked_array([made.slice(0, here.start), made.slice(here.start)], dtype)
        assert arrays.numbers_of(whole).tolist() == [0 if v is None else v for v in known]
    assert arrays.numbers_of(pa.chunked_array([], dtype)).tolist() == []


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20), st.data())
def test_truths_there_and_back(rows, data):
    null = np.array([n for _, n in rows], bool)
    made = arrays.bool_array(np.array([v for v, _ in rows], bool), null)
    values = [None if n else v for v, n in rows]
    here = cut(made, data)
    some = made.slice(here.start, here.stop - here.start)
    assert some.to_pylist() == values[here]
    assert arrays.truths_of(some).tolist() == [bool(v) for v in values[here]]
    assert arrays.truths_of(some.is_null()).tolist() == null[here].tolist()


@pytest.mark.parametrize("count", [3, 20_000])
def test_many_dates_and_texts_are_what_few_are(count):
    days = [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)] * (count // 3)
    texts = ["", None, "é\0"] * (count // 3)
    assert arrays.value_array(days, pa.date32()).equals(pa.array(days, pa.date32()))
    assert arrays.value_array(texts, pa.string()).equals(pa.array(texts, pa.string()))


def test_texts_of_more_bytes_than_an_array_holds_are_arrows_business(monkeypatch):
    monkeypatch.setattr(arrays, "_MOST", 3)
    assert arrays.text_array(["ab", "", "cd"], np.array([False, True, False])).to_pylist() == ["ab", None, "cd"]
    monkeypatch.setattr(arrays, "_STRING", pa.binary())
    assert arrays.text_array(["ab", "cd"]).type == pa.binary()
