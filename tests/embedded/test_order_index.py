"""The order index against sorted lists of copies: changes, rollback, rank, select, ranges; and what a change costs."""

from bisect import bisect_left
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.expressions.types import INT64, STRING
from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.trace import order_index, row_order, sorted_rows
from tidemill.renderer.embedded.trace.order_index import OrderIndex
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.sorted_rows import SortedRows
from tidemill.renderer.embedded.trace.transaction import Transaction

KEYS = range(3)
INTEGERS = [NULL, -5, 0, 3, 9]
WORDS = [None, "", "b", "a", "ab"]
change = st.tuples(st.sampled_from(KEYS), st.sampled_from(INTEGERS), st.integers(0, 4), st.integers(-1, 2))
script = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "commit", "rollback", "rebuild"]), st.lists(change, max_size=9)),
    max_size=12,
)


@pytest.fixture
def small(monkeypatch):
    """Chunks of a few rows, so that a few rows go through all that thousands would."""
    monkeypatch.setattr(sorted_rows, "CHUNK", 2)


class Model:
    """Rows with counts; in order, as a list with each copy in it."""

    def __init__(self, interner, descending, nulls_first):
        self.words = [NULL if w is None else interner.number(w) for w in WORDS]
        self._alphabet = sorted(w for w in WORDS if w is not None)
        self._interner = interner
        self._descending = descending
        self._nulls_first = nulls_first
        self.counts = Counter()

    def apply(self, changes):
        for *row, n in changes:
            self.counts[tuple(row)] += n

    def rank(self, row):
        """What sorts as a row does."""
        integer, word = row
        plain = word if word == NULL else self._alphabet.index(self._interner.object(word))
        return [self._one(integer), self._one(plain)]

    def _one(self, value):
        if value == NULL:
            return (0 if self._nulls_first else 2, 0)
        return (1, -value if self._descending else value)

    def copies(self, key):
        rows = sorted((row[1:] for row, n in self.counts.items() if n and row[0] == key), key=self.rank)
        return [row for row in rows for _ in range(self.counts[key, *row])]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("limits", [(1, 4, 0), (1000, 1, 1000), (1000, 4, 0), (1000, 0, 2)])
@pytest.mark.parametrize("many", [False, True])
def test_against_sorted_lists(small, monkeypatch, descending, nulls_first, limits, many):  # noqa: PLR0917
    rebuild, few, for_each = limits
    monkeypatch.setattr(sorted_rows, "REBUILD", rebuild)
    monkeypatch.setattr(order_index, "REBUILD", rebuild)
    if many:
        monkeypatch.setattr(sorting, "FEW", 0)
    monkeypatch.setattr(sorted_rows, "CHUNKS_FOR_EACH", for_each)
    monkeypatch.setattr(sorted_rows, "FEW", few)
    monkeypatch.setattr(row_order, "FEW", few)

    @settings(max_examples=40)
    @given(script)
    def check(actions):
        interner, transaction = Interner(), Transaction()
        model = Model(interner, descending, nulls_first)
        order = RowOrder([SortColumn(i, t, descending, nulls_first) for i, t in enumerate((INT64, STRING))], interner)
        index = OrderIndex(1, order, transaction)
        index.add(np.array([KEYS]), np.empty((4, 0), np.int64))
        transaction.commit()
        committed = Counter()
        for action, changes in actions:
            if action == "apply":
                changed = [(k, v, model.words[w], n) for k, v, w, n in changes]
                refused = index.apply(np.array(changed, np.int64).reshape(-1, 4).T)
                model.apply(changed)
                below_zero = {row: n for row, n in model.counts.items() if n < 0}
                assert {(*row, n) for row, n in below_zero.items()} == set(map(tuple, refused.T.tolist()))
                if below_zero:  # what the operator refuses, and undoes
                    transaction.rollback()
                    model.counts = committed.copy()
            elif action == "commit":
                transaction.commit()
                committed = model.counts.copy()
            elif action == "rollback":
                transaction.rollback()
                model.counts = committed.copy()
            else:  # as after a compaction: given up, and built anew from what the spine holds
                transaction.commit()
                committed = model.counts.copy()
                index.clear()
                assert not index.has(np.array([KEYS])).any()
                rows = [(*row, n) for row, n in model.counts.items()]
                index.add(np.array([KEYS]), np.array(rows, np.int64).reshape(-1, 4).T)
                transaction.commit()
            for key in KEYS:
                compare(index[key,], model, key)
        assert index.has(np.array([[*KEYS, 7]])).tolist() == [True, True, True, False]

    check()


def compare(rows, model, key):
    """Ask for all there is to be asked."""
    copies = model.copies(key)
    assert rows.size == len(copies)
    assert rows.distinct == len(set(copies))
    ends: list[Any] = [] if not copies else [[*copies[i], copies.count(copies[i])] for i in (0, -1)]
    assert [rows.first(), rows.last()] == (ends or [None, None])
    positions = np.arange(len(copies))
    assert [tuple(c[:2]) for c in rows.select(positions[::-1]).T.tolist()] == copies[::-1]
    every = [(integer, word) for integer in INTEGERS for word in model.words]
    ranks = [model.rank(row) for row in copies]
    assert rows.rank(np.array(every).T).tolist() == [bisect_left(ranks, model.rank(row)) for row in every]
    for start, stop in [(0, 1), (0, 3), (2, 7), (5, 5), (-2, 2), (3, 100)]:
        between = rows.between(start, stop)
        assert [tuple(c[:2]) for c in between.T.tolist() for _ in range(c[2])] == copies[max(start, 0) : stop]
    assert rows.select(rows.rank(np.array(copies, np.int64).reshape(-1, 2).T)).T.tolist() == [
        [*row, copies.count(row)] for row in copies
    ]


def test_a_group_that_was_added_is_gone_after_a_rollback():
    transaction = Transaction()
    index = OrderIndex(1, RowOrder([SortColumn(0, INT64)], Interner()), transaction)
    index.add(np.array([[1]]), np.array([[1], [5], [2]]))
    transaction.commit()
    index.add(np.array([[2]]), np.array([[2], [6], [1]]))
    before = index[1,]
    index.apply(np.array([[1], [5], [-2]]))
    assert index.has(np.array([[1, 2]])).all()
    assert index[1,].first() is None
    assert before.first() == [5, 2]  # immutable
    transaction.rollback()
    assert index.has(np.array([[1, 2]])).tolist() == [True, False]
    assert index[1,].first() == [5, 2]


def test_what_a_change_costs_does_not_grow_with_the_group():
    """It writes the chunks it falls into: at most the square root of the rows, once a group has many."""
    order = RowOrder([SortColumn(0, INT64)], Interner())
    rng = np.random.default_rng(3)
    for size in (1_000, 10_000, 100_000, 1_000_000):
        rows = SortedRows.of(order, np.stack((np.arange(size) * 2, np.ones(size, np.int64))))
        for n in (1, 10):
            written = 0
            for _ in range(20):
                values = rng.choice(2 * size, n, replace=False)
                change = np.stack((values, 2 * (values % 2) - 1))  # odd ones come, even ones go
                changed, negative = rows.changed(change)
                assert not negative.shape[1]
                kept = set(map(id, rows.chunks))
                written += sum(chunk.shape[1] for chunk in changed.chunks if id(chunk) not in kept)
            assert written / 20 <= n * max(2 * sorted_rows.CHUNK, 2 * size**0.5 + n)
        assert len(rows.chunks) <= max(size / sorted_rows.CHUNK, size**0.5) + 1
