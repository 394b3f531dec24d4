"""Quotients of whole numbers of any size, rounded once."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tidemill.renderer.embedded.kernels.updates import largest

_EXACT: Final = 1 << 53
"""Whole numbers up to this are floats, and the quotient of two floats is rounded correctly."""


def quotients(numerators: Any, denominators: Any) -> Any:
    """Return correctly rounded float quotients of int64 or of Python numbers in object arrays; no denominator is 0.

    >>> quotients(np.array([1, 2**62 + 1]), np.array([3, 2])).tolist()
    [0.3333333333333333, 2.305843009213694e+18]
    """
    if numerators.dtype == denominators.dtype == np.int64 and max(map(largest, (numerators, denominators))) <= _EXACT:
        return numerators / denominators
    small = (np.abs(numerators) <= _EXACT) & (denominators <= _EXACT)
    small = small.astype(np.bool_, copy=False)
    if small.all():
        return numerators.astype(np.float64) / denominators.astype(np.float64)
    result = np.empty(len(numerators))
    result[small] = numerators[small].astype(np.float64) / denominators[small].astype(np.float64)
    large = ~small
    result[large] = _quotients(numerators[large].astype(object), denominators[large].astype(object))
    return result


def _quotient(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:  # rounds to infinity
        return math.inf if numerator > 0 else -math.inf


_quotients = np.frompyfunc(_quotient, 2, 1)


def halves_up(numerators: Any, denominators: Any) -> Any:
    """Return quotients rounded to whole numbers, halves away from zero; denominators are positive.

    >>> halves_up(np.array([5, -5, 4]), np.array([2, 2, 3])).tolist()
    [3, -3, 1]
    """
    size = np.abs(numerators)
    rounded = size // denominators
    rounded = rounded + (2 * (size - rounded * denominators) >= denominators)
    return np.where(numerators < 0, -rounded, rounded)
