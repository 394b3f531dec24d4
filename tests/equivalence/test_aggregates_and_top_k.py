"""Every aggregate and top_k, in both engines: small groups and, with a low threshold, groups held in order."""

import pytest
from hypothesis import given
from support.running import examples, new_flow, start

import tidemill as tm
from tidemill.renderer.embedded.reduce import group_rows
from tidemill.renderer.embedded.trace import ordered_groups, spine

SCHEMA = {
    "k": "int64", "f": "float64", "i": "int64", "d": "decimal(6,2)", "D": "decimal(30,2)", "b": "bool",
    "s": "string",
}  # fmt: skip
TIMES = {1: "epoch", 2: ("event", "correction")}


@pytest.fixture(params=[-1, 3, 2048])
def large(request, monkeypatch):
    """Groups of a few rows count as large, and go through all that large ones would."""
    monkeypatch.setattr(group_rows, "LARGE_FROM", request.param)
    for limit in ("SLACK", "SKIP_FROM", "SCAN"):
        monkeypatch.setattr(ordered_groups, limit, 0)
    monkeypatch.setattr(spine, "TAIL", 2)


def aggregates():
    return {
        "n": tm.count(), "cd": tm.count_distinct("s"), "cf": tm.count_distinct("f").filter("b"), "vf": tm.variance("f"),
        "sf": tm.stddev("f"), "vi": tm.variance("i"), "vd": tm.variance("d"), "vD": tm.stddev("D"),
        "bo": tm.bool_or("b"),
        "ba": tm.bool_and("b").filter("i > 0"), "sD": tm.sum("D"), "aD": tm.avg("D"), "sf2": tm.sum("f").filter("b"),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
def test_aggregates(large, coordinates):
    flow = tm.Dataflow("aggregates", time=TIMES[coordinates])
    x = flow.input("x", SCHEMA)
    flow.output("grouped", x.group_by("k").agg(**aggregates()))
    flow.output("whole", x.agg(**aggregates()))
    once = x.distinct()
    flow.output("ends", once.group_by("k").agg(a=tm.min("s"), b=tm.max("f"), c=tm.min("i"), d=tm.max("D")))
    flow.output("ends_of_all", once.agg(a=tm.min("s"), b=tm.max("f"), c=tm.min("d"), d=tm.max("b")))

    @examples(20)
    @given(tm.testing.updates(SCHEMA, coordinates=coordinates))
    def check(updates):
        tm.testing.check_equivalent(flow, {"x": updates})

    check()


@pytest.mark.slow
@pytest.mark.parametrize("non_negative", [True, False])
@pytest.mark.parametrize("coordinates", [1, 2])
def test_top_k(large, coordinates, non_negative):
    flow = tm.Dataflow("top", time=TIMES[coordinates])
    x = flow.input("x", {"k": "int64", "f": "float64", "s": "string"})
    flow.output("two", x.group_by("k").top_k(2, order_by=[tm.desc("f"), "s"]))
    flow.output("one", x.group_by("k").top_k(1, order_by=tm.asc("f", nulls="last")))
    flow.output("three", x.group_by("s", "k").top_k(3, order_by="k % 2"))
    flow.output("whole", x.group_by().top_k(3, order_by=tm.desc("s", nulls="first")))
    flow.output("loop", x.iterate(lambda c: c.concat(x).group_by("k").top_k(2, order_by="s").distinct(), return_at=3))

    @examples(20)
    @given(tm.testing.updates(x.schema, coordinates=coordinates, non_negative=non_negative))
    def check(updates):
        tm.testing.check_equivalent(flow, {"x": updates})

    check()


def test_the_least_of_a_large_group_is_deleted_again_and_again():
    flow = tm.Dataflow("least")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("least", x.group_by("k").agg(v=tm.min("v")))
    flow.output("first", x.group_by("k").top_k(2, order_by="v"))
    run = flow.start()
    run.insert("x", [(k, v) for k in (1, 2) for v in range(3000)])
    run.advance()
    for v in range(50):
        run.delete("x", [(1, v)])
        run.advance()
        assert sorted(run.snapshot("least")) == [(1, v + 1), (2, 0)]
        assert sorted(run.snapshot("first")) == [(1, v + 1), (1, v + 2), (2, 0), (2, 1)]
    run.delete("x", [(1, 2999), (1, 2999)])
    with pytest.raises(tm.errors.NegativeCountError, match=r"key \(1,\): row .*2999.* has the count -1"):
        run.advance()
    run.discard()
    run.insert("x", [(1, 7)])
    run.advance()
    assert sorted(run.snapshot("least")) == [(1, 7), (2, 0)]


def test_aggregates_of_keys_beside_distinct_ones(engine):
    """The rows that distinct values are counted by have the keys, too, but are no rows of the group."""
    flow = new_flow()
    groups = flow.input("x", {"b": "bool", "k": "int64", "x": "int64"}).group_by("b", "k")
    flow.output(
        "y",
        groups.agg(
            kinds=tm.count_distinct("x"),
            keys=tm.count("k"),
            total=tm.sum("k"),
            spread=tm.variance("k"),
            of_key=tm.list("k"),
            some=tm.list("x").filter("b"),
        ),
    )
    with start(flow, engine) as run:
        run.insert("x", [(True, 3, 1), (True, 3, 2), (True, 3, 2)])
        run.advance()
        assert run.snapshot("y").counts() == {(True, 3, 2, 3, 9, 0.0, (3, 3, 3), (1, 2, 2)): 1}


def test_top_k_of_more_rows_than_can_be_counted_is_all_rows(engine):
    flow = new_flow()
    flow.output("y", flow.input("x", {"k": "int64", "x": "int64"}).group_by("k").top_k(2**63, order_by="x"))
    with start(flow, engine) as run:
        run.insert("x", [(1, 2), (1, 3)])
        run.advance()
        assert run.snapshot("y").counts() == {(1, 2): 1, (1, 3): 1}
