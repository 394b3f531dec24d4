"""A child that was forked from a run's process: it may not use what belongs to that, and takes nothing away by ending."""

import gc
import os

import pytest

import tidemill as tm
from tidemill.errors import ClosedRunError


def counts():
    flow = tm.Dataflow("counts")
    flow.output("n", flow.input("x", {"k": "string"}).count("n"), changes=False)
    return flow


def in_child(do):
    """What a forked child returns, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, repr(do()).encode())
        except BaseException as error:  # noqa: BLE001 - the parent looks at it
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = told.read()
    os.waitpid(child, 0)
    return found


def test_a_step_of_a_child_is_refused_and_nothing_is_lost(tmp_path):
    """Found by forking: the child's step was committed, and gone when the parent had closed the folder."""
    run = counts().start(tm.Embedded(tmp_path))
    run.insert("x", [("a",)])
    run.advance()
    said = in_child(lambda: (run.insert("x", [("child",)]), run.advance()))
    assert said.startswith(f"ClosedRunError: this run of 'counts' belongs to process {os.getpid()}, which opened it")
    assert f"start another on {tmp_path}" in said
    for use in (lambda: run.snapshot("n"), run.checkpoint, run.metrics, run.advance):
        assert "ClosedRunError" in in_child(use)
    run.insert("x", [("b",)])
    run.advance()
    run.close()
    with counts().start(tm.Embedded(tmp_path)) as again:
        assert list(again.snapshot("n")) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("durable", [False, True])
def test_the_end_of_a_child_takes_nothing_from_its_parent(tmp_path, monkeypatch, durable):
    """Nor does closing the run there, be it by the block in which the child was forked."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs = [counts().start(tm.Embedded(tmp_path / "state" if durable else None, in_memory=0))]
    runs[0].insert("x", [("a",)])
    runs[0].advance()
    before = sorted(tmp_path.rglob("*"))
    assert len(before) > 2

    def end():
        with pytest.raises(ClosedRunError), runs[0]:
            pass
        runs[0].close()
        runs.clear()
        gc.collect()

    assert in_child(end) == "None"
    assert sorted(tmp_path.rglob("*")) == before
    if durable:
        assert "StateError" in in_child(lambda: counts().start(tm.Embedded(tmp_path / "state")))
    runs[0].insert("x", [("a",)])
    runs[0].advance()
    assert list(runs[0].snapshot("n")) == [("a", 2)]
    runs[0].close()


def test_a_run_without_files_is_the_childs_own():
    run = counts().start()
    run.insert("x", [("a",)])
    assert in_child(lambda: (run.advance(), list(run.snapshot("n")))[1]) == "[('a', 1)]"
    run.advance()
    assert list(run.snapshot("n")) == [("a", 1)]
