"""Ctrl-C at any moment of a step: it is taken, or the run is as it was before, or it says that it is of no more use."""

import contextlib
import inspect
import signal
import threading

import pytest
from support.running import KV, new_flow

import tidemill as tm
from tidemill.errors import ClosedRunError
from tidemill.renderer.durable.changelog import Changelogs
from tidemill.renderer.durable.journal import Journal
from tidemill.renderer.durable.recorder import StepRecorder
from tidemill.renderer.durable.step_log import StepLog
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.reference.executor import ReferenceExecutor
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.lifecycle import Lifecycle
from tidemill.renderer.runs.stepper import Stepper

pytestmark = pytest.mark.usefixtures("python_handles_ctrl_c")


def sums():
    flow = new_flow()
    flow.output("o", flow.input("x", KV).group_by("k").agg(s=tm.sum("v")))
    return flow


def interrupted_after(function):
    """That function, with Ctrl-C pressed as it ends."""

    def then_pressed(*args, **more):
        found = function(*args, **more)
        signal.raise_signal(signal.SIGINT)
        return found

    return then_pressed


def begun(tmp_path, engine):
    run = sums().start({"embedded": None, "durable": tm.Embedded(tmp_path), "reference": tm.Reference()}[engine])
    run.insert("x", [(1, 1)])
    run.advance()
    run.changes("o")
    run.insert("x", [(1, 5)])
    return run


def pressed(monkeypatch, of, name, run):
    """Take a step in which Ctrl-C comes as a method ends."""
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(of, name, interrupted_after(getattr(of, name)))
        with pytest.raises(KeyboardInterrupt):
            run.advance()
    assert signal.getsignal(signal.SIGINT) is handler


WORK = {
    "the work": ("embedded", EmbeddedExecutor, "step"),
    "the work of a durable run": ("durable", EmbeddedExecutor, "step"),
    "the specification's work": ("reference", ReferenceExecutor, "step"),
}


@pytest.mark.parametrize("moment", WORK)
def test_work_that_is_interrupted_is_undone(tmp_path, monkeypatch, moment):
    engine, of, name = WORK[moment]
    with begun(tmp_path, engine) as run:
        pressed(monkeypatch, of, name, run)
        assert run.frontier("x") == tm.Antichain([1])
        assert list(run.snapshot("o")) == [(1, 1)]
        run.advance()
        assert list(run.changes("o")) == [((1, 1), 1, -1), ((1, 6), 1, 1)]
        run.insert("x", [(2, 7)])
        run.advance()
        assert list(run.snapshot("o")) == [(1, 6), (2, 7)]


MADE_FINAL = {
    "taking it": ("embedded", Spine, "commit"),
    "taking all of it": ("embedded", EmbeddedExecutor, "commit"),
    "the specification's taking it": ("reference", ReferenceExecutor, "commit"),
    "the frontiers of what is taken": ("embedded", Frontiers, "settle"),
}


@pytest.mark.parametrize("moment", MADE_FINAL)
def test_a_step_that_is_made_final_is_not_left_in_the_middle(tmp_path, monkeypatch, moment):
    """Ctrl-C waits for its end: the step is taken, and the run goes on."""
    engine, of, name = MADE_FINAL[moment]
    with begun(tmp_path, engine) as run:
        pressed(monkeypatch, of, name, run)
        assert list(run.snapshot("o")) == [(1, 6)]
        run.insert("x", [(2, 7)])
        run.advance()
        assert list(run.snapshot("o")) == [(1, 6), (2, 7)]


def test_putting_back_that_is_interrupted_ends_first(tmp_path, monkeypatch):
    with begun(tmp_path, "embedded") as run, monkeypatch.context() as patch:
        patch.setattr(EmbeddedExecutor, "step", interrupted_after(EmbeddedExecutor.step))
        pressed(monkeypatch, Spine, "rollback", run)
        patch.undo()
        assert list(run.snapshot("o")) == [(1, 1)]
        run.advance()
        assert list(run.snapshot("o")) == [(1, 6)]


WRITTEN_DOWN = {
    "writing it down": (StepRecorder, "commit"),
    "the manifest": (StepLog, "commit"),
    "taking what is written down": (Spine, "commit"),
}


@pytest.mark.parametrize("moment", WRITTEN_DOWN)
def test_what_is_written_down_is_there_when_it_is_opened_again(tmp_path, monkeypatch, moment):
    of, name = WRITTEN_DOWN[moment]
    with begun(tmp_path, "durable") as run:
        pressed(monkeypatch, of, name, run)
        assert list(run.snapshot("o")) == [(1, 6)]
    with sums().start(tm.Embedded(tmp_path)) as again:
        assert list(again.snapshot("o")) == [(1, 6)]
        again.insert("x", [(2, 7)])
        again.advance()
    with sums().start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("o")) == [(1, 6), (2, 7)]


def test_rows_that_are_interrupted_on_their_way_into_a_durable_run(tmp_path, monkeypatch):
    """They are in memory and on record, or neither, and the run goes on."""
    with begun(tmp_path, "durable") as run:
        run.advance()
        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedExecutor, "queue", interrupted_after(EmbeddedExecutor.queue))
            with pytest.raises(KeyboardInterrupt):
                run.insert("x", [(1, 100)])
        run.advance()
        assert list(run.snapshot("o")) == [(1, 6)]
    with sums().start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("o")) == [(1, 6)]


@pytest.mark.slow
def test_at_any_moment_of_a_step(tmp_path, monkeypatch):
    """Ctrl-C as each of the functions of a run ends, wherever it is: the step is taken or not, or the run says so."""
    for of in (EmbeddedExecutor, Frontiers, Lifecycle, Stepper, StepRecorder, Journal, Changelogs, StepLog, Spine):
        for name in [n for n, value in vars(of).items() if inspect.isfunction(value)]:
            folder = tmp_path / f"{of.__name__}-{name}"
            with begun(folder, "durable") as run:
                with monkeypatch.context() as patch:
                    patch.setattr(of, name, interrupted_after(getattr(of, name)))
                    with contextlib.suppress(KeyboardInterrupt):
                        run.advance()
                try:
                    found = list(run.snapshot("o"))
                except ClosedRunError:
                    pass
                else:
                    taken = run.frontier("x") == tm.Antichain([2])
                    assert found == [(1, 6 if taken else 1)], (of, name)
                    if not taken:
                        run.advance()
                        assert list(run.snapshot("o")) == [(1, 6)]
                run.executor.close()
            with sums().start(tm.Embedded(folder)) as run:
                found = [(1, 1 if run.frontier("x") == tm.Antichain([1]) else 6)]
                assert list(run.snapshot("o")) == found, (of, name)


def test_other_threads_are_never_interrupted():
    handler = signal.getsignal(signal.SIGINT)
    found = []

    def step():
        with sums().start() as run:
            run.insert("x", [(1, 1)])
            run.advance()
            found.extend(run.snapshot("o"))

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    assert found == [(1, 1)]
    assert signal.getsignal(signal.SIGINT) is handler
