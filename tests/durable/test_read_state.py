"""`tm.read_state`: whole steps, for who has no dataflow, beside the process that takes them."""

import shutil
import subprocess
import sys
import time
from decimal import Decimal

import hypothesis.strategies as st
import pytest
from hypothesis import given

import tidemill as tm
from tidemill.errors import StateError, UnknownNameError
from tidemill.renderer.durable import frames

ROWS = 20


def build():
    flow = tm.Dataflow("read")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("rows", x)
    flow.output("n", x.group_by("k").agg(n=tm.count(), d=tm.sum("v").cast("decimal(30,2)")))
    flow.output("all", x.group_by().agg(n=tm.count()), changes=False)
    flow.output("constant", flow.constant({"d": "decimal(30,2)", "l": "list<string>"}, [(Decimal("1.5"), ["a", None])]))
    return flow


def require_same(state, run):
    contents = state.snapshots()
    for name in ("rows", "n", "all", "constant"):
        expected = run.snapshot(name)
        for found in (contents[name], state.snapshot(name)):
            assert found.counts() == expected.counts()
            assert found.time == expected.time
            assert found.schema == expected.schema
        assert state.frontier(name) == run.frontier(name)


def test_a_checkpoint_before_the_first_step_does_not_double_constants(tmp_path):
    with build().start(tm.Embedded(tmp_path)) as run:
        run.checkpoint()
        assert not tm.read_state(tmp_path).snapshot("constant")
        run.advance()
        require_same(tm.read_state(tmp_path), run)


@given(st.lists(st.tuples(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(-1, 2)), max_size=4),
                          st.sampled_from(["", "", "again", "checkpoint", "spill", "compact"])), max_size=8))  # fmt: skip
def test_it_is_what_the_run_has_after_each_step(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("state")
    flow, engine = build(), tm.Embedded(folder, checkpoint_every=3, in_memory=30)
    run = flow.start(engine)
    state = tm.read_state(folder)
    for rows, action in steps:
        run.update(
            "x", [((k, v), next(iter(run.frontier("x"))) + abs(d) - 1 if d else 10**6, d) for k, v, d in rows if d]
        )
        if action == "again":
            run.close()
            run = flow.start(engine)
        elif action:
            getattr(run, action)() if action != "checkpoint" or not rows else None
        run.advance()
        require_same(state, run)
        require_same(tm.read_state(folder), run)
    run.close()


def test_what_is_queued_is_not_there(tmp_path):
    with build().start(tm.Embedded(tmp_path)) as run:
        state = tm.read_state(tmp_path)
        assert state.outputs == ["rows", "n", "all", "constant"]
        assert (list(state.snapshot("rows")), state.step) == ([], 0)
        run.insert("x", [("a", 1)])
        assert (list(state.snapshot("rows")), state.step) == ([], 0)
        run.advance()
        assert (list(state.snapshot("rows")), state.step) == ([("a", 1)], 1)
        run.close_inputs()
        assert state.frontier("rows") == tm.Antichain()
        assert state.snapshot("rows").time is None
    assert "seen after step 2" in repr(state)


def test_what_the_disk_does_not_have_for_sure_is_not_read(tmp_path, monkeypatch):
    """A frame is there before its fsync returns: until then it may go again."""
    with build().start(tm.Embedded(tmp_path)) as run:
        run.advance()
        state, seen = tm.read_state(tmp_path), []
        said = run._stepper._recorder._log._said
        write = said.write
        said.write = lambda entry: (seen.append((state.step, tm.read_state(tmp_path).step)), write(entry))
        run.advance()
        assert seen == [(1, 1)]
        assert state.step == 2


def test_another_state_in_the_same_folder_is_read_anew(tmp_path):
    folder = tmp_path / "state"
    for k in "ab":
        with build().start(tm.Embedded(folder)) as run:
            run.insert("x", [(k, 1)])
            run.advance()
        if k == "a":
            state = tm.read_state(folder)
            assert list(state.snapshot("rows")) == [("a", 1)]
            shutil.rmtree(folder)
    assert list(state.snapshot("rows")) == [("b", 1)]


def test_a_look_costs_the_steps_since_the_last_one(tmp_path, monkeypatch):
    with build().start(tm.Embedded(tmp_path)) as run:
        for i in range(50):
            run.insert("x", [("a", i)])
            run.advance()
        state, read = tm.read_state(tmp_path), []
        state.snapshots()
        original = frames.read
        monkeypatch.setattr(frames, "read", lambda file, at: read.append(at) or original(file, at))
        run.insert("x", [("a", 7)])
        run.advance()
        state.snapshot("rows")
        assert len(read) <= 3  # the new frame, that there is none behind it, and its changes


def test_refusals(tmp_path):
    with pytest.raises(StateError, match="no such folder"):
        tm.read_state(tmp_path / "none")
    with pytest.raises(StateError, match="holds no state"):
        tm.read_state(tmp_path)
    with build().start(tm.Embedded(tmp_path)) as run:
        run.advance()
        run.advance()
        with pytest.raises(UnknownNameError, match="no output 'row': did you mean 'rows'"):
            tm.read_state(tmp_path).snapshot("row")
    log = tmp_path / "log-0000000001"
    content = bytearray(log.read_bytes())
    content[len(content) // 3] ^= 1
    log.write_bytes(content)
    with pytest.raises(StateError, match="is not a whole log"):
        tm.read_state(tmp_path)


WRITER = """
import sys, pathlib
sys.path.insert(0, {here!r})
from test_read_state import ROWS, build
import tidemill as tm
folder, stop = map(pathlib.Path, sys.argv[1:])
with build().start(tm.Embedded(folder, checkpoint_every=7, in_memory=200)) as run:
    step = next(iter(run.frontier("x")))
    while not stop.exists():
        run.insert("x", [("abc"[i % 3], step) for i in range(ROWS)])
        if step > 20:
            run.delete("x", [("abc"[i % 3], step - 20) for i in range(ROWS)])
        run.advance()
        step += 1
        if step % 31 == 0:
            run.compact()
"""


@pytest.mark.slow
def test_another_process_reads_whole_steps_while_steps_are_taken(tmp_path):
    """While it checkpoints, compacts and spills: each look is of one step, later looks are of later steps."""
    stop, folder = tmp_path / "stop", tmp_path / "state"
    code = WRITER.format(here=__file__.rpartition("/")[0])
    with subprocess.Popen([sys.executable, "-c", code, folder, stop]) as writer:
        try:
            while not any(folder.glob("log-*")):
                assert writer.poll() is None
                time.sleep(0.05)
            state, until, seen = tm.read_state(folder), time.monotonic() + 8, [0]
            while time.monotonic() < until:
                for reader in (state, tm.read_state(folder)):
                    found = reader.snapshots("rows", "all")
                    (count,) = [n for (n,) in found["all"]] or [0]
                    assert len(found["rows"]) == count
                    newest = max([v for _, v in found["rows"]], default=-1)
                    assert count == ROWS * min(newest + 1, 21)
                    assert newest >= seen[-1] or newest == -1
                    seen.append(max(newest, seen[-1]))
        finally:
            stop.touch()
        assert writer.wait() == 0
    assert len(set(seen)) > 20
    assert seen[-1] > 30
