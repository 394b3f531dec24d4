"""Arrays of many rows, in memory pages of the ordinary size.

NumPy asks for huge pages where an array is large. The system clears each anew when it is first written to, and a
virtual machine that hands free memory back to its host has to ask the host for it first: of a load of five million
rows that was half of the processor time. Ordinary pages that were given back lately are at hand.
"""

import mmap
import sys
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LARGE: Final = 1 << 22
"""From so many bytes on NumPy asks for huge pages."""


def empty(shape: int | tuple[int, int], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an array that is to be written to, whatever is in it now.

    >>> empty((2, 1_000_000)).shape
    (2, 1000000)
    """
    return np.empty(shape, dtype) if size_of(shape, dtype) < LARGE else _in_pages(shape, dtype)


def zeros(shape: int | tuple[int, int], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an array of zeros; those that nobody writes to take no memory.

    >>> int(zeros(1_000_000).sum())
    0
    """
    return np.zeros(shape, dtype) if size_of(shape, dtype) < LARGE else _in_pages(shape, dtype)


def size_of(shape: int | tuple[int, int], dtype: npt.DTypeLike) -> int:
    """Return the bytes of an array."""
    rows, columns = shape if isinstance(shape, tuple) else (1, shape)
    return rows * columns * np.dtype(dtype).itemsize


def _in_pages(shape: int | tuple[int, int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros whose memory goes back to the system with it."""
    if sys.platform != "linux":  # where NumPy asks for nothing
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, size_of(shape, dtype), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype).reshape(shape)
