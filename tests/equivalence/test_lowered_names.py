"""Names of columns that lowering makes: users may call theirs the same."""

import pytest
from support.running import new_flow, start

import tidemill as tm


@pytest.mark.parametrize("how", ["right", "full"])
def test_right_columns_called_like_copies_of_them(engine, how):
    flow = new_flow()
    left = flow.constant({"k": "int64", "b": "int64"}, [(1, 1), (2, 5)])
    columns = {"k": "int64", "a": "int64", "a of the row": "int64", "k of the row": "int64", "k of the row#": "int64"}
    right = flow.constant(columns, [(1, 9, 3, 4, 5), (1, 2, 3, 4, 5), (None, 2, 3, 4, 5)])
    flow.output("out", left.join(right, on="k", how=how, where="b < a"))
    with start(flow, engine) as run:
        found = run.snapshot("out").counts()
    pairs: dict[tuple[int | None, ...], int] = {
        (1, 1, 9, 3, 4, 5): 1,
        (1, 1, 2, 3, 4, 5): 1,
        (None, None, 2, 3, 4, 5): 1,
    }
    assert found == (pairs if how == "right" else {**pairs, (2, 5, None, None, None, None): 1})


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_a_left_column_called_as_a_mark(engine, how):
    flow = new_flow()
    left = flow.constant({"present": "int64", "present_right": "int64"}, [(1, 2)])
    flow.output("out", left.join(flow.constant({"x": "int64"}, [(1,)]), on=[], how=how))
    with start(flow, engine) as run:
        assert list(run.snapshot("out")) == ([(1, 2)] if how == "semi" else [])


NAMES = {
    "the hash of ties": ({"hash": tm.sum("v"), "f": tm.first("v", order_by="y")}, (3, 1)),
    "the mark of presence": ({"present": tm.sum("v"), "d": tm.count_distinct("y")}, (3, 2)),
    "a row's column": ({"row": tm.sum("v"), "row#v": tm.max("y"), "l": tm.last("v", order_by="y")}, (3, 6, 2)),
    "both": ({"d": tm.count_distinct("v"), "d#": tm.count_distinct("y"), "present#": tm.count()}, (2, 2, 2)),
}


@pytest.mark.parametrize("case", NAMES)
def test_aggregates_called_like_columns_of_the_lowering(engine, case):
    aggregates, values = NAMES[case]
    flow = new_flow()
    rows = flow.constant({"v": "int64", "y": "int64"}, [(1, 5), (2, 6)])
    flow.output("out", rows.group_by(**{"v#": "v > 0"}).agg(**aggregates))
    with start(flow, engine) as run:
        assert list(run.snapshot("out")) == [(True, *values)]
