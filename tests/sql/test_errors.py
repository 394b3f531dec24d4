"""What is wrong with a text is said with its place, in bounded time, and leaves the dataflow as it was."""

import pytest

import tidemill as tm
from tidemill.errors import SqlError


@pytest.fixture
def flow():
    made = tm.Dataflow()
    made.input("t", {"a": "int64", "b": "int64", "s": "string", "d": "date"})
    made.input("u", {"a": "int64", "c": "int64"})
    return made


@pytest.mark.parametrize(
    "text, column, reason",
    [
        ("select a,, b from t", 10, "nothing stands beside a comma"),
        ("select a from t,", 16, "nothing stands beside a comma"),
        ("select a from t group by", 1, "GROUP BY without anything"),
        ("select t.a from t left join u", 29, "a JOIN without ON or USING: write CROSS JOIN"),
        ("select 'a", 8, "ends what is opened here"),
        ("", 1, "there is no SQL in this text"),
        ("select /* a from t", 19, "the text ends where what is open"),
        ("select a from t where", 17, "WHERE lacks what belongs to it"),
        ("select a from t where a in ()", 23, "IN without values"),
        ("values ()", 1, "a row of VALUES without values"),
        ("select x from t", 8, "no column `x`"),
        ("select t.x from t", 8, "no column `x` in `t`"),
        ("select z.a from t", 8, "no table `z` in FROM"),
        ("select a from w", 15, "no table `w`: there are"),
        ("select a from t, u", 8, "column `a` is ambiguous"),
        ("select * from t join t on true", 22, "table `t` is twice in FROM"),
        ("select * from t join u using (c)", 31, "no column `c` to join by"),
        ("select b, count(*) from t group by a", 8, "`b` is neither in GROUP BY nor in an aggregate"),
        ("select (select c from u where u.a = t.b) x from t group by a", 8, "`b` is neither"),
        ("select a from t having a > 1", 8, "`a` is neither"),
        ("select a from t where sum(a) > 1", 23, "an aggregate in WHERE"),
        ("select sum(sum(a)) from t", 8, "an aggregate inside an aggregate"),
        ("select a from t where row_number() over (order by a) = 1", 23, "a window call in WHERE"),
        ("select a from t where a", 23, "WHERE: `a` is of type int64: expected bool"),
        ("select a + s from t", 8, r"`a \+ s` gets int64 and string"),
        ("select a from t where exists (select sum(t.a) from u)", 38, "an aggregate of columns of a query around"),
        ("select a from t union select a, c from u", 23, "UNION of 1 columns with 2"),
        ("select a from t union select s from t", 23, "values of types int64 and string in one column"),
        ("select a from t where a in (select a, c from u)", 23, "1 values are compared with 2 columns"),
        ("select (select a, c from u) from t", 8, "has one column: this one has 2"),
        ("select null as x", 1, "column `x` is NULL and has no type"),
        ("select a, b as a from t", 1, "two columns are called `a`"),
        ("select a from t order by 3", 26, "ORDER BY 3: there are 1 columns"),
        ("select distinct a from t order by b", 35, "ORDER BY of a SELECT DISTINCT"),
        ("select a from t limit a", 23, "take a number that is written out"),
        ("with x as (select 1 as a), x as (select 2 as a) select * from x", 28, "`x` is twice in WITH"),
        ("select sum(a) over w from t", 20, "no window `w`"),
        ("select frobnicate(a) from t", 8, "no function `frobnicate`"),
        ("select try_cast(d as int) from t", 8, "there is no cast from date to int32"),
        ("select rand() from t", 8, "it is no function of the row"),
        ("select current_date from t", 8, "it is no function of the row"),
        ("select * from t tablesample (10 percent)", 30, "TABLESAMPLE"),
        ("select a from t for update", 1, "`LOCKS` in SELECT is not supported"),
        ("select * from rang(3)", 15, "table function `rang`"),
        ("select * from t pivot (abs(a) for b in (1, 2))", 24, r"`abs\(a\)` is no aggregate, and PIVOT takes such"),
        (
            "select * from t pivot (sum(a) for b in (1, a))",
            44,
            "PIVOT is by values: `a` is no value that is written out",
        ),
        ("select * from t pivot (sum(a) for b in (select 1))", 41, "`select 1` is no value that is written out"),
        ("select * from t unpivot (x for y in (a, 1))", 41, "`1` is no column of the table: compute it in a subquery"),
        ("select * from t asof join u on t.a = u.a", 27, "ASOF JOIN has one inequality"),
        ("select * from t asof join u on t.a > u.a and t.b < u.c", 27, "ASOF JOIN has one inequality"),
        ("insert into t values (1)", 1, "statement INSERT is not supported"),
        ("create view x as pivot t on a in (1)", 1, "CREATE of this form is not supported: a script has"),
        ("pivot t on a in (1)", 19, r"are DuckDB's: write SELECT \* FROM t PIVOT"),
        ("explain select 1", 1, "statement EXPLAIN is not supported"),
        ("select 1; select 2", 1, "a query in a script has no name"),
        ("create table x (a json)", 19, "type JSON is not supported"),
        ("create table x (a bigint, a bigint)", 14, "is given twice"),
        ("create table x (a bigint primary key, b bigint primary key)", 14, "two primary keys"),
        ("create table x (a bigint default 1)", 17, "is not supported"),
        ("create table t (a bigint)", 14, "`t` is there already"),
        ("create table x as select 1", 1, "CREATE TABLE of this form"),
        ("create or replace view x as select 1", 1, "REPLACE"),
        ("create view v (p, q) as select 1", 16, "2 names for 1 columns"),
        ("create table x (a bigint); create view v as select b from x", 52, "no column `b`"),
    ],
)
def test_errors_name_the_place_and_leave_the_flow_as_it_was(flow, text, column, reason):
    before = list(flow.graph.nodes)
    with pytest.raises(SqlError, match=reason) as caught:
        flow.sql(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert flow.graph.nodes == before
    assert isinstance(caught.value, tm.errors.TidemillError)


def test_messages_show_the_line(flow):
    with pytest.raises(SqlError) as caught:
        flow.sql("select a,\n       orign\nfrom t")
    error = caught.value
    assert (error.line, error.column, error.hint) == (2, 8, "there are: 'a', 'b', 's', 'd'")
    assert str(error).splitlines()[1:] == ["         orign", "         ^"]


def test_dialects_are_named(flow):
    with pytest.raises(SqlError, match="dialect='oracle': there are: 'spark'"):
        flow.sql("select 1", dialect="oracle")


@pytest.mark.parametrize(
    "text, dialect, reason",
    [
        ("select substring(s, 0, 2) from t", "duckdb", "from 1 on"),
        ("select left(s, -1) from t", "postgres", "from 1 on"),
        ("select weekday(d) from t", "postgres", "function `weekday` is not supported in dialect postgres"),
        ("select extract(century from d) from t", "duckdb", "expected one of"),
        ("select cast(a / 2 as bigint) from t", "duckdb", "another result for a cast"),
        ("select s like '\\%' from t", "duckdb", "no escape"),
        ("select round(a / 2e0, 1) from t", "postgres", "ROUND is for decimals"),
        ("select t.a from t, u right join t x on x.a = u.a", "postgres", "RIGHT JOIN after a comma"),
    ],
)
def test_functions_that_differ_between_dialects_are_refused(flow, text, dialect, reason):
    with pytest.raises(SqlError, match=reason):
        flow.sql(text, dialect)


@pytest.mark.slow
def test_deep_and_long_texts(flow):
    with pytest.raises(SqlError, match="nested too deeply"):
        flow.sql("select " + "(" * 10_000 + "1" + ")" * 10_000)
    terms = " or ".join(f"a = {i}" for i in range(5_000))
    assert flow.sql(f"select a from t where {terms}").schema.names == ("a",)
    ctes = ", ".join(f"c{i} as (select a from {f'c{i - 1}' if i else 't'})" for i in range(1_000))
    assert flow.sql(f"with {ctes} select * from c999").schema.names == ("a",)


def test_hostile_names(flow):
    odd = "a\"b'`\n;--"
    flow.input("odd table", {odd: "int64", "self": "int64", "emit": "int64", "k": "int64"})
    quoted = '"' + odd.replace('"', '""') + '"'
    text = f'select {quoted}, self, emit, max(k) over (order by emit) k from "odd table" where {quoted} > 0'
    flow.output("o", flow.sql(text, "duckdb"))
    with flow.start() as run:
        run.insert("odd table", [(1, 2, 3, 4)])
        run.advance()
        assert list(run.snapshot("o")) == [(1, 2, 3, 4)]
        assert run.snapshot("o").schema.names == (odd, "self", "emit", "k")


def test_a_second_row_of_a_scalar_subquery_fails_the_step_and_may_be_retracted(flow):
    """The kind of defect: a second row that is dropped, or a query that asks for none of the rows at fault failing."""
    flow.output("one", flow.sql("select a, (select c from u where u.a = t.a) c from t"))
    flow.output("all", flow.sql("select a, (select max(x.c) from (select (select c from u where a > 7) c) x) c from t"))
    with flow.start() as run:
        run.insert("t", [(1, 1, None, None), (None, 1, None, None)])
        run.insert("u", [(1, 5), (2, 6), (2, 7), (None, 1), (None, 1)])  # no row of t asks for 2, nor finds NULL
        run.advance()
        assert sorted(run.snapshot("one").counts(), key=str) == [(1, 5), (None, None)]
        run.insert("u", [(1, 6)])
        with pytest.raises(tm.errors.StepError, match=r"scalar subquery at line 1 has 2 rows of key \(1,\), not one"):
            run.advance()
        run.delete("u", [(1, 5)])
        run.advance()
        assert sorted(run.snapshot("one").counts(), key=str) == [(1, 6), (None, None)]
        run.insert("u", [(8, 1), (9, 1)])
        with pytest.raises(tm.errors.StepError, match="scalar subquery at line 1 has 2 rows, not one"):
            run.advance()


def test_case_guards_the_subqueries_in_it(flow):
    """The kind of defect: a subquery that fails for values for which CASE does not ask."""
    flow.output(
        "value", flow.sql("select a, case when a <> 0 then (select 1 / t.a) when b = 1 then (select t.a) end x from t")
    )
    flow.output("group", flow.sql("select a, case when a = 0 then -1 else (select max(c / t.a) from u) end x from t"))
    flow.output("one", flow.sql("select a, case when b < 9 then (select c from u where u.a = t.a) else 7 end x from t"))
    flow.output("in", flow.sql("select a, case when a = 0 then null else 2 in (select c / t.a from u) end x from t"))
    with flow.start() as run:
        run.insert("t", [(0, 1, None, None), (2, 1, None, None), (9, 9, None, None)])
        run.insert("u", [(2, 4), (9, 1), (9, 2)])
        run.advance()
        found = {n: sorted(run.snapshot(n)) for n in ("value", "group", "one", "in")}
        assert found["value"] == [(0, 0.0), (2, 0.5), (9, 1 / 9)]
        assert found["group"] == [(0, -1.0), (2, 2.0), (9, 4 / 9)]
        assert found["one"] == [(0, None), (2, 4), (9, 7)]
        assert found["in"] == [(0, None), (2, True), (9, False)]
        run.insert("t", [(9, 1, None, None)])
        with pytest.raises(tm.errors.StepError, match="has 2 rows"):
            run.advance()


def test_no_rewrite_adds_an_error_of_a_row(flow):
    """Conditions that fail for some row are looked at for no more rows than as written."""
    flow.output("joined", flow.sql("select t.a from t, u where t.a = u.a and 1 / t.b > 0"))
    flow.output("guarded", flow.sql("select a from t where b <> 0 and a / b > 0"))
    flow.output("some", flow.sql("select a from t where exists (select 1 from u where u.c <> 0 and 2 / u.c = t.a)"))
    flow.output("sub", flow.sql("select a, (select sum(1 / c) from u where u.a = t.a) x from t"))
    with flow.start() as run:
        run.insert("t", [(1, 0, None, None), (2, 1, None, None)])
        run.insert("u", [(2, 1), (3, 0)])  # of the row that fails, no query asks for
        run.advance()
        assert [sorted(run.snapshot(n)) for n in ("joined", "guarded", "some", "sub")] == [
            [(2,)], [(2,)], [(2,)], [(1, None), (2, 1.0)],
        ]  # fmt: skip


def test_texts_that_double_themselves(flow):
    """The kind of defect: what is read by two names is written out twice, and twice again by those that read them."""
    names = ", ".join(["a + a as x0", *(f"x{i} + x{i} as x{i + 1}" for i in range(40))])
    with pytest.raises(SqlError, match="parts, with what it reads by name"):
        flow.sql(f"select {names} from t")
    pairs = (f"c{i} as (select x.a from c{i - 1} x, c{i - 1} y where x.a = y.a)" for i in range(1, 30))
    assert flow.sql(f"with c0 as (select a from t), {', '.join(pairs)} select * from c29").schema.names == ("a",)
    below = "(select max(c) a from u where u.a = t.a) x"
    for _ in range(30):
        below = f"(select x.a + x.a a from {below}) x"
    assert flow.sql(f"select (select a from {below}) y from t where exists (select 1 from {below} where x.a = t.b)")


def test_long_chains_of_operators_end_soon(flow):
    with pytest.raises(SqlError, match="nested more than 1,000 levels deep"):
        flow.sql("select " + "- " * 20_000 + "a from t")
