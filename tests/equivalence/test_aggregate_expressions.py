"""Expressions of aggregates in ``agg``: the same as computed in two steps, in Python and in SQL text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import assert_same, examples, new_flow, start

import tidemill as tm

SCHEMA = {"k": "int64", "x": "int64", "f": "float64", "b": "bool", "s": "string"}

# What is asked for at once; and in two steps, the aggregates and then what is made of them.
CASES: dict[str, Any] = {
    "a mean": (
        {"mean": tm.sum("x") / tm.count()},
        {"t": tm.sum("x"), "n": tm.count()},
        {"mean": "t / n"},
    ),
    "in SQL": (
        {"share": "sum(x) / count(*)", "big": "max(x) filter (where f > 0)"},
        {"t": tm.sum("x"), "n": tm.count(), "m": tm.max("x").filter("f > 0")},
        {"share": "t / n", "big": "m"},
    ),
    "mixed with the key": (
        {"v": tm.coalesce(tm.sum("x"), 0) - tm.col("k") * 2, "w": "count(s) + coalesce(k, 0)"},
        {"t": tm.sum("x"), "n": tm.count("s")},
        {"v": "coalesce(t, 0) - k * 2", "w": "n + coalesce(k, 0)"},
    ),
    "the same one twice": (
        {"n": tm.count(), "m": tm.count(), "d": tm.count() + tm.count(), "e": "count(*) * 2"},
        {"c": tm.count()},
        {"n": "c", "m": "c", "d": "c + c", "e": "c * 2"},
    ),
    "conditions": (
        {"v": tm.when(tm.count() > 1, tm.min("s")).otherwise(tm.max("s")), "i": tm.avg("x").is_null()},
        {"n": tm.count(), "a": tm.min("s"), "z": tm.max("s"), "m": tm.avg("x")},
        {"v": "case when n > 1 then a else z end", "i": "m is null"},
    ),
    "of expressions": (
        {"v": "sum(x * 2 - coalesce(k, 0)) + count(distinct s || 'x')", "r": "bool_or(b and x > 0) is null or every(b)"},
        {
            "t": tm.sum(tm.col("x") * 2 - tm.col("k").fill_null(0)),
            "d": tm.count_distinct("s || 'x'"),
            "o": tm.bool_or("b and x > 0"),
            "a": tm.bool_and("b"),
        },
        {"v": "t + d", "r": "o is null or a"},
    ),
    "of rows in an order": (
        {
            "a": "first(s order by x desc nulls first, f)",
            "l": "size(list(x)) + size(list(s order by f) filter (where b))",
            "z": tm.upper(tm.last("s", order_by=[tm.desc("x"), "f"])),
        },
        {
            "a": tm.first("s", order_by=[tm.desc("x", nulls="first"), "f"]),
            "p": tm.list("x"),
            "q": tm.list("s", order_by="f").filter("b"),
            "e": tm.last("s", order_by=[tm.desc("x"), "f"]),
        },
        {"a": "a", "l": "size(p) + size(q)", "z": "upper(e)"},
    ),
}  # fmt: skip


def both_ways(case, x, *keys):
    at_once, aggregates, after = CASES[case]
    grouped = x.group_by(*keys) if keys else x.group_by(k="1")
    return [grouped.agg(**at_once), grouped.agg(**aggregates).select("k", **after)]


@pytest.mark.parametrize("case", CASES)
def test_at_once_and_in_two_steps(engine, case):
    @examples(15)
    @given(tm.testing.updates(SCHEMA, non_negative=True), st.sampled_from([("k",), ()]))
    def check(updates, keys):
        assert_same(engine, lambda x: both_ways(case, x, *keys), {"x": updates}, schema={"x": SCHEMA})

    check()


@pytest.mark.parametrize("coordinates", [1, 2])
def test_engines_agree(coordinates):
    flow = new_flow(coordinates)
    x = flow.input("x", SCHEMA)
    for case, (at_once, _, _) in CASES.items():
        flow.output(case, x.group_by("k").agg(**at_once))
    whole = x.agg(n="count(*)", spread="max(x) - min(x)", share=tm.count().filter("b") / tm.count("b").cast("float64"))
    flow.output("whole", whole.filter("n > 0").select("n", "spread"))
    flow.output("loop", x.select("k", "x").iterate(_shrunk, return_at=3))

    @examples(10)
    @given(tm.testing.updates(SCHEMA, coordinates=coordinates, non_negative=True))
    def check(updates):
        tm.testing.check_equivalent(flow, {"x": updates})

    check()


def _shrunk(c):
    return c.group_by("k").agg(x="coalesce(max(x), 0) % 7 - coalesce(min(x), 0) % 5")


def test_names_and_order_of_columns():
    flow = new_flow()
    x = flow.input("x", SCHEMA)
    found = x.group_by(key="x % 3").agg(b="sum(x) + key", a=tm.sum("x"), c=tm.col("key") + tm.count())
    assert str(found.schema) == "(key: int64, b: int64, a: int64, c: int64)"
    assert "SUM(x)" in flow.explain() or "AS a" in flow.explain()


def test_a_key_hides_the_column_of_its_name(engine):
    flow = new_flow()
    x = flow.input("x", {"k": "int64", "x": "int64"})
    flow.output("out", x.group_by(x="x % 2").agg(total="sum(x) * 10 + x"))
    with start(flow, engine) as run:
        run.insert("x", [(1, 2), (1, 3), (1, 5)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(0, 20), (1, 81)]
