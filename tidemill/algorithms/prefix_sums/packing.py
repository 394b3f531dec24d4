"""Exact sums packed into bytes, as a column holds them on their way."""

from __future__ import annotations

from typing import Final

from tidemill.boundary.exact_sums import Exact

_SPECIAL: Final = {b"?": Exact(nan=1), b"+": Exact(plus=1), b"-": Exact(minus=1)}
"""Sums with NaN or infinities. No number is packed into one byte."""


def packed(total: Exact) -> bytes:
    """Return a sum as bytes, equal numbers as equal ones.

    >>> unpacked(packed(Exact(12, -3))) == Exact(3, -1), packed(Exact(0, 5)), packed(Exact(1, plus=1, minus=2))
    (True, b'', b'?')
    """
    if total.special is not None:
        return b"?" if total.special != total.special else b"+" if total.plus else b"-"
    if not total.whole:
        return b""
    zeros = (total.whole & -total.whole).bit_length() - 1
    number = total.whole >> zeros
    return (total.unit + zeros).to_bytes(2, signed=True) + number.to_bytes(number.bit_length() // 8 + 1, signed=True)


def unpacked(state: bytes) -> Exact:
    """Return the sum that was packed, whose unit may be larger."""
    if len(state) == 1:
        return _SPECIAL[state]
    return Exact(int.from_bytes(state[2:], signed=True), int.from_bytes(state[:2], signed=True))
