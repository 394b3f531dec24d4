"""The aggregates first, last and list: known values, both engines on random updates, DuckDB, and what is wrong."""

from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, new_flow, start

import tidemill as tm
from tidemill.boundary.values import NAN
from tidemill.expressions.functions.xxhash import xxhash64_of
from tidemill.renderer.embedded.reduce import group_rows
from tidemill.renderer.embedded.trace import ordered_groups, spine

SCHEMA = {"k": "int64", "t": "int64", "x": "string", "f": "float64", "b": "bool"}
ROWS = [
    (1, 3, "c", 0.5, True), (1, 1, None, NAN, False), (1, 2, "a", None, None), (1, 2, "a", None, None),
    (2, None, "z", -0.0, False), (2, 5, "y", 0.0, True), (3, 1, None, None, None),
]  # fmt: skip


def contents(engine, build, rows=ROWS, schema=SCHEMA):
    flow = new_flow()
    flow.output("out", build(flow.input("x", schema)))
    with start(flow, engine) as run:
        run.insert("x", rows)
        run.advance()
        return run.snapshot("out").counts()


KNOWN: dict[str, tuple[dict[str, Any], set[Any]]] = {
    "by value": ({"l": tm.list("x")}, {(1, (None, "a", "a", "c")), (2, ("y", "z")), (3, (None,))}),
    "floats": ({"l": tm.list("f")}, {(1, (None, None, 0.5, NAN)), (2, (0.0, 0.0)), (3, (None,))}),
    "in an order": (
        {"l": tm.list("x", order_by=tm.desc("t"))},
        {(1, ("c", "a", "a", None)), (2, ("y", "z")), (3, (None,))},
    ),
    "nulls first": (
        {"l": tm.list("t", order_by=tm.desc("t", nulls="first"))},
        {(1, (3, 2, 2, 1)), (2, (None, 5)), (3, (1,))},
    ),
    "ends": (
        {"a": tm.first("x", order_by="t"), "b": tm.last("x", order_by=["t", "x"])},
        {(1, None, "c"), (2, "z", "y"), (3, None, None)},
    ),
    "of rows taken": (
        {"a": tm.first("x", order_by="t").filter("x IS NOT NULL"), "l": tm.list("x").filter("b"), "n": tm.count()},
        {(1, "a", ("c",), 4), (2, "z", ("y",), 2), (3, None, (), 1)},
    ),
    "beside distinct values": (
        {
            "n": tm.count_distinct("x"),
            "l": tm.list("x"),
            "m": tm.list("t").filter("b"),
            "a": tm.first("f", order_by="t"),
        },
        {(1, 2, (None, "a", "a", "c"), (3,), NAN), (2, 2, ("y", "z"), (5,), 0.0), (3, 0, (None,), (), None)},
    ),
    "of an expression, and of the key": (
        {"l": tm.list("t * 2", order_by="-t"), "m": tm.list("k").filter("t > 1")},
        {(1, (6, 4, 4, 2), (1, 1, 1)), (2, (None, 10), (2,)), (3, (2,), ())},
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_values(engine, name):
    aggregates, expected = KNOWN[name]
    assert contents(engine, lambda x: x.group_by("k").agg(**aggregates)) == dict.fromkeys(expected, 1)


def test_without_keys_there_is_always_one_row(engine):
    def build(x):
        return x.filter("t > 100").agg(a=tm.first("x", order_by="t"), b=tm.last("x", order_by="t"), l=tm.list("x"))

    assert contents(engine, build) == {(None, None, ()): 1}


def test_ties_are_broken_by_the_hash_of_the_whole_row(engine):
    rows = [(1, i, chr(97 + i), None, None) for i in range(8)]
    by_hash = sorted(rows, key=lambda row: xxhash64_of(row, [tm.DType(t) for t in SCHEMA.values()]))

    def build(x):
        same = {"order_by": "k"}
        return (
            x.group_by("k")
            .agg(a=tm.first("x", **same), b=tm.last("x", **same), l=tm.list("t", **same))
            .select("a", "b", "l")
        )

    found = contents(engine, build, rows)
    assert found == {(by_hash[0][2], by_hash[-1][2], tuple(row[1] for row in by_hash)): 1}


def test_types():
    x = new_flow().input("x", {"k": "int64 not null", "x": "decimal(6,2)"})
    found = x.group_by("k").agg(a=tm.first("x", order_by="x"), l=tm.list("x"), m=tm.list("k"))
    assert (
        str(found.schema)
        == "(k: int64 not null, a: decimal(6,2), l: list<decimal(6,2)> not null, m: list<int64> not null)"
    )


@pytest.fixture(params=[-1, 3, 2048])
def large(request, monkeypatch):
    """Groups of a few rows count as large, and go through all that large ones would."""
    monkeypatch.setattr(group_rows, "LARGE_FROM", request.param)
    for limit in ("SLACK", "SKIP_FROM", "SCAN"):
        monkeypatch.setattr(ordered_groups, limit, 0)
    monkeypatch.setattr(spine, "TAIL", 2)


@pytest.mark.slow
@pytest.mark.parametrize("non_negative", [True, False])
@pytest.mark.parametrize("coordinates", [1, 2])
def test_engines_agree(large, coordinates, non_negative):
    flow = new_flow(coordinates)
    x = flow.input("x", {"k": "int64", "f": "float64", "s": "string", "l": "list<string>"})
    by_f = [tm.desc("f", nulls="first"), "s"]
    flow.output(
        "ends", x.group_by("k").agg(a=tm.first("s", order_by=by_f), b=tm.last("f", order_by=by_f), n=tm.count())
    )
    flow.output(
        "lists", x.group_by("k").agg(a=tm.list("l"), b=tm.list("s", order_by="f").filter("k > 0"), c=tm.sum("f"))
    )
    flow.output("whole", x.agg(a=tm.list("f"), b=tm.first("l", order_by="k % 2"), c=tm.count_distinct("l")))
    flow.output("least", x.group_by("s").agg(a=tm.min("l"), b=tm.max("l"), c=tm.list("k", order_by=tm.desc("l"))))
    flow.output(
        "keys", x.group_by("l").agg(n=tm.count(), m=tm.list("k")).join(x.group_by("k").agg(l=tm.list("s")), on="l")
    )

    @examples(15)
    @given(tm.testing.updates(x.schema, coordinates=coordinates, non_negative=non_negative))
    def check(updates):
        tm.testing.check_equivalent(flow, {"x": updates})

    check()


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_engines_agree_in_loops(coordinates):
    flow = new_flow(coordinates)
    x = flow.input("x", {"k": "int64", "v": "int64"})

    def body(here):
        found = (
            here.concat(x)
            .group_by("k")
            .agg(f=tm.first("v", order_by=tm.desc("v")), l=tm.list("v", order_by="v % 2"), n=tm.count())
        )
        return found.select("k", v="pmod(xxhash64(l) + coalesce(f, 0), 4)").distinct()

    flow.output("out", x.iterate(body, return_at=3))
    flow.output(
        "top", x.iterate(lambda here: here.concat(x).group_by("v").top_k(2, order_by="k").distinct(), return_at=3)
    )

    @examples(15)
    @given(tm.testing.updates(x.schema, coordinates=coordinates, non_negative=True))
    def check(updates):
        tm.testing.check_equivalent(flow, {"x": updates})

    check()


@examples(20)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.none() | st.integers(-2, 2), st.none() | st.floats(-2, 2)),
        max_size=12,
        unique_by=lambda r: r[1:],
    )
)
def test_duckdb_agrees_where_the_order_is_unique(rows):
    flow = new_flow()
    x = flow.input("x", {"k": "int64", "t": "int64", "f": "float64"})
    order = [tm.desc("t", nulls="first"), tm.asc("f", nulls="last")]
    flow.output(
        "out",
        x.group_by("k").agg(
            a=tm.first("f", order_by=order), b=tm.last("t", order_by=order), l=tm.list("f", order_by=order),
            m=tm.list("t"), n=tm.list("t", order_by=order).filter("t > 0"),
        ),
    )  # fmt: skip
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        ours = run.snapshot("out").counts()
    given_ = pa.table(  # noqa: F841 - DuckDB finds it by its name
        [pa.array([r[i] for r in rows], t) for i, t in enumerate((pa.int64(), pa.int64(), pa.float64()))],
        names=["k", "t", "f"],
    )  # noqa: F841 - DuckDB finds it
    over = "ORDER BY t DESC NULLS FIRST, f ASC NULLS LAST"
    theirs = duckdb.sql(
        f"SELECT k, first(f {over}), last(t {over}), list(f {over}), list(t ORDER BY t NULLS FIRST), "
        f"coalesce(list(t {over}) FILTER (t > 0), []) FROM given_ GROUP BY k"
    ).fetchall()
    tuples = [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in theirs]
    assert ours == dict.fromkeys(tuples, 1)


def test_a_change_to_a_large_group(engine):
    """Deleting the first row again and again: what comes next is first, and the list is without it."""
    flow = new_flow()
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("out", x.group_by("k").agg(a=tm.first("v", order_by="v"), b=tm.last("v", order_by="v"), n=tm.count()))
    flow.output("list", x.group_by("k").agg(l=tm.list("v")).select("k", n="size(l)", first="get(l, 0)"))
    size = 3000 if engine == "embedded" else 30
    with start(flow, engine) as run:
        run.insert("x", [(k, v) for k in (1, 2) for v in range(size)])
        run.advance()
        for v in range(5):
            run.delete("x", [(1, v)])
            run.insert("x", [(1, size + v)])
            run.advance()
            assert list(run.snapshot("out")) == [(1, v + 1, size + v, size), (2, 0, size - 1, size)]
            assert list(run.snapshot("list")) == [(1, size, v + 1), (2, size, 0)]


NEGATIVE = {
    "first": (tm.first("v", order_by="k"), r"row \(1, 2\)"),
    "last": (tm.last("v", order_by="k").filter("v > 1"), r"row \(1, 2\)"),
    "list": (tm.list("v"), r"row \(2,\)"),
    "list in an order": (tm.list("k", order_by="v"), r"row \(1, 2\)"),
}


@pytest.mark.parametrize("limit", [-1, 2048])
@pytest.mark.parametrize("name", NEGATIVE)
def test_a_negative_count_is_an_error_and_the_step_is_not_taken(engine, name, limit, monkeypatch):
    monkeypatch.setattr(group_rows, "LARGE_FROM", limit)
    aggregate, row = NEGATIVE[name]
    flow = new_flow()
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("out", x.group_by(g="k % 2").agg(a=aggregate))
    with start(flow, engine) as run:
        run.insert("x", [(1, 2), (1, 3)])
        run.advance()
        before = run.snapshot("out").counts()
        run.delete("x", [(1, 2), (1, 2)])
        with pytest.raises(
            tm.errors.NegativeCountError, match=rf"test_first_last_list.*key \(1,\): {row} has the count -1"
        ):
            run.advance()
        assert run.snapshot("out").counts() == before
        run.insert("x", [(1, 2)])
        run.advance()
        assert len(run.snapshot("out")) == 1


def test_rows_that_take_no_part_may_have_negative_counts(engine):
    flow = new_flow()
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output(
        "out",
        x.group_by("k").agg(
            l=tm.list("v").filter("v > 2"), f=tm.first("v", order_by="v").filter("v > 2"), n=tm.count()
        ),
    )
    with start(flow, engine) as run:
        run.update("x", [((1, 5), 0, 2), ((1, 1), 0, -1), ((1, None), 0, -2), ((1, 4), 0, 2)])
        run.advance()
        assert list(run.snapshot("out")) == [(1, (4, 4, 5, 5), 4, 1)]


@pytest.mark.parametrize("limit", [0, 2048])
def test_a_list_longer_than_arrow_can_hold(engine, limit, monkeypatch):
    monkeypatch.setattr(group_rows, "LARGE_FROM", limit)
    flow = new_flow()
    flow.output("out", flow.input("x", {"k": "int64", "v": "int64"}).group_by("k").agg(l=tm.list("v")))
    with start(flow, engine) as run:
        run.update("x", [((1, 5), 0, 1), ((2, 5), 0, 2**31 - 2), ((2, None), 0, 2)])
        with pytest.raises(tm.errors.ExpressionError, match=r"key \(2,\): overflow in `list AS l`"):
            run.advance()


BAD = {
    "no order": (lambda x: tm.first("v", order_by=[]), "expected at least one column"),
    "None for an order": (lambda x: tm.last("v", order_by=None), "order_by=None: expected at least one column"),
    "unknown column in the order": (lambda x: tm.list("v", order_by="w"), "no column `w`"),
    "a condition that is none": (lambda x: tm.list("v").filter("v + 1"), "of type int64: expected bool"),
    "a sum of lists": (lambda x: tm.sum("l"), r"sum of l is of type list<int64>: expected a number"),
    "arithmetic with lists": (lambda x: tm.list("l + 1"), r"gets list<int64> and int64: \+ expects two numbers"),
    "a cast": (lambda x: tm.list("cast(l as string)"), "no cast from list<int64> to string"),
    "a text function": (lambda x: tm.list("upper(l)"), "UPPER expects a string"),
    "a comparison": (lambda x: tm.list("l = v"), "expects values of one type"),
    "a place that is no number": (lambda x: tm.list("get(l, 'x')"), "GET expects a list and a place in it"),
    "a list as a literal": (lambda x: tm.list(tm.col("l") == tm.lit([1])), "cannot be a literal"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_said_when_the_graph_is_built(name):
    make, message = BAD[name]
    x = new_flow().input("x", {"k": "int64", "v": "int64", "l": "list<int64>"})
    with pytest.raises(tm.errors.SchemaError, match=message):
        x.group_by("k").agg(a=make(x))


def test_the_order_is_asked_for():
    with pytest.raises(TypeError, match="order_by"):
        cast("Any", tm.first)("v")


def test_list_shadows_nothing():
    names = {}
    exec("from tidemill import *", names)
    assert "list" not in names and names["first"] is tm.first
