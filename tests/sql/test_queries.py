"""Queries of every kind are, after each batch of changes, what DuckDB computes anew."""

import contextlib
import random

import duckdb
import pytest
from support.sql_judge import Judge, SqliteJudge, differences
from support.sql_queries import TABLES, Queries, history

import tidemill as tm

QUERIES = """
select a, b from t where a > 1 and b is not null
select t.a, u.c from t, u where t.a = u.a
select t.a, u.c from t left join u on t.a = u.a and u.c > 1
select t.a, u.c from t right join u on t.a = u.a
select t.a, u.c from t left join u on t.a = u.a where u.c > 1
select t.a, u.c from t left join u on t.a = u.a where u.c is not null
select t.a, u.c from t left join u on t.a = u.a where not (u.c = 1)
select t.a, u.c from t left join u on t.a = u.a where u.c = 1 or u.a > 2
select t.a, u.c from t left join u on t.a = u.a where u.c = 1 or t.b > 2
select t.a, u.c from t left join u on t.a = u.a where coalesce(u.c, 1) = 1
select t.a, u.c from t full join u on t.a = u.a where u.c > 1
select t.a, u.c from t full join u on t.a = u.a where t.b > 1
select t.a, u.c from t full join u on t.a = u.a where t.b < u.c
select t.a, u.c, v.x from t left join u on t.a = u.a left join v on v.k = u.c where v.x > 0
select t.a, u.c, v.x from t left join u on t.a = u.a join v on v.k = u.c
select t.a, u.c, v.x from t full join u on t.a = u.a full join v on v.k = u.c where v.x > 0 and t.a > 0
select t.a, u.c, v.x from (t full join u on t.a = u.a and t.b > 1) full join v on v.k = u.c and v.x > t.b where u.c is not null
select t.a from t left join u on t.a = u.a where u.c in (1, 2, 3)
select t.a from t left join u on t.a = u.a where not (u.c is null) and u.c not in (1)
select t.a from t left join u on t.a = u.a where (u.c is null) is false
select t.a from t left join u on t.a = u.a where u.c is not distinct from t.b
select t.a, u.c, u.a as ua from t full join u on t.a = u.a
select t.a, u.a ua from t full join u on t.a = u.a and t.b < u.c
select * from t join u using (a)
select * from t full join u using (a)
select * from t natural left join u
select * from t natural full join v
select a, b from t where a in (values (1), (2)) or b = any (values (3), (4))
select t.a, u.a as ua from t left join u on t.a + 1 = u.a and (select max(x) from v where v.k = u.a) > 1
select a, count(*), sum(b), min(s), max(b) from t group by a having count(*) > 1
select count(*), sum(b) from t where a > 100
select sum(c) from u having count(*) > 1
select a + 1 as k, count(distinct b) from t group by a + 1 order by 1
select s, avg(b) from t group by 1
select s as k, count(*) from t group by k
select distinct s from t
select a from t union select a from u
select a from t union all select c from u
select a from t intersect select a from u
select a from t except select a from u
select a from t except all select a from u
select a from t intersect all select a from u
select a from t union select a from u intersect select c from u
select a from t where b = 1 and a = (select max(c) from u, v where u.a = t.a and u.c = v.k and v.x > 0)
select t.a, c from t join u on t.a = u.a where b in (1, 2) and c > (select min(x) from v where k = u.a)
select a, (select count(*) from u where u.a = t.a and u.c <> t.b) as n from t where s = 'x'
select a from t where b = 1 and a not in (select c from u where u.a = t.b)
select o.a from t o left join u p on o.a = p.a where p.c = 2 and exists (select a from u where a = p.c group by a having count(*) > 1)
select a from t where a in (select a from u)
select a from t where a not in (select a from u)
select a from t where a not in (select a from u where a is not null)
select a from t where exists (select * from u, v where u.a = t.a and u.c = v.k and v.x > 0)
select a, (select max(u.c) from u semi join v on v.k = u.c where u.a = t.a) as m from t
select a, (select count(*) from u anti join v on v.k = u.c where u.a = t.a) as n from t
select a from t where b > 2 or exists (select * from u, v where u.a = t.a and u.c = v.k and v.x > t.b and v.x < 9)
select a from t where a not in (select u.a from u, v where u.c = v.k and v.x > t.b and u.a is not null)
select t.a, w.x from t left join (select * from u, v) w on t.a = w.a and w.c = w.k and w.x > 1
select t.a, u.c, v.x from t join u on t.a = u.a left join v on v.k = u.c where t.b > 1 and u.c < 3
select t.a, u.c ua from t full join u on t.a = u.a and u.c > 1
select t.a, u.c from t, u left join v on v.k = u.c where t.a = u.a and (v.x is null or v.x > t.b) and t.b > 0
select a, b from (select t.a, t.b, u.c from t, u where t.a = u.a and exists (select * from v where v.k = u.c)) w where c > 1 and a = 2
select a, (select sum(v.x) from u, v where u.a = t.a and u.c = v.k) from t
select a, a in (select a from u) as m, a not in (select c from u where u.c <> t.b) as n from t
select a from t where exists (select * from u where u.a = t.a and u.c > t.b)
select a from t where not exists (select * from u where u.a = t.a and u.c > t.b)
select a, (select count(*) from u where u.a = t.a) from t
select a, (select sum(c) from u where u.a = t.a) from t
select a, (select count(*) from u where u.c < t.b) from t
select a, (select sum(t.b + c) from u where u.c < t.b) from t
select a, (select max(c) + 1 from u) from t
select a, (select sum(c) from u where u.a = t.a having count(*) > 1) from t
select a from t where b > all (select c from u where u.a = t.a)
select a, b > all (select c from u), b < any (select c from u where u.a <> t.a), b <> all (select c from u) from t
select (a, b) in (select a, c from u), a from t
select a, (select c from u where u.a = t.a order by c limit 1) from t
select a, x.c from t, lateral (select c from u where u.a = t.a order by c desc limit 2) x
select a, x.n from t left join lateral (select count(*) n from u where u.a < t.a) x on true
select t.a, x.y from t left join lateral (select t.a as y from u where u.a = t.a) x on true
select t.a, x.y from t left join lateral (select t.a as y, t.b as z from u where u.a = t.a and u.c < t.b) x on x.z > 1
select a, x.c from t left join lateral (select c from u where u.a = t.a) x on x.c > 1
select a, x.r from t, lateral (select row_number() over (order by c) r from u where u.a < t.a) x
select a, x.c from t, lateral (select c from u where u.a = t.a union all select k from v where v.x < t.b) x
select a, row_number() over (partition by a order by b, s) from t
select a, b, rank() over (order by b), sum(b) over (partition by s order by b) from t
select a, sum(b) over (order by a rows between 1 preceding and 1 following) from t where b is null
select a, b, lag(b) over w, max(b) over w from t window w as (partition by s order by a, b)
select s, sum(sum(b)) over (order by s) from t group by s
select a, b from t qualify rank() over (partition by a order by b) <= 1
select a, b, s, grouping(a), count(*) from t group by grouping sets ((a, b), (s), ())
select a, s, count(*) from t group by rollup (a, s)
select a, s, grouping(a, s), count(*) from t group by cube (a, s)
with w as (select a, count(*) n from t group by a) select x.a, y.n from w x join w y on x.n = y.n
select a, (with w as (select c from u where u.a = t.a) select max(x.c + y.c) from w x, w y) from t
select a, (with w as (select c from u where u.c < t.b) select count(*) from w x left join w y on x.c <> y.c) from t
select a, (with w as (select c from u where u.a = t.a) select sum(c) from (select c from w union all select c from w) x) from t
with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r
with recursive r(a, c) as (select a, c from u union select r.a, u.c from r, u where r.c = u.a) select * from r
select case when a > 1 then 'big' when a is null then null else 'small' end c, count(*) from t group by 1
select * from (values (1, 'x'), (2, null)) v(p, q)
select a from t where exists (select 1 from u where u.c = t.b and u.a in (select k from v where v.k > t.a))
select a, sum(b) filter (where b > 1) from t group by a
select t.a, u.c from t, u where (t.a = u.a and t.b > 0) or (t.a = u.a and u.c = 1)
select distinct on (a) a, b, s from t order by a, b, s
select a, b from t where a = 1 union all (select a, c from u order by c, a limit 2)
select a, count(*) from t group by all
select coalesce(a, -1), nullif(b, 1), abs(b), b // 2, b % 3, b / 2 from t
select upper(s), length(s), s || 'y', concat(s, 'y', s), substring(s, 1, 1) from t
select a from t where exists (select sum(c) from u where u.a = t.a having sum(c) > 2)
select a, (select u.c from u where u.a = t.a union select 0 order by 1 limit 1) from t
select a from t group by a having a in (select a from u)
select a, count(*) + (select count(*) from u) from t group by a
select a + 1 as x, x * 2 as y from t where x > 1
select a from t order by b nulls first, a, s limit 3 offset 1
select * exclude (b) from t
select t.a, t.b, u.c from t asof join (select a, max(c) c from u group by a, c) u on t.a = u.a and t.b >= u.c
select t.a, t.b, u.c from t asof left join (select distinct a, c from u) u on t.a = u.a and t.b > u.c
select t.a, t.b, u.c from t asof left join (select distinct a, c from u) u on t.a = u.a and t.b <= u.c
select t.a, t.b, u.c from t asof join (select distinct c from u) u on u.c < t.b
select * from t asof left join (select distinct a, c b from u) u using (a, b)
select * from t pivot (sum(a) for b in (1, 2, 3))
select * from t pivot (sum(a) as x, count(*) as n for b in (1, 2))
select * from (select a, s from t) pivot (max(a) for s in ('x', 'z'))
select * from t pivot (count(*) for s in ('x', 'y')) p
select a, s, grouping_id(a, s) g, count(*) n from t group by cube (a, s)
pivot t on b in (1, 2, 3) using sum(a)
pivot t on b in (1, 2) using sum(a) as x, count(*) as n group by s
pivot (select * from t where a > 1) on s in ('x', 'y')
select s, x2 + 1 as y from (pivot t on a in (1, 2), s in ('x', 'y') using max(b) group by b) p(b, x1, s, x2, y2)
with p as (pivot t on a in (1, 2) using min(b) group by s order by s limit 2) select * from p
select * from t pivot (sum(a) as x for b in (1, 2) s in ('x', 'y') group by a)
unpivot t on a, b into name n value v
unpivot (select a, b from t) on a, b
unpivot t on a as x, b into name n value v
select * from t pivot (sum(a) for b in (-1, 1))
select * from t unpivot (v for n in (a, b as 'bee')) where v > 1
select n, count(*) c from t unpivot include nulls (v for n in (a, b)) u group by n
select distinct exists (select 1 from u where u.a = t.a) c from t order by 1 nulls last limit 1
select distinct (select max(c) from u where u.a = t.a) + 1 c, s from t order by c nulls first, 2 nulls last limit 2
""".strip().splitlines()


@pytest.mark.parametrize("part", range(6))
def test_queries_are_what_a_database_computes_anew(part):
    queries = {f"q{i}": text for i, text in enumerate(QUERIES) if i % 6 == part}
    assert differences(TABLES, queries, history(random.Random(part))) == []


def test_fetch_with_ties():
    # DuckDB has no WITH TIES: rank() says what it means
    text = "select a, b from t order by a desc fetch first 2 rows with ties"
    meant = "select a, b from t qualify rank() over (order by a desc nulls last) <= 2"
    queries = {"q": text}
    assert differences(TABLES, queries, history(random.Random(7)), judged={"q": meant}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pivot (sum(a) for b in (-1, 1, NULL, 2.5))", ("s", "-1", "1", "NULL", "2.5")),
        (
            "pivot (sum(a), MAX(a) m for s in ('x', upper('x')))",
            ("b", "x_sum(a)", "x_m", "upper('x')_sum(a)", "upper('x')_m"),
        ),
        ("pivot (sum(b) for s in (cast('x' as varchar), 'y'))", ("a", "x", "y")),
    ],
)
def test_columns_of_pivots_are_called_as_they_are_written(text, expected):
    """The column of -1 was called 1, that of upper('x') upper; that of sum(a) was SUM(a)."""
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64", "s": "string"})
    assert flow.sql(f"select * from t {text}").schema.names == expected


def test_pivot_as_spark_has_it():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "b": "int64", "s": "string"})
    flow.output("q", flow.sql("select * from t pivot (count(b) as n for s in ('x' as ex, 'y'))"))
    flow.output("r", flow.sql("select * from t pivot (count(b) as n, max(b) as m for s in ('x' as ex))"))
    with flow.start() as run:
        run.insert("t", [(1, 1, "x"), (1, None, "x"), (2, 5, "y"), (3, None, "x")])
        run.advance()
        assert run.snapshot("q").schema.names == ("a", "ex", "y")
        assert sorted(run.snapshot("q")) == [(1, 1, None), (2, None, 1), (3, 0, None)]  # no row is NULL, no value is 0
        assert run.snapshot("r").schema.names == ("a", "ex_n", "ex_m")
        assert sorted(run.snapshot("r")) == [(1, 1, 1), (2, None, None), (3, 0, None)]


@pytest.mark.parametrize("judge", [Judge, SqliteJudge])
@pytest.mark.parametrize("seed", range(2))
def test_random_queries_are_what_a_database_computes_anew(seed, judge):
    """The kind of defect: an answer that is wrong for some query, most of all where NULL meets subqueries."""
    queries: dict[str, str] = {}
    for number in range(seed * 100, seed * 100 + 8):
        text = Queries(random.Random(number), sqlite=judge is SqliteJudge).query()
        with contextlib.suppress(duckdb.NotImplementedException):  # as correlated IN of several columns
            judge(TABLES).query(text)
            queries[f"q{number}"] = text
    assert differences(TABLES, queries, history(random.Random(seed), batches=3), by=judge) == []


@pytest.mark.parametrize("how", ["", "LEFT"])
def test_a_join_by_the_day_of_a_timestamp_is_by_a_key(how):
    """The kind of defect: a join that computes all pairs, as its condition was thought to fail for some rows."""
    flow = tm.Dataflow()
    flow.input("sales", {"at": "timestamp", "n": "int64"})
    flow.input("days", {"day": "date", "week": "int32"})
    text = flow.explain_sql(f"SELECT week, n FROM sales {how} JOIN days ON day = CAST(at AS DATE)")
    assert "changes cost their matches" in text
    assert "each change costs the other side" not in text


@pytest.mark.parametrize("how", ["", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize(
    "condition",
    [
        "a.x = c.k AND b.x = c.x",
        "c.k = a.x AND c.x = b.x AND a.k = c.k",
        "a.x IS NOT DISTINCT FROM c.k AND b.x IS NOT DISTINCT FROM c.x",
        "a.x = c.k AND b.x = c.k",
    ],
)
def test_two_names_of_a_column_are_each_equal_to_what_is_asked(how, condition):
    """Found by fuzz: what a join before makes equal is one column, and of two conditions on it one was lost."""
    text = f"select a.k, a.x, b.k, c.k, c.x from v a join v b on a.x = b.x {how} join v c on {condition}"
    named = text.replace("a.k, a.x, b.k, c.k, c.x", "a.k as p, a.x as q, b.k as r, c.k as s, c.x as t")
    assert differences(TABLES, {"q": named}, history(random.Random(1), batches=3)) == []


def test_a_subquery_is_computed_for_few_values_where_few_are_asked_for():
    """The kind of defect: a correlated subquery that keeps its joins for all keys, of which one in a hundred is read."""
    text = "select a from t where b = 1 and b < (select max(x) from u, v where u.a = t.a and u.c = v.k)"
    flow = tm.Dataflow()
    for name, columns in TABLES.items():
        flow.input(name, columns)
    flow.output("q", flow.sql(text, dialect="duckdb"))
    with flow.start(progress=False) as run:
        run.insert("t", [(i, i % 100, "") for i in range(1000)])
        run.insert("u", [(i, i) for i in range(1000)])
        run.insert("v", [(i, i, "") for i in range(1000)])
        run.advance()
        assert sorted(run.snapshot("q")) == [(i,) for i in range(101, 1000, 100)]
        assert run.metrics().state_rows < 2_200, "u and v once, and little more"


def test_a_join_on_what_is_no_equality_keeps_no_columns_that_nobody_reads():
    """The kind of defect: whole rows that are told apart by all that a table has."""
    flow = tm.Dataflow()
    flow.input("lines", {"number": "int64", "by": "int64", "comment": "string"})
    text = "select one.by from lines one where {} (select * from lines two where two.number = one.number and two.by <> one.by)"
    for how in ("exists", "not exists"):
        flow.output(how, flow.sql(text.format(how), dialect="duckdb"))
    flow.output("left", flow.sql("select one.by from lines one left join lines two on one.number = two.number and two.by > one.by", dialect="duckdb"))  # fmt: skip
    told_apart = [line for line in flow.explain(passes=True).split("after ")[-1].splitlines() if "Threshold" in line]
    assert told_apart
    assert [line for line in told_apart if "comment" in line] == []


def test_ties_are_broken_by_what_is_selected():
    """The kind of defect: an answer that depends on columns of a table that the query does not name."""
    flow = tm.Dataflow()
    flow.input("less", {"a": "int64", "b": "int64"})
    flow.input("more", {"a": "int64", "b": "int64", "comment": "string"})
    for name in ("less", "more"):
        flow.output(f"of {name}", flow.sql(f"select a from {name} order by b limit 20"))
    with flow.start(progress=False) as run:
        run.insert("less", [(i, 0) for i in range(100)])
        run.insert("more", [(i, 0, str(i % 7)) for i in range(100)])
        run.advance()
        assert sorted(run.snapshot("of less")) == sorted(run.snapshot("of more"))
