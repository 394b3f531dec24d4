"""Columns and calls that nobody reads: without them the same comes out, also where ties decide, and they cost nothing."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.nodes import Reduce
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

COLUMNS = "abcde"
WIDE = dict.fromkeys(COLUMNS, "int64")
FEW = dict.fromkeys(COLUMNS, [None, 1, 1, 2])
"""So that many rows are alike in some columns, and have the same hash: it passes over NULL wherever it is."""
FRAME = (tm.UNBOUNDED, 0)
CALLS = {
    "n": lambda w: tm.row_number().over(w),
    "r": lambda w: tm.rank().over(w),
    "t": lambda w: tm.ntile(2).over(w),
    "p": lambda w: tm.lag("c", 1, 7).over(w),
    "f": lambda w: tm.first_value("e", ignore_nulls=True).over(w.rows_between(-1, 1)),
    "s": lambda w: tm.sum("d").over(w.rows_between(*FRAME)),
    "m": lambda w: tm.max("c").over(w),
    "l": lambda w: tm.list("b").over(w.rows_between(-1, 0)),
}
NAMES = st.lists(st.sampled_from(COLUMNS), unique=True, max_size=2)


def checked(flow, found):
    note(flow.explain(passes=["prune_columns"]))
    for passes in (["prune_columns"], True):
        check_equivalent(flow, found, batchings=[all_at_once, time_by_time, shuffled(1)], passes=passes)


@pytest.mark.slow
@examples(60)
@given(data=st.data())
def test_windows(data):
    coordinates = data.draw(st.sampled_from([1, 1, 2]))
    flow = new_flow(coordinates)
    rows = flow.input("x", WIDE)
    rows = rows.distinct() if data.draw(st.booleans(), label="distinct") else rows
    partition, order = data.draw(NAMES, label="partition"), data.draw(NAMES, label="order") or ["a"]
    window = (tm.Window.partition_by(*partition) if partition else tm.Window()).order_by(*order)
    calls = data.draw(st.lists(st.sampled_from([*CALLS]), min_size=1, max_size=4, unique=True), label="calls")
    more = data.draw(st.lists(st.sampled_from([*CALLS]), max_size=2, unique=True), label="of another window")
    made = rows.with_columns(**{name: CALLS[name](window) for name in calls})
    made = made.with_columns(**{f"{name}2": CALLS[name](tm.Window.partition_by("b").order_by("d")) for name in more})
    read = data.draw(st.lists(st.sampled_from([*made.schema.names]), min_size=1, max_size=3, unique=True), label="read")
    flow.output("out", made.select(*read))
    checked(flow, {"x": data.draw(updates(WIDE, coordinates, non_negative=True, values=FEW, max_size=14))})


ROWS = [((i % 2, i * 7 % 3, (i * i) % 5 or None, i % 4 or None, (3 * i) % 7), 0, 1 + i % 2) for i in range(24)]


def test_columns_that_break_ties_stay():
    """Each call, and first rows, by orders that leave ties, with each column read."""
    flow = new_flow()
    rows = flow.input("x", WIDE)
    for order in ("a", "b"):
        made = rows.with_columns(**{f"{name}_": call(tm.Window.order_by(order)) for name, call in CALLS.items()})
        for name in CALLS:
            flow.output(f"{name} by {order}", made.select(f"{name}_", "c"))
        for column in "cde":
            flow.output(f"first {column} by {order}", rows.group_by("b").top_k(3, order_by=order).select(column))
    check_equivalent(flow, {"x": ROWS}, batchings=[all_at_once], passes=True)


@pytest.mark.slow
@examples(40)
@given(data=st.data())
def test_first_rows_and_groups(data):
    coordinates = data.draw(st.sampled_from([1, 2]))
    flow = new_flow(coordinates)
    rows = flow.input("x", WIDE)
    keys, order = data.draw(NAMES, label="keys") or ["b"], data.draw(NAMES, label="order") or ["a"]
    first = rows.group_by(*keys).top_k(data.draw(st.integers(1, 3)), order_by=order)
    group = rows.group_by(*keys).agg(x=tm.sum("d"), y=tm.max("c"), z=tm.first("e", order_by="d"), n=tm.count())
    flow.output("first", first.select(*data.draw(NAMES, label="first") or ["d"]))
    read = data.draw(st.lists(st.sampled_from([*keys, *"xyzn"]), min_size=1, max_size=2, unique=True), label="group")
    flow.output("group", group.select(*read))
    checked(flow, {"x": data.draw(updates(WIDE, coordinates, non_negative=True, values=FEW))})


@pytest.mark.slow
@examples(40)
@given(data=st.data())
def test_joins_with_partners(data):
    flow = new_flow()
    sides = [flow.input(n, WIDE).group_by("a", "b").agg(c=tm.sum("c"), d=tm.max("d"), e=tm.count()) for n in "xy"]
    on = data.draw(st.sampled_from(["a", ["a", "b"], {"c": "b"}]), label="on")
    made = sides[0].join(sides[1], on=on, how=data.draw(st.sampled_from(["left", "right", "full", "semi", "anti"])))
    read = data.draw(st.lists(st.sampled_from([*made.schema.names]), min_size=1, max_size=3, unique=True), label="read")
    flow.output("out", made.select(*read))
    checked(flow, {n: data.draw(updates(WIDE, non_negative=True, values=FEW)) for n in "xy"})


def test_the_last_columns_go_and_those_before_them_tell_rows_apart():
    """Rows with one hash: NULL and 5, 5 and NULL. Which is first the columns say, from the first on."""
    flow = new_flow()
    rows = flow.input("x", WIDE)
    flow.output("last", rows.with_columns(p=tm.lag("a").over(tm.Window.order_by("b"))).select("p"))
    flow.output("first", rows.with_columns(p=tm.lag("e").over(tm.Window.order_by("b"))).select("p"))
    kept = [n.inputs[0].schema.names for n in _after(flow).nodes if isinstance(n, Reduce)]
    assert kept == [("row a", "row b", "hash"), ("row a", "row b", "row c", "row d", "row e")]


def _after(flow):
    with flow.start() as run:
        return run.graph


def test_a_call_that_nobody_reads_costs_nothing():
    """No window is left, nor the error of rows with a negative count in it."""
    flow = new_flow()
    flow.output("out", flow.input("x", KV).with_columns(n=tm.row_number().over(tm.Window.order_by("v"))).select("k"))
    with flow.start() as run:
        assert not any(isinstance(n, Reduce) for n in run.graph.nodes)
        run.update("x", [((1, 1), 0, -1)])
        run.advance()
        assert run.snapshot("out").counts() == {(1,): -1}
    assert "prune_columns" in flow.explain(passes=["prune_columns"])


@pytest.mark.slow
@examples(30)
@given(data=st.data())
def test_loops_that_work_something_out_for_themselves(data):
    """Each column of a binding is of any of them, or of none, so that some are read by themselves alone."""
    flow = new_flow()
    x, y = flow.input("x", WIDE), flow.input("y", KV)
    column = st.sampled_from([*COLUMNS, "v", "1"])
    of = {c: data.draw(column, label=c) for c in COLUMNS[1:]}

    def body(here):
        hop = here.join(y, on={"a": "k"}).select("a", **{c: f"({e} + 1) % 4" for c, e in of.items()})
        group = data.draw(st.booleans(), label="grouped")
        return hop.group_by("a").agg(**{c: tm.max(c) for c in of}).concat(x) if group else hop.concat(x)

    made = x.iterate(body, return_at=3)
    read = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=2, unique=True), label="read")
    flow.output("out", made.select(*read))
    found = {n: data.draw(updates(s, non_negative=True, max_size=6)) for n, s in (("x", WIDE), ("y", KV))}
    checked(flow, found)


def test_what_only_feeds_itself_goes():
    flow = new_flow()
    x, y = flow.input("x", {"k": "int64", "v": "int64", "hops": "int64", "far": "int64"}), flow.input("y", KV)

    def body(here):
        hop = here.join(y, on="k").select("k", v="v_right", hops="hops + 1", far="far + hops")
        return hop.group_by("k").agg(v=tm.min("v"), hops=tm.max("hops"), far=tm.sum("far")).concat(x)

    flow.output("out", x.iterate(body, return_at=5).select("k", "v"))
    shown = flow.explain(passes=["prune_columns"]).partition("after ")[2]
    made = [line for line in shown.splitlines() if any(f" {kind} " in line for kind in ("Variable", "Join", "Reduce"))]
    assert len(made) == 3
    assert not any("far" in line or "hops" in line for line in made)
