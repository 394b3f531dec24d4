"""FlatMap by a table function: on columns, those that are kept passed on as codes."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from tidemill.dataflow.nodes import FlatMap
from tidemill.expressions.table_functions import Column, ListColumn, TableCall
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.expressions.few_rows import FEW_ROWS
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, decoder, encode_column, encoder
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators.linear import FlatMapOperator
from tidemill.renderer.embedded.schedule import Operator, Region


class TableFunctionOperator(FlatMapOperator):
    """FlatMap by a table function. Where that fails on columns, each row is taken alone, to find the one at fault."""

    calls_functions = False

    def __init__(self, node: FlatMap, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        assert isinstance(node.function, TableCall)
        self._call = node.function
        self._kept = np.array(node.function.kept, np.int64)
        self._arguments = [(i, self.schema.fields[i].dtype) for i in node.function.arguments]
        self._made = [f.dtype for f in node.schema.fields[len(self._kept) :]]
        self._decoders = [(i, decoder(dtype, interner)) for i, dtype in self._arguments]
        self._encoders = [encoder(dtype, interner) for dtype in self._made]
        self._lists = [i for i, dtype in self._arguments if dtype.element is not None]

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        if updates.shape[1] <= FEW_ROWS and self._are_short(updates):
            made = self._row_by_row(updates)
            if made is not None:
                return made
        try:
            arguments = [self._decoded(updates[i], dtype) for i, dtype in self._arguments]
            owner, columns = self._call.function.columns(*arguments)
        except Exception:  # noqa: BLE001 - whatever it is, it is raised again for its row
            return super().evaluate(updates)
        rest, kept = len(self.schema), len(self._kept)
        codes = kept + len(self._made)
        made = np.empty((codes + len(updates) - rest, len(owner)), np.int64)
        made[:kept] = updates.take(self._kept, axis=0).take(owner, axis=1)
        for row, column, dtype in zip(made[kept:codes], columns, self._made, strict=True):
            row[:] = self._encoded(column, dtype)
        made[codes:] = updates[rest:].take(owner, axis=1)
        return made

    def _are_short(self, updates: UpdateArray) -> bool:
        """Return whether there are so few values in lists that it is not worth making columns of them."""
        codes = [code for i in self._lists for code in updates[i].tolist()]
        return sum(len(self.interner.object(code)) for code in codes if code != NULL) <= _SHORT

    def _row_by_row(self, updates: UpdateArray) -> UpdateArray | None:
        """Return the output for a few updates, by the function's meaning; None where it has none for one of them.

        Columns may do for it, if it never was: what is made of it then cancels.
        """
        made: list[list[int]] = []
        owner: list[int] = []
        columns = [[None if c == NULL else value_of(c) for c in updates[i].tolist()] for i, value_of in self._decoders]
        arguments: Any = zip(*columns, strict=True) if columns else [()] * updates.shape[1]
        try:
            for number, values in enumerate(arguments):
                for row in self._call.function.rows(*values):
                    pairs = zip(row, self._encoders, strict=True)
                    made.append([NULL if v is None else code_of(v) for v, code_of in pairs])
                    owner.append(number)
        except Exception:  # noqa: BLE001 - if it is an error, it is raised again for its row
            return None
        rest, kept = len(self.schema), len(self._kept)
        codes = kept + len(self._made)
        result = np.empty((codes + len(updates) - rest, len(owner)), np.int64)
        source = updates.take(np.array(owner, np.int64), axis=1)
        result[:kept] = source.take(self._kept, axis=0)
        result[kept:codes] = np.array(made, np.int64).reshape(len(owner), len(self._made)).T
        result[codes:] = source[rest:]
        return result

    def _decoded(self, codes: Ints, dtype: DType) -> Column:
        if dtype.element is None or (codes == NULL).any():
            return decode_column(codes, dtype, self.interner)
        distinct, which = _numbered(codes)
        lists = [self.interner.object(c) for c in distinct]
        offsets = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(values) for values in lists], out=offsets[1:])
        values = np.fromiter(chain.from_iterable(lists), np.int64, int(offsets[-1]))
        return ListColumn(decode_column(values, dtype.element, self.interner), offsets, which)

    def _encoded(self, column: Column, dtype: DType) -> Ints:
        numbered = self.interner.number
        if isinstance(column, ListColumn):
            assert dtype.element is not None, "a list column is of lists"
            values = self._encoded(column.values, dtype.element).tolist()
            numbers = [numbered(tuple(values[a:b])) for a, b in pairwise(column.offsets.tolist())]
            return np.array(numbers, np.int64).take(column.which)
        if dtype.name in _INTERNED and len(column) <= _SMALL:
            return np.array([NULL if v is None else numbered(v) for v in column.to_pylist()], np.int64)
        return encode_column(column, dtype, self.interner)


_INTERNED: Final = ("string", "binary")
_SHORT: Final = 128
"""Up to how many values in lists a few rows are computed one by one."""
_SMALL: Final = 256
"""Up to how many values looking up each beats looking for different ones first."""


def _numbered(codes: Ints) -> tuple[list[int], Ints]:
    """Return the different codes in the order in which they come, and for each code which of these it is."""
    if len(codes) <= _SMALL:
        seen: dict[int, int] = {}
        which = [seen.setdefault(c, len(seen)) for c in codes.tolist()]
        return list(seen), np.array(which, np.int64)
    distinct, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = first.argsort()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return distinct.take(order).tolist(), places.take(inverse)


@FACTORIES(FlatMap)
def _make_flat_map(node: FlatMap, region: Region, made: CompileContext) -> Operator:
    operator = TableFunctionOperator if isinstance(node.function, TableCall) else FlatMapOperator
    return operator(node, region, made.interner)
