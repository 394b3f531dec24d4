"""RangeJoin: both sides lie in order of what is compared; a new row meets a range of each of the other's batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.composites import RangeJoin
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, UpdateArray, expand, largest, stacked
from tidemill.renderer.embedded.made import Made
from tidemill.renderer.embedded.makers import MAKERS
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures

__all__ = ["RangeJoinOperator"]

_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE: Final[Codes] = np.empty((0, 1), np.int64)
"""The key of all rows."""


class RangeJoinOperator(Operator):
    """RangeJoin. Its state are both sides; rows with a NULL that is compared meet nobody, and are not kept."""

    def __init__(self, node: RangeJoin, region: Region, interner: Interner) -> None:
        schemas = [source.schema for source in node.inputs]
        super().__init__(node, region, tuple(map(len, schemas)))
        self._columns = node.comparison[0], node.comparison[2]
        self._how = node.comparison[1], _TURNED[node.comparison[1]]
        self._codes = tuple(map(len, schemas))
        width = self._codes[0]
        self._picked = [(int(i >= width), i - width if i >= width else i) for i in node.output]
        self._spines: list[Spine] = []
        for schema, column in zip(schemas, self._columns, strict=True):
            order = RowOrder([SortColumn(column, schema.fields[column].dtype)], interner)
            coordinates, users = node.scope.coordinates, self.schedule.users
            layout = UpdateLayout((), schema.dtypes, coordinates, users, order=order)
            self._spines.append(Spine(layout, self.since, self.schedule.transaction))

    def run(self) -> None:
        found: list[UpdateArray] = []
        for side, port in enumerate(self.ports):
            new = port.take_consolidated()
            if new is None:
                continue
            there = new[self._columns[side]] != NULL
            new = new if there.all() else new.compress(there, axis=1)
            if new.shape[1]:
                self._meet(new, side, found)
                self._spines[side].append(new)
                self._spines[side].check_counts(new)
        if found:
            self.emit(stacked(found), self.region.now)

    def _meet(self, new: UpdateArray, side: int, found: list[UpdateArray]) -> None:
        """Add the pairs of new rows of a side with what is kept of the other."""
        sought, how = new[self._columns[side]], self._how[side]
        for others in self._batches(1 - side):
            low, high = _between(others[self._columns[1 - side]], sought, how)
            mine, theirs = expand(low, high - low)
            if len(mine):
                found.append(self._pairs(new.take(mine, axis=1), others.take(theirs, axis=1), side))

    def _batches(self, side: int) -> Iterator[UpdateArray]:
        """Give what is kept of a side, in order of what is compared, a batch at a time."""
        column = self._columns[side]
        for view in self._spines[side].views(_WHOLE):
            yield from (batch.updates for batch in view.batches)
            if view.tail_size:
                tail = view.tail.array[:, : view.tail_size]
                yield tail.take(tail[column].argsort(kind="stable"), axis=1)

    def _pairs(self, ours: UpdateArray, others: UpdateArray, side: int) -> UpdateArray:
        if largest(ours[-1]) > COUNT_LIMIT or largest(others[-1]) > COUNT_LIMIT:
            raise failures.too_many(self.node)
        sides = (ours, others) if side == 0 else (others, ours)
        time, other = (rows[codes:-1] for rows, codes in zip(sides, self._codes, strict=True))
        made = np.empty((len(self._picked) + len(time) + 1, ours.shape[1]), np.int64)
        for row, (of, column) in zip(made, self._picked, strict=False):
            row[:] = sides[of][column]
        np.maximum(time, other, out=made[len(self._picked) : -1])
        np.multiply(ours[-1], others[-1], out=made[-1])
        return made

    def spines(self) -> dict[str, Spine]:
        return dict(zip(("left", "right"), self._spines, strict=True))


def _between(codes: Ints, sought: Ints, how: str) -> tuple[Ints, Ints]:
    """Return for codes that are sought the ranges of others, in order, with which they compare."""
    n = np.full(len(sought), len(codes))
    if how in ("<", "<="):
        return codes.searchsorted(sought, "right" if how == "<" else "left"), n
    return np.zeros_like(n), codes.searchsorted(sought, "left" if how == ">" else "right")


@MAKERS(RangeJoin)
def _range_join(node: RangeJoin, region: Region, made: Made) -> Operator:
    return RangeJoinOperator(node, region, made.interner)
