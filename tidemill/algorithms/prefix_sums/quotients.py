"""Combiners made of others: mean and variance from sums, and others over distinct values or the last ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms.prefix_sums.columns import ranges, sort_key
from tidemill.algorithms.prefix_sums.combiners import Combiner, Count, State, States, WholeSum, lined_up, split
from tidemill.algorithms.prefix_sums.python_combiners import ExactSum, InPython, unpacked
from tidemill.boundary.exact_sums import Exact, mean, root, variance
from tidemill.boundary.list_columns import list_array, list_parts
from tidemill.collections.table_functions import with_row_function
from tidemill.expressions.schema import Field
from tidemill.expressions.table_functions import Column, Ints, arrow_of
from tidemill.expressions.types import FLOAT64, DType, list_type

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

# -- computed from several sums ---------------------------------------------------------------------------------------


@attrs.frozen
class Quotient(Combiner):
    """Several sums over the same values, and what is computed from them at the end."""

    sums: tuple[Combiner, ...]
    function: str
    """The quotient: see `_Quotient`."""
    of: DType
    result_type: DType

    @property
    def types(self) -> tuple[DType, ...]:  # type: ignore[override]
        """The types of the sums' states, one after the other."""
        return tuple(t for s in self.sums for t in s.types)

    @classmethod
    def avg(cls, of: DType, result: DType) -> Quotient:
        """Return the mean: of whole numbers and decimals rounded once, of floats the rounded sum's quotient."""
        total = WholeSum() if of.is_integer else ExactSum(of, result)
        return cls((total, Count()), "avg", of, result)

    @classmethod
    def spread(cls, of: DType, *, root: bool) -> Quotient:
        """Return the sample variance, rounded once, or its root."""
        sums = (ExactSum(of, FLOAT64), ExactSum(of, FLOAT64, power=2), Count())
        return cls(sums, "stddev" if root else "variance", of, FLOAT64)

    def state(self, value: Any) -> State:
        return tuple(v for s in self.sums for v in s.state(value))

    def states_of(self, values: pa.Array) -> States:
        return [column for s in self.sums for column in s.states_of(values)]

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        for one, columns in split(self.sums, names):
            values = one.lifted(values, argument, columns)
        return values

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        made = _Quotient(self.function, self.of, self.result_type)
        return with_row_function(sums, made, names, Field(result, self.result_type))

    def combined(self, left: State, right: State) -> State:
        pairs = zip(split(self.sums, left), split(self.sums, right), strict=True)
        return tuple(v for (one, a), (_, b) in pairs for v in one.combined(tuple(a), tuple(b)))

    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        return [c for one, own in split(self.sums, states) for c in one.fold(own, starts, ends)]

    def scan(self, states: States, offsets: Ints, before: States, *, inclusive: bool = False) -> Sequence[Column]:
        pairs = zip(split(self.sums, states), split(self.sums, before), strict=True)
        scans = (one.scan(own, offsets, earlier, inclusive=inclusive) for (one, own), (_, earlier) in pairs)
        return [column for columns in scans for column in columns]

    def of_one_place(self, columns: Sequence[str]) -> Sequence[Any] | None:
        parts = [one.of_one_place(own) for one, own in split(self.sums, columns)]
        return None if any(part is None for part in parts) else [a for part in parts if part is not None for a in part]

    @property
    def by_column(self) -> bool:
        return all(s.by_column for s in self.sums)


@attrs.frozen
class _Quotient:
    """The mean, the sample variance or its root, from the states of sums and a count; NULL where there are none."""

    function: str
    of: DType
    result: DType

    def __call__(self, *states: Any) -> Any:
        if states[0] is None:
            return None
        *sums, count = states
        if self.function == "avg":
            total = Exact((sums[0] << 32) + sums[1]) if self.of.is_integer else unpacked(sums[0])
            return mean(total, count, self.of, self.result)
        total, squares = map(unpacked, sums)
        found = variance(total, squares, count, self.of)
        return found if found is None or self.function == "variance" else root(found)


# -- of values that are kept --------------------------------------------------------------------------------------


class _OfValues(InPython):
    """Some of the values, as a list, and in the end what another combiner makes of them."""

    made: Combiner
    of: DType

    @property
    def types(self) -> tuple[DType, ...]:  # type: ignore[override]
        """The type of the list."""
        return (list_type(self.of),)

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        columns = [f"part {i} {names[0]}" for i in range(len(self.made.types))]
        for i, (name, dtype) in enumerate(zip(columns, self.made.types, strict=True)):
            sums = with_row_function(sums, _StateOf(self, i), names[:1], Field(name, dtype))
        return self.made.finished(sums, columns, result)

    def combined(self, left: State, right: State) -> State:
        return self.whole((left, right))

    def taken(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return those of the values kept that count in the end."""
        return values


@attrs.frozen
class DistinctValues(_OfValues):
    """The different values that are not NULL, sorted, and in the end what another combiner makes of them."""

    made: Combiner
    of: DType

    def state(self, value: Any) -> State:
        return (None,) if value is None else ((value,),)

    def whole(self, states: Iterable[State]) -> State:
        found = {sort_key(v): v for (values,) in states if values is not None for v in values}
        return (tuple(found[key] for key in sorted(found)) or None,)


@attrs.frozen
class LastValues(_OfValues):
    """The values of the last ``kept`` rows; in the end another combiner's result over all but the last ``left_out``."""

    made: Combiner
    of: DType
    kept: int
    left_out: int

    def state(self, value: Any) -> State:
        return ((value,),)

    def whole(self, states: Iterable[State]) -> State:
        some = [values for (values,) in states if values is not None][-self.kept :]  # none of them is empty
        return (tuple(chain.from_iterable(some))[-self.kept :] or None,)

    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        values, starts, ends = self._values(states, starts, ends)
        lengths = ends - starts
        return [list_array(values.take(pa.array(ranges(starts, lengths))), lengths, lengths == 0)]

    def _values(self, states: States, starts: Ints, ends: Ints) -> tuple[pa.Array, Ints, Ints]:
        """Return all values, and where the last ones of the states from each start to before each end are."""
        values, lengths = list_parts(arrow_of(states[0]))
        before = np.append(0, lengths.cumsum())
        ends = before.take(np.maximum(starts, ends))
        return values, np.maximum(before.take(starts), ends - self.kept), ends

    def taken(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values[: max(len(values) - self.left_out, 0)]

    @property
    def at_rows(self) -> Combiner:
        """The other combiner, where that works on columns: then there is no list for each row."""
        return self.made if self.made.by_column else self

    def row_state(self, state: State) -> State:
        return self.made.whole(map(self.made.state, self.taken(state[0] or ()))) if self.made.by_column else state

    scan = Combiner.scan

    def scan_rows(self, states: States, offsets: Ints, before: States, *, inclusive: bool) -> Sequence[Column]:
        if not self.made.by_column:
            return self.scan(states, offsets, before, inclusive=inclusive)
        values, starts, ends = self._values(*lined_up(states, offsets, before, inclusive=inclusive))
        return self.made.fold(self.made.states_of(values), starts, np.maximum(ends - self.left_out, starts))


@attrs.frozen
class _StateOf:
    """One column of the state of some values."""

    combiner: _OfValues
    column: int

    def __call__(self, values: tuple[Any, ...] | None) -> Any:
        made = self.combiner.made
        return made.whole(map(made.state, self.combiner.taken(values or ())))[self.column]
