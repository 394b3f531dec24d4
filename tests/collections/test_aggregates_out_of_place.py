"""Aggregates stand in ``agg`` and nowhere else; what stands beside them is a key. Errors say so."""

import re

import pytest

import tidemill as tm
from tidemill.errors import SchemaError, UnknownColumnError

NOT_SCALAR = "is not supported in a scalar expression: an aggregate is no function of one row; use it in group_by(...)"
ELSEWHERE = {
    "select": lambda a: a.select(n=tm.count()),
    "select, in SQL": lambda a: a.select("k", n="count(*)"),
    "select, by position": lambda a: a.select(tm.count().alias("n")),
    "with_columns": lambda a: a.with_columns(n=tm.count() + 1),
    "filter": lambda a: a.filter("count(*) > 1"),
    "group_by": lambda a: a.group_by(n=tm.count()),
    "top_k": lambda a: a.group_by("k").top_k(1, order_by=tm.count()),
    "order_by": lambda a: a.group_by("k").agg(f=tm.first("v", order_by=tm.desc(tm.count()))),
    "join": lambda a: a.join(a, on="k", where=tm.count() > 1),
    "in another": lambda a: a.group_by("k").agg(m=tm.max(tm.count())),
    "in another's condition": lambda a: a.group_by("k").agg(m=tm.max("v").filter(tm.count() > 1)),
    "in another, in SQL": lambda a: a.group_by("k").agg(m="max(v + count(*))"),
}


@pytest.fixture
def a():
    return tm.Dataflow("wrong").input("a", {"k": "int64", "v": "int64", "s": "string"})


def refused(text, kind=SchemaError):
    return pytest.raises(kind, match=re.escape(text))


@pytest.mark.parametrize("where", ELSEWHERE)
def test_elsewhere(a, where):
    with refused(f"`COUNT(*)` {NOT_SCALAR}"):
        ELSEWHERE[where](a)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            "v + count(*)",
            "x: column `v` is neither a key of the groups nor inside an aggregate: group by it too, or say",
        ),
        (tm.col("v") / tm.sum("v"), "which of its values, as in tm.max('v')"),
        ("v", "x: column `v` is neither a key"),
        ("k + 1", "x='k + 1' is not an aggregate: expected something like tm.count() or tm.sum('x')"),
        (tm.lit(1), "x=1 is not an aggregate"),
        (len, "is not an aggregate"),
        (tm.sum("s") + 1, "SUM(s): sum of s is of type string: expected a number"),
        (tm.sum("v") + "x", "`SUM(v)` + 'x'` gets int64 and string: + expects two numbers"),
        (
            "median(distinct v)",
            "MEDIAN(DISTINCT v) in `median(distinct v)` is not supported in a scalar expression: MEDIAN does not take",
        ),
        ("count(distinct *)", "only COUNT takes *"),
        ("sum(*)", "only COUNT takes *"),
        ("sum(v, 1)", "`sum` does not take 2 arguments"),
        ("avg()", "`avg` does not take 0 arguments"),
        ("first(v)", "say in which order, as in FIRST(x ORDER BY t)"),
        ("sum(v order by k)", "ORDER BY is for FIRST, LAST and LIST, ARRAY_AGG and STRING_AGG alone"),
        ("max_by(v)", "`max_by` does not take 1 argument"),
        ("percentile_cont(v)", "write PERCENTILE_CONT(...) WITHIN GROUP (ORDER BY x)"),
        (tm.corr("v", "s") + "x", "gets float64 and string: + expects two numbers"),
        ("upper(s) filter (where v > 1)", "UPPER(s) FILTER(WHERE v > 1) in"),
        ("sum(v) over (partition by k)", "a window call looks at other rows"),
        ("countt(v)", "no function `countt`; did you mean"),
    ],
    ids=str,
)
def test_what_is_wrong_in_agg(a, wanted, text):
    with refused(text):
        a.group_by("k").agg(x=wanted)


def test_unknown_columns(a):
    with refused("x: no column `w` in (k: int64, v: int64, s: string): there are: 'k'", UnknownColumnError):
        a.group_by("k").agg(x="w + count(*)")
    with refused("no column `w`", UnknownColumnError):
        a.group_by("k").agg(x="1 + sum(w)")
    with refused("x: no column `lat` in (k: int64, v: int64, s: string): did you mean 'late'?", UnknownColumnError):
        a.group_by(late="v > 60").agg(x=tm.when(tm.col("lat"), tm.count()).otherwise(0))


def test_names_given_twice(a):
    with refused("column 'k' is given twice"):
        a.group_by("k").agg(k=tm.count())
    with refused("column 'k' is given twice"):
        a.group_by("k").agg(k=tm.count() + 1)


def test_only_aggregates_can_be_filtered():
    assert not hasattr(tm.col("x"), "filter")
    assert not hasattr(tm.sum("x") + 1, "filter")
