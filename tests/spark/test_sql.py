"""SQL on Spark: rendered and live, it gives what the other engines give."""

import random

import pytest
from support.sql_judge import flow_of
from support.sql_queries import TABLES, history

import tidemill as tm
from tidemill.testing import all_at_once
from tidemill.testing.spark_engines import SparkLive

pytestmark = pytest.mark.usefixtures("spark")

QUERIES = {
    "joins": "select t.a, u.c, v.x from t left join u on t.a = u.a and u.c > 1 join v on v.k = t.b",
    "marks": "select a, a in (select a from u) as m, b > all (select c from u where u.a <> t.a) as n from t",
    "counts": "select a, (select count(*) from u where u.c < t.b) c from t where a not in (select k from v)",
    "sets": "select a, s, grouping(a) g, count(*) n from t group by rollup (a, s)",
    "loop": "with recursive r(a, c) as (select a, c from u union select r.a, u.c from r, u where r.c = u.a) select * from r",
    "first": "select a, b from t qualify row_number() over (partition by a order by b, s) = 1",
    "pivot": "pivot t on b in (1, 2) using sum(a) group by s",
    "unpivot": "unpivot (select a, b from t) on a, b",
    "each": "select a, c, x from u, unnest([a, c]) q(x)",
    "lists": "select a, b, s, array_agg(s order by b desc nulls last, s) over (partition by a order by b, s rows 2 preceding) l, "
    "string_agg(s, ',' order by s desc) filter (where b > 1) over (order by a groups 1 preceding exclude current row) g from t",
    "ages": "select extract(month from age(date '2024-03-31' + cast(a * 40 as int), date '2024-02-29')) m, date_part('year', date '2024-03-31' - cast(b as int)) y "
    "from t",
}
OF_SPARK = {
    "made": "select a % 2 k, median(b) m, string_agg(s, ',') g, sum(distinct b) d, regr_slope(b, a) r, var_pop(b) v, "
    "min_by(a, b) f, count(distinct a, s) c, percentile_disc(0.5) within group (order by s) p from t group by a % 2",
    "over": "select a, b, median(b) over (partition by s order by a, b) m, bit_or(b) over (partition by s) o, "
    "max_by(a, b) over (order by a, b, s rows 2 preceding) x, min_by(s, b) over (partition by a) y from t",
    "scalars": "select md5(s) h, format_string('%s:%03d', s, a) f, try_divide(a, b) q, array(a, b)[1] e, sin(a) si, "
    "cast(a as smallint) sm, cast(a as decimal(38, 2)) > cast(b as decimal(38, 6)) c, to_char(cast(a as decimal(10, 2)), '$9,990.99MI') n, "
    "template_to_char(a, 'FM000S') p, template_to_char(timestamp_seconds(a * 3000000), 'FMDay, DDth Mon YYYY') w "
    "from t where b <> 0",
}


OF_POSTGRES = {
    "chars": "with w as (select a, s::char(3) as c from t) select c, c || '.' d, count(*) n, c like 's%  ' l, c = 's1 ' e from w group by c",
}


@pytest.mark.parametrize(
    "queries, dialect",
    [(QUERIES, "duckdb"), (OF_SPARK, "spark"), (OF_POSTGRES, "postgres")],
    ids=["forms", "functions", "chars"],
)
@pytest.mark.parametrize("rendering", ["spark", SparkLive(in_driver=0)], ids=["rendered", "live"])
def test_sql_on_spark(rendering, queries, dialect):
    flow = flow_of(TABLES, queries, dialect)
    found = {name: [] for name in TABLES}
    for time, changes in enumerate(history(random.Random(3), batches=2, size=4)):
        for name, (inserted, deleted) in changes.items():
            found[name] += [(row, time, 1) for row in inserted] + [(row, time, -1) for row in deleted]
    tm.testing.check_equivalent(flow, found, engines=["reference", rendering], batchings=[all_at_once])


def test_a_second_row_of_a_scalar_subquery_fails_on_spark(spark):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64"})
    flow.output("o", flow.sql("select x.a, (select y.a + 1 from t y where y.a = x.a) b from t x"))
    with flow.start(tm.Spark(spark)) as run:
        run.insert("t", [(1,), (1,)])
        with pytest.raises(tm.errors.StepError, match=r"scalar subquery at line 1 has 2 rows of key \(1,\)"):
            run.advance()
