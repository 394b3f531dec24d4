"""What functions of dates and timestamps mean, of values that are not NULL, in plain Python."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from tidemill.expressions.intervals import DAYS, MONTHS, UNITS
from tidemill.expressions.types import DType
from tidemill.renderer.reference.scalar_functions import FailureError

__all__ = ["DATES", "moved"]

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps have no zone
_BEYOND: Final = "the result is not in the years 1 to 9999"
_MICRO: Final = dt.timedelta(microseconds=1)


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


def _days(date: dt.date, count: int) -> Any:
    return moved(date, DAYS, count)


def _timestampadd(unit: str, count: int, moment: dt.datetime) -> Any:
    kind, size = UNITS[unit]
    return moved(moment, kind, count * size)


def _timestampdiff(unit: str, start: dt.datetime, end: dt.datetime) -> int:
    kind, size = UNITS[unit]
    if kind == MONTHS:
        return _towards_zero(_months_between(start, end), size)
    return _towards_zero((end - start) // _MICRO, size * (dt.timedelta(1) // _MICRO if kind == DAYS else 1))


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


def _truncated(moment: dt.date, name: str) -> Any:
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


def _make_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError):
        reason = "there is no such day"
        raise FailureError(reason) from None


def _until(micros: int) -> Callable[[int], dt.datetime]:
    def moment(count: int) -> dt.datetime:
        try:
            return _EPOCH + count * micros * _MICRO
        except OverflowError:
            raise FailureError(_BEYOND) from None

    return moment


def _since(micros: int) -> Callable[[dt.datetime], int]:
    return lambda moment: (moment - _EPOCH) // (micros * _MICRO)


DATES: Final[dict[str, Callable[..., Any]]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "dayofweek": lambda d: d.isoweekday() % 7 + 1,
    "weekday": lambda d: d.weekday(),
    "dayofyear": lambda d: d.timetuple().tm_yday,
    "weekofyear": lambda d: d.isocalendar().week,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "date_trunc": lambda unit, t: _truncated(t, unit),
    "trunc": _truncated,
    "date_add": _days,
    "date_sub": lambda d, n: _days(d, -n),
    "datediff": lambda end, start: (end - start).days,
    "add_months": lambda d, n: moved(d, MONTHS, n),
    "last_day": lambda d: d.replace(day=calendar.monthrange(d.year, d.month)[1]),
    "make_date": _make_date,
    "timestampadd": _timestampadd,
    "timestampdiff": _timestampdiff,
    "unix_date": lambda d: (d - _EPOCH.date()).days,
    "unix_seconds": _since(1_000_000),
    "unix_millis": _since(1000),
    "unix_micros": _since(1),
    "date_from_unix_date": lambda n: _days(_EPOCH.date(), n),
    "timestamp_seconds": _until(1_000_000),
    "timestamp_millis": _until(1000),
    "timestamp_micros": _until(1),
}
