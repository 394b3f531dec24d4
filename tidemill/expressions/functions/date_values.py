"""The arithmetic of dates and timestamps, of Python values."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.intervals import DAY_MICROSECONDS, DAYS, MONTHS, UNITS, unit_length
from tidemill.expressions.types import DType

EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps have no zone
_BEYOND: Final = "the result is not in the years 1 to 9999"
EPOCH_UTC: Final = EPOCH.replace(tzinfo=dt.UTC)
_MICRO: Final = dt.timedelta(microseconds=1)


def whole_micros(value: Any) -> int:
    """Return microseconds: of a timestamp since 1970, of one with a zone in UTC, of a time of day since midnight.

    >>> whole_micros(dt.time(0, 1)), whole_micros(dt.timedelta(days=-1)), whole_micros(dt.datetime(1970, 1, 2))
    (60000000, -86400000000, 86400000000)
    """
    if isinstance(value, dt.time):
        value = dt.datetime.combine(EPOCH, value)
    if isinstance(value, dt.datetime):
        value -= EPOCH if value.tzinfo is None else EPOCH_UTC
    return int(value // _MICRO)


def time_of(micros: int) -> dt.time:
    """Return the time of day so many microseconds after midnight."""
    return (EPOCH + micros * _MICRO).time()


def moved(moment: dt.date, kind: DType, amount: int) -> Any:
    """Return a date or timestamp moved by months, days or microseconds; in a month without such a day to its last."""
    try:
        if kind == MONTHS:
            return _plus_months(moment, amount)
        return moment + (dt.timedelta(days=amount) if kind == DAYS else amount * _MICRO)
    except (OverflowError, ValueError):
        raise FailureError(_BEYOND) from None


def _plus_months(moment: dt.date, count: int) -> dt.date:
    year, month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise OverflowError
    return moment.replace(year=year, month=month + 1, day=min(moment.day, calendar.monthrange(year, month + 1)[1]))


def plus_days(date: dt.date, count: int) -> Any:
    """Return a date so many days later."""
    return moved(date, DAYS, count)


def plus_units(unit: str, count: int, moment: dt.datetime) -> Any:
    """Return a timestamp so many units later."""
    kind, size = UNITS[unit]
    return moved(moment, kind, count * size)


def whole_units(unit: str, start: dt.datetime, end: dt.datetime) -> int:
    """Return the number of whole units from start to end, negative where the end is before."""
    length = unit_length(unit)
    if length is None:
        return _towards_zero(_months_between(start, end), UNITS[unit][1])
    return _towards_zero((end - start) // _MICRO, length)


def _towards_zero(value: int, size: int) -> int:
    return value // size if value >= 0 else -(-value // size)


def _months_between(start: dt.datetime, end: dt.datetime) -> int:
    """Return Java's whole months: days first, by the time of day, then months, by the day."""
    last = end.date().toordinal()
    if end.date() > start.date() and end.time() < start.time():
        last -= 1
    if end.date() < start.date() and end.time() > start.time():
        last += 1
    day = dt.date.fromordinal(last)
    apart = (day.year * 12 + day.month) * 32 + day.day - (start.year * 12 + start.month) * 32 - start.day
    return _towards_zero(apart, 32)


def age_between(end: dt.datetime, start: dt.datetime) -> tuple[int, int, int]:
    """Return the months, days and microseconds between two moments, as PostgreSQL's ``age`` counts them.

    Days that are borrowed are those of the earlier moment's month.
    """
    low, high = min(start, end), max(start, end)
    micros = whole_micros(high.time()) - whole_micros(low.time())
    days, months = high.day - low.day, (high.year - low.year) * 12 + high.month - low.month
    if micros < 0:
        micros, days = micros + DAY_MICROSECONDS, days - 1
    while days < 0:
        days, months = days + calendar.monthrange(low.year, low.month)[1], months - 1
    return (months, days, micros) if end >= start else (-months, -days, -micros)


def truncated(moment: dt.date, name: str) -> Any:
    """Return the beginning of a unit, for a date as a date."""
    if isinstance(moment, dt.datetime) and name not in _OF_DATES:
        midnight = dt.datetime.combine(moment, dt.time())
        step = UNITS[name][1] * _MICRO
        return midnight + (moment - midnight) // step * step
    day = moment.date() if isinstance(moment, dt.datetime) else moment
    if name == "WEEK":
        day -= dt.timedelta(days=day.weekday())
    elif name != "DAY":
        month = {"YEAR": 1, "QUARTER": (day.month - 1) // 3 * 3 + 1, "MONTH": day.month}[name]
        day = day.replace(month=month, day=1)
    return dt.datetime.combine(day, dt.time()) if isinstance(moment, dt.datetime) else day


_OF_DATES: Final = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"}


def date_of(year: int, month: int, day: int) -> dt.date:
    """Return a date; where there is no such day, fail."""
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError):
        reason = "there is no such day"
        raise FailureError(reason) from None


def after_epoch(micros: int) -> Callable[[int], dt.datetime]:
    """Return the function from a count of so many microseconds since 1970 to the timestamp."""

    def moment(count: int) -> dt.datetime:
        try:
            return EPOCH + count * micros * _MICRO
        except OverflowError:
            raise FailureError(_BEYOND) from None

    return moment


def since_epoch(micros: int) -> Callable[[dt.datetime], int]:
    """Return the function from a timestamp to the whole number of so many microseconds since 1970."""
    return lambda moment: (moment - EPOCH) // (micros * _MICRO)


def end_of_month(date: dt.date) -> dt.date:
    """Return the last day of a date's month."""
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])
