"""Tasks that executors run on whole partitions of keys: the embedded engine's own operators for Threshold and Reduce.

A partition has all updates of its keys, as one table whose column ``kind`` says what each line is: a new update, a
pending time that is due, or a stored update of one of the operator's arrangements. What comes out has the same columns:
updates to be added to the arrangements, the output's among them, and times pending for later rounds. Where nothing is
stored and all is at one time, there are no lines, only rows and diffs, in and out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Arrange, Input, Node, Reduce
from tidemill.expressions.aggregates import UserReduce
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT32, INT64, DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL, UpdateArray, consolidated
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.keyed import KeyedOperator
from tidemill.renderer.embedded.operators.threshold import ThresholdOperator, UniqueCheck
from tidemill.renderer.embedded.reduce.aggregates import AggregateLogic
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.schedule import Region, Round
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.spark.frames import DIFF, columns, times
from tidemill.renderer.spark.tasks import detached, put_below, region_at
from tidemill.renderer.spark.window_tasks import windows_at_one_time

KIND: Final = "kind"
NEW, DUE, STORE = 0, 1, 2
"""A new update of the input; a pending time of a key; from here on, updates of the arrangements, in their order."""
ARRANGED: Final = "arranged"
"""The name of the arrangement from which a user's function gets its groups."""


@attrs.frozen
class ArrangementColumns:
    """The lines of one arrangement: the columns and types of its values, and the number of its weights."""

    name: str
    columns: tuple[str, ...]
    types: tuple[DType, ...]
    weights: int


@attrs.frozen
class Layout:
    """The columns of the table: kind, the input's row, further values of arrangements, times, weights.

    Others than those of a line's kind are NULL in it; all have the key. The diff of a new update is weight 0.
    """

    row: Schema
    keys: tuple[int, ...]
    coordinates: int
    arrangements: tuple[ArrangementColumns, ...]
    output_columns: tuple[str, ...]
    """The columns that the output's rows have, in lines of the last arrangement."""
    diff_weight: int
    """Which weight of these lines is the output's diff."""
    sums: list[tuple[str, int | None]] | None
    """The stored sums, where the state is sums of whole numbers alone; see `IntegerSums.weight_meanings`."""
    fields: tuple[Field, ...] = attrs.field(init=False)
    """All columns, as they are named inside."""

    @fields.default
    def _fields(self) -> tuple[Field, ...]:
        values = {f"c{i}": f.dtype for i, f in enumerate(self.row)}
        for arrangement in self.arrangements:
            values |= dict(zip(arrangement.columns, arrangement.types, strict=True))
        numbers = self.times_and_weights(max([1, *(a.weights for a in self.arrangements)]))
        return (Field(KIND, INT32), *(Field(n, t) for n, t in values.items()), *(Field(n, INT64) for n in numbers))

    @property
    def key_columns(self) -> list[str]:
        """The columns of the key."""
        return [f"c{k}" for k in self.keys]

    def times_and_weights(self, weights: int) -> list[str]:
        """Return the columns of times, and those of ``weights`` weights."""
        return [*times(self.coordinates), *(f"w{i}" for i in range(weights))]

    def picked(self, lines: UpdateArray, kind: int, names: Sequence[str], weights: int) -> UpdateArray:
        """Return the lines of a kind as a block of these columns, the time and some weights."""
        return lines[np.ix_(self._places(names, weights), lines[0] == kind)]

    def lines(self, kind: int, block: UpdateArray, names: Sequence[str], weights: int) -> UpdateArray:
        """Return a block of these columns, the time and some weights as lines of a kind, all else NULL."""
        found = np.full((len(self.fields), block.shape[1]), NULL)
        found[self._places(names, weights)] = block
        found[0] = kind
        return found

    def _places(self, names: Sequence[str], weights: int) -> list[int]:
        place = {f.name: i for i, f in enumerate(self.fields)}
        return [place[name] for name in (*names, *self.times_and_weights(weights))]


def layout_of(node: Node) -> Layout:
    """Return the columns of a keyed operator's tables."""
    operator, spines = _operator(detached(node), region_at(1, (), Antichain()), Interner())
    row = node.inputs[0].schema if node.inputs else node.schema
    keys = node.keys if isinstance(node, Reduce) else tuple(range(len(row)))
    arrangements = []
    for number, (name, spine) in enumerate(spines.items()):
        of = spine.layout
        at = dict(zip(of.keys, keys, strict=True)) if name != ARRANGED else {k: k for k in range(len(row))}
        named = tuple(f"c{at[i]}" if i in at else f"x{number}_{i}" for i in range(len(of.types)))
        types = tuple(t or INT64 for t in of.types)
        arrangements.append(ArrangementColumns(name, named, types, of.weights))
    output_columns = arrangements[-1].columns[operator.dropped if isinstance(operator, ReduceOperator) else 0 :]
    logic = operator.logic if isinstance(operator, ReduceOperator) else None
    sums = logic.sums.weight_meanings if isinstance(logic, AggregateLogic) and logic.sums is not None else None
    diff_weight = arrangements[-1].weights - 1
    return Layout(row, keys, node.scope.coordinates, tuple(arrangements), output_columns, diff_weight, sums)


@attrs.frozen
class KeyedKernel:
    """A round of a Threshold, a Reduce, or the check of a unique input, on a partition of its keys."""

    node: Any = attrs.field(converter=detached)
    layout: Layout
    users: int
    now: Round
    lower: Antichain
    upper: Antichain
    keeps_state: bool = False
    """Whether additions to all arrangements are wanted, to be stored; else only those to the output."""
    summed: bool = False
    """Whether the new lines are sums for each key and time, as the operator's only arrangement keeps them."""
    time: Time | None = None
    """The one time of all updates, where there are no lines but rows and diffs."""
    as_rows: bool = False
    """Whether rows with the values of window calls are wanted one by one, equal ones too."""

    @property
    def given(self) -> Sequence[Field]:
        """See `Kernel`."""
        if self.time is None:
            return self.layout.fields
        return [*(Field(f"c{i}", f.dtype) for i, f in enumerate(self.layout.row)), Field(DIFF, INT64)]

    @property
    def made(self) -> Sequence[Field]:
        """See `Kernel`."""
        if self.time is None:
            return self.layout.fields
        types = {f.name: f.dtype for f in self.layout.fields}
        row = (Field(f"c{i}", types[name]) for i, name in enumerate(self.layout.output_columns))
        return [*row, Field(DIFF, INT64)]

    def apply(self, given: UpdateArray, interner: Interner) -> UpdateArray:
        """See `Kernel`."""
        if self.time is None:
            return self._lines(given, interner)
        if isinstance(self.node, Reduce) and isinstance(self.node.logic, Windows):
            change = windows_at_one_time(self.node, given, interner, as_rows=self.as_rows)
            if change is not None:
                return change
        return self._at_one_time(given, self.time, interner)

    def _lines(self, lines: UpdateArray, interner: Interner) -> UpdateArray:
        """Return the lines of what the operator makes of lines, those that were stored among them."""
        layout, keys = self.layout, self.layout.key_columns
        region = region_at(self.users, self.now, self.lower, checks=bool(self.upper.elements))
        operator, spines = _operator(self.node, region, interner)
        arrangements = list(zip(range(STORE, STORE + len(spines)), layout.arrangements, spines.values(), strict=True))
        for kind, arrangement, spine in arrangements:
            put_below(spine, layout.picked(lines, kind, arrangement.columns, arrangement.weights))
        if self.summed:
            new = feed_sums(layout, operator, layout.picked(lines, NEW, keys, layout.arrangements[0].weights))
        else:
            new = layout.picked(lines, NEW, columns(len(layout.row)), 1)
        self._run(operator, spines, new, layout.picked(lines, DUE, keys, 0))
        made = [layout.lines(DUE, pending, keys, 0) for pending in operator.ports[1].outstanding()]
        for kind, arrangement, spine in arrangements if self.keeps_state else arrangements[-1:]:
            made.append(layout.lines(kind, _added(spine), arrangement.columns, arrangement.weights))
        return np.concatenate(made, axis=1)

    def _at_one_time(self, rows: UpdateArray, time: Time, interner: Interner) -> UpdateArray:
        """Return the output's rows and diffs of the input's."""
        region = region_at(self.users, self.now, self.lower, checks=bool(self.upper.elements))
        operator, spines = _operator(self.node, region, interner)
        at = np.repeat(np.array(time, np.int64)[:, None], rows.shape[1], axis=1)
        none = np.empty((len(self.layout.keys) + len(time), 0), np.int64)
        self._run(operator, spines, np.concatenate((rows[:-1], at, rows[-1:])), none)
        made = _added(list(spines.values())[-1])
        width = len(self.layout.output_columns)
        first = len(self.layout.arrangements[-1].columns) - width
        changed = made[[*range(first, first + width), first + width + len(time) + self.layout.diff_weight]]
        return changed[:, changed[-1] != 0]

    def _run(self, operator: KeyedOperator, spines: dict[str, Spine], new: UpdateArray, due: UpdateArray) -> None:
        """Run the operator on new updates and the pending times that are due."""
        operator.frontier.upper = self.upper
        if ARRANGED in spines:
            new = consolidated(new)
            spines[ARRANGED].append(new)
        operator.ports[0].put(new, self.now)
        operator.ports[1].put(due, self.now)
        operator.run()


def feed_sums(layout: Layout, operator: KeyedOperator, sums: UpdateArray) -> UpdateArray:
    """Have a Reduce take sums (keys, times, weights), and return as many updates, with their keys and times."""
    assert isinstance(operator, ReduceOperator)
    logic, width = operator.logic, len(layout.keys)
    assert isinstance(logic, AggregateLogic)
    logic.take_presummed(sums)
    new = np.full((len(layout.row) + layout.coordinates + 1, sums.shape[1]), NULL, np.int64)
    new[list(layout.keys)] = sums[:width]
    new[len(layout.row) : -1] = sums[width : width + layout.coordinates]
    new[-1] = 1
    return new


def _operator(node: Any, region: Region, interner: Interner) -> tuple[KeyedOperator, dict[str, Spine]]:
    """Return a node's operator and its arrangements: the last one says what the output was."""
    if isinstance(node, Input):
        check = UniqueCheck(node, region, interner)
        return check, check.spines()
    if not isinstance(node, Reduce):
        threshold = ThresholdOperator(node, region, interner)
        return threshold, threshold.spines()
    spines: dict[str, Spine] = {}
    arranged = None
    if isinstance(node.logic, UserReduce):
        schema = node.inputs[0].schema
        arrange = Arrange(id=node.id, name=node.name, scope=node.scope, schema=schema, site=node.site, keys=node.keys)
        arranged = ArrangeOperator(arrange, region)
        spines[ARRANGED] = arranged.spine
    operator = ReduceOperator(node, region, interner, arranged)
    operator.ports[1].refill(None)  # pending times come with the table
    out, *others = operator.spines().items()
    spines |= dict([*others, out])
    return operator, spines


def _added(spine: Spine) -> UpdateArray:
    """Return the updates added to an arrangement."""
    return spine.layout.consolidated(spine.updates_in_memory())
