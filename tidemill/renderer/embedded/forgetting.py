"""Forgetting at work: what marks show when a step has ended, and which updates of spines nobody asks for since.

What `tidemill.dataflow.passes.bounds` derives is told to the spines. They leave such updates out where they merge
batches: so what forgetting costs follows what comes, and where nothing comes nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
import pyarrow as pa

from tidemill.dataflow.composites import RangeJoin
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.dataflow.passes.bounds import Forget, Limit
from tidemill.errors import ExpressionError
from tidemill.expressions.bound import Bound
from tidemill.expressions.instants import greatest_number, least_number, number_of, value_of
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, UpdateArray
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.embedded.trace.elsewhere import Beside
from tidemill.renderer.embedded.trace.spine import Spine


class _Shows(Protocol):
    """An operator that shows a mark."""

    def shown(self, column: int) -> int: ...


class _Mark:
    """A mark of an operator, as it was when the last step ended."""

    def __init__(self, operator: Operator, column: int) -> None:
        self._operator = operator
        self._column = column
        self.number = NULL
        self.upper = operator.frontier.lower
        """Up to where that is by what came: of times beyond it the bounds speak."""

    def take(self) -> None:
        self.number = cast("_Shows", self._operator).shown(self._column)
        self.upper = self._operator.frontier.lower


class _Reading:
    """A limit, computed anew where its mark has moved."""

    def __init__(self, limit: Limit, mark: _Mark) -> None:
        self._mark = mark
        self._steps: list[tuple[int | _Applied, DType]] = []
        dtype = limit.shown
        for step in limit.steps:
            made: int | _Applied = step if isinstance(step, int) else _Applied(step, dtype)
            dtype = dtype if isinstance(step, int) else step.dtype
            self._steps.append((made, dtype))
        self._of = self._last = NULL

    def at(self, since: Antichain) -> int:
        """Return below what value no row is at times beyond ``since``; NULL where nothing is known."""
        mark = self._mark
        if mark.number != self._of and since.dominates(mark.upper):
            self._of, self._last = mark.number, self._worked_out(mark.number)
        return self._last  # by an earlier step, if the mark is further than who asks: that is right still

    def _worked_out(self, number: int) -> int:
        if number == NULL:
            return NULL
        for step, dtype in self._steps:
            number = number + step if isinstance(step, int) else step.of(number)
            if number < least_number(dtype):
                return NULL
            number = min(number, greatest_number(dtype))
        return number


class _Applied:
    """An expression of a value that is a whole number for it."""

    def __init__(self, bound: Bound, dtype: DType) -> None:
        self._compute = compile_scalar(bound)
        self._from, self._to = dtype, bound.dtype

    def of(self, number: int) -> int:
        """Return the number of what the expression is; NULL where it is nothing."""
        given = pa.array([value_of(number, self._from)], self._from.arrow)
        try:
            (value,) = self._compute([given], 1).to_pylist()
        except ExpressionError:
            return NULL
        return NULL if value is None else number_of(value, self._to)


class _Gone:
    """Which updates of a spine nobody asks for any more."""

    def __init__(self, spine: Spine, columns: Sequence[tuple[int, list[_Reading]]], *, at_once: bool) -> None:
        self._spine = spine
        self._columns = columns
        self._time = len(spine.layout.types) if at_once else None
        self._looked_at = 0

    def __call__(self, updates: UpdateArray) -> Bools | None:
        """Return which of the updates are forgotten; None where none is."""
        found = [updates[row] < limit for row, limit in self._limits() if limit != NULL]
        since = self._spine.since()
        if self._time is not None and since.elements:
            found.append(updates[self._time] < since.elements[0][0])
        if not found:
            return None
        gone: Bools = found[0] if len(found) == 1 else np.logical_or.reduce(found)
        return gone if np.count_nonzero(gone) else None

    def forget(self, beside: Beside) -> None:
        """Have an operator forget what it holds itself, once that is twice as much as when it was done last."""
        if beside.parts <= 2 * self._looked_at + 1:
            return
        limits = self._limits()
        beside.forget(lambda key: self._time is not None or any(key[row] < limit for row, limit in limits))
        self._looked_at = beside.parts

    def _limits(self) -> list[tuple[int, int]]:
        since = self._spine.since()
        return [(row, min([one.at(since) for one in readings])) for row, readings in self._columns]


class Forgetting:
    """The marks of a run, and the spines that forget."""

    def __init__(self, operators: Mapping[Node, Operator], rules: Mapping[tuple[Node, int], Forget]) -> None:
        self._operators = operators
        self.marks: dict[tuple[Node, int], _Mark] = {}
        self._beside: list[tuple[_Gone, Beside]] = []
        for (node, side), forget in rules.items():
            spines = list(operators[node].spines().values())
            for spine in spines[side : side + 1] if isinstance(node, RangeJoin) else spines:
                self._tell(spine, node, forget)

    def _tell(self, spine: Spine, node: Node, forget: Forget) -> None:
        place = {column: column for column in forget.columns}
        if isinstance(node, Reduce):  # what it keeps are keys, and what else it needs
            place = dict(zip(node.keys, spine.layout.keys, strict=True))
        readings = {c: [_Reading(one, self._mark(one)) for one in limits] for c, limits in forget.columns.items()}
        columns = [(place[c], some) for c, some in readings.items()]
        spine.gone = gone = _Gone(spine, columns, at_once=forget.at_once)
        if spine.beside is not None:
            self._beside.append((gone, spine.beside))

    def _mark(self, limit: Limit) -> _Mark:
        return self.marks.setdefault((limit.mark, limit.column), _Mark(self._operators[limit.mark], limit.column))

    def end_step(self) -> None:
        """Take note of what marks show, now that a step has ended."""
        for mark in self.marks.values():
            mark.take()
        for gone, beside in self._beside:
            gone.forget(beside)
