"""Groups read in order from a spine, against sorted lists of copies: the first rows, the last ones, counts of rows."""

import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.functions.xxhash import xxhash64_of
from tidemill.expressions.types import INT64, STRING
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.trace import one_group, ordered_groups, row_order
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.ordered_groups import OrderedGroups
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction

KEYS = range(3)
INTEGERS = [NULL, -5, 0, 3, 9]
WORDS = [None, "", "b", "a", "characters", "characteristic"]  # of which two begin alike
change = st.tuples(st.sampled_from(KEYS), st.sampled_from(INTEGERS), st.integers(0, 5), st.integers(-1, 2))
script = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "commit", "rollback", "exert"]), st.lists(change, max_size=9)),
    max_size=12,
)


class Model:
    """Rows with counts; in order, as a list with each copy in it."""

    def __init__(self, interner, order):
        self.words = [NULL if w is None else interner.number(w) for w in WORDS]
        self._alphabet = sorted(w for w in WORDS if w is not None)
        self._interner = interner
        self._order = order
        self.counts = Counter()

    def apply(self, changes):
        for *row, n in changes:
            self.counts[tuple(row)] += n

    def rank(self, row):
        """What sorts as a row does."""
        ranks = [self._one(row[c.row], c) for c in self._order.columns]
        if self._order.row:
            values = [None if code == NULL else code for code in row]
            values[2] = None if row[2] == NULL else self._interner.object(row[2])
            hashed = self._order.hashed
            hash_of_row = xxhash64_of([values[c.row] for c in hashed], [c.dtype for c in hashed])
            ranks += [max(hash_of_row, 1 - 2**63), *(self._one(row[c.row], c) for c in self._order.row)]
        return ranks

    def _one(self, code, column):
        if code == NULL:
            return (0 if column.nulls_first else 2, 0)
        value = self._alphabet.index(self._interner.object(code)) if column.dtype == STRING else code
        return (1, -value if column.descending else value)

    def copies(self, key):
        rows = sorted((row for row, n in self.counts.items() if n > 0 and row[0] == key), key=self.rank)
        return [row for row in rows for _ in range(self.counts[row])]


@pytest.mark.slow
@pytest.mark.parametrize("text_first", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("limits", [(0, 0, 0, 3, 2), (1, 2, 1, 9, 4), (4, 4, 16, 64, 512)])
def test_against_sorted_lists(monkeypatch, text_first, descending, nulls_first, limits):  # noqa: PLR0917
    limit_all(monkeypatch, limits)

    def order_of(interner):
        columns = [SortColumn(i, t, descending, nulls_first) for i, t in ((1, INT64), (2, STRING))]
        return RowOrder(columns[::-1] if text_first else columns, interner)

    check(order_of)


@pytest.mark.slow
@pytest.mark.parametrize("few_tied", [1, 3, 32])
@pytest.mark.parametrize("by", [[], [1], [2]])
@pytest.mark.parametrize("limits", [(0, 0, 0, 3, 2), (1, 2, 1, 64, 4)])
def test_ties_against_sorted_lists(monkeypatch, few_tied, by, limits):
    for module in (row_order, ordered_groups):
        monkeypatch.setattr(module, "FEW_TIED", few_tied)
    limit_all(monkeypatch, limits)
    types = (INT64, INT64, STRING)

    def order_of(interner):
        columns, row = ([SortColumn(i, types[i]) for i in some] for some in (by, range(3)))
        return RowOrder(columns, interner, row, row[1:])

    check(order_of)


def limit_all(monkeypatch, limits):
    """Have few rows be many, in all that tells them apart."""
    for name, limit in zip(("SLACK", "SKIP_FROM", "SCAN"), limits, strict=False):
        monkeypatch.setattr(ordered_groups, name, limit)
    monkeypatch.setattr(one_group, "MOST", limits[-2])
    monkeypatch.setattr(spine_module, "TAIL", limits[-1])
    if limits[-1] < spine_module.FEW:  # merges in many small parts
        monkeypatch.setattr(spine_module, "PUSH_EFFORT", 1)
        monkeypatch.setattr(spine_module, "IDLE_EFFORT", 1)


def check(order_of):
    """Compare the groups of an order, which is made for an interner, with lists of rows."""

    @examples(40)
    @given(script)
    def of_actions(actions):
        interner, transaction = Interner(), Transaction()
        order = order_of(interner)
        model = Model(interner, order)
        now = 0
        spine = Spine(UpdateLayout((0,), (INT64, INT64, STRING), 1, 1, 1, order), lambda: Antichain([now]), transaction)
        groups = OrderedGroups(spine, order, transaction)
        committed = Counter()
        for action, changes in actions:
            if action == "apply":
                changed = [(k, v, model.words[w], n) for k, v, w, n in changes]
                updates = np.array([(*row[:3], now, row[3]) for row in changed], np.int64).reshape(-1, 5).T
                spine.append(updates)
                groups.added(updates)
                model.apply(changed)
            elif action == "rollback":
                transaction.rollback()
                model.counts = committed.copy()
            else:
                transaction.commit()
                committed = model.counts.copy()
                now += 1
                if action == "exert":
                    spine.exert()
            compare(groups, model, now)

    of_actions()


def compare(groups, model, now):
    """Ask for all there is to be asked."""
    keys, until = np.array([[*KEYS, 0]]), np.full(len(KEYS) + 1, now)
    for count in (1, 2, 7):
        for last in (False, True):
            owner, rows = groups.first(keys, until, count, last=last)
            assert owner.tolist() == sorted(owner.tolist())
            for i, key in enumerate(keys[0].tolist()):
                copies = model.copies(key)[::-1] if last else model.copies(key)
                found = rows[:, owner == i].T.tolist()
                assert [tuple(row) for *row, n in found for _ in range(n)] == copies[:count]
                alone = groups.first(keys[:, i : i + 1], until[:1], count, last=last)
                assert alone[0].tolist() == [0] * len(found)
                assert alone[1].T.tolist() == found
    known = groups.first(keys, until, 1, non_null=1)[1]
    expected = [next((row for row in model.copies(key) if row[1] != NULL), None) for key in (*KEYS, 0)]
    assert [tuple(row) for *row, _ in known.T.tolist()] == [row for row in expected if row is not None]
    for i in range(len(KEYS)):
        alone = groups.first(keys[:, i : i + 1], until[:1], 1, non_null=1)[1]
        assert alone.T.tolist() == known.compress(known[0] == keys[0, i], axis=1)[:, :1].T.tolist()
    every = [(key, integer, word) for key in KEYS for integer in INTEGERS for word in model.words]
    counts = groups.counts(np.array(every).T, np.full(len(every), now))
    assert counts.tolist() == [model.counts[row] for row in every]
    for row in every[::7]:
        assert groups.counts(np.array([row]).T, until[:1]).tolist() == [model.counts[row]]


def test_rows_are_there_from_their_times_on():
    order = RowOrder([SortColumn(0, INT64)], Interner())
    spine = Spine(UpdateLayout((), (INT64,), 1, 1, 1, order), lambda: Antichain([0]), Transaction())
    groups = OrderedGroups(spine, order, Transaction())
    for time in range(3):
        rows = 600 * (3 - time) - np.arange(600)  # later rows come before
        spine.append(np.stack((rows, np.full(600, time), np.ones(600, np.int64))))
    keys, until = np.empty((0, 3), np.int64), np.arange(3)
    owner, rows = groups.first(keys, until, 2)
    assert owner.tolist() == [0, 0, 1, 1, 2, 2]
    assert rows[0].tolist() == [1201, 1202, 601, 602, 1, 2]
    assert groups.counts(np.array([[1201, 601, 601]]), np.array([0, 0, 1])).tolist() == [1, 0, 1]


@pytest.mark.parametrize("last", [False, True])
def test_what_is_read_does_not_grow_with_what_has_cancelled(monkeypatch, last):
    """A row that goes is first each time: what has gone before is passed over once."""
    order, transaction, now = RowOrder([SortColumn(0, INT64)], Interner()), Transaction(), 0
    spine = Spine(UpdateLayout((), (INT64,), 1, 1, 1, order), lambda: Antichain([now]), transaction)
    groups = OrderedGroups(spine, order, transaction)
    size = 20_000
    spine.append(np.stack((np.arange(size), np.zeros(size, np.int64), np.ones(size, np.int64))))
    read = []
    sort, sort_few = RowOrder.sorted, RowOrder.in_order
    monkeypatch.setattr(RowOrder, "sorted", lambda s, rows, *given: read.append(len(rows[0])) or sort(s, rows, *given))
    monkeypatch.setattr(RowOrder, "in_order", lambda s, rows, **how: read.append(len(rows)) or sort_few(s, rows, **how))
    most = []
    for now in range(1, 2001):
        read.clear()
        _, rows = groups.first(np.empty((0, 1), np.int64), np.array([now]), 1, last=last)
        most.append(sum(read))
        row = int(rows[0, 0])
        assert row == (size - now if last else now - 1)
        gone = np.array([[row], [now], [-1]])
        spine.append(gone)
        groups.added(gone)
        transaction.commit()
    assert max(most) < 100  # before it is first remembered what has gone
    assert max(most[-500:]) <= max(most[500:1000]) < 30


def test_what_came_in_the_tail_and_went_in_a_batch_is_not_there():
    """Found by CI: where all rows had cancelled, batches were passed over and the tail was not."""
    order, transaction = RowOrder([SortColumn(0, INT64)], Interner()), Transaction()
    spine = Spine(UpdateLayout((), (INT64,), 1, 1, 1, order), lambda: Antichain([0]), transaction)
    groups = OrderedGroups(spine, order, transaction)

    def add(rows, diff):
        updates = np.stack((rows, np.zeros_like(rows), np.full_like(rows, diff)))
        spine.append(updates)
        groups.added(updates)

    def first():
        found = groups.first(np.empty((0, 1), np.int64), np.array([0]), 1)[1]
        transaction.commit()
        return found[0].tolist()

    add(np.arange(100), 1)  # few: they lie in the tail
    add(np.arange(100, 2000), 1)
    assert first() == [0]
    add(np.arange(1000), -1)  # many: a batch of their own
    assert first() == [1000]
    assert first() == [1000]


@pytest.mark.parametrize("size", [3, 50_000])
@pytest.mark.parametrize("last", [False, True])
def test_many_rows_are_not_looked_at_one_by_one(last, size):
    """Found by review: once one group had lost its first rows, a load took thrice as long, for a loop over its rows."""
    order, transaction = RowOrder([SortColumn(1, INT64)], Interner()), Transaction()
    spine = Spine(UpdateLayout((0,), (INT64, INT64), 1, 1, 1, order), lambda: Antichain([0]), transaction)
    groups = OrderedGroups(spine, order, transaction)
    calls = []

    def add(key, rows, diff):
        updates = np.stack((np.full_like(rows, key), rows, np.zeros_like(rows), np.full_like(rows, diff)))
        spine.append(updates)
        calls.clear()
        sys.setprofile(lambda _, event, __: calls.append(event))
        groups.added([*updates])
        sys.setprofile(None)

    def first():
        found = groups.first(np.array([[1, 2]]), np.array([0, 0]), 1, last=last)[1]
        transaction.commit()
        return found[1].tolist()

    sign = -1 if last else 1
    for key in (1, 2):
        add(key, np.arange(1000) * sign, 1)
        add(key, np.arange(500) * sign, -1)
    assert first() == [500 * sign] * 2
    add(3, np.arange(size), 1)
    assert len(calls) < 300
    assert first() == [500 * sign] * 2
    add(2, (400 - np.arange(size) % 400) * sign, 1)
    assert len(calls) < 300
    assert first() == [500 * sign, (1 if size > 400 else 398) * sign]


@pytest.mark.parametrize("columns", [[(1, INT64)], [(2, STRING), (1, INT64)]])
def test_a_group_with_more_rows_than_there_is_effort_for_is_merged_in_parts(monkeypatch, columns):
    """All of a group was merged at once: of a million rows, in an epoch that changed one."""
    interner, transaction, dice = Interner(), Transaction(), np.random.default_rng(1)
    order = RowOrder([SortColumn(*column) for column in columns], interner)
    spine = Spine(UpdateLayout((0,), (INT64, INT64, STRING), 1, 1, 1, order), lambda: Antichain([9]), transaction)
    words = np.array([interner.number(f"characters {i:04}" if i % 2 else f"{i}") for i in range(1000)])
    rows = np.stack((np.zeros(30_000, np.int64), dice.integers(0, 9000, 30_000), words[dice.integers(0, 1000, 30_000)]))

    def add(rows, diff):
        n = rows.shape[1]
        spine.append(np.concatenate((rows, np.arange(n)[None] % 9, np.full((1, n), diff))))

    monkeypatch.setattr(spine_module, "PUSH_EFFORT", 0)
    monkeypatch.setattr(spine_module, "IDLE_EFFORT", 1000)
    add(rows, 1)
    add(rows[:, :15_000], -1)
    sizes = []
    compacted = UpdateLayout.compacted
    monkeypatch.setattr(
        UpdateLayout, "compacted", lambda s, found, *args: sizes.append(found.shape[1]) or compacted(s, found, *args)
    )
    while spine.view.merges:
        transaction.join(spine, spine.view)
        transaction.commit()
    assert len(spine.view.batches) == 1
    assert sum(sizes) > 40_000
    assert max(sizes) < (24_000 if columns[0][1] == STRING else 3000)  # half the words begin alike
    expected = Counter(map(tuple, rows[:, 15_000:].T.tolist()))
    assert Counter({tuple(row): n for *row, _, n in spine.all_updates().T.tolist()}) == expected
