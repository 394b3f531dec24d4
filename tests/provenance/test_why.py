"""Why a row is there: input rows from which alone it follows, on every kind of dataflow; and why one is not there."""

import contextlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow.parquet as pq
import pytest
from graph_oracles import EDGES, ENDS, ROOTS
from hypothesis import given, note
from hypothesis import strategies as st
from pictures import forbidden, wrong_in
from running import KV, at, examples, new_flow, start

import tidemill as tm
from tidemill.boundary.values import canonical
from tidemill.errors import EngineError, GraphError, RowError, StepError, TidemillError, TimeError
from tidemill.provenance.subsets import smaller
from tidemill.testing import dataflows, updates

W = tm.Window.partition_by("k").order_by("v")
DEPENDS = Path(__file__).parents[2] / "examples" / "data" / "debian-gnome.parquet"


def hop(a, b):
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


BUILDS: dict[str, Any] = {
    "a join": lambda a, b: hop(a, b),
    "a sum": lambda a, b: a.concat(b).group_by("k").agg(v=tm.sum("v")),
    "a minimum": lambda a, b: a.concat(b).group_by("k").agg(v=tm.min("v")),
    "a sum of all": lambda a, b: a.concat(b).agg(k=tm.count(), v=tm.sum("v")),
    "a left join": lambda a, b: a.join(b, on="k", how="left").select("k", v="coalesce(v_right, -1)"),
    "an antijoin": lambda a, b: a.antijoin(b, on="k"),
    "a semijoin": lambda a, b: a.semijoin(b, on="k"),
    "except all": lambda a, b: a.except_all(b),
    "top k": lambda a, b: a.concat(b).group_by("k").top_k(2, order_by="v"),
    "a window": lambda a, b: a.concat(b).select("k", v=tm.sum("v").over(W.rows_between(-1, 0))),
    "a rank": lambda a, b: a.concat(b).select("k", v=tm.row_number().over(W)),
    "a user's functions": lambda a, b: a.flat_map(lambda r: [(r.k, i) for i in range(r.v)], KV).concat(b),
    "recursion": lambda a, b: a.distinct().iterate(lambda here: hop(here, b).concat(a).distinct()),
    "recursion that is not monotone": lambda a, b: a.distinct().iterate(
        lambda here: a.antijoin(hop(here, b), on="k").distinct(), return_at=4
    ),
    "least labels": lambda a, b: tm.graphs.connected_components(
        a.concat(b), a="k", b="v"
    ).select(k="node", v="component"),
    "components in a loop": lambda a, b: tm.graphs.scc(a.concat(b), a="k", b="v").select(k="node", v="component"),
}  # fmt: skip


def started(build, engine=None, coordinates=1, **options):
    flow = new_flow(coordinates)
    flow.output("out", build(flow.input("a", KV), flow.input("b", KV)))
    return flow, flow.start(engine, why=True, **options)


def follows(flow, output, row, rows):
    """Whether the reference engine gives the row of these input rows alone."""
    with start(flow, "reference") as run:
        for name, some in rows.items():
            run.insert(name, some)
        run.close_inputs()
        return run.snapshot(output).counts().get(row, 0) > 0


def assert_sound(flow, why, given_rows):
    """What is named was put in, suffices, and is minimal if it says so; the tree's leaves are the rows."""
    assert why.is_there
    for name, rows in why.rows.items():
        assert Counter(rows) <= Counter(given_rows[name])
    assert follows(flow, why.output, why.row, why.rows), why
    if why.is_minimal:
        for name, rows in why.rows.items():
            for row in set(rows):
                fewer = {**why.rows, name: [r for r in rows if r != row]}
                with contextlib.suppress(TidemillError):  # without it there is an error, so no row
                    assert not follows(flow, why.output, why.row, fewer), (why, row)
    walk(why.tree, ())


def walk(reason, above):
    """No row is a reason for itself: on the way down nothing comes twice."""
    if reason.children:
        here = (reason.line, reason.operator)
        assert here not in above
        for child in reason.children:
            walk(child, (*above, here))


PAIRS = {"k": [0, 1, 2, 3], "v": [0, 1, 2, 3]}


@pytest.mark.parametrize("name", BUILDS)
@examples(12, least=5)
@given(data=st.data())
def test_the_rows_named_suffice_and_none_can_be_left_out(name, data):
    rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=12)
    found = {of: data.draw(rows, label=of) for of in "ab"}
    flow, run = started(BUILDS[name])
    with run:
        for of, some in found.items():
            run.insert(of, some)
        run.advance()
        there = sorted(run.snapshot("out").counts())
        for row in there[:: max(1, len(there) // 3)]:
            why = run.why("out", row)
            note(str(why))
            assert why.is_minimal
            assert_sound(flow, why, found)
        absent = run.why("out", (7, 7))
        assert not absent.is_there
        assert not absent.rows
        assert str(absent).startswith("out has no row (7, 7):")


@examples(25, least=6)
@given(case=st.integers(1, 2).flatmap(dataflows))
def test_on_random_dataflows(case):
    try:
        case.flow.start(why=True).close()
    except GraphError:  # by when rows came
        return
    given_rows = {}
    with case.flow.start(why=True) as run:
        for name, triples in case.updates.items():
            run.update(name, triples)
            now: Counter[Any] = Counter()
            for row, _, diff in triples:
                now[canonical(row)] += diff
            given_rows[name] = now
        try:
            run.close_inputs()
            for output in case.flow.graph.outputs:
                for row, count in list(run.snapshot(output).counts().items())[:2]:
                    if count > 0:
                        why = run.why(output, row)
                        assert why.is_there
                        for name, rows in why.rows.items():
                            assert all(Counter(rows)[r] == abs(given_rows[name][r]) for r in rows)
                        assert str(why)
                        svg = why.to_svg()
                        assert wrong_in(svg) == forbidden(svg) == []
        except TidemillError as error:
            if "why" in str(error):
                raise


@pytest.mark.parametrize("coordinates", [1, 2, 3])
@examples(60, least=8)
@given(data=st.data())
def test_on_random_dataflows_the_rows_named_suffice_at_any_time(coordinates, data):
    """Run on these rows alone, from the least time on, the specification gives the row."""
    case = data.draw(dataflows(coordinates))
    try:
        run = case.flow.start(why=True, keep=100)
    except GraphError:  # by when rows came
        return
    with run:
        for name, triples in case.updates.items():
            run.update(name, triples)
        try:
            run.close_inputs()
        except StepError:
            return
        time = 3 if coordinates == 1 else data.draw(st.sampled_from([(3,) * coordinates, (3, 1, 2)[:coordinates]]))
        for output in case.flow.graph.outputs:
            counts = canonically(run.snapshot(output, at=time).counts())
            for row in [row for row, count in counts.items() if count > 0][:2]:
                why = run.why(output, row, at=time)
                note(str(why))
                held = {name: canonically(at(triples, time)) for name, triples in case.updates.items()}
                named = {name: {of: held[name][of] for of in rows} for name, rows in why.rows.items()}
                assert gives(case.flow, named, output, time).get(row, 0) > 0
            for row in [(*row[:-1], 77) for row in counts if type(row[-1]) is int][:2]:
                if not counts.get(row):
                    absent = run.why(output, row, at=time)
                    assert not absent.is_there
                    assert wrong_in(absent.to_svg()) == []


def gives(flow, counts, output, time):
    """What the reference engine gives of these rows at a time, with their counts, from the least time on."""
    least = (0,) * len(flow.graph.coordinates)
    with flow.start(tm.Reference(), keep=100) as run:
        for name, some in counts.items():
            run.update(name, [(row, least if len(least) > 1 else 0, count) for row, count in some.items() if count])
        run.close_inputs()
        return canonically(run.snapshot(output, at=time).counts())


def canonically(counts):
    """Counts by rows as answers have them."""
    return {canonical(row): count for row, count in counts.items()}


@pytest.mark.parametrize("name", ["reference", "embedded"])
def test_every_engine_can_be_asked(name):
    engine = {"reference": tm.Reference(), "embedded": tm.Embedded()}[name]
    flow, run = started(BUILDS["recursion"], engine)
    with run:
        given_rows = {"a": [(0, 1), (5, 5)], "b": [(1, 2), (2, 3), (3, 1), (9, 9)]}
        for of, some in given_rows.items():
            run.insert(of, some)
        run.advance()
        why = run.why("out", (0, 3))
        assert why.rows == {"a": [(0, 1)], "b": [(1, 2), (2, 3)]}
        assert_sound(flow, why, given_rows)


def test_a_cycle_is_no_reason_for_itself():
    """1 -> 2 -> 3 -> 1 support each other; why 2 is reached is where it was reached from outside."""
    flow, run = started(lambda a, b: a.distinct().iterate(lambda here: hop(here, b).concat(a).distinct()))
    with run:
        run.insert("a", [(0, 1)])
        run.insert("b", [(1, 2), (2, 3), (3, 1)])
        run.advance()
        why = run.why("out", (0, 2))
        assert why.rows == {"a": [(0, 1)], "b": [(1, 2)]}
        around = run.why("out", (0, 1))
        assert around.rows == {"a": [(0, 1)]}
        assert_sound(flow, why, {"a": [(0, 1)], "b": [(1, 2), (2, 3), (3, 1)]})


def test_a_row_is_explained_at_an_earlier_time():
    _, run = started(BUILDS["a join"], keep=3)
    with run:
        run.insert("a", [(0, 1)])
        run.insert("b", [(1, 2)])
        run.advance()
        run.delete("a", [(0, 1)])
        run.advance()
        assert run.why("out", (0, 2), at=0).rows == {"a": [(0, 1)], "b": [(1, 2)]}
        assert not run.why("out", (0, 2)).is_there


@examples(10)
@given(found=updates(KV, 2, values=PAIRS, non_negative=True, max_size=12))
def test_at_a_time_of_two_coordinates(found):
    flow, run = started(BUILDS["recursion"], coordinates=2, keep=9)
    with run:
        run.update("a", found)
        run.update("b", found)
        run.close_inputs()
        for time in [(0, 0), (1, 2), (3, 3)]:
            for row in list(run.snapshot("out", at=time).counts())[:2]:
                rows = list(Counter(at(found, time)).elements())
                assert_sound(flow, run.why("out", row, at=time), {"a": rows, "b": rows})


def test_copies_of_a_row_are_one_and_are_all_named():
    _, run = started(lambda a, _: a.group_by("k").agg(n=tm.count()))
    with run:
        run.insert("a", [(1, 2), (1, 2), (1, 2), (3, 4)])
        run.advance()
        assert run.why("out", (1, 3)).rows == {"a": [(1, 2)] * 3}


def test_the_tree_says_by_what_operators_and_in_which_iterations():
    flow = new_flow()
    edges, roots = flow.input("edges", EDGES), flow.input("nodes", ROOTS)
    flow.output("hops", tm.graphs.bfs(edges, roots, **ENDS))
    with flow.start(why=True) as run:
        run.insert("nodes", [(0,)])
        run.insert("edges", [(0, 1, 1), (1, 2, 1), (2, 0, 1)])
        run.advance()
        text = str(run.why("hops", (2, 2)))
    lines = text.splitlines()
    assert lines[0] == "hops has (2, 2): 3 input rows suffice, none can be left out"
    assert [line.strip("│├└─ ") for line in lines if "input" in line][1:] == [
        "(0,)  input 'nodes'",
        "(0, 1, 1)  input 'edges'",
        "(1, 2, 1)  input 'edges'",
    ]
    assert sum("Join [on node = a]" in line for line in lines) == 2
    assert "iteration 2" in text
    assert __file__.rsplit("/", 1)[1] in text


def test_of_many_rows_that_are_all_needed_there_is_no_tree():
    flow = new_flow()
    flow.output("out", flow.input("a", KV).agg(n=tm.count()))
    with flow.start(why=True) as run:
        run.insert("a", [(i, i) for i in range(700)])
        run.advance()
        why = run.why("out", (700,))
        assert len(why.rows["a"]) == 700
        assert why.tree is None
        assert not why.is_minimal  # 600 trials were not enough to be sure
        assert "too many rows" in str(why)
        assert "... and 680 more rows of input 'a'" in str(why)


# -- on real data -------------------------------------------------------------------------------------------------------


def test_why_gnome_needs_a_package_is_a_path():
    table = pq.read_table(DEPENDS)
    graph = nx.DiGraph(list(zip(*table.to_pydict().values(), strict=True)))
    flow = new_flow()
    depends = flow.input("depends", {"package": "string", "depends_on": "string"})
    start_rows = flow.constant({"package": "string"}, [("gnome",)])
    flow.output("needed", tm.graphs.bfs(depends, start_rows, a="package", b="depends_on"))
    with flow.start(why=True) as run:
        run.insert("depends", table)
        run.advance()
        for package in ("libc6", "zlib1g", random.Random(1).choice(sorted(graph))):
            hops = nx.shortest_path_length(graph, "gnome", package)
            path = run.why("needed", (package, hops)).rows["depends"]
            assert len(path) == hops
            assert nx.shortest_path_length(nx.DiGraph(path), "gnome", package) == hops


# -- rows that are not there --------------------------------------------------------------------------------------------

MISSING: dict[str, Any] = {
    "an edge": (
        BUILDS["recursion"], {"a": [(0, 1)], "b": [(1, 2), (3, 4)]}, (0, 4),
        ["(3, 4) is there, and would need a partner", "input 'a' has no row with k = 0, v = 3"],
    ),
    "one side of a join": (BUILDS["a join"], {"a": [(0, 1)], "b": []}, (0, 2), ["input 'b' has no row with v = 2"]),
    "both sides of a join": (
        BUILDS["a join"], {"a": [], "b": []}, (0, 2),
        ["input 'a' has no row with k = 0", "input 'b' has no row with v = 2"],
    ),
    "another sum": (
        BUILDS["a sum"], {"a": [(1, 2)], "b": [(1, 3)]}, (1, 7), ["the group has (1, 5)"],
    ),
    "a group": (BUILDS["a sum"], {"a": [(1, 2)], "b": []}, (2, 7), ["input 'a' has no row with k = 2"]),
    "what a filter refuses": (
        lambda a, b: a.filter("v > 3").concat(b), {"a": [(1, 2)], "b": []}, (1, 2),
        ["which the condition refuses: (1, 2)", "input 'b' has no row with k = 1, v = 2"],
    ),
    "what is not among the first": (
        BUILDS["top k"], {"a": [(1, 1), (1, 2), (1, 3)], "b": []}, (1, 3), ["which others come before: (1, 3)"],
    ),
    "what has a partner": (
        BUILDS["an antijoin"], {"a": [(1, 2)], "b": [(1, 9)]}, (1, 2), ["(1, 2) has 1 row against it: (1, 9)"],
    ),
    "what has none": (
        BUILDS["a semijoin"], {"a": [(1, 2)], "b": [(2, 9)]}, (1, 2),
        ["(1, 2) is there, and would need a partner", "input 'b' has no row with k = 1"],
    ),
    "a part of three": (
        lambda a, b: tm.join_all([a.rename(v="w"), b.rename(v="x"), a.rename(v="y")], on="k").select("k", v="x"),
        {"a": [(1, 2)], "b": [(2, 9)]}, (1, 9), ["input 'b' has no row with k = 1, v = 9"],
    ),
    "three that do not fit": (
        lambda a, b: tm.join_all([a.rename(v="w"), b.rename(v="x"), a.rename(v="y")], on="k").select("k", v="x"),
        {"a": [(1, 2)], "b": [(2, 9)]}, (2, 9), ["input 'a' has no row with k = 2"],
    ),
    "what a comparison refuses": (
        lambda a, b: a.dynamic_filter("v", ">", b.select(limit="v")), {"a": [(1, 2)], "b": [(0, 5)]}, (1, 2),
        ["which the condition refuses: (1, 2), compared with (5,)"],
    ),
    "a row to compare with": (
        lambda a, b: a.dynamic_filter("v", ">", b.select(limit="v")), {"a": [(1, 2)], "b": []}, (1, 2),
        ["no row to compare with: (1, 2)", "input 'b' has no row with any values"],
    ),
    "the right side of a right join": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="right").select("k", v="v"),
        {"a": [(7, 1)], "b": []}, (7, 2), ["input 'b' has no row with k = 7, v = 2"],
    ),
    "a right row that has a partner": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="right").select("k", v="w"),
        {"a": [(7, 1)], "b": [(7, 2)]}, (7, None), ["(7, 2) has 1 row against it: (7, 1)"],
    ),
    "the right side of a full join": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="full").select("k", v="v"),
        {"a": [], "b": []}, (7, 2), ["input 'b' has no row with k = 7, v = 2"],
    ),
    "the partner in a left join": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="left").select("k", v="v"),
        {"a": [(7, 1)], "b": [(7, 3)]}, (7, 2), ["input 'b' has no row with k = 7, v = 2"],
    ),
    "a partner by NULL": (
        lambda a, b: a.join(b.rename(v="w"), on="k").select("k", v="w"),
        {"a": [(None, 1)], "b": [(None, 2)]}, (None, 2), ["NULL in a key matches nothing, unless nulls_equal=True"],
    ),
    "a partner by NULL in a left join": (
        lambda a, b: a.join(b.rename(v="w"), on="k", how="left").select("k", v="w"),
        {"a": [(None, 1)], "b": [(None, 2)]}, (None, 2), ["NULL in a key matches nothing, unless nulls_equal=True"],
    ),
    "what NULL has no partner for": (
        BUILDS["a semijoin"], {"a": [(None, 2)], "b": [(None, 9)]}, (None, 2),
        ["(None, 2) is there, and NULL in a key matches nothing"],
    ),
    "a constant": (
        lambda a, b: a.select("k", v="5"), {"a": [(1, 2)], "b": []}, (1, 4), ["column 'v' is always 5"],
    ),
    "what a function makes": (  # of which row it would make this, nobody knows: not of (1, 9), which has equal names
        lambda a, b: a.flat_map(lambda r: [(r.k, i) for i in range(r.v)], KV), {"a": [(1, 2)], "b": []}, (1, 9),
        ["none with k = 1, v = 9; makes others of 1 row: (1, 2)"],
    ),
    "what a function is called with": (
        lambda a, b: a.filter("v > 3").flat_map(lambda r: [(r.k, r.v)], KV), {"a": [(1, 2)], "b": []}, (1, 2),
        ["none with any values; reads 1 row like that, which the condition refuses: (1, 2)"],
    ),
    "what is taken away": (
        lambda a, b: a.concat(b.negate()), {"a": [(1, 2)], "b": [(1, 2)]}, (1, 2),
        ["1 row with k = 1, v = 2: (1, 2)", "reads 1 row like that, which it takes away: (1, 2)"],
    ),
    "a user's group": (
        lambda a, b: a.group_by("k").reduce(lambda key, rows: [], {"v": "int64"}), {"a": [(1, 2)], "b": []}, (2,),
        ["no such group or value comes of 1 row: (1, 2)"],
    ),
    "a group by what is computed": (
        lambda a, b: a.group_by(k="k + 1").agg(v=tm.max("v")), {"a": [(1, 2)], "b": []}, (9, 2),
        ["no such group or value comes of 1 row: (1, 2)"],
    ),
    "a value of any group": (
        lambda a, b: a.group_by("k").agg(v=tm.max("v")).select(k="v", v="v"), {"a": [(1, 2), (2, 3)], "b": []}, (9, 9),
        ["none with v = 9; the groups have (1, 2), (2, 3)"],
    ),
    "a row of a window": (
        BUILDS["a window"], {"a": [(1, 2)], "b": []}, (1, 9),
        ["none with k = 1, v = 9; reads 1 row like that, with other values added: (1, 2)"],
    ),
    "a partition of a window": (BUILDS["a rank"], {"a": [(1, 2)], "b": []}, (2, 1), ["input 'a' has no row with k = 2"]),
    "a group of a top k": (
        BUILDS["top k"], {"a": [(1, 2)], "b": []}, (2, 1),
        ["input 'a' has no row with k = 2, v = 1", "input 'b' has no row with k = 2, v = 1"],
    ),
    "what both have": (
        lambda a, b: a.intersect(b), {"a": [(1, 2)], "b": [(1, 3)]}, (1, 2),
        ["(1, 2) is there, and would need a partner", "input 'b' has no row with k = 1, v = 2"],
    ),
    "what the other has as often": (
        lambda a, b: a.except_all(b), {"a": [(1, 2), (1, 2)], "b": [(1, 2), (1, 2)]}, (1, 2),
        ["(1, 2) has 1 row against it: (1, 2)"],
    ),
    "what the other has": (
        lambda a, b: a.except_distinct(b), {"a": [(1, 2), (1, 2)], "b": [(1, 2)]}, (1, 2),
        ["(1, 2) has 1 row against it: (1, 2)"],
    ),
    "a comparison with what is computed": (
        lambda a, b: a.dynamic_filter("v", ">", b.agg(most=tm.max("v"))), {"a": [(1, 2)], "b": [(1, 7)]}, (1, 2),
        ["which the condition refuses: (1, 2), compared with (7,)"],
    ),
    "a pair that does not compare": (
        lambda a, b: a.join(b.rename(v="w"), on="k", where="v < w").select("k", v="w"),
        {"a": [(1, 5)], "b": [(1, 2)]}, (1, 2), ["which the condition refuses: (1, 5, 2)"],
    ),
    "a pair of a left join that does not compare": (
        lambda a, b: a.join(b.rename(v="w"), on="k", where="v < w", how="left").select("k", v="w"),
        {"a": [(1, 5)], "b": [(1, 2)]}, (1, 2), ["rows of both are there, and do not fit"],
    ),
    "a partner by a key that is not asked for": (
        lambda a, b: a.semijoin(b, on="k").select(k="v", v="v"), {"a": [(1, 5)], "b": [(3, 2)]}, (5, 5),
        ["(1, 5) is there, and would need a partner", "input 'b' has no row with k = 1"],
    ),
    "a partner by NULL that is not asked for": (
        lambda a, b: hop(a, b), {"a": [(1, None)], "b": [(None, 2)]}, (1, 2),
        ["(None, 2) is there, and NULL in a key matches nothing"],
    ),
    "what has a partner by a key that is not asked for": (
        lambda a, b: a.antijoin(b, on="k").select(k="v", v="v"), {"a": [(1, 5)], "b": [(3, 2), (1, 4)]}, (5, 5),
        ["(1, 5) has 1 row against it: (1, 4)"],
    ),
    "NULL for a partner that is there": (
        lambda a, b: a.join(b.rename(v="w"), on="k", how="left").select(k="v", v="w"),
        {"a": [(1, 5)], "b": [(3, 2), (1, 4)]}, (5, None), ["(1, 5) has 1 row against it: (1, 4)"],
    ),
    "a node that nothing reaches": (
        lambda a, b: tm.graphs.bfs(a, b.select(node="k"), a="k", b="v"), {"a": [(1, 2), (7, 8)], "b": [(1, 0)]}, (8, 1),
        ["(7, 8) is there, and would need a partner", "input 'b' has no row with k = 7", "input 'a' has no row with v = 7"],
    ),
    "a node that is nearer": (
        lambda a, b: tm.graphs.bfs(a, b.select(node="k"), a="k", b="v"), {"a": [(1, 2)], "b": [(1, 0)]}, (2, 3),
        ["the group has (2, 1)"],
    ),
    "a node of another component": (
        lambda a, b: tm.graphs.connected_components(a, a="k", b="v"), {"a": [(1, 2), (2, 3)], "b": []}, (3, 3),
        ["have (3, 1)"],
    ),
    "what a loop loses": (
        lambda a, b: tm.graphs.k_core(a, 2, a="k", b="v"), {"a": [(1, 2), (2, 3), (3, 1), (3, 4)], "b": []}, (4, 1),
        ["in the first iteration there is (4, 3)"],
    ),
    "a value that is computed": (
        lambda a, b: a.select("k", v="v + 1"), {"a": [(1, 2)], "b": []}, (1, 2), ["1 row that give other values: (1, 2)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing(case):
    build, rows, row, texts = MISSING[case]
    _, run = started(build)
    with run:
        for name, some in rows.items():
            run.insert(name, some)
        run.advance()
        why = run.why("out", row)
    assert not why.is_there
    for text in texts:
        assert text in str(why), str(why)


def test_what_only_refuses_bad_input_is_no_reason_for_a_missing_row():
    _, run = started(lambda a, b: tm.graphs.shortest_paths(a.with_columns(weight="1"), b.select("k"), a="k", b="v"))
    with run:
        run.insert("a", [(1, 2)])
        run.insert("b", [(1, 0)])
        run.advance()
        text = str(run.why("out", (9, 1)))
    assert "input 'a' has no row with v = 9" in text
    assert "FlatMap" not in text


def test_the_tree_has_all_rows_of_which_copies_are_counted():
    """Rows that are the same once columns are dropped are reasons of their number together."""
    _, run = started(lambda a, b: a.concat(b).group_by("k").agg(n=tm.count()))
    with run:
        run.insert("a", [(1, 2), (1, 3), (1, 4), (2, 5)])
        run.advance()
        lines = run.why("out", (1, 3)).tree.lines()
    assert sum("input 'a'" in line for line in lines) == 3


def test_chains_may_be_long(hops=100):
    """Longer than functions may call each other; of what is there, and of what is missing."""
    _, run = started(
        lambda a, b: b.iterate(lambda here: here.join(a, on={"v": "k"}).select(k="k", v="v_right").concat(b).distinct())
    )
    with run:
        run.insert("a", [(i, i + 1) for i in range(hops)])
        run.insert("b", [(0, 0)])
        run.advance()
        why = run.why("out", (0, hops))
        assert sorted(why.rows["a"]) == [(i, i + 1) for i in range(hops)]
        lines = why.tree.lines()
        assert len(lines) == 2 * hops + 1
        assert str(why).endswith("more lines")
        run.delete("b", [(0, 0)])
        run.advance()
        missing = run.why("out", (0, hops))
        assert "input 'b' has no row with" in "\n".join(missing.tree.lines())


# -- asked wrongly, and not asked ---------------------------------------------------------------------------------------


def test_a_run_has_to_be_started_so():
    flow = new_flow()
    flow.output("out", flow.input("a", KV))
    with flow.start() as run:
        run.advance()
        with pytest.raises(EngineError, match=r"keeps no inputs to look for reasons in: start it with why=True"):
            run.why("out", (1, 2))


def test_a_run_that_cannot_be_asked_has_nothing_more():
    flow, run = started(BUILDS["a join"])
    with run, flow.start() as plain:
        assert list(plain.graph.outputs) == ["out"]
        assert list(run.graph.outputs) == ["out", "a (as put in)", "b (as put in)"]


def test_what_inputs_held_is_shown_nowhere_else(tmp_path):
    _, run = started(BUILDS["a join"], tm.Embedded(tmp_path / "state"))
    with run:
        run.to_changelog(tmp_path / "log")
        run.insert("a", [(0, 1)])
        run.insert("b", [(1, 2)])
        run.advance()
        assert "as put in" not in repr(run)
        assert "output 'out', complete up to Antichain(1)" in repr(run)
        assert [path.name for path in (tmp_path / "log").iterdir() if path.is_dir() and path.name[0] != "."] == ["out"]
        run.record(tmp_path / "record")
        data = json.loads((tmp_path / "record").read_text())["data"]
        named = {o["name"]: str(o["id"]) for o in data["operators"] if o["kind"] == "Output"}
        assert set(data["records"]) == {named["out"]}
        with pytest.raises(tm.errors.UnknownNameError, match="no output 'a "):
            run.snapshot("a (as put in)")
        assert run.why("out", (0, 2)).rows == {"a": [(0, 1)], "b": [(1, 2)]}


def test_what_is_asked_has_to_be_a_row_of_the_output_at_a_time_that_can_be_read():
    _, run = started(BUILDS["a join"])
    with run:
        with pytest.raises(TimeError, match="complete at no time yet"):
            run.why("out", (1, 2))
        run.advance()
        with pytest.raises(RowError):
            run.why("out", (1, 2, 3))
        with pytest.raises(RowError):
            run.why("out", ("one", 2))
        with pytest.raises(TimeError, match="is not complete at 5"):
            run.why("out", (1, 2), at=5)


def test_what_moves_rows_in_time_is_refused():
    flow = new_flow()
    flow.output("out", flow.input("a", KV).delay(1))
    with pytest.raises(GraphError, match=r"why=True: Retime 'retime' .* depends on when rows came"):
        flow.start(why=True)


def test_a_row_is_explained_while_it_is_valid():
    flow = new_flow()
    calls = flow.input("calls", {"who": "string", "since": "int64", "until": "int64"})
    on_line = calls.temporal_filter("since", "until").select("who")
    flow.output("pairs", on_line.cross_join(on_line.rename(who="other")).filter("who < other"))
    with flow.start(why=True, keep=9) as run:
        run.insert("calls", [("Ann", 1, 4), ("Ben", 3, None)])
        run.advance_to(6)
        both = {"calls": [("Ann", 1, 4), ("Ben", 3, None)]}
        assert run.why("pairs", ("Ann", "Ben"), at=3).rows == both
        early, late = (run.why("pairs", ("Ann", "Ben"), at=time) for time in (2, 5))
        assert "which the condition refuses: ('Ben', 3, None)" in str(early)
        assert "which the condition refuses: ('Ann', 1, 4)" in str(late)
        run.delete("calls", [("Ann", 1, 4)], time=6)
        run.close_inputs()
        assert "input 'calls' has no row with who = 'Ann'" in str(run.why("pairs", ("Ann", "Ben")))


@examples(20, least=5)
@given(data=st.data(), coordinates=st.integers(1, 2))
def test_with_temporal_filters_the_rows_named_are_enough_at_that_time(data, coordinates):
    """Run on the rows named alone, which are there from the least time on, the row is there at the time."""
    flow = new_flow(coordinates)
    a, b = (flow.input(of, KV) for of in "ab")
    begin, end = data.draw(st.sampled_from([("v", "v + 2"), (None, "v"), ("v", None), ("k", "k + v")]))
    valid = a.temporal_filter(begin, end, coordinate=flow.graph.coordinates[-1])
    flow.output("out", valid.join(b, on="k").select("k", v="v_right"))
    found = {of: data.draw(updates(KV, coordinates, values=PAIRS, non_negative=True, max_size=8)) for of in "ab"}
    time = 3 if coordinates == 1 else data.draw(st.sampled_from([(1, 2), (3, 3), (0, 3)]))
    with flow.start(why=True, keep=100) as run:
        for of, triples in found.items():
            run.update(of, triples)
        run.close_inputs()
        for row in sorted(run.snapshot("out", at=time).counts())[:3]:
            why = run.why("out", row, at=time)
            with flow.start(tm.Reference(), keep=100) as alone:
                for of, rows in why.rows.items():
                    alone.update(of, [(r, 0 if coordinates == 1 else (0, 0), 1) for r in rows])
                alone.close_inputs()
                assert alone.snapshot("out", at=time).counts()[row] > 0


def test_a_durable_run_that_goes_on_can_be_asked(tmp_path):
    flow = new_flow()
    flow.output("out", hop(flow.input("a", KV), flow.input("b", KV)))
    with flow.start(tm.Embedded(state=tmp_path), why=True) as run:
        run.insert("a", [(0, 1)])
        run.insert("b", [(1, 2)])
        run.advance()
    with flow.start(tm.Embedded(state=tmp_path), why=True) as run:
        assert run.why("out", (0, 2)).rows == {"a": [(0, 1)], "b": [(1, 2)]}


def test_inputs_with_keys_are_rows_like_others():
    flow = new_flow()
    prices = flow.input("prices", {"item": "string", "price": "int64"}, key="item")
    flow.output("out", prices.filter("price > 2"))
    with flow.start(why=True) as run:
        run.upsert("prices", [("tea", 1), ("tea", 3), ("ink", 9)])
        run.advance()
        assert run.why("out", ("tea", 3)).rows == {"prices": [("tea", 3)]}
        assert not run.why("out", ("tea", 1)).is_there


@given(st.sets(st.integers(0, 60)), st.integers(1, 60))
def test_leaving_out_finds_what_is_needed(needed, size):
    items = [*range(61)][: max([size, *(n + 1 for n in needed)])]
    assert smaller(items, lambda some: needed <= set(some)) == (sorted(needed), True)


def test_a_saved_run_that_can_be_asked_why_is_loaded_as_one(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).filter("i > 1"))
    with flow.start(why=True) as run:
        run.insert("x", [(1,), (2,)])
        run.advance()
        run.save(tmp_path / "saved")
    with tm.load(tmp_path / "saved", flow, why=True) as again:
        assert again.why("o", (2,)).rows == {"x": [(2,)]}
        again.insert("x", [(3,)])
        again.advance()
        assert again.why("o", (3,)).rows == {"x": [(3,)]}
    with pytest.raises(tm.errors.StateError, match="with why=True if that run was started so"):
        tm.load(tmp_path / "saved", flow)
