"""Order indexes: any ORDER BY as one column of bytes that compare as the rows do, with ties or without."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import tidemill.expressions.aggregate_functions as agg
from tidemill.boundary.rows import python_values
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table
from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions.date_values import whole_micros
from tidemill.expressions.functions.numbers import shiftright
from tidemill.expressions.ordering import bind_order, hash_of_row
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sort_keys import asc
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction
from tidemill.expressions.types import BINARY, DType

_WIDTHS: Final = {
    "bool": 1,
    "int32": 4,
    "date": 4,
    "int64": 8,
    "timestamp": 8,
    "float64": 8,
    **dict.fromkeys(("timestamptz", "time", "interval"), 8),
    "decimal": 16,
}
"""How many bytes values of a type take; all others vary."""
_BEFORE, _VALUE, _AFTER = b"\1", b"\2", b"\3"
"""Stand before a value, or for NULL before or after all values."""
_MORE, _END = b"\1", b"\0"
"""Stand before each value of a list, and at its end."""

Bytes = npt.NDArray[np.uint8]


def order_index(rows: Collection, /, *, order_by: Any, name: str = "index") -> Collection:
    """Return the rows with a column of bytes that compare as the rows do in an order: the index of the row.

    ``order_by`` is a column, an expression, ``tm.asc(...)`` or ``tm.desc(...)``, or a list of them, of any types. Bytes
    compare from the first to the last, as ``bytes`` do in Python. Numbers, dates, timestamps and bools take as many of
    them as they have, decimals 16, a column that may be NULL one more; strings, bytes and lists as many as they are
    long, and a few. NaN is the greatest float, and 0.0 equals -0.0.

    >>> import tidemill as tm
    >>> from tidemill.algorithms import order_index
    >>> flow = tm.Dataflow()
    >>> x = flow.constant({"a": "int32 not null", "b": "string"}, [(-1, "x"), (2, None)])
    >>> flow.output("up", order_index(x, order_by=["a", tm.desc("b")]).select("index"))
    >>> [row[0].hex(" ") for row in flow.start().snapshot("up")]
    ['7f ff ff ff 02 87 ff ff', '80 00 00 02 03']
    """
    keys = bind_order(order_by, rows.schema)
    columns = [f"order {i}#" for i in range(len(keys))]
    names = rows.schema.names
    own = [(n, bind(col(n), rows.schema)) for n in names]
    wide = rows.map_columns([*own, *((c, key.expression) for c, key in zip(columns, keys, strict=True))])
    parts = tuple(PlaceBytes(k.expression.dtype, k.expression.nullable, k.descending, k.nulls_first) for k in keys)
    return apply_table(wide, _OrderBytes(parts, name), columns, keep=names)


@attrs.frozen
class PlaceBytes:
    """The bytes for the values of one column of an order."""

    dtype: DType
    nullable: bool
    descending: bool
    nulls_first: bool

    @property
    def null(self) -> bytes:
        """The bytes for NULL."""
        return _BEFORE if self.nulls_first else _AFTER

    def of(self, value: Any) -> bytes:
        """Return the bytes for a value."""
        return _bytes(self, value)

    def outermost(self, *, last: bool) -> bytes:
        """Return bytes that are not after those of any value, or not before; NULL aside. For types of one width."""
        assert self.width is not None, f"values of type {self.dtype} have no width"
        return (_VALUE if self.nullable else b"") + (b"\xff" if last else b"\0") * self.width

    @property
    def width(self) -> int | None:
        """How many bytes a value takes; None where that varies."""
        return _WIDTHS.get(self.dtype.name)


@attrs.frozen
class _OrderBytes(TableFunction):
    """The index of a row, from the values it is ordered by."""

    parts: tuple[PlaceBytes, ...]
    result: str

    @property
    def name(self) -> str:
        return "order_index"

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema((Field(self.result, BINARY, nullable=False),))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        return [(b"".join(_bytes(part, value) for part, value in zip(self.parts, arguments, strict=True)),)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        pieces: list[Bytes | pa.Array] = []
        for part, column in zip(self.parts, arguments, strict=True):
            pieces += [_varying(part, column)] if part.width is None else _fixed(part, column)
        together: list[pa.Array] = []
        adjacent: list[Bytes] = []
        for piece in [*pieces, None]:
            if isinstance(piece, np.ndarray):
                adjacent.append(piece)
                continue
            if adjacent:
                together.append(_binary(np.concatenate(adjacent, axis=1)))
                adjacent = []
            if piece is not None:
                together.append(piece)
        made = together[0] if len(together) == 1 else pc.binary_join_element_wise(*together, b"")
        return np.arange(len(made)), [made]


# -- one value --------------------------------------------------------------------------------------------------------


def _bytes(part: PlaceBytes, value: Any) -> bytes:
    if value is None:
        return part.null + bytes(part.width or 0)
    made = _value_bytes(value, part.dtype)
    made = bytes(255 - b for b in made) if part.descending else made
    return _VALUE + made if part.nullable else made


def _value_bytes(value: Any, dtype: DType) -> bytes:
    """Return bytes that compare as the values of a type, none of which begins another's."""
    if dtype.is_nested:
        return b"".join(_MORE + _bytes(_inner(of), v) for of, v in zip(dtype.inner, value, strict=False)) + _END
    if dtype.name in ("string", "binary", "uuid"):
        raw = value.encode() if isinstance(value, str) else bytes(value)
        return raw.replace(b"\0", b"\0\xff") + b"\0\0"
    width = _WIDTHS[dtype.name]
    return (_whole_number(value, dtype) + (1 << 8 * width - 1) if width > 1 else int(value)).to_bytes(width)


def _inner(dtype: DType) -> PlaceBytes:
    return PlaceBytes(dtype, nullable=True, descending=False, nulls_first=True)


def _whole_number(value: Any, dtype: DType) -> int:
    if dtype.name == "float64":
        if value != value:  # noqa: PLR0124 - NaN
            value = struct.unpack("<d", b"\xff" * 7 + b"\x7f")[0]
        (bits,) = struct.unpack("<q", struct.pack("<d", value + 0.0))
        return int(bits if bits >= 0 else bits ^ _REST)
    if dtype.name == "date":
        return int((value - dt.date(1970, 1, 1)).days)
    if dtype.name in ("timestamp", "timestamptz", "time", "interval"):
        return whole_micros(value)
    return int(value.scaleb(dtype.scale, _EXACT)) if dtype.is_decimal else int(value)


_EXACT: Final = decimal.Context(prec=80)
_REST: Final = (1 << 63) - 1


# -- whole columns ----------------------------------------------------------------------------------------------------


def _fixed(part: PlaceBytes, column: pa.Array) -> list[Bytes]:
    """Return the bytes of a column as matrices, a row for each value."""
    null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    made = _matrix(column, part)
    if part.descending:
        made = ~made
    if null is not None:
        made[null] = 0
    if not part.nullable:
        return [made]
    flags = np.full((len(column), 1), _VALUE[0], np.uint8)
    if null is not None:
        flags[null] = part.null[0]
    return [flags, made]


def _matrix(column: pa.Array, part: PlaceBytes) -> Bytes:
    """Return the bytes of values; those for NULL are any."""
    t, kind = pa.types, column.type
    if t.is_boolean(kind):
        return _numbers(column.cast(pa.uint8()))[:, None].copy()
    if t.is_decimal(kind):
        wide = column.cast(pa.decimal128(38, kind.scale))
        raw = np.frombuffer(wide.buffers()[1], np.uint8).reshape(-1, 16)[wide.offset : wide.offset + len(wide), ::-1]
        raw = raw.copy()
    else:
        if t.is_floating(kind):
            values = _numbers(column)
            bits = (values + 0.0).view(np.int64)
            numbers = np.where(np.isnan(values), _REST, np.where(bits >= 0, bits, bits ^ _REST))
        else:
            storage = pa.int32() if part.width == 4 else pa.int64()  # noqa: PLR2004 - bytes
            numbers = _numbers(column if t.is_integer(kind) else column.view(storage))
        width = _WIDTHS[part.dtype.name]
        raw = numbers.astype(f">i{width}").view(np.uint8).reshape(-1, width)
    raw[:, 0] ^= 0x80  # the sign
    return raw


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return values


def _varying(part: PlaceBytes, given: Column) -> pa.Array:
    """Return the bytes of a column of strings, bytes, lists or structs."""
    column: Any = given.to_arrow() if isinstance(given, ListColumn) else given
    if part.dtype.is_nested:
        return pa.array([_bytes(part, v) for v in python_values(column)], pa.binary())
    raw = pc.replace_substring(column.cast(pa.binary()), b"\0", b"\0\xff")
    raw = pc.binary_join_element_wise(raw, b"\0\0", b"")
    if part.descending:
        raw = _complement(raw)
    if part.nullable:
        raw = pc.binary_join_element_wise(_VALUE, raw, b"")
    return raw.fill_null(part.null) if raw.null_count else raw


def _complement(column: pa.Array) -> pa.Array:
    validity, offsets, data = column.buffers()
    turned = ~np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return pa.Array.from_buffers(
        column.type, len(column), [validity, offsets, pa.py_buffer(turned)], offset=column.offset
    )


def _binary(matrix: Bytes) -> pa.Array:
    n, width = matrix.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32) if width else np.zeros(n + 1, np.int32)
    return pa.Array.from_buffers(
        pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


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
