"""Ctrl-C at any moment of a step: it is taken, or the run is as it was before."""

import signal
import threading

import pytest
from running import KV, new_flow

import tidemill as tm
from tidemill.renderer.durable import Durable
from tidemill.renderer.embedded.run import EmbeddedRun
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.reference.engine import Reference, ReferenceRun
from tidemill.renderer.runs.interrupts import Interrupts


@pytest.fixture(autouse=True)
def python_handles_it():
    """Also where who started the tests had it ignored, as shells do in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def sums():
    flow = new_flow()
    flow.output("o", flow.input("x", KV).group_by("k").agg(s=tm.sum("v")))
    return flow


def interrupted_after(function):
    """That function, with Ctrl-C pressed as it ends."""

    def pressed(*args):
        found = function(*args)
        signal.raise_signal(signal.SIGINT)
        return found

    return pressed


def begun(tmp_path, engine):
    run = sums().start({"embedded": None, "durable": Durable(tmp_path), "reference": Reference()}[engine])
    run.insert("x", [(1, 1)])
    run.advance()
    run.changes("o")
    run.insert("x", [(1, 5)])
    return run


MOMENTS = {
    "the work": ("embedded", EmbeddedRun, "_work", False),
    "putting back": ("embedded", Spine, "rollback", False),
    "taking it": ("embedded", Spine, "commit", True),
    "writing it down": ("durable", EmbeddedRun, "_work", False),
    "taking what is written down": ("durable", Spine, "commit", True),
    "the specification's work": ("reference", ReferenceRun, "_inspect", False),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_step_is_taken_or_not(tmp_path, monkeypatch, moment):
    engine, of, name, taken = MOMENTS[moment]
    handler = signal.getsignal(signal.SIGINT)
    with begun(tmp_path, engine) as run:
        with monkeypatch.context() as patch:
            patch.setattr(of, name, interrupted_after(getattr(of, name)))
            if name == "rollback":
                patch.setattr(EmbeddedRun, "_write_down", interrupted_after(EmbeddedRun._write_down))
            with pytest.raises(KeyboardInterrupt):
                run.advance()
        assert signal.getsignal(signal.SIGINT) is handler
        assert run.frontier("x") == tm.Antichain([2 if taken else 1])
        assert list(run.snapshot("o")) == [(1, 6 if taken else 1)]
        if not taken:
            run.advance()
        assert list(run.changes("o")) == [((1, 1), 1, -1), ((1, 6), 1, 1)]
        run.insert("x", [(2, 7)])
        run.advance()
        assert list(run.snapshot("o")) == [(1, 6), (2, 7)]


def test_what_is_committed_is_taken(tmp_path, monkeypatch):
    """Ctrl-C while the log is written does not close the run, and the next one on the folder has the step."""
    from tidemill.renderer.durable.step_log import StepLog

    with begun(tmp_path, "durable") as run:
        with monkeypatch.context() as patch:
            patch.setattr(StepLog, "commit", interrupted_after_keywords(StepLog.commit))
            with pytest.raises(KeyboardInterrupt):
                run.advance()
        assert list(run.snapshot("o")) == [(1, 6)]
        run.insert("x", [(2, 7)])
        run.advance()
    with sums().start(Durable(tmp_path)) as run:
        assert list(run.snapshot("o")) == [(1, 6), (2, 7)]


def interrupted_after_keywords(function):
    return lambda *args, **more: (function(*args, **more), signal.raise_signal(signal.SIGINT))


def test_handlers_of_others_are_called_and_put_back():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        ours = signal.getsignal(signal.SIGINT)
        with Interrupts() as interrupts:
            interrupts.hold()
            interrupts.hold()
            signal.raise_signal(signal.SIGINT)
            assert not seen
        assert seen == [1]
        assert signal.getsignal(signal.SIGINT) is ours
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts() as interrupts:
            interrupts.hold()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


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
