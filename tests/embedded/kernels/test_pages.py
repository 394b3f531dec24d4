"""Memory that large arrays had in a step is what the next ones get, and the system's again after it."""

import _thread
import ctypes
import gc
import mmap
import signal
import sys
import threading
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import tidemill as tm
from tidemill.renderer.embedded.kernels import gathers, sorting
from tidemill.renderer.embedded.kernels.memory import LARGE, apart, cleared, empty, zeros
from tidemill.renderer.embedded.kernels.pages import Reuse
from tidemill.renderer.embedded.kernels.sorting import gather
from tidemill.renderer.embedded.reduce import integer_sums
from tidemill.renderer.embedded.trace.batch import UpdateLayout

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
        _in_a_thread(made.clear)
        assert reuse.bytes == 8 * COUNT
        late = [empty(COUNT) for _ in range(2)]
    del late
    gc.collect()
    with Reuse() as reuse:
        assert reuse.bytes == 0


def test_pages_that_arrays_share_go_back_to_the_system_one_after_another():
    with Reuse():
        both = empty(2 * COUNT)
        del both
        first, second = empty(COUNT), empty(COUNT)
    first.fill(7)
    second.fill(8)
    gone_from = _address(first)
    assert _address(second) - gone_from in (8 * COUNT, -8 * COUNT)
    del first
    assert ctypes.c_int64.from_address(gone_from).value == 7  # until somebody looks
    with Reuse():
        assert ctypes.c_int64.from_address(gone_from).value == 0
    assert (second == 8).all()


def test_pages_that_arrays_share_go_back_in_a_step_of_any_thread():
    """As where a pool of threads takes the steps, in turn."""
    held = []

    def step():
        with Reuse():
            both = empty(2 * COUNT)
            del both
            held.extend(empty(COUNT) for _ in range(2))
        held[0].fill(7)

    _in_a_thread(step)
    gone_from, kept = _address(held[0]), held.pop()
    kept.fill(8)
    held.clear()

    def look():
        with Reuse():
            held.append(ctypes.c_int64.from_address(gone_from).value)

    _in_a_thread(look)
    assert held == [0]
    assert (kept == 8).all()


def _in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_what_there_is_no_memory_for_is_told_as_by_numpy():
    """Rather than by an OSError, which is what a full disk is told by."""
    with pytest.raises(MemoryError, match=f"no memory for an array of {2**62:,} bytes"):
        empty(2**59)


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_is_not_lost_as_an_array_goes():
    """What runs as something goes may raise what it will: Python says so, and goes on."""
    with Reuse():
        made = [empty(COUNT)]
        with pytest.raises(KeyboardInterrupt):  # pressed within one call, in which the array goes afterwards
            deque(zip(map(_thread.interrupt_main, [signal.SIGINT]), map(made.pop, [0]), strict=False), maxlen=0)
        assert not made


def test_ctrl_c_as_a_step_ends_leaves_no_memory_behind(monkeypatch):
    """Pressed where it raises before anything is done: arrays of the step go back to the system with themselves."""

    def pressed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reuse, "__exit__", pressed)
        with pytest.raises(KeyboardInterrupt), Reuse():
            made = empty(COUNT)
    at = _address(made)
    assert _is_mapped(at)
    del made
    assert not _is_mapped(at)


def _is_mapped(address):
    with Path("/proc/self/maps").open(encoding="ascii") as lines:  # one by one: a list could be put at the address
        for line in lines:
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            if start <= address < end:
                return True
    return False


def test_what_is_copied_to_zeros_little_by_little_goes_back_to_the_system():
    with Reuse() as reuse:
        rows = [empty(COUNT) for _ in range(4)]
        copies = zeros((4, COUNT))
        for copy in copies:
            copy[:] = rows.pop()
            assert reuse.bytes == 0
        assert reuse.bytes == 0


def test_rows_are_let_go_of_one_after_another_as_they_are_put_in_order(monkeypatch):
    rng, layout = np.random.default_rng(3), UpdateLayout((0, 1), (None,) * 4, 1, 1)
    held = []
    with Reuse() as reuse:
        rows = [empty(COUNT) for _ in range(6)]
        for row in rows:
            row[:] = rng.integers(0, 1_000, COUNT)
        del row

        def gathered(*given):
            held.append(len(reuse._places))
            gather(*given)

        monkeypatch.setattr(gathers, "gather", gathered)
        found = layout.batch_and_order(rows)[0]
    assert found.array.shape == (6, COUNT)
    assert held == sorted(held, reverse=True)
    assert held[0] - held[-1] == 5


def test_rows_are_not_held_beside_the_words_that_they_are_packed_into(monkeypatch):
    rng, layout = np.random.default_rng(3), UpdateLayout((0, 1), (None,) * 4, 1, 1)
    monkeypatch.setattr(gathers, "LEAST", 1)
    packed, unpack, held = gathers._packed, gathers._unpack, []
    with Reuse() as reuse:
        rows = [empty(COUNT) for _ in range(6)]
        for row in rows:
            row[:] = rng.integers(0, 1_000, COUNT)
        del row

        def noted(work):
            def noting(*given):
                held.append(len(reuse._places))
                return work(*given)

            return noting

        monkeypatch.setattr(gathers, "_packed", noted(packed))
        monkeypatch.setattr(gathers, "_unpack", noted(unpack))
        found = layout.batch_and_order(rows)[0]
    assert found.array.shape == (6, COUNT)
    assert held[0] - held[1] == 5, "six rows less, and the words"


def test_a_step_may_end_with_memory_that_is_locked():
    c_library = ctypes.CDLL(None, use_errno=True)
    with Reuse():
        array = empty(COUNT)
        at = ctypes.c_void_p(_address(array)), ctypes.c_size_t(mmap.PAGESIZE)
        if c_library.mlock(*at):
            pytest.skip("this process may not lock memory")
        beside = empty(COUNT)
        del array
    assert len(beside) == COUNT


def test_what_is_too_small_to_be_had_again_goes_at_once():
    with Reuse() as reuse:
        array = apart(LARGE // 8 - 1)
        assert not reuse._places
        del array
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
