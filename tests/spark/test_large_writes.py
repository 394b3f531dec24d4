"""DataFrames written to inputs with a key: resolved on the executors, to what the reference engine says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm

ROW = "x double, v bigint, s string, l array<bigint>"
SCHEMA = {"x": "float64", "v": "int64", "s": "string", "l": "list<int64>"}
NAN = float("nan")
KEYS = st.tuples(st.sampled_from([0.0, -0.0, 1.5, NAN]), st.sampled_from(["", "a", "é"]))
VALUES = st.tuples(st.sampled_from([0, 1, None]), st.sampled_from([None, (), (1, None)]))
ROWS = st.dictionaries(KEYS, VALUES, max_size=6).map(lambda d: [(x, v, s, l) for (x, s), (v, l) in d.items()])
CALLS = st.tuples(
    st.booleans(), st.sampled_from(["upsert", "upsert", "delete", "delete rows"]), ROWS, st.integers(0, 1)
)


def build():
    flow = tm.Dataflow("written")
    x = flow.input("x", SCHEMA, key=["s", "x"])
    flow.output("rows", x)
    flow.output("sums", x.group_by("s").agg(n=tm.count(), v=tm.sum("v"), most=tm.max("x")))
    flow.output("pairs", x.join(flow.input("y", {"v": "int64"}), on="v").select("s", "v"))
    return flow


def call(run, spark, kind, rows, time):
    """Write rows, as a DataFrame where there is a session."""
    if kind == "delete":
        rows = [(s, x) for x, _, s, _ in rows]
    if spark is not None:
        schema = ROW if kind != "delete" else "s string, x double"
        rows = spark.createDataFrame(
            [tuple(list(v) if isinstance(v, tuple) else v for v in row) for row in rows], schema
        )
    (run.upsert if kind == "upsert" else run.delete)("x", rows, time=time)


def seen(run):
    found = [run.changes(name) for name in run.graph.outputs] + [run.snapshot(name) for name in run.graph.outputs]
    return [sorted(map(repr, f)) for f in found]


@pytest.mark.parametrize("in_driver", [0, 2])
def test_random_writes(spark, tmp_path_factory, in_driver):
    @examples(2, least=2)
    @given(st.lists(st.tuples(st.lists(CALLS, max_size=4), st.integers(1, 2)), min_size=2, max_size=3))
    def check(epochs):
        folder = tmp_path_factory.mktemp("state")
        engine = tm.Spark(spark, folder, in_driver=in_driver)
        with build().start(tm.Reference()) as right, build().start(engine) as run:
            now = 0
            for number, (calls, more) in enumerate(epochs):
                for r in (right, run):
                    r.insert("y", [(number % 2,)])
                    for as_frame, kind, rows, later in calls:
                        call(r, spark if as_frame and r is run else None, kind, rows, now + later)
                now += more
                for r in (right, run):
                    r.advance_to(now)
                assert seen(run) == seen(right)
            expected = seen(right)
        with build().start(tm.Embedded(folder)) as run:
            assert seen(run)[3:] == expected[3:]
            for name in ("x", "y"):  # what is left to come, with the driver alone
                run.close_input(name)

    check()


def one():
    flow = tm.Dataflow("one")
    flow.output("o", flow.input("x", {"k": "int64", "v": "int64"}, key="k"))
    return flow


def test_two_rows_of_a_key_in_one_dataframe(spark, tmp_path):
    with one().start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        with pytest.raises(tm.errors.RowError, match=r"the key \{'k': '3'\} has 2 different rows in one DataFrame"):
            run.upsert("x", spark.sql("SELECT id k, id v FROM range(6) UNION ALL SELECT 3, 7"))
        with pytest.raises(tm.errors.RowError, match="column k: int64 not null is NULL"):
            run.upsert("x", spark.sql("SELECT IF(id = 4, NULL, id) k, id v FROM range(6)"))
        with pytest.raises(tm.errors.RowError, match="column k: int64 not null is NULL"):
            run.delete("x", spark.sql("SELECT IF(id = 4, NULL, id) k FROM range(6)"))
        assert list((tmp_path / "cold").iterdir()) == []
        run.upsert("x", spark.sql("SELECT id k, 5L v FROM range(6) UNION ALL SELECT 3, 5"))  # the same row twice
        run.delete("x", spark.sql("SELECT id % 2 k, id v FROM range(6)"))  # by the key, whatever else is in the rows
        run.advance()
        assert sorted(run.snapshot("o")) == [(2, 5), (3, 5), (4, 5), (5, 5)]


def test_large_writes_that_change_little_are_left_to_the_driver(spark, tmp_path):
    with one().start(tm.Spark(spark, tmp_path, in_driver=3)) as run:
        run.upsert("x", spark.sql("SELECT id k, id v FROM range(8)"))
        run.advance()
        on_disk = {p.name for p in (tmp_path / "cold").iterdir()}
        run.upsert("x", spark.sql("SELECT id k, IF(id = 5, 50, id) v FROM range(8)"))
        run.advance()
        assert list(run.changes("o"))[8:] == [((5, 5), 1, -1), ((5, 50), 1, 1)]
        assert {p.name for p in (tmp_path / "cold").iterdir()} <= on_disk
        run.upsert("x", spark.sql("SELECT id k, IF(id = 5, 50, id) v FROM range(8)"))
        run.advance()
        assert list(run.changes("o")) == []
        assert run.frontier("o") == tm.Antichain([3])


def test_a_step_that_fails_overwrites_nothing(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"k": "int64", "v": "int64"}, key="k").select("k", q="60 DIV v"))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.upsert("x", spark.sql("SELECT id k, id + 1 v FROM range(6)"))
        run.advance()
        run.upsert("x", spark.sql("SELECT id k, id v FROM range(6)"))
        with pytest.raises(tm.errors.ExpressionError, match="division by zero"):
            run.advance()
        run.upsert("x", [(0, 6)])
        run.advance()
        assert sorted(run.snapshot("o")) == [(0, 10), (1, 60), (2, 30), (3, 20), (4, 15), (5, 12)]
        run.upsert("x", spark.sql("SELECT id k, 0L v FROM range(6)"))
        with pytest.raises(tm.errors.ExpressionError):
            run.advance()
        run.discard()
        run.delete("x", spark.range(4).toDF("k"))
        run.advance()
        assert sorted(run.snapshot("o")) == [(4, 15), (5, 12)]


@pytest.mark.parametrize("checkpoint_every", [1, 1000])
@pytest.mark.parametrize("by_driver", [False, True])
def test_what_was_written_last_counts_whoever_takes_it(spark, tmp_path, checkpoint_every, by_driver):
    """Small writes and large ones to the same keys, which wait for their time and survive the run."""
    engine = tm.Spark(spark, tmp_path, in_driver=2, checkpoint_every=checkpoint_every)
    with one().start(engine) as run:
        run.upsert("x", [(k, 1) for k in range(4)], time=1)
        run.upsert("x", spark.sql("SELECT id k, 2L v FROM range(1, 6)"), time=1)
        run.upsert("x", [(4, 3), (9, 3)], time=1)
        run.delete("x", spark.sql("SELECT id k FROM range(3, 6)"), time=2)
        run.upsert("x", [(5, 4)], time=2)
        run.advance()
        with pytest.raises(ZeroDivisionError):
            run.deliver("s", 1, lambda r: r.delete("x", spark.range(20).toDF("k")) or 1 / 0)
    with one().start(tm.Embedded(tmp_path) if by_driver else engine) as run:
        run.upsert("x", [(1, 5)], time=1)
        run.advance_to(2)
        assert sorted(run.snapshot("o")) == [(0, 1), (1, 5), (2, 2), (3, 2), (4, 3), (5, 2), (9, 3)]
        run.advance()
        assert sorted(run.snapshot("o")) == [(0, 1), (1, 5), (2, 2), (5, 4), (9, 3)]
