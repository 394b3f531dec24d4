"""Dates and timestamps as text of a pattern and back, by Java's letters: entries in the registry, and their builders.

Names are English. What a pattern may have is what means the same whatever the place and the time.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from tidemill.errors import brief
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import Function, either, fixed
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.types import DATE, STRING, TIMESTAMP

MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT: Final = 3


@attrs.frozen
class _Field:
    """What letters of a pattern stand for."""

    write: Callable[[dt.datetime], str]
    name: str = ""
    """What is read; nothing where the letters are for writing alone."""
    text: str = ""
    """A regular expression for it."""


def _number(name: str, width: int, of: Callable[[dt.datetime], int], most: int) -> _Field:
    return _Field(lambda t: f"{of(t):0{width}}", name, rf"\d{{{width},{most}}}" if width == 1 else rf"\d{{{width}}}")


def _names(name: str, names: Sequence[str], of: Callable[[dt.datetime], int], length: int | None) -> _Field:
    some = [n[:length] for n in names]
    return _Field(lambda t: some[of(t)], name, "|".join(some))


def _fraction(width: int) -> _Field:
    return _Field(lambda t: f"{t.microsecond:06}".ljust(9, "0")[:width], "fraction", rf"\d{{{width}}}")


def _month(t: dt.datetime) -> int:
    return t.month - 1


_FIELDS: Final[dict[str, _Field]] = {
    "yyyy": _number("year", 4, lambda t: t.year, 4), "y": _number("year", 1, lambda t: t.year, 4),
    "yy": _number("year of century", 2, lambda t: t.year % 100, 2),
    "MMMM": _names("month name", MONTH_NAMES, _month, None), "MMM": _names("month name", MONTH_NAMES, _month, _SHORT),
    "MM": _number("month", 2, lambda t: t.month, 2), "M": _number("month", 1, lambda t: t.month, 2),
    "dd": _number("day", 2, lambda t: t.day, 2), "d": _number("day", 1, lambda t: t.day, 2),
    "HH": _number("hour", 2, lambda t: t.hour, 2), "H": _number("hour", 1, lambda t: t.hour, 2),
    "hh": _number("hour of half", 2, lambda t: (t.hour - 1) % 12 + 1, 2),
    "h": _number("hour of half", 1, lambda t: (t.hour - 1) % 12 + 1, 2),
    "mm": _number("minute", 2, lambda t: t.minute, 2), "m": _number("minute", 1, lambda t: t.minute, 2),
    "ss": _number("second", 2, lambda t: t.second, 2), "s": _number("second", 1, lambda t: t.second, 2),
    "a": _Field(lambda t: "AM" if t.hour < 12 else "PM", "half", "AM|PM"),  # noqa: PLR2004 - noon
    **{"S" * n: _fraction(n) for n in range(1, 7)},
    "EEEE": _Field(lambda t: DAY_NAMES[t.weekday()]),
    **{"E" * n: _Field(lambda t: DAY_NAMES[t.weekday()][:_SHORT]) for n in (1, 2, 3)},
    "DDD": _Field(lambda t: f"{t.timetuple().tm_yday:03}"), "D": _Field(lambda t: str(t.timetuple().tm_yday)),
    "q": _Field(lambda t: str((t.month + 2) // 3)), "Q": _Field(lambda t: str((t.month + 2) // 3)),
}  # fmt: skip


@functools.cache
def _parts(pattern: str) -> list[str | _Field] | str:
    """Return what a pattern is made of: text, and fields; or what is wrong with it."""
    found: list[str | _Field] = []
    for piece in re.finditer(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)|(')", pattern):
        quoted, letters, _, other, lone = piece.groups()
        if lone or (other and set(other) & set("[]{}#")):
            return f"`{lone or other}` at {piece.start()} has a meaning of its own there"
        if letters:
            if letters not in _FIELDS:
                known = ", ".join(_FIELDS)
                return f"`{letters}` at {piece.start()} is not supported: expected some of {known}, and text in quotes"
            found.append(_FIELDS[letters])
        else:
            found.append(other if quoted is None else quoted.replace("''", "'") or "'")
    return found


def pattern_complaint(literals: Sequence[Any]) -> str | None:
    """Return what is wrong with the pattern of a call, if something is."""
    found = _parts(literals[1])
    return f"the pattern {brief(literals[1])}: {found}" if isinstance(found, str) else None


def _check_reading(literals: Sequence[Any]) -> str | None:
    if wrong := pattern_complaint(literals):
        return wrong
    fields = [p for p in _parts(literals[1]) if isinstance(p, _Field)]
    names = [f.name for f in fields]
    if "" in names or len(set(names)) < len(names):
        return f"the pattern {brief(literals[1])} is for writing alone: it has a day of the week or a field twice"
    if "hour of half" in names and "half" not in names:
        return f"the pattern {brief(literals[1])} has an hour of half a day, and no `a` for which"
    return None


# What they mean.


def at(moment: dt.date) -> dt.datetime:
    """Return a date as its beginning, a timestamp as it is."""
    return moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time())


def date_text(moment: dt.date, pattern: str) -> str:
    """Return a date or a timestamp as text of a pattern."""
    t = at(moment)
    return "".join(p.write(t) if isinstance(p, _Field) else p for p in _parts(pattern))


@functools.cache
def _reader(pattern: str) -> tuple[re.Pattern[str], list[str]]:
    parts = _parts(pattern)
    text = "".join(f"({p.text})" if isinstance(p, _Field) else re.escape(p) for p in parts)
    return re.compile(text, re.ASCII), [p.name for p in parts if isinstance(p, _Field)]


def _read(text: str, pattern: str) -> dt.datetime:
    """Return the moment that a text tells; what it does not tell is 1970, the first day and midnight."""
    compiled, names = _reader(pattern)
    if match := compiled.fullmatch(text):
        got = dict(zip(names, match.groups(), strict=True))
        try:
            return dt.datetime(*_date(got), *_clock(got))  # noqa: DTZ001 - timestamps have no zone
        except ValueError:
            pass
    reason = f"{brief(text)} is not of the form {brief(pattern)}"
    raise FailureError(reason)


def _date(got: dict[str, str]) -> tuple[int, int, int]:
    century = int(got["year of century"]) + 2000 if "year of century" in got else 1970
    month = int(got.get("month", 1))
    if name := got.get("month name"):
        month = [m[:_SHORT] for m in MONTH_NAMES].index(name[:_SHORT]) + 1
    return int(got.get("year", century)), month, int(got.get("day", 1))


def _clock(got: dict[str, str]) -> tuple[int, int, int, int]:
    hour = int(got.get("hour", 0))
    if half := got.get("hour of half"):
        if not 1 <= int(half) <= 12:  # noqa: PLR2004 - hours of half a day
            raise ValueError(half)
        hour = int(half) % 12 + 12 * (got["half"] == "PM")
    fraction = got.get("fraction", "").ljust(6, "0")
    return hour, int(got.get("minute", 0)), int(got.get("second", 0)), int(fraction)


def _day_name(text: str) -> int | None:
    """Return the number of a day of the week by its name, its first three letters or its first two."""
    given = text.strip().upper()
    return next(
        (i for i, day in enumerate(DAY_NAMES) if given in (day.upper(), day[:3].upper(), day[:2].upper())), None
    )


def _check_day(literals: Sequence[Any]) -> str | None:
    return None if _day_name(literals[1]) is not None else f"{brief(literals[1])} is no day of the week"


def _next(day: dt.date, name: str) -> dt.date:
    wanted = _day_name(name)
    assert wanted is not None, "it was checked"
    try:
        return day + dt.timedelta(days=(wanted - day.weekday() - 1) % 7 + 1)
    except OverflowError:
        reason = "the result is not in the years 1 to 9999"
        raise FailureError(reason) from None


_MOMENT: Final = "a date or a timestamp and a pattern"
_READ: Final = "a string and a pattern"

DATE_FORMATS: Final = (
    Function("date_format", either(*(fixed(t, STRING, result=STRING) for t in (TIMESTAMP, DATE))), _MOMENT,
             literals=(1,), check=pattern_complaint, python=date_text),
    Function("date_of_text", fixed(STRING, STRING, result=DATE), _READ, sql="TO_DATE", literals=(1,),
             check=_check_reading, can_fail=True, python=lambda text, pattern: _read(text, pattern).date()),
    Function("timestamp_of_text", fixed(STRING, STRING, result=TIMESTAMP), _READ, sql="TO_TIMESTAMP_NTZ", literals=(1,),
             check=_check_reading, can_fail=True, python=_read),
    Function("dayname", either(fixed(TIMESTAMP, result=STRING), fixed(DATE, result=STRING)), "a date or a timestamp",
             python=lambda d: DAY_NAMES[d.weekday()][:_SHORT]),
    Function("monthname", either(fixed(TIMESTAMP, result=STRING), fixed(DATE, result=STRING)), "a date or a timestamp",
             python=lambda d: MONTH_NAMES[d.month - 1][:_SHORT]),
    Function("next_day", fixed(DATE, STRING, result=DATE), "a date and a day of the week", literals=(1,),
             check=_check_day, can_fail=True, by_day=True, python=_next),
)  # fmt: skip


# Builders.


def date_format(moment: Any, pattern: str) -> Expr:
    """Return a date or a timestamp as text, by a pattern of Java's letters, a literal: ``yyyy-MM-dd HH:mm:ss.SSS``.

    ``to_char`` in SQL. Days and months have English names: ``EEEE, d MMMM``.

    >>> import datetime, tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"t": "timestamp"}, [(datetime.datetime(2024, 2, 29, 15, 4),)])
    >>> flow.output(
    ...     "out", c.select(a=tm.date_format("t", "d MMM yyyy, h:mm a"), b=tm.to_date(tm.lit("3/4/24"), "M/d/yy"))
    ... )
    >>> flow.start().snapshot("out")
    a                     b
    --------------------  ----------
    29 Feb 2024, 3:04 PM  2024-03-04
    """
    return call("date_format", operand(moment), pattern)


def dayname(moment: Any) -> Expr:
    """Return the first three letters of the English name of the day of the week."""
    return call("dayname", operand(moment))


def monthname(moment: Any) -> Expr:
    """Return the first three letters of the English name of the month."""
    return call("monthname", operand(moment))


def next_day(day: Any, name: str) -> Expr:
    """Return the first date after a date that is such a day of the week, a literal: its English name or a part."""
    return call("next_day", operand(day), name)
