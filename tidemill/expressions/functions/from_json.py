"""JSON objects as structs: the function's entry in the registry, and its builder."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import brief
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import Function, Signature, always
from tidemill.expressions.functions.text_forms import is_whole, json_text
from tidemill.expressions.types import BOOL, FLOAT64, INT32, INT64, NULL, STRING, DType, struct_type

_FIELD: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*[:\s]\s*(\w+)\s*")
_TYPES: Final = {
    "INT": INT32, "INTEGER": INT32, "BIGINT": INT64, "LONG": INT64, "DOUBLE": FLOAT64, "BOOLEAN": BOOL,
    "STRING": STRING,
}  # fmt: skip
_SPECIAL: Final = {"NaN", "+INF", "+Infinity", "Infinity", "-INF", "-Infinity"}


@functools.cache
def _fields(text: str) -> DType | None:
    """Return the struct that a text such as ``a INT, b STRING`` is of; None where it is not understood."""
    inside = re.fullmatch(r"(?is)\s*struct\s*<(.*)>\s*", text)
    found = [_FIELD.fullmatch(part) for part in (inside[1] if inside else text).split(",")]
    pairs = [(m[1] or m[2], _TYPES.get(m[3].upper())) for m in found if m is not None]
    known = [(name, of) for name, of in pairs if of is not None]
    return struct_type(known) if len(dict(known)) == len(found) else None


def _complaint(literals: Sequence[Any]) -> str | None:
    if literals[1] is None or _fields(literals[1]) is not None:
        return None
    names = ", ".join(_TYPES)
    return f"{brief(literals[1])} names no fields: expected some as in 'a INT, b STRING', of types {names}"


def _types(types: Sequence[DType]) -> Signature | None:
    return Signature((STRING, STRING), NULL) if len(types) == 2 else None  # noqa: PLR2004 - a text and fields


def _from_json(text: str, fields: str) -> tuple[Any, ...] | None:
    """Return what Spark does: fields are NULL that are not there or of another type, and all if the object has a fault.

    What stands behind the object does not count.
    """
    text = text.lstrip(" \t\r\n")
    if not text:
        return None
    try:
        found, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        found = None
    known = found if isinstance(found, dict) else {}
    of = _fields(fields)
    assert of is not None, "what was checked"
    return tuple(_READ[dtype](known.get(name)) for name, dtype in of.fields)


def _whole(least: int, most: int) -> Callable[[Any], int | None]:
    return lambda value: value if type(value) is int and least <= value <= most else None


def _float(value: Any) -> float | None:
    if isinstance(value, str) and value in _SPECIAL:
        return float(value)
    return _as_float(value) if type(value) in (int, float) else None


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _text(value: Any) -> str | None:
    if value is None:
        return None
    found = value if isinstance(value, str) else json_text(value)
    return found if is_whole(found) else found.encode(errors="replace").decode()  # ? for half of a pair, as in Java


_DECODER: Final = json.JSONDecoder()
_READ: Final[dict[DType, Callable[[Any], Any]]] = {
    INT32: _whole(-(2**31), 2**31 - 1), INT64: _whole(-(2**63) + 1, 2**63 - 1), FLOAT64: _float, STRING: _text,
    BOOL: lambda value: value if isinstance(value, bool) else None,
}  # fmt: skip

FROM_JSON: Final = (
    Function("from_json", _types, "a string and fields", nullable=always, literals=(1,), check=_complaint,
             refine=lambda signature, given: Signature(signature.params, _fields(given[1]) or NULL), python=_from_json),
)  # fmt: skip


def from_json(value: Any, fields: str) -> Expr:
    """Return a JSON object as a struct of such fields as ``"a INT, b STRING"``; of their types some are Spark's.

    These are INT, BIGINT, DOUBLE, BOOLEAN and STRING. A field is NULL that is not there or of another type; all are in
    what is no object. Objects and lists in it are strings if they are asked for.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"s": "string"}, [('{"id": 1, "of": {"b": 2}}',), ('{"id": "1"}',), ("?",)])
    >>> flow.output("out", c.select(r=tm.from_json("s", "id INT, of STRING")).select(id="r.id", of="r.of"))
    >>> list(flow.start().snapshot("out"))
    [(None, None), (None, None), (1, '{"b":2}')]
    """
    return call("from_json", operand(value), fields)
