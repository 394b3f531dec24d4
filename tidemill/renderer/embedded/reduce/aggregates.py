"""Aggregates of groups, from what is accumulated for each key.

Four kinds of accumulators: sums of whole numbers as weights (count, sum, avg), sums of floats in exact limbs, the
values themselves with their counts (min, max), and rows with their counts (first, last, list).
"""

from __future__ import annotations

from collections import defaultdict

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import EXTREMES, ORDERED, Aggregates, BoundAggregate
from tidemill.renderer.embedded.kernels.aggregate_values import mean_codes, or_null, spread_codes
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes
from tidemill.renderer.embedded.kernels.exact_sums import LEAST
from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.sorting import PART, gather, gathered
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, Rows, UpdateArray, first_numbers, ones
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes, SingleTime
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Accumulator, FloatSums, Groups, Shape, Since, SquareSums
from tidemill.renderer.embedded.reduce.integer_sums import IntegerSums
from tidemill.renderer.embedded.reduce.logic import LOGICS, DesiredOutput, LogicContext
from tidemill.renderer.embedded.reduce.ordered_values import OrderedValues
from tidemill.renderer.embedded.reduce.values import ValueCounts
from tidemill.renderer.embedded.schedule import Schedule
from tidemill.renderer.embedded.trace.spine import Spine


class AggregateLogic:
    """The logic of a Reduce by aggregate functions: one row a group, where the group's total count is not zero."""

    consolidates = False
    keyed_output = True

    def __init__(self, node: Reduce, schedule: Schedule, since: Since, interner: Interner) -> None:
        assert isinstance(node.logic, Aggregates)
        self._node = node
        self._interner = interner
        self._aggregates = node.logic.columns
        schema = node.inputs[0].schema
        shape = Shape(len(node.keys), node.scope.coordinates, schedule, since, node)
        self._integers = IntegerSums(node.logic, schema, shape, interner)
        columns = {(a.column, a.input) for a in self._aggregates if a.column is not None and a.input is not None}
        in_order = sorted(columns, key=lambda pair: pair[0])
        asked = {
            c: {some for a in self._aggregates if a.column == c for some in (a.function, *a.sums)} for c, _ in in_order
        }
        width = len(schema)
        self._floats = {
            c: FloatSums(c, width, shape) for c, t in in_order if t.name == "float64" and "total" in asked[c]
        }
        self._squares = {c: SquareSums(c, t, width, shape, interner) for c, t in in_order if "squares" in asked[c]}
        self._values = {
            c: ValueCounts(c, self._aggregates, width, shape, interner) for c, _ in in_order if EXTREMES & asked[c]
        }
        alike = defaultdict(list)
        for a in self._aggregates:
            if a.function in ORDERED:
                alike[a.order, a.condition, a.tells_apart].append(a)
        self._ordered = [OrderedValues(some, schema, shape, interner) for some in alike.values()]
        others = [*self._floats.values(), *self._squares.values(), *self._values.values(), *self._ordered]
        self._sums_alone = not others
        self._accumulators: list[Accumulator] = [self._integers, *others]

    def spines(self) -> dict[str, Spine]:
        return {f"accumulator{i}": accumulator.spine for i, accumulator in enumerate(self._accumulators)}

    @property
    def sums(self) -> IntegerSums | None:
        """The sums kept, where these are of whole numbers alone."""
        return self._integers if self._sums_alone else None

    def take_presummed(self, sums: UpdateArray | None) -> None:
        """Have the next updates, one for each of these sums, stand for them; or (None) for themselves."""
        self._integers.presummed = sums

    def drop_derived(self) -> None:
        for accumulator in self._accumulators:
            accumulator.drop_derived()

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> list[Stored]:
        return [accumulator.gather(keys, owner, new) for accumulator in self._accumulators]

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        sums = self._integers.sums(interesting, seen[0])
        stored_of = {} if self._sums_alone else dict(zip(map(id, self._accumulators), seen, strict=True))
        present = first_numbers(len(interesting)) if self._node.scalar else _there(interesting, sums[0])
        group = Groups(self._node, keys, interesting, present, self._interner)
        if len(present) < len(interesting):
            sums = gathered(sums, present)
        float_totals = {c: p.totals(interesting, stored_of[id(p)]) for c, p in self._floats.items()}
        extremes = {c: p.extremes(group, interesting, stored_of[id(p)]) for c, p in self._values.items()}
        ordered: dict[BoundAggregate, Ints] = {}
        for accumulator in self._ordered:
            ordered |= accumulator.values(group, interesting, stored_of[id(accumulator)])
        width = len(keys)
        codes = empty((width + len(self._aggregates), len(present)))
        at = interesting.keys_at(present)
        if at is interesting.keys:  # all of them
            codes[:width] = keys
        elif len(at) > PART:
            for row, key in zip(codes, keys, strict=False):
                gather(key, at, row)
        else:
            codes[:width] = keys.take(at, axis=1)
        for row, a in enumerate(self._aggregates, width):
            if a.column in self._floats and a.function in ("sum", "avg"):
                totals, counts = float_totals[a.column].take(present), sums[self._integers.count_row[a.column]]
                some = counts != 0
                codes[row] = (
                    or_null(some, float_codes(totals)) if a.function == "sum" else mean_codes(totals, counts, some)
                )
            elif "squares" in a.sums:
                codes[row] = self._spread_column(a, interesting, stored_of, sums, present)
            elif a.function in EXTREMES:
                assert a.column is not None
                codes[row] = extremes[a.column][a.function == "max"].take(present)
            elif a.function in ORDERED:
                codes[row] = ordered[a].take(present)
            else:
                codes[row] = self._integers.column(a, sums, group)
        return DesiredOutput(present, codes, ones(len(present)))

    def _spread_column(
        self,
        aggregate: BoundAggregate,
        interesting: InterestingTimes,
        stored_of: dict[int, Stored],
        sums: UpdateArray,
        present: Ints,
    ) -> Ints:
        """Return the codes of variances or standard deviations."""
        column, given = aggregate.column, aggregate.input
        assert column is not None
        assert given is not None
        accumulator = self._squares[column]
        squares, special = accumulator.exact(interesting, stored_of[id(accumulator)])
        if column in self._floats:
            floats = self._floats[column]
            totals, in_one = floats.exact(interesting, stored_of[id(floats)])[0].take(present), 1 << 2 * LEAST
        else:
            totals, in_one = self._integers.totals(column, sums), 10 ** (2 * given.scale)
        counts = sums[self._integers.count_row[column]]
        of_squares, special = squares.take(present), special.take(present)
        return spread_codes(aggregate.function, totals, of_squares, counts, in_one, special)


def _there(interesting: InterestingTimes, counts: Ints) -> Ints:
    """Return the interesting times at which there are rows: the keys themselves, where that is all of many."""
    if len(counts) > PART and isinstance(interesting, SingleTime) and counts.all():
        return interesting.keys
    return counts.nonzero()[0]


@LOGICS(Aggregates)
def _logic(node: Reduce, around: LogicContext) -> AggregateLogic:
    return AggregateLogic(node, around.schedule, around.since, around.interner)
