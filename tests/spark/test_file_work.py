"""What tasks make of files of state, run here: sorted, merged into ranges that share no key, and checked."""

import json

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import INT64, STRING
from tidemill.renderer.durable import file_work, spill_files
from tidemill.renderer.durable.checksums import Checksums
from tidemill.renderer.durable.spill_files import Layout, SpilledBatch, SpillFile, read_file
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction

file_tasks = pytest.importorskip("tidemill.renderer.spark.live.file_tasks", reason="needs tidemill[spark]")
LAYOUT = Layout((0,), (INT64, STRING), 1, 1, 1)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Tasks of a hundred updates; each is run twice, as one that was lost on its way back, and only the second counts."""
    monkeypatch.setattr(spill_files, "PAGE", 8)
    for module in (file_work, file_tasks):
        monkeypatch.setattr(module, "TOGETHER", 100)

    def done(_, tasks):
        told = [(file_tasks._told(task), file_tasks._told(task))[1] for task in tasks]
        return file_tasks._results([json.loads(one) for one in told])

    monkeypatch.setattr(file_tasks, "done", done)
    store = SpillFolder(tmp_path, 1, Interner(), durable=False)
    return file_tasks.WorkOnExecutors.beside(None, store, 10)


def given(folder, many, each):
    rng, found = np.random.default_rng(many), []
    for number in range(many):
        path = folder / f"given-{number}.parquet"
        keys = rng.integers(0, 300, each)
        pq.write_table(pa.table({"v0": keys, "v1": [f"text {k % 7}" for k in keys]}), path)
        same = (("t0", int(number % 3)), ("w0", 1 - 2 * (number % 2)))
        found.append(SpillFile(path.name, each, sorted=False, checksums=Checksums.of(path), constants=same))
    return found


def updates(folder, files, since=0):
    """All updates of files with times moved up, added up."""
    found = {}
    for file in files:
        for row in read_file(folder, LAYOUT, file).to_pylist():
            key = (row["v0"], row["v1"], max(row["t0"], since))
            found[key] = found.get(key, 0) + row["w0"]
    return {key: count for key, count in found.items() if count}


def test_few_files_are_sorted_some_together(work, tmp_path):
    files = given(tmp_path, 6, 40)
    runs = work.sorted("1/spine", LAYOUT, files, Antichain([0]))
    assert [(f.rows, f.sorted) for f in runs] == [(80, True)] * 3
    assert updates(tmp_path, runs) == updates(tmp_path, files)


def test_many_runs_become_files_that_share_no_key(work, tmp_path):
    files = given(tmp_path, 60, 50)
    found = work.sorted("1/spine", LAYOUT, files, Antichain([1]))
    assert 1 < len(found) < 40
    assert updates(tmp_path, found, since=1) == updates(tmp_path, files, since=1)
    assert sum(f.rows for f in found) == len(updates(tmp_path, files, since=1))  # they are consolidated
    keys = [set(read_file(tmp_path, LAYOUT, f).column("v0").to_pylist()) for f in found]
    assert sum(map(len, keys)) == len(set.union(*keys))


def test_batches_of_which_nothing_is_left_are_gone(work, tmp_path):
    """What came and went again cancels in a merge, of as many files as are merged when they are sorted."""
    work.store.work = work
    spine = Spine(UpdateLayout((0,), (INT64, STRING), 1, 1), lambda: Antichain([5]), Transaction())
    spilled = work.store.beneath("1/spine", spine)
    came = given(tmp_path, 40, 80)
    for weight in (1, -1):
        files = [attrs.evolve(f, constants=(("t0", 0), ("w0", weight))) for f in came[:20]]
        spilled.add(SpilledBatch((*files, *(attrs.evolve(f, constants=(("t0", 1), ("w0", -weight))) for f in files))))
    spilled.settle(1)
    assert (spilled.size, spilled.batches) == (0, 0)


def test_what_is_wrong_with_a_file_is_said(work, tmp_path, monkeypatch):
    files = given(tmp_path, 2, 40)
    work.require_whole(files)
    path = tmp_path / files[1].name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for do in (lambda: work.require_whole(files), lambda: work.sorted("1/spine", LAYOUT, files, Antichain([0]))):
        with pytest.raises(tm.errors.StateError, match="given-1.parquet is not a whole file of state"):
            do()
    monkeypatch.setattr(file_tasks, "sorted_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        work.sorted("1/spine", LAYOUT, files, Antichain([0]))


def full(*_args):
    raise OSError(28, "No space left on device")


def test_a_file_that_only_the_executor_sees_is_refused(work, tmp_path, monkeypatch):
    files, listing = given(tmp_path, 2, 40), SpillFile("elsewhere.parquet", 80, sorted=True, checksums=Checksums(7, ""))
    monkeypatch.setattr(file_tasks, "sorted_file", lambda *_: listing)
    with pytest.raises(
        tm.errors.EngineError, match="elsewhere.parquet: an executor wrote 7 bytes there, which are not"
    ):
        work.sorted("1/spine", LAYOUT, files, Antichain([0]))
