"""Combiners: what a sum over an order adds up. Associative, with a zero; they need not commute, nor have an inverse.

While it is added up a sum is a *state*: some columns, all NULL for the zero, of which the first is NULL for nothing
else. So whole numbers go beyond 64 bits on the way, and floats are rounded once, when the sum is done.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidemill.expressions.aggregate_functions as agg
from tidemill.algorithms.prefix_sums.columns import column_values, ordinals, sort_key
from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.expr import col, lit
from tidemill.expressions.functions.choice import when
from tidemill.expressions.functions.numbers import pmod, shiftleft, shiftright
from tidemill.expressions.table_functions import Column, Ints
from tidemill.expressions.types import INT64, DType

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

State: TypeAlias = tuple[Any, ...]
States: TypeAlias = Sequence[pa.Array]
"""Many states, by column."""

_HALF: Final = 32
_MASK: Final = (1 << _HALF) - 1
_QUARTER: Final = 16
_QUARTER_MASK: Final = (1 << _QUARTER) - 1


class Combiner(abc.ABC):
    """How states are combined: its meaning on tuples, and the same on columns of states."""

    types: tuple[DType, ...]
    """The types of a state's columns."""

    @abc.abstractmethod
    def state(self, value: Any) -> State:
        """Return the state of one value, which is not NULL unless the combiner takes NULLs."""

    @abc.abstractmethod
    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        """Return the rows with the state of their argument in columns of these names."""

    @abc.abstractmethod
    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        """Return the rows with the value of the state in these columns in a further one."""

    @abc.abstractmethod
    def combined(self, left: State, right: State) -> State:
        """Return two states combined, neither of which is the zero."""

    @abc.abstractmethod
    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        """Return the states from each start to before each end, combined in order."""

    def scan(self, states: States, offsets: Ints, before: States, *, inclusive: bool = False) -> Sequence[Column]:
        """Return for each state, in lists that begin at the offsets, the combination of those before it in its list.

        ``before`` has for each list what comes before all that is in it. If inclusive, the state itself counts too.
        """
        return self.fold(*lined_up(states, offsets, before, inclusive=inclusive))

    def states_of(self, values: pa.Array) -> States:
        """Return the states of values, by column."""
        states = [*map(self.state, column_values(values))]
        columns = zip(*states, strict=True) if states else [()] * len(self.types)
        return [pa.array(column, t.arrow) for column, t in zip(columns, self.types, strict=True)]

    @property
    def by_column(self) -> bool:
        """Whether columns of states are combined at once, not one state after another in Python."""
        return True

    @property
    def at_rows(self) -> Combiner:
        """The combiner whose states prefix sums at rows have, if it is another one: see `scan_rows` and `row_state`."""
        return self

    def row_state(self, state: State) -> State:
        """Return the prefix sum at a row as a state of the other combiner."""
        return state

    def scan_rows(self, states: States, offsets: Ints, before: States, *, inclusive: bool) -> Sequence[Column]:
        """Like `scan`, as states of the other combiner."""
        return self.scan(states, offsets, before, inclusive=inclusive)

    @property
    def zero(self) -> State:
        """The state that adds nothing."""
        return (None,) * len(self.types)

    def whole(self, states: Iterable[State]) -> State:
        """Return states combined in order."""
        total = self.zero
        for state in states:
            if state[0] is not None:
                total = state if total[0] is None else self.combined(total, state)
        return total

    def of_one_place(self, columns: Sequence[str]) -> Sequence[Any] | None:
        """Return the aggregates that combine all states at one place; None where it takes a list of them."""
        del columns
        return None


def split(combiners: Iterable[Combiner], columns: Sequence[Any]) -> Iterable[tuple[Combiner, Sequence[Any]]]:
    """Return each combiner with its part of the columns of states."""
    at = 0
    for c in combiners:
        yield c, columns[at : at + len(c.types)]
        at += len(c.types)


def lined_up(states: States, offsets: Ints, before: States, *, inclusive: bool) -> tuple[list[pa.Array], Ints, Ints]:
    """Return lists of states, each after the state before its list, and for each state where those before it are."""
    lengths, lists = np.diff(offsets), np.arange(len(offsets) - 1)
    order = pa.array(np.insert(np.arange(offsets[-1]), offsets[:-1], offsets[-1] + lists))
    both = [pa.concat_arrays([s, b]).take(order) for s, b in zip(states, before, strict=True)]
    earlier = lists.repeat(lengths)
    return both, (offsets[:-1] + lists).repeat(lengths), np.arange(offsets[-1]) + earlier + 1 + inclusive


# -- choosing one of the states ---------------------------------------------------------------------------------------


@attrs.frozen
class Choice(Combiner):
    """One of the states: the first, the last, the least or the greatest.

    The value is the only column, so that NULLs are passed over, or comes after one that is true.
    """

    which: str
    types: tuple[DType, ...]

    def state(self, value: Any) -> State:
        return (value,) if len(self.types) == 1 else (True, value)

    def states_of(self, values: pa.Array) -> States:
        return [values] if len(self.types) == 1 else [pa.repeat(pa.scalar(value=True), len(values)), values]

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        *present, value = names
        return values.with_columns(**dict.fromkeys(present, lit(value=True)), **{value: col(argument)})

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        return sums.with_columns(**{result: col(names[-1])})

    def combined(self, left: State, right: State) -> State:
        if self.which in ("first", "last"):
            return left if self.which == "first" else right
        ordered = sort_key(left[0]) <= sort_key(right[0])
        return left if ordered == (self.which == "min") else right

    def of_one_place(self, columns: Sequence[str]) -> Sequence[Any] | None:
        return [getattr(agg, self.which)(columns[0])] if self.which in ("min", "max") else None

    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        if self.which in ("min", "max"):
            at = self._least(states[0], starts, ends)
        else:
            at = self._chosen(states[0], starts, ends)
        taken = pa.array(at, mask=at < 0)
        return [s.take(taken) for s in states]

    def scan(self, states: States, offsets: Ints, before: States, *, inclusive: bool = False) -> Sequence[Column]:
        both, starts, ends = lined_up(states, offsets, before, inclusive=inclusive)
        if self.which not in ("min", "max"):
            return self.fold(both, starts, ends)
        # The best so far: ranks of each list are below those of all lists before, so that it begins anew.
        ranks = self._ranks(both[0])
        ranks = ranks - np.arange(len(offsets) - 1).repeat(np.diff(offsets) + 1) * (len(ranks) + 2)
        better = np.append(True, ranks[1:] < np.minimum.accumulate(ranks)[:-1])[: len(ranks)]
        best = np.maximum.accumulate(np.where(better, np.arange(len(ranks)), 0))
        return [b.take(pa.array(best.take(ends - 1))) for b in both]

    def _chosen(self, first: pa.Array, starts: Ints, ends: Ints) -> Ints:
        """Return which state is the first, or the last, from each start to before each end; -1 for none."""
        size = len(first)
        if self.which == "last":
            at = np.where(_valid(first), np.arange(size), -1)
            found = np.concatenate(([-1], np.maximum.accumulate(at))).take(np.maximum(ends, 0))
            return np.where((found >= starts) & (ends > starts), found, -1)
        at = np.where(_valid(first), np.arange(size), size)
        found = np.append(np.minimum.accumulate(at[::-1])[::-1], size).take(starts)
        return np.where(found < ends, found, -1)

    def _ranks(self, values: pa.Array) -> Ints:
        """Return numbers of which the least is that of the value to choose, and that of NULL the greatest."""
        ranks = ordinals(values)
        ranks = ranks if self.which == "min" else len(values) - ranks
        return np.where(_valid(values), ranks, len(values) + 1)

    def _least(self, values: pa.Array, starts: Ints, ends: Ints) -> Ints:
        never = len(values) + 1
        ranks = np.append(self._ranks(values), never)
        found = np.minimum.reduceat(ranks, np.stack((starts, np.maximum(starts, ends)), axis=1).ravel())[::2]
        at = np.empty(never + 1, np.int64)
        at[ranks[:-1]] = np.arange(len(values))  # where some value of each rank is
        at[never] = -1
        return at.take(np.where(ends > starts, found, never))


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


# -- adding up --------------------------------------------------------------------------------------------------------


class _Sum(Combiner):
    """Sums of whole numbers, a column each."""

    def of_one_place(self, columns: Sequence[str]) -> Sequence[Any] | None:
        return [agg.sum(c) for c in columns]

    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        ends = np.maximum(starts, ends)
        zero, *sums = (t.take(ends) - t.take(starts) for t in _totals(states))
        return self._columns(zero == 0, sums)

    def _columns(self, zero: Any, sums: Sequence[Ints]) -> Sequence[pa.Array]:
        mask = zero if zero.any() else None
        return [pa.array(s, pa.int64(), mask=mask) for s in sums]


def _totals(states: States) -> list[Any]:
    """Return how many states there are before each place, and the sums of their columns; one place more than states.

    They are Python's numbers where they may be beyond 64 bits.
    """
    columns: list[Any] = [_valid(states[0]).astype(np.int64), *map(_whole, states)]
    for i, column in enumerate(columns):
        if 2 * _largest(column) * len(column) > INT64_LIMIT:  # sums are differences of totals
            columns[i] = column.astype(object)
    return [np.concatenate((np.zeros(1, c.dtype), c.cumsum())) for c in columns]


def _largest(numbers: Ints) -> int:
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def _whole(column: pa.Array) -> Ints:
    filled = column.fill_null(0) if column.null_count else column
    numbers: Ints = filled.to_numpy(zero_copy_only=False)
    return numbers


@attrs.frozen
class Count(_Sum):
    """How many values there are."""

    types: tuple[DType, ...] = (INT64,)

    def state(self, value: Any) -> State:
        return (None if value is None else 1,)

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        one = lit(1).cast("int64")
        return values.with_columns(**{names[0]: when(col(argument).is_not_null(), one).otherwise(None)})

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        return sums.with_columns(**{result: col(names[0]).fill_null(0)})

    def combined(self, left: State, right: State) -> State:
        return (left[0] + right[0],)


@attrs.frozen
class WholeSum(_Sum):
    """A sum of whole numbers, in halves of 32 bits: the upper half counts what the lower overflows."""

    types: tuple[DType, ...] = (INT64, INT64)

    def of_one_place(self, columns: Sequence[str]) -> Sequence[Any] | None:
        """Return what adds lower halves up in halves themselves, for more than 2**31 of them are beyond 64 bits."""
        high, low = map(col, columns)
        below = agg.sum(low & _QUARTER_MASK)
        above = agg.sum(shiftright(low, _QUARTER)) + shiftright(below, _QUARTER)
        carried = agg.sum(high) + shiftright(above, _QUARTER)
        return [carried, shiftleft(above & _QUARTER_MASK, _QUARTER) + (below & _QUARTER_MASK)]

    def state(self, value: Any) -> State:
        return self.zero if value is None else (value >> _HALF, value & _MASK)

    def states_of(self, values: pa.Array) -> States:
        numbers, null = _whole(values).astype(np.int64), None if not values.null_count else ~_valid(values)
        return [pa.array(half, mask=null) for half in (numbers >> _HALF, numbers & _MASK)]

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        high, low = names
        whole = col(argument).cast("int64")
        return values.with_columns(**{high: shiftright(whole, _HALF), low: pmod(whole, lit(_MASK + 1))})

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        high, low = map(col, names)
        unit = lit(_MASK + 1)
        below = (high + 1) * unit + (low - unit)  # the least whole number of units would be one too low for int64 here
        return sums.with_columns(**{result: when(high < 0, below).otherwise(high * unit + low)})

    def combined(self, left: State, right: State) -> State:
        low = left[1] + right[1]
        high = left[0] + right[0] + (low >> _HALF)
        if abs(high) > INT64_LIMIT:
            msg = "a sum on the way is beyond 2**95"
            raise OverflowError(msg)
        return high, low & _MASK

    def _columns(self, zero: Any, sums: Sequence[Ints]) -> Sequence[pa.Array]:
        high, low = sums
        return super()._columns(zero, (high + (low >> _HALF), low & _MASK))
