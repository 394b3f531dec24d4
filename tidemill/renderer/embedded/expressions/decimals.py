"""Decimals: Spark's rules of digits, kept by Arrow where it has them, else with more digits or one by one.

Arrow's division of 256 bits by more than 32 gives a wrong digit now and then
(999...9.99 truncated is 999...8, seen where values are long runs of nines); by 10^9 or less it is always right. So
places after the point go nine at a time.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.expressions.bound import BoundCall
from tidemill.renderer.embedded.expressions.kernels import Apply
from tidemill.renderer.embedded.expressions.python_rule import python_rule

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


def decimal_rule(bound: BoundCall, compute: Apply) -> Apply:
    """Arrow has Spark's rules up to 38 digits; beyond, compute with twice as many and round."""
    a, b = (arg.dtype for arg in bound.args)
    to = bound.dtype.arrow
    probe = (pa.array([], pa.decimal256(t.precision, t.scale)) for t in (a, b))
    try:
        exact = compute(*probe).type
    except pa.ArrowInvalid:
        return python_rule(bound)  # 77 digits: more than Arrow has
    if exact.precision <= to.precision:
        return compute
    wide = [pa.decimal256(t.precision, t.scale) for t in (a, b)]

    def apply(x: Any, y: Any) -> Any:
        found = _in_few_digits(compute, x, y)
        if found is None:
            found = compute(x.cast(wide[0]), y.cast(wide[1]))
        return rounded(found, to.scale).cast(to)

    return apply


def _in_few_digits(compute: Apply, x: Any, y: Any) -> Any:
    """Return the exact result, computed in as many digits as the values have; None where 38 are not enough for it.

    Types say how many digits there may be. Mostly there are fewer, and 128 bits take a fifth of the time of 256.
    """
    few = [pa.decimal128(_digits(value), value.type.scale) for value in (x, y)]
    try:
        compute(*(pa.array([], t) for t in few))
    except pa.ArrowInvalid:
        return None
    return compute(x.cast(few[0]), y.cast(few[1]))


def _digits(value: Any) -> int:
    """Return how many digits the decimals of a column have, or a single one, those after the point included."""
    ends = [value.as_py()] if isinstance(value, pa.Scalar) else pc.min_max(value).as_py().values()
    scale: int = value.type.scale
    digits: list[int] = [end.adjusted() + 1 + scale for end in ends if end]  # neither none nor zero
    return max(1, scale, *digits)
