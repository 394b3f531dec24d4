"""Composites: what they are lowered to comes to what the reference engine says they are, at every time, in loops too."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Composite, OuterJoin
from tidemill.dataflow.fingerprint import describe
from tidemill.dataflow.nodes import Arrange, Reduce
from tidemill.dataflow.passes.lowering import LOWERINGS, has_composites, lower
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import EngineError, GraphError
from tidemill.renderer.reference import Reference
from tidemill.renderer.reference.executor import ReferenceExecutor
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.stepper import Stepper
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates


@attrs.frozen
class Lowered:
    """The reference engine, given primitives only."""

    def start(self, plan, keep):
        graph = plan.without_passes()
        assert not has_composites(graph)
        frontiers = Frontiers(graph, keep)
        return Run(Stepper(ReferenceExecutor(graph, frontiers.progress), frontiers))


class NotLowered(GraphPlan):
    """The graph of a flow, with its composites."""

    def after(self, passes=None):
        return self.graph

    def taking(self, composites):
        return self

    def without_passes(self):
        return self.graph


ON = {"k": "k", "v to k": {"v": "k"}, "both to one": {"k": "k", "v": "k"}, "all": ["k", "v"], "none": []}
BY_K = tm.Window.partition_by("k").order_by(tm.desc("v"))
WHERE = {"": None, " where": "v < v_right", " where of one": "k > 0"}


def joins(how):
    found: dict[str, Any] = {}
    for on, keys in ON.items():
        for said, condition in WHERE.items():
            pairs_all = not keys and condition is None and how not in ("semi", "anti")
            where = "1 = 1" if pairs_all else condition  # an outer join of everything has to say so
            if where is None or on in ("k", "none"):
                found[on + said] = lambda a, b, keys=keys, where=where: a.join(b, on=keys, how=how, where=where)
    found["nulls equal"] = lambda a, b: a.join(b, on="k", how=how, nulls_equal=True)
    found["nulls equal, where"] = lambda a, b: a.join(b, on="k", how=how, nulls_equal=True, where="v < v_right")
    return found


COMPOSITES: dict[str, dict[str, Any]] = {
    **{how: joins(how) for how in ("left", "right", "full", "semi", "anti")},
    "set operations": {
        "except_all": lambda a, b: a.except_all(b),
        "except_distinct": lambda a, b: a.except_distinct(b),
        "intersect": lambda a, b: a.intersect(b.select("v", "k")),
    },
    "top_k": {
        "by key": lambda a, b: a.distinct().concat(b.distinct()).group_by("k").top_k(2, order_by=tm.desc("v")),
        "by an expression": lambda a, b: (
            a.distinct().concat(b.distinct()).group_by(x="k % 2").top_k(1, order_by=["v * v", tm.asc("k", nulls="last")])
        ),
        "of all": lambda a, b: a.distinct().concat(a.distinct()).group_by().top_k(3, order_by="v"),
    },
    "windows": {
        "ranks and lags": lambda a, b: (
            a.distinct().concat(b.distinct()).with_columns(r=tm.rank().over(BY_K), d=tm.col("v") - tm.lag("v").over(BY_K))
        ),
        "frames": lambda a, b: a.distinct().select(
            "k", s=tm.sum("v").over(BY_K.rows_between(-1, 1)), n=tm.count().over(tm.Window.order_by("v"))
        ),
        "by an expression": lambda a, b: (
            a.distinct().concat(a.distinct()).with_columns(n=tm.row_number().over(tm.Window.partition_by("k % 2")))
        ),
    },
    "aggregates": {
        "sums": lambda a, b: a.concat(b.negate()).group_by("k").agg(n=tm.count(), s=tm.sum("v"), m=tm.avg("v")),
        "distinct ones": lambda a, b: a.group_by("k").agg(d=tm.count_distinct("v"), s=tm.sum("v"), n=tm.count()),
        "ordered ones": lambda a, b: (
            a.distinct().group_by("k").agg(f=tm.first("v", order_by="v % 2"), d=tm.count_distinct("v"), l=tm.list("v"))
        ),
        "of all": lambda a, b: a.distinct().agg(n=tm.count(), d=tm.count_distinct("v").filter("k > 0"), x=tm.max("v")),
    },
}  # fmt: skip


def built(kind, coordinates):
    flow = new_flow(coordinates)
    a, b = (flow.input(n, KV) for n in "ab")
    for name, make in COMPOSITES[kind].items():
        flow.output(name, make(a, b))
    return flow


def in_loops(kind, coordinates):
    """Composites of what changes in a loop with what enters it, with itself, and of what enters it alone."""
    flow = new_flow(coordinates)
    a, b = (flow.input(n, KV) for n in "ab")

    def narrow(made):
        return made.select(k=made.schema.names[0], v=tm.col(made.schema.names[-1]).cast("int64"))

    for name, make in list(COMPOSITES[kind].items())[:4]:
        if "list" in str(make(a, b).schema):
            continue
        flow.output(
            name,
            a.iterate(
                lambda here, make=make: (
                    narrow(make(here, b)).concat(narrow(make(b, here)), narrow(make(here, here)), narrow(make(b, a)), a)
                ).distinct(),
                return_at=3,
            ),
        )
    return flow


@pytest.mark.parametrize("coordinates", [1, 2, 3])
@pytest.mark.parametrize("kind", COMPOSITES)
def test_a_lowering_comes_to_the_definition(kind, coordinates):
    flow = built(kind, coordinates)

    @examples(6, least=2)
    @given(data=st.data())
    def check(data):
        found = {n: data.draw(updates(KV, coordinates, max_size=8), label=n) for n in "ab"}
        for passes in (False, True):
            engines: list[Any] = [Reference(), Lowered(), tm.Embedded()]
            check_equivalent(flow, found, engines=engines, batchings=[all_at_once, shuffled(1)], passes=passes)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("kind", COMPOSITES)
def test_a_lowering_comes_to_the_definition_in_loops(kind, coordinates):
    flow = in_loops(kind, coordinates)

    @examples(3)
    @given(data=st.data())
    def check(data):
        found = {n: data.draw(updates(KV, coordinates, max_size=4, latest=1), label=n) for n in "ab"}
        for passes in (False, True):
            check_equivalent(flow, found, engines=[Reference(), tm.Embedded()], batchings=[all_at_once], passes=passes)

    check()


def test_a_lowering_has_the_name_and_the_line_of_its_composite():
    flow = new_flow()
    a, b = (flow.input(n, KV) for n in "ab")
    joined = a.join(b, on="k", how="full", where="v < v_right")
    flow.output("out", joined)
    lowered = lower(flow.graph)
    made = [n for n in lowered.nodes if n.name == "outerjoin"]
    assert len(made) > 10
    assert {n.site for n in lowered.nodes if n.id >= 2 and n.kind != "Output"} == {joined.node.site}


@pytest.mark.parametrize("who", [Reference(), Lowered(), tm.Embedded()])
@pytest.mark.parametrize("passes", [False, True])
def test_an_error_names_the_composite_and_its_line(who, passes):
    flow = new_flow()
    a, b = (flow.input(n, KV) for n in "ab")
    joined = a.join(b, on="k", how="left", where="10 DIV v_right > 1")
    first = a.group_by("k").top_k(1, order_by="v")
    flow.output("joined", joined)
    flow.output("first", first)
    for collection, found, error, says in (
        (joined, {"a": [((1, 1), 0, 1)], "b": [((1, 0), 0, 1)]}, tm.errors.ExpressionError, "'outerjoin'"),
        (first, {"a": [((1, 1), 0, -1)]}, tm.errors.NegativeCountError, "'topk'"),
    ):
        with flow.start(who, passes=passes) as run, pytest.raises(error, match=says) as caught:
            for name, triples in found.items():
                run.update(name, triples)
            run.advance()
        assert str(collection.node.site.location) in str(caught.value)


def test_what_enters_a_loop_is_worked_out_and_arranged_outside_of_it():
    flow = new_flow()
    a, b = (flow.input(n, KV) for n in "ab")
    flow.output("out", a.iterate(lambda here: here.antijoin(b, on="k").concat(a).distinct(), return_at=3))
    lowered = lower(flow.graph)
    assert [
        (n.kind, n.scope.path) for n in lowered.nodes if n.name == "antijoin" and n.kind in ("Map", "Threshold")
    ] == [
        ("Map", "/"),
        ("Threshold", "/"),
    ]
    (entered,) = [n for n in lowered.nodes if n.kind == "Enter" and n.name == "antijoin"]
    assert entered.inputs[0].kind == "Arrange"


def test_arrangements_are_shared_with_what_the_user_made():
    """Whichever was there first: what the lowering looks something up in, or what the user wrote."""
    flow = new_flow()
    a, b = (flow.input(n, KV) for n in "ab")
    flow.output("before", a.join(b, on="k"))
    flow.output("half", a.semijoin(b, on="v").semijoin(b, on="k"))
    flow.output("half of all", a.semijoin(b, on="k"))
    flow.output("after", a.join(b, on="v"))
    lowered = lower(flow.graph)
    of_a = [n for n in lowered.nodes if isinstance(n, Arrange) and n.inputs[0].name == "a"]
    assert sorted(n.keys for n in of_a) == [(0,), (1,)]


def test_what_nobody_reads_stays_as_its_errors_do():
    flow = new_flow()
    a, b = (flow.input(n, KV) for n in "ab")
    a.semijoin(b, on="k").select(x="10 DIV v")
    with flow.letrec(error_at=5) as block:
        unread = block.declare("unread", KV)
        block.define("unread", unread.concat(a))
    flow.output("out", a.antijoin(b, on="k"))
    assert {"Map", "Variable", "Feedback"} <= {n.kind for n in lower(flow.graph).nodes}
    for engine in (Reference(), Lowered(), tm.Embedded()):
        with flow.start(engine, passes=False) as run, pytest.raises(tm.errors.IterationLimitError):
            run.insert("a", [(1, 1)])
            run.advance()
        with flow.start(engine, passes=False) as run, pytest.raises(tm.errors.ExpressionError):
            run.insert("a", [(1, 0)])
            run.delete("a", [(1, 0)], time=1)
            run.insert("b", [(1, 0)])
            run.advance()


def test_the_graph_as_built_is_left_alone_and_shows_composites():
    flow = built("left", 1)
    before = flow.explain()
    text = flow.explain(passes=False)
    assert text.startswith(before + "\nlowered:\ndataflow")
    assert "OuterJoin [left on k = k where" not in before
    assert "OuterJoin [left on k where v < v_right]" in before
    assert "OuterJoin" not in text.removeprefix(before)
    assert flow.explain() == before
    assert not flow.graph.frozen


def test_a_composite_that_an_engine_takes_is_kept():
    flow = built("full", 1)
    assert not any(isinstance(n, OuterJoin) for n in lower(flow.graph).nodes)
    assert lower(flow.graph, {OuterJoin}) is flow.graph


@pytest.mark.parametrize(("who", "name"), [(tm.Embedded(), "embedded engine"), (Reference(), "reference engine")])
def test_a_node_that_an_engine_does_not_know_is_named(who, name):
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("out", a.group_by("k").agg(n=tm.count()))
    flow.graph.freeze()
    with pytest.raises(
        EngineError, match=rf"Aggregate 'aggregate' \(.*test_composites.py:\d+\): the {name} does not know Aggregate"
    ):
        who.start(NotLowered(flow.graph, (), is_default=False), 0)


def test_composites_are_told_apart_by_what_they_are():
    flow = new_flow()
    a, b = (flow.input(n, KV) for n in "ab")
    for name, order in (("up", "v"), ("again", "v"), ("down", tm.desc("v"))):
        flow.output(name, a.group_by("k").top_k(2, order_by=order).semijoin(b, on="k", nulls_equal=name == "again"))
    lines = [line.split(" ", 1)[1] for line in describe(flow.graph) if "TopK" in line or "SemiJoin" in line]
    up, semi, again, semi_nulls, down, _ = lines
    assert up == again != down
    assert semi.replace("#2", "#4") != semi_nulls


def test_a_composite_without_a_lowering_is_named():
    @attrs.frozen(eq=False, kw_only=True)
    class Unheard(Composite):
        """Nobody knows it."""

    assert Unheard not in LOWERINGS
    flow = new_flow()
    a = flow.input("a", KV)
    node = flow.graph.add(Unheard, scope=flow.graph.root, inputs=(a.node,), schema=a.schema)
    flow.output("out", Collection(a.builder, node))
    with pytest.raises(GraphError, match=r"Unheard 'unheard' \(.*test_composites.py:\d+\) has no lowering"):
        flow.start()


def test_which_columns_a_lowered_top_k_gives_is_part_of_its_description():
    """State saved by one is not read by another, that differs in the places of a row's columns in its wide one."""
    flow = new_flow()
    flow.output("out", flow.input("x", KV).group_by("k").top_k(2, order_by="v"))
    flow.graph.freeze()
    graph = lower(flow.graph)
    (node,) = (node for node in graph.nodes if isinstance(node, Reduce))
    logic: Any = node.logic
    other = attrs.evolve(logic, row=logic.row[::-1])
    assert other != logic
    before = describe(graph)
    object.__setattr__(node, "logic", other)
    assert [i - 1 for i, (a, b) in enumerate(zip(before, describe(graph), strict=True)) if a != b] == [node.id]
