"""Filtering a large table before it is encoded, where a filter is all that reads the input.

What the filter drops anyway need not become codes: of most tables that is most of the work. Nor need columns that
nobody reads behind the filter, as those that only it compares: the rows that pass have one row's values in them then,
which passes, too. So what waits at the input is as good as the table, whatever the filter is given besides. It looks at
the rows again, which is little work on codes, and on one row where all are alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.dataflow.nodes import Filter, Map
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.rewriting import can_fail, column_uses
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.expressions.comparisons_on_codes import compile_comparisons
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.codec import Interner, encode
from tidemill.renderer.embedded.kernels.memory import Room, repeated
from tidemill.renderer.embedded.kernels.sorting import PART
from tidemill.renderer.embedded.kernels.updates import Bools, Ints


class Passed(NamedTuple):
    """Rows that pass a filter, as codes, a column for each."""

    codes: list[Ints]
    many: int


class EarlyFilter:
    """A filter at work on tables, of whose columns some are not needed behind it."""

    def __init__(self, schema: Schema, predicate: Bound, alike: frozenset[int], interner: Interner) -> None:
        self._predicate = compile_scalar(predicate)
        self._alike = [i for i in range(len(schema)) if i in alike]
        self._encoded = [i for i in range(len(schema)) if i not in alike]
        self._schema = schema
        self._interner = interner

    def passed(self, table: pa.Table, more_rows: int) -> Passed:
        """Return the rows that pass; with them there is `Room` for more rows of a matrix."""
        kept = self._passing(table)
        count = int(np.count_nonzero(kept))
        codes: dict[int, Ints] = {}
        if self._encoded:
            wanted = Schema(tuple(self._schema.fields[i] for i in self._encoded))
            some, only = table.select(self._encoded), None if count == len(kept) else kept
            matrix = encode(wanted, some, self._interner, more_rows=more_rows, kept=only)
            codes = dict(zip(self._encoded, Room(matrix, len(self._encoded)).rows(), strict=True))
        if count and self._alike:
            others = Schema(tuple(self._schema.fields[i] for i in self._alike))
            one = encode(others, table.select(self._alike).slice(int(kept.argmax()), 1), self._interner)
            codes |= {i: repeated(code, count) for i, code in zip(self._alike, one[:, 0].tolist(), strict=True)}
        return Passed([codes.get(i, repeated(0, count)) for i in range(len(self._schema))], count)

    def _passing(self, table: pa.Table) -> Bools:
        """Return which rows pass: a part after the other, so that what is worked out of it stays in the caches."""
        kept = np.empty(len(table), np.bool_)
        done = 0
        for batch in table.to_batches(max_chunksize=PART):
            n = len(batch)
            passed = self._predicate(batch.columns, n)
            if passed.null_count:
                passed = passed.fill_null(False)
            kept[done : done + n] = passed.to_numpy(zero_copy_only=False)
            done += n
        return kept


def early_filter(node: Filter, readers: Iterable[Map | None], interner: Interner) -> EarlyFilter | None:
    """Return what does a filter's work on tables; None where it may fail, or where that would be no saving."""
    predicate, schema = node.predicate, node.schema
    read = frozenset(column_uses(predicate))
    # What a table holds and what codes stand for is the same but of floats, of which some are one value for us.
    if can_fail(predicate) or not read or any(_has_floats(schema.fields[i].dtype) for i in read):
        return None
    unread = unread_behind(len(schema), readers)
    if read <= unread:
        return EarlyFilter(schema, predicate, unread, interner)
    if compile_comparisons(predicate, interner) is None:  # to look again at all that pass would take as long
        return None
    return EarlyFilter(schema, predicate, unread - read, interner)


def unread_behind(columns: int, readers: Iterable[Map | None]) -> frozenset[int]:
    """Return which of so many columns none of some nodes reads; None stands for one that reads all."""
    read: set[int] = set()
    for reader in readers:
        if reader is None:
            return frozenset()
        for column in reader.columns:
            read |= {column.index} if isinstance(column, BoundColumn) else set(column_uses(column))
    return frozenset(range(columns)) - read


def _has_floats(dtype: DType) -> bool:
    return dtype.name == "float64" or (dtype.element is not None and _has_floats(dtype.element))
