"""Cases whose every update is known beforehand."""

from collections import defaultdict

import pytest
from support.running import KV, at, new_flow, start, traces

import tidemill as tm


def test_managers_of_managers(engine):
    """``manages(p // 2, p)`` for ten people; at time p it is ``(p // 3, p)``: 32 updates of who is two levels up."""
    manages = [((p // 2, p), 0, 1) for p in range(10)]
    for p in range(1, 10):
        manages += [((p // 2, p), p, -1), ((p // 3, p), p, 1)]
    schema = {"m": "int64", "p": "int64"}

    def two_levels(manages):
        above = manages.select(m2="m", m1="p")
        return above.join(manages, on={"m1": "m"}).select("m1", "m2", "p")

    (out,) = traces(engine, two_levels, {"manages": manages}, schema={"manages": schema})
    expected = defaultdict(int)
    for (m2, m1), s, d in manages:
        for (m, p), t, e in manages:
            if m == m1:
                expected[(m1, m2, p), max(s, t)] += d * e
    assert {(row, t): d for row, t, d in out} == {key: d for key, d in expected.items() if d}
    assert len(out) == 32
    assert sum(t == 0 for _, t, _ in out) == 10
    assert [u for u in out if u[1] == 1] == []
    assert {(row, d) for row, t, d in out if t == 4} == {
        ((1, 0, 4), 1), ((2, 0, 4), -1), ((4, 1, 8), 1), ((4, 1, 9), 1), ((4, 2, 8), -1), ((4, 2, 9), -1),
    }  # fmt: skip
    assert {(row, d) for row, t, d in out if t == 9} == {((3, 1, 9), 1), ((4, 1, 9), -1)}


SIX_EPOCHS = [
    ([(2, 0), (1, 0), (1, 3), (4, 2)], []),
    ([], [(2, 0), (1, 0)]),
    ([(2, 0)], [(1, 3)]),
    ([(1, 0), (1, 3)], [(2, 0), (4, 2)]),
    ([(2, 0), (4, 2)], [(1, 3)]),
    ([(1, 3)], [(4, 2)]),
]
SIX_ANSWERS = [
    {(1, 2): 1, (2, 1): 1, (4, 1): 1},
    {(1, 1): 1, (1, 2): -1, (2, 1): -1},
    {(1, 1): -1, (2, 1): 1},
    {(1, 2): 1, (2, 1): -1, (4, 1): -1},
    {(1, 1): 1, (1, 2): -1, (2, 1): 1, (4, 1): 1},
    {(1, 1): -1, (1, 2): 1, (4, 1): -1},
]


def test_six_epochs_of_a_reduce_live(engine):
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("n", a.group_by("k").agg(n=tm.count()))
    with start(flow, engine) as run:
        for epoch, ((inserted, deleted), answer) in enumerate(zip(SIX_EPOCHS, SIX_ANSWERS, strict=True)):
            run.insert("a", inserted)
            run.delete("a", deleted)
            run.advance()
            assert {(row, t): d for row, t, d in run.changes("n")} == {(row, epoch): d for row, d in answer.items()}


def test_six_epochs_of_a_reduce_at_once(engine):
    updates = [(row, t, 1) for t, (rows, _) in enumerate(SIX_EPOCHS) for row in rows]
    updates += [(row, t, -1) for t, (_, rows) in enumerate(SIX_EPOCHS) for row in rows]
    (out,) = traces(engine, lambda a: a.group_by("k").agg(n=tm.count()), {"a": updates})
    assert {(row, t): d for row, t, d in out} == {
        (r, t): d for t, rows in enumerate(SIX_ANSWERS) for r, d in rows.items()
    }


def test_the_least_value_and_how_many(engine):
    def least(key, rows):
        return [((*key, rows[0][0][0], len(rows)), 1)]

    schema = {"k": "int64", "least": "int64", "of": "int64"}
    updates = {"a": [((0, 0), 0, 1), ((1, 2), 0, 1), ((1, 1), 0, 1)]}
    (out,) = traces(engine, lambda a: a.group_by("k").reduce(least, schema), updates)
    assert out == [((0, 0, 1), 0, 1), ((1, 1, 2), 0, 1)]


def test_groups_by_all_columns_in_another_order(engine):
    def how_many(key, rows):
        return [((*key, rows[0][1]), 1)]

    schema = {"v": "int64", "k": "int64", "n": "int64"}
    updates = {"a": [((1, 2), 0, 1), ((2, 1), 0, 2), ((2, 3), 1, 1), ((1, 2), 2, 1)]}
    (out,) = traces(engine, lambda a: a.group_by("v", "k").reduce(how_many, schema), updates)
    assert sorted(out) == [
        ((1, 2, 2), 0, 1),
        ((2, 1, 1), 0, 1),
        ((2, 1, 1), 2, -1),
        ((2, 1, 2), 2, 1),
        ((3, 2, 1), 1, 1),
    ]


def test_joins_of_two_small_tables(engine):
    numbers = [((0, 0), 0, 1), ((1, 2), 0, 1)]
    letters = [((0, "a"), 0, 1), ((1, "B"), 0, 1)]

    def build(numbers, letters):
        joined = numbers.join(letters, on="k", suffix="2")
        return [
            joined,
            joined.select("v2", k="k + v"),
            numbers.semijoin(letters.filter("k = 0"), on="k"),
            numbers.antijoin(letters.filter("k = 0"), on="k"),
        ]

    schemas = {"numbers": KV, "letters": {"k": "int64", "v": "string"}}
    found = traces(engine, build, {"numbers": numbers, "letters": letters}, schema=schemas)
    assert [[row for row, _, _ in out] for out in found] == [
        [(0, 0, "a"), (1, 2, "B")], [("B", 3), ("a", 0)], [(0, 0)], [(1, 2)],
    ]  # fmt: skip


def test_halving(engine):
    """The body is applied to last iteration's result alone, though the start was entered into every iteration."""

    def halve(here):
        return here.select(k="CASE WHEN k % 2 = 0 THEN k DIV 2 ELSE k END", v="v")

    updates = {"a": [((i, 0), 0, 1) for i in range(1, 10)]}
    (out,) = traces(engine, lambda a: a.iterate(halve).select("k"), updates)
    assert at(out, 0) == {(1,): 4, (3,): 2, (5,): 1, (7,): 1, (9,): 1}


def test_even_and_odd(engine):
    """Is 10..19 even? By taking one away until nothing is left, in two bindings."""
    flow = new_flow()
    numbers = flow.constant({"n": "int64", "left": "int64"}, [(n, n) for n in range(10, 20)])
    with flow.letrec() as block:
        schema = {"n": "int64", "left": "int64"}
        even, odd = block.declare("even", schema), block.declare("odd", schema)

        def less(c):
            return c.filter("left > 0").select("n", left="left - 1")

        block.define("even", numbers.concat(less(odd)).distinct())
        block.define("odd", less(even).distinct())
    flow.output("even", block["even"].filter("left = 0").select("n"))
    flow.output("odd", block["odd"].filter("left = 0").select("n"))
    with start(flow, engine) as run:
        run.advance()
        assert sorted(run.snapshot("even")) == [(n,) for n in range(10, 20, 2)]
        assert sorted(run.snapshot("odd")) == [(n,) for n in range(11, 20, 2)]


def both_present(a):
    def emit(key, rows):
        return [((*key, "both"), 1)] if len(rows) == 2 else []

    return a.group_by("k").reduce(emit, {"k": "int64", "state": "string"})


@pytest.mark.law("Reduce may have to change at a time at which no input changes: at joins of its key's times.")
def test_a_reduce_changes_where_no_input_does(engine):
    (out,) = traces(engine, both_present, {"a": [((0, 1), (1, 0), 1), ((0, 2), (0, 1), 1)]}, coordinates=2)
    assert out == [((0, "both"), (1, 1), 1)]


def two_dimensional(engine, build, **options):
    flow = new_flow(2)
    flow.output("out", build(flow.input("a", KV)))
    return start(flow, engine, **options)


def test_a_time_is_pending_until_the_frontier_passes_it(engine):
    """The join of two closed times lies at the frontier itself: it is owed, and shown when it is complete."""
    with two_dimensional(engine, both_present) as run:
        run.update("a", [((0, 1), (1, 0), 1), ((0, 2), (0, 1), 1)])
        run.advance_to((1, 1))
        assert run.frontier("out") == tm.Antichain([(1, 1)])
        assert list(run.changes("out")) == []
        run.advance_to((2, 2))
        assert list(run.changes("out")) == [((0, "both"), (1, 1), 1)]


@pytest.mark.law("A change owed at a later time survives compaction of the input.")
def test_what_is_owed_survives_that_the_input_is_forgotten(engine):
    """+a at (1,0), -a at (0,1): advanced to (1,1) they cancel, but the output's retraction is still due there."""

    def count(a):
        return a.group_by("k").agg(n=tm.count())

    with two_dimensional(engine, count) as run:
        run.update("a", [((0, 1), (1, 0), 1), ((0, 1), (0, 1), -1)])
        run.advance_to(tm.Antichain([(2, 0), (1, 1), (0, 2)]))
        assert list(run.changes("out")) == [((0, -1), (0, 1), 1), ((0, 1), (1, 0), 1)]
        run.close_inputs()
        assert list(run.changes("out")) == [((0, -1), (1, 1), -1), ((0, 1), (1, 1), -1)]


def test_a_stored_time_above_a_new_one_is_visited(engine):
    """A seed (2,1) with a stored time (3,1): their join is the stored one, where the output changes again."""

    def count(a):
        return a.group_by("k").agg(n=tm.count())

    with two_dimensional(engine, count) as run:
        run.update("a", [((0, 1), (3, 1), 1)])
        run.advance_to(tm.Antichain([(0, 2), (2, 1), (3, 0)]))
        run.update("a", [((0, 2), (2, 1), 1)])
        run.close_inputs()
        assert list(run.changes("out")) == [((0, 1), (2, 1), 1), ((0, 1), (3, 1), -1), ((0, 2), (3, 1), 1)]


def test_seeds_come_from_the_raw_batch(engine):
    """New updates that cancel stored ones in the sum still move the output at their own times."""
    with two_dimensional(engine, lambda a: a.distinct()) as run:
        run.update("a", [((0, 0), (0, 0), 1)])
        run.advance_to(tm.Antichain([(1, 0), (0, 1)]))
        run.update("a", [((0, 0), (1, 0), -1), ((0, 0), (0, 1), -1)])
        run.advance_to(tm.Antichain([(2, 0), (1, 1), (0, 2)]))
        run.update("a", [((0, 0), (1, 1), 1)])
        run.close_inputs()
        changes = list(run.changes("out"))
        assert changes == [((0, 0), (0, 0), 1), ((0, 0), (0, 1), -1), ((0, 0), (1, 0), -1), ((0, 0), (1, 1), 1)]


@pytest.mark.law("A joined pair is at the join of its rows' times.")
def test_a_join_lands_at_the_join_of_the_times(engine):
    updates = {"a": [((5, 6), (0, 13), 1)], "b": [((5, 7), (11, 0), 1)]}
    (out,) = traces(engine, lambda a, b: a.join(b, on="k"), updates, coordinates=2)
    assert out == [((5, 6, 7), (11, 13), 1)]


@pytest.mark.law("Retracting what fed a cycle retracts the cycle.")
def test_a_cycle_that_supports_only_itself_goes(engine):
    """1 -> 2 -> 3 -> 2: without 1 -> 2, the cycle of 2 and 3 is reached by nobody and has to go whole."""
    flow = new_flow()
    edges, roots = flow.input("edges", KV), flow.input("roots", {"at": "int64"})

    def step(here):
        return here.join(edges, on={"at": "k"}).select(at="v").concat(roots).distinct()

    flow.output("reached", roots.iterate(step))
    with start(flow, engine) as run:
        run.insert("roots", [(1,)])
        run.insert("edges", [(1, 2), (2, 3), (3, 2)])
        run.advance()
        assert sorted(run.snapshot("reached")) == [(1,), (2,), (3,)]
        run.delete("edges", [(1, 2)])
        run.advance()
        assert list(run.changes("reached"))[-2:] == [((2,), 1, -1), ((3,), 1, -1)]
        assert sorted(run.snapshot("reached")) == [(1,)]


@pytest.mark.parametrize("kind", ["iterate", "letrec"])
def test_counting_to_three_takes_three_iterations_that_change_something(engine, kind):
    def counted(error_at):
        flow = new_flow()
        one = flow.constant({"i": "int64"}, [(1,)])
        if kind == "iterate":
            found = one.iterate(lambda i: i.filter("i < 3").select(i="i + 1"), error_at=error_at)
        else:
            with flow.letrec(error_at=error_at) as block:
                i = block.declare("i", {"i": "int64"})
                block.define("i", one.concat(i.filter("i < 3").select(i="i + 1")).distinct())
            found = block["i"]
        flow.output("out", found)
        with start(flow, engine) as run:
            run.advance()
            return sorted(run.snapshot("out"))

    with pytest.raises(tm.errors.IterationLimitError, match="in iteration 3"):
        counted(3)
    assert counted(4) == ([] if kind == "iterate" else [(1,), (2,), (3,)])


def test_many_times_of_one_row(engine):
    """One row inserted at many times: its count changes each time, and nothing else."""
    times = 300
    updates = {"a": [((0, 0), t, 1) for t in range(times)]}
    (out,) = traces(engine, lambda a: a.count("n").select("n"), updates)
    assert len(out) == 2 * times - 1
    assert at(out, times) == {(times,): 1}


def test_least_labels(engine):
    """Label 17 from node 17 reaches all; each node keeps the fewest steps from it."""
    flow = new_flow()
    edges = flow.constant(KV, [(17, 18), (18, 17), (17, 17)])
    source = flow.constant({"node": "int64", "steps": "int64"}, [(17, 0)])

    def nearer(here):
        onward = here.join(edges, on={"node": "k"}).select(node="v", steps="steps + 1")
        return onward.concat(source).group_by("node").agg(steps=tm.min("steps"))

    flow.output("steps", source.iterate(nearer))
    with start(flow, engine) as run:
        run.advance()
        assert sorted(run.snapshot("steps")) == [(17, 0), (18, 1)]


def test_triangles_come_and_go(engine):
    flow = new_flow()
    edges = flow.input("edges", KV)
    paths = edges.join(edges.select(v="k", w="v"), on="v")
    flow.output("triangles", paths.join(edges.select(k="k", w="v"), on=["k", "w"]))
    with start(flow, engine) as run:
        run.insert("edges", [(1, 2), (2, 3), (1, 3), (3, 4), (4, 1), (3, 1)])
        run.advance()
        assert sorted(run.snapshot("triangles")) == [(1, 2, 3), (3, 4, 1)]
        run.delete("edges", [(1, 3)])
        run.advance()
        assert sorted(run.snapshot("triangles")) == [(3, 4, 1)]


def test_a_body_may_make_null_what_the_start_has_not(engine):
    """NULL in a key column that the start declares not null matches nothing. (Found by random dataflows: it did.)"""
    flow = new_flow()
    start_rows = flow.input("a", {"k": "int64 not null", "v": "int64"})
    b = flow.input("b", KV)

    def body(here):
        return here.join(b, on="k").select("k", "v").concat(b)

    flow.output("out", start_rows.iterate(body, return_at=2))
    assert any(f.nullable for f in flow.graph.outputs["out"].schema)
    with start(flow, engine) as run:
        run.insert("b", [(None, 0), (1, 1)])
        run.advance()
        assert run.snapshot("out").counts() == {(None, 0): 1, (1, 1): 2}
