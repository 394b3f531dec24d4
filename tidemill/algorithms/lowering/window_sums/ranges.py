"""Bounds of RANGE frames: the place at which a peer group's frame begins or ends, its value and an offset."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms.prefix_sums.columns import column_values
from tidemill.algorithms.prefix_sums.order_index import PlaceBytes
from tidemill.boundary.values import canonical_float
from tidemill.expressions.functions.date_values import moved
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.intervals import Interval
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, TableFunction
from tidemill.expressions.types import BINARY, BOOL, DType
from tidemill.expressions.windows.frames import Offset

PLACE: Final = "bound#"
"""The column of the place at which a frame begins or ends."""
AFTER: Final = "after#"
"""The column that says whether the bound is after all rows at its place, rather than before them."""


@attrs.frozen
class RangeBound(TableFunction):
    """Where a frame begins or ends whose bound is an offset from the value that the rows are ordered by.

    Peers without a value have themselves there.
    """

    place: PlaceBytes
    dtype: DType
    offset: Offset
    end: bool

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema((Field(PLACE, BINARY, nullable=False), Field(AFTER, BOOL, nullable=False)))

    def rows(self, *arguments: Any) -> Iterable[tuple[Any, ...]]:
        (value,) = arguments
        return [self._bound(value)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        (given,) = arguments
        values = column_values(given)
        found = {v: self._bound(v) for v in set(values)}
        places, after = zip(*map(found.__getitem__, values), strict=True) if values else ((), ())
        return np.arange(len(values)), [pa.array(places, pa.binary()), pa.array(after, pa.bool_())]

    def _bound(self, value: Any) -> tuple[bytes, bool]:
        if value is None:
            return self.place.of(None), self.end
        later = self._offset_is_after
        target = _moved(value, -self.offset if self.place.descending else self.offset, self.dtype)
        if target is None:  # beyond all values
            return self.place.outermost(last=later), later
        nearest = _nearest(target, self.dtype, up=self.end == self.place.descending)
        if nearest is None:  # towards the inside of the frame there is no value any more
            return self.place.outermost(last=not self.end), not self.end
        return self.place.of(nearest), self.end

    @property
    def _offset_is_after(self) -> bool:
        amount = self.offset.amount if isinstance(self.offset, Interval) else self.offset
        return amount > 0


def _moved(value: Any, offset: Offset, dtype: DType) -> Any:
    """Return the value some way off, exactly; None where that is beyond all values of any type there is."""
    if isinstance(offset, Interval):
        start = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
        try:
            return moved(start, offset.dtype, offset.amount)
        except FailureError:
            return None
    if dtype.name == "float64":
        return canonical_float(value + offset)
    return Fraction(value) + Fraction(offset)


def _nearest(target: Any, dtype: DType, *, up: bool) -> Any:
    """Return the next value of a type, up or down, to one that may not be of it; None where there is none."""
    if dtype.name in ("float64", "timestamp"):
        return target
    if dtype.name == "date":
        return _date(target, up=up)
    scaled = target * 10**dtype.scale if dtype.is_decimal else target
    units = math.ceil(scaled) if up else math.floor(scaled)
    greatest = 10**dtype.precision - 1 if dtype.is_decimal else _GREATEST[dtype.name]
    least = -greatest - (not dtype.is_decimal)
    units = max(units, least) if up else min(units, greatest)
    if not least <= units <= greatest:
        return None
    return decimal.Decimal(units).scaleb(-dtype.scale, _EXACT) if dtype.is_decimal else units


def _date(target: dt.datetime, *, up: bool) -> dt.date | None:
    day = target.date()
    if not up or target.time() == dt.time():
        return day
    return None if day == dt.date.max else day + dt.timedelta(days=1)


_GREATEST: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1}
_EXACT: Final = decimal.Context(prec=80)
