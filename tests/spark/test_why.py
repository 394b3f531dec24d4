"""A run on Spark can be asked why, as on the other engines: from what its inputs hold, reasons are found in the driver."""

from support.running import KV, new_flow

import tidemill as tm


def hops():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on={"v": "k"}).select("k", v="v_right"))
    return flow


def test_a_run_on_spark_tells_what_the_embedded_engine_tells(spark, tmp_path):
    """With inputs that are on the executors, at an earlier time, and when it goes on."""
    edges = [(1, 2), (2, 3), (3, 1), (9, 9)]
    engines = {
        "embedded": (tm.Embedded(), edges),
        "Spark": (tm.Spark(spark, tmp_path, in_driver=3), spark.createDataFrame(edges, "k long, v long")),
    }
    told = {}
    for name, (engine, rows) in engines.items():
        with hops().start(engine, why=True, keep=1) as run:
            run.insert("a", [(0, 1), (5, 5)])
            run.insert("b", rows)
            run.advance()
            run.delete("b", [(1, 2)])
            run.advance()
            there, absent = run.why("out", (0, 2), at=0), run.why("out", (0, 2))
            assert there.rows == {"a": [(0, 1)], "b": [(1, 2)]}
            assert not absent.is_there
            told[name] = str(there), there.to_svg(), str(absent)
    assert told["Spark"] == told["embedded"]
    with hops().start(tm.Spark(spark, tmp_path), why=True, keep=1) as run:
        assert run.why("out", (0, 2), at=0).rows == {"a": [(0, 1)], "b": [(1, 2)]}
