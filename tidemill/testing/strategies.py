"""Hypothesis strategies for updates and whole dataflows. Needs Hypothesis; reached through `tidemill.testing`."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from tidemill.expressions.schema import Field, Schema, SchemaLike
from tidemill.expressions.types import DType
from tidemill.testing.random_flows import Case, Growth

Update = tuple[Any, Any, int]

VALUES: Final[dict[str, list[Any]]] = {
    "int64": [0, 1, 2, 3, -1],
    "int32": [0, 1, 2, 3, -1],
    "float64": [0.0, 1.0, 0.1, -2.5, 1e20, -1e20, float("nan"), -0.0, float("inf"), float("-inf"), 5e-324],
    "bool": [False, True],
    "string": ["a", "b", "", "ä"],
    "binary": [b"", b"\x00", b"a"],
    "date": [dt.date(2024, 2, 29), dt.date(1969, 12, 31)],
    "timestamp": [dt.datetime(2024, 2, 29, 12), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],  # noqa: DTZ001 - naive
    "timestamptz": [dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)],
    "time": [dt.time(), dt.time(23, 59, 59, 999999), dt.time(10, 30)],
    "interval": [dt.timedelta(), dt.timedelta(days=-1, microseconds=1), dt.timedelta(days=400), dt.timedelta(hours=25)],
    "uuid": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000"],
}


def updates(
    schema: SchemaLike,
    coordinates: int = 1,
    *,
    max_size: int = 12,
    latest: int = 3,
    non_negative: bool = False,
    values: Mapping[str, Sequence[Any]] | None = None,
) -> st.SearchStrategy[list[Update]]:
    """Return what `tidemill.testing.updates` says."""
    rows = st.tuples(*(_column(f, (values or {}).get(f.name)) for f in Schema.of(schema)))
    story = _story(rows, coordinates, latest, non_negative=non_negative)
    return st.lists(story, max_size=(max_size + 1) // 2).map(lambda found: [u for s in found for u in s])


def times(coordinates: int, latest: int) -> st.SearchStrategy[Any]:
    """Return a strategy for times as users write them: an int, or a tuple of several coordinates."""
    coordinate = st.integers(0, latest)
    return coordinate if coordinates == 1 else st.tuples(*[coordinate] * coordinates)


@st.composite
def dataflows(draw: st.DrawFn, coordinates: int = 1, *, max_operators: int = 6, loops: bool = True) -> Case:
    """Return what `tidemill.testing.dataflows` says."""
    growth = Growth(draw, coordinates, loops=loops)
    for _ in range(draw(st.integers(1, max_operators))):
        growth.grow()
    non_negative = growth.non_negative
    found = {
        name: draw(updates(node.schema, coordinates, non_negative=non_negative))
        for name, node in growth.flow.graph.inputs.items()
    }
    return Case(growth.finished(), found)


def _story(
    rows: st.SearchStrategy[Any], coordinates: int, latest: int, *, non_negative: bool
) -> st.SearchStrategy[list[Update]]:
    """Return a strategy for what happens to one row: it comes, and may go at once or later; or it only goes."""
    endings = ["stays", "stays", "goes", "goes at once"] + ["only goes"] * (not non_negative)
    moment = times(coordinates, latest)  # always two of them, so that stories are alike and shrink well
    return st.builds(_told, rows, moment, st.sampled_from([1, 1, 1, 2]), st.sampled_from(endings), moment)


def _told(row: Any, time: Any, diff: int, ending: str, later: Any) -> list[Update]:
    if ending == "goes":
        return [(row, time, diff), (row, _no_earlier(time, later), -diff)]
    if ending == "goes at once":
        return [(row, time, diff), (row, time, -diff)]
    return [(row, time, -diff if ending == "only goes" else diff)]


def _no_earlier(time: Any, other: Any) -> Any:
    return tuple(map(max, time, other)) if isinstance(time, tuple) else max(time, other)


def _column(field: Field, values: Sequence[Any] | None) -> st.SearchStrategy[Any]:
    if values is not None:
        return st.sampled_from(list(values))
    known = _known(field.dtype)
    return st.sampled_from([*known, None] if field.nullable else known)


def _known(dtype: DType) -> list[Any]:
    """Return the few values that columns of a type are made of."""
    if dtype.is_decimal:
        unit = decimal.Decimal(1).scaleb(-dtype.scale)
        return [n * unit for n in (0, 1, -1, 5)]
    if dtype.fields:
        several = [[*_known(of), None] for _, of in dtype.fields]
        return [tuple([v[(i + j) % len(v)] for j, v in enumerate(several)]) for i in range(max(map(len, several)))]
    if dtype.element is None:
        return VALUES[dtype.name]
    one, other, *more = [*_known(dtype.element), None]
    return [(), (one,), (one, other), (other, one), (None,), (one, None), *((v,) for v in more)]
