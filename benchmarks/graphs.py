"""Graph algorithms, an edge at a time, beside networkx and scipy, which find the answer anew; also on Spark."""

from __future__ import annotations

import importlib.util
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.runner import Figures, apart, peak_memory, say, seconds, spread
from benchmarks.workload import SEED

DEBIAN = Path(__file__).parent / "data" / "debian-depends.parquet"
TOLERANCE, ROUNDS = 0.01, 5
EPOCHS, SECONDS = 40, 8.0
"""So many epochs, and no more after so many seconds."""
LIMIT = 60.0
"""No more seconds for finding an answer from scratch on Spark."""
ON_EXECUTORS = {("Debian", "bfs"), ("Debian", "connected_components")}


class Case(NamedTuple):
    """An algorithm: as a dataflow of edges and a root; in networkx, of a graph that is directed or not; in scipy."""

    dataflow: Callable[[tm.Collection, tm.Collection], tm.Collection]
    networkx: Callable[[Any, Any], Any]
    directed: bool = True
    scipy: tuple[str, dict[str, Any]] | None = None
    """A function of scipy.sparse.csgraph, and its arguments; the root is in the place of None."""


def components(found: Any) -> set[tuple[Any, Any]]:
    return {(n, least) for nodes in found for least in [min(nodes)] for n in nodes}


def counted_triangles(graph: Any) -> set[tuple[Any, int]]:
    counts: Any = nx.triangles(graph)
    return set(counts.items())


def propagated(graph: Any) -> set[tuple[Any, Any]]:
    """Return labels after all rounds, in plain Python: networkx propagates them otherwise."""
    label = {n: n for n in graph}
    for _ in range(ROUNDS):
        votes = {n: Counter([label[n], *(label[m] for m in graph[n])]) for n in graph}
        label = {n: min((-count, of) for of, count in found.items())[1] for n, found in votes.items()}
    return set(label.items())


def by_edges(algorithm: Callable[..., tm.Collection], *given: Any, **named: Any) -> Callable[..., tm.Collection]:
    return lambda edges, _: algorithm(edges, *given, **named)


CASES = {
    "bfs": Case(
        tm.graphs.bfs,
        lambda graph, root: set(nx.single_source_shortest_path_length(graph, root).items()),
        scipy=("breadth_first_order", {"i_start": None}),
    ),
    "shortest_paths": Case(
        tm.graphs.shortest_paths,
        lambda graph, root: set(nx.single_source_dijkstra_path_length(graph, root).items()),
        scipy=("dijkstra", {"indices": None}),
    ),
    "connected_components": Case(
        by_edges(tm.graphs.connected_components),
        lambda graph, _: components(nx.connected_components(graph)),
        directed=False,
        scipy=("connected_components", {"directed": False}),
    ),
    "scc": Case(
        by_edges(tm.graphs.scc),
        lambda graph, _: components(nx.strongly_connected_components(graph)),
        scipy=("connected_components", {"connection": "strong"}),
    ),
    "k_core": Case(by_edges(tm.graphs.k_core, 5), lambda graph, _: set(nx.k_core(graph, 5).degree()), directed=False),
    "triangle_count": Case(
        by_edges(tm.graphs.triangle_count), lambda graph, _: counted_triangles(graph), directed=False
    ),
    "pagerank": Case(
        by_edges(tm.graphs.pagerank, tolerance=TOLERANCE),
        lambda graph, _: set(nx.pagerank(graph, tol=TOLERANCE / len(graph), weight=None).items()),
    ),
    "label_propagation": Case(
        by_edges(tm.graphs.label_propagation, rounds=ROUNDS), lambda graph, _: propagated(graph), directed=False
    ),
}


def debian(scale: float) -> pa.Table:
    """Return dependencies, each with a weight; the root is ``gnome``."""
    table = pq.read_table(DEBIAN)
    table = table.filter(np.random.default_rng(SEED).random(len(table)) < scale)
    weights = np.random.default_rng(SEED).integers(1, 100, len(table))
    return pa.table({"a": table["package"], "b": table["depends_on"], "weight": weights})


def random_graph(scale: float) -> pa.Table:
    """Return random edges, five from every other node on average; the root is 0."""
    rng = np.random.default_rng(SEED)
    a, b = rng.integers(0, int(400_000 * scale), (2, int(1_000_000 * scale)))
    return pa.table({"a": a, "b": b, "weight": rng.integers(1, 100, len(a))})


GRAPHS: dict[str, tuple[Callable[[float], pa.Table], Any]] = {"Debian": (debian, "gnome"), "random": (random_graph, 0)}


def graphs(*, algorithms: Sequence[str], of: Sequence[str], scale: float, measure: str = "in_process") -> Figures:
    """Seconds to load, milliseconds of a step in which one edge goes or comes back, and others' seconds, anew.

    Of Debian's 275,496 dependencies, and 1,000,000 random edges among 400,000 nodes. Others' do not include the time to
    build their graph; networkx' answers are compared. Each algorithm has a process of its own.
    """
    found = []
    for graph in of:
        for name in algorithms or CASES:
            say(f"{graph} {name}")
            found.append({"graph": graph, "algorithm": name, **apart(f"graphs:{measure}", graph, name, scale)})
    return {"graphs": found}


def graphs_spark(*, algorithms: Sequence[str], of: Sequence[str], scale: float) -> Figures:
    """The same on Spark: a run, and `tm.render` from scratch, in a session that is warm, with loops in the driver.

    Of Debian's dependencies, for some, also on executors. What takes longer than a minute is given as ">60".
    """
    return graphs(algorithms=algorithms, of=of, scale=scale, measure="on_spark")


def flow_of(case: Case, table: pa.Table, root: Any) -> tm.Dataflow:
    schema = {name: table.schema.field(name).type for name in table.column_names}
    flow = tm.Dataflow("graphs")
    edges = flow.input("edges", schema)
    roots = flow.constant({"root": schema["a"]}, [(root,)])
    flow.output("found", case.dataflow(edges, roots), changes=False)
    return flow


def in_process(graph: str, name: str, scale: float) -> Figures:
    make, root = GRAPHS[graph]
    table, case, before = make(scale), CASES[name], peak_memory()
    with flow_of(case, table, root).start(keep=1) as run:
        found, answer = _in_run(run, table)
        found["more_memory_mb"] = peak_memory() - before
    return {**found, **_recomputed(name, case, table, root, set(answer))}


def _in_run(run: tm.Run, table: pa.Table) -> tuple[Figures, Any]:
    """Return what loading the edges costs, and taking some out and putting them back; and what is found in the end."""
    run.insert("edges", table)
    load, steps = seconds(run.advance), list[float]()
    for k in np.random.default_rng(SEED + 1).permutation(len(table))[: EPOCHS // 2].tolist():
        row = tuple(column[k].as_py() for column in table.columns)
        for change in (run.delete, run.insert):
            change("edges", [row])
            steps.append(1e3 * seconds(run.advance))
        if sum(steps) > SECONDS * 1000:
            break
    answer = run.snapshot("found").counts()
    kept = {"state_rows": run.metrics().state_rows, "answer_rows": len(answer)}
    return {"rows": len(table), "load_s": load, "step_ms": spread(steps), **kept}, answer


def _recomputed(name: str, case: Case, table: pa.Table, root: Any, answer: set[Any]) -> Figures:
    """Return the seconds that networkx takes, once it has found the same, and scipy, where these are there."""
    has_scipy = importlib.util.find_spec("scipy") is not None
    if name == "pagerank" and not has_scipy:
        return {}  # networkx needs it there
    graph: Any = (nx.DiGraph if case.directed else nx.Graph)()
    for a, b, weight in sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=lambda e: -e[2]):
        graph.add_edge(a, b, weight=weight)
    if not case.directed:
        graph.remove_edges_from([(n, n) for n in nx.nodes_with_selfloops(graph)])
    if name in {"bfs", "shortest_paths"}:
        graph.add_node(root)  # of a part of the graph it may have no edge
    found: list[Any] = []
    taken = {"networkx_s": seconds(lambda: found.append(case.networkx(graph, root)))}
    if name == "pagerank":
        _refuse_ranks(dict(found[0]), dict(answer))
    elif found[0] != answer:
        msg = f"{name}: networkx finds {len(found[0] - answer)} rows otherwise"
        raise AssertionError(msg)
    if case.scipy is not None and has_scipy:
        taken["scipy_s"] = _by_scipy(*case.scipy, table, root)
    return taken


def _refuse_ranks(found: dict[Any, float], answer: dict[Any, float]) -> None:
    """Refuse ranks that are not in proportion to those found: on the average by more than rounding down explains."""
    total = sum(answer.values())
    off = sum(abs(answer[n] / total - rank) for n, rank in found.items())
    if len(answer) != len(found) or off > 10 * TOLERANCE:
        msg = f"pagerank: networkx finds ranks otherwise, by {off:.3f} of all"
        raise AssertionError(msg)


def _by_scipy(name: str, options: dict[str, Any], table: pa.Table, root: Any) -> float:
    """Return the seconds that scipy takes, given nodes as numbers in a matrix."""
    from scipy.sparse import csgraph, csr_matrix  # noqa: PLC0415 - where it is installed

    ends = np.concatenate([table["a"].to_numpy(), table["b"].to_numpy(), np.array([root])])
    nodes, numbers = np.unique(ends, return_inverse=True)
    a, b = numbers[: len(table)], numbers[len(table) : -1]
    matrix = csr_matrix((table["weight"].to_numpy().astype(float), (a, b)), shape=(len(nodes), len(nodes)))
    given = {key: int(numbers[-1]) if value is None else value for key, value in options.items()}
    return seconds(lambda: getattr(csgraph, name)(matrix, **given))


# -- on Spark ---------------------------------------------------------------------------------------------------------


def on_spark(graph: str, name: str, scale: float) -> Figures:
    """Return what the same costs in a run on Spark, and the seconds of finding it from scratch there."""
    from benchmarks.spark import session  # noqa: PLC0415 - needs PySpark

    make, root = GRAPHS[graph]
    table, case, spark = make(scale), CASES[name], session()
    with tempfile.TemporaryDirectory() as folder:
        run = flow_of(case, table, root).start(tm.Spark(spark, folder))
        found, answer = _in_run(run, table)
        run.close()

    def render(edges: pa.Table, in_driver: int = 5_000_000) -> int:
        frames = {"edges": spark.createDataFrame(edges)}
        return int(tm.render(flow_of(case, edges, root), spark, frames, in_driver=in_driver)["found"].count())

    render(make(scale * 0.001))  # Java warms up
    found["render_s"] = _in_time(spark, lambda: render(table), len(answer))
    if (graph, name) in ON_EXECUTORS and isinstance(found["render_s"], float):
        found["render_on_executors_s"] = _in_time(spark, lambda: render(table, in_driver=0), len(answer))
    return {**found, **_recomputed(name, case, table, root, set(answer))}


def _in_time(spark: Any, render: Callable[[], int], expected: int) -> float | str:
    """Return the seconds in which so many rows are found; the limit where they are not by then, and end the session."""
    timer = threading.Timer(LIMIT, spark.stop)
    timer.start()
    start = perf_counter()
    try:
        rendered = render()
    except Exception:
        if perf_counter() - start < LIMIT:
            raise
        return f">{LIMIT:.0f}"
    finally:
        timer.cancel()
    assert rendered == expected, f"rendered anew there are {rendered} rows, and {expected} in the run"
    return perf_counter() - start
