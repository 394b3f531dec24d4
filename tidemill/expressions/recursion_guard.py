"""Room for recursion: what goes deep into an expression is done again on a larger stack, where the caller's ended."""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

from tidemill.errors import SchemaError

P = ParamSpec("P")
R = TypeVar("R")

MAX_DEPTH: Final = 1000
"""How deep expressions may be nested; conditions joined by AND, or by OR, count as one level, however many they are."""

_FRAMES: Final = 150_000
_STACK: Final = 512 << 20
"""Bytes of addresses, of which only those are taken that are used."""


def too_deep() -> SchemaError:
    """Return the error for an expression that is nested too deeply."""
    return SchemaError(
        f"an expression is nested more than {MAX_DEPTH:,} levels deep: compute a part of it in with_columns(...) before"
    )


def recursion_guard(function: Callable[P, R]) -> Callable[P, R]:
    """Return a pure function that, where the stack ends, is called again in a thread with a large one.

    >>> @recursion_guard
    ... def depth(n):
    ...     return depth_of(n)
    >>> def depth_of(n):
    ...     return 0 if n == 0 else 1 + depth_of(n - 1)
    >>> depth(20_000)
    20000
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            if _here.has_large_stack:
                raise
        return _elsewhere(functools.partial(function, *args, **kwargs))

    return run


class _Here(threading.local):
    has_large_stack = False


_here = _Here()


def _elsewhere(call: Callable[[], R]) -> R:
    found: list[R] = []
    failed: list[BaseException] = []
    context = contextvars.copy_context()
    done = threading.Event()

    def run() -> None:
        _here.has_large_stack = True
        try:
            with _limit.raised():  # for as long as this thread is at work, whatever becomes of the caller
                found.append(context.run(call))
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            failed.append(error)
        finally:
            done.set()

    _limit.started(run)
    try:
        done.wait()  # not join(), after which an interrupted thread counts as ended
    except BaseException:  # Ctrl-C: what the thread reads is the caller's, who may change it after this
        done.wait()
        raise
    if failed:
        raise failed[0]
    return found[0]


class _Limit:
    """Python's limit of frames, which is one for all threads, raised for as long as some thread has need of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    @contextmanager
    def raised(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, _FRAMES))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    sys.setrecursionlimit(self._before)

    def started(self, run: Callable[[], None]) -> None:
        with self._lock:
            before = threading.stack_size(_STACK)
            try:
                threading.Thread(target=run, name="tidemill deep expression", daemon=True).start()
            finally:
                threading.stack_size(before)


_limit: Any = _Limit()
