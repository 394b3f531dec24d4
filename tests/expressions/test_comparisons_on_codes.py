"""Comparisons worked out on codes mark the rows that kernels mark."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.expressions.binding import bind
from tidemill.expressions.expr import col, lit
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions.comparisons_on_codes import compile_comparisons
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.codec import Interner, encode

SCHEMA = Schema.of({"i": "int32", "n": "int64", "d": "date", "t": "timestamp", "s": "string", "f": "float64"})
DAY, MOMENT = dt.date(2020, 2, 29), dt.datetime(2020, 2, 29, 1, 2, 3, 4)
NEAR: dict[str, list[Any]] = {
    "i": [-(2**31), -1, 0, 1, 2**31 - 1],
    "n": [-(2**63) + 1, -1, 0, 1, 2**31, 2**63 - 1],
    "d": [dt.date(1, 1, 1), DAY, DAY + dt.timedelta(1)],
    "t": [dt.datetime(1, 1, 1), MOMENT, MOMENT + dt.timedelta(microseconds=1)],
}
COMPARE = [
    *[lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b],
    lambda a, b: a != b,
]


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from(list(NEAR)))
    sides = col(name), lit(draw(st.sampled_from(NEAR["n" if name == "i" and draw(st.booleans()) else name])))
    return draw(st.sampled_from(COMPARE))(*(sides if draw(st.booleans()) else sides[::-1]))


@given(
    st.lists(comparisons(), min_size=1, max_size=3),
    st.lists(st.tuples(*[st.none() | st.sampled_from(some) for some in NEAR.values()]), min_size=1, max_size=9),
)
@examples(200)
def test_they_mark_what_kernels_mark(compared, drawn):
    rows = [(*row, "a", 0.0) for row in drawn]
    predicate = compared[0]
    for more in compared[1:]:
        predicate &= more
    bound = bind(predicate, SCHEMA)
    interner = Interner()
    marks = compile_comparisons(bound, interner)
    assert marks is not None or len(compared) > 2
    if marks is not None:
        columns = [pa.array(c, f.dtype.arrow) for c, f in zip(zip(*rows, strict=True), SCHEMA.fields, strict=True)]
        kernels = compile_scalar(bound)(columns.__getitem__, len(rows)).fill_null(False)
        assert marks(encode(SCHEMA, rows, interner)).tolist() == kernels.to_pylist()


@pytest.mark.parametrize(
    "text",
    ["i < n", "f < 1", "s = 'a'", "i < 1.5", "d < t", "n < NULL", "i < 1 or n < 1", "n + 1 < 2", "i < 1 and s = 'a'"],
)
def test_other_predicates_are_for_kernels(text):
    assert compile_comparisons(bind(expr(text), SCHEMA), Interner()) is None


def test_null_passes_no_comparison():
    codes = encode(SCHEMA, [(None,) * len(SCHEMA)], Interner())
    for text in ("i < 1", "n <= -5", "d <> DATE '2020-01-01'", "t >= TIMESTAMP '2020-01-01 00:00:00'", "5 <> i"):
        passing = compile_comparisons(bind(expr(text), SCHEMA), Interner())
        assert passing is not None
        assert np.array_equal(passing(codes), [False])
