"""Whether two systems give the same answer to a query: decimals at the coarser of both scales, floats within 1e-9."""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

Row = tuple[Any, ...]

_RELATIVE = 1e-9


def same_value(a: Any, b: Any) -> bool:
    """Return whether values are equal: decimals at the coarser of both scales, floats within 1e-9 of each other."""
    if a is None or b is None or isinstance(a, str):
        return bool(a == b)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=_RELATIVE) or a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (float, decimal.Decimal)) or isinstance(b, (float, decimal.Decimal)):
        places = [-int(v.as_tuple().exponent) for v in (a, b) if isinstance(v, decimal.Decimal)]
        within = 0.5001 * 10.0 ** -min(places) if places else 0.0
        return abs(float(a) - float(b)) <= within + _RELATIVE * abs(float(b))
    return bool(a == b)


def unmatched(ours: Sequence[Row], theirs: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that only the first has, and those that only the second has, each as often as it has more."""
    places = range(len((*ours, *theirs, ())[0]))
    broken = {i for i in places if any(isinstance(row[i], (float, decimal.Decimal)) for row in (*ours, *theirs))}

    def exact(row: Row) -> Row:  # what is the same in equal rows: all but such numbers, and where these are NULL
        return tuple([v if i not in broken else v is None for i, v in enumerate(row)])

    by_rest: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in theirs:
        by_rest[exact(row)].append(row)
    extra = []
    for row in ours:
        candidates = by_rest[exact(row)]
        at = next((i for i, other in enumerate(candidates) if all(map(same_value, row, other))), None)
        if at is None:
            extra.append(row)
        else:
            candidates.pop(at)
    return extra, [row for rows in by_rest.values() for row in rows]
