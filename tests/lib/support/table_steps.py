"""Tables that are put in and taken out, step by step, of which the reference engine says what changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

import tidemill as tm

Step: TypeAlias = Sequence[tuple[str, pa.Table]]
"""Tables to be put into the input `rows`, or taken out: a run's method, and its argument."""


def check_steps(flow: tm.Dataflow, steps: Iterable[Step]) -> None:
    """Check that in each step what changes is what changes in the reference engine."""
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for changes in steps:
            for each in (run, reference):
                for put, table in changes:
                    getattr(each, put)("rows", table)
                each.advance()
            assert in_order(run.changes("y")) == in_order(reference.changes("y"))


def in_order(updates: Iterable[Any]) -> list[Any]:
    """Sort updates, whose values may be None."""
    return sorted(updates, key=lambda update: ([(value is None, value) for value in update[0]], update[1:]))


def to_and_fro(dice: np.random.Generator, loaded: pa.Table, more: pa.Table, count: int) -> list[Step]:
    """Return steps in which more comes, so many of the first go, and all is as it was."""
    goes = loaded.take(pa.array(sorted(dice.choice(len(loaded), count, replace=False).tolist())))
    return [
        [("insert", loaded)],
        [("insert", more)],
        [("delete", goes)],
        [("insert", goes), ("delete", more)],
    ]
