"""Change feeds as other systems write them, as feeds by `Feed`: a row, and what is done with it."""

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
from types import NoneType
from typing import Any, Final, Literal, TypeAlias

import attrs
import pyarrow as pa

from tidemill.boundary.feeds import Ints, Keyed
from tidemill.boundary.rows import checked_rows, listed_rows, python_rows
from tidemill.boundary.tables import Source, as_table, checked_table
from tidemill.errors import RowError, SchemaError, brief, did_you_mean
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64, STRING, DType

FeedFormat: TypeAlias = Literal["op", "debezium", "delta", "maxwell"]
FORMATS: Final = ("op", "debezium", "delta", "maxwell")
CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
_DELTA: Final = {"insert": True, "update_postimage": True, "update_preimage": False, "delete": False}
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
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps are wall time
_MICROS: Final = 10**6

Types: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a schema says of columns, by their names."""


def checked_format(name: str) -> str:
    """Return the name of a format; `SchemaError` where there is none of it."""
    if name not in FORMATS:
        msg = f"format={name!r}: {did_you_mean(str(name), FORMATS)}"
        raise SchemaError(msg)
    return name


def translated(format: str, schema: Schema, key: Sequence[int], feed: Any, where: str) -> tuple[Any, str]:  # noqa: A002
    """Return a feed for an input of this schema and key in the form of `Feed`, and its column of operations.

    Columns that the input does not have are left out.
    """
    op = "op"
    while op in schema:
        op += "_"
    names = [schema.names[i] for i in key]
    if format == "delta":
        return _of_delta(schema, names, feed, op, where), op
    changes = {"debezium": _debezium, "maxwell": _maxwell}[format]
    columns = _InputColumns(schema, names)
    rows: list[dict[str, Any]] = []
    for number, message in enumerate(_messages(feed, where)):
        try:
            for one in changes(message, columns):
                columns.check(one, number, where)
                rows.append({**one.row, op: one.op})
        except _Unfit as error:
            reason = f"{where}, message {number}: {error}"
            raise RowError(reason).about(row=message, row_index=number, column=error.column) from None
    return rows, op


class _Unfit(Exception):  # noqa: N818 - becomes a RowError
    """What is wrong with a message."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.column = column


@attrs.frozen
class _Change:
    op: Literal["upsert", "delete"]
    row: dict[str, Any]


@attrs.frozen
class _InputColumns:
    """The columns of an input, and what a message's schema says of them."""

    schema: Schema
    key: Sequence[str]
    said: Types = attrs.field(factory=dict)

    def check(self, change: _Change, number: int, where: str) -> None:
        """Raise `RowError` with the message's number where a value does not fit."""
        schema = self._put if change.op == "upsert" else self._deleted
        checked_rows(schema, [tuple(map(change.row.get, schema.names))], where, first=number)

    @functools.cached_property
    def _put(self) -> Schema:
        return Schema(tuple(attrs.evolve(f, nullable=f.nullable and f.name not in self.key) for f in self.schema))

    @functools.cached_property
    def _deleted(self) -> Schema:
        return Schema(tuple(attrs.evolve(f, nullable=f.name not in self.key) for f in self.schema))

    def row(self, given: Any, names: Sequence[str], missing: str) -> dict[str, Any]:
        """Return the values of these columns."""
        if not isinstance(given, Mapping):
            raise _Unfit(missing)
        if lacking := [n for n in names if n not in given]:
            msg = f"{brief(given)} has no {lacking[0]!r}, which is a column of the input"
            raise _Unfit(msg, lacking[0])
        return {n: _value(given[n], self.schema.field(n), self.said.get(n, {})) for n in names}


def _messages(feed: Any, where: str) -> Iterator[Any]:
    """Return messages, of text as JSON; of pairs of a key and a value the values, and where these are missing both."""
    if isinstance(feed, (str, bytes)):
        feed = feed.split("\n") if isinstance(feed, str) else feed.split(b"\n")
    for number, given in enumerate(listed_rows(feed, where)):
        key, message = given if isinstance(given, tuple) and len(given) == 2 else (None, given)  # noqa: PLR2004
        try:
            message = _read(message)
        except ValueError as error:
            reason = f"{where}, message {number}: {brief(message)} is not JSON ({error})"
            raise RowError(reason).about(row=message, row_index=number) from None
        with contextlib.suppress(ValueError):  # a key may be plain text; it is asked for by few
            key = _read(key)
        yield message if key is None or not isinstance(message, Mapping) else {**message, "#key": key}


def _read(text: Any) -> Any:
    """Return what JSON text says, numbers with all their digits; anything else as it is."""
    if not isinstance(text, (str, bytes)):
        return text
    return json.loads(text, parse_float=Decimal) if text.strip() else None


def _debezium(message: Any, columns: _InputColumns) -> Iterator[_Change]:
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
        gone = before if before is not None else _payload(message.get("#key"))[0]
        yield _Change("delete", columns.row(gone, columns.key, "op 'd' without before, and without a key beside it"))
    elif op == "t":
        msg = "op 't' empties the table, and says no keys: delete them by run.delete, or take a snapshot anew"
        raise _Unfit(msg)
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


def _maxwell(message: Any, columns: _InputColumns) -> Iterator[_Change]:
    """Return what a message of Maxwell's does."""
    kind = message.get("type") if isinstance(message, Mapping) else None
    if kind in ("insert", "bootstrap-insert", "update"):
        data, old = message.get("data"), message.get("old") or {}
        known = isinstance(data, Mapping) and isinstance(old, Mapping)
        before = {**data, **old} if known and any(k in old for k in columns.key) else None
        yield from _put(data, before, columns, f"type {kind!r} without data")
    elif kind == "delete":
        yield _Change("delete", columns.row(message.get("data"), columns.key, "type 'delete' without data"))
    elif not isinstance(kind, str) or not kind.startswith(("bootstrap-", "table-", "database-")):
        msg = f"{brief(message)} is not a message of Maxwell's, which has type and data"
        raise _Unfit(msg)


def _put(after: Any, before: Any, columns: _InputColumns, missing: str) -> Iterator[_Change]:
    """Return what puts a row: where its key was another before, that goes."""
    key = columns.key
    new = columns.row(after, columns.schema.names, missing)
    if isinstance(before, Mapping) and all(k in before for k in key):
        old = columns.row(before, key, missing)
        if any(old[k] != new[k] for k in key):
            yield _Change("delete", old)
    yield _Change("upsert", new)


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
    return _EPOCH.date() + dt.timedelta(days=given) if _is_number(given) else given


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
    return _EPOCH + dt.timedelta(microseconds=micros)


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


def _of_delta(schema: Schema, key: Sequence[str], feed: Any, op: str, where: str) -> Any:
    """Return Delta's change feed by versions, and in each what goes first: then a key's last row is the right one."""
    if hasattr(feed, "toArrow"):  # Spark's
        feed = feed.toArrow()
    columns = Schema((*schema, Field(CHANGE_TYPE, STRING)))
    if isinstance(feed, Source):  # which leaves out what it is not asked for
        table = feed.read(Schema((*columns, Field(COMMIT_VERSION, INT64))), where)
    else:
        table = as_table(columns, feed, where)
    if table is None:
        rows = list(_with_names(feed, where))
        puts, order = _done([r.get(CHANGE_TYPE) for r in rows], [r.get(COMMIT_VERSION) for r in rows], where)
        checking = _InputColumns(schema, key)
        kept = [[n for n in (schema.names if put else key) if n in row] for row, put in zip(rows, puts, strict=True)]
        for i, names in enumerate(kept):
            checking.check(_Change("upsert" if puts[i] else "delete", {n: rows[i][n] for n in names}), i, where)
        return [{**{n: rows[i][n] for n in kept[i]}, op: "upsert" if puts[i] else "delete"} for i in order]
    if lacking := [n for n in columns.names if n not in table.column_names]:
        reason = f"{where}: no column {lacking[0]!r}: Delta's change feed has the table's columns and {CHANGE_TYPE}"
        raise RowError(reason).about(column=lacking[0])
    size = table.num_rows
    versions = table.column(COMMIT_VERSION).to_pylist() if COMMIT_VERSION in table.column_names else [None] * size
    puts, order = _done(table.column(CHANGE_TYPE).to_pylist(), versions, where)
    relaxed = Schema(tuple(attrs.evolve(f, nullable=True) for f in schema))
    checked_table(relaxed, table.select(list(schema.names)), where)  # errors name the rows of the feed
    ops = pa.array(["upsert" if put else "delete" for put in puts], pa.string())
    return table.select(list(schema.names)).append_column(op, ops).take(pa.array(order, pa.int64()))


def _done(kinds: Sequence[Any], versions: Sequence[Any], where: str) -> tuple[list[bool], list[int]]:
    """Return which rows are put, the others being deleted; and the rows in the order in which they count."""
    puts = []
    for number, kind in enumerate(kinds):
        put = _DELTA.get(kind) if isinstance(kind, str) else None
        if put is None:
            reason = f"{where}, row {number}: {CHANGE_TYPE} is {brief(kind)}: expected one of {', '.join(_DELTA)}"
            raise RowError(reason).about(row_index=number, column=CHANGE_TYPE)
        if not isinstance(versions[number], (int, NoneType)):
            reason = f"{where}, row {number}: {COMMIT_VERSION} is {brief(versions[number])}: expected a whole number"
            raise RowError(reason).about(row_index=number, column=COMMIT_VERSION)
        puts.append(put)
    return puts, sorted(range(len(puts)), key=lambda i: (versions[i] or 0, puts[i]))


def _with_names(feed: Any, where: str) -> Iterator[Mapping[str, Any]]:
    for number, row in enumerate(listed_rows(feed, where)):
        if not isinstance(row, Mapping):
            reason = f"{where}, row {number}: {brief(row)} has no names: Delta's change feed is a table, or dicts"
            raise RowError(reason).about(row=row, row_index=number)
        yield row


def written(format: str, keyed: Keyed, times: Ints, diffs: Ints, time: str) -> Any:  # noqa: A002 - as users say
    """Return changes by key as another system's feed: Delta's as a table, Debezium's as envelopes."""
    if format == "delta":
        return keyed.images(times, diffs, [COMMIT_VERSION, CHANGE_TYPE])
    if format != "debezium":
        msg = f"format={format!r} is read, not written: expected op, debezium or delta"
        raise SchemaError(msg)
    rows, names = python_rows(keyed.table), keyed.schema.names
    at = times[0].tolist()
    found = []
    for before, after in zip(*(p.tolist() for p in keyed.pairs(times, diffs)), strict=True):
        old, new = (dict(zip(names, rows[i], strict=True)) if i >= 0 else None for i in (before, after))
        op = "d" if new is None else "c" if old is None else "u"
        found.append({"before": old, "after": new, "source": {time: at[max(before, after)]}, "op": op})
    return found
