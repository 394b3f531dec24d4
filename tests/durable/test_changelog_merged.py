"""Changelogs whose older files are merged: as many files after many steps as after few, and the same contents."""

import os
from collections import Counter

import pytest

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.durable import changelog_files


def build():
    flow = tm.Dataflow("counts", time=("epoch",))
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(n=tm.count()), changes=False)
    flow.output("x", x)
    return flow


def take(run, steps):
    for i in steps:
        run.insert("x", [("abc"[i % 3], i % 5)])
        if i >= 10:
            run.delete("x", [("abc"[(i - 10) % 3], (i - 10) % 5)])
        run.advance()


def counts(folder):
    found = Counter()
    for line in tm.read_changelog(folder).to_pylist():
        *row, _, diff = line.values()
        found[tuple(row)] += diff
    return {row: n for row, n in found.items() if n}


def shown(folder):
    return [p.name for p in sorted(folder.iterdir()) if p.name.startswith("step")]


@pytest.mark.slow
def test_files_stay_few_and_contents_the_same(tmp_path):
    state, log = tmp_path / "state", tmp_path / "log"
    seen = []
    for part in range(4):  # goes on without being told again
        with build().start(tm.Embedded(state, checkpoint_every=30)) as run:
            if not part:
                run.to_changelog(log, keep=5)
            take(run, range(part * 60, part * 60 + 60))
            for name in ("n", "x"):
                assert counts(log / name) == run.snapshot(name).counts()
        seen.append(len(shown(log / "x")))
        assert len(list(state.iterdir())) <= 6
    assert max(seen) <= 12
    files, covered = changelog_files.change_files(log / "x")
    assert not covered
    assert sum(file.is_range for file in files) <= 3
    times = tm.read_changelog(log / "x").column("time").to_pylist()
    assert times[-5:] == sorted(times[-5:])
    assert max(times) == 239


def test_the_last_steps_keep_their_times(tmp_path):
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(tmp_path / "log", outputs=["x"], keep=3)
        take(run, range(30))
        changes = [(*row, time, diff) for row, time, diff in run.changes("x") if time >= 27]
    lines = [tuple(line.values()) for line in tm.read_changelog(tmp_path / "log" / "x").to_pylist()]
    assert [line for line in lines if line[2] >= 27] == changes


def test_keep_may_be_said_later_and_taken_back(tmp_path):
    log = tmp_path / "log"
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log)
        take(run, range(20))
        assert len(shown(log / "x")) == 20
        run.to_changelog(log, keep=2)
        take(run, range(20, 25))
        assert len(shown(log / "x")) <= 5
        run.to_changelog(log)
        take(run, range(25, 40))
        assert len(shown(log / "x")) >= 15
        assert counts(log / "x") == run.snapshot("x").counts()


@pytest.mark.parametrize("cut", ["unlink", "put_in_place"])
def test_cut_off_in_the_middle_nothing_counts_twice(tmp_path, monkeypatch, cut):
    log = tmp_path / "log"
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log, keep=2)
        take(run, range(12))
        with monkeypatch.context() as patch:
            if cut == "unlink":
                patch.setattr(changelog_files, "_remove", lambda _: None)
                take(run, range(12, 18))
                assert changelog_files.change_files(log / "x")[1]  # files within the range of others
            else:
                patch.setattr(changelog_files, "put_in_place", _refuse)
                with pytest.warns(RuntimeWarning, match="files of older changes were not merged"):
                    take(run, range(12, 18))
            assert counts(log / "x") == run.snapshot("x").counts()
        take(run, range(18, 24))
        assert not changelog_files.change_files(log / "x")[1]
        assert len(shown(log / "x")) <= 8
        assert counts(log / "x") == run.snapshot("x").counts()


def _refuse(*_, **__):
    raise OSError(28, os.strerror(28))


def test_a_range_that_comes_while_files_are_read_is_read(tmp_path, monkeypatch):
    log = tmp_path / "log"
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        run.to_changelog(log, keep=2)
        take(run, range(4))
        listed, change_files = [], changelog_files.change_files

        def meanwhile(folder):
            found = change_files(folder)
            if not listed:
                listed.append(found)
                take(run, range(4, 9))
            return found

        monkeypatch.setattr(changelog_files, "change_files", meanwhile)
        assert sum(counts(log / "x").values()) in {4, 9}
        assert listed


def test_refusals(tmp_path):
    with build().start(tm.Embedded(tmp_path / "state")) as run:
        for wrong in (0, -1, True, 1.5):
            with pytest.raises(StateError, match="expected a number of steps, 1 or more"):
                run.to_changelog(tmp_path / "log", keep=wrong)
    with pytest.raises(StateError, match="no such folder"):
        tm.read_changelog(tmp_path / "log")
    with pytest.raises(StateError, match="holds no changes"):
        tm.read_changelog(tmp_path)
