"""Decimals with fewer places after the point: Arrow's rounding, nine places at a time.

Arrow's division of 256 bits by more than 32 gives a wrong digit now and then
(999...9.99 truncated is 999...8, seen where values are long runs of nines); by 10^9 or less it is always right.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_PLACES: Final = 9  # 10^9 is below 2^32
_NARROW: Final = 38
_WIDE: Final = 76


def rounded(value: Any, scale: int) -> Any:
    """Return a decimal array or scalar with at most `scale` places, halves away from zero."""
    if value.type.scale <= scale:
        return value
    if value.type.precision < _NARROW:  # then a digit more fits 128 bits, where division is right
        roomy = value.cast(pa.decimal128(_NARROW, value.type.scale))
        return pc.round(roomy, scale, "half_towards_infinity")
    # What follows the first place that goes does not matter, once halves go away from zero.
    return fewer_places(fewer_places(value, scale + 1, "towards_zero"), scale, "half_towards_infinity")


def fewer_places(value: Any, scale: int, mode: str) -> Any:
    """Return a decimal array or scalar with at most `scale` places, in 256 bits.

    The mode is one of Arrow's that do not look at halves ("down", "up", "towards_zero"), or at most nine places go.
    """
    value = value.cast(pa.decimal256(_WIDE, value.type.scale))
    while (places := max(scale, value.type.scale - _PLACES)) < value.type.scale:
        value = pc.round(value, places, mode).cast(pa.decimal256(_WIDE, places))
    return value
