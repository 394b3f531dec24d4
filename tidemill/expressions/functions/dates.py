"""Functions of dates and timestamps: their entries in the registry, and their builders."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import SchemaError, brief
from tidemill.expressions.expr import Cast, Expr, Literal, call, operand
from tidemill.expressions.functions.date_values import (
    EPOCH,
    after_epoch,
    age_between,
    date_of,
    end_of_month,
    moved,
    plus_days,
    plus_units,
    since_epoch,
    time_of,
    truncated,
    whole_micros,
    whole_units,
)
from tidemill.expressions.functions.registry import Function, Signature, either, fixed
from tidemill.expressions.intervals import DAY_MICROSECONDS, MONTHS, UNITS, Interval, sum_of, unit_of
from tidemill.expressions.types import (
    DATE,
    INT32,
    INT64,
    INTERVAL,
    STRING,
    TIME,
    TIMESTAMP,
    DType,
    decimal_type,
    struct_type,
)


def _moment(result: DType) -> Callable[[Sequence[DType]], Signature | None]:
    """Take a date or a timestamp, as it is."""

    def rule(types: Sequence[DType]) -> Signature | None:
        fits = len(types) == 1 and types[0] in (DATE, TIMESTAMP)
        return Signature((types[0],), result) if fits else None

    return rule


def _widened(*params: DType, result: DType) -> Callable[[Sequence[DType]], Signature | None]:
    """Take these types, but widen a date where a timestamp is expected."""

    def rule(types: Sequence[DType]) -> Signature | None:
        taken = [TIMESTAMP if (t, p) == (DATE, TIMESTAMP) else t for t, p in zip(types, params, strict=False)]
        fits = len(types) == len(params)
        return Signature(params, result) if fits and fixed(*params, result=result)(taken) else None

    return rule


DAY_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK")


def _check_unit(literals: Sequence[Any]) -> str | None:
    return (
        None if unit_of(literals[0]) else f"{brief(literals[0])} is no unit of time: expected one of {', '.join(UNITS)}"
    )


def _check_day_unit(literals: Sequence[Any]) -> str | None:
    if unit_of(literals[1]) in DAY_UNITS:
        return None
    return f"{brief(literals[1])} is no unit that a date is truncated to: expected one of {', '.join(DAY_UNITS)}"


AGE: Final = struct_type((("months", INT32), ("days", INT32), ("microseconds", INT64)))
"""The type of what lies between two moments where months are counted, which an interval does not hold."""


def _clock_part(name: str) -> Callable[[Any], int]:
    """Return what gives a part of a moment or a time of day; of an interval, what is left of larger parts."""

    def part(value: Any) -> int:
        if not isinstance(value, dt.timedelta):
            return int(getattr(value, name))
        days, rest = divmod(abs(whole_micros(value)), DAY_MICROSECONDS)
        size = days if name == "day" else int(getattr(time_of(rest), name))
        return -size if value < dt.timedelta() else size

    return part


_ANY: Final = "a date or a timestamp"
_part = _moment(INT32)
_clock = either(_widened(TIMESTAMP, result=INT32), *(fixed(t, result=INT32) for t in (TIME, INTERVAL)))
_since, _until = _widened(TIMESTAMP, result=INT64), fixed(INT64, result=TIMESTAMP)

DATES: Final = (
    Function("year", _part, _ANY, python=lambda d: d.year),
    Function("quarter", _part, _ANY, python=lambda d: (d.month + 2) // 3),
    Function("month", _part, _ANY, python=lambda d: d.month),
    Function("day", either(_part, fixed(INTERVAL, result=INT32)), _ANY, aliases=("dayofmonth",),
             python=_clock_part("day")),
    Function("dayofweek", _part, _ANY, python=lambda d: d.isoweekday() % 7 + 1),
    Function("weekday", _part, _ANY, python=lambda d: d.weekday()),
    Function("dayofyear", _part, _ANY, python=lambda d: d.timetuple().tm_yday),
    Function("weekofyear", _part, _ANY, python=lambda d: d.isocalendar().week),
    Function("hour", _clock, _ANY, python=_clock_part("hour")),
    Function("minute", _clock, _ANY, python=_clock_part("minute")),
    Function("second", _clock, _ANY, python=_clock_part("second")),
    Function("date_trunc", _widened(STRING, TIMESTAMP, result=TIMESTAMP), "a unit and a date or a timestamp",
             literals=(0,), check=_check_unit, unit=0, python=lambda unit, t: truncated(t, unit)),
    Function("trunc", fixed(DATE, STRING, result=DATE), "a date and a unit", literals=(1,), check=_check_day_unit,
             unit=1, by_day=True, python=truncated),
    Function("date_add", fixed(DATE, INT32, result=DATE), "a date and a number of days (int32)", can_fail=True,
             by_day=True, python=plus_days),
    Function("date_sub", fixed(DATE, INT32, result=DATE), "a date and a number of days (int32)", can_fail=True,
             by_day=True, python=lambda d, n: plus_days(d, -n)),
    Function("datediff", fixed(DATE, DATE, result=INT32), "two dates", by_day=True,
             python=lambda end, start: (end - start).days),
    Function("add_months", fixed(DATE, INT32, result=DATE), "a date and a number of months (int32)", can_fail=True,
             by_day=True, python=lambda d, n: moved(d, MONTHS, n)),
    Function("last_day", fixed(DATE, result=DATE), "a date", by_day=True, python=end_of_month),
    Function("make_date", fixed(INT32, INT32, INT32, result=DATE), "a year, a month and a day (int32)", can_fail=True,
             python=date_of),
    Function("timestampadd", _widened(STRING, INT64, TIMESTAMP, result=TIMESTAMP),
             "a unit, a number and a date or a timestamp", literals=(0,), check=_check_unit, unit=0, can_fail=True,
             python=plus_units),
    Function("timestampdiff", _widened(STRING, TIMESTAMP, TIMESTAMP, result=INT64),
             "a unit and two dates or timestamps", literals=(0,), check=_check_unit, unit=0, python=whole_units),
    Function("age", _widened(TIMESTAMP, TIMESTAMP, result=AGE), "two dates or timestamps", python=age_between),
    Function("unix_date", fixed(DATE, result=INT32), "a date", python=lambda d: (d - EPOCH.date()).days),
    Function("unix_seconds", _since, _ANY, python=since_epoch(1_000_000)),
    Function("unix_millis", _since, _ANY, python=since_epoch(1000)),
    Function("unix_micros", _since, _ANY, python=since_epoch(1)),
    Function("date_from_unix_date", fixed(INT32, result=DATE), "a number of days (int32)", can_fail=True,
             python=lambda n: plus_days(EPOCH.date(), n)),
    Function("timestamp_seconds", _until, "a whole number", can_fail=True, python=after_epoch(1_000_000)),
    Function("timestamp_millis", _until, "a whole number", can_fail=True, python=after_epoch(1000)),
    Function("timestamp_micros", _until, "a whole number", can_fail=True, python=after_epoch(1)),
)  # fmt: skip

WITH_UNIT: Final = frozenset(("timestampadd", "timestampdiff"))
"""What Spark writes with a bare word for the unit."""

_PARTS: Final = {
    "year": "YEAR Y YEARS YR YRS", "yearofweek": "YEAROFWEEK", "quarter": "QUARTER QTR",
    "month": "MONTH MON MONS MONTHS", "weekofyear": "WEEK W WEEKS", "day": "DAY D DAYS", "dayofweek": "DAYOFWEEK DOW",
    "dayofweek_iso": "DAYOFWEEK_ISO DOW_ISO", "dayofyear": "DOY", "hour": "HOUR H HOURS HR HRS",
    "minute": "MINUTE M MIN MINS MINUTES", "seconds": "SECOND S SEC SECONDS SECS",
}  # fmt: skip
PARTS: Final = {name: part for part, names in _PARTS.items() for name in names.split()}
"""What EXTRACT can take out: by Spark's names, the function that does or, where there is none, a name of ours."""


# Builders. Moments are dates or timestamps.


def year(moment: Any) -> Expr:
    """Return the year, an int32."""
    return call("year", operand(moment))


def quarter(moment: Any) -> Expr:
    """Return the quarter, 1 to 4."""
    return call("quarter", operand(moment))


def month(moment: Any) -> Expr:
    """Return the month, 1 to 12."""
    return call("month", operand(moment))


def day(moment: Any) -> Expr:
    """Return the day of the month, 1 to 31."""
    return call("day", operand(moment))


def dayofweek(moment: Any) -> Expr:
    """Return the day of the week, 1 for Sunday to 7 for Saturday."""
    return call("dayofweek", operand(moment))


def weekday(moment: Any) -> Expr:
    """Return the day of the week, 0 for Monday to 6 for Sunday."""
    return call("weekday", operand(moment))


def dayofyear(moment: Any) -> Expr:
    """Return the day of the year, 1 to 366."""
    return call("dayofyear", operand(moment))


def weekofyear(moment: Any) -> Expr:
    """Return the ISO week, 1 to 53: weeks begin on Monday, and week 1 has the year's first Thursday."""
    return call("weekofyear", operand(moment))


def hour(moment: Any) -> Expr:
    """Return the hour, 0 to 23."""
    return call("hour", operand(moment))


def minute(moment: Any) -> Expr:
    """Return the minute, 0 to 59."""
    return call("minute", operand(moment))


def second(moment: Any) -> Expr:
    """Return the whole second, 0 to 59."""
    return call("second", operand(moment))


def extract(part: str, moment: Any) -> Expr:
    """Return a part of a date or timestamp by its SQL name, a literal: ``extract("week", "day")``.

    As for Spark, ``extract("second", t)`` has the fraction of the second and is a decimal(8,6); ``second(t)`` is whole.
    """
    found = PARTS.get(part.strip().upper()) if isinstance(part, str) else None
    if found is None:
        msg = f"EXTRACT({part} FROM ...) is not supported: expected one of {', '.join(p for p in PARTS if len(p) > 1)}"
        raise SchemaError(msg)
    given = operand(moment)
    return _MADE_OF[found](given) if found in _MADE_OF else call(found, given)


def _seconds(moment: Expr) -> Expr:
    micros = Cast(call("pmod", unix_micros(moment), 60_000_000), decimal_type(8))
    return Cast(micros * decimal.Decimal("0.000001"), decimal_type(8, 6))


_MADE_OF: Final[dict[str, Callable[[Expr], Expr]]] = {
    "yearofweek": lambda moment: year(date_add(trunc(moment, "week"), 3)),  # that of its Thursday
    "dayofweek_iso": lambda moment: weekday(moment) + 1,
    "seconds": _seconds,
}


def date_trunc(unit: str, moment: Any) -> Expr:
    """Return the beginning of the year, quarter, month, week, day, hour, minute, second ... as a timestamp.

    ``unit`` is a literal.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import to_sql
    >>> print(to_sql(bind(date_trunc("month", col("t")), Schema.of({"t": "timestamp"}))))
    DATE_TRUNC('MONTH', t)
    """
    return call("date_trunc", unit, operand(moment))


def trunc(date: Any, unit: str) -> Expr:
    """Return the beginning of the year, quarter, month or week, a literal, as a date."""
    return call("trunc", operand(date), unit)


def date_add(date: Any, days: Any) -> Expr:
    """Return the date so many days later; ``col("day") + 1`` is the same for a date."""
    return call("date_add", operand(date), operand(days))


def date_sub(date: Any, days: Any) -> Expr:
    """Return the date so many days earlier."""
    return call("date_sub", operand(date), operand(days))


def datediff(end: Any, start: Any) -> Expr:
    """Return the number of days from start to end, an int32."""
    return call("datediff", operand(end), operand(start))


date_diff = datediff


def add_months(date: Any, months: Any) -> Expr:
    """Return the same day of a later month, or that month's last day if it has fewer."""
    return call("add_months", operand(date), operand(months))


def last_day(date: Any) -> Expr:
    """Return the last day of the month."""
    return call("last_day", operand(date))


def make_date(year: Any, month: Any, day: Any) -> Expr:
    """Return the date; an error where there is no such day."""
    return call("make_date", operand(year), operand(month), operand(day))


def timestampadd(unit: str, number: Any, moment: Any) -> Expr:
    """Return the timestamp so many units (a literal) later, where an interval would have to differ from row to row."""
    return call("timestampadd", unit, operand(number), operand(moment))


def timestampdiff(unit: str, start: Any, end: Any) -> Expr:
    """Return the number of whole units (a literal) from start to end, an int64, negative where the end is before."""
    return call("timestampdiff", unit, operand(start), operand(end))


def age(end: Any, start: Any) -> Expr:
    """Return the months, days and microseconds from start to end, all of one sign, as PostgreSQL's ``age`` counts them.

    It is a struct: an interval of ours is a length of time, and months are of many lengths.

    >>> import datetime as dt
    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> people = flow.constant({"born": "date"}, [(dt.date(2000, 1, 31),)])
    >>> aged = people.select(old=tm.age(dt.date(2026, 3, 1), "born"))
    >>> flow.output("out", aged.with_columns(years="old.months div 12"))
    >>> list(flow.start().snapshot("out"))
    [((313, 1, 0), 26)]
    """
    return call("age", operand(end), operand(start))


def unix_date(date: Any) -> Expr:
    """Return the number of days since 1970-01-01, an int32."""
    return call("unix_date", operand(date))


def unix_seconds(moment: Any) -> Expr:
    """Return the number of whole seconds since 1970-01-01, an int64."""
    return call("unix_seconds", operand(moment))


def unix_millis(moment: Any) -> Expr:
    """Return the number of whole milliseconds since 1970-01-01, an int64."""
    return call("unix_millis", operand(moment))


def unix_micros(moment: Any) -> Expr:
    """Return the number of microseconds since 1970-01-01, an int64."""
    return call("unix_micros", operand(moment))


def date_from_unix_date(days: Any) -> Expr:
    """Return the date so many days after 1970-01-01."""
    return call("date_from_unix_date", operand(days))


def timestamp_seconds(seconds: Any) -> Expr:
    """Return the timestamp so many seconds after 1970-01-01."""
    return call("timestamp_seconds", operand(seconds))


def timestamp_millis(millis: Any) -> Expr:
    """Return the timestamp so many milliseconds after 1970-01-01."""
    return call("timestamp_millis", operand(millis))


def timestamp_micros(micros: Any) -> Expr:
    """Return the timestamp so many microseconds after 1970-01-01."""
    return call("timestamp_micros", operand(micros))


def to_date(value: Any, pattern: str | None = None) -> Expr:
    """Return text in ISO form, or a timestamp, as a date: a cast; or text of a pattern: see `date_format`."""
    return Cast(operand(value), DATE) if pattern is None else call("date_of_text", operand(value), pattern)


def to_timestamp(value: Any, pattern: str | None = None) -> Expr:
    """Return text in ISO form, or a date, as a timestamp: a cast; or text of a pattern: see `date_format`."""
    return Cast(operand(value), TIMESTAMP) if pattern is None else call("timestamp_of_text", operand(value), pattern)


def interval(**units: int) -> Expr:
    """Return an interval, to be added to a date or a timestamp: of months, of days or of shorter units.

    ``interval(years=1, months=2)``, ``interval(days=3)``, ``interval(hours=1, minutes=30)``; a ``datetime.timedelta``
    is one as well. Days beside shorter units are 24 hours. Months and days do not mix: add one after the other.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import to_sql
    >>> print(to_sql(bind(col("t") + interval(minutes=5), Schema.of({"t": "timestamp"}))))
    t + INTERVAL '5' MINUTE
    """
    parts = []
    for name, number in units.items():
        unit = unit_of(name)
        if unit is None or isinstance(number, bool) or not isinstance(number, int):
            wanted = ", ".join(u.lower() + "s" for u in UNITS)
            msg = f"interval({name}={brief(number)}): expected whole numbers of {wanted}"
            raise SchemaError(msg)
        dtype, size = UNITS[unit]
        parts.append(Interval(dtype, number * size))
    return Literal(sum_of(parts))
