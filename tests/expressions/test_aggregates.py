"""Aggregates as expressions: how they print, what SQL text stands for them, and which of them are the same."""

import pytest

import tidemill as tm
from tidemill.expressions.aggregates import with_expressions
from tidemill.expressions.display import display
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.expressions.structure import identical

SCHEMA = Schema.of({"x": "int64", "y": "int64", "t": "timestamp", "two words": "int64", "b": "bool"})

SAME = [
    (tm.count(), "count(*)", "COUNT(*)"),
    (tm.count(), "count()", "COUNT(*)"),
    (tm.count("x"), "count(x)", "COUNT(x)"),
    (tm.count_distinct("x"), "count(distinct x)", "COUNT(DISTINCT x)"),
    (tm.sum("two words"), "sum(`two words`)", "SUM(`two words`)"),
    (tm.avg("x + 1"), "mean(x + 1)", "AVG(x + 1)"),
    (tm.min(tm.col("x") * 2), "min(x * 2)", "MIN(x * 2)"),
    (tm.max("x").filter("y > 2"), "max(x) filter (where y > 2)", "MAX(x) FILTER (WHERE y > 2)"),
    (tm.bool_or("b"), "any(b)", "BOOL_OR(b)"),
    (tm.bool_or("b"), "some(b)", "BOOL_OR(b)"),
    (tm.bool_and("x > 0 and b"), "every(x > 0 and b)", "BOOL_AND((x > 0) AND b)"),
    (tm.stddev("x"), "stddev_samp(x)", "STDDEV(x)"),
    (tm.variance("x"), "var_samp(x)", "VARIANCE(x)"),
    (tm.sum("x", distinct=True), "sum(distinct x)", "SUM(DISTINCT x)"),
    (tm.count_distinct("x", "y"), "count(distinct x, y)", "COUNT(DISTINCT ROW_TEXT(x, y))"),
    (tm.any_value("x"), "any_value(x)", "MIN(x)"),
    (tm.count_if("b"), "count_if(b)", "COUNT(*) FILTER (WHERE b)"),
    (tm.max_by("x", "t"), "max_by(x, t)", "FIRST(x ORDER BY t DESC) FILTER (WHERE NOT (t IS NULL))"),
    (tm.count_if("b").filter("y > 2"), "count_if(b) filter (where y > 2)", "COUNT(*) FILTER (WHERE b AND (y > 2))"),
    (tm.list("x"), "list(x)", "LIST(x)"),
    (tm.list("x", order_by="y"), "list(x order by y)", "LIST(x ORDER BY y)"),
    (
        tm.first("x", order_by=[tm.desc("t"), tm.asc("y", nulls="last")]),
        "first_value(x order by t desc, y nulls last)",
        "FIRST(x ORDER BY t DESC, y NULLS LAST)",
    ),
    (
        tm.last("x", order_by=tm.desc("t", nulls="first")).filter("x is not null"),
        "last(x order by t desc nulls first) filter (where x is not null)",
        "LAST(x ORDER BY t DESC NULLS FIRST) FILTER (WHERE NOT (x IS NULL))",
    ),
]


@pytest.mark.parametrize(("aggregate", "text", "shown"), SAME, ids=[text for _, text, _ in SAME])
def test_in_python_and_in_sql(aggregate, text, shown):
    resolved = with_expressions(aggregate, SCHEMA)
    assert identical(resolved, expr(text))
    assert repr(resolved) == repr(expr(text)) == shown


def test_texts_are_shown_as_given():
    assert repr(tm.sum("x+1").filter("y>2 and b")) == "SUM(x+1) FILTER (WHERE y>2 and b)"
    assert repr(tm.first("x", order_by=[tm.desc("t"), "y"])) == "FIRST(x ORDER BY t DESC, y)"
    assert display(tm.sum("x") / tm.count() + tm.col("k")) == "(SUM(x) / COUNT(*)) + k"


def test_what_tells_aggregates_apart():
    different = [
        tm.sum("x"), tm.sum("y"), tm.avg("x"), tm.count(), tm.count("x"), tm.count_distinct("x"), tm.sum("x").filter("b"),
        tm.sum("x").filter("y"), tm.first("x", order_by="y"), tm.first("x", order_by="t"),
        tm.first("x", order_by=tm.desc("y")), tm.first("x", order_by=tm.asc("y", nulls="last")),
        tm.list("x"), tm.list("x", order_by="x"), tm.first("x", order_by=["y", "t"]), tm.sum(tm.lit(1)), tm.sum(tm.lit(1.0)),
    ]  # fmt: skip
    alike = [[identical(a, b) for b in different] for a in different]
    assert alike == [[i == j for j in range(len(different))] for i in range(len(different))]
    assert identical(tm.sum("x") + 1, tm.sum("x") + 1)


SHOWN = [
    ("a + b * 2", "a + (b * 2)"), ("-a", "-a"), ("not p", "NOT p"), ("a in (1, null)", "a IN (1, NULL)"),
    ("a is null", "a IS NULL"), ("s like 'x%'", "s LIKE 'x%'"), ("a div 2", "a DIV 2"), ("upper(s)", "UPPER(s)"),
    ("case when p then 'it' else s end", "CASE WHEN p THEN 'it' ELSE s END"), ("a & b", "a & b"), ("a << 1", "SHIFTLEFT(a, 1)"),
    ("cast(a as string)", "CAST(a AS string)"), ("true", "TRUE"), ("date_trunc('day', t)", "DATE_TRUNC('day', t)"),
    ("1.5", "1.5"), ("a <=> null", "a <=> NULL"), ("coalesce(a, 0)", "COALESCE(a, 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), SHOWN, ids=[t for t, _ in SHOWN])
def test_expressions_without_a_schema_are_shown_like_sql(text, shown):
    assert display(expr(text)) == shown
