"""Passes over windows, where what users write comes close to what the passes add."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.running import examples, new_flow

import tidemill as tm
from tidemill.dataflow.composites import TopK, Windowed
from tidemill.dataflow.fingerprint import describe
from tidemill.dataflow.passes.ranks import CEILING, limit_ranks
from tidemill.errors import NegativeCountError
from tidemill.testing import all_at_once, check_equivalent

ROWS = [(1, 1, 5), (1, 1, 6), (1, 2, 7), (1, 3, 9), (None, 1, 2), (None, None, 3), (2, None, None)]
PEOPLE = {"k": "int64", "t": "int64", "x": "int64"}
W = tm.Window.partition_by("k").order_by("t")


def agree(build, schema):
    """Both engines give the same, with the passes and without."""
    flow = new_flow()
    flow.output("y", build(flow.input("x", schema)))
    for passes in (True, False):
        check_equivalent(flow, {"x": [(row, i % 3, 1) for i, row in enumerate(ROWS)]}, passes=passes)
    return flow


@pytest.mark.parametrize("ranking", [tm.rank(), tm.dense_rank()])
def test_ranks_are_limited_beside_columns_called_as_those_of_the_pass(ranking):
    schema = {"k": "int64", "place 0#": "int64", "place 1#": "int64"}
    window = tm.Window.partition_by("k").order_by(tm.col("place 0#"))
    flow = agree(lambda x: x.with_columns(n=ranking.over(window)).filter("n <= 2"), schema)
    assert "first 2 by" in flow.explain(passes=["limit_ranks"])


ORDERS = {
    "two columns": ("t", "x"),
    "up and down": (tm.desc("t"), tm.asc("x", nulls="last")),
    "expressions": (tm.asc("t % 2", nulls="last"), tm.desc("x + 1", nulls="first")),
}
SMALL = st.none() | st.integers(0, 2)
TIED = st.lists(
    st.tuples(st.tuples(st.none() | st.integers(0, 1), SMALL, SMALL), st.integers(0, 2), st.sampled_from([1, 1, 2])),
    max_size=12,
)


FIRST = st.tuples(
    st.sampled_from([tm.row_number(), tm.rank(), tm.dense_rank()]),
    st.sampled_from([(), ("k",), ("k % 2", "x")]),
    st.sampled_from(sorted(ORDERS)),
    st.integers(1, 3),
)


@pytest.mark.slow
@examples(100)
@given(FIRST, TIED, st.sets(st.integers(0, 11)))
@example((tm.rank(), ("k",), "two columns", 1), [((0, 1, x), 0, 1) for x in (2, 1, 0, 2)], {2})
@example((tm.rank(), ("k % 2", "x"), "two columns", 1), [((0, x, x), 0, 1) for x in (2, 1, 0, 2)], {2})
def test_the_first_ranks_of_rows_that_tie_in_some_columns_of_the_order(first, rows, gone):
    ranking, keys, order, most = first
    window = tm.Window.partition_by(*keys).order_by(*ORDERS[order])
    flow = new_flow()
    flow.output("y", flow.input("x", PEOPLE).with_columns(n=ranking.over(window)).filter(f"n <= {most}"))
    assert f"first {most} by" in flow.explain(passes=["limit_ranks"])
    for passes in (True, False):
        updates = [*rows, *((row, time + 1, -count) for i, (row, time, count) in enumerate(rows) if i in gone)]
        check_equivalent(flow, {"x": updates}, passes=passes)


WHOLE = {
    "a sum": lambda w: tm.sum("x").over(w),
    "a count": lambda w: tm.count().over(w),
    "of some rows": lambda w: tm.max("x").filter("t > 0").over(w),
    "a count of some rows": lambda w: tm.count().filter("t > 0").over(w),
    "of distinct values": lambda w: tm.avg("x").over(w, distinct=True),
    "first": lambda w: tm.first_value("x").over(w.order_by("t").rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
    "last but NULL": lambda w: tm.last_value("x", ignore_nulls=True).over(
        w.order_by(tm.desc("t")).rows_between(tm.UNBOUNDED, tm.UNBOUNDED)
    ),
    "first but NULL": lambda w: tm.first_value("t", ignore_nulls=True).over(
        w.order_by("x").range_between(tm.UNBOUNDED, tm.UNBOUNDED)
    ),
}
PARTITIONED = [(), ("k",), ("k % 2",), ("k", "k"), ("t", "k % 2"), ("x IS NULL",)]


@pytest.mark.slow
@examples(100)
@given(
    st.sampled_from(PARTITIONED),
    st.lists(st.sampled_from(sorted(WHOLE)), min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(TIED.map(lambda rows: [row for row, _, _ in rows][:3]), st.integers(0, 2)), max_size=4),
    st.booleans(),
    st.sampled_from([1, 2]),
)
def test_whole_partitions_however_they_are_parted(keys, names, batches, beside, coordinates):
    """With rows that go again, down to none."""
    window = tm.Window.partition_by(*(tm.expr(key) for key in keys)) if keys else tm.Window()
    flow = tm.Dataflow(time=("a", "b")[:coordinates])
    calls = {f"c{i}": WHOLE[name](window) for i, name in enumerate(names)}
    if beside:
        calls["n"] = tm.row_number().over(window.order_by("t"))
    flow.output("y", flow.input("x", PEOPLE).with_columns(**calls))
    shown = flow.explain(passes=["group_whole_partitions"]).partition("\nafter ")[2]
    assert "Join" in shown
    assert "UNBOUNDED FOLLOWING" not in shown
    updates: list[tuple[object, object, int]] = []
    for place, (rows, time) in enumerate(batches):
        at, later = ((start, place % 2) if coordinates > 1 else start for start in (time, time + 1 + place % 2))
        updates += [(row, at, 1) for row in rows] + [(row, later, -1) for row in rows[place % 2 :]]
    check_equivalent(flow, {"x": updates}, passes=["group_whole_partitions"])


def test_partitions_are_grouped_for_calls_called_as_the_keys_of_the_pass():
    total = {"key 0#": tm.sum("x").over(tm.Window.partition_by("k"))}
    flow = agree(lambda x: x.with_columns(**total), PEOPLE)
    assert "Join" in flow.explain(passes=["group_whole_partitions"])


def test_distinct_values_of_partitions_are_grouped_once_for_each_argument():
    calls = {
        "n": tm.count().over(K),
        "s": tm.sum("x").over(K, distinct=True),
        "even": tm.avg("x").filter("x % 2 = 0").over(K, distinct=True),
        "v": tm.variance("x").over(K, distinct=True),
        "place": tm.rank().over(W),
        "kinds": tm.sum("t").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED), distinct=True),
    }
    flow = agree(lambda x: x.with_columns(**calls), PEOPLE)
    shown = flow.explain(passes=["group_whole_partitions"])
    assert shown.count(" Join ") == 4
    assert shown.count("[distinct]") == 3


@pytest.mark.parametrize("ranking", [tm.row_number(), tm.rank(), tm.dense_rank()])
def test_a_limit_that_no_rank_can_reach_is_none(ranking):
    flow = agree(lambda x: x.with_columns(n=ranking.over(W)).filter("n - 1 <= 9223372036854775807"), PEOPLE)
    assert "first 9223372036854775808 by" not in flow.explain(passes=["limit_ranks"])


@pytest.mark.parametrize("ranking", [tm.row_number, tm.rank, tm.dense_rank])
def test_many_first_rows_are_no_limit_where_partitions_are_kept_in_their_order(ranking):
    """For a limit of so many costs more than the order; where whole partitions are computed it still saves most."""
    for strategy, most, limited in (("auto", CEILING, True), ("auto", CEILING + 1, False), ("recompute", 10**6, True)):
        number = ranking().over(W, strategy=strategy)
        flow = agree(lambda x, number=number, most=most: x.with_columns(n=number).filter(f"n <= {most}"), PEOPLE)
        found = [
            n for n in limit_ranks(flow.graph).nodes if isinstance(n, TopK) or getattr(n, "most", None) is not None
        ]
        assert bool(found) == limited


K = tm.Window.partition_by("k")
RANKINGS = pytest.mark.parametrize("ranking", [tm.row_number(), tm.rank(), tm.dense_rank()])
BESIDE: dict[str, dict[str, Any]] = {
    "of another window": {"s": tm.sum("x").over(K)},
    "of the same one": {"s": tm.sum("x").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED))},
    "of rows in the order": {"s": tm.first_value("x").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)), "l": tm.list("x").over(K)},
    "of another order": {"s": tm.last_value("x").over(K.order_by("x", "t").rows_between(tm.UNBOUNDED, tm.UNBOUNDED))},
    "of fewer rows": {"s": tm.max("x").filter("t > 1").over(K), "n2": tm.count("t").over(K, distinct=True)},
}  # fmt: skip


@pytest.mark.slow
@RANKINGS
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("limit", ["n <= 2", "3 > n + 1"])
@pytest.mark.parametrize("first", ["rank", "others"])
def test_ranks_are_limited_beside_calls_over_whole_partitions(ranking, beside, limit, first):
    calls = {"n": ranking.over(W), **BESIDE[beside]}
    names = list(calls) if first == "rank" else [*list(calls)[1:], "n"]
    flow = agree(lambda x: x.with_columns(**{name: calls[name] for name in names}).filter(limit), PEOPLE)
    shown = flow.explain(passes=["limit_ranks", "group_whole_partitions"])
    assert "first 2 by" in shown or "first 1 by" in shown
    assert "UNBOUNDED FOLLOWING" not in shown.partition("\nafter ")[2]


@RANKINGS
def test_ranks_are_limited_whose_rows_are_joined_before_the_filter(ranking):
    def build(x):
        ranked = x.with_columns(n=ranking.over(W), m="x")
        others = x.select("k", y="t").distinct()
        return ranked.with_columns(p="1 - n").join(others, on="k").select("t", "y", q="0 - p").filter("q + 1 <= 2")

    assert "first 2 by" in agree(build, PEOPLE).explain(passes=["limit_ranks"])


def test_ranks_that_others_are_computed_from_are_not_limited():
    def build(x):
        ranked = x.with_columns(n=tm.row_number().over(W))
        return ranked.with_columns(s=tm.sum("n").over(K)).filter("n <= 2")

    assert "first 2 by" not in agree(build, PEOPLE).explain(passes=True)


def test_whole_partitions_are_in_the_order_of_a_rank_that_was_asked_for():
    def build(x):
        ranked = x.with_columns(n=tm.row_number().over(K.order_by(tm.desc("x"))))
        return ranked.with_columns(s=tm.first_value("t").over(K.order_by("n").rows_between(tm.UNBOUNDED, tm.UNBOUNDED)))

    agree(build, PEOPLE)


def test_ranks_are_limited_of_rows_that_users_have_made_fewer():
    made = {
        "a semijoin": lambda x: x.semijoin(x.filter("x > 2"), on="k"),
        "a top-k": lambda x: x.group_by("k").top_k(5, order_by="x"),
    }
    for make in made.values():
        flow = agree(lambda x, make=make: make(x).with_columns(n=tm.rank().over(W)).filter("n <= 2"), PEOPLE)
        assert flow.explain(passes=["limit_ranks"]).count("first 2 by") == 1


@RANKINGS
def test_limits_end_and_a_tighter_one_goes_below_another(ranking):
    flow = new_flow()
    flow.output("y", flow.input("x", PEOPLE).with_columns(n=ranking.over(W)).filter("n <= 2"))
    flow.graph.freeze()
    once = limit_ranks(flow.graph)
    assert describe(limit_ranks(once)) == describe(once) != describe(flow.graph)
    filtered = agree(lambda x: x.with_columns(n=ranking.over(W)).filter("n <= 5").filter("n <= 2"), PEOPLE)
    assert "first 2 by" in filtered.explain(passes=["limit_ranks"])


def test_a_filter_is_looked_for_below_thousands_of_computed_columns():
    flow = new_flow()
    ranked = flow.input("x", PEOPLE).with_columns(n=tm.row_number().over(W))
    for _ in range(2000):
        ranked = ranked.select(n="n + 1")
    flow.output("y", ranked.filter("n + 1 <= 2003"))
    flow.graph.freeze()
    assert any(isinstance(n, Windowed) and n.most == 2 for n in limit_ranks(flow.graph).nodes)


NUMBER = tm.row_number().over(W)
ALONE = {
    "the whole row": lambda x: x.with_columns(n=NUMBER),
    "the same number twice": lambda x: x.with_columns(n=NUMBER, m=NUMBER).with_columns(m="m + n"),
    "some of its columns": lambda x: x.with_columns(number=NUMBER).select("k", n="number", t="t + 1"),
    "no partitions": lambda x: x.with_columns(n=tm.row_number().over(tm.Window.order_by(tm.desc("x")))),
    "an order by what is computed": lambda x: x.with_columns(n=tm.row_number().over(K.order_by(tm.expr("t % 2"), "x"))),
    "a number for a column": lambda x: x.with_columns(number="x").with_columns(n=NUMBER),
    "behind another window": lambda x: x.with_columns(s=tm.lag("x").over(W), n=tm.row_number().over(K.order_by("x"))),
}


@pytest.mark.parametrize("limit", ["n <= 2", "n = 2", "n < 4 and t > 0"])
@pytest.mark.parametrize("build", ALONE.values(), ids=ALONE)
def test_first_rows_are_numbered_by_the_top_k_that_finds_them(build, limit):
    flow = agree(lambda x: build(x).filter(limit), PEOPLE)
    _, _, after = flow.explain(passes=True).rpartition("\nafter ")
    assert ", numbered]" in after
    assert after.count("Reduce") == after.count("numbered]") + after.count("lag(")
    assert "XXHASH64" not in after or "lag(" in after  # ties are broken by it, and it is no column


def test_copies_are_numbered_one_by_one():
    flow = new_flow()
    flow.output("y", flow.input("x", PEOPLE).with_columns(n=NUMBER).filter("n <= 5"))
    changes = [((1, 1, 1), 0, 3), ((1, 0, 1), 1, 2), ((1, 2, 2), 1, 4), ((1, 1, 1), 2, -2), ((2, 0, 0), 2, 10**6)]
    for passes in (True, False):
        check_equivalent(flow, {"x": changes[:4]}, passes=passes)
    with flow.start() as run:
        run.update("x", changes)
        run.advance_to(3)
        numbers = sorted((row[0], row[3], count) for row, count in run.snapshot("y").counts().items())
    assert numbers == [(k, n, 1) for k in (1, 2) for n in range(1, 6)]


def test_a_row_taken_away_too_often_is_named_without_what_it_is_sorted_by():
    flow = new_flow()
    flow.output("y", flow.input("x", PEOPLE).with_columns(n=NUMBER).filter("n <= 5"))
    with flow.start() as run:
        run.delete("x", [(1, 2, 3)])
        with pytest.raises(NegativeCountError, match=r"key \(1,\): row \(1, 2, 3\) has the count -1"):
            run.advance()


BOUNDS = {
    "n IN (1, 2)": 2, "NOT n > 2": 2, "n = 2 OR n = 1": 2, "n * 2 <= 4": 2, "n < 2.5": 2, "n BETWEEN 1 AND 2": 2,
    "-2 * n + 1 >= -3": 2, "NOT (n > 2 OR v = 0)": 2, "n <=> 2": 2, "v = 1 AND n IN (1, 2) OR n < 2": 2,
    "CAST(n AS DOUBLE) <= 2.9": 2, "n < CAST(2.1 AS DECIMAL(9, 1))": 2, "n IN (2, NULL)": 2, "3 * n < 7": 2,
    "n NOT IN (1, 2)": None, "n = 1 OR v = 1": None, "n <> 2": None, "0 * n < 2": None, "n % 2 = 1": None,
    "NOT (n > 2 AND v = 0)": None, "n + v < 3": None, "n / 2 < 2": None, "n IN (1, v)": None,
}  # fmt: skip


@pytest.mark.parametrize("where", BOUNDS)
def test_any_condition_that_bounds_a_number_by_constants_is_a_limit(where):
    most = BOUNDS[where]
    alone = tm.Dataflow("alone")
    x = alone.input("x", {"k": "int64", "v": "int64"})
    numbers = x.with_columns(n=tm.row_number().over(tm.Window.partition_by("k").order_by("v")))
    alone.output("later", numbers.with_columns(p=where).filter("p").select("k", "v"))
    shown = alone.explain(passes=["limit_ranks"]).partition("after ")[2]
    assert (f"first {most} by" in shown) == (most is not None) == ("first " in shown)
    rows = [((i % 2, v), 0, 1) for i, v in enumerate((0, 1, 2, 1, None, 5, 0, 3))]
    check_equivalent(alone, {"x": rows}, batchings=[all_at_once], passes=True)


def test_a_key_that_is_equal_to_a_number_is_a_limit():
    flow = tm.Dataflow("across")
    x, y = (flow.input(n, {"k": "int64", "v": "int64"}) for n in "xy")
    numbers = x.with_columns(n=tm.row_number().over(tm.Window.partition_by("k").order_by("v")))
    flow.output("out", y.join(numbers, on={"v": "n"}).filter("v <= 2"))
    assert "first 2 by" in flow.explain(passes=True)
    assert "first 2 by" not in flow.explain(passes=["limit_ranks"])
