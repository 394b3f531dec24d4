"""Sums of float64, exact until they are rounded once, as `math.fsum` gives them; that can be added to and taken from.

A finite float is an integer times a power of two; written in base 2**32 with a fixed point below the least float, it
has at most three limbs that are not zero. Limbs with the same place add up as integers, in any order and with any
signs. NaN and the infinities have places of their own, where they are counted.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.codec import float_values
from tidemill.renderer.embedded.kernels.limbs import BITS, MASK, NOT_FINITE, LimbRows, consolidated_limbs, split
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, UpdateArray, largest

LEAST: Final = 1074
"""The least float is 2**-1074, so that is what limb 0 counts."""
_NAN, _PLUS, _MINUS = NOT_FINITE, NOT_FINITE + 1, NOT_FINITE + 2
_CELLS: Final = 1 << 22
_ROOM: Final = 2**62
"""Limbs below this have room for what is carried to them."""
_MANTISSA: Final = 53
_MOST_LIMBS: Final = 6
"""Floats that are so far apart that their limbs have more places are added up place by place, as they come."""
_LARGEST_POWER: Final = 1000


def limbs_of_floats(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the limbs of floats given by their codes: which float, which place, and how much. Zeros are left out."""
    whole, position, special, kind = _mantissas(codes)
    place, shift = position >> 5, position & 31
    size = np.abs(whole)
    bottom = (size & MASK).astype(np.uint64) << shift.astype(np.uint64)
    top = ((size >> BITS) << shift) + (bottom >> np.uint64(BITS)).astype(np.int64)
    limbs = np.stack(((bottom & np.uint64(MASK)).astype(np.int64), top & MASK, top >> BITS))
    limbs = np.where(whole < 0, -limbs, limbs)
    rank, which = limbs.nonzero()
    return (
        np.concatenate((which, special)),
        np.concatenate((place[which] + rank, kind)),
        np.concatenate((limbs[rank, which], np.ones_like(special))),
    )


def _mantissas(codes: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return floats as whole numbers of powers of two, given by how many times the least one; and the places of others.

    That are which ones are not finite, and the places where these are counted.
    """
    values = float_values(codes)
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = np.ldexp(mantissa, _MANTISSA).astype(np.int64)
    position = exponent.astype(np.int64) - _MANTISSA + LEAST
    low = position < 0  # subnormal: the lowest bits are zero, for there are none below 2**-1074
    whole = np.where(low, whole >> np.where(low, -position, 0), whole)
    (special,) = (~finite).nonzero()
    others = values[special]
    return (
        whole,
        np.maximum(position, 0),
        special,
        np.where(np.isnan(others), _NAN, np.where(others > 0, _PLUS, _MINUS)),
    )


def limb_sums(count: int, owner: Ints, codes: Ints, diffs: Ints) -> tuple[int, UpdateArray] | None:
    """Return the sums of the limbs of floats, each taken some times, by owner 0..count-1.

    The same limbs as `limbs_of_floats` has, added up: the place of the first, and a row for each place from there on.
    None where the floats are too far apart for that, or not all finite, or too many.

    >>> halves = np.array([0.5, 1.5]).view(np.int64)
    >>> limb_sums(1, np.array([0, 0]), halves, np.array([1, 2]))
    (31, array([[     0],
           [     0],
           [917504]]))
    """
    parts = sorting.parts(len(codes))
    least, greatest = _extent(codes, parts)
    if greatest == 0.0:
        return 0, np.zeros((0, count), np.int64)
    if not greatest < math.inf or len(codes) * max(int(diffs.max()), -int(diffs.min())) >= 1 << (63 - BITS):
        return None
    first = max(math.frexp(least)[1] - _MANTISSA + LEAST, 0) // BITS
    limbs = (math.frexp(greatest)[1] - 1 + LEAST) // BITS + 1 - first
    if limbs > _MOST_LIMBS:
        return None
    sums = np.zeros((limbs, count), np.int64)
    power = LEAST - BITS * first
    for part in parts:
        values = float_values(codes[part])
        size = np.abs(values)
        size = size * math.ldexp(1.0, power) if abs(power) < _LARGEST_POWER else np.ldexp(size, power)
        signed = diffs[part]
        if (values < 0).any():
            signed = signed * np.sign(values).astype(np.int64)
        for i in range(limbs):
            above = np.floor(size * 2.0**-BITS)
            amount = (size - above * 2.0**BITS).astype(np.int64)
            amount *= signed
            np.add.at(sums[i], owner[part], amount)
            size = above
    return first, sums


def _extent(codes: Ints, parts: list[slice]) -> tuple[float, float]:
    """Return the sizes of the smallest float that is not zero and of the greatest; NaN where there is one."""
    least, greatest = math.inf, 0.0
    for part in parts:
        sizes = np.abs(float_values(codes[part]))
        low, high = float(sizes.min()), float(sizes.max())
        if low == 0.0:
            low = float(sizes.min(initial=math.inf, where=sizes > 0))
        least = min(low, least)
        greatest = high if math.isnan(high) else max(greatest, high)
        if math.isnan(greatest):
            break
    return least, greatest


def limbs_of_squares(codes: Ints, *, floats: bool) -> tuple[Ints, Ints, Ints]:
    """Return the limbs of the squares of floats, or of whole numbers: which one, which place, and how much.

    A square of floats counts 2**-2148 in place 0, one of whole numbers counts 1. NaN and the infinities
    have the places that they have in sums.
    """
    if floats:
        whole, position, special, kinds = _mantissas(codes)
    else:
        whole, position, special, kinds = codes, np.zeros_like(codes), *np.empty((2, 0), np.int64)
    size = np.abs(whole).astype(np.uint64)
    half = np.uint64(BITS)
    low, high = size & np.uint64(MASK), size >> half
    pieces = [(low * low, 0), (low * high, BITS + 1), (high * high, 2 * BITS)]
    which, place, amount = [special], [kinds], [np.ones(len(special), np.int64)]
    for product, offset in pieces:
        for part, more in ((product & np.uint64(MASK), 0), (product >> half, BITS)):
            some = part.nonzero()[0]
            at = 2 * position[some] + offset + more
            shifted = part[some] << (at & (BITS - 1)).astype(np.uint64)
            for limb, up in ((shifted & np.uint64(MASK), 0), (shifted >> half, 1)):
                which.append(some)
                place.append((at >> 5) + up)
                amount.append(limb.astype(np.int64))
    return np.concatenate(which), np.concatenate(place), np.concatenate(amount)


def exact_sums(count: int, owner: Ints, place: Ints, amount: Ints) -> tuple[Any, Bools]:
    """Return the sums of limbs by owner as Python numbers, and whether NaN or an infinity is among them."""
    sums, special = np.zeros(count, object), np.zeros(count, np.bool_)
    owner, place, amount = _consolidated(owner, place, amount)
    special[owner[place >= _NAN]] = True
    finite = place < _NAN
    np.add.at(sums, owner[finite], amount[finite].astype(object) << BITS * place[finite])
    return sums, special


def _consolidated(owner: Ints, place: Ints, amount: Ints) -> UpdateArray:
    """Return limbs with those of one owner and place added up, to less than 2**62 each."""
    limbs = consolidated_limbs(np.stack((owner, place, amount)), 1, LimbRows(1))
    if largest(limbs[-1]) >= _ROOM:
        place, amount, which = split(limbs[1], limbs[2])
        limbs = consolidated_limbs(np.stack((limbs[0].take(which), place, amount)), 1, LimbRows(1))
    return limbs


def float_sums(count: int, owner: Ints, place: Ints, amount: Ints) -> Any:
    """Return the sums of limbs by owner 0..count-1, each correctly rounded to a float once.

    >>> codes = np.array([1e20, 1.0, -1e20]).view(np.int64)
    >>> codes = np.where(codes < 0, codes ^ (2**63 - 1), codes)
    >>> which, place, amount = limbs_of_floats(codes)
    >>> float_sums(1, np.zeros_like(which), place, amount)
    array([1.])
    """
    dense = _side_by_side(count, owner, place, amount)
    if dense is not None:
        return _rounded(*dense)
    owner, place, amount = _consolidated(owner, place, amount)
    finite = place < _NAN
    result = _finite_sums(count, owner[finite], place[finite], amount[finite])
    counts = np.zeros((3, count), np.int64)
    np.add.at(counts, (place[~finite] - _NAN, owner[~finite]), amount[~finite])
    plus, minus = (counts[1] > 0) | (counts[2] < 0), (counts[2] > 0) | (counts[1] < 0)
    result[plus] = np.inf
    result[minus] = -np.inf
    result[(counts[0] != 0) | (plus & minus)] = np.nan
    return result


def _side_by_side(count: int, owner: Ints, place: Ints, amount: Ints) -> tuple[UpdateArray, int] | None:
    """Return the digits of each owner's sum and the place of the lowest ones; None where that takes too many cells."""
    if not len(place):
        return None
    base = int(place.min())
    span = int(place.max()) + 3 - base  # two more for carries
    most = max(int(amount.max()), -int(amount.min()))
    if base + span >= _NAN or span * count > _CELLS or most * len(amount) >= _ROOM:
        return None
    digits = np.zeros((span, count), np.int64)
    np.add.at(digits.reshape(-1), (place - base) * count + owner, amount)
    return digits, base


def _finite_sums(count: int, owner: Ints, place: Ints, amount: Ints) -> Any:
    """Return the sums of limbs, of which each owner has one at a place, so many owners at a time as cells allow."""
    result = np.zeros(count)
    if not len(owner):
        return result
    base = int(place.min())
    span = int(place.max()) + 3 - base  # two more for carries
    chunk = max(1, _CELLS // span)
    for first in range(0, count, chunk):
        inside = (owner >= first) & (owner < first + chunk)
        digits = np.zeros((span, min(chunk, count - first)), np.int64)
        digits[place[inside] - base, owner[inside] - first] = amount[inside]
        result[first : first + chunk] = _rounded(digits, base)
    return result


def _rounded(digits: UpdateArray, base: int) -> Any:
    """Return numbers in base 2**32 (lowest digit first, at some place, of any size and sign), correctly rounded."""
    _carry(digits)
    negative = digits[-1] < 0
    if negative.any():
        digits[:, negative] *= -1
        _carry(digits)
    span = len(digits)
    top = span - 1 - (digits[::-1] != 0).argmax(axis=0)
    columns = np.arange(digits.shape[1])

    def digit(below: int) -> Any:
        return np.where(top >= below, digits[np.maximum(top - below, 0), columns], 0).astype(np.uint64)

    first, second, third = digit(0), digit(1), digit(2)
    _, bits = np.frexp(first.astype(np.float64))
    shift = np.clip(BITS - bits, 0, BITS - 1).astype(np.uint64)
    down = np.uint64(BITS) - shift
    window = (((first << np.uint64(BITS)) | second) << shift) | (third >> down)
    below = np.arange(span)[:, None] < top - 2
    rest = ((third << shift) & np.uint64(MASK)) | (np.where(below, digits, 0) != 0).any(axis=0).astype(np.uint64)
    # 64 significant bits, the last set if anything below is: rounding that to 53 bits rounds the whole correctly. What
    # is subnormal is not rounded again, for no sum has a bit below the least float.
    window |= (rest != 0).astype(np.uint64)
    exponent = (base + top - 1) * BITS - shift.astype(np.int64) - LEAST
    with np.errstate(over="ignore", under="ignore"):  # infinite, as IEEE has it
        value = np.ldexp(window.astype(np.float64), exponent)
    return np.where(negative, -value, value)


def _carry(digits: UpdateArray) -> None:
    """Bring all digits but the highest into 0..2**32-1."""
    for i in range(len(digits) - 1):
        digits[i + 1] += digits[i] >> BITS
        digits[i] &= MASK
