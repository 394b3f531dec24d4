"""Looking hashes up in batches, and spines, with the runs they found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.renderer.embedded.trace.batch import Batch, UpdateLayout
from tidemill.renderer.embedded.trace.search import found_in, runs_in
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction


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
def many(monkeypatch):
    """Few keys count as many."""
    monkeypatch.setattr(spine_module, "FEW", 0)
    monkeypatch.setattr(spine_module, "TAIL", 4)


KEYS = st.tuples(st.integers(0, 9), st.integers(0, 2))


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("knows_runs", [False, True])
def test_a_spine_finds_and_counts(many, width, knows_runs):
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
