"""What `explain` says of each window call, and that a change costs what it says: rows counted in partitions of two sizes."""

import re
from typing import Any

import pytest
from support.random_windows import TXY, W
from support.row_work import RowWork

import tidemill as tm
from tidemill.renderer.embedded.windows import order_index

SO_FAR, FROM_HERE = W.rows_between(tm.UNBOUNDED, 0), W.rows_between(0, tm.UNBOUNDED)
WHOLE = W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)
NEAR = W.rows_between(-3, 3)
ALL = tm.Window.partition_by("k")

NUMBERS = "in order, a change costs the rows whose number changes"
OFFSETS = "in order, a change costs the rows up to those that look at it"
FRAMES = "in order, a change costs the frames around it"
SAME_AGAIN = "in order, a change costs the rows up to where the value is the same again"
SHARES = "in order, a change costs its partition, since a value depends on how many rows there are"
OTHER_END = "in order, a change costs its partition, since other frames of the window go on to its other end"
LISTS = "in order, a change costs the rows that have it in their frames, each with its list"
GROUP = "by a group joined to the rows, a change costs its value, and its partition where that changes"
OF_ALL = "by a group joined to the rows, a change costs its partition, since the list is of all of it"
SUMS = "by sums over the order (as asked), a change costs the logarithm of its partition for each value it changes"


def recomputed(reason):
    return f"recomputed, a change costs its partition, since {reason}"


FLAT: list[tuple[Any, str]] = [
    (tm.row_number().over(W), NUMBERS),
    (tm.rank().over(W), NUMBERS),
    (tm.dense_rank().over(W), NUMBERS),
    (tm.lag("x").over(W), OFFSETS),
    (tm.lead("x", 3, ignore_nulls=True).over(W), OFFSETS),
    (tm.sum("x").over(NEAR), FRAMES),
    (tm.max("x").over(W.range_between(-5, 5)), FRAMES),
    (tm.nth_value("x", 2).over(W.groups_between(-2, 2)), FRAMES),
    (tm.count("x").over(NEAR.exclude("ties"), distinct=True), FRAMES),
    (tm.list("x").over(NEAR), FRAMES + ", each with its list"),
    (tm.sum("x").over(SO_FAR), SAME_AGAIN),
    (tm.max("x").over(SO_FAR), SAME_AGAIN),
    (tm.sum("x").over(SO_FAR, distinct=True), SAME_AGAIN),
    (tm.nth_value("x", 100).over(SO_FAR), SAME_AGAIN),
    (tm.max("x").over(ALL), GROUP),
    (tm.max("x").over(tm.Window.partition_by()), GROUP),
    (tm.first_value("x", ignore_nulls=True).over(WHOLE), GROUP),
    (tm.max("x").filter("x > 1").over(WHOLE), GROUP),
    (tm.sum("x").over(W, strategy="ordered"), SAME_AGAIN.replace("in order", "in order (as asked)")),
    (tm.lag("x").over(W, strategy="prefix_sum"), SUMS),
]
"""Near the last row of a partition, a change of each costs the same however large that is."""

GROWS: list[tuple[Any, str]] = [
    (tm.percent_rank().over(W), SHARES),
    (tm.ntile(3).over(W), SHARES),
    (tm.list("x").over(ALL), OF_ALL),
    (tm.lag("x", "t", ignore_nulls=True).over(W), recomputed("IGNORE NULLS by an offset that is another for each row")),
    (tm.nth_value("x", 2).over(WHOLE), recomputed("its frame is the whole partition")),
    (tm.max("x").over(WHOLE.exclude("current row")), recomputed("its frame is the whole partition")),
    (
        tm.nth_value("x", 101).over(SO_FAR),
        recomputed("nth_value, but of at most 100 rows, over a frame unbounded on one side"),
    ),
    (
        tm.count("x").over(SO_FAR.exclude("ties"), distinct=True),
        recomputed("count(DISTINCT ...) with EXCLUDE over a frame unbounded on one side"),
    ),
    (tm.max("x").over(W, strategy="recompute"), "recomputed (as asked), a change costs its partition"),
    (tm.list("x").over(NEAR, strategy="prefix_sum"), recomputed("sums would hold all that frames do of c")),
]


def explained(**calls):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(**calls))
    return flow, dict(re.findall(r"^ {6}(\w+): (.*)$", flow.explain(), re.MULTILINE))


def counted(flow, size):
    """Return how many rows a change near the end of a partition goes through: the second, as the first may make state."""
    with flow.start() as run:
        run.insert("x", [(0, t, 7 + t % 50) for t in range(size)])
        run.advance()
        for number in range(2):
            run.insert("x", [(0, size - 10 + number, 5)])
            with RowWork() as work:
                run.advance()
    return sum(work.rows)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(order_index, "CHUNK", 64)


@pytest.mark.parametrize(("call", "said"), FLAT)
def test_what_is_said_to_cost_what_is_near_does(call, said):
    flow, lines = explained(c=call)
    assert lines == {"c": said}
    assert counted(flow, 4_096) < 1.5 * counted(flow, 1_024)


@pytest.mark.parametrize(("call", "said"), GROWS)
def test_what_is_said_to_cost_its_partition_does(call, said):
    flow, lines = explained(c=call)
    assert lines == {"c": said}
    assert counted(flow, 4_096) > 2.5 * counted(flow, 1_024)


def test_calls_of_a_window_are_computed_together():
    """What one of them looks at all of a partition for, none is kept in order for; a group has nothing to do with that."""
    flow, lines = explained(a=tm.lag("x").over(W), b=tm.nth_value("x", 2).over(WHOLE), c=tm.max("x").over(WHOLE))
    assert lines == {
        "a": recomputed("it is computed with b"),
        "b": recomputed("its frame is the whole partition"),
        "c": GROUP,
    }
    assert counted(flow, 4_096) > 2.5 * counted(flow, 1_024)


def test_frames_to_both_ends_of_one_window_reach_all_of_it():
    flow, lines = explained(a=tm.max("x").over(SO_FAR), b=tm.min("x").over(FROM_HERE), c=tm.lag("x").over(W))
    assert lines == {"a": OTHER_END, "b": OTHER_END, "c": OFFSETS}
    assert counted(flow, 4_096) > 2.5 * counted(flow, 1_024)


def test_a_list_so_far_costs_the_lists_that_have_the_change():
    flow, lines = explained(c=tm.list("x").over(SO_FAR))
    assert lines == {"c": LISTS}
    # Ten lists of each row before, of which there are four times as many; all lists would be sixteen times as much.
    assert counted(flow, 4_096) < 5 * counted(flow, 1_024)


def test_ranks_that_a_filter_bounds_cost_what_is_near_too():
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(n=tm.row_number().over(W)).filter("n <= 2"))
    assert "\n      n: in order, a change costs the rows whose number changes\n" in flow.explain()
    assert counted(flow, 4_096) < 1.5 * counted(flow, 1_024)
