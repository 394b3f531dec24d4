"""Functions of lists: their entries in the registry, and their builders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import NULL, Function, Signature
from tidemill.expressions.types import INT32, DType

__all__ = ["LISTS", "get", "size"]


def _size(types: Sequence[DType]) -> Signature | None:
    return Signature((types[0],), INT32) if len(types) == 1 and types[0].is_list else None


def _get(types: Sequence[DType]) -> Signature | None:
    if len(types) != 2 or types[0].element is None or not (types[1].is_integer or types[1] == NULL):  # noqa: PLR2004
        return None
    return Signature((types[0], INT32), types[0].element)


def _always(_nullable: Sequence[bool]) -> bool:
    return True


def _value_at(values: tuple[Any, ...], place: int) -> Any:
    return values[place] if 0 <= place < len(values) else None


LISTS: Final = (
    Function("size", _size, "a list", "SIZE", aliases=("cardinality", "array_size"), python=len),
    Function("get", _get, "a list and a place in it (int32), counted from 0", "GET", nullable=_always,
             python=_value_at),
)  # fmt: skip


def size(values: Any) -> Expr:
    """Return how many values a list has, NULLs counted, an int32; NULL for no list.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> schema = Schema.of({"l": "list<string>"})
    >>> bind(size(col("l")), schema).dtype, bind(get(col("l"), 0), schema).dtype
    (int32, string)
    """
    return call("size", operand(values))


def get(values: Any, place: Any) -> Expr:
    """Return the value at a place of a list, counted from 0, as Spark's ``get`` does; NULL where there is none."""
    return call("get", operand(values), operand(place))
