"""Dynamic filters on Spark: what is defined, for histories and live; and what is read for a value that moves."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.running import KV, examples, new_flow
from support.values_that_move import COMPARISONS, TYPES, right_side

import tidemill as tm
from tidemill.renderer.durable import spill_files
from tidemill.renderer.embedded.operators.dynamic_filter import DynamicFilterOperator
from tidemill.renderer.spark.dataframes import updates_of
from tidemill.renderer.spark.live import spilled_state, state_files
from tidemill.renderer.spark.live.executor_step import ExecutorStep
from tidemill.testing import check_equivalent, shuffled, time_by_time, updates
from tidemill.testing.spark_engines import SparkLive

SETTINGS: dict[str, Any] = {
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}
ENGINES: list[Any] = ["reference", SparkLive(in_driver=0), SparkLive(in_driver=3)]


def moving(seed, values, coordinates):
    """Many left rows that come and go, and a right value that moves most of the time, by a seed."""
    rng = random.Random(seed)
    times = [t if coordinates == 1 else (t,) * coordinates for t in range(6)]
    left = [
        ((rng.choice([*values, None]), rng.randrange(3)), rng.choice(times), rng.choice([1, 1, 2, -1]))
        for _ in range(30)
    ]
    right, now = [], None
    for t in times:
        new = rng.choice([None, (None,), *[(v,) for v in values] * 2])
        right += [(now, t, -1)] * (now is not None) + [(new, t, 1)] * (new is not None)
        now = new
    return {"left": left, "right": right}


OF_TYPE: dict[str, list[Any]] = {**TYPES, "list<int64>": [[], [1], [1, None], [2]]}


def compared(dtype, comparisons, engines, seed, coordinates=1):
    schema = {"v": dtype, "k": "int64"}
    flow = new_flow(coordinates)
    left, right = flow.input("left", schema), flow.input("right", {"v": dtype})
    for i, comparison in enumerate(comparisons):
        flow.output(f"out{i}", left.dynamic_filter("v", comparison, right))
    given = moving(seed, OF_TYPE[dtype], coordinates)
    check_equivalent(flow, given, engines=["reference", *engines], batchings=[time_by_time])


def rendered(spark, flow, given):
    """The consolidated updates of each output, of the whole history at once."""
    times = ["time"] if len(flow.graph.coordinates) == 1 else [*flow.graph.coordinates]
    frames = {}
    for name, some in given.items():
        lines = [(*row, *(time if isinstance(time, tuple) else [time]), diff) for row, time, diff in some]
        frames[name] = updates_of(spark, flow.graph.inputs[name], lines, [*times, "diff"])
    found = tm.render(flow, spark, frames)
    lines_of = {name: data.collect() for name, data in found.items()}
    return {
        name: sorted(repr(tuple([tuple(v) if isinstance(v, list) else v for v in line])) for line in some)
        for name, some in lines_of.items()
    }


def by_the_reference(flow, given):
    """The same, each as text: NaN is NaN."""
    with flow.start(tm.Reference()) as run:
        for name, some in given.items():
            run.update(name, some)
        run.close_inputs()
        changes = {name: list(run.changes(name)) for name in flow.graph.outputs}
    return {
        name: sorted(repr((*row, *(t if isinstance(t, tuple) else [t]), d)) for row, t, d in some)
        for name, some in changes.items()
    }


@pytest.mark.parametrize("dtype", OF_TYPE)
def test_a_history_is_what_is_defined(spark, dtype):
    """For every type: NULL, no right row, retractions; and where it is lowered, at several coordinates."""
    schema = {"v": dtype, "k": "int64"}

    @settings(examples(2, least=1), **SETTINGS)
    @given(seed=st.integers(0, 10**6), coordinates=st.sampled_from([1, 1, 1, 2]))
    def agree(seed, coordinates):
        flow = new_flow(coordinates)
        left, right = flow.input("left", schema), flow.input("right", {"v": dtype})
        for i, comparison in enumerate(COMPARISONS):
            flow.output(f"out{i}", left.dynamic_filter("v", comparison, right))
        given = moving(seed, OF_TYPE[dtype], coordinates)
        expected = by_the_reference(flow, given)
        assert sum(map(len, expected.values())) > 20
        assert rendered(spark, flow, given) == expected

    agree()


def test_a_history_with_several_conditions(spark):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"low": "int64", "high": "int64"})
    flow.output("one", left.dynamic_filter([("v", ">=", "low"), ("v", "<", "high")], right))
    flow.output("two", left.dynamic_filter([("k", ">=", "low"), ("v", "<>", "high")], right))
    given = moving(1, [0, 1, 2, 3], 1)
    given["right"] = [((x, None if x is None else (x + 2) % 4), t, d) for (x,), t, d in given["right"]]
    expected = by_the_reference(flow, given)
    assert all(expected.values())
    assert rendered(spark, flow, given) == expected


@pytest.mark.parametrize(("dtype", "in_driver"), [("int64", 0), ("int64", 3), ("string", 3), ("list<int64>", 0)])
def test_live_runs_are_what_is_defined(spark, dtype, in_driver):
    """Also where some steps are taken in the driver, which has spilled what it held, and some on executors."""

    @settings(examples(1, least=1), **SETTINGS)
    @given(seed=st.integers(0, 10**6), comparisons=st.sampled_from([["<>", "<"], ["=", ">="]]))
    def agree(seed, comparisons):
        compared(dtype, comparisons, [SparkLive(in_driver=in_driver)], seed)

    agree()


def test_several_conditions_and_a_value_of_the_rows_themselves(spark):
    @settings(examples(3, least=2), **SETTINGS)
    @given(data=st.data())
    def agree(data):
        flow = new_flow()
        left, right = flow.input("left", KV), flow.input("right", {"low": "int64", "high": "int64"})
        flow.output("one", left.dynamic_filter([("v", ">=", "low"), ("v", "<", "high")], right))
        flow.output("two", left.dynamic_filter([("k", ">=", "low"), ("v", "<>", "high")], right))
        mean = left.agg(m=tm.avg("v"))
        flow.output("mean", left.dynamic_filter("v", ">", mean).select("k"))
        flow.output("max", left.dynamic_filter("k", "<=", right.agg(m=tm.max("low")), monotone=None))
        some = data.draw(updates(KV, non_negative=True))
        values = data.draw(right_side([0, 1, 2, 3], 1))
        both = [((row[0], None if row[0] is None else (row[0] + 2) % 4), t, d) for row, t, d in values]
        check_equivalent(flow, {"left": some, "right": both}, engines=ENGINES, batchings=[shuffled(1)])

    agree()


def test_a_side_that_only_rises(spark):
    @settings(examples(2, least=2), **SETTINGS)
    @given(data=st.data(), comparison=st.sampled_from(["<", ">="]))
    def agree(data, comparison):
        flow = new_flow()
        left, right = flow.input("left", KV), flow.input("right", KV)
        best = right.agg(v=tm.max("v"))
        flow.output("out", left.dynamic_filter("v", comparison, best, monotone="increasing"))
        inserted = [(row, t, 1) for row, t, _ in data.draw(updates(KV))]
        given = {"left": data.draw(updates(KV)), "right": inserted}
        check_equivalent(flow, given, engines=ENGINES, batchings=[time_by_time])

    agree()


def threshold():
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    flow.output("out", left.dynamic_filter("v", ">", right))
    return flow


def moved(run, old, new):
    """Move the value, and return the rows that it passed."""
    run.delete("right", [(old,)])
    run.insert("right", [(new,)])
    run.advance()
    return sorted(run.changes("out"))


@pytest.fixture
def steps_on_executors(monkeypatch):
    found, run = [], ExecutorStep.run
    monkeypatch.setattr(ExecutorStep, "run", lambda self: found.append(self) or run(self))
    return found


def test_small_steps_of_a_live_run_go_by_the_drivers_index(spark, monkeypatch, steps_on_executors):
    """Nothing of the left side that the value does not pass is looked at."""
    looked_at = []
    truth = DynamicFilterOperator._truth
    monkeypatch.setattr(
        DynamicFilterOperator, "_truth", lambda self, u, v: looked_at.append(u.shape[1]) or truth(self, u, v)
    )
    with threshold().start(tm.Spark(spark)) as run:
        run.insert("left", [(i, i) for i in range(10_000)])
        run.insert("right", [(5_000,)])
        run.advance()
        run.changes("out")
        looked_at.clear()
        assert moved(run, 5_000, 5_003) == [((v, v), 1, -1) for v in (5_001, 5_002, 5_003)]
        assert sum(looked_at) <= 2 * 3
    assert not steps_on_executors


def test_executors_read_the_pages_that_the_value_passes(spark, tmp_path, monkeypatch, steps_on_executors):
    """They do where rows come in so many that they take the step; of what is kept they read a range."""
    monkeypatch.setattr(spill_files, "PAGE", 100)
    read = []
    files = state_files.read_files
    monkeypatch.setattr(spilled_state, "read_files", lambda *said: read.append(files(*said)) or read[-1])
    with threshold().start(tm.Spark(spark, tmp_path, in_driver=1_000)) as run:
        run.insert("left", spark.range(20_000).selectExpr("id AS k", "(id * 7919) % 20000 AS v"))
        run.insert("right", [(5_000,)])
        run.advance()
        assert len(run.changes("out")) == 14_999
        passed = moved(run, 5_000, 5_010)  # in the driver, which sorts the files
        assert [row[1] for row, _, _ in sorted(passed, key=lambda u: u[0][1])] == list(range(5_001, 5_011))
        assert len(steps_on_executors) == 1
        read.clear()
        run.insert("left", spark.range(20_000, 25_000).selectExpr("id AS k", "id AS v"))
        found = moved(run, 5_010, 5_000)
        assert len(steps_on_executors) == 2
        assert len(found) == 5_010
        assert sorted(row[1] for row, _, _ in found)[:10] == list(range(5_001, 5_011))
        assert sum(data.count() for data in read) == 10
        assert len(run.snapshot("out")) == 19_999
    with threshold().start(tm.Spark(spark, tmp_path, in_driver=1_000)) as run:
        assert len(moved(run, 5_000, 24_998)) == 19_998


def test_explain_says_what_is_lowered(spark):
    at_once, lowered = (new_flow(coordinates) for coordinates in (1, 2))
    for flow in (at_once, lowered):
        left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
        flow.output("out", left.dynamic_filter("v", ">", right))
    assert "OrderedDynamicFilter" in at_once.explain(spark=spark)
    assert "BroadcastNestedLoopJoin" in at_once.explain(spark=spark)
    text = lowered.explain(spark=spark)
    assert "OrderedDynamicFilter" not in text
    assert "Join" in text


def test_a_join_by_range_of_nothing_else_is_lowered(spark):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.cross_join(b).filter("v < v_right").select("k", v="v_right"))
    frames = {name: spark.createDataFrame([(1, 1), (2, 2)], "k long, v long") for name in "ab"}
    assert tm.render(flow, spark, frames)["out"].collect() == [(1, 2, 0, 1)]


def test_two_right_rows_are_refused(spark):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    flow.output("out", left.dynamic_filter("v", ">", right))
    frames = {
        "left": spark.createDataFrame([(1, 1)], "k long, v long"),
        "right": spark.createDataFrame([(1,), (2,)], "x long"),
    }
    with pytest.raises(tm.errors.StepError, match=r"more than one row, \(1,\) and \(2,\)"):
        tm.render(flow, spark, frames)
