"""FlatMap by a table function: on columns, those that are kept passed on as codes."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Final

import numpy as np

from tidemill.dataflow.nodes import FlatMap
from tidemill.expressions.table_functions import Column, ListColumn, TableCall
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray
from tidemill.renderer.embedded.made import Made
from tidemill.renderer.embedded.makers import MAKERS
from tidemill.renderer.embedded.operators.linear import FlatMapOperator
from tidemill.renderer.embedded.schedule import Operator, Region

__all__ = ["TableFunctionOperator"]


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

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
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
_SMALL: Final = 256
"""Up to so many values, looking up each beats looking for different ones first."""


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


@MAKERS(FlatMap)
def _make_flat_map(node: FlatMap, region: Region, made: Made) -> Operator:
    operator = TableFunctionOperator if isinstance(node.function, TableCall) else FlatMapOperator
    return operator(node, region, made.interner)
