"""Large changes of outputs lie as they came: no step sorts them but one in a few, and all that is read is the same."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from support.running import embedded, examples, new_flow

import tidemill as tm
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import StepError
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.operators import input_output
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.testing import check_equivalent, updates

LOADED, CHANGED = 100_000, 10_000


class Contents:
    """The spine of an output, and what it comes to, by value."""

    def __init__(self):
        self.now = 0
        self.transaction = Transaction()
        layout = UpdateLayout((0, 1), (INT64, INT64), 1, 1)
        self.spine = Spine(layout, lambda: Antichain([self.now]), self.transaction, 4096)
        self.values = np.zeros(LOADED, np.int64)

    def load(self):
        self.spine.append_batch(self.updates(np.arange(LOADED), 1))

    def updates(self, keys, diff):
        times = np.full(len(keys), self.now)
        return np.stack((keys, self.values[keys], times, np.full(len(keys), diff)))

    def change(self, keys):
        """Give some keys other values."""
        gone = self.updates(keys, -1)
        self.values[keys] += 1
        updates = np.concatenate((gone, self.updates(keys, 1)), axis=1)
        return self.spine.append_batch(updates), updates

    def commit(self):
        self.transaction.commit()
        self.now += 1

    def check(self):
        sums = np.zeros((LOADED, self.values.max() + 1), np.int64)
        keys, values, _, diffs = self.spine.all_updates()
        np.add.at(sums, (keys, values), diffs)
        expected = np.zeros_like(sums)
        expected[np.arange(LOADED), self.values] = 1
        assert np.array_equal(sums, expected)


@pytest.fixture
def contents():
    made = Contents()
    made.load()
    made.commit()
    return made


def test_large_changes_lie_as_they_came_and_never_more_of_them_than_are_sorted(contents):
    dice, unsorted, merging = np.random.default_rng(1), [], []
    for _ in range(30):
        held, given_ = contents.change(dice.choice(LOADED, CHANGED, replace=False))
        assert held.array is given_ is contents.spine.view.unsorted[-1]
        assert held.as_they_came() is given_
        contents.commit()
        unsorted.append(contents.spine.view.unsorted_size)
        merging.append(len(contents.spine.view.merges))
        assert unsorted[-1] <= contents.spine.view.sorted_size
        assert contents.spine.size <= 4 * LOADED
        assert contents.spine.batches <= 4
        assert contents.spine.bytes <= 6 * 8 * contents.spine.size
    assert unsorted[:5] == [20_000, 40_000, 60_000, 80_000, 100_000]
    assert unsorted[5] == 20_000  # the others are sorted by now
    assert merging[:7] == [0, 0, 0, 0, 0, 1, 0]  # in the next step, so that no step does both
    contents.check()


def test_a_step_that_fails_leaves_what_is_unsorted_as_it_was(contents):
    """Whether the step only added to it, or had it sorted."""
    for _ in range(7):
        view, values = contents.spine.view, contents.values.copy()
        contents.change(np.arange(CHANGED))
        contents.transaction.rollback()
        contents.values = values
        assert contents.spine.view is view
        contents.check()
        contents.change(np.arange(CHANGED))
        contents.commit()
    contents.check()


def test_what_is_unsorted_is_found_by_key_and_merged_where_that_is_asked_for(contents):
    contents.change(np.arange(CHANGED))
    contents.commit()
    owner, found = contents.spine.find(np.array([[3, 3, LOADED - 1], [0, 1, 0]]))
    assert sorted(zip(owner.tolist(), found[-1].tolist(), strict=True)) == [(0, -1), (0, 1), (1, 1), (2, 1)]
    assert contents.spine.view.unsorted_size == 2 * CHANGED
    assert contents.spine.exert()
    assert contents.spine.view.unsorted == ()
    assert contents.spine.size == LOADED
    assert not contents.spine.exert()
    contents.check()


def test_many_keys_are_looked_for_where_all_that_is_unsorted_cancels_out(contents):
    keys = np.arange(CHANGED)
    for diff in (1, -1):
        contents.spine.append_batch(contents.updates(keys, diff))
    contents.commit()
    assert contents.spine.view.unsorted_size == 2 * CHANGED
    owner, found = contents.spine.find(np.stack((keys[:50], np.zeros(50, np.int64))))
    assert sorted(owner.tolist()) == list(range(50))
    assert (found[-1] == 1).all()


def test_rows_that_are_there_very_often_are_counted_where_all_that_is_unsorted_cancels_out():
    flow, rows = tm.Dataflow(), pa.table({"k": np.arange(2_000)})
    once = flow.input("x", {"k": "int64"})
    flow.output("twice", once.concat(once))
    with flow.start() as run:
        for change in (run.insert, run.insert, run.delete):
            change("x", rows)
            run.advance()
        run.update("x", [((k,), 3, 2**31) for k in range(100)])
        run.advance()
        assert run.snapshot("twice").counts()[5,] == 2**32 + 2


def test_a_small_part_of_a_large_array_does_not_keep_it_in_memory(contents):
    large = np.stack([np.arange(LOADED) % 9] * 3 + [np.ones(LOADED, np.int64)])
    held = contents.spine.append_batch(large[:, :CHANGED])
    assert held.array.base is None
    assert np.array_equal(held.array, large[:, :CHANGED])


@pytest.mark.parametrize("steps", [10, 45, 300])
def test_what_is_taken_away_goes_with_what_it_takes_away(contents, steps):
    """In large steps or in small ones: what lies as it came waits for no more updates than are left, about."""
    for keys in (np.arange(CHANGED), np.arange(CHANGED, 2 * CHANGED)):
        contents.change(keys)
        contents.commit()
    gone = np.arange(99_000)
    for keys in np.array_split(gone, steps):
        updates = contents.updates(keys, -1)
        if len(keys) > 4096:
            contents.spine.append_batch(updates)
        else:
            contents.spine.append(updates)
        contents.commit()
    for _ in range(200):  # small changes, with which merging goes on
        contents.spine.append(
            np.concatenate((contents.updates([LOADED - 1], -1), contents.updates([LOADED - 1], 1)), 1)
        )
        contents.commit()
    assert contents.spine.size < LOADED // 2
    sums = np.zeros((LOADED, 2), np.int64)
    keys, values, _, diffs = contents.spine.all_updates()
    np.add.at(sums, (keys, values), diffs)
    assert not sums[gone].any()
    assert (sums[len(gone) :] == [1, 0]).all()


def test_updates_that_come_to_few_or_to_an_empty_spine_are_sorted():
    """A load has nothing to wait for, and what is far more than all there is would only be held twice."""
    made = Contents()
    made.load()
    assert made.spine.view.unsorted == ()
    held, _ = made.change(np.arange(LOADED))
    assert made.spine.view.unsorted == ()
    assert held.order is not None
    made.check()


@pytest.fixture
def all_large(monkeypatch):
    """Steps of two rows are large, and few of them lie unsorted."""
    monkeypatch.setattr(spine_module, "TAIL", 1)
    monkeypatch.setattr(input_output, "_MOST_IN_TAIL", 3)


def small_flow(coordinates=1):
    flow = new_flow(coordinates)
    rows = flow.input("x", {"k": "int64", "s": "string"})
    flow.output("same", rows)
    flow.output("kept", rows.with_columns(twice="k * 2"), changes=False)
    flow.output("folded", rows.select("s"), changes=3 if coordinates == 1 else True)
    flow.output("joined", rows.join(rows.select("k", other="s"), on="k"))
    return flow


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_outputs_are_those_of_the_reference(all_large, coordinates):
    flow = small_flow(coordinates)
    schema: dict[str, str] = {"k": "int64", "s": "string"}
    values: dict[str, list[Any]] = {"k": [0, 1, 2], "s": ["a", "b", None]}

    @examples(200 if coordinates == 1 else 60)
    @given(updates(schema, coordinates, max_size=24, latest=5 if coordinates == 1 else 2, values=values))
    def check(found):
        check_equivalent(flow, {"x": found}, engines=["reference", "embedded"])

    check()


def rows_of(dice, n):
    return pa.table({"k": dice.integers(0, 50, n), "s": [f"s{i}" for i in dice.integers(0, 9, n)]})


@pytest.mark.parametrize("followed", [False, True])
def test_steps_refused_steps_saving_and_merging_give_what_the_reference_gives(all_large, followed, tmp_path):
    flow, dice = small_flow(), np.random.default_rng(5)
    run, reference = flow.start(), flow.start(tm.Reference())
    outputs = {output.name: operator for output, operator in embedded(run).compiled.outputs.items()}
    for operator in outputs.values():
        operator.followers = int(followed)
    there = rows_of(dice, 60)
    for each in (run, reference):
        each.insert("x", there)
        each.advance()
    lay_unsorted = 0
    for step in range(12):
        gone, come = there.slice(0, 5), rows_of(dice, 5)
        there = pa.concat_tables([there.slice(5), come])
        for each in (run, reference):
            each.delete("x", gone)
            each.insert("x", come)
            each.advance()
        lay_unsorted += sum(len(operator.spine.view.unsorted) for operator in outputs.values())
        if step == 4:
            run.compact()
        if step == 8:
            run.save(tmp_path / "state")
            again = tm.load(tmp_path / "state", flow)
            assert again.snapshot("joined").counts() == run.snapshot("joined").counts()
        for name in ("same", "kept", "folded", "joined"):
            assert run.snapshot(name).counts() == reference.snapshot(name).counts()
        with pytest.raises(StepError):
            run.insert("x", pa.table({"k": [2**62] * 5, "s": ["a"] * 5}))
            run.advance()
        run.discard()
    assert lay_unsorted > 10
    assert list(run.changes("same")) == list(reference.changes("same"))
    assert list(run.changes("joined")) == list(reference.changes("joined"))
