"""Window calls over large partitions that are kept in their order: the reference engine's values, whatever changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from random_windows import SMALL, TXY, W, calls, changing_rows, schemas, several, windows
from running import embedded, examples

import tidemill as tm
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.reduce.ordered_windows import OrderedWindowsOperator
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows import ordered_partition
from tidemill.renderer.embedded.windows.ordered_partition import Edit, OrderedPartition
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch):
    """Partitions of three rows are kept in order, two rows a chunk, and half of them may change at once."""
    monkeypatch.setattr(ordered_windows, "LARGE", 3)
    monkeypatch.setattr(ordered_windows, "SMALL", 2)
    monkeypatch.setattr(ordered_windows, "MANY", 1)
    monkeypatch.setattr(ordered_partition, "CHUNK", 2)


@examples(100)
@given(st.data())
def test_any_calls(data):
    schema = data.draw(schemas())
    window, order_type = data.draw(windows(schema))
    some = data.draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    flow.output("y", flow.input("x", schema).with_columns(**{f"c{i}": call for i, call in enumerate(some)}))
    found = data.draw(changing_rows(schema, most=12, latest=4))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


@examples(60)
@given(st.data())
def test_frames_with_bounds(data):
    """Integers only, so that most calls are bounded, and partitions are of some size."""
    some = data.draw(st.lists(calls(TXY | {"n": "int32"}, W, "int64"), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    rows = flow.input("x", TXY | {"n": "int32"})
    flow.output("y", rows.with_columns(**{f"c{i}": call for i, call in enumerate(some)}))
    values = {"k": [1, 1, 2], "t": [None, *range(8)], "x": [None, 1, 2, 5], "n": [1, 2]}
    found = data.draw(updates(TXY | {"n": "int32"}, 1, max_size=24, latest=5, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


@examples(10)
@given(updates(TXY, 1, max_size=16, non_negative=False, values=SMALL))
def test_several_windows_and_negative_counts(found):
    flow = tm.Dataflow()
    flow.output("y", several(flow.input("x", TXY)))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])
