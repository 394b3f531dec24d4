"""Opening a folder: what is read is what is looked at, whatever the number of steps and the size of the state."""

import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.durable import frames, log_reading, recorder, start
from tidemill.renderer.embedded import array_file
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.runs import stepper

PARTS = 10


def build():
    flow = tm.Dataflow("wide")
    x = flow.input("x", {"part": "int64", "k": "string", "v": "int64"})
    for i in range(PARTS):
        mine = x.filter(f"part = {i}")
        flow.output(f"n{i}", mine.group_by("k").agg(n=tm.count(), s=tm.sum("v")))
        flow.output(f"all{i}", mine)
        flow.output(f"top{i}", mine.group_by("k").top_k(1, order_by="v").select("k"), changes=False)
    return flow


def rows(first, count):
    return [(i % PARTS, f"key {i % 97}", i) for i in range(first, first + count)]


@pytest.fixture
def arrays_read(monkeypatch):
    read, original = [], array_file.Arrays.__getitem__
    monkeypatch.setattr(array_file.Arrays, "__getitem__", lambda self, name: read.append(name) or original(self, name))
    return read


def test_what_is_not_looked_at_is_not_read(tmp_path, arrays_read, monkeypatch):
    flow, headers_read, header = build(), [], np.lib.format.read_array_header_1_0
    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", lambda file: headers_read.append(file) or header(file))
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", rows(0, 4000))
        run.advance()
        run.checkpoint()
        expected = {name: run.snapshot(name).counts() for name in run.graph.outputs}
        state_rows = run.metrics().state_rows
    assert not arrays_read
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert run.metrics().state_rows == state_rows
        assert arrays_read == headers_read == []
        assert run.snapshot("n3").counts() == expected["n3"]
        assert sorted(name.partition("/")[0] for name in arrays_read) == ["interned"] * 3 + ["operators"]
        run.insert("x", [(5, "key 5", 1)])
        run.advance()
        assert 4 < len(arrays_read) <= 12  # of one part of ten
        for name, counts in expected.items():
            if "5" not in name:
                assert run.snapshot(name).counts() == counts
        assert len(arrays_read) == len(set(arrays_read))
    with flow.start(tm.Embedded(tmp_path)) as run:  # a checkpoint of what was not read has it too
        run.checkpoint()
    with flow.start(tm.Embedded(tmp_path)) as run:
        for name, counts in expected.items():
            if "5" not in name:
                assert run.snapshot(name).counts() == counts


def test_a_step_that_is_refused_after_reading_leaves_all_as_it_was(tmp_path):
    flow = tm.Dataflow("refused")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("s", x.group_by("k").agg(s=tm.sum("10 / v")))
    flow.output("x", x)
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(f"k{i}", i) for i in range(1, 500)])
        run.advance()
        run.checkpoint()
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [("k1", 0), ("k2", 2)])
        with pytest.raises(tm.errors.ExpressionError):
            run.advance()
        run.discard()
        run.insert("x", [("k2", 2)])
        run.advance()
        assert run.snapshot("s").counts()["k2", 10.0] == 1
        assert len(run.snapshot("x")) == 500


def test_damage_is_told_when_it_is_read_and_the_step_is_not_taken(tmp_path):
    flow = build()
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", rows(0, 4000))
        run.advance()
        run.checkpoint()
        expected = run.snapshot("n3").counts()
    (path,) = tmp_path.glob("checkpoint-*")
    whole = path.read_bytes()
    with flow.start(tm.Embedded(tmp_path)) as run:
        node = run.graph.outputs["all5"]
    at = whole.index(f"operators/{node.id}/spine@1.npy".encode()) + 12_000
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert run.snapshot("n3").counts() == expected
        for _ in range(2):
            with pytest.raises(StateError, match=f"{path.name} could not be read"):
                run.snapshot("all5")
        run.insert("x", [(3, "key 3", 1)])
        run.advance()
        with pytest.raises(StateError, match=f"{path.name} could not be read"):
            tm.read_state(tmp_path).snapshot("all5")
        assert tm.read_state(tmp_path).snapshot("n3") == run.snapshot("n3")


@pytest.fixture
def clock(monkeypatch):
    """Processor time as steps see it: each takes as long as is said, when it is repeated, too."""
    clock = {"now": 0.0, "step": 0.0}

    def step(self, *args):
        clock["now"] += clock["step"]
        return original(self, *args)

    original = EmbeddedExecutor.step
    monkeypatch.setattr(EmbeddedExecutor, "step", step)
    for module in (stepper, start):
        monkeypatch.setattr(module, "process_time", lambda: clock["now"])
    return clock


def test_the_end_writes_a_checkpoint_where_steps_take_longer_to_repeat(tmp_path, monkeypatch, clock):
    flow, repeated = build(), []
    original = log_reading.Entry.frame
    monkeypatch.setattr(log_reading.Entry, "frame", lambda self: repeated.append(self) or original(self))
    clock["step"] = 0.01
    with flow.start(tm.Embedded(tmp_path)) as run:
        for i in range(5):
            run.insert("x", rows(i, 1))
            run.advance()
    assert not list(tmp_path.glob("checkpoint-*"))  # that would take longer than five steps
    clock["step"] = 2.0
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert len(repeated) == 5
        run.insert("x", rows(0, 200))
        run.advance()
        contents = run.snapshot("n1").counts()
    assert len(list(tmp_path.glob("checkpoint-*"))) == 1
    repeated.clear()
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert not repeated
        assert run.snapshot("n1").counts() == contents
    (path,) = tmp_path.glob("checkpoint-*")
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", rows(0, 1))
    assert list(tmp_path.glob("checkpoint-*")) == [path]  # what is queued is no step, and no reason for another


def test_the_end_writes_a_checkpoint_where_opening_again_and_again_repeated_more(tmp_path, clock):
    """As a job does that takes a step a day: else each day would repeat a step more than the one before."""
    clock["step"], found = 0.1, []
    for i in range(9):
        before = clock["now"]
        with build().start(tm.Embedded(tmp_path)) as run:
            run.insert("x", rows(i, 1))
            run.advance()
        found.append(round(10 * (clock["now"] - before)))  # steps, repeated ones too
    assert found == [1, 2, 1, 2, 1, 2, 1, 2, 1]


@pytest.mark.slow
def test_opening_and_files_do_not_grow_with_the_steps(tmp_path, monkeypatch):
    """Neither does what is read at opening: frames, and bytes of the log."""
    flow, found = build(), []
    frames_read, read = [], frames.read
    monkeypatch.setattr(frames, "read", lambda file, at: frames_read.append(at) or read(file, at))
    for steps in (200, 800):
        folder = tmp_path / str(steps)
        with flow.start(tm.Embedded(folder / "state", checkpoint_every=100)) as run:
            run.to_changelog(folder / "log", outputs=["n1"], keep=5)
            reader = run.subscribe("n1", name="reader")
            for i in range(steps):
                run.insert("x", rows(i, 1))
                run.delete("x", rows(i - 50, 1) if i >= 50 else [])
                run.advance()
                if i % 7 == 0:
                    for _ in reader:
                        pass
                    reader.ack()
        paths = [path for path in folder.rglob("*") if path.is_file()]
        log = sum(path.stat().st_size for path in paths if path.name.startswith("log-0"))
        frames_read.clear()
        with flow.start(tm.Embedded(folder / "state")):
            found.append((len(paths), len(frames_read), log))
    (few_files, few_frames, few_log), (files, many_frames, log) = found
    assert files <= few_files + 5
    assert many_frames <= few_frames + 5
    assert log <= 2 * few_log


@pytest.mark.parametrize("in_memory", [10**9, 500])
def test_a_load_is_its_own_checkpoint(tmp_path, monkeypatch, in_memory):
    """Else its rows, and what outputs changed by, would be written before the state is, and read again after a crash."""
    monkeypatch.setattr(recorder, "_CHECKPOINT", 300)
    folder, flow = tmp_path / "state", tm.Dataflow("loaded")
    x = flow.input("x", {"part": "int64", "k": "string", "v": "int64"})
    flow.output("sums", x.group_by("k").agg(s=tm.sum("v")))
    flow.output("all", x.filter("part > 0"))
    engine = tm.Embedded(folder, in_memory=in_memory)
    with flow.start(engine) as run:
        reader = run.subscribe("sums", name="reader")
        run.insert("x", rows(0, 9))
        run.advance()
        list(reader)
        reader.ack()
        run.update("x", [(row, 5, 1) for row in rows(7000, 10)])
        run.insert("x", rows(9, 4000))
        run.advance()
        assert len(list(folder.glob("checkpoint-*"))) == 1
        (log,) = folder.glob("log-*")
        assert log.stat().st_size < 30_000  # which has the dataflow, and no rows
        shutil.copytree(folder, tmp_path / "loaded")
        run.insert("x", rows(4009, 200))  # a small step
        run.advance()
        run.compact()  # files that the checkpoint refers to are merged
        assert len(list(folder.glob("log-*"))) == len(list(folder.glob("checkpoint-*"))) == 1
        shutil.copytree(folder, tmp_path / "compacted")
        expected = {name: run.snapshot(name).counts() for name in flow.graph.outputs}
        changes = [list(batch) for batch in reader]
    for name in ("loaded", "compacted"):
        (tmp_path / name / "lock").unlink()
    with monkeypatch.context() as repeats_nothing:
        repeats_nothing.setattr(log_reading.Entry, "frame", None)
        run = flow.start(tm.Embedded(tmp_path / "loaded", in_memory=in_memory))
    with run:
        assert [list(batch) for batch in run.subscribe("sums", name="reader")] == changes[:1]
        run.insert("x", rows(4009, 200))
        run.advance()
        assert {name: run.snapshot(name).counts() for name in flow.graph.outputs} == expected
        run.advance_to(6)
        assert len(run.snapshot("all")) == 3797
    with flow.start(tm.Embedded(tmp_path / "compacted", in_memory=in_memory)) as run:
        assert {name: run.snapshot(name).counts() for name in flow.graph.outputs} == expected


OPENED = """
import sys, pyarrow as pa, tidemill as tm

def opened(folder):
    flow = tm.Dataflow("opened")
    x = flow.input("x", {"k": "string", "v": "int64", "w": "float64"})
    late = x.filter(tm.col("v") * 2 > 10).filter(tm.col("k").isin(["a", "b"]))
    flow.output("sums", late.group_by("k").agg(n=tm.count(), s=tm.sum(tm.col("v") * 2), w=tm.max("w")))
    flow.output("same", x.select("k", v=tm.when(tm.col("v") < 3, 0).otherwise(tm.col("v"))))
    with flow.start(tm.Embedded(folder)) as run:
        run.insert("x", [("a", 7, 0.5), ("b", None, None), *((str(i), None, None) for i in range(200))])
        run.insert("x", pa.table({"k": pa.nulls(2, pa.string()), "v": pa.nulls(2, pa.int64()), "w": pa.nulls(2, pa.float64())}))
        run.advance()
        return list(run.snapshot("sums")), len(run.changes("same").to_arrow())

if __name__ == "__main__":
    print(opened(sys.argv[1]))
    print(*sys.modules)
"""


def test_opening_and_steps_import_only_what_they_need(tmp_path):
    """pyarrow would import pandas; sqlglot is for SQL text, or for writing down what a dataflow is."""
    here: dict[str, Any] = {"__name__": "opened"}
    exec(OPENED, here)  # noqa: S102 - the same dataflow here and there
    assert here["opened"](tmp_path) == ([("a", 1, 14, 0.5)], 203)
    done = subprocess.run([sys.executable, "-c", OPENED, tmp_path], check=True, capture_output=True, text=True)
    said, modules = done.stdout.splitlines()
    assert said == "([('a', 2, 28, 0.5)], 203)"
    unwanted = {
        "pandas",
        "sqlglot",
        "networkx",
        "tidemill.renderer.diagram.scene",
        "tidemill.views",
        "tidemill.testing",
    }
    assert unwanted & set(modules.split()) == set()
    assert "tidemill.renderer.durable" in modules.split()


def test_what_outputs_keep_is_told_of_the_flow_that_ran_last(tmp_path):
    def flow(*, changes: bool) -> tm.Dataflow:
        made = tm.Dataflow("x")
        rows = made.input("r", {"k": "int64"})
        made.output("o", rows.group_by("k").agg(n=tm.count()), changes=changes)
        return made

    with flow(changes=True).start(tm.Embedded(tmp_path)) as run:
        run.insert("r", [(1,)])
        run.advance()
    with flow(changes=False).start(tm.Embedded(tmp_path)) as run:
        run.insert("r", [(1,)])
        run.advance()
    with flow(changes=False).start(tm.Embedded(tmp_path), migrate="refuse") as run:
        assert list(run.snapshot("o")) == [(1, 2)]
