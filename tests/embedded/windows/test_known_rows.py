"""Rows with a value counted from a place on, over chunks: the last of so many is found, and no row beyond it."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from support.running import examples

from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows.early_stop import non_null_position
from tidemill.renderer.embedded.windows.order_index import OrderIndex

CHUNKS = st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=5)


@example([[True, True], [False, True]], 0, 2)
@example([[True, False], [True, True]], 4, 2)
@examples(100)
@given(CHUNKS, st.integers(0, 20), st.integers(0, 8))
def test_the_last_of_so_many_rows_that_have_a_value(chunks: list[list[bool]], place: int, count: int) -> None:
    known = [has for chunk in chunks for has in chunk]
    place = min(place, len(known))
    values = np.where(known, 5, NULL)
    ends = np.cumsum([len(chunk) for chunk in chunks])[:-1]
    rows = OrderIndex(
        np.split(np.stack((np.arange(len(known)), values)), ends, axis=1),
        RowOrder([SortColumn(0, INT64)], Interner()),
        1,
    )
    before = [at for at in range(place) if known[at]]
    later = [at for at in range(place, len(known)) if known[at]]
    first, end = (0, len(known)) if count else (place, place)
    assert non_null_position(rows, 1, place, count, back=True) == (
        before[-count] if 0 < count <= len(before) else first
    )
    assert non_null_position(rows, 1, place, count) == (later[count - 1] + 1 if 0 < count <= len(later) else end)
