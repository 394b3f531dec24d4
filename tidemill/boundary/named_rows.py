"""Rows whose values have names: dicts, named tuples, PySpark's rows, dataclasses and objects of attrs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tidemill.boundary.tables import mismatch
from tidemill.errors import RowError


def field_names(row: Any) -> tuple[Any, ...] | None:
    """Return the names by which a row's values go; None for one that goes by position, and for what is no row.

    >>> import typing
    >>> Late = typing.NamedTuple("Late", [("flight", int), ("delay", int)])
    >>> field_names(Late(7, 90)), field_names({"delay": 90}), field_names((7, 90))
    (('flight', 'delay'), ('delay',), None)
    """
    kind = type(row)
    if kind is tuple or kind is list:
        return None
    if isinstance(row, Mapping):
        return tuple(row)
    if isinstance(row, tuple):
        # Ours have columns whose names Python does not allow, PySpark's have names where they were made with them.
        found = getattr(kind, "__columns__", None) or getattr(row, "__fields__", None) or getattr(kind, "_fields", None)
        return None if found is None else tuple(found)
    if dataclasses.is_dataclass(kind):
        return tuple([f.name for f in dataclasses.fields(kind)])
    if attrs.has(kind):
        return tuple([a.name for a in attrs.fields(kind)])
    return tuple(getattr(kind, "model_fields", ())) or None  # pydantic's


def as_dict(row: Any, names: Iterable[Any]) -> dict[Any, Any]:
    """Return a row whose values have these names as a dict."""
    if isinstance(row, tuple):
        return dict(zip(names, row, strict=True))
    return dict(row) if isinstance(row, Mapping) else {name: getattr(row, name) for name in names}


def values_by_name(row: Any, given: tuple[Any, ...], expected: tuple[str, ...], place: str) -> Iterable[Any]:
    """Return the values of a row that has names, in the order of the expected ones; `RowError` where these differ."""
    if given == expected and isinstance(row, tuple):
        return row
    if len(given) != len(expected) or set(given) != set(expected):
        wrong = mismatch(list(map(str, given)), expected)
        what = "the keys are" if isinstance(row, Mapping) else f"the fields of {type(row).__name__} are"
        hint = "; rows with names go by name: tuple(row) goes by position" if isinstance(row, tuple) else ""
        msg = f"{place}: {what} {list(given)}, expected {list(expected)}: {wrong}{hint}"
        others = [n for n in expected if n not in given]
        raise RowError(msg).about(row=row, column=others[0] if len(others) == 1 else None)
    values = as_dict(row, given)
    return [values[name] for name in expected]
