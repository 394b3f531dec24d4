"""Casts of text: Spark's ANSI casts, in a literal as in a column, on every evaluator. Expected values are Spark 4's.

Text with a zone is the same moment in UTC, as for Spark's TIMESTAMP in a session whose time zone is UTC.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start

import tidemill as tm
from tidemill.errors import ExpressionError, SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

D = decimal.Decimal
SCHEMA = Schema.of({"s": "string", "ts": "timestamp", "day": "date"})
REFUSED = "refused"
JUNE = dt.datetime(2020, 6, 5)
AT = dt.datetime(2020, 6, 5, 1, 2, 3)

CASES: list[tuple[str, str, Any]] = [
    *[(text, "date", dt.date(*day)) for text, day in {
        "2020": (2020, 1, 1), "2020-06": (2020, 6, 1), "2020-1-5": (2020, 1, 5), " 2020-01-05\x01": (2020, 1, 5),
        "2020-01-05T10:00": (2020, 1, 5), "2020-01-05 foo": (2020, 1, 5), "2020-01-05T": (2020, 1, 5),
        "+2020-01-05": (2020, 1, 5), "02020-01-05": (2020, 1, 5), "\x7f2020-01-05": (2020, 1, 5)}.items()],
    *[(text, "date", REFUSED) for text in (
        "2020-W10-1", "20200101x", "2020-01-05x", "2020-", "2020-6-", "2020-001-05", "10000-01-05", "0000-01-05",
        "-0001-01-05", "2020-02-30", "20200101", "today", "", "٢٠٢٠-01-01")],
    *[(text, "timestamp", at) for text, at in {
        "2020": dt.datetime(2020, 1, 1), "2020-06": dt.datetime(2020, 6, 1), "2020-6-5": JUNE, "2020-06-05 ": JUNE,
        "2020-06-05 1": JUNE.replace(hour=1), "2020-06-05T1:2": AT.replace(second=0), "2020-06-05 1:2:3": AT,
        "2020-06-05 1:2:3.": AT, "2020-06-05 1:2:3.1234567": AT.replace(microsecond=123_456),
        "2020-06-05 01:02:03.9999999": AT.replace(microsecond=999_999), "2020-06-05 01:02:03Z": AT,
        "2020-06-05 01:02:03 Z": AT, "2020-06-05 01:02:03UTC": AT, "2020-06-05 01:02:03.5 GMT": AT.replace(microsecond=500_000),
        **{f"2020-06-05 01:02:03{zone}": AT - dt.timedelta(hours=hours) for zone, hours in {
            "+01:00": 1, "+1": 1, "+01": 1, "+0100": 1, "+010000": 1, "+1:00": 1, "+01:00:00": 1, " UTC+1": 1, "GMT-1": -1,
            "-1:0": -1, " UT+18": 18, "-18:00": -18}.items()}}.items()],
    *[(text, "timestamp", REFUSED) for text in (
        "2020-06-05T", "2020-06-05t01:02:03", "2020-06-05  01:02:03", "2020-06-05 24:00:00", "2020-06-05 01:60:00",
        "2020-06-05 01:02:60", "2020-06-05 01:02:03z", "2020-06-05 01:02Z", "2020-06-05 01Z", "2020-06-05Z",
        "2020-06-05+01:00", "2020-06-05 01:02:03+19:00", "2020-06-05 01:02:03 foo", "2020-06-05 01:02:03+130",
        "99999-06-05 01:02:03", "2020-02-30 01:02:03", "2020-W10-1", "01:02:03", "now", "9999-12-31 23:59:59-01:00")],
    *[(text, "decimal(5,2)", D(value)) for text, value in {
        "1e2": "100.00", "1E-2": "0.01", "1.": "1.00", ".5": "0.50", " +1.5\x1f": "1.50", "1e-400": "0.00", "-0": "0.00",
        "0e1000000000": "0.00", "١": "1.00", "1.005": "1.01"}.items()],
    *[(text, "decimal(5,2)", REFUSED) for text in (
        ".", "", "1d", "nan", "1e40", "1e1000000000", "0e99999999999", "\x7f15", "1000", "0x1")],
    *[(text, "float64", value) for text, value in {
        "1d": 1.0, "1D": 1.0, "1f": 1.0, "1.5e3d": 1500.0, "0x1p3": 8.0, "-0x1.8p1D": -3.0, "1e400": float("inf"),
        "+inf": float("inf"), "-Infinity": float("-inf"), "\x0115\x1f": 15.0, "007": 7.0, "-0": -0.0}.items()],
    *[(text, "float64", REFUSED) for text in (
        "0x10", "+nan", "nand", "infd", "1e", "1_0", "-", "", "\x7f15", "١", "d")],
    *[(text, "int64", value) for text, value in {"\x0115\x1f": 15, "\x7f+15": 15, "-007": -7}.items()],
    *[(text, "int64", REFUSED) for text in ("1l", "1.5", "1.", "1e2", "١", "", "--1", "+", "\x8515", "9223372036854775808")],
    *[(text, "bool", value) for text, value in {"\x01true\x7f": True, "T": True, "no": False}.items()],
    *[(text, "bool", REFUSED) for text in ("on", "tru", "")],
]  # fmt: skip


def result(evaluation: Any) -> Any:
    try:
        return repr(evaluation())
    except ExpressionError as error:
        assert "does not fit" in str(error)
        return REFUSED


@pytest.mark.parametrize(("text", "to", "expected"), CASES)
def test_a_cast_of_text(text: str, to: str, expected: Any) -> None:
    want = expected if expected is REFUSED else repr(expected)
    of_column = bind(tm.col("s").cast(to), SCHEMA)
    of_literal = bind(tm.lit(text).cast(to), SCHEMA)
    for tree in (of_column, of_literal):
        assert result(lambda t=tree: evaluate(t, (text, None, None))) == want
        compiled = compile_scalar(tree)
        for texts in ([text], [text, "1", text], [None, text]):
            column = pa.array(texts)
            if expected is REFUSED or to not in ("date", "timestamp") or "1" not in texts:
                assert result(lambda c=column, f=compiled: f([c], len(c))[-1].as_py()) == want


def test_literals_with_a_zone_mean_one_thing(engine: str) -> None:
    flow = tm.Dataflow()
    c = flow.input("c", {"ts": "timestamp", "s": "string"})
    late = "timestamp '2020-01-01 00:00:00+01:00'"
    flow.output("found", c.filter(f"ts >= {late}").select(
        "ts", same=f"ts = {late}", beside="ts = '2020-01-01 00:00:00+01:00'", cast="cast(s as timestamp)",
        literal="cast('2020-01-01 00:00:00+01:00' as timestamp)"))  # fmt: skip
    eleven = dt.datetime(2019, 12, 31, 23)
    with start(flow, engine) as run:
        run.insert("c", [(eleven, "2020-01-01T00:00:00+01:00"), (dt.datetime(2019, 12, 31, 22, 59), None)])
        run.advance()
        assert list(run.snapshot("found")) == [(eleven, True, True, eleven, eleven)]


@pytest.mark.parametrize("text", ["day = '2020-W10-1'", "ts < '20200101'"])
def test_text_beside_a_date_is_one_only_in_the_forms_that_casts_take(text: str) -> None:
    with pytest.raises(SchemaError, match="cast one of them"):
        bind(expr(text), SCHEMA)


texts = st.text("0123456789-+:.eEdTZ \x01\x7f", max_size=12) | st.sampled_from([text for text, _, _ in CASES])


@pytest.mark.parametrize("to", ["int32", "int64", "float64", "decimal(7,3)", "bool", "date", "timestamp"])
def test_evaluators_read_text_alike(to: str) -> None:
    tree = bind(tm.col("s").cast(to), SCHEMA)

    @examples(60)
    @given(st.lists(st.none() | texts, min_size=1, max_size=4))
    def check(column: list[str | None]) -> None:
        expected = [result(lambda t=t: evaluate(tree, (t, None, None))) for t in column]
        found = [result(lambda t=t: compile_scalar(tree)([pa.array([t], pa.string())], 1)[0].as_py()) for t in column]
        assert found == expected
        if REFUSED not in expected:
            whole = compile_scalar(tree)([pa.array(column, pa.string())], len(column)).to_pylist()
            assert list(map(repr, whole)) == expected

    check()
