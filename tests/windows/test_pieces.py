"""Rows in pieces are those of the pieces put together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.renderer.embedded.windows import pieces
from tidemill.renderer.embedded.windows.pieces import Pieces


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any), st.data())
def test_rows_in_pieces_are_those_put_together(lengths, data):
    whole = np.arange(3 * sum(lengths)).reshape(3, -1)
    parts = np.split(whole, np.cumsum(lengths)[:-1], axis=1)
    places = data.draw(st.lists(st.integers(0, sum(lengths) - 1), max_size=6))
    for short, many, few in ((0, 64, 16), (0, 64, 0), (0, 2, 16), (512, 64, 16)):
        with pytest.MonkeyPatch.context() as patch:
            for name, limit in (("_SHORT", short), ("_MANY", many), ("_FEW", few)):
                patch.setattr(pieces, name, limit)
            rows = Pieces(parts)
            assert len(rows) == whole.shape[1]
            assert [rows[column].tolist() for column in range(3)] == whole.tolist()
            assert rows.take(np.array(places, np.int64)).tolist() == whole[:, places].tolist()
