"""Single functions whose meaning or type was not Spark's. Expected values are those of Spark 4 with ANSI mode on."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import Call, col, lit
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr, to_sql
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

D = decimal.Decimal
SCHEMA = Schema.of(
    {"i": "int64", "n": "int32", "s": "string", "t": "timestamp", "day": "date", "wide": "decimal(38,10)",
     "d": "decimal(10,2)", "all": "decimal(38,38)"}
)  # fmt: skip
ROW = (-8, -8, "baac", dt.datetime(1969, 12, 31, 1, 2, 3, 456_000), dt.date(2021, 1, 3),
       D("1234567890123456789012345678.1234567891"), D("2.35"), D("0." + "9" * 38))  # fmt: skip


def value(text: str) -> Any:
    tree = bind(expr(text), SCHEMA)
    assert bind(expr(to_sql(tree)), SCHEMA) == tree
    columns = [pa.array([v], f.dtype.arrow) for v, f in zip(ROW, SCHEMA, strict=True)]
    found = evaluate(tree, ROW)
    assert repr(compile_scalar(tree)(columns, 1)[0].as_py()) == repr(found)
    return found


@pytest.mark.parametrize(("text", "expected"), [
    ("i >>> 1", 9223372036854775804), ("n >>> 1", 2147483644), ("i >> 1", -4), ("1 < i >>> 1", True),
    ("i >>> 1 >>> 62", 1),
    ("extract(second from t)", D("3.456000")), ("date_part('secs', day)", D("0.000000")),
    ("extract(yearofweek from day)", 2020), ("extract(dayofweek_iso from day)", 7), ("extract(dow_iso from t)", 3),
    ("extract(yearofweek from date '0001-01-01')", 1), ("extract(yearofweek from date '9999-12-31')", 9999),
    ("x'0'", b"\x00"), ("x'012'", b"\x00\x12"), ("x''", b""), ("X'aB'", b"\xab"),
    ("round(wide, 10)", ROW[5]), ("round(wide, 9)", D("1234567890123456789012345678.123456789")),
])  # fmt: skip
def test_values(text: str, expected: Any) -> None:
    assert repr(value(text)) == repr(expected)


@pytest.mark.parametrize(("text", "expected"), [
    ("round(wide, 10)", "decimal(38,10)"), ("round(wide, 9)", "decimal(38,9)"), ("round(wide, 12)", "decimal(38,10)"),
    ("round(d, 5)", "decimal(11,2)"), ("round(d, 1)", "decimal(10,1)"), ("round(d)", "decimal(9,0)"),
    ("round(d, -1)", "decimal(9,0)"), ("round(d, -9)", "decimal(10,0)"), ("round(d, -40)", "decimal(38,0)"),
    ("round(`all`, 38)", "decimal(38,38)"), ("round(`all`, 37)", "decimal(38,37)"),
    ("extract(second from t)", "decimal(8,6)"), ("extract(yearofweek from t)", "int32"),
    ("extract(dow_iso from t)", "int32"), ("n >>> 1", "int32"), ("i >>> 1", "int64"),
])  # fmt: skip
def test_types(text: str, expected: str) -> None:
    assert str(bind(expr(text), SCHEMA).dtype) == expected


@pytest.mark.parametrize("text", ["i >>> 1 & 3", "i >>>> 1", "x'0g'", "x'a b'"])
def test_what_is_refused_is_refused_by_an_error_of_ours(text: str) -> None:
    with pytest.raises(SchemaError):
        bind(expr(text), SCHEMA)


@pytest.mark.parametrize(("text", "pattern", "replacement", "expected"), [
    ("baac", "a*?", "x", "xbxaxaxcx"), ("baac", "a*", "x", "xbxxcx"), ("baac", "(|a)", "x", "xbxaxaxcx"),
    ("baac", "(a|)", "x", "xbxxxcx"), ("baac", "", "x", "xbxaxaxcx"), ("aaa", "a?", "x", "xxxx"),
    ("aab", "a??", "<$0>", "<>a<>a<>b<>"), ("abc", "b|$", "x", "axcx"), ("abc\n", "$", "x", "abcx\nx"),
    ("abc", "^", "x", "xabc"), ("abab", "(?=b)", "x", "axbaxb"), ("abab", "(?<=a)", "x", "axbaxb"),
    ("abab", r"\b", "x", "xababx"), ("", "a*", "x", "x"),
])  # fmt: skip
def test_empty_matches_are_replaced_as_in_java(text: str, pattern: str, replacement: str, expected: str) -> None:
    tree = bind(Call("regexp_replace", (col("s"), lit(pattern), lit(replacement))), Schema.of({"s": "string"}))
    assert evaluate(tree, (text,)) == expected
    assert compile_scalar(tree)([pa.array([text, text])], 2).to_pylist() == [expected, expected]


@examples(30)
@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))
def test_parts_are_those_of_the_iso_calendar(moment: dt.datetime) -> None:
    schema = Schema.of({"t": "timestamp"})
    tree = [bind(expr(f"extract({part} from t)"), schema) for part in ("yearofweek", "week", "dow_iso", "second")]
    iso = moment.isocalendar()
    expected = [iso.year, iso.week, iso.weekday, D(moment.second) + D(moment.microsecond).scaleb(-6)]
    assert [evaluate(e, (moment,)) for e in tree] == expected
    assert [compile_scalar(e)([pa.array([moment], pa.timestamp("us"))], 1)[0].as_py() for e in tree] == expected
