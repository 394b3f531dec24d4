"""Passes over windows, where what users write comes close to what the passes add."""

import pytest
from running import new_flow

import tidemill as tm
from tidemill.testing import check_equivalent

ROWS = [(1, 1, 5), (1, 1, 6), (1, 2, 7), (1, 3, 9), (None, 1, 2), (None, None, 3), (2, None, None)]
PEOPLE = {"k": "int64", "t": "int64", "x": "int64"}
W = tm.Window.partition_by("k").order_by("t")


def agree(build, schema):
    """Both engines give the same, with the passes and without."""
    flow = new_flow()
    flow.output("y", build(flow.input("x", schema)))
    for passes in (True, False):
        check_equivalent(flow, {"x": [(row, i % 3, 1) for i, row in enumerate(ROWS)]}, passes=passes)
    return flow


@pytest.mark.parametrize("ranking", [tm.rank(), tm.dense_rank()])
def test_ranks_are_limited_beside_columns_called_as_those_of_the_pass(ranking):
    schema = {"k": "int64", "place 0#": "int64", "place 1#": "int64"}
    window = tm.Window.partition_by("k").order_by(tm.col("place 0#"))
    flow = agree(lambda x: x.with_columns(n=ranking.over(window)).filter("n <= 2"), schema)
    assert "first 2 by" in flow.explain(passes=["limit_ranks"])


def test_partitions_are_grouped_for_calls_called_as_the_keys_of_the_pass():
    total = {"key 0#": tm.sum("x").over(tm.Window.partition_by("k"))}
    flow = agree(lambda x: x.with_columns(**total), PEOPLE)
    assert "Join" in flow.explain(passes=["group_whole_partitions"])


@pytest.mark.parametrize("ranking", [tm.row_number(), tm.rank(), tm.dense_rank()])
def test_a_limit_that_no_rank_can_reach_is_none(ranking):
    flow = agree(lambda x: x.with_columns(n=ranking.over(W)).filter("n - 1 <= 9223372036854775807"), PEOPLE)
    assert "first 9223372036854775808 by" not in flow.explain(passes=["limit_ranks"])
