"""Functions that put strings together by a form, or take them apart by one: entries in the registry, and builders."""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidemill.errors import SchemaError, brief
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.registry import Function, Signature, always, fixed, never
from tidemill.expressions.functions.text import part_of
from tidemill.expressions.types import BOOL, FLOAT64, INT32, NULL, STRING, DType

_TO_THE_END: Final = 2**31 - 1


def _overlaid(text: str, other: str, start: int, length: int) -> str:
    length = len(other) if length < 0 else length
    return part_of(text, 1, start - 1) + other + part_of(text, start + length, _TO_THE_END)


def _up_to(text: str, delimiter: str, count: int) -> str:
    if not delimiter or not count:
        return ""
    parts = text.split(delimiter) if count > 0 else text.rsplit(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


# FORMAT_STRING


class _FormatSpec(NamedTuple):
    """What a % of a form asks for."""

    flags: str
    width: int
    digits: int | None
    kind: str


_SPEC: Final = re.compile(r"%([-+0, ]*)(\d{1,6})?(?:\.(\d{1,3}))?([dsfxXc%n])")
_TAKEN: Final[dict[str, str]] = {
    "d": "a whole number", "x": "a whole number", "X": "a whole number", "f": "a float64 or a decimal",
    "s": "a string, a number or a truth value", "c": "a whole number",
}  # fmt: skip


def _fits(kind: str, given: DType) -> bool:
    if kind == "f":
        return given == FLOAT64 or given.is_decimal
    return given.is_integer if kind != "s" else given.is_numeric or given in (STRING, BOOL)


def _form(pattern: str) -> list[str | _FormatSpec] | None:
    """Return a form's text and what it asks for; None for one that is not understood."""
    found: list[str | _FormatSpec] = []
    at = 0
    for match in _SPEC.finditer(pattern):
        flags, width, digits, kind = match.groups()
        if digits is not None and kind not in "sf":
            return None
        found += [
            pattern[at : match.start()],
            _FormatSpec(flags, int(width or 0), None if digits is None else int(digits), kind),
        ]
        at = match.end()
    found.append(pattern[at:])
    return None if any(isinstance(p, str) and "%" in p for p in found) else found


def _form_types(types: Sequence[DType]) -> Signature | None:
    return Signature(tuple(types), STRING) if types and types[0] == STRING and NULL not in types else None


def _form_complaint(literals: Sequence[Any]) -> str | None:
    if _form(literals[0]) is None:
        return f"{brief(literals[0])} is no form: expected %d %s %f %x %X %c, with - + 0 , and a width, and %%"
    return None


def _checked_form(signature: Signature, literals: Sequence[Any]) -> Signature:
    asked = [p for p in _form(literals[0]) or [] if isinstance(p, _FormatSpec) and p.kind in _TAKEN]
    given = signature.params[1:]
    if len(asked) > len(given):
        msg = f"FORMAT_STRING: {brief(literals[0])} asks for {len(asked)} values: {len(given)} are given"
        raise SchemaError(msg)
    for spec, of in zip(asked, given, strict=False):
        if not _fits(spec.kind, of):
            msg = f"FORMAT_STRING: %{spec.kind} in {brief(literals[0])} gets {of}: expected {_TAKEN[spec.kind]}"
            raise SchemaError(msg)
    return signature


def _formatted(types: tuple[DType, ...], pattern: str, *values: Any) -> str:
    given = iter(zip(types[1:], values, strict=True))
    made = []
    for part in _form(pattern) or []:
        if isinstance(part, str):
            made.append(part)
        elif part.kind in "%n":
            made.append("\n" if part.kind == "n" else "%")
        else:
            made.append(_padded(part, *_written(part, *next(given))))
    return "".join(made)


def _written(spec: _FormatSpec, dtype: DType, value: Any) -> tuple[str, bool]:  # noqa: PLR0911 - a line or two a letter
    """Return a value's text without blanks, and whether zeros may stand before it."""
    if value is None:
        return "null"[: spec.digits], False
    if spec.kind == "s":
        text = value if isinstance(value, str) else cast_value(value, dtype, STRING)
        return text[: spec.digits] if spec.digits is not None else text, False
    if spec.kind == "c":
        return chr(value) if 0 <= value < 0xD800 or 0xDFFF < value <= 0x10FFFF else "\ufffd", False  # noqa: PLR2004
    if spec.kind in "xX":
        return f"{value % 2 ** (32 if dtype == INT32 else 64):{spec.kind}}", True
    comma = "," * ("," in spec.flags)
    plus = "+" * ("+" in spec.flags) or " " * (" " in spec.flags)
    if spec.kind == "d":
        return f"{value:{plus}{comma}d}", True
    if isinstance(value, float) and not math.isfinite(value):
        return ("NaN" if math.isnan(value) else f"{plus if value > 0 else '-'}Infinity"), False
    exact = decimal.Decimal(repr(value)) if isinstance(value, float) else value
    digits = 6 if spec.digits is None else spec.digits
    with decimal.localcontext(prec=1500):
        exact = exact.quantize(decimal.Decimal(1).scaleb(-digits), decimal.ROUND_HALF_UP)
    return f"{exact:{plus}{comma}f}", True


def _padded(spec: _FormatSpec, text: str, zeros: bool) -> str:
    if "-" in spec.flags:
        return text.ljust(spec.width)
    if zeros and "0" in spec.flags:
        return text.zfill(spec.width)
    return text.rjust(spec.width)


# GET_JSON_OBJECT


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


_STEP: Final = re.compile(r"\.([^.\[\]*'\s]+)|\[(\d{1,9})\]|\['([^']*)'\]")


def _path(text: str) -> list[str | int] | None:
    """Return the names and places of a path; None for one that is not understood."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        name, place, quoted = match.groups()
        steps.append(int(place) if place else name or quoted)
        at = match.end()
    return steps


def _path_complaint(literals: Sequence[Any]) -> str | None:
    if _path(literals[1]) is None:
        return f"{brief(literals[1])} is no path: expected one such as $.name.other[0], without *"
    return None


def _first_ones(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _json_at(text: str, path: str) -> str | None:
    try:
        value = json.loads(
            text, parse_float=_Number, parse_int=_Number, parse_constant=_no_constant, object_pairs_hook=_first_ones
        )
    except (ValueError, RecursionError):
        return None
    for step in _path(path) or []:
        if isinstance(value, list):
            value = value[step] if isinstance(step, int) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return None
    found = str(value) if isinstance(value, str) else json_text(value)
    return found if is_whole(found) else None


def is_whole(text: str) -> bool:
    """Return whether there is no half of a pair in a text, as JSON's escapes may give, which is no letter."""
    return text.isascii() or not re.search(r"[\ud800-\udfff]", text)


def json_text(value: Any) -> str:
    """Return a value as JSON: numbers as they are written, floats as Java writes them."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, float):
        text: str = cast_value(value, FLOAT64, STRING)
        return text if text[-1].isdigit() else f'"{text}"'
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


_part = fixed(STRING, STRING, result=STRING)

TEXT_FORMS: Final = (
    Function("trim_of", _part, "a string and characters", python=str.strip),
    Function("ltrim_of", _part, "a string and characters", python=str.lstrip),
    Function("rtrim_of", _part, "a string and characters", python=str.rstrip),
    Function("overlay", fixed(STRING, STRING, INT32, INT32, result=STRING),
             "a string, another one, a place and a length", optional=(-1,), python=_overlaid),
    Function("substring_index", fixed(STRING, STRING, INT32, result=STRING), "a string, a delimiter and a number",
             python=_up_to),
    Function("format_string", _form_types, "a form and values", nullable=never, literals=(0,), check=_form_complaint,
             refine=_checked_form, aliases=("printf",), python=_formatted, by_types=True, sees_null=True),
    Function("get_json_object", _part, "a string and a path", nullable=always, literals=(1,), check=_path_complaint,
             python=_json_at),
)  # fmt: skip


# Builders.


def overlay(value: Any, other: Any, start: Any, length: Any = -1) -> Expr:
    """Return the string with another one in the place of its part from a place on, counted from 1.

    The part is as long as the other one, unless ``length`` says how long.
    """
    return call("overlay", operand(value), operand(other), operand(start), operand(length))


def substring_index(value: Any, delimiter: Any, count: Any) -> Expr:
    """Return what is before so many delimiters, or behind so many from the end if ``count`` is negative.

    A string is a column or SQL text: a literal is ``tm.lit(",")``.
    """
    return call("substring_index", operand(value), operand(delimiter), operand(count))


def format_string(form: str, *values: Any) -> Expr:
    """Return a literal form with values in the place of its ``%d %s %f %x %c``, as Java's and Spark's; NULL is null.

    Between ``%`` and the letter may be ``-`` (to the left), ``+``, ``0``, ``,`` (thousands), a width and, behind a
    point, digits of ``%f`` or letters of ``%s``.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"n": "int64", "x": "float64"}, [(1234567, 2.345)])
    >>> flow.output("out", c.select(s=tm.format_string("%,d|%05d|%8.2f", "n", tm.lit(7), "x")))
    >>> flow.start().snapshot("out")
    s
    ------------------------
    1,234,567|00007|    2.35
    """
    return call("format_string", form, *map(operand, values))


def get_json_object(value: Any, path: str) -> Expr:
    """Return what is at a path of a JSON text, as a string: a literal such as ``$.items[0].name``.

    NULL where the text is no JSON, or has nothing or null there. Numbers are as they are written; of objects and arrays
    it is the text without blanks.
    """
    return call("get_json_object", operand(value), path)
