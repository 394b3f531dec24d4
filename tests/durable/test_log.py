"""The log of steps: one call of fsync makes a step final, and it is there or it is not, wherever things break off."""

import contextlib
import errno
import itertools
import os
import random
import shutil
import stat
import zlib
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.durable import log_reading
from tidemill.renderer.durable.frames import encode, read
from tidemill.renderer.durable.log_reading import Log, segment_path
from tidemill.renderer.durable.segment import Segment
from tidemill.renderer.embedded import whole_file


def counts():
    flow = tm.Dataflow("counts")
    flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    return flow


def step(run, key):
    run.insert("x", [(key,)])
    run.advance()


def keys(folder):
    """The keys of the steps that a run on the folder goes on after."""
    with counts().start(tm.Embedded(folder)) as run:
        return sorted(k for k, _ in run.snapshot("n"))


@pytest.fixture
def state(tmp_path):
    """A folder with three steps in one log."""
    folder = tmp_path / "state"
    with counts().start(tm.Embedded(folder)) as run:
        for key in "abc":
            step(run, key)
    return folder


def ends(folder):
    """Where the frames of a folder's log end."""
    starts = [entry.start for entry in Log.read(folder).entries]
    return [*starts[1:], (folder / "log-0000000001").stat().st_size]


def outcome(folder, log, *, with_last=False):
    """The keys that are there in a copy of the folder whose log is this; or the message.

    A copy, since a run that closes makes a checkpoint where repeating the log took long: on a busy machine it may.
    """
    copied = folder.with_name("copied")
    shutil.copytree(folder, copied)
    try:
        (copied / "log-0000000001").write_bytes(log)
        if not with_last:
            (copied / "last").write_bytes(b"")
        return keys(copied)
    except StateError as error:
        return str(error)
    finally:
        shutil.rmtree(copied)


# -- calls of fsync ---------------------------------------------------------------------------------------------------


@pytest.fixture
def fsyncs(monkeypatch):
    """A list that grows with every call of fsync, by the size of the file."""
    calls, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(os.fstat(file).st_size), fsync(file)))
    return calls


def test_a_step_calls_fsync_once(tmp_path, fsyncs):
    with counts().start(tm.Embedded(tmp_path)) as run:
        step(run, "first")
        for i in range(20):
            fsyncs.clear()
            run.insert("x", [(f"{i} {j}",) for j in range(100)])
            run.delete("x", [(f"{i} 0",)], time=i + 2)
            run.advance()
            assert fsyncs == [(tmp_path / "log-0000000001").stat().st_size]  # all of it, and once


def test_a_step_calls_fsync_once_where_state_is_on_the_disk(tmp_path, fsyncs):
    """What was spilled is on the disk already: its folder is asked for only when there are new files in it."""
    with counts().start(tm.Embedded(tmp_path)) as run:
        step(run, "first")
        run.spill()
        step(run, "second")
        for i in range(5):
            fsyncs.clear()
            step(run, str(i))
            assert len(fsyncs) == 1


@pytest.mark.parametrize("number", ["EINVAL", "EACCES", "EIO", "ENOSPC"])
def test_a_folder_that_cannot_be_asked_for_is_let_pass_and_a_disk_that_fails_is_not(tmp_path, monkeypatch, number):
    """Some file systems have no such call for folders; that the disk fails is another thing."""
    fsync = os.fsync

    def refusing(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(getattr(errno, number), os.strerror(getattr(errno, number)))
        fsync(file)

    monkeypatch.setattr(os, "fsync", refusing)
    if number in {"EINVAL", "EACCES"}:
        whole_file.sync_folder(tmp_path)
    else:
        with pytest.raises(OSError, match=os.strerror(getattr(errno, number))):
            whole_file.sync_folder(tmp_path)


def test_a_run_whose_folder_cannot_be_asked_for_goes_on_as_it_was(tmp_path, monkeypatch):
    """The disk fails when a checkpoint is made: that is said, and the run is taken up from what was committed."""
    with counts().start(tm.Embedded(tmp_path)) as run:
        step(run, "a")

        def failing(folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(whole_file, "sync_folder", failing)
            with pytest.raises((OSError, StateError)):
                run.checkpoint()
    with counts().start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("n")) == [("a", 1)]


def test_folders_are_asked_for_only_when_files_are_made(tmp_path, fsyncs):
    with counts().start(tm.Embedded(tmp_path)) as run:
        assert len(fsyncs) == 2  # the log and its folder
        step(run, "a")
        fsyncs.clear()
        run.checkpoint()
        assert len(fsyncs) == 4  # the checkpoint, the next log, and the folder for each
    with counts().start(tm.Embedded(tmp_path)) as run:
        fsyncs.clear()
        step(run, "b")
        assert len(fsyncs) == 2  # a log of its own
        step(run, "c")
        assert len(fsyncs) == 3


# -- what is cut off, and what is damaged -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_log_that_is_cut_off_anywhere_in_the_last_frame_ends_before_it(state):
    """As a process leaves it that is killed while it writes, before it could say which commit was the last."""
    whole, (*_, begin, end) = (state / "log-0000000001").read_bytes(), ends(state)
    assert end == len(whole)
    for size in range(begin, end):
        assert outcome(state, whole[:size]) == ["a", "b"], size
    assert outcome(state, whole) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_last_frame_with_any_byte_changed_is_not_there(state):
    """Blocks may reach the disk in any order before fsync returns, and others be zeros until then."""
    whole, (*_, begin, end), rng = (state / "log-0000000001").read_bytes(), ends(state), random.Random(3)
    for at in [*range(begin, begin + 100), *range(begin + 100, end - 40, 7), *range(end - 40, end)]:
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.randrange(8)
        assert outcome(state, changed) == ["a", "b"], at
    for at in range(begin, end, 40):
        assert outcome(state, whole[:at] + bytes(end - at)) == ["a", "b"], at
    assert outcome(state, whole + bytes(500)) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_frame_that_is_damaged_before_others_is_told(state):
    """It was whole once: what comes after it was written only then."""
    whole, (begin, *_, last, _), rng = (state / "log-0000000001").read_bytes(), ends(state), random.Random(5)
    for at in [*range(begin, begin + 70), *range(begin, last, 7)]:
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.randrange(8)
        for with_last in (False, True):
            found = outcome(state, changed, with_last=with_last)
            assert "log-0000000001 is not a whole log: from byte" in found, at


def test_a_last_commit_that_is_gone_is_told(state):
    """Nothing was being written any more when the commit was said to be the last."""
    whole, (*_, begin, end) = (state / "log-0000000001").read_bytes(), ends(state)
    for size in range(begin, end, 50):
        found = outcome(state, whole[:size], with_last=True)
        assert "log-0000000001 was cut off or changed: commit 3 is not there, which was the last one" in found
        assert "or remove" in found
    for at in range(begin, end, 50):
        changed = bytearray(whole)
        changed[at] ^= 1
        assert "commit 3 is not there" in outcome(state, changed, with_last=True)


def test_what_was_cut_off_stays_so_when_others_go_on(state):
    """The frame that is not whole is in a file that nobody writes to any more."""
    path = state / "log-0000000001"
    path.write_bytes(path.read_bytes()[:-1])
    (state / "last").unlink()
    for key in "xy":
        with counts().start(tm.Embedded(state)) as run:
            step(run, key)
    assert keys(state) == ["a", "b", "x", "y"]
    assert sorted(p.name for p in state.glob("log-*")) == [f"log-000000000{i}" for i in (1, 2, 3)]
    with counts().start(tm.Embedded(state)) as run:
        run.checkpoint()
    assert [p.name for p in state.glob("log-*")] == ["log-0000000004"]
    assert keys(state) == ["a", "b", "x", "y"]


@pytest.mark.parametrize("left", [(1,), (2,), (3,), (1, 3), (2, 3)])
def test_logs_before_a_checkpoint_may_be_swept_in_any_order(state, left):
    """They are removed one by one, as the folder lists them: a process may die in between."""
    for key in "de":
        with counts().start(tm.Embedded(state)) as run:
            step(run, key)
    before = {number: (state / f"log-000000000{number}").read_bytes() for number in left}
    with counts().start(tm.Embedded(state)) as run:
        run.checkpoint()
    for number, log in before.items():
        (state / f"log-000000000{number}").write_bytes(log)
    assert keys(state) == ["a", "b", "c", "d", "e"]
    assert [p.name for p in state.glob("log-*")] == ["log-0000000004"]


def test_arrays_of_all_shapes_come_back(tmp_path):
    import numpy as np

    arrays: dict[str, Any] = {
        "none": np.zeros(0, np.int64),
        "bytes": np.arange(5, dtype=np.uint8),
        "of two": np.ones((3, 2)),
    }
    frame, digest = encode(7, bytes(range(32)), {"é": [1, None]}, arrays)
    (tmp_path / "log").write_bytes(b"before" + frame)
    with (tmp_path / "log").open("rb") as file:
        found = read(file, 6)
    assert (found.number, found.previous, found.digest, found.size) == (7, bytes(range(32)), digest, len(frame))
    assert found.text == {"é": [1, None]}
    assert {name: (a.dtype, a.tolist()) for name, a in found.arrays.items()} == {
        name: (a.dtype, a.tolist()) for name, a in arrays.items()
    }


# -- killed -----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What is raised by the call in which the process dies."""


class Mortal:
    """Calls to the system, in one of which the process dies, before it or after it; no later one does anything."""

    CALLS = ("open", "pwrite", "fsync", "ftruncate", "unlink", "replace", "rename", "link", "mkdir")

    def __init__(self, patch, dies_in, *, is_done):
        self.left = dies_in
        self.is_done = is_done
        for name in self.CALLS:
            patch.setattr(os, name, self.mortal(getattr(os, name), name))

    @property
    def is_dead(self):
        return self.left < 0

    def mortal(self, call, name):
        def then(*arguments, **options):
            self.left -= 1
            if not self.is_dead:
                return call(*arguments, **options)
            if self.left == -1 and self.is_done:
                call(*arguments, **options)
            elif self.left == -1 and name == "pwrite":
                descriptor, content, at = arguments
                call(descriptor, content[: len(content) // 2], at)
            raise Killed

        return then


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True])
def test_killed_in_every_call_to_the_system(tmp_path, monkeypatch, is_done):
    """A step, a note, a step with a checkpoint after it: what was told is there, and nothing by halves."""
    found_more = []
    for dies_in in itertools.count():
        folder, told = tmp_path / str(dies_in), ["a"]
        with counts().start(tm.Embedded(folder, checkpoint_every=3)) as run:
            step(run, "a")
            with monkeypatch.context() as patch, contextlib.suppress(Killed):
                system = Mortal(patch, dies_in, is_done=is_done)
                step(run, "b")
                told.append("b")
                run.to_changelog(tmp_path / f"log {dies_in}")
                step(run, "c")
                told.append("c")
        found = keys(folder)
        assert found[: len(told)] == told
        assert found == ["a", "b", "c"][: len(found)]
        found_more.append(len(found) - len(told))
        with counts().start(tm.Embedded(folder, checkpoint_every=1)) as run:
            step(run, "d")
        assert keys(folder) == [*found, "d"]
        if not system.is_dead:
            break
    assert found == ["a", "b", "c"]
    assert len(found_more) > 20
    assert set(found_more) == {0, 1}  # a step was final or not when the process died, and nobody knew


# -- two that both believe to be the owner ----------------------------------------------------------------------------


@pytest.fixture
def without_locks(monkeypatch):
    """As on file systems where they do not work."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)


def test_who_has_a_log_is_told_when_another_went_on_from_it(state, without_locks):
    run = counts().start(tm.Embedded(state))
    step(run, "d")
    with counts().start(tm.Embedded(state)) as other:
        step(other, "e")
        run.insert("x", [("not taken",)])
        with pytest.raises(StateError, match=r"another process committed to it after step 4.*step 5 was not taken"):
            run.advance()
        step(other, "f")
    assert keys(state) == ["a", "b", "c", "d", "e", "f"]


def test_who_read_a_log_is_told_when_its_owner_went_on(state, without_locks):
    with counts().start(tm.Embedded(state)) as run:
        step(run, "d")
        other = counts().start(tm.Embedded(state))
        step(run, "e")
        other.insert("x", [("not taken",)])
        with pytest.raises(StateError, match=r"another process committed to it after step 4.*step 5 was not taken"):
            other.advance()
        step(run, "f")
        run.checkpoint()
    assert keys(state) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("has_committed", [True, False])
def test_what_another_may_have_read_is_not_taken_back(state, without_locks, monkeypatch, has_committed):
    """Found by review: the other went on from a commit that was then cut off, and nothing could be read any more."""
    run, others, append = counts().start(tm.Embedded(state)), [], Segment.append

    def stopped_after(self, frame):
        append(self, frame)
        monkeypatch.setattr(Segment, "append", append)
        others.append(counts().start(tm.Embedded(state)))
        if has_committed:
            step(others[0], "e")
        else:  # it has made its file, and is stopped before it looks who else wrote
            segment_path(state, 3).touch()

    step(run, "c2")
    monkeypatch.setattr(Segment, "append", stopped_after)
    run.insert("x", [("d",)])
    with pytest.raises(StateError, match=r"another process committed to it after step 4.*may be there or not"):
        run.advance()
    others[0].close()
    assert keys(state) == ["a", "b", "c", "c2", "d", *(["e"] if has_committed else [])]


def test_what_comes_after_another_went_on_does_not_count(state, monkeypatch):
    """Written by one that died before it could see that it is not the owner any more."""
    log = (state / "log-0000000001").read_bytes()
    begin = ends(state)[-2]
    (state / "log-0000000001").write_bytes(log[:begin])
    (state / "last").unlink()
    with counts().start(tm.Embedded(state)) as run:
        step(run, "d")
    (state / "log-0000000001").write_bytes(log)
    assert keys(state) == ["a", "b", "d"]


def test_a_commit_of_another_log_is_not_taken_for_one_of_this(state, tmp_path):
    other = tmp_path / "other"
    with counts().start(tm.Embedded(other)) as run:
        for key in "abc":
            step(run, key)
    whole, begin = (state / "log-0000000001").read_bytes(), ends(state)[-2]
    (state / "log-0000000001").write_bytes(whole[:begin] + (other / "log-0000000001").read_bytes()[ends(other)[-2] :])
    with pytest.raises(StateError, match=r"log-0000000001: commit 2 is not the one that was committed there"):
        keys(state)


def test_a_line_about_the_last_commit_that_is_cut_off_says_nothing(state):
    line = (state / "last").read_bytes()
    said, _, checksum = line.decode().strip().rpartition(" ")
    assert int(checksum, 16) == zlib.crc32(said.encode())
    for size in range(len(line) - 1):
        (state / "last").write_bytes(line[:size])
        assert keys(state) == ["a", "b", "c"]
    assert log_reading.segment_number(said.split()[1]) == 1
