"""Ctrl-C at any instruction of what changes a durable run: before or after, and nothing in between.

The kind: an interrupt between something that is done and that it is known to be. A segment file was made and not noted,
so the run took it for another process's; a commit was being noted, and the run closed without a word on the step; the
KeyboardInterrupt was replaced by what a half written zip says as it is closed.
"""

import random
import signal
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.interrupts import instructions, interrupted
from support.running import scaled

import tidemill as tm
from tidemill.errors import ClosedRunError
from tidemill.renderer.durable import recorder
from tidemill.renderer.durable.spill_files import Layout, write_block
from tidemill.renderer.durable.step_log import StepLog
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.whole_file import put_in_place
from tidemill.renderer.runs.interrupts import deferred, let_through


def sums():
    flow = tm.Dataflow("sums")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(s=tm.sum("v")))
    return flow


FLOW = sums()
NEW = [("a", 8), *((f"b{i}", 0) for i in range(20))]


def put(run):
    run.insert("x", NEW)


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    # what is done before, what is interrupted, and the engine's options
    "step": (put, lambda run: run.advance(), {}),
    "step and checkpoint": (put, lambda run: run.advance(), {"checkpoint_every": 1}),
    "step and spill": (put, lambda run: run.advance(), {"checkpoint_every": 1, "in_memory": 5}),
    "load": (put, lambda run: run.advance(), {}),
    "load and spill": (put, lambda run: run.advance(), {"in_memory": 5}),
    "checkpoint": (None, lambda run: run.checkpoint(), {}),
    "delivery": (None, lambda run: run.deliver("s", 1, put), {}),
    "rows": (None, put, {}),
}


@pytest.fixture(autouse=True)
def handler():
    """Python's own handler, which a job in the background may not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def total(run):
    return sum(row[1] for row in run.snapshot("n"))


@pytest.fixture
def begun(tmp_path):
    """Starts runs in new folders, each with a checkpoint and a step, and a sum of 3."""

    def begin(number, case, *, log=False):
        before, _, options = CASES[case]
        folder = tmp_path / str(number)
        with FLOW.start(tm.Embedded(folder)) as run:
            for v in (1, 2):
                run.insert("x", [("a", v)])
                run.advance()
                if v == 1:
                    run.checkpoint()
        run = FLOW.start(tm.Embedded(folder, **options))
        if log:
            run.to_changelog(tmp_path / f"log {number}")
        if before is not None:
            before(run)
        return folder, run

    return begin


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_an_interrupt_is_before_or_after(case, log, begun, monkeypatch):
    """A `KeyboardInterrupt` each time, a run that goes on, and a folder that holds what the run says."""
    if case.startswith("load"):
        monkeypatch.setattr(recorder, "_CHECKPOINT", 3)
        monkeypatch.setattr(recorder, "_LOADED", 100)
    do = CASES[case][1]
    _, run = begun("all", case, log=log)
    with run:
        many = instructions(partial(do, run))
    rng, found = random.Random(f"{case} {log}"), set()
    late = many - many // 4  # where things are made final
    places = {rng.randrange(1, many) for _ in range(scaled(30))} | {
        rng.randrange(late, many) for _ in range(scaled(30))
    }
    places.add(max(many // 20, 1))  # long before
    for at in sorted(places):
        folder, run = begun(at, case, log=log)
        where, error = interrupted(partial(do, run), at)
        if where is None:  # it took fewer this time
            run.close()
            continue
        assert isinstance(error, KeyboardInterrupt), where
        with run:
            found.add(total(run))
            assert total(run) in {3, 11}, where
            run.insert("x", [("a", 100)])
            run.advance()
            run.checkpoint()
            held = total(run)
        assert held in {103, 111}, where
        with FLOW.start(tm.Embedded(folder)) as run:
            assert total(run) == held, where
    assert found == {3, 11} if case in ("step", "delivery", "step and checkpoint") else found <= {3, 11}


def write_in_place(folder):
    folder.mkdir()
    put_in_place(folder / "there", lambda file: file.write(b"whole"))


def write_spilled(folder):
    folder.mkdir()
    write_block(folder / "pages", Layout((0,), (None,), 1, 1, 1), np.ones((3, 9), np.int64), Interner())


def open_log(folder):
    StepLog(folder)


def open_and_close(folder):
    with FLOW.start(tm.Embedded(folder)) as run:
        run.advance()


OPENED = [
    pytest.param(write_in_place, 2, id="in place"),
    pytest.param(write_spilled, 50, id="spilled"),
    pytest.param(open_log, 5, id="log"),
    pytest.param(open_and_close, 4000, id="run", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("do", "every"), OPENED)
def test_an_interrupt_leaves_nothing_open(do, every, tmp_path, monkeypatch):
    """Nor locked: what holds a file or a folder is known to somebody who lets go of it, be the error still at hand.

    A checkpoint's temporary file stayed open, a Parquet file was closed before its writer, and a folder stayed locked
    for as long as the interrupt was shown, which came as it was opened or closed.
    """
    ignored = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: ignored.append(found.exc_value))
    do(tmp_path / "first")
    many = instructions(partial(do, tmp_path / "all"))
    for at in [*range(1, many, every), *range(many - 300, many, max(every // 20, 1))]:
        folder = tmp_path / str(at)
        where, error = interrupted(partial(do, folder), at)
        if where is None:
            continue
        assert isinstance(error, KeyboardInterrupt), where
        assert not ignored, where
        if do in (open_log, open_and_close):  # which is nobody's any more
            do(folder)
        del error
        assert not ignored, where
        assert not [*folder.rglob("*.tmp")], where


def test_interrupts_wait_and_come_once():
    came = []
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117, PT012 - one within the other
        with deferred():
            with deferred():
                signal.raise_signal(signal.SIGINT)
                came.append("inside")
            came.append("outside")
    assert came == ["inside", "outside"]
    with pytest.raises(KeyboardInterrupt), deferred(), let_through():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        came.append("never")
    with pytest.raises(KeyboardInterrupt), deferred():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        with let_through():
            came.append("never")
    assert came == ["inside", "outside"]
    with deferred():
        try:
            with let_through():
                try:
                    signal.raise_signal(signal.SIGINT)
                finally:
                    signal.raise_signal(signal.SIGINT)  # what is done about the first is done whole
                    came.append("undone")
        except KeyboardInterrupt:
            came.append("first")
        with pytest.raises(KeyboardInterrupt), let_through():
            came.append("never")
    assert came == ["inside", "outside", "undone", "first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_is_set_meanwhile_stays():
    def own(*given):
        raise AssertionError(given)

    with deferred(), let_through():
        signal.signal(signal.SIGINT, own)
    assert signal.getsignal(signal.SIGINT) is own


def test_other_threads_and_handlers_are_let_be():
    def elsewhere():
        with deferred(), let_through():
            found.append(signal.getsignal(signal.SIGINT))

    found: list[object] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred(), let_through():
            signal.raise_signal(signal.SIGINT)
        found.append(signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, lambda *_: found.append("mine"))
        with deferred():
            signal.raise_signal(signal.SIGINT)
            assert "mine" not in found
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [signal.default_int_handler, signal.SIG_IGN, "mine"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_cut_off_says_whether_the_step_counts(when, begun, monkeypatch):
    """As by an error in the middle of a commit where none was expected."""
    folder, run = begun("cut", "step")

    def cut(log, *given, **named):
        if when == "after":
            commit(log, *given, **named)
        raise SystemError

    commit = StepLog.commit
    with monkeypatch.context() as patch:
        patch.setattr(StepLog, "commit", cut)
        patch.setattr("tidemill.renderer.runs.stepper.Stepper._undo", lambda *_: None)
        with pytest.raises(SystemError):
            run.advance()
    said = {
        "before": "step 3 was not taken, and what was put in for it is to be put in again: start another on",
        "after": "step 3 was taken: start another on",
    }
    with pytest.raises(ClosedRunError, match=f"was interrupted while a step was made final; {said[when]}"):
        run.snapshot("n")
    with FLOW.start(tm.Embedded(folder)) as run:
        assert total(run) == {"before": 3, "after": 11}[when]
