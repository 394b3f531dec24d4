"""Sums and products worked out on codes: what kernels give, down to the code, or nothing where these may be too large."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples

from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions import on_codes
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.expressions.on_codes import compile_on_codes
from tidemill.renderer.embedded.kernels import codec
from tidemill.renderer.embedded.kernels.long_decimals import decimal_of

SCHEMA = Schema.of({"a": "decimal(15,2)", "b": "decimal(9,4)", "c": "decimal(38,3)", "i": "int32", "n": "int64"})
DIGITS = [15, 9, 38]
TEXTS = [
    *[
        "a * (1 - b)",
        "a * (1 - b) * (1 + b) - b",
        "a + b",
        "a - c",
        "c * c",
        "b * b + a * 3",
        "-a * b",
        "c + c",
        "c - 0.001",
    ],
    *["cast(a as decimal(18,5))", "cast(i as decimal(12,1)) * b", "a + i", "c * i", "a - cast(n as decimal(20,0))"],
    *[
        "n + i * 1000",
        "i * i - 7",
        "-n * n + i",
        "cast(n as int) + i",
        "i + n - cast(cast(i as decimal(9,0)) as bigint)",
    ],
    *["cast(n as decimal(18,0)) + a", "cast(c as decimal(16,4))", "b * 1000000000000000", "c * 0 + b"],
]
ROUNDED = ["c * c * c", "a / b", "cast(a as decimal(10,1))", "case when i > 0 then a end", "cast(a as int)", "n % 7"]


@pytest.fixture(params=["few", "many"], autouse=True)
def count(request, monkeypatch):
    """With "many", rows are looked at as if they were."""
    if request.param == "many":
        monkeypatch.setattr(on_codes, "_FEW", 0)


def unscaled(digits):
    """Return numbers of all lengths, some as long as they may be."""
    lengths = st.integers(0, digits).flatmap(lambda d: st.integers(-(10**d) + 1, 10**d - 1))
    return st.none() | lengths | st.sampled_from([10**digits - 1, 1 - 10**digits])


INTEGERS = [st.none() | st.integers(-(2**bits) + 1, 2**bits - 1) for bits in (31, 63)]
ROWS = st.lists(st.tuples(*map(unscaled, DIGITS), *INTEGERS), min_size=1, max_size=3)
SMALL = st.lists(st.tuples(*(st.none() | st.integers(-999, 999) for _ in SCHEMA)), min_size=1, max_size=3)


def encoded(rows, interner):
    columns = [
        [None if v is None else decimal_of(v, f.dtype.scale) if f.dtype.is_decimal else v for v in column]
        for f, column in zip(SCHEMA, zip(*rows, strict=True), strict=True)
    ]
    arrays = [pa.array(column, f.dtype.arrow) for f, column in zip(SCHEMA, columns, strict=True)]
    codes = [codec.encode_column(a, f.dtype, interner) for a, f in zip(arrays, SCHEMA, strict=True)]
    return arrays, np.stack([*codes, np.ones(len(rows), np.int64)])


def computed(bound, codes):
    compute = compile_on_codes(bound)
    assert compute is not None
    return compute(codes)


def both(text, rows):
    """Return what is worked out on codes, and the codes of what kernels give."""
    interner = codec.Interner()
    bound = bind(expr(text), SCHEMA)
    arrays, codes = encoded(rows, interner)
    found = computed(bound, codes)
    if found is None:
        return None, None
    return found.tolist(), codec.encode_column(compile_scalar(bound)(arrays, len(rows)), bound.dtype, interner).tolist()


@given(ROWS, st.sampled_from(TEXTS))
@examples(300)
def test_codes_are_those_of_what_kernels_give(rows, text):
    found, expected = both(text, rows)
    assert found == expected


@given(SMALL, st.sampled_from(TEXTS))
@examples(100)
def test_what_is_small_is_worked_out_on_codes(rows, text):
    found, expected = both(text, rows)
    assert found is not None
    assert found == expected


@pytest.mark.parametrize("text", ROUNDED)
def test_what_is_rounded_or_chosen_is_not(text):
    assert compile_on_codes(bind(expr(text), SCHEMA)) is None


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("c + c", (0, 0, 2**61, 0, 0)),  # two to the 62, of which the code is not itself
        ("c - c", (0, 0, 2**62, 0, 0)),
        ("cast(c as decimal(16,4))", (0, 0, 10**15, 0, 0)),  # an error
        ("b * 1000000000000000 * i", (0, 10**9 - 1, 0, 2**31 - 1, 0)),
    ],
)
def test_what_may_not_fit_is_left_to_kernels(text, row):
    _, codes = encoded([row], codec.Interner())
    assert computed(bind(expr(text), SCHEMA), codes) is None


def test_nothing_is_left_to_kernels():
    assert computed(bind(expr("a + b"), SCHEMA), np.empty((6, 0), np.int64)) is None


def test_precision_of_a_context_does_not_matter():
    with decimal.localcontext(prec=3):
        found, _ = both("c - 123456.789", [(0, 0, 1, 0, 0)])
    assert found == [1 - 123456789]
