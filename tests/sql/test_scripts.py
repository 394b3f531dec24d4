"""Scripts: tables are inputs, materialized views outputs, and views can be used by name."""

import datetime as dt
from decimal import Decimal

import pytest

import tidemill as tm
from tidemill.renderer.diagram.levels import levels_of
from tidemill.renderer.diagram.scene import scene_of
from tidemill.sql.dialects import DIALECTS

SHOP = """
  CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, amount DECIMAL(12,2), at TIMESTAMP);
  CREATE VIEW large AS SELECT * FROM orders WHERE amount > 100;
  CREATE MATERIALIZED VIEW by_customer AS
    SELECT customer, count(*) AS n, sum(amount) AS total FROM large GROUP BY customer;
"""


def test_a_script_and_a_query_over_its_views():
    flow = tm.Dataflow("shop")
    views = flow.sql(SHOP)
    assert list(views) == ["large", "by_customer"]
    assert str(flow.graph.inputs["orders"].schema) == (
        "(id: int64 not null, customer: int64 not null, amount: decimal(12,2), at: timestamp)"
    )
    top = flow.sql(
        "SELECT * FROM by_customer ORDER BY total DESC LIMIT 1", tables={"by_customer": views["by_customer"]}
    )
    flow.output("top", top)
    with flow.start() as run:
        run.upsert("orders", [(1, 7, 150, dt.datetime(2024, 1, 1)), (2, 7, 50, None), (3, 8, 101, None)])
        run.advance()
        assert sorted(run.snapshot("by_customer")) == [(7, 1, Decimal("150.00")), (8, 1, Decimal("101.00"))]
        run.upsert("orders", [(2, 8, 500, None)])
        run.advance()
        assert list(run.snapshot("top")) == [(8, 2, Decimal("601.00"))]


def test_from_sql_and_dotted_names():
    text = """
      create table gold.fact (id int, part text, primary key (id, part));
      create materialized view gold.sizes (p, n) as select part, count(*) from gold.fact f group by part;
      create materialized view doubled as select p, n * 2 as n from gold.sizes where gold.sizes.n > 0;
    """
    flow = tm.Dataflow.from_sql(text, dialect="postgres")
    with flow.start() as run:
        run.insert("gold.fact", [(1, "a"), (2, "a")])
        run.advance()
        assert list(run.snapshot("gold.sizes")) == [("a", 2)]
        assert list(run.snapshot("doubled")) == [("a", 4)]


def test_names_by_dialect():
    flow = tm.Dataflow()
    flow.input("Flights", {"Origin": "string", "delay": "int64"})
    assert flow.sql("select ORIGIN, Flights.delay from FLIGHTS").schema.names == ("ORIGIN", "delay")
    assert flow.sql('select "Origin", DELAY from "Flights"', "postgres").schema.names == ("Origin", "delay")
    with pytest.raises(tm.errors.SqlError, match="no table `flights`"):
        flow.sql("select 1 from Flights", "postgres")


def test_division_and_nulls_order_by_dialect():
    found = {}
    for dialect in ("spark", "postgres", "duckdb"):
        flow = tm.Dataflow()
        flow.input("t", {"a": "int64"})
        flow.output("half", flow.sql("select a / 2 as half from t where a is not null", dialect))
        flow.output("first", flow.sql("select a from t order by a desc limit 1", dialect))
        with flow.start() as run:
            run.insert("t", [(5,), (None,)])
            run.advance()
            found[dialect] = (*run.snapshot("half"), *run.snapshot("first"))
    assert found == {
        "spark": ((2.5,), (5,)), "postgres": ((2,), (None,)), "duckdb": ((2.5,), (5,)),
    }  # fmt: skip


def test_division_of_what_is_computed_later_is_whole_where_both_sides_are():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "m": "decimal(12,2)"})
    made = flow.sql(
        "select sum(a) / count(*) as x, sum(m) / count(*) as y, (select max(a) from t) / 2 as z, "
        "sum(sum(a)) over () / 2 as w, case when exists (select 1 from t) then 1 else 2 end / 2 as v from t",
        "postgres",
    )
    assert [f.dtype.name for f in made.schema] == ["int64", "decimal", "int64", "int64", "int64"]


def test_explain_adds_nothing():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    before = list(flow.graph.nodes)
    text = flow.explain_sql("select a, count(*) n from t where b > 1 group by a")
    assert text.startswith(
        "1 Project a, count AS n\n  2 Project a, count  [line 1: a, count(*) n]\n    3 Group by a: COUNT(*) AS count  [line 1: a]\n"
    )
    assert "Filter b > 1" in text
    assert "operators:\n" in text
    assert flow.graph.nodes == before


def test_explain_says_where_in_the_text_and_what_a_change_costs():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    text = """
        select a, max(b) over (partition by a) m, nth_value(b, 2) over (partition by a) l, rank() over (order by b) r,
               nth_value(b, 2) over (order by a rows between unbounded preceding and unbounded following) w
        from t join (select a as k, min(b) as n from t group by a) x on a = k,
             (values (1), (2)) v(c)
        where b > 1
    """
    said = flow.explain_sql(text)
    for line in ("Group by a: MIN(b) AS min  [line 4: a]", "Filter b > 1  [line 6: b > 1]", "Get t  [line 4: t]"):
        assert line in said
    lines = said.split("operators:\n")[1].splitlines()
    costs = {two.strip() for one, two in zip(lines, lines[1:], strict=False) if "Windowed" in one}
    assert costs == {
        "changes cost the rows they reach, found in order", "recomputes its partition",
        "recomputes its one partition of all rows",
    }  # fmt: skip
    by_kind = {one.split()[1]: two.strip() for one, two in zip(lines, lines[1:], strict=False) if "#" in one}
    assert by_kind["Aggregate"] == "changes cost the rows they reach, found in order (min)"
    assert by_kind["Filter"] == "changes cost O(change)"
    assert "each change costs the other side" in said
    assert "changes cost their matches" in said


def test_a_dataflow_that_was_started_is_explained_and_stays_as_it_is():
    flow = tm.Dataflow()
    flow.output("n", flow.sql("select a, count(*) n from t group by a", tables={"t": flow.input("t", {"a": "int64"})}))
    with flow.start() as run:
        run.insert("t", [(1,)])
        assert "Get t" in flow.explain_sql("select max(a) m from t")
        with pytest.raises(tm.errors.GraphError, match="has been started"):
            flow.sql("select max(a) m from t")
        run.advance()
        assert list(run.snapshot("n")) == [(1, 1)]


def test_the_same_subplan_is_computed_once():
    """Q11 joins the same three tables twice: the dataflow has the joins once."""
    from support.tpch_queries import QUERIES

    from tidemill.dataflow.passes.pipeline import optimised

    flow = tm.Dataflow()
    flow.input(
        "partsupp",
        {"ps_partkey": "int64", "ps_suppkey": "int64", "ps_availqty": "int32", "ps_supplycost": "decimal(15,2)"},
    )
    flow.input("supplier", {"s_suppkey": "int64", "s_nationkey": "int64"})
    flow.input("nation", {"n_nationkey": "int64", "n_name": "string"})
    flow.output("o", flow.sql(QUERIES[11], "duckdb"))
    kinds = [type(n).__name__ for n in optimised(flow.graph, takes=()).nodes]
    assert kinds.count("Join") <= 3  # two of the tables, and one with the threshold


@pytest.mark.parametrize(
    "joined, where, how",
    [
        ("left", "u.c > 1", "inner"), ("left", "u.c is not null", "inner"), ("left", "not (u.c = t.b)", "inner"),
        ("left", "u.c in (1, 2) or u.a + 1 < t.b", "inner"), ("full", "u.c > t.b", "inner"), ("full", "t.b = 1", "left"),
        ("full", "u.c = 1", "left"), ("left", "u.c > 1 or t.b = 1", "left"), ("left", "u.c is null", "left"),
        ("left", "coalesce(u.c, 2) = 2", "left"), ("left", "not (u.c is null and t.b = 1)", "left"),
        ("left", "t.b = 1", "left"), ("full", "u.c <=> t.b", "full"), ("left", "(u.c > 1) is false", "left"),
    ],
)  # fmt: skip
def test_outer_joins_whose_lone_rows_a_condition_drops(joined, where, how):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    flow.input("u", {"a": "int64", "c": "int64"})
    assert f"Join {how}" in flow.explain_sql(f"select t.b, u.c from t {joined} join u on t.a = u.a where {where}")


def test_common_conditions_of_or_become_join_keys():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    flow.input("u", {"a": "int64", "c": "int64"})
    text = "select t.b from t, u where (t.a = u.a and b = 1) or (c = 2 and t.a = u.a)"
    assert "Join inner on a = a" in flow.explain_sql(text)


NOON = dt.datetime(2024, 1, 1, 12)
MINUTE = dt.timedelta(minutes=1)


def test_watermarks_and_windows_that_close():
    flow = tm.Dataflow.from_sql(
        """
        create table t (b bigint, ts timestamp not null, watermark for ts as ts - interval '5' minute);
        create materialized view w as
            select ts, sum(b) over (order by ts rows 1 preceding) s from t where b > 0 emit on window close;
        """,
        "risingwave",
    )
    python = tm.Dataflow()
    rows = python.input("t", {"b": "int64", "ts": "timestamp not null"}, watermark=("ts", 5 * MINUTE)).filter("b > 0")
    made = rows.with_columns(s=tm.sum("b").over(tm.Window.order_by("ts").rows_between(-1, 0)), emit="on_close")
    python.output("w", made.select("ts", "s"))
    found = []
    for one in (flow, python):
        with one.start() as run:
            found.append([])
            for batch in ([(2, NOON + MINUTE), (1, NOON)], [(3, NOON + 9 * MINUTE)], [(4, NOON + 20 * MINUTE)]):
                run.insert("t", batch)
                run.advance()
                found[-1].append(sorted(run.snapshot("w")))
    assert found[0] == found[1]
    assert found[0][1:] == [[(NOON, 1), (NOON + MINUTE, 3)], [(NOON, 1), (NOON + MINUTE, 3), (NOON + 9 * MINUTE, 5)]]


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_a_table_on_time_has_no_late_rows_and_what_is_made_of_it_forgets(dialect):
    text = """
        create table t (watermark bigint, ts timestamp, watermark for ts as ts - interval '5' minute)
            with (on_time = true);
        create materialized view w as select ts, count(*) n from t group by ts;
    """
    flow = tm.Dataflow.from_sql(text, dialect)
    with flow.start() as run:
        for minute in (0, 9, 0, 20, 21):  # the second at 0 is late
            run.insert("t", [(1, NOON + minute * MINUTE)])
            run.advance()
        assert sorted(run.snapshot("w")) == [(NOON + m * MINUTE, 1) for m in (0, 9, 20, 21)]
        whole = tm.Dataflow.from_sql(text.replace("with (on_time = true)", ""), dialect)
        with whole.start() as other:
            for minute in (0, 9, 0, 20, 21):
                other.insert("t", [(1, NOON + minute * MINUTE)])
                other.advance()
            assert (NOON, 2) in list(other.snapshot("w"))
            assert run.metrics().state_rows < other.metrics().state_rows


def test_each_operator_points_to_its_sql():
    text = """
        CREATE TABLE orders (id BIGINT, amount BIGINT);
        CREATE MATERIALIZED VIEW v AS
            SELECT id, sum(amount) OVER (ORDER BY id) AS total
            FROM orders
            WHERE amount > 1
              AND EXISTS (SELECT 1 FROM orders o WHERE o.id > 3 AND o.id = orders.id);
    """
    flow = tm.Dataflow()
    flow.sql(text)
    shown = {o.kind: (o.line.partition(", ")[2], o.source) for o in scene_of(flow.graph).operators}
    assert shown["Input"] == ("SQL line 2", "CREATE TABLE orders (id BIGINT, amount BIGINT)")
    assert shown["Windowed"] == ("SQL line 4", "sum(amount) OVER (ORDER BY id) AS total")
    assert shown["SemiJoin"][0] == "SQL line 7"
    assert shown["SemiJoin"][1].startswith("SELECT 1 FROM orders o WHERE")
    assert shown["Output"][0] == "SQL line 3"
    assert {line for line, _ in shown.values()} <= {f"SQL line {n}" for n in range(2, 8)}
    assert ", SQL line 3)" in flow.graph.outputs["v"].where


def test_boxes_of_many_operators_of_sql_are_called_by_their_views():
    views = "".join(
        f"create materialized view v{i} as select t.a + {i} as b, count(*) as n from t join u on t.a = u.a where u.b > {i} "
        "group by t.a;\n"
        for i in range(9)
    )
    flow = tm.Dataflow.from_sql("create table t (a bigint); create table u (a bigint, b bigint);\n" + views)
    names = {f"v{i}" for i in range(9)}
    assert names <= {group.title for group in levels_of(flow.graph) if group.kind == "statement"}
    assert {node.site.sql.view for node in flow.graph.nodes if node.site.sql} == {"t", "u", *names}


def test_what_python_makes_beside_sql_points_to_python():
    flow = tm.Dataflow()
    views = flow.sql("create table t (a bigint); create view v as select a + 1 as b from t")
    flow.output("o", views["v"].filter("b > 1"))
    assert [n.site.sql is None for n in flow.graph.nodes][-2:] == [True, True]


def test_unique_columns_are_checked_where_the_table_is_read():
    flow = tm.Dataflow.from_sql(
        "create table t (a bigint unique, b bigint not null, c bigint, unique (b, c));"
        "create materialized view v as select a, b, c from t"
    )
    with flow.start() as run:
        run.insert("t", [(1, 1, 1), (None, 1, None), (None, 1, None), (2, 1, 2)])
        run.advance()
        assert len(run.snapshot("v")) == 4
        run.insert("t", [(2, 3, 3)])
        with pytest.raises(tm.errors.StepError, match=r"UNIQUE \(a\) of table t: has 2 rows of key \(2,\), not one"):
            run.advance()
        run.delete("t", [(2, 1, 2)])
        run.insert("t", [(5, 1, 1)])
        with pytest.raises(tm.errors.StepError, match=r"UNIQUE \(b, c\) of table t: has 2 rows of key \(1, 1\)"):
            run.advance()
        run.delete("t", [(5, 1, 1)])
        run.advance()
        assert sorted(run.snapshot("v"), key=str) == [(1, 1, 1), (2, 3, 3), *2 * [(None, 1, None)]]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("create materialized view w as select a from t emit on window close", "is for SELECTs with OVER"),
        (
            "create view w as select rank() over (order by sum(a)) r from t group by a emit on window close",
            "is for SELECTs with OVER",
        ),
        ("create view w as select sum(a) over (order by a) r from t emit on window close", "on_close"),
        ("create table x (a bigint, b bigint, watermark for a as b)", "WATERMARK FOR a is AS a, or AS a - INTERVAL"),
        ("create table x (a bigint, watermark for b as b)", "no column `b` for WATERMARK"),
        ("create table x (a bigint) with (on_time = true)", "for a table with WATERMARK FOR"),
        ("create table x (a bigint, watermark for a as a) with (on_time = 3)", "properties is not supported"),
        ("create table x (a bigint, watermark for a as a) with (late = true)", "properties is not supported"),
        ("create table x (a bigint, watermark for a)", "expected AS and the watermark"),
        ("create table x (a bigint, unique (c))", "no column `c` for UNIQUE of `x`"),
        ("create table x (a timestamp, watermark for a as a - interval 1 month)", "no distance"),
    ],
)
def test_watermarks_and_constraints_that_are_refused(text, reason):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64 not null"})
    with pytest.raises(tm.errors.SqlError, match=reason) as caught:
        flow.sql(text, "risingwave")
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "text",
    [
        "select t.a from t where exists (select * from u, v where u.a = t.a and u.c = v.c and v.b > 0)",
        "select t.a from t where t.b > 2 or exists (select * from u, v where u.a = t.a and u.c = v.c and v.b > t.b)",
        "select t.a, w.b from t left join (select u.a, u.c, v.c k, v.b from u, v) w on t.a = w.a and w.c = w.k",
        "select t.a, (select sum(v.b) from u, v where u.a = t.a and u.c = v.c) s from t",
        "select t.a from t, u left join v on v.b = u.a where t.a = u.a",
    ],
)
def test_tables_of_a_subquery_meet_by_what_is_equal_in_it(text):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    flow.input("u", {"a": "int64", "c": "int64"})
    flow.input("v", {"b": "int64", "c": "int64"})
    assert "each change costs the other side" not in flow.explain_sql(text)


def test_what_has_conditions_of_its_own_is_joined_first():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    flow.input("u", {"a": "int64", "c": "int64"})
    flow.input("v", {"b": "int64", "d": "int64"})
    text = "select t.a from t join u on t.a = u.a join v on t.b = v.b left join v w on w.d = u.c where v.d = 1"
    plan = flow.explain_sql(text).split("operators:")[0].splitlines()
    first = [line.split("[")[0].strip() for line in plan if "Join" in line or "Get" in line or "Filter" in line]
    assert [line.partition(" ")[2].strip() for line in first] == [
        "Join left on d = c", "Join inner on a = a", "Join inner on b = b", "Get t", "Filter d = 1", "Get v", "Get u",
        "Get v",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "select a from (select * from t where exists (select * from u where u.a = t.a)) w where 10 / b > 1",
        "select w.a from (select a, b from t) w, u where w.a = u.a and 10 / w.b > 1",
        "select t.a from t left join u on u.a = t.a where u.c > 0 and 10 / t.b > 1",
        "select t.a from t where exists (select * from u, t s where u.a = t.a and s.a = u.a and 10 / s.b > 1)",
    ],
)
def test_what_may_fail_is_not_asked_of_more_rows_further_down(text):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64"})
    flow.input("u", {"a": "int64", "c": "int64"})
    flow.output("o", flow.sql(text))
    with flow.start() as run:
        run.insert("t", [(1, 5), (2, 0)])
        run.insert("u", [(1, 1)])
        run.advance()
        assert list(run.snapshot("o")) == [(1,)]
