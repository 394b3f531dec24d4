"""Callbacks after each step: progress for those who follow a run."""

import pytest
from support.running import KV, start

import tidemill as tm
from tidemill.errors import ClosedRunError, ExpressionError


@pytest.fixture
def run(engine):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", KV).select(q="k / v"))
    with start(flow, engine) as started:
        yield started


def test_each_step_taken_is_told(run):
    told = []
    stop = run.on_step(told.append)
    run.insert("x", [(1, 0)])
    with pytest.raises(ExpressionError):
        run.advance()
    run.discard()
    run.advance_to(3)
    run.advance_to(4)
    run.close_inputs()
    stop()
    stop()
    assert [(s.number, s.frontiers["y"], s.inputs["x"]) for s in told] == [
        (1, tm.Antichain([(3,)]), tm.Antichain([(3,)])),
        (2, tm.Antichain([(4,)]), tm.Antichain([(4,)])),
        (3, tm.Antichain(), tm.Antichain()),
    ]
    assert all(s.seconds >= 0 for s in told)


def test_a_callback_ends_when_it_is_stopped(run):
    told = []
    stop = run.on_step(told.append)
    run.on_step(lambda step: stop() if step.number == 2 else None)
    for _ in range(4):
        run.advance()
    assert [s.number for s in told] == [1, 2]


def test_what_a_callback_raises_does_not_undo_the_step(run):
    told = []

    def fails(step):
        msg = f"step {step.number}"
        raise ValueError(msg)

    stop = run.on_step(fails)
    run.on_step(fails)
    run.on_step(told.append)
    run.insert("x", [(4, 2)])
    with pytest.raises(ValueError, match="step 1") as error:
        run.advance()
    assert error.value.__notes__ == ["raised by a callback of run.on_step; the step itself was taken"]
    assert len(told) == 1
    assert list(run.snapshot("y")) == [(2.0,)]
    stop()
    with pytest.raises(ValueError, match="step 2"):
        run.advance()
    assert run.frontier("y") == tm.Antichain([(2,)])


def test_a_callback_may_read_and_write(run):
    seen = []

    def follow(step):
        seen.append(list(run.changes("y")))
        if step.number < 3:
            run.insert("x", [(step.number, 1)])

    run.on_step(follow)
    for _ in range(3):
        run.advance()
    assert seen == [[], [((1.0,), 1, 1)], [((2.0,), 2, 1)]]


def test_a_closed_run_tells_nothing(run):
    run.close()
    with pytest.raises(ClosedRunError):
        run.on_step(print)
