"""Sorted rows against a Counter: changes, rollback, first, last and head."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples

from tidemill.expressions.types import INT64, STRING
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.schedule import Schedule
from tidemill.renderer.embedded.trace import order_index as ordered
from tidemill.renderer.embedded.trace.order_index import OrderedRows, SortColumn

words = [None, "", "b", "a", "ab"]
change = st.tuples(st.integers(0, 2), st.sampled_from([NULL, -5, 0, 3, 9]), st.integers(0, 4), st.integers(-1, 2))
script = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "commit", "rollback"]), st.lists(change, max_size=6)), max_size=12
)


def no_frontier(_node):
    """A store alone asks for the frontier of no operator."""
    raise AssertionError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(ordered, "CHUNK", 2)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("rebuild", [1, 1000])
def test_against_a_counter(small, monkeypatch, descending, nulls_first, rebuild):
    monkeypatch.setattr(ordered, "REBUILD", rebuild)

    @examples(60)
    @given(script)
    def check(actions):
        interner = Interner()
        codes = [NULL if w is None else interner.number(w) for w in words]
        columns = [SortColumn(1, INT64, descending, nulls_first), SortColumn(2, STRING, descending, nulls_first)]
        rows = OrderedRows(1, 3, columns, Schedule(1, no_frontier), interner)
        model, committed = Counter(), Counter()
        for action, changes in actions:
            if action == "apply":
                block = np.array([(k, v, codes[w], n) for k, v, w, n in changes], np.int64).reshape(-1, 4).T
                negative = rows.apply(block)
                for k, v, w, n in changes:
                    model[k, v, codes[w]] += n
                touched = {(k, v, codes[w]) for k, v, w, _ in changes}
                below = {r for r in touched if model[r] < 0}
                assert {tuple(c) for c in negative[:3].T.tolist()} >= below
                if below:  # what the operator refuses, and undoes
                    rows.rollback()
                    model = committed.copy()
            elif action == "commit":
                rows.commit()
                committed = model.copy()
            else:
                rows.rollback()
                model = committed.copy()
            look(rows, model, interner, descending, nulls_first)

    check()


def look(rows, model, interner, descending, nulls_first):
    def rank(part, value):
        if value == NULL:
            return (0 if nulls_first else 2, 0)
        plain = sorted(w for w in words if w is not None).index(interner.object(value)) if part else value
        return (1, -plain if descending else plain)

    for key in range(3):
        group = sorted(
            ((r, n) for r, n in model.items() if n and r[0] == key),
            key=lambda rn: (rank(0, rn[0][1]), rank(1, rn[0][2])),
        )
        copies = [r for r, n in group for _ in range(n)]
        assert rows.first((key,)) == ([*group[0][0], group[0][1]] if group else None)
        assert rows.last((key,)) == ([*group[-1][0], group[-1][1]] if group else None)
        for count in (1, 2, 5):
            head = rows.head((key,), count)
            got = [tuple(c[:3]) for c in head.T.tolist() for _ in range(c[3])]
            assert got[:count] == copies[:count]
            assert len(got) >= min(count, len(copies))
