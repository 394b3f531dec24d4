"""Whatever is wrong with a dataflow, the error ends with the file and line where it was written."""

import pytest

import tidemill as tm
from tidemill.errors import GraphError

WRONG = {
    "unknown column": lambda flow, a: a.select("nope"),
    "type": lambda flow, a: a.filter("k"),
    "join key": lambda flow, a: a.join(a, on="z"),
    "join kind": lambda flow, a: a.join(a, on="k", how="sideways"),
    "concat": lambda flow, a: a.concat(a.select(s="cast(k as string)")),
    "aggregate": lambda flow, a: a.group_by("k").agg(n="k"),
    "limits": lambda flow, a: a.iterate(lambda c: c, error_at=2, return_at=2),
    "other dataflow": lambda flow, a: a.concat(tm.Dataflow().input("b", {"k": "int64"})),
    "schema": lambda flow, a: flow.input("c", {"k": "itn64"}),
    "top_k": lambda flow, a: a.group_by("k").top_k(0, order_by="k"),
    "changes": lambda flow, a: flow.output("o", a, changes=-1),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_line_is_named(what):
    flow = tm.Dataflow("wrong")
    a = flow.input("a", {"k": "int64"})
    with pytest.raises(GraphError, match=r"test_building_points_at_the_line\.py:\d+"):
        WRONG[what](flow, a)


@pytest.mark.parametrize("fails", ["body", "nested", "letrec"])
def test_a_failed_block_leaves_no_trace(fails):
    flow = tm.Dataflow("typo")
    a = flow.input("a", {"k": "int64"})
    before = flow.explain()
    with pytest.raises(GraphError):
        if fails == "body":
            a.iterate(lambda c: c.join(a, on="k").select("nope"))
        elif fails == "nested":
            a.iterate(lambda c: c.iterate(lambda d: d.concat(c).select("nope")))
        else:
            with flow.letrec() as rec:
                rec.define("x", rec.declare("x", {"k": "int64"}).concat(a).select("nope"))
    assert flow.explain() == before
    flow.output("o", a.iterate(lambda c: c.join(a, on="k").distinct()))
    run = flow.start()
    run.insert("a", [(1,)])
    run.advance()
    assert list(run.snapshot("o")) == [(1,)]


def test_a_run_is_not_used_from_inside_its_step():
    flow = tm.Dataflow("inside")
    a = flow.input("a", {"k": "int64"})
    tried = []

    def use(row):
        with pytest.raises(tm.errors.ReentrantUseError, match="in the middle of a step"):
            tried.append(row) or run.insert("a", [(2,)])
        return row

    flow.output("o", a.map_rows(use, {"k": "int64"}))
    run = flow.start(passes=False)
    run.insert("a", [(1,)])
    run.advance()
    assert tried
    assert list(run.snapshot("o")) == [(1,)]
