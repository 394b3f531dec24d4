"""Saving and loading: a run goes on where it was, and a crash while saving loses nothing."""

import random
import re
import subprocess
import sys
import time
import zipfile

import pytest
from hypothesis import given, settings
from support.running import embedded, examples

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.embedded.operators import upsert_input as keyedinput


def counts():
    flow = tm.Dataflow("counts")
    x = flow.input("x", {"k": "string", "v": "float64"})
    flow.output("n", x.group_by("k").agg(n=tm.count(), s=tm.sum("v"), least=tm.min("v")))
    return flow


def test_a_run_goes_on(tmp_path):
    flow = counts()
    run = flow.start(keep=3)
    run.insert("x", [("a", 1.5), ("b", None)])
    run.advance()
    run.insert("x", [("a", 0.25)])
    run.insert("x", [("late", 9.0)], time=5)
    run.save(tmp_path / "state")
    again = tm.load(tmp_path / "state", flow)
    for r in (run, again):
        r.advance_to(6)
        r.delete("x", [("a", 0.25)])
        r.advance()
    assert run.snapshot("n").counts() == again.snapshot("n").counts() == {
        ("a", 1, 1.5, 1.5): 1, ("b", 1, None, None): 1, ("late", 1, 9.0, 9.0): 1,
    }  # fmt: skip
    assert list(run.changes("n")) == list(again.changes("n"))
    assert again.changes("n").lower == tm.Antichain([7])
    assert again.keep == 3


def test_upserts_go_on(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"k": "int64", "v": "string"}, key=["k"]))
    run = flow.start()
    run.upsert("x", [(1, "a"), (2, "b")])
    run.advance()
    run.upsert("x", [(1, "c")])
    run.delete("x", [(2,)])
    run.save(tmp_path / "state")
    again = tm.load(tmp_path / "state", flow)
    again.advance()
    assert list(again.snapshot("o")) == [(1, "c")]
    again.upsert("x", [(1, "d")])
    again.advance()
    assert [u for u in again.changes("o") if u[1] == 2] == [((1, "c"), 2, -1), ((1, "d"), 2, 1)]


@pytest.mark.parametrize("few", [0, 16])
def test_what_is_written_after_loading_comes_after_what_waited(tmp_path, monkeypatch, few):
    monkeypatch.setattr(keyedinput, "FEW", few)
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"k": "int64", "v": "string"}, key=["k"]))
    run = flow.start()
    for v in "abc":
        run.upsert("x", [(1, v), (2, v)], time=1)
    run.save(tmp_path / "state")
    again = tm.load(tmp_path / "state", flow)
    again.upsert("x", [(1, "d")], time=1)
    again.delete("x", [(2,)], time=1)
    again.advance_to(2)
    assert list(again.snapshot("o")) == [(1, "d")]


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
def test_saving_and_loading_at_every_step_changes_nothing(tmp_path, coordinates):
    @settings(examples(40))
    @given(tm.testing.dataflows(coordinates=coordinates))
    def check(case):
        outcomes = [follow(case, coordinates, saving=None), follow(case, coordinates, saving=tmp_path / "state")]
        assert outcomes[0] == outcomes[1]

    check()


def follow(case, coordinates, saving, compacting=False):
    """Return all changes of all outputs, time by time; with ``saving``, each step by a run loaded anew."""
    run = case.flow.start()
    found = {name: [] for name in case.flow.graph.outputs}
    times = sorted({t if isinstance(t, tuple) else (t,) for u in case.updates.values() for _, t, _ in u})
    for name, updates in case.updates.items():
        run.update(name, updates)
    for step in [*times, None]:
        try:
            if step is None:
                run.close_inputs()
            else:
                run.advance_to(tuple(c + 1 for c in step) if coordinates > 1 else step[0] + 1)
        except tm.errors.TimeError:
            continue
        except tm.errors.StepError as error:
            return type(error)
        for name in found:
            found[name] += list(run.changes(name))
        if compacting:
            run.compact()
        if saving is not None:
            run.save(saving)
            run = tm.load(saving, case.flow)
    return {name: sorted(map(repr, updates)) for name, updates in found.items()}


def test_another_dataflow_is_refused(tmp_path):
    run = counts().start()
    run.save(tmp_path / "state")
    other = tm.Dataflow("counts")
    x = other.input("x", {"k": "string", "v": "float64"})
    other.output("n", x.group_by("k").agg(n=tm.count(), s=tm.sum("v"), least=tm.max("v")))
    with pytest.raises(StateError, match=r"another dataflow: saved: .*min AS least.*now: .*max AS least"):
        tm.load(tmp_path / "state", other)


@pytest.mark.parametrize(
    "builds",
    [
        (lambda a: a.join(a, on="k"), lambda a: a.join(a, on="k", nulls_equal=True)),
        (lambda a: a.group_by("k", "v").agg(a=tm.min("k"), b=tm.max("v")),
         lambda a: a.group_by("k", "v").agg(a=tm.min("v"), b=tm.max("k"))),
        (lambda a: a.iterate(lambda c: c, error_at=5), lambda a: a.iterate(lambda c: c, error_at=6)),
    ],
)  # fmt: skip
def test_every_field_of_a_node_counts(tmp_path, builds):
    flows = []
    for build in builds:
        flow = tm.Dataflow("flow")
        flow.output("o", build(flow.input("a", {"k": "int64", "v": "int64"})))
        flows.append(flow)
    flows[0].start().save(tmp_path / "state")
    tm.load(tmp_path / "state", flows[0])
    with pytest.raises(StateError, match="another dataflow"):
        tm.load(tmp_path / "state", flows[1])


def test_damage_is_noticed(tmp_path):
    flow = counts()
    run = flow.start()
    run.insert("x", [("a", float(i)) for i in range(100)])
    run.advance()
    path = tmp_path / "state"
    run.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StateError, match="not a whole saved state"):
        tm.load(path, flow)
    path.write_bytes(b"something else")
    with pytest.raises(StateError, match="not a whole saved state"):
        tm.load(path, flow)
    changed = bytearray(whole)
    changed[200] ^= 1
    path.write_bytes(changed)
    with pytest.raises(StateError, match=r"state: its checksum is wrong"):
        tm.load(path, flow)


def test_a_file_of_another_version_is_told_so(tmp_path):
    """As those before the checksum of the whole file was at its end."""
    with zipfile.ZipFile(tmp_path / "state", "w") as archive:
        archive.writestr("manifest.json", '{"format": "tidemill state", "version": 3, "header": {}, "arrays": {}}')
    with pytest.raises(StateError, match="has version 3 of the format, expected 6: load it with its tidemill"):
        tm.load(tmp_path / "state", counts())


@pytest.mark.slow
def test_wherever_a_file_is_cut_off_or_a_bit_is_flipped_it_is_refused(tmp_path):
    """Found by flipping bits: some gave a raw OSError, others a state that was not what was saved."""
    flow = counts()
    run = flow.start()
    run.insert("x", [("a", 1.0), ("b", 2.0)])
    run.advance()
    path = tmp_path / "state"
    run.save(path)
    whole = path.read_bytes()
    for size in {*range(0, len(whole), 97), *range(len(whole) - 120, len(whole))}:
        path.write_bytes(whole[:size])
        with pytest.raises(StateError, match=re.escape(str(path))):
            tm.load(path, flow)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(StateError, match=re.escape(str(path))):
            tm.load(path, flow)
    path.write_bytes(whole)
    with tm.load(path, flow) as again:
        assert list(again.snapshot("n")) == list(run.snapshot("n"))


def test_nothing_is_left_behind(tmp_path):
    run = counts().start()
    for _ in range(3):
        run.save(tmp_path / "state")
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    with pytest.raises(StateError, match="expected a path in a folder that is there"):
        run.save(tmp_path / "no" / "such" / "folder")


SAVER = """
import sys, pathlib
import tidemill as tm
flow = tm.Dataflow("saver")
x = flow.input("x", {"i": "int64"})
flow.output("n", x.agg(n=tm.count(), s=tm.sum("i")))
path = pathlib.Path(sys.argv[1])
run = tm.load(path, flow) if path.exists() else flow.start()
while True:
    epoch = next(iter(run.frontier("x")))
    run.insert("x", [(epoch,)] * 50)
    run.advance()
    run.save(path)
    print(epoch, flush=True)
"""


@pytest.mark.slow
def test_killed_while_saving(tmp_path):
    """SIGKILL at random moments: what was said to be saved is there, whole, and it goes on from there."""
    flow = tm.Dataflow("saver")
    x = flow.input("x", {"i": "int64"})
    flow.output("n", x.agg(n=tm.count(), s=tm.sum("i")))
    path, rng, said = tmp_path / "state", random.Random(4), -1
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = int(process.stdout.readline())
            time.sleep(rng.random() * 0.1)
            process.kill()
            rest = process.stdout.read().split("\n")
        said = max([said, *(int(line) for line in rest[:-1] if line)])
        run = tm.load(path, flow)
        epochs = next(iter(run.frontier("x")))
        assert epochs in (said + 1, said + 2)  # the last one may have been put in place and not said
        assert list(run.snapshot("n")) == [(50 * epochs, 50 * sum(range(epochs)))]


def test_compacting_gives_up_what_came_and_went_within_one_step():
    """It is one batch already, of times that nobody can tell apart since."""
    flow = tm.Dataflow("passing")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("y", x.with_columns(before=tm.lag("v").over(tm.Window.partition_by("k").order_by("v"))), changes=False)
    flow.output("z", x.group_by("k").agg(most=tm.max("v")), changes=False)
    rows = [(i % 40, i) for i in range(4000)]
    with flow.start() as run:
        run.update("x", [(row, time, diff) for time, diff in ((0, 1), (1, -1)) for row in rows])
        run.advance_to(2)
        assert run.compact() > 0
        assert sum(m.state_rows for m in run.metrics()) == 0
        assert run.compact() == 0


def test_compacting_releases_what_nothing_refers_to(tmp_path):
    flow = tm.Dataflow("strings")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(n=tm.count(), v=tm.max("v")), changes=False)
    run = flow.start()
    for i in range(50):
        run.insert("x", [(f"passing {i}", -1), ("staying", -i)])
        run.advance()
        run.delete("x", [(f"passing {i}", -1)])
    run.advance()
    run.insert("x", [("waiting", -7)], time=99)
    interner = embedded(run).compiled.interner
    assert len(interner._numbers) == 52
    assert run.compact() > 0
    assert {"staying", "waiting"} <= set(interner._numbers)
    assert len(interner._numbers) < 8  # a number that some count or time happens to be is kept for its sake
    run.save(tmp_path / "state")
    for r in (run, tm.load(tmp_path / "state", flow)):
        r.insert("x", [("passing 3", -5)])
        r.advance_to(100)
        assert sorted(r.snapshot("n")) == [("passing 3", 1, -5), ("staying", 50, 0), ("waiting", 1, -7)]


def test_the_empty_string_is_not_taken_for_what_was_released_before_it(tmp_path):
    flow = tm.Dataflow("strings")
    flow.output("n", flow.input("x", {"s": "string"}).count("n"))
    run = flow.start()
    passing = [(f"passing {i}",) for i in range(20)]
    run.insert("x", passing)
    run.advance()
    run.delete("x", passing)
    run.insert("x", [("",)])
    run.advance()
    run.changes("n")
    run.compact()
    run.save(tmp_path / "state")
    again = tm.load(tmp_path / "state", flow)
    again.insert("x", [("",)])
    again.advance()
    assert list(again.snapshot("n")) == [("", 2)]


def test_lists_and_what_they_hold_are_kept_released_and_saved(tmp_path):
    flow = tm.Dataflow("lists")
    x = flow.input("x", {"k": "int64", "s": "string", "l": "list<list<string>>"})
    found = x.group_by("k").agg(s=tm.list("s"), l=tm.list("l"), first=tm.first("l", order_by="s"))
    flow.output("out", found, changes=False)
    run = flow.start()
    passing = [(-i - 9, f"passing {i}", [["passing"], [f"too {i}"]]) for i in range(30)]
    staying = (-1, "staying", ((), None, ("inside", None)))
    run.insert("x", [*passing, staying])
    run.advance()
    run.delete("x", passing)
    run.advance()
    interner = embedded(run).compiled.interner
    before = len(interner._numbers)
    run.compact()
    assert len(interner._numbers) < before - 90  # at least a string, a list in a list, and a list each
    assert "inside" in interner._numbers
    run.save(tmp_path / "state")
    expected = [(-1, ("", "staying"), (None, staying[2]), None)]
    for r in (run, tm.load(tmp_path / "state", flow)):
        r.insert("x", [(-1, "", None)])
        r.advance()
        assert list(r.snapshot("out")) == expected
        assert r.snapshot("out").to_arrow().column("l").to_pylist() == [[None, [[], None, ["inside", None]]]]


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
def test_compacting_at_every_step_changes_nothing(coordinates):
    @settings(examples(30))
    @given(tm.testing.dataflows(coordinates=coordinates))
    def check(case):
        assert follow(case, coordinates, saving=None) == follow(case, coordinates, saving=None, compacting=True)

    check()


def test_ctrl_c_leaves_the_run_at_its_last_complete_time():
    flow = tm.Dataflow("interrupted")
    x = flow.input("x", {"i": "int64"})
    pressed = []

    def press(row):
        if row.i == 5 and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return row

    reach = x.iterate(
        lambda c: c.filter("i < 9").select(i="i + 1").map_rows(press, {"i": "int64"}).concat(x).distinct()
    )
    flow.output("o", reach)
    flow.output("n", x.agg(n=tm.count()))
    run = flow.start()
    run.insert("x", [(7,)])
    run.advance()
    before = run.snapshot("o").counts(), run.metrics().state_rows
    run.insert("x", [(1,)])
    with pytest.raises(KeyboardInterrupt):
        run.advance()
    assert (run.snapshot("o").counts(), run.metrics().state_rows) == before
    assert run.frontier("x") == tm.Antichain([1])
    run.advance()
    assert sorted(run.snapshot("o")) == [(i,) for i in range(1, 10)]
    assert list(run.snapshot("n")) == [(2,)]


@pytest.mark.parametrize("passes", [True, False, ["fuse_linear"]])
def test_load_takes_the_passes_from_the_saved_state(tmp_path, passes):
    flow = tm.Dataflow("filters")
    x = flow.input("x", {"i": "int64"})
    flow.output("o", x.filter("i > 0").filter("i > 1").count("n"))
    run = flow.start(passes=passes)
    run.insert("x", [(1,), (2,)])
    run.advance()
    run.save(tmp_path / "state")
    for again in (tm.load(tmp_path / "state", flow), tm.load(tmp_path / "state", flow, passes=passes)):
        assert len(again.graph.nodes) == len(run.graph.nodes)
        assert again.passes == run.passes
        assert list(again.snapshot("o")) == [(2, 1)]
        again.save(tmp_path / "again")
        assert list(tm.load(tmp_path / "again", flow).snapshot("o")) == [(2, 1)]
    with pytest.raises(
        StateError, match=r"was saved after the passes .*and passes=.* asks for .*load it without passes="
    ):
        tm.load(tmp_path / "state", flow, passes=["push_filters"])


def test_an_input_that_is_ahead_goes_on(tmp_path):
    """What waits at it, and what a join holds back of one that an output shows, is looked up and corrected as before."""
    flow = tm.Dataflow()
    a, b, c = (flow.input(name, {"k": "int64", "v": "int64"}) for name in "abc")
    flow.output("a", a)
    flow.output("ab", a.join(b, on="k"))
    flow.output("bc", b.concat(c).select(q="10 DIV v"))
    run = flow.start()
    run.insert("a", [(1, 1), (2, 2)])
    run.insert("c", [(1, 0), (1, 10)])
    run.advance_to(5, input="a")
    run.advance_to(5, input="c")
    run.save(tmp_path / "state")
    for r in (run, tm.load(tmp_path / "state", flow)):
        r.insert("b", [(1, 5)])
        with pytest.raises(tm.errors.ExpressionError):
            r.advance_to(1, input="b")
        r.delete("c", [(1, 0)], time=0)
        r.advance_to(1, input="b")
        assert list(r.snapshot("ab")) == [(1, 1, 5)]
        assert sorted(r.snapshot("bc")) == [(1,), (2,)]
