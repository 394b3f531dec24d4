"""Sufficient input rows for a row: found by leaving out others and looking whether it is still there."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.boundary.results import arrow_table
from tidemill.boundary.values import canonical
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import StepError, TidemillError, brief
from tidemill.provenance.kept import with_one_output
from tidemill.renderer.diagram.reason import Row
from tidemill.renderer.engines import Embedded

T = TypeVar("T")
Ints: TypeAlias = "npt.NDArray[np.int64]"

TRIALS: Final = 600
"""How many times at most rows are left out to see what happens."""
_FEW: Final = 16
"""How many rows of an input are near to everything."""
SECONDS: Final = 30.0
"""So long at most: of some rows a loop may end later than of all."""


class Unit(NamedTuple):
    """A row of an input, with all its copies."""

    input: str
    row: Row
    copies: int


class Sufficient(NamedTuple):
    """The rows that suffice, and whether it is known that none of them can be left out."""

    units: list[Unit]
    is_minimal: bool


def sufficient_rows(graph: Graph, contents: Mapping[str, Mapping[Row, int]], output: str, row: Row) -> Sufficient:
    """Return some of the input rows, enough for a row to follow from them alone.

    Rows that share values with the row, with a constant or with one of a few rows of an input (roots, say) come first,
    then those that share values with these, and so on: of these as many as are enough. Then ever smaller parts of them
    are left out. Each trial is a step of one run, so that it costs what it changes; and what is kept is what the row
    was found to follow from.
    """
    units = [Unit(name, of, count) for name, rows in contents.items() for of, count in rows.items()]
    constants = [node.rows for node in graph.nodes if isinstance(node, Input) and node.rows is not None]
    ends = [row, *(of for rows in constants if len(rows) <= _FEW for of in rows)]
    ends += [of for rows in contents.values() if len(rows) <= _FEW for of in rows]
    units = _nearest_first(units, ends)
    with _Trial(graph, output, row, units) as trial:
        size = 16
        while not trial.holds(range(min(size, len(units)))):
            if size >= len(units):
                what = f"{output} has {brief(row)}, and a run on the same rows has it not"
                msg = f"{what}: is a function not deterministic?"
                raise StepError(msg)
            size *= 4
        nearest, trials, end = range(min(size, len(units))), iter(range(TRIALS)), perf_counter() + SECONDS
        found, is_minimal = smaller(
            nearest[::-1], trial.holds, lambda: next(trials, None) is not None and perf_counter() < end
        )
    return Sufficient([units[number] for number in reversed(found)], is_minimal)


def smaller(
    items: Sequence[T], holds: Callable[[Sequence[T]], bool], go_on: Callable[[], bool] = lambda: True
) -> tuple[list[T], bool]:
    """Return items of these of which something still holds, and whether it holds no more without any one of them.

    It has to hold of all the items. Earlier items are left out before later ones, parts of them before single ones.
    Before each trial ``go_on`` is asked.

    >>> smaller(range(100), lambda some: {7, 70} <= set(some))
    ([7, 70], True)
    """
    kept = list(items)
    part = len(kept)
    while part:
        changed, start = False, 0
        while start < len(kept):
            if not go_on():
                return kept, False
            rest = kept[:start] + kept[start + part :]
            if holds(rest):
                kept, changed = rest, True
            else:
                start += part
        if part > 1:
            part //= 2
        elif not changed:
            part = 0
    return kept, True


class _Trial:
    """A run of a dataflow on some of the rows, and on others: does the row follow? Rows go by their numbers."""

    def __init__(self, graph: Graph, output: str, row: Row, units: Sequence[Unit]) -> None:
        self._users, self._output, self._row = len(graph.coordinates), output, row
        self._run = Embedded(threads=1).start(GraphPlan.of(with_one_output(graph, output), None), 0)
        self._held = np.zeros(len(units), np.bool_)
        self._parts: list[tuple[str, int, Ints, pa.Table]] = []
        """Rows of an input that are there as often as each other: their numbers, and they themselves."""
        by_copies: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, unit in enumerate(units):
            by_copies[unit.input, unit.copies].append(number)
        for (name, copies), numbers in by_copies.items():
            table = arrow_table(graph.inputs[name].schema, [units[number].row for number in numbers])
            self._parts.append((name, copies, np.array(numbers), table))
        self._count = self._step = 0
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()

    def holds(self, numbers: Sequence[int]) -> bool:
        """Return whether the row is there when the inputs hold just these; not, if that is an error."""
        wanted = np.zeros(len(self._held), np.bool_)
        wanted[np.array(numbers, np.int64)] = True
        if self._step and np.array_equal(wanted, self._held):
            return self._count > 0
        rest = (0,) * (self._users - 1)
        time: Any = (self._step, *rest) if rest else self._step
        for name, copies, mine, table in self._parts:
            for sign, moved in ((1, wanted & ~self._held), (-1, self._held & ~wanted)):
                some = table.take(pa.array(moved[mine].nonzero()[0]))
                if len(some):
                    self._put(name, some, sign * copies, time)
        self._step += 1
        try:
            self._run.advance_to(Antichain([(self._step, *rest)]))
        except TidemillError:
            self._run.discard()
            return False
        self._held = wanted
        self._read()
        return self._count > 0

    def _put(self, name: str, rows: pa.Table, count: int, time: Any) -> None:
        """Insert rows, or delete them: as a table, which is quick, where that is all."""
        if abs(count) == 1:
            (self._run.insert if count > 0 else self._run.delete)(name, rows, time=time)
        else:
            listed = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            self._run.update(name, [(row, time, count) for row in listed])

    def _read(self) -> None:
        self._count += sum(diff for row, _, diff in self._run.changes(self._output) if canonical(row) == self._row)


def _nearest_first(units: list[Unit], ends: Iterable[Row]) -> list[Unit]:
    """Return the rows by how many shared values they are away from some rows; rare values are followed first."""
    having: dict[Any, list[int]] = defaultdict(list)
    for number, unit in enumerate(units):
        for value in {v for v in unit.row if v is not None}:
            having[value].append(number)
    ordered: dict[int, None] = {}
    seen = dict.fromkeys(
        v for row in ends for v in row if v is not None
    )  # in an order, so that answers are the same every time
    waiting = [(0, len(having[v]), number, v) for number, v in enumerate(seen)]
    heapq.heapify(waiting)
    while waiting:
        far, _, _, value = heapq.heappop(waiting)
        for number in having[value]:
            ordered[number] = None
            for other in units[number].row:
                if other is not None and other not in seen:
                    seen[other] = None
                    heapq.heappush(waiting, (far + 1, len(having[other]), len(seen), other))
    ordered.update(dict.fromkeys(range(len(units))))
    return [units[number] for number in ordered]


def multiset(units: Iterable[Unit]) -> dict[str, Counter[Row]]:
    """Return the rows by input, with their counts."""
    found: dict[str, Counter[Row]] = defaultdict(Counter)
    for unit in units:
        found[unit.input][unit.row] += unit.copies
    return found
