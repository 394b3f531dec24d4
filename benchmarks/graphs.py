"""Graph algorithms, an edge at a time: ``python -m benchmarks.graphs [bfs ...] [--scale 1.0] [--json FILE]``.

On Debian's 275,496 dependencies and on a random graph of 1,000,000 edges among 400,000 nodes: seconds to load, the
milliseconds of a step in which one edge goes or comes back, and the seconds in which networkx computes the answer anew,
without the time to build its graph; and scipy, for what it has, where it is installed. networkx' answers are compared;
labels are propagated in plain Python, which networkx does otherwise. Each algorithm has a process of its own.

``--spark`` does so, instead, on Spark: a run, and `tm.render` from scratch, in a session that is warm, with loops in
the driver; of Debian's dependencies, for some, also on executors. What takes longer than a minute is given as ">60".
"""

import argparse
import importlib.util
import json
import multiprocessing
import statistics
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.machine import machine
from benchmarks.measure import peak_memory
from benchmarks.workload import SEED

DEBIAN = Path(__file__).parent / "data" / "debian-depends.parquet"
TOLERANCE = 0.01
ROUNDS = 5
EPOCHS = 40
SECONDS = 8.0
"""No more epochs after so long."""
LIMIT = 60.0
"""No more seconds for finding an answer from scratch on Spark."""
IN_DRIVER = 5_000_000
WARM_UP = 0.001
"""The part of a graph with which a session begins."""
ON_EXECUTORS = {("Debian", "bfs"), ("Debian", "connected_components")}


class Case(NamedTuple):
    """An algorithm: as a dataflow of edges and a root; in networkx, of a graph that is directed or not; in scipy."""

    dataflow: Callable[[tm.Collection, tm.Collection], tm.Collection]
    networkx: Callable[[Any, Any], Any]
    directed: bool = True
    scipy: Callable[[Any, int], Any] | None = None


def components(found: Any) -> set[tuple[Any, Any]]:
    return {(n, least) for nodes in found for least in [min(nodes)] for n in nodes}


def counted_triangles(graph: Any) -> set[tuple[Any, int]]:
    counts: Any = nx.triangles(graph)
    return set(counts.items())


def propagated(graph: Any) -> set[tuple[Any, Any]]:
    """Return labels after all rounds, in plain Python."""
    label = {n: n for n in graph}
    for _ in range(ROUNDS):
        votes = {n: Counter([label[n], *(label[m] for m in graph[n])]) for n in graph}
        label = {n: min((-count, of) for of, count in found.items())[1] for n, found in votes.items()}
    return set(label.items())


def csgraph(name: str, **options: Any) -> Callable[[Any, int], Any]:
    """Return a function of scipy.sparse.csgraph by its name, called with the matrix, and the root where it has one."""

    def call(matrix: Any, root: int) -> Any:
        from scipy.sparse import csgraph  # noqa: PLC0415 - where it is installed

        by_root = {"breadth_first_order": {"i_start": root}, "dijkstra": {"indices": root}}
        return getattr(csgraph, name)(matrix, **options, **by_root.get(name, {}))

    return call


CASES = {
    "bfs": Case(
        tm.graphs.bfs,
        lambda graph, root: set(nx.single_source_shortest_path_length(graph, root).items()),
        scipy=csgraph("breadth_first_order"),
    ),
    "shortest_paths": Case(
        tm.graphs.shortest_paths,
        lambda graph, root: set(nx.single_source_dijkstra_path_length(graph, root).items()),
        scipy=csgraph("dijkstra"),
    ),
    "connected_components": Case(
        lambda edges, _: tm.graphs.connected_components(edges),
        lambda graph, _: components(nx.connected_components(graph)),
        directed=False,
        scipy=csgraph("connected_components", directed=False),
    ),
    "scc": Case(
        lambda edges, _: tm.graphs.scc(edges),
        lambda graph, _: components(nx.strongly_connected_components(graph)),
        scipy=csgraph("connected_components", connection="strong"),
    ),
    "k_core": Case(
        lambda edges, _: tm.graphs.k_core(edges, 5),
        lambda graph, _: set(nx.k_core(graph, 5).degree()),
        directed=False,
    ),
    "triangle_count": Case(
        lambda edges, _: tm.graphs.triangle_count(edges),
        lambda graph, _: counted_triangles(graph),
        directed=False,
    ),
    "pagerank": Case(
        lambda edges, _: tm.graphs.pagerank(edges, tolerance=TOLERANCE),
        lambda graph, _: set(nx.pagerank(graph, tol=TOLERANCE / len(graph), weight=None).items()),
    ),
    "label_propagation": Case(
        lambda edges, _: tm.graphs.label_propagation(edges, rounds=ROUNDS),
        lambda graph, _: propagated(graph),
        directed=False,
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
    nodes = int(400_000 * scale)
    rng = np.random.default_rng(SEED)
    a, b = rng.integers(0, nodes, (2, int(1_000_000 * scale)))
    return pa.table({"a": a, "b": b, "weight": rng.integers(1, 100, len(a))})


GRAPHS = {"Debian": (debian, "gnome"), "random": (random_graph, 0)}


def flow_of(case: Case, table: pa.Table, root: Any) -> tm.Dataflow:
    schema = {name: table.schema.field(name).type for name in table.column_names}
    flow = tm.Dataflow("graphs")
    edges = flow.input("edges", schema)
    roots = flow.constant({"root": schema["a"]}, [(root,)])
    flow.output("found", case.dataflow(edges, roots), changes=False)
    return flow


def measured(graph: str, name: str, scale: float) -> dict[str, Any]:
    """Return the seconds of a load, the milliseconds of steps of one edge, and those of others, who find the same."""
    make, root = GRAPHS[graph]
    table, case, before = make(scale), CASES[name], peak_memory()
    with flow_of(case, table, root).start(keep=1) as run:
        found, answer = in_run(run, table)
        found["more_memory_mb"] = round(peak_memory() - before)
    return {**found, **recomputed(name, case, table, root, set(answer))}


def in_run(run: tm.Run, table: pa.Table) -> tuple[dict[str, Any], Any]:
    """Return what loading the edges costs, and taking some out and putting them back; and what is found in the end."""
    start = perf_counter()
    run.insert("edges", table)
    run.advance()
    load, steps = perf_counter() - start, list[float]()
    for k in np.random.default_rng(SEED + 1).permutation(len(table))[: EPOCHS // 2].tolist():
        row = tuple(column[k].as_py() for column in table.columns)
        for change in (run.delete, run.insert):
            change("edges", [row])
            start = perf_counter()
            run.advance()
            steps.append((perf_counter() - start) * 1000)
        if sum(steps) > SECONDS * 1000:
            break
    ordered = sorted(steps)
    answer = run.snapshot("found").counts()
    return {
        "rows": len(table),
        "load_s": round(load, 2),
        "step_ms": {
            "min": round(ordered[0], 2),
            "median": round(statistics.median(ordered), 2),
            "p90": round(ordered[int(len(ordered) * 0.9)], 2),
            "max": round(ordered[-1], 2),
            "steps": len(steps),
        },
        "state_rows": run.metrics().state_rows,
        "answer_rows": len(answer),
    }, answer


def recomputed(name: str, case: Case, table: pa.Table, root: Any, answer: set[Any]) -> dict[str, Any]:
    """Return the seconds that networkx takes, once it has found the same."""
    if name == "pagerank" and importlib.util.find_spec("scipy") is None:
        return {}  # networkx needs it there
    graph: Any = (nx.DiGraph if case.directed else nx.Graph)()
    for a, b, weight in sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=lambda e: -e[2]):
        graph.add_edge(a, b, weight=weight)
    if not case.directed:
        graph.remove_edges_from([(n, n) for n in nx.nodes_with_selfloops(graph)])
    if name in {"bfs", "shortest_paths"}:
        graph.add_node(root)  # of a part of the graph it may have no edge
    start = perf_counter()
    found = case.networkx(graph, root)
    seconds = perf_counter() - start
    if name == "pagerank":
        refuse_ranks(dict(found), dict(answer))
    elif found != answer:
        msg = f"{name}: networkx finds {len(found - answer)} rows otherwise"
        raise AssertionError(msg)
    return {"networkx_s": round(seconds, 3), **by_scipy(case, table, root)}


def refuse_ranks(found: dict[Any, float], answer: dict[Any, float]) -> None:
    """Refuse ranks that are not in proportion to those found: on the average by more than rounding down explains."""
    total = sum(answer.values())
    off = sum(abs(answer[n] / total - rank) for n, rank in found.items())
    if len(answer) != len(found) or off > 10 * TOLERANCE:
        msg = f"pagerank: networkx finds ranks otherwise, by {off:.3f} of all"
        raise AssertionError(msg)


def by_scipy(case: Case, table: pa.Table, root: Any) -> dict[str, Any]:
    """Return the seconds that scipy takes, given nodes as numbers in a matrix."""
    if case.scipy is None or importlib.util.find_spec("scipy") is None:
        return {}
    from scipy.sparse import csgraph, csr_matrix  # noqa: F401, PLC0415 - where it is installed; imported before the clock runs

    ends = np.concatenate([table["a"].to_numpy(), table["b"].to_numpy(), np.array([root])])
    nodes, numbers = np.unique(ends, return_inverse=True)
    a, b = numbers[: len(table)], numbers[len(table) : -1]
    matrix = csr_matrix((table["weight"].to_numpy().astype(float), (a, b)), shape=(len(nodes), len(nodes)))
    start = perf_counter()
    case.scipy(matrix, int(numbers[-1]))
    return {"scipy_s": round(perf_counter() - start, 3)}


def on_spark(graph: str, name: str, scale: float) -> dict[str, Any]:
    """Return what the same costs in a run on Spark, and the seconds of finding it from scratch there."""
    from benchmarks.onspark import SETTINGS  # noqa: PLC0415 - needs PySpark

    make, root = GRAPHS[graph]
    table, case = make(scale), CASES[name]
    session = tm.local_spark("local[2]", **SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        run = flow_of(case, table, root).start(tm.Spark(session, folder))
        found, answer = in_run(run, table)
        run.close()

    def render(edges: pa.Table, in_driver: int = IN_DRIVER) -> int:
        frames = {"edges": session.createDataFrame(edges)}
        return int(tm.render(flow_of(case, edges, root), session, frames, in_driver=in_driver)["found"].count())

    render(make(scale * WARM_UP))
    found["render_s"] = in_time(session, lambda: render(table), len(answer))
    if (graph, name) in ON_EXECUTORS and isinstance(found["render_s"], float):
        found["render_on_executors_s"] = in_time(session, lambda: render(table, in_driver=0), len(answer))
    return {**found, **recomputed(name, case, table, root, set(answer))}


def in_time(session: Any, render: Callable[[], int], expected: int) -> float | str:
    """Return the seconds in which so many rows are found; the limit where they are not by then, and end the session."""
    timer = threading.Timer(LIMIT, session.stop)
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
    if rendered != expected:
        msg = f"rendered anew there are {rendered} rows, and {expected} in the run"
        raise AssertionError(msg)
    return round(perf_counter() - start, 2)


def main() -> None:
    """Measure what the command line asks for, print it and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *CASES], metavar="algorithm")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for graph in arguments.graphs:
        for name in arguments.names or CASES:
            work = partial(on_spark if arguments.spark else measured, graph, name, arguments.scale)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                found = results.setdefault(graph, {})[name] = alone.submit(work).result()
            print(graph, name, json.dumps(found), flush=True)
    if arguments.json:
        written = {"machine": machine(), "scale": arguments.scale, "graphs": results}
        arguments.json.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
