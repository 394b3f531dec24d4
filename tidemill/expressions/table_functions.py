"""Table functions: from some values of a row to rows, worked out for whole columns at once."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.expressions.schema import Schema

Ints: TypeAlias = "npt.NDArray[np.int64]"
Row: TypeAlias = tuple[Any, ...]


class ListColumn(NamedTuple):
    """A column of lists, none of them NULL: the values of different lists end to end, and which list a row has.

    Many rows tend to have few lists.

    >>> ListColumn.of(pa.array([[1, 2], [], [3]])).offsets.tolist()
    [0, 2, 2, 3]
    """

    values: pa.Array
    offsets: Ints
    """Where each list begins among the values, and where the last one ends."""
    which: Ints
    """The list of each row."""

    @classmethod
    def of(cls, column: pa.Array) -> ListColumn:
        """Return an Arrow column of lists."""
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(column.flatten(), offsets - offsets[0], np.arange(len(column)))

    def to_arrow(self) -> pa.Array:
        """Return it as Arrow has it."""
        lists = pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), self.values)
        return lists.take(pa.array(self.which))

    @property
    def starts(self) -> Ints:
        """Where the list of each row begins."""
        return self.offsets.take(self.which)

    @property
    def ends(self) -> Ints:
        """Where the list of each row ends."""
        return self.offsets.take(self.which + 1)


Column: TypeAlias = "pa.Array | ListColumn"


def arrow_of(column: Column) -> pa.Array:
    """Return a column as an Arrow array."""
    return column.to_arrow() if isinstance(column, ListColumn) else column


class TableFunction(abc.ABC):
    """A pure function from a row of arguments to rows, given twice: as its meaning, and on columns.

    `rows` says what it is, in plain Python. `columns` has to give the same, row after row, and is what engines that
    work on columns call. An error in `columns` has the row that is at fault looked for with `rows`. Rows may come that
    never were, such as pairs of a join of different times, if what is made of them cancels.
    """

    @property
    def name(self) -> str:
        """What the graph and errors call it."""
        return type(self).__name__.strip("_")

    @abc.abstractmethod
    def schema(self, arguments: Schema) -> Schema:
        """Return the columns of the rows that it gives for arguments of these types."""

    @abc.abstractmethod
    def rows(self, *arguments: Any) -> Iterable[Row]:
        """Return the rows for one row of arguments."""

    @abc.abstractmethod
    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        """Return the rows for all rows of arguments, as columns, and for each the place of the row it is made from.

        The places ascend. Columns are Arrow arrays, but those of lists, none of which is NULL, are a `ListColumn`; the
        result may have either.
        """


@attrs.frozen
class TableCall:
    """A table function applied to columns of a row: gives the columns that are kept beside each row it makes.

    It can be called as a user's function of a row is.
    """

    function: TableFunction
    arguments: tuple[int, ...]
    kept: tuple[int, ...]

    def describe(self) -> str:
        """Return the function's name."""
        return self.function.name

    def __call__(self, row: Sequence[Any]) -> list[Row]:
        """Return the rows made from a row."""
        kept = tuple(row[i] for i in self.kept)
        return [(*kept, *made) for made in self.function.rows(*(row[i] for i in self.arguments))]
