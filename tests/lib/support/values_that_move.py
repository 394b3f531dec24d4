"""What tests of dynamic filters draw: comparisons, values of each type, and right sides of one row that moves."""

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

__all__ = ["COMPARISONS", "TYPES", "right_side"]

COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
TYPES: dict[str, list[Any]] = {
    "int64": [-(2**63) + 1, -1, 0, 1, 2**63 - 1],
    "float64": [float("-inf"), -0.0, 0.0, 1.5, float("nan")],
    "string": ["", "a", "beginning", "beginning of it", "beginning of what", "ß"],
    "decimal(10,2)": [Decimal("-1.25"), Decimal(0), Decimal("1.10"), Decimal("1.11")],
    "decimal(30,2)": [Decimal("-1e20"), Decimal(0), Decimal(10) ** 20, Decimal(10) ** 20 + 1],
    "date": [dt.date(1969, 1, 1), dt.date(2020, 2, 29), dt.date(2020, 3, 1)],
    "bool": [False, True],
}


@st.composite
def right_side(draw: st.DrawFn, values: list[Any], coordinates: int) -> list[Any]:
    """Updates of a right side that has at most one row at every time: what a row is replaced by, at times in order."""
    times = draw(st.lists(st.integers(0, 6), unique=True, max_size=5).map(sorted))
    found: list[Any] = []
    now = None
    for t in times:
        time = t if coordinates == 1 else (t,) * coordinates
        new = draw(st.none() | st.tuples(st.none() | st.sampled_from(values)))
        found += [(now, time, -1)] * (now is not None) + [(new, time, 1)] * (new is not None)
        now = new
    return found
