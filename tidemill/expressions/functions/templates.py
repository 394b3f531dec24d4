"""``to_char`` by PostgreSQL's templates: of dates and timestamps, and of numbers. Names and signs are those of English.

What is no keyword of a template is copied, as there; a keyword that is not supported is refused.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tidemill.errors import SchemaError, brief
from tidemill.expressions.functions.date_formats import DAY_NAMES, MONTH_NAMES, at
from tidemill.expressions.functions.registry import Function, Signature, TypeRule, either, fixed
from tidemill.expressions.types import DATE, STRING, TIMESTAMP, DType


class Token(NamedTuple):
    """A keyword of a template with what is before and behind it, or a character that is copied."""

    keyword: str
    prefix: str
    suffix: str
    copied: str
    place: int


def _tokens(template: str, keywords: str, prefixes: str, suffixes: str) -> Iterator[Token]:
    """Iterate over what a template is made of: at each place the longest keyword counts."""
    any_of = "|".join(sorted(map(re.escape, keywords.split()), key=len, reverse=True))
    keyword = re.compile(f"({prefixes})({any_of})?({suffixes})|({any_of})({suffixes})")
    place, quoted = 0, False
    while place < len(template):
        found = None if quoted else keyword.match(template, place)
        if found is not None:
            prefix, name, suffix = found[1] or "", found[2] or found[4] or "", found[3] or found[5] or ""
            yield Token(name, prefix, suffix, "", place)
            place = found.end()
            continue
        letter, after = template[place], template[place + 1 : place + 2]
        place += 1
        if letter == '"':
            quoted = not quoted
        elif letter == "\\" and after and (quoted or after == '"'):
            yield Token("", "", "", after, place)
            place += 1
        else:
            yield Token("", "", "", letter, place - 1)


def _refused(token: Token, why: str = "is not supported") -> str:
    return f"`{token.prefix}{token.keyword}{token.suffix}` at {token.place} {why}"


# Dates and timestamps.

_Moment = dt.datetime
_HALF: Final = 12


def _iso(index: int) -> Callable[[_Moment], int]:
    return lambda t: t.isocalendar()[index]


_NUMBERS: Final[dict[str, tuple[Callable[[_Moment], int], int]]] = {
    "YYYY": (lambda t: t.year, 4), "YYY": (lambda t: t.year % 1000, 3), "YY": (lambda t: t.year % 100, 2),
    "Y": (lambda t: t.year % 10, 1), "IYYY": (_iso(0), 4), "IYY": (lambda t: t.isocalendar().year % 1000, 3),
    "IY": (lambda t: t.isocalendar().year % 100, 2), "I": (lambda t: t.isocalendar().year % 10, 1),
    "Q": (lambda t: (t.month + 2) // 3, 1), "MM": (lambda t: t.month, 2), "IW": (_iso(1), 2),
    "WW": (lambda t: (t.timetuple().tm_yday - 1) // 7 + 1, 2), "W": (lambda t: (t.day - 1) // 7 + 1, 1),
    "DDD": (lambda t: t.timetuple().tm_yday, 3), "DD": (lambda t: t.day, 2), "D": (lambda t: t.isoweekday() % 7 + 1, 1),
    "IDDD": (lambda t: (t.isocalendar().week - 1) * 7 + t.isoweekday(), 3), "ID": (lambda t: t.isoweekday(), 1),
    "CC": (lambda t: (t.year - 1) // 100 + 1, 2), "J": (lambda t: t.toordinal() + 1_721_425, 1),
    "HH24": (lambda t: t.hour, 2), "HH12": (lambda t: (t.hour - 1) % _HALF + 1, 2),
    "HH": (lambda t: (t.hour - 1) % _HALF + 1, 2), "MI": (lambda t: t.minute, 2), "SS": (lambda t: t.second, 2),
    "SSSS": (lambda t: (t.hour * 60 + t.minute) * 60 + t.second, 1),
    "SSSSS": (lambda t: (t.hour * 60 + t.minute) * 60 + t.second, 1),
}  # fmt: skip
"""Numbers, and how many digits they have; with FM before them, as many as are needed."""
_FRACTIONS: Final = {"MS": 3, "US": 6, **{f"FF{n}": n for n in range(1, 7)}}
_NAMES: Final[dict[str, tuple[Callable[[_Moment], str], int]]] = {
    "MONTH": (lambda t: MONTH_NAMES[t.month - 1], 9), "MON": (lambda t: MONTH_NAMES[t.month - 1][:3], 0),
    "DAY": (lambda t: DAY_NAMES[t.weekday()], 9), "DY": (lambda t: DAY_NAMES[t.weekday()][:3], 0),
}  # fmt: skip
"""Names, and to how many letters they are filled up with blanks."""
_HALVES: Final = ("AM", "PM", "A.M.", "P.M.")
_ERAS: Final = ("AD", "BC", "A.D.", "B.C.")
_OTHERS: Final = "FX RM TZH TZM TZ OF Y,YYY"
_CASES: Final = " ".join([*_NUMBERS, *_FRACTIONS, *_NAMES, *_HALVES, *_ERAS, _OTHERS])
_OF_MOMENTS: Final = f"{_CASES} {_CASES.lower()} {' '.join(n.capitalize() for n in _NAMES)}"


def _moment_part(token: Token) -> Callable[[_Moment], str] | str:  # noqa: PLR0911 - one a kind of keyword
    """Return what writes a token; or what is wrong with it."""
    if not token.keyword and not token.prefix:
        return lambda _: token.copied
    name, fills = token.keyword.upper(), not token.prefix
    if not name or token.prefix.upper() == "TM" or token.suffix == "SP":
        return _refused(token)
    if name in _NUMBERS:
        number, width = _NUMBERS[name]
        return lambda t: _ordinal(f"{number(t):0{width if fills else 1}}", token.suffix)
    if name in _FRACTIONS:
        return lambda t: _ordinal(f"{t.microsecond:06}"[: _FRACTIONS[name]], token.suffix)
    if token.suffix:
        return _refused(token)
    if name in _NAMES:
        find, width = _NAMES[name]
        case = str if token.keyword == name.capitalize() else str.upper if token.keyword == name else str.lower
        return lambda t: case(find(t)).ljust(width if fills else 0)
    dots = "." in name
    if name in _HALVES:
        return lambda t: _like(
            ("A.M." if dots else "AM") if t.hour < _HALF else "P.M." if dots else "PM", token.keyword
        )
    if name in _ERAS:
        return lambda _: _like("A.D." if dots else "AD", token.keyword)
    return _refused(token)


def _like(word: str, keyword: str) -> str:
    return word if keyword.isupper() else word.lower()


def _ordinal(number: str, suffix: str) -> str:
    """Return a number with ST, ND, RD or TH behind it, if that is asked for."""
    if not suffix:
        return number
    ending = "TH" if number[-2:-1] == "1" else {"1": "ST", "2": "ND", "3": "RD"}.get(number[-1], "TH")
    return number + _like(ending, suffix)


@functools.cache
def _moment_parts(template: str) -> list[Callable[[_Moment], str]] | str:
    if not template:
        return "nothing is in it, of which PostgreSQL makes NULL"
    found = [_moment_part(t) for t in _tokens(template, _OF_MOMENTS, "FM|fm|TM|tm", "(?:TH|th|SP)?")]
    wrong = next((f for f in found if isinstance(f, str)), None)
    return [f for f in found if not isinstance(f, str)] if wrong is None else wrong


# Numbers.

_OF_NUMBERS: Final = ", . 0 9 B C D E EEEE FM G L MI PL PR RN SG SP S TH V b c d e eeee fm g l mi pl pr rn sg sp s th v"
_PLACES: Final = ("9", "0")


class Form(NamedTuple):
    """What a template says of numbers: its tokens, 9, 0, ``.``, ``,``, S, MI and PR by name, others as they are."""

    tokens: tuple[tuple[str, str], ...]
    fills: bool
    before: int
    behind: int
    zero: int | None
    """The first place before the point from which on zeros are written."""
    kept: int
    """How many places behind the point are written in any case."""
    signs: str
    """S, MI or PR, if one is there."""
    leads: bool
    """Whether S stands before all places."""


@functools.cache
def _form(template: str) -> Form | str:
    """Return what a template of numbers says; or what is wrong with it."""
    given = list(_tokens(template, _OF_NUMBERS, "(?!)", ""))
    tokens = [(t.keyword.upper().replace("G", ",").replace("D", "."), t) for t in given]
    plain = [(name, t) for name, t in tokens if name and name != "FM"]
    for name, token in plain:
        if name not in (*_PLACES, ".", ",", "S", "MI", "PR"):
            return _refused(token)
    names = [name for name, _ in plain]
    signs = [i for i, name in enumerate(names) if name in ("S", "MI", "PR")]
    places = [i for i, name in enumerate(names) if name in _PLACES]
    point = names.index(".") if "." in names else len(names)
    before = [names[i] for i in places if i < point]
    behind = [names[i] for i in places if i > point]
    if not before or (not behind and "." in names):
        return "expected a 9 or a 0 before the point, and behind it where there is one"
    if names.count(".") > 1 or len(signs) > 1:
        return _refused(plain[max(signs, default=0)][1], "is one point, or sign, too many")
    if signs and signs[0] not in (() if names[signs[0]] == "PR" else (0,)) + (len(names) - 1,):
        return _refused(plain[signs[0]][1], "stands at neither end" if names[signs[0]] != "PR" else "is not the last")
    zero = before.index("0") if "0" in before else None
    kept = len(behind) - behind[::-1].index("0") if "0" in behind else 0
    sign = names[signs[0]] if signs else ""
    written = tuple((name, t.copied) for name, t in tokens if name != "FM")
    fills = all(name != "FM" for name, _ in tokens)
    return Form(written, fills, len(before), len(behind), zero, kept, sign, sign == "S" and signs == [0])


_EXACT: Final = decimal.Context(prec=1000, rounding=decimal.ROUND_HALF_UP)


def _number(value: Any, template: str) -> str:
    """Return a number by a template: its digits at their places, the sign before the first that is written."""
    form = _form(template)
    assert isinstance(form, Form), "it was checked"
    rounded = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-form.behind), context=_EXACT)
    minus = rounded < 0
    whole, _, rest = f"{abs(rounded):f}".partition(".")
    if len(whole) > form.before:
        whole, rest = "#" * form.before, "#" * form.behind
    kept = form.behind if form.fills else max(form.kept, len(rest.rstrip("0")))
    blanks = form.before - len(whole)
    is_fraction = whole == "0" and form.behind > 0 and form.zero is None
    sign = _sign(form, minus=minus)
    blank, written, place, follows = " " if form.fills else "", list[str](), 0, False
    last = max(i for i, (name, _) in enumerate(form.tokens) if name in (*_PLACES, "."))
    for i, (name, copied) in enumerate(form.tokens):
        if name in _PLACES or name == ".":
            digit = _digit(form, whole, rest[:kept], blanks, place, is_point=name == ".")
            is_zero = is_fraction and name != "." and place == form.before - 1
            is_blank = digit == " " or (is_zero and (form.fills or kept > 0))
            written += [blank] if is_blank else [sign, digit]
            sign = sign if is_blank else ""
            follows = digit != "" and not is_blank and not is_zero and name != "."
            place += name != "."
            written += [_closing(form, minus=minus)] if i == last else []
        elif name == ",":
            written.append("," if follows else blank)
        elif name == "MI":
            written.append("-" if minus else blank)
        elif not name:
            written.append(copied)
    return "".join(written)


def _digit(form: Form, whole: str, rest: str, blanks: int, place: int, *, is_point: bool) -> str:
    """Return what stands at a place; a blank where the number has no digit, nothing behind the last one that counts."""
    if is_point:
        return "."
    if place >= form.before:
        return rest[place - form.before : place - form.before + 1]
    if place >= blanks:
        return whole[place - blanks]
    return "0" if form.zero is not None and place >= form.zero else " "


def _sign(form: Form, *, minus: bool) -> str:
    """Return what is written before the first digit."""
    if form.signs == "PR":
        return "<" if minus else " " * form.fills
    if form.signs:
        return ("-" if minus else "+") if form.leads else ""
    return "-" if minus else " " * form.fills


def _closing(form: Form, *, minus: bool) -> str:
    """Return what is written behind the last digit."""
    if form.signs == "PR":
        return ">" if minus else " " * form.fills
    return ("-" if minus else "+") if form.signs == "S" and not form.leads else ""


# The entry of both.


def number_and_text(types: Sequence[DType]) -> Signature | None:
    """Take a number that is exact, and a text."""
    fits = len(types) == 2 and (types[0].is_integer or types[0].is_decimal) and types[1] == STRING  # noqa: PLR2004
    return Signature(tuple(types), STRING) if fits else None


TEMPLATE_EXPECTS: Final = "a date, a timestamp, an integer or a decimal, and a text that says how it is written"
OF_MOMENTS: Final[TypeRule] = either(*(fixed(t, STRING, result=STRING) for t in (TIMESTAMP, DATE)))


def _checked(signature: Signature, literals: Sequence[Any]) -> Signature:
    is_moment = signature.params[0] in (DATE, TIMESTAMP)
    found = _moment_parts(literals[1]) if is_moment else _form(literals[1])
    if isinstance(found, str):
        msg = f"the template {brief(literals[1])}: {found}"
        raise SchemaError(msg)
    return signature


def _written(types: Sequence[DType], value: Any, template: str) -> str:
    if types[0] not in (DATE, TIMESTAMP):
        return _number(value, template)
    t = at(value)
    return "".join(part(t) for part in _moment_parts(template))  # type: ignore[operator]


TEMPLATES: Final = (
    Function("template_to_char", either(OF_MOMENTS, number_and_text), TEMPLATE_EXPECTS, literals=(1,), refine=_checked,
             by_types=True, python=_written),
)  # fmt: skip
