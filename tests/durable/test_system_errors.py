"""What the system refuses is not called damage, and nobody is told to give up state that is whole.

The kind: an error of the system's (too many open files, no room, no permission, a disk that fails) at any place where a
file is opened, mapped or brought to the disk, taken for a file that is not what it was. Whatever call fails, the number
of the error says what to do, the run or the folder is as before, and the same thing works once the reason is gone.
"""

import errno
import io
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.errors import StateError, StepError, TidemillError
from tidemill.renderer.durable import recorder

NUMBERS = {
    errno.EMFILE: "close some, or raise the limit",
    errno.ENOSPC: "make room on the disk",
    errno.EACCES: "let this process read and write there",
    errno.EIO: "see to the disk",
}
GIVES_UP = re.compile(r"restore|cut off|changed from outside|earlier save|remove|damage|another process|not a whole")


def sums():
    flow = tm.Dataflow("sums")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("n", x.group_by("k").agg(s=tm.sum("v")), changes=False)
    return flow


FLOW = sums()


def start(folder):
    return FLOW.start(tm.Embedded(folder / "state", in_memory=10))


@pytest.fixture
def state(tmp_path):
    """A folder with pages on the disk, a checkpoint and steps after it, and a file that a run was saved to."""
    with start(tmp_path) as run:
        run.insert("x", [(i, 1) for i in range(200)])
        run.advance()
        run.spill()
        run.checkpoint()
        for i in range(3):
            run.insert("x", [(i, 1)])
            run.advance()
        run.save(tmp_path / "saved")
    return tmp_path


class Failing:
    """Calls that open files and bring them to the disk, of which one fails."""

    def __init__(self, monkeypatch):
        self.patch, self.calls, self.failing, self.number = monkeypatch, 0, 0, errno.EIO
        for owner, name in ((os, "open"), (os, "fsync"), (io, "open"), (Path, "iterdir")):
            self._wrap(owner, name)
        self._wrap(pa, "memory_map")

    def _wrap(self, owner, name):
        real = getattr(owner, name)

        def called(*given, **named):
            self.calls += 1
            if self.calls == self.failing:
                raise OSError(self.number, os.strerror(self.number))
            return real(*given, **named)

        self.patch.setattr(owner, name, called)

    def begin(self, failing, number):
        self.calls, self.failing, self.number = 0, failing, number


def total(run):
    return sum(row[1] for row in run.snapshot("n"))


def step(run):
    run.insert("x", [(150, 10), (170, 10)])
    run.advance()


OPERATIONS = {
    # what is done, on what, and what the sum is afterwards
    "start": (lambda folder, _: start(folder).close(), 203),
    "load": (lambda folder, _: tm.load(folder / "saved", FLOW, tm.Embedded(in_memory=10)).close(), 203),
    "step": (lambda _, run: run.advance(), 223),
    "load of rows": (lambda _, run: run.advance(), 223),
    "read": (lambda _, run: run.snapshot("n"), 203),
    "save": (lambda folder, run: run.save(folder / "again"), 203),
    "checkpoint": (lambda _, run: run.checkpoint(), 203),
    "changelog": (lambda folder, run: run.to_changelog(folder / "log"), 203),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_the_system_refuses_is_no_damage(operation, number, state, monkeypatch):
    do, wanted = OPERATIONS[operation]
    is_step = operation in ("step", "load of rows")
    if operation == "load of rows":
        monkeypatch.setattr(recorder, "_CHECKPOINT", 1)
        monkeypatch.setattr(recorder, "_LOADED", 1000)
    needs_run, failing = operation not in ("start", "load"), 0
    stride = 1 if number == errno.EMFILE and not is_step else 4  # a step has many, which are much alike
    calls = Failing(monkeypatch)
    while True:
        failing += stride
        calls.begin(0, number)
        run = start(state) if needs_run else None
        if is_step:
            run.insert("x", [(150, 10), (170, 10)])
        calls.begin(failing, number)
        try:
            do(state, run)
        except (TidemillError, OSError) as error:
            message = str(error)
            assert isinstance(error, StateError), message
            assert not GIVES_UP.search(message), message
            assert os.strerror(number) in message, message
            assert NUMBERS[number] in message or "expected a folder to write in" in message, message
        reached, calls.failing = calls.calls >= failing, 0
        if run is not None:
            with run:
                if not is_step or total(run) != wanted:
                    do(state, run)
                assert total(run) == wanted
                if is_step:
                    run.delete("x", [(150, 10), (170, 10)])
                    run.advance()
        if not reached:
            break
    assert failing > stride or stride > 1
    with start(state) as run:
        assert total(run) == 203


def test_no_memory_is_no_damage(state, monkeypatch):
    with start(state) as run:
        run._stepper.spill_store.store.forget()

        def read(*_, **__):
            msg = "malloc of size 7 failed"
            raise pa.ArrowMemoryError(msg)

        with monkeypatch.context() as patch:
            patch.setattr("tidemill.renderer.durable.page_files.pa.ipc.read_record_batch", read)
            with pytest.raises(StepError, match="malloc of size 7"):
                step(run)
        run.advance()
        assert total(run) == 223
