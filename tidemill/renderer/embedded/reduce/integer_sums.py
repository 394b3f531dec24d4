"""Sums of whole numbers, as weights that add up: the state of count, sum and avg of integers and decimals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.aggregates import Aggregates, BoundAggregate
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.kernels import tables
from tidemill.renderer.embedded.kernels.aggregate_values import room_of, value_codes
from tidemill.renderer.embedded.kernels.codec import Interner, is_long_decimal
from tidemill.renderer.embedded.kernels.interner import SHORT
from tidemill.renderer.embedded.kernels.limbs import BITS, MASK, LimbWeights, are_safe
from tidemill.renderer.embedded.kernels.long_decimals import large_places, values_of
from tidemill.renderer.embedded.kernels.memory import zeros
from tidemill.renderer.embedded.kernels.sorting import gather, gathered, nonzero, parts
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, Rows, UpdateArray, largest
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Accumulator, Groups, Shape

_EACH: Final = 4
"""With this many updates a key, a table of all keys that there may be is not larger than a part of what they take."""
_INT32: Final = 2**31
_ROWS_IN_A_BYTE: Final = 64
"""With this many rows a number, there may well be some that have more than a byte holds."""
_LOOKS: Final = 32
_NOWHERE: Final = np.empty(0, np.int64)


class IntegerSums(Accumulator):
    """Counts and sums of whole numbers, as weights that add up.

    The first weight counts rows. For each column aggregated there follow the count of values that are not NULL, and,
    for sums, the value in limbs of 32 bits, of which the highest has its sign. Only the value at a time is judged: the
    limbs hold sums of 95 bits (159 of long decimals), and where one of them could overflow they are added up in parts.
    """

    def __init__(
        self,
        aggregates: Aggregates,
        schema: Schema,
        shape: Shape,
        interner: Interner,
    ) -> None:
        self._input = len(schema)
        self._present = aggregates.present
        self._interner = interner
        self.count_row: dict[int | None, int] = {None: 0}
        self._limbs: dict[int, tuple[int, int]] = {}
        rows = 1
        for a in aggregates.columns:
            if a.column is None or a.input is None:
                continue
            if a.column not in self.count_row and a.sums:
                self.count_row[a.column] = rows
                rows += 1
            if "total" in a.sums and a.input.name != "float64" and a.column not in self._limbs:
                limbs = 4 if is_long_decimal(a.input) else 2
                self._limbs[a.column] = (rows, limbs)
                rows += limbs
        self.presummed: UpdateArray | None = None
        """The sums of this round's updates, where these are known before."""
        first_limbs = dict(self._limbs.values())
        counts = set(self.count_row.values())
        self._number_of = {row: number for number, row in enumerate(sorted(counts | {*first_limbs}))}
        self._numbers = LimbWeights(
            tuple(1 if r in counts else first_limbs[r] for r in sorted(counts | {*first_limbs}))
        )
        super().__init__(shape, (), rows, limbs=self._numbers)

    def project(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        if self.presummed is not None:
            presummed, self.presummed = self.presummed, None
            return owner, presummed
        diffs = new[-1]
        if largest(diffs) > COUNT_LIMIT:
            return self._exactly_projected(owner, new)
        width = self.width
        kept = np.empty((width + len(new) - 1 - self._input + self.weights, new.shape[1]), np.int64)
        kept[:width] = new[:width]
        kept[width : -self.weights] = new[self._input : -1]
        weights = kept[-self.weights :]
        weights[0] = diffs if self._present is None else diffs * (new[self._present] != NULL)
        for column, row in self.count_row.items():
            if column is not None:
                np.multiply(diffs, new[column] != NULL, out=weights[row])
        for column, (row, limbs) in self._limbs.items():
            values = new[column] * (new[column] != NULL)
            large = large_places(new[column]) if limbs > 2 else _NOWHERE  # noqa: PLR2004 - low and high half
            values[large] = 0
            weights[row] = diffs * (values & MASK)
            weights[row + 1] = diffs * (values >> BITS)
            weights[row + 2 : row + limbs] = 0
            if len(large):
                weights[row : row + limbs, large] = diffs.take(large) * self._large_limbs(new[column].take(large))
        return owner, kept

    def _exactly_projected(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        """Like `project`, for counts whose products with limbs may overflow."""
        diffs = new[-1].astype(object)
        numbers: dict[int, Any] = {
            row: diffs if column is None else diffs * (new[column] != NULL) for column, row in self.count_row.items()
        }
        if self._present is not None:
            numbers[0] = diffs * (new[self._present] != NULL)
        for column, (row, limbs) in self._limbs.items():
            is_long = limbs > 2  # noqa: PLR2004 - low and high half
            values = values_of(new[column], self._interner) if is_long else new[column]
            numbers[row] = diffs * np.where(new[column] == NULL, 0, values)
        parts = self._numbers.parts_of([numbers[row] for row in sorted(numbers)])
        kept, which = self._numbers.gathered(np.concatenate((new[: self.width], new[self._input : -1], parts)))
        return owner if which is None else owner.take(which), kept

    def add_up(self, count: int, owner: Ints, new: Rows) -> tuple[Ints, Codes, UpdateArray] | None:
        if self.presummed is not None:
            return None
        if not self._has_room(new):
            return None
        sums = self._summed_up(count, owner.__getitem__, new)
        some = np.flatnonzero(sums.any(axis=0))
        return some, np.empty((0, len(some)), np.int64), gathered(sums, some)

    def by_key(self, keys: Codes, new: Rows) -> UpdateArray | None:
        """Return the sums of updates of one time by key, as they are kept, without numbers of the keys.

        None where there are too many different keys, sums could overflow, or all are zero.
        """
        places = tables.places_of(keys, keys.shape[1] // _EACH) if self.presummed is None else None
        if places is None or not self._has_room(new):
            return None
        sums = self._summed_up(places.size, places.at, new)
        some = nonzero(sums[0]) if len(sums) == 1 else np.flatnonzero(sums.any(axis=0))
        if not len(some):
            return None
        kept: UpdateArray = zeros((self.spine.layout.rows, len(some)))
        places.codes(some, kept[: self.width])
        for row, time in zip(kept[self.width : -self.weights], new[self._input : -1], strict=True):
            if time[0]:  # else zeros are there, which take no memory
                row.fill(time[0])
        for row, values in zip(kept[-self.weights :], sums, strict=True):
            gather(values, some, row)
        return kept

    @staticmethod
    def _has_room(new: Rows) -> bool:
        """Return whether no limb of the updates' sums can overflow."""
        return len(new[-1]) * largest(new[-1]) <= COUNT_LIMIT

    def _summed_up(self, count: int, owner: Callable[[slice], Ints], new: Rows) -> UpdateArray:
        """Return the sums of the weights by key; ``owner`` gives the numbers of the keys of some of the updates."""
        sums: UpdateArray = zeros((self.weights, count))
        counted = {c: row for c, row in self.count_row.items() if c is not None}
        full = [] if self._present is not None else [c for c in counted if new[c].min(initial=0) != NULL]
        same = [counted.pop(column) for column in full]
        diffs = new[-1]
        are_counted = self._present is None and diffs.strides[0] == 0 and len(diffs) < _INT32
        in_bytes = _counted_in_bytes(count, owner, len(diffs)) if are_counted and self.weights == 1 else None
        if in_bytes is not None:
            np.multiply(in_bytes, diffs[0], out=sums[0])
            return sums
        found = zeros(count, np.int32) if are_counted else None  # half as large: what is slow is to fetch them
        for part in parts(len(diffs)):  # what is computed from it stays in the caches
            self._add_part(sums, owner(part), [row[part] for row in new], counted, found)
        if found is not None:
            np.multiply(found, diffs[0], out=sums[0])
        for row in same:
            sums[row] = sums[0]
        return sums

    def _add_part(
        self,
        sums: UpdateArray,
        owner: Ints,
        new: Rows,
        counted: dict[int, int],
        found: npt.NDArray[np.int32] | None,
    ) -> None:
        """Add some updates to the sums; with ``found``, they are only counted there, whatever their own count."""
        diffs = new[-1]
        if found is not None:
            single = diffs[0] == 1
            np.add.at(found, owner, np.int32(1))
        else:
            single = diffs.min() == diffs.max() == 1
            np.add.at(sums[0], owner, diffs if self._present is None else diffs * (new[self._present] != NULL))
        for column, row in counted.items():
            np.add.at(sums[row], owner, diffs * (new[column] != NULL))
        for column, (row, limbs) in self._limbs.items():
            values = new[column]
            least, greatest = values.min(), values.max()
            if least == NULL or (limbs > 2 and (least < -SHORT or greatest >= SHORT)):  # noqa: PLR2004 - two: halves
                values = self._without_large(sums, owner, new, column)
                least, greatest = values.min(), values.max()
            is_low = least >= 0 and greatest <= MASK
            low = values if is_low else values & MASK
            np.add.at(sums[row], owner, low if single else diffs * low)
            if not is_low:
                high = values >> BITS
                np.add.at(sums[row + 1], owner, high if single else diffs * high)

    def _without_large(self, sums: UpdateArray, owner: Ints, new: Rows, column: int) -> Ints:
        """Return a column's values with 0 for NULL and for large decimals, once these are added."""
        codes, (row, limbs) = new[column], self._limbs[column]
        values = np.where(codes == NULL, 0, codes)
        large = large_places(codes) if limbs > 2 else _NOWHERE  # noqa: PLR2004 - low and high half
        if len(large):
            values[large] = 0
            amounts = new[-1].take(large) * self._large_limbs(codes.take(large))
            for summed, amount in zip(sums[row : row + limbs], amounts, strict=True):
                np.add.at(summed, owner.take(large), amount)
        return values

    @property
    def weight_meanings(self) -> list[tuple[str, int | None]] | None:
        """The meaning of each weight: a sum of rows, of values that are not NULL, or of halves of a column's values.

        None where there are limbs of long decimals among them.
        """
        found: list[tuple[str, int | None]] = [("rows", self._present)] * self.weights
        for column, row in self.count_row.items():
            if column is not None:
                found[row] = ("count", column)
        for column, (row, limbs) in self._limbs.items():
            if limbs > 2:  # noqa: PLR2004 - low and high half
                return None
            found[row : row + 2] = [("low", column), ("high", column)]
        return found

    def _large_limbs(self, codes: Ints) -> UpdateArray:
        """Return the limbs of large decimals, which are interned."""
        values = values_of(codes, self._interner)
        limbs = [values & MASK, values >> BITS & MASK, values >> 2 * BITS & MASK, values >> 3 * BITS]
        return np.stack(limbs).astype(np.int64)

    def sums(self, interesting: InterestingTimes, seen: Stored) -> UpdateArray:
        """Return the accumulated weights at each interesting time.

        Where limbs do not hold a number, further rows have what each number's limbs lack.
        """
        times, weights = seen.updates[self.codes : self.codes + self.users], seen.updates[-self.weights :]
        if are_safe(weights):
            return interesting.sums(seen.owner, times, weights)
        parts = interesting.sums(seen.owner, times, self._numbers.parted(weights))
        weights, lacking = self._numbers.joined(parts)
        return weights if lacking is None else np.concatenate((weights, lacking))

    def column(self, aggregate: BoundAggregate, sums: UpdateArray, group: Groups) -> Ints:
        """Return the codes of one aggregate for the groups whose sums these are."""
        counts: Ints = sums[self.count_row[aggregate.column]]
        if aggregate.function == "count":
            return counts
        assert aggregate.input is not None
        types, present = (aggregate.input, aggregate.output), group.present
        totals, short = self._short_totals(aggregate, sums)

        def values(places: Ints | slice, totals: Any) -> Ints:
            def refuse(beyond: Bools) -> None:
                raise group.overflow(aggregate, int(present[places][beyond.argmax()]))

            of = counts[places]
            some = of != 0
            given = None if np.count_nonzero(some) == len(some) else some
            return value_codes(aggregate.function, totals, of, given, types, self._interner, refuse)

        if short.all():
            return values(slice(None), totals)
        codes = np.empty_like(counts)
        some, rest = short.nonzero()[0], (~short).nonzero()[0]
        codes[some] = values(some, totals.take(some))
        codes[rest] = values(rest, self.totals(aggregate.column, sums.take(rest, axis=1)))
        return codes

    def _short_totals(self, aggregate: BoundAggregate, sums: UpdateArray) -> tuple[Ints, Bools]:
        """Return the sums of a column, and which of them are so short that all that is made of them is of 64 bits."""
        assert aggregate.column is not None
        assert aggregate.input is not None
        row, limbs = self._limbs[aggregate.column]
        low, high = sums[row], sums[row + 1]
        high = high + (low >> BITS)
        totals = (high << BITS) + (low & MASK)
        room = room_of(aggregate.function, aggregate.input, aggregate.output)
        most = (INT64_LIMIT // room >> BITS) - 1
        short: Bools = (high >= -most) & (high <= most)
        for more in sums[row + 2 : row + limbs]:
            short &= more == 0
        if len(sums) > self.weights:
            short &= sums[self.weights + self._number_of[row]] == 0
        return totals, short

    def totals(self, column: int | None, sums: UpdateArray) -> Any:
        """Return the sums of a column as Python numbers."""
        assert column is not None
        row, limbs = self._limbs[column]
        parts = [sums[row + i] for i in range(limbs)]
        if len(sums) > self.weights:
            parts.append(sums[self.weights + self._number_of[row]])
        return sum(part.astype(object) << BITS * i for i, part in enumerate(parts))


def _counted_in_bytes(count: int, owner: Callable[[slice], Ints], rows: int) -> npt.NDArray[np.uint8] | None:
    """Return how many rows each key has, in a byte each: a quarter of the memory traffic; None if a byte may overflow.

    ``owner`` gives the numbers of some of the rows. Where bytes overflow, all of them add up to fewer than the rows.
    """
    if rows > count * _ROWS_IN_A_BYTE:
        return None
    found: npt.NDArray[np.uint8] = zeros(count, np.uint8)
    done = looked = 0
    for part in parts(rows):
        np.add.at(found, owner(part), np.uint8(1))
        done = part.stop
        if done >= 2 * looked + rows // _LOOKS:  # soon, and then the rarer
            looked = done
            if int(found.sum(dtype=np.int64)) != done:
                return None
    return found if looked == done or int(found.sum(dtype=np.int64)) == done else None
