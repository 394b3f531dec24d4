"""Loops on Spark: rounds, nested rounds, several bindings, limits."""

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from support.elsewhere import fetching_at_most
from support.running import KV, many_examples, new_flow, parity, traces, two_hops

import tidemill as tm
from tidemill.testing.spark_engines import SparkHistories


def to_even(time):
    return time + time % 2 if isinstance(time, int) else tuple(c + c % 2 for c in time)


def distances(a, b):
    def nearer(here):
        moved = here.join(b.distinct(), on={"k": "k"}).select(k="v_right", v="v + 1")
        return moved.concat(a.select("k", v="0")).group_by("k").agg(v=tm.min("v"))

    return a.select("k", v="0").distinct().iterate(nearer, error_at=30)


LOOPS: dict[str, Callable[..., Any]] = {
    "reach": lambda a, b: a.distinct().iterate(lambda here: two_hops(here, b).concat(a).distinct(), error_at=50),
    "parity": parity,
    "least labels": lambda a, b: a.distinct().iterate(
        lambda here: two_hops(here, b.distinct()).concat(a.distinct()).group_by("k").agg(v=tm.min("v")), return_at=4
    ),
    "closure": lambda a, b: b.distinct().iterate(lambda here: two_hops(here, here).concat(b).distinct(), error_at=50),
    "halves": lambda a, b: a.iterate(lambda here: here.concat(b.negate()).threshold(lambda row, n: n // 2), return_at=3),
    "user's reduce": lambda a, b: a.distinct().iterate(
        lambda here: two_hops(here, b.distinct()).concat(a).distinct().group_by("k").reduce(
            lambda key, rows: [((*key, rows[0][0][0]), 1)], KV), return_at=4
    ),
    "total in a loop": lambda a, b: a.iterate(lambda here: two_hops(here, b).agg(k=tm.count(), v=tm.sum("v")), return_at=3),
    "delay in a loop": lambda a, b: a.iterate(lambda here: two_hops(here.delay(to_even), b).distinct(), return_at=3),
    "linear": lambda a, b: a.iterate(lambda here: here.filter("v > 0").select("k", v="v - 1").concat(a)),
    "loops in a loop": lambda a, b: a.distinct().iterate(
        lambda here: here.iterate(lambda inner: two_hops(inner, b).concat(here).distinct(), error_at=50)
        .filter("k <> 1").concat(a).distinct(), error_at=50
    ),
    "one loop after another": lambda a, b: parity(LOOPS["reach"](a, b), b),
}  # fmt: skip
CYCLIC = [
    "reach", "parity", "least labels", "closure", "halves", "user's reduce", "total in a loop", "delay in a loop", "linear",
    "loops in a loop",
]  # fmt: skip


def updates(coordinates, latest, seed, count):
    dice, found = random.Random(seed), []
    for _ in range(count):
        row = (dice.randrange(4), dice.randrange(4))
        time = tuple(dice.randrange(latest) for _ in range(coordinates))
        after = tuple(c + dice.randrange(2) for c in time)  # counts are never negative, so that loops settle
        changes = [(time, 1), (after, -1)] if dice.random() < 0.4 else [(time, 1)]
        found += [(row, t[0] if coordinates == 1 else t, diff) for t, diff in changes]
    return found


TIMES = {"one time": (1, 1), "epochs": (1, 3), "two coordinates": (2, 2)}


@pytest.mark.parametrize("times", TIMES if many_examples() else ["two coordinates"])
def test_loops(spark, times):
    coordinates, latest = TIMES[times]
    given = {n: updates(coordinates, latest, i, 9) for i, n in enumerate("ab")}
    build = lambda a, b: [LOOPS[name](a, b) for name in CYCLIC]  # noqa: E731
    embedded, onspark = (
        dict(zip(CYCLIC, traces(engine, build, given, coordinates=coordinates))) for engine in ("embedded", "spark")
    )
    assert {o: (onspark[o], embedded[o]) for o in CYCLIC if onspark[o] != embedded[o]} == {}
    assert all(embedded.values())


@pytest.mark.parametrize("times", TIMES)
def test_loops_taken_in_the_driver(spark, times):  # noqa: ARG001 - the session
    coordinates, latest = TIMES[times]
    given = {n: updates(coordinates, latest, i, 9) for i, n in enumerate("ab")}
    build = lambda a, b: [LOOPS[name](a, b) for name in LOOPS if times != "two coordinates" or name in CYCLIC]  # noqa: E731
    in_driver = traces(SparkHistories(in_driver=100), build, given, coordinates=coordinates)
    assert in_driver == traces("embedded", build, given, coordinates=coordinates)
    assert all(in_driver)


def test_one_loop_after_another_and_distances(spark):
    build = lambda a, b: [LOOPS["one loop after another"](a, b), distances(a, b.filter("k < v"))]  # noqa: E731
    given = {
        "a": [((0, 1), 0, 1), ((0, 1), 1, -1)],
        "b": [((0, 1), 0, 1), ((1, 2), 1, 1), ((2, 3), 0, 1), ((3, 0), 1, 1)],
    }
    assert traces("spark", build, given) == traces("embedded", build, given)


@pytest.mark.parametrize("in_driver", [0, 100])
@pytest.mark.parametrize(("limit", "fine"), [(2, False), (3, True)])
def test_limits(spark, limit, fine, in_driver):
    flow = new_flow()
    one = flow.constant({"i": "int64"}, [(1,)])
    flow.output(
        "out", one.iterate(lambda here: here.filter("i < 3").select(i="i + 1").concat(one).distinct(), error_at=limit)
    )
    frames = {}
    if fine:
        assert sorted(r.i for r in tm.render(flow, spark, frames, in_driver=in_driver)["out"].collect()) == [1, 2, 3]
    else:
        with pytest.raises(tm.errors.IterationLimitError, match=r"error_at=2.*row \(3,\)"):
            tm.render(flow, spark, frames, in_driver=in_driver)


@pytest.fixture
def steps(monkeypatch):
    """The steps that are rendered."""
    from tidemill.renderer.spark import render
    from tidemill.renderer.spark.step import Step

    found, kind = [], Step
    monkeypatch.setattr(render, "Step", lambda *args, **more: found.append(made := kind(*args, **more)) or made)
    return found


@pytest.mark.parametrize(("in_driver", "rounds"), [(4, 0), (3, 4)])
def test_up_to_a_number_of_updates_that_come_in_the_driver_takes_a_loop(spark, steps, in_driver, rounds):  # noqa: ARG001
    """They count once, however many arrangements of them come in."""
    found = traces(SparkHistories(in_driver), reached, chain(4))
    assert found == traces("embedded", reached, chain(4))
    assert [step.rounds for step in steps] == [rounds]


def test_a_loop_that_grows_too_large_for_the_driver_goes_to_the_executors(spark, steps, monkeypatch, caplog):  # noqa: ARG001
    from tidemill.renderer.spark import driver_loops

    monkeypatch.setattr(driver_loops, "_LOOK_EVERY", 0)
    monkeypatch.setattr(driver_loops, "_STATE", 2)
    caplog.set_level("INFO", logger="tidemill.spark")
    found = traces(SparkHistories(in_driver=6), reached, chain(6))
    assert found == traces("embedded", reached, chain(6))
    assert steps[0].rounds >= 6
    assert "the loop 'iterate' is too large for the driver, the executors take it" in caplog.text


@pytest.mark.parametrize("many", [30, 1000])
def test_pairs_that_are_too_many_for_the_driver_are_not_made_there(spark, steps, monkeypatch, caplog, many):  # noqa: ARG001
    """Of all that comes into one node with all that goes out of it, which nothing has come to hold yet."""
    from tidemill.renderer.embedded.operators import join
    from tidemill.renderer.spark import driver_loops

    monkeypatch.setattr(driver_loops, "_LOOK_EVERY", 1e9)
    monkeypatch.setattr(join, "MANY", many)
    caplog.set_level("INFO", logger="tidemill.spark")
    star = {"a": [((i, 0), 0, 1) for i in range(1, 21)] + [((0, -i), 0, 1) for i in range(1, 21)]}
    for state, rounds in ((10, 0), (9, 2)):  # of the 400 pairs, or of fewer
        monkeypatch.setattr(driver_loops, "_STATE", state)
        assert traces(SparkHistories(in_driver=40), reached, star) == traces("embedded", reached, star)
        assert steps.pop().rounds >= rounds
        assert ("is too large for the driver, the executors take it" in caplog.text) == (rounds > 0)


def test_rows_of_more_bytes_than_the_driver_may_fetch_are_the_executors_to_take(spark, steps, caplog):
    caplog.set_level("INFO", logger="tidemill.spark")
    flow, size, names = tm.Dataflow(), 100_000, {"k": "string", "v": "string"}
    flow.output("reached", reached(flow.input("edges", names)).select(n="length(k) + length(v)"))
    edges = spark.createDataFrame([("a" * size, "b" * size), ("b" * size, "c" * size)], "k string, v string")
    with fetching_at_most(spark, "300k"):
        found = tm.render(flow, spark, {"edges": edges})["reached"]
    assert [tuple(row) for row in found.collect()] == [(2 * size, 0, 3)]
    assert steps[0].rounds > 1
    assert "too large for the driver" in caplog.text


def test_what_comes_into_and_out_of_a_loop_in_the_driver_is_of_any_type(spark, steps):  # noqa: ARG001
    """And there may be nothing of it: of what comes in, of what comes out."""
    rows = [("é", None, Decimal("1.5"), -0.0), (None, b"x", None, float("nan"))]
    schema = {"s": "string", "b": "binary", "d": "decimal(5, 2)", "f": "float64"}

    def build(a, b):
        looped = a.iterate(lambda here: here.concat(a, b).distinct(), return_at=3)
        return [
            looped,
            b.iterate(lambda here: here.concat(b).distinct()),
            a.iterate(lambda here: here.filter("s = ''")),
        ]

    given = {"a": [(row, i, 1) for i, row in enumerate(rows)], "b": []}
    found = traces(SparkHistories(in_driver=9), build, given, schema={"a": schema, "b": schema})
    assert repr(found) == repr(traces("embedded", build, given, schema={"a": schema, "b": schema}))
    assert [len(updates) for updates in found] == [2, 0, 0]
    assert [step.rounds for step in steps] == [0]


def test_a_hundred_epochs_cost_as_many_rounds_as_one(spark, steps):  # noqa: ARG001
    for epochs in (1, 20):
        edges = [((i, i + 1), (i * 7) % epochs, 1) for i in range(4)]
        traces("spark", lambda a: a.iterate(lambda here: two_hops(here, a).concat(a).distinct()), {"a": edges})
    assert steps[0].rounds == steps[1].rounds


def chain(length):
    return {"a": [((i, i + 1), 0, 1) for i in range(length)]}


def reached(a):
    return a.iterate(lambda here: two_hops(here, a).concat(a).distinct())


def test_a_round_of_distinct_computes_what_changes_and_what_is_stored_at_once(spark, steps, monkeypatch):  # noqa: ARG001
    from tidemill.renderer.spark import frames, native

    computed, real = [], frames.checkpointed
    for module in (frames, native):
        monkeypatch.setattr(module, "checkpointed", lambda *args: computed.append(args) or real(*args))
    traces("spark", reached, chain(6))
    assert steps[0].rounds >= 6
    assert len(computed) <= steps[0].rounds + 2  # besides, what is joined in each round, and the output


@pytest.mark.parametrize("cells", [0, 30])
def test_only_what_a_round_touches_is_read_of_much_that_is_stored(spark, monkeypatch, cells):
    from tidemill.renderer.spark import native

    monkeypatch.setattr(native, "_SHUFFLED_CELLS", cells)
    given = {"a": [((0, 1), 0, 2), ((1, 2), 0, 1), ((2, 0), 0, 1), ((2, 3), 0, 1), ((3, 3), 0, -1), ((3, 1), 0, 1)]}
    limited = lambda a: a.iterate(lambda here: two_hops(here, a).concat(a).distinct(), return_at=5)  # noqa: E731
    assert traces("spark", limited, given) == traces("embedded", limited, given)


def test_rounds_without_work_are_jumped_over(spark):
    """The inner loop runs where something came in, and its later rounds where something is owed."""
    build = lambda a: a.iterate(lambda x: x.iterate(lambda y: y.filter("v > 0").select("k", v="v - 1")).filter("k > 5"))  # noqa: E731
    given = {"a": [((1, 2), 0, 1), ((2, 0), 1, 1)]}
    assert traces("spark", build, given) == traces("embedded", build, given)
