"""Columns written in one order, packed into words where they are of few bits: what comes is what NumPy takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.renderer.embedded.kernels import gathers, sorting, threads
from tidemill.renderer.embedded.kernels.gathers import Gathers
from tidemill.renderer.embedded.kernels.updates import NULL


@pytest.fixture(params=[1, 2])
def few_are_packed(monkeypatch, request):
    """By one thread, and by two."""
    monkeypatch.setattr(gathers, "LEAST", 2)
    monkeypatch.setattr(gathers, "PART", 3)
    monkeypatch.setattr(sorting, "PART", 3)
    monkeypatch.setattr(threads, "SHARE", 4)
    monkeypatch.setattr(threads.SETTING, "threads", request.param)


BOUNDS = [0, 1, -1, 5, 2**31, -(2**31), 2**40 - 1, 2**40, 2**62, -(2**62), 2**63 - 1, NULL + 1, NULL]


@pytest.mark.usefixtures("few_are_packed")
@examples(300)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.sampled_from(BOUNDS), st.integers(0, 45)), min_size=1, max_size=7),
    st.integers(1, 30),
    st.integers(0, 2**32),
)
def test_what_is_written_is_what_is_taken(rows, columns, count, seed):
    dice = np.random.default_rng(seed)
    order = dice.integers(0, rows, count)
    given_columns = []
    for first, bits in columns:
        numbers = first + dice.integers(0, 1 << bits, rows).astype(object)
        numbers = np.array([max(NULL, min(int(number), 2**63 - 1)) for number in numbers], np.int64)
        if dice.random() < 0.2:
            numbers[dice.integers(rows)] = NULL
        given_columns.append(numbers)
    found = np.full((len(columns), count), 77)
    gathers_at_work = Gathers(order)
    for numbers, result in zip(given_columns, found, strict=True):
        gathers_at_work.add(numbers, result)
    gathers_at_work.finish()
    assert found.tolist() == [numbers.take(order).tolist() for numbers in given_columns]


@pytest.mark.usefixtures("few_are_packed")
@pytest.mark.parametrize(
    ("bits", "words"),
    [([20, 20, 20], 1), ([20, 20, 25], 1), ([40, 24], 1), ([40, 25], 0), ([41, 3], 0), ([30, 30, 30, 30], 2), ([9], 0)],
)
def test_as_many_columns_are_packed_as_a_word_holds(monkeypatch, bits, words):
    packed = []
    unpack = gathers._unpack
    monkeypatch.setattr(gathers, "_unpack", lambda *given: (packed.append(given), unpack(*given)))
    order, found = np.array([3, 1, 0, 2]), np.empty((len(bits), 4), np.int64)
    columns = [np.array([0, 1, 2, 2**some - 1]) - 5 for some in bits]
    at_work = Gathers(order)
    for numbers, result in zip(columns, found, strict=True):
        at_work.add(numbers, result)
    at_work.finish()
    assert len(packed) == words
    assert found.tolist() == [numbers.take(order).tolist() for numbers in columns]


def test_columns_are_let_go_of_once_they_are_written():
    """A column that was written is not held; one that waits is."""
    order = np.arange(4)
    at_work = Gathers(order)
    at_work.add(np.arange(4), np.empty(4, np.int64))
    assert not at_work._waiting, "so few are written at once"
