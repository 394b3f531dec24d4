"""Numbers for objects that do not fit a code: texts, bytes, lists, large decimals."""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import truths_of, value_array
from tidemill.renderer.embedded.kernels.updates import Bools, Ints

_SAMPLE: Final = 10_000
SHORT: Final = 1 << 62
"""The code of the first number of a large decimal; of those that are not large all sizes are below it."""


def is_large(code: int) -> bool:
    """Return whether a code, which is not NULL's, stands for a large decimal, which has a number."""
    return not -SHORT <= code < SHORT


def number_of(code: int) -> int:
    """Return the number of the large decimal that a code stands for: 2**62 more, of negative ones the complement."""
    return (code if code >= 0 else ~code) - SHORT


_LOADED: Final = ("_numbers", "_objects", "_free")


@attrs.frozen
class Piece:
    """Where objects that have adjacent numbers are stored."""

    count: int
    members: tuple[Any, ...]
    """The arrays of a file that say what they are."""


class Interner:
    """Numbers for objects: equal objects, equal numbers. One serves a whole run."""

    def __init__(self) -> None:
        self._begin()
        self._load: Callable[[Interner], object] | None = None
        """Adds objects when they are first asked for; None where all are here."""
        self._array = np.empty(0, object)
        self._filled = 0
        self._leading = np.empty(0, np.int64)
        """The `leading_number` of each object, as far as anybody asked, and room for more."""
        self._led = 0
        self.pieces: tuple[Piece, ...] = ()
        """Where the first objects are stored. Their numbers are not given to others."""
        self.room: int | None = 0
        """How many there may be before somebody looks which are in use; None where nobody knows."""

    def load_later(self, load: Callable[[Interner], object]) -> None:
        """Have what ``load`` adds, and nothing else, once anybody asks for an object or a number."""
        self.forget()
        self._load = load
        for name in _LOADED:
            delattr(self, name)

    def load(self) -> None:
        """Have all objects."""
        len(self._objects)

    @property
    def is_loaded(self) -> bool:
        """Whether the objects are here."""
        return "_objects" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        """Return what is not there yet: see `load_later`."""
        load: Callable[[Interner], object] | None = self.__dict__.get("_load")
        if name not in _LOADED or load is None:
            raise AttributeError(name)
        self._load = None
        self._begin()
        try:
            load(self)
            self._find_free()
        except BaseException:  # interrupted, or damaged: nothing of it is there
            self.load_later(load)
            raise
        return getattr(self, name)

    def _begin(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._objects: list[Any] = []
        self._free: list[int] = []
        """The numbers of objects that were released, and may be given to others."""

    def add_all(self, values: list[Any]) -> None:
        """Give different objects the next numbers; None for one that was released.

        One that was there was released after it had been stored, and stored again under this number.
        """
        for value in filter(self._numbers.__contains__, values):
            self._objects[self._numbers[value]] = None
        self._numbers.update(zip(values, itertools.count(len(self._objects)), strict=False))
        self._numbers.pop(None, None)
        self._objects += values

    def number(self, value: Any) -> int:
        """Return the number of an object, a new one if it was never seen."""
        found = self._numbers.get(value)
        if found is None:
            if self._free:
                return self._reuse(value)
            found = len(self._objects)
            # The object first: Ctrl-C between the two may leave an object too many, and no number without one.
            self._objects.append(value)
            self._numbers[value] = found
        return found

    def numbers(self, values: list[Any]) -> Ints:
        """Return the numbers of objects, new ones of those that were never seen."""
        found = list(map(self._numbers.get, values))
        if self._free:
            found = [self.number(v) if n is None else n for v, n in zip(values, found, strict=True)]
        elif None in found:
            new = list(dict.fromkeys([v for v, n in zip(values, found, strict=True) if n is None]))
            numbers = range(len(self._objects), len(self._objects) + len(new))
            self._objects += new
            self._numbers.update(zip(new, numbers, strict=True))
            found = list(map(self._numbers.__getitem__, values))
        return np.array(found, np.int64)

    @property
    def stored(self) -> int:
        """How many objects, the first ones, are stored in pieces."""
        return sum(piece.count for piece in self.pieces)

    def keep_stored(self, pieces: tuple[Piece, ...]) -> None:
        """Have the first objects stored in these pieces: their numbers are not given to others from now on."""
        self.pieces = pieces
        if self.is_loaded:
            self._free = [n for n in self._free if n >= self.stored]

    def _reuse(self, value: Any) -> int:
        number = self._free.pop()
        self._objects[number] = value
        if number < self._filled:
            self._array[number] = value
        if number < self._led:
            self._leading[number] = leading_number(value)
        self._numbers[value] = number
        return number

    def objects(self, numbers: Ints) -> Any:
        """Return an object array of what the numbers stand for."""
        size = len(self._objects)
        if len(self._array) < size:
            grown = np.empty(2 * size, object)
            grown[: self._filled] = self._array[: self._filled]
            self._array = grown
        if self._filled < size:
            self._array[self._filled : size] = self._objects[self._filled :]
            self._filled = size
        return self._array.take(numbers)

    def leading(self, numbers: Ints) -> Ints:
        """Return the `leading_number` of what the numbers stand for; of NULL, some number."""
        size = len(self._objects)
        if len(self._leading) <= size:
            grown = np.zeros(2 * size + 1, np.int64)
            grown[: self._led] = self._leading[: self._led]
            self._leading = grown
        if self._led < size:
            self._leading[self._led : size] = leading_numbers(self._objects[self._led :])
            self._led = size
        return self._leading.take(numbers, mode="clip")

    def leading_of(self, number: int) -> int:
        """Return the `leading_number` of what one number stands for."""
        return self._leading.item(number) if number < self._led else leading_number(self._objects[number])

    def values(self) -> list[Any]:
        """Return all objects, in the order of their numbers."""
        return self._objects

    def unused(self, used: Bools, *, lists: bool = True) -> Ints:
        """Return the numbers of objects that are not used: neither marked here nor in a list that is.

        ``lists`` says whether there may be lists among them.
        """
        live = np.fromiter(self._numbers.values(), np.int64, len(self._numbers))
        if lists:
            self._mark_in_lists(used, live.compress(used.take(live)))
        return live.compress(~used.take(live))

    def _mark_in_lists(self, used: Bools, numbers: Ints) -> None:
        lists = [n for n in numbers.tolist() if isinstance(self._objects[n], tuple)]
        while lists:
            for code in self._objects[lists.pop()]:  # nobody knows of which type: at worst too much is kept
                number = number_of(code) if is_large(code) else code
                if 0 <= number < len(used) and not used[number]:
                    used[number] = True
                    if isinstance(self._objects[number], tuple):
                        lists.append(number)

    def release(self, unused: Ints) -> None:
        """Give up the objects with these numbers, which others get from now on."""
        numbers, objects = self._numbers, self._objects
        for number in unused.tolist():
            del numbers[objects[number]]
            objects[number] = None
        if len(unused) > len(numbers):  # a dict keeps the room of what was deleted
            self._numbers = dict(numbers)
        while objects and objects[-1] is None:
            objects.pop()
        self._find_free()
        self._array = np.empty(0, object)
        self._filled = self._led = 0

    def _find_free(self) -> None:
        """Have others get the numbers of what was released; those of what is stored too, where that is mostly such."""
        if self.stored > min(len(self._objects), 2 * len(self._numbers)):
            self.pieces = ()
        stored = self.stored
        self._free = [n for n, value in enumerate(self._objects[stored:], stored) if value is None]

    def forget(self) -> None:
        """Begin anew with no objects."""
        self._begin()
        self._load = None
        self.pieces = ()
        self._array = np.empty(0, object)
        self._filled = self._led = 0

    def object(self, number: int) -> Any:
        return self._objects[number]

    @property
    def live(self) -> int:
        """How many objects are held in memory."""
        return len(self._numbers) if self.is_loaded else 0

    @property
    def bytes(self) -> int:
        """How much memory they take, about: of many, some are looked at."""
        if not self.is_loaded:
            return 0
        held = len(self._numbers)
        step = max(1, held // _SAMPLE)
        sample = [sys.getsizeof(value) for value in itertools.islice(self._numbers, 0, None, step)]
        own = sys.getsizeof(self._numbers) + sys.getsizeof(self._objects) + self._array.nbytes
        return own + (sum(sample) * held // len(sample) if sample else 0)

    def __len__(self) -> int:
        return len(self._objects)


_BYTES: Final = 8
_MIDDLE: Final = 2**63
_LARGE: Final = 2**62


def leading_numbers(values: list[Any]) -> Ints:
    """Return the `leading_number` of each, of texts alone all at once."""
    try:
        texts = value_array([None if v is None else v[:_BYTES] for v in values], pa.string())
    except (pa.ArrowException, TypeError, UnicodeError):  # something else, or surrogates
        return np.array(list(map(leading_number, values)), np.int64)
    _, ends, content = texts.buffers()
    begins = np.frombuffer(ends, np.int32)[: len(values) + 1]
    data = np.frombuffer(content or b"", np.uint8)
    first = np.zeros((len(values), _BYTES), np.uint8)
    for at in range(_BYTES):
        has = np.flatnonzero(begins[1:] - begins[:-1] > at)
        first[has, at] = data[begins[has] + at]
    numbers = (first.view(">u8")[:, 0].astype(np.uint64) ^ np.uint64(_MIDDLE)).view(np.int64)
    return np.where(truths_of(texts.is_null()), 0, numbers)


def leading_number(value: Any) -> int:
    """Return an int64 that never falls where values of its type rise: of text and bytes, the first eight bytes.

    Text is ordered by code points, as its bytes are. A large number, of at least 62 bits, has the beginning of its size
    as a float, above or below all shorter numbers. All lists have the same.

    >>> leading_number("ab") < leading_number("b"), leading_number("characters") == leading_number("characteristic")
    (True, True)
    >>> leading_number(-(2**90)) < -(2**62) <= 2**62 <= leading_number(2**62) < leading_number(2**90)
    True
    """
    if isinstance(value, (str, bytes)):
        first = value[:_BYTES].encode() if isinstance(value, str) else value
        return int.from_bytes(first[:_BYTES].ljust(_BYTES, b"\0")) - _MIDDLE
    if isinstance(value, int):
        bits: int = struct.unpack("<q", struct.pack("<d", abs(value)))[0]
        leading = _LARGE + (bits >> 2)
        return leading if value >= 0 else ~leading
    return 0
