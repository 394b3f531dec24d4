"""Loops are their bodies unrolled, their results are fixed points, and the ways to write them agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, assert_same, at, examples, grid, new_flow, start, traces

import tidemill as tm
from tidemill.collections.recursion import letrec
from tidemill.testing import updates

DIMENSIONS = pytest.mark.parametrize("coordinates", [1, 2])
NODES = {"k": [0, 1, 2, 3], "v": [0, 1, 2, 3]}


def edges(data, coordinates, names="ab", **options):
    options = {"non_negative": True, **options}
    return {n: data.draw(updates(KV, coordinates, values=NODES, max_size=8, **options), label=n) for n in names}


def step(here, b):
    return here.join(b, on={"v": "k"}).select("k", v="v_right")


BODIES = {
    "join": lambda here, a, b: step(here, b),
    "distinct": lambda here, a, b: step(here, b).concat(a).distinct(),
    "negated": lambda here, a, b: a.concat(step(here, b).negate()),
    "least": lambda here, a, b: step(here, b).concat(a).group_by("k").agg(v=tm.count()),
    "swap": lambda here, a, b: here.select(k="v", v="k"),
    "antijoin": lambda here, a, b: a.antijoin(step(here, b), on="k"),
}


@pytest.mark.law("A loop limited to k rounds is its body unrolled k times.")
@DIMENSIONS
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("rounds", [1, 2, 3])
@examples(6)
@given(data=st.data())
def test_a_limited_loop_is_its_body_unrolled(engine, coordinates, body, rounds, data):
    def build(a, b):
        unrolled = a
        for _ in range(rounds):
            unrolled = BODIES[body](unrolled, a, b)
        return [a.iterate(lambda here: BODIES[body](here, a, b), return_at=rounds), unrolled]

    assert_same(engine, build, edges(data, coordinates, non_negative=False), coordinates=coordinates)


@pytest.mark.law(
    "The bindings of a letrec are updated in sequence, each seeing the most recent contents of the others."
)
@DIMENSIONS
@pytest.mark.parametrize("rounds", [1, 2, 3])
@examples(10)
@given(data=st.data())
def test_a_limited_letrec_updates_its_bindings_in_sequence(engine, coordinates, rounds, data):
    """An earlier binding is this iteration's, itself and a later one the last one's, ``previous`` always that."""

    def first(a, b, p, q):
        return a.concat(step(p, b)).concat(q.select(k="v", v="k")).distinct()

    def second(p, last_p, q):
        return p.concat(last_p.negate()).concat(q)

    def build(a, b):
        with letrec(a.builder, return_at=rounds) as block:
            p, q = block.declare("p", KV), block.declare("q", KV)
            block.define("p", first(a, b, p, q))
            block.define("q", second(p, block.previous("p"), q))
        none = a.filter("k <> k")
        now_p, now_q = none, none
        for _ in range(rounds):
            last_p = now_p
            now_p = first(a, b, now_p, now_q)
            now_q = second(now_p, last_p, now_q)
        return [block["p"].concat(block["q"].select("k", v="v + 10")), now_p.concat(now_q.select("k", v="v + 10"))]

    assert_same(engine, build, edges(data, coordinates), coordinates=coordinates)


@pytest.mark.law("The result of a loop that settles is a fixed point of its body.")
@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_the_result_of_a_loop_is_a_fixed_point(engine, coordinates, data):
    def build(a, b):
        def body(here):
            return step(here, b).concat(a).distinct()

        found = a.distinct().iterate(body)
        return [found, body(found), found.iterate(body)]

    assert_same(engine, build, edges(data, coordinates), coordinates=coordinates)


@pytest.mark.law("A letrec with one binding is iterate from empty.")
@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_letrec_with_one_binding_is_iterate_from_empty(engine, coordinates, data):
    def build(a, b):
        with letrec(a.builder) as block:
            p = block.declare("p", KV)
            block.define("p", step(p, b).concat(a).distinct())
        empty = a.filter("k <> k")
        return [block["p"], empty.iterate(lambda here: step(here, b).concat(a).distinct())]

    assert_same(engine, build, edges(data, coordinates), coordinates=coordinates)


def closure(a, b):
    """What can be reached from the pairs in ``a`` by steps of ``b``."""
    found = set(a)
    while True:
        more = {(k, w) for k, v in found for u, w in b if u == v} - found
        if not more:
            return dict.fromkeys(found, 1)
        found |= more


@DIMENSIONS
@examples(30)
@given(data=st.data())
def test_reachability_at_every_time(engine, coordinates, data):
    """Also where an edge is taken back on which a cycle lived that now supports only itself."""
    found = edges(data, coordinates)

    def build(a, b):
        return a.distinct().iterate(lambda here: step(here, b).concat(a).distinct())

    (out,) = traces(engine, build, found, coordinates=coordinates)
    for t in grid(*found.values()):
        assert at(out, t) == closure(at(found["a"], t), at(found["b"], t))


def strongly_connected(b):
    """Pairs of ``b`` of which each end reaches the other, by loops inside a loop: trim until nothing changes."""

    def trim(pairs):
        labels = pairs.select(k="k", v="k").concat(pairs.select(k="v", v="v")).distinct()

        def spread(here):
            onward = here.join(pairs, on="k").select(k="v_right", v="v")
            return onward.concat(labels).group_by("k").agg(v=tm.min("v"))

        reached = labels.iterate(spread)
        kept = pairs.join(reached.select(k="k", kl="v"), on="k").join(reached.select(v="k", vl="v"), on="v")
        return kept.filter("kl = vl").select(k="v", v="k")  # turned round, for the second trim to look the other way

    return b.distinct().iterate(lambda here: trim(trim(here)))


@DIMENSIONS
@examples(15)
@given(data=st.data())
def test_strongly_connected_components_by_nested_loops(engine, coordinates, data):
    found = edges(data, coordinates, "b")
    (out,) = traces(engine, strongly_connected, found, coordinates=coordinates)
    for t in grid(*found.values()):
        pairs = at(found["b"], t)
        reach = closure(pairs, pairs)
        assert at(out, t) == {(k, v): 1 for k, v in pairs if k == v or (v, k) in reach}


@DIMENSIONS
@examples(15)
@given(data=st.data())
def test_mutual_recursion(engine, coordinates, data):
    """Paths of odd and of even length, as the contract shows them."""
    found = edges(data, coordinates, "b")

    def build(b):
        with letrec(b.builder, error_at=1000) as rec:
            odd, even = rec.declare("odd", KV), rec.declare("even", KV)
            rec.define("odd", b.concat(b.join(even, on={"v": "k"}).select("k", v="v_right")).distinct())
            rec.define("even", b.join(odd, on={"v": "k"}).select("k", v="v_right").distinct())
        return rec["odd"], rec["even"]

    odd, even = traces(engine, build, found, coordinates=coordinates)
    for t in grid(*found.values()):
        now = at(found["b"], t)
        odds, evens = set(now), set()
        for _ in range(20):
            evens |= {(k, w) for k, v in now for u, w in odds if u == v}
            odds |= {(k, w) for k, v in now for u, w in evens if u == v}
        assert (set(at(odd, t)), set(at(even, t))) == (odds, evens)


@pytest.mark.parametrize(("limit", "found"), [(1, {1, 2}), (2, {1, 2, 3}), (5, {*range(1, 7)}), (9, {*range(1, 8)})])
def test_return_at_gives_the_state_after_so_many_iterations(engine, limit, found):
    def count_up(i):
        return i.concat(i.filter("v < 7").select(v="v + 1")).distinct()

    def build(a):
        return a.select("v").iterate(count_up, return_at=limit)

    (out,) = traces(engine, build, {"a": [((0, 1), 0, 1)]})
    assert {v for (v,), _, _ in out} == found


def test_blocks_follow_one_another_and_nest(engine):
    flow = new_flow()
    b = flow.input("b", KV)
    with flow.letrec("outer") as outer:
        p = outer.declare("p", KV)
        with flow.letrec("inner") as inner:
            q = inner.declare("q", KV)
            inner.define("q", p.concat(step(q, b)).concat(b).distinct())
        outer.define("p", inner["q"])
    with flow.letrec("after") as after:
        r = after.declare("r", KV)
        after.define("r", outer["p"].concat(r).distinct())
    flow.output("out", after["r"])
    with start(flow, engine) as run:
        run.insert("b", [(1, 2), (2, 3), (3, 1)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(k, v) for k in (1, 2, 3) for v in (1, 2, 3)]
        run.delete("b", [(3, 1)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(1, 2), (1, 3), (2, 3)]


def test_no_limit_may_be_said_beside_return_at(engine):
    """``error_at=None`` means that there is none, so it excludes nothing."""

    def build(a):
        with letrec(a.builder, error_at=None, return_at=3) as block:
            block.declare("n", KV)
            block.define("n", a.concat(block["n"]).distinct())
        return [a.iterate(lambda c: c.select("k", v="v + 1"), error_at=None, return_at=3), block["n"]]

    found = traces(engine, build, {"a": [((1, 1), 0, 1)]})
    assert found == [[((1, 4), 0, 1)], [((1, 1), 0, 1)]]
