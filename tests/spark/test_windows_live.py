"""Window calls in live runs: partitions are kept in their order in the driver, and large steps leave rows for that."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace import spine
from tidemill.renderer.embedded.windows import changes, scalar

SCHEMA = {"k": "string", "t": "timestamp", "x": "float64"}
TEXT = "k string, t timestamp_ntz, x double"
W = tm.Window.partition_by("k").order_by(tm.desc("t"))
AT = [None, *(dt.datetime(2024, 3, day, 12) for day in (1, 2, 3))]
ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(AT), st.sampled_from([0.1, 1e20, -2.0, None]))


def calls(strategy="auto"):
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA)
    near = tm.sum("x").over(W.rows_between(-1, 1), strategy=strategy)
    days = tm.count().over(W.range_between(tm.interval(days=-1), 0), strategy=strategy)
    so_far = tm.max("x").over(W.rows_between(tm.UNBOUNDED, 0), strategy=strategy)
    flow.output("near", x.with_columns(near=near, days=days, so_far=so_far))
    flow.output("places", x.with_columns(n=tm.row_number().over(tm.Window.order_by("x"), strategy=strategy)))
    return flow


def seen(run):
    return [sorted(map(repr, f)) for name in ("near", "places") for f in (run.changes(name), run.snapshot(name))]


@pytest.fixture
def in_order(monkeypatch):
    """How often the driver worked changes out in order; partitions of three rows are large."""
    made = []
    changed = changes.Evaluator.changed
    monkeypatch.setattr(scalar, "ROWS", -1)
    monkeypatch.setattr(changes.Evaluator, "changed", lambda *given: made.append(given) or changed(*given))
    monkeypatch.setattr(spine, "TAIL", 1)
    monkeypatch.setattr(ordered_windows, "LARGE", 3)
    monkeypatch.setattr(ordered_windows, "SMALL", 2)
    monkeypatch.setattr(ordered_windows, "MANY", 1)
    return made


def test_large_and_small_steps_take_turns(spark, tmp_path_factory, in_order):
    large, small = st.lists(ROWS, min_size=4, max_size=12), st.lists(ROWS, max_size=3)
    epochs = st.lists(st.tuples(st.booleans(), large, small, st.booleans()), min_size=2, max_size=3)

    @examples(2, least=2)
    @given(epochs)
    def check(epochs):
        engine = tm.Spark(spark, tmp_path_factory.mktemp("state"), in_driver=3, checkpoint_every=2)
        there: list[tuple[Any, ...]] = []
        with calls().start(tm.Reference()) as right:
            run = calls().start(engine)
            for is_large, many, few, again in epochs:
                rows = many if is_large else few
                gone = there[:2]
                there = there[2:] + rows
                right.insert("x", rows)
                run.insert("x", spark.createDataFrame(rows, TEXT) if is_large else rows)
                for each in (right, run):
                    each.delete("x", gone)
                    each.advance()
                assert seen(run) == seen(right)
                if again:
                    run.close()
                    run = calls().start(engine)
            run.close()

    check()


def test_an_order_that_was_asked_for_is_kept_after_a_large_load(spark, tmp_path, in_order):
    rows = [("a", AT[1 + i % 3], float(i)) for i in range(30)]
    with calls("ordered").start(tm.Spark(spark, tmp_path, in_driver=10)) as run, calls().start() as right:
        run.insert("x", spark.createDataFrame(rows, TEXT))
        right.insert("x", rows)
        for each in (run, right):
            each.advance()
            each.insert("x", [("a", AT[2], 7.5)])
            each.advance()
        assert seen(run) == seen(right)
        assert len(in_order) == 4  # of two windows, in two runs


def test_states_of_runs_in_one_process_go_on_beside_spark(spark, tmp_path):
    rows = [("a", AT[1 + i % 3], float(i)) for i in range(30)]
    with calls().start(tm.Reference()) as right:
        for engine in (tm.Embedded(tmp_path), tm.Spark(spark, tmp_path, in_driver=10), tm.Embedded(tmp_path)):
            with calls().start(engine) as run:
                right.insert("x", rows)
                run.insert("x", spark.createDataFrame(rows, TEXT) if isinstance(engine, tm.Spark) else rows)
                for each in (right, run):
                    each.advance()
                assert seen(run) == seen(right)


def test_a_refused_large_step_leaves_the_order_as_it_was(spark, tmp_path, in_order):
    rows = [("a", AT[1 + i % 3], float(i)) for i in range(8)]
    with calls().start(tm.Spark(spark, tmp_path, in_driver=8)) as run, calls().start(tm.Reference()) as right:
        for each in (run, right):
            each.insert("x", rows)
            each.advance()
            each.insert("x", [("a", AT[2], 7.5)])
            each.advance()
        run.delete("x", spark.createDataFrame([*rows, ("a", AT[1], 1.5)], TEXT))
        with pytest.raises(tm.errors.StepError, match=r"1\.5.*-1"):
            run.advance()
        run.discard()
        for each in (run, right):
            each.delete("x", [("a", AT[2], 7.5)])
            each.advance()
        assert seen(run) == seen(right)
        assert len(in_order) >= 2


def test_a_rendering_has_no_order_to_keep(spark):
    with pytest.raises(tm.errors.EngineError, match=r"tm\.render computes every partition once"):
        tm.render(calls("ordered"), spark, {"x": spark.createDataFrame([], TEXT)})
