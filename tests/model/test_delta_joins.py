"""Delta joins: all combinations of rows with equal keys, as a chain of joins has them, with nothing stored in between."""

import functools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, assert_same, examples, new_flow, start

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

NONE: Any = "a"


def triangles(edges):
    return tm.join_all(
        [edges.rename(k="a", v="b"), edges.rename(k="b", v="c"), edges.rename(k="a", v="c")], on=["a", "b", "c"]
    )


def by_two(edges):
    paths = edges.rename(k="a", v="b").join(edges.rename(k="b", v="c"), on="b")
    return paths.join(edges.rename(k="a", v="c"), on=["a", "c"])


def chain(collections):
    """What a delta join of collections in a row stands for, two of them at a time; each shares columns with the first."""

    def next_one(left, right):
        return left.join(right, on=[n for n in right.schema.names if n in left.schema])

    return functools.reduce(next_one, collections)


SHAPES = {
    "path": lambda a, b, c: [a.rename(k="a", v="b"), b.rename(k="b", v="c"), c.rename(k="c", v="d")],
    "star": lambda a, b, c: [a.rename(k="a", v="b"), b.rename(k="a", v="c"), c.rename(k="a", v="d")],
    "triangle": lambda a, b, c: [a.rename(k="a", v="b"), b.rename(k="b", v="c"), c.rename(k="c", v="a").select("a", "c")],
    "of the same": lambda a, b, c: [
        a.rename(k="a", v="b"), a.rename(k="b", v="c"), b.rename(k="c", v="d"), a.rename(k="d", v="e"),
    ],
    "with a whole row": lambda a, b, c: [a.rename(k="a", v="b"), b.rename(k="a", v="b"), c.rename(k="b", v="c")],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.law("A delta join is the chain of joins of two.")
@pytest.mark.parametrize("coordinates", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@examples(15)
@given(data=st.data())
def test_it_is_a_chain_of_joins(engine, shape, coordinates, data):
    def build(a, b, c):
        collections = SHAPES[shape](a, b, c)
        both = [tm.join_all(collections, on=COLUMNS_OF[shape]), chain(collections)]
        return [found.select(*both[1].schema.names) for found in both]

    found = {n: data.draw(updates(KV, coordinates, max_size=8), label=n) for n in "abc"}
    assert_same(engine, build, found, coordinates=coordinates)


COLUMNS_OF = {
    "path": ["b", "c"], "star": "a", "triangle": ["a", "b", "c"], "of the same": ["b", "c", "d"],
    "with a whole row": ["a", "b"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@examples(20)
@given(data=st.data())
def test_engines_agree(engines, shape, coordinates, data):
    """In all batchings, before and after passes; one collection is an output of its own, so that it may be ahead."""
    flow = new_flow(coordinates)
    a, b, c = (flow.input(n, KV) for n in "abc")
    found = tm.join_all(SHAPES[shape](a, b, c), on=COLUMNS_OF[shape], nulls_equal=data.draw(st.booleans()))
    flow.output("all", found)
    flow.output("one", found.select("b"))
    flow.output("counted", found.group_by("a" if shape != "path" else "d").agg(n=tm.count()))
    for name, collection in (("a alone", a), ("b alone", b.group_by("k").agg(n=tm.count()))):
        flow.output(name, collection)
    given_ = {n: data.draw(updates(KV, coordinates, max_size=8, latest=4), label=n) for n in "abc"}
    batchings = [all_at_once, time_by_time, *(shuffled(data.draw(st.integers(0, 999)) + i) for i in range(3))]
    check_equivalent(flow, given_, engines=engines, batchings=batchings)
    check_equivalent(flow, given_, engines=engines, batchings=batchings[1:4], passes=True)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
@examples(20)
@given(data=st.data())
def test_in_loops(engines, coordinates, data):
    """Of what enters a loop and of what changes in it; nested, and with an input ahead of the others."""
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)

    def hop(here):
        found = tm.join_all([here.rename(k="x", v="y"), a.rename(k="y", v="z"), b.rename(k="z", v="w")], on=["y", "z"])
        return found.select(k="x", v="w").concat(a).distinct()

    flow.output("loop", a.distinct().iterate(hop))
    flow.output("nested", a.distinct().iterate(lambda here: here.iterate(hop).filter("k < 1").concat(b).distinct()))
    flow.output("a", a)
    flow.output("limited", a.iterate(lambda here: triangles(here.concat(b)).select(k="a", v="c"), return_at=3))
    given_ = {n: data.draw(updates(KV, coordinates, max_size=7, non_negative=True), label=n) for n in "ab"}
    batchings = [all_at_once, time_by_time, *(shuffled(data.draw(st.integers(0, 999)) + i) for i in range(3))]
    check_equivalent(flow, given_, engines=engines, batchings=batchings)
    check_equivalent(flow, given_, engines=engines, batchings=batchings[2:3], passes=True)


def test_a_change_of_all_at_once_meets_once(engine):
    flow = new_flow()
    edges = flow.input("edges", KV)
    flow.output("triangles", triangles(edges))
    with start(flow, engine) as run:
        run.insert("edges", [(1, 2), (2, 3), (1, 3), (5, 5)])
        run.advance()
        assert list(run.changes("triangles")) == [((1, 2, 3), 0, 1), ((5, 5, 5), 0, 1)]
        run.update("edges", [((5, 5), 1, 1), ((2, 3), 1, -1)])
        run.advance()
        assert list(run.changes("triangles")) == [((1, 2, 3), 1, -1), ((5, 5, 5), 1, 7)]


@pytest.mark.parametrize("order", ["abc", "bca", "cab", "cba"])
def test_what_an_input_ahead_of_the_others_brought_meets_once(engine, order):
    """It is in its arrangement, for it is an output of its own, and has not come to the join yet when others change."""
    flow = new_flow()
    inputs = {n: flow.input(n, KV) for n in order}
    for name, rows in inputs.items():
        flow.output(name, rows.group_by("k").agg(n=tm.count()))
    flow.output("all", tm.join_all([rows.rename(v=name) for name, rows in inputs.items()], on="k"))
    with start(flow, engine) as run:
        run.update("a", [((0, 1), 0, 1), ((0, 2), 3, 1)])
        run.advance_to(4, input="a")
        run.update("b", [((0, 1), 1, 1)])
        run.advance_to(3, input="b")
        run.update("c", [((0, 1), 0, 1), ((0, 2), 2, 1)])
        run.advance_to(2, input="c")
        run.advance_to(3, input="c")
        run.update("b", [((0, 5), 3, 2)])
        run.advance_to(5)
        found = {(dict(zip(order, row[1:], strict=True))["a"], row[order.index("b") + 1], row[order.index("c") + 1], t): n
                 for row, t, n in run.changes("all")}  # fmt: skip
        assert found == {
            (1, 1, 1, 1): 1, (1, 1, 2, 2): 1, (2, 1, 1, 3): 1, (2, 1, 2, 3): 1,
            (1, 5, 1, 3): 2, (1, 5, 2, 3): 2, (2, 5, 1, 3): 2, (2, 5, 2, 3): 2,
        }  # fmt: skip


@examples(6)
@given(seed=st.integers(0, 1000))
def test_many_rows_are_looked_up_as_few_are(seed):
    """Beyond what is looked up key by key, in one load and in changes of it."""
    pick = random.Random(seed)
    edges = [(pick.randrange(300), pick.randrange(300)) for _ in range(6000)]
    flow = new_flow()
    e = flow.input("edges", KV)
    flow.output("found", triangles(e).agg(n=tm.count(), s=tm.sum("a * 7 + b * 11 + c")))
    flow.output("wanted", by_two(e).agg(n=tm.count(), s=tm.sum("a * 7 + b * 11 + c")))
    with flow.start() as run:
        run.insert("edges", edges)
        for gone in (0, 10, 5000):
            run.delete("edges", edges[:gone])
            edges = edges[gone:]
            run.advance()
            assert list(run.snapshot("found")) == list(run.snapshot("wanted"))
            assert run.snapshot("found").to_arrow()["n"][0].as_py() > 0 or gone == 5000


def test_renamed_collections_share_arrangements_and_nothing_in_between_is_stored():
    flow = new_flow()
    edges = flow.input("edges", KV)
    flow.output("n", triangles(edges).agg(n=tm.count()))
    with flow.start() as run:
        run.insert("edges", [(i, j) for i in range(40) for j in range(40)])
        run.advance()
        assert list(run.snapshot("n")) == [(64_000,)]
        kept = [o.state_rows for o in run.metrics() if o.state_rows > 9]
        assert kept == [1600, 1600, 1600]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a, b, c: tm.join_all([a], on="k"), "expected a list of two or more collections"),
        (lambda a, b, c: tm.join_all([NONE, b], on="k"), "expected a list of two or more collections"),
        (
            lambda a, b, c: tm.join_all([a, b], on=[]),
            r"on=\[\]: expected a column name, or a list of names and of tuples",
        ),
        (lambda a, b, c: tm.join_all([a, b], on="lost"), "on='lost': no collection has a column 'lost'"),
        (
            lambda a, b, c: tm.join_all([a, c], on="k"),
            "on='k' is in one collection alone: give all names .* as a tuple",
        ),
        (
            lambda a, b, c: tm.join_all([a, b.drop("v"), c], on="k"),
            r"nothing in on= connects collection 3 with collection 1",
        ),
        (
            lambda a, b, c: tm.join_all([a, b, c], on=["k", ("v", "x", "y")]),
            r"on=\('v', 'x', 'y'\) names two columns of",
        ),
        (lambda a, b, c: tm.join_all([a, b, c], on=["k", ("k", "x")]), r"on=\('k', 'x'\) names a column again"),
        (lambda a, b, c: tm.join_all([a, b], on="k"), "several collections have a column 'v' that is not in on="),
        (lambda a, b, c: tm.join_all([a.select(k="'s'"), b], on="k"), "k: string .*, k: int64 cannot be equal"),
    ],
)
def test_what_is_no_delta_join(build, message):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    with pytest.raises(tm.TidemillError, match=message):
        build(a, b, flow.input("c", {"x": "int64", "y": "int64"}))
