"""Tables of updates: the rows' columns, with one for each coordinate of time and one for the diff."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt

from tidemill.boundary.arrow_arrays import numbers_of
from tidemill.boundary.results import Updates, time_names
from tidemill.boundary.rows import COUNT_LIMIT, Batch
from tidemill.boundary.tables import Source, as_table, checked_table
from tidemill.errors import RowError, SchemaError
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64


@attrs.frozen
class Names:
    """The names that the columns of time and diff have for users."""

    times: tuple[str, ...]
    diff: str

    @classmethod
    def of(cls, coordinates: Sequence[str], time: str | None, diff: str) -> Self:
        """Return the names for a dataflow's coordinates; ``time`` renames the one of times with one coordinate."""
        if len(coordinates) != 1 and time is not None:
            msg = f"time={time!r}: times have the coordinates {tuple(coordinates)}, whose columns go by these names"
            raise SchemaError(msg)
        return cls(tuple(time_names(coordinates, time)), diff)

    def check(self, schema: Schema, where: str) -> None:
        """Refuse a schema whose columns clash with those of time and diff."""
        whole = [*schema.names, *self.times, self.diff]
        if len(set(whole)) < len(whole):
            msg = f"{where}: columns {whole} clash: rename them with time= and diff=, or rename the columns"
            raise SchemaError(msg)


@attrs.frozen(eq=False)
class UpdateTable:
    """Checked rows, and the time and diff of each."""

    rows: Batch
    times: npt.NDArray[np.int64]
    """A row for each update, a column for each coordinate."""
    diffs: npt.NDArray[np.int64]


def table_of_updates(schema: Schema, data: Any, where: str, named: Names) -> UpdateTable | None:
    """Return a table or file of updates, checked but for the frontier; None for what is neither.

    Results of runs are none, but triples: their columns go by position.
    """
    if isinstance(data, Updates):
        return None
    names = [*named.times, named.diff]
    whole = Schema((*schema, *(Field(name, INT64, nullable=False) for name in names if name not in schema)))
    if isinstance(data, Source):
        named.check(schema, where)
        table = data.read(whole, where)
    else:
        given = as_table(whole, data, where)
        if given is None:
            return None
        named.check(schema, where)
        table = checked_table(whole, given, where)
    numbers = np.stack([numbers_of(table.column(name)) for name in names], axis=1)
    beyond = np.abs(numbers[:, -1]) > COUNT_LIMIT
    if beyond.any():
        row = int(beyond.argmax())
        msg = f"{where}, row {row}: column {named.diff!r} is {numbers[row, -1]}: expected an integer of at most 2**31"
        raise RowError(msg).about(row_index=row, column=named.diff)
    rows: Batch = table.select(list(schema.names)) if len(schema) else [()] * len(table)
    return UpdateTable(rows, numbers[:, :-1], numbers[:, -1])


def listed_updates(updates: Any, where: str, schema: Schema, named: Names) -> list[Any]:
    """Return what is no table as a list of triples, not checked yet; `RowError` where it is none."""
    if isinstance(updates, (str, bytes, Mapping)) or not isinstance(updates, Iterable) or hasattr(updates, "collect"):
        hint = "; collect() it first" if hasattr(updates, "collect") else ""
        columns = ", ".join([*schema.names, *named.times, named.diff])
        msg = (
            f"{where}: {type(updates).__name__} holds no updates: expected (row, time, diff) triples, or a table with "
            f"the columns {columns}{hint}"
        )
        raise RowError(msg)
    return list(updates)
