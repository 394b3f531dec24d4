"""Threads for work on many numbers: it is divided into shares that run side by side, with the same result.

NumPy and Arrow release the interpreter's lock while they sort, look up and compute. The number of threads is a setting
of the run (`tm.Embedded(threads=...)`); without one, as in Spark's workers, there is one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Final, TypeVar

SHARE: Final = 1 << 19
"""How many numbers a share has at least: with half as many, nothing is gained (``python -m benchmarks threads``)."""

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


class _Setting(threading.local):
    """How many threads a thread may use: 1 in those of the pool, so that none waits for another."""

    threads = 1


SETTING: Final = _Setting()


class _Pool:
    """The threads, made when they are first wanted. They wait for work, and end with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._size = 0
        self._executor: ThreadPoolExecutor | None = None

    def of(self, size: int) -> ThreadPoolExecutor:
        """Return the pool, of at least ``size`` threads."""
        with self._lock:
            if self._executor is None or self._size < size:  # one that is given up ends once nobody uses it
                self._executor, self._size = ThreadPoolExecutor(size, "tidemill-share"), size
            return self._executor


_pool = _Pool()


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shares(n: int) -> list[slice]:
    """Return slices that make up 0..n: one for each thread, but none for few numbers.

    >>> shares(1_000)
    [slice(0, 1000, None)]
    """
    count = min(SETTING.threads, n // SHARE)
    if count <= 1:
        return [slice(0, n)]
    return [slice(start, end) for start, end in pairwise(n * i // count for i in range(count + 1))]


def in_shares(work: Callable[[slice], None], n: int) -> None:
    """Do some work on all of n numbers: on shares of them side by side, where they are many.

    >>> in_shares(print, 3)
    slice(0, 3, None)
    """
    if n < 2 * SHARE or SETTING.threads == 1:
        work(slice(0, n))
    else:
        side_by_side(work, shares(n))


def side_by_side(work: Callable[[_Given], _Found], given: Sequence[_Given]) -> list[_Found]:
    """Return the results of a function for each of some things, computed side by side; raises once all have ended.

    >>> side_by_side(len, ["a", "bc"])
    [1, 2]
    """
    if len(given) <= 1 or SETTING.threads == 1:
        return [work(one) for one in given]
    executor = _pool.of(min(SETTING.threads, len(given)) - 1)
    others: list[Future[_Found]] = []
    try:
        others += [executor.submit(work, one) for one in given[1:]]
        first = work(given[0])
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


def _forget_threads() -> None:
    """Begin anew in a forked child, which has none of its parent's threads."""
    global _pool  # noqa: PLW0603 - one for the process
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
