"""Blocks of mutually recursive bindings: in sequence or mirrored, nested, one after another, limited; keys and NULLs."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, at, examples, grid, new_flow, start, traces

import tidemill as tm
from tidemill.collections.recursion import letrec
from tidemill.dataflow.passes.pipeline import PASSES
from tidemill.errors import UnknownColumnError, UserFunctionError
from tidemill.testing import all_at_once, check_equivalent, time_by_time, updates

DIMENSIONS = pytest.mark.parametrize("coordinates", [1, 2])
PASS_NAMES = [p.__name__ for p in PASSES]
PAIRS = {"k": [0, 1, 2, 3], "v": [0, 1, 2, 3]}
N = {"n": "int64"}


def pairs(data, coordinates=1, size=16):
    return data.draw(updates(KV, coordinates, non_negative=True, values=PAIRS, max_size=size, latest=2))


def hop(a, b):
    """Pairs of the first, each followed by one of the second."""
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


# -- sequential against mirrored ----------------------------------------------------------------------------------------


def copies(edges, *, mirrored):
    """A is what edges reach, B a copy of A, C is A except all B; ``seen`` remembers what C ever held.

    Mirrored, all bindings see of each other what was there after the last iteration: they read mirrors, which are
    defined at the end of the block.
    """
    with letrec(edges.builder, "copies", error_at=50) as rec:
        a, b, c, seen = (rec.declare(name, KV) for name in ("A", "B", "C", "seen"))
        mirror = {name: rec.declare(f"last {name}", KV) for name in ("A", "B", "C")}
        read = mirror if mirrored else {"A": a, "B": b, "C": c}
        rec.define("A", edges.concat(hop(a, edges)).distinct())
        rec.define("B", read["A"])
        rec.define("C", read["A"].except_all(read["B"]))
        rec.define("seen", seen.concat(read["C"]).distinct())
        for name in mirror:
            rec.define(f"last {name}", rec[name])
    return rec["A"], rec["C"], rec["seen"]


@pytest.mark.slow
@DIMENSIONS
@examples(40, least=10)
@given(data=st.data())
def test_a_copy_is_what_it_copies_in_sequence_and_lags_behind_with_mirrors(engine, coordinates, data):
    """``A, B as A, C as A EXCEPT ALL B``: C is empty in sequence; with mirrors it holds what A has just got."""
    found = {"edges": pairs(data, coordinates)}
    all_of_a, c, seen = traces(engine, lambda edges: copies(edges, mirrored=False), found, coordinates=coordinates)
    assert (c, seen) == ([], [])
    lagging = traces(engine, lambda edges: copies(edges, mirrored=True), found, coordinates=coordinates)
    assert lagging[0] == lagging[2] == all_of_a
    assert lagging[1] == []  # for in the end A changes no more


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6])
def test_with_mirrors_it_holds_what_came_in_the_iteration_before(engine, rounds):
    """A counts up by one an iteration; B is A of the last one, so C, which sees both a step later, is the newest."""

    def build(edges):
        one = edges.select(n="k")
        with letrec(edges.builder, "copies", return_at=rounds) as rec:
            a, _, _, last_a, last_b = (rec.declare(name, N) for name in ("A", "B", "C", "last A", "last B"))
            rec.define("A", one.concat(a.select(n="n + 1")).distinct())
            rec.define("B", last_a)
            rec.define("C", last_a.except_all(last_b))
            rec.define("last A", rec["A"])
            rec.define("last B", rec["B"])
        return rec["A"], rec["B"], rec["C"]

    a, b, c = ({n for (n,), _, _ in found} for found in traces(engine, build, {"edges": [((1, 0), 0, 1)]}))
    assert a == set(range(1, rounds + 1))
    assert b == set(range(1, rounds))
    assert c == ({rounds - 1} if rounds > 1 else set())  # what A had after the last iteration, and B had not


@DIMENSIONS
@examples(20, least=8)
@given(data=st.data())
def test_previous_is_a_mirror(engine, coordinates, data):
    def build(edges):
        with letrec(edges.builder, "mirrors", return_at=4) as rec:
            path, by_mirror, by_previous, mirror = (
                rec.declare(name, KV) for name in ("path", "by mirror", "by previous", "mirror")
            )
            rec.define("path", edges.concat(hop(path, edges)).distinct())
            rec.define("by mirror", hop(mirror, path).distinct())
            rec.define("by previous", hop(rec.previous("path"), path).distinct())
            rec.define("mirror", path)
            assert by_mirror.schema == by_previous.schema
        return rec["by mirror"], rec["by previous"]

    one, other = traces(engine, build, {"edges": pairs(data, coordinates)}, coordinates=coordinates)
    assert one == other


# -- odd and even paths, with the rule that is not linear ---------------------------------------------------------------


def odd_and_even(edges, *, linear):
    with letrec(edges.builder, "paths", error_at=50) as rec:
        odd, even = rec.declare("odd", KV), rec.declare("even", KV)
        rec.define("odd", edges.concat(hop(edges, even)).distinct())
        twice = [] if linear else [hop(odd, odd)]
        rec.define("even", hop(edges, odd).concat(*twice).distinct())
    return rec["odd"], rec["even"]


@pytest.mark.slow
@DIMENSIONS
@examples(40, least=10)
@given(data=st.data())
def test_odd_and_even_paths_by_the_rule_that_is_not_linear(engine, coordinates, data):
    """``odd . odd`` adds nothing to the even paths but makes them known earlier; both are the walks' ends by parity."""
    found = {"edges": pairs(data, coordinates)}
    shorter = traces(engine, lambda edges: odd_and_even(edges, linear=False), found, coordinates=coordinates)
    assert shorter == traces(engine, lambda edges: odd_and_even(edges, linear=True), found, coordinates=coordinates)
    for t in grid(found["edges"]):
        now = set(at(found["edges"], t))
        by_parity: list[set[Any]] = [set(), set(now)]
        walks = now
        for length in range(2, 40):
            walks = {(k, w) for k, v in walks for u, w in now if u == v}
            by_parity[length % 2] |= walks
        assert [set(at(shorter[1], t)), set(at(shorter[0], t))] == by_parity, t


def test_the_rule_that_is_not_linear_takes_fewer_iterations():
    path = [((n, n + 1), 0, 1) for n in range(40)]
    iterations = {}
    for linear in (True, False):
        seen: set[int] = set()

        def build(edges, linear=linear, seen=seen):
            with letrec(edges.builder, "paths") as rec:
                odd, even = rec.declare("odd", KV), rec.declare("even", KV)
                twice = [] if linear else [hop(odd, odd), hop(even, even)]
                rec.define("odd", edges.concat(hop(edges, even)).distinct())
                step = hop(edges, odd).concat(*(twice if not linear else [])).distinct()
                rec.define("even", step.inspect(lambda _row, time, _diff: seen.add(time[-1])))
            return rec["even"]

        traces("embedded", build, {"edges": path})
        iterations[linear] = max(seen)
    assert iterations[False] < iterations[True] / 2


# -- known values (facts that other systems' tests state) ---------------------------------------------------------------


def contents(engine, build):
    """What a dataflow of constants alone holds, by output."""
    flow = new_flow()
    for name, collection in build(flow).items():
        flow.output(name, collection)
    with start(flow, engine) as run:
        return {name: sorted(run.snapshot(name)) for name in run.graph.outputs}


def numbers(flow, *values):
    return flow.constant(N, [(v,) for v in values])


@pytest.mark.parametrize("limited", [False, True])
def test_numbers_to_a_hundred(engine, limited):
    def build(flow):
        with flow.letrec(**({"return_at": 100} if limited else {})) as rec:
            t = rec.declare("t", N)
            further = t if limited else t.filter("n < 100")
            rec.define("t", numbers(flow, 1).concat(further.select(n="n + 1")))
        return {"sum": rec["t"].agg(total=tm.sum("n"))}

    assert contents(engine, build)["sum"] == [(5050,)]


def test_two_bindings_of_a_limited_block(engine):
    def build(flow):
        with flow.letrec(return_at=100) as rec:
            for name, first, step in ("up", 1, 1), ("down", -1, -1):
                here = rec.declare(name, N)
                rec.define(name, numbers(flow, first).concat(here.select(n=tm.col("n") + step)).distinct())
        return {name: rec[name].agg(total=tm.sum("n")) for name in ("up", "down")}

    found = contents(engine, build)
    assert found == {"up": [(5050,)], "down": [(-5050,)]}


def test_evens_and_odds_that_make_each_other(engine):
    def build(flow):
        with flow.letrec() as rec:
            evens, odds = rec.declare("evens", N), rec.declare("odds", N)
            rec.define("evens", numbers(flow, 1).concat(odds.filter("n < 100").select(n="n + 1")))
            rec.define("odds", numbers(flow, 0).concat(evens.select(n="n + 1")))
        return {"sum": rec["evens"].concat(rec["odds"]).agg(total=tm.sum("n"))}

    assert contents(engine, build)["sum"] == [(10100,)]


def test_sums_of_any_two_are_all_numbers(engine):
    """Not only powers of two, as where the step may see just the newest rows."""

    def build(flow):
        with flow.letrec() as rec:
            n = rec.declare("numbers", N)
            small = n.filter("n <= 16")
            sums = small.cross_join(small).select(n="n + n_right")
            rec.define("numbers", numbers(flow, 1).concat(sums).distinct())
        return {"numbers": rec["numbers"]}

    assert contents(engine, build)["numbers"] == [(n,) for n in range(1, 33)]


def test_counts_that_a_binding_takes_from_a_later_one(engine):
    def build(flow):
        with flow.letrec() as rec:
            foo, bar = rec.declare("foo", KV), rec.declare("bar", {"k": "int64"})
            rec.define("foo", flow.constant(KV, [(1, 2)]).concat(bar.filter("k = 1").distinct().select("k", v="7")))
            rec.define("bar", foo.select("k"))
        return {"bar": rec["bar"]}

    assert contents(engine, build)["bar"] == [(1,), (1,)]


HUNDREDS = [(h + n,) for h in range(0, 600, 100) for n in (1, 2, 3)]


@pytest.mark.parametrize("limited", [False, True])
def test_limits_of_a_block_in_a_block_are_each_its_own(engine, limited):
    """1, 2, 3, 101, 102, 103, ..., 503: three iterations inside six; the same by conditions."""

    def build(flow):
        def inner_step(n):
            return (n if limited else n.filter("n % 100 < 3")).select(n="n + 1")

        def outer_step(n):
            firsts = n.filter("n % 100 = 1")
            return (firsts if limited else firsts.filter("n < 500")).select(n="n + 100")

        with flow.letrec("outer", **({"return_at": 6} if limited else {})) as outer:
            hundreds = outer.declare("hundreds", N)
            with flow.letrec("inner", **({"return_at": 3} if limited else {})) as inner:
                n = inner.declare("n", N)
                base = numbers(flow, 1).concat(outer_step(hundreds))
                inner.define("n", base.concat(inner_step(n)).distinct())
            outer.define("hundreds", inner["n"])
        return {"hundreds": outer["hundreds"]}

    assert contents(engine, build)["hundreds"] == HUNDREDS


def test_a_limited_block_that_goes_on_with_its_input(engine):
    """With ``return_at=2``, {1} gives {1, 2}; when it is changed to 2, {2, 3}."""
    flow = new_flow()
    first = flow.input("t", N)
    with flow.letrec(return_at=2) as rec:
        n = rec.declare("n", N)
        rec.define("n", first.concat(n.select(n="n + 1")).distinct())
    flow.output("n", rec["n"])
    with start(flow, engine) as run:
        run.insert("t", [(1,)])
        run.advance()
        assert sorted(run.snapshot("n")) == [(1,), (2,)]
        run.delete("t", [(1,)])
        run.insert("t", [(2,)])
        run.advance()
        assert sorted(run.snapshot("n")) == [(2,), (3,)]


def test_strongly_connected_components_of_known_size(engine):
    def build(flow):
        edges = [(x, x + 1) for x in range(10)] + [(4, 2), (8, 6)]
        found = tm.graphs.scc(flow.constant({"a": "int64", "b": "int64"}, edges))
        return {"sizes": found.group_by("component").agg(size=tm.count())}

    assert contents(engine, build)["sizes"] == [(0, 1), (1, 1), (2, 3), (5, 1), (6, 3), (9, 1), (10, 1)]


# -- blocks in sequence and nested, with passes on and off --------------------------------------------------------------


def in_sequence(edges):
    """A block, and one that begins with what the first came to."""
    odd, even = odd_and_even(edges, linear=False)
    with letrec(edges.builder, "after", error_at=50) as rec:
        both = rec.declare("both", KV)
        rec.define("both", odd.concat(even, hop(both, both)).distinct())
    return rec["both"]


def nested(edges):
    """In each iteration of the outer block the inner one runs to its end, on edges that the outer takes away."""
    with letrec(edges.builder, "outer", error_at=50) as outer:
        left = outer.declare("left", KV)
        gone = outer.declare("gone", KV)
        with letrec(edges.builder, "inner", error_at=50) as inner:
            path, back = inner.declare("path", KV), inner.declare("back", KV)
            inner.define("path", left.concat(hop(path, left)).distinct())
            inner.define("back", path.select(k="v", v="k").concat(back).distinct())
        # edges into nodes from which nothing leads on
        dead = left.antijoin(inner["back"], on={"v": "v"})
        outer.define("gone", gone.concat(dead).distinct())
        outer.define("left", edges.distinct().except_all(gone))
    return outer["left"]


def with_groups(edges):
    """Aggregates, an outer join, a top-k and a negation among the bindings, limited, for it need not settle."""
    with letrec(edges.builder, "groups", return_at=4) as rec:
        best, open_pairs = rec.declare("best", KV), rec.declare("open", KV)
        onward = edges.concat(hop(open_pairs, edges))
        rec.define("best", onward.group_by("k").top_k(1, order_by=["v desc"]))
        total = best.group_by("k").agg(v=tm.max("v"))
        joined = edges.join(total, on="k", how="left").select("k", v="coalesce(v_right, v)")
        rec.define("open", joined.concat(best.filter("v > 2").negate()).distinct())
    return rec["open"].concat(rec["best"])


BLOCKS: dict[str, Callable[..., Any]] = {
    "sequential copies": lambda e: copies(e, mirrored=False)[0],
    "mirrored copies": lambda e: copies(e, mirrored=True)[2],
    "odd and even": lambda e: odd_and_even(e, linear=False)[1],
    "in sequence": in_sequence,
    "nested": nested,
    "groups": with_groups,
}


@DIMENSIONS
@pytest.mark.parametrize("block", BLOCKS)
@examples(40, least=10)
@given(data=st.data())
def test_blocks_are_the_same_on_every_engine_with_passes_on_and_off(block, coordinates, data):
    flow = new_flow(coordinates)
    flow.output("out", BLOCKS[block](flow.input("edges", KV)))
    found = {"edges": pairs(data, coordinates, 12)}
    passes = data.draw(st.sampled_from([True, False, *([name] for name in PASS_NAMES)]))
    check_equivalent(flow, found, batchings=[all_at_once, time_by_time], passes=passes)


@pytest.mark.slow
@DIMENSIONS
@examples(40, least=10)
@given(data=st.data())
def test_a_block_after_a_block_begins_with_its_fixed_point(engine, coordinates, data):
    found = {"edges": pairs(data, coordinates)}
    (out,) = traces(engine, in_sequence, found, coordinates=coordinates)
    for t in grid(found["edges"]):
        reached = set(at(found["edges"], t))
        for _ in range(4):
            reached |= {(k, w) for k, v in reached for u, w in reached if u == v}
        assert set(at(out, t)) == reached


@DIMENSIONS
@examples(40, least=10)
@given(data=st.data())
def test_a_block_in_a_block_runs_to_its_end_in_each_iteration(engine, coordinates, data):
    found = {"edges": pairs(data, coordinates)}
    (out,) = traces(engine, nested, found, coordinates=coordinates)
    for t in grid(found["edges"]):
        edges = set(at(found["edges"], t))
        left: set[Any] = set()
        gone: set[Any] = set()
        while True:
            sources = {k for k, _ in left}  # of paths, as of edges
            more = gone | {(k, v) for k, v in left if v not in sources}
            if (edges - more, more) == (left, gone):
                break
            left, gone = edges - more, more
        assert set(at(out, t)) == left


# -- what is declared ---------------------------------------------------------------------------------------------------


def keyed(flow, key="k"):
    edges = flow.input("edges", KV)
    with flow.letrec("paths", error_at=20) as rec:
        nearest = rec.declare("nearest", KV, key=key)
        rec.define("nearest", edges.concat(hop(nearest, edges)).distinct())
    flow.output("nearest", rec["nearest"])
    return flow


def test_a_binding_with_a_key_has_a_row_for_each_in_every_iteration(engine):
    """The second row of a key is found in the iteration in which it comes; when it goes the step can be taken."""
    with start(keyed(new_flow()), engine) as run:
        run.insert("edges", [(1, 1), (3, 3)])
        run.advance()
        assert sorted(run.snapshot("nearest")) == [(1, 1), (3, 3)]
        run.insert("edges", [(0, 1), (2, 0)])  # from 2 on there are paths to 0, and then to 1
        with pytest.raises(UserFunctionError, match=r"binding 'nearest' of 'paths' has 2 rows of key \(2,\), not one"):
            run.advance()
        run.delete("edges", [(2, 0)])
        run.advance()
        assert sorted(run.snapshot("nearest")) == [(0, 1), (1, 1), (3, 3)]


def test_a_key_may_be_all_columns_and_has_to_be_of_them(engine):
    flow = keyed(new_flow(), ["k", "v"])
    with start(flow, engine) as run:
        run.insert("edges", [(0, 1), (1, 0)])
        run.advance()
        assert sorted(run.snapshot("nearest")) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    with pytest.raises(UnknownColumnError, match="no column 'w'"):
        keyed(new_flow(), "w")


def test_columns_declared_not_null_are_not_null_outside(engine):
    flow = new_flow()
    edges = flow.input("edges", {"k": "int64 not null", "v": "int64 not null"})
    with flow.letrec() as rec:
        path = rec.declare("path", edges.schema)
        assert not any(field.nullable for field in path.schema)
        rec.define("path", edges.concat(hop(path, edges)).distinct())
    assert rec["path"].schema == edges.schema
    flow.output("path", rec["path"])
    with start(flow, engine) as run:
        run.insert("edges", [(0, 1), (1, 2)])
        run.advance()
        assert sorted(run.snapshot("path")) == [(0, 1), (0, 2), (1, 2)]
