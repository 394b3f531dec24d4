"""Spines against a list of updates: look-ups, merging, compaction, rollback."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.trace import merging
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction

# An update: key, value, time, diff
updates = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 6), st.sampled_from([-1, 1])), max_size=9
)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), updates),
        st.tuples(st.just("commit"), st.integers(0, 8)),
        st.tuples(st.just("rollback"), st.none()),
        st.tuples(st.just("exert"), st.none()),
    ),
    max_size=30,
)


def accumulated(found, at):
    counts = Counter()
    for key, value, time, diff in found:
        if time <= at:
            counts[key, value] += diff
    return {row: n for row, n in counts.items() if n}


@pytest.fixture
def small(monkeypatch):
    """Short tails and little effort, so that a few updates go through all that thousands would."""
    monkeypatch.setattr(spine_module, "TAIL", 4)
    monkeypatch.setattr(merging, "RATIO", 2)
    monkeypatch.setattr(spine_module, "IDLE_EFFORT", 2)
    monkeypatch.setattr(spine_module, "PUSH_EFFORT", 1)
    monkeypatch.setattr(spine_module, "UNSORTED_EFFORT", 1)
    monkeypatch.setattr(spine_module, "SCAN", 8)


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 5])
@pytest.mark.parametrize("keys", [(0,), (0, 1), (1, 0), ()])
def test_a_spine_is_the_list_of_its_updates(small, keys, most):
    """With tails of five, what is more than four lies as it came."""

    @examples(150)
    @given(actions)
    def check(script):
        since = [0]
        transaction = Transaction()
        s = Spine(UpdateLayout(keys, [None] * 2, 1, 1), lambda: Antichain([since[0]]), transaction, most)
        committed, model = [], []
        for action, what in script:
            if action == "append" and what:
                s.append(np.array(what, np.int64).T)
                model = model + what
            elif action == "commit":
                transaction.commit()
                committed, since[0] = model, max(since[0], what)
            elif action == "rollback":
                transaction.rollback()
                model = committed
            elif action == "exert" and model is committed:
                s.exert()
        probes = np.array([(k, v) for k in range(6) for v in range(3)], np.int64).T[list(keys)]
        distinct = np.unique(probes, axis=1) if keys else probes
        owner, block = s.find(distinct)
        for i in range(distinct.shape[1]):
            mine = [u for u in model if all(u[k] == distinct[j, i] for j, k in enumerate(keys))]
            got = [tuple(c) for c in block[:, owner == i].T.tolist()]
            for at in range(since[0], 8):
                assert accumulated(got, at) == accumulated(mine, at)

    check()


def test_a_view_stays_what_it_was(small):
    transaction = Transaction()
    s = Spine(UpdateLayout((0,), [None] * 2, 1, 1), lambda: Antichain([0]), transaction)
    s.append(np.array([(1, 1, 0, 1)], np.int64).T)
    before = s.append(np.array([(1, 2, 0, 1)], np.int64).T)
    for i in range(40):
        s.append(np.array([(i % 3, i, 0, 1)], np.int64).T)
        transaction.commit()
    assert s.find(np.array([[1]]), before)[1].T.tolist() == [[1, 1, 0, 1]]


def test_what_cancels_is_given_up():
    now = [0]
    transaction = Transaction()
    s = Spine(UpdateLayout((0,), [None] * 2, 1, 1), lambda: Antichain([now[0]]), transaction)
    s.append(np.array([(k, 0, 0, 1) for k in range(1000)], np.int64).T)
    sizes = []
    for epoch in range(5000):
        now[0] = epoch
        s.append(np.array([(7, 1, epoch, 1 if epoch % 2 == 0 else -1)], np.int64).T)
        transaction.commit()
        sizes.append(s.size)
    assert max(sizes) < 1000 + 2 * spine_module.TAIL
    assert s.batches <= 4


def test_rows_that_change_again_and_again_are_found_with_little_of_their_past():
    now = [0]
    transaction = Transaction()
    s = Spine(UpdateLayout((0,), [None] * 2, 1, 1), lambda: Antichain([now[0]]), transaction)
    found = []
    for epoch in range(1000):
        now[0] = epoch
        s.append(np.array([(7, epoch - 1, epoch, -1), (7, epoch, epoch, 1)], np.int64).T[:, epoch == 0 :])
        transaction.commit()
        found.append(s.find(np.array([[7]]))[1].shape[1])
    assert max(found) <= 64
    assert s.all_updates().T.tolist()[-1] == [7, 999, 999, 1]


def test_a_tail_that_may_be_longer_is_where_many_updates_come_a_step(monkeypatch):
    monkeypatch.setattr(spine_module, "TAIL", 8)
    for most, updates, room in ((0, 5, 8), (100, 1, 16), (100, 3, 48), (100, 50, 100)):
        transaction = Transaction()
        s = Spine(UpdateLayout((0,), [None] * 1, 1, 1), lambda: Antichain([0]), transaction, most)
        assert s.view.tail.array.shape[1] == 8
        for i in range(40):
            s.append(np.array([(i * updates + k, 0, 1) for k in range(updates)], np.int64).T)
            transaction.commit()
        assert s.view.tail.array.shape[1] == room
        assert sorted(s.all_updates()[0].tolist()) == list(range(40 * updates))
        assert s.find(np.array([[7]]))[1].tolist() == [[7], [0], [1]]


def test_batches_stay_few():
    transaction = Transaction()
    s = Spine(UpdateLayout((0,), [None] * 1, 1, 1), lambda: Antichain([0]), transaction)
    for i in range(20_000):
        s.append(np.array([(i * 7919 % 20_011, 0, 1)], np.int64).T)
        transaction.commit()
    assert s.batches <= 12
    assert s.size == 20_000


def test_batches_stay_few_while_large_ones_merge():
    """A merge that takes many steps does not keep those of smaller batches waiting. (It did: 54 batches.)"""
    rng = np.random.default_rng(1)
    transaction = Transaction()
    s = Spine(UpdateLayout((0, 1), [None] * 2, 1, 1), lambda: Antichain([0]), transaction)
    most = 0
    for size in (100_000, *[300] * 200):
        rows = rng.integers(0, 1 << 40, (2, size))
        s.append(np.concatenate((rows, np.zeros((1, size), np.int64), np.ones((1, size), np.int64))))
        transaction.commit()
        most = max(most, s.batches)
    assert most <= 12
    assert s.size == 100_000 + 200 * 300


@pytest.mark.parametrize("call", range(1, 12))
def test_a_merge_that_is_interrupted_loses_nothing(call, monkeypatch):
    """The arrays cannot be had, or Ctrl-C comes, in the middle of a merge that an earlier step began."""
    rng, made = np.random.default_rng(call), []
    layout = UpdateLayout((0,), (INT64,), 1, 1)
    older, newer = (
        layout.sorted_batch(np.array([rng.permutation(600), np.zeros(600), np.ones(600)], np.int64)) for _ in range(2)
    )
    merge, write = merging.Merge(older, newer, layout, lambda: Antichain([(0,)])), UpdateLayout.compacted

    def failing(self, *args):
        merged = write(self, *args)
        made.append(merged)
        if len(made) == call:
            raise MemoryError
        return merged

    monkeypatch.setattr(UpdateLayout, "compacted", failing)
    while merge.result is None:
        try:
            merge.work(100)
        except MemoryError:
            continue
    assert merge.result.updates.shape[1] == 600
    assert merge.result.updates[-1].sum() == 1200


@pytest.mark.parametrize("keys", [(0,), (0, 1)])
def test_a_merge_goes_a_piece_at_a_time_and_gives_the_same(keys, monkeypatch):
    rng = np.random.default_rng(3)
    layout = UpdateLayout(keys, (INT64, INT64), 1, 1)
    older, newer = (
        layout.sorted_batch(np.stack((rng.integers(0, 300, n), rng.integers(0, 2, n), np.zeros(n, np.int64), signs)))
        for n, signs in ((2_000, np.ones(2_000, np.int64)), (900, rng.choice([-1, 1], 900)))
    )
    found = []
    for piece in (10**9, 64):
        monkeypatch.setattr(merging, "PIECE", piece)
        merge = merging.Merge(older, newer, layout, lambda: Antichain([(0,)]))
        merge.work(10**9)
        assert merge.result is not None
        found.append(merge.result)
    whole, in_pieces = found
    assert whole.hashes.tolist() == in_pieces.hashes.tolist()
    assert sorted(whole.updates.T.tolist()) == sorted(in_pieces.updates.T.tolist())
    assert np.may_share_memory(in_pieces.hashes, in_pieces.array) == (len(keys) == 1)  # a key of its own hash: once


def test_keys_that_are_sought_twice_do_not_stand_for_others():
    """As many updates are found as there are, but not each of them once."""
    spine = Spine(UpdateLayout((0,), [None], 1, 1), lambda: Antichain([(0,)]), Transaction())
    spine.refill(np.array([[1, 1, 2, 2], [0, 0, 0, 0], [1, 1, 1, 1]]))
    owner, found = spine.find(np.array([[1, 1]]))
    assert sorted(zip(owner.tolist(), found[0].tolist(), strict=True)) == [(0, 1), (0, 1), (1, 1), (1, 1)]
    owner, found = spine.find(np.array([[2, 1]]))
    assert sorted(zip(owner.tolist(), found[0].tolist(), strict=True)) == [(0, 2), (0, 2), (1, 1), (1, 1)]
