"""A column computed by a Python function that is called for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms.prefix_sums.columns import column_values
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, TableFunction

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection


def with_row_function(
    rows: Collection, function: Callable[..., Any], arguments: Sequence[str], result: Field
) -> Collection:
    """Return the rows with one more column: what a pure function returns for these columns."""
    return apply_table(rows, _RowFunction(function, result), arguments, keep=rows.schema.names)


@attrs.frozen
class _RowFunction(TableFunction):
    function: Callable[..., Any]
    result: Field

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__).strip("_")

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema((self.result,))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        return [(self.function(*arguments),)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        made = list(map(self.function, *map(column_values, arguments)))
        return np.arange(len(made)), [pa.array(made, self.result.dtype.arrow)]
