"""Tables of where hashes are, against binary searches; and spines that use them, with the runs they found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.trace import hash_places
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.renderer.embedded.trace.batch import Batch, UpdateLayout
from tidemill.renderer.embedded.trace.hash_places import is_worth_a_table, places_of, searched
from tidemill.renderer.embedded.trace.search import found_in, runs_in
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction

ENDS = -(2**63), 2**63 - 1
NUMBERS = st.one_of(
    st.lists(st.integers(-20, 20), min_size=1, max_size=60),
    st.lists(st.integers(*ENDS), min_size=1, max_size=60),
    st.lists(st.integers(-20, 20) | st.sampled_from(ENDS), min_size=1, max_size=60),
)
SOUGHT = st.lists(st.integers(-25, 25) | st.integers(*ENDS) | st.sampled_from(ENDS), max_size=60)


@pytest.mark.parametrize("uneven", [1, 64])
@given(NUMBERS, SOUGHT)
def test_a_table_says_where_hashes_are(uneven, numbers, sought):
    hashes = np.array(sorted(numbers), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_places, "_UNEVEN", uneven)
        places = places_of(hashes)
    if places is None:
        assert uneven == 1
        return
    assert len(places.table) <= len(hashes) + 2
    in_order = np.array(sorted([*sought, *numbers[::2]]), np.int64)
    for found, expected in zip(places.runs_of(in_order), searched(hashes, in_order), strict=True):
        assert found.tolist() == expected.tolist()


def test_hashes_far_from_the_others_are_left_to_a_binary_search():
    hashes = np.concatenate(([ENDS[0]], np.arange(1000)))
    assert places_of(hashes) is None
    assert places_of(hashes[1:]) is not None


def test_a_hash_that_is_there_often_is_no_reason_against_a_place_for_each_number():
    assert places_of(np.arange(1000).repeat([100, *[1] * 999])) is not None


def test_hashes_whose_number_takes_more_than_32_bits_have_no_table(monkeypatch):
    hashes = np.arange(1 << 16)
    assert is_worth_a_table(hashes, 1000)
    monkeypatch.setattr(hash_places, "_INT32", 1 << 16)  # there is no memory for so many as these are
    assert not is_worth_a_table(hashes, 1000)


@pytest.mark.parametrize("sought", [[1, 1], [3, 3], [3, 1, 1], [1, 2], [1, 3], [1, 2, 3], [3, 2, 1], [0, 1, 1, 2, 9]])
def test_keys_that_repeat_are_found_each_time_however_many_updates_that_are(sought):
    """As many as the batch has, some of them: those are not all that the batch has."""
    batch = Batch(np.array([1, 2, 3, 3]), np.array([[1, 2, 3, 3], [10, 20, 30, 31]]))
    for batch_ in (batch, Batch(batch.hashes[:2], batch.array[:, :2])):
        (run,) = runs_in([batch_], np.array(sought))
        owner, found = found_in(run)
        expected = [
            (number, *update)
            for number, key in enumerate(sought)
            for update in batch_.updates.T.tolist()
            if update[0] == key
        ]
        assert sorted(zip(owner.tolist(), *found.tolist(), strict=True)) == expected


@pytest.fixture
def tables(monkeypatch):
    """Small batches have tables, and few keys count as many."""
    monkeypatch.setattr(hash_places, "_LARGE", 1)
    monkeypatch.setattr(spine_module, "FEW", 0)
    monkeypatch.setattr(spine_module, "TAIL", 4)


KEYS = st.tuples(st.integers(0, 9), st.integers(0, 2))


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("knows_runs", [False, True])
def test_a_spine_finds_and_counts_by_tables(tables, width, knows_runs):
    @given(st.lists(st.lists(KEYS, max_size=20), max_size=6), st.lists(KEYS, max_size=12))
    def check(steps, sought):
        layout = UpdateLayout(tuple(range(width)), [INT64] * 2, 1, 1)
        spine = Spine(layout, lambda: Antichain([(0,)]), Transaction())
        for step, rows in enumerate(steps):
            spine.append(np.array([(*row, step, 1) for row in rows], np.int64).reshape(-1, 4).T)
        keys = np.array(sought, np.int64).reshape(-1, 2).T[:width]
        runs = spine.runs(keys) if knows_runs else ()
        owner, found = spine.find(keys, runs=runs)
        here = [(*row, step) for step, rows in enumerate(steps) for row in rows]
        for number, key in enumerate(keys.T.tolist()):
            times = int(found[-1].compress(owner == number).sum())
            assert times == sum(list(row[:width]) == key for row in here)
            if width == 1:  # else a hash may be that of another key
                in_batches = [b.updates[0] == key[0] for b in spine.view.batches]
                assert spine.count(keys, runs)[number] == sum(int(b.sum()) for b in in_batches)
        assert (found[:width] == keys.take(owner, axis=1)).all()

    check()


def test_a_large_batch_has_a_table_once_many_are_looked_up():
    spine = Spine(UpdateLayout((0,), [INT64], 1, 1), lambda: Antichain([(0,)]), Transaction())
    n = 1 << 17
    spine.append(np.stack([np.arange(n), np.zeros(n, np.int64), np.ones(n, np.int64)]))
    (batch,) = spine.view.batches
    before = batch.bytes
    spine.find(np.arange(10)[None])
    assert batch.bytes == before
    owner, _ = spine.find(np.arange(0, 2 * n, n // 64)[None])
    assert len(owner) == 64
    assert batch.bytes > before
    assert spine.bytes >= batch.bytes


@given(st.integers(*ENDS), st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(st.integers(-1, 5)))
def test_a_table_of_few_places_is_made_by_looking_these_up(least, numbers, sought):
    least = min(max(least, ENDS[0] + 1), ENDS[1] - 3)  # so that the greatest may be the end
    hashes = np.array(sorted(least + n for n in numbers), np.int64).repeat(500)
    places = places_of(hashes)
    assert places is not None
    in_order = np.array(sorted(min(least + n, ENDS[1]) for n in sought), np.int64)
    for found, expected in zip(places.runs_of(in_order), searched(hashes, in_order), strict=True):
        assert found.tolist() == expected.tolist()


def test_few_hashes_of_many_updates_have_a_table_at_once():
    hashes = np.arange(100).repeat(1 << 14)
    assert is_worth_a_table(hashes, 10)
    assert not is_worth_a_table(hashes * 10, 10)
    assert is_worth_a_table(hashes * 10, 1000)
