"""Exact sums in Python's numbers and as bytes: what fractions come to, rounded once, whatever is put together how."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.algorithms.prefix_sums.python_combiners import packed, unpacked
from tidemill.boundary.exact_sums import Exact, mean, root, sum_of, together, variance
from tidemill.expressions.types import FLOAT64, INT64, decimal_type

CENTS = decimal_type(12, 2)
NUMBERS = {
    INT64: st.integers(-(2**63) + 1, 2**63 - 1),
    CENTS: st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    FLOAT64: st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, 1e20, -1e20, 5e-324]),
}


def rounded(number):
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_sums_means_and_spreads_are_those_of_fractions(dtype):
    @examples(60)
    @given(st.lists(NUMBERS[dtype], min_size=1, max_size=6), st.data())
    def check(values, data):
        cut = data.draw(st.integers(0, len(values)))
        sums = []
        for power in (1, 2):
            parts = [[Exact.of(v, dtype, power) for v in some] for some in (values[:cut], values[cut:])]
            sums.append(together(unpacked(packed(together(part))) for part in parts))
        count, exact = len(values), sum(map(Fraction, values), Fraction())
        squares = sum(Fraction(v) ** 2 for v in values)
        if dtype == FLOAT64:
            assert sum_of(sums[0], dtype, FLOAT64) == rounded(exact)
            assert mean(sums[0], count, dtype, FLOAT64) == rounded(exact) / count
        elif dtype == INT64:
            assert mean(sums[0], count, dtype, FLOAT64) == float(exact / count)
        else:
            assert sum_of(sums[0], dtype, decimal_type(22, 2)) == exact
            found = mean(sums[0], count, dtype, decimal_type(16, 6)) * 10**6
            assert abs(found) == math.floor(abs(exact) / count * 10**6 + Fraction(1, 2))
            assert found == 0 or (found > 0) == (exact > 0)
        total, of_squares = sums
        spread = variance(total, of_squares, count, dtype)
        if spread is None:
            assert count == 1
        else:
            assert count > 1
            assert spread == rounded((squares * count - exact**2) / (count * (count - 1)))
            assert root(spread) == math.sqrt(spread)

    check()


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "total"), [([NAN, 1.0], NAN), ([INF, -INF], NAN), ([INF, 2.0], INF), ([-INF, -INF], -INF)]
)
def test_nan_and_infinities_are_added_as_ieee_has_it(values, total):
    both = unpacked(packed(together(Exact.of(v, FLOAT64) for v in values)))
    assert repr(both.rounded()) == repr(mean(both, 2, FLOAT64, FLOAT64)) == repr(total)
    assert repr(variance(both, both, 2, FLOAT64)) == "nan"
    assert math.isnan(root(-1.0))


def test_decimals_that_do_not_fit_are_refused():
    with pytest.raises(OverflowError, match=r"1000 units of the last place do not fit decimal\(3,1\)"):
        sum_of(Exact(1000), decimal_type(2, 1), decimal_type(3, 1))
