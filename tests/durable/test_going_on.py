"""A run on a folder of state goes on where the last one committed, whatever was put in, taken, failed or forgotten."""

import pytest
from hypothesis import given
from support.running import examples

import tidemill as tm
from tidemill.errors import StateError


def counts():
    flow = tm.Dataflow("counts")
    x = flow.input("x", {"k": "string", "v": "float64"})
    flow.output("n", x.group_by("k").agg(n=tm.count(), s=tm.sum("v"), least=tm.min("v")))
    return flow


def files(folder, kind):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith(kind))


def recorded(run):
    """How many steps would be taken again by the next run."""
    return len(list(run._stepper._recorder._log.records()))


def test_a_run_goes_on(tmp_path):
    flow = counts()
    with flow.start(tm.Embedded(tmp_path), keep=3) as run:
        run.insert("x", [("a", 1.5), ("b", None)])
        run.insert("x", [("late", float("nan"))], time=2)
        run.advance()
        run.insert("x", [("lost", 7.0)])  # no step took it: it is to be put in again
        before = run.snapshot("n")
    with flow.start(tm.Embedded(tmp_path), keep=3) as again:
        assert again.snapshot("n") == before
        assert again.frontier("x") == tm.Antichain([1])
        assert list(again.changes("n")) == []
        again.delete("x", [("b", None)])
        again.advance_to(3)
        assert [repr(u) for u in again.changes("n")] == [
            "(('b', 1, None, None), 1, -1)",
            "(('late', 1, nan, nan), 2, 1)",
        ]
        assert again.changes("n").lower == tm.Antichain([3])
        assert list(again.snapshot("n", at=0)) == list(before)


@pytest.mark.parametrize("checkpoint_every", [1, 1000])
def test_a_relative_folder_stays_where_it_was_named(tmp_path, monkeypatch, checkpoint_every):
    """The kind: a path taken anew from the working directory each time, where the process may go on to another."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with counts().start(tm.Embedded("state", checkpoint_every=checkpoint_every)) as run:
        monkeypatch.chdir(tmp_path / "there")
        for _ in range(2):
            run.insert("x", [("a", 1.0)])
            run.advance()
            run.spill()
        run.checkpoint()
    assert list((tmp_path / "there").iterdir()) == []
    with counts().start(tm.Embedded(tmp_path / "here" / "state")) as run:
        assert list(run.snapshot("n")) == [("a", 2, 2.0, 1.0)]


@pytest.mark.slow
@pytest.mark.law("A durable run that goes on after any step gives what an undisturbed one gives.")
@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("checkpoint_every", [2, 1000])
def test_going_on_after_every_step_changes_nothing(tmp_path_factory, coordinates, checkpoint_every):
    @examples(12)
    @given(tm.testing.dataflows(coordinates=coordinates))
    def check(case):
        folder = tmp_path_factory.mktemp("state")
        engine = tm.Embedded(folder, checkpoint_every=checkpoint_every)
        assert follow(case, coordinates, None, False) == follow(case, coordinates, engine, True)

    check()


def follow(case, coordinates, engine, anew):
    """All changes of all outputs, time by time; with ``anew`` each step by a run that goes on from the folder."""
    run = case.flow.start(engine)
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
            run.close()
            return type(error)
        for name in found:
            found[name] += list(run.changes(name))
        if anew:
            run.close()
            run = case.flow.start(engine)
    run.close()
    return {name: sorted(map(repr, updates)) for name, updates in found.items()}


def test_writes_by_key_go_on(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"v": "decimal(9,2)", "k": "int64", "d": "date"}, key=["k"]))
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.upsert("x", [(1, 1, None), (2, 2, None)])
        run.advance()
        run.upsert("x", [(3, 1, None)], time=5)
        run.delete("x", [(2,)])
        run.advance()
        run.upsert("x", [(9, 1, None)], time=5)
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert [r[1] for r in run.snapshot("o")] == [1]
        run.apply("x", [(7, 4, None, "insert"), (None, 1, None, "delete")])
        run.advance_to(3)
        assert [r[1] for r in run.snapshot("o")] == [4]
        run.advance_to(6)
        expected = list(run.snapshot("o"))
        assert [(int(v), k) for v, k, _ in expected] == [(3, 1), (7, 4)]
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("o")) == expected


def test_feeds_that_take_all_rows_go_on(tmp_path):
    """Of the log, in which they are steps to be repeated, and writes of a step to come."""
    flow = tm.Dataflow("keyed")
    flow.output("rows", flow.input("x", {"k": "int64", "v": "int64"}, key="k"))
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.upsert("x", [(1, 1), (2, 2)])
        run.advance()
        run.apply("x", [(3, 3, "i"), (None, None, "t"), (4, 4, "i")])
        run.apply("x", [(5, 5, "i"), (None, None, "t"), (6, 6, "i")], time=2)
        run.advance()
        run.changes("rows")
        assert recorded(run) == 2
    with flow.start(tm.Embedded(tmp_path)) as again:
        assert list(again.snapshot("rows")) == [(4, 4)]
        again.advance_to(3)
        assert list(again.snapshot("rows")) == [(6, 6)]


def test_a_step_that_fails_is_not_recorded_and_what_is_discarded_stays_so(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="10 div i"))
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(5,)])
        run.insert("x", [(1,)], time=3)
        run.advance()
        run.insert("x", [(0,)])
        with pytest.raises(tm.errors.ExpressionError):
            run.advance()
        assert recorded(run) == 1
        run.discard()
        run.insert("x", [(2,)])
        run.advance()
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.advance_to(9)
        assert sorted(run.snapshot("o")) == [(2,), (5,)]


def test_checkpoints_by_themselves_and_by_hand(tmp_path):
    flow = counts()
    with flow.start(tm.Embedded(tmp_path, checkpoint_every=3)) as run:
        for i in range(7):
            run.insert("x", [("a", i)])
            run.advance()
        assert files(tmp_path, "checkpoint")[0].startswith("checkpoint-0000000008")
        assert len(files(tmp_path, "checkpoint")) == 1
        assert recorded(run) == 1
        assert files(tmp_path, "log") == ["log-0000000003"]  # one for each checkpoint, and one that it began with
        run.insert("x", [("a", 99)])
        with pytest.raises(StateError, match="queued that no step has taken"):
            run.checkpoint()
        run.discard()
        run.checkpoint()
        assert recorded(run) == 0
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("n")) == [("a", 7, 21.0, 0.0)]
        assert run.frontier("x") == tm.Antichain([7])
        numbers = []
        run.on_step(lambda step: numbers.append(step.number))
        run.advance()
        assert numbers == [8]


def test_what_is_handed_in_is_taken_by_value(tmp_path):
    """The giver may change its memory: what is written down later is what was handed in."""
    import numpy as np
    import pyarrow as pa

    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}))
    memory = np.array([1, 2, 3])
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", pa.table({"i": pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(memory)])}))
        memory[:] = 9
        run.advance()
        assert sorted(run.snapshot("o")) == [(1,), (2,), (3,)]
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert sorted(run.snapshot("o")) == [(1,), (2,), (3,)]


def test_a_callback_that_inserts_and_one_that_raises(tmp_path):
    flow = counts()
    with flow.start(tm.Embedded(tmp_path, checkpoint_every=1)) as run:
        stop = run.on_step(lambda step: step.number == 1 and run.insert("x", [("from within", 1.0)]))
        run.advance()
        stop()
        run.on_step(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.advance()
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert [row[0] for row in run.snapshot("n")] == ["from within"]


def test_constants_alone(tmp_path):
    flow = tm.Dataflow()
    flow.output("c", flow.constant({"i": "int64"}, [(1,), (2,)]))
    flow.output("x", flow.input("x", {"i": "int64"}))
    for epoch in range(3):
        with flow.start(tm.Embedded(tmp_path, checkpoint_every=2)) as run:
            assert sorted(run.snapshot("c")) == [(1,), (2,)]
            assert run.frontier("x") == tm.Antichain([epoch])
            run.insert("x", [(epoch,)])
            run.advance()
            assert sorted(run.snapshot("x")) == [(i,) for i in range(epoch + 1)]


def test_columns_of_every_type_go_on(tmp_path):
    import datetime as dt
    import decimal

    schema = {
        "a": "int64", "b": "int32", "c": "float64", "d": "bool", "e": "string", "f": "binary", "g": "date",
        "h": "timestamp", "i": "decimal(20,3)",
    }  # fmt: skip
    row = (
        -(2**62),
        2**31 - 1,
        -0.0,
        True,
        "é\x00",
        b"\xff",
        dt.date(1, 1, 1),
        dt.datetime(9999, 1, 1, 1, 1, 1, 1),
        decimal.Decimal("-1.005"),
    )
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", schema))
    flow.output("k", flow.input("y", schema, key=["e", "f", "i"]))
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.update("x", [(row, 0, 2), ((None,) * 9, 0, -1)])
        run.upsert("y", [row])
        run.advance()
        expected = {name: run.snapshot(name).counts() for name in ("o", "k")}
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert {name: run.snapshot(name).counts() for name in ("o", "k")} == expected
        assert len(expected["o"]) == 2


def test_a_delta_join_goes_on_with_what_waits_for_it(tmp_path):
    """An input that is ahead has brought what the join has not met yet, here from the disk and by few in memory."""
    flow = tm.Dataflow("join")
    a, b, c = (flow.input(n, {"k": "int64", n: "int64"}) for n in "abc")
    for name, rows in (("a", a), ("b", b)):
        flow.output(name, rows)
    flow.output("all", tm.join_all([a, b, c], on="k").select("a", "b", "c"))
    engine = tm.Embedded(tmp_path, in_memory=10)
    with flow.start(engine) as run:
        run.insert("a", [(k, 0) for k in range(50)])
        run.insert("a", [(7, 1)], time=2)
        run.insert("b", [(k, 0) for k in range(50)])
        run.advance_to(1)
        run.advance_to(3, input="a")
    with flow.start(engine) as again:
        again.insert("c", [(7, 5), (49, 6)])
        again.advance_to(2, input="b")
        again.advance_to(2, input="c")
        assert list(again.changes("all")) == [((0, 0, 5), 1, 1), ((0, 0, 6), 1, 1)]
        again.delete("b", [(49, 0)])
    with flow.start(engine) as last:
        last.delete("b", [(49, 0)])
        last.advance_to(4)
        assert list(last.changes("all")) == [((0, 0, 6), 2, -1), ((1, 0, 5), 2, 1)]
