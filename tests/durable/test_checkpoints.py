"""Checkpoints write what no file has yet, and refer to files of those before; what is there is always all of it."""

import random
import zipfile
from collections import Counter

import pytest
from support.running import embedded

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.embedded import checkpoint, interned
from tidemill.renderer.embedded.array_file import read


def build():
    flow = tm.Dataflow("checkpoints")
    x = flow.input("x", {"k": "int64", "v": "int64", "s": "string"})
    flow.output("all", x)
    flow.output("sums", x.group_by("k").agg(n=tm.count(), v=tm.sum("v")))
    flow.output("last", x.group_by("k").top_k(2, order_by=tm.desc("v")))
    return flow


def rows(first, count):
    return [(i % 997, i, f"text {i}") for i in range(first, first + count)]


def checkpoints(folder):
    return sorted(folder.glob("checkpoint-*"))


def elsewhere(path):
    """Return the arrays of a checkpoint that are in other files, and in which."""
    _, arrays = read(path)
    found = {name: arrays.member(name).file for name in arrays if arrays.member(name).file != path.name}
    arrays.close()
    return found


def test_a_checkpoint_after_a_small_step_writes_little(tmp_path):
    with build().start(tm.Embedded(tmp_path)) as run:
        run.insert("x", rows(0, 60_000))
        run.advance()
        run.checkpoint()
        (first,) = checkpoints(tmp_path)
        run.insert("x", [(1, -5, "new")])
        run.advance()
        run.checkpoint()
        assert first in checkpoints(tmp_path)
        (second,) = {*checkpoints(tmp_path)} - {first}
        assert second.stat().st_size * 20 < first.stat().st_size
        assert {*elsewhere(second).values()} == {first.name}
        expected = {name: run.snapshot(name).counts() for name in run.graph.outputs}
    seen = tm.read_state(tmp_path)
    assert {name: seen.snapshot(name).counts() for name in seen.outputs} == expected
    with build().start(tm.Embedded(tmp_path)) as run:  # nothing of it was read, and nothing is written anew
        run.checkpoint()
        third = checkpoints(tmp_path)[-1]
        assert third.stat().st_size * 20 < first.stat().st_size
        assert {name: run.snapshot(name).counts() for name in run.graph.outputs} == expected
        run.delete("x", [(1, -5, "new"), *rows(0, 3)])
        run.advance()
        assert ("text 0" in [s for _, _, s in run.snapshot("all")]) is False


@pytest.mark.parametrize("seed", range(6))
def test_histories_of_checkpoints(seed, tmp_path, monkeypatch):
    """Steps of all sizes, rows that go, values whose numbers others get, and processes that begin anew."""
    monkeypatch.setattr(checkpoint, "LEAST", 8)
    monkeypatch.setattr(checkpoint, "_FILES", 3)
    dice, held, referred = random.Random(seed), Counter(), 0
    for _ in range(8):
        with build().start(tm.Embedded(tmp_path)) as run:
            for _ in range(dice.randint(1, 4)):
                new = [
                    (dice.randrange(20), dice.randrange(50), f"{dice.randrange(10**6)}")
                    for _ in range(dice.choice([1, 3, 40, 300]))
                ]
                gone = dice.sample(sorted(held), min(len(held), dice.choice([0, 2, 100])))
                run.insert("x", new)
                run.delete("x", gone)
                held += Counter(new)
                held.subtract(gone)
                held = +held
                run.advance()
                if dice.random() < 0.3:
                    run.compact()
                if dice.random() < 0.7:
                    run.checkpoint()
                    referred += len(elsewhere(checkpoints(tmp_path)[-1]))
                    assert len(checkpoints(tmp_path)) <= 1 + 3
            assert run.snapshot("all").counts() == held
            sums = {k: [c for row, c in held.items() if row[0] == k] for k in {row[0] for row in held}}
            assert {row[:2] for row in run.snapshot("sums")} == {(k, sum(counts)) for k, counts in sums.items()}
        seen = tm.read_state(tmp_path)
        assert seen.snapshot("all").counts() == held
    assert referred


def test_files_stay_within_twice_of_what_is_in_use(tmp_path):
    with build().start(tm.Embedded(tmp_path)) as run:
        for i in range(12):
            run.insert("x", rows(i * 20_000, 20_000))
            if i > 1:
                run.delete("x", rows((i - 2) * 20_000, 20_000))
            run.advance()
            run.checkpoint()
        used = sum(path.stat().st_size for path in checkpoints(tmp_path))
        run.compact()
        run.save(tmp_path / "whole")
        assert used < 4 * (tmp_path / "whole").stat().st_size
        assert run.snapshot("all").counts() == Counter(rows(200_000, 40_000))


def test_a_file_of_which_little_is_in_use_is_let_go_of(tmp_path):
    """Else it would be kept, whole, for the little that never changes."""
    flow = tm.Dataflow("stays")
    for name in ("few", "many"):
        flow.output(name + " there", flow.input(name, {"v": "int64"}))
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("few", [(i,) for i in range(20_000)])
        for i in range(3):
            if i:
                run.delete("many", [(v,) for v in range((i - 1) * 100_000, i * 100_000)])
            run.insert("many", [(v,) for v in range(i * 100_000, (i + 1) * 100_000)])
            run.advance()
            run.checkpoint()
            if i:  # what there is first, a load, is written as it is
                (path,) = checkpoints(tmp_path)
                assert elsewhere(path) == {}
        assert len(list(run.snapshot("few there"))) == 20_000


def test_a_file_that_a_checkpoint_refers_to_and_is_gone_is_named(tmp_path):
    with build().start(tm.Embedded(tmp_path)) as run:
        run.insert("x", rows(0, 60_000))
        run.advance()
        run.checkpoint()
        run.insert("x", rows(0, 1))
        run.advance()
        run.checkpoint()
    first, _ = checkpoints(tmp_path)
    damaged = bytearray(first.read_bytes())
    first.unlink()
    with pytest.raises(StateError, match=f"{first.name} is missing, which was committed"):
        build().start(tm.Embedded(tmp_path))
    damaged[-1] ^= 1
    first.write_bytes(damaged)
    with pytest.raises(StateError, match=f"{first.name}"):
        build().start(tm.Embedded(tmp_path))


def test_a_step_that_was_not_committed_is_referred_to_by_nobody(tmp_path, monkeypatch):
    """The kind: batches said to be in a file that is not there once the commit has failed."""
    with build().start(tm.Embedded(tmp_path)) as run:
        run.insert("x", rows(0, 40_000))
        run.advance()
        with monkeypatch.context() as patched:
            patched.setattr("tidemill.renderer.durable.segment.Segment.append", _full)
            with pytest.raises(StateError, match="the checkpoint was not made"):
                run.checkpoint()
        run.checkpoint()
        assert elsewhere(checkpoints(tmp_path)[-1]) == {}
        assert zipfile.is_zipfile(checkpoints(tmp_path)[-1])
    with build().start(tm.Embedded(tmp_path)) as run:
        assert run.snapshot("all").counts() == Counter(rows(0, 40_000))


def _full(*_):
    raise OSError(28, "No space left on device")


def test_values_that_are_gone_do_not_pile_up_from_run_to_run(tmp_path, monkeypatch):
    """The kind: each run took what there was for what is held, so no run ever looked, and the folder grew.

    Or looked, and its numbers were given to nobody: the next run took them for those of what is stored.
    """
    monkeypatch.setattr(interned, "_FEW", 100)
    before, most = [], 0
    for i in range(24):
        with build().start(tm.Embedded(tmp_path)) as run:
            new = rows(i * 200, 200)
            run.insert("x", new)
            run.delete("x", before)
            run.advance()
            run.checkpoint()
            before, most = new, max(most, len(embedded(run).compiled.interner))
    assert most < 2000  # of 4,800 that there were, 200 at a time
