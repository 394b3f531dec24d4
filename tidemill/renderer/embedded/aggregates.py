"""Aggregates of groups, from sums that are kept for each key.

Three kinds of state, each a spine of its own: sums of whole numbers as weights (count, sum, avg), sums of floats in exact
limbs, and the values themselves with their counts (min, max).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.collections.aggregates import Aggregates, BoundAggregate
from tidemill.collections.schema import Schema
from tidemill.collections.types import DType
from tidemill.collections.validation import INT64_LIMIT
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Reduce
from tidemill.errors import ExpressionError, NegativeCountError
from tidemill.renderer.embedded.active import Active
from tidemill.renderer.embedded.blocks import NULL, Block, Ints, consolidated, grouped
from tidemill.renderer.embedded.codec import (
    LONG_DECIMAL,
    Interner,
    decode_rows,
    float_codes,
    is_interned,
    order_ranks,
)
from tidemill.renderer.embedded.exactsum import float_sums, limbs_of_floats
from tidemill.renderer.embedded.keyed import Stored
from tidemill.renderer.embedded.schedule import Schedule
from tidemill.renderer.embedded.spine import Spine

if TYPE_CHECKING:
    from tidemill.renderer.embedded.reduce import Wanted

__all__ = ["AggregateLogic"]

Since: TypeAlias = Callable[[], Antichain]

_HALF: Final = 32
_MASK: Final = (1 << _HALF) - 1
_EXACT: Final = 1 << 53


class AggregateLogic:
    """The logic of a Reduce by aggregate functions: one row a group, where the group's total count is not zero."""

    keyed_output = True

    def __init__(self, node: Reduce, schedule: Schedule, since: Since, interner: Interner) -> None:
        assert isinstance(node.logic, Aggregates)
        self._node = node
        self._interner = interner
        self._aggregates = node.logic.columns
        schema: Schema = node.inputs[0].schema
        shape = _Shape(len(node.keys), node.scope.coordinates, schedule, since)
        self._whole = _WholeSums(self._aggregates, schema, shape, interner)
        columns = {(a.column, a.input) for a in self._aggregates if a.column is not None and a.input is not None}
        in_order = sorted(columns, key=lambda pair: pair[0])
        functions = {c: {a.function for a in self._aggregates if a.column == c} for c, _ in in_order}
        self._floats = {
            c: _FloatSums(c, len(schema), shape)
            for c, t in in_order
            if t.name == "float64" and functions[c] & {"sum", "avg"}
        }
        self._values = {c: _Values(c, t, len(schema), shape) for c, t in in_order if functions[c] & {"min", "max"}}
        self.linear = not self._values and not self._floats
        self._parts: list[_Part] = [self._whole, *self._floats.values(), *self._values.values()]

    @property
    def spines(self) -> list[Spine]:
        return [p.spine for p in self._parts]

    def gather(self, keys: Block, owner: Ints, new: Block) -> list[Stored]:
        return [part.gather(keys, owner, new) for part in self._parts]

    def wanted(self, keys: Block, active: Active, seen: list[Stored]) -> Wanted:
        from tidemill.renderer.embedded.reduce import Wanted  # noqa: PLC0415 - a reduce is made of its logic

        by_part = dict(zip(map(id, self._parts), seen, strict=True))
        sums = self._whole.sums(active, by_part[id(self._whole)])
        present = np.arange(len(active)) if self._node.scalar else sums[0].nonzero()[0]
        group = _Groups(self._node, keys, active, present, self._interner)
        sums = sums.take(present, axis=1)
        float_totals = {c: p.totals(active, by_part[id(p)]) for c, p in self._floats.items()}
        extremes = {c: p.extremes(group, active, by_part[id(p)], self._interner) for c, p in self._values.items()}
        columns = [keys.take(active.keys.take(present), axis=1)]
        for a in self._aggregates:
            if a.column in self._floats and a.function in ("sum", "avg"):
                totals = float_totals[a.column].take(present)
                columns.append(self._float_column(a, totals, sums[self._whole.count_row[a.column]])[None])
            elif a.function in ("min", "max"):
                assert a.column is not None
                columns.append(extremes[a.column][a.function == "max"].take(present)[None])
            else:
                columns.append(self._whole.column(a, sums, group)[None])
        return Wanted(present, np.concatenate(columns), np.ones(len(present), np.int64))

    @staticmethod
    def _float_column(aggregate: BoundAggregate, totals: Any, counts: Ints) -> Ints:
        some = counts != 0
        if aggregate.function == "avg":
            with np.errstate(invalid="ignore", over="ignore"):
                totals = totals / np.where(some, counts, 1)
        return np.where(some, float_codes(totals), NULL)


class _Groups:
    """Names groups in errors."""

    def __init__(self, node: Reduce, keys: Block, active: Active, present: Ints, interner: Interner) -> None:
        self.node = node
        self.present = present
        self._keys = keys
        self._active = active
        self._interner = interner

    def name(self, active: int) -> str:
        """Return how the group of an active time is called."""
        schema = self.node.inputs[0].schema
        keys = Schema(tuple(schema.fields[i] for i in self.node.keys))
        if not len(keys):
            return "all rows"
        (row,) = decode_rows(keys, self._keys[:, [self._active.keys[active]]], self._interner)
        return f"key {row}"


class _Shape(NamedTuple):
    """What the spines of one Reduce have in common."""

    width: int
    """How many key columns, which come first."""
    coordinates: int
    schedule: Schedule
    since: Since


class _Part:
    """A spine of what is kept for each key."""

    def __init__(self, shape: _Shape, more_codes: int, weights: int) -> None:
        self.width = shape.width
        self.codes = shape.width + more_codes
        self.users = shape.schedule.users
        self.weights = weights
        keys = tuple(range(shape.width))
        self.spine = Spine(keys, self.codes, shape.coordinates, weights, shape.schedule, shape.since)

    def project(self, owner: Ints, new: Block) -> tuple[Ints, Block]:
        """Return what of new updates is kept, and the numbers of their keys."""
        raise NotImplementedError

    def gather(self, keys: Block, owner: Ints, new: Block) -> Stored:
        """Return all of the keys' updates; keep the new ones."""
        found, stored = self.spine.find(keys)
        if not new.shape[1]:
            return Stored(found, stored, self.codes)
        owner, kept = self.project(owner, new)
        if keys.shape[1] < kept.shape[1]:
            owner, kept = self._summed(keys, owner, kept)
        if kept.shape[1]:
            self.spine.append(kept)
        return Stored(np.concatenate((found, owner)), np.concatenate((stored, kept), axis=1), self.codes)

    def _summed(self, keys: Block, owner: Ints, kept: Block) -> tuple[Ints, Block]:
        """Return updates of the same key and value at the same time added up, and the numbers of their keys."""
        times = kept[self.codes : -self.weights]
        if self.codes > self.width or (times != times[:, :1]).any():
            kept = consolidated(kept, self.weights)
            return self._numbers(keys, kept), kept
        summed = np.zeros((len(kept), keys.shape[1]), np.int64)
        summed[: self.width] = keys
        summed[self.codes : -self.weights] = times[:, :1]
        for row, values in zip(summed[-self.weights :], kept[-self.weights :], strict=True):
            np.add.at(row, owner, values)
        some = summed[-self.weights :].any(axis=0).nonzero()[0]
        return some, summed.take(some, axis=1)

    def _numbers(self, keys: Block, kept: Block) -> Ints:
        """Return the number of each update's key."""
        both = np.concatenate((keys, kept[: self.width]), axis=1)
        order, starts = grouped(both)
        number = np.zeros(both.shape[1], np.int64)
        number[starts[1:]] = 1
        group = np.empty_like(number)
        group[order] = number.cumsum()
        of_group = np.empty(len(starts), np.int64)
        of_group[group[: keys.shape[1]]] = np.arange(keys.shape[1])
        return of_group.take(group[keys.shape[1] :])


class _WholeSums(_Part):
    """Counts and sums of whole numbers, as weights that add up.

    The first weight counts rows. For each column aggregated there follow the count of values that are not NULL, and, for
    sums, the value in halves of 32 bits, so that partial sums cannot overflow: only the value at a time is judged.
    """

    def __init__(
        self,
        aggregates: tuple[BoundAggregate, ...],
        schema: Schema,
        shape: _Shape,
        interner: Interner,
    ) -> None:
        self._input = len(schema)
        self._interner = interner
        self.count_row: dict[int | None, int] = {None: 0}
        self._limbs: dict[int, tuple[int, int]] = {}
        self._types: dict[int, DType] = {}
        rows = 1
        for a in aggregates:
            if a.column is None or a.input is None:
                continue
            if a.column not in self.count_row and a.function not in ("min", "max"):
                self.count_row[a.column] = rows
                rows += 1
            if a.function in ("sum", "avg") and a.input.name != "float64" and a.column not in self._limbs:
                long = a.input.is_decimal and a.input.precision > LONG_DECIMAL
                self._limbs[a.column] = (rows, 4 if long else 2)
                self._types[a.column] = a.input
                rows += 4 if long else 2
        super().__init__(shape, 0, rows)

    def project(self, owner: Ints, new: Block) -> tuple[Ints, Block]:
        diffs = new[-1]
        width = self.width
        kept = np.empty((width + len(new) - 1 - self._input + self.weights, new.shape[1]), np.int64)
        kept[:width] = new[:width]
        kept[width : -self.weights] = new[self._input : -1]
        weights = kept[-self.weights :]
        weights[0] = diffs
        for column, row in self.count_row.items():
            if column is not None:
                weights[row] = diffs * (new[column] != NULL)
        for column, (row, limbs) in self._limbs.items():
            values = np.where(new[column] != NULL, new[column], 0)
            if limbs == 2:  # noqa: PLR2004 - low and high half
                weights[row] = diffs * (values & _MASK)
                weights[row + 1] = diffs * (values >> _HALF)
            else:
                weights[row : row + limbs] = diffs * self._long_limbs(new[column], self._types[column])
        return owner, kept

    def _long_limbs(self, codes: Ints, dtype: DType) -> Block:
        """Return the limbs of interned decimals."""
        distinct, inverse = np.unique(codes, return_inverse=True)
        limbs = np.zeros((4, len(distinct)), np.int64)
        for i, code in enumerate(distinct.tolist()):
            if code != NULL:
                value = int(self._interner.object(code).scaleb(dtype.scale))
                limbs[:, i] = [value & _MASK, value >> _HALF & _MASK, value >> 2 * _HALF & _MASK, value >> 3 * _HALF]
        return limbs.take(inverse, axis=1)

    def sums(self, active: Active, seen: Stored) -> Block:
        """Return the accumulated weights at each active time."""
        times = seen.block[self.codes : self.codes + self.users]
        return active.sums(seen.owner, times, seen.block[-self.weights :])

    def column(self, aggregate: BoundAggregate, sums: Block, group: _Groups) -> Ints:
        """Return the codes of one aggregate for the groups whose sums these are."""
        counts = sums[self.count_row[aggregate.column]]
        if aggregate.function == "count":
            return counts
        assert aggregate.column is not None
        row, limbs = self._limbs[aggregate.column]
        some = counts != 0
        if limbs == 2 and not aggregate.output.is_decimal:  # noqa: PLR2004
            low, high = sums[row], sums[row + 1]
            high = high + (low >> _HALF)
            fits = (high >= -(1 << 31)) & (high < 1 << 31)
            total = (high << _HALF) + (low & _MASK)
            if aggregate.function == "sum":
                over = some & (~fits | (total == NULL))
                if over.any():
                    self._overflow(aggregate, group, int(over.argmax()))
                return np.where(some, total, NULL)
            if fits.all() and (np.abs(total) < _EXACT).all():
                return np.where(some, float_codes(total / np.where(some, counts, 1)), NULL)
        return self._one_by_one(aggregate, sums, group, some)

    def _one_by_one(self, aggregate: BoundAggregate, sums: Block, group: _Groups, some: Any) -> Ints:
        """The rare cases in whole Python numbers: decimals, and means of more than 53 bits."""
        row, limbs = self._limbs[aggregate.column or 0]
        counts = sums[self.count_row[aggregate.column]].tolist()
        parts = sums[row : row + limbs].tolist()
        codes = np.full(sums.shape[1], NULL, np.int64)
        for i in some.nonzero()[0].tolist():
            total = sum(part[i] << _HALF * j for j, part in enumerate(parts))
            codes[i] = self._code(aggregate, total, counts[i], group, i)
        return codes

    def _code(self, aggregate: BoundAggregate, total: int, count: int, group: _Groups, i: int) -> int:
        out, given = aggregate.output, aggregate.input
        if not out.is_decimal:
            (code,) = float_codes(np.array([total / count])).tolist()
            return int(code)
        assert given is not None
        scaled = total * 10 ** (out.scale - given.scale)
        value = scaled if aggregate.function == "sum" else _half_up(scaled, count)
        if abs(value) >= 10**out.precision:
            self._overflow(aggregate, group, i)
        if is_interned(out):
            return self._interner.number(decimal_of(value, out.scale))
        assert -INT64_LIMIT <= value <= INT64_LIMIT
        return value

    @staticmethod
    def _overflow(aggregate: BoundAggregate, group: _Groups, i: int) -> None:
        logic = group.node.logic
        assert isinstance(logic, Aggregates)
        name = logic.names[logic.columns.index(aggregate)]
        where = f"{group.node.where}, {group.name(int(group.present[i]))}"
        raise ExpressionError(f"{where}: overflow of {aggregate.output}", f"{aggregate.function} AS {name}")


class _FloatSums(_Part):
    """Exact sums of floats: each value as integer limbs by exponent, which add up like any integers."""

    def __init__(self, column: int, given: int, shape: _Shape) -> None:
        super().__init__(shape, 1, 1)
        self._column = column
        self._input = given

    def project(self, owner: Ints, new: Block) -> tuple[Ints, Block]:
        some = (new[self._column] != NULL).nonzero()[0]
        which, limb, amount = limbs_of_floats(new[self._column].take(some))
        which = some.take(which)
        kept = np.empty((self.width + 1 + len(new) - self._input, len(which)), np.int64)
        kept[: self.width] = new[: self.width].take(which, axis=1)
        kept[self.width] = limb
        kept[self.width + 1 :] = new[self._input :].take(which, axis=1)
        kept[-1] *= amount
        return owner.take(which), kept

    def totals(self, active: Active, seen: Stored) -> Any:
        """Return the correctly rounded sum at each active time."""
        at, which = active.pairs(seen.owner, seen.block[self.codes : self.codes + self.users])
        limbs = seen.block[self.width].take(which)
        return float_sums(len(active), at, limbs, seen.block[-1].take(which))


class _Values(_Part):
    """The values of a column with their counts."""

    def __init__(self, column: int, dtype: DType, given: int, shape: _Shape) -> None:
        super().__init__(shape, 1, 1)
        self._column = column
        self._dtype = dtype
        self._input = given

    def project(self, owner: Ints, new: Block) -> tuple[Ints, Block]:
        rows = [*range(self.width), self._column, *range(self._input, len(new))]
        return owner, new.take(rows, axis=0)

    def extremes(self, group: _Groups, active: Active, seen: Stored, interner: Interner) -> tuple[Ints, Ints]:
        """Return the least and the greatest value at each active time, NULL where there is none."""
        at, which = active.pairs(seen.owner, seen.block[self.codes : self.codes + self.users])
        counted = consolidated(np.stack((at, seen.block[self.width].take(which), seen.block[-1].take(which))))
        negative = counted[2] < 0
        if negative.any():
            first = int(negative.argmax())
            field = Schema((group.node.inputs[0].schema.fields[self._column],))
            ((value,),) = decode_rows(field, counted[1:2, [first]], interner)
            msg = (
                f"{group.node.where}, {group.name(int(counted[0, first]))}: value {value!r} has count "
                f"{counted[2, first]}: the least and greatest of a negative count have no meaning"
            )
            raise NegativeCountError(msg)
        at, codes = counted[0], counted[1]
        some = codes != NULL
        at, codes = at[some], codes[some]
        ranks = order_ranks(codes, self._dtype, interner)
        order = np.lexsort((ranks, at))
        at, codes = at[order], codes[order]
        low, high = np.full(len(active), NULL), np.full(len(active), NULL)
        if len(at):
            new = np.concatenate(([True], at[1:] != at[:-1]))
            low[at[new]] = codes[new]
            last = np.concatenate((new[1:], [True]))
            high[at[last]] = codes[last]
        return low, high


def _half_up(numerator: int, denominator: int) -> int:
    """Return the quotient rounded to a whole number, halves away from zero."""
    quotient, rest = divmod(abs(numerator), abs(denominator))
    rounded = quotient + (2 * rest >= abs(denominator))
    return rounded if (numerator < 0) == (denominator < 0) else -rounded


def decimal_of(unscaled: int, scale: int) -> Any:
    """Return a decimal of that many digits after the point."""
    from decimal import Context, Decimal  # noqa: PLC0415

    return Context(prec=80).create_decimal(Decimal(unscaled)).scaleb(-scale, Context(prec=80))
