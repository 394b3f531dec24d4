"""Unique indexes: an order without ties between different rows, by their hashes where columns leave some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

import tidemill.expressions.aggregate_functions as agg
from tidemill.algorithms.prefix_sums.order_index import order_index
from tidemill.collections.collection import Collection
from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.numbers import shiftright
from tidemill.expressions.ordering import hash_of_row
from tidemill.expressions.sort_keys import asc

_HASH, _NUMBER = "tie#", "number#"
_HASH_BITS: Final = 64
_NUMBER_BYTES: Final = 4
TIE_BYTES: Final = _HASH_BITS // 8 + _NUMBER_BYTES
"""How many bytes a unique index has after those of the order."""


def unique_index(
    rows: Collection,
    /,
    *,
    order_by: Any,
    partition_by: str | Sequence[str] = (),
    name: str = "index",
    hash_bits: int = _HASH_BITS,
    collision_bits: int = 8,
) -> Collection:
    """Return the rows with an `order_index` that no two different rows of a partition share.

    After the columns of the order comes the row's 64-bit hash, and after that a number, which different rows that
    agree in all else get in their own order: 0, 1 and so on, with ``collision_bits``. Where these do not suffice the
    step fails. Of the hash, the first ``hash_bits`` are taken.
    """
    if not 0 <= hash_bits <= _HASH_BITS or not 0 <= collision_bits < 8 * _NUMBER_BYTES:
        msg = f"hash_bits={hash_bits}, collision_bits={collision_bits}: expected 0 to 64 and 0 to 31"
        raise SchemaError(msg)
    hashed = shiftright(hash_of_row(rows.schema), _HASH_BITS - hash_bits) if hash_bits else lit(0).cast("int64")
    parts = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    order = [*order_by] if isinstance(order_by, (list, tuple)) else [order_by]
    return index_with_ties(rows, order, hashed, parts, name, collision_bits=collision_bits)


def index_with_ties(
    rows: Collection, order_by: Sequence[Any], tie: Expr, parts: Sequence[str], name: str, *, collision_bits: int
) -> Collection:
    """Return the rows with a unique index: the order, the int64 by which ties are broken, and a collision number."""
    order = [*order_by, asc(_HASH), asc(_NUMBER)]
    with_tie = rows.with_columns(**{_HASH: tie, _NUMBER: lit(0).cast("int32")})
    numbered = order_index(with_tie, order_by=order, name=name).drop(_HASH, _NUMBER)
    key = [*parts, name]
    crowded = numbered.group_by(*key).agg(**{_NUMBER: agg.count()}).filter(col(_NUMBER) > 1).select(*key)
    together = numbered.join(crowded, on=key, nulls_equal=True)
    rest = [n for n in numbered.schema.names if n not in key]
    schema = numbered.schema.project([*key, *rest])
    apart = together.group_by(*key).reduce(_Numbered(collision_bits), schema).select(*numbered.schema.names)
    return numbered.concat(together.negate(), apart)


@attrs.frozen
class _Numbered:
    """Gives the different rows at one index their numbers."""

    bits: int

    def __call__(
        self, key: tuple[Any, ...], rows: list[tuple[tuple[Any, ...], int]]
    ) -> Iterable[tuple[tuple[Any, ...], int]]:
        if len(rows) > 1 << self.bits:
            msg = (
                f"{len(rows)} different rows agree in what they are ordered by and in their hashes: {self.bits} "
                f"collision bits distinguish {1 << self.bits}; order by more columns, or raise hash_bits or "
                "collision_bits"
            )
            raise ValueError(msg)
        *parts, index = key
        head = index[:-_NUMBER_BYTES]
        for number, (row, count) in enumerate(rows):
            tail = (number + (1 << 8 * _NUMBER_BYTES - 1)).to_bytes(_NUMBER_BYTES)
            yield (*parts, head + tail, *row), count
