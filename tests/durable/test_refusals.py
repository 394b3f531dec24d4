"""What a folder of state refuses, in words of our own; the last commit is whole afterwards, and the run says how it is."""

import errno
import os
import random
import resource
import signal
import subprocess
import sys

import pytest

import tidemill as tm
from tidemill.errors import ClosedRunError, StateError
from tidemill.renderer.durable import frames


def counts(aggregate=tm.sum):
    flow = tm.Dataflow("counts")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(s=aggregate("v")))
    return flow


@pytest.fixture
def state(tmp_path):
    """A folder with a checkpoint and two steps."""
    folder = tmp_path / "state"
    with counts().start(tm.Embedded(folder)) as run:
        for i in range(4):
            run.insert("x", [("a", i)])
            run.advance()
            if i == 1:
                run.checkpoint()
    return folder


def only(folder, start):
    (path,) = [p for p in folder.iterdir() if p.name.startswith(start)]
    return path


def is_whole(folder, total=6):
    with counts().start(tm.Embedded(folder)) as run:
        assert list(run.snapshot("n")) == [("a", total)]


def test_a_folder_that_cannot_be_used_is_let_go_of(state):
    """Found by review: the lock was held for as long as anybody held the error."""
    (state / "last").unlink()
    (state / "last").mkdir()
    with pytest.raises(StateError, match=r"cannot be used for state .*expected a folder in which this process") as kept:
        counts().start(tm.Embedded(state))
    (state / "last").rmdir()
    is_whole(state)
    assert kept.value


def test_another_dataflow(state):
    with pytest.raises(StateError, match=r"another dataflow: saved: .*sum AS s.*now: .*max AS s.*another folder"):
        counts(tm.max).start(tm.Embedded(state), migrate="refuse")
    is_whole(state)


def test_another_keep(state):
    with pytest.raises(StateError, match="run with keep=0: start it so, not with keep=5"):
        counts().start(tm.Embedded(state), keep=5)
    is_whole(state)


def test_other_passes(state):
    with pytest.raises(StateError, match=r"as the passes .*fuse_linear.* leave it: start it with these"):
        counts().start(tm.Embedded(state), passes=False)
    with counts().start(tm.Embedded(state), passes=True) as run:
        names = list(run.passes)
    with counts().start(tm.Embedded(state), passes=names):
        pass
    other = state.parent / "as built"
    with counts().start(tm.Embedded(other), passes=False) as run:
        assert run.passes == ()
    with counts().start(tm.Embedded(other)) as run:  # all that there were when it was begun: none
        assert run.passes == ()


@pytest.mark.parametrize("version", [3, 99])
def test_state_of_another_version(version, tmp_path, monkeypatch):
    """One to come, or that whose spilled pages are in no order: a dynamic filter would not find its rows there."""
    with monkeypatch.context() as patch:
        patch.setattr(frames, "VERSION", version)
        with counts().start(tm.Embedded(tmp_path)) as run:
            run.advance()
    says = rf"log-0000000001 has version {version} .*, expected 5, 6, 7 or 8: go on with the tidemill that"
    with pytest.raises(StateError, match=says):
        counts().start(tm.Embedded(tmp_path))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("log-0000000002", "was cut off or changed|not a whole log"),
        ("checkpoint-", "not a whole saved state"),
    ],
)
@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "gone"])
def test_damage(state, start, message, damage):
    path = only(state, start)
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
        message = "is missing"
    elif damage == "changed":
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 4
        path.write_bytes(changed)
        message += "|checksum|not a saved state|could not be read"
    else:
        path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"")
    with pytest.raises(StateError, match=message) as caught:
        is_whole(state)  # what is in a checkpoint is checked when it is read
    assert start in str(caught.value)
    path.write_bytes(whole)
    is_whole(state)


def test_whatever_byte_of_a_checkpoint_is_changed(state):
    """It is said to be damaged, or it did not matter: dates of files, and what inputs hold, which is read by migrations."""
    path = only(state, "checkpoint-")
    whole = path.read_bytes()
    rng, refused = random.Random(7), 0
    # Among them the method of compression, which is no method then, and the flag of encryption.
    special = [whole.index(b"PK\1\2") + offset for offset in (8, 10)]
    for at in [*special, *rng.choices(range(len(whole)), k=40)]:
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.randrange(8) if at not in special else 1
        path.write_bytes(changed)
        try:
            is_whole(state)
        except StateError:
            refused += 1
    assert refused > 20
    path.write_bytes(whole)
    is_whole(state)


def test_a_second_owner_in_this_process(state):
    with counts().start(tm.Embedded(state)) as run:
        with pytest.raises(StateError, match=rf"in use by a run of process {os.getpid()} on .*close that one first"):
            counts().start(tm.Embedded(state))
        run.insert("x", [("a", 10)])
        run.advance()
    is_whole(state, 16)


HOLDER = """
import sys, time, tidemill as tm
flow = tm.Dataflow("counts")
x = flow.input("x", {"k": "string", "v": "int64"})
flow.output("n", x.group_by("k").agg(s=tm.sum("v")))
run = flow.start(tm.Embedded(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_second_owner_and_a_lock_that_dies_with_its_process(state):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(state)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StateError, match=f"in use by a run of process {holder.pid} on "):
            counts().start(tm.Embedded(state))
        holder.kill()
    is_whole(state)


def test_a_forked_child_does_not_hold_the_lock(state):
    run = counts().start(tm.Embedded(state))
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(told, b"x")
        signal.pause()
        os._exit(0)
    try:
        os.read(ready, 1)
        run.close()
        is_whole(state)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(told)


def test_a_second_writer_is_fenced(state, monkeypatch):
    """Where locks do not work, as on some file systems: the step of the one who comes second is not taken."""
    run = counts().start(tm.Embedded(state))
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    with counts().start(tm.Embedded(state)) as other:
        other.insert("x", [("a", 10)])
        other.advance()
    run.insert("x", [("a", 100)])
    with pytest.raises(StateError, match=r"another process committed to it after step 4.*step 5 was not taken"):
        run.advance()
    with pytest.raises(ClosedRunError, match="another process committed.*start another on"):
        run.snapshot("n")
    is_whole(state, 16)


def failing(original, allowed):
    """A function that fails as a full disk does after so many calls."""
    calls = [0]

    def call(*arguments, **options):
        calls[0] += 1
        if calls[0] > allowed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*arguments, **options)

    return call


@pytest.mark.parametrize(("name", "allowed"), [("fsync", 0), ("pwrite", 0)])
def test_a_full_disk(state, monkeypatch, name, allowed):
    """Whichever write fails, the step is not taken, and is when there is room again."""
    with counts().start(tm.Embedded(state)) as run:
        run.insert("x", [("a", 10)])
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(getattr(os, name), allowed))
            with pytest.raises(StateError, match="could not be written .*No space left.*step 5 was not taken"):
                run.advance()
        assert list(run.snapshot("n")) == [("a", 6)]
        run.advance()
        assert list(run.snapshot("n")) == [("a", 16)]
    is_whole(state, 16)


def test_a_file_that_may_not_grow(state):
    """The same by the operating system itself: no file beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with counts().start(tm.Embedded(state)) as run:
        run.insert("x", [(f"key {i}", i) for i in range(10_000)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
        try:
            with pytest.raises(StateError, match="File too large.*step 5 was not taken"):
                run.advance()
            run.discard()
            with pytest.raises(StateError, match="checkpoint was not made, all steps are there"):
                run.insert("x", [(f"key {i}", i) for i in range(60)])
                run.advance()
                run.checkpoint()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        rows = run.snapshot("n").counts()
        assert len(rows) == 61
        run.advance()
    with counts().start(tm.Embedded(state)) as run:
        assert run.snapshot("n").counts() == rows
    assert not [p for p in state.iterdir() if p.name.startswith(".")]


def test_folders_that_are_none(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/tidemill"):
        with pytest.raises(StateError, match="cannot be used for state .*expected a folder in which"):
            counts().start(tm.Embedded(folder))
    with pytest.raises(StateError, match="expected a folder of this machine"):
        counts().start(tm.Embedded("s3://bucket/state"))
    with counts().start(tm.Embedded(f"file://{tmp_path}/state")) as run:
        run.advance()
    assert (tmp_path / "state" / "lock").exists()


def test_an_unwritable_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "open", failing(os.open, 0))
    with pytest.raises(StateError, match="cannot be used for state .*No space left"):
        counts().start(tm.Embedded(tmp_path))


def test_functions_that_are_not_what_they_were(tmp_path):
    broken = tmp_path / "broken"

    def careful(row):
        if broken.exists():  # outside of the process, where nobody can look for it
            raise ValueError
        return row

    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).map_rows(careful, {"i": "int64"}))
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.insert("x", [(1,)])
        run.advance()
    broken.touch()
    with pytest.raises(StateError, match=r"step 1 was taken and cannot be repeated .*is not what it was"):
        flow.start(tm.Embedded(tmp_path / "state"))
    broken.unlink()
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        assert list(run.snapshot("o")) == [(1,)]


def test_interrupted_in_the_middle_of_a_commit(state, monkeypatch):
    """Ctrl-C as the frame reaches the disk, and not by a signal, which waits: it is taken back, and the run goes on."""
    run = counts().start(tm.Embedded(state))
    run.insert("x", [("a", 10)])
    fsync = os.fsync

    def interrupted(*arguments):
        fsync(*arguments)
        patch.undo()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.advance()
    with run:
        assert list(run.snapshot("n")) == [("a", 6)]
        run.advance()
    is_whole(state, 16)


def test_a_commit_that_is_interrupted_and_cannot_be_taken_back_is_in_doubt(state, monkeypatch):
    """A note, which is no step: the run is open, and writes nothing more behind what may be there."""
    with counts().start(tm.Embedded(state)) as run:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(os.fsync, 4))  # the folder is on the disk, with whose it is
            patch.setattr(os, "ftruncate", failing(os.ftruncate, 0))
            with pytest.raises(StateError, match="No space left"):
                run.to_changelog(state.parent / "log")
        run.insert("x", [("a", 10)])
        with pytest.raises(StateError, match="its last commit was being written, and may be there or not"):
            run.advance()
        with pytest.raises(ClosedRunError, match="may be there or not: start another"):
            run.snapshot("n")
    is_whole(state)


def test_a_step_that_cannot_be_taken_back_is_not_said_to_be_queued(state, monkeypatch):
    """Found by review: "was not taken and is queued still; go on", of a step that was there, by a run that is closed."""
    run = counts().start(tm.Embedded(state))
    run.insert("x", [("a", 10)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, 0))
        patch.setattr(os, "ftruncate", failing(os.ftruncate, 0))
        with pytest.raises(StateError, match=r"could not be written .*its last commit .* may be there or not$"):
            run.advance()
    with pytest.raises(ClosedRunError, match="may be there or not: start another"):
        run.advance()
    is_whole(state, 16)


def test_what_a_killed_process_left_is_swept_up(state):
    left = ["log-0000000001", ".checkpoint-0000000006-deadbeef.123.tmp", "checkpoint-0000000004-deadbeef"]
    for name in left:
        (state / name).write_bytes(b"half")
    (state / "notes.txt").write_text("mine")
    is_whole(state)
    assert not [name for name in left if (state / name).exists()]
    assert (state / "notes.txt").exists()


def test_without_state_there_is_nothing_to_write_to():
    with counts().start(tm.Spark(None)) as run:
        for call in (run.checkpoint, lambda: run.to_changelog("x")):
            with pytest.raises(StateError, match="needs durable state"):
                call()
