"""Steps of live runs taken on the executors: the same results, whoever takes what, whatever is refused in between."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tidemill.renderer.durable.spilled import SpilledSpine
from tidemill.renderer.spark.live.incoming import collected_if_few
from tidemill.testing.spark_engines import SparkLive


def sales():
    flow = tm.Dataflow("sales")
    sold = flow.input("sales", {"id": "int64", "item": "int64", "amount": "int64", "note": "string"})
    items = flow.input("items", {"item": "int64", "category": "int64"})
    priced = sold.join(items, on="item")
    by_category = priced.group_by("category").agg(n=tm.count(), total=tm.sum("amount"), least=tm.min("amount"))
    flow.output("sums", by_category)
    flow.output("loners", priced.filter("amount > 990").select("category", "note").distinct())
    flow.output("all", sold.agg(n=tm.count(), total=tm.sum("amount"), odd=tm.bool_or(tm.col("amount") % 2 == 1)))
    flow.output("rich", by_category.filter("total > 9000").join(items, on="category").count("many"))
    return flow


def play(run, sold, items):
    """Steps with large changes and small ones between them; all changes and the contents after them."""
    found = []

    def advance():
        run.advance()
        found.extend(sorted(map(repr, run.changes(name))) for name in run.graph.outputs)

    run.insert("sales", sold)
    run.insert("items", items)
    advance()
    run.insert("sales", [(1, 2, 3, "x")])
    run.delete("items", [(5, 5)])
    advance()
    part = sold.filter("id % 7 = 0") if hasattr(sold, "localCheckpoint") else sold.filter(_seventh(sold))
    run.delete("sales", part)
    run.insert("items", [(5, 7)])
    advance()
    run.delete("sales", [(1, 2, 3, "x")])
    run.delete("items", [(9, 9)])
    advance()
    return [*found, *(sorted(map(repr, run.snapshot(name))) for name in run.graph.outputs)]


def _seventh(table):
    import pyarrow as pa

    return pa.array([i % 7 == 0 for i in table.column("id").to_pylist()])


@pytest.fixture(scope="module")
def tables(spark):
    sold = spark.sql(
        "SELECT id, CAST(id * 7919 % 200 AS bigint) item, CAST(id * 31 % 1000 AS bigint) amount, concat('n', id % 3) note "
        "FROM range(3000)"
    )
    return sold, spark.sql("SELECT id item, CAST(id % 20 AS bigint) category FROM range(200)")


@pytest.mark.parametrize("in_driver", [0, 100])
def test_large_changes_and_small_ones(spark, tmp_path, tables, in_driver):
    """With 0 all is done by the executors; with 100 the sums, and what follows from them, by the driver."""
    with sales().start() as run:
        expected = play(run, *(t.toArrow() for t in tables))
    with sales().start(tm.Spark(spark, tmp_path, in_driver=in_driver)) as run:
        assert play(run, *tables) == expected
        first = {o.kind: o for o in reversed(run.metrics())}
        assert first["Input"].records_out > 3000
        assert first["Join"].records_out == first["Reduce"].records_in > 3000
        assert first["Output"].records_in == first["Output"].records_out > 50
    with sales().start(tm.Spark(spark, tmp_path)) as run:
        assert [sorted(map(repr, run.snapshot(name))) for name in run.graph.outputs] == expected[-4:]
        run.insert("items", [(9, 9)])
        run.advance()
        assert run.changes("sums").to_arrow().num_rows > 0


def test_rows_of_more_bytes_than_the_driver_may_fetch_are_many():
    """As the first of many rows of long texts are; they go to files."""

    class Rows:
        said = "is bigger than spark.driver.maxResultSize (1024.0 MiB)"

        def limit(self, _):
            return self

        def toArrow(self):  # noqa: N802 - Spark's name
            raise RuntimeError(self.said)

    rows = Rows()
    assert collected_if_few(rows, 10) is None
    rows.said = "another error"
    with pytest.raises(RuntimeError, match="another error"):
        collected_if_few(rows, 10)


def test_lists_of_nothing_but_nulls(spark, tmp_path):
    """Found by a random test: Spark's own reader fails on them where the file has a dictionary for their values."""
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "l": "list<float64>"})
    flow.output("o", x.distinct())
    flow.output("n", x.group_by("k").agg(n=tm.count_distinct("l")))
    updates = [((0, (None,)), 0, 1), *(((i, (None,) * (i % 2)), 1, 1) for i in range(4))]
    batchings = [tm.testing.time_by_time]
    engines: list[Any] = ["embedded", SparkLive(in_driver=2)]
    tm.testing.check_equivalent(flow, {"x": updates}, engines=engines, batchings=batchings)


def test_a_loop_that_some_of_enters_from_each(spark, tmp_path):
    """Reachability where the graph comes in large and the start small, and the other way round."""
    flow = tm.Dataflow("reach")
    edges, start = flow.input("edges", {"a": "int64", "b": "int64"}), flow.input("start", {"node": "int64"})
    reach = start.iterate(lambda here: here.join(edges, on={"node": "a"}).select(node="b").concat(start).distinct())
    flow.output("reach", reach)
    flow.output("counted", reach.join(edges, on={"node": "a"}).group_by("node").agg(n=tm.count()))
    changes: list[dict[str, list[Any]]] = [
        {"edges": [((i, (i * 3 + 1) % 40), 1) for i in range(40)], "start": [((1,), 1)]},
        {"edges": [((4, 13), -1)]},
        {"edges": [], "start": [((n,), 1) for n in (2, 5, 7, 11)]},
        {"edges": [((i, (i * 3 + 1) % 40), -1) for i in range(5, 25)] + [((1, 30), 1)], "start": [((2,), -1)]},
    ]
    found = []
    for engine in (None, tm.Spark(spark, tmp_path, in_driver=3)):
        with flow.start(engine) as run:
            for epoch, change in enumerate(changes):
                for name, updates in change.items():
                    run.update(name, [(row, epoch, diff) for row, diff in updates])
                run.advance()
            found.append([sorted(map(repr, run.changes(name))) for name in ("reach", "counted")])
    assert found[0] == found[1]


def test_a_unique_input(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}, unique=True).select(i="i * 2"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", spark.range(10).toDF("i"))
        run.advance()
        run.insert("x", spark.range(9, 14).toDF("i"))
        with pytest.raises(tm.errors.StepError, match=r"row \(9,\).*2 times|\(9,\)"):
            run.advance()
        run.discard()
        run.delete("x", spark.range(5).toDF("i"))
        run.insert("x", [(11,)])
        run.advance()
        assert sorted(run.snapshot("o")) == [(10,), (12,), (14,), (16,), (18,), (22,)]


def test_a_step_that_fails_takes_nothing(spark, tmp_path):
    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64"})
    flow.output(
        "o", x.map_rows(lambda row: (row.i, 60 // row.i), {"i": "int64", "r": "int64"}).group_by("r").agg(n=tm.count())
    )
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", [(4,)])
        run.advance()
        run.insert("x", spark.range(-3, 4).toDF("i"))
        with pytest.raises(tm.errors.UserFunctionError, match=r"map_rows.*lambda.*division") as caught:
            run.advance()
        assert "ZeroDivisionError" in repr(caught.value.__cause__) + str(caught.value)
        assert run.frontier("x") == tm.Antichain([1])
        assert list(run.snapshot("o")) == [(15, 1)]
        run.discard()
        run.insert("x", spark.range(1, 5).toDF("i"))
        run.advance()
        assert sorted(run.snapshot("o")) == [(15, 2), (20, 1), (30, 1), (60, 1)]


def test_what_does_not_fit_is_refused_when_it_is_put_in(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64 not null"}))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        with pytest.raises(tm.errors.RowError, match="nulls are not allowed here"):
            run.insert("x", spark.sql("SELECT IF(id = 7, NULL, id) AS i FROM range(10)"))
        with pytest.raises(tm.errors.RowError, match="expected"):
            run.insert("x", spark.sql("SELECT id AS wrong FROM range(10)"))
        run.advance()
        assert list(run.snapshot("o")) == []


WIDE = {"k": "int64", "n": "string not null", "i": "int64", "d": "date", "l": "list<int64>"}


@pytest.mark.parametrize(
    ("column", "wrong", "said"),
    [
        ("k", "-9223372036854775808L", "overflow"),
        ("n", "CAST(NULL AS string)", "nulls are not allowed"),
        ("i", "-9223372036854775808L", "overflow"),
        ("d", "DATE '-0001-01-01'", "not a valid date"),
    ],
)
def test_columns_that_nobody_reads_are_checked_all_the_same(spark, tmp_path, column, wrong, said):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", WIDE).select("k").distinct())
    right = {"k": "id", "n": "'a'", "i": "9223372036854775807L - id", "d": "DATE '9999-12-31'", "l": "array(id)"}

    def rows(of):
        return spark.sql("SELECT " + ", ".join(f"{e} AS {name}" for name, e in of.items()) + " FROM range(10)")

    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        with pytest.raises(tm.errors.RowError, match=f"{said}.*in 1 of 10 rows"):
            run.insert("x", rows(right | {column: f"IF(id = 7, {wrong}, {right[column]})"}))
        run.insert("x", rows(right))
        run.advance()
        assert sorted(run.snapshot("o")) == [(i,) for i in range(10)]


def test_only_the_columns_that_are_read_are_kept(spark, tmp_path):
    flow = tm.Dataflow()
    x = flow.input("x", WIDE)
    flow.output("o", x.filter("i < 5").select("k", v="k + 1"))
    flow.output("joined", x.select("k", "l").join(flow.input("y", {"k": "int64"}), on="k"), changes=False)
    rows = spark.range(10).selectExpr("id AS k", "'a' AS n", "id AS i", "DATE '2024-01-01' AS d", "array(id) AS l")
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", rows)
        run.insert("y", spark.range(4, 8).toDF("k"))
        (file,) = {f for p in tmp_path.rglob("*input*.parquet") if len((f := pq.read_schema(p)).names) > 2}
        assert set(file.names) == {"v0", "v2", "v4", "odd"}
        run.advance()
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        assert sorted(run.snapshot("o")) == [(i, i + 1) for i in range(5)]
        run.delete("x", [(6, "b", 6, None, [6])])  # of what is read there is one like it
        run.advance()
        assert sorted(run.snapshot("joined")) == [(i, (i,)) for i in (4, 5, 7)]


def test_what_differs_each_time_it_is_computed_is_refused(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64 not null"}))
    seen = tmp_path / "seen"

    def null_twice(batches):  # when it is looked at and when it is written
        for _ in batches:
            with seen.open("a+") as file:
                file.write(".")
                times = file.tell()
            yield pa.record_batch({"i": pa.array([None if times < 3 else 1], pa.int64())})

    rows = spark.range(1, 2, 1, 1).mapInArrow(null_twice, "i bigint")
    refused = pytest.raises(tm.errors.RowError, match="a row did not fit, and all do when they are computed again")
    with flow.start(tm.Spark(spark, tmp_path / "state", in_driver=0)) as run, refused:
        run.insert("x", rows)


def test_what_the_executors_cannot_take_the_driver_takes(spark, tmp_path):
    flow = tm.Dataflow("keyed")
    flow.output("o", flow.input("x", {"i": "int64"}, key="i"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", spark.range(10).toDF("i"))
        run.advance_to(5)
        run.close_inputs()
        assert sorted(run.snapshot("o")) == [(i,) for i in range(10)]


def test_large_changes_wait_for_their_time(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", spark.range(4).toDF("i"), time=2)
        run.insert("x", [(9,)])
        run.advance()
        assert list(run.snapshot("o")) == [(9,)]
        with pytest.raises(ZeroDivisionError):
            run.deliver("source", 1, lambda r: r.insert("x", spark.range(100, 200).toDF("i")) or 1 / 0)
        run.advance_to(3)
        assert sorted(run.snapshot("o")) == [(0,), (1,), (2,), (3,), (9,)]
        run.deliver("source", 1, lambda r: r.insert("x", spark.range(20, 25).toDF("i")))
        assert not run.deliver("source", 1, lambda r: r.insert("x", spark.range(20, 25).toDF("i")))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        assert len(run.snapshot("o")) == 10
        assert not run.deliver("source", 1, lambda r: r.insert("x", [(1,)]))


@pytest.mark.parametrize("checkpoint_every", [1, 1000])
def test_large_changes_that_wait_survive_the_run(spark, tmp_path, monkeypatch, checkpoint_every):
    from tidemill.renderer.spark.live import incoming

    monkeypatch.setattr(incoming, "_FEW", 2)
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}))
    engine = tm.Spark(spark, tmp_path, in_driver=2, checkpoint_every=checkpoint_every)
    with flow.start(engine) as run:
        run.insert("x", spark.range(4).toDF("i"), time=2)
        run.insert("x", spark.range(10, 14).toDF("i"), time=3)
        run.insert("x", [(9,)])
        run.advance()
        run.insert("x", spark.range(50, 60).toDF("i"))  # no step takes it
    assert len(list((tmp_path / "cold").iterdir())) >= 3
    with flow.start(engine) as run:
        assert list(run.snapshot("o")) == [(9,)]
        run.advance_to(3)
        assert sorted(run.snapshot("o")) == [(0,), (1,), (2,), (3,), (9,)]
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.advance_to(4)
        assert sorted(run.snapshot("o")) == [(0,), (1,), (2,), (3,), (9,), (10,), (11,), (12,), (13,)]


def test_a_changelog_of_large_steps(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(k="i % 3").count("n"), changes=False)
    with flow.start(tm.Spark(spark, tmp_path / "state", in_driver=2)) as run:
        run.to_changelog(tmp_path / "log")
        run.insert("x", spark.range(10).toDF("i"))
        run.advance()
        run.insert("x", [(1,)])
        run.advance()
    found = spark.read.parquet(str(tmp_path / "log" / "o")).collect()
    assert sorted(map(tuple, found)) == [(0, 4, 0, 1), (1, 3, 0, 1), (1, 3, 1, -1), (1, 4, 1, 1), (2, 3, 0, 1)]


def test_large_outputs_are_read_from_the_disk(spark, tmp_path, monkeypatch):
    """`to_spark` of many rows does not bring them to the driver; looking at them does, and both give the same."""
    from tidemill.renderer.spark.live import spilled_results as ondisk

    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64", "s": "string"}).select(i="i div 2", s="s"))
    rows = spark.sql("SELECT id i, concat('s', id % 2) s FROM range(20) UNION ALL SELECT 2L, 's0'")
    got = []
    updates = ondisk.SpilledOutput.updates
    monkeypatch.setattr(ondisk.SpilledOutput, "updates", lambda self: got.append(1) or updates(self))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=5, checkpoint_every=1)) as run:
        run.insert("x", rows)
        run.advance()
        changes = run.changes("o")
        run.insert("x", [(7, None)])
        run.delete("x", [(18, "s0")])
        run.advance()
        contents = run.snapshot("o")
        there = sorted(map(tuple, changes.to_spark().collect()))
        assert len(there) == 20
        assert (1, "s0", 0, 2) in there
        in_spark = sorted(map(repr, contents.to_spark().collect()))
        assert got == []
        assert sorted((*row, time, diff) for row, time, diff in changes) == there
        assert changes.to_spark().columns == ["i", "s", "time", "diff"]
        assert len(contents) == 21
        assert got == [1, 1]
        assert sorted(map(repr, spark.createDataFrame(contents.to_arrow()).collect())) == in_spark
        assert sorted((*row, time, diff) for row, time, diff in run.changes("o")) == [(3, None, 1, 1), (9, "s0", 1, -1)]
        files = {p.name for p in (tmp_path / "cold").iterdir()}
        del changes, contents
        run.advance()
        assert {p.name for p in (tmp_path / "cold").iterdir()} <= files


def test_a_folder_that_cannot_be_written(spark, tmp_path):
    """Where a folder should be there is a file: neither the driver nor an executor can write."""
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="i + 1"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        (tmp_path / "cold").write_text("in the way")
        with pytest.raises(tm.errors.StateError, match="cold could not be written"):
            run.insert("x", spark.range(100_001).toDF("i"))
        run.update("x", [((i,), 0, 1) for i in range(9)])
        with pytest.raises(tm.errors.StateError, match="cold could not be written"):
            run.advance()
        (tmp_path / "cold").unlink()
        run.advance()
        assert len(run.snapshot("o")) == 9


def compare(spark, folder, flow, epochs, in_driver):
    """The changes of each epoch and the contents after it, with executors and without, and after going on."""
    found = []
    for engine in (None, tm.Spark(spark, folder, in_driver=in_driver)):
        with flow.start(engine) as run:
            seen = []
            for epoch in epochs:
                for name, rows in epoch.items():
                    (run.upsert if flow.graph.inputs[name].key else run.insert)(name, rows)
                run.advance()
                seen += [sorted(map(repr, run.changes(name))) for name in flow.graph.outputs]
                seen += [sorted(map(repr, run.snapshot(name))) for name in flow.graph.outputs]
        found.append(seen)
    assert found[0] == found[1]
    with flow.start(tm.Spark(spark, folder)) as run:
        assert [sorted(map(repr, run.snapshot(name))) for name in flow.graph.outputs] == found[0][
            -len(flow.graph.outputs) :
        ]
        run.advance()
        assert all(list(run.changes(name)) == [] for name in flow.graph.outputs)


def test_what_leaves_a_loop_beside_what_is_large(spark, tmp_path):
    """A loop is run as a whole, so what comes out of it may be large where nothing large can have come to."""
    flow = tm.Dataflow()
    a, b = (flow.input(name, {"k": "int64", "v": "int64"}) for name in ("a", "b"))
    with flow.letrec() as rec:
        for name, steps in (("p", a), ("q", b)):
            variable = rec.declare(name, {"k": "int64", "v": "int64"})
            rec.define(name, variable.join(steps, on={"v": "k"}).select("k", v="v_right").concat(steps).distinct())
    flow.output("p", rec["p"])
    flow.output("n", rec["q"].count("n"))
    flow.output("starts", rec["q"].select("k").distinct())
    epochs = [{"b": [(1, 2), (2, 3)]}, {"a": [(7, 8), (8, 9), (9, 10), (5, 5)], "b": [(3, 4), (4, 1)]}]
    compare(spark, tmp_path, flow, epochs, 3)


def test_sums_that_came_to_nothing_are_forgotten(spark, tmp_path):
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("o", x.filter("v > 100").group_by("k").agg(n=tm.count(), s=tm.sum("v")))
    epochs = [{"x": [(1, 200), (2, 300)]}, {"x": [(i, i) for i in range(6)]}, {"x": [(1, 200), (3, 500)]}]
    compare(spark, tmp_path, flow, epochs, 3)


def test_a_loop_whose_other_side_had_come_before(spark, tmp_path):
    flow = tm.Dataflow()
    a, b = (flow.input(name, {"k": "int64", "v": "int64"}) for name in ("a", "b"))
    start = flow.input("start", {"k": "int64"})

    with flow.letrec() as rec:
        for name, steps in (("p", a), ("q", b)):
            variable = rec.declare(name, {"k": "int64"})
            rec.define(name, variable.join(steps, on="k").select(k="v").concat(start).distinct())
    flow.output("p", rec["p"])
    flow.output("q", rec["q"])
    epochs = [
        {"start": [(1,)], "b": [(1, 2), (2, 3)], "a": [(1, 7)]},
        {"a": [(7, 8), (8, 9), (9, 10), (5, 5)], "b": [(3, 4)]},
        {"b": [(4, 5), (5, 6), (6, 7), (7, 1)], "a": [(10, 1)]},
    ]
    compare(spark, tmp_path, flow, epochs, 3)


def test_writes_by_key_with_a_large_step(spark, tmp_path):
    flow = tm.Dataflow()
    keyed = flow.input("u", {"k": "int64", "v": "int64"}, key="k")
    flow.output("u", keyed)
    flow.output("n", flow.input("x", {"i": "int64"}).select(i="i % 2").count("n"))
    epochs = [{"u": [(1, 1)]}, {"x": [(i,) for i in range(5)], "u": [(1, 2), (3, 3)]}]
    compare(spark, tmp_path, flow, epochs, 2)


def test_what_was_read_lately_outlives_compaction(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"s": "string"}).select(s="s"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=3)) as run:
        run.insert("x", [(f"s{i}",) for i in range(6)])
        run.advance()
        run.insert("x", [("small",), ("zoo",)])
        run.advance()
        contents, changes = run.snapshot("o"), run.changes("o")
        run.delete("x", [("small",), ("zoo",)])
        run.advance()
        run.compact()
        run.checkpoint()
        expected = sorted([("small",), ("zoo",), *((f"s{i}",) for i in range(6))])
        assert sorted(map(tuple, contents.to_spark().collect())) == expected
        assert sorted(contents) == expected
        assert sorted(row for row, _, _ in changes) == expected


def test_large_steps_leave_few_files(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).select(i="i").distinct())
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        for _ in range(4):
            run.insert("x", [(i,) for i in range(6)])
            run.advance()
            run.delete("x", [(i,) for i in range(6)])
            run.advance()
        assert list(run.changes("o")) != []  # until they are read they are kept
        run.compact()
        assert run.metrics().state_rows == 0
        run.checkpoint()
        assert list((tmp_path / "cold").iterdir()) == []


def test_what_is_merged_after_a_commit_is_there_for_who_goes_on(spark, tmp_path, monkeypatch):
    """Found by killing runs: a merge after a step removed the files to which the step's own commit referred."""
    monkeypatch.setattr(SpilledSpine.settle, "__defaults__", (2,))
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "i": "int64"})
    flow.output("o", x.group_by("k").agg(n=tm.count(), least=tm.min("i")))
    for step in range(6):
        with flow.start(tm.Spark(spark, tmp_path, in_driver=0)) as run:
            run.insert("x", spark.range(3).selectExpr("id AS k", f"CAST({step} AS bigint) AS i"))
            run.advance()
            assert sorted(run.snapshot("o")) == [(k, step + 1, 0) for k in range(3)]
