"""Spark's own functions mean what ours do, value by value; where they do not, they are not used."""

import contextlib
import datetime as dt
import decimal
import functools
import itertools
import math
import operator
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from support.running import many_examples

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sql_text import expr
from tidemill.expressions.types import BOOL
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.spark.dataframes import frame_of_rows, rows_of
from tidemill.renderer.spark.scalars import NATIVE, native_sql
from tidemill.renderer.spark.strategy import CAREFUL, FAST

SCHEMA = Schema.of(
    {
        "i": "int64", "j": "int64", "n": "int32", "m": "int32", "f": "float64", "g": "float64", "d": "decimal(10,2)",
        "e": "decimal(38,18)", "s": "string", "u": "string", "t": "timestamp", "day": "date", "p": "bool", "q": "bool",
        "raw": "binary",
    }
)  # fmt: skip
D = decimal.Decimal
VALUES: dict[str, list[Any]] = {
    "int64": [0, 1, -1, 2, 3, -3, 7, 63, 64, 2**31, 2**53 + 1, 10**18, 2**62, 2**63 - 1, -(2**63) + 1],
    "int32": [0, 1, -1, 2, -3, 5, 31, 33, 2**31 - 1, -(2**31)],
    "float64": [0.0, 1.0, -1.5, 2.5, 0.1, 1e7, 1e-4, 1e300, 5e-324, math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63)],
    "decimal(10,2)": [D("0.00"), D("1.50"), D("-0.05"), D("2.35"), D("99999999.99"), D("-99999999.99")],
    "decimal(38,18)": [D("0E-18"), D("1.5").quantize(D("1E-18")), D("-0.000000000000000001"),
                       D("12345678901234567890.123456789012345678")],
    "string": ["", "a", "ab", "A%", "a_b", "ß", "Ärger", " 12 ", "abab", "\n", "\\", "日本語", "😀b", "ǅ", "İ", "ς"],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2020, 2, 29),
                  dt.datetime(2020, 2, 29, 1, 2, 3, 450_000), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    "date": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(9999, 12, 31)],
    "bool": [True, False],
    "binary": [b"", b"a", b"\xff", b"\x00"],
}  # fmt: skip

NUMBERS = ["i", "j", "n", "f", "g", "d", "e"]
PAIRS = [
    *itertools.product("ijnm", "ijnm"),
    ("f", "g"),
    ("f", "i"),
    ("d", "d"),
    ("d", "e"),
    ("d", "n"),
    ("e", "e"),
    ("f", "d"),
]
SIGNS = ["+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>"]
COMPARED = [("s", "u"), ("t", "t"), ("t", "day"), ("day", "day"), ("p", "q"), ("raw", "raw")]
TEXTS = [
    *[f"{a} {sign} {b}" for sign in SIGNS for a, b in PAIRS],
    *[f"{a} {sign} {b}" for sign in SIGNS[5:] for a, b in COMPARED],
    *[f"pmod({a}, {b})" for a, b in PAIRS], *[f"{a} DIV {b}" for a, b in PAIRS if "f" not in (a, b)],
    *[f"{function}({a})" for function in ("abs", "floor", "ceil", "sign", "sqrt", "negative") for a in NUMBERS],
    *[f"{a} {sign} {b}" for sign in "&|^" for a, b in itertools.product("ijnm", "ijnm")], "~i", "~n",
    *[f"{function}({a}, {b})" for function in ("shiftleft", "shiftright", "shiftrightunsigned") for a in "in" for b in "nm"],
    "p AND q", "p OR q", "NOT p", "i IN (1, 2, j)", "i IN (1, NULL)", "f IN (0, g)", "s IN ('a', u)", "i IS NULL", "s IS NULL",
    "CASE WHEN p THEN i WHEN q THEN j ELSE 0 END", "CASE WHEN i > 0 THEN 10 / i ELSE 0 END", "CASE WHEN p THEN s END",
    "coalesce(i, j, 0)", "coalesce(f, g)", "coalesce(n, 7 DIV m)", "nullif(i, j)", "nullif(f, g)",
    "least(f, g)", "greatest(f, g, 1)", "least(i, j)", "greatest(s, u)", "least(t, day)", "greatest(d, e)",
    "isnan(f)", "length(s)", "length(raw)", "concat(s, u)", "s || 'x' || u", "substring(s, 2, 1)", "substring(s, 3, 0)",
    "substring(s, -2, 2)", "substring(s, 0, 2)", "left(s, 2)", "left(s, 0)", "right(s, 2)", "right(s, -1)",
    "replace(s, 'a', 'x')", "replace(s, '', 'x')", "replace(s, 'ab', '')", "locate('b', s)", "locate('', s)", "locate('b', s, 2)",
    "locate('b', s, 0)", "instr(s, 'b')", "s LIKE 'a%'", "s LIKE '_b'", r"s LIKE 'a\\_b'", "s LIKE '%'", r"s LIKE '\\\\'",
    "s LIKE 'A\\\\%'", "upper(s)", "lower(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "reverse(s)", "initcap(s)", "repeat(s, 2)",
    "concat_ws(',', s, u)", "translate(s, 'ab', 'x')", "split_part(s, 'b', 1)", "lpad(s, 4, 'x')", "rpad(s, 1, 'x')",
    "contains(s, 'b')", "startswith(s, 'a')", "endswith(s, 'b')", "ascii(s)", "chr(n)",
    "split_part(s, 'b', -1)", "split_part(s, '', 1)", "lpad(s, 1, 'x')", "lpad(s, 5, '')", "rpad(s, 5, 'xy')", "rpad(s, -1, 'x')", "repeat(s, -1)",
    "translate(s, 'aab', 'xyz')", "translate(s, '', 'x')", "trim(u)", "concat_ws('', s, 'x', u)", "round(f, 0)", "round(f, 2)", "round(f, -2)",
    "round(d, -1)", "round(n, -1)", "round(e, 3)", "-e", "-d",
    *[f"timestampdiff('{unit}', t, day)" for unit in ("year", "quarter", "month", "week", "day", "minute", "second", "millisecond", "microsecond")],
    *[f"date_trunc('{unit}', t)" for unit in ("year", "quarter", "month", "day", "minute", "second", "millisecond")],
    *[f"trunc({moment}, '{unit}')" for unit in ("year", "quarter", "week") for moment in ("day", "t")], "last_day(t)",
    *[f"{part}({moment})" for part in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear")
      for moment in ("t", "day")], "hour(t)", "minute(t)", "second(t)", "datediff(t, day)", "datediff(day, day)",
    "unix_date(day)", "date_from_unix_date(n)", "last_day(day)", "trunc(day, 'month')", "date_trunc('hour', t)", "date_trunc('week', t)",
    "unix_seconds(t)", "unix_millis(t)", "unix_micros(t)", "timestampdiff('hour', t, day)", "date_add(day, n)", "day + n",
    "xxhash64(i, n, f, d, s, t, day, p, raw)", "xxhash64(e)", "xxhash64(s)", "round(f, 1)", "round(d, 1)", "round(i, -1)",
    *[f"CAST({a} AS {to})" for a in ("i", "n", "d", "e") for to in ("bigint", "int", "double", "decimal(10,2)", "decimal(38,10)")],
    "CAST(f AS bigint)", "CAST(f AS int)", "CAST(f AS decimal(20,3))", "CAST(p AS int)", "CAST(n AS boolean)", "CAST(f AS string)",
    "CAST(i AS string)", "CAST(d AS string)", "CAST(t AS string)", "CAST(day AS string)", "CAST(t AS date)", "CAST(day AS timestamp)",
    "i + 1 - 1", "(i + n) * 2", "f * g + 1", "d * 2 - 1", "i * i + j * j", "(d + e) * n", "-f", "0 - f", "f * -1",
]  # fmt: skip
INEXACT = ["exp(f / 1e10)", "ln(abs(f) + 1)", "log10(abs(f) + 1)", "log2(abs(f) + 1)", "power(abs(g), 0.5)"]


def sample(count):
    dice = random.Random(1)
    pick = lambda f: None if dice.random() < 0.08 else dice.choice(VALUES[str(f.dtype)])  # noqa: E731
    return [tuple(pick(f) for f in SCHEMA) for _ in range(count)]


def values(tree, rows):
    """Each row's value, or the error: of all rows at once, and one by one where there is an error."""
    compiled, found = compile_scalar(tree), []
    with contextlib.suppress(ExpressionError):
        columns = [pa.array(column, f.dtype.arrow) for column, f in zip(zip(*rows), SCHEMA)]
        return compiled(columns, len(rows)).to_pylist()
    for row in rows:
        columns = [pa.array([v], f.dtype.arrow) for v, f in zip(row, SCHEMA)]
        try:
            found.append(compiled(columns, 1)[0].as_py())
        except ExpressionError as error:
            found.append(error)
    return found


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b
    return type(a) is type(b) and a == b


@pytest.fixture(scope="module")
def trees():
    found = {text: bind(expr(text), SCHEMA) for text in [*TEXTS, *INEXACT]}
    return {text: tree for text, tree in found.items() if native_sql(tree) is not None}


def compute(spark, trees, rows, fine):
    """All expressions over all rows in one select, each where it is no error."""
    marks = [Field(f"ok{i}", BOOL) for i in range(len(trees))]
    lines = [(*row, *(ok[i] for ok in fine)) for i, row in enumerate(rows)]
    given = frame_of_rows(spark, Schema((*SCHEMA, *marks)), lines)
    given = given.toDF(*(f"c{i}" for i in range(len(SCHEMA))), *(m.name for m in marks)).localCheckpoint()
    parts = [F.expr(f"CASE WHEN ok{i} THEN {native_sql(t)} END").alias(f"v{i}") for i, t in enumerate(trees)]
    return given, rows_of(Schema(tuple(Field(f"v{i}", t.dtype) for i, t in enumerate(trees))), given.select(*parts))


@pytest.mark.slow
def test_values(spark, trees):
    rows = sample(150)
    expected = {text: values(tree, rows) for text, tree in trees.items()}
    fine = [[not isinstance(v, ExpressionError) for v in found] for found in expected.values()]
    _, found = compute(spark, list(trees.values()), rows, fine)
    wrong = []
    for k, (text, want) in enumerate(expected.items()):
        for row, got, value in zip(rows, (line[k] for line in found), want):
            near = text in INEXACT and isinstance(got, float) and got == pytest.approx(value, rel=1e-12, nan_ok=True)
            if (
                not isinstance(value, ExpressionError)
                and not same(got, value + 0.0 if isinstance(value, float) else value)
                and not near
            ):
                used = {SCHEMA.names[c]: row[c] for c in trees[text].columns()}
                wrong.append((text, used, "Spark", got, "ours", value))
                break
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.slow
def test_errors_are_errors(spark, trees):
    """What has no value for a row here has none for Spark, where nothing else is evaluated."""
    rows = sample(150)
    failing = {}
    for text, tree in trees.items():
        bad = [row for row, v in zip(rows, values(tree, rows)) if isinstance(v, ExpressionError)]
        kind = tree.function if hasattr(tree, "function") else ""
        failing.setdefault((kind, tree.dtype), (text, tree, bad[0])) if bad else None
    assert len(failing) > 20
    quiet = []
    for text, tree, row in list(failing.values())[:: 1 if many_examples() else 3]:  # each is a job
        frame = frame_of_rows(spark, SCHEMA, [row]).toDF(*(f"c{i}" for i in range(len(SCHEMA))))
        try:
            quiet.append((text, row, frame.select(F.expr(native_sql(tree))).collect()))
        except Exception as error:  # noqa: BLE001
            from tidemill.renderer.spark.failures import is_worth_care

            assert is_worth_care(error), error
    assert not quiet, "\n".join(map(str, quiet))


def test_every_native_function_is_tested(trees):
    def functions(tree):
        yield getattr(tree, "function", None)
        for arg in getattr(tree, "args", ()):
            yield from functions(arg)

    assert set(itertools.chain(*map(functions, trees.values()))) - {None, "cast"} == NATIVE
    assert set(FUNCTIONS) >= NATIVE


def test_a_careful_step_leaves_to_spark_what_cannot_fail(trees):
    assert all(FAST.sql(tree) == native_sql(tree) for tree in trees.values())
    assert all(CAREFUL.sql(tree) is None for tree in trees.values() if not isinstance(tree, BoundColumn))
    assert CAREFUL.sql(bind(expr("j"), SCHEMA)) == "c1"


def test_functions_that_are_not_native_run_in_the_executors(spark):
    flow = tm.Dataflow()
    x = flow.input("x", {"s": "string", "day": "date"})
    flow.output(
        "out",
        x.select(words="initcap(s)", later="day + 1", digits="regexp_replace(s, '[0-9]+', '#')").filter(
            "later > '2020-01-01'"
        ),
    )
    rows = [("one 12 two", dt.date(2020, 2, 28)), ("three", dt.date(1999, 1, 1)), (None, None)]
    out = tm.render(flow, spark, {"x": frame_of_rows(spark, x.schema, rows)})["out"]
    assert [tuple(r) for r in out.collect()] == [("One 12 Two", dt.date(2020, 2, 29), "one # two", 0, 1)]


def test_long_conditions_and_deep_sums(spark):
    either = functools.reduce(operator.or_, [tm.col("x") == i for i in range(1000)])
    deep = functools.reduce(operator.add, [tm.col("x")] * 1000)
    shallow = functools.reduce(operator.add, [tm.col("x")] * 90)
    flow = tm.Dataflow()
    c = flow.input("c", {"x": "int64"})
    flow.output(
        "out", c.filter(either).select("x", n=deep, m=shallow, text=" or ".join(f"x = {i}" for i in range(1000)))
    )
    schema = Schema.of({"x": "int64"})
    assert native_sql(bind(either, schema)) is not None  # flat, as it is to Spark
    assert native_sql(bind(shallow, schema)) is not None
    assert native_sql(bind(deep, schema)) is None  # by the kernels: Catalyst recurses
    frames = tm.render(flow, spark, {"c": frame_of_rows(spark, c.schema, [(999,), (1000,)])})
    assert [tuple(r)[:4] for r in frames["out"].collect()] == [(999, 999_000, 89_910, True)]


def test_zones_strings_and_quotients_mean_here_what_they_mean_elsewhere(spark):
    flow = tm.Dataflow()
    c = flow.input("c", {"s": "string", "a": "int64", "b": "int64", "ts": "timestamp"})
    a, b = tm.col("a"), tm.col("b")
    late = c.filter("ts >= timestamp '2020-01-01 00:00:00+01:00'")
    flow.output("out", late.select("a", "b", q=a // b, d=tm.div("a", "b"), r=a % b, s=tm.coalesce("s", tm.lit("none")),
                                   t="cast(s as timestamp)", size=tm.length("s")))  # fmt: skip
    eleven = dt.datetime(2019, 12, 31, 23)
    rows = [("2020-06-05 01:02:03+01:00", -7, 2, eleven), (None, 7, -2, eleven), ("2020-6", -7, -2, dt.datetime(2021, 1, 1)),
            ("no", 1, 0, eleven - dt.timedelta(seconds=1))]  # fmt: skip
    updates = [(row, 0, 1) for row in rows]
    tm.testing.check_equivalent(flow, {"c": updates}, engines=["reference", "embedded", "spark"])
    with flow.start(tm.Reference()) as run:
        run.insert("c", rows)
        run.advance()
        found = set(run.snapshot("out"))
    none = (7, -2, -4, -3, 1, "none", None, None)
    assert none in found
    assert {r[2:5] for r in found} == {(-4, -3, -1), (-4, -3, 1), (3, 3, -1)}
    assert {r[6] for r in found} == {dt.datetime(2020, 6, 5, 0, 2, 3), dt.datetime(2020, 6, 1), None}
