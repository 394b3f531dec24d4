"""Functions and comparisons over Arrow columns of lists and structs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.arrow_arrays import int64_array, truths_of
from tidemill.boundary.list_columns import list_parts, struct_array
from tidemill.boundary.rows import plain_values
from tidemill.boundary.values import plain as plain_value
from tidemill.expressions.bound import BoundCall
from tidemill.expressions.functions.structs import field_place
from tidemill.expressions.functions.values import value_order
from tidemill.renderer.embedded.expressions.kernels import Apply, Rule, kernel, literal, numbers, plain, spread


def _comparison(compare: Callable[[Any, Any], Any]) -> Apply:
    """One by one, since Arrow does not compare them."""

    def of_pair(a: Any, b: Any) -> bool | None:
        return None if a is None or b is None else bool(compare(value_order(a), value_order(b)))

    def apply(*values: Any) -> Any:
        if not any(isinstance(v, pa.Array) for v in values):  # two constants beside a column
            return pa.scalar(of_pair(*(plain_value(v.as_py()) for v in values)), pa.bool_())
        return pa.array(map(of_pair, *map(plain_values, spread(values))), pa.bool_())

    return apply


NESTED_COMPARISON: Final[dict[str, Apply]] = {
    name: _comparison(getattr(operator, name)) for name in ("eq", "ne", "ge", "le", "lt", "gt")
}


def _get(_bound: BoundCall) -> Apply:
    def apply(*given: Any) -> pa.Array:
        lists, places = spread(given)
        values, lengths = list_parts(lists)
        place = numbers(places).astype(np.int64)
        known = (place >= 0) & (place < lengths)
        if places.null_count:
            known &= truths_of(places.is_valid())
        at = np.where(known, lengths.cumsum() - lengths + place, 0)
        return values.take(int64_array(at, ~known)) if len(values) else pa.nulls(len(lists), values.type)

    return apply


def _field(bound: BoundCall) -> Apply:
    one = kernel("struct_field", pc.StructFieldOptions([field_place(bound.args[0].dtype, literal(bound, 1))]))
    return lambda structs, _name: one(structs)


def _struct(bound: BoundCall) -> Apply:
    def apply(*values: Any) -> pa.Array:
        return struct_array(spread(values)[1::2], bound.dtype)

    return apply


NESTED_RULES: Final[dict[str, Rule]] = {
    "size": plain("list_value_length"),
    "get": _get,
    "field": _field,
    "named_struct": _struct,
}
