"""Values of aggregates made of exact sums, of whole columns: those of fractions, for sums of 64 bits and for longer."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.expressions.types import BOOL, FLOAT64, INT64, decimal_type
from tidemill.renderer.embedded.kernels.aggregate_values import mean_codes, room_of, spread_codes, value_codes
from tidemill.renderer.embedded.kernels.codec import float_values
from tidemill.renderer.embedded.kernels.interner import Interner
from tidemill.renderer.embedded.kernels.long_decimals import values_of
from tidemill.renderer.embedded.kernels.updates import NULL

COUNTS = st.sampled_from([0, 1, 2, 3, 7, 32, -1, -2, -32])  # by 32 of decimals there are halves
TYPES = {
    ("sum", INT64): INT64, ("avg", INT64): FLOAT64, ("bool_or", BOOL): BOOL, ("bool_and", BOOL): BOOL,
    ("sum", decimal_type(5, 2)): decimal_type(15, 2), ("avg", decimal_type(30, 2)): decimal_type(34, 6),
}  # fmt: skip


def array(numbers, dtype):
    return np.array([*numbers, 0], dtype)[:-1]


def expected(function, total, count, given, to):
    if not count:
        return None
    if function in ("bool_or", "bool_and"):
        return int(total > 0 if function == "bool_or" else count - total <= 0)
    if function == "sum":
        return total
    if not to.is_decimal:
        return float(Fraction(total, count))
    exact = Fraction(total, count) * 10 ** (to.scale - given.scale)
    return math.floor(abs(exact) + Fraction(1, 2)) * (1 if exact > 0 else -1)


@pytest.mark.parametrize("dtype", [np.int64, object], ids=["64 bits", "longer"])
@pytest.mark.parametrize(("function", "given_type"), TYPES, ids=str)
def test_values_are_those_of_fractions(function, given_type, dtype):
    to = TYPES[function, given_type]
    most = (2**62 if dtype == np.int64 else 2**70) // room_of(function, given_type, to)
    most = 1 if given_type == BOOL else min(most, 10**12)

    @examples(40)
    @given(st.lists(st.tuples(st.integers(-most, most) | st.integers(-9, 9), COUNTS), max_size=6))
    def check(groups):
        counts = array([c for _, c in groups], np.int64)
        args = (
            array([t for t, _ in groups], dtype),
            counts,
            counts != 0,
            (given_type, to),
            interner,
            lambda rows: pytest.fail(str(rows)),
        )
        codes = value_codes(function, *args)
        values = float_values(codes) if to == FLOAT64 else values_of(codes, interner) if to.is_decimal else codes
        found = [None if c == NULL else v for c, v in zip(codes.tolist(), values.tolist(), strict=True)]
        assert found == [expected(function, t, c, given_type, to) for t, c in groups]

    interner = Interner()
    check()


def test_what_does_not_fit_is_refused_where_there_is_a_value():
    refused = []
    args = (INT64, INT64), Interner(), lambda beyond: refused.append(beyond.tolist())
    totals, some = np.array([2**63, 2**63, 5], object), np.array([False, True, True])
    assert value_codes("sum", totals, None, some, *args).tolist() == [NULL, 0, 5]
    assert refused == [[False, True, False]]


@examples(60)
@given(st.lists(st.tuples(st.lists(st.integers(-50, 50), max_size=5), st.booleans()), max_size=5))
def test_spreads_are_those_of_fractions(groups):
    for dtype in (np.int64, object):
        totals, squares = (array([sum(x**power for x in some) for some, _ in groups], dtype) for power in (1, 2))
        counts, special = array([len(some) for some, _ in groups], np.int64), array([s for _, s in groups], np.bool_)
        codes = spread_codes("variance", totals, squares, counts, 100, special)
        for (some, is_special), code, value in zip(groups, codes.tolist(), float_values(codes).tolist(), strict=True):
            n = len(some)
            if n < 2:
                assert code == NULL
            elif is_special:
                assert math.isnan(value)
            else:
                squared = sum(Fraction(x, 10) ** 2 for x in some)
                assert value == float((squared * n - sum(Fraction(x, 10) for x in some) ** 2) / (n * (n - 1)))


def test_means_of_floats_are_of_rounded_sums():
    codes = mean_codes(np.array([1.0, 0.0, 5.0]), np.array([3, 0, -2]), np.array([True, False, True]))
    assert float_values(codes[[0, 2]]).tolist() == [1 / 3, -2.5]
    assert codes[1] == NULL
