"""The one row that a dynamic filter compares with: its values, when it moves, and when it is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tidemill.dataflow.composites import ComparingFilter
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows
from tidemill.renderer.embedded.kernels.updates import NULL, UpdateArray
from tidemill.renderer.embedded.operators.comparing import Comparison, Value, truth
from tidemill.renderer.runs import failures

Contents: TypeAlias = dict[tuple[int, ...], int]
"""The right side's rows, as codes, with their counts: mostly one."""


class Move(NamedTuple):
    """A time at which the right side has another value than before."""

    time: int
    old: Value
    new: Value


class OneRow:
    """The right side of a dynamic filter, at times of one coordinate."""

    def __init__(self, node: ComparingFilter, interner: Interner) -> None:
        left, self._schema = (source.schema for source in node.inputs)
        self.comparisons = [Comparison(l, how, r, left.fields[l].dtype) for l, how, r in node.conditions]
        self._node = node
        self._interner = interner
        self._width = len(self._schema)

    def moves(self, contents: Contents, updates: UpdateArray) -> tuple[list[Move], Contents]:
        """Return the moves of the value that updates bring about, and what the right side holds afterwards.

        `StepError` where it has two rows, or moves otherwise than was declared.
        """
        found = []
        for time, came in _by_time(updates, self._width):
            old = value_of(contents)
            contents = self.added(contents, came)
            new = value_of(contents)
            if new != old:
                self._check_monotone(old, new)
                found.append(Move(time, old, new))
        return found, contents

    def added(self, contents: Contents, updates: UpdateArray) -> Contents:
        """Return contents with updates; more than one row is an error."""
        found, width = dict(contents), self._width
        for row, count in zip(map(tuple, updates[:width].T.tolist()), updates[-1].tolist(), strict=True):
            found[row] = found.get(row, 0) + count
        found = {row: count for row, count in found.items() if count}
        if len(found) > 1 or any(count != 1 for count in found.values()):
            rows = [(self._row(codes), count) for codes, count in found.items()]
            for row, count in rows:
                if count < 0:
                    raise failures.negative_count(self._node, (), row, count)
            failures.one_row(self._node, sorted(rows, key=repr))
        return found

    def _row(self, codes: tuple[int, ...]) -> tuple[Any, ...]:
        (row,) = decode_rows(self._schema, np.array(codes, np.int64)[:, None], self._interner)
        return row

    def _check_monotone(self, old: Value, new: Value) -> None:
        monotone = self._node.monotone
        if monotone is None or old is None:
            return
        back = ">" if monotone == "increasing" else "<"
        for c in self.comparisons:
            if old[c.right] == NULL:
                continue
            fell = Comparison(c.right, back, c.right, c.dtype)
            is_gone = new is None or new[c.right] == NULL
            if is_gone or truth([fell], np.array(old, np.int64)[:, None], new, self._interner).each.any():
                after = None if new is None else self._row(new)
                raise failures.not_monotone(self._node, monotone, self._row(old), after)


def value_of(contents: Contents) -> Value:
    """Return the row that there is, if any."""
    return next(iter(contents), None)


def _by_time(updates: UpdateArray, width: int) -> Iterator[tuple[int, UpdateArray]]:
    """Give updates by their times, in order."""
    times = updates[width]
    if not (times != times[0]).any():
        yield int(times[0]), updates
        return
    order = times.argsort(kind="stable")
    ordered = updates.take(order, axis=1)
    times = ordered[width]
    starts = [0, *((times[1:] != times[:-1]).nonzero()[0] + 1).tolist(), len(times)]
    for start, end in itertools.pairwise(starts):
        yield int(times[start]), ordered[:, start:end]
