"""Numbers that stand for the beginnings of values, to sort and search by before the values themselves are looked at."""

from __future__ import annotations

import struct
from typing import Any, Final

_BYTES: Final = 8
_MIDDLE: Final = 2**63
_LARGE: Final = 2**62


def leading_number(value: Any) -> int:
    """Return an int64 that never falls where values of its type rise: of text and bytes, the first eight bytes.

    Text is ordered by code points, as its bytes are. A large number, of at least 62 bits, has the beginning of its size
    as a float, above or below all shorter numbers. All lists have the same.

    >>> leading_number("ab") < leading_number("b"), leading_number("characters") == leading_number("characteristic")
    (True, True)
    >>> leading_number(-(2**90)) < -(2**62) <= 2**62 <= leading_number(2**62) < leading_number(2**90)
    True
    """
    if isinstance(value, (str, bytes)):
        first = value[:_BYTES].encode() if isinstance(value, str) else value
        return int.from_bytes(first[:_BYTES].ljust(_BYTES, b"\0")) - _MIDDLE
    if isinstance(value, int):
        bits: int = struct.unpack("<q", struct.pack("<d", abs(value)))[0]
        leading = _LARGE + (bits >> 2)
        return leading if value >= 0 else ~leading
    return 0
