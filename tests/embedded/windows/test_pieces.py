"""Rows in pieces are those of the pieces put together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemill.renderer.embedded.windows.changes import Concatenated


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any), st.data())
def test_rows_in_pieces_are_those_put_together(lengths, data):
    whole = np.arange(3 * sum(lengths)).reshape(3, -1)
    parts = np.split(whole, np.cumsum(lengths)[:-1], axis=1)
    places = data.draw(st.lists(st.integers(0, sum(lengths) - 1), max_size=6))
    rows = Concatenated(parts)
    assert len(rows) == whole.shape[1]
    assert rows.take(np.array(places, np.int64)).tolist() == whole[:, places].tolist()
    assert [rows[column].tolist() for column in range(3)] == whole.tolist()
