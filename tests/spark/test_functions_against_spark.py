"""Scalar functions and casts against Spark's own, on random and extreme values: one select of many rows for all of them.

What differs on purpose is in docs/spark-differences.md.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from support.running import many_examples
from support.spark_differences import TYPES, VALUES

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.expressions.binding import bind
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sql_text import expr, to_sql
from tidemill.expressions.types import BOOL
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.spark.dataframes import frame_of_rows, rows_of
from tidemill.renderer.spark.failures import is_worth_care
from tidemill.renderer.spark.scalars import native_sql
from tidemill.renderer.spark.types import sql_type

SCHEMA = Schema.of(
    {
        "i": "int64", "j": "int64", "n": "int32", "m": "int32", "f": "float64", "g": "float64", "d": "decimal(10,2)",
        "w": "decimal(38,10)", "z": "decimal(38,38)", "s": "string", "u": "string", "t": "timestamp", "r": "timestamp",
        "day": "date", "p": "bool", "q": "bool", "raw": "binary",
    }
)  # fmt: skip
D = decimal.Decimal
EXTREMES: dict[str, list[Any]] = {
    "int64": [0, 1, -1, 5, 31, 63, 64, 2**31, -(2**31) - 1, 2**53 + 1, 10**18, 2**62, 2**63 - 1, -(2**63) + 1],
    "int32": [0, 1, -1, 2, -3, 12, 29, 31, 33, 400, 2020, 2**31 - 1, -(2**31)],
    "float64": [0.0, 1.0, -1.5, 2.5, -2.5, 0.1, 0.285, 1.005, 1e7, 1e-4, 123456.789, 1e16, 1e22, 1e300, 5e-324, math.nan,
                math.inf, -math.inf, 2.0**63, -(2.0**63), 2.0**53],
    "decimal(10,2)": [D("0.00"), D("1.50"), D("-0.05"), D("2.35"), D("99999999.99"), D("-99999999.99")],
    "decimal(38,10)": [D("0E-10"), D("1.5000000000"), D("-0.0000000001"), D("9" * 28 + "." + "9" * 10)],
    "decimal(38,38)": [D("0E-38"), D("0." + "9" * 38), D("-0." + "5" * 38)],
    "string": ["", "a", "ab", "A%", "a_b", "ß", "Ärger", " 12 ", "abab", "\n", "\\", "日本語", "b,a,,b", "one two  three",
               "\ta", "aAaB", "x\r\ny", "$1", "K", "ı", "a-b", "ΑΣ", "élan"],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 15, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
                  dt.datetime(2020, 2, 29), dt.datetime(2020, 2, 29, 1, 2, 3, 450_000), dt.datetime(2021, 1, 31, 12),
                  dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    "date": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(2021, 1, 3),
             dt.date(9999, 12, 31)],
    "bool": [True, False],
    "binary": [b"", b"a", b"\xff", b"\x00\x01"],
}  # fmt: skip

WHOLE, NUMBERS = ("i", "n"), ("i", "n", "f", "d", "w", "z")
PAIRS = ["i, j", "n, m", "i, n", "f, g", "d, w", "d, n", "f, i", "z, z", "w, n"]
OPERATORS = ["+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>"]
PARTS = [
    "year",
    "quarter",
    "month",
    "day",
    "dayofweek",
    "weekday",
    "dayofyear",
    "weekofyear",
    "hour",
    "minute",
    "second",
]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
PATTERNS = ["a", "a*", "a*?", "(|a)", "(a|)", "a?", "[^a]+", "^a", "a$", "$", "^", ".", r"(?<=a)", r"\\b", r"\\s+", r"(.)\\1",
            "(?i)A", "(?s).$", "b|$", r"\\w+", r"[a-c]{2,}?", ""]  # fmt: skip
OF_KERNELS = ("named_struct('a', i, 'b', s).b", "t + (r - t)", "t - (r - t)", "t - r < r - t")
"""What the kernels compute on Spark too, written as Spark does."""
TEXTS = [
    *OF_KERNELS,
    *[f"{p.split(', ')[0]} {sign} {p.split(', ')[1]}" for sign in OPERATORS for p in PAIRS],
    *[f"{name}({p})" for name in ("pmod", "least", "greatest", "coalesce", "nullif") for p in PAIRS],
    *[p.replace(", ", " DIV ") for p in PAIRS if "f" not in p],
    *[f"{name}({a})" for name in ("abs", "floor", "ceil", "sign", "sqrt", "negative", "round") for a in NUMBERS],
    *[f"round({a}, {k})" for a in NUMBERS for k in (-20, -2, -1, 1, 2, 10, 12, 37)],
    *[f"{a} {sign} {b}" for sign in "&|^" for a, b in ("ij", "nm", "in")], "~i", "~n",
    *[f"{a} {sign} {b}" for sign in ("<<", ">>", ">>>") for a in WHOLE for b in "nm"],
    "p AND q", "p OR q", "NOT p", "i IN (1, 2, j)", "f IN (0, g)", "s IN ('a', u)", "i IS NULL", "p AND q OR i > 0 AND p",
    "CASE WHEN p THEN i WHEN q THEN j ELSE 0 END", "if(p, d, w)", "nvl(d, 0)", "nvl2(s, i, j)", "isnan(f)", "least(s, u)",
    *[f"{name}(s)" for name in ("upper", "lower", "trim", "ltrim", "rtrim", "initcap", "reverse", "length", "ascii")],
    "length(raw)", "chr(i)", "chr(n)", "concat(s, u)", "concat_ws(',', s, u)", "concat_ws(s, u, 'x', u)", "s || 'x' || u",
    *[f"substring(s, {a}, {b})" for a in (-2, 0, 1, 2, 5) for b in (-1, 0, 1, 99)], "substring(s, -3)", "substring(s, 2)",
    *[f"{name}(s, {k})" for name in ("left", "right", "repeat") for k in (-1, 0, 2)],
    *[f"{name}(s, {k}, '{by}')" for name in ("lpad", "rpad") for k in (-1, 0, 3, 6) for by in ("", "x", "xy")],
    "replace(s, 'a', 'xy')", "replace(s, '', 'x')", "replace(s, 'ab')", "translate(s, 'aab', 'xyz')", "translate(s, 'ab', '')",
    *[f"locate('{part}', s, {k})" for part in ("", "a", "b,", "本") for k in (-1, 0, 1, 2, 9)], "instr(s, 'b')",
    *[f"split_part(s, '{by}', {k})" for by in (",", "b", "", "ab") for k in (-2, -1, 1, 2, 9)],
    *[f"s LIKE '{p}'" for p in ("a%", "_", "%b_", r"a\\_b", r"\\\\", "A\\\\%", "")], "s ILIKE 'a%'",
    "startswith(s, 'a')", "endswith(s, 'b')", "contains(s, '')", "contains(s, 'ab')",
    *[f"regexp_like(s, '{p}')" for p in PATTERNS],
    *[f"regexp_replace(s, '{p}', '{by}')" for p in PATTERNS for by in ("", "x", r"<$0>", r"\\$")],
    *[f"regexp_extract(s, '{p}', 0)" for p in PATTERNS], "regexp_extract(s, '(a)?(b)', 1)", "regexp_extract(s, '(a)?(b)', 2)",
    *[f"{part}({moment})" for part in PARTS for moment in ("t", "day")],
    *[f"extract({part} from {a})" for part in ("second", "yearofweek", "dow_iso", "doy") for a in ("t", "day")],
    *[f"date_trunc('{unit}', {a})" for unit in UNITS for a in ("t", "day")],
    *[f"trunc({a}, '{unit}')" for unit in ("year", "quarter", "month", "week") for a in ("t", "day")],
    "date_add(day, n)", "date_sub(day, n)", "add_months(day, n)", "add_months(t, 1)", "date_add(t, 1)", "day + m", "day - m",
    "date_add(day, 30)", "add_months(day, -13)", "datediff(t, day)", "datediff(day, r)", "last_day(t)", "last_day(day)",
    "make_date(n, m, 29)", "make_date(2020, 2, m)", "make_date(n, 1, 1)",
    *[f"timestampadd({unit}, n, t)" for unit in UNITS], *[f"timestampdiff({unit}, t, r)" for unit in UNITS],
    *[f"{a} {sign} interval {by}" for a in ("t", "day") for sign in "+-" for by in ("1 month", "3 days", "90 minutes", "5 years")],
    "unix_date(day)", "unix_seconds(t)", "unix_millis(t)", "unix_micros(t)", "date_from_unix_date(n)", "timestamp_seconds(n)",
    "timestamp_millis(i)", "timestamp_micros(i)",
    "xxhash64(i, n, f, d, s, t, day, p, raw)", "xxhash64(w, z)", "xxhash64(s)",
    *[f"CAST({a} AS {to})" for a in (*NUMBERS, "p") for to in (
        "bigint", "int", "double", "decimal(10,2)", "decimal(38,10)", "decimal(38,38)", "boolean", "string")],
    "CAST(t AS string)", "CAST(day AS string)", "CAST(t AS date)", "CAST(day AS timestamp_ntz)", "CAST(s AS binary)",
]  # fmt: skip
INEXACT = [
    "exp(f / 1e10)",
    "exp(n / 1e7)",
    "ln(f)",
    "log10(f)",
    "log2(f)",
    "ln(n)",
    "power(f, g)",
    "power(f, 0.5)",
    "power(n, m)",
]
ANGLES = (
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "degrees",
    "radians",
    "cbrt",
    "expm1",
    "log1p",
)
INEXACT += [f"{name}({a})" for name in ANGLES for a in ("f / 1e300", "n")]
INEXACT += ["cot(n)", "sec(n)", "csc(n)", "sec(f / 1e300)", "atan2(f, g)", "hypot(f, g)", "log(n, m)", "log(2, f)"]
LISTS = ["array(i, j, NULL)", "array(s, u)", "array(f, g, f)", "split(s, ',')"]
JSON_TEXTS = [
    "", "null", "1", "[]", '[{"a":1}]', "{}", '{"a":1', '{"a":null}', '{"a":1}x', '{"A":1}', '{"a":1,"a":2}', "{a:1}", '{"a":01}',
    '{"a":NaN}', '{"a":"NaN"}', '{"a":"INF"}', '{"a":"-INF"}', '{"a":"+Infinity"}', '{"a":1.0}', '{"a":1.50}', '{"a":1e3}',
    '{"a":1E400}', '{"a":-0}', '{"a":2147483648}', '{"a":9223372036854775808}', '{"a":"1"}', '{"a":true}', '{"a":"true"}',
    '{"a":{"b": 1}}', '{"a":[1, 2.50,"x"]}', '{"a":""}', '{"b":{"a":3},"a":4}', '{"a":1,}', '{"a":"x","b":',
]  # fmt: skip
TEXTS += [
    *[f"{name}({v})" for name in ("md5", "sha1", "crc32", "base64", "hex") for v in ("s", "raw")], "hex(i)", "hex(n)", "unhex(s)",
    "unhex('1')", "unbase64('YWI=')", *[f"sha2(s, {bits})" for bits in (0, 224, 256, 384, 512)],
    *[f"date_format({a}, '{p}')" for a in ("t", "day") for p in ("yyyy-MM-dd HH:mm:ss.SSSSSS", "d/M/yy h:mm a", "EEE, dd MMM", "EEEE MMMM", "D q", "DDD")],
    *[f"to_date({a}, '{p}')" for a, p in (("date_format(t, 'dd.MM.yyyy')", "dd.MM.yyyy"), ("'7 Feb 2021'", "d MMM yyyy"), ("s", "y"))],
    *[f"to_timestamp({a}, '{p}')" for a, p in (("date_format(t, 'yyyyMMdd HHmmss')", "yyyyMMdd HHmmss"), ("'2021-02-07 12:05 AM'", "yyyy-MM-dd hh:mm a"), ("'2021-02-07 1:2:3.45'", "yyyy-MM-dd H:m:s.SS"))],
    *[f"{name}({text}, '{form}')" for text, form in (("'$1,234.5-'", "$9,999.99MI"), ("'<12>'", "99PR"), ("'+ 007'", "S099"), ("',3.50'", "9,999.99"))
      for name in ("to_number", "try_to_number")], "try_to_number(s, '999')", "try_to_number(cast(i as string), 'S999,999.99')",
    *[f"try_to_date(s, '{p}')" for p in ("y", "yyyy-MM-dd")], "try_to_timestamp(s, 'yyyy-MM-dd HH')",
    "try_to_timestamp(date_format(t, 'yyyyMMdd HHmmss'), 'yyyyMMdd HHmmss')",
    *[f"to_char({a}, '{p}')" for a in ("i", "n", "d", "w") for p in ("999", "S9,990.99", "$0099.9MI", "9999999999.99PR", "MI9G999", ".99")],
    "to_char(t, 'dd')", "dayname(t)", "monthname(day)", *[f"next_day(day, '{d}')" for d in ("MO", "TUE", "Sunday")],
    *[f"trim_of({a}, {b})" for a, b in (("s", "'a '"), ("s", "u"))], "ltrim_of(s, u)", "rtrim_of(s, u)",
    *[f"overlay(s, u, {n}, {m})" for n in (-2, 0, 1, 3, 9) for m in (-1, 0, 2)], "overlay(s, 'xy', 2)",
    *[f"substring_index(s, '{d}', {n})" for d in (",", "", "ab") for n in (-2, -1, 0, 1, 2)],
    "format_string('%s|%5s|%-5s|%.2s|%%', s, s, s, s)", "format_string('%d|%5d|%05d|%,d|%+d|%x', i, n, n, i, n, n)",
    "format_string('%.3f|%10.2f|%,.1f|%s', f, f, f, p)", "format_string('%s %c', n, 65)",
    "get_json_object('{\"a\":[1,{\"b\":\"x\"}],\"c\":null,\"d\":true}', '$.a')", "get_json_object('{\"a\":[1,{\"b\":\"x\"}]}', '$.a[1].b')",
    *[f"from_json(s, '{fields}').a" for fields in ("a INT, b STRING", "a DOUBLE", "struct<a: boolean>")],
    "named_struct('a', i, 'b', s).b", "t + (r - t)",
    *[f"from_json('{text}', 'a {of}').a" for of in ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING") for text in JSON_TEXTS],
    r"""get_json_object('{"a":"x\\ud800"}', '$.a')""", r"""from_json('{"a":"x\\ud800"}', 'a STRING').a""",
    "get_json_object('{\"c\":null}', '$.c')", "get_json_object(s, '$.a')",
    *[f"try_{name}({p})" for name in ("add", "subtract", "multiply", "divide", "mod") for p in ("i, j", "n, m", "f, g", "d, w", "d, n")],
    *[f"try_cast({a} as {to})" for a in ("s", "i", "f", "w", "t") for to in ("int", "string", "date") if (a, to) not in (("t", "int"), ("i", "date"), ("f", "date"), ("w", "date"), ("f", "string"))],
    *[f"{name}({l})" for name in ("array_distinct", "sort_array", "array_min", "array_max", "size") for l in LISTS],
    *[f"element_at({l}, {n})" for l in LISTS for n in (-2, 1, "n")], *[f"try_element_at({l}, {n})" for l in LISTS for n in (-2, 1, 9)],
    *[f"slice({l}, {a}, {b})" for l in LISTS for a, b in ((1, 1), (-2, 5), (2, 0))], *[f"get({l}, {n})" for l in LISTS for n in (0, 1, 9)],
    "array(i, j)[0]", "array_contains(array(i, NULL), j)", "array_contains(array(f, g), f)", "array_position(array(s, u), u)",
    "array_position(array(f, g), g)", "array_join(array(s, NULL, u), '-')", "sort_array(array(f, g, NULL), false)",
    *[f"split(s, '{p}', {n})" for p in (",", "", "a*", "[ab]", "^", "$") for n in (-1, 0, 1, 2)],
]  # fmt: skip
SPELT = {
    **{text: text for text in OF_KERNELS},
    "trim_of(s, 'a ')": "TRIM(BOTH 'a ' FROM s)", "trim_of(s, u)": "TRIM(BOTH u FROM s)",
    "ltrim_of(s, u)": "TRIM(LEADING u FROM s)", "rtrim_of(s, u)": "TRIM(TRAILING u FROM s)", "array(i, j)[0]": "array(i, j)[0]",
    "t + (r - t)": "t + (r - t)",
}  # fmt: skip
"""What Spark spells in another way, and where it is: functions without a name there."""
NOT_SPARKS = {
    "floor_divide", "list_percentile", "list_percentile_disc", "list_mode", "list_bit_and", "list_bit_or", "list_bit_xor",
    "list_regression", "list_or_empty", "row_text", "fit", "round_scaled", "age", "template_to_char",
    "values_in_order",
}  # fmt: skip
"""Python's //, what aggregates are made of, how DuckDB rounds, and what PostgreSQL makes of dates and numbers."""


def rows_at_random(count: int) -> list[tuple[Any, ...]]:
    dice = random.Random(7)

    def pick(dtype: str) -> Any:
        if dice.random() < 0.05:
            return None
        if dice.random() < 0.7:
            return dice.choice(EXTREMES[dtype])
        return RANDOM[dtype](dice)

    return [tuple(pick(str(f.dtype)) for f in SCHEMA) for _ in range(count)]


def _decimal(digits: int, scale: int) -> Any:
    return lambda dice: D(dice.randrange(-(10 ** dice.randint(1, digits)) + 1, 10**digits)).scaleb(
        -scale, decimal.Context(prec=60)
    )


RANDOM: dict[str, Any] = {
    "int64": lambda dice: dice.randrange(-(2 ** dice.randint(1, 62)), 2 ** dice.randint(1, 62)),
    "int32": lambda dice: dice.randrange(-(2 ** dice.randint(1, 31)), 2 ** dice.randint(1, 31) - 1),
    "float64": lambda dice: dice.choice([dice.uniform(-3, 3), dice.gauss(0, 1e6), 10 ** dice.uniform(-300, 300)]),
    "decimal(10,2)": _decimal(10, 2), "decimal(38,10)": _decimal(38, 10), "decimal(38,38)": _decimal(38, 38),
    "string": lambda dice: "".join(dice.choices("abAB ,ß日%_\\\n1", k=dice.randint(0, 8))),
    "timestamp": lambda dice: dt.datetime(1, 1, 1) + dt.timedelta(microseconds=dice.randrange(315_537_897_600_000_000)),
    "date": lambda dice: dt.date.fromordinal(dice.randint(1, dt.date.max.toordinal())),
    "bool": lambda dice: dice.random() < 0.5,
    "binary": lambda dice: dice.randbytes(3),
}  # fmt: skip


def ours(tree: Any, rows: list[tuple[Any, ...]]) -> list[Any]:
    """Each row's value, or the error."""
    compiled, found = compile_scalar(tree), list[Any]()
    with contextlib.suppress(ExpressionError):
        columns = [pa.array([row[i] for row in rows], f.dtype.arrow) for i, f in enumerate(SCHEMA)]
        return list(compiled(columns, len(rows)).to_pylist())
    for row in rows:
        columns = [pa.array([v], f.dtype.arrow) for v, f in zip(row, SCHEMA, strict=True)]
        try:
            found.append(compiled(columns, 1)[0].as_py())
        except ExpressionError as error:
            found.append(error)
    return found


def same(a: Any, b: Any, *, near: bool) -> bool:
    if isinstance(a, tuple) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, near=near) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or (near and a == pytest.approx(b, rel=1e-12))
    return type(a) is type(b) and a == b


@pytest.fixture(scope="module")
def utc(spark: Any) -> Iterator[Any]:
    """The session in UTC, for what of Spark's goes by its zone."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.fixture(scope="module")
def trees() -> dict[str, Any]:
    return {text: bind(expr(text), SCHEMA) for text in [*TEXTS, *INEXACT]}


def sparks(text: str, tree: Any) -> str:
    """The text that Spark is given, with all types written out."""
    if text.startswith("try_cast("):
        return text
    return f"CAST({SPELT.get(text) or to_sql(tree, explicit=True)} AS {sql_type(tree.dtype)})"


def test_every_function_is_compared(trees: dict[str, Any]) -> None:
    def functions(tree: Any) -> Iterator[str]:
        if hasattr(tree, "function"):
            yield tree.function
        for arg in getattr(tree, "args", ()):
            yield from functions(arg)

    assert {f for tree in trees.values() for f in functions(tree)} - {"cast"} == set(FUNCTIONS) - NOT_SPARKS


def test_values_are_sparks(utc: Any, trees: dict[str, Any]) -> None:
    rows = rows_at_random(150)
    expected = {text: ours(tree, rows) for text, tree in trees.items()}
    wrong: list[tuple[Any, ...]] = []

    def compare(some: list[str]) -> None:
        """Compare expressions in one select; where Spark refuses it, each half by itself, down to the one to blame."""
        try:
            result = answers(utc, {text: trees[text] for text in some}, rows, expected)
        except Exception as error:  # noqa: BLE001 - whatever Spark raises
            if len(some) == 1:
                if some[0] not in REFUSED:
                    wrong.append((some[0], "Spark refuses", str(error).splitlines()[0]))
                return
            compare(some[: len(some) // 2])
            compare(some[len(some) // 2 :])
            return
        for k, text in enumerate(some):
            for row, line, want in zip(rows, result, expected[text], strict=True):
                if isinstance(want, ExpressionError) or same(line[k], want, near=text in INEXACT):
                    continue
                used = {SCHEMA.names[c]: row[c] for c in trees[text].columns()}
                if not is_known(text, used):
                    wrong.append((text, used, "Spark", line[k], "ours", want))
                    break

    texts = list(trees)
    for begin in range(0, len(texts), 120):
        compare(texts[begin : begin + 120])
    assert not wrong, "\n".join(map(str, wrong))


def answers(utc: Any, trees: dict[str, Any], rows: list[tuple[Any, ...]], expected: dict[str, list[Any]]) -> Any:
    """What Spark makes of expressions, in one select, of those rows for which they have a value here."""
    marks = [Field(f"ok{k}", BOOL) for k in range(len(trees))]
    lines = [
        (*row, *(not isinstance(expected[text][r], ExpressionError) for text in trees)) for r, row in enumerate(rows)
    ]
    given = frame_of_rows(utc, Schema((*SCHEMA, *marks)), lines)
    given = given.toDF(*SCHEMA.names, *(m.name for m in marks))
    parts = [F.expr(f"CASE WHEN ok{k} THEN {sparks(*one)} END").alias(f"v{k}") for k, one in enumerate(trees.items())]
    return rows_of(Schema(tuple(Field(f"v{k}", t.dtype) for k, t in enumerate(trees.values()))), given.select(*parts))


def is_known(text: str, used: dict[str, Any]) -> bool:
    """Whether Spark's value is one that docs/spark-differences.md gives up on."""
    if text.startswith("pmod("):  # the sum of the remainder and the divisor goes round
        return any(isinstance(v, int) and v < 0 for v in used.values())
    if text in ("abs(z)", "abs(w)", "CAST(z AS int)", "CAST(w AS int)"):  # rounded to 34 digits, or to a float64
        return True
    return r"\\b" in text and not (used["s"] or "").isascii()  # of letters for Java before 19, of ASCII's since


REFUSED = ("negative(w)", "negative(z)")
"""What Spark rounds to 34 digits, and then finds too large."""


def test_errors_are_errors(utc: Any, trees: dict[str, Any]) -> None:
    """One row of each function and type that has no value here has none for Spark, or it is one of those given up."""
    rows = rows_at_random(150)
    failing: dict[Any, tuple[str, Any, Any]] = {}
    for text, tree in trees.items():
        for row, found in zip(rows, ours(tree, rows), strict=True):
            if isinstance(found, ExpressionError):
                failing.setdefault((getattr(tree, "function", ""), tree.dtype), (text, tree, row))
    assert len(failing) > 30
    quiet = []
    for text, tree, row in list(failing.values())[:: 1 if many_examples() else 3]:  # each is a job
        frame = frame_of_rows(utc, SCHEMA, [row]).toDF(*SCHEMA.names)
        value = f"CAST({sparks(text, tree)} AS STRING)"
        try:
            (answer,) = frame.select(F.expr(value)).collect()[0]
        except Exception as error:  # noqa: BLE001 - whatever Spark raises
            assert is_worth_care(error), (text, error)
            continue
        beyond = str(tree.dtype) in ("date", "timestamp") and (answer[0] in "+-" or answer[:4] == "0000")
        if answer != str(-(2**63)) and not beyond and text != "w DIV n":  # Spark's int64 goes round
            quiet.append((text, {SCHEMA.names[c]: row[c] for c in tree.columns()}, answer))
    assert not quiet, "\n".join(map(str, quiet))


ODD_TEXTS = [
    "2020", "2020-06", "2020-1-5", "2020-01-05T", "2020-01-05 foo", "+2020-01-05", "02020-01-05", "2020-W10-1", "20200101",
    "2020-06-05 1:2:3.", "2020-06-05 1:2:3.1234567", "2020-06-05 01:02:03Z", "2020-06-05 01:02:03 UTC+1", "2020-06-05 01:02Z",
    "2020-06-05 01:02:03+01:00", "2020-06-05 01:02:03-1", "2020-06-05 01:02:03+0130", "2020-06-05 01:02:03+130",
    "2020-06-05 01:02:03+18:01", "2020-06-05 01:02:03+01:30:59", "2020-06-05 24:00:00", "2020-02-30", "0000-01-01", "1e2", "1E-2",
    "1.", ".5", ".", "1e40", "1e-400", "0e1000000000", "1d", "1.5F", "0x1p3", "0x10", "nan", "+nan", "-inf", "Infinityd", "1_0",
    "\x0115\x1f", "\x7f15", "15\u00a0", "١", "", "+", "--1", "1l", "9223372036854775807", "9223372036854775808",
    "2147483648", "true", "T", "no ", "on", "yes\t", "123456789012345678901234567890.12345", "99999.995", "-99999.994",
]  # fmt: skip
"""Texts that casts may or may not take."""


def test_casts_of_text_are_sparks(utc: Any) -> None:
    dice = random.Random(3)
    random_texts = ["".join(dice.choices("0123456789-+:.eEdTZ \t", k=dice.randint(1, 14))) for _ in range(300)]
    mutated = ["".join(c for c in dice.choice(ODD_TEXTS) if dice.random() < 0.95) for _ in range(500)]
    texts = list(dict.fromkeys([*ODD_TEXTS, *random_texts, *mutated]))
    schema = Schema.of({"s": "string"})
    given = frame_of_rows(utc, schema, [(t,) for t in texts]).toDF("s")
    kinds = [
        "bigint",
        "int",
        "double",
        "boolean",
        "date",
        "timestamp",
        "decimal(7,2)",
        "decimal(38,0)",
        "decimal(38,38)",
        "binary",
    ]
    fields, parts = [], []
    for to in kinds:
        dtype = bind(expr(f"cast(s as {to})"), schema).dtype
        text = f"CAST(try_cast(s AS {to}) AS {sql_type(dtype)})"
        if to in ("date", "timestamp"):
            text = f"CASE WHEN year({text}) BETWEEN 1 AND 9999 THEN {text} END"
        fields.append(Field(to, dtype))
        parts.append(F.expr(text).alias(to))
    result = rows_of(Schema(tuple(fields)), given.select(*parts))
    wrong = []
    for k, to in enumerate(kinds):
        compiled = compile_scalar(bind(expr(f"cast(s as {to})"), schema))
        for text, line in zip(texts, result, strict=True):
            try:
                found = compiled([pa.array([text])], 1)[0].as_py()
            except ExpressionError:
                found = None
            changes = to == "timestamp" and (":" in text[:3] or text.lstrip("\t ").startswith("T"))  # a time of today
            if not same(found, line[k], near=False) and not changes and line[k] != -(2**63):
                wrong.append((text, to, "Spark", line[k], "ours", found))
    assert not wrong, "\n".join(map(str, wrong))


def test_what_spark_rounds_or_lets_go_round_is_not_left_to_it(spark: Any) -> None:
    for text in ("abs(z)", "-w", "CAST(w AS int)", "w DIV n"):
        assert native_sql(bind(expr(text), SCHEMA)) is None
    assert native_sql(bind(expr("d DIV n"), SCHEMA)) is not None
    flow = tm.Dataflow()
    c = flow.input("c", {"z": "decimal(38,38)"})
    flow.output("out", c.select(size="abs(z)", whole="cast(z as int)"))
    z = D("-0." + "9" * 38)
    frames = tm.render(flow, spark, {"c": frame_of_rows(spark, c.schema, [(z,)])})
    assert [tuple(r)[:2] for r in frames["out"].collect()] == [(z.copy_abs(), 0)]


def test_the_docs_say_what_spark_gives(utc: Any) -> None:
    texts = [f"CAST({c.expression} AS STRING)" for c in VALUES] + [f"typeof({c.expression})" for c in TYPES]
    found = utc.sql("SELECT " + ", ".join(texts)).collect()[0]
    assert [(c.expression, v) for c, v in zip([*VALUES, *TYPES], found, strict=True)] == [
        (c.expression, c.spark) for c in [*VALUES, *TYPES]
    ]
