"""A query for the contents of this moment: a dataflow of its own, loaded with what it reads, run once, thrown away."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.boundary.results import Rows
from tidemill.collections.collection import Collection
from tidemill.expressions.schema import Schema
from tidemill.expressions.sort_keys import SortKey
from tidemill.flow import Dataflow
from tidemill.sql.script import in_order, sql


@attrs.frozen
class Table:
    """What a name means to a query: contents that are there, or the text of a view that is made of others."""

    schema: Schema | None = None
    rows: Any = None
    """What ``run.insert`` takes; None where nothing of the name is asked for."""
    view: str = ""


def collected(
    text: str, dialect: str, tables: Mapping[str, Table], finish: Callable[[Collection], Collection] = lambda c: c
) -> Rows:
    """Return what a query gives for these contents; ``finish`` adds operators to it."""
    flow = Dataflow("query")
    made: Any = sql(flow, text, dialect, _views(flow, dialect, tables), _present())
    return _result(flow, finish(made), tables)


def selected(text: str, dialect: str, tables: Mapping[str, Table]) -> Rows:
    """Return a query's rows, in the order that it asks for."""
    flow = Dataflow("query")
    rows, keys = in_order(flow, text, dialect, _views(flow, dialect, tables), _present())
    found = _result(flow, rows, tables)
    if not keys:
        return found
    table, width = found.to_arrow(), len(found.schema) - len(keys)
    order = list(range(table.num_rows))
    for place, key in reversed([*enumerate(keys, width)]):
        order = _sorted(order, table.column(place).to_pylist(), key)
    kept = table.select(list(range(width))).take(pa.array(order, pa.int64()))
    return Rows(Schema(found.schema.fields[:width]), kept, np.ones(len(order), np.int64), None, is_sorted=True)


def _present() -> dt.datetime:
    """Return the present time in UTC, as timestamps without a zone are read."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def _views(flow: Dataflow, dialect: str, tables: Mapping[str, Table]) -> dict[str, Collection]:
    """Return the tables as a query's dataflow has them."""
    views: dict[str, Collection] = {}
    for name, table in tables.items():
        if table.schema is None:
            views |= flow.sql(table.view, dialect, tables=views)
        else:
            views[name] = flow.input(name, table.schema)
    return views


def _result(flow: Dataflow, rows: Collection, tables: Mapping[str, Table]) -> Rows:
    flow.output("the result", rows)
    with flow.start(progress=False) as run:
        for name, table in tables.items():
            if table.rows is not None:
                run.insert(name, table.rows)
        run.advance()
        return run.snapshot("the result")


def _sorted(order: list[int], column: list[Any], key: SortKey) -> list[int]:
    """Return places in the order of a column; what is alike in it stays as it is. NaN is the greatest."""
    nulls = [i for i in order if column[i] is None]
    rest = [i for i in order if column[i] is not None]
    rest.sort(key=lambda i: _rank(column[i]), reverse=key.descending)
    return nulls + rest if key.nulls_first else rest + nulls


def _rank(value: Any) -> tuple[Any, ...]:
    """Return what sorts as a value does; in lists and structs NULL is the least."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return 1, [_rank(v) for v in value]
    return 1, isinstance(value, float) and math.isnan(value), value
