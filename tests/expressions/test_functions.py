"""The functions of everyday use: how they print and bind, what they give, and what is wrong with a call."""

# ruff: noqa: E501 - tables of examples

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.errors import ExpressionError, SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions import dates as da
from tidemill.expressions.functions import hashing as ha
from tidemill.expressions.functions import numbers as nu
from tidemill.expressions.functions import text as tx
from tidemill.expressions.intervals import DAYS, MICROSECONDS, MONTHS, Interval, interval_of
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr, to_sql
from tidemill.expressions.types import dtype
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

D = decimal.Decimal
SCHEMA = Schema.of(
    {"a": "int64", "b": "int64", "n": "int32", "f": "float64", "d": "decimal(10,2)", "s": "string", "t": "timestamp",
     "u": "timestamp", "day": "date", "p": "bool", "q": "bool", "raw": "binary", "big": "decimal(38,18)"}
)  # fmt: skip
ROW = (7, 2, 3, 1.5, D("2.50"), " ab ", dt.datetime(2020, 1, 31, 10, 5, 6, 700_000), dt.datetime(2020, 3, 1, 9),
       dt.date(2020, 1, 31), True, None, b"\x00\xff", D("1.5"))  # fmt: skip
MONTH = da.interval(months=1)
s, t, day, a, n = col("s"), col("t"), col("day"), col("a"), col("n")


def bound(given: str | Expr) -> Bound:
    return bind(expr(given) if isinstance(given, str) else given, SCHEMA)


BUILDERS = [
    (a & n, "a & n"), (a | 1, "a | 1"), (a ^ 1, "a ^ 1"), (1 ^ a, "1 ^ a"), (~a, "~a"), (~(a + 1), "~(a + 1)"),
    ((a & 1) | 2, "(a & 1) | 2"), (a & 1 & 2, "a & 1 & 2"), ((a & 1) == 1, "a & 1 = 1"), (col("p") & col("q"), "p AND q"),
    (a << 2, "SHIFTLEFT(a, 2)"), (1 << n, "SHIFTLEFT(1, n)"), (a >> 2, "SHIFTRIGHT(a, 2)"), (64 >> n, "SHIFTRIGHT(64, n)"),
    (nu.shiftleft(a, 1), "SHIFTLEFT(a, 1)"), (nu.shiftright(a, 1), "SHIFTRIGHT(a, 1)"),
    (nu.shiftrightunsigned(a, 1), "SHIFTRIGHTUNSIGNED(a, 1)"), (a**2, "POWER(a, 2)"), (2**a, "POWER(2, a)"),
    (nu.abs(a), "ABS(a)"), (nu.round(col("d"), 1), "ROUND(d, 1)"), (nu.round(a), "ROUND(a, 0)"), (nu.floor(col("f")), "FLOOR(f)"),
    (nu.ceil(col("d")), "CEIL(d)"), (nu.sign(a), "SIGN(a)"), (nu.sqrt(a), "SQRT(a)"), (nu.exp(a), "EXP(a)"), (nu.ln(a), "LN(a)"),
    (nu.log10(a), "LOG10(a)"), (nu.log2(a), "LOG2(a)"), (nu.power(a, 2), "POWER(a, 2)"), (nu.pmod(a, 3), "PMOD(a, 3)"),
    (nu.isnan(col("f")), "ISNAN(f)"), (tx.initcap(s), "INITCAP(s)"), (tx.reverse(s), "REVERSE(s)"), (tx.ascii(s), "ASCII(s)"),
    (tx.chr(a), "CHR(a)"), (tx.concat_ws(",", s, lit("x")), "CONCAT_WS(',', s, 'x')"), (tx.substring(s, 2), "SUBSTRING(s, 2, 2147483647)"),
    (tx.left(s, 2), "LEFT(s, 2)"), (tx.right(s, 2), "RIGHT(s, 2)"), (tx.repeat(s, 2), "REPEAT(s, 2)"), (tx.lpad(s, 5), "LPAD(s, 5, ' ')"),
    (tx.rpad(s, 5, "xy"), "RPAD(s, 5, 'xy')"), (tx.ltrim(s), "LTRIM(s)"), (tx.rtrim(s), "RTRIM(s)"), (tx.upper(s), "UPPER(s)"),
    (tx.lower(s), "LOWER(s)"), (tx.trim(s), "TRIM(s)"), (tx.length(s), "LENGTH(s)"), (tx.concat(s, s), "CONCAT(s, s)"),
    (tx.replace(s, "a", "b"), "REPLACE(s, 'a', 'b')"), (tx.translate(s, "ab", "x"), "TRANSLATE(s, 'ab', 'x')"),
    (tx.instr(s, "b"), "LOCATE('b', s, 1)"), (tx.locate("b", s, 2), "LOCATE('b', s, 2)"), (tx.split_part(s, ",", -1), "SPLIT_PART(s, ',', -1)"),
    (tx.ilike(s, "%B"), "LOWER(s) LIKE '%b'"), (s.rlike("^a+"), "REGEXP_LIKE(s, '^a+')"), (tx.regexp_like(s, "a"), "REGEXP_LIKE(s, 'a')"),
    (tx.regexp_replace(s, r"(\d)", "<$1>"), r"REGEXP_REPLACE(s, '(\\d)', '<$1>')"), (tx.regexp_extract(s, "(a)"), "REGEXP_EXTRACT(s, '(a)', 1)"),
    *[(getattr(da, f)(t), f"{f.upper()}(t)") for f in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear",
                                                       "weekofyear", "hour", "minute", "second", "unix_seconds", "unix_millis", "unix_micros")],
    (da.extract("week", t), "WEEKOFYEAR(t)"), (da.hour(day), "HOUR(day)"), (da.date_trunc("mon", t), "DATE_TRUNC('MONTH', t)"),
    (da.trunc(day, "week"), "TRUNC(day, 'WEEK')"), (da.trunc(t, "week"), "TRUNC(CAST(t AS DATE), 'WEEK')"), (da.date_add(day, n), "DATE_ADD(day, n)"),
    (da.date_sub(day, 1), "DATE_SUB(day, 1)"), (da.datediff(day, t), "DATEDIFF(day, CAST(t AS DATE))"), (da.add_months(day, n), "ADD_MONTHS(day, n)"),
    (da.last_day(day), "LAST_DAY(day)"), (da.make_date(2020, 1, n), "MAKE_DATE(2020, 1, n)"), (da.timestampadd("minutes", a, t), "TIMESTAMPADD(MINUTE, a, t)"),
    (da.timestampdiff("day", t, day), "TIMESTAMPDIFF(DAY, t, day)"), (da.unix_date(day), "UNIX_DATE(day)"), (da.date_from_unix_date(n), "DATE_FROM_UNIX_DATE(n)"),
    (da.timestamp_seconds(a), "TIMESTAMP_SECONDS(a)"), (da.timestamp_millis(a), "TIMESTAMP_MILLIS(a)"), (da.timestamp_micros(n), "TIMESTAMP_MICROS(n)"),
    (da.to_date(s), "CAST(s AS DATE)"), (da.to_timestamp(day), "CAST(day AS TIMESTAMP_NTZ)"), (da.date_diff(day, lit("2020-01-01")), "DATEDIFF(day, CAST('2020-01-01' AS DATE))"),
    (t + dt.timedelta(minutes=5), "t + INTERVAL '5' MINUTE"), (dt.timedelta(days=1) + t, "INTERVAL '1' DAY + t"), (t - dt.timedelta(seconds=90), "t - INTERVAL '90' SECOND"),
    (t - dt.timedelta(days=-1, microseconds=1), "t - INTERVAL '-0 23:59:59.999999' DAY TO SECOND"), (day + dt.timedelta(days=7), "day + INTERVAL '7' DAY"),
    (day + dt.timedelta(hours=25), "day + INTERVAL '25' HOUR"), (t + da.interval(years=1, months=2), "t + INTERVAL '14' MONTH"),
    (day - MONTH, "day - INTERVAL '1' MONTH"), (day + -MONTH, "day + INTERVAL '-1' MONTH"), (day + 1, "day + 1"), (1 + day, "1 + day"), (day - n, "day - n"),
    (t + da.interval(days=1, minutes=1), "t + INTERVAL '1441' MINUTE"), (ha.xxhash64(a, s), "XXHASH64(a, s)"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "text"), BUILDERS, ids=[x for _, x in BUILDERS])
def test_builders_print_as_sql_and_read_back(expression: Expr, text: str) -> None:
    tree = bound(expression)
    assert to_sql(tree) == text
    assert bound(text) == tree
    again = bound(to_sql(tree, explicit=True))
    assert again == tree or text.startswith(("DATE_TRUNC", "TIMESTAMP_", "TIMESTAMPDIFF"))
    assert again.dtype == tree.dtype


SQL = [
    ("a & b = 2", "a & b = 2", "bool"), ("-a & ~b", "-a & ~b", "int64"), ("n & n", "n & n", "int32"), ("n << 1", "SHIFTLEFT(n, 1)", "int32"),
    ("shiftright(n, b)", None, None), ("mod(a, 2)", "a % 2", "int64"), ("d % 2", "d % 2", "decimal(3,2)"), ("d / d", "d / d", "decimal(23,13)"),
    ("div(d, 2)", "d DIV 2", "int64"), ("pmod(n, n)", "PMOD(n, n)", "int32"), ("round(d)", "ROUND(d, 0)", "decimal(9,0)"), ("round(d, -3)", "ROUND(d, -3)", "decimal(9,0)"),
    ("round(n, 2)", "ROUND(n, 2)", "int32"), ("floor(big)", "FLOOR(big)", "decimal(21,0)"), ("ceiling(n)", "CEIL(n)", "int64"), ("log(f)", "LN(f)", "float64"),
    ("ucase(lcase(s))", "UPPER(LOWER(s))", "string"), ("substr(s, 1)", "SUBSTRING(s, 1, 2147483647)", "string"), ("position('a' in s)", "LOCATE('a', s, 1)", "int32"),
    ("charindex('a', s)", "LOCATE('a', s, 1)", "int32"), ("s rlike 'a'", "REGEXP_LIKE(s, 'a')", "bool"), ("s not rlike 'a'", "NOT REGEXP_LIKE(s, 'a')", "bool"),
    ("s not ilike 'A'", "NOT LOWER(s) LIKE 'a'", "bool"), ("nvl2(a, b, 0)", "CASE WHEN NOT a IS NULL THEN b ELSE 0 END", "int64"), ("isnotnull(a)", "NOT a IS NULL", "bool"),
    ("isnull(a)", "a IS NULL", "bool"), ("nullif(a, 1)", "CASE WHEN a = 1 THEN NULL ELSE a END", "int64"), ("bigint(s)", "CAST(s AS BIGINT)", "int64"), ("string(a)", "CAST(a AS STRING)", "string"),
    ("extract(doy from day)", "DAYOFYEAR(day)", "int32"), ("date_part('dow', t)", "DAYOFWEEK(t)", "int32"), ("dayofmonth(t)", "DAY(t)", "int32"), ("dateadd(day, 2)", "DATE_ADD(day, 2)", "date"),
    ("dateadd(hour, n, t)", "TIMESTAMPADD(HOUR, n, t)", "timestamp"), ("datediff(month, t, u)", "TIMESTAMPDIFF(MONTH, t, u)", "int64"), ("date_diff(day, day)", "DATEDIFF(day, day)", "int32"),
    ("to_date(s)", "CAST(s AS DATE)", "date"), ("to_timestamp(s)", "CAST(s AS TIMESTAMP_NTZ)", "timestamp"), ("date(t)", "CAST(t AS DATE)", "date"),
    ("t - interval 1 day 2 hours", "t - INTERVAL '26' HOUR", "timestamp"), ("t + interval '1 day 2 hours'", "t + INTERVAL '26' HOUR", "timestamp"),
    ("t + interval '1 02:03:04.5' day to second", "t + INTERVAL '1 02:03:04.500000' DAY TO SECOND", "timestamp"), ("day + interval '1-2' year to month", "day + INTERVAL '14' MONTH", "date"),
    ("t + interval '02:30' hour to minute", "t + INTERVAL '150' MINUTE", "timestamp"), ("t + interval '-1.5' second", "t + INTERVAL '-0 00:00:01.500000' DAY TO SECOND", "timestamp"),
    ("interval -1 week + day", "INTERVAL '-7' DAY + day", "date"), ("day - interval (1) quarter", "day - INTERVAL '3' MONTH", "date"), ("hash64(a)", "XXHASH64(a)", "int64"), ("left(s, null)", "CAST(NULL AS STRING)", "string"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed", "of_type"), SQL, ids=[x for x, _, _ in SQL])
def test_sql_text(text: str, printed: str | None, of_type: str | None) -> None:
    if printed is None or of_type is None:
        with pytest.raises(SchemaError, match="expects a whole number .int32, int64. and a number of bits"):
            bound(text)
        return
    tree = bound(text)
    assert (to_sql(tree), tree.dtype) == (printed, dtype(of_type))
    assert bound(printed) == tree


@pytest.mark.parametrize(
    ("text", "for_spark"),
    [("date_trunc('month', t)", "CAST(TRUNC(CAST(t AS DATE), 'MONTH') AS TIMESTAMP_NTZ)"), ("date_trunc('day', t)", "CAST(CAST(t AS DATE) AS TIMESTAMP_NTZ)"),
     ("date_trunc('hour', t)", "TIMESTAMPADD(HOUR, (UNIX_MICROS(t) - UNIX_MICROS(CAST('0001-01-01 00:00:00' AS TIMESTAMP_NTZ))) DIV CAST(3600000000 AS BIGINT), CAST('0001-01-01 00:00:00' AS TIMESTAMP_NTZ))"),
     ("timestampdiff(week, t, day)", "(UNIX_MICROS(CAST(day AS TIMESTAMP_NTZ)) - UNIX_MICROS(t)) DIV CAST(604800000000 AS BIGINT)"),
     ("timestamp_seconds(a)", "TIMESTAMPADD(SECOND, a, CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ))"), ("hour(day)", "HOUR(CAST(day AS TIMESTAMP_NTZ))")],
)  # fmt: skip
def test_text_for_spark_does_not_depend_on_its_time_zone(text: str, for_spark: str) -> None:
    assert to_sql(bound(text), explicit=True) == for_spark
    assert evaluate(bound(for_spark), ROW) == evaluate(bound(text), ROW)


ERRORS = [
    ("a & p", "`a & p` gets int64 and bool: & expects two whole numbers (int32, int64); cast one of them"),
    ("a | b & n", "write parentheses where & | ^ << >> meet"), ("d & 1", "& expects two whole numbers"),
    ("now()", "NOW() in `now()` is not supported in a scalar expression: it is no function of the row"),
    ("current_date", "cannot be kept up to date; bring the value in as a column or an input"), ("current_timestamp()", "it is no function of the row"),
    ("rand() < 0.5", "RAND() in `rand() < 0.5`"), ("uuid()", "it is no function of the row"), ("uper(s)", "no function `uper`; did you mean 'upper'"), ("count(a)", "an aggregate is no function of one row"),
    ("log(2, s)", "LOG expects a base and a number"), ("'it''s'", "for a quote within a string write \\'"),
    ("s rlike s", "`s` in `REGEXP_LIKE(s, s)` has to be a literal"), ("s rlike '(?P<x>a)'", "is no regular expression that every engine reads: it has '(?P<x>a)' at 0"),
    ("s rlike 'a**'", "is no regular expression that every engine reads: multiple repeat"), ("s rlike '\\\\p{L}'", "it has '\\\\p{L}' at 0"),
    ("regexp_extract(s, '(a)', 2)", "'(a)' has no group 2: it has 1, and 0 is the whole match"), ("regexp_extract(s, '(')", "is no regular expression"),
    ("regexp_replace(s, 'a', '$1')", "'$1' cannot replace 'a', which has 0 groups: $1 is no group; \\$ is a dollar"), ("regexp_replace(s, 'a', 'x\\\\')", "it ends in a single \\"),
    ("regexp_replace(s, '(', 'x')", "is no regular expression"), ("split_part(s, ',', 0)", "there is no part 0"), ("lpad(s, n)", "`n` in `LPAD(s, n)` has to be a literal"),
    ("round(d, n)", "`n` in `ROUND(d, n)` has to be a literal"), ("date_trunc('fortnight', t)", "'fortnight' is no unit of time: expected one of YEAR, QUARTER"),
    ("trunc(day, 'hour')", "'hour' is no unit that a date is truncated to: expected one of YEAR, QUARTER, MONTH, WEEK"), ("timestampadd(eon, 1, t)", "'eon' is no unit of time"),
    ("interval 1 month", "`INTERVAL '1' MONTH` is no value of a column: add it to a date or a timestamp"), ("t + interval n day", "TIMESTAMPADD(unit, number, t) takes any"),
    ("case when p then interval 1 month end", "CASE expects"), ("cast(interval 1 day as string)", "there is no cast from interval of days to string"), ("interval 1 month = interval 1 day", "= expects values of one type"),
    ("t + interval 1 month 2 days", "add one after the other"), ("t + interval '1:2' hour to second", "INTERVAL '1:2' HOUR TO SECOND is no interval: expected a number and a unit"),
    ("t + interval '1.5' day", "INTERVAL '1.5' DAY is no interval"), ("t + interval 'soon'", "INTERVAL 'soon' in"), ("day + a", "`day + a` gets date and int64"),
    ("year(s)", "`YEAR(s)` gets string: YEAR expects a date or a timestamp; cast the argument"), ("xxhash64(null)", "NULL has no type in `XXHASH64(NULL)`: give it one"), ("xxhash64()", "gets nothing"),
    ("to_date(s, 'w')", "the pattern 'w': `w` at 0 is not supported"), ("timestamp_seconds(f)", "expects a whole number"), ("isnan(a)", "ISNAN expects a float64"), ("make_date(a, b, n)", "MAKE_DATE expects a year, a month and a day"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[x for x, _ in ERRORS])
def test_what_cannot_be_bound_says_why(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bound(text)
    assert message in str(caught.value)


def test_what_cannot_be_built_says_why() -> None:
    with pytest.raises(SchemaError, match=r"interval\(fortnights=1\): expected whole numbers of years, quarters"):
        da.interval(fortnights=1)
    with pytest.raises(SchemaError, match="add one after the other"):
        da.interval()
    with pytest.raises(SchemaError, match="an interval of days of .* is too long"):
        da.interval(days=2**70)
    with pytest.raises(SchemaError, match="EXTRACT.5 FROM"):
        da.extract(5, col("t"))  # type: ignore[arg-type]


def test_intervals() -> None:
    assert lit(dt.timedelta(days=2)).value == Interval(DAYS, 2)  # type: ignore[attr-defined]
    assert lit(dt.timedelta(hours=49)).value == Interval(MICROSECONDS, 49 * 3_600_000_000)  # type: ignore[attr-defined]
    assert interval_of("-1-2", "year", "month") == Interval(MONTHS, -14)
    assert interval_of("-0 00:00:00.000001", "DAY", "SECOND") == Interval(MICROSECONDS, -1)


EXAMPLES = [
    ("a & 3", 3), ("a | 8", 15), ("a ^ 2", 5), ("~a", -8), ("a << 2", 28), ("n << 33", 6), ("-a >> 1", -4), ("shiftrightunsigned(-n, 28)", 15), ("shiftleft(-a, 62)", 4611686018427387904),
    ("d % 2", D("0.50")), ("-d % 2", D("-0.50")), ("pmod(-d, 2)", D("1.50")), ("pmod(-a, 4)", 1), ("pmod(-a, -4)", -3), ("d / 3", D("0.833333")), ("d div 2", 1), ("-d div 2", -1),
    ("round(f)", 2.0), ("round(-0.4D)", 0.0), ("round(1.005D, 2)", 1.01), ("round(2.675D, 2)", 2.68), ("round(1234567.5D, -2)", 1234600.0), ("round(d, 1)", D("2.5")), ("round(-d)", D("-3")), ("round(a, -1)", 10), ("round(-a, -2)", 0),
    ("floor(-f)", -2), ("ceil(-f)", -1), ("floor(cast('NaN' as double))", 0), ("ceil(d)", D("3")), ("floor(-d)", D("-3")), ("sign(-d)", -1.0), ("sqrt(4)", 2.0), ("ln(0)", None), ("log2(8)", 3.0), ("log10(1000)", 3.0),
    ("power(2, 10)", 1024.0), ("power(0, -1)", float("inf")), ("exp(0)", 1.0), ("exp(1000)", float("inf")), ("isnan(f)", False),
    ("initcap('sPark sql-is  COOL')", "Spark Sql-is  Cool"), ("reverse('a\u00df\u20ac')", "\u20ac\u00dfa"), ("ascii('\u20ac')", 8364), ("chr(65)", "A"), ("chr(256)", "\0"), ("chr(-1)", ""),
    ("concat_ws(',', s, null, 'x')", " ab ,x"), ("concat_ws(',', null)", ""), ("concat_ws(null, 'a')", None), ("left(s, 2)", " a"), ("right(s, 2)", "b "), ("right(s, 0)", ""), ("right(s, 9)", " ab "), ("repeat('ab', 2)", "abab"), ("repeat('ab', -2)", ""),
    ("lpad('hi', 5, '??')", "???hi"), ("lpad('hi', 1)", "h"), ("lpad('hi', 5, '')", "hi"), ("rpad('hi', 5, 'abc')", "hiabc"), ("replace('aXbX', 'X')", "ab"), ("replace('abc', '', 'x')", "abc"), ("translate('AaBbCc', 'abc', '12')", "A1B2C"),
    ("locate('bar', 'foobarbar', 5)", 7), ("locate('', 'abc', 9)", 1), ("locate('b', 'abc', 0)", 0), ("instr('\u00e9b', 'b')", 2), ("split_part('11.12.13', '.', -1)", "13"), ("split_part('11.12.13', '.', 9)", ""), ("split_part('a', '', 1)", "a"),
    ("'a\\n' rlike 'a$'", True), ("'a\\r\\n' rlike 'a$'", True), ("'a\\r\\nb' rlike 'a$'", False), ("'a\u000bb' rlike 'a\\\\sb'", True), ("'\u00e9' rlike '\\\\w'", False), ("'\u00c9' rlike '(?i)\u00e9'", False), ("'a\\rb' rlike 'a.b'", False), ("'a\\rb' rlike '(?s)a.b'", True),
    ("'abab' rlike '^(ab)\\\\1$'", True), ("regexp_replace('100-200', '(\\\\d+)-(\\\\d+)', '$2:$1')", "200:100"), ("regexp_replace('aab', 'a*', 'x')", "xxbx"), ("regexp_replace('ab', '(a)|(b)', '[$1]')", "[a][]"), ("regexp_replace('a1b22', '\\\\d+', '\\\\\\\\')", "a\\b\\"),
    ("regexp_extract('100-200', '(\\\\d+)-(\\\\d+)', 2)", "200"), ("regexp_extract('x', 'y', 0)", ""), ("regexp_extract('b', '(a)?b', 1)", ""),
    ("dayofweek(day)", 6), ("weekday(day)", 4), ("dayofyear(day)", 31), ("weekofyear(date'2021-01-03')", 53), ("quarter(u)", 1), ("hour(t) * 10000 + minute(t) * 100 + second(t)", 100506), ("hour(day)", 0),
    ("date_trunc('week', u)", dt.datetime(2020, 2, 24)), ("date_trunc('quarter', day)", dt.datetime(2020, 1, 1)), ("date_trunc('millisecond', timestamp'1960-02-29 10:11:12.555555')", dt.datetime(1960, 2, 29, 10, 11, 12, 555_000)),
    ("trunc(t, 'mm')", dt.date(2020, 1, 1)), ("date_add(day, 30)", dt.date(2020, 3, 1)), ("date_sub(t, 31)", dt.date(2019, 12, 31)), ("day + 1", dt.date(2020, 2, 1)), ("datediff(u, t)", 30), ("add_months(day, 1)", dt.date(2020, 2, 29)), ("add_months(day, -11)", dt.date(2019, 2, 28)),
    ("last_day(u)", dt.date(2020, 3, 31)), ("make_date(2020, 2, 29)", dt.date(2020, 2, 29)), ("t + interval 5 minute", dt.datetime(2020, 1, 31, 10, 10, 6, 700_000)), ("t + interval '1' month", dt.datetime(2020, 2, 29, 10, 5, 6, 700_000)), ("day + interval 1 month", dt.date(2020, 2, 29)),
    ("day + interval 1 hour", dt.datetime(2020, 1, 31, 1)), ("timestampadd(quarter, -a, t)", dt.datetime(2018, 4, 30, 10, 5, 6, 700_000)), ("timestampdiff(month, t, u)", 0), ("timestampdiff(month, day, u)", 1), ("timestampdiff(minute, u, t)", -43134), ("timestampdiff(year, u, t)", 0),
    ("unix_seconds(timestamp'1969-12-31 23:59:59.5')", -1), ("unix_millis(timestamp'1969-12-31 23:59:59.5')", -500), ("timestamp_seconds(-1)", dt.datetime(1969, 12, 31, 23, 59, 59)), ("timestamp_micros(1)", dt.datetime(1970, 1, 1, 0, 0, 0, 1)), ("date_from_unix_date(-1)", dt.date(1969, 12, 31)),
    ("unix_date(day)", 18292),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=[x for x, _ in EXAMPLES])
def test_values(text: str, value: object) -> None:
    tree = bound(text)
    assert evaluate(tree, ROW) == value
    found = compile_scalar(tree)(arrays(ROW, ROW), 2)
    assert found.to_pylist() == [value, value]
    assert found.type == tree.dtype.arrow


FAILURES = [
    ("a << 63", "overflow in `SHIFTLEFT(a, 63)`"), ("(a - 8) ^ 9223372036854775807", "overflow in"), ("pmod(a, 0)", "division by zero in `PMOD(a, 0)`"), ("d % 0.0", "division by zero in `d % 0.0`"), ("d div 0", "division by zero"), ("d / 0", "division by zero in `d / 0`"),
    ("big / 0.000000000000000001 / 0.000000000000000001", "overflow in"), ("big div 0.00000000000000000000000000000000000001", "overflow in"), ("round(n + 2147483643, -1)", "overflow in `ROUND(n + 2147483643, -1)`"), ("round(a + 9223372036854775800, -1)", "overflow in"),
    ("floor(f * 1e300)", "overflow in"), ("ceil(f / 0)", "division by zero in `f / 0`"), ("make_date(2019, 2, 29)", "there is no such day in `MAKE_DATE(2019, 2, 29)`"), ("make_date(0, 1, n)", "there is no such day"),
    ("date_add(day, 2147483647)", "the result is not in the years 1 to 9999 in `DATE_ADD(day, 2147483647)`"), ("day + interval 8000 year", "the result is not in the years 1 to 9999"), ("day - interval 800000 day", "the result is not in"), ("t - interval 3000 year", "the result is not in"),
    ("timestampadd(year, 9223372036854775807, t)", "the result is not in"), ("timestampadd(day, -9223372036854775807, t)", "the result is not in"), ("timestamp_seconds(9223372036854775807)", "the result is not in"), ("add_months(day, 2147483647)", "the result is not in"),
    ("date_from_unix_date(-2147483648)", "the result is not in"), ("timestamp_micros(-9223372036854775807)", "the result is not in"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), FAILURES, ids=[x for x, _ in FAILURES])
def test_rows_without_a_value(text: str, message: str) -> None:
    tree = bound(text)
    with pytest.raises(ExpressionError) as expected:
        evaluate(tree, ROW)
    assert message in str(expected.value)
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(tree)(arrays(ROW), 1)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize(
    ("text", "nullable"),
    [("ln(1.0D)", True), ("isnan(f)", False), ("xxhash64(a)", False), ("concat_ws(',', s)", False), ("year(day)", True), ("round(1, 0)", False)],
)  # fmt: skip
def test_nullability(text: str, nullable: bool) -> None:
    assert bound(text).nullable is nullable


def arrays(*rows: tuple[object, ...]) -> list[pa.Array]:
    return [pa.array([r[i] for r in rows], f.dtype.arrow) for i, f in enumerate(SCHEMA)]


@pytest.mark.parametrize("chosen", [tm.Reference(), tm.Embedded()])
def test_an_interval_whose_days_do_not_fit_is_an_overflow(chosen: Any) -> None:
    """Arrow counts the whole days below a negative one: it raised an error of its own, and the step failed."""
    flow = tm.Dataflow()
    x = flow.input("x", {"v": "interval"})
    flow.output("o", x.select(least="v - interval 106751991 day - interval '04:00:54.775807' hour to second"))
    with flow.start(chosen) as run:
        run.insert("x", [(dt.timedelta(hours=4, seconds=55),)])
        run.advance()
        assert list(run.snapshot("o")) == [(dt.timedelta(days=-106751991, microseconds=224193),)]
        run.insert("x", [(dt.timedelta(0),)])
        with pytest.raises(tm.errors.StepError, match="overflow"):
            run.advance()


def test_an_interval_that_is_written_out_is_tried_as_a_cast_does_it() -> None:
    """The kind: literals are of types of their own until they meet another value."""
    tree = bind(expr("try_cast(interval 3 day as interval)"), Schema(()))
    assert evaluate(tree, ()) == dt.timedelta(days=3)
    assert compile_scalar(tree)([], 1)[0].as_py() == dt.timedelta(days=3)
