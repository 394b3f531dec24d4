"""Functions of where a row is in its partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tidemill.expressions.windows.bound import RankingCall
from tidemill.expressions.windows.functions import BELOW_ONE
from tidemill.renderer.embedded.kernels.codec import float_codes
from tidemill.renderer.embedded.kernels.updates import NULL, Ints
from tidemill.renderer.embedded.windows.partitions import Partitions, RefusedError

__all__ = ["at_least_one", "ranking"]


def ranking(rows: Partitions, call: RankingCall) -> Ints:
    """Return the codes of a ranking function at each place."""
    if call.buckets is not None:
        return _ntile(rows, rows.argument(call.buckets))
    return _RANKINGS[call.function](rows)


def _row_number(rows: Partitions) -> Ints:
    return rows.places - (rows.origin - 1)


def _rank(rows: Partitions) -> Ints:
    return rows.peer_first - (rows.origin - 1)


def _dense_rank(rows: Partitions) -> Ints:
    return rows.group - (rows.first_group - 1)


def _percent_rank(rows: Partitions) -> Ints:
    return float_codes((rows.peer_first - rows.origin) / np.maximum(rows.totals - 1, 1))


def _cume_dist(rows: Partitions) -> Ints:
    return float_codes((rows.peer_end - rows.origin) / rows.totals)


_RANKINGS: Final[dict[str, Callable[[Partitions], Ints]]] = {
    "row_number": _row_number, "rank": _rank, "dense_rank": _dense_rank, "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
}  # fmt: skip


def _ntile(rows: Partitions, buckets: Ints) -> Ints:
    known = at_least_one(buckets)
    size, larger = np.divmod(rows.totals, np.where(known, buckets, 1))
    place = rows.places - rows.origin
    in_larger = larger * (size + 1)
    after = larger + (place - in_larger) // np.maximum(size, 1)
    return np.where(known, np.where(place < in_larger, place // (size + 1), after) + 1, NULL)


def at_least_one(codes: Ints) -> Ints:
    """Return where numbers are not NULL; `RefusedError` where one is below 1."""
    known: Ints = codes != NULL
    below = known & (codes < 1)
    if below.any():
        place = int(below.argmax())
        raise RefusedError(place, f"{codes[place]}: {BELOW_ONE}")
    return known
