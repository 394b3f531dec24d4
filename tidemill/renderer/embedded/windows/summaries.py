"""Mergeable summaries of row ranges: counts, exact sums, extremes, and the values at an end.

The rows of a large partition before those of an excerpt, or after them, are not looked at one by one: a frame that
has all of them needs their number, their exact sum, or their least or greatest value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary import exact_sums
from tidemill.boundary.exact_sums import Exact
from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import (
    Interner,
    float_values,
    has_codes_in_order,
    is_long_decimal,
    leading_numbers,
    order_key,
)
from tidemill.renderer.embedded.kernels.long_decimals import values_of
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, largest

__all__ = [
    "ALL", "MANTISSA", "Extreme", "RunningSummaries", "Summarise", "Summary", "exact_floats", "summariser",
    "together",
]  # fmt: skip

ALL: Final = sys.maxsize
MANTISSA: Final = 53
_HALF: Final = 32
_LOW: Final = (1 << _HALF) - 1


class Summary(NamedTuple):
    """A kind of summary of a column."""

    kind: str
    """``non-null`` counts values, ``some`` is 1 where there are any; ``whole`` and ``floats`` add them up.

    ``squares`` and ``floats squared`` add up their squares. ``least`` and ``greatest`` are codes, NULL for none, or an
    `Extreme` of types whose codes are not in the order of the values.
    ``first`` and ``last`` are tuples of some codes, from an end on; ``first non-null`` and ``last non-null`` of those
    that are not NULL.
    """
    column: int
    most: int = 1
    """How many codes from an end on; `ALL` of them."""


class Extreme(NamedTuple):
    """A code, with what sorts as its value does."""

    key: Any
    code: int


Value: TypeAlias = int | Exact | Extreme | tuple[int, ...]


Summarise: TypeAlias = Callable[[Summary, Ints], Any]
"""Returns the summary of rows whose codes in its column are given."""


def summariser(types: Sequence[DType] | Mapping[int, DType], interner: Interner) -> Summarise:
    """Return the function that summarises codes of columns of these types."""

    def summarise(wanted: Summary, codes: Ints) -> Any:
        if wanted.kind not in _ENDS:
            return _OF_ROWS[wanted.kind](codes, types[wanted.column], interner)
        if wanted.kind in ("first non-null", "last non-null"):
            codes = codes.compress(codes != NULL)
        return tuple(_ENDS[wanted.kind](codes, wanted.most).tolist())

    return summarise


def together(wanted: Summary, values: Iterable[Any]) -> Any:
    """Return the summary of rows from those of parts of them, in their order."""
    if wanted.kind in _ENDS:
        return _ENDS[wanted.kind](tuple(chain.from_iterable(values)), wanted.most)
    return _TOGETHER[wanted.kind](values)


def exact_floats(values: Any) -> tuple[Any, int]:
    """Return finite floats as objects, whole numbers, and the negative power of two that is their unit."""
    mantissas, exponents = np.frexp(values)
    unit = int(exponents.min(initial=0)) - MANTISSA
    whole = np.ldexp(mantissas, MANTISSA).astype(np.int64).astype(object)
    return whole << (exponents.astype(np.int64) - MANTISSA - unit).astype(object), unit


class RunningSummaries:
    """Summaries of the first part of some rows, the first two, and so on; backwards from the last part."""

    def __init__(self, *, backwards: bool = False) -> None:
        self._backwards = backwards
        self._of_first: dict[Summary, list[Any]] = {}

    def of(self, wanted: Summary, count: int, part: Callable[[int], Any]) -> list[Any]:
        """Return the summary of ``count`` parts, each summarised by a function, as a list; empty for none."""
        cached = self._of_first.setdefault(wanted, [])
        while len(cached) < count:
            pair = [*cached[-1:], part(len(cached))]
            cached.append(together(wanted, pair[::-1] if self._backwards else pair))
        return cached[count - 1 : count] if count else []

    def forget(self, count: int) -> None:
        """Forget the summaries of more than ``count`` parts."""
        for cached in self._of_first.values():
            del cached[count:]


def _non_null(codes: Ints, _dtype: DType, _interner: Interner) -> int:
    return int(np.count_nonzero(codes != NULL))


def _some(codes: Ints, _dtype: DType, _interner: Interner) -> int:
    return int((codes != NULL).any())


def _whole(codes: Ints, dtype: DType, interner: Interner) -> int:
    if not is_long_decimal(dtype) and largest(codes) * len(codes) <= INT64_LIMIT:  # so there is no NULL: mostly
        return int(np.add.reduce(codes))
    codes = codes.compress(codes != NULL)
    numbers = values_of(codes, interner) if is_long_decimal(dtype) else codes
    if numbers.dtype == object:
        return int(numbers.sum())
    return (int((numbers >> _HALF).sum()) << _HALF) + int((numbers & _LOW).sum())


def _squares(codes: Ints, dtype: DType, interner: Interner) -> int:
    codes = codes.compress(codes != NULL)
    numbers = (values_of(codes, interner) if is_long_decimal(dtype) else codes).astype(object)
    return int((numbers * numbers).sum())


def _floats(codes: Ints, _dtype: DType, _interner: Interner, *, squared: bool = False) -> Exact:
    values = float_values(codes.compress(codes != NULL))
    finite = values.compress(np.isfinite(values))
    numbers, unit = exact_floats(finite)
    if squared:
        numbers, unit = numbers * numbers, 2 * unit
    special = (np.count_nonzero(np.isnan(values)), *(np.count_nonzero(values == s * np.inf) for s in (1, -1)))
    return Exact(int(numbers.sum()) if len(finite) else 0, unit, *map(int, special))


def _least(codes: Ints, dtype: DType, interner: Interner) -> int | Extreme:
    values = codes.compress(codes != NULL)
    if has_codes_in_order(dtype) or not len(values):
        return int(values.min()) if len(values) else NULL
    numbers = leading_numbers(values, dtype, interner)
    return min(_extremes(values.compress(numbers == numbers.min()), dtype, interner))


def _greatest(codes: Ints, dtype: DType, interner: Interner) -> int | Extreme:
    if has_codes_in_order(dtype):
        return int(codes.max(initial=NULL))  # NULL is the least there is
    values = codes.compress(codes != NULL)
    if not len(values):
        return NULL
    numbers = leading_numbers(values, dtype, interner)
    return max(_extremes(values.compress(numbers == numbers.max()), dtype, interner))


def _extremes(codes: Ints, dtype: DType, interner: Interner) -> Iterator[Extreme]:
    """Iterate over codes, each once: few, since their values begin alike."""
    return (Extreme(order_key(code, dtype, interner), code) for code in set(codes.tolist()))


_OF_ROWS: Final[dict[str, Callable[[Ints, DType, Interner], Value]]] = {
    "non-null": _non_null, "some": _some, "whole": _whole, "squares": _squares, "floats": _floats,
    "floats squared": partial(_floats, squared=True), "least": _least, "greatest": _greatest,
}  # fmt: skip


def _first(codes: Any, count: int) -> Any:
    return codes[:count]


def _last(codes: Any, count: int) -> Any:
    return codes[-count:]


_ENDS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "first": _first, "first non-null": _first, "last": _last, "last non-null": _last,
}  # fmt: skip


_TOGETHER: Final[dict[str, Callable[[Iterable[Any]], Any]]] = {
    "non-null": sum,
    "some": partial(max, default=0),
    "whole": sum,
    "squares": sum,
    "floats": exact_sums.together,
    "floats squared": exact_sums.together,
    "least": lambda values: min((v for v in values if v != NULL), default=NULL),
    "greatest": lambda values: max((v for v in values if v != NULL), default=NULL),
}
