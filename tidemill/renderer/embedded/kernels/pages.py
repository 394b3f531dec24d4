"""Memory for arrays of many rows: pages that one array releases within a step are reused by the next ones.

The system clears a page when a process first writes to it, and of a virtual machine that gave its free memory back it
has to ask the host for the page before: that takes longer than most of what is done with the numbers on it. A step
makes many large arrays and lets go of most of them soon. With its end all that is free goes back to the system.

Nothing is run when an array goes: in what Python runs then, Ctrl-C is lost. Whoever wants pages looks which are free.
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from operator import attrgetter
from sys import getrefcount
from typing import Any, Final, NamedTuple, Self
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

LARGE: Final = 1 << 22
"""From this many bytes on NumPy asks for huge pages; and arrays have memory that others let go of."""
_SIZE: Final = attrgetter("size")
_BACK_TO_THE_SYSTEM: Final = getattr(mmap, "MADV_DONTNEED", 4)
_IN_A_LIST_ALONE: Final = next(map(getrefcount, [object()]))
"""The reference count that ``map(getrefcount, objects)`` gives for an object held only by that list."""


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
        with suppress(OSError):  # of a process that has all of its memory locked they stay, and nobody has them
            self.pages.madvise(_BACK_TO_THE_SYSTEM, self.start, self.size)


class _Place:
    """The base of arrays in pages: once no array has it, these are free."""

    __slots__ = ("__array_interface__", "stretch")

    def __init__(self, stretch: _Stretch, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.stretch = stretch
        address = np.frombuffer(stretch.pages, np.uint8).__array_interface__["data"][0] + stretch.start
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": kind.str, "data": (address, False)}


def _left(places: list[_Place]) -> list[_Stretch]:
    """Return the pages of places that no array rests on any more, and take these out of the list."""
    counts = list(map(getrefcount, places))
    if _IN_A_LIST_ALONE not in counts:
        return []
    found = [place.stretch for place, n in zip(places, counts, strict=True) if n == _IN_A_LIST_ALONE]
    places[:] = [place for place, n in zip(places, counts, strict=True) if n != _IN_A_LIST_ALONE]
    return found


class Reuse:
    """A context that a step runs in: pages that are free within it, for the thread of the step.

    With those that are free, arrays never take more than they took at most without them: then some go back.
    """

    def __init__(self) -> None:
        self._places: list[_Place] = []
        """Of the arrays made within the step; some of these may be gone since somebody last looked."""
        self._free: list[_Stretch] = []
        self._free_bytes = 0
        self._taken = 0
        """How many bytes the arrays have that were made within the step."""
        self._most_taken = 0
        self._before: ReferenceType[Reuse] | None = None

    def __enter__(self) -> Self:
        _let_go_of_parts()
        self._before, _HERE.reuse = _HERE.reuse, ref(self)
        return self

    def __exit__(self, *_: object) -> None:
        _HERE.reuse = self._before
        if not self._places and not self._free:
            return
        self.collect()
        for stretch in self._free:
            stretch.let_go()
        self._free.clear()
        _PARTS.extend([place for place in self._places if place.stretch.size < len(place.stretch.pages)])
        self._places.clear()  # with an array that has all of its pages, these go
        _let_go_of_parts()

    def take(self, size: int) -> _Stretch | None:
        """Return pages with room for ``size`` bytes, whatever is in them: of the fewest that are side by side."""
        self.collect()
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

    def add(self, size: int, *, soon: bool) -> None:
        """Have pages of ``size`` bytes, which are new, taken; ``soon`` all of them are written to.

        Else they are there little by little, often while what is copied to them goes: then that goes to the system.
        """
        self.collect()
        self._taken += size
        if soon:
            self._most_taken = max(self._most_taken, self._taken)
        self._let_go_of_excess()

    def hold(self, place: _Place) -> None:
        """Have an array's pages free once it is gone."""
        self._places.append(place)

    @property
    def bytes(self) -> int:
        """How large all that is free is."""
        self.collect()
        return self._free_bytes

    def collect(self) -> None:
        """Return the pages of arrays that are gone to the free list, neighbours merged; give back what is too much."""
        left = _left(self._places)
        if not left:
            return
        for pages, start, stop in left:
            self._taken -= stop - start
            self._free_bytes += stop - start
            for beside in [s for s in self._free if s.pages is pages and (s.stop == start or s.start == stop)]:
                self._free.remove(beside)
                start, stop = min(start, beside.start), max(stop, beside.stop)  # noqa: PLW2901
            self._free.append(_Stretch(pages, start, stop))
        self._let_go_of_excess()

    def _let_go_of_excess(self) -> None:
        while (excess := self._taken + self._free_bytes - self._most_taken) > 0 and self._free:
            oldest = self._free.pop(0)
            some = oldest._replace(start=max(oldest.start, oldest.stop - excess))
            if some.start > oldest.start:
                self._free.insert(0, oldest._replace(stop=some.start))
            some.let_go()
            self._free_bytes -= some.size


class _Here(threading.local):
    """The pages that a thread may reuse."""

    reuse: ReferenceType[Reuse] | None = None
    """Nobody but the step holds it: where Ctrl-C comes as that ends, nothing stays behind."""


_HERE: Final = _Here()


def _reuse() -> Reuse | None:
    """Return what a step of this thread runs in."""
    return None if _HERE.reuse is None else _HERE.reuse()


_PARTS: Final[list[_Place]] = []
"""Of arrays that steps left behind and that share their pages with others: each's go back when it is gone."""


def _let_go_of_parts() -> None:
    """Give pages back of arrays that are gone since the step in which they were made, whatever thread took that."""
    looked_at: list[_Place] = []
    with suppress(IndexError):
        while _PARTS:  # taken one by one: other threads do so, too
            looked_at.append(_PARTS.pop())
    for stretch in _left(looked_at):
        stretch.let_go()
    _PARTS.extend(looked_at)


def in_pages(
    shape: int | tuple[int, int], kind: np.dtype[Any], size: int, *, zeros: bool = False, soon: bool = True
) -> npt.NDArray[Any]:
    """Return an array in pages of its own; those of ``zeros`` that are not written to ``soon`` have new ones.

    >>> with Reuse() as reuse:
    ...     first = in_pages(1 << 20, np.dtype(np.int64), 1 << 23)
    ...     del first
    ...     before = reuse.bytes
    ...     second = in_pages(1 << 19, np.dtype(np.int64), 1 << 22)
    ...     before, reuse.bytes
    (8388608, 4194304)
    """
    reuse = _reuse() if size >= LARGE else None
    found = None if reuse is None or (zeros and not soon) else reuse.take(size)
    is_new = found is None
    if found is None:
        if reuse is not None:
            reuse.add(whole(size), soon=soon or not zeros)
        found = _new(whole(size))
    place = _Place(found, shape if isinstance(shape, tuple) else (shape,), kind)
    if reuse is not None:
        reuse.hold(place)
    array = np.asarray(place)
    if zeros and not is_new:
        array.fill(0)
    return array


def _new(size: int) -> _Stretch:
    try:
        return _Stretch(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), 0, size)
    except OSError as error:  # which is what a failing disk is told by; NumPy says the same of what it asks for
        msg = f"the system has no memory for an array of {size:,} bytes ({error})"
        raise MemoryError(msg) from error


def settle() -> None:
    """Give back to the system what is too much of the memory of arrays that are gone: who makes new ones does, too."""
    reuse = _reuse()
    if reuse is not None:
        reuse.collect()


def whole(size: int) -> int:
    """Return ``size`` rounded up to whole pages."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
