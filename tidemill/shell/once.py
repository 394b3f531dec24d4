"""A query for the contents of this moment: a dataflow of its own, loaded with what it reads, run once, thrown away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.results import Rows
from tidemill.collections.collection import Collection
from tidemill.expressions.schema import Schema
from tidemill.flow import Dataflow
from tidemill.renderer.runs.run import Run
from tidemill.shell.text import Words

RESULT: Final = "the result"
_AFTER_ORDER: Final = ("LIMIT", "OFFSET", "FETCH")
_SET_OPERATIONS: Final = ("UNION", "INTERSECT", "EXCEPT")


@attrs.frozen
class Table:
    """What a name means to a query: contents that are there, or the text of a view that is made of others."""

    schema: Schema | None = None
    rows: Any = None
    """What ``run.insert`` takes; None where nothing of the name is asked for."""
    view: str = ""


@attrs.frozen
class WrittenKey:
    """A key of ORDER BY: its text, and how it sorts."""

    written: Words
    descending: bool
    nulls_first: bool


def collected(
    text: str, dialect: str, tables: Mapping[str, Table], finish: Callable[[Collection], Collection] = lambda c: c
) -> Rows:
    """Return what a query gives for these contents; ``finish`` adds operators to it."""
    with _run(text, dialect, tables, finish) as run:
        return run.snapshot(RESULT)


def _run(text: str, dialect: str, tables: Mapping[str, Table], finish: Callable[[Collection], Collection]) -> Run:
    flow = Dataflow("query")
    views: dict[str, Collection] = {}
    for name, table in tables.items():
        if table.schema is None:
            views |= flow.sql(table.view, dialect, tables=views)
        else:
            views[name] = flow.input(name, table.schema)
    flow.output(RESULT, finish(flow.sql(text, dialect, tables=views)))
    run = flow.start(progress=False)
    for name, table in tables.items():
        if table.rows is not None:
            run.insert(name, table.rows)
    run.advance()
    return run


def selected(query: Words, dialect: str, tables: Mapping[str, Table]) -> Rows:
    """Return a query's rows, in the order that it asks for."""
    keys = _order_keys(query, _nulls_first(dialect))
    found = collected(query.text, dialect, tables)
    if not keys:
        return found
    names = list(found.schema.names)
    places = [_place(key, names, query) for key in keys]
    if None in places:  # by what is not among the columns: it is put to them, and taken away afterwards
        hidden = {i: f"__order_{i}" for i, place in enumerate(places) if place is None}
        found = collected(_with_columns(query, {n: keys[i].written for i, n in hidden.items()}), dialect, tables)
        shown = len(found.schema) - len(hidden)
        behind = iter(range(shown, len(found.schema)))
        places = [next(behind) if place is None else place for place in places]
        names = names[:shown]
    table = found.to_arrow()
    columns = [table.column(p).to_pylist() for p in places if p is not None]
    order = list(range(table.num_rows))
    for column, key in reversed(list(zip(columns, keys, strict=True))):
        order = _sorted(order, column, key)
    schema = Schema(found.schema.fields[: len(names)])
    kept = table.select(list(range(len(names)))).take(pa.array(order, pa.int64()))
    return Rows(schema, kept, np.ones(len(order), np.int64), None, is_sorted=True)


def _order_keys(query: Words, nulls_first: Callable[[bool], bool]) -> list[WrittenKey]:
    start = query.at("ORDER BY")
    if start is None:
        return []
    rest = query[start + 1 : len(query)]
    end = min((at for word in _AFTER_ORDER if (at := rest.at(word)) is not None), default=len(rest))
    found = []
    for words in rest[:end].split(","):
        key, nulls = words, None
        if len(key) > 2 and key.word(len(key) - 2) == "NULLS":  # noqa: PLR2004 - a key, NULLS FIRST
            nulls, key = key.word(len(key) - 1) == "FIRST", key[: len(key) - 2]
        direction = key.word(len(key) - 1) if len(key) > 1 else ""
        if direction in ("ASC", "DESC"):
            key = key[: len(key) - 1]
        descending = direction == "DESC"
        found.append(WrittenKey(key, descending, nulls_first(descending) if nulls is None else nulls))
    return found


def _place(key: WrittenKey, names: list[str], query: Words) -> int | None:
    """Return which of a query's columns a key is: by its number, its name, or as it is written there."""
    text = key.written.written()
    if text.isdigit():
        return int(text) - 1
    lower = [n.lower() for n in names]
    if (bare := text.strip('"`').lower()) in lower:
        return lower.index(bare)
    items = [item.written() for item in _select_list(query).split(",")]
    return items.index(text) if len(items) == len(names) and text in items else None


def _select_list(query: Words) -> Words:
    start = query.at("SELECT")
    if start is None:
        return query[:0]
    rest = query[start + 1 : len(query)]
    ends = ("FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW", "ORDER BY", *_SET_OPERATIONS)
    return rest[: min(at for word in ends if (at := rest.at(word)) is not None)]


def _with_columns(query: Words, columns: Mapping[str, Words]) -> str:
    """Return a query that gives more columns, behind its own."""
    items = _select_list(query)
    key = next(iter(columns.values()))
    if any(query.at(word) is not None for word in _SET_OPERATIONS):
        raise key.error("the rows of a set operation are put in an order of its columns", "order by one of these")
    if items.word(0) == "DISTINCT":
        raise key.error("distinct rows are put in an order of their columns", "order by one of these")
    end = items.words[-1][0].end + 1
    more = "".join(f", {words.written()} AS {name}" for name, words in columns.items())
    return query.text[:end] + more + query.text[end:]


def _sorted(order: list[int], column: list[Any], key: WrittenKey) -> list[int]:
    """Return places in the order of a column; what is alike in it stays as it is. NaN is the greatest."""
    nulls = [i for i in order if column[i] is None]
    rest = [i for i in order if column[i] is not None]
    rest.sort(key=lambda i: (column[i] != column[i], column[i]), reverse=key.descending)  # NaN is not itself
    return nulls + rest if key.nulls_first else rest + nulls


def _nulls_first(dialect: str) -> Callable[[bool], bool]:
    """Return where a dialect has NULL in an order that does not say so."""
    if dialect == "spark":
        return lambda descending: not descending
    if dialect == "duckdb":
        return lambda _: False
    return lambda descending: descending
