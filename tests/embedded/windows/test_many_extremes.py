"""Extremes of rows or of peer groups around each row, where many rows of a partition change at once."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples
from support.table_steps import check_steps, to_and_fro

import tidemill as tm

SCHEMA = {"p": "int64", "t": "int64", "x": "int64", "f": "float64"}
ORDERS = (
    tm.Window.order_by("t"),
    tm.Window.order_by(tm.desc("t"), "x"),
    tm.Window.partition_by("p").order_by(tm.asc("t", nulls="last")),
)
COLUMNS = ["p", "t", "x", "f"]
EXCLUSIONS = ("no others", "current row", "group", "ties")
ORDERED = tm.Window.order_by("t")


def rows_of(dice, count, times, values):
    """Return random rows; where times are few, there are copies of some."""
    p, t, x, f = (dice.integers(0, most, count) for most in (2, times, values, values))
    t, x = pa.array(t, mask=dice.random(count) < 0.05), pa.array(x, mask=dice.random(count) < 0.1)
    return pa.table({"p": p, "t": t, "x": x, "f": pa.array(f / 4, mask=dice.random(count) < 0.1)})


def flow_of(calls, kept=COLUMNS):
    flow = tm.Dataflow("alone")
    rows = flow.input("rows", SCHEMA).with_columns(**{f"y{i}": call for i, call in enumerate(calls)})
    flow.output("y", rows.select(*kept, *(f"y{i}" for i in range(len(calls)))))
    return flow


@pytest.mark.slow
@pytest.mark.usefixtures("few_are_many")
@examples(100)
@given(
    st.tuples(st.sampled_from(ORDERS), st.integers(0, 4), st.integers(0, 4)),
    st.lists(st.tuples(st.sampled_from([tm.min, tm.max]), st.sampled_from("xf")), min_size=1, max_size=2),
    st.sampled_from([COLUMNS, ["t", "x"], ["f"]]),
    st.tuples(st.integers(10, 120), st.integers(2, 9), st.sampled_from([3, 40, 10**6]), st.integers(1, 9)),
    st.integers(0, 2**32),
)
def test_extremes_of_rows_are_those_of_the_reference_engine(over, some, kept, sizes, seed):
    order, before, after = over
    rows, edits, times, values = sizes
    flow = flow_of([extreme(column).over(order.rows_between(-before, after)) for extreme, column in some], kept)
    dice = np.random.default_rng(seed)
    loaded, more = rows_of(dice, rows, times, values), rows_of(dice, edits, times, values)
    check_steps(flow, to_and_fro(dice, loaded, more, edits))


@pytest.mark.slow
@pytest.mark.usefixtures("few_are_many")
@examples(20)
@given(
    st.lists(
        st.tuples(st.sampled_from([tm.min, tm.max]), st.sampled_from("xf"), st.integers(1, 9), st.integers(1, 9),
                  st.sampled_from(EXCLUSIONS)),
        min_size=1, max_size=2,
    ),
    st.integers(8, 30), st.integers(1, 6), st.integers(2, 9), st.integers(0, 2**32),
)  # fmt: skip
def test_extremes_of_groups_are_those_of_the_reference_engine(some, groups, values, edits, seed):
    flow = tm.Dataflow("groups")
    calls = {
        f"y{i}": extreme(column).over(ORDERED.groups_between(-before, after).exclude(left_out))
        for i, (extreme, column, before, after, left_out) in enumerate(some)
    }
    flow.output("y", flow.input("rows", SCHEMA).with_columns(**calls))
    dice = np.random.default_rng(seed)
    loaded, more = rows_of(dice, 4 * groups, groups, values), rows_of(dice, edits, groups + 2, values)
    check_steps(flow, to_and_fro(dice, loaded, more, edits))


@pytest.mark.slow
@pytest.mark.parametrize("left_out", EXCLUSIONS)
def test_rows_that_are_noticed_and_others(left_out, few_are_many):
    """And those among the rows of runs that are computed anyway; also where all are noticed, or none is."""
    flow = tm.Dataflow("groups")
    call = tm.min("x").over(ORDERED.groups_between(-8, 9).exclude(left_out))
    flow.output("y", flow.input("rows", SCHEMA).with_columns(y=call))
    dice = np.random.default_rng(5)
    loaded, more = rows_of(dice, 240, 80, 5), rows_of(dice, 12, 80, 5)
    lower = more.take(pa.array([3])).set_column(2, "x", pa.array([-1]))
    steps = to_and_fro(dice, loaded, more, 12)
    check_steps(flow, [*steps, [("insert", lower), ("insert", more)], [("delete", lower), ("delete", more)]])
