"""Several columns in one order: those of few bits are packed into words, so that one look finds a row's numbers.

A random order of millions of rows misses the caches at each look, in every column. To pack columns and to unpack them
goes through memory in its order, which costs a fraction of that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.pages import settle
from tidemill.renderer.embedded.kernels.sorting import PART, Words, gather, parts
from tidemill.renderer.embedded.kernels.threads import in_shares

LEAST: Final = 1 << 20
"""Fewer numbers of a column stay in the caches, mostly."""
_NARROW: Final = 40
"""Numbers of more bits leave hardly room for others in a word."""
_WORD: Final = 64

_Ints = npt.NDArray[np.int64]


class _Waiting(NamedTuple):
    """A column that waits for others to be packed with."""

    numbers: _Ints
    least: int
    bits: int
    result: _Ints


class Gathers:
    """Columns that are written in an order somewhere, each at once or with some that are added after it.

    >>> result = np.empty((2, 3), np.int64)
    >>> gathers = Gathers(np.array([2, 0, 1]))
    >>> gathers.add(np.array([7, 8, 9]), result[0])
    >>> gathers.add(np.array([-1, -2, -3]), result[1])
    >>> gathers.finish()
    >>> result.tolist()
    [[9, 7, 8], [-3, -1, -2]]
    """

    def __init__(self, order: _Ints) -> None:
        self._order = order
        self._waiting: list[_Waiting] = []
        self._bits = 0

    def add(self, numbers: _Ints, result: _Ints) -> None:
        """Have the numbers of a column written in the order; they are held until they are."""
        least, bits = self._range(numbers)
        if bits > _NARROW:
            gather(numbers, self._order, result)
            return
        if self._bits + bits > _WORD:
            self.finish()
        self._waiting.append(_Waiting(numbers, least, bits, result))
        self._bits += bits

    def finish(self) -> None:
        """Write what was not written yet."""
        waiting, self._waiting, self._bits = self._waiting, [], 0
        if len(waiting) == 1:
            gather(waiting[0].numbers, self._order, waiting[0].result)
        elif waiting:
            words, places = _packed(waiting), [some[1:] for some in waiting]
            waiting.clear()
            settle()  # what is in the words need not be held beside them
            _unpack(words, self._order, places)

    def _range(self, numbers: _Ints) -> tuple[int, int]:
        """Return the least of some numbers, and how many bits the others have from there; too many of few numbers."""
        n = len(self._order)
        if n < LEAST or len(numbers) > 2 * n or not numbers.strides[0]:
            return 0, _WORD
        for some in (numbers[:PART], numbers):
            least = int(some.min())
            bits = (int(some.max()) - least).bit_length()
            if bits > _NARROW:
                break
        return least, bits


def _packed(columns: list[_Waiting]) -> Words:
    """Return for each row a word of the numbers in it, the last one's in the lowest bits."""
    first, *others = columns
    words = empty(len(first.numbers), np.uint64)

    def put(share: slice) -> None:
        for part in parts(share.stop, share.start):
            some = words[part]
            np.subtract(first.numbers[part], first.least, out=some.view(np.int64))
            for numbers, least, bits, _ in others:
                some <<= np.uint64(bits)
                some |= (numbers[part] - least).view(np.uint64)

    in_shares(put, len(words))
    return words


def _unpack(words: Words, order: _Ints, columns: list[tuple[int, int, _Ints]]) -> None:
    """Write the numbers of words in an order, of each column from its least on, and of as many bits as it says."""

    def put(share: slice) -> None:
        for part in parts(share.stop, share.start):
            some = words.take(order[part], mode="clip")
            for least, bits, result in reversed(columns):
                numbers = result[part]
                np.bitwise_and(some, np.uint64((1 << bits) - 1), out=numbers.view(np.uint64))
                numbers += least
                some >>= np.uint64(bits)

    in_shares(put, len(order))
