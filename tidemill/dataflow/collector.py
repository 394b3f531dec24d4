"""Python's cyclic garbage collector, paused while graphs are planned, compiled and drawn.

What these make is there to stay, and the collector would walk through all of it each time that some more has come: with
5,000 operators that took two fifths of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector within the block, or in calls of the function that this decorates.

    >>> import gc
    >>> with collector_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
