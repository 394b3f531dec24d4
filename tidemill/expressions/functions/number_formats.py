"""Spark's ``to_char`` and ``to_number``: by a format such as ``S9,990.99``; ``to_char`` of dates by Java's letters."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidemill.errors import SchemaError, brief
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.date_formats import date_text, pattern_complaint
from tidemill.expressions.functions.registry import Function, Signature, either, fixed
from tidemill.expressions.functions.templates import OF_MOMENTS, TEMPLATE_EXPECTS, number_and_text
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.types import DATE, NULL, STRING, TIMESTAMP, DType, decimal_type

_FORM: Final = re.compile(
    r"(?P<lead>MI|S)?(?P<dollar>\$)?(?P<whole>[09]+(?:[,G][09]+)*)?(?P<point>[.D])?(?P<rest>[09]*)(?P<end>MI|S|PR)?",
    re.IGNORECASE,
)


class _Form(NamedTuple):
    """What a format says of numbers."""

    lead: str
    dollar: str
    groups: list[str]
    point: bool
    behind: int
    end: str


@functools.cache
def _form(text: str) -> _Form | str:
    """Return what a format says; or what is wrong with it."""
    found = _FORM.match(text)
    assert found is not None, "all of it may be left out"
    if found.end() < len(text):
        return (
            f"`{text[found.end() :]}` at {found.end()} is not supported: expected a sign (S or MI), $, groups of 9 and "
            "0 with commas between them, a point, 9 and 0, and a sign (S, MI or PR)"
        )
    lead, end, whole = (found["lead"] or "").upper(), (found["end"] or "").upper(), found["whole"] or ""
    if not whole and not found["rest"]:
        return "expected a 9 or a 0"
    if lead and end:
        return f"`{end}` at {found.start('end')} is a second sign"
    return _Form(lead, found["dollar"] or "", re.split("[,Gg]", whole), bool(found["point"]), len(found["rest"]), end)


def _number(value: Any, text: str) -> str:
    """Return a number by a format: blanks where it has no digits, a sign before the first digit."""
    form = _form(text)
    assert isinstance(form, _Form), "it was checked"
    minus = value < 0
    whole, _, rest = f"{abs(decimal.Decimal(value)):f}".partition(".")
    whole, rest = whole.lstrip("0"), rest.rstrip("0")
    places = sum(map(len, form.groups))
    if len(whole) > places or len(rest) > form.behind:
        whole, rest = "#" * places, "#" * form.behind
    digits, shown = whole.rjust(places), ""
    for i, group in enumerate(form.groups):
        if i:
            shown += "," if shown[-1:].isdigit() else " "
        some, digits = digits[: len(group)], digits[len(group) :]
        shown += some.replace(" ", "0") if group.startswith("0") else some
    start = "<" if form.end == "PR" and minus else _sign(form.lead, minus=minus)
    floats = start.strip() and not form.dollar
    if floats:
        shown = shown[: len(shown) - len(shown.lstrip(" "))] + start + shown.lstrip(" ")
    else:
        shown = start + form.dollar + shown
    if form.point:
        shown = shown[:-1] + "0" if shown.endswith(" ") else shown
        shown += "." + rest.ljust(form.behind, "0") if form.behind else " "
    if form.end == "PR":
        return _put(shown, ">") if minus else shown + "  "
    return _put(shown, _sign(form.end, minus=minus))


def _sign(name: str, *, minus: bool) -> str:
    return {"S": "-" if minus else "+", "MI": "-" if minus else " "}.get(name, "")


def _put(shown: str, sign: str) -> str:
    """Return a text with a sign behind what is not blank in it."""
    if not sign.strip():
        return shown + sign
    kept = shown.rstrip(" ")
    return kept + sign + " " * (len(shown) - len(kept))


def _checked(signature: Signature, literals: Sequence[Any]) -> Signature:
    if signature.params[0] in (DATE, TIMESTAMP):
        wrong = pattern_complaint(literals)
    else:
        form = _form(literals[1])
        wrong = f"the format {brief(literals[1])}: {form}" if isinstance(form, str) else None
    if wrong is not None:
        raise SchemaError(wrong)
    return signature


def _written(_types: Sequence[DType], value: Any, text: str) -> str:
    return date_text(value, text) if isinstance(value, dt.date) else _number(value, text)


# Text as numbers.


@functools.cache
def _reader(text: str) -> re.Pattern[str]:
    """Return the pattern of numbers in a format: of a group that begins with 0 all digits are there, of others some."""
    form = _form(text)
    assert isinstance(form, _Form), "it was checked"
    groups = [f"(?: *[0-9]){{{'' if group.startswith('0') else '0,'}{len(group)}}}" for group in form.groups]
    optional = sum(1 for _ in itertools.takewhile(lambda group: not group.startswith("0"), form.groups[:-1]))
    whole = "|".join(" *,".join(groups[first:]) for first in range(optional + 1))
    rest = rf"(?:\.(?: *[0-9]){{0,{form.behind}}}{' *' if form.behind else ''})?" if form.point else ""
    number = rf"{re.escape(form.dollar)}(?P<number>(?:{whole}) *{rest})"
    lead, end = ({"S": "(?P<sign>[+-]?)", "MI": "(?P<sign>-?)"}.get(name, "") for name in (form.lead, form.end))
    plain = lead + number + end
    return re.compile(rf"{plain}|<{plain.replace('<number>', '<negative>')}>" if form.end == "PR" else plain)


def _read(value: str, text: str) -> decimal.Decimal:
    found = _reader(text).fullmatch(value)
    groups = {} if found is None else found.groupdict()
    digits = re.sub("[ ,]", "", groups.get("number") or groups.get("negative") or "")
    if not digits.strip("."):
        reason = f"{brief(value)} is no number in the format {text}"
        raise FailureError(reason)
    minus = groups.get("sign") == "-" or groups.get("negative") is not None
    return decimal.Decimal(f"{'-' * minus}{digits}")


def _number_type(signature: Signature, literals: Sequence[Any]) -> Signature:
    form = _form(literals[1])
    wrong = form if isinstance(form, str) else "" if any(form.groups) else "expected a digit before the point"
    if wrong:
        msg = f"the format {brief(literals[1])}: {wrong}"
        raise SchemaError(msg)
    assert isinstance(form, _Form)
    return Signature(signature.params, decimal_type(sum(map(len, form.groups)) + form.behind, form.behind))


NUMBER_FORMATS: Final = (
    Function("to_char", either(OF_MOMENTS, number_and_text), TEMPLATE_EXPECTS, literals=(1,), refine=_checked,
             aliases=("to_varchar",), by_types=True, python=_written),
    Function("to_number", fixed(STRING, STRING, result=NULL), "a string and a format", literals=(1,),
             refine=_number_type, can_fail=True, python=_read),
)  # fmt: skip


# Builders.


def to_number(value: Any, form: str) -> Expr:
    """Return text as a decimal, by a format, a literal, that has its digits: ``$9,999.99`` gives a decimal(6,2).

    As in Spark: 9 and 0 for digits, of which there may be fewer where a group begins with 9; ``,`` or G between
    groups, ``.`` or D, ``$``, a sign S or MI in front or behind, PR for negative ones in ``<>``.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"s": "string"}, [("$1,234.5-",), ("12",)])
    >>> flow.output("out", c.select(n=tm.try_to_number("s", "$9,999.99MI")))
    >>> flow.start().snapshot("out")
    n
    --------
    NULL
    -1234.50
    """
    return call("to_number", operand(value), form)
