"""Pairs of rows of which a column is less than another's: the embedded engine's index against pairs, filtered."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.composites import RangeJoin
from tidemill.dataflow.passes.lowering import lower
from tidemill.dataflow.passes.pipeline import optimised
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.renderer.embedded.kernels import updates as kernels
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

TYPES: dict[str, list[Any]] = {
    "int64": [-(2**63) + 1, -1, 0, 1, 2**63 - 1],
    "float64": [float("-inf"), -0.0, 0.0, 1.5, float("nan")],
    "decimal(10,2)": [Decimal("-1.25"), Decimal(0), Decimal("1.10")],
    "date": [dt.date(1969, 1, 1), dt.date(2020, 2, 29)],
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
@examples(20)
@given(data=st.data(), coordinates=st.sampled_from([1, 2, 3]))
def test_pairs_looked_up_are_those_of_all_that_pass(dtype, comparison, data, coordinates):
    """With negative counts, NULL and NaN, over times of any number of coordinates."""
    schema = {"v": dtype, "k": "int64"}
    flow = new_flow(coordinates)
    a, b = flow.input("a", schema), flow.input("b", schema)
    flow.output("out", a.join(b, on=[], where=f"v {comparison} v_right AND k IS DISTINCT FROM k_right"))
    flow.output("self", a.cross_join(a).filter(f"v {comparison} v_right").select("k", v="k_right"))
    values = {"v": [*TYPES[dtype], None]}
    given = {name: data.draw(updates(schema, coordinates, values=values)) for name in "ab"}
    batchings = [all_at_once, time_by_time, shuffled(data.draw(st.integers(0, 99)))]
    check_equivalent(flow, given, batchings=batchings, passes=True)
    assert "RangeJoin" in flow.explain(passes=True)


class Lowered:
    """The embedded engine on what joins by range are lowered to."""

    def start(self, plan, keep):
        graph = plan.taking(FACTORIES.composites).after()
        assert any(isinstance(n, RangeJoin) for n in graph.nodes)
        lowered = lower(graph)
        lowered.freeze()
        return tm.Embedded().start(GraphPlan.of(lowered, passes=False), keep)


ROWS = {"k": "int64", "s": "string", "v": "int64"}
BY_KEY: dict[str, Any] = {
    "one key": lambda a, b, how, **nulls: a.join(b, on="k", where=f"{how} AND s IS DISTINCT FROM s_right", **nulls),
    "two keys": lambda a, b, how, **nulls: a.join(b, on=["s", "k"], where=how, **nulls),
    "itself": lambda a, b, how, **nulls: a.join(a, on={"k": "k"}, where=how, **nulls).select("s", "v_right"),
    "left": lambda a, b, how, **nulls: a.join(b, on="s", how="left", where=how, **nulls).select("s", "v_right"),
    "anti": lambda a, b, how, **nulls: a.join(b, on="k", how="anti", where=how, **nulls),
}


def few_rows():
    """Updates at times of three coordinates, of a few rows whose last column is the place of a value among some."""
    return updates(ROWS, 3, values={"k": [0, 1, None], "s": ["x", "y", None], "v": [0, 1, 2, 3, 4, None]})


def with_values(found, of_type, coordinates):
    """The updates with the values, at times of so many coordinates."""

    def value(place):
        return None if place is None else of_type[place % len(of_type)]

    return [((k, s, value(v)), t[0] if coordinates == 1 else t[:coordinates], d) for (k, s, v), t, d in found]


@pytest.mark.slow
@pytest.mark.parametrize("form", BY_KEY)
@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
@examples(20)
@given(
    dtype=st.sampled_from(sorted(TYPES, key="int64".__ne__)),
    coordinates=st.sampled_from([1, 2, 3]),
    nulls_equal=st.booleans(),
    a=few_rows(),
    b=few_rows(),
    seed=st.integers(0, 99),
)  # of nothing that is drawn depends what else is: so it becomes small soon where it fails
def test_pairs_by_key_are_those_of_all_that_pass(form, comparison, dtype, coordinates, **drawn):
    """By one key and by two, with NULL and negative counts; left joins, and a collection with itself, likewise."""
    schema = {**ROWS, "v": dtype}
    flow = new_flow(coordinates)
    a, b = flow.input("a", schema), flow.input("b", schema)
    flow.output("out", BY_KEY[form](a, b, f"v {comparison} v_right", nulls_equal=drawn["nulls_equal"]))
    given = {name: with_values(drawn[name], TYPES[dtype], coordinates) for name in "ab"}
    batchings = [all_at_once, time_by_time, shuffled(drawn["seed"])]
    check_equivalent(flow, given, engines=["reference", "embedded", Lowered()], batchings=batchings, passes=True)
    assert "RangeJoin" in flow.explain(passes=True)


def test_keys_of_the_same_hash_are_told_apart(monkeypatch):
    """Rows of several keys lie in one order there."""
    monkeypatch.setattr(kernels, "_MULTIPLIERS", np.zeros_like(kernels._MULTIPLIERS))
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output(
        "out", a.with_columns(w="k").join(b.with_columns(w="k"), on=["k", "w"], where="v < v_right").select("k", "v")
    )
    with flow.start() as run:
        run.insert("a", [(k, 5) for k in range(30)])
        run.advance()
        run.insert("b", [(k, k) for k in range(30)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(k, 5) for k in range(6, 30)]


def test_a_row_meets_a_range_of_its_key_and_no_other_rows():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on="k", where="v > v_right").select("k", v="v_right"))
    with flow.start() as run:
        run.insert("b", [(i % 100, i) for i in range(100_000)])
        run.advance()
        run.insert("a", [(7, 300), (8, 0), (None, 50), (9, None)])
        run.advance()
        assert {o.kind: o.records_out for o in run.metrics()}["RangeJoin"] == 3
        run.delete("b", [(7, 107)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(7, 7), (7, 207)]


def test_a_collection_by_key_with_itself_is_kept_once():
    """As by the one arrangement that both sides of a join read, though one of them gives more columns."""
    flow = new_flow()
    rows = flow.input("rows", {"k": "int64", "v": "int64", "w": "int64"})
    flow.output("out", rows.join(rows, on="k", where="v < v_right").agg(n=tm.count(), w=tm.sum("w_right")))
    with flow.start() as run:
        run.insert("rows", [(i % 3, i, 1) for i in range(3_000)])
        run.advance()
        assert {o.kind: o.state_rows for o in run.metrics()}["RangeJoin"] == 3_000
        assert list(run.snapshot("out")) == [(3 * 1_000 * 999 // 2,) * 2]


def test_outputs_that_share_arrangements_go_on_sharing_them():
    """What looks up by range would be beside the arrangements that another join has of the same rows."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("some", a.join(b, on="k", where="v < v_right"))
    assert "RangeJoin" in flow.explain(passes=True)
    flow.output("all", a.join(b, on="k", how="left"))
    assert "RangeJoin" not in flow.explain(passes=True)


def test_an_engine_that_does_not_take_it_runs_all_pairs():
    """Though nothing else in the dataflow has to be lowered."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.cross_join(b).filter("v < v_right AND k > 1").select("k", v="v_right"))
    kinds = [n.kind for n in optimised(flow.graph, takes=()).nodes]
    assert "RangeJoin" not in kinds
    assert kinds.count("Join") == 1
    assert kinds.count("Filter") == 2


def test_a_row_meets_a_range_and_no_other_rows():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on=[], where="v > v_right"))
    with flow.start() as run:
        run.insert("b", [(i, i) for i in range(10_000)])
        run.advance()
        run.insert("a", [(0, 5)])
        run.advance()
        assert {o.kind: o.records_out for o in run.metrics()}["RangeJoin"] == 5
        run.delete("b", [(3, 3)])
        run.advance()
        assert len(run.snapshot("out")) == 4


@pytest.mark.parametrize("on", [[], "w"])
def test_inputs_that_advance_on_their_own(on):
    """What waits on one side for the other to come to its time meets it once."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    pairs = a.with_columns(w="1").join(b.with_columns(w="1"), on=on, where="v < v_right")
    flow.output("out", pairs.select("k", v="v_right"))
    assert "RangeJoin" in flow.explain(passes=True)
    with flow.start() as run:
        run.update("a", [((1, 1), 0, 1), ((2, 1), 3, 1)])
        run.advance_to(5, input="a")
        run.update("b", [((0, 2), 1, 1), ((0, 3), 4, 1)])
        run.advance_to(2, input="b")
        run.advance_to(5, input="b")
        assert list(run.changes("out")) == [((1, 2), 1, 1), ((2, 2), 3, 1), ((1, 3), 4, 1), ((2, 3), 4, 1)]


@pytest.mark.parametrize("on", [[], "k"])
def test_it_goes_on_from_saved_state(tmp_path, on):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on=on, where="v < v_right").agg(n=tm.count()))
    with flow.start(tm.Embedded(state=tmp_path)) as run:
        run.insert("a", [(0, v) for v in range(100)])
        run.advance()
    with flow.start(tm.Embedded(state=tmp_path)) as run:
        run.insert("b", [(0, 40)])
        run.advance()
        assert list(run.snapshot("out")) == [(40,)]
