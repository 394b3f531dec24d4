"""Why a row is there: input rows from which alone it follows, on every kind of dataflow; and on what way."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.graph_oracles import EDGES, ENDS, ROOTS
from support.pictures import forbidden, wrong_in
from support.reasons import BUILDS, PAIRS, assert_sound, hop, started
from support.running import KV, at, examples, new_flow

import tidemill as tm
from tidemill.boundary.values import canonical
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import GraphError, StepError, TidemillError
from tidemill.provenance.kept import with_one_output
from tidemill.provenance.subsets import smaller
from tidemill.testing import dataflows, updates

DEPENDS = Path(__file__).parents[2] / "examples" / "data" / "debian-gnome.parquet"


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    """What the reference engine gives of these rows at a time, with their counts, from the least time on.

    Only what the output depends on is run: elsewhere these rows alone may be an error, and nobody asked for that.
    """
    least = (0,) * len(flow.graph.coordinates)
    with tm.Reference().start(GraphPlan.of(with_one_output(flow.graph, output), None), 100) as run:
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


def test_the_tree_has_all_rows_of_which_copies_are_counted():
    """Rows that are the same once columns are dropped are reasons of their number together."""
    _, run = started(lambda a, b: a.concat(b).group_by("k").agg(n=tm.count()))
    with run:
        run.insert("a", [(1, 2), (1, 3), (1, 4), (2, 5)])
        run.advance()
        lines = run.why("out", (1, 3)).tree.lines()
    assert sum("input 'a'" in line for line in lines) == 3


@pytest.mark.slow
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


def test_inputs_with_keys_are_rows_like_others():
    flow = new_flow()
    prices = flow.input("prices", {"item": "string", "price": "int64"}, key="item")
    flow.output("out", prices.filter("price > 2"))
    with flow.start(why=True) as run:
        run.upsert("prices", [("tea", 1), ("tea", 3), ("ink", 9)])
        run.advance()
        assert run.why("out", ("tea", 3)).rows == {"prices": [("tea", 3)]}
        assert not run.why("out", ("tea", 1)).is_there
    asked = with_one_output(flow.graph, "out").inputs["prices"]  # which takes rows of one key side by side
    assert (asked.key, asked.unique) == ((), False)


@given(st.sets(st.integers(0, 60)), st.integers(1, 60))
def test_leaving_out_finds_what_is_needed(needed, size):
    items = [*range(61)][: max([size, *(n + 1 for n in needed)])]
    assert smaller(items, lambda some: needed <= set(some)) == (sorted(needed), True)


# -- on real data -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
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
