"""What table functions of SQL do: the elements of a list, values that are written out, series of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, Row, TableFunction
from tidemill.expressions.types import INT64

_MOST_NUMBERS = 10_000_000
"""How many numbers the series of one row may have: more would rather be a mistake."""


@attrs.frozen
class Numbered(TableFunction):
    """Values one after another, with their places before them if these are asked for."""

    names: tuple[str, ...]
    """Those of the columns: of the place, if it is asked for, and of the value."""
    first: int | None = None
    """The number of the first place."""
    takes_null: ClassVar[bool] = False
    """Whether an argument may be NULL; else there are no rows for one that is."""

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def schema(self, arguments: Schema) -> Schema:
        dtype = arguments.fields[0].dtype
        value = Field(self.names[-1], dtype.element or dtype)
        return Schema((value,) if self.first is None else (Field(self.names[0], INT64, nullable=False), value))

    def numbered(self, values: Iterable[Any]) -> list[Row]:
        """Return the rows of one row."""
        return [(v,) if self.first is None else (i, v) for i, v in enumerate(values, self.first or 0)]

    def numbered_columns(self, values: pa.Array, lengths: Ints) -> tuple[Ints, list[Column]]:
        """Return the rows, of which so many belong to each of those they are made from."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        if self.first is None:
            return owner, [values]
        begins = np.cumsum(lengths) - lengths
        return owner, [pa.array(np.arange(len(owner)) - begins.take(owner) + self.first), values]


@attrs.frozen
class Elements(Numbered):
    """The elements of a list."""

    def rows(self, *arguments: Any) -> Iterable[Row]:
        return self.numbered(arguments[0])

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        (given,) = arguments
        lists = given if isinstance(given, ListColumn) else ListColumn.of(given)
        lengths = lists.ends - lists.starts
        shift = np.repeat(lists.starts - (np.cumsum(lengths) - lengths), lengths)
        return self.numbered_columns(lists.values.take(pa.array(shift + np.arange(len(shift)))), lengths)


@attrs.frozen
class Each(Numbered):
    """Each of the arguments."""

    takes_null: ClassVar[bool] = True

    def rows(self, *arguments: Any) -> Iterable[Row]:
        return self.numbered(arguments)

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        rows, width = len(arguments[0]), len(arguments)
        by_row = np.arange(rows * width).reshape(width, rows).T.reshape(-1)
        values = pa.concat_arrays(list(arguments)).take(pa.array(by_row))
        return self.numbered_columns(values, np.full(rows, width))


@attrs.frozen
class Series(Numbered):
    """The numbers from a first one, so far apart, to a last one, which itself may be meant or not."""

    closed: bool = True

    def rows(self, *arguments: Any) -> Iterable[Row]:
        return self.numbered(_numbers(*arguments, closed=self.closed))

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        given = zip(*(a.to_pylist() for a in arguments), strict=True)
        series = [_numbers(*some, closed=self.closed) for some in given]
        values = np.concatenate([np.zeros(0, np.int64), *(np.arange(s.start, s.stop, s.step) for s in series)])
        return self.numbered_columns(pa.array(values, pa.int64()), np.array([len(s) for s in series], np.int64))


def _numbers(start: int, stop: int, step: int, *, closed: bool) -> range:
    if step == 0:
        msg = f"a series from {start} to {stop} in steps of 0"
        raise ValueError(msg)
    found = range(start, stop + (1 if step > 0 else -1) * closed, step)
    if len(found) > _MOST_NUMBERS:
        msg = f"a series of {len(found):,} numbers, from {start} to {stop}: expected at most {_MOST_NUMBERS:,}"
        raise ValueError(msg)
    return found
