"""Messages of other systems, one by one: the rows that each puts into an input or deletes from it."""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime as dt
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, TypeAlias

import attrs

from tidemill.boundary.feeds import OPS
from tidemill.boundary.rows import checked_rows
from tidemill.errors import RowError, brief
from tidemill.expressions.functions.date_values import EPOCH
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import STRING, DType

CHANGE_TYPE: Final = "_change_type"
DELTA_CHANGES: Final = {"insert": True, "update_postimage": True, "update_preimage": False, "delete": False}
"""Whether a row of Delta's change feed is put or deleted."""
_UNAVAILABLE: Final = "__debezium_unavailable_value"
_PER_SECOND: Final = {
    "io.debezium.time.Timestamp": 10**3,
    "org.apache.kafka.connect.data.Timestamp": 10**3,
    "io.debezium.time.MicroTimestamp": 10**6,
    "io.debezium.time.NanoTimestamp": 10**9,
    "io.debezium.time.Time": 10**3,
    "org.apache.kafka.connect.data.Time": 10**3,
    "io.debezium.time.MicroTime": 10**6,
    "io.debezium.time.NanoTime": 10**9,
}
"""Units of a second, by what Debezium's schemas call a moment."""
_MICROS: Final = 10**6

Operation: TypeAlias = Literal["upsert", "delete", "truncate"]
Types: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a schema says of columns, by their names."""


def changes_of(
    format: str,  # noqa: A002 - as users say
    given: tuple[Any, Any],
    columns: InputColumns,
    number: int,
    where: str,
) -> Iterator[tuple[Operation, tuple[Any, ...]]]:
    """Yield what a message with its key does, and the row: of deletions only the key, of ``truncate`` nothing.

    ``format`` is one of `MESSAGE_FORMATS`. `RowError` with the message's number where it does not fit.
    """
    key, message = given
    try:
        message = _read(message)
    except ValueError as error:
        reason = f"{where}, message {number}: {brief(message)} is not JSON ({error})"
        raise RowError(reason).about(row=message, row_index=number) from None
    try:
        for one in _CHANGES[format](message, key, columns):
            yield one.op, columns.checked(one, number, where)
    except _Unfit as error:
        reason = f"{where}, message {number}: {error}"
        raise RowError(reason).about(row=message, row_index=number, column=error.column) from None


class _Unfit(Exception):  # noqa: N818 - becomes a RowError
    """What is wrong with a message."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.column = column


@attrs.frozen
class KeyedChange:
    """What is done with a row, of which a deletion needs only the key, and ``truncate``, which takes all, nothing."""

    op: Operation
    row: dict[str, Any]


@attrs.frozen
class InputColumns:
    """The columns of an input, and what a message's schema says of them."""

    schema: Schema
    key: Sequence[str]
    said: Types = attrs.field(factory=dict)

    def checked(self, change: KeyedChange, number: int, where: str) -> tuple[Any, ...]:
        """Return a row's values, where NULL is what is not there; `RowError` with the message's number."""
        if change.op == "truncate":
            return (None,) * len(self.schema)
        schema = self._put if change.op == "upsert" else self._deleted
        return checked_rows(schema, [tuple(map(change.row.get, schema.names))], where, first=number)[0]

    @functools.cached_property
    def _put(self) -> Schema:
        return Schema(tuple(attrs.evolve(f, nullable=f.nullable and f.name not in self.key) for f in self.schema))

    @functools.cached_property
    def _deleted(self) -> Schema:
        return Schema(tuple(attrs.evolve(f, nullable=f.name not in self.key) for f in self.schema))

    @functools.cached_property
    def _nulls(self) -> Mapping[str, None]:
        return {f.name: None for f in self._put if f.nullable}

    def row(self, given: Any, names: Sequence[str], missing: str) -> dict[str, Any]:
        """Return the values of these columns."""
        if not isinstance(given, Mapping):
            raise _Unfit(missing)
        if lacking := [n for n in names if n not in given]:
            msg = f"{brief(given)} has no {lacking[0]!r}, which is a column of the input"
            raise _Unfit(msg, lacking[0])
        return {n: _value(given[n], self.schema.field(n), self.said.get(n, {})) for n in names}

    def whole(self, given: Any) -> dict[str, Any]:
        """Return the values of all columns; those that are not there are NULL, where they may be."""
        if given is None:
            msg = "there is no value: format='upsert' has it delete the row of its key"
            raise _Unfit(msg)
        if not isinstance(given, Mapping):
            msg = f"{brief(given)} is no object, which has the columns of a row"
            raise _Unfit(msg)
        return self.row({**self._nulls, **given}, self.schema.names, "")


def _read(text: Any) -> Any:
    """Return what JSON text says, numbers with all their digits; anything else as it is."""
    if not isinstance(text, (str, bytes)):
        return text
    return json.loads(text, parse_float=Decimal) if text.strip() else None


def _key(key: Any) -> Any:
    """Return what a message's key says, which may be plain text."""
    with contextlib.suppress(ValueError):
        return _payload(_read(key))[0]
    return key


def _debezium(message: Any, key: Any, columns: InputColumns) -> Iterator[KeyedChange]:
    """Return what an envelope of Debezium's does, with its schema or without; a tombstone nothing."""
    if message is None:
        return
    envelope, said = _payload(message)
    columns = attrs.evolve(columns, said=said)
    if not isinstance(envelope, Mapping) or "op" not in envelope:
        msg = f"{brief(envelope)} is not an envelope of Debezium's, which has op, before and after"
        raise _Unfit(msg)
    op, before, after = envelope["op"], envelope.get("before"), envelope.get("after")
    if op in ("c", "r", "u"):
        yield from _put(after, before, columns, f"op {op!r} without after")
    elif op == "d":
        gone = before if before is not None else _key(key)
        yield KeyedChange(
            "delete", columns.row(gone, columns.key, "op 'd' without before, and without a key beside it")
        )
    elif op == "t":
        yield KeyedChange("truncate", {})
    elif op != "m":  # a message of the source's own
        msg = f"op {brief(op)} is none of Debezium's: c, r, u, d, t and m are"
        raise _Unfit(msg)


def _payload(message: Any) -> tuple[Any, Types]:
    """Return a message without the schema around it, and what that says of the columns of before and after."""
    if not isinstance(message, Mapping) or "payload" not in message:
        return message, {}
    parts = {part.get("field"): part for part in _fields(message.get("schema"))}
    row = parts.get("after") or parts.get("before")
    return message["payload"], {f["field"]: f for f in _fields(row) if "field" in f}


def _fields(schema: Any) -> list[Mapping[str, Any]]:
    found = schema.get("fields") if isinstance(schema, Mapping) else None
    return [f for f in found if isinstance(f, Mapping)] if isinstance(found, Sequence) else []


def _maxwell(message: Any, _key: Any, columns: InputColumns) -> Iterator[KeyedChange]:
    """Return what a message of Maxwell's does."""
    kind = message.get("type") if isinstance(message, Mapping) else None
    if kind in ("insert", "bootstrap-insert", "update"):
        data, old = message.get("data"), message.get("old") or {}
        known = isinstance(data, Mapping) and isinstance(old, Mapping)
        before = {**data, **old} if known and any(k in old for k in columns.key) else None
        yield from _put(data, before, columns, f"type {kind!r} without data")
    elif kind == "delete":
        yield KeyedChange("delete", columns.row(message.get("data"), columns.key, "type 'delete' without data"))
    elif not isinstance(kind, str) or not kind.startswith(("bootstrap-", "table-", "database-")):
        msg = f"{brief(message)} is not a message of Maxwell's, which has type and data"
        raise _Unfit(msg)


def _put(after: Any, before: Any, columns: InputColumns, missing: str) -> Iterator[KeyedChange]:
    """Return what puts a row: where its key was another before, that goes."""
    key = columns.key
    new = columns.row(after, columns.schema.names, missing)
    if isinstance(before, Mapping) and all(k in before for k in key):
        old = columns.row(before, key, missing)
        if any(old[k] != new[k] for k in key):
            yield KeyedChange("delete", old)
    yield KeyedChange("upsert", new)


def _json(message: Any, _key: Any, columns: InputColumns) -> Iterator[KeyedChange]:
    """Return what puts the row that a message is."""
    yield KeyedChange("upsert", columns.whole(message))


def _upsert(message: Any, key: Any, columns: InputColumns) -> Iterator[KeyedChange]:
    """Return what puts the row that a message is, with its key, or deletes that of the key where there is no value."""
    told = _key_columns(key, columns)
    if message is None:
        missing = f"there is no value, and the key {brief(key)} does not say {', '.join(columns.key)}"
        yield KeyedChange("delete", columns.row(told or None, columns.key, missing))
        return
    row = columns.whole({**told, **message} if isinstance(message, Mapping) else message)
    for name, value in columns.row(told, list(told), "").items():
        if row[name] != value:
            msg = f"its key says that {name} is {brief(value)}, and its value {brief(row[name])}"
            raise _Unfit(msg, name)
    yield KeyedChange("upsert", row)


def _key_columns(key: Any, columns: InputColumns) -> dict[str, Any]:
    """Return what a message's key says of the key's columns: an object has them, anything else is that of one."""
    read = _key(key)
    if isinstance(read, Mapping):
        return {n: read[n] for n in columns.key if n in read}
    if read is None or len(columns.key) > 1:
        return {}
    (name,) = columns.key
    if columns.schema.field(name).dtype == STRING and not isinstance(read, str):  # text without quotes: 1 is '1'
        read = key.decode() if isinstance(key, bytes) else str(key)
    return {name: read}


def _by_column(column: str, kinds: Mapping[str, bool]) -> Callable[[Any, Any, InputColumns], Iterator[KeyedChange]]:
    """Return what reads rows of which a column says what is done with them."""

    def changes(message: Any, _key: Any, columns: InputColumns) -> Iterator[KeyedChange]:
        kind = message.get(column) if isinstance(message, Mapping) else None
        puts = kinds.get(kind.lower()) if isinstance(kind, str) else None
        if puts is None:
            msg = f"{brief(message)} does not say in {column!r} what is done: expected one of {', '.join(kinds)}"
            raise _Unfit(msg, column)
        yield (
            KeyedChange("upsert", columns.whole(message))
            if puts
            else KeyedChange("delete", columns.row(message, columns.key, ""))
        )

    return changes


_CHANGES: Final[dict[str, Callable[[Any, Any, InputColumns], Iterator[KeyedChange]]]] = {
    "debezium": _debezium,
    "delta": _by_column(CHANGE_TYPE, DELTA_CHANGES),
    "json": _json,
    "maxwell": _maxwell,
    "op": _by_column("op", OPS),
    "upsert": _upsert,
}
MESSAGE_FORMATS: Final = tuple(_CHANGES)


def _value(given: Any, field: Field, said: Mapping[str, Any]) -> Any:
    """Return a value as JSON has it as one of a column; ``said`` is what a schema says of it."""
    if given is None:
        return None
    if given == _UNAVAILABLE:
        msg = f"column {field.name}: the source did not log the value, since it did not change: let it log whole rows"
        raise _Unfit(msg, field.name)
    try:
        return _as(given, field.dtype, said)
    except (ValueError, InvalidOperation, OverflowError, KeyError, TypeError, binascii.Error) as error:
        msg = f"column {field}: {brief(given)} cannot be read ({error})"
        raise _Unfit(msg, field.name) from None


def _as(given: Any, dtype: DType, said: Mapping[str, Any]) -> Any:
    if dtype.element is not None and isinstance(given, (list, tuple)):
        element = dtype.element
        return [None if v is None else _as(v, element, {}) for v in given]
    if dtype.fields and isinstance(given, Mapping):
        types = dict(dtype.fields)
        return {n: v if v is None or n not in types else _as(v, types[n], {}) for n, v in given.items()}
    read = _READ.get(dtype.name)
    return given if read is None else read(given, said)


def _date(given: Any, _said: Mapping[str, Any]) -> Any:
    if isinstance(given, str):
        return dt.date.fromisoformat(given)
    return EPOCH.date() + dt.timedelta(days=given) if _is_number(given) else given


def _is_number(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _moment(given: Any, said: Mapping[str, Any]) -> Any:
    """Return a moment as wall time, that of a zoned one in UTC."""
    if isinstance(given, str):
        if re.search(r"\.\d{6}\d*[1-9]", given):
            msg = "timestamps have microseconds"
            raise ValueError(msg)
        moment = dt.datetime.fromisoformat(given)
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    if not _is_number(given):
        return given
    unit = _PER_SECOND.get(str(said.get("name")))
    if unit is None:
        msg = "a number says no unit: send messages with their schema, or moments as text"
        raise ValueError(msg)
    micros, rest = divmod(given * _MICROS, unit)
    if rest:
        msg = "timestamps have microseconds"
        raise ValueError(msg)
    return EPOCH + dt.timedelta(microseconds=micros)


def _decimal(given: Any, said: Mapping[str, Any]) -> Any:
    """Return a decimal: of text as written, of Kafka's bytes as their schema says, or as their own scale does."""
    if isinstance(given, Mapping):  # io.debezium.data.VariableScaleDecimal
        return _unscaled(given["value"], given["scale"])
    if said.get("name") == "org.apache.kafka.connect.data.Decimal":
        return _unscaled(given, said["parameters"]["scale"])
    return Decimal(given) if isinstance(given, str) else given


def _unscaled(given: Any, scale: Any) -> Decimal:
    """Return the number of bytes and a scale, with all its digits, whatever the context's precision."""
    data = base64.b64decode(given, validate=True) if isinstance(given, str) else given
    return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E{-int(scale)}")


def _instant(given: Any, said: Mapping[str, Any]) -> Any:
    """Return a moment that says its zone, or a number, which counts from one in UTC."""
    if isinstance(given, str):
        return dt.datetime.fromisoformat(given)
    moment = _moment(given, said)
    return moment.replace(tzinfo=dt.UTC) if _is_number(given) else moment


def _time(given: Any, said: Mapping[str, Any]) -> Any:
    """Return a time of day: text, or a number of parts of a second."""
    if isinstance(given, str):
        return dt.time.fromisoformat(given)
    return _moment(given, said).time() if _is_number(given) else given


def _float(given: Any, _said: Mapping[str, Any]) -> Any:
    return float(given) if isinstance(given, (Decimal, str)) else given


def _bytes(given: Any, _said: Mapping[str, Any]) -> Any:
    return base64.b64decode(given, validate=True) if isinstance(given, str) else given


_READ: Final[dict[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "date": _date,
    "timestamp": _moment,
    "timestamptz": _instant,
    "time": _time,
    "decimal": _decimal,
    "float64": _float,
    "binary": _bytes,
}
"""How a value of JSON is read, by the column's type; others are as JSON has them."""
