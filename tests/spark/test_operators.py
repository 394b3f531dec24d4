"""Every operator on Spark gives the embedded engine's updates: many outputs of one dataflow, so that jobs are few."""

import datetime as dt
import decimal
import random
from typing import Any

import pytest
from support.running import KV, many_examples, traces

import tidemill as tm

D = decimal.Decimal
WIDE = {
    "k": "int64", "f": "float64", "s": "string", "d": "decimal(10,2)", "e": "decimal(30,4)", "b": "bool", "n": "int32",
    "day": "date", "t": "timestamp", "raw": "binary",
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "k": [0, 1, 2, None], "f": [0.0, -0.0, 1.5, 1e20, -1e20, float("nan"), None], "s": ["", "a", "ß", None],
    "d": [D("1.25"), D("-0.05"), None], "e": [D("1.0001"), D("-99999999999999999999.5"), None], "b": [True, False, None],
    "n": [1, -5, None], "day": [dt.date(2020, 2, 29), dt.date(1969, 1, 1), None], "raw": [b"", b"\x00a", None],
    "t": [dt.datetime(2020, 2, 29, 1, 2, 3, 456), dt.datetime(1969, 1, 1), None],
}  # fmt: skip


def shown(key, rows):
    return [((*key, repr(rows)), 1)]


def to_even(time):
    return time + time % 2 if isinstance(time, int) else tuple(c + c % 2 for c in time)


def later(c, by):
    coordinates = len(c.builder.graph.coordinates)
    return c.delay(by if coordinates == 1 else (by,) * coordinates)


SEEN = []
LINEAR = {
    "input": lambda a, b, w: w,
    "map": lambda a, b, w: a.select("v", p="k * v + 1", q="k / 2"),
    "map all types": lambda a, b, w: w.with_columns(g="-f", s2="s || 'x'", d2="d * d", m="CASE WHEN b THEN n END"),
    "map by kernel": lambda a, b, w: w.select("s", p="regexp_replace(s, '[a-z]', '#')", later="day + 1", neg="-f"),
    "filter": lambda a, b, w: a.filter("v > 1"),
    "filter null": lambda a, b, w: w.filter("b"),
    "filter by kernel": lambda a, b, w: w.filter("regexp_like(s, '^a')"),
    "negate": lambda a, b, w: a.concat(b.negate()),
    "map_rows": lambda a, b, w: w.map_rows(
        lambda r: (r.s, r.f, r.d), {"s": "string", "f": "float64", "d": "decimal(10,2)"}
    ),
    "flat_map": lambda a, b, w: a.flat_map(lambda r: [r, (r.v, r.k)], KV),
    "flat_map none": lambda a, b, w: a.flat_map(lambda r: [], KV),
    "inspect": lambda a, b, w: a.inspect(lambda row, time, diff: SEEN.append(row)),
    "delay": lambda a, b, w: later(a, 2).concat(b),
    "delay by function": lambda a, b, w: a.delay(to_even).concat(b),
    "consolidate": lambda a, b, w: a.concat(a.negate(), b).consolidate(),
    "constant": lambda a, b, w: a.builder.constant(KV, [(1, 2), (1, 2), (None, None)]).concat(a),
    "empty": lambda a, b, w: a.filter("k > 1000").group_by("k").agg(n=tm.count()),
    "cancelled": lambda a, b, w: a.concat(a.negate()).distinct(),
}
KINDS = ("inner", "left", "right", "full", "semi", "anti")


def join(how):
    return lambda a, b, w: a.join(b, on="k", how=how)


JOINS = {how: join(how) for how in KINDS} | {
    "inner nulls equal": lambda a, b, w: a.join(b, on="k", nulls_equal=True),
    "left where": lambda a, b, w: a.join(b, on="k", how="left", where="v < v_right"),
    "two keys": lambda a, b, w: a.join(b, on=["k", "v"]),
    "cross": lambda a, b, w: a.cross_join(b),
    "self": lambda a, b, w: a.join(a, on={"k": "v"}),
    "float keys": lambda a, b, w: w.select("f").distinct().join(w.select("f", "s"), on="f", nulls_equal=True),
    "string keys": lambda a, b, w: w.select("s", "k").join(w.select("s", "n"), on="s"),
    "integers of two widths": lambda a, b, w: a.join(w.select("n", "s"), on={"v": "n"}),
    "intersect": lambda a, b, w: a.intersect(b),
    "except all": lambda a, b, w: a.except_all(b),
    "except distinct": lambda a, b, w: a.except_distinct(b),
}
AGGREGATES = {
    "distinct": lambda a, b, w: a.concat(b.negate()).distinct(),
    "distinct of all types": lambda a, b, w: w.distinct(),
    "threshold": lambda a, b, w: a.concat(b).threshold(lambda row, n: n // 2),
    "count": lambda a, b, w: a.concat(b.negate()).count("n"),
    "sums": lambda a, b, w: (
        a.concat(b.negate()).group_by("k").agg(n=tm.count(), m=tm.count("v"), s=tm.sum("v"), xx=tm.avg("v"))
    ),
    "sums of floats": lambda a, b, w: w.group_by("s").agg(
        total=tm.sum("f"), xx=tm.avg("f"), v=tm.variance("f"), e=tm.stddev("f")
    ),
    "sums of decimals": lambda a, b, w: w.group_by("k").agg(s=tm.sum("d"), n=tm.count("d"), xx=tm.sum("n")),
    "sums of long decimals": lambda a, b, w: w.group_by("k").agg(s=tm.sum("e"), xx=tm.avg("e"), yy=tm.avg("d")),
    "bools": lambda a, b, w: w.group_by("k").agg(any=tm.bool_or("b"), every=tm.bool_and("b")),
    "expressions of sums": lambda a, b, w: (
        a.concat(b.negate()).group_by("k").agg(v="sum(v) / count(*) + k", n=tm.count("v") * 2, w="count(*)")
    ),
    "expressions of many": lambda a, b, w: (
        w.distinct()
        .group_by("k")
        .agg(e="count(distinct s) + count(*) filter (where b)", xx="max(f) > min(f) and count(*) > k")
    ),
    "filtered": lambda a, b, w: a.group_by("k").agg(n=tm.count().filter("v > 1"), s=tm.sum("v").filter("v < 3")),
    "count distinct": lambda a, b, w: a.distinct().group_by("k").agg(n=tm.count_distinct("v"), m=tm.count()),
    "extremes": lambda a, b, w: a.distinct().concat(b.distinct()).group_by("k").agg(l=tm.min("v"), h=tm.max("v")),
    "extremes of two": lambda a, b, w: w.distinct().group_by("k").agg(l=tm.min("f"), h=tm.max("s"), n=tm.count()),
    "extremes of floats": lambda a, b, w: w.distinct().group_by("k").agg(l=tm.min("f"), h=tm.max("f"), n=tm.sum("n")),
    "by floats": lambda a, b, w: w.group_by("f").agg(n=tm.count()),
    "by all": lambda a, b, w: w.group_by("s", "day", "t", "raw", "b").agg(n=tm.count()),
    "total": lambda a, b, w: a.concat(b.negate()).agg(n=tm.count("v"), s=tm.sum("v"), xx=tm.avg("v / 3")),
    "total of nothing": lambda a, b, w: a.filter("k > 1000").agg(n=tm.count(), s=tm.sum("v")),
    "reduce": lambda a, b, w: (
        a.distinct().concat(b.distinct()).group_by("k").reduce(shown, {"k": "int64", "s": "string"})
    ),
    "reduce all types": lambda a, b, w: w.distinct().group_by("s").reduce(shown, {"k": "string", "s": "string"}),
    "top_k": lambda a, b, w: a.distinct().concat(b.distinct()).group_by("k").top_k(2, order_by=tm.desc("v")),
    "top_k ties": lambda a, b, w: w.distinct().group_by("k").top_k(1, order_by="b"),
    "lists": lambda a, b, w: (
        w.distinct().group_by("k").agg(l=tm.list("f"), m=tm.list("s", order_by="d"), h=tm.first("n", order_by="e"))
    ),
    "of lists": lambda a, b, w: (
        (c := a.distinct().group_by("k").agg(l=tm.list("v")))
        .join(c, on="l")
        .filter("size(l) > 0")
        .select("k", "l", least="get(l, 0)")
    ),
    "by lists": lambda a, b, w: (
        a.distinct().group_by("k").agg(l=tm.list("v")).group_by("l").agg(n=tm.count(), h=tm.max("k"))
    ),
    "shared": lambda a, b, w: (c := a.join(b, on="k").distinct()).concat(
        c.filter("v > 1"), c.select("v", "v_right", k="v")
    ),
}
OPERATORS = LINEAR | JOINS | AGGREGATES
TIMES = {"one time": (1, 1), "epochs": (1, 4), "two coordinates": (2, 3), "three coordinates": (3, 2)}


def updates(schema, coordinates, latest, seed, count):
    dice, found = random.Random(seed), []
    for _ in range(count):
        row = tuple(dice.choice(VALUES[name] if schema is WIDE else [0, 1, 2, 3, None]) for name in schema)
        time = tuple(dice.randrange(latest) for _ in range(coordinates))
        found.append((row, time[0] if coordinates == 1 else time, dice.choice([1, 1, 2, -1])))
    return found


@pytest.mark.parametrize("times", TIMES if many_examples() else ["three coordinates"])
def test_operators(spark, times):
    coordinates, latest = TIMES[times]
    given = {n: updates(s, coordinates, latest, i, 24) for i, (n, s) in enumerate([("a", KV), ("b", KV), ("w", WIDE)])}
    found = {}
    for engine in ("embedded", "spark"):
        made = traces(
            engine,
            lambda a, b, w: [o(a, b, w) for o in OPERATORS.values()],
            given,
            coordinates=coordinates,
            schema={"w": WIDE},
        )
        found[engine] = dict(zip(OPERATORS, made))
    differing = [o for o in OPERATORS if found["spark"][o] != found["embedded"][o]]
    assert {o: (found["spark"][o], found["embedded"][o]) for o in differing} == {}
    assert {o for o in OPERATORS if not found["embedded"][o]} == {"empty", "cancelled", "flat_map none"}


def test_distinct_after_an_aggregate_without_keys(spark):
    """Its row for no rows at all is there before the one time of the updates, and gone at it."""
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", {"i": "int64"}).agg(n=tm.count()).distinct())
    engines = ["reference", "spark"]
    tm.testing.check_equivalent(flow, {"x": [((1,), 5, 1)]}, engines=engines, batchings=[tm.testing.all_at_once])


def same_of_each(_key, _rows):
    return [((1,), 1)]


def test_equal_rows_of_several_groups_are_one_update(spark):
    """Found by a random test: what a user's reduce gives without the keys is not consolidated."""
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", KV).group_by("k").reduce(same_of_each, {"i": "int64"}))
    updates = {"x": [((k, k), 0, 1) for k in range(5)]}
    engines = ["reference", "spark"]
    tm.testing.check_equivalent(flow, updates, engines=engines, batchings=[tm.testing.all_at_once])
