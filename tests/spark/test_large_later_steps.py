"""Large steps that make updates for later steps: of times of several coordinates, delays, inputs that advance apart."""

import functools

import pytest

import tidemill as tm
from tidemill.renderer.spark.live.executor_step import ExecutorStep

KV = {"k": "int64", "v": "int64"}


@pytest.fixture
def taken(monkeypatch):
    """The steps that executors took."""
    found, run = [], ExecutorStep.run
    monkeypatch.setattr(ExecutorStep, "run", lambda self: found.append(1) or run(self))
    return found


def rows(*pairs):
    return [(k, v) for k, v in pairs]


def up_to(*times):
    """The frontier at which just the times up to these are final."""
    return functools.reduce(tm.Antichain.join, map(tm.Antichain.after, times))


def joined(flow):
    """A join, what follows from it, and groups that have to be looked at where no input changes."""
    a, b = flow.input("a", KV), flow.input("b", KV)
    both = a.join(b, on="k").select("k", v="v_right")
    flow.output("both", both)
    flow.output("alone", a.distinct())
    flow.output("n", a.concat(b).group_by("k").agg(n=tm.count(), most=tm.max("v")))
    flow.output("values", both.select("v").distinct())
    return flow


def played(flow, engine, play):
    """What is seen of a run, each time that it is looked at."""
    with flow.start(engine) as run:
        return list(play(run))


def of(run, *names):
    return {name: sorted(map(repr, run.changes(name))) for name in names or run.graph.outputs}


@pytest.mark.parametrize(("in_driver", "going_on"), [(0, False), (3, True)])
def test_updates_beyond_the_frontier_wait(spark, tmp_path, taken, in_driver, going_on):
    """What meets at the join of two times comes in the step that closes it, in this run or in one that goes on."""
    flow = joined(tm.Dataflow(time=("x", "y")))
    found = []
    for engine in (None, tm.Spark(spark, tmp_path, in_driver=in_driver)):
        run = flow.start(engine)
        seen = []
        run.update("a", [((k, 1), (1, 0), 1) for k in range(6)])
        run.update("b", [((k, k), (0, 1), 1) for k in range(9)])
        run.advance_to(up_to((1, 0), (0, 1)))
        seen.append(of(run))
        if going_on and engine is not None:
            run.close()
            run = flow.start(engine)
        run.update("b", [((0, 0), (3, 3), -1), ((7, 7), (0, 4), 2)])
        run.advance_to(up_to((3, 3)))
        seen.append(of(run))
        run.delete("a", rows((1, 1), (2, 1), (3, 1), (4, 1)), time=(5, 0))
        run.advance_to(up_to((5, 0), (0, 4)))
        run.close_inputs()
        seen.append(of(run))
        found.append(seen)
        run.close()
    assert found[1] == found[0]
    assert found[0][0]["both"] == []
    assert found[0][0]["alone"] != []
    assert len(found[0][1]["both"]) == 7
    assert len(taken) >= 2


def test_steps_of_the_driver_are_repeated_by_the_driver(spark, tmp_path, taken):
    """A run that goes on with a smaller ``in_driver`` comes to where the last one was as that did."""
    flow = joined(tm.Dataflow())
    with flow.start(tm.Spark(spark, tmp_path)) as run:
        run.insert("a", rows((1, 1), (2, 2)))
        run.insert("b", rows((1, 3), (3, 3)))
        run.advance()
    with flow.start(tm.Spark(spark, tmp_path, in_driver=0)) as run:
        assert sorted(run.snapshot("both")) == [(1, 3)]
        assert taken == []


def test_a_step_that_fails_leaves_what_waits(spark, tmp_path, taken):
    """What a step that is not taken handed to later ones is taken back, and what was due for it waits again."""
    flow = tm.Dataflow(time=("x", "y"))
    a, b = flow.input("a", KV), flow.input("b", KV)
    both = a.join(b, on="k").select("k", v="v_right")
    divided = both.map_rows(lambda row: (row.k, 60 // row.v), KV)
    flow.output("o", divided)
    flow.output("n", a.concat(b).count("n"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.update("a", [((k, 1), (1, 0), 1) for k in range(4)])
        run.update("b", [((k, 1 + k), (0, 1), 1) for k in range(4)])
        run.advance_to(up_to((1, 0), (0, 1)))
        waiting = [o.waiting for o in run.metrics()]
        assert sum(waiting) > 0
        run.update("b", [((k, k), (2, 0), 1) for k in range(4)])  # 60 // 0
        run.update("a", [((k, 5), (0, 2), 1) for k in range(4)])  # meets the others at (2, 2), which does not close
        with pytest.raises(tm.errors.UserFunctionError, match="division"):
            run.advance_to(up_to((2, 1), (1, 2)))
        run.discard()
        assert [o.waiting for o in run.metrics()] == waiting
        assert of(run, "o") == {"o": []}
        run.update("b", [((k, k), (2, 0), 1) for k in range(1, 4)])
        run.advance_to(up_to((2, 1), (1, 2)))
        assert len(run.snapshot("o", at=(1, 1))) == 4
        assert len(run.changes("o")) == 7
        run.close_inputs()
        assert sorted(run.snapshot("o")) == [(0, 60), (1, 30), (1, 60), (2, 20), (2, 30), (3, 15), (3, 20)]
    assert len(taken) >= 3


def test_large_changes_that_are_delayed(spark, tmp_path, taken):
    """By steps, and by a function: `even` moves some of what comes to times that close only later."""

    def even(time):
        return time + time % 2

    flow = tm.Dataflow()
    x, y = flow.input("x", KV), flow.input("y", KV)
    later = x.delay(2)
    flow.output("later", later)
    flow.output("gone", x.concat(later.negate()).count("n"))
    flow.output("met", later.join(y, on="k").select("k", v="v_right").delay(even).distinct())

    def play(run):
        for epoch in range(6):
            if epoch in (0, 3):
                run.insert("x", rows(*((k, epoch) for k in range(6))))
            if epoch in (1, 2):
                run.insert("y", rows(*((k, k) for k in range(2 * epoch, 2 * epoch + 2))))
            if epoch == 4:
                run.delete("x", rows(*((k, 0) for k in range(5))))
            run.advance()
            yield of(run)
        run.close_inputs()
        yield of(run)

    assert played(flow, None, play) == played(flow, tm.Spark(spark, tmp_path, in_driver=3), play)
    assert len(taken) >= 3


@pytest.mark.parametrize("coordinates", [1, 2])
def test_inputs_that_advance_apart(spark, tmp_path, taken, coordinates):
    """What comes to an input that is ahead shows in outputs that hang on it alone, and meets others when these come."""

    def at(t):
        return (t, t // 2)[:coordinates]

    flow = joined(tm.Dataflow(time=["x", "y"][:coordinates]))

    def play(run):
        run.update("a", [((k, k), at(t), 1) for k in range(5) for t in (0, 3)])
        run.advance_to(at(4), input="a")
        yield of(run)
        run.update("b", [((k, -k), at(1), 1) for k in range(8)])
        run.advance_to(at(2), input="b")
        yield of(run)
        run.update("a", [((k, k), at(4), -1) for k in range(5)])
        run.update("b", [((k, 7), at(5), 1) for k in range(4)])
        run.advance_to(at(7), input="b")
        yield of(run)
        run.close_inputs()
        yield of(run)

    assert played(flow, None, play) == played(flow, tm.Spark(spark, tmp_path, in_driver=3), play)
    assert len(taken) >= 3


def test_a_loop_of_large_changes_at_several_coordinates(spark, tmp_path, taken):
    flow = tm.Dataflow("reach", time=("x", "y"))
    edges, start = flow.input("edges", {"a": "int64", "b": "int64"}), flow.input("start", {"node": "int64"})
    reach = start.iterate(lambda here: here.join(edges, on={"node": "a"}).select(node="b").concat(start).distinct())
    flow.output("reach", reach)
    flow.output("counted", reach.join(edges, on={"node": "a"}).group_by("node").agg(n=tm.count()))
    found = []
    for engine in (None, tm.Spark(spark, tmp_path, in_driver=3)):
        with flow.start(engine) as run:
            run.update("edges", [((i, i + 1), (0, 1), 1) for i in range(5)] + [((2, 7), (0, 2), 1)])
            run.update("start", [((n,), (1, 0), 1) for n in (0, 3)])
            run.advance_to(up_to((1, 0), (0, 2)))
            seen = [of(run)]
            run.update("edges", [((i, i + 1), (2, 1), -1) for i in range(1, 5)])
            run.advance_to(up_to((2, 1), (1, 3)))
            seen.append(of(run))
            run.close_inputs()
            found.append([*seen, of(run)])
    assert found[1] == found[0]
    assert len(taken) >= 2


def test_a_unique_input_at_several_coordinates(spark, tmp_path):
    """Two times that each are right can be wrong where they meet: found in the step that closes it."""
    flow = tm.Dataflow(time=("x", "y"))
    flow.output("o", flow.input("x", {"i": "int64"}, unique=True).select(i="i * 2"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=1)) as run:
        run.update("x", [((i,), (1, 0), 1) for i in range(4)])
        run.update("x", [((3,), (0, 1), 1)])
        run.advance_to(up_to((1, 0), (0, 1)))
        with pytest.raises(tm.errors.StepError, match=r"\(3,\)"):
            run.advance_to((2, 2))
        run.update("x", [((3,), (1, 1), -1), ((9,), (1, 1), 1)])
        run.advance_to((2, 2))
        assert sorted(run.snapshot("o", at=(1, 1))) == [(0,), (2,), (4,), (6,), (18,)]


@pytest.mark.parametrize("coordinates", [1, 2])
def test_dataframes(spark, tmp_path, taken, coordinates):
    """Put in at various times, delayed, and taken by executors alone: what waits comes to the driver and back."""
    flow = tm.Dataflow(time=["x", "y"][:coordinates])
    x = flow.input("x", {"i": "int64", "s": "string"})
    flow.output("now", x.select("s").distinct())
    flow.output("later", x.delay(2 if coordinates == 1 else (0, 2)))
    some = spark.sql("SELECT id i, concat('s', id % 3) s FROM range(10)")

    def at(t):
        return (t, 1)[:coordinates]

    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", some, time=at(0))
        run.delete("x", some.filter("i > 3"), time=at(2))
        run.advance_to(up_to(at(0)))
        run.advance_to(up_to(at(2)))
        assert len(run.snapshot("now", at=at(2))) == 3
        run.close_inputs()
        assert sorted(run.snapshot("later")) == [(i, f"s{i % 3}") for i in range(4)]
        later = [time for _, time, _ in run.changes("later")]
        assert later == [2] * 10 + [4] * 6 if coordinates == 1 else sorted(later) == [(0, 3)] * 10 + [(2, 3)] * 6
    assert len(taken) >= 2
