"""Columns as table functions use them: as Arrow or Python values, compared, searched; lists and paths of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.rows import python_values
from tidemill.expressions.table_functions import Column, Ints, ListColumn, arrow_of

_FEW: Final = 4
"""Up to how many lists searching each by itself beats searching all at once."""


def column_values(column: Column) -> list[Any]:
    """Return the values of a column as Python's, lists as tuples."""
    return python_values(arrow_of(column))


class Lists(NamedTuple):
    """Columns of lists of equal lengths: each column's values end to end, the lists' offsets, and each row's list."""

    values: list[pa.Array]
    offsets: Ints
    which: Ints

    @property
    def starts(self) -> Ints:
        """Where the lists of each row begin."""
        return self.offsets.take(self.which)

    @property
    def ends(self) -> Ints:
        """Where the lists of each row end."""
        return self.offsets.take(self.which + 1)

    @property
    def lengths(self) -> Ints:
        """How long each of the lists is."""
        return np.diff(self.offsets)


def lined_up(*columns: ListColumn) -> Lists:
    """Return columns of lists with the values of a row at the same places, whatever lists are the same in each.

    >>> a = ListColumn(pa.array([1, 2, 3]), np.array([0, 2, 3]), np.array([0, 1, 0]))
    >>> b = ListColumn(pa.array([7, 8, 9, 7, 7]), np.array([0, 2, 3, 5]), np.array([0, 1, 2]))
    >>> [c.to_pylist() for c in lined_up(a, b).values], lined_up(a, b).which.tolist()
    ([[1, 2, 1, 2, 3], [7, 8, 7, 7, 9]], [0, 2, 1])
    """
    first, *others = columns
    both = first.which
    for column in others:
        if not np.array_equal(both, column.which):
            both = np.unique(both * len(column.offsets) + column.which, return_inverse=True)[1]
    if all(np.array_equal(both, column.which) for column in columns):
        return Lists([c.values for c in columns], first.offsets, both)
    some, which = different(both)
    values = []
    for column in columns:
        starts = column.starts.take(some)
        lengths = column.ends.take(some) - starts
        values.append(column.values.take(pa.array(ranges(starts, lengths))))
    return Lists(values, np.concatenate((np.zeros(1, np.int64), lengths.cumsum())), which)


def different(numbers: Ints) -> tuple[Ints, Ints]:
    """Return where each different number first is, and for each number which of them it is.

    >>> [found.tolist() for found in different(np.array([7, 3, 7]))]
    [[1, 0], [1, 0, 1]]
    """
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first, np.int64), np.asarray(which, np.int64)


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return the numbers of ranges of these starts and lengths, end to end.

    >>> ranges(np.array([5, 9]), np.array([2, 1])).tolist()
    [5, 6, 9]
    """
    found: Ints = np.arange(int(lengths.sum())) + (starts - lengths.cumsum() + lengths).repeat(lengths)
    return found


# -- comparing --------------------------------------------------------------------------------------------------------


def comparable(*columns: pa.Array) -> list[npt.NDArray[Any]]:
    """Return arrays that compare as the columns' values do, also between columns; NULL is least.

    >>> a, b = comparable(pa.array([b"b", None]), pa.array([b"ba", b"a", b"b"]))
    >>> a.tolist(), b.tolist()
    ([2, 0], [3, 1, 2])
    """
    kind, t = columns[0].type, pa.types
    if t.is_binary(kind) or t.is_string(kind):
        width = _common_width(columns)
        null = any(c.null_count for c in columns)
        return _ranked(columns) if width is None else [_of_width(c, width, null) for c in columns]
    if t.is_decimal(kind) or t.is_floating(kind):
        return _ranked(columns)
    if t.is_boolean(kind):
        columns = tuple(c.cast(pa.int8()) for c in columns)
    elif not t.is_integer(kind):
        columns = tuple(c.view(pa.int32() if t.is_date32(kind) else pa.int64()) for c in columns)
    return [_whole_numbers(c) for c in columns]


def ordinals(column: pa.Array) -> Ints:
    """Return whole numbers from 0 on that compare as a column's values do; those for NULL are any."""
    (values,) = comparable(column)
    ranks: Ints = np.unique(values, return_inverse=True)[1]
    return ranks


def _whole_numbers(column: pa.Array) -> npt.NDArray[Any]:
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _common_width(columns: Sequence[pa.Array]) -> int | None:
    """Return the one length of all values, which NULL has too where it is alone; None where lengths differ."""
    width = 0
    for column in columns:
        if not len(column):
            continue
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        lengths = offsets[1:] - offsets[:-1]
        if column.null_count:
            lengths = lengths[column.is_valid().to_numpy(zero_copy_only=False)]
        width = width or int(lengths[:1].sum())
        if (lengths != width).any():
            return None
    return width or None


def _of_width(column: pa.Array, width: int, null: bool) -> npt.NDArray[Any]:
    """Return values of one length as NumPy compares bytes; where there may be NULL, after a byte that marks it."""
    if not null:
        if not len(column):
            return np.empty(0, f"S{width}")
        first = np.frombuffer(column.buffers()[1], np.int32, 1, 4 * column.offset)[0]
        return np.frombuffer(column.buffers()[2], f"S{width}", len(column), first)
    filled = column.cast(pa.binary()).fill_null(b"\0" * width)
    values = np.empty((len(column), width + 1), np.uint8)
    values[:, 0] = column.is_valid().to_numpy(zero_copy_only=False)
    if len(column):
        values[:, 1:] = np.frombuffer(filled.buffers()[2], np.uint8, len(column) * width).reshape(-1, width)
    return values.view(f"S{width + 1}").ravel()


def _ranked(columns: Sequence[pa.Array]) -> list[npt.NDArray[Any]]:
    whole = pa.concat_arrays(columns) if len(columns) > 1 else columns[0]
    encoded = whole.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()  # NaN last
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(1, len(order) + 1)
    indices = encoded.indices.fill_null(-1) if whole.null_count else encoded.indices
    ranks = np.append(places, 0).take(indices.to_numpy())
    return np.split(ranks, np.cumsum([len(c) for c in columns])[:-1])


def sort_key(place: Any) -> tuple[Any, ...]:
    """Return a key that sorts as a place or a value does, NULL least, NaN greatest, in lists, too.

    >>> sorted([(0,), (None,), (), (0, None)], key=sort_key)
    [(), (None,), (0,), (0, None)]
    """
    if place is None:
        return (0,)
    if isinstance(place, tuple):
        return 1, tuple(map(sort_key, place))
    return (2,) if place != place else (1, place)  # noqa: PLR0124 - NaN


# -- searching --------------------------------------------------------------------------------------------------------


def positions(lists: Lists, values: pa.Array, rows: Ints, wanted: pa.Array, side: Any) -> Ints:
    """Return where each wanted value is, or belongs, in the sorted list that a row has: its place among all values."""
    sorted_values, wanted = comparable(values, wanted)
    which = lists.which.take(rows) if len(rows) != len(lists.which) else lists.which
    if len(lists.offsets) <= _FEW + 1:
        found = np.empty(len(wanted), np.int64)
        for i, start in enumerate(lists.offsets[:-1].tolist()):
            of_list = (which == i).nonzero()[0]
            inside = sorted_values[start : lists.offsets[i + 1]]
            found[of_list] = inside.searchsorted(wanted.take(of_list), side) + start
        return found
    ranks = np.unique(np.concatenate((sorted_values, wanted)), return_inverse=True)[1]
    span = len(ranks) + 1
    owners = np.arange(len(lists.offsets) - 1).repeat(lists.lengths)
    keys = owners * span + ranks[: len(sorted_values)]
    return _searched(keys, which * span + ranks[len(sorted_values) :], side)


def _searched(keys: Ints, wanted: Ints, side: Any) -> Ints:
    found: Ints = keys.searchsorted(wanted, side)
    return found


def copy_numbers(places: pa.Array, offsets: Ints) -> Ints:
    """Return the number of each place among equal ones beside each other in its list."""
    if not len(places):
        return np.zeros(0, np.int64)
    (values,) = comparable(places)
    first = np.ones(len(values), np.bool_)
    first[1:] = values[1:] != values[:-1]
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    rows = np.arange(len(values))
    return rows - np.maximum.accumulate(np.where(first, rows, 0))


# -- paths ------------------------------------------------------------------------------------------------------------


def extended(paths: ListColumn, values: pa.Array, change: Ints) -> ListColumn:
    """Return each row's path with a value appended, by number, as it is (-1), without its last (-2), or empty (-3)."""
    both = paths.which * (len(values) + 3) + change + 3
    first, which = different(both)
    change = change.take(first)
    starts: Ints = paths.starts.take(first)
    lengths: Ints = paths.ends.take(first) - starts
    kept = np.where(change == -3, 0, lengths - (change == -2))  # noqa: PLR2004 - see above
    pool = pa.concat_arrays([paths.values, values])
    owner, more = np.arange(len(first)), (change >= 0).nonzero()[0]
    order = np.concatenate((owner.repeat(kept), more)).argsort(kind="stable")
    taken = np.concatenate((ranges(starts, kept), len(paths.values) + change.take(more))).take(order)
    offsets = np.concatenate((np.zeros(1, np.int64), (kept + (change >= 0)).cumsum()))
    return ListColumn(pool.take(pa.array(taken)), offsets, which)


def shortened(paths: ListColumn) -> tuple[ListColumn, pa.Array]:
    """Return each row's path without its last value, and that value."""
    ends = paths.offsets[1:]
    kept = np.ones(len(paths.values), np.bool_)
    kept[ends - 1] = False
    offsets = paths.offsets - np.arange(len(paths.offsets))
    outer = ListColumn(paths.values.filter(pa.array(kept)), offsets, paths.which)
    return outer, paths.values.take(pa.array(ends.take(paths.which) - 1))
