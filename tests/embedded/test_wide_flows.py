"""Dataflows of many operators: what is done once for each must not grow with how many others there are."""

import cProfile
import gc

import pytest

import tidemill as tm
from tidemill.expressions import sql_parser, sql_printer

MADE_ONE = {"filters in a row", "concats in a row"}
"""Chains that passes put together, up to a hundred operators: until there they cost a little more each."""
KV = {"k": "int64", "v": "int64"}
LEAST = 100
"""Calls that do not tell: what is done for the first time, and what is drawn by chance."""


def wide(n):
    flow = tm.Dataflow()
    for i in range(n):
        flow.output(f"out{i:02}", flow.input(f"in{i:02}", KV).group_by("k").agg(s=tm.sum("v")))
    return flow


def fanned_out(n):
    flow = tm.Dataflow()
    rows = flow.input("in", KV)
    for i in range(n):
        flow.output(f"out{i:02}", rows.filter(f"v > {i}").distinct())
    return flow


def brought_together(n):
    flow = tm.Dataflow()
    first, *others = [flow.input(f"in{i:02}", KV) for i in range(n)]
    flow.output("out", first.concat(*others))
    return flow


def delayed(n):
    flow = tm.Dataflow()
    for i in range(n):
        flow.output(f"out{i:02}", flow.input(f"in{i:02}", KV).delay(1).distinct())
    return flow


def with_constants(n):
    flow = tm.Dataflow()
    rows = flow.input("in", KV)
    for i in range(n):
        flow.output(f"out{i:02}", rows.join(flow.constant({"k": "int64"}, [(i,)]), on="k"))
    return flow


def of_loops(n):
    flow = tm.Dataflow()
    start, edges = flow.input("in", {"k": "int64"}), flow.input("edges", {"k": "int64", "to": "int64"})
    for i in range(n):
        flow.output(f"out{i:02}", reachable(start, edges))
    return flow


def chain(step):
    def chained(n):
        flow = tm.Dataflow()
        rows = flow.input("in", KV)
        for i in range(n):
            rows = step(flow, rows, i)
        flow.output("out", rows)
        return flow

    return chained


def reachable(start, edges):
    return start.iterate(lambda here: here.join(edges, on="k").select(k="to").concat(start).distinct())


def loop(flow, rows, i):
    return reachable(rows.select("k"), flow.input(f"edges{i:02}", {"k": "int64", "to": "int64"}))


FLOWS = {
    "wide": wide,
    "fanned out": fanned_out,
    "brought together": brought_together,
    "delayed": delayed,
    "with constants": with_constants,
    "of loops": of_loops,
    "filters in a row": chain(lambda _, rows, i: rows.filter(tm.col("v") != -i - 1)),
    "columns in a row": chain(lambda _, rows, __: rows.with_columns(v="v + 1")),
    "distincts in a row": chain(lambda _, rows, __: rows.distinct()),
    "concats in a row": chain(lambda flow, rows, i: rows.concat(flow.input(f"in{i:02}", KV))),
    "joins in a row": chain(lambda flow, rows, i: rows.join(flow.input(f"in{i:02}", {"k": "int64"}), on="k")),
    "loops in a row": chain(loop),
}


def calls_of_each_part(name, n, folder):
    """How many calls are made for each part of the life of a dataflow.

    Chains that read inputs are not drawn: an input that is read far below has a bend in each layer between.
    """
    found = {}
    for kept in (sql_parser._kept, sql_printer._kept):  # texts that are known cost nothing
        kept.cache_clear()

    def counted(part, work):
        profile = cProfile.Profile()
        gc.disable()  # what is collected meanwhile, and who is told of it, is not of the work
        try:
            result = profile.runcall(work)
        finally:
            gc.enable()
        found[part] = sum(entry.callcount for entry in profile.getstats())
        return result

    flow = counted("building", lambda: FLOWS[name](n))
    run = counted("starting", lambda: flow.start(tm.Embedded(state=folder)))
    rows = {name: [tuple(range(len(node.schema)))] for name, node in flow.graph.inputs.items()}
    first = next(iter(rows))
    run.insert(first, rows[first])
    counted("a step", run.advance)
    counted("a step of one input", lambda: run.advance_to(5, input=first))
    counted("putting in", lambda: [run.insert(*given) for given in rows.items()])
    counted("a step of all", lambda: run.advance_to(6))
    counted("reading", lambda: [(run.changes(o), run.snapshot(o), run.frontier(o)) for o in flow.graph.outputs])
    counted("the state", lambda: (run.checkpoint(), run.compact(), run.metrics()))
    counted("closing", run.close)
    run = counted("opening", lambda: flow.start(tm.Embedded(state=folder)))
    run.close()
    run = counted("starting the reference engine", lambda: flow.start(tm.Reference()))
    counted("a step of the reference engine", run.advance)
    counted("explaining", lambda: (flow.explain(), flow.explain(passes=True)))
    if name not in {"joins in a row", "concats in a row"}:
        counted("drawing", lambda: (flow.to_svg(), flow.to_mermaid(), flow.to_networkx()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
def test_operators_cost_the_same_however_many_others_there_are(name, tmp_path):
    """The kind: a pass over the whole dataflow for each of its inputs, outputs, operators or loops.

    What is linear grows from 10 to 20 by twice what it grows from 5 to 10. A delta join of n joins has n * n lookups; of
    how many joins there is one has a limit.
    """
    for warm in ("imported", "asked of classes again"):  # what is done when it is first needed
        calls_of_each_part(name, 3, tmp_path / warm)
    sizes = (16, 32, 64) if name == "joins in a row" else (5, 10, 20)  # of joins whole stacks, one delta join each
    few, some, many = (calls_of_each_part(name, n, tmp_path / str(n)) for n in sizes)
    tolerated = 0.1 if name in MADE_ONE else 0.005
    bends = {part: many[part] - some[part] - 2 * (some[part] - few[part]) for part in few}
    assert not {part: bend for part, bend in bends.items() if bend > max(LEAST, tolerated * many[part])}
