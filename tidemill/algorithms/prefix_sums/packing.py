"""Numbers of any size as bytes: what exact sums hold on their way."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any, Final

import attrs

from tidemill.expressions.types import FLOAT64, DType

NOT_A_NUMBER, PLUS, MINUS = b"?", b"+", b"-"
SPECIAL: Final = {NOT_A_NUMBER: math.nan, PLUS: math.inf, MINUS: -math.inf}
"""What sums with such values come to. No number is packed into one byte."""


def packed(number: int, exponent: int) -> bytes:
    """Return a whole number times a power of two as bytes, equal numbers as equal ones.

    >>> unpacked(packed(12, -3)), packed(0, 5)
    ((3, -1), b'')
    """
    if not number:
        return b""
    zeros = (number & -number).bit_length() - 1
    number >>= zeros
    size = number.bit_length() // 8 + 1
    return (exponent + zeros).to_bytes(2, signed=True) + number.to_bytes(size, signed=True)


def unpacked(packed: bytes) -> tuple[int, int]:
    """Return the number and the exponent that were packed."""
    return int.from_bytes(packed[2:], signed=True), int.from_bytes(packed[:2], signed=True)


_EXACT: Final = decimal.Context(prec=80)


@attrs.frozen
class Packing:
    """Packs the numbers of a type, or powers of them: whole numbers, floats, decimals as units of their last place."""

    of: DType
    power: int = 1

    def __call__(self, value: Any) -> bytes | None:
        if value is None:
            return None
        if self.of != FLOAT64:
            units = value.scaleb(self.of.scale, _EXACT) if self.of.is_decimal else value
            return packed(int(units) ** self.power, 0)
        if not math.isfinite(value):
            return NOT_A_NUMBER if math.isnan(value) else PLUS if value > 0 else MINUS
        number, unit = value.as_integer_ratio()
        return packed(number**self.power, (1 - unit.bit_length()) * self.power)


def exact(state: bytes, of: DType, power: int = 1) -> Fraction:
    """Return the number that was packed, of a type or a power of it; it must not be one of `SPECIAL`."""
    number, exponent = unpacked(state)
    units = Fraction(number) * Fraction(2) ** exponent
    return units / 10 ** (of.scale * power) if of.is_decimal else units


def float_of(packed: bytes | None) -> float | None:
    """Return the float next to a packed number."""
    if packed is None or packed in SPECIAL:
        return None if packed is None else SPECIAL[packed]
    number, exponent = unpacked(packed)
    try:
        return number / (1 << -exponent) if exponent < 0 else float(number << exponent)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@attrs.frozen
class DecimalOf:
    """Gives the decimal of a packed number; it has to fit its type."""

    dtype: DType

    def __call__(self, packed: bytes | None) -> decimal.Decimal | None:
        if packed is None:
            return None
        number, exponent = unpacked(packed)
        units = number << exponent
        if abs(units) >= 10**self.dtype.precision:
            msg = f"the sum does not fit {self.dtype}"
            raise OverflowError(msg)
        return decimal.Decimal(units).scaleb(-self.dtype.scale, _EXACT)
