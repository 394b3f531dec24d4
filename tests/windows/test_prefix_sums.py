"""Window calls rendered as sums over an order: the same values as by recomputing, at every time, whatever the call."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_windows import SMALL, TXY, W, calls, changing_rows, schemas, several, windows
from running import examples, new_flow

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates


@examples(60)
@given(st.data())
def test_any_calls(data):
    schema = data.draw(schemas())
    window, order_type = data.draw(windows(schema))
    some = data.draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    columns = {f"c{i}": attrs.evolve(call, strategy="prefix_sum") for i, call in enumerate(some)}
    flow.output("y", flow.input("x", schema).with_columns(**columns))
    check_equivalent(flow, {"x": data.draw(changing_rows(schema))}, batchings=[all_at_once, shuffled(1)])
