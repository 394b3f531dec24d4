"""Decimals of many digits: worked out in as few as the values have, and the same as with all of them."""

import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.errors import ExpressionError
from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions import decimals
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

TYPES = [(38, 0), (38, 4), (38, 18), (38, 38), (32, 4), (20, 2), (16, 2), (30, 29)]
TEXTS = [
    *["a + b", "a - b", "a * b", "a * 1.05", "b - 3"],
    *["floor(a)", "ceil(b)", "round(a, 2)", "round(a, 0)", "cast(a as decimal(38,2))", "cast(b as bigint)"],
]


@st.composite
def columns(draw):
    """Two types of which few results fit 38 digits, and rows of them, some with all the digits there are."""
    types = draw(st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)))
    unscaled = [
        st.none()
        | st.integers(-99, 99)
        | st.integers(-(10**p) + 1, 10**p - 1)
        | st.just(10 ** draw(st.integers(0, p - 1)))
        | st.sampled_from([10 ** draw(st.integers(1, p)) - 1, 1 - 10 ** draw(st.integers(1, p))])
        | st.sampled_from([5 * 10 ** draw(st.integers(0, p - 1)) - 1, -5 * 10 ** draw(st.integers(0, p - 1)) + 1])
        for p, _ in types
    ]
    rows = draw(st.lists(st.tuples(*unscaled), min_size=1, max_size=4))
    exact = decimal.Context(prec=60)
    return types, [
        tuple(None if v is None else decimal.Decimal(v).scaleb(-s, exact) for v, (_, s) in zip(row, types, strict=True))
        for row in rows
    ]


def _outcome(evaluated):
    """Return the values, or the number of the row that has none."""
    try:
        return evaluated()
    except ExpressionError as error:
        return error.row_index


def _evaluated(bound, i, row):
    try:
        return evaluate(bound, row)
    except ExpressionError as error:
        error.row_index = i
        raise


@given(columns(), st.sampled_from(TEXTS))
@examples(300)
def test_results_in_few_digits_are_those_of_the_reference(given, text):
    types, rows = given
    _agree(types, rows, text)


# Arrow's division of 256 bits by more than 32 is wrong for some runs of nines.
@pytest.mark.parametrize(
    ("types", "row", "text"),
    [
        (((38, 38), (16, 2)), ("1E-38", "1000000000.00"), "a - b"),
        (((38, 38), (16, 2)), ("-1E-38", "1000000000.00"), "a + b"),
    ],
)
def test_runs_of_nines_lose_their_places(types, row, text):
    _agree(types, [tuple(map(decimal.Decimal, row))], text)


def _agree(types, rows, text):
    schema = Schema.of({name: f"decimal({p},{s})" for name, (p, s) in zip("ab", types, strict=True)})
    bound = bind(expr(text), schema)
    arrays = [pa.array(c, f.dtype.arrow) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    scalar = compile_scalar(bound)
    found = _outcome(lambda: scalar(arrays.__getitem__, len(rows)).to_pylist())
    assert found == _outcome(lambda: [_evaluated(bound, i, row) for i, row in enumerate(rows)])


@pytest.mark.parametrize("value", ["1.5", "-0.01", "0.00", None])
def test_short_values_of_long_types_need_no_more_than_128_bits(monkeypatch, value):
    monkeypatch.setattr(pa, "decimal256", lambda *_: pytest.fail("worked out in 256 bits"))
    value = None if value is None else decimal.Decimal(value)
    column = pa.array([value, None], pa.decimal128(38, 2))
    found = decimals._in_few_digits(pc.multiply_checked, column, column)
    assert found.to_pylist() == [None if value is None else value * value, None]
