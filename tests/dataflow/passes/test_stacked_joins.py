"""Stacks of joins as delta joins: the same comes out, whatever the stack, and less is kept; nothing new is arranged."""

from itertools import permutations
from math import prod
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.composites import DeltaJoin
from tidemill.dataflow.nodes import Arrange
from tidemill.dataflow.passes.pipeline import PASSES, optimised
from tidemill.errors import StepError
from tidemill.renderer.embedded.operators.delta_join import DeltaJoinOperator
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

NAMES = "abc"
PASS = "join_by_deltas"
FEW = {"k": [1, 1, 2, None], "v": [1, 1, 2, None]}
"""So that most stacks give something."""
ALL_PASSES = [p.__name__ for p in PASSES]


@st.composite
def stacks(draw):
    """A function that joins collections of (k, v), in a tree, by columns drawn; and a few joins beside it."""
    few = st.integers(0, 2)
    nulls_equal = draw(st.booleans())

    def leaf():
        name = draw(st.sampled_from(NAMES))
        return lambda inputs: inputs[name]

    def joined(depth):
        left = joined(depth - 1) if depth else leaf()
        right = joined(draw(st.integers(0, 1))) if depth > 1 and draw(few) == 0 else leaf()
        l, r, further, otherwise = draw(few), draw(few), draw(few), draw(st.integers(0, 9)) == 0

        def build(inputs):
            one, other = left(inputs), right(inputs)
            pairs = {one.schema.names[l % len(one.schema)]: other.schema.names[r % 2]}
            if further == 0:
                pairs[one.schema.names[(l + 1) % len(one.schema)]] = other.schema.names[(r + 1) % 2]
            both = one.join(other, on=pairs, suffix=f"_{len(one.schema)}", nulls_equal=nulls_equal != otherwise)
            return both.select(**{f"c{i}": name for i, name in enumerate(reversed(both.schema.names))})

        return build

    stack = joined(draw(st.integers(1, 3)))
    beside = [(draw(st.sampled_from(NAMES)), draw(st.sampled_from("kv"))) for _ in range(draw(st.integers(0, 4)))]

    def all_of(flow):
        inputs = {name: flow.input(name, KV) for name in NAMES}
        flow.output("out", stack(inputs))
        for i, (name, by) in enumerate(beside):
            flow.output(f"beside{i}", inputs[name].join(inputs["a"], on={by: "k"}))

    return all_of


def made(graph):
    return [n for n in graph.nodes if isinstance(n, DeltaJoin)]


@pytest.mark.slow
@examples(40, least=15)
@given(build=stacks(), coordinates=st.integers(1, 2), data=st.data())
def test_random_stacks_give_the_same(build, coordinates, data):
    flow = new_flow(coordinates)
    build(flow)
    note(flow.explain(passes=[PASS]))
    found = {name: data.draw(updates(KV, coordinates, max_size=10, values=FEW), label=name) for name in NAMES}
    for passes in ([PASS], True):
        check_equivalent(flow, found, batchings=[all_at_once, time_by_time, shuffled(3)], passes=passes)


@examples(60)
@given(build=stacks())
def test_no_stack_gets_an_arrangement_it_had_not(build):
    flow = new_flow()
    build(flow)
    flow.graph.freeze()

    def arranged(graph):
        return {(n.inputs[0].name, n.inputs[0].id, n.keys) for n in graph.nodes if isinstance(n, Arrange)}

    before = optimised(flow.graph, ["remove_duplicates"], takes=[DeltaJoin])
    after = optimised(before, [PASS], takes=[DeltaJoin])
    assume(not any("circle" in n.describe() for n in made(after)))
    sides = {n for join in made(after) for n in join.inputs}
    inputs = {n for n in sides if n.inputs[0].name in NAMES}
    assert {(n.inputs[0].name, n.keys) for n in inputs} <= {(name, keys) for name, _, keys in arranged(before)}
    assert len(arranged(after)) <= len(arranged(before)) - len(made(after))


def circle(length):
    """A function that joins as many collections as there are edges in a circle, the last one by both of its ends."""

    def build(flow):
        inputs = [flow.input(name, KV) for name in NAMES]
        edges = [inputs[0], *(inputs[i % len(NAMES)] for i in range(length - 1))]
        rows = edges[0].rename(k="n0", v="n1")
        for i, one in enumerate(edges[1:-1], 1):
            rows = rows.join(one.rename(k=f"n{i}", v=f"n{i + 1}"), on=f"n{i}")
        last = edges[-1].rename(k=f"n{length - 1}", v="n0")
        flow.output("out", rows.join(last, on=[f"n{length - 1}", "n0"]))

    return build


@pytest.mark.parametrize("length", [3, 4])
@examples(20)
@given(coordinates=st.integers(1, 2), data=st.data())
def test_circles_give_the_same(length, coordinates, data):
    flow = new_flow(coordinates)
    circle(length)(flow)
    assert len(made(optimised(flow.graph, [PASS], takes=[DeltaJoin]))) == 1
    found = {name: data.draw(updates(KV, coordinates, max_size=10, values=FEW), label=name) for name in NAMES}
    check_equivalent(flow, found, batchings=[all_at_once, time_by_time, shuffled(3)], passes=True)


def test_a_circle_keeps_nothing_of_the_pairs_that_it_does_not_close():
    """A hub with n edges in and n out is in n * n paths of two, which a chain would keep and a change go through."""
    state, met = {}, {}
    for n in (20, 40):
        for passes in (True, [p for p in ALL_PASSES if p != PASS]):
            flow = tm.Dataflow()
            e = flow.input("e", {"a": "int64", "b": "int64"})
            closed = e.join(e.rename(a="b", b="c"), on="b").join(e.rename(b="c"), on=["a", "c"])
            flow.output("out", closed, changes=False)
            with flow.start(passes=passes) as run:
                run.insert(
                    "e", [*((i, 0) for i in range(1, n + 1)), *((0, n + i) for i in range(1, n + 1)), (1, n + 1)]
                )
                run.advance()
                before = sum(o.records_in for o in run.metrics())
                run.insert("e", [(n + 2, 0)])
                run.advance()
                state[n, passes is True] = sum(o.state_rows for o in run.metrics() if o.kind == "Arrange")
                met[n, passes is True] = sum(o.records_in for o in run.metrics()) - before
                assert list(run.snapshot("out")) == [(1, 0, n + 1)]
    assert state[40, True] <= 2 * state[20, True]
    assert state[40, False] > 1600
    assert met[40, True] == met[20, True] < met[20, False] < met[40, False]


def star(tables, names):
    rows = tables[0]
    for table, name in zip(tables[1:], names, strict=True):
        rows = rows.join(table.rename(v=name), on="k")
    return rows


@pytest.mark.parametrize("count", [3, 4, 5])
def test_tables_joined_by_one_key_keep_nothing_but_themselves(count):
    rows, state, met = 200, {}, {}
    for passes in (True, [p for p in ALL_PASSES if p != PASS]):
        flow = tm.Dataflow()
        tables = [flow.input(f"t{i}", {"k": "int64", "v": "int64"}) for i in range(count)]
        flow.output("out", star(tables, [f"v{i}" for i in range(1, count)]), changes=False)
        with flow.start(passes=passes) as run:
            for i in range(count):
                run.insert(f"t{i}", [(k, k + i) for k in range(rows)])
            run.advance()
            before = {o.id: o.records_in for o in run.metrics()}
            run.insert(f"t{count - 1}", [(7, -1)])
            run.advance()
            metrics = run.metrics()
            key = passes is True
            state[key] = sum(o.state_rows for o in metrics if o.kind == "Arrange")
            met[key] = sum(o.records_in - before[o.id] for o in metrics)
            assert len(run.snapshot("out")) == rows + 1
    assert state[True] == count * rows + 1
    assert state[False] == state[True] + (count - 2) * rows
    assert met[True] <= met[False]


def test_where_an_arrangement_is_missing_it_stays_a_stack():
    flow = tm.Dataflow()
    a, b, c = (flow.input(n, {"k": "int64", "v": "int64"}) for n in NAMES)
    flow.output("out", a.join(b, on={"v": "k"}, suffix="_b").join(c, on={"v_b": "k"}, suffix="_c"))
    assert "DeltaJoin" not in flow.explain(passes=True)
    flow = tm.Dataflow()
    a, b, c = (flow.input(n, {"k": "int64", "v": "int64"}) for n in NAMES)
    flow.output("out", a.join(b, on={"v": "k"}, suffix="_b").join(c, on={"v_b": "k"}, suffix="_c"))
    flow.output("other", b.join(c, on={"v": "v"}))
    assert "DeltaJoin" in flow.explain(passes=True)
    assert "DeltaJoin" not in flow.explain(passes=[p for p in ALL_PASSES if p != PASS])


def test_an_engine_without_delta_joins_keeps_the_stack_as_it_was_written():
    """It became a chain in another order, of arrangements that the joins beside it could not share."""
    flow = tm.Dataflow()
    a, b, c = (flow.input(n, {"k": "int64", "v": "int64"}) for n in NAMES)
    flow.output("out", a.join(b.join(c, on="k", suffix="_c"), on="k", suffix="_b"))
    for name, one in zip(NAMES, (a, b, c), strict=True):
        flow.output(f"with_{name}", one.join(flow.input(f"of_{name}", KV), on="k", suffix="_d"))
    flow.graph.freeze()
    assert made(optimised(flow.graph, True, takes=[DeltaJoin]))

    def shown(passes):
        return [(n.kind, n.describe(), [s.id for s in n.inputs]) for n in optimised(flow.graph, passes).nodes]

    assert shown(True) == shown([p for p in ALL_PASSES if p != PASS])


@pytest.mark.parametrize("nulls_equal", [False, True])
def test_null_keys_meet_where_the_stack_says_so(nulls_equal):
    flow = tm.Dataflow()
    a, b, c = (flow.input(n, {"k": "int64", "v": "int64"}) for n in NAMES)
    both = a.join(b, on="k", suffix="_b", nulls_equal=nulls_equal)
    flow.output("out", both.join(c, on="k", suffix="_c", nulls_equal=nulls_equal))
    assert "DeltaJoin" in flow.explain(passes=[PASS])
    check_equivalent(flow, {n: [((None, 1), 0, 1), ((1, 2), 0, 1)] for n in NAMES}, passes=[PASS])


def test_what_one_table_lacks_is_not_looked_for_behind_all_rows_of_another(monkeypatch):
    """As in a chain, whose first join gives nothing; in the order of the tables that were rows times rows of a key."""
    flow, keys, rows = tm.Dataflow(), 50, 5000
    a, b, c = (flow.input(n, {"k": "int64", "v": "int64"}) for n in NAMES)
    flow.output("out", star([a, b, c], ["v_b", "v_c"]))
    found = []
    looked_up = DeltaJoinOperator._looked_up

    def counted(*args):
        extended = looked_up(*args)
        found.append(extended.times.shape[1])
        return extended

    monkeypatch.setattr(DeltaJoinOperator, "_looked_up", counted)
    with flow.start() as run:
        for table in (a, c):
            run.insert(table.node.name, [(i % keys, i) for i in range(rows)])
        run.insert("b", [(0, 7), (0, 8), (77, 9)])
        run.advance()
        there = len(run.snapshot("out"))
    assert there == 2 * (rows // keys) ** 2
    assert sum(found) <= there + 2 * rows  # and not also the 500,000 pairs of a and c


@examples(6)
@given(seed=st.integers(0, 1000))
def test_many_rows_each_find_the_fewest_first(seed):
    """Of some keys one table has the most rows, of others another."""
    random = Random(seed)
    flow = tm.Dataflow()
    tables = [flow.input(n, {"k": "int64", "v": "int64"}) for n in NAMES]
    tables[1:] = [table.rename(v=f"v_{table.node.name}") for table in tables[1:]]
    by_v = tables[0].join(tables[1], on="k").join(tables[2], on="k")
    flow.output("out", by_v.join(flow.input("d", {"v": "int64", "w": "int64"}), on="v"))
    flow.output("by_v", tables[0].join(tables[2], on={"v": "v_c"}))
    many = {
        name: [((random.choice([None, *range(6)]), i % 4), random.randrange(2), random.choice([1, 1, 2, -1]))
               for i in range(random.choice([3, 40]))]
        for name in (*NAMES, "d")
    }  # fmt: skip
    check_equivalent(flow, many, batchings=[all_at_once, time_by_time], passes=True)


MANY = 2**30
"""So many copies of a row: three of them multiplied are beyond 64 bits."""


def by_k(inputs, shape):
    """A stack of joins by k: of the results so far with the next, or of the first with all that come after."""
    first, *others = inputs
    if shape == "left":
        for other in others:
            first = first.join(other.select("k"), on="k")
        return first
    return first.join(by_k(others, shape).select("k"), on="k") if others else first


@pytest.mark.parametrize("shape", ["left", "right"])
@pytest.mark.parametrize(
    "counts",
    sorted({*permutations([MANY, MANY, MANY, 0])}) + [(1, MANY, 1, MANY), (MANY, 2, 1, MANY), (MANY, MANY, MANY, 1)],
)
def test_what_succeeds_as_a_chain_does_by_deltas_however_large_counts_are(counts, shape):
    """Where one relation lacks the row nothing comes of the others' copies, in whatever order they are met."""
    flow = new_flow()
    names = "abcd"
    stack = by_k([flow.input(name, KV) for name in names], shape)
    flow.output("n", stack.agg(n=tm.count()))
    for changed in names:  # last, so that its change looks up the others
        results: list[Any] = []
        for passes in ([], [PASS]):
            with flow.start(passes=passes) as run:
                assert any(isinstance(n, DeltaJoin) for n in run.graph.nodes) == bool(passes)
                for these in ([n for n in names if n != changed], [changed]):
                    for name in these:
                        count = counts[names.index(name)]
                        rows = [((1, 1), count)] if count else [((2, 2), 1)]
                        run.update(name, [(row, int(name == changed), n) for row, n in rows])
                try:
                    run.advance_to(2)
                except StepError as error:
                    results.append(str(error).split(": ")[-1])
                else:
                    results.append(list(run.snapshot("n")))
        chain, deltas = results
        assert deltas == chain or isinstance(chain, str), changed
        assert isinstance(deltas, str) or deltas == [(prod(counts),)], changed
