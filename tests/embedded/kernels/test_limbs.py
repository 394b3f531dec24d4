"""Limbs of sums: they add up to the same number, however they are cut into parts, put together and merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.dataflow.lattice import Antichain
from tidemill.errors import CountOverflowError
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.exact_sums import exact_sums, float_sums
from tidemill.renderer.embedded.kernels.limbs import BITS, NOT_FINITE, LimbRows, LimbWeights, are_safe, split
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.merging import Merge

SIZES = (1, 2, 4)
NUMBERS = LimbWeights(SIZES)
WEIGHTS = sum(SIZES)
GREATEST = 2**63 - 1
LIMB = st.integers(-GREATEST, GREATEST) | st.sampled_from([0, 1, -1, 2**32, -(2**32), 2**62, GREATEST, -GREATEST])
LIMBS = st.lists(st.tuples(st.integers(-(2**59), 2**59), *[LIMB] * (WEIGHTS - 1)), min_size=1, max_size=9)


def numbers(weights, parts=0):
    """The numbers that limbs of each column are, or their parts, of which each number has so many more."""
    found, first = [], 0
    for size in SIZES:
        of_number = weights[first : first + size + parts].tolist()
        found.append(
            [sum(limb << BITS * i for i, limb in enumerate(column)) for column in zip(*of_number, strict=True)]
        )
        first += size + parts
    return found


def sums(weights):
    return [sum(of_number) for of_number in numbers(weights)]


@given(LIMBS)
def test_parts_are_the_same_numbers_and_add_up_to_the_same_sum(columns):
    weights = np.array(columns, np.int64).T
    parts = NUMBERS.parted(weights)
    assert numbers(parts, 1) == numbers(weights)
    joined, lacking = NUMBERS.joined(parts.sum(axis=1, keepdims=True))
    found = [of[0] for of in numbers(joined)]
    if lacking is not None:
        found = [n + (int(more) << BITS * size) for n, more, size in zip(found, lacking[:, 0], SIZES, strict=True)]
    assert found == sums(weights)


@given(LIMBS, st.lists(st.integers(0, 2), min_size=9, max_size=9))
def test_merged_updates_come_to_the_same_sums_key_by_key(columns, keys):
    """What the limbs of one update do not hold is in several, beside each other."""
    keys = np.array(keys[: len(columns)])
    layout = UpdateLayout((0,), (INT64,), 1, 1, WEIGHTS, limbs=NUMBERS)
    weights = np.array(columns, np.int64).T
    merged = layout.compacted(np.concatenate((keys[None], np.zeros_like(keys)[None], weights)), Antichain([(0,)]))
    assert (np.diff(merged.hashes) >= 0).all()
    assert (merged.hashes == merged.array[0]).all()
    for key in range(3):
        assert sums(merged.array[2:, merged.array[0] == key]) == sums(weights[:, keys == key])


def test_a_number_far_beyond_its_limbs_is_several_equal_updates():
    parts = NUMBERS.parts_of([np.array([n], object) for n in (3, 7 * 2**96 - 1, -(2**161))])
    updates, which = NUMBERS.gathered(np.concatenate((np.array([[9], [0]]), parts)))
    assert which is not None
    assert updates.shape[1] == len(which) > 1
    assert not which.any()
    assert updates[0].tolist() == [9] * len(which)
    assert sums(updates[2:]) == [3, 7 * 2**96 - 1, -(2**161)]


def test_only_numbers_beyond_their_limbs_are_several_updates():
    """Though the one beside it needs the upper half of its highest limb."""
    parts = LimbWeights((2,)).parts_of([np.array([2**95, 2**95 - 1], object)])
    _, which = LimbWeights((2,)).gathered(parts)
    assert which is not None
    assert which.tolist().count(0) > 1
    assert which.tolist().count(1) == 1


@pytest.mark.parametrize("number", [[2**63, 0, 0], [0, 2**120, 0], [0, 0, -(2**180)]])
def test_what_would_take_too_many_updates_is_refused(number):
    parts = NUMBERS.parts_of([np.array([n], object) for n in number])
    with pytest.raises(CountOverflowError):
        NUMBERS.gathered(parts)


@given(st.lists(st.tuples(st.integers(0, 4) | st.just(NOT_FINITE), LIMB), min_size=1, max_size=9))
def test_limbs_at_places_are_split_into_such_as_add_up_to_the_same(limbs):
    place, amount = np.array(limbs, np.int64).T
    places, amounts, which = split(place, amount)
    assert len(places) == len(amounts) == len(which)
    finite = places < NOT_FINITE
    assert not finite.any() or np.abs(amounts[finite]).max() <= 2**32
    for i, (at, given_amount) in enumerate(limbs):
        assert sum(
            int(a) << BITS * int(p - at) for p, a in zip(places[which == i], amounts[which == i], strict=True)
        ) == (given_amount)


def test_counts_of_what_is_no_number_have_no_limbs():
    """NaN is there so often that its count would be split, were it one: into a count of infinities."""
    place, amount = np.array([NOT_FINITE, 2]), np.array([2**33, 2**33])
    assert [found.tolist() for found in split(place, amount)] == [[NOT_FINITE, 2, 3], [2**33, 0, 2], [0, 1, 1]]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(33, 36), LIMB), min_size=1, max_size=9))
def test_sums_of_limbs_near_64_bits_are_exact(limbs):
    owner, place, amount = np.array(limbs, np.int64).T
    expected = [sum(a << BITS * p for o, p, a in limbs if o == key) for key in range(2)]
    assert [found.tolist() for found in exact_sums(2, owner, place, amount)] == [expected, [False, False]]
    assert float_sums(2, owner, place, amount).tolist() == [whole / (1 << 1074) for whole in expected]


def test_limbs_of_one_place_are_merged_beyond_64_bits():
    layout = UpdateLayout((0,), (INT64, None), 1, 1, limbs=LimbRows(1))
    updates = np.array([[5, 5, 5], [3, 3, 3], [0, 0, 0], [GREATEST, GREATEST, 5]])
    merged = layout.compacted(updates, Antichain([(0,)]))
    assert sorted(merged.array[1].tolist()) == [3, 4]
    assert sum(a << BITS * (p - 3) for p, a in merged.array[[1, 3]].T.tolist()) == 2 * GREATEST + 5


def test_weights_are_safe_where_no_sum_of_them_overflows():
    for count in (3, 100):
        most = 2**63 // count
        assert are_safe(np.full((2, count), most - 1))
        assert not are_safe(np.full((2, count), -most - 1))


@pytest.mark.parametrize("count", [2, 64])
@pytest.mark.parametrize("sign", [1, -1])
def test_weights_whose_sum_may_be_just_beyond_64_bits_are_not_safe(count, sign):
    """Few, as Python looks at them, and many."""
    assert not are_safe(np.full((1, count), sign * 2**63 // count))
    assert are_safe(np.full((1, count), sign * (2**63 // count - 1)))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_limbs_hold_all_that_their_bits_do(size):
    """The highest one has 64 of them: what is one beyond is refused of a single limb, and of others is said to lack."""
    numbers_ = LimbWeights((size,))
    beyond = 2 ** (63 + BITS * (size - 1))
    for number in (beyond - 1, -beyond):
        weights, lacking = numbers_.joined(numbers_.parts_of([np.array([number], object)]))
        assert lacking is None
        assert sum(limb << BITS * i for i, limb in enumerate(weights[:, 0].tolist())) == number
    for number in (beyond, -beyond - 1):
        parts = numbers_.parts_of([np.array([number], object)])
        if size == 1:
            with pytest.raises(CountOverflowError):
                numbers_.joined(parts)
        else:
            assert numbers_.joined(parts)[1] is not None


@pytest.mark.parametrize("effort", [1, 3, 100])
def test_what_is_merged_may_be_more_updates_than_before(effort):
    """Where some limb overflows, all that are large are split: there has to be room for that."""
    layout = UpdateLayout((0,), (INT64, None), 1, 1, limbs=LimbRows(1))

    def batch(keys):
        return layout.sorted_batch(np.array([[k, 3, 0, GREATEST] for k in keys]).T)

    merge = Merge(batch([*range(8), 5]), batch([0, 5]), layout, lambda: Antichain([(0,)]))
    while merge.result is None:
        merge.work(effort)
    merged = merge.result.updates
    assert (merge.result.hashes == merged[0]).all()
    assert merged.shape[1] >= 10
    for key, count in enumerate([2, 1, 1, 1, 1, 3, 1, 1]):
        of_key = merged[:, merged[0] == key]
        assert sum(a << BITS * (p - 3) for p, a in of_key[[1, 3]].T.tolist()) == count * GREATEST
