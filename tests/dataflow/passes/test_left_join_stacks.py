"""Stacks of left joins: what unions with a negated input give is consolidated, so that records do not pile up."""

import pytest
from support.left_joins import WITHOUT, stack, unions
from support.running import start, traces

import tidemill as tm
from tidemill.dataflow.nodes import Consolidate

N = 20
MANY = 20_000
"""More updates than arrangements consolidate for joins."""


def records(depth, rows, passes=True):
    """How many records each join of a stack gives where all rows have a partner, and what was consolidated."""
    flow = stack(depth)
    with flow.start(passes=passes) as run:
        run.insert("t", [(i, -i) for i in range(rows)])
        for i in range(depth):
            run.insert(f"d{i}", [(j, j + i) for j in range(rows)])
        run.advance()
        out = {o.id: o.records_out for o in run.metrics()}
        assert run.snapshot("out").counts() == {(j, -j, *(j + i for i in range(depth))): 1 for j in range(rows)}
        added = sum(isinstance(n, Consolidate) for n in run.graph.nodes)
        return [out[n.id] for n in unions(run.graph)], added


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 12, 13, 28])
def test_each_join_of_a_stack_gives_as_many_records_as_there_are_rows(depth):
    assert records(depth, N) == ([N] * depth, depth)
    assert records(depth, N, WITHOUT) == ([(2 * k + 1) * N for k in range(1, depth + 1)], 0)


@pytest.mark.slow
def test_without_it_large_loads_pile_up_faster_still():
    """Joins take many updates as they come: then what is not consolidated is multiplied, not only handed on."""
    assert records(3, MANY) == ([MANY] * 3, 3)
    assert records(3, MANY, WITHOUT)[0][-1] > 7 * MANY


@pytest.mark.parametrize("depth", [1, 28])
def test_the_plan_has_one_consolidation_a_join(depth):
    shown = stack(depth).explain(passes=True)
    assert shown.count(" Consolidate 'outerjoin' <- ") == depth
    assert "Consolidate" not in stack(depth).explain(passes=WITHOUT)
    assert "consolidate_unions" in next(line for line in shown.splitlines() if line.startswith("after "))


def joined_and_less(less, b):
    """A union read by a join and, as it is, by another union."""
    return less.join(b, on="k").select("k", "v").concat(less.filter("v > 0"))


def shape(build):
    flow = tm.Dataflow("shape")
    a, b = (flow.input(name, {"k": "int64", "v": "int64"}) for name in "ab")
    flow.output("out", build(a, b))
    text = flow.explain(passes=True).partition("\nafter ")[2]
    lines = (line.strip().partition("  (")[0].partition(" ") for line in text.splitlines()[2:])
    return {number: what for number, _, what in lines}


def test_what_one_reader_consolidates_anyway_is_left_to_it():
    for build in (lambda a, b: a.concat(b.negate()), lambda a, b: a.antijoin(b, on="k").distinct()):
        assert not any("Consolidate" in what for what in shape(build).values())


def test_several_readers_are_served_from_an_arrangement_that_is_there():
    plan = shape(lambda a, b: joined_and_less(a.concat(b.negate()), b))
    (arranged,) = (number for number, what in plan.items() if what.startswith("Arrange 'concat'"))
    assert f"Filter [v > 0] <- {arranged}" in plan.values()
    assert not any("Consolidate" in what for what in plan.values())


def test_a_union_read_more_than_once_is_consolidated():
    plan = shape(lambda a, b: (less := a.concat(b.negate())).select(x="k + 1").concat(less.select(x="v + 1")))
    (number,) = (number for number, what in plan.items() if what.startswith("Consolidate"))
    assert [what for what in plan.values() if what.endswith(f"<- {number}")] == [
        f"Map [k + 1 AS x] <- {number}", f"Map [v + 1 AS x] <- {number}",
    ]  # fmt: skip


def test_antijoins_pass_on_what_has_no_partner_and_nothing_that_cancels():
    flow = tm.Dataflow("antijoins")
    rows = flow.input("t", {"k": "int64"})
    for i in range(4):
        rows = rows.antijoin(flow.input(f"d{i}", {"k": "int64"}), on="k")
    flow.output("out", rows)
    found = []
    for passes in (True, WITHOUT):
        with flow.start(passes=passes) as run:
            run.insert("t", [(i,) for i in range(N)])
            run.insert("d0", [(i,) for i in range(1, N)])
            run.advance()
            assert run.snapshot("out").counts() == {(0,): 1}
            found.append([o.records_out for o in run.metrics() if o.kind == "Concat"])
    assert found == [[2 * N - 1, 1, 1, 1], [2 * N - 1] * 4]


T = [((1, 5), 0, 1), ((2, 7), 0, 1), ((None, 8), 0, 1)]
D = [((1, 9), 0, 1), ((None, 2), 0, 1), ((3, 4), 0, 1)]
CASES = {
    "left": {(1, 5, 9, 9), (2, 7, None, None), (None, 8, None, None)},
    "right": {(1, 5, 9, 9), (None, None, None, 2), (3, None, 4, 4)},
    "full": {
        (1, 5, 9, 9), (2, 7, None, None), (None, 8, None, None), (None, None, 2, None), (3, None, 4, 4),
        (None, None, None, 2),
    },
}  # fmt: skip


@pytest.mark.parametrize("how", CASES)
def test_keys_that_are_null_match_nothing_in_a_stack(engine, how):
    """Left, right and full joins of three tables of which two are the same."""
    schema = {"t": {"x": "int64", "y": "int64"}, "d": {"x": "int64", "z": "int64"}}

    def twice(t, d):
        return t.join(d, on="x", how=how).join(d, on="x", how=how)

    (found,) = traces(engine, twice, {"t": T, "d": D}, schema=schema)
    assert {row for row, _, _ in found} == CASES[how]
    assert all(diff == 1 for _, _, diff in found)


def test_a_stack_follows_changes_of_every_table(engine):
    flow = stack(3)
    with start(flow, engine) as run:
        run.insert("t", [(1, 10), (2, 20)])
        run.insert("d0", [(1, 0)])
        run.advance()
        run.insert("d1", [(1, 1), (2, 1)])
        run.insert("d2", [(3, 2)])
        run.advance()
        assert run.snapshot("out").counts() == {(1, 10, 0, 1, None): 1, (2, 20, None, 1, None): 1}
        run.delete("d1", [(1, 1)])
        run.delete("t", [(2, 20)])
        run.insert("t", [(3, 30)])
        run.advance()
        assert run.snapshot("out").counts() == {(1, 10, 0, None, None): 1, (3, 30, None, None, 2): 1}
