"""Structs on all engines: operators over them, expressions of them, and their state in folders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, new_flow, start
from support.typed_flows import STRUCT_ROWS, STRUCTS, of_structs

import tidemill as tm
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import dtype

TYPES = ("int64", "string", "float64", "date", "decimal(20,2)")


@examples(40)
@given(st.data(), st.integers(1, 2))
def test_on_both_engines(data, coordinates):
    updates = data.draw(tm.testing.updates(STRUCTS, coordinates, non_negative=True))
    tm.testing.check_equivalent(of_structs(coordinates), {"x": updates}, engines=["reference", "embedded"])


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


@pytest.mark.parametrize("in_memory", [None, 0])
def test_state_in_a_folder(tmp_path, in_memory):
    """Written, read again by another process's run, spilled pages too: the same as without a folder."""
    with of_structs().start() as plain:
        for rows in (STRUCT_ROWS, STRUCT_ROWS[:3]):
            plain.insert("x", rows)
            plain.advance()
        plain.delete("x", STRUCT_ROWS[:2])
        plain.advance()
        expected = {name: repr(list(plain.snapshot(name))) for name in of_structs().graph.outputs}
    for rows in (STRUCT_ROWS, STRUCT_ROWS[:3]):
        with of_structs().start(tm.Embedded(tmp_path, in_memory=in_memory)) as run:
            run.insert("x", rows)
            run.advance()
            if in_memory == 0:
                run.spill()
    with of_structs().start(tm.Embedded(tmp_path, in_memory=in_memory)) as run:
        run.delete("x", STRUCT_ROWS[:2])
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

    schema = Schema.of(STRUCTS)
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
        flow.input("x", STRUCTS).select(y=tm.expr(text))


def test_a_literal_keeps_its_type_beside_others():
    """A field is what its value is, whatever the fields beside it."""
    flow = tm.Dataflow()
    x = flow.input("x", {"d": "decimal(5,2)", "i": "int32", "day": "date"})
    made = x.select(s="named_struct('2024-01-01', 1, 'd', d, 'i', i, 'day', day)")
    of = dtype("struct<`2024-01-01`: int64, d: decimal(5,2), i: int32, day: date>")
    assert made.schema.dtypes == (of,)
    assert FUNCTIONS["named_struct"].apart
