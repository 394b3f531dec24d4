"""Structs in SQL: made, taken apart, compared; what dialects have, and what they mean otherwise is refused."""

import pytest

import tidemill as tm
from tidemill.errors import SqlError

SCHEMA = {"a": "int64", "b": "int64", "s": "struct<a: int64, B: string>"}
ROWS = [(1, 2, (1, "x")), (3, 4, None), (5, None, (None, None))]
PG = ("postgres", "materialize", "risingwave")
ALL = ("spark", "duckdb", *PG)


def result(text, dialect="spark"):
    flow = tm.Dataflow()
    flow.output("o", flow.sql(text, dialect, tables={"t": flow.constant(SCHEMA, ROWS)}))
    with flow.start() as run:
        return flow.graph.outputs["o"].schema, list(run.snapshot("o"))


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("select s.a from t", ["a"], [(None,), (None,), (1,)]),
        ("select t.s.a + 1 as x from t", ["x"], [(None,), (None,), (2,)]),
        ("select (s).a from t where (s).a = 1", ["a"], [(1,)]),
        ("select s.* from t where s.a = 1", ["a", "B"], [(1, "x")]),
        ("select b as c, (t.s).* from t where b = 2", ["c", "a", "B"], [(2, 1, "x")]),
        ("select count(distinct (b, s)) as n, count(distinct (1, b + b)) as m from t", ["n", "m"], [(3, 3)]),
        ("select s.a, count(*) as n from t group by s.a", ["a", "n"], [(None, 2), (1, 1)]),
        ("select s, count(*) as n from t group by s", ["s", "n"], [(None, 1), ((None, None), 1), ((1, "x"), 1)]),
        ("select u.a from (select s.a from t) u, t where t.s.a = u.a", ["a"], [(1,)]),
        ("select (first_value(s) over (order by b)).a from t where b = 2", ["a"], [(1,)]),
        ("select t.a from t where exists (select 1 from t u where u.s = t.s)", ["a"], [(1,), (5,)]),
    ],
)  # fmt: skip
def test_fields(text, names, rows, dialect):
    schema, found = result(text, dialect)
    assert (list(schema.names), found) == (names, rows)


MADE = [
    ("spark", "select struct(a, b + 1 as q, 1) as x from t", "struct<a: int64, q: int64, col3: int64>", (1, 3, 1)),
    ("spark", "select struct(1, 'x') as x from t", "struct<col1: int64, col2: string>", (1, "x")),
    ("spark", "select named_struct('p', a, 'q', s) as x from t", "struct<p: int64, q: struct<a: int64, B: string>>",
     (1, (1, "x"))),
    ("spark", "select array(struct(a))[0] as x from t", "struct<a: int64>", (1,)),
    ("spark", "select cast(null as struct<p: int, Q: array<string>>) as x from t", "struct<p: int32, Q: list<string>>",
     None),
    ("duckdb", "select {'a': a, 'q': s.a} as x from t", "struct<a: int64, q: int64>", (1, 1)),
    ("duckdb", "select cast(null as struct(a int, b varchar)) as x from t", "struct<a: int32, b: string>", None),
    ("spark", "select (a, b) as x from t", "struct<a: int64, b: int64>", (1, 2)),
    ("duckdb", "select (a, s.a) as x from t", "struct<f1: int64, f2: int64>", (1, 1)),
    *((d, "select (a, s.a) as x from t", "struct<f1: int64, f2: int64>", (1, 1)) for d in PG),
    *((d, "select row(a, s.a) as x from t", "struct<f1: int64, f2: int64>", (1, 1)) for d in PG),
    *((d, "select (row(a, s)).f2 as x from t", "struct<a: int64, B: string>", (1, "x")) for d in PG),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "text", "dtype", "value"), MADE)
def test_made(dialect, text, dtype, value):
    schema, rows = result(text, dialect)
    assert str(schema.field("x").dtype) == dtype
    assert (value,) in rows


@pytest.mark.parametrize("dialect", PG)
@pytest.mark.parametrize("text", ["row(a, b) = row(1, 2)", "(a, b) = row(1, 2)", "row(a, b) in ((1, 2), row(9, 9))"])
def test_rows_compared_are_no_structs(dialect, text):
    """A NULL in one of them makes the comparison NULL; structs with NULLs are equal or not."""
    _, rows = result(f"select a, {text} as x from t", dialect)
    assert rows == [(1, True), (3, False), (5, False)]
    assert result("select row(b, 5) = row(1, 5) as x from t where a = 5", dialect)[1] == [(None,)]


def test_a_script():
    flow = tm.Dataflow.from_sql("""
      create table orders (id bigint primary key, who struct<name: string, tags: array<struct<t: string>>> not null);
      create materialized view o as select who.name, who.tags[0].t as tag, count(*) as n from orders group by 1, 2;
    """)
    with flow.start() as run:
        run.insert("orders", [(1, ("x", [("u",)])), {"id": 2, "who": {"name": "x", "tags": [{"t": "u"}]}}])
        run.advance()
        assert list(run.snapshot("o")) == [("x", "u", 2)]
        run.delete("orders", [(1,)])
        run.advance()
        assert list(run.snapshot("o")) == [("x", "u", 1)]


@pytest.mark.parametrize("dialect", ALL)
def test_names_of_fields_match_as_those_of_columns(dialect):
    if dialect in PG:
        with pytest.raises(SqlError, match="no field `B`: did you mean"):
            result("select s.B from t", dialect)
        assert result('select s."B" from t', dialect)[1] == [(None,), (None,), ("x",)]
    else:
        assert result("select S.b from T", dialect)[1] == [(None,), (None,), ("x",)]


@pytest.mark.parametrize(
    ("dialect", "text", "reason"),
    [
        *((d, f"select {x}.* from t", f"no table `{x}` in FROM") for d in ALL for x in ("a", "q")),
        *((d, "select (a + 1).* from t", "of what is no struct") for d in ALL),
        ("spark", "select s.no from t", "no field `no`"), ("spark", "select a.b from t", "no table `a` in FROM"),
        ("spark", "select (a).b from t", "no field `b`: it is of no struct"),
        ("spark", "select row(a) as x from t", "no function `row`"),
        ("spark", "select struct(b as a, a) as x from t", "each of a name of its own"),
        ("spark", "select cast(null as struct<a: smallint>) as x from t", "SMALLINT in an array or a struct"),
        ("spark", "select cast(null as struct<a: int, a: int>) as x from t", "two fields of one name"),
        ("duckdb", "select row(a) as x from t", "`row` is not supported in dialect duckdb"),
        ("duckdb", "select struct(a) as x from t", "`struct` is not supported in dialect duckdb"),
        ("duckdb", "select s < s as x from t", "NULL is last there"), ("duckdb", "select max(s) as x from t", "NULL is last"),
        ("postgres", "select greatest(s, s) as x from t", "NULL is last there"),
        *((d, "select s is null as x from t", "a row is NULL where all of its fields are") for d in PG),
        *((d, "select {'a': a} as x from t", "not supported|not SQL") for d in ("spark", *PG)),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(dialect, text, reason):
    with pytest.raises(SqlError, match=reason):
        result(text, dialect)
