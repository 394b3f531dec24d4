"""Change feeds as other systems write them, as feeds by `Feed`: a row, and what is done with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Final, Literal, TypeAlias

import attrs
import pyarrow as pa

from tidemill.boundary.feeds import Ints, Keyed
from tidemill.boundary.messages import CHANGE_TYPE, DELTA_CHANGES, InputColumns, KeyedChange, changes_of
from tidemill.boundary.rows import listed_rows, python_rows
from tidemill.boundary.tables import Source, as_table, checked_table
from tidemill.errors import RowError, SchemaError, brief, did_you_mean
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64, STRING

FeedFormat: TypeAlias = Literal["op", "debezium", "delta", "maxwell"]
FORMATS: Final = ("op", "debezium", "delta", "maxwell")
COMMIT_VERSION: Final = "_commit_version"


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
    columns = InputColumns(schema, names)
    rows: list[dict[str, Any]] = []
    for number, given in enumerate(_messages(feed, where)):
        message = given if isinstance(given, tuple) and len(given) == 2 else (None, given)  # noqa: PLR2004
        for done, values in changes_of(format, message, columns, number, where):
            rows.append({**dict(zip(schema.names, values, strict=True)), op: done})
    return rows, op


def _messages(feed: Any, where: str) -> list[Any]:
    """Return messages, or pairs of a key and a message, of text line by line."""
    if isinstance(feed, (str, bytes)):
        feed = feed.split("\n") if isinstance(feed, str) else feed.split(b"\n")
    return listed_rows(feed, where)


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
        checking = InputColumns(schema, key)
        kept = [[n for n in (schema.names if put else key) if n in row] for row, put in zip(rows, puts, strict=True)]
        for i, names in enumerate(kept):
            checking.checked(KeyedChange("upsert" if puts[i] else "delete", {n: rows[i][n] for n in names}), i, where)
        return [{**{n: rows[i][n] for n in kept[i]}, op: "upsert" if puts[i] else "delete"} for i in order]
    if lacking := [n for n in columns.names if n not in table.column_names]:
        reason = f"{where}: no column {lacking[0]!r}: Delta's change feed has the table's columns and {CHANGE_TYPE}"
        raise RowError(reason).about(column=lacking[0])
    size = table.num_rows
    versions = table.column(COMMIT_VERSION).to_pylist() if COMMIT_VERSION in table.column_names else [None] * size
    puts, order = _done(table.column(CHANGE_TYPE).to_pylist(), versions, where)
    relaxed = Schema(tuple(attrs.evolve(f, nullable=True) for f in schema))
    rows = checked_table(relaxed, table.select(list(schema.names)), where)  # errors name the rows of the feed
    ops = pa.array(["upsert" if put else "delete" for put in puts], pa.string())
    return rows.append_column(op, ops).take(pa.array(order, pa.int64()))


def _done(kinds: Sequence[Any], versions: Sequence[Any], where: str) -> tuple[list[bool], list[int]]:
    """Return which rows are put, the others being deleted; and the rows in the order in which they count."""
    puts = []
    for number, kind in enumerate(kinds):
        put = DELTA_CHANGES.get(kind) if isinstance(kind, str) else None
        if put is None:
            reason = (
                f"{where}, row {number}: {CHANGE_TYPE} is {brief(kind)}: expected one of {', '.join(DELTA_CHANGES)}"
            )
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
