"""Rows in an order, as updates over any lattice, and what sums and searches over them are, worked out naively."""

from __future__ import annotations

import functools
import math
from collections import defaultdict

from hypothesis import strategies as st

PLACED = {"p": "int64", "i": "int64", "x": "int64"}
VALUES = {"p": [0, 1, None], "i": [None, *range(9)], "x": [None, -3, 0, 1, 4]}
TIMES = {1: st.integers(0, 3), 2: st.tuples(*[st.integers(0, 2)] * 2), 3: st.tuples(*[st.integers(0, 1)] * 3)}


@st.composite
def placed_updates(draw, coordinates=1, values=VALUES, size=14):
    """Rows that come, and some of which go again at a later time: never fewer than none."""
    found = []
    for _ in range(draw(st.integers(0, size))):
        row = tuple(draw(st.sampled_from(values[name])) for name in values)
        time, copies = draw(TIMES[coordinates]), draw(st.sampled_from([1, 1, 1, 2, 3]))
        found.append((row, time, copies))
        if draw(st.booleans()):
            after = draw(TIMES[coordinates])
            later = max(time, after) if coordinates == 1 else tuple(map(max, time, after))
            found.append((row, later, -draw(st.integers(1, copies))))
    return found


def ordered(contents, part):
    """The rows of a partition in order, copies one by one, those without a place left out."""
    rows = [row for row, count in contents.items() for _ in range(count)]
    return sorted((row for row in rows if row[0] == part and row[1] is not None), key=lambda row: row[1])


def sums(rows):
    """What the combinations of `combinations` come to over rows in order, those of peers that do not depend on order."""
    some = [x for _, _, x in rows if x is not None]
    return {
        "n": len(some),
        "total": sum(some) if some else None,
        "least": min(some, default=None),
        "most": max(some, default=None),
        "rows": len(rows),
        "groups": len({i for _, i, _ in rows}),
        "gcd": functools.reduce(math.gcd, some) if some else 0,
    }


def combinations():
    from tidemill.algorithms import combine

    return {
        "n": combine.count("x"),
        "total": combine.sum("x"),
        "least": combine.min("x"),
        "most": combine.max("x"),
        "rows": combine.rows(),
        "groups": combine.groups(),
        "gcd": combine.by(math.gcd, "x", zero=0),
    }


def parts_of(contents):
    return {row[0] for row in contents}


def counted(rows):
    found = defaultdict(int)
    for row in rows:
        found[row] += 1
    return dict(found)


def searched(rows, place, copy, offset, *, groups=False):
    """The place so far away, and which of the rows there."""
    places = [i for _, i, _ in rows]
    if groups:
        places = sorted(set(places))
    if offset is None or place not in places:
        return None
    at = places.index(place) + copy + offset
    return (places[at], at - places.index(places[at])) if 0 <= at < len(places) else None
