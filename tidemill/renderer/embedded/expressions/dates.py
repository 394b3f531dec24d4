"""Functions of dates and timestamps over Arrow columns. Years are 1 to 9999; what leads beyond is an overflow."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.arrow_arrays import truths_of
from tidemill.expressions.bound import BoundCall
from tidemill.expressions.functions.date_values import EPOCH
from tidemill.expressions.intervals import DAY_MICROSECONDS, DAYS, MICROSECONDS, MONTHS, UNITS
from tidemill.expressions.types import DATE, INTERVAL, TIMESTAMP, DType
from tidemill.renderer.embedded.expressions.kernels import (
    Apply,
    Rule,
    checked,
    kernel,
    literal,
    numbers,
    spread,
    with_nulls,
)
from tidemill.renderer.embedded.expressions.python_rule import python_rule

_FIRST_DAY: Final = (dt.date.min - EPOCH.date()).days
_LAST_DAY: Final = (dt.date.max - EPOCH.date()).days
_DAY: Final = DAY_MICROSECONDS
_BEYOND: Final = "the result is not in the years 1 to 9999"
_LIMITS: Final = {DATE: (_FIRST_DAY, _LAST_DAY), TIMESTAMP: (_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)}

_Numbers: TypeAlias = np.ndarray[Any, Any]

# Dates and timestamps as NumPy's integers: days, or microseconds, since 1970.


def _raw(array: pa.Array) -> _Numbers:
    if pa.types.is_date(array.type):
        return numbers(array, pa.int32()).astype(np.int64)
    return numbers(array, pa.int64())


def _dated(values: _Numbers, like: list[pa.Array], to: DType) -> pa.Array:
    """Return integers as dates or timestamps; an ``OverflowError`` where one is beyond the years 1 to 9999."""
    low, high = _LIMITS[to]
    bad = (values < low) | (values > high)
    if bad.any():
        for array in like:
            if array.null_count:
                bad &= truths_of(array.is_valid())
        if bad.any():
            raise OverflowError
        values = np.clip(values, low, high)
    return with_nulls(values.astype(np.int32) if to == DATE else values, like, to.arrow)


def _to_months(days: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the number of months since 1970 and the day of the month, from 0."""
    months = days.astype("M8[D]").astype("M8[M]")
    return months.astype(np.int64), days - months.astype("M8[D]").astype(np.int64)


def _first_of(months: _Numbers) -> _Numbers:
    days: _Numbers = np.clip(months, -30_000, 100_000).astype("M8[M]").astype("M8[D]").astype(np.int64)
    return days


def plus_months(days: _Numbers, count: Any) -> _Numbers:
    """Return days moved by months: the same day of another month, or its last one. Beyond all dates it stays there."""
    months, day = _to_months(days)
    months = months + np.clip(count, -200_000, 200_000)
    first = _first_of(months)
    moved: _Numbers = first + np.minimum(day, _first_of(months + 1) - first - 1)
    return moved


def _plus(values: _Numbers, count: Any, unit: DType, of: DType) -> _Numbers:
    """Return dates' days or timestamps' microseconds moved by months, days or microseconds."""
    if unit == MONTHS:
        if of == DATE:
            return plus_months(values, count)
        days = values // _DAY
        later: _Numbers = plus_months(days, count) * _DAY + values % _DAY
        return later
    size = _DAY if unit == DAYS and of == TIMESTAMP else 1
    # Clipped, so that the product does not overflow: this is still far beyond the year 9999.
    limit = 4 * _LIMITS[TIMESTAMP][1] // size
    moved: _Numbers = values + np.clip(count, -limit, limit) * size
    return moved


def move_rule(bound: BoundCall, to: DType, by: DType, sign: int) -> Apply:
    """Return the function of dates or timestamps and what moves them: a column of days, or an interval's amount."""
    unit = by if by in (MONTHS, DAYS, MICROSECONDS) else DAYS

    def apply(moments: pa.Array, count: Any) -> pa.Array:
        if isinstance(count, int):
            return _dated(_plus(_raw(moments), sign * count, unit, to), [moments], to)
        columns = spread((moments, count))
        counts = sign * numbers(columns[1]).astype(np.int64)
        return _dated(_plus(_raw(columns[0]), counts, unit, to), columns, to)

    return checked(bound, apply, _BEYOND)


def _timestampadd(bound: BoundCall) -> Apply:
    unit, size = UNITS[literal(bound, 0)]
    move = move_rule(bound, TIMESTAMP, unit, 1)
    limit = 2**62 // size

    def apply(_unit: Any, count: Any, moments: Any) -> pa.Array:
        count, moments = spread((count, moments))
        wide = np.clip(numbers(count), -limit, limit) * size
        return move(moments, with_nulls(wide, [count], pa.int64()))

    return apply


# Differences.


def _whole_months(start: _Numbers, end: _Numbers) -> _Numbers:
    """Return the whole months between, as Java counts them: the time of day first makes whole days."""
    first, last, clock = start // _DAY, end // _DAY, end % _DAY - start % _DAY
    last = last - ((last > first) & (clock < 0)) + ((last < first) & (clock > 0))
    (m1, d1), (m2, d2) = _to_months(first), _to_months(last)
    apart = (m2 - m1) * 32 + d2 - d1
    return _towards_zero(apart, 32)


def _towards_zero(values: _Numbers, size: int) -> _Numbers:
    whole: _Numbers = np.sign(values) * (np.abs(values) // size)
    return whole


def _timestampdiff(bound: BoundCall) -> Apply:
    unit, size = UNITS[literal(bound, 0)]

    def apply(_unit: Any, *moments: Any) -> pa.Array:
        columns = spread(moments)
        start, end = map(_raw, columns)
        if unit == MONTHS:
            result = _towards_zero(_whole_months(start, end), size)
        else:
            result = _towards_zero(end - start, size * (_DAY if unit == DAYS else 1))
        return with_nulls(result, columns, pa.int64())

    return apply


def _datediff(_bound: BoundCall) -> Apply:
    between = kernel("days_between")
    return lambda end, start: between(start, end).cast(pa.int32())


# Parts.


def _part(name: str, options: pc.FunctionOptions | None = None) -> Rule:
    compute = kernel(name, options)

    def rule(bound: BoundCall) -> Apply:
        if bound.args[0].dtype == INTERVAL:
            return python_rule(bound)
        return lambda value: compute(value).cast(pa.int32())

    return rule


def _truncate(unit_at: int) -> Rule:
    """Return the rule of a unit and a moment, the unit at this place."""

    def rule(bound: BoundCall) -> Apply:
        down = kernel("floor_temporal", pc.RoundTemporalOptions(1, literal(bound, unit_at).lower()))
        return lambda *given: down(given[1 - unit_at])

    return rule


def _last_day(_bound: BoundCall) -> Apply:
    def apply(value: pa.Array) -> pa.Array:
        months, _ = _to_months(_raw(value))
        return _dated(_first_of(months + 1) - 1, [value], DATE)

    return apply


def _make_date(bound: BoundCall) -> Apply:
    def apply(*parts: Any) -> pa.Array:
        columns = spread(parts)
        year, month, day = (numbers(c).astype(np.int64) for c in columns)
        months = (year - 1970) * 12 + month - 1
        first = _first_of(months)
        fits = (year >= 1) & (year <= dt.MAXYEAR) & (month >= 1) & (month <= 12)  # noqa: PLR2004 - months
        fits &= (day >= 1) & (day <= _first_of(months + 1) - first)
        for column in columns:
            fits |= truths_of(column.is_null())
        if not fits.all():
            raise OverflowError
        return with_nulls((first + day - 1).astype(np.int32), columns, pa.date32())

    return checked(bound, apply, "there is no such day")


# Numbers since 1970.


def _since(size: int) -> Rule:
    return lambda _bound: lambda value: with_nulls(_raw(value) // size, [value], pa.int64())


def _until(size: int, to: DType = TIMESTAMP) -> Rule:
    limit = 2**62 // size

    def rule(bound: BoundCall) -> Apply:
        def apply(value: pa.Array) -> pa.Array:
            return _dated(np.clip(numbers(value).astype(np.int64), -limit, limit) * size, [value], to)

        return checked(bound, apply, _BEYOND)

    return rule


DATE_RULES: Final[dict[str, Rule]] = {
    "year": _part("year"),
    "quarter": _part("quarter"),
    "month": _part("month"),
    "day": _part("day"),
    "dayofweek": _part("day_of_week", pc.DayOfWeekOptions(count_from_zero=False, week_start=7)),
    "weekday": _part("day_of_week", pc.DayOfWeekOptions(count_from_zero=True, week_start=1)),
    "dayofyear": _part("day_of_year"),
    "weekofyear": _part("iso_week"),
    "hour": _part("hour"),
    "minute": _part("minute"),
    "second": _part("second"),
    "date_trunc": _truncate(0),
    "trunc": _truncate(1),
    "date_add": lambda bound: move_rule(bound, DATE, DAYS, 1),
    "date_sub": lambda bound: move_rule(bound, DATE, DAYS, -1),
    "datediff": _datediff,
    "add_months": lambda bound: move_rule(bound, DATE, MONTHS, 1),
    "last_day": _last_day,
    "make_date": _make_date,
    "timestampadd": _timestampadd,
    "timestampdiff": _timestampdiff,
    "unix_date": lambda _bound: lambda value: value.view(pa.int32()),
    "unix_seconds": _since(1_000_000),
    "unix_millis": _since(1000),
    "unix_micros": _since(1),
    "date_from_unix_date": _until(1, DATE),
    "timestamp_seconds": _until(1_000_000),
    "timestamp_millis": _until(1000),
    "timestamp_micros": _until(1),
}
