"""Input of tables: rows and columns that are dropped anyway are not encoded.

Rows are dropped by a filter that is all that reads the input; columns are those that nobody reads. To make codes of
them is most of the work on most tables. In place of columns that only the filter reads, the rows that pass have one
row's values, which passes, too; so the filter, which looks at the rows again, finds what it would have found. That is
little work on codes, and on one row where all are alike. In place of columns that nobody reads there is NULL.

An expression's error shows the whole row, and counts only if its row is not taken away in the same step: where one may
fail the table is at hand until its step is done, which is tried again with whole rows if one does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import truths_of
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Filter, Input, Map, Node
from tidemill.dataflow.passes.columns import columns_read
from tidemill.expressions.bound import Bound
from tidemill.expressions.rewriting import can_fail, column_uses
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.expressions.comparisons_on_codes import compile_comparisons
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.codec import Interner, encode, encode_column
from tidemill.renderer.embedded.kernels.memory import Room, repeated
from tidemill.renderer.embedded.kernels.sorting import PART
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints

_MANY: Final = 1 << 12
"""How many rows a table has at least for comparisons to be made on it: comparing the codes of fewer takes less."""


class Passed(NamedTuple):
    """Rows that are left of a table, as codes, a column for each."""

    codes: list[Ints]
    many: int


class TableEncoder:
    """How an input's tables are encoded: of the columns that are read, the rows that a filter lets pass."""

    def __init__(
        self, schema: Schema, read: frozenset[int], interner: Interner, early: EarlyFilter | None, *, may_fail: bool
    ) -> None:
        self._schema = schema
        self._interner = interner
        self._early = early
        self._read = self._columns(read)
        self._read_later = self._read if early is None else self._columns(read.difference(early.alike))
        """The columns that are read behind the filter."""
        self.may_fail = may_fail
        """Whether an expression may fail, so that whole rows have to be at hand."""

    def passed(self, table: pa.Table, more_rows: int) -> Passed:
        """Return the rows that pass; with them there is `Room` for more rows of a matrix."""
        early = self._filter_of(table)
        kept = None if early is None else early.passing(table)
        count = len(table) if kept is None else int(np.count_nonzero(kept))
        encoded, wanted = self._read if early is None else self._read_later
        codes: dict[int, Ints] = {}
        if encoded:
            matrix = encode(wanted, table.select(encoded), self._interner, more_rows=more_rows, kept=kept)
            codes = dict(zip(encoded, Room(matrix, len(encoded)).rows(), strict=True))
        if count and early is not None and early.alike:
            first = 0 if kept is None else int(kept.argmax())
            for i in early.alike:
                (code,) = encode_column(table.column(i).slice(first, 1), self._schema.fields[i].dtype, self._interner)
                codes[i] = repeated(code, count)
        nothing = repeated(NULL, count)
        return Passed([codes.get(i, nothing) for i in range(len(self._schema))], count)

    def whole(self, table: pa.Table) -> Codes:
        """Return the rows that pass, with all of their columns."""
        early = self._filter_of(table)
        return encode(self._schema, table, self._interner, kept=None if early is None else early.passing(table))

    def _columns(self, which: Iterable[int]) -> tuple[list[int], Schema]:
        """Return columns in order, and the schema of a table of these."""
        ordered = sorted(which)
        return ordered, Schema(tuple(self._schema.fields[i] for i in ordered))

    def _filter_of(self, table: pa.Table) -> EarlyFilter | None:
        return self._early if self._early is not None and len(table) >= self._early.least else None


class EarlyFilter:
    """A filter at work on tables."""

    def __init__(self, predicate: Bound, alike: list[int], least: int) -> None:
        self._predicate = compile_scalar(predicate)
        self.alike = alike
        """The columns that it alone reads."""
        self.least = least
        """How many rows a table has at least for it to be worth it."""

    def passing(self, table: pa.Table) -> Bools | None:
        """Return which rows pass, None where all do: by parts, so that what is computed stays in the caches."""
        kept = np.empty(len(table), np.bool_)
        done = 0
        for batch in table.to_batches(max_chunksize=PART):
            n = len(batch)
            passed = self._predicate(batch.column, n)
            kept[done : done + n] = truths_of(passed)
            done += n
        return None if kept.all() else kept


def table_encoder(graph: Graph, node: Input, interner: Interner) -> TableEncoder | None:
    """Return how an input's tables are encoded; None where all of each is read."""
    if node.unique or node.key:  # whole rows are held
        return None
    columns, read, early = frozenset(range(len(node.schema))), frozenset(columns_read(graph, node)), None
    readers = [reader for reader, _ in graph.consumers(node)]
    if len(readers) == 1 and isinstance(readers[0], Filter):
        read_later = frozenset(columns_read(graph, readers[0]))
        is_comparison = compile_comparisons(readers[0].predicate, interner) is not None
        if _is_worth_doing_early(readers[0].predicate, node.schema, read_later, is_comparison=is_comparison):
            early = EarlyFilter(readers[0].predicate, sorted(read - read_later), _MANY if is_comparison else 0)
    if early is None and read == columns:
        return None
    leaves_out = read != columns or (early is not None and bool(early.alike))
    may_fail = leaves_out and any(map(can_fail, _expressions(graph, node)))
    return TableEncoder(node.schema, read, interner, early, may_fail=may_fail)


def _is_worth_doing_early(predicate: Bound, schema: Schema, read_later: frozenset[int], *, is_comparison: bool) -> bool:
    """Return whether a filter's work is done on tables; not where it may fail, or where that would be no saving."""
    read = frozenset(column_uses(predicate))
    # What a table holds and what codes stand for is the same but of floats, of which some are one value for us.
    if can_fail(predicate) or not read or any(_has_floats(schema.fields[i].dtype) for i in read):
        return False
    # To look again at all that pass would take as long, but for comparisons of codes and where all are alike.
    return is_comparison or not read & read_later


def _expressions(graph: Graph, node: Node) -> Iterator[Bound]:
    """Iterate over the expressions that are computed from a node's rows, whose errors show these."""
    for reader, _ in graph.consumers(node):
        if isinstance(reader, Map):
            yield from reader.columns
        elif isinstance(reader, Filter):
            yield reader.predicate
            yield from _expressions(graph, reader)


def _has_floats(dtype: DType) -> bool:
    return dtype.name == "float64" or any(map(_has_floats, itertools.islice(dtype.inner, len(dtype.fields) or 1)))
