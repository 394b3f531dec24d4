"""Accumulators: what a Reduce keeps of its input for each key, each a spine of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.errors import StepError
from tidemill.expressions.aggregates import Aggregates, BoundAggregate
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import Interner, decode_rows, is_long_decimal
from tidemill.renderer.embedded.kernels.exact_sums import (
    exact_sums,
    float_sums,
    limb_sums,
    limbs_of_floats,
    limbs_of_squares,
)
from tidemill.renderer.embedded.kernels.limbs import BITS, NOT_FINITE, LimbRows, Limbs, are_safe
from tidemill.renderer.embedded.kernels.long_decimals import large_places, values_of
from tidemill.renderer.embedded.kernels.memory import empty
from tidemill.renderer.embedded.kernels.times import alike
from tidemill.renderer.embedded.kernels.updates import (
    NULL,
    Bools,
    Codes,
    Ints,
    Rows,
    UpdateArray,
    indices,
    largest,
)
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.schedule import Schedule
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.row_order import RowOrder
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs import failures

Since: TypeAlias = Callable[[], Antichain]
MANY: Final = 512
"""From how many new updates on they are added up key by key before anything else is done with them."""


class Groups:
    """The groups of a round, and the errors of those that cannot be aggregated, by their interesting times."""

    def __init__(
        self, node: Reduce, keys: Codes, interesting: InterestingTimes, present: Ints, interner: Interner
    ) -> None:
        self.node = node
        self.present = present
        """The interesting times that have a row."""
        self._keys = keys
        self._interesting = interesting
        self._interner = interner

    def codes(self, at: Any) -> Codes:
        """Return the codes of the keys at interesting times."""
        return self._keys[:, self._interesting.keys[at]]

    def key(self, at: int) -> tuple[Any, ...]:
        """Return the key at an interesting time."""
        schema = self.node.inputs[0].schema
        fields = Schema(tuple(schema.fields[i] for i in self.node.keys))
        (row,) = decode_rows(fields, self._keys[:, [self._interesting.keys[at]]], self._interner)
        return row

    def overflow(self, aggregate: BoundAggregate, at: int) -> StepError:
        """Return the error of an aggregate at an interesting time."""
        logic = self.node.logic
        assert isinstance(logic, Aggregates)
        name = logic.names[logic.columns.index(aggregate)]
        return failures.overflow(self.node, self.key(at), name, aggregate.function)

    def negative(self, at: int, columns: list[int], codes: list[int], count: int) -> StepError:
        """Return the error of a row, given by some of its columns, with a negative count."""
        fields = self.node.inputs[0].schema.fields
        schema = Schema(tuple(fields[c] for c in columns))
        (row,) = decode_rows(schema, np.array(codes, np.int64)[:, None], self._interner)
        return failures.negative_count(self.node, self.key(at), row, count)


class Shape(NamedTuple):
    """The common shape of the spines of one Reduce."""

    width: int
    """How many key columns, which come first."""
    coordinates: int
    schedule: Schedule
    since: Since
    node: Node

    @property
    def key_types(self) -> list[DType]:
        """The types of the key columns."""
        return [f.dtype for f in self.node.inputs[0].schema.fields[: self.width]]


class Accumulator:
    """A spine of what is accumulated for each key."""

    def __init__(
        self,
        shape: Shape,
        more: Sequence[DType | None],
        weights: int,
        order: RowOrder | None = None,
        limbs: Limbs | None = None,
    ) -> None:
        self.node = shape.node
        self.width = shape.width
        self.codes = shape.width + len(more)
        self.users = shape.schedule.users
        self.weights = weights
        keys, types = tuple(range(shape.width)), (*shape.key_types, *more)
        layout = UpdateLayout(keys, types, shape.coordinates, self.users, weights, order, limbs)
        self.spine = Spine(layout, shape.since, shape.schedule.transaction)

    def project(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        """Return new updates as they are kept here, and the numbers of their keys."""
        raise NotImplementedError

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> Stored:
        """Return all of the keys' updates, the new ones included, which are appended."""
        found, stored = self.spine.find(keys)
        if not len(owner):
            return Stored(found, stored, self.codes)
        added_up = self._at_one_time(keys, owner, new) if len(owner) > MANY else None
        if added_up is not None:
            owner, kept = added_up
        else:
            if isinstance(new, list):
                new = np.stack(new)
            owner, kept = self.project(owner, new)
            if keys.shape[1] < kept.shape[1]:
                owner, kept = self._summed(keys, owner, kept)
        return self._stored(found, stored, owner, kept)

    def gather_summed(self, keys: Codes, owner: Ints, kept: UpdateArray) -> Stored:
        """Like `gather`, for new updates that were added up: one for each key."""
        return self._stored(*self.spine.find(keys), owner, kept)

    def _stored(self, found: Ints, stored: UpdateArray, owner: Ints, kept: UpdateArray) -> Stored:
        """Append new updates, and return them with the stored ones that were found."""
        if kept.shape[1]:
            self.spine.append(kept)
        if not len(found):
            return Stored(owner, kept, self.codes)
        return Stored(np.concatenate((found, owner)), np.concatenate((stored, kept), axis=1), self.codes)

    def _at_one_time(self, keys: Codes, owner: Ints, new: Rows) -> tuple[Ints, UpdateArray] | None:
        """Return the sums of new updates, and the numbers of their keys; None unless all have one time."""
        times = list(new[len(new) - self.spine.layout.coordinates - 1 : -1])
        if not alike(times):
            return None
        found = self.add_up(keys.shape[1], owner, new)
        if found is None:
            return None
        owner, codes, weights = found
        kept = empty((self.spine.layout.rows, len(owner)))
        kept[: self.width] = keys.take(owner, axis=1)
        kept[self.width : self.codes] = codes
        kept[self.codes : -self.weights] = [[row[0]] for row in times]
        kept[-self.weights :] = weights
        return owner, kept

    def add_up(self, count: int, owner: Ints, new: Rows) -> tuple[Ints, Codes, UpdateArray] | None:
        """Return the sums of updates of one time by key 0..count-1, without an array of what each adds.

        That is, numbers of keys, codes beside the keys, and weights, of which none are all zero; None where it cannot.
        """
        del count, owner, new
        return None

    def _summed(self, keys: Codes, owner: Ints, kept: UpdateArray) -> tuple[Ints, UpdateArray]:
        """Return updates of the same key and value at the same time added up, and the numbers of their keys."""
        times = kept[self.codes : -self.weights]
        if self.codes > self.width or (times != times[:, :1]).any() or not are_safe(kept[-self.weights :]):
            kept = self.spine.layout.consolidated(kept)
            return indices(keys, kept[: self.width]), kept
        summed = np.zeros((len(kept), keys.shape[1]), np.int64)
        summed[: self.width] = keys
        summed[self.codes : -self.weights] = times[:, :1]
        for row, values in zip(summed[-self.weights :], kept[-self.weights :], strict=True):
            np.add.at(row, owner, values)
        some = np.flatnonzero(summed[-self.weights :].any(axis=0))
        return some, summed.take(some, axis=1)

    def drop_derived(self) -> None:
        """Drop state derived from the spine, which was given other updates."""


class LimbSums(Accumulator):
    """Exact sums of a function of each value of a column, as limbs by place, which add up like integers."""

    def __init__(self, column: int, input_width: int, shape: Shape) -> None:
        super().__init__(shape, [None], 1, limbs=LimbRows(shape.width))
        self._column = column
        self._input = input_width

    def limbs(self, codes: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the limbs of values: which value, which place, how much."""
        raise NotImplementedError

    def project(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        some = (new[self._column] != NULL).nonzero()[0]
        which, place, amount = self.limbs(new[self._column].take(some))
        which, diffs = some.take(which), new[-1]
        if largest(diffs) > COUNT_LIMIT:
            which, place, amount, diffs = _with_halves_of_counts(which, place, amount, diffs)
        else:
            diffs = diffs.take(which)
        kept = np.empty((self.width + 1 + len(new) - self._input, len(which)), np.int64)
        kept[: self.width] = new[: self.width].take(which, axis=1)
        kept[self.width] = place
        kept[self.width + 1 : -1] = new[self._input : -1].take(which, axis=1)
        np.multiply(diffs, amount, out=kept[-1])
        return owner.take(which), kept

    def exact(self, interesting: InterestingTimes, seen: Stored) -> tuple[Any, Bools]:
        """Return the sum at each interesting time as a Python number, and whether NaN or an infinity is in it."""
        return exact_sums(len(interesting), *self._seen(interesting, seen))

    def _seen(self, interesting: InterestingTimes, seen: Stored) -> tuple[Ints, Ints, Ints]:
        at, which = interesting.pairs(seen.owner, seen.updates[self.codes : self.codes + self.users])
        return at, seen.updates[self.width].take(which), seen.updates[-1].take(which)


def _with_halves_of_counts(which: Ints, place: Ints, amount: Ints, diffs: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return limbs with their counts; the upper half of a large count goes to the limb one place further on.

    No count is then beyond 2**31. Counts of what is no number are left as they are.
    """
    diffs = diffs.take(which)
    high = np.where(place < NOT_FINITE, (diffs >> BITS) + (diffs >> BITS - 1 & 1), 0)
    (more,) = high.nonzero()
    which, amount = (np.concatenate((of, of.take(more))) for of in (which, amount))
    return (
        which,
        np.concatenate((place, place.take(more) + 1)),
        amount,
        np.concatenate((diffs - (high << BITS), high.take(more))),
    )


class FloatSums(LimbSums):
    """Exact sums of floats."""

    def limbs(self, codes: Ints) -> tuple[Ints, Ints, Ints]:
        return limbs_of_floats(codes)

    def add_up(self, count: int, owner: Ints, new: Rows) -> tuple[Ints, Codes, UpdateArray] | None:
        codes, diffs = new[self._column], new[-1]
        non_null = codes != NULL
        if not non_null.all():
            owner, codes, diffs = owner.compress(non_null), codes.compress(non_null), diffs.compress(non_null)
        found = limb_sums(count, owner, codes, diffs)
        if found is None:
            return None
        first, sums = found
        rank, at = sums.nonzero()
        return at, first + rank[None], sums[None, rank, at]

    def totals(self, interesting: InterestingTimes, seen: Stored) -> Any:
        """Return the correctly rounded sum at each interesting time."""
        return float_sums(len(interesting), *self._seen(interesting, seen))


class SquareSums(LimbSums):
    """Exact sums of squares, of floats or of whole numbers."""

    def __init__(self, column: int, dtype: DType, input_width: int, shape: Shape, interner: Interner) -> None:
        super().__init__(column, input_width, shape)
        self._dtype = dtype
        self._interner = interner

    def limbs(self, codes: Ints) -> tuple[Ints, Ints, Ints]:
        large = large_places(codes) if is_long_decimal(self._dtype) else codes[:0]
        if not len(large):
            return limbs_of_squares(codes, floats=self._dtype.name == "float64")
        short = codes.copy()
        short[large] = 0
        found: list[tuple[int, int, int]] = []  # large decimals: in Python numbers, one by one
        for i, value in zip(large.tolist(), values_of(codes.take(large), self._interner).tolist(), strict=True):
            square, place = value**2, 0
            while square:
                found.append((i, place, square & 0xFFFF_FFFF))
                square, place = square >> 32, place + 1
        columns, limbs = np.array(found, np.int64).reshape(-1, 3).T, limbs_of_squares(short, floats=False)
        which, places, amounts = (np.concatenate(parts) for parts in zip(limbs, columns, strict=True))
        return which, places, amounts
