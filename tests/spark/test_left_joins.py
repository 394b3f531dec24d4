"""Stacks of left joins on Spark: how many records the joins give, where unions are consolidated and where not."""

import pytest
from support.left_joins import WITHOUT, stack

import tidemill as tm
from tidemill.dataflow.nodes import Concat, Join
from tidemill.renderer.spark.frames import materialised
from tidemill.renderer.spark.step import Step

DEPTH, N = 2, 5
ROWS = [(i, i) for i in range(N)]


@pytest.fixture
def joined(monkeypatch):
    """How many records each union of pairs and padded rows gives, in their order."""
    counts = []
    shared = Step._shared

    def counting(step, node, frame, now):
        if isinstance(node, Concat) and isinstance(node.inputs[0], Join):
            frame = materialised(frame)
            counts.append(frame.rows)
        return shared(step, node, frame, now)

    monkeypatch.setattr(Step, "_shared", counting)
    return counts


@pytest.mark.parametrize(("passes", "expected"), [(True, [N, N]), (WITHOUT, [3 * N, 9 * N])])
def test_records_do_not_pile_up_in_a_stack(spark, joined, passes, expected):
    """Without the pass they are multiplied: Spark joins updates as they come."""
    flow = stack(DEPTH)
    frames = {"t": spark.createDataFrame(ROWS, "x long, y long")}
    frames |= {f"d{i}": spark.createDataFrame(ROWS, f"x long, z{i} long") for i in range(DEPTH)}
    frames = {name: data.selectExpr("*", "1L AS diff") for name, data in frames.items()}  # else these are Spark's joins
    out = tm.render(flow, spark, frames, passes=passes)["out"]
    assert joined == expected
    assert sorted(tuple(row) for row in out.collect()) == [(i, i, i, i, 0, 1) for i in range(N)]


def test_readers_beside_joins_are_served_from_an_arrangement(spark):
    """What an arrangement of a union gives, it gives consolidated."""
    flow = tm.Dataflow("antijoins")
    rows = flow.input("t", {"k": "int64"})
    for name in "ab":
        rows = rows.antijoin(flow.input(name, {"k": "int64"}), on="k")
    flow.output("out", rows)
    tables = {"t": [(1,), (2,), (3,)], "a": [(1,)], "b": [(2,)]}
    frames = {name: spark.createDataFrame(rows, "k long").selectExpr("*", "1L diff") for name, rows in tables.items()}
    found = [tm.render(flow, spark, frames, passes=p)["out"].collect() for p in (True, WITHOUT)]
    assert found[0] == found[1] == [(3, 0, 1)]
    with flow.start(tm.Spark(spark)) as run:
        for name, some in tables.items():
            run.insert(name, some)
        run.advance()
        assert run.snapshot("out").counts() == {(3,): 1}
