"""Memory that large arrays had in a step is what the next ones get, and the system's again behind it."""

import gc
import sys
import threading

import numpy as np
import pytest

import tidemill as tm
from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.memory import LARGE, cleared, empty, zeros
from tidemill.renderer.embedded.kernels.pages import Reuse
from tidemill.renderer.embedded.reduce import integer_sums

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere NumPy asks for ordinary pages itself")
COUNT = LARGE // 8


def _address(array):
    return array.__array_interface__["data"][0]


def test_an_array_gets_the_memory_of_one_that_is_gone():
    with Reuse() as reuse:
        first = empty(2 * COUNT)
        first.fill(7)
        at, view = _address(first), first[5:9]
        del first
        assert reuse.bytes == 0  # somebody still looks at it
        del view
        assert reuse.bytes == 16 * COUNT
        second, third = empty(COUNT), empty((2, COUNT // 2))
        assert {_address(second), _address(third)} == {at, at + 8 * COUNT}
        assert reuse.bytes == 0
        del second, third
        assert _address(empty(2 * COUNT)) == at  # neighbours are one again


def test_zeros_are_zeros_in_memory_that_was_written_to():
    with Reuse():
        for _ in range(3):
            for made in (zeros(COUNT), cleared((2, COUNT))):
                assert not made.any()
                made.fill(-1)


def test_what_is_left_of_a_step_stays_what_it_was_behind_it():
    with Reuse():
        gone, kept = empty(COUNT), empty(COUNT)
        gone.fill(1)
        kept[:] = np.arange(COUNT)
        del gone
        beside = empty(COUNT)
        beside.fill(3)
    after = empty(COUNT)
    after.fill(9)
    assert kept.tolist() == list(range(COUNT))
    assert (beside == 3).all()


def test_with_what_is_free_arrays_take_no_more_than_they_took_at_most():
    with Reuse() as reuse:
        small = [empty(COUNT) for _ in range(4)]
        del small
        large = empty(3 * COUNT)  # none of those is large enough
        assert large.nbytes + reuse.bytes <= 4 * 8 * COUNT
        del large
        assert reuse.bytes <= 4 * 8 * COUNT


def test_an_array_may_go_in_another_thread_or_between_steps():
    with Reuse() as reuse:
        made = [empty(COUNT)]
        thread = threading.Thread(target=made.clear)
        thread.start()
        thread.join()
        assert reuse.bytes == 0  # it went back to the system
        late = empty(COUNT)
    del late
    gc.collect()
    with Reuse() as reuse:
        assert reuse.bytes == 0


@pytest.mark.parametrize("most", [1, 255, 256, 512, 70_000])
def test_counts_in_bytes_are_right_or_none(most):
    """One number has so many rows: a byte that overflows twice over shows as well."""
    rows = np.concatenate([np.arange(5_000).repeat(20), np.full(most, 5_000)])
    rows = np.random.default_rng(1).permutation(rows)
    found = integer_sums._counted_in_bytes(5_001, rows.__getitem__, len(rows))
    if most < 256:
        assert found.tolist() == [20] * 5_000 + [most]
    else:
        assert found is None


@pytest.mark.parametrize("diff", [1, 3])
def test_groups_of_more_rows_than_a_byte_holds_are_counted(diff):
    rng = np.random.default_rng(2)
    keys = rng.permutation(np.concatenate([np.arange(2_000).repeat(20), np.full(600, 7), np.full(256, 9)]))
    flow = tm.Dataflow()
    flow.output("n", flow.input("rows", {"k": "int64"}).group_by("k").agg(n=tm.count()))
    with flow.start() as run:
        for _ in range(diff):
            run.insert("rows", [(int(k),) for k in keys])
        run.advance()
        counts = dict(list(run.snapshot("n")))
    assert (counts[7], counts[9], counts[8]) == (620 * diff, 276 * diff, 20 * diff)


def test_places_of_what_is_not_zero_are_found_a_part_at_a_time(monkeypatch):
    monkeypatch.setattr(sorting, "PART", 4)
    for numbers in ([0] * 9, [1] * 9, [0, 2, 0, 0, 0, 3, 4, 0, 5]):
        assert sorting.nonzero(np.array(numbers)).tolist() == np.flatnonzero(numbers).tolist()
