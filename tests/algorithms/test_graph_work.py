"""What graph algorithms keep, and what passes through their loops: by the number of edges, whatever nodes are called."""

import random

import networkx as nx
import pytest
from support.graph_oracles import ALGORITHMS, EDGES, built, by_least, directed

import tidemill as tm

NODES, PER_NODE = 4000, 2.5


def run_of(name, edges):
    flow = tm.Dataflow(name)
    flow.output("found", built(name, flow.input("edges", EDGES), flow.constant({"root": "int64"}, [])), changes=False)
    run = flow.start()
    run.insert("edges", edges)
    run.advance()
    return run


def random_edges(seed=3):
    dice = random.Random(seed)
    return [(dice.randrange(NODES), dice.randrange(NODES), 1) for _ in range(int(NODES * PER_NODE))]


def a_way(n):
    """A way whose nodes are called in its order."""
    return [(i, i + 1, 1) for i in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows_an_edge"),
    [("connected_components", 10), ("scc", 30), ("k_core", 16), ("triangle_count", 20)],
)
def test_state_is_some_rows_an_edge_of_a_random_graph(name, rows_an_edge):
    """Where all labels set out at once it is 30 rows an edge for connected_components, and 90 for scc."""
    edges = random_edges()
    with run_of(name, edges) as run:
        assert run.metrics().state_rows <= rows_an_edge * len(edges)
        assert set(run.snapshot("found")) == set(ALGORITHMS[name].oracle(edges, []))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["connected_components", "scc"])
def test_what_nodes_are_called_makes_no_difference_to_the_state(name):
    edges, dice = random_edges(), random.Random(1)
    names = dice.sample(range(10**15), NODES)
    kept = []
    for some in (edges, [(names[a], names[b], w) for a, b, w in edges], [(-a, -b, w) for a, b, w in edges]):
        with run_of(name, some) as run:
            kept.append(run.metrics().state_rows)
    assert max(kept) <= 1.7 * min(kept), kept


def test_what_is_on_no_cycle_costs_scc_a_few_rows_an_edge():
    edges = [(min(a, b), max(a, b), w) for a, b, w in random_edges() if a != b]
    with run_of("scc", edges) as run:
        assert run.metrics().state_rows <= 9 * len(edges)
        assert len(run.snapshot("found")) == len({n for e in edges for n in e[:2]})


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [False, True])
def test_components_in_a_row_are_found_in_few_rounds(backwards):
    """Pairs of nodes, each leading to the next: the first leader is of all behind it, and only its own pair is found."""
    pairs = 60
    order = range(pairs) if not backwards else range(pairs, 0, -1)
    firsts = [2 * k for k in order]
    edges = [e for a in firsts for e in ((a, a + 1, 1), (a + 1, a, 1))]
    edges += [(a + 1, b, 1) for a, b in zip(firsts, firsts[1:], strict=False)]
    with run_of("scc", edges) as run:
        assert set(run.snapshot("found")) == by_least(nx.strongly_connected_components(directed(edges)))
        assert run.metrics().state_rows <= 120 * len(edges)
        for edge in edges[::60]:
            run.delete("edges", [edge])
            run.advance()
            left = [e for e in edges if e != edge]
            assert set(run.snapshot("found")) == by_least(nx.strongly_connected_components(directed(left)))
            run.insert("edges", [edge])
            run.advance()


@pytest.mark.slow
def test_a_long_way_needs_no_limit_of_iterations():
    with run_of("scc", [*a_way(300), (300, 0, 1)]) as run:
        assert {component for _, component in run.snapshot("found")} == {0}
        run.delete("edges", [(200, 201, 1)])
        run.advance()
        assert {node == component for node, component in run.snapshot("found")} == {True}
