"""Whatever happens to the files of a state, what is read is what was written, or an error that names a file."""

import itertools
import json
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.durable import checksums, spill_files
from tidemill.renderer.durable.checksums import Checksums
from tidemill.renderer.durable.large_changes import LargeChange
from tidemill.renderer.durable.spill_files import SpilledBatch, SpillFile


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Pages of two updates and blocks of 200 bytes: files of some pages each, and of some blocks."""
    monkeypatch.setattr(spill_files, "PAGE", 2)
    monkeypatch.setattr(spill_files, "PAGE_IN_ORDER", 2)
    monkeypatch.setattr(checksums, "BLOCK", 200)


def joined(*, more=False):
    flow = tm.Dataflow("joined")
    left, right = flow.input("left", {"k": "int64", "v": "string"}), flow.input("right", {"k": "int64", "w": "int64"})
    flow.output("pairs", left.join(right, on="k"))
    flow.output("sums", left.join(right, on="k").group_by("v").agg(n=tm.count(), s=tm.sum("w")))
    if more:
        flow.output("left", left)
        flow.output("right", right)
    return flow


def contents(folder):
    """What a run on the folder shows once it has looked up every key, and loaded what the inputs hold."""
    with joined(more=True).start(tm.Embedded(folder)) as run:
        run.insert("left", [(k, "more") for k in range(5)])
        run.insert("right", [(k, 100) for k in range(5)])
        run.advance()
        return [sorted(run.snapshot(name)) for name in ("pairs", "sums", "left", "right")]


@pytest.fixture
def state(tmp_path):
    """A folder with a checkpoint that refers to files, and three steps, each by a run of its own."""
    folder = tmp_path / "state"
    for steps in ((0, 1, 2, 3), (4,), (5,)):
        with joined().start(tm.Embedded(folder, in_memory=10**6)) as run:
            for step in steps:
                run.insert("left", [(step % 5, f"v{step % 3}")])
                run.insert("right", [(step % 5, step), (step % 4, -step)])
                run.advance()
                if step == 2:
                    run.spill()
                    run.checkpoint()
    return folder


def files(folder):
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())


def outcome(folder, copy, change):
    """What there is after a change to a copy of the folder: the contents, or the message."""
    shutil.copytree(folder, copy)
    try:
        change(copy)
        return contents(copy)
    except StateError as error:
        return str(error)
    finally:
        shutil.rmtree(copy)


@pytest.mark.slow
def test_whatever_bit_of_whatever_file_is_flipped(state, tmp_path):
    """Found by flipping bits: of spilled files, some changed what came out and nobody was told."""
    expected = outcome(state, tmp_path / "copy", lambda _: None)
    assert isinstance(expected, list)
    rng, refused = random.Random(7), dict.fromkeys(files(state), 0)
    assert len(refused) > 6
    for name in refused:
        size = (state / name).stat().st_size
        offsets = range(size) if size < 40 else rng.sample(range(size), 20) + [0, size - 6, size - 1]
        for at in offsets:

            def flip(copy, name=name, at=at):
                changed = bytearray((copy / name).read_bytes())
                changed[at] ^= 1 << rng.randrange(8)
                (copy / name).write_bytes(changed)

            found = outcome(state, tmp_path / "copy", flip)
            assert found == expected or (isinstance(found, str) and str(name) in found), (name, at, found)
            refused[name] += isinstance(found, str)
    needed = [name for name in refused if str(name).startswith(("log", "checkpoint", "cold"))]
    assert all(refused[name] >= 20 for name in needed)
    assert len(needed) == len(refused) - 2  # whose the folder is, and which commit was the last


def kind(name):
    return str(name).split("-", maxsplit=1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["copied", "swapped"])
def test_a_file_in_another_ones_place(state, tmp_path, how):
    """Found by copying files: one commit in another's place brought back changes twice."""
    expected = outcome(state, tmp_path / "copy", lambda _: None)
    cold = [name for name in files(state) if name.parts[0] == "cold"]
    alike = [sorted(some) for _, some in itertools.groupby(files(state), kind)] + [cold]
    pairs = {pair for some in alike for pair in itertools.permutations(some, 2)}
    assert len(pairs) > 20
    for one, other in sorted(pairs):

        def replace(copy, one=one, other=other):
            content = (copy / other).read_bytes()
            shutil.copy(copy / one, copy / other)
            if how == "swapped":
                (copy / one).write_bytes(content)

        same = (state / one).read_bytes() == (state / other).read_bytes()
        found = outcome(state, tmp_path / "copy", replace)
        assert found == expected if same else (isinstance(found, str) and str(tmp_path) in found), (one, other, found)


def test_a_file_that_is_missing(state, tmp_path):
    expected = outcome(state, tmp_path / "copy", lambda _: None)
    for name in files(state):
        found = outcome(state, tmp_path / "copy", lambda copy, name=name: (copy / name).unlink())
        if str(name) in {"lock", "last"}:
            assert found == expected
        else:
            assert f"{name} is missing" in found


def test_logs_that_are_all_missing(state, tmp_path):
    def without(*kinds):
        def remove(copy):
            for name in files(copy):
                if kind(name) in kinds:
                    (copy / name).unlink()

        return remove

    found = outcome(state, tmp_path / "copy", without("log"))
    assert "log-0000000004 is missing: commit 7 is not there, which was the last one" in found
    found = outcome(state, tmp_path / "copy", without("log", "last"))
    assert "no log that says what of it counts" in found


def test_the_last_steps_are_given_up_when_that_is_asked_for(state, tmp_path):
    def give_up(copy):
        (copy / "log-0000000004").unlink()
        (copy / "last").unlink()

    found = outcome(state, tmp_path / "copy", give_up)
    assert isinstance(found, list)
    assert found != outcome(state, tmp_path / "copy", lambda _: None)


def test_files_of_another_state_of_the_same_flow(state, tmp_path):
    """Of the same numbers, whole, and of no use here."""
    other = tmp_path / "other"
    for steps in (4, 1, 1):
        with joined().start(tm.Embedded(other, in_memory=10**6)) as run:
            for step in range(steps):
                run.insert("left", [(step, "other")])
                run.advance()
                if step == 2:
                    run.checkpoint()
    logs = [name for name in files(state) if kind(name) == "log"]
    assert logs == [name for name in files(other) if kind(name) == "log"]
    assert len(logs) == 3
    for name in logs:
        found = outcome(state, tmp_path / "copy", lambda copy, name=name: shutil.copy(other / name, copy / name))
        assert isinstance(found, str)
        assert "is not the one that was committed there" in found


def test_a_large_change_that_waits_in_files(tmp_path):
    """As a record of a step lists it, and as it is brought into memory."""
    node = joined().graph.inputs["left"]
    path = tmp_path / "0-input-000000-owner.parquet"
    pq.write_table(pa.table({"v0": [1, 2, 3]}), path)
    file = SpillFile(path.name, 3, sorted=False, checksums=Checksums.of(path))
    change = LargeChange.in_files(node, (4,), -1, [file], unread=(1,))
    listing = json.loads(json.dumps({"kind": "large", "rows": change.rows, **change.listing()}))
    again = LargeChange.of(listing, {"left": node})
    assert (again.node, again.time, again.diff, again.unread, again.rows) == (node, (4,), -1, (1,), 3)
    assert again.queued(tmp_path).batch.to_pylist() == [{"k": k, "v": None} for k in (1, 2, 3)]
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2", 1))
    with pytest.raises(StateError, match=r"0-input-000000-owner.parquet is not a whole file of state \(the checksum"):
        again.queued(tmp_path)


@pytest.mark.slow
def test_files_as_executors_write_them(tmp_path):
    """In no order, with columns that are the same throughout left out, and sorted when a key is asked for."""
    folder = tmp_path / "state"
    with joined().start(tm.Embedded(folder, in_memory=10**6)) as run:
        store, spines = run._stepper.spill_store.store, run._stepper.spill_store.spines
        (left,) = [
            n for n, s in spines.items() if s.layout.keys == (0,) and list(map(str, s.layout.types))[1:] == ["string"]
        ]
        path = store.new_path(left, ".parquet")
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"v1": ["a", "b", "c"] * 3, "v0": [*range(9)]}), path)
        run.advance()
        file = SpillFile(path.name, 9, sorted=False, checksums=Checksums.of(path), constants=(("t0", 0), ("w0", 1)))
        store.beneath(left, spines[left]).add(SpilledBatch((file,)))
        run.checkpoint()
    expected = outcome(folder, tmp_path / "copy", lambda _: None)
    assert [row[:2] for row in expected[0] if row[1] != "more"] == [(0, "a"), (1, "b"), (2, "c"), (3, "a"), (4, "b")]
    name = path.relative_to(folder)
    for at in range(0, path.stat().st_size, 7):

        def flip(copy, at=at):
            changed = bytearray((copy / name).read_bytes())
            changed[at] ^= 4
            (copy / name).write_bytes(changed)

        assert f"{path.name} is not a whole file of state" in outcome(folder, tmp_path / "copy", flip)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with joined().start(tm.Embedded(folder)) as run, pytest.raises(StateError, match="is not a whole file of state"):
        run._stepper.spill_store.store.require_whole([file])
