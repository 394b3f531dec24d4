"""How long a call takes."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes, by the clock on the wall."""
    start = perf_counter()
    work()
    return perf_counter() - start
