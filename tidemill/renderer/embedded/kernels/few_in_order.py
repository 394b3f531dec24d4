"""The order of a few updates by their codes, where values would take longer to sort."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels import long_decimals
from tidemill.renderer.embedded.kernels.codec import NAN_CODE, Interner, is_interned, is_long_decimal, order_ranks
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Ints, UpdateArray

_FEW_SORTED: Final = 2048
"""Up to how many rows NumPy sorts codes sooner than Arrow sorts values, which costs much to begin."""
_FEW_TEXTS: Final = 64
"""The same, if texts have to be looked at for it."""


def few_in_order(schema: Schema, updates: UpdateArray, interner: Interner) -> UpdateArray | None:
    """Return a few updates sorted by their times, if they have any, and rows: NULL first, then NaN, then the values.

    None where they are not few, or have lists or large decimals; or texts by which many have to be sorted.
    """
    n, k = updates.shape[1], len(schema)
    if n < 2:  # noqa: PLR2004 - nothing to sort
        return updates
    if n > _FEW_SORTED:
        return None
    order = _order_of_codes(schema)
    if order is None or any(len(long_decimals.large_places(updates[i])) for i in order.long_decimals):
        return None
    keys = list(updates[k:-1])
    for i in range(k):
        if i in order.interned:
            if keys and (places := _told_apart(keys)) is not None:  # as by an id: no text need be looked at
                return updates.take(places, axis=1)
            if n > _FEW_TEXTS:
                return None
            keys.append(order_ranks(updates[i], schema.fields[i].dtype, interner))
        elif i in order.floats:
            keys.append(np.where(updates[i] == NAN_CODE, NULL + 1, updates[i]))
        else:
            keys.append(updates[i])
    return updates.take(np.lexsort(keys[::-1]), axis=1)


def _told_apart(keys: list[Ints]) -> Ints | None:
    """Return the places of updates in the order of these keys, if no two have the same."""
    places = np.lexsort(keys[::-1])
    alike: Bools | None = None
    for key in reversed(keys):
        ordered = key.take(places)
        same = ordered[1:] == ordered[:-1]
        alike = same if alike is None else alike & same
        if not np.count_nonzero(alike):
            return places
    return None


class _OrderOfCodes(NamedTuple):
    """Columns of a schema whose codes do not all sort as their values do."""

    long_decimals: tuple[int, ...]
    floats: tuple[int, ...]
    interned: tuple[int, ...]


@lru_cache(maxsize=1024)
def _order_of_codes(schema: Schema) -> _OrderOfCodes | None:
    """Return of which columns to see to, where rows of codes are sorted; None where that is not done by codes."""
    types = [f.dtype for f in schema.fields]
    if any(t.is_nested for t in types):
        return None
    found = (is_long_decimal, lambda t: t.name == "float64", is_interned)
    return _OrderOfCodes(*(tuple(i for i, t in enumerate(types) if is_one(t)) for is_one in found))
