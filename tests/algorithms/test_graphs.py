"""Graph algorithms: at every time what networkx finds, whatever came and went; bad input; what they say of themselves."""

import datetime as dt
import random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graph_oracles import ALGORITHMS, EDGES, ENDS, ROOTS, built, by_least, directed, undirected
from support.running import at, examples, grid, new_flow, start

import tidemill as tm
from tidemill.errors import GraphError, NegativeCountError, SchemaError, UnknownColumnError, UserFunctionError
from tidemill.testing import check_equivalent, updates

NODES = [0, 1, 2, 3, 4, 5]
NAMES = pytest.mark.parametrize("name", ALGORITHMS)
COORDINATES = pytest.mark.parametrize("coordinates", [1, 2])


def stories(coordinates=1, size=20):
    """Edges that come and go, some with NULL at an end, some more than once; nodes, of which one is in no edge.

    Few of those drawn one by one have a triangle; so half of them are as many as there may be.
    """
    ends = [*NODES, *NODES, None]
    edges = updates(
        EDGES,
        coordinates,
        non_negative=True,
        max_size=size,
        values={"src": ends, "dst": ends, "length": [0, 1, 1, 2, 5]},
    )
    nodes = updates(ROOTS, coordinates, non_negative=True, max_size=4, values={"root": [0, 1, 9, None]})
    many = st.builds(many_edges, st.integers(0, 10**6), st.just(coordinates), st.just(size))
    rooted = nodes.map(lambda found: [((0,), 0 if coordinates == 1 else (0, 0), 1), *found])
    return st.fixed_dictionaries({"edges": edges, "nodes": nodes}) | st.fixed_dictionaries(
        {"edges": many, "nodes": rooted}
    )


def many_edges(seed, coordinates, size):
    """Many edges among few nodes, of which some go at a later time."""
    dice, found = random.Random(seed), []
    ends = [*NODES[: dice.randint(3, 6)] * 4, None]
    for _ in range(size):
        row = (dice.choice(ends), dice.choice(ends), dice.choice([0, 1, 1, 2, 5]))
        time = [dice.choice([0, 0, 1, 2]) for _ in range(coordinates)]
        later = [c + dice.randrange(3) for c in time]
        came, went = (time[0], later[0]) if coordinates == 1 else (tuple(time), tuple(later))
        found += [(row, came, 1), (row, went, -1)] if dice.random() < 0.5 else [(row, came, 1)]
    return found


def flow_of(name, coordinates=1):
    flow = new_flow(coordinates)
    flow.output("found", built(name, flow.input("edges", EDGES), flow.input("nodes", ROOTS)))
    return flow


def expected(name, edges, nodes):
    return dict.fromkeys(ALGORITHMS[name].oracle(list(edges), list(nodes)), 1)


@pytest.mark.slow
@NAMES
@COORDINATES
@examples(30, least=12)
@given(data=st.data())
def test_at_every_time_it_is_what_the_oracle_finds(engine, coordinates, name, data):
    found = data.draw(stories(coordinates, size=20 if coordinates == 1 else 14))
    flow = flow_of(name, coordinates)
    with start(flow, engine) as run:
        for of, triples in found.items():
            run.update(of, triples)
        run.close_inputs()
        changes = list(run.changes("found"))
    for t in grid(*found.values()):
        assert at(changes, t) == expected(name, *(at(found[of], t) for of in ("edges", "nodes"))), t


@pytest.mark.slow
@NAMES
@examples(8, least=3)
@given(found=stories())
def test_engines_agree_however_updates_arrive(engines, name, found):
    check_equivalent(flow_of(name), found, engines=engines)


def random_edge(dice, nodes):
    return dice.randrange(nodes), dice.randrange(nodes), dice.randrange(10)


@pytest.mark.slow
@NAMES
def test_after_every_epoch_of_a_larger_graph(name):
    dice, nodes = random.Random(name), 60
    there = [random_edge(dice, nodes) for _ in range(90)]
    roots = [(0,), (1,), (99,)]
    with flow_of(name).start() as run:
        run.insert("edges", there)
        run.insert("nodes", roots)
        for _ in range(30):
            run.advance()
            assert run.snapshot("found").counts() == expected(name, there, roots)
            gone = [there.pop(dice.randrange(len(there))) for _ in range(dice.randint(0, 3))]
            new = [random_edge(dice, nodes) for _ in range(dice.randint(0, 3))]
            run.delete("edges", gone)
            run.insert("edges", new)
            there += new


@NAMES
def test_when_all_edges_have_gone_nothing_is_left(engine, name):
    edges = [(0, 1, 1), (1, 2, 1), (2, 0, 1), (2, 3, 0), (3, 3, 1), (3, 0, 2)]
    with start(flow_of(name), engine) as run:
        run.insert("edges", edges)
        run.insert("nodes", [(0,)])
        run.advance()
        assert len(run.snapshot("found"))
        run.delete("edges", edges)
        run.delete("nodes", [(0,)])
        run.advance()
        assert len(run.snapshot("found")) == 0


# -- particular things --------------------------------------------------------------------------------------------------

TYPES: dict[str, list[Any]] = {
    "string": ["Ada", "Bob", "Cem", "Dora"],
    "date": [dt.date(2024, 1, day) for day in (1, 2, 3, 4)],
    "float64": [-1.5, 0.0, 0.5, float("inf")],
    "binary": [b"", b"a", b"ab", b"b"],
}


@pytest.mark.parametrize("dtype", TYPES)
@NAMES
def test_nodes_are_of_any_type(engine, name, dtype):
    values = TYPES[dtype]
    edges = [(0, 1, 1), (1, 2, 1), (2, 0, 2), (1, 3, 1), (3, 0, 1)]
    flow = new_flow()
    rows = flow.constant({**EDGES, "src": dtype, "dst": dtype}, [(values[a], values[b], w) for a, b, w in edges])
    flow.output("found", built(name, rows, flow.constant({"at": dtype}, [(values[0],)])))
    numbers = expected(name, edges, [(0,)])
    of_nodes = 3 if name == "triangles" else 1 if name[:3] in {"bfs", "sho", "pag", "k_c"} or "count" in name else 2
    wanted = {(*(values[n] for n in row[:of_nodes]), *row[of_nodes:]): 1 for row in numbers}
    assert start(flow, engine).snapshot("found").counts() == wanted


def test_a_root_in_no_edge_is_at_distance_0(engine):
    for algorithm in ("bfs", "shortest_paths"):
        with start(flow_of(algorithm), engine) as run:
            run.insert("nodes", [(7,), (None,)])
            run.advance()
            assert list(run.snapshot("found")) == [(7, 0)]


def test_a_cycle_that_supports_only_itself_is_not_reached_any_more(engine):
    with start(flow_of("bfs"), engine) as run:
        run.insert("nodes", [(0,)])
        run.insert("edges", [(0, 1, 1), (1, 2, 1), (2, 1, 1)])
        run.advance()
        run.delete("edges", [(0, 1, 1)])
        run.advance()
        assert list(run.snapshot("found")) == [(0, 0)]


@pytest.mark.slow
def test_a_long_path_needs_no_limit_of_iterations():
    length = 10_500
    with flow_of("bfs").start() as run:
        run.insert("nodes", [(0,)])
        run.insert("edges", [(n, n + 1, 1) for n in range(length)])
        run.advance()
        assert max(hops for _, hops in run.snapshot("found")) == length


def test_a_hub_does_not_make_pairs_of_all_its_neighbours():
    """Of 3,000 nodes around two hubs, pairs of neighbours would be nine million."""
    flow = new_flow()
    flow.output("found", tm.graphs.triangles(flow.input("edges", {"a": "int64", "b": "int64"})))
    with flow.start() as run:
        run.insert("edges", [(hub, n) for n in range(2, 3002) for hub in (0, 1)] + [(0, 1)])
        run.advance()
        assert len(run.snapshot("found")) == 3000
        assert max(operator.records_out for operator in run.metrics()) < 50_000


def test_ranks_in_proportion_are_those_of_networkx():
    """Also where some nodes have no edge to go on by: networkx gives to all what comes there."""
    dice = random.Random(5)
    edges = [(a, b, 1) for a, b in nx.gnp_random_graph(40, 0.08, seed=5, directed=True).edges if dice.random() < 0.9]
    flow = new_flow()
    flow.output("ranks", tm.graphs.pagerank(flow.constant(EDGES, edges), **ENDS, tolerance=1e-9))
    found = dict(flow.start().snapshot("ranks"))
    graph = directed(edges)
    assert any(graph.out_degree(n) == 0 for n in graph)
    matrix = nx.google_matrix(graph, nodelist=list(graph))  # the definition itself, and no method of approximation
    vector = np.full(len(graph), 1 / len(graph))
    for _ in range(300):
        vector = vector @ matrix
    total = sum(found.values())
    assert np.allclose([found[n] / total for n in graph], vector, atol=1e-8)


@pytest.mark.parametrize("tolerance", [0.1, 0.01, 1e-4])
def test_the_error_of_ranks_is_within_what_the_tolerance_promises(tolerance):
    edges = [(a, b, 1) for a, b in nx.gnp_random_graph(30, 0.1, seed=2, directed=True).edges]

    def ranks_with(some):
        flow = new_flow()
        flow.output("ranks", tm.graphs.pagerank(flow.constant(EDGES, edges), **ENDS, tolerance=some))
        return dict(flow.start().snapshot("ranks"))

    rough, fine = ranks_with(tolerance), ranks_with(1e-10)
    errors = [fine[n] - rough[n] for n in fine]
    assert min(errors) > -1e-6  # rounded down
    assert 0 < sum(errors) <= tolerance / 0.15 * (len(edges) + len(fine)) + 1e-6


def test_distances_of_floats_are_sums_along_the_path(engine):
    flow = new_flow()
    roads = flow.constant({"a": "int64", "b": "int64", "weight": "float64"}, [(0, 1, 0.1), (1, 2, 0.2), (2, 3, 0.3)])
    flow.output("found", tm.graphs.shortest_paths(roads, flow.constant({"n": "int64"}, [(0,)])))
    assert list(start(flow, engine).snapshot("found")) == [(0, 0.0), (1, 0.1), (2, 0.1 + 0.2), (3, 0.1 + 0.2 + 0.3)]


def test_distances_over_int32_are_beyond_32_bits(engine):
    flow = new_flow()
    roads = flow.constant({"a": "int64", "b": "int64", "weight": "int32"}, [(0, 1, 2**31 - 1), (1, 2, 2**31 - 1)])
    flow.output("found", tm.graphs.shortest_paths(roads, flow.constant({"n": "int64"}, [(0,)])))
    assert list(start(flow, engine).snapshot("found"))[-1] == (2, 2**32 - 2)


def test_the_matching_is_stable_and_best_for_those_who_apply():
    dice = random.Random(8)
    columns = {"a": "int64", "b": "string", "a_order": "float64", "b_order": "int64"}
    wishes = [(a, b, dice.random(), dice.randrange(10**6)) for a in range(9) for b in "vwxyz" if dice.random() < 0.8]
    flow = new_flow()
    flow.output("found", tm.graphs.stable_matching(flow.constant(columns, wishes)))
    found = dict(flow.start().snapshot("found"))
    of_b = {b: a for a, b in found.items()}
    choice, grade = {w[:2]: w[2] for w in wishes}, {w[:2]: w[3] for w in wishes}
    assert len(of_b) == len(found) == 5
    for (a, b), place in choice.items():
        leaves = a not in found or place < choice[a, found[a]]
        takes = grade[a, b] < grade[of_b[b], b]
        assert not (leaves and takes), (a, b)


def test_blocks_of_algorithms_follow_one_another():
    """The strongly connected components, then what is connected among those that are in a triangle."""
    edges = [(0, 1, 1), (1, 2, 1), (2, 0, 1), (2, 3, 1), (4, 5, 1), (5, 6, 1), (6, 4, 1), (6, 0, 1)]
    flow = new_flow()
    given_edges = flow.input("edges", EDGES)
    in_some = tm.graphs.triangle_count(given_edges, **ENDS).filter("triangles > 0")
    inner = given_edges.semijoin(in_some, on={"src": "node"}).semijoin(in_some, on={"dst": "node"})
    flow.output("scc", tm.graphs.scc(inner, **ENDS))
    flow.output("connected", tm.graphs.connected_components(inner, **ENDS))
    with flow.start() as run:
        run.insert("edges", edges)
        run.advance()
        some = [e for e in edges if 3 not in e[:2]]
        assert set(run.snapshot("scc")) == by_least(nx.strongly_connected_components(directed(some)))
        assert set(run.snapshot("connected")) == by_least(nx.connected_components(undirected(some)))


# -- bad input ----------------------------------------------------------------------------------------------------------


@NAMES
def test_an_edge_that_is_taken_away_and_was_never_there_is_an_error_or_nothing(engine, name):
    """Never does it take away what other edges say; and once it is put in, all is as if nothing had been wrong."""
    edges = [(0, 1, 1), (1, 2, 1), (2, 0, 1), (3, 3, 1)]
    never = [(2, 5, 1), (2, 6, 1), (3, 4, 1), (3, 5, 1)]  # as many as there are at these nodes
    with start(flow_of(name), engine) as run:
        run.insert("nodes", [(0,)])
        run.insert("edges", edges)
        run.delete("edges", never)
        try:
            run.advance()
        except NegativeCountError as error:
            assert "has the count -1" in str(error)  # noqa: PT017 - it may be, and has to say so then
        else:
            assert run.snapshot("found").counts() == expected(name, edges, [(0,)])
        run.insert("edges", never)
        run.advance()
        assert run.snapshot("found").counts() == expected(name, edges, [(0,)])


@NAMES
def test_nodes_that_no_edge_knows_and_null(engine, name):
    """A node in no edge is by itself; what is NULL is no node, at an end of an edge as well."""
    edges, nodes = [(0, 1, 1), (None, 1, 1), (1, None, 1), (None, None, 1)], [(77,), (None,), (0,)]
    with start(flow_of(name), engine) as run:
        run.insert("nodes", nodes)
        run.insert("edges", edges)
        run.advance()
        assert run.snapshot("found").counts() == expected(name, edges, nodes)
        run.delete("edges", edges)
        run.delete("nodes", [(0,)])
        run.advance()
        assert run.snapshot("found").counts() == expected(name, [], [(77,), (None,)])


@pytest.mark.parametrize("weight", [-1, None])
def test_a_weight_below_0_or_missing_is_an_error_that_names_the_edge(engine, weight):
    with start(flow_of("shortest_paths"), engine) as run:
        run.insert("nodes", [(0,)])
        run.insert("edges", [(0, 1, 1), (8, 9, weight)])
        with pytest.raises(
            UserFunctionError, match=f"weight {'NULL' if weight is None else weight} of the edge from 8 to 9"
        ):
            run.advance()
        run.delete("edges", [(8, 9, weight)])  # and the step can be taken
        run.advance()
        assert list(run.snapshot("found")) == [(0, 0), (1, 1)]


def test_a_weight_that_is_no_number_is_an_error(engine):
    flow = new_flow()
    roads = flow.input("roads", {"a": "int64", "b": "int64", "weight": "float64"})
    flow.output("found", tm.graphs.shortest_paths(roads, flow.constant({"n": "int64"}, [(0,)])))
    with start(flow, engine) as run:
        run.insert("roads", [(0, 1, float("nan"))])
        with pytest.raises(UserFunctionError, match="weight nan of the edge from 0 to 1"):
            run.advance()


def test_wrong_columns_types_and_parameters_are_refused_where_they_are_written():
    flow = new_flow()
    edges = flow.input("edges", {"a": "int64", "b": "string", "c": "int64", "weight": "string"})
    roots = flow.input("roots", {"n": "string"})
    cases = [
        (lambda: tm.graphs.bfs(edges, roots), SchemaError, "bfs: column 'a' is int64 and 'b' is string"),
        (lambda: tm.graphs.bfs(edges, roots, b="c"), SchemaError, "expected one column, of the edges' type int64"),
        (lambda: tm.graphs.bfs(edges, roots, a="from"), UnknownColumnError, "from"),
        (lambda: tm.graphs.scc(edges, a="c", b="c"), SchemaError, "both ends of an edge are column 'c'"),
        (lambda: tm.graphs.shortest_paths(edges, roots, b="c"), SchemaError, "are string: expected int64"),
        (lambda: tm.graphs.k_core(edges, 0, b="c"), GraphError, "k=0: expected a whole number"),
        (lambda: tm.graphs.pagerank(edges, b="c", damping=1), GraphError, "damping=1: expected a number between"),
        (lambda: tm.graphs.pagerank(edges, b="c", tolerance=0), GraphError, "tolerance=0: expected"),
        (lambda: tm.graphs.pagerank(edges, b="c", rounds=0), GraphError, "rounds=0: expected"),
        (lambda: tm.graphs.label_propagation(edges, b="c", rounds=True), GraphError, "rounds=True: expected"),
        (lambda: tm.graphs.stable_matching(edges, a_order="c", b_order="c"), SchemaError, "name four different ones"),
        (lambda: tm.graphs.connected_components(edges, b="c", nodes=edges), SchemaError, "expected one column"),
    ]  # fmt: skip
    for build, kind, text in cases:
        with pytest.raises(kind, match=text):
            build()


@pytest.mark.parametrize("weight", ["a", "b", "src"])
def test_the_column_of_weights_may_have_any_name(weight):
    flow = tm.Dataflow()
    ends = {"a": "src", "b": "dst"} if weight != "src" else {"a": "from", "b": "to"}
    edges = flow.input("edges", {ends["a"]: "int64", ends["b"]: "int64", weight: "int64"})
    roots = flow.constant({"root": "int64"}, [(1,)])
    flow.output("x", tm.graphs.shortest_paths(edges, roots, weight=weight, **ends))
    with flow.start() as run:
        run.insert("edges", [(1, 2, 5), (2, 3, 7)])
        run.advance()
        assert list(run.snapshot("x")) == [(1, 0), (2, 5), (3, 12)]


@pytest.mark.parametrize("given", [{"damping": 1 / 3}, {"damping": 0.1 * 3}, {"tolerance": 1e-6 / 3}])
def test_ranks_with_parameters_of_many_digits_stay_in_64_bits(given):
    flow = tm.Dataflow()
    edges = flow.input("edges", {"a": "int64", "b": "int64"})
    flow.output("x", tm.graphs.pagerank(edges, **{"tolerance": 1e-6, **given}))
    with flow.start() as run:
        run.insert("edges", [(0, 1), (1, 0), *((n, 0) for n in range(2, 40))])
        run.advance()
        found = dict(run.snapshot("x"))
    damping = given.get("damping", 0.85)
    low, spread = 1 - damping, 38 * damping
    hub = low * (1 + spread + damping) / (1 - damping**2)  # of itself, 38 leaves, and the one it links to
    assert found[0] == pytest.approx(hub, abs=1e-3)
    assert found[39] == pytest.approx(low, abs=1e-5)


@pytest.mark.parametrize(
    "given", [{"tolerance": 1e-300}, {"tolerance": 1e-17}, {"damping": 1e-9}, {"damping": 1 - 1e-9}]
)
def test_parameters_of_ranks_that_64_bits_have_no_room_for_are_refused(given):
    edges = tm.Dataflow().input("edges", {"a": "int64", "b": "int64"})
    with pytest.raises(GraphError, match="expected a number from 1/1,000,000"):
        tm.graphs.pagerank(edges, **given)
