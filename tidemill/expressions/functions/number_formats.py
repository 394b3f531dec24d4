"""Spark's ``to_char``: of dates and timestamps by Java's letters, and of numbers by a format such as ``S9,990.99``."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidemill.errors import SchemaError, brief
from tidemill.expressions.functions.date_formats import date_text, pattern_complaint
from tidemill.expressions.functions.registry import Function, Signature, either
from tidemill.expressions.functions.templates import OF_MOMENTS, TEMPLATE_EXPECTS, number_and_text
from tidemill.expressions.types import DATE, TIMESTAMP, DType

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


NUMBER_FORMATS: Final = (
    Function("to_char", either(OF_MOMENTS, number_and_text), TEMPLATE_EXPECTS, literals=(1,), refine=_checked,
             aliases=("to_varchar",), by_types=True, python=_written),
)  # fmt: skip
