"""Orders of numbers, found by sorting words, are those that NumPy finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.codec import float_codes, float_values
from tidemill.renderer.embedded.kernels.sorting import ascending, sort_by

ENDS = [-(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1]
NUMBERS = st.sampled_from(ENDS) | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)


def _many(rng, kind, n):
    if kind == "few values":
        return rng.integers(-3, 3, n)
    if kind == "alike in their highest bits":
        return rng.choice(np.array(ENDS), n) // 2 + rng.integers(0, 3, n)
    if kind == "floats":
        return float_codes(rng.normal(0, 1e3, n).round(1))
    return rng.integers(-(2**63), 2**63 - 1, n)


@given(st.lists(NUMBERS, max_size=40))
@examples(300)
def test_the_order_of_a_few_numbers(numbers):
    keys = np.array(numbers, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW", 1)
        order, found = ascending(keys)
    assert order.tolist() == keys.argsort(kind="stable").tolist()
    assert found.tolist() == keys[order].tolist()


@pytest.mark.parametrize("kind", ["few values", "alike in their highest bits", "floats", "any"])
@pytest.mark.parametrize("n", [513, 20_000])
def test_the_order_of_many_numbers(kind, n):
    keys = _many(np.random.default_rng(n), kind, n)
    before = keys.copy()
    order, found = ascending(keys)
    assert (order == keys.argsort(kind="stable")).all()
    assert (found == keys[order]).all()
    assert (keys == before).all()


@given(
    st.integers(1, 4).flatmap(lambda k: st.lists(st.tuples(*[NUMBERS] * k), min_size=1, max_size=30)),
    st.sets(st.integers(0, 3)),
    st.booleans(),
)
@examples(300)
def test_the_order_of_rows_and_where_they_differ(rows, falling, many):
    columns = list(np.array(rows, np.int64).T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW", 1 if many else sorting.FEW)
        order, new, new_first = sort_by(columns, falling)
    turned = [tuple(-v if i in falling else v for i, v in enumerate(row)) for row in rows]
    assert order.tolist() == sorted(range(len(rows)), key=turned.__getitem__)
    ordered = [rows[i] for i in order.tolist()]
    assert new.tolist() == [i == 0 or ordered[i] != ordered[i - 1] for i in range(len(rows))]
    assert new_first.tolist() == [i == 0 or ordered[i][0] != ordered[i - 1][0] for i in range(len(rows))]


def test_no_rows_have_an_order():
    order, new, new_first = sort_by([np.empty(0, np.int64)] * 2)
    assert not len(order) and not len(new) and not len(new_first)


@given(st.lists(st.floats() | st.sampled_from([0.0, -0.0, 5e-324, -5e-324]), max_size=30))
@examples(200)
def test_floats_come_back_from_their_codes_and_sort_as_these_do(floats):
    values = np.array(floats, np.float64)
    codes = float_codes(values)
    assert np.array_equal(float_values(codes), values, equal_nan=True)
    assert np.array_equal(values[codes.argsort()], np.sort(values), equal_nan=True)
