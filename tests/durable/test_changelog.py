"""Changes as Parquet files: each step's once, seen only when it is committed, whatever fails in between."""

import errno
import functools
import gc
import itertools
import os
import resource
import stat

import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tidemill.errors import StateError, StepError, UnknownNameError
from tidemill.renderer.durable import changelog
from tidemill.renderer.embedded import whole_file


def build():
    flow = tm.Dataflow("counts")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(n=tm.count()), changes=False)
    flow.output("big", x.filter("v > 5"))
    return flow


def logged(folder, output):
    """All updates of a changelog in the order of its files."""
    files = sorted((folder / output).glob("step-*.parquet"))
    return [tuple(line.values()) for file in files for line in pq.read_table(file).to_pylist()]


def test_each_step_writes_its_changes(tmp_path):
    state, log = tmp_path / "state", tmp_path / "log"
    flow = build()
    with flow.start(tm.Embedded(state)) as run:
        run.to_changelog(log)
        run.insert("x", [("a", 1), ("b", 9)])
        run.update("x", [(("a", 1), 1, 1)])
        run.advance_to(2)
        run.advance()
        run.to_changelog(log)
    with flow.start(tm.Embedded(state)) as run:  # goes on without being told
        run.delete("x", [("b", 9)])
        run.advance()
        assert list(run.changes("big")) == [(("b", 9), 3, -1)]
    log_file = {p: p.stat().st_size for p in state.glob("log-*")}
    with flow.start(tm.Embedded(state)) as run:
        run.to_changelog(log)  # said again, it is not written down again
    assert {p: p.stat().st_size for p in state.glob("log-*")} == log_file
    assert logged(log, "n") == [("a", 1, 0, 1), ("b", 1, 0, 1), ("a", 1, 1, -1), ("a", 2, 1, 1), ("b", 1, 3, -1)]
    assert logged(log, "big") == [("b", 9, 0, 1), ("b", 9, 3, -1)]
    assert sorted(p.name for p in (log / "big").iterdir()) == ["step-0000000001.parquet", "step-0000000003.parquet"]
    with flow.start(tm.Embedded(state)) as run:
        run.to_changelog(log, outputs=[])
        run.insert("x", [("b", 9)])
        run.advance()
    assert len(logged(log, "big")) == 2


@pytest.mark.parametrize("runs_before", [0, 1])
@pytest.mark.parametrize("is_read", [False, True])
def test_what_outputs_hold_before_the_first_step_is_in_its_files(tmp_path, runs_before, is_read):
    """Constants, and what is known until delayed inputs begin: else what takes it away would have nothing before it."""
    state, log = tmp_path / "state", tmp_path / "log"
    flow = tm.Dataflow("late")
    x = flow.input("x", {"k": "string"})
    flow.output("n", x.delay(1).group_by().agg(n=tm.count()), changes=False)
    flow.output("constant", flow.constant({"k": "string"}, [("a",), (None,)]))
    flow.output("x", x)
    for _ in range(runs_before):
        with flow.start(tm.Embedded(state)) as run:
            run.to_changelog(log)
    for at in range(2):
        with flow.start(tm.Embedded(state)) as run:
            run.to_changelog(log)
            if is_read:
                run.changes("constant")
            run.insert("x", [("b",)])
            run.advance()
            assert len(logged(log, "x")) == at + 1
    assert logged(log, "n") == [(0, 0, 1), (0, 1, -1), (1, 1, 1), (1, 2, -1), (2, 2, 1)]
    assert logged(log, "constant") == [(None, 0, 1), ("a", 0, 1)]
    assert [p.name for p in (log / "constant").iterdir()] == ["step-0000000001.parquet"]


def test_what_is_there_before_the_first_step_is_written_once_though_that_fails_at_first(tmp_path, monkeypatch):
    flow = tm.Dataflow("constants")
    flow.input("x", {"k": "string"})
    flow.output("constant", flow.constant({"k": "string"}, [("a",)]))
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(tmp_path / "log")
        with monkeypatch.context() as patch:
            patch.setattr(changelog._Spares, "take", _refuse)
            with pytest.raises(StateError, match="step 1 could not be written"):
                run.advance()
        run.advance()
        run.advance()
    assert logged(tmp_path / "log", "constant") == [("a", 0, 1)]


def test_a_run_whose_step_is_refused_has_not_written_to_the_files_of_the_owner(tmp_path, monkeypatch):
    """As where a file system has no locks: two runs at the same step, of which the first one commits it."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    state, log = tmp_path / "state", tmp_path / "log"
    with build().start(tm.Embedded(state)) as run:
        run.to_changelog(log)
    with build().start(tm.Embedded(state)) as owner:
        with build().start(tm.Embedded(state)) as other:
            owner.insert("x", [("a", 7)])
            other.insert("x", [("b", 8)])
            with monkeypatch.context() as patch:
                patch.setattr(changelog, "_publish", lambda moves: moves and _refuse())
                with pytest.warns(RuntimeWarning, match="changes of step 1 are not shown yet"):
                    owner.advance()
            with pytest.raises(StateError, match="another process committed"):
                other.advance()
        owner.advance()
    assert logged(log, "big") == [("a", 7, 0, 1)]


def test_a_folder_whose_owner_could_not_be_written_is_nobodys(tmp_path):
    log = tmp_path / "log"
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file can be written to, as on a full disk
        try:
            with pytest.raises(StateError, match="cannot be used for changes"):
                run.to_changelog(log)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        run.to_changelog(log)
        run.insert("x", [("a", 9)])
        run.advance()
    assert logged(log, "big") == [("a", 9, 0, 1)]
    assert sorted(path.name for path in log.iterdir()) == ["_tidemill.json", "big", "n"]


def test_the_disk_knows_whose_a_folder_is_and_what_is_in_it(tmp_path, monkeypatch):
    log, known, fsync = tmp_path / "log", [], os.fsync

    def synced(descriptor):
        info = os.fstat(descriptor)
        known.append((info.st_ino, info.st_size if stat.S_ISREG(info.st_mode) else len([*os.scandir(descriptor)])))
        fsync(descriptor)

    with build().start(tm.Embedded(tmp_path / "state")) as run:
        monkeypatch.setattr(os, "fsync", synced)
        run.to_changelog(log, outputs=["n"])
        owner = (log / "_tidemill.json").stat()
        assert {(owner.st_ino, owner.st_size), (log.stat().st_ino, 2), (tmp_path.stat().st_ino, 2)} <= {*known}
        run.to_changelog(log)
        assert (log.stat().st_ino, 3) in known
    known.clear()
    with build().start(tm.Embedded(tmp_path / "state")):  # the process before may have died within that
        assert {(log.stat().st_ino, 3), (tmp_path.stat().st_ino, 2)} <= {*known}


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_runs_that_take_a_folder_at_once_one_is_refused(tmp_path, monkeypatch, has_links):
    """Where a file system has links: the second would go on in the folder of the first, under the same names."""
    log, fsync, refused = tmp_path / "log", os.fsync, []

    def meanwhile(descriptor):
        fsync(descriptor)
        monkeypatch.setattr(os, "fsync", fsync)
        other.to_changelog(log)

    if not has_links:
        monkeypatch.setattr(os, "link", lambda *_: _refuse())
    with build().start(tm.Embedded(tmp_path / "b")) as other, build().start(tm.Embedded(tmp_path / "a")) as run:
        monkeypatch.setattr(os, "fsync", meanwhile)
        try:
            run.to_changelog(log)
        except StateError as error:
            refused.append(str(error))
        (other if has_links else run).insert("x", [("b", 8)])
        (other if has_links else run).advance()
    assert [error.partition(":")[0] for error in refused] == [
        f"{log} holds the changes of another run's state"
    ] * has_links
    assert logged(log, "big") == [("b", 8, 0, 1)]
    assert not [*log.glob(".*")]


def test_processes_of_one_number_do_not_write_to_one_file(tmp_path, monkeypatch):
    """As of two containers, each of which counts its processes from 1 on: the first file there stays, whole."""
    monkeypatch.setattr(whole_file, "_numbers", itertools.repeat(0), raising=False)
    path = tmp_path / "file"

    def write(one):
        one.write(b"one")
        whole_file.put_in_place(path, lambda other: other.write(b"other"), new=True)

    whole_file.put_in_place(path, write, new=True)
    assert path.read_bytes() == b"other"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("new", [False, True])
def test_what_is_there_stays_only_where_the_file_is_to_be_new(tmp_path, new):
    path = tmp_path / "file"
    path.write_bytes(b"there")
    whole_file.put_in_place(path, lambda file: file.write(b"written"), new=new)
    assert path.read_bytes() == (b"there" if new else b"written")
    assert [*tmp_path.iterdir()] == [path]


def test_a_folder_with_an_empty_file_of_the_owner_is_nobodys(tmp_path):
    """As versions before left it where the machine failed at the wrong moment."""
    state, log = tmp_path / "state", tmp_path / "log"
    with build().start(tm.Embedded(state)) as run:
        run.to_changelog(log)
    (log / "_tidemill.json").write_bytes(b"")
    with build().start(tm.Embedded(state)) as run:
        run.insert("x", [("a", 9)])
        run.advance()
    assert logged(log, "big") == [("a", 9, 0, 1)]
    with build().start(tm.Embedded(tmp_path / "other")) as run, pytest.raises(StateError, match="another run's state"):
        run.to_changelog(log)


def _refuse(*_):
    raise OSError(errno.ENOSPC, "no room")


def test_a_step_that_is_not_committed_shows_nothing(tmp_path, monkeypatch):
    flow = build()
    log = tmp_path / "log"
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log, outputs=["big"])
        run.insert("x", [("a", 7)])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError("no")))
            with pytest.raises(StateError, match="step 1 was not taken"):
                run.advance()
        assert logged(log, "big") == []
        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", lambda *_: (_ for _ in ()).throw(OSError("no room")))
            with pytest.raises(StateError, match=r"changes of step 1 could not be written \(no room\)"):
                run.advance()
        run.insert("x", [("b", 8)])
        run.advance()
    assert logged(log, "big") == [("a", 7, 0, 1), ("b", 8, 0, 1)]


def test_what_was_committed_and_not_shown_is_shown_later(tmp_path, monkeypatch):
    """As when the process dies between the commit and the move; and by the same run with its next step."""
    flow = build()
    log = tmp_path / "log"
    for again in (True, False):
        with flow.start(tm.Embedded(tmp_path / "state")) as run:
            run.to_changelog(log, outputs=["big"])
            before = len(logged(log, "big"))
            run.insert("x", [("a", 7)])
            with monkeypatch.context() as patch:
                replace = type(log).replace
                patch.setattr(type(log), "replace", functools.partialmethod(unmovable, move=replace))
                with pytest.warns(RuntimeWarning, match="not shown yet: .*stuck"):
                    run.advance()
            assert len(logged(log, "big")) == before
            if again:
                run.insert("x", [("b", 8)])
                run.advance()
                assert [line[0] for line in logged(log, "big")] == ["a", "b"]
            else:
                run.checkpoint()
    with flow.start(tm.Embedded(tmp_path / "state")):
        assert [line[0] for line in logged(log, "big")] == ["a", "b", "a"]
    assert not list((log / "big").glob(".*"))


def unmovable(path, to, *, move):
    if path.suffix == ".pending":
        raise OSError(errno.EIO, "stuck")
    return move(path, to)


def test_what_a_killed_process_wrote_and_did_not_commit_is_swept_up(tmp_path):
    flow = build()
    log = tmp_path / "log"
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log)
        run.insert("x", [("a", 7)])
        run.advance()
    left = log / "big" / ".step-0000000002.parquet.pending"
    left.write_bytes(b"half")
    with flow.start(tm.Embedded(tmp_path / "state")):
        assert not left.exists()
        assert len(logged(log, "big")) == 1


@pytest.mark.parametrize("checkpoint", [False, True])
def test_what_is_told_before_the_first_step_is_not_forgotten(tmp_path, checkpoint):
    """Found by a reviewer: a process that died between the telling and a step left a state that did not know of it."""
    log = tmp_path / "log"
    run = build().start(tm.Embedded(tmp_path / "state"))
    run.to_changelog(log, outputs=["big"])
    if checkpoint:
        run.checkpoint()
    del run  # as if the process had died: without closing it
    gc.collect()
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        run.insert("x", [("a", 7)])
        run.advance()
        assert logged(log, "big") == [("a", 7, 0, 1)]
        run.to_changelog(log, outputs=[])
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        run.insert("x", [("a", 8)])
        run.advance()
        assert list(run.snapshot("n")) == [("a", 2)]
    assert logged(log, "big") == [("a", 7, 0, 1)]


def test_what_cannot_be_written_down_is_not_begun(tmp_path, monkeypatch):
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError("no")))
            with pytest.raises(StateError, match=r"could not be written \(no\): no changes are written there"):
                run.to_changelog(tmp_path / "log")
        run.insert("x", [("a", 7)])
        run.advance()
        assert logged(tmp_path / "log", "big") == []
        run.to_changelog(tmp_path / "log")
        run.insert("x", [("b", 8)])
        run.advance()
    assert logged(tmp_path / "log", "big") == [("b", 8, 1, 1)]


ODD = ["..", ".", "/etc/x", "a/../../b", "nul\0", "n" * 1000, "n" * 1001, "Case", "case", "CASE", "_tidemill.json",
       ".hidden", " ", "é", "e\u0301", "100%", "a%2Fb", "a/b", "-", "\ud800"]  # fmt: skip


def test_names_of_outputs_that_are_no_names_of_folders(tmp_path):
    """Found by a reviewer: an output named `..` wrote beside the folder, and names that differ in case into one."""
    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64"})
    for i, name in enumerate(ODD):
        flow.output(name, x.select(i=f"i + {i}"), changes=False)
    (tmp_path / "around").mkdir()
    log = tmp_path / "around" / "log"
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log)
        run.insert("x", [(0,)])
        run.advance()
    assert [p.name for p in (tmp_path / "around").iterdir()] == ["log"]
    folders = [p.name for p in log.iterdir() if p.is_dir()]
    assert len({name.lower() for name in folders}) == len(ODD)
    assert all(len(name) < 200 and name.isascii() and name[0] not in "._" for name in folders)
    assert sorted(row for name in folders for row in logged(log, name)) == [(i, 0, 1) for i in range(len(ODD))]


def test_refusals(tmp_path):
    flow = build()
    log = tmp_path / "log"
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log)
        with pytest.raises(UnknownNameError, match="no output 'bog'"):
            run.to_changelog(log, outputs=["bog"])
        (tmp_path / "file").write_text("x")
        with pytest.raises(StateError, match="cannot be used for changes"):
            run.to_changelog(tmp_path / "file")
    with flow.start(tm.Embedded(tmp_path / "other")) as run, pytest.raises(StateError, match="changes of another run"):
        run.to_changelog(log)


def test_columns_called_as_those_of_changes_are_keep_their_names(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"time": "int64", "diff": "string"}))
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(tmp_path / "log")
        run.insert("x", [(7, "seven")])
        run.advance()
    (file,) = (tmp_path / "log" / "o").glob("step-*.parquet")
    assert pq.read_table(file).to_pylist() == [{"time": 7, "diff": "seven", "_time": 0, "_diff": 1}]


# -- batches with numbers -------------------------------------------------------------------------------------------


def test_a_batch_delivered_again_is_passed_over(tmp_path):
    flow = build()
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert run.deliver("s", 0, lambda r: r.insert("x", [("a", 1)]))
        assert run.deliver("s", 1, lambda r: r.insert("x", [("a", 2)]))
        assert not run.deliver("s", 1, lambda r: r.insert("x", [("a", 2)]))
        assert run.deliver("t", 0, lambda r: r.insert("x", [("t", 2)]), advance_to=9)
    with flow.start(tm.Embedded(tmp_path, checkpoint_every=1)) as run:
        assert not run.deliver("s", 1, lambda r: r.insert("x", [("a", 2)]))
        assert run.deliver("s", 2, lambda r: r.insert("x", [("a", 3)]))
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert not run.deliver("t", 0, lambda r: r.insert("x", [("a", 2)]))
        assert sorted(run.snapshot("n")) == [("a", 3), ("t", 1)]
        assert run.frontier("x") == tm.Antichain([10])


def test_a_batch_that_fails_leaves_nothing(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="10 div i"))
    flow.output("k", flow.input("y", {"k": "int64", "v": "int64"}, key="k"))

    def put(run):
        run.insert("x", [(0,)])
        run.upsert("y", [(1, 3)])

    def put_and_fail(run):
        put(run)
        run.discard()
        raise RuntimeError

    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(1,)])
        run.upsert("y", [(1, 1)])
        with pytest.raises(tm.errors.ExpressionError):
            run.deliver("s", 0, put)
        with pytest.raises(RuntimeError):
            run.deliver("s", 0, put_and_fail)
        with pytest.raises(StepError, match="may not take a step"):
            run.deliver("s", 0, lambda r: r.advance())
        with pytest.raises(StepError, match="may not have it compacted: do so after"):
            run.deliver("s", 0, lambda r: r.compact())
        with pytest.raises(StepError, match="may not have the state written: do so after"):
            run.deliver("s", 0, lambda r: r.checkpoint())
        assert run.deliver("s", 0, lambda r: r.insert("x", [(5,)]))
        assert (sorted(run.snapshot("o")), list(run.snapshot("k"))) == ([(2,), (10,)], [(1, 1)])
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert (sorted(run.snapshot("o")), list(run.snapshot("k"))) == ([(2,), (10,)], [(1, 1)])
        assert not run.deliver("s", 0, put)


def test_a_batch_whose_step_was_taken_counts_whatever_callbacks_raise(tmp_path):
    with build().start(tm.Embedded(tmp_path)) as run:
        run.on_step(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.deliver("s", 0, lambda r: r.insert("x", [("a", 1)]))
        assert not run.deliver("s", 0, lambda r: r.insert("x", [("a", 1)]))
        assert list(run.snapshot("n")) == [("a", 1)]


def test_without_state_batches_count_once_in_the_process():
    with build().start(tm.Spark(None)) as run:
        for batch in (0, 0, 1):
            run.deliver("s", batch, lambda r: r.insert("x", [("a", 1)]))
        assert list(run.snapshot("n")) == [("a", 2)]


@pytest.mark.slow
def test_a_step_takes_one_call_of_fsync_for_its_log_and_one_for_each_file(tmp_path, monkeypatch):
    """But for a few calls for new spare files, the fewer, the longer it goes on."""
    calls = []
    fsync = os.fsync
    flow = build()
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(tmp_path / "log")
        monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append(descriptor), fsync(descriptor)))
        steps, outputs = 100, 2
        for step in range(steps):
            run.insert("x", [(f"key {step}", 9)])
            run.advance()
        taken = len(calls)  # what closing writes, a checkpoint, is apart
    spares_made = 7  # 1, 2, 4, 8, 16, 32, 32 and 32 of them
    assert taken <= steps * (1 + outputs) + outputs * (spares_made + 1)
    assert len(logged(tmp_path / "log", "big")) == steps
    assert not list((tmp_path / "log" / "big").glob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["all", "every other"])
@pytest.mark.parametrize("ended", [False, True])
def test_moves_that_a_machine_that_fails_forgets_are_made_anew(tmp_path, monkeypatch, lost, ended):
    """Whatever of what no call of fsync has secured is undone, of the changelog; the state's own moves are secured at once."""
    flow = build()
    log, state = tmp_path / "log", tmp_path / "state"
    moves, replace, sync = [], type(log).replace, whole_file.sync_folder

    def moved(path, to):
        if log in path.parents:
            moves.append((path, type(log)(to)))
        return replace(path, to)

    def synced(folder):
        moves[:] = [move for move in moves if move[1].parent != folder]
        sync(folder)

    monkeypatch.setattr(type(log), "replace", moved)
    monkeypatch.setattr(changelog, "sync_folder", synced)
    for steps in range(1, 12):
        with flow.start(tm.Embedded(state)) as run:
            run.to_changelog(log)
            for step in range(steps):
                run.insert("x", [("a", 9 + step)])
                run.advance()
            if ended:
                run.to_changelog(log, outputs=["n"])
                for _ in range(3):
                    run.insert("x", [("b", 1)])
                    run.advance()
            expected = sorted(path.name for path in (log / "big").glob("step-*"))
        forgotten = moves[:: 1 if lost == "all" else 2]
        for hidden, shown in forgotten:
            replace(shown, hidden)
        moves.clear()
        with flow.start(tm.Embedded(state)):
            assert sorted(path.name for path in (log / "big").glob("step-*")) == expected
            assert len(logged(log, "big")) == len(expected)
        moves.clear()
