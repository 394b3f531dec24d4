"""Conditions guard what comes after them on Spark too, whatever its optimizer moves, in Catalyst and in the kernels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from support.guarded_places import OTHERS, PLACES, Rows, flow_of, has_errors, updates_of
from support.guards import ROWS, TREES, Tree
from support.running import examples, start

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.testing import all_at_once, check_equivalent
from tidemill.testing.spark_engines import SparkLive

SETTINGS: dict[str, Any] = {
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}
LIVE = SparkLive(in_driver=2)


@st.composite
def conditions(draw: st.DrawFn, rows: Rows) -> dict[str, Tree]:
    """Conditions at some places, none of which is an error by the definition."""
    places = draw(st.lists(st.sampled_from(sorted(PLACES)), min_size=4, max_size=4, unique=True))
    return {place: draw(without_errors(place, rows)) for place in places}


def without_errors(place: str, rows: Rows) -> st.SearchStrategy[Tree]:
    return TREES.filter(lambda tree: not has_errors(place, tree, rows))


def test_no_error_behind_what_decides(spark: Any) -> None:
    """Random conditions, as histories and live, with passes and without; the reference engine says what is right."""

    @settings(examples(16, least=1), **SETTINGS)
    @given(data=st.data(), rows=ROWS)
    def check(data: st.DataObject, rows: Rows) -> None:
        trees = data.draw(conditions(rows))
        note(trees)
        flow, updates = flow_of(trees), updates_of(rows, OTHERS)
        check_equivalent(flow, updates, engines=["reference", "embedded", "spark", LIVE], batchings=[all_at_once])
        check_equivalent(flow, updates, engines=["embedded", LIVE], batchings=[all_at_once], passes=True)

    check()


ROWS_GIVEN: Rows = [(1, 4, 2, False, "1"), (2, 9, 0, None, None), (2, 9, 3, True, "2"), (None, 1, 0, True, "x")]


def rendered(spark: Any, place: str, text: str) -> Counter[Any]:
    """What a flow gives for these rows, as plain batch computing."""
    frames = {
        "x": spark.createDataFrame(ROWS_GIVEN, "k bigint, a bigint, b bigint, p boolean, s string"),
        "y": spark.createDataFrame(OTHERS, "j bigint, d bigint"),
    }
    found = tm.render(flow_of({place: text}), spark, frames)[place]
    counts: Counter[Any] = Counter()
    for *row, _, diff in found.collect():
        counts[tuple(tuple(v) if isinstance(v, list) else v for v in row)] += diff
    return counts


@pytest.mark.parametrize(
    ("place", "text"),
    [
        # Catalyst takes out what both sides of an OR have, and that is then in front of what guarded it.
        ("filter", "(b <> 0 and a / b > 1) or (p is null and b <> 0 and a / b > 1)"),
        # It moves what is of one side below the join, where the guard is of the other one.
        ("filter of a join", "d > 0 and a / b > 1"),
        ("where", "d > 0 and a / b > 1"),
        ("where of an antijoin", "d > 0 and a / b > 1"),
        # The kernels compute what Spark has no exact counterpart for, and what is tried again with care.
        ("filter", "s is null or s = 'x' or cast(s as int) > 1"),
        ("FILTER", "b <> 0 and a / b > 1"),
    ],
)
def test_whatever_the_optimizer_moves(spark: Any, place: str, text: str) -> None:
    """Conditions that are no error by the definition, of parts that Spark computes where these are not guarded."""
    with start(flow_of({place: text}), "reference") as run:
        run.insert("x", ROWS_GIVEN)
        run.insert("y", OTHERS)
        run.close_inputs()
        wanted = run.snapshot(place).counts()
    assert wanted
    assert rendered(spark, place, text) == wanted


@pytest.mark.parametrize("text", ["a / b > 1 and b <> 0", "p is null and a / b > 1", "b <> 0 or a / b > 1"])
def test_what_nothing_guards_is_an_error(spark: Any, text: str) -> None:
    with pytest.raises(ExpressionError, match=r"division by zero in `a / b`"):
        rendered(spark, "filter", text)
