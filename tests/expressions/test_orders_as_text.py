"""Orders in SQL text, and names that are no part of an expression."""

from __future__ import annotations

import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import SchemaError
from tidemill.expressions import sql_parser, sql_printer
from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema

SCHEMA = {"k": "int64", "v": "int64"}
ROWS = [(1, 3), (1, None), (1, 1), (1, 2)]
ORDERS = {
    "v": (None, 1, 2, 3),
    "v asc": (None, 1, 2, 3),
    "v desc": (3, 2, 1, None),
    "v DESC NULLS FIRST": (None, 3, 2, 1),
    "v\n nulls  last": (1, 2, 3, None),
    "v asc nulls last": (1, 2, 3, None),
    "`v` desc nulls last": (3, 2, 1, None),
    "-v desc": (1, 2, 3, None),
    "k + v desc": (3, 2, 1, None),
}


def _read(engine, build, schema=None, rows=ROWS):
    flow = tm.Dataflow("ordered")
    flow.output("out", build(flow.input("x", schema or SCHEMA).group_by("k")))
    with start(flow, engine) as run:
        run.insert("x", rows)
        run.advance()
        return list(run.snapshot("out"))


@pytest.mark.parametrize("order", ORDERS)
def test_text_may_say_the_direction_and_where_nulls_go(engine, order):
    expected = ORDERS[order]
    assert _read(
        engine,
        lambda g: g.agg(
            l=tm.list("v", order_by=order), f=tm.first("v", order_by=[order]), z=tm.last("v", order_by=order)
        ),
    ) == [(1, expected, expected[0], expected[-1])]
    assert set(_read(engine, lambda g: g.top_k(2, order_by=order))) == {(1, v) for v in expected[:2]}


def test_a_column_whose_name_ends_like_an_order_is_that_column(engine):
    schema, rows = {"k": "int64", "v": "int64", "v desc": "int64"}, [(1, 1, 7), (1, 2, 8)]
    assert _read(engine, lambda g: g.agg(f=tm.first("v", order_by="v desc")), schema, rows) == [(1, 1)]
    assert _read(engine, lambda g: g.top_k(1, order_by="v desc"), schema, rows) == [(1, 1, 7)]


@pytest.mark.parametrize("text", ["v > 1 b", "v b", "v desc", "k + v total", "v desc nulls last"])
def test_a_name_without_as_is_an_error_everywhere(text):
    c = tm.Dataflow("names").input("x", SCHEMA)
    places = [
        lambda: tm.expr(text),
        lambda: c.filter(text),
        lambda: c.select(text),
        lambda: c.select(x=text),
        lambda: c.with_columns(x=text),
        lambda: c.group_by("k").agg(x=tm.sum(text)),
        lambda: c.group_by("k").agg(x=f"sum({text})"),
        lambda: c.group_by("k").top_k(1, order_by=tm.desc(text)),
    ]
    for place in places:
        with pytest.raises(SchemaError, match="is not a SQL expression"):
            place()


def test_a_direction_out_of_place_is_told_where_it_belongs():
    c = tm.Dataflow("names").input("x", SCHEMA)
    with pytest.raises(SchemaError, match="are for order_by= alone"):
        c.select("v desc")


def test_names_after_as_are_names():
    c = tm.Dataflow("names").input("x", SCHEMA)
    assert c.select("v + 1 AS w").schema.names == ("w",)


def test_what_is_said_of_a_window_is_said_each_time():
    for _ in range(2):
        with pytest.warns(tm.errors.EmptyFrameWarning):
            tm.expr("sum(b) over (order by a rows between 5 following and 2 following)")


def test_large_expressions_are_not_held():
    before = sql_printer._kept.cache_info().currsize, sql_parser._kept.cache_info().currsize
    large = tm.col("k").isin([f"text {i}" for i in range(1000)])
    bound = bind(large, Schema.of({"k": "string"}))
    assert sql_printer.print_sql(bound, explicit=False) == sql_printer.print_sql(bound, explicit=False)
    tm.expr(sql_printer.print_sql(bound, explicit=False))
    assert (sql_printer._kept.cache_info().currsize, sql_parser._kept.cache_info().currsize) == before
