"""Sums of whole numbers, as weights that add up: what count, sum and avg of integers and decimals are made of."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.aggregates import ORDERED, Aggregates, BoundAggregate
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.kernels.codec import LONG_DECIMAL, Interner, float_codes, is_interned
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, Rows, UpdateArray
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.reduce.accumulators import Accumulator, Groups, Shape, unscaled

__all__ = ["IntegerSums"]

_HALF: Final = 32
_MASK: Final = (1 << _HALF) - 1
_EXACT: Final = 1 << 53
_SUMMED: Final = ("sum", "avg", "bool_or", "bool_and", "variance", "stddev")


class IntegerSums(Accumulator):
    """Counts and sums of whole numbers, as weights that add up.

    The first weight counts rows. For each column aggregated there follow the count of values that are not NULL, and,
    for sums, the value in halves of 32 bits, so that partial sums cannot overflow: only the value at a time is judged.
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
        self._types: dict[int, DType] = {}
        rows = 1
        for a in aggregates.columns:
            if a.column is None or a.input is None:
                continue
            if a.column not in self.count_row and a.function not in ("min", "max", *ORDERED):
                self.count_row[a.column] = rows
                rows += 1
            if a.function in _SUMMED and a.input.name != "float64" and a.column not in self._limbs:
                long = a.input.is_decimal and a.input.precision > LONG_DECIMAL
                self._limbs[a.column] = (rows, 4 if long else 2)
                self._types[a.column] = a.input
                rows += 4 if long else 2
        self.presummed: UpdateArray | None = None
        """What the updates of this round add up to, where that is known before."""
        super().__init__(shape, (), rows)

    def project(self, owner: Ints, new: UpdateArray) -> tuple[Ints, UpdateArray]:
        if self.presummed is not None:
            presummed, self.presummed = self.presummed, None
            return owner, presummed
        diffs = new[-1]
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
            if limbs == 2:  # noqa: PLR2004 - low and high half
                values = new[column] * (new[column] != NULL)
                weights[row] = diffs * (values & _MASK)
                weights[row + 1] = diffs * (values >> _HALF)
            else:
                weights[row : row + limbs] = diffs * self._long_limbs(new[column], self._types[column])
        return owner, kept

    def add_up(self, count: int, owner: Ints, new: Rows) -> tuple[Ints, Codes, UpdateArray] | None:
        if self.presummed is not None or any(limbs > 2 for _, limbs in self._limbs.values()):  # noqa: PLR2004
            return None
        sums, diffs = np.zeros((self.weights, count), np.int64), new[-1]
        if self._present is None:
            np.add.at(sums[0], owner, diffs)
        else:
            np.add.at(sums[0], owner, diffs * (new[self._present] != NULL))
        for column, row in self.count_row.items():
            if column is None:
                continue
            known = new[column] != NULL
            if known.all() and self._present is None:
                sums[row] = sums[0]
            else:
                np.add.at(sums[row], owner, diffs * known)
        for column, (row, _) in self._limbs.items():
            values = new[column]
            known = values != NULL
            if not known.all():
                values = np.where(known, values, 0)
            np.add.at(sums[row], owner, diffs * (values & _MASK))
            np.add.at(sums[row + 1], owner, diffs * (values >> _HALF))
        some = np.flatnonzero(sums.any(axis=0))
        return some, np.empty((0, len(some)), np.int64), sums.take(some, axis=1)

    @property
    def weight_meanings(self) -> list[tuple[str, int | None]] | None:
        """What each weight is a sum of: rows, values that are not NULL, low and high halves of a column's values.

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

    def _long_limbs(self, codes: Ints, dtype: DType) -> UpdateArray:
        """Return the limbs of interned decimals."""
        distinct, inverse = np.unique(codes, return_inverse=True)
        limbs = np.zeros((4, len(distinct)), np.int64)
        for i, code in enumerate(distinct.tolist()):
            if code != NULL:
                value = unscaled(self._interner.object(code), dtype)
                limbs[:, i] = [value & _MASK, value >> _HALF & _MASK, value >> 2 * _HALF & _MASK, value >> 3 * _HALF]
        return limbs.take(inverse, axis=1)

    def sums(self, interesting: InterestingTimes, seen: Stored) -> UpdateArray:
        """Return the accumulated weights at each interesting time."""
        times = seen.updates[self.codes : self.codes + self.users]
        return interesting.sums(seen.owner, times, seen.updates[-self.weights :])

    def column(self, aggregate: BoundAggregate, sums: UpdateArray, group: Groups) -> Ints:
        """Return the codes of one aggregate for the groups whose sums these are."""
        counts: Ints = sums[self.count_row[aggregate.column]]
        if aggregate.function == "count":
            return counts
        assert aggregate.column is not None
        row, limbs = self._limbs[aggregate.column]
        some = counts != 0
        if aggregate.function in ("bool_or", "bool_and"):  # true is 1, so the low half counts what is true
            true = sums[row]
            return np.where(some, true > 0 if aggregate.function == "bool_or" else counts - true <= 0, NULL)
        if limbs == 2 and not aggregate.output.is_decimal:  # noqa: PLR2004
            low, high = sums[row], sums[row + 1]
            high = high + (low >> _HALF)
            fits = (high >= -(1 << 31)) & (high < 1 << 31)
            total = (high << _HALF) + (low & _MASK)
            if aggregate.function == "sum":
                over = some & (~fits | (total == NULL))
                if over.any():
                    raise group.overflow(aggregate, int(group.present[over.argmax()]))
                return total if np.count_nonzero(some) == len(some) else np.where(some, total, NULL)
            if fits.all() and (np.abs(total) < _EXACT).all():
                return np.where(some, float_codes(total / np.where(some, counts, 1)), NULL)
        return self._one_by_one(aggregate, sums, group, some)

    def totals(self, column: int, sums: UpdateArray) -> list[int]:
        """Return the sums of a column as Python numbers."""
        row, limbs = self._limbs[column]
        parts = sums[row : row + limbs].tolist()
        return [sum(part[i] << _HALF * j for j, part in enumerate(parts)) for i in range(sums.shape[1])]

    def _one_by_one(self, aggregate: BoundAggregate, sums: UpdateArray, group: Groups, some: Any) -> Ints:
        """Return codes worked out in Python numbers: the rare cases, decimals and means of more than 53 bits."""
        assert aggregate.column is not None
        counts = sums[self.count_row[aggregate.column]].tolist()
        totals = self.totals(aggregate.column, sums)
        codes = np.full(sums.shape[1], NULL, np.int64)
        for i in some.nonzero()[0].tolist():
            codes[i] = self._code(aggregate, totals[i], counts[i], group, i)
        return codes

    def _code(self, aggregate: BoundAggregate, total: int, count: int, group: Groups, i: int) -> int:
        out, given = aggregate.output, aggregate.input
        if not out.is_decimal:
            (code,) = float_codes(np.array([total / count])).tolist()
            return int(code)
        assert given is not None
        scaled = total * 10 ** (out.scale - given.scale)
        value = scaled if aggregate.function == "sum" else _half_up(scaled, count)
        if abs(value) >= 10**out.precision:
            raise group.overflow(aggregate, int(group.present[i]))
        if is_interned(out):
            return self._interner.number(decimal_of(value, out.scale))
        assert -INT64_LIMIT <= value <= INT64_LIMIT
        return value


def _half_up(numerator: int, denominator: int) -> int:
    """Return the quotient rounded to a whole number, halves away from zero."""
    quotient, rest = divmod(abs(numerator), abs(denominator))
    rounded = quotient + (2 * rest >= abs(denominator))
    return rounded if (numerator < 0) == (denominator < 0) else -rounded


def decimal_of(unscaled: int, scale: int) -> Any:
    """Return a decimal of that many digits after the point."""
    return Context(prec=80).create_decimal(Decimal(unscaled)).scaleb(-scale, Context(prec=80))
