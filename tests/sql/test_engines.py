"""The engines agree on what SQL makes, down to each update."""

import random

import pytest
from support.sql_judge import flow_of
from support.sql_queries import TABLES, history

import tidemill as tm

QUERIES = [
    "select t.a, u.c from t left join u on t.a = u.a and u.c > 1",
    "select t.a, u.a ua from t full join u on t.a = u.a and t.b < u.c",
    "select a from t where a not in (select a from u)",
    "select a, a in (select a from u) as m, b > all (select c from u where u.a <> t.a) as n from t",
    "select (a, b) in (select a, c from u), a from t",
    "select a, (select count(*) from u where u.c < t.b) from t",
    "select a, (select sum(c) from u where u.a = t.a having count(*) > 1) from t",
    "select a, x.c from t left join lateral (select c from u where u.a = t.a order by c limit 2) x on true",
    "select a, s, grouping(a), count(*) from t group by cube (a, s)",
    "select a, sum(sum(b)) over (order by a) from t group by a",
    "with recursive r(a, c) as (select a, c from u union select r.a, u.c from r, u where r.c = u.a) select * from r",
    "select a, c from u intersect all select a, b from t",
    "select a from t order by b desc, a, s limit 2 offset 1",
]


@pytest.mark.parametrize("text", QUERIES)
def test_engines_agree(text):
    flow = flow_of(TABLES, {"q": text})
    updates = {name: [] for name in TABLES}
    for time, changes in enumerate(history(random.Random(text), batches=3, size=4)):
        for name, (inserted, deleted) in changes.items():
            updates[name] += [(row, time, 1) for row in inserted] + [(row, time, -1) for row in deleted]
    tm.testing.check_equivalent(flow, updates, engines=["reference", "embedded"])
