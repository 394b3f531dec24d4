"""min_by and max_by over windows: in every frame and by every strategy, with ties as groups have them."""

import math
import random

import pytest

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent

BY_O = tm.Window.partition_by("k").order_by("o")
FRAMES = {
    "near": BY_O.rows_between(-2, 1),
    "so far": BY_O.rows_between(tm.UNBOUNDED, 0),
    "range": BY_O.range_between(-2, 2),
    "all but peers": BY_O.rows_between(-3, 3).exclude("group"),
    "whole": BY_O.rows_between(tm.UNBOUNDED, tm.UNBOUNDED),
}
CALLS = {
    "x": tm.max_by("a", "b"),
    "n": tm.min_by("a", tm.col("b") * -1).filter("o > 3"),
    "f": tm.first("a", order_by=tm.desc("b")),
    "l": tm.last("a", order_by=tm.asc("b")),
}


def updates():
    dice = random.Random(1)
    values = [None, 1.0, 2.0, 0.0, -0.0, math.nan]
    found = []
    for time in range(2):
        rows = [
            (dice.choice("xyz"), dice.randint(0, 9), dice.choice([None, "p", "q", "r"]), dice.choice(values))
            for _ in range(14)
        ]
        found += [(row, time, 1) for row in rows]
        found += [(row, time, -1) for row, before, _ in found[:4] if before == time - 1]
    return found


def test_engines_and_strategies_agree_and_ties_are_those_of_groups():
    flow = tm.Dataflow()
    t = flow.input("t", {"k": "string", "o": "int64", "a": "string", "b": "float64"})
    for name, window in FRAMES.items():
        first = t.with_columns(**{n: c.over(window) for n, c in CALLS.items()})
        for strategy in ("recompute", "prefix_sum"):
            other = t.with_columns(**{n: c.over(window, strategy=strategy) for n, c in CALLS.items()})
            flow.output(f"{name}: {strategy} differs", first.concat(other.negate()))
        flow.output(name, first)
    groups = t.group_by("k").agg(**CALLS)
    flow.output("groups differ", first.concat(t.join(groups, on="k").negate()))
    check_equivalent(flow, {"t": updates()}, engines=["reference", "embedded"], batchings=[all_at_once])
    run = flow.start()
    run.update("t", updates())
    run.advance()
    run.advance()
    assert len(run.snapshot("whole")) > 20
    assert not any(len(run.snapshot(name)) for name in flow.graph.outputs if name.endswith("differ"))


def test_ties_in_running_frames_are_those_of_groups():
    """Whole partitions become groups, so that they say nothing of how frames in order break ties."""
    flow = tm.Dataflow()
    t = flow.input("t", {"k": "string", "o": "int64", "a": "string", "b": "float64"})
    last = t.with_columns(**{n: c.over(FRAMES["so far"]) for n, c in CALLS.items()}).filter("o = 19")
    flow.output("windows", last.select("k", *CALLS))
    flow.output("groups", t.group_by("k").agg(**CALLS))
    for engine in (tm.Embedded(), tm.Reference()):
        with flow.start(engine) as run:
            run.insert("t", [(k, o, f"{k} {o}", 1.0) for k in "vwxyz" for o in range(20)])
            run.advance()
            assert list(run.snapshot("windows")) == list(run.snapshot("groups"))


def test_what_a_change_costs_is_said():
    flow = tm.Dataflow()
    t = flow.input("t", {"k": "string", "o": "int64", "a": "string", "b": "float64"})
    flow.output("near", t.with_columns(m=tm.max_by("a", "b").over(FRAMES["near"])))
    flow.output("whole", t.with_columns(m=tm.max_by("a", "b").over(FRAMES["whole"])))
    text = flow.explain()
    assert "in order, a change costs the frames around it" in text
    assert "by a group joined to the rows, a change costs its value" in text


def test_errors_name_what_the_user_called():
    """They named the struct and the hash that it is kept up to date by."""
    t = tm.Dataflow().input("t", {"k": "string", "o": "int64", "a": "string", "b": "float64"})
    with pytest.raises(tm.errors.SchemaError) as caught:
        t.filter(tm.first("a", order_by="b").over(FRAMES["near"]) == "p")
    assert str(caught.value).startswith("`FIRST(a ORDER BY b) OVER (PARTITION BY k ORDER BY o ROWS")
