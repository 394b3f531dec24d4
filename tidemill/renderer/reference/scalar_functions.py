"""What functions of numbers and of strings mean, of values that are not NULL, in plain Python."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

from tidemill.expressions.functions.patterns import read_pattern, read_replacement

__all__ = ["FLOATS", "NUMBERS", "TEXT", "FailureError", "shifted"]


class FailureError(Exception):
    """Why a function has no value for its arguments."""


_ZERO: Final = "division by zero"
_OVERFLOW: Final = "overflow"


def exact(operate: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operation with room for every digit of two decimals."""

    def run(*values: Any) -> Any:
        with decimal.localcontext(prec=300):
            return operate(*values)

    return run


# Arithmetic, on values of one type.


def _divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise FailureError(_ZERO)
    if isinstance(a, decimal.Decimal):
        return (a / b).quantize(decimal.Decimal("1e-39"), decimal.ROUND_HALF_UP)  # as Spark does, before it rounds
    return a / b


def _int_divide(a: Any, b: Any) -> int:
    if b == 0:
        raise FailureError(_ZERO)
    if isinstance(a, decimal.Decimal):
        return int(a / b)
    quotient: int = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: Any, b: Any) -> Any:
    """Return what is left of a division, with the sign of the dividend."""
    if b == 0:
        raise FailureError(_ZERO)
    if isinstance(a, float):
        return math.nan if math.isinf(a) or math.isnan(b) else math.fmod(a, b)
    return a % b if isinstance(a, decimal.Decimal) else a - b * _int_divide(a, b)


def _pmod(a: Any, b: Any) -> Any:
    rest = remainder(a, b)
    return remainder(rest + b, b) if rest < 0 else rest


def _round(value: Any, places: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    digits = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    _, _, exponent = digits.as_tuple()
    if isinstance(exponent, int) and places < -exponent:
        with decimal.localcontext(prec=1000):
            unit = decimal.Decimal(1).scaleb(min(-places, 500))
            digits = digits.quantize(unit, decimal.ROUND_HALF_UP)
    if isinstance(value, decimal.Decimal):
        return digits
    return int(digits) if isinstance(value, int) else float(digits) + 0.0  # never -0.0


def _whole(towards: Callable[[Any], int]) -> Callable[[Any], Any]:
    def whole(value: Any) -> Any:
        if isinstance(value, float):
            if math.isnan(value):
                return 0  # Java's cast
            if math.isinf(value):
                raise FailureError(_OVERFLOW)
        found = towards(value)
        return decimal.Decimal(found) if isinstance(value, decimal.Decimal) else found

    return whole


def _sign(value: float) -> float:
    return value if value == 0 or math.isnan(value) else math.copysign(1.0, value)


def _logarithm(compute: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda value: None if value <= 0 else compute(value)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: float, exponent: float) -> float:
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    odd = math.isfinite(exponent) and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:  # a zero to a negative power, or a negative number to a broken one
        return math.copysign(math.inf, base if odd else 1.0) if base == 0 else math.nan


NUMBERS: Final[dict[str, Callable[..., Any]]] = {
    "add": exact(lambda a, b: a + b),
    "subtract": exact(lambda a, b: a - b),
    "multiply": exact(lambda a, b: a * b),
    "divide": exact(_divide),
    "int_divide": exact(_int_divide),
    "modulo": exact(remainder),
    "pmod": exact(_pmod),
    "negate": lambda a: a.copy_negate() if isinstance(a, decimal.Decimal) else -a,
    "abs": lambda a: a.copy_abs() if isinstance(a, decimal.Decimal) else abs(a),
    "round": _round,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "bit_not": lambda a: ~a,
}
"""Results are exact, and still to be brought to the type."""

FLOATS: Final[dict[str, Callable[..., Any]]] = {
    "sign": _sign,
    "sqrt": lambda a: math.nan if a < 0 else math.sqrt(a),
    "exp": _exp,
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "power": _power,
}


def shifted(function: str, value: int, count: int, bits: int) -> int:
    """Return Java's shift of a number of so many bits."""
    count &= bits - 1
    if function == "shift_right":
        return value >> count
    whole = 1 << bits
    pattern = value % whole
    pattern = pattern >> count if function == "shift_right_unsigned" else (pattern << count) % whole
    return pattern - whole if pattern >= whole // 2 else pattern


# Strings.


def _substring(text: str, start: int, length: int) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def _pad(text: str, length: int, filling: str, *, left: bool) -> str:
    if length <= len(text):
        return text[: max(length, 0)]
    more = ""
    while filling and len(more) < length - len(text):
        more += filling
    more = more[: length - len(text)]
    return more + text if left else text + more


def _locate(part: str, text: str, start: int) -> int:
    if start <= 0:
        return 0
    return next((i + 1 for i in range(start - 1, len(text)) if text.startswith(part, i)), 0) if part else 1


def _split_part(text: str, delimiter: str, number: int) -> str:
    parts = text.split(delimiter) if delimiter else [text]
    parts = ["", *(parts if number > 0 else parts[::-1])]
    return parts[abs(number)] if abs(number) < len(parts) else ""


def _translate(text: str, characters: str, replacements: str) -> str:
    places = [(c, characters.find(c)) for c in text]
    return "".join(c if i < 0 else replacements[i : i + 1] for c, i in places)


def _like(text: str, pattern: str) -> bool:
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(t) or re.escape(t[-1]) for t in tokens)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _initcap(text: str) -> str:
    return re.sub(r"(^| )([^ ])", lambda m: m[1] + m[2].title(), text.lower())


def _regexp_replace(text: str, pattern: str, replacement: str) -> str:
    compiled = read_pattern(pattern).python
    parts = read_replacement(replacement, compiled.groups)
    return compiled.sub(lambda m: "".join(p if isinstance(p, str) else m[p] or "" for p in parts), text)


def _regexp_extract(text: str, pattern: str, group: int) -> str:
    match = read_pattern(pattern).python.search(text)
    return "" if match is None or match[group] is None else match[group]


TEXT: Final[dict[str, Callable[..., Any]]] = {
    "upper": str.upper,
    "lower": str.lower,
    "initcap": _initcap,
    "reverse": lambda a: a[::-1],
    "length": len,
    "ascii": lambda a: ord(a[0]) if a else 0,
    "chr": lambda n: "" if n < 0 else chr(n % 256),
    "concat": lambda *parts: "".join(parts),
    "substring": _substring,
    "left": lambda a, n: a[: max(n, 0)],
    "right": lambda a, n: a[max(len(a) - n, 0) :] if n > 0 else "",
    "repeat": lambda a, n: a * n,
    "lpad": lambda a, n, filling: _pad(a, n, filling, left=True),
    "rpad": lambda a, n, filling: _pad(a, n, filling, left=False),
    "replace": lambda a, part, other: other.join(a.split(part)) if part else a,
    "translate": _translate,
    "locate": _locate,
    "split_part": _split_part,
    "trim": lambda a: a.strip(" "),
    "ltrim": lambda a: a.lstrip(" "),
    "rtrim": lambda a: a.rstrip(" "),
    "like": _like,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda a, b: b in a,
    "regexp_like": lambda a, pattern: read_pattern(pattern).python.search(a) is not None,
    "regexp_replace": _regexp_replace,
    "regexp_extract": _regexp_extract,
}
