"""The two evaluators agree on random expressions over random rows, bulk with single rows, and with DuckDB."""

# ruff: noqa: E501 - tables of examples

from __future__ import annotations

import datetime as dt
import decimal
import functools
import itertools
import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from support.running import examples, scaled

from tidemill.boundary.values import canonical
from tidemill.errors import ExpressionError, SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Call, Expr, col, lit
from tidemill.expressions.functions import FUNCTIONS, can_cast
from tidemill.expressions.functions.casts import cast_can_fail, cast_value
from tidemill.expressions.functions.choice import nullif
from tidemill.expressions.functions.dates import interval
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr, to_sql
from tidemill.renderer.embedded.expressions import evaluator as scalar
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.expressions.few_rows import compile_row_scalar
from tidemill.renderer.embedded.expressions.kernels import plain
from tidemill.renderer.embedded.expressions.operators import COMPARISON
from tidemill.renderer.reference.expressions import evaluate

SCHEMA = Schema.of(
    {
        "i": "int64", "j": "int64", "n": "int32", "m": "int32", "f": "float64", "g": "float64", "d": "decimal(10,2)",
        "e": "decimal(38,18)", "s": "string", "u": "string", "t": "timestamp", "day": "date", "p": "bool", "q": "bool",
        "raw": "binary", "l": "list<int64>", "ll": "list<int64>", "x": "list<float64>", "xx": "list<float64>",
        "w": "list<string>", "z": "timestamptz", "c": "time", "v": "interval", "k": "uuid", "r": "struct<a: int64, b: string>",
    }
)  # fmt: skip

# Values: small ones, so that equal ones meet, and those at the limits.
_floats = st.sampled_from([0.0, -0.0, 1.0, -1.5, 2.5, 1e7, 1e-4, 1e300, 5e-324, math.nan, math.inf, -math.inf, 2.0**63])
_texts = st.sampled_from(["", "a", "ab", "A%", "a_b", "ß", "Ärger", " 12 ", "+7", "-0.5", "1e3", "NaN", "-inf", "true", "No",
                          "2020-02-29", "2020-02-30", "2020-01-01 10:00:00.25", "\n", "\\", "0x1F", "99999999999999999999"])  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63) + 1, 2**31, 2**53 + 1, 10**18]),
    "int32": st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]),
    "float64": _floats | st.floats(),
    "decimal(10,2)": st.sampled_from(["0.00", "1.50", "-0.05", "2.35", "99999999.99", "-99999999.99"]).map(decimal.Decimal),
    "decimal(38,18)": st.sampled_from(["0", "1.5", "-0.000000000000000001", "12345678901234567890.123456789012345678"]).map(
        lambda v: decimal.Decimal(v).quantize(decimal.Decimal("1e-18"), context=decimal.Context(prec=60))
    ),
    "string": _texts | st.text("aA%_ ß\\", max_size=4),
    "timestamp": st.sampled_from([dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2020, 2, 29),
                                  dt.datetime(2020, 2, 29, 1, 2, 3, 450_000), dt.datetime(9999, 12, 31)]),
    "date": st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(9999, 12, 31)]),
    "bool": st.booleans(),
    "binary": st.sampled_from([b"", b"a", b"\xff", b"\x00"]),
    "timestamptz": st.sampled_from([dt.datetime(1, 1, 1), dt.datetime(2020, 2, 29, 1, 2, 3, 450_000), dt.datetime(9999, 12, 31)]).map(
        lambda v: v.replace(tzinfo=dt.UTC)
    ),
    "time": st.sampled_from([dt.time(), dt.time(10, 0, 1, 500_000), dt.time.max]),
    "interval": st.sampled_from([dt.timedelta(), dt.timedelta(days=1), dt.timedelta(days=-400, microseconds=5), dt.timedelta(hours=-25),
                                 dt.timedelta(microseconds=2**63 - 1)]),
}  # fmt: skip
SCALARS = tuple(VALUES)
"""The kinds of values that can be literals."""
for _element in ("int64", "float64", "string"):
    VALUES[f"list<{_element}>"] = st.lists(st.none() | VALUES[_element], max_size=2).map(tuple)
VALUES["uuid"] = st.sampled_from(["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000"])
VALUES["struct<a: int64, b: string>"] = st.tuples(st.none() | VALUES["int64"], st.none() | VALUES["string"])
VALUED = "struct<a: int64, b: string>"
KINDS = tuple(VALUES)
NUMBERS = KINDS[:5]
ROWS = st.lists(st.tuples(*(st.none() | VALUES[str(f.dtype)] for f in SCHEMA)), min_size=1, max_size=6)


SHARES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
UNITS = ["year", "QUARTER", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
INTERVALS = [lit(v) for v in (dt.timedelta(days=1), dt.timedelta(days=-400), interval(months=1), interval(months=-13), interval(years=3000),
             interval(weeks=2), dt.timedelta(microseconds=1), dt.timedelta(hours=-25, seconds=3, microseconds=5), dt.timedelta(minutes=90))]  # fmt: skip
PATTERNS = [
    "a",
    "a+",
    "a*",
    "[^a]",
    "^a",
    "a$",
    ".",
    "(a|b)+",
    r"\s",
    r"\S+",
    r"\d{1,2}",
    r"\w",
    r"\bA",
    "(?i)A",
    "a(?=%)",
    "",
    r"(.)\1",
    r"[a\s]+?",
    "ß|_",
    "b?$",
]


def trees(kind: str, depth: int) -> st.SearchStrategy[Expr]:
    """Expressions of (about) a type: binding decides the exact one."""
    columns = [col(f.name) for f in SCHEMA if str(f.dtype) == kind]
    leaves = st.sampled_from(columns) | st.just(lit(None))
    if kind in SCALARS:
        leaves |= VALUES[kind].map(lit)
    return leaves if depth == 0 else st.deferred(lambda: leaves | st.one_of(*composed(kind, depth - 1)))


def call(function: str, *args: st.SearchStrategy[Any]) -> st.SearchStrategy[Expr]:
    found = st.tuples(*args).map(lambda given: Call(function, tuple(map(lit, given))))
    found.calls = function  # type: ignore[attr-defined]
    return found


def composed(kind: str, depth: int) -> list[st.SearchStrategy[Expr]]:  # noqa: PLR0912, PLR0915 - a line or two a function
    """Every function of the registry that gives this type, with arguments of types that it takes."""

    def sub(k: str) -> st.SearchStrategy[Expr]:
        return trees(k, depth)

    any_kind = st.sampled_from(KINDS)
    same = sub(kind)
    conditions = sub("bool")
    found = [
        call("case", conditions, same, same),
        call("case", conditions, same, conditions, same, same),
        call("coalesce", same, same),
        call("least", same, same, same),
        call("greatest", same, same),
        any_kind.flatmap(sub).map(lambda e: e.cast(kind)),
        st.tuples(same, same).map(lambda a: nullif(*a)),
    ]
    if kind in ("int64", "float64"):
        found += [
            call(f, sub(f"list<{kind}>"), st.integers(-1, 2) | trees("int32", depth))
            for f in ("get", "item", "element_at")
        ]
        found += [call(f, sub(f"list<{kind}>")) for f in ("array_min", "array_max")]
        found += [call("list_mode", sub(f"list<{kind}>"), st.booleans())]
        found += [call("list_percentile_disc", sub(f"list<{kind}>"), SHARES, st.booleans())]
    if kind == "float64":
        found += [call("round_scaled", same, st.integers(-20, 20))]
        found += [call("list_percentile", sub(f"list<{k}>"), SHARES, st.booleans()) for k in ("int64", "float64")]
        listed = st.lists(st.tuples(sub(kind), sub(kind)).map(lambda p: Call("array", p)), min_size=1, max_size=3)
        found += [
            call(
                "list_regression",
                listed.map(lambda p: Call("array", tuple(p))),
                st.sampled_from(["covar_pop", "covar_samp", "corr", "slope", "intercept", "r2", "sxy"]),
            )
        ]
    if kind.startswith("list<"):
        pair: Any = st.tuples(sub("float64"), sub(kind[5:-1]))
        pair = pair.map(lambda p: Call("named_struct", (lit("by"), p[0], lit("of"), p[1])))
        structs = st.tuples(pair, pair, pair).map(lambda p: Call("array", p))
        found += [call("array", *[sub(kind[5:-1])] * 2), call("array_distinct", same), call("list_or_empty", same)]
        found += [
            call("sort_array", same, sub("bool")),
            call("values_in_order", structs, st.sampled_from(["aA", "Dd", "Ad", "dA"])),
            call("slice", same, st.integers(-3, 3), st.integers(-1, 3) | trees("int32", depth)),
        ]
    if kind == "interval":
        apart = (("timestamp", "timestamptz"), ("date", "timestamp"), ("time", "time"), ("interval", "interval"))
        found += [call("interval_subtract", sub(a), sub(b)) for a, b in apart] + [call("interval_add", same, same)]
    if kind in ("timestamp", "timestamptz"):
        found += [call("interval_subtract", same, sub("interval")), call("interval_add", sub("interval"), same)]
    if kind == "int32":
        ages: Any = call("age", sub("timestamp"), sub("date"))
        months: Any = ages.map(lambda e: e.field("months"))
        months.calls = "age"
        found += [months]
        found += [call(f, sub(k)) for f in ("hour", "minute", "second") for k in ("time", "interval", "timestamptz")]
        found += [call("day", sub("interval"))]
    if kind.startswith("struct<"):
        found += [call("named_struct", st.just("a"), sub("int64"), st.just("b"), sub("string"))]
    found += [call("field", sub(VALUED), st.just(n)) for n, k in (("a", "int64"), ("b", "string")) if k == kind]
    if kind == "list<string>":
        found += [call("split", sub("string"), st.sampled_from(PATTERNS), st.integers(-1, 3))]
    if kind == "int64":
        found += [call(f, sub("list<int64>")) for f in ("list_bit_and", "list_bit_or", "list_bit_xor")]
        found += [call("array_position", sub("list<int64>"), same)]
    if kind in NUMBERS:
        places = st.integers(-3, 3)
        found += [call("round", same, places), call("pmod", same, same)]
        narrower = st.sampled_from(NUMBERS if kind == "float64" else (kind,)).flatmap(sub)
        found += [call(f, same, narrower) for f in ("add", "subtract", "multiply", "modulo")]
        found += [call(f, same) for f in ("negate", "abs")]
    whole = st.sampled_from(["int32", "int64"]).flatmap(sub)
    if kind in ("int32", "int64"):
        shifts = st.integers(-70, 70) | trees("int32", depth)
        found += [call(f, same, whole) for f in ("bit_and", "bit_or", "bit_xor")] + [call("bit_not", same)]
        found += [call(f, same, shifts) for f in ("shift_left", "shift_right", "shift_right_unsigned")]
    if kind not in ("int32", "float64", "bool", "string", "binary", "date", "timestamp"):
        found += [call(f, st.sampled_from(NUMBERS).flatmap(sub)) for f in ("floor", "ceil")]
    if kind == "float64":
        found += [call(f, st.sampled_from(NUMBERS).flatmap(sub)) for f in ("sign", "sqrt")]
        number = st.sampled_from(NUMBERS).flatmap(sub)
        found += [call("divide", number, number)]
    moment = st.sampled_from(["date", "timestamp"]).flatmap(sub)
    units = st.sampled_from(UNITS)
    if kind == "int64":
        found += [any_kind.flatmap(lambda k: call("xxhash64", sub(k), st.just(col("i")), sub(k)))]
        found += [call("xxhash64", *[sub(k) for k in KINDS])]
        found += [call(f, moment) for f in ("unix_seconds", "unix_millis", "unix_micros")]
        found += [call("timestampdiff", units, moment, moment), call("int_divide", sub("decimal(10,2)"), whole)]
        found += [call("floor_divide", sub("decimal(10,2)"), whole), call("floor_divide", whole, whole)]
        found += [call("int_divide", whole, whole), call("add", whole, whole), call("modulo", whole, whole)]
    if kind == "int32":
        text = sub("string")
        found += [call("length", text), call("length", sub("binary")), call("ascii", text)]
        found += [call("size", sub("list<int64>")), call("size", sub("list<float64>"))]
        found += [call("locate", st.text("aß ", max_size=2), text, st.integers(-1, 3))]
        found += [
            call(f, moment)
            for f in (
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
            )
        ]
        found += [call("datediff", moment, moment), call("unix_date", sub("date"))]
    if kind == "date":
        days = st.integers(-40, 40) | trees("int32", depth)
        found += [call(f, moment, days) for f in ("date_add", "date_sub", "add_months")]
        found += [call(f, same, days) for f in ("add", "subtract")] + [call("add", days, same)]
        found += [call("last_day", moment), call("trunc", moment, st.sampled_from(["year", "quarter", "mm", "week"]))]
        found += [
            call("make_date", st.integers(2019, 2020) | trees("int32", depth), st.integers(0, 13), st.integers(27, 32))
        ]
        found += [call("date_from_unix_date", sub("int32")), call("add", same, st.sampled_from(INTERVALS[:6]))]
    if kind == "timestamp":
        found += [call(f, moment, st.sampled_from(INTERVALS)) for f in ("add", "subtract")]
        found += [call("date_trunc", units, moment), call("timestampadd", units, whole, moment)]
        found += [call(f, whole) for f in ("timestamp_seconds", "timestamp_millis", "timestamp_micros")]
    if kind == "string":
        small = st.none() | st.integers(-3, 3)
        found += [call(f, same) for f in ("upper", "lower", "trim", "ltrim", "rtrim")]
        found += [call(f, same) for f in ("initcap", "reverse")] + [call("chr", whole)]
        found += [call("concat", same, same), call("substring", same, small, small)]
        found += [call("concat_ws", same, same, same), call("concat_ws", st.just(","), same)]
        found += [call(f, same, small) for f in ("left", "right", "repeat")]
        part = st.text("aAß% ", max_size=2)
        found += [call(f, same, small, part) for f in ("lpad", "rpad")]
        found += [call(f, same, part, part) for f in ("replace", "translate")]
        found += [call("split_part", same, part, st.sampled_from([-2, -1, 1, 2, 3]))]
        found += [
            call("regexp_replace", same, st.sampled_from(PATTERNS), st.sampled_from(["", "x", r"\$<$0>", "\\\\"]))
        ]
        found += [
            call("regexp_extract", same, st.sampled_from(PATTERNS), st.just(0)),
            call("regexp_extract", same, st.just("(a|_)(b)?"), st.integers(0, 2)),
        ]
        found += [call("array_join", sub("list<string>"), part), call("row_text", *[sub(k) for k in KINDS])]
    if kind == "bool":
        found += [call("array_contains", sub("list<float64>"), sub("float64"))]
        pairs = any_kind.flatmap(lambda k: st.tuples(sub(k), sub(k)))
        mixed = st.tuples(*[st.sampled_from(NUMBERS).flatmap(sub)] * 2)
        for function in ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"):
            compared: Any = (pairs | mixed).map(functools.partial(Call, function))
            compared.calls = function
            found.append(compared)
        found += [any_kind.flatmap(lambda k: call("in", sub(k), sub(k), sub(k)))]
        scalars = st.sampled_from(SCALARS)
        found += [scalars.flatmap(lambda k: call("in", sub(k), st.none() | VALUES[k], VALUES[k]))]
        found += [call("and", same, same), call("or", same, same), call("not", same)]
        found += [any_kind.flatmap(lambda k: call("is_null", sub(k)))]
        plain = st.none() | st.text("a%_A ", max_size=3)
        found += [call(f, sub("string"), plain) for f in ("like", "starts_with", "ends_with", "contains")]
        found += [call("regexp_like", sub("string"), st.sampled_from(PATTERNS)), call("isnan", sub("float64"))]
        found += [call("like", sub("string"), st.sampled_from([r"a\%", r"\\%", r"a\__", "%a_b%"]))]
    return [*found, *further(kind, depth)]


ANGLES = [
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
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
]


def of_text(kind: str, texts: st.SearchStrategy[Expr]) -> list[st.SearchStrategy[Expr]]:
    """The functions that read text by a pattern."""
    if kind.startswith("decimal("):  # of other digits, by the format
        forms = st.sampled_from(["99", "S9.9", "9,990.99MI"])
        return [cast_to(kind, call(f, texts, forms)) for f in ("to_number", "try_to_number")]
    readers = {
        "date": (["date_of_text", "try_date_of_text"], "d.M.yy"),
        "timestamp": (["timestamp_of_text", "try_timestamp_of_text"], "h a"),
    }
    functions, other = readers.get(kind, ([], ""))
    forms = st.sampled_from(["yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SS", other])
    return [call(f, texts, forms) for f in functions]


def cast_to(kind: str, made: Any) -> Any:
    cast: Any = made.map(lambda e: e.try_cast(kind))
    cast.calls = made.calls
    return cast


def further(kind: str, depth: int) -> list[st.SearchStrategy[Expr]]:
    """The functions that have no kernel."""

    def sub(k: str) -> st.SearchStrategy[Expr]:
        return trees(k, depth)

    same, number = sub(kind), st.sampled_from(NUMBERS).flatmap(sub)
    whole = st.sampled_from(["int32", "int64"]).flatmap(sub)
    moment = st.sampled_from(["date", "timestamp"]).flatmap(sub)
    casts: Any = st.sampled_from(KINDS).flatmap(sub).map(lambda e: e.try_cast(kind))
    casts.calls = "try_cast"
    found = [casts]
    if kind in ("int32", "float64", "string"):
        smaller = {"int32": ["smallint", "tinyint"], "float64": ["real"], "string": ["varchar 1", "char 3"]}[kind]
        found += [call("fit", same, st.sampled_from(smaller), st.booleans())]
    if kind in NUMBERS:
        found += [call(f, same, same) for f in ("try_add", "try_subtract", "try_multiply", "try_mod")]
    if kind == "float64":
        found += [call(f, number) for f in ANGLES]
        found += [call(f, number, number) for f in ("atan2", "hypot", "log", "try_divide")]
    if kind in ("int64", "float64"):
        found += [call("try_element_at", sub(f"list<{kind}>"), st.integers(-1, 2) | trees("int32", depth))]
    if kind == "int64":
        found += [call("crc32", sub("string")), call("crc32", sub("binary"))]
    if kind == "binary":
        found += [call("unhex", sub("string")), call("unbase64", sub("string"))]
    found += of_text(kind, sub("string"))
    if kind == "date":
        found += [call("next_day", moment, st.sampled_from(["MO", "sun", "Friday"]))]
    if kind == "string":
        data = st.sampled_from(["string", "binary"]).flatmap(sub)
        places, part = st.integers(-3, 5) | trees("int32", depth), st.text("aA%", max_size=2)
        found += [call(f, data) for f in ("md5", "sha1", "base64", "hex")] + [call("hex", whole)]
        found += [call("sha2", data, st.sampled_from([0, 256, 512]))]
        found += [call(f, same, same) for f in ("trim_of", "ltrim_of", "rtrim_of")]
        found += [call("overlay", same, same, places), call("overlay", same, same, places, places)]
        found += [call("substring_index", same, part, places)]
        texts = same | st.just(lit('{"a":[1.50,{"b":"x"}],"c":null}'))
        objects = st.sampled_from(['{"a":1,"b":"x"}', '{"a":"1","b":[1.50]}', '{"a":2147483648}', "[]"]).map(lit)
        found += [call("field", call("from_json", same | objects, st.just("a INT, b STRING")), st.just("b"))]
        found += [call("get_json_object", texts, st.sampled_from(["$", "$.a", "$.a[1].b", "$['c']"]))]
        form = st.just("%s|%-6s|%05d|%,d|%x|%.2f%%")
        found += [call("format_string", form, same, sub("bool"), whole, whole, whole, sub("float64"))]
        patterns = ["yyyy-MM-dd HH:mm:ss.SSS", "d MMM yy, h:mm a 'o''clock'", "EEEE DDD q"]
        found += [call("date_format", moment, st.sampled_from(patterns))]
        exact = whole | sub("decimal(10,2)")
        found += [call("to_char", exact, st.sampled_from(["$9,999.99", "S000", "999.9PR"]))]
        found += [call("template_to_char", exact, st.sampled_from(["FM9,990.99", "S000", "999.9PR"]))]
        found += [call("template_to_char", moment, st.sampled_from(["FMDay, DDth", "YYYY-MM-DD US"]))]
        found += [call(f, moment) for f in ("dayname", "monthname")]
    return found


expressions = st.sampled_from(KINDS).flatmap(lambda k: trees(k, 2))


def bound_or_reject(expression: Expr) -> Bound:
    try:
        return bind(expression, SCHEMA)
    except SchemaError:
        assume(False)  # noqa: FBT003
        raise


def outcome(evaluation: Any) -> tuple[str, Any]:
    """The value, floats by their bits but for NaN, or the error's text."""
    try:
        value = evaluation()
    except ExpressionError as error:
        return "error", str(error)
    value = tuple(value) if isinstance(value, list) else value
    value = canonical(value) if isinstance(value, (dict, dt.datetime)) else value
    return type(value).__name__, repr(value)


def arrays(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([r[i] for r in rows], f.dtype.arrow) for i, f in enumerate(SCHEMA)]


SETTINGS = settings(
    max_examples=scaled(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def check_agreement(tree: Bound, rows: list[tuple[Any, ...]]) -> None:
    """Row by row the same value or the same error; in bulk the same values, or the first row's error."""
    compiled, columns = compile_scalar(tree), arrays(rows)
    expected = [outcome(lambda r=row: evaluate(tree, r)) for row in rows]
    for i, want in enumerate(expected):
        single = [c.slice(i, 1) for c in columns]
        assert outcome(lambda s=single: compiled(s, 1)[0].as_py()) == want, (to_sql(tree), rows[i])
    quick = compile_row_scalar(tree)
    if quick is not None:
        for row, want in zip(rows, expected, strict=True):
            try:
                found = outcome(lambda r=row: quick(r))
            except FailureError:  # what went wrong is left to the kernels to say
                found = ("error", "")
            assert found == want or (found[0] == want[0] == "error"), (to_sql(tree), row)
    failed = [i for i, (kind, _) in enumerate(expected) if kind == "error"]
    if failed:
        with pytest.raises(ExpressionError) as caught:
            compiled(columns, len(rows))
        assert (caught.value.row_index, str(caught.value)) == (failed[0], expected[failed[0]][1])
    else:
        values = compiled(columns, len(rows))
        assert values.type == tree.dtype.arrow
        values.validate(full=True)
        assert [outcome(lambda v=v: v) for v in values.to_pylist()] == expected, to_sql(tree)


@pytest.mark.slow
@given(expressions, ROWS)
@SETTINGS
def test_evaluators_agree(expression: Expr, rows: list[tuple[Any, ...]]) -> None:
    check_agreement(bound_or_reject(expression), rows)


INEXACT = {"exp": 1, "ln": 1, "log10": 1, "log2": 1, "power": 2}
"""Functions that IEEE does not fix, and how many numbers they take."""
CALLS = [c for kind in KINDS for c in composed(kind, 0) if hasattr(c, "calls")]


DEAR = {"row_text", "xxhash64"}
"""Functions of rows of any width, of which cases take long to draw."""


@pytest.mark.parametrize(
    "function", [pytest.param(f, marks=[pytest.mark.slow] * (f in DEAR)) for f in sorted({c.calls for c in CALLS})]
)
def test_evaluators_agree_on_each_function(function: str) -> None:
    @given(st.one_of(*[c for c in CALLS if c.calls == function]), ROWS)
    @settings(SETTINGS, max_examples=scaled(25))
    def agreement(expression: Expr, rows: list[tuple[Any, ...]]) -> None:
        check_agreement(bound_or_reject(expression), rows)

    agreement()


@pytest.mark.parametrize("function", INEXACT)
def test_evaluators_nearly_agree(function: str) -> None:
    @given(st.tuples(*[trees("float64", 1)] * INEXACT[function]), ROWS)
    @settings(SETTINGS, max_examples=scaled(25))
    def agreement(args: tuple[Expr, ...], rows: list[tuple[Any, ...]]) -> None:
        tree = bound_or_reject(Call(function, args))
        try:
            expected = [evaluate(tree, row) for row in rows]
        except ExpressionError:
            return
        found = compile_scalar(tree)(arrays(rows), len(rows)).to_pylist()
        assert found == [v if v is None else pytest.approx(v, rel=1e-14, nan_ok=True) for v in expected]

    agreement()


@pytest.mark.slow
@given(expressions, ROWS)
@SETTINGS
def test_sql_text_binds_back_to_an_equal_tree(expression: Expr, rows: list[tuple[Any, ...]]) -> None:
    tree = bound_or_reject(expression)
    assert bind(expr(to_sql(tree)), SCHEMA) == tree
    again = bind(expr(to_sql(tree, explicit=True)), SCHEMA)
    assert again.dtype == tree.dtype
    # An error says its text, and so may differ in how literals are written; whether there is one may not.
    for row in rows:
        one, other = outcome(lambda r=row: evaluate(tree, r)), outcome(lambda r=row: evaluate(again, r))
        assert one == other or one[0] == other[0] == "error"


@pytest.mark.slow
@given(expressions, ROWS)
@settings(SETTINGS, max_examples=scaled(200))
def test_a_value_is_null_only_where_the_tree_says_so(expression: Expr, rows: list[tuple[Any, ...]]) -> None:
    tree = bound_or_reject(expression)
    for row in rows:
        kind, _ = outcome(lambda r=row: evaluate(tree, r))
        assert tree.nullable or kind != "NoneType"


def test_every_function_is_in_both_evaluators_and_in_the_random_trees() -> None:
    assert set(scalar.RULES) <= set(FUNCTIONS)  # the others are evaluated as they mean it in Python
    source = Path(__file__).read_text(encoding="utf-8")
    assert [f for f in FUNCTIONS if f'"{f}"' not in source] == []
    within = {"in", "is_null", "from_json"}  # made within others
    assert {c.calls for c in CALLS} | within | {*INEXACT} == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("function", "wrong", "text"),
    [("and", "and", "p AND q"), ("lt", "le", "i < j"), ("add", "subtract", "i + j"), ("is_null", "not", "p IS NULL"),
     ("least", "greatest", "LEAST(f, g)"), ("modulo", "divide", "f % g"), ("upper", "reverse", "UPPER(s)")],
)  # fmt: skip
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, function: str, wrong: str, text: str) -> None:
    rules = scalar.RULES
    fault = rules[wrong] if wrong != function else plain("and")  # NULL AND FALSE becomes NULL
    if (function, wrong) == ("lt", "le"):
        monkeypatch.setitem(COMPARISON, "lt", COMPARISON["le"])
    else:
        monkeypatch.setitem(rules, function, fault)
    tree = bind(expr(text), SCHEMA)

    @given(ROWS)
    @settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate])
    def agreement(rows: list[tuple[Any, ...]]) -> None:
        check_agreement(tree, rows)

    with pytest.raises(AssertionError):
        agreement()


# DuckDB, where its meaning is the same: no errors there, and LIKE has no escape.

DUCKDB = ["p AND q", "p OR q", "NOT p", "i = j", "i <> j", "i < j", "f < g", "f <= g", "f = g", "s < u", "t < day", "i IS NULL",
          "i IN (1, 2)", "i IN (1, NULL)", "i NOT IN (1, NULL)", "i BETWEEN -1 AND j", "p = q", "d < 1.5", "day = '2020-02-29'",
          "CASE WHEN p THEN i WHEN q THEN j ELSE 0 END", "CASE WHEN p THEN s END", "COALESCE(i, j, 0)", "NULLIF(i, j)",
          "LEAST(f, g)", "GREATEST(s, u)", "i IS NOT DISTINCT FROM j", "f IS NOT DISTINCT FROM g", "n / 2", "s LIKE 'a%'",
          "s LIKE '_b'", "length(s)", "trim(s)", "substring(s, 2, 1)", "abs(d)", "d + d", "-d", "n % 2",
          "j & i", "i | j", "~n", "d % 1.5", "round(d, 1)", "replace(s, 'a', 'x')",
          "left(s, 2)", "right(s, 2)", "reverse(s)", "repeat(s, 2)", "concat_ws(',', s, u)", "translate(s, 'aA', 'x')", "instr(s, 'b')", "ltrim(s)",
          "regexp_extract(s, '[a-c]+', 0)", "year(day)", "quarter(t)", "month(t)", "day(t)", "dayofyear(t)", "weekofyear(day)", "hour(t)",
          "minute(t)", "second(t)", "date_trunc('month', t)", "date_trunc('week', t)", "date_trunc('hour', t)", "last_day(day)",
          "t - INTERVAL '0' DAY", "sign(n)", "sqrt(abs(f))", "s IS NOT NULL AND u NOT LIKE 'a%'", "CAST(n AS STRING)", "CAST(day AS STRING)", "CAST(p AS INT)", "CAST(day AS TIMESTAMP)", "CAST(d AS DOUBLE)"]  # fmt: skip


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.parametrize("text", DUCKDB)
def test_agreement_with_duckdb(text: str, database: duckdb.DuckDBPyConnection) -> None:
    tree = bind(expr(text), SCHEMA)

    @given(ROWS)
    @examples(25)
    def agreement(rows: list[tuple[Any, ...]]) -> None:
        table = pa.table(arrays(rows), schema=SCHEMA.to_arrow())
        database.register("rows_given", table)
        theirs = [r[0] for r in database.execute(f"SELECT {text} FROM rows_given").fetchall()]  # noqa: S608
        columns = [c.combine_chunks() for c in table.columns]
        if -(2**63) in theirs:  # the one int64 that is none here
            with pytest.raises(ExpressionError, match="overflow"):
                compile_scalar(tree)(columns, len(rows))
            return
        ours = compile_scalar(tree)(columns, len(rows)).to_pylist()
        assert [_comparable(v) for v in ours] == [_comparable(v) for v in theirs]

    agreement()


@pytest.mark.parametrize(("text", "row"), [("i & j", (-2, -(2**63) + 1)), ("i ^ j", (-(2**63) + 1, 1))])
def test_bits_that_make_the_least_int64_are_an_overflow(text: str, row: tuple[int, int]) -> None:
    """Its code is NULL's. (Found by the comparison with DuckDB, which has it.)"""
    tree = bind(expr(text), Schema.of({"i": "int64", "j": "int64"}))
    with pytest.raises(ExpressionError, match="overflow"):
        compile_scalar(tree)([pa.array([value], pa.int64()) for value in row], 1)
    with pytest.raises(ExpressionError, match="overflow"):
        evaluate(tree, row)


@pytest.mark.parametrize("to", ["int64", "int32", "bool", "float64", "string", "decimal(5,0)", "decimal(9,4)"])
@pytest.mark.parametrize("source", ["decimal(2,2)", "decimal(38,38)"])
def test_casts_of_decimals_without_a_digit_before_the_point(source: str, to: str) -> None:
    """Found by a random expression: Arrow rounds none of them to whole numbers."""
    schema = Schema.of({"d": source})
    values = [decimal.Decimal(text) for text in ("0.00", "-0.99", "0.5")] + [None]
    tree = bind(col("d").cast(to), schema)
    column = pa.array(values, schema.fields[0].dtype.arrow)
    found = compile_scalar(tree)([column], len(values))
    assert [repr(v) for v in found.to_pylist()] == [repr(evaluate(tree, (v,))) for v in column.to_pylist()]


def _comparable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("format_string('%.2f', f)", "-0.00"),
        ("format_string('%.2f', element_at(array(f, 1.0e0), 1))", "-0.00"),
        ("format_string('%.2f', named_struct('a', f).a)", "-0.00"),
    ],
)
def test_the_sign_of_zero_is_kept_within_an_expression(text, expected):
    """Values on their way to Python had it dropped, as those of collections have."""
    tree = bind(expr(text), SCHEMA)
    row = tuple(-0.0 if field.name == "f" else None for field in SCHEMA)
    assert evaluate(tree, row) == expected
    check_agreement(tree, [row])


TYPES = {kind: Schema.of({"x": kind}).fields[0].dtype for kind in KINDS}
SURE = [
    (a, b)
    for a, b in itertools.product(KINDS, KINDS)
    if a != b and can_cast(TYPES[a], TYPES[b]) and not cast_can_fail(TYPES[a], TYPES[b])
]


@given(st.sampled_from(SURE).flatmap(lambda pair: st.tuples(st.just(pair), VALUES[pair[0]])))
@settings(SETTINGS, max_examples=scaled(300))
def test_casts_that_are_said_not_to_fail_never_do(drawn: tuple[tuple[str, str], Any]) -> None:
    """Plans compute them for rows that nobody may ask for."""
    (source, to), value = drawn
    cast_value(value, TYPES[source], TYPES[to])


def test_which_casts_may_fail() -> None:
    assert {("timestamp", "date"), ("int64", "string"), ("int32", "int64"), ("bool", "int32")} <= set(SURE)
    assert not {("string", "date"), ("int64", "int32"), ("float64", "int64"), ("binary", "string")} & set(SURE)
