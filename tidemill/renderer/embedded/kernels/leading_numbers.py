"""Numbers that stand for the beginnings of values, to sort and search by before the values themselves are looked at."""

from __future__ import annotations

import decimal
import struct
from typing import Any, Final

__all__ = ["leading_number"]

_BYTES: Final = 8
_MIDDLE: Final = 2**63
_ALL_BUT_SIGN: Final = 2**63 - 1


def leading_number(value: Any) -> int:
    """Return an int64 that never falls where values of its type rise: of text and bytes, the first eight bytes.

    Text is ordered by code points, as its bytes are. A decimal is rounded to a float. All lists have the same.

    >>> leading_number("ab") < leading_number("b"), leading_number("characters") == leading_number("characteristic")
    (True, True)
    """
    if isinstance(value, (str, bytes)):
        first = value[:_BYTES].encode() if isinstance(value, str) else value
        return int.from_bytes(first[:_BYTES].ljust(_BYTES, b"\0")) - _MIDDLE
    if isinstance(value, decimal.Decimal):
        bits: int = struct.unpack("<q", struct.pack("<d", float(value) + 0.0))[0]
        return bits if bits >= 0 else bits ^ _ALL_BUT_SIGN
    return 0
