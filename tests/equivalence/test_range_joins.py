"""Pairs of rows of which a column is less than another's: the embedded engine's index against all pairs, filtered."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.passes.pipeline import optimised
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

TYPES: dict[str, list[Any]] = {
    "int64": [-(2**63) + 1, -1, 0, 1, 2**63 - 1],
    "float64": [float("-inf"), -0.0, 0.0, 1.5, float("nan")],
    "decimal(10,2)": [Decimal("-1.25"), Decimal(0), Decimal("1.10")],
    "date": [dt.date(1969, 1, 1), dt.date(2020, 2, 29)],
}


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
    check_equivalent(flow, given, batchings=batchings)
    assert "RangeJoin" in flow.explain(passes=True)


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


def test_inputs_that_advance_on_their_own():
    """What waits on one side for the other to come to its time meets it once."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on=[], where="v < v_right").select("k", v="v_right"))
    with flow.start() as run:
        run.update("a", [((1, 1), 0, 1), ((2, 1), 3, 1)])
        run.advance_to(5, input="a")
        run.update("b", [((0, 2), 1, 1), ((0, 3), 4, 1)])
        run.advance_to(2, input="b")
        run.advance_to(5, input="b")
        assert list(run.changes("out")) == [((1, 2), 1, 1), ((2, 2), 3, 1), ((1, 3), 4, 1), ((2, 3), 4, 1)]


def test_it_goes_on_from_saved_state(tmp_path):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on=[], where="v < v_right").agg(n=tm.count()))
    with flow.start(tm.Embedded(state=tmp_path)) as run:
        run.insert("a", [(0, v) for v in range(100)])
        run.advance()
    with flow.start(tm.Embedded(state=tmp_path)) as run:
        run.insert("b", [(0, 40)])
        run.advance()
        assert list(run.snapshot("out")) == [(40,)]
