"""Memory for arrays of many rows: what one has let go of within a step, the next ones have again.

The system clears a page when a process first writes to it, and of a virtual machine that gave its free memory back it
has to ask the host for the page before: that takes longer than most of what is done with the numbers on it. A step
makes many large arrays and lets go of most of them soon. With its end all that is free goes back to the system.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

__all__ = ["Reuse", "in_pages"]

_SIZE: Final = attrgetter("size")
_BACK_TO_THE_SYSTEM: Final = getattr(mmap, "MADV_DONTNEED", 4)


class _Stretch(NamedTuple):
    """Some of the pages that were asked of the system in one go."""

    pages: mmap.mmap
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def let_go(self) -> None:
        """Give them back to the system; their addresses go with the last of these pages."""
        self.pages.madvise(_BACK_TO_THE_SYSTEM, self.start, self.size)


class Reuse:
    """A context that a step runs in: pages that are free within it, for the thread of the step.

    With those that are free, arrays never take more than they took at most without them: then some go back.
    """

    def __init__(self) -> None:
        self._given_back: deque[_Stretch] = deque()
        """Free since somebody last looked: an array may go at any moment, in the midst of a look, too."""
        self._free: list[_Stretch] = []
        self._free_bytes = 0
        self._taken = 0
        """How many bytes arrays have more than when the step began."""
        self._most_taken = 0
        self._before: Reuse | None = None

    def __enter__(self) -> Self:
        self._before, _HERE.reuse = _HERE.reuse, self
        return self

    def __exit__(self, *_: object) -> None:
        _HERE.reuse = self._before
        if self._free or self._given_back:
            self._collect()
            for stretch in self._free:
                stretch.let_go()
            self._free.clear()

    def take(self, size: int) -> _Stretch | None:
        """Return pages with room for so many bytes, whatever is in them: of the fewest that are side by side."""
        self._collect()
        found = min((s for s in self._free if s.size >= size), key=_SIZE, default=None)
        if found is None:
            return None
        self._free.remove(found)
        end = found.start + whole(size)
        if end < found.stop:
            self._free.append(found._replace(start=end))
        self._free_bytes -= end - found.start
        self._taken += end - found.start
        return found._replace(stop=end)

    def add(self, size: int) -> None:
        """Have pages of so many bytes, which are new, taken."""
        self._taken += size
        self._most_taken = max(self._most_taken, self._taken)
        self._collect()

    def give_back(self, stretch: _Stretch) -> None:
        """Have pages free."""
        self._given_back.append(stretch)

    @property
    def bytes(self) -> int:
        """How large all that is free is."""
        self._collect()
        return self._free_bytes

    def _collect(self) -> None:
        """Put what was given back with what is free, neighbours as one; let go of what is too much."""
        while self._given_back:
            pages, start, stop = self._given_back.popleft()
            self._taken -= stop - start
            self._free_bytes += stop - start
            for beside in [s for s in self._free if s.pages is pages and (s.stop == start or s.start == stop)]:
                self._free.remove(beside)
                start, stop = min(start, beside.start), max(stop, beside.stop)
            self._free.append(_Stretch(pages, start, stop))
        while (excess := self._taken + self._free_bytes - self._most_taken) > 0 and self._free:
            oldest = self._free.pop(0)
            some = oldest._replace(start=max(oldest.start, oldest.stop - excess))
            if some.start > oldest.start:
                self._free.insert(0, oldest._replace(stop=some.start))
            some.let_go()
            self._free_bytes -= some.size


class _Here(threading.local):
    """What holds for a thread."""

    reuse: Reuse | None = None


_HERE: Final = _Here()


class _Holder:
    """What an array in pages rests on: once no array does, the pages are free."""

    __slots__ = ("__array_interface__", "_stretch")

    def __init__(self, stretch: _Stretch, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self._stretch = stretch
        address = np.frombuffer(stretch.pages, np.uint8).__array_interface__["data"][0] + stretch.start
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": kind.str, "data": (address, False)}

    def __del__(self, here: _Here = _HERE) -> None:
        if here.reuse is not None:
            here.reuse.give_back(self._stretch)
        else:
            self._stretch.let_go()


def in_pages(
    shape: int | tuple[int, int], kind: np.dtype[Any], size: int, *, zeros: bool = False, soon: bool = True
) -> npt.NDArray[Any]:
    """Return an array in pages of its own; those of ``zeros`` that are not written to ``soon`` have new ones.

    >>> with Reuse() as reuse:
    ...     first = in_pages(1_000_000, np.dtype(np.int64), 8_000_000)
    ...     del first
    ...     before = reuse.bytes
    ...     second = in_pages(500_000, np.dtype(np.int64), 4_000_000)
    ...     before, reuse.bytes
    (8003584, 4001792)
    """
    found = None if (zeros and not soon) or _HERE.reuse is None else _HERE.reuse.take(size)
    is_new = found is None
    if found is None:
        pages = mmap.mmap(-1, whole(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        found = _Stretch(pages, 0, whole(size))
        if _HERE.reuse is not None:
            _HERE.reuse.add(found.size)
    array = np.asarray(_Holder(found, shape if isinstance(shape, tuple) else (shape,), kind))
    if zeros and not is_new:
        array.fill(0)
    return array


def whole(size: int) -> int:
    """Return so many bytes and the rest of the last page."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
