"""What tells rows apart: what is claimed holds at every time, and joins by it give what they give without."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.running import KV, examples, new_flow, start

import tidemill as tm
from tidemill.collections.collection import Collection
from tidemill.dataflow.lattice import as_time, join_closure, less_equal
from tidemill.dataflow.nodes import Arrange, Output
from tidemill.dataflow.passes.pipeline import PASSES
from tidemill.dataflow.passes.row_keys import row_keys
from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time, updates

W = tm.Window.partition_by("k").order_by("v")
KEYED = {
    "distinct": lambda x: x.distinct(),
    "group": lambda x: x.group_by("k").agg(v=tm.sum("v")),
    "first": lambda x: x.group_by("k").top_k(1, order_by="v"),
    "numbered": lambda x: x.with_columns(n=tm.row_number().over(W)),
    "first by number": lambda x: x.with_columns(n=tm.row_number().over(W)).filter("n = 1").select("v", k="k"),
    "one": lambda x: x.agg(k=tm.min("k"), v=tm.count()),
    "of one key": lambda x: x.group_by("k").agg(v=tm.max("v")).filter("k = 1"),
    "joined": lambda x: x.distinct().join(x.group_by("k").agg(s=tm.count()), on="k"),
    "joined by parts": lambda x: x.distinct().join(x.distinct(), on="k", nulls_equal=True),
    "right of a join": lambda x: x.group_by("k").agg(s=tm.count()).join(x.distinct(), on="k"),
    "left joined": lambda x: x.distinct().join(x.group_by("k").agg(s=tm.count()), on={"v": "k"}, how="left"),
    "less": lambda x: x.distinct().except_all(x.filter("v > 1")),
    "both": lambda x: x.intersect(x.filter("v > 1")),
    "without": lambda x: x.distinct().antijoin(x.filter("v > 1"), on="k"),
    "limited": lambda x: x.distinct().join(x.distinct(), on="k", where="v < v_right"),
}
NO_KEYS = {
    "rows": lambda x: x,
    "less of all": lambda x: x.except_all(x.filter("v > 1")),
    "doubled": lambda x: x.distinct().threshold(lambda row, count: 2 * count),
    "pairs": lambda x: x.distinct().join(x, on="k"),
    "union": lambda x: x.distinct().concat(x.distinct()),
    "without a part": lambda x: x.distinct().select("k"),
    "padded": lambda x: x.distinct().join(x.distinct(), on="k", how="left"),
    "two": lambda x: x.group_by("k").top_k(2, order_by="v"),
    "ranked": lambda x: x.with_columns(n=tm.rank().over(W)).filter("n = 1"),
    "moved": lambda x: x.distinct().filter("v IS NOT NULL").temporal_filter(valid_from="v"),
}
JOINS = list(itertools.product(["left", "right", "full", "semi", "anti"], [None, "v < v_right"], [False, True]))


@pytest.mark.parametrize("name", KEYED)
def test_keys_are_known(name):
    flow = new_flow()
    assert row_keys(KEYED[name](flow.input("x", KV)).node) or name == "less"


@pytest.mark.parametrize("name", NO_KEYS)
def test_no_keys_are_claimed(name):
    flow = new_flow()
    assert not row_keys(NO_KEYS[name](flow.input("x", KV)).node)


def check_claims(flow, collections, found):
    """Check that at every time no two rows have the same values in what is said to tell them apart."""
    for i, collection in enumerate(collections):
        flow.output(f"node {i}", collection)
    with start(flow, "reference", passes=False) as run:
        for name, triples in found.items():
            run.update(name, triples)
        run.close_inputs()
        for i, collection in enumerate(collections):
            changes = list(run.changes(f"node {i}"))
            coordinates = len(flow.graph.coordinates)
            times = join_closure(as_time(u[1], coordinates) for u in changes)
            for key, at in itertools.product(row_keys(collection.node), times):
                there = Counter[tuple[object, ...]]()
                for row, time, diff in changes:
                    if less_equal(as_time(time, coordinates), at):
                        there[row] += diff
                rows = [row for row, count in there.items() if count]
                assert all(there[row] == 1 for row in rows), (collection.node, key, at)
                told = Counter(tuple(repr(row[i]) for i in key) for row in rows)
                assert max(told.values(), default=1) == 1, (collection.node, key, at)


@pytest.mark.parametrize("name", KEYED)
@examples(20)
@given(data=st.data())
def test_keys_hold_at_every_time(name, data):
    coordinates = data.draw(st.sampled_from([1, 2]))
    flow = new_flow(coordinates)
    made = KEYED[name](flow.input("x", KV))
    check_claims(flow, [made], {"x": data.draw(updates(KV, coordinates, non_negative=True))})


@pytest.mark.slow
@examples(60)
@given(case=st.integers(1, 2).flatmap(dataflows))
def test_keys_hold_in_random_dataflows(case):
    graph = case.flow.graph
    nodes = [n for n in graph.nodes if n.scope is graph.root and not isinstance(n, (Arrange, Output)) and row_keys(n)]
    note(case.flow.explain())
    graph.frozen = False  # for outputs of all of them
    check_claims(case.flow, [Collection(case.flow, n) for n in nodes], case.updates)


def joined(flow, kind, how, where, turned):
    a, b = (
        flow.input("a", KV),
        KEYED[kind](flow.input("b", KV)) if kind != "input" else flow.input("b", KV, unique=True),
    )
    a = a.distinct() if where else a
    left, right = (b.select("k", "v"), a) if turned else (a, b.select("k", "v"))
    return left.join(right, on="k", how=how, where=where)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "where", "turned"), JOINS)
@examples(8)
@given(data=st.data())
def test_joins_once_give_the_same(how, where, turned, data):
    coordinates = data.draw(st.sampled_from([1, 2]))
    flow = new_flow(coordinates)
    kind = data.draw(st.sampled_from(["group", "first", "first by number", "of one key", "distinct", "one"]))
    flow.output("out", joined(flow, kind, how, where, turned))
    found = {n: data.draw(updates(KV, coordinates, non_negative=n == "b"), label=n) for n in "ab"}
    batchings = [all_at_once, time_by_time, shuffled(1)]
    for passes in (["join_once"], True):
        check_equivalent(flow, found, batchings=batchings, passes=passes)


@pytest.mark.parametrize("how", ["left", "semi", "anti"])
def test_a_join_with_a_keyed_input_has_two_arrangements(how):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", {"k": "int64", "w": "int64"}, key="k")
    flow.output("out", a.join(b, on="k", how=how))
    kinds = {}
    for passes in (True, [p.__name__ for p in PASSES if p.__name__ != "join_once"]):
        with flow.start(passes=passes) as run:
            kinds[str(passes)] = Counter(n.kind for n in run.graph.nodes)
    once, twice = kinds.values()
    assert (once["Arrange"], once["Join"], once["Threshold"]) == (2, 1, 0)
    assert (twice["Join"], twice["Threshold"]) == ((2, 1) if how == "left" else (1, 1))
