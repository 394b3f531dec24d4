"""Arrays of many rows, in memory pages of the ordinary size.

NumPy asks for huge pages where an array is large. The system clears each anew when it is first written to, and a
virtual machine that hands free memory back to its host has to ask the host for it first: of a load of five million
rows that was half of the processor time. Ordinary pages that were given back lately are at hand.
"""

import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels import pages

LARGE: Final = pages.LARGE
_FEW: Final = LARGE >> 4
"""How many numbers of any type take less."""
_BYTES: Final = attrgetter("nbytes")

_FEW_PAGES: Final = 1 << 17


def empty(shape: int | tuple[int, int], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an array that is to be written to, whatever is in it now.

    >>> empty((2, 1_000_000)).shape
    (2, 1000000)
    """
    rows, columns = shape if isinstance(shape, tuple) else (1, shape)
    if rows * columns < _FEW or size_of(shape, dtype) < LARGE:
        return np.empty(shape, dtype)
    return _in_pages(shape, dtype, zeros=False)


def zeros(shape: int | tuple[int, int], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an array of zeros; those that nobody writes to take no memory.

    >>> int(zeros(1_000_000).sum())
    0
    """
    rows, columns = shape if isinstance(shape, tuple) else (1, shape)
    if rows * columns < _FEW or size_of(shape, dtype) < LARGE:
        return np.zeros(shape, dtype)
    return _in_pages(shape, dtype, zeros=True)


def cleared(shape: int | tuple[int, int], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an array of zeros that is written to soon, most of it: memory that is at hand is cleared for it.

    >>> int(cleared(1_000_000).sum())
    0
    """
    rows, columns = shape if isinstance(shape, tuple) else (1, shape)
    if rows * columns < _FEW or size_of(shape, dtype) < LARGE:
        return np.zeros(shape, dtype)
    return _in_pages(shape, dtype, zeros=True, soon=True)


def concatenate(arrays: Sequence[npt.NDArray[Any]], axis: int = 0) -> npt.NDArray[Any]:
    """Return arrays of one type one after the other, as ``np.concatenate`` does.

    >>> concatenate([np.array([7]), np.array([8, 9])])
    array([7, 8, 9])
    """
    if sum(map(_BYTES, arrays)) < LARGE:
        return np.concatenate(arrays, axis=axis)
    shape = list(arrays[0].shape)
    shape[axis] = sum([array.shape[axis] for array in arrays])
    result = empty(shape[0] if len(shape) == 1 else (shape[0], shape[1]), arrays[0].dtype)
    return np.concatenate(arrays, axis=axis, out=result)


def stack(rows: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return rows of one type as a matrix, as ``np.stack`` does.

    >>> stack([np.array([7, 8]), np.array([9, 10])])
    array([[ 7,  8],
           [ 9, 10]])
    """
    if sum(map(_BYTES, rows)) < LARGE:
        return np.array(rows)  # as np.stack, which takes its time
    return np.stack(rows, out=empty((len(rows), len(rows[0])), rows[0].dtype))


class Room:
    """A matrix with filled first rows: the other rows have nothing in them, and are for who needs them.

    Those are the ones that mostly say the same over and over, the time and the count. While the rows are handed on one
    by one they take no memory; who wants a matrix then need not copy what is there (`whole`).
    """

    __slots__ = ("__array_interface__", "_others", "matrix", "taken")

    def __init__(self, matrix: npt.NDArray[Any], taken: int) -> None:
        self.matrix = matrix
        self.taken = taken
        """How many rows have something in them."""
        self._others: list[int] | None = None
        self.__array_interface__ = matrix.__array_interface__

    def rows(self) -> list[npt.NDArray[Any]]:
        """Return the rows with something in them."""
        return list(np.asarray(self)[: self.taken])

    def has_with(self, others: list[int]) -> bool:
        """Return whether the other rows repeat these numbers: they do from the first time on that some are given."""
        if self._others is None:
            self._others = others
            for row, number in zip(self.matrix[self.taken :], others, strict=True):
                row.fill(number)
        return self._others == others


def repeated(number: int, count: int) -> npt.NDArray[np.int64]:
    """Return a number ``count`` times, which takes no memory.

    >>> repeated(7, 3)
    array([7, 7, 7])
    """
    return np.ndarray(count, np.int64, np.int64(number), strides=(0,))  # as np.broadcast_to, which takes its time


def whole(rows: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return rows as a matrix, as `stack` does: where they are those of a `Room`, and its others repeated, its own.

    Nobody may write to it any more: others may have it, too.

    >>> room = Room(zeros((3, 2)), 1)
    >>> whole([*room.rows(), repeated(7, 2), repeated(1, 2)]) is room.matrix, room.matrix.tolist()
    (True, [[0, 0], [7, 7], [1, 1]])

    Those who come later, with something else in the others, get a matrix of their own.

    >>> whole([*room.rows(), repeated(7, 2), repeated(-1, 2)]).tolist(), room.matrix.tolist()
    ([[0, 0], [7, 7], [-1, -1]], [[0, 0], [7, 7], [1, 1]])
    """
    base = rows[0].base
    room = None if base is None else getattr(base, "base", None)
    if not isinstance(room, Room) or room.matrix.shape != (len(rows), len(rows[0])) or not len(rows[0]):
        return stack(rows)
    matrix, taken = room.matrix, room.taken
    if any(row.strides[0] for row in rows[taken:]) or any(
        row.base is not base or row.strides != own.strides or row.ctypes.data != own.ctypes.data
        for row, own in zip(rows[:taken], matrix, strict=False)
    ):
        return stack(rows)
    return matrix if room.has_with([row.item(0) for row in rows[taken:]]) else stack(rows)


def apart(count: int) -> npt.NDArray[Any]:
    """Return ``count`` zeros in pages of their own, if these are more than a few.

    What is held for a while beside much that stays would leave holes between it, too small for what comes next.

    >>> int(apart(1_000).sum())
    0
    """
    return (
        np.zeros(count, np.int64) if size_of(count, np.int64) < _FEW_PAGES else _in_pages(count, np.int64, zeros=True)
    )


def size_of(shape: int | tuple[int, int], dtype: npt.DTypeLike) -> int:
    """Return the bytes of an array."""
    rows, columns = shape if isinstance(shape, tuple) else (1, shape)
    return rows * columns * np.dtype(dtype).itemsize


def _in_pages(
    shape: int | tuple[int, int], dtype: npt.DTypeLike, *, zeros: bool, soon: bool = False
) -> npt.NDArray[Any]:
    """Return an array whose memory is free again with it; ``soon`` it is written to."""
    if sys.platform != "linux":  # where NumPy asks for nothing
        return np.zeros(shape, dtype) if zeros else np.empty(shape, dtype)
    return pages.in_pages(shape, np.dtype(dtype), size_of(shape, dtype), zeros=zeros, soon=soon)
