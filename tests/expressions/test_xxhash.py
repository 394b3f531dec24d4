"""The hash of rows is Spark's: on values that Spark 4 gave, against the reference, and against the XXH64 of its author."""

# ruff: noqa: E501 - tables of examples

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.expressions.functions.xxhash import xxh64, xxhash64_of
from tidemill.expressions.types import dtype
from tidemill.renderer.embedded.kernels.hashing import xxhash64_columns

D = decimal.Decimal
LONG = D("12345678901234567890.123456789012345678")

SPARK: list[tuple[str, Any, int]] = [
    ("int32", 1, -6698625589789238999), ("int64", 1, -7001672635703045582), ("int32", -1, 2017008487422258757),
    ("int64", -(2**63) + 1, -3362613479881488794), ("bool", True, -6698625589789238999), ("bool", False, 3614696996920510707),
    ("float64", 0.0, -5252525462095825812), ("float64", -0.0, -5252525462095825812), ("float64", math.nan, -3127944061524951246),
    ("float64", 1.5, 7738255526519901366), ("float64", -math.inf, 5326262080505358431), ("date", dt.date(2020, 2, 29), 4513731581078689977),
    ("date", dt.date(1, 1, 1), 6773727150484150602), ("timestamp", dt.datetime(2020, 2, 29, 1, 2, 3, 450_000), 4432120632952996101),
    ("decimal(10,2)", D("-0.05"), -5259934538394028452), ("decimal(18,0)", D(2), -3341702809300393011), ("decimal(38,0)", D(-128), -7898411661632158123),
    ("decimal(38,0)", D(128), 6715097930120473301), ("decimal(19,0)", D(-129), -6459515886037897956), ("decimal(38,18)", D(0), -8959994473701255385),
    ("decimal(38,18)", LONG, -4207986725797954644), ("decimal(38,18)", LONG.copy_negate(), -1094212970759588400), ("string", "", -7444071767201028348),
    ("string", "a", -8582455328737087284), ("string", "abc", 1423657621850124518), ("string", "äöüß", -8961456509915609351), ("string", "Spark", -4294468057691064905),
    ("string", "12345678", 6863040065134489090), ("string", "0123456789abcdef" * 2, 7380026953736478117),
    ("string", "0123456789abcdef" * 4 + "0123456789", -369719119002913282), ("binary", b"\x00\xff", 879945414100663330), ("string", None, 42),
]  # fmt: skip


@pytest.mark.parametrize(("of_type", "value", "expected"), SPARK)
def test_values_are_sparks(of_type: str, value: Any, expected: int) -> None:
    assert xxhash64_of([value], [dtype(of_type)]) == expected
    assert xxhash64_columns([pa.array([value], dtype(of_type).arrow)]).tolist() == [expected]


def test_a_row_is_hashed_column_by_column_and_nulls_are_left_out() -> None:
    row, types = [1, "a", None, 2.5], [dtype(t) for t in ("int64", "string", "int32", "float64")]
    assert xxhash64_of(row, types) == -5487148875980390079
    assert xxhash64_columns([pa.array([v], t.arrow) for v, t in zip(row, types, strict=True)]).tolist() == [
        -5487148875980390079
    ]
    assert xxhash64_of(["a", "b"], [dtype("string")] * 2) == -7357372313250070212


def test_a_struct_is_hashed_as_its_fields_would_be_as_columns() -> None:
    of = dtype("struct<a: int64, b: struct<c: string, l: list<int64>>>")
    for value in ((1, ("x", (2, None))), (None, (None, ())), (7, None), None):
        flat = [] if value is None else [value[0], *(value[1] or (None, None))]
        expected = xxhash64_of(
            ["k", *flat], [dtype(t) for t in ("string", "int64", "string", "list<int64>")][: len(flat) + 1]
        )
        assert xxhash64_of(["k", value], [dtype("string"), of]) == expected
        assert xxhash64_columns([pa.array(["k"]), pa.array([value], of.arrow)]).tolist() == [expected]


def test_a_list_is_hashed_as_its_values_would_be_as_columns() -> None:
    """What Spark says of an array: each value with the hash so far as its seed, and nothing for NULL or no value."""
    for values in ((1, None, 2), (), (None,)):
        expected = xxhash64_of(["a", *values], [dtype("string"), *[dtype("int64")] * len(values)])
        row, types = ["a", values], [dtype("string"), dtype("list<int64>")]
        assert xxhash64_of(row, types) == expected
        assert xxhash64_columns([pa.array([v], t.arrow) for v, t in zip(row, types, strict=True)]).tolist() == [
            expected
        ]


def test_the_authors_own_vectors() -> None:
    # XXH64 of nothing, and of the bytes that its repository tests with.
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999


VALUES = {
    "int32": st.integers(-(2**31), 2**31 - 1), "int64": st.integers(-(2**63), 2**63 - 1), "bool": st.booleans(), "float64": st.floats(),
    "date": st.dates(), "timestamp": st.datetimes(), "string": st.text(max_size=80), "binary": st.binary(max_size=200),
    "decimal(18,3)": st.decimals(-(10**14), 10**14, places=3), "list<string>": st.lists(st.none() | st.text(max_size=9), max_size=3).map(tuple),
    "list<list<int32>>": st.lists(st.none() | st.lists(st.integers(-9, 9), max_size=2).map(tuple), max_size=3).map(tuple), "decimal(38,5)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda v: D(v).scaleb(-5, decimal.Context(prec=60))),
}  # fmt: skip


@given(st.lists(st.tuples(*(st.none() | v for v in VALUES.values())), min_size=1, max_size=8), st.integers(0, 3))
@examples(150)
def test_columns_agree_with_rows(rows: list[tuple[Any, ...]], cut: int) -> None:
    types = [dtype(t) for t in VALUES]
    columns = [pa.array([r[i] for r in rows], t.arrow) for i, t in enumerate(types)]
    expected = [xxhash64_of(r, types) for r in rows]
    assert xxhash64_columns(columns).tolist() == expected
    assert xxhash64_columns([c.slice(cut) for c in columns]).tolist() == expected[cut:]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20))
def test_bytes_agree_with_the_xxhash_package(pieces: list[bytes]) -> None:
    import xxhash as theirs

    expected = [theirs.xxh64_intdigest(p, seed=42) for p in pieces]
    assert [xxh64(p, 42) for p in pieces] == expected
    for kind in (pa.binary(), pa.large_binary()):
        assert xxhash64_columns([pa.array(pieces, kind)]).view(np.uint64).tolist() == expected


def test_long_strings_and_no_rows() -> None:
    texts = ["x" * n for n in (100_000, 31, 32, 33, 5)] + [c * 3000 for c in "abcdefghijklmnopqrstu"]
    assert xxhash64_columns([pa.array(texts)]).tolist() == [xxhash64_of([t], [dtype("string")]) for t in texts]
    assert xxhash64_columns([pa.array([], pa.string())]).tolist() == []
    with pytest.raises(TypeError, match="no hash for columns of map"):
        xxhash64_columns([pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))])
