"""What large steps leave behind: in operators of the driver, in memory, on the disk, and in what is saved."""

from typing import Any, cast

import pytest

import tidemill as tm
from tidemill.renderer.durable.spilled import SpilledSpine, SpillFolder
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.reduce import group_rows

KV = {"k": "int64", "v": "int64"}


def extremes():
    flow = tm.Dataflow()
    x = flow.input("x", KV)
    flow.output("ends", x.group_by("k").agg(lo=tm.min("v"), hi=tm.max("v")))
    flow.output("first", x.group_by("k").top_k(2, order_by="v"))
    return flow


def test_groups_held_in_order_take_in_what_executors_added(spark, tmp_path):
    """Found by a reviewer: the order was that from before the large step."""
    large = spark.range(500, 5500).selectExpr("1L AS k", "id AS v")

    def play(engine, whole):
        found = []
        with extremes().start(engine) as run:
            for change in (
                lambda: run.insert("x", [(1, i) for i in range(1000, 1000 + group_rows.LARGE_FROM + 100)]),
                lambda: run.insert("x", whole),
                lambda: run.insert("x", [(1, 700)]),
                lambda: run.delete("x", [(1, 5499)]),
                lambda: run.delete("x", [(1, 500), (1, 501)]),
            ):
                change()
                run.advance()
                found += [sorted(run.changes(name)) for name in ("ends", "first")]
            return [*found, sorted(run.snapshot("ends")), sorted(run.snapshot("first"))]

    assert play(tm.Spark(spark, tmp_path, in_driver=3000), large) == play(None, large.toArrow())


def test_changes_in_files_that_were_not_read_are_saved(spark, tmp_path):
    """As those in memory are (tests/runs/test_saved_runs.py); and either engine goes on with them."""
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}))
    with flow.start(tm.Spark(spark, state=tmp_path / "state", in_driver=2)) as run:
        run.insert("x", spark.range(10).toDF("i"))
        run.advance()
        run.insert("x", [(100,)])
        run.advance()
        run.save(tmp_path / "saved")
        wanted = sorted(run.changes("x"))
    assert len(wanted) == 11
    for engine in (None, tm.Embedded(in_memory=3), tm.Spark(spark, in_driver=2)):
        with tm.load(tmp_path / "saved", flow, engine) as again:
            assert sorted(again.changes("x")) == wanted
            again.insert("x", [(200,)])
            again.advance()
            assert list(again.changes("x")) == [((200,), 2, 1)]


def test_what_waits_in_files_is_saved(spark, tmp_path):
    """Found by a reviewer: a saved state was without it."""
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", KV).group_by("k").agg(n=tm.count()))
    flow.output("now", flow.input("keyed", KV, key="k"))
    rows = spark.range(10).selectExpr("id % 3 AS k", "id AS v")
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", [(7, 7)])
        run.insert("x", rows)
        run.upsert("keyed", rows.limit(3))
        run.upsert("keyed", [(0, 9)])
        run.save(tmp_path / "saved")
        with tm.load(tmp_path / "saved", flow) as again:
            for one in (run, again):
                one.advance()
                assert sorted(one.snapshot("n")) == [(0, 4), (1, 3), (2, 3), (7, 1)]
                assert sorted(one.snapshot("now")) == [(0, 9), (1, 1), (2, 2)]


@pytest.mark.parametrize("in_driver", [0, 100])
def test_rows_without_columns(spark, tmp_path, in_driver):
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", {}).agg(n=tm.count()))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=in_driver)) as run:
        run.insert("x", [()] * 5)
        run.insert("x", spark.range(3).select())
        run.advance()
        assert list(run.snapshot("n")) == [(8,)]
        run.delete("x", spark.range(2).select())
        run.insert("x", spark.range(0).select())
        run.advance()
        assert list(run.snapshot("n")) == [(6,)]


def test_changes_that_nobody_reads_do_not_pile_up_on_the_disk(spark, tmp_path):
    flow = tm.Dataflow(time=("a", "b"))
    flow.output("o", flow.input("x", {"i": "int64"}).distinct(), changes=5)
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        for step in range(4):
            for change in (run.insert, run.delete):
                change("x", spark.range(10).toDF("i"))
                run.advance_to((step * 2 + (change == run.delete) + 1, 0))
        run.insert("x", spark.range(3).toDF("i"))
        run.advance_to((9, 9))
        assert len(list((tmp_path / "cold").glob("*unread*"))) <= 1
        assert sorted((row, diff) for row, _, diff in run.changes("o")) == [((i,), 1) for i in range(3)]


@pytest.mark.parametrize("durable", [False, True])
def test_a_step_is_taken_whatever_becomes_of_tidying_up(spark, tmp_path, monkeypatch, durable):
    """Changes that nobody reads are added up after a step: where that failed, the step was taken and not told so."""
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="i"), changes=3)
    with flow.start(tm.Spark(spark, tmp_path if durable else None, in_driver=2)) as run:
        run.insert("x", spark.range(6).toDF("i"))
        with monkeypatch.context() as patch:
            patch.setattr("tidemill.renderer.spark.live.outputs.compacted", full)
            with pytest.warns(RuntimeWarning, match="the step was taken.*No space left"):
                run.advance()
        assert run.frontier("o") == tm.Antichain([1])
        run.delete("x", spark.range(5).toDF("i"))
        with monkeypatch.context() as patch:
            patch.setattr(SpilledSpine, "settle", interrupting)
            with pytest.raises(KeyboardInterrupt):
                run.advance()
        assert run.frontier("o") == tm.Antichain([2])
        run.advance()
        assert list(run.snapshot("o")) == [(5,)]
        assert [(row, diff) for row, _, diff in run.changes("o") if row == (5,)] == [((5,), 1)]


def test_large_changes_count_once_whenever_a_step_is_interrupted(spark, tmp_path, monkeypatch):
    """In its work it is undone; while it is made final it is written down, and there when the run is opened again."""
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="i"))
    engine = tm.Spark(spark, tmp_path, in_driver=2)
    with flow.start(engine) as run:
        run.insert("x", spark.range(4).toDF("i"))
        for moment in ("executor_step.ExecutorStep._publish", "spilled_state._Addition.commit"):
            assert run.frontier("o") == tm.Antichain([0])
            with monkeypatch.context() as patch:
                patch.setattr(f"tidemill.renderer.spark.live.{moment}", interrupting)
                with pytest.raises(KeyboardInterrupt):
                    run.advance()
        with pytest.raises(tm.errors.ClosedRunError, match="interrupted while a step was made final"):
            run.advance()
    with flow.start(engine) as run:
        assert sorted(run.snapshot("o")) == [(i,) for i in range(4)]
        run.advance()
        assert sorted(run.snapshot("o")) == [(i,) for i in range(4)]


def interrupting(*_args):
    raise KeyboardInterrupt


def test_constants_alone(spark, tmp_path):
    """Their outputs are there from the start, before there is a folder: the driver takes that step."""
    flow = tm.Dataflow()
    flow.output("c", flow.constant({"i": "int64"}, [(1,), (2,)]).distinct())
    flow.output("x", flow.input("x", {"i": "int64"}))
    for epoch in (1, 2):
        with flow.start(tm.Spark(spark, tmp_path, in_driver=0)) as run:
            assert sorted(run.snapshot("c")) == [(1,), (2,)]
            run.insert("x", [(0,)])
            run.advance()
            assert list(run.snapshot("x")) == [(0,)] * epoch


def test_nothing_is_flushed_that_is_not_to_last(spark):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).distinct())
    with flow.start(tm.Spark(spark, in_driver=0)) as run:
        run.insert("x", spark.range(3).toDF("i"))
        run.advance()
        assert not run._stepper.spill_store.store._flushing
        assert len(run.snapshot("o")) == 3


@pytest.mark.parametrize(
    "failing", ["tidemill.renderer.durable.spilled.write_block", "tidemill.renderer.embedded.array_file.write"]
)
def test_a_step_that_cannot_put_state_on_the_disk_is_not_taken(spark, tmp_path, monkeypatch, failing):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).distinct())
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", [(1,)])
        run.advance()
        run.insert("x", spark.range(5).toDF("i"))
        with monkeypatch.context() as patch:
            patch.setattr(failing, full)
            with pytest.raises(tm.errors.StateError, match="No space left.*step.* was not taken"):
                run.advance()
        files = {p.name for p in (tmp_path / "cold").iterdir()}  # what executors wrote for it has gone
        assert files == run._stepper.spill_store.store.names | set(run._stepper.spill_store.store._pins)
        run.advance()
        assert sorted(run.snapshot("o")) == [(i,) for i in range(5)]


def full(*_args):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_flush_that_is_not_done_is_waited_for_again_and_one_that_failed_is_not(tmp_path, error):
    class Failing:
        def result(self):
            raise error

    store = SpillFolder(tmp_path, 1, Interner(), durable=True)
    (tmp_path / "file").touch()
    store._flushing = [(["file"], cast("Any", Failing()))]
    with pytest.raises(error):
        store.flushed()
    assert (len(store._flushing), store.doubtful) == ((0, {"file"}) if error is OSError else (1, set()))
    store.close()


def test_large_changes_that_the_disk_could_not_write_are_put_in_again(spark, tmp_path, monkeypatch):
    """Asked again, the system may say that all is well although what it could not write is gone."""
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="i"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        with monkeypatch.context() as patch:
            patch.setattr("tidemill.renderer.durable.spilled._flush", full)
            run.insert("x", spark.range(4).toDF("i"))
            for _ in range(2):
                with pytest.raises(tm.errors.StateError, match=r"'x' may not be on the disk.*run.discard\(\)"):
                    run.advance()
        with pytest.raises(tm.errors.StateError, match="may not be on the disk"):
            run.advance()
        run.discard()
        run.insert("x", spark.range(3).toDF("i"))
        run.advance()
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        assert sorted(run.snapshot("o")) == [(i,) for i in range(3)]


def test_changes_that_could_not_be_read_are_there_still(spark, monkeypatch):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="i"))
    with flow.start(tm.Spark(spark, in_driver=2)) as run:
        run.insert("x", spark.range(4).toDF("i"))
        run.advance()
        with monkeypatch.context() as patch:
            patch.setattr("tidemill.renderer.spark.live.outputs.SpilledOutput", full)
            with pytest.raises(OSError, match="No space"):
                run.changes("o")
        assert [(row, diff) for row, _, diff in run.changes("o")] == [((i,), 1) for i in range(4)]
        assert list(run.changes("o")) == []


def test_what_columns_files_have_is_not_asked_of_spark(spark, tmp_path):
    """To read an arrangement's files took a job that looked into one of them."""
    flow = tm.Dataflow()
    a, b = (flow.input(name, KV) for name in "ab")
    flow.output("o", a.join(b, on="k"))
    jobs = spark._jsc.sc().dagScheduler().numTotalJobs
    rows = spark.range(6).selectExpr("id AS k", "id AS v")
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("b", rows)
        run.advance()
        run.insert("a", rows)
        before = jobs()
        run.advance()
        assert jobs() - before == 5  # two files are read, what was written is looked through
        assert sorted(run.snapshot("o")) == [(i, i, i) for i in range(6)]


def test_files_that_arrangements_share_are_counted_once(spark, tmp_path):
    """The figure of a loaded input with a key was twice what was on the disk."""
    flow = tm.Dataflow()
    a, b = flow.input("a", KV, key="k"), flow.input("b", KV)
    flow.output("o", a.join(b, on="v"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("a", spark.range(1000).selectExpr("id AS k", "id AS v"))
        run.advance()
        assert run.metrics().memory.spilled_bytes == sum(p.stat().st_size for p in (tmp_path / "cold").iterdir())
