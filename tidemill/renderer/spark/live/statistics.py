"""Whether rows that Spark wrote may be out of range, by what Parquet files say of their columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tidemill.collections.schema import Field, Schema

__all__ = ["may_be_wrong"]

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_FIRST: Final = dt.date.min.toordinal() - _EPOCH
_LAST: Final = dt.date.max.toordinal() - _EPOCH
_DAY: Final = 86_400_000_000
_RANGES: Final = {
    "int64": (-(2**63) + 1, 2**63 - 1),
    "date": (_FIRST, _LAST),
    "timestamp": (_FIRST * _DAY, (_LAST + 1) * _DAY - 1),
}
"""What values may be, as Parquet has them: the same that `boundary` has Spark look for."""


def may_be_wrong(schema: Schema, paths: Iterable[Path]) -> bool:
    """Return whether a value in these files of rows (columns in the schema's order) may be one that it cannot be."""
    constrained = {f"v{i}": f for i, f in enumerate(schema) if not f.nullable or f.dtype.name in _RANGES}
    for path in paths:
        about = pq.read_metadata(path)
        at = {about.schema.column(i).path: i for i in range(about.num_columns)}
        if not constrained.keys() <= at.keys():  # a list, which has no column of its name
            return True
        for group in map(about.row_group, range(about.num_row_groups)):
            if any(_is_odd(field, group.column(at[name]).statistics) for name, field in constrained.items()):
                return True
    return False


def _is_odd(field: Field, seen: Any) -> bool:
    """Return whether a column's statistics leave it open that a value is wrong."""
    if seen is None or not seen.has_null_count or (seen.null_count and not field.nullable):
        return True
    limits = _RANGES.get(field.dtype.name)
    if limits is None or not seen.num_values:
        return False
    return not seen.has_min_max or seen.min_raw < limits[0] or seen.max_raw > limits[1]
