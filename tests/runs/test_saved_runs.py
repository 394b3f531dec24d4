"""`tm.load` goes on where `run.save` was: whatever a run holds is there again, in memory or on the disk as before.

The kind: something that belongs to a run is not in what is saved of it. It was changes that nobody had read, so that a
reader missed them; numbers of batches that were delivered, so that one counted twice; and where state may be, so that
what had been on the disk came back into memory.
"""

import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.errors import EngineError, StateError, StepError

ENGINES = {"as it was": None, "bounded": tm.Embedded(in_memory=8, threads=1), "on the disk": tm.Embedded(in_memory=0)}
KEYS = st.sampled_from("abcd")
ACTIONS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("later"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("deliver"), st.sampled_from(["one", "other"]), st.integers(0, 5)),
    st.tuples(st.just("advance")),
    st.tuples(st.just("read"), st.sampled_from(["all", "some", "rows"])),
    st.tuples(st.just("discard")),
)


def a_flow():
    flow = tm.Dataflow("going on")
    x = flow.input("x", {"k": "string", "v": "int64"})
    rows = flow.input("rows", {"k": "string", "v": "int64"}, key="k")
    flow.output("all", x.group_by("k").agg(n=tm.count(), s=tm.sum("v")))
    flow.output("some", x.join(rows, on="k"), changes=3)  # of about so many: how many is not said
    flow.output("rows", rows)
    return flow


def take(run, action):
    """Take an action, and return what is seen of it."""
    kind, *given = action
    if kind == "put":
        run.insert("x", [tuple(given)])
        run.upsert("rows", [tuple(given)])
    elif kind == "later":
        run.insert("x", [tuple(given)], time=run.frontier("x").elements[0][0] + 2)
    elif kind == "deliver":
        return run.deliver(*given, lambda r: r.insert("x", [(given[0], given[1])]))
    elif kind == "advance":
        run.advance()
    elif kind == "discard":
        run.discard()
    else:
        return what_changed(run, given[0])
    return None


def what_changed(run, name):
    """Return the changes not yet read; where times may be folded together, their net effect."""
    found = run.changes(name)
    net = Counter()
    for row, time, diff in found:
        net[row, None if name == "some" else time] += diff
    return {update: diff for update, diff in net.items() if diff}, found.lower, found.upper


def everything(run):
    names = ("all", "some", "rows")
    seen = {name: what_changed(run, name) for name in names}
    return seen, {name: run.snapshot(name).counts() for name in names}, repr(run), run.keep


@pytest.mark.slow
@examples(40)
@given(st.lists(ACTIONS, max_size=14), st.data())
def test_saved_and_loaded_at_any_moment_a_run_is_what_it_was(actions, data):
    flow = a_flow()
    with tempfile.TemporaryDirectory() as folder:
        run, undisturbed = flow.start(keep=1), flow.start(keep=1)
        for action in [*actions, ("advance",)]:
            if data.draw(st.booleans(), label="saved"):
                run.save(Path(folder) / "state")
                engine = ENGINES[data.draw(st.sampled_from(sorted(ENGINES)), label="engine")]
                with run:
                    run = tm.load(Path(folder) / "state", flow, engine)
            assert take(run, action) == take(undisturbed, action)
        assert everything(run) == everything(undisturbed)
        run.close()


def test_changes_and_numbers_of_batches_are_there(tmp_path):
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    run = flow.start()
    assert run.deliver("source", 7, lambda r: r.insert("x", [("a",)]))
    run.save(tmp_path / "state")
    again = tm.load(tmp_path / "state", flow)
    assert list(again.changes("n")) == [(("a", 1), 0, 1)]
    assert not again.deliver("source", 7, lambda r: r.insert("x", [("a",)]))
    assert again.deliver("source", 8, lambda r: r.insert("x", [("a",)]))
    again.save(tmp_path / "state")
    assert list(tm.load(tmp_path / "state", flow).changes("n")) == [(("a", 1), 1, -1), (("a", 2), 1, 1)]


def test_half_a_batch_is_not_saved(tmp_path):
    """Its rows would be there, and its number not: it would be delivered again."""
    flow = a_flow()

    def put(run):
        run.insert("x", [("a", 1)])
        run.save(tmp_path / "state")

    with pytest.raises(StepError, match=r"may not save the state: do so after deliver\(\)"):
        flow.start().deliver("source", 1, put)
    assert not (tmp_path / "state").exists()


def many(changes=False):
    flow = tm.Dataflow("many")
    x = flow.input("x", {"k": "int64", "name": "string"})
    flow.output("n", x.group_by("k").agg(n=tm.count(), name=tm.min("name")), changes=changes)
    return flow


def test_pages_stay_on_the_disk(tmp_path):
    """Of 50,000 rows that held 0.1 MB, 5.7 MB were in memory; and the strings that only pages refer to."""
    flow = many()
    run = flow.start(tm.Embedded(in_memory=1000))
    run.insert("x", [(i, f"name {i}") for i in range(20_000)])
    run.advance()
    run.spill()
    run.save(tmp_path / "state")
    again = tm.load(tmp_path / "state", flow, tm.Embedded(in_memory=1000))
    held, before = again.metrics().memory, run.metrics().memory
    assert held.held_bytes <= 2 * before.held_bytes
    assert held.spilled_bytes >= before.spilled_bytes // 2
    assert held.interned <= before.interned + 1000
    whole = tm.load(tmp_path / "state", flow).metrics().memory
    assert whole.held_bytes > 10 * held.held_bytes
    again.spill()
    for r in (run, again):
        r.insert("x", [(7, "a")])
        r.advance()
    assert again.snapshot("n").counts() == run.snapshot("n").counts()


def test_saving_and_loading_take_one_arrangement_at_a_time(tmp_path):
    """All arrays of a state were in memory at once, whatever `in_memory` said."""
    flow = tm.Dataflow("wide")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    for i in range(12):
        flow.output(f"o{i}", x.filter(f"v <> {i}"), changes=False)
    run = flow.start(tm.Embedded(in_memory=1000))
    run.insert("x", [(i, 100) for i in range(20_000)])
    run.advance()
    run.spill()
    tracemalloc.start()
    try:
        run.save(tmp_path / "state")
        _, saving = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        again = tm.load(tmp_path / "state", flow, tm.Embedded(in_memory=1000))
        _, loading = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = (tmp_path / "state").stat().st_size
    assert saving < size * 0.75, (saving, size)
    assert loading < size * 0.75, (loading, size)
    assert again.metrics().memory.held_bytes <= run.metrics().memory.held_bytes


def test_threads_are_those_of_the_engine(tmp_path):
    flow = many()
    flow.start().save(tmp_path / "state")
    for threads in (1, 3):
        run = tm.load(tmp_path / "state", flow, tm.Embedded(threads=threads))
        assert vars(run.executor)["_threads"] == threads


def test_which_engines_load(tmp_path):
    flow = many()
    flow.start().save(tmp_path / "state")
    with pytest.raises(
        EngineError, match=r"load\(.*: Reference\(\) does not go on from saved state: expected tm.Embedded or tm.Spark"
    ):
        tm.load(tmp_path / "state", flow, tm.Reference())
    with pytest.raises(EngineError, match=r"load\(path, flow, .*expected .*tm.Embedded"):
        tm.load(tmp_path / "state", flow, tm.Embedded)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="load without state=, or start the flow on the folder"):
        tm.load(tmp_path / "state", flow, tm.Embedded(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()
