"""Intervals: what is added to a date or a timestamp. Of months they are literals alone; others are of type interval."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Final

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.types import DType

MONTHS: Final = DType("interval of months")
DAYS: Final = DType("interval of days")
MICROSECONDS: Final = DType("interval of microseconds")
INTERVALS: Final = frozenset((MONTHS, DAYS, MICROSECONDS))
"""Types of literals only."""

DAY_MICROSECONDS: Final = 86_400_000_000

# Every unit as a number of the type's own.
UNITS: Final[dict[str, tuple[DType, int]]] = {
    "YEAR": (MONTHS, 12), "QUARTER": (MONTHS, 3), "MONTH": (MONTHS, 1), "WEEK": (DAYS, 7), "DAY": (DAYS, 1),
    "HOUR": (MICROSECONDS, 3_600_000_000), "MINUTE": (MICROSECONDS, 60_000_000), "SECOND": (MICROSECONDS, 1_000_000),
    "MILLISECOND": (MICROSECONDS, 1000), "MICROSECOND": (MICROSECONDS, 1),
}  # fmt: skip
_SHORT: Final = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}


@attrs.frozen(cache_hash=True)
class Interval:
    """A number of months, of days or of microseconds; a date plus days is a date, plus microseconds a timestamp."""

    dtype: DType
    amount: int = attrs.field()

    @amount.validator
    def _check(self, _attribute: object, amount: int) -> None:
        if abs(amount) >= 2**63:
            msg = f"an {self.dtype} of {amount} is too long: expected less than 2**63"
            raise SchemaError(msg)

    def __neg__(self) -> Interval:
        return Interval(self.dtype, -self.amount)


def unit_of(name: str) -> str | None:
    """Return the name of a unit in capitals and full (``"mm"`` is a month), or None.

    >>> unit_of("mm"), unit_of("days"), unit_of("fortnight")
    ('MONTH', 'DAY', None)
    """
    upper = name.strip().upper()
    found = _SHORT.get(upper, upper)
    found = found if found in UNITS else found.removesuffix("S")
    return found if found in UNITS else None


def unit_length(unit: str) -> int | None:
    """Return how many microseconds a unit is long; None of months and what is made of them.

    >>> unit_length("HOUR"), unit_length("QUARTER")
    (3600000000, None)
    """
    kind, size = UNITS[unit]
    return None if kind == MONTHS else size * (DAY_MICROSECONDS if kind == DAYS else 1)


def of_timedelta(value: dt.timedelta) -> Interval:
    """Return whole days as days, anything else as microseconds."""
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return Interval(MICROSECONDS, micros) if micros % DAY_MICROSECONDS else Interval(DAYS, micros // DAY_MICROSECONDS)


def microseconds_of(interval: Interval) -> int:
    """Return the length of an interval that is not of months."""
    return interval.amount * (DAY_MICROSECONDS if interval.dtype == DAYS else 1)


def sum_of(parts: Sequence[Interval]) -> Interval:
    """Return intervals added up; ``SchemaError`` where months meet days."""
    kinds = {p.dtype for p in parts}
    if len(kinds) == 1:
        return Interval(kinds.pop(), sum(p.amount for p in parts))
    if kinds == {DAYS, MICROSECONDS}:
        return Interval(MICROSECONDS, sum(map(microseconds_of, parts)))
    msg = "an interval has to be of months (years, quarters) or of days and shorter units: add one after the other"
    raise SchemaError(msg)


def interval_of(text: str, first: str, last: str = "") -> Interval:
    """Return the interval that SQL text and its unit, or its first and last unit, stand for.

    >>> interval_of("1-2", "YEAR", "MONTH"), interval_of("1.5", "SECOND")
    (Interval(dtype=interval of months, amount=14), Interval(dtype=interval of microseconds, amount=1500000))
    """
    text, negative = text.strip(), text.strip().startswith("-")
    if not last:
        unit = unit_of(first)
        if unit is not None and (match := re.fullmatch(r"([+-]?\d{1,18})(?:\.(\d{1,6}))?", text)):
            dtype, size = UNITS[unit]
            if match[2] is None:
                return Interval(dtype, int(match[1]) * size)
            if unit == "SECOND":
                micros = abs(int(match[1])) * 1_000_000 + int(match[2].ljust(6, "0"))
                return Interval(dtype, -micros if negative else micros)
    elif (form := _FORMS.get((first.upper(), last.upper()))) and (match := re.fullmatch(r"[+-]?" + form, text)):
        amount, months = 0, last.upper() == "MONTH"
        for unit, digits in match.groupdict().items():
            size = UNITS[unit][1] * (DAY_MICROSECONDS if unit == "DAY" else 1)
            amount += int(digits.ljust(6, "0") if unit == "MICROSECOND" else digits) * size if digits else 0
        return Interval(MONTHS if months else MICROSECONDS, -amount if negative else amount)
    units = f"{first} TO {last}" if last else first
    msg = (
        f"INTERVAL '{text}' {units} is no interval: expected a number and a unit ({', '.join(UNITS)}), or such as "
        "INTERVAL '1 02:03:04.5' DAY TO SECOND or INTERVAL '1-2' YEAR TO MONTH"
    )
    raise SchemaError(msg)


def _forms() -> dict[tuple[str, str], str]:
    parts = [("DAY", r"(?P<DAY>\d{1,18})", " "), ("HOUR", r"(?P<HOUR>\d{1,18})", ":"),
             ("MINUTE", r"(?P<MINUTE>\d{1,18})", ":"),
             ("SECOND", r"(?P<SECOND>\d{1,18})(?:\.(?P<MICROSECOND>\d{1,6}))?", "")]  # fmt: skip
    found = {("YEAR", "MONTH"): r"(?P<YEAR>\d{1,18})-(?P<MONTH>\d{1,18})"}
    for i, (first, _, _) in enumerate(parts):
        for j in range(i + 1, len(parts)):
            form = "".join(p + (mark if k < j else "") for k, (_, p, mark) in enumerate(parts[i : j + 1], i))
            found[first, parts[j][0]] = form
    return found


_FORMS: Final = _forms()


def interval_text(interval: Interval) -> tuple[str, str, str]:
    """Return an interval's text and its first and last unit (the last empty where there is one).

    >>> interval_text(Interval(MICROSECONDS, -90_500_000))
    ('-0 00:01:30.500000', 'DAY', 'SECOND')
    """
    if interval.dtype == MONTHS:
        return str(interval.amount), "MONTH", ""
    if interval.dtype == DAYS:
        return str(interval.amount), "DAY", ""
    for unit in ("HOUR", "MINUTE", "SECOND"):
        if interval.amount % UNITS[unit][1] == 0:
            return str(interval.amount // UNITS[unit][1]), unit, ""
    seconds, micros = divmod(abs(interval.amount), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if interval.amount < 0 else ""
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}", "DAY", "SECOND"
