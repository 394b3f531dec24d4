"""Values from text, as Spark's ANSI casts read them; text with a zone is the same moment in UTC.

What Spark takes and this does not: names of places as zones (their rules change), a time without a date and words such
as ``today`` (both change with the day), years outside 1 to 9999.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

from tidemill.expressions.functions.durations import read_interval
from tidemill.expressions.functions.values import fitted, rounded
from tidemill.expressions.types import DType

_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Java's trim takes off: control characters and the blank."""
_BLANKS: Final = _JAVA_BLANKS + "\x7f"
"""What Spark's trimAll takes off."""

TRUE_WORDS: Final = ("t", "true", "y", "yes", "1")
FALSE_WORDS: Final = ("f", "false", "n", "no", "0")


def value_of_text(text: str, to: DType) -> Any:
    """Return the value of a type that text stands for; ``ValueError`` or its like where it stands for none.

    >>> from tidemill.expressions.types import DATE, TIMESTAMP
    >>> value_of_text("2020-6", DATE), value_of_text("2020-06-05 01:00:00+02:00", TIMESTAMP)
    (datetime.date(2020, 6, 1), datetime.datetime(2020, 6, 4, 23, 0))
    """
    return _READERS["int" if to.is_integer else to.name](text, to)


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e([+-]?\d+))?", re.IGNORECASE)
_FLOAT: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)[fd]?", re.IGNORECASE)
_HEX_FLOAT: Final = re.compile(r"([+-]?0x(?:[0-9a-f]+(?:\.[0-9a-f]*)?|\.[0-9a-f]+)p[+-]?[0-9]+)[fd]?", re.IGNORECASE)
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)


def _integer(text: str, to: DType) -> Any:
    return fitted(int(_matched(_INTEGER, text.strip(_BLANKS))[0]), to)


def _decimal(text: str, to: DType) -> decimal.Decimal:
    text = text.strip(_JAVA_BLANKS)
    exponent = _matched(_DECIMAL, text)[1]
    if exponent is not None and abs(int(exponent)) >= 2**31:
        raise OverflowError(text)
    value = decimal.Decimal(text)
    return rounded(value or decimal.Decimal(0), to)


def _float(text: str, _to: DType) -> float:
    text = text.strip(_JAVA_BLANKS)
    if _SPECIAL.fullmatch(text):
        return float(text)
    if found := _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return float(_matched(_FLOAT, text)[1])


def _bool(text: str, _to: DType) -> bool:
    word = text.strip(_BLANKS).lower()
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise ValueError(text)
    return word in TRUE_WORDS


_DAY: Final = r"([+-]?)([0-9]{{4,{}}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{})?)?)?"
_CLOCK: Final = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?"
_DATE: Final = re.compile(_DAY.format(7, ".*"), re.DOTALL)
_TIMESTAMP: Final = re.compile(_DAY.format(6, _CLOCK), re.DOTALL)
_ZONE: Final = re.compile(
    r"Z|(?:UTC|GMT|UT)?(?:(?P<sign>[+-])(?:"
    r"(?P<h>[0-9]{1,2})(?::(?P<digit>[0-9])|:(?P<m>[0-9]{2})(?::(?P<s>[0-9]{2}))?)?"
    r"|(?P<hh>[0-9]{2})(?P<mm>[0-9]{2})(?P<ss>[0-9]{2})?))?"
)
_MOST: Final = dt.timedelta(hours=18)


def _day(sign: str, year: str, month: str | None, day: str | None) -> dt.date:
    return dt.date(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))


def _date(text: str, _to: DType) -> dt.date:
    return _day(*_matched(_DATE, text.strip(_BLANKS)).group(1, 2, 3, 4))


def _timestamp(text: str, _to: DType) -> dt.datetime:
    sign, year, month, day, hour, minute, second, fraction, zone = _matched(_TIMESTAMP, text.strip(_BLANKS)).groups()
    micros = int((fraction or "")[:6].ljust(6, "0"))
    clock = dt.time(int(hour or 0), int(minute or 0), int(second or 0), micros)
    return dt.datetime.combine(_day(sign, year, month, day), clock) - (
        _offset(zone.strip(_JAVA_BLANKS)) if zone else dt.timedelta()
    )


_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _time(text: str, _to: DType) -> dt.time:
    hour, minute, second, fraction = _matched(_TIME, text.strip(_BLANKS)).groups()
    return dt.time(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(6, "0")))


def _uuid(text: str, _to: DType) -> str:
    return _matched(_UUID, text.strip(_BLANKS).lower())[0]


def _offset(zone: str) -> dt.timedelta:
    """Return how far a zone is ahead of UTC."""
    found = _matched(_ZONE, zone).groupdict()
    hours, minutes, seconds = (int(next((v for n in names if (v := found[n])), 0)) for names in _CLOCK_PARTS)
    ahead = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if max(minutes, seconds) >= 60 or ahead > _MOST:  # noqa: PLR2004 - a clock's
        raise ValueError(zone)
    return -ahead if found["sign"] == "-" else ahead


_CLOCK_PARTS: Final = (("h", "hh"), ("m", "digit", "mm"), ("s", "ss"))

_READERS: Final[dict[str, Callable[[str, DType], Any]]] = {
    "int": _integer, "decimal": _decimal, "float64": _float, "bool": _bool, "date": _date, "timestamp": _timestamp,
    "timestamptz": lambda text, to: _timestamp(text, to).replace(tzinfo=dt.UTC), "time": _time,
    "interval": lambda text, _to: read_interval(text), "uuid": _uuid,
    "binary": lambda text, _to: text.encode(), "string": lambda text, _to: text,
}  # fmt: skip
