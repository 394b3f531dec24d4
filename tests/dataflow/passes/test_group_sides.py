"""Groups of a join's pairs from what each side adds up to: the same comes out, and pairs of keys that repeat are not made."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.composites import DeltaJoin
from tidemill.dataflow.nodes import Join
from tidemill.dataflow.passes.pipeline import PASSES, optimised
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

PASS = "group_each_side"
OTHERS = [p.__name__ for p in PASSES if p.__name__ != PASS]
FEW = {"k": [1, 1, 2, None], "v": [1, 2, 3, None]}
"""So that keys repeat, on both sides."""
AGGREGATES = {
    "count": lambda _: tm.count(),
    "count of": tm.count,
    "count distinct": tm.count_distinct,
    "sum": tm.sum,
    "float sum": lambda c: tm.sum(tm.col(c) * 0.1e0),
    "avg": tm.avg,
    "min": tm.min,
    "max": tm.max,
    "variance": tm.variance,
    "any": lambda c: tm.bool_or(tm.col(c) > 1),
    "some": lambda c: tm.sum(c).filter(tm.col(c) > 1),
}


@st.composite
def grouped(draw):
    """A function that groups the pairs of two collections, and joins that read their arrangements beside it."""
    column = st.sampled_from(["k", "v", "v_right"])
    calls = draw(st.lists(st.tuples(st.sampled_from(sorted(AGGREGATES)), column), min_size=1, max_size=4))
    by = draw(st.sampled_from([["k"], ["k"], [], ["v"], ["k", "v_right"]]))
    beside = draw(st.tuples(st.booleans(), st.booleans()))
    nulls_equal, itself = draw(st.booleans()), draw(st.integers(0, 4)) == 0
    picked = draw(st.sampled_from([(), ("v_right", "k", "v"), ("v", "v_right", "k")]))

    def build(flow):
        a, b = flow.input("a", KV), flow.input("b", KV)
        pairs = a.join(a if itself else b, on="k", nulls_equal=nulls_equal)
        pairs = pairs.select(*picked) if picked else pairs
        made = {f"x{i}": AGGREGATES[name](c) for i, (name, c) in enumerate(calls)}
        flow.output("out", pairs.group_by(*by).agg(**made))
        if beside[0]:
            flow.output("left beside", a.join(b.filter("v > 1"), on="k"))
        if beside[1]:
            flow.output("right beside", a.filter("v > 1").join(b, on="k"))

    return build


@pytest.mark.slow
@examples(40, least=25)
@given(build=grouped(), coordinates=st.integers(1, 2), data=st.data())
def test_random_groups_give_the_same(build, coordinates, data):
    flow = new_flow(coordinates)
    build(flow)
    note(flow.explain(passes=[PASS]))
    found = {name: data.draw(updates(KV, coordinates, max_size=10, values=FEW), label=name) for name in "ab"}
    for passes in ([PASS], True):
        check_equivalent(flow, found, batchings=[all_at_once, time_by_time, shuffled(3)], passes=passes)


def test_pairs_of_which_only_the_number_is_asked_have_a_column_that_is_a_key():
    """The first column of the pairs is none: what keeps a side's keys alone does not have it."""
    flow = new_flow(1)
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("number", a.select("v", "k").join(b, on="k").group_by().agg(n=tm.count()))
    flow.output("left beside", a.select("v", "k").join(b.filter("v > 1"), on="k"))
    flow.output("right beside", a.filter("v > 1").join(b, on="k"))
    rows = [((1, 1), 0, 1), ((1, 2), 0, 1), ((2, 2), 1, 1), ((None, 3), 0, 2)]
    check_equivalent(flow, {"a": rows, "b": rows}, passes=True)


def both_sides(flow, a, b):
    grouped = a.join(b, on="k").group_by("k").agg(n=tm.count(), most=tm.max("x"), s=tm.sum("y"))
    flow.output("out", grouped, changes=False)


def with_joins_beside(flow, a, b):
    flow.output("out", a.join(b, on="k").group_by("k").agg(n=tm.count()), changes=False)
    flow.output("p", a.filter("x < 0").join(b, on="k"))
    flow.output("q", a.join(b.filter("y < 0"), on="k"))


def tables(flow, key):
    return (
        flow.input("a", {"k": "int64", "x": "int64"}, key=key and "k"),
        flow.input("b", {"k": "int64", "y": "int64"}, key=key and "k"),
    )


@pytest.mark.parametrize("build", [both_sides, with_joins_beside])
def test_a_key_there_n_times_on_both_sides_is_not_n_times_n_pairs(build):
    met = {}
    for n in (50, 100):
        for passes in (True, OTHERS):
            flow = tm.Dataflow()
            build(flow, *tables(flow, None))
            with flow.start(passes=passes) as run:
                for name in "ab":
                    run.insert(name, [(7, i) for i in range(n)])
                run.advance()
                ((_, pairs, *_),) = run.snapshot("out")
                assert pairs == n * n
                met[n, passes is True] = sum(o.records_in for o in run.metrics())
    assert met[100, True] <= 2 * met[50, True] < 1500
    assert met[100, False] > 10_000


@pytest.mark.parametrize("build", [both_sides, with_joins_beside])
def test_what_is_there_once_is_joined_as_written(build):
    flow = tm.Dataflow()
    build(flow, *tables(flow, "k"))
    flow.graph.freeze()
    made = optimised(flow.graph, [PASS], takes=[DeltaJoin])
    assert not any(n.why for n in made.nodes if isinstance(n, Join))


def test_an_engine_that_adds_no_rows_up_groups_as_written():
    flow = tm.Dataflow()
    both_sides(flow, *tables(flow, None))
    flow.graph.freeze()
    assert any(n.why for n in optimised(flow.graph, True, takes=[DeltaJoin]).nodes if isinstance(n, Join))
    assert not any(n.why for n in optimised(flow.graph, True).nodes if isinstance(n, Join))


def test_groups_of_null_keys_meet():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    pairs = a.join(b, on="k", nulls_equal=True)
    flow.output("out", pairs.group_by("k").agg(s=tm.sum("v"), m=tm.max("v_right")))
    rows = [((None, 1), (0,), 1), ((None, 2), (0,), 1), ((1, 1), (0,), 1), ((None, 2), (1,), -1)]
    check_equivalent(flow, {"a": rows, "b": rows}, passes=[PASS])
    with flow.start() as run:
        run.insert("a", [(None, 1), (None, 2)])
        run.insert("b", [(None, 3)])
        run.advance()
        assert list(run.snapshot("out")) == [(None, 3, 3)]


def test_all_pairs_have_no_keys_to_add_up():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", {"w": "int64"})
    flow.output("out", a.cross_join(b).agg(s=tm.sum("v"), m=tm.max("w")))
    flow.output("count", a.cross_join(b).group_by("k").agg(n=tm.count()))
    updates_of_b = [((3,), (0,), 1), ((3,), (0,), 1), ((4,), (1,), 1)]
    check_equivalent(flow, {"a": [((1, 2), (0,), 1), ((1, 3), (1,), 1)], "b": updates_of_b}, passes=True)
