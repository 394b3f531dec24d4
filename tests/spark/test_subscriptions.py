"""Readers of a run on Spark: steps that executors take are among what they get, after a restart too."""

import tidemill as tm


def build():
    flow = tm.Dataflow("read on Spark")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(n=tm.count(), s=tm.sum("v")))
    flow.output("x", x, changes=False)
    return flow


def frame(spark, first, count):
    return spark.createDataFrame([("abc"[i % 3], i) for i in range(first, first + count)], "k string, v bigint")


def test_a_step_of_the_executors_is_read_before_and_after_a_restart(spark, tmp_path):
    def engine():
        return tm.Spark(spark, tmp_path, in_driver=7)

    given = []
    with build().start(engine()) as run:
        reader = run.subscribe("n", name="sink", snapshot=False)
        run.insert("x", frame(spark, 0, 30))
        run.advance()
        given += [list(batch) for batch in reader]
        reader.ack()
        run.insert("x", [("a", 1000)])
        run.advance()
        run.insert("x", frame(spark, 30, 30))
        run.advance()
    with build().start(engine()) as run:
        run.insert("x", frame(spark, 60, 30))  # nobody is there who reads
        run.advance()
        state = tm.read_state(tmp_path)
        assert state.snapshot("x").counts() == run.snapshot("x").counts()
        assert len(state.snapshot("x")) == 91
    with build().start(engine()) as run:
        given += [list(batch) for batch in run.subscribe("n", name="sink")]
    with build().start() as run:
        for rows in ([30, 0], [1, 1000], [30, 30], [30, 60]):
            count, first = rows
            run.insert("x", [("abc"[i % 3] if count > 1 else "a", i) for i in range(first, first + count)])
            run.advance()
        expected = list(run.changes("n"))
    assert [update for batch in given for update in batch] == expected
