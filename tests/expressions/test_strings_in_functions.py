"""A string is a column or SQL text where a function takes a column, as in `select`, and a literal where it takes none."""

from __future__ import annotations

import datetime as dt
import inspect
from typing import Any

import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import SchemaError, UnknownColumnError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import Expr
from tidemill.expressions.functions import (
    choice,
    date_formats,
    dates,
    from_json,
    hashing,
    lists,
    number_formats,
    numbers,
    text,
    text_forms,
    tries,
    trigonometry,
)
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, to_sql

SCHEMA = Schema.of(
    {
        "s": "string", "two words": "string", "i": "int64", "n": "int32", "f": "float64", "day": "date",
        "t": "timestamp", "p": "bool", "l": "list<int64>", "w": "list<string>",
    }
)  # fmt: skip

# For each function calls, with a column's name where a column is expected; what stands in `lit` there is no column.
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "coalesce": [("s", "two words")], "nullif": [("s", "two words")], "least": [("i", "n")], "greatest": [("i", "n")],
    **{name: [("day",), ("t",)] for name in (
        "year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear", "hour", "minute",
        "second", "last_day", "unix_seconds", "unix_millis", "unix_micros", "to_timestamp", "to_date")},
    "extract": [(tm.lit("week"), "day")], "date_trunc": [(tm.lit("week"), "t")], "trunc": [("day", tm.lit("week"))],
    "date_add": [("day", "n")], "date_sub": [("day", "n")], "datediff": [("day", "t")], "date_diff": [("day", "t")],
    "add_months": [("day", "n")], "make_date": [("n", "n", "n")],
    "timestampadd": [(tm.lit("hour"), "i", "t")], "timestampdiff": [(tm.lit("hour"), "day", "t")], "age": [("day", "t")],
    "unix_date": [("day",)], "date_from_unix_date": [("n",)], "timestamp_seconds": [("i",)], "timestamp_millis": [("i",)],
    "timestamp_micros": [("i",)], "xxhash64": [("s", "i")], "hash64": [("s", "i")],
    "size": [("l",)], "get": [("l", "n")],
    **{name: [("f",)] for name in (
        "abs", "ceil", "exp", "floor", "isnan", "ln", "log2", "log10", "sign", "sqrt", "round")},
    "pmod": [("i", "n")], "div": [("i", "n")], "power": [("f", "i")], "shiftleft": [("i", "n")], "shiftright": [("i", "n")],
    "shiftrightunsigned": [("i", "n")],
    **{name: [("s",), ("two words",)] for name in (
        "upper", "lower", "initcap", "reverse", "length", "ascii", "trim", "ltrim", "rtrim")},
    "chr": [("i",)], "concat": [("s", "two words")], "concat_ws": [(tm.lit(", "), "s", "two words")],
    "substring": [("s", 1, 2)], "left": [("s", 1)], "right": [("s", 1)], "repeat": [("s", 2)],
    "lpad": [("s", 3, tm.lit("s"))], "rpad": [("s", 3, tm.lit("s"))], "replace": [("s", tm.lit("s"), tm.lit("i"))],
    "translate": [("s", tm.lit("s"), tm.lit("i"))], "instr": [("s", tm.lit("s"))], "locate": [(tm.lit("s"), "s")],
    "split_part": [("s", tm.lit("s"), 1)], "ilike": [("s", tm.lit("s%"))], "regexp_like": [("s", tm.lit("s"))],
    "regexp_replace": [("s", tm.lit("s"), tm.lit("i"))], "regexp_extract": [("s", tm.lit("(s)"), 1)],
    "when": [("p", tm.lit("s"))],
    **{name: [("f",)] for name in (
        "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "degrees", "radians", "cbrt", "expm1",
        "log1p")},
    **{name: [("f", "i")] for name in ("atan2", "hypot", "log")},
    **{name: [("s",), ("two words",)] for name in ("md5", "sha1", "crc32", "hex", "unhex", "base64", "unbase64")},
    "sha2": [("s", 256)], "format_string": [(tm.lit("%s"), "s")], "get_json_object": [("s", tm.lit("$.s"))], "from_json": [("s", tm.lit("a INT"))],
    "overlay": [("s", "two words", "n", "n")], "substring_index": [("s", "two words", "n")],
    "date_format": [("t", tm.lit("yyyy"))], "dayname": [("day",)], "monthname": [("t",)], "next_day": [("day", tm.lit("MO"))],
    "try_to_date": [("s",)], "try_to_timestamp": [("s",)],
    **{name: [("s", tm.lit("99"))] for name in ("to_number", "try_to_number")},
    **{f"try_{name}": [("i", "n")] for name in ("add", "subtract", "multiply", "divide", "mod")},
    "array": [("i", "n")], "split": [("s", tm.lit("s"))], "array_join": [("w", tm.lit("s"))], "sort_array": [("l", "p")],
    **{name: [("l",)] for name in ("array_distinct", "array_min", "array_max")}, "slice": [("l", "n", "n")],
    **{name: [("l", "n")] for name in ("element_at", "try_element_at", "array_contains", "array_position")},
}  # fmt: skip
NO_COLUMNS = {"interval", "pi"}
MODULES = (
    choice,
    dates,
    date_formats,
    from_json,
    hashing,
    lists,
    number_formats,
    numbers,
    text,
    text_forms,
    tries,
    trigonometry,
)


def bound(expression: Expr) -> Any:
    return bind(as_expr(expression, SCHEMA), SCHEMA)


def as_string(argument: Any) -> Any:
    """What a user writes for a literal that is no column: the plain string."""
    return argument.value if isinstance(argument, Expr) else argument  # type: ignore[attr-defined]


def test_the_table_has_every_public_function() -> None:
    builders = {
        name: found
        for module in MODULES
        for name, found in vars(module).items()
        if inspect.isfunction(found) and found.__module__ == module.__name__ and not name.startswith("_")
        if found.__annotations__["return"] in {"Expr", "When"}
    }
    assert all(getattr(tm, name) is found for name, found in builders.items())
    assert set(CALLS) == builders.keys() - NO_COLUMNS


@pytest.mark.parametrize(("name", "arguments"), [(name, a) for name, some in CALLS.items() for a in some])
def test_a_string_is_a_column_where_a_column_is_expected(name: str, arguments: tuple[Any, ...]) -> None:
    function = getattr(tm, name)
    given = function(*map(as_string, arguments))
    meant = function(*(tm.col(a) if isinstance(a, str) else as_string(a) for a in arguments))
    assert bound(given) == bound(meant)
    assert bind(given, SCHEMA) == bound(meant)  # wherever it is bound
    names = {a for a in arguments if isinstance(a, str)}
    assert {SCHEMA.names[i] for i in bound(given).columns()} == names


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n, some in CALLS.items() for a in some if n != "when"])
def test_a_string_may_be_sql_text(name: str, arguments: tuple[Any, ...]) -> None:
    function = getattr(tm, name)
    quoted = [f"coalesce(`{a}`, NULL)" if isinstance(a, str) else as_string(a) for a in arguments]
    plain = [tm.coalesce(tm.col(a), None) if isinstance(a, str) else as_string(a) for a in arguments]
    assert bound(function(*quoted)) == bound(function(*plain))


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n, some in CALLS.items() for a in some])
def test_a_string_that_names_no_column_may_have_been_meant_as_a_literal(name: str, arguments: tuple[Any, ...]) -> None:
    columns = [i for i, a in enumerate(arguments) if isinstance(a, str)]
    for i in columns:
        unknown = ["unknown" if i == j else as_string(a) for j, a in enumerate(arguments)]
        with pytest.raises(UnknownColumnError, match=r"no column `unknown`.* a literal is tm.lit\('unknown'\)"):
            bound(getattr(tm, name)(*unknown))


@pytest.mark.parametrize("written", ["n/a", "not given", "it's"])
def test_text_that_is_no_column_and_no_sql_may_have_been_meant_as_a_literal(written: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bound(tm.coalesce("s", written))
    assert f"tm.lit({written!r})" in str(caught.value)


def test_literals_are_literals_where_they_are_said_to_be() -> None:
    assert to_sql(bound(tm.coalesce("s", tm.lit("i")))) == "COALESCE(s, 'i')"
    assert to_sql(bound(tm.when("s = 'x'", "s").when(tm.col("p"), "i").otherwise("n"))) == (
        "CASE WHEN s = 'x' THEN 's' WHEN p THEN 'i' ELSE 'n' END"
    )
    assert to_sql(bound((tm.col("s") == "two words") | tm.col("s").isin(["i"]) | tm.col("s").contains("n"))) == (
        "s = 'two words' OR s IN ('i') OR CONTAINS(s, 'n')"
    )
    assert to_sql(bound(tm.col("s").fill_null("i"))) == "COALESCE(s, 'i')"


def test_on_every_engine(engine: Any) -> None:
    flow = tm.Dataflow()
    c = flow.input("c", {"k": "string", "s": "string", "v": "int64"})
    window = tm.Window.partition_by(tm.upper("k")).order_by(tm.length("s"), "v")
    flow.output("plain", c.select(key=tm.upper("k"), size=tm.length("s"), or_k=tm.coalesce("s", "k", tm.lit("-"))))
    flow.output("kept", c.filter(tm.length("s") > 1))
    flow.output("agg", c.group_by(k=tm.upper("k")).agg(n=tm.sum(tm.length("s")), m=tm.coalesce("max(v)", "0"),
                                                       last=tm.last(tm.upper("s"), order_by=tm.abs("v"))))  # fmt: skip
    flow.output("window", c.select("s", before=tm.coalesce(tm.lag("s").over(window), tm.lit("none"))))
    with start(flow, engine) as run:
        run.insert("c", [("a", "xyz", 1), ("A", None, 2), ("b", "y", -3)])
        run.advance()
        assert set(run.snapshot("plain")) == {("A", 3, "xyz"), ("A", None, "A"), ("B", 1, "y")}
        assert set(run.snapshot("kept")) == {("a", "xyz", 1)}
        assert set(run.snapshot("agg")) == {("A", 3, 2, None), ("B", 1, -3, "Y")}
        assert set(run.snapshot("window")) == {(None, "none"), ("xyz", "none"), ("y", "none")}


def test_a_column_whose_name_is_no_identifier_is_found() -> None:
    assert bound(tm.upper("two words")).columns() == {1}
    assert bound(tm.date_add("day", "n + 1")).columns() == {4 + 1, 3}


def test_a_date_as_text_is_a_literal_only_in_lit() -> None:
    with pytest.raises(
        SchemaError, match=r"'2020-02-29' in a function would be SQL text.*: a date is tm.lit\('2020-02-29'\)"
    ):
        bound(tm.datediff("day", "2020-02-29"))
    assert bound(tm.to_date(tm.lit("2020-02-29"))).value == dt.date(2020, 2, 29)
