"""Combiners computed value by value in Python: exact sums of floats and decimals, lists, a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from tidemill.algorithms.prefix_sums.columns import column_values
from tidemill.algorithms.prefix_sums.combiners import Combiner, State, States
from tidemill.boundary.exact_sums import Exact, sum_of, together
from tidemill.collections.table_functions import with_row_function
from tidemill.expressions.expr import col
from tidemill.expressions.schema import Field
from tidemill.expressions.table_functions import Column, Ints
from tidemill.expressions.types import BINARY, DType

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection


class InPython(Combiner):
    """A combiner with one column, taken one state after another. Blocks are few beside rows, so this is not dear."""

    @property
    def by_column(self) -> bool:
        return False

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        return with_row_function(values, _First(self.state), [argument], Field(names[0], self.types[0]))

    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        values = column_values(states[0])
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        return [self._column([self.whole((v,) for v in values[a:b])[0] for a, b in pairs])]

    def scan(self, states: States, offsets: Ints, before: States, *, inclusive: bool = False) -> Sequence[Column]:
        values, made = column_values(states[0]), []
        lists = zip(column_values(before[0]), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        for earlier, start, end in lists:
            running: State = (earlier,)
            for value in values[start:end]:
                after = self.whole((running, (value,)))
                made.append((after if inclusive else running)[0])
                running = after
        return [self._column(made)]

    def _column(self, values: list[Any]) -> pa.Array:
        return pa.array(values, self.types[0].arrow)


@attrs.frozen
class _First:
    """The only column of a state."""

    state: Callable[[Any], State]

    def __call__(self, value: Any) -> Any:
        return self.state(value)[0]


# -- a user's own -----------------------------------------------------------------------------------------------------


@attrs.frozen
class UserCombiner(InPython):
    """A user's function of two values; NULL takes no part, and a sum over nothing is the ``zero_value``."""

    function: Callable[[Any, Any], Any]
    zero_value: Any
    types: tuple[DType, ...]
    version: str | None = None
    """The user's name for this version of the function."""

    def state(self, value: Any) -> State:
        return (value,)

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        return values.with_columns(**{names[0]: col(argument)})

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        made = sums.with_columns(**{result: col(names[0])})
        return made if self.zero_value is None else made.fill_null({result: self.zero_value})

    def combined(self, left: State, right: State) -> State:
        return (self.function(left[0], right[0]),)


# -- lists ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Concatenation(InPython):
    """The list of all values, NULLs among them, or of the first or the last few."""

    types: tuple[DType, ...]
    first: int | None = None
    last: int | None = None

    def state(self, value: Any) -> State:
        return ((value,),)

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        return with_row_function(sums, _or_empty, names[:1], Field(result, self.types[0], nullable=False))

    def combined(self, left: State, right: State) -> State:
        return (self._kept(left[0] + right[0]),)

    def whole(self, states: Iterable[State]) -> State:
        some = [values for (values,) in states if values is not None]
        if not some:
            return self.zero
        # No list is empty, so that no more of them can count than values are kept.
        some = some[: self.first] if self.first else some[-self.last :] if self.last else some
        return (self._kept(tuple(chain.from_iterable(some))),)

    def _kept(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values[: self.first] if self.first else values[-self.last :] if self.last else values


def _or_empty(values: tuple[Any, ...] | None) -> tuple[Any, ...]:
    return values or ()


# -- exact sums -------------------------------------------------------------------------------------------------------


@attrs.frozen
class ExactSum(InPython):
    """A sum of numbers, or of a power of them, exact until it is rounded once; its state is a packed `Exact`."""

    of: DType
    result_type: DType
    power: int = 1
    types: tuple[DType, ...] = (BINARY,)

    def state(self, value: Any) -> State:
        return (None if value is None else packed(Exact.of(value, self.of, self.power)),)

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        return with_row_function(sums, _SumOf(self.of, self.result_type), names[:1], Field(result, self.result_type))

    def combined(self, left: State, right: State) -> State:
        return self.whole((left, right))

    def whole(self, states: Iterable[State]) -> State:
        some = [unpacked(s) for (s,) in states if s is not None]
        return (packed(together(some)) if some else None,)


@attrs.frozen
class _SumOf:
    """The value of a sum."""

    of: DType
    result: DType

    def __call__(self, state: bytes | None) -> Any:
        return None if state is None else sum_of(unpacked(state), self.of, self.result)


_SPECIAL: Final = {b"?": Exact(nan=1), b"+": Exact(plus=1), b"-": Exact(minus=1)}
"""Sums with NaN or infinities. No number is packed into one byte."""


def packed(total: Exact) -> bytes:
    """Return a sum as bytes, equal numbers as equal ones.

    >>> unpacked(packed(Exact(12, -3))) == Exact(3, -1), packed(Exact(0, 5)), packed(Exact(1, plus=1, minus=2))
    (True, b'', b'?')
    """
    if total.special is not None:
        return b"?" if total.special != total.special else b"+" if total.plus else b"-"
    if not total.whole:
        return b""
    zeros = (total.whole & -total.whole).bit_length() - 1
    number = total.whole >> zeros
    return (total.unit + zeros).to_bytes(2, signed=True) + number.to_bytes(number.bit_length() // 8 + 1, signed=True)


def unpacked(state: bytes) -> Exact:
    """Return the sum that was packed, whose unit may be larger."""
    if len(state) == 1:
        return _SPECIAL[state]
    return Exact(int.from_bytes(state[2:], signed=True), int.from_bytes(state[:2], signed=True))
