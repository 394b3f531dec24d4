"""Structs on all engines: operators over them, expressions of them, and their state in folders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, new_flow, start

import tidemill as tm
from tidemill.boundary.values import NAN
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import dtype

SCHEMA = {
    "k": "int64",
    "s": "struct<a: int64, b: string>",
    "t": "struct<f: float64, l: list<struct<d: decimal(30,2)>>>",
}
TYPES = ("int64", "string", "float64", "date", "decimal(20,2)")


def everything(coordinates=1):
    """Return a flow of each operator that compares, orders, keeps or hashes structs."""
    flow = new_flow(coordinates)
    x = flow.input("x", SCHEMA)
    flow.output("expressions", x.select(
        a="s.a", b=tm.col("s").field("b"), d="GET(t.l, 0).d", again=tm.struct(k="k", s="s", f="t.f"), null="s IS NULL",
        same="t <=> named_struct('f', t.f, 'l', t.l)", least="LEAST(s, named_struct('a', k, 'b', 'b'))",
        chosen="CASE WHEN k > 1 THEN s ELSE COALESCE(s, named_struct('a', 1, 'b', 'x')) END", hash="XXHASH64(s, t)",
        both="named_struct('a', k, 'b', 'b') IN (s)", lists="ARRAY(s)",
    ).filter("d IS NULL OR d >= 0"))  # fmt: skip
    flow.output("groups", x.group_by("s").agg(
        n=tm.count(), most=tm.max("t"), least=tm.min("t"), each=tm.count_distinct("t"), listed=tm.collect_list("s"),
        first=tm.first("t", order_by=["k", tm.desc("t")]),
    ))  # fmt: skip
    flow.output("pairs", x.distinct().join(x.select("s", m="k"), on="s", nulls_equal=True))
    flow.output("plain pairs", x.join(x.select("t", m="k").distinct(), on="t", how="left"))
    flow.output("top", x.group_by("k").top_k(1, order_by=[tm.desc("s"), "t"]))
    flow.output("places", x.with_columns(
        place=tm.rank().over(tm.Window.partition_by("s").order_by("t")),
        before=tm.lag("t").over(tm.Window.order_by("s", "t", "k")),
    ))  # fmt: skip
    return flow


@examples(40)
@given(st.data(), st.integers(1, 2))
def test_on_both_engines(data, coordinates):
    updates = data.draw(tm.testing.updates(SCHEMA, coordinates, non_negative=True))
    tm.testing.check_equivalent(everything(coordinates), {"x": updates}, engines=["reference", "embedded"])


@examples(40)
@given(st.data())
def test_structs_of_any_types(data):
    of = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    kind = f"struct<{', '.join(f'f{i}: {t}' for i, t in enumerate(of))}>"
    flow = new_flow()
    x = flow.input("x", {"s": kind, "l": f"list<{kind}>"})
    flow.output("fields", x.select(**{f"f{i}": f"s.f{i}" for i in range(len(of))}, e=tm.get("l", 0)))
    flow.output("best", x.group_by("l").agg(m=tm.max("s")).filter("m >= m"))
    updates = data.draw(tm.testing.updates({"s": kind, "l": f"list<{kind}>"}, non_negative=True))
    tm.testing.check_equivalent(flow, {"x": updates}, engines=["reference", "embedded"])


ROWS = [
    (1, (1, "x"), (0.5, ((None,), None))), (2, None, None), (1, (1, None), (NAN, ())), (2, (None, None), (-0.0, None)),
    (3, (1, "x"), (0.0, None)),
]  # fmt: skip


@pytest.mark.parametrize("in_memory", [None, 0])
def test_state_in_a_folder(tmp_path, in_memory):
    """Written, read again by another process's run, spilled pages too: the same as without a folder."""
    with everything().start() as plain:
        for rows in (ROWS, ROWS[:3]):
            plain.insert("x", rows)
            plain.advance()
        plain.delete("x", ROWS[:2])
        plain.advance()
        expected = {name: repr(list(plain.snapshot(name))) for name in everything().graph.outputs}
    for rows in (ROWS, ROWS[:3]):
        with everything().start(tm.Embedded(tmp_path, in_memory=in_memory)) as run:
            run.insert("x", rows)
            run.advance()
            if in_memory == 0:
                run.spill()
    with everything().start(tm.Embedded(tmp_path, in_memory=in_memory)) as run:
        run.delete("x", ROWS[:2])
        run.advance()
        assert {name: repr(list(run.snapshot(name))) for name in expected} == expected


def test_equal_inside(engine):
    flow = new_flow()
    flow.output("n", flow.input("x", {"s": "struct<f: float64, n: int64>"}).count("n"))
    with start(flow, engine) as run:
        run.insert(
            "x", [((-0.0, None),), ((0.0, None),), ((float("nan"), None),), ((-float("nan"), None),), ((None, 0),)]
        )
        run.advance()
        assert repr(list(run.snapshot("n"))) == "[((None, 0), 1), ((0.0, None), 2), ((nan, None), 2)]"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("s.a + 1", "s.a + 1"), ("t.l[0].d", "(ITEM(t.l, 0)).d"), ("(s).b", "s.b"), ("struct(k, s.a)", None),
        ("named_struct('a b', k).`a b`", "(NAMED_STRUCT('a b', k)).`a b`"),
    ],
)  # fmt: skip
def test_text_and_back(text, printed):
    from tidemill.expressions.binding import bind
    from tidemill.expressions.sql_text import expr, to_sql

    schema = Schema.of(SCHEMA)
    bound = bind(expr(text), schema)
    found = to_sql(bound)
    assert bind(expr(found), schema) == bound
    assert printed in (None, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s.c", "no field `c` in struct<a: int64, b: string>: there are: 'a', 'b'"), ("k.a", "FIELD expects a struct"),
        ("no.a", "no column `no`"), ("named_struct('a', NULL)", "NULL has no type"),
        ("named_struct(s.b, 1)", "the names of fields have to be literals"), ("s = t", "expects values of one type"),
        ("named_struct('a', 1, 'a', 2)", "each of a name of its own"), ("named_struct('a')", "expects names of fields"),
        ("CAST(s AS STRING)", "there is no cast"), ("s + 1", "expects two numbers"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text, message):
    flow = tm.Dataflow()
    with pytest.raises(tm.errors.SchemaError, match=message.replace("(", r"\(")):
        flow.input("x", SCHEMA).select(y=tm.expr(text))


def test_a_literal_keeps_its_type_beside_others():
    """A field is what its value is, whatever the fields beside it."""
    flow = tm.Dataflow()
    x = flow.input("x", {"d": "decimal(5,2)", "i": "int32", "day": "date"})
    made = x.select(s="named_struct('2024-01-01', 1, 'd', d, 'i', i, 'day', day)")
    of = dtype("struct<`2024-01-01`: int64, d: decimal(5,2), i: int32, day: date>")
    assert made.schema.dtypes == (of,)
    assert FUNCTIONS["named_struct"].apart
