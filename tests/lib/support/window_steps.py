"""Rows that come and go one by one, step by step, and what changes of window calls over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import tidemill as tm

Row: TypeAlias = tuple[int | None, ...]


def changes(calls: Mapping[str, Any], loaded: Sequence[Row], steps: Iterable[Iterable[tuple[Row, int]]]) -> list[Any]:
    """Return what changes in each step after a load, up to one with a sum that is too large.

    Rows have the columns k, t and x. What would be there fewer than no times is not taken out.
    """
    flow, found = tm.Dataflow(), list[Any]()
    flow.output("y", flow.input("x", {"k": "int64", "t": "int64", "x": "int64"}).with_columns(**calls))
    with flow.start() as run:
        run.insert("x", loaded)
        run.advance()
        there = Counter(loaded)
        for step in steps:
            for row, count in step:
                if there[row] + count >= 0:
                    (run.insert if count > 0 else run.delete)("x", [row] * abs(count))
                    there[row] += count
            try:
                run.advance()
            except tm.errors.ExpressionError:
                run.discard()
                return [*found, "overflow"]
            found.append(sorted(map(repr, run.changes("y"))))
    return found
