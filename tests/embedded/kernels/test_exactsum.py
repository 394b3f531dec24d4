"""Float sums by limbs against whole fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.renderer.embedded.kernels.codec import float_codes
from tidemill.renderer.embedded.kernels.exact_sums import float_sums, limbs_of_floats

finite = st.floats(allow_nan=False, allow_infinity=False)
awkward = st.sampled_from(
    [1e20, 1.0, -1e20, 2.0**-1074, -(2.0**-1074), 2.0**-1022, 1e308, -1e308, 0.1, 1e16, 1.0 + 2**-52]
)


def sums_of(groups):
    owner = np.array([g for g, values in enumerate(groups) for _ in values], np.int64)
    values = np.array([v for group in groups for v, _ in group])
    counts = np.array([n for group in groups for _, n in group], np.int64)
    which, place, amount = limbs_of_floats(float_codes(values.astype(np.float64)))
    return float_sums(len(groups), owner[which], place, amount * counts[which])


def exact(values):
    total = sum((Fraction(v) * n for v, n in values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(st.lists(st.lists(st.tuples(finite | awkward, st.integers(-3, 3)), max_size=6), min_size=1, max_size=4))
def test_sums_are_rounded_once(groups):
    result = sums_of(groups)
    assert [float(r).hex() for r in result + 0.0] == [(exact(g) + 0.0).hex() for g in groups]


@given(st.integers(0, 2**54), st.integers(-1080, 960), st.sampled_from([-1, 1]))
def test_ties_and_subnormals(whole, exponent, sign):
    """Two floats whose sum lies at or near the middle between two neighbours."""
    try:
        a = math.ldexp(float(whole), exponent)
    except OverflowError:
        return
    for b in (math.ulp(a) / 2, math.ulp(a) * 1.5, math.ldexp(1.0, -1074)):
        group = [(sign * a, 1), (sign * b, 1)]
        assert float(sums_of([group])[0]) == exact(group)


@given(st.lists(st.tuples(st.integers(-(2**53), 2**53), st.integers(0, 60)), min_size=1, max_size=6))
def test_sums_of_the_least_floats_are_rounded_once(parts):
    """No sum has a bit below the least float, so what is subnormal is exact."""
    group = [(math.ldexp(float(whole), power - 1074), 1) for whole, power in parts]
    assert sums_of([group])[0] == exact(group)


def test_nan_and_infinities_are_counted():
    inf, nan = math.inf, math.nan
    groups = [
        [(inf, 1), (1.0, 1)],
        [(inf, 1), (-inf, 1)],
        [(nan, 1), (2.0, 1)],
        [(nan, 1), (2.0, 1), (nan, -1)],
        [(-inf, 2)],
        [(inf, -1), (1.0, 1)],  # less an infinity is the other one
        [(-inf, -1), (1.0, 1)],
        [(inf, 1), (-inf, -1)],
        [(inf, -1), (-inf, -1)],
    ]
    expected = ["inf", "nan", "nan", "2.0", "-inf", "-inf", "inf", "inf", "nan"]
    assert [repr(float(v)) for v in sums_of(groups)] == expected


@pytest.mark.parametrize("tiny", [2.0**-1074, 2.0**-30, 2.0**24, 2.0**40])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_least_that_is_beyond_the_middle_between_two_floats_rounds_up(tiny, sign):
    """Wherever it is: in the last digits that are looked at, or in some far below."""
    middle = [(sign * 2.0**100, 1), (sign * 2.0**47, 1)]
    assert sums_of([middle])[0] == sign * 2.0**100
    assert sums_of([[*middle, (sign * tiny, 1)]])[0] == sign * (2.0**100 + 2.0**48)
    assert sums_of([[*middle, (-sign * tiny, 1)]])[0] == sign * 2.0**100


@pytest.mark.parametrize("sign", [1, -1])
def test_limbs_that_have_no_room_for_what_is_carried_are_split(sign):
    owner, place, amount = np.array([(0, 33, sign * (2**63 - 1)), (0, 34, sign * (2**63 - 1))]).T
    assert float_sums(1, owner, place, amount)[0] == sign * (2**63 - 1) * (2**32 + 1) / 2**18


def test_many_values_of_one_group():
    rng = np.random.default_rng(5)
    values = rng.standard_normal(20_000) * 10.0 ** rng.integers(-200, 200, 20_000)
    assert sums_of([[(v, 1) for v in values.tolist()]])[0] == math.fsum(values.tolist())
