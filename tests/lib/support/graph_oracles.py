"""What graph algorithms find according to networkx, or to a few plain lines, and how tests call the dataflows' own."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import networkx as nx

import tidemill as tm

EDGES = {"src": "int64", "dst": "int64", "length": "int64"}
ROOTS = {"root": "int64"}
ENDS: Any = {"a": "src", "b": "dst"}
ROUNDS = 4


class Algorithm(NamedTuple):
    """A dataflow of edges and of other nodes (roots, or nodes that may be in no edge), and what it has to find."""

    build: Callable[[tm.Collection, tm.Collection], tm.Collection]
    oracle: Callable[[Any, Any], Any]


def sound(edges):
    return [e for e in edges if None not in e[:2]]


def directed(edges, nodes=()):
    graph = nx.DiGraph()
    graph.add_nodes_from(n for (n,) in nodes if n is not None)
    for a, b, length in sorted(sound(edges), key=lambda e: -e[2]):  # the least length is the one that stays
        graph.add_edge(a, b, length=length)
    return graph


def undirected(edges, nodes=()):
    return nx.Graph(directed(edges, nodes))


def without_loops(edges, nodes=()):
    graph = undirected(edges, nodes)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def distances(edges, roots, weight):
    graph, sources = directed(edges, roots), {n for (n,) in roots if n is not None}
    return set(nx.multi_source_dijkstra_path_length(graph, sources, weight=weight).items()) if sources else set()


def by_least(components):
    return {(node, min(component)) for component in components for node in component}


def listed_triangles(edges):
    return {tuple(sorted(c)) for c in nx.enumerate_all_cliques(without_loops(edges)) if len(c) == 3}


def counted_triangles(edges):
    return set(nx.triangles(without_loops(edges)).items())


def ranks(edges, nodes, rounds, percent=50, units=100):
    """PageRank in whole hundredths, rounds played one after another; None: until nothing changes."""
    graph = directed(edges, nodes)
    own = units * (100 - percent) // 100
    now = dict.fromkeys(graph, own)
    while rounds is None or rounds > 0:
        new = dict.fromkeys(graph, own)
        for a, b in graph.edges:
            new[b] += now[a] * percent // (100 * graph.out_degree(a))
        if rounds is None and new == now:
            break
        now, rounds = new, rounds and rounds - 1
    return {(n, rank / units) for n, rank in now.items()}


def communities(edges, nodes, rounds):
    graph = without_loops(edges, nodes)
    label = {n: n for n in graph}
    for _ in range(rounds):
        votes = {n: Counter([label[n], *(label[m] for m in graph[n])]) for n in graph}
        label = {n: min((-count, of) for of, count in found.items())[1] for n, found in votes.items()}
    return set(label.items())


def matched(wishes, places=1):
    """Gale and Shapley, with a queue of those who are free; the length is the order of both sides, then the node."""
    wanted = {a: deque() for a, _, _ in sound(wishes)}
    order = {}
    for a, b, length in sorted(sound(wishes), key=lambda w: (w[2], w[1])):
        if (a, b) not in order:
            wanted[a].append(b)
            order[a, b] = length
    holds, free = {}, list(wanted)
    while free:
        a = free.pop()
        if wanted[a]:
            b = wanted[a].popleft()
            held = sorted([*holds.get(b, ()), (order[a, b], a)])
            holds[b] = held[:places]
            free += [refused for _, refused in held[places:]]
    return {(a, b) for b, held in holds.items() for _, a in held}


g = tm.graphs
ALGORITHMS = {
    "bfs": Algorithm(lambda e, n: g.bfs(e, n, **ENDS), lambda e, n: distances(e, n, None)),
    "shortest_paths": Algorithm(
        lambda e, n: g.shortest_paths(e, n, **ENDS, weight="length"), lambda e, n: distances(e, n, "length")
    ),
    "connected_components": Algorithm(
        lambda e, n: g.connected_components(e, **ENDS, nodes=n),
        lambda e, n: by_least(nx.connected_components(undirected(e, n))),
    ),
    "scc": Algorithm(
        lambda e, n: g.scc(e, **ENDS, nodes=n), lambda e, n: by_least(nx.strongly_connected_components(directed(e, n)))
    ),
    "pagerank": Algorithm(
        lambda e, n: g.pagerank(e, **ENDS, nodes=n, damping=0.5, tolerance=0.01), lambda e, n: ranks(e, n, None)
    ),
    "pagerank of some rounds": Algorithm(
        lambda e, n: g.pagerank(e, **ENDS, nodes=n, damping=0.5, tolerance=0.01, rounds=ROUNDS),
        lambda e, n: ranks(e, n, ROUNDS),
    ),
    "k_core": Algorithm(lambda e, _: g.k_core(e, 2, **ENDS), lambda e, _: set(nx.k_core(without_loops(e), 2).degree())),
    "triangles": Algorithm(lambda e, _: g.triangles(e, **ENDS), lambda e, _: listed_triangles(e)),
    "triangle_count": Algorithm(lambda e, _: g.triangle_count(e, **ENDS), lambda e, _: counted_triangles(e)),
    "label_propagation": Algorithm(
        lambda e, n: g.label_propagation(e, **ENDS, nodes=n, rounds=ROUNDS), lambda e, n: communities(e, n, ROUNDS)
    ),
    "stable_matching": Algorithm(
        lambda e, _: g.stable_matching(e, **ENDS, a_order="length", b_order="order"), lambda e, _: matched(e)
    ),
    "stable_matching of two places": Algorithm(
        lambda e, _: g.stable_matching(e, **ENDS, a_order="length", b_order="order", places=2),
        lambda e, _: matched(e, 2),
    ),
}


def built(name, edges, nodes):
    """Return the dataflow of an algorithm over edges of the schema above."""
    return ALGORITHMS[name].build(edges.with_columns(order="length"), nodes)
