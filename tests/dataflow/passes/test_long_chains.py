"""Dataflows of thousands of operators one after the other: passes walk along them without recursion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.running import start

import tidemill as tm
from tidemill.collections.collection import Collection
from tidemill.dataflow.nodes import Filter, Map
from tidemill.dataflow.passes.columns import columns_read
from tidemill.dataflow.passes.filters import push_filters
from tidemill.dataflow.passes.fuse import fuse_linear
from tidemill.expressions.bound import BoundCall
from tidemill.expressions.rewriting import conditions

LENGTH = 5000
Step = Callable[[Collection, int], Collection]


def chained(step: Step, length: int = LENGTH) -> tm.Dataflow:
    flow = tm.Dataflow()
    c = flow.input("c", {"x": "int64"})
    for i in range(length):
        c = step(c, i)
    flow.output("out", c)
    return flow


def then_filtered(step: Step) -> Step:
    """A filter at the end, to be pushed all the way back."""
    return lambda c, i: c.filter("x > 0") if i == LENGTH - 1 else step(c, i)


def numbered(c: tm.Collection) -> tm.Collection:
    return c.select(n=tm.row_number().over(tm.Window.order_by("x")))


CHAINS: dict[str, tuple[Step, int]] = {
    "filters": (lambda c, i: c.filter(tm.col("x") != -i - 1), 3),
    "filters that may fail": (lambda c, _: c.filter("x + 1 > 0"), 3),
    "computed columns": (lambda c, _: c.with_columns(x=tm.col("x") + 1), 3 + LENGTH),
    "filters over a window": (lambda c, i: numbered(c) if i == 0 else c.filter("n <= 3"), 1),
    "a filter after consolidations": (then_filtered(lambda c, _: c.consolidate()), 3),
    "a filter after distincts": (then_filtered(lambda c, _: c.distinct()), 3),
    "a filter after maps": (then_filtered(lambda c, _: c.select(x="x")), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_five_thousand_operators(name: str, engine: str) -> None:
    step, expected = CHAINS[name]
    with start(chained(step), engine) as run:
        run.insert("c", [(3,)])
        run.advance()
        assert list(run.snapshot("out")) == [(expected,)]


@pytest.mark.slow
def test_a_filter_is_pushed_all_the_way() -> None:
    graph = push_filters(chained(CHAINS["a filter after consolidations"][0]).graph)
    (pushed,) = (n for n in graph.nodes if isinstance(n, Filter))
    assert pushed.inputs == (graph.inputs["c"],)


def test_a_filter_is_pushed_below_nested_concats() -> None:
    flow = tm.Dataflow()
    c = flow.input("c", {"x": "int64"})
    for i in range(1200):
        c = c.concat(flow.constant({"x": "int64"}, [(-i,)]))
    flow.output("out", c.filter("x > 0"))
    graph = push_filters(flow.graph)
    assert sum(isinstance(n, Filter) for n in graph.nodes) == 1201


def test_what_is_fused_has_bounds() -> None:
    graph = fuse_linear(chained(CHAINS["filters"][0], 1000).graph)
    sizes = [len(list(conditions(n.predicate))) for n in graph.nodes if isinstance(n, Filter)]
    assert (sum(sizes), max(sizes)) == (1000, 100)
    graph = fuse_linear(chained(lambda c, _: c.with_columns(x=tm.col("x").fill_null(0)), 1000).graph)
    depths = [n.columns[0].depth for n in graph.nodes if isinstance(n, Map) and isinstance(n.columns[0], BoundCall)]
    assert (sum(depths), max(depths)) == (1000, 100)


@pytest.mark.slow
def test_columns_are_looked_for_behind_any_number_of_filters() -> None:
    graph = chained(CHAINS["filters that may fail"][0]).graph
    assert columns_read(graph, graph.inputs["c"]) == {0}
