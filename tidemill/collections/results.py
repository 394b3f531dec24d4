"""What a run gives back: `Updates` (what changed) and `Rows` (what there is), consolidated, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.collections.schema import Schema
from tidemill.collections.validation import python_rows
from tidemill.dataflow.lattice import Antichain, Time, shown
from tidemill.errors import SchemaError

__all__ = ["Rows", "Updates", "arrow_table"]

_SHOWN_ROWS: Final = 10

Ints = npt.NDArray[np.int64]


class _Table:
    """Rows with counts, and for updates times: sorted by time and row once, when first looked at."""

    def __init__(self, schema: Schema, coordinates: Sequence[str], table: pa.Table, times: Ints, counts: Ints) -> None:
        self.schema = schema
        self._coordinates = tuple(coordinates)
        self._table = table
        self._times = times
        self._counts = counts
        self._sorted = len(counts) < 2  # noqa: PLR2004 - nothing to sort

    def __len__(self) -> int:
        return len(self._counts)

    def _sort(self) -> None:
        if self._sorted:
            return
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

        count = len(self._coordinates)
        names = [f"c{i}" for i in range(count + self._table.num_columns)]
        keys = pa.table([*(pa.array(t) for t in self._times), *self._table.columns], names=names)
        order = pc.sort_indices(keys, sort_keys=[(n, "ascending", "at_start") for n in names])
        self._table = self._table.take(order)
        self._times = self._times[:, order.to_numpy()]
        self._counts = self._counts[order.to_numpy()]
        self._sorted = True

    def _rows(self) -> list[tuple[Any, ...]]:
        self._sort()
        return python_rows(self._table)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame of what ``to_arrow`` gives."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a Polars DataFrame of what ``to_arrow`` gives."""
        import polars as pl  # noqa: PLC0415 - only for those who have it

        return pl.from_arrow(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table, sorted as this is."""
        raise NotImplementedError

    def _text(self, columns: Sequence[str], lines: list[tuple[Any, ...]]) -> str:
        cells = [tuple(columns), *(tuple(map(_cell, line)) for line in lines[:_SHOWN_ROWS])]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        text = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        text.insert(1, "  ".join("-" * w for w in widths))
        if len(lines) > _SHOWN_ROWS:
            text.append(f"... {len(lines) - _SHOWN_ROWS} more")
        return "\n".join(text)


class Updates(_Table):
    """Consolidated updates: iterates as ``(row, time, diff)``, times of one coordinate as ints; sorted by time and row.

    ``lower`` and ``upper`` say for which interval of frontiers these are all the updates.
    """

    def __init__(  # noqa: PLR0917 - made by engines alone, all parts at once
        self,
        schema: Schema,
        coordinates: Sequence[str],
        table: pa.Table,
        times: Ints,
        diffs: Ints,
        lower: Antichain,
        upper: Antichain,
    ) -> None:
        super().__init__(schema, coordinates, table, times, diffs)
        self.lower = lower
        self.upper = upper

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int | Time, int]]:
        rows = self._rows()
        times = self._times[0].tolist() if len(self._times) == 1 else map(tuple, self._times.T.tolist())
        return iter(list(zip(rows, times, self._counts.tolist(), strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Updates) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def to_arrow(self, *, time: str | None = None, diff: str = "diff") -> pa.Table:
        """Return the rows with a column for each coordinate of time and one for the diff.

        ``time`` renames the time column where there is one coordinate; a clash with a column is an error.
        """
        self._sort()
        if len(self._coordinates) == 1:
            coordinates = [time or ("time" if self._coordinates == ("epoch",) else self._coordinates[0])]
        else:
            coordinates = list(self._coordinates)
        names = [*self.schema.names, *coordinates, diff]
        if len(set(names)) < len(names):
            msg = f"columns {names} clash: rename them with time= and diff=, or rename the output's columns"
            raise SchemaError(msg)
        return pa.table([*self._table.columns, *map(pa.array, self._times), pa.array(self._counts)], names=names)

    def __repr__(self) -> str:
        lines = [(*row, t, f"{d:+d}") for row, t, d in self]
        return self._text([*self.schema.names, "time", "diff"], lines)


class Rows(_Table):
    """The contents of a collection at a time: iterates as tuples of values, each as often as its count, sorted.

    ``len`` is the number of rows, copies counted. ``time`` is the time it was asked for (None: after all times).
    """

    def __init__(self, schema: Schema, table: pa.Table, counts: Ints, time: Time | None) -> None:
        super().__init__(schema, (), table, np.empty((0, len(counts)), np.int64), counts)
        self.time = None if time is None else shown(time)

    def __len__(self) -> int:
        return int(np.maximum(self._counts, 0).sum())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        rows = self._rows()
        return iter([row for row, n in zip(rows, self._counts.tolist(), strict=True) for _ in range(n)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.counts() == other.counts()

    __hash__ = None  # type: ignore[assignment]

    def counts(self) -> dict[tuple[Any, ...], int]:
        """Return each row with its count, which may be negative where the dataflow lets it."""
        return dict(zip(self._rows(), self._counts.tolist(), strict=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows, each as often as its count."""
        self._sort()
        return self._table.take(pa.array(np.repeat(np.arange(len(self._counts)), np.maximum(self._counts, 0))))

    def __repr__(self) -> str:
        return self._text(self.schema.names, [row for row, _ in zip(self, range(10_000), strict=False)])


def arrow_table(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return Python rows as an Arrow table of the schema's types."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(c, f.dtype.arrow) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(schema.names))


def _cell(value: Any) -> str:
    return "NULL" if value is None else str(value)
