"""Combiners worked out value by value in Python: exact sums of floats and decimals, lists, a user's own."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.algorithms.prefix_sums.combiners import Combiner, State, States
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import col
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.table_functions import Column, Ints, ListColumn, TableFunction
from tidemill.expressions.types import BINARY, FLOAT64, DType

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["Concatenation", "ExactSum", "UserCombiner"]


class _InPython(Combiner):
    """A combiner with one column, taken one state after another. Blocks are few beside rows, so this is not dear."""

    def fold(self, states: States, starts: Ints, ends: Ints) -> Sequence[Column]:
        values = _python(states[0])
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        return [self._column([self.whole((v,) for v in values[a:b])[0] for a, b in pairs])]

    def scan(self, states: States, offsets: Ints, before: States) -> Sequence[Column]:
        values, made = _python(states[0]), []
        for earlier, start, end in zip(_python(before[0]), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            running: State = (earlier,)
            for value in values[start:end]:
                made.append(running[0])
                running = self.whole((running, (value,)))
        return [self._column(made)]

    def _column(self, values: list[Any]) -> pa.Array:
        return pa.array(values, self.types[0].arrow)


def _python(column: pa.Array) -> list[Any]:
    """Return values as rows have them, lists as tuples."""
    values: list[Any] = column.to_pylist()
    return [_tuples(v) for v in values] if pa.types.is_list(column.type) else values


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# -- a user's own -----------------------------------------------------------------------------------------------------


@attrs.frozen
class UserCombiner(_InPython):
    """What a user's function makes of two values; NULL takes no part, and a sum over nothing is the ``zero_value``."""

    function: Callable[[Any, Any], Any]
    zero_value: Any
    types: tuple[DType, ...]

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        return values.with_columns(**{names[0]: col(argument)})

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        made = sums.with_columns(**{result: col(names[0])})
        return made if self.zero_value is None else made.fill_null({result: self.zero_value})

    def combined(self, left: State, right: State) -> State:
        return (self.function(left[0], right[0]),)


# -- lists ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Concatenation(_InPython):
    """The list of all values, NULLs among them, or of the last so many."""

    types: tuple[DType, ...]
    last: int | None = None

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        return _each(values, _alone, argument, Field(names[0], self.types[0]))

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        return _each(sums, _or_empty, names[0], Field(result, self.types[0], nullable=False))

    def combined(self, left: State, right: State) -> State:
        together = left[0] + right[0]
        return (together if self.last is None else together[-self.last :],)

    def whole(self, states: Iterable[State]) -> State:
        some = [values for (values,) in states if values is not None]
        if not some:
            return self.zero
        together = tuple(chain.from_iterable(some[-self.last :] if self.last else some))
        return (together[-self.last :] if self.last else together,)


def _alone(value: Any) -> tuple[Any, ...]:
    return (value,)


def _or_empty(values: tuple[Any, ...] | None) -> tuple[Any, ...]:
    return values or ()


# -- exact sums -------------------------------------------------------------------------------------------------------


@attrs.frozen
class ExactSum(_InPython):
    """A sum of floats or decimals, exact until it is rounded once.

    A state is a whole number of units, with the unit's exponent of two before it: see `_packed`.
    """

    of: DType
    result_type: DType
    types: tuple[DType, ...] = (BINARY,)

    def lifted(self, values: Collection, argument: str, names: Sequence[str]) -> Collection:
        pack = _PackedDecimal(self.of.scale) if self.of.is_decimal else _packed_float
        return _each(values, pack, argument, Field(names[0], BINARY))

    def finished(self, sums: Collection, names: Sequence[str], result: str) -> Collection:
        done = _float_of if self.result_type == FLOAT64 else _DecimalOf(self.result_type)
        return _each(sums, done, names[0], Field(result, self.result_type))

    def combined(self, left: State, right: State) -> State:
        return self.whole((left, right))

    def whole(self, states: Iterable[State]) -> State:
        some = [s for (s,) in states if s is not None]
        special = {s for s in some if s in _SPECIAL}
        if special:
            return (special.pop() if len(special) == 1 else _NAN,)
        numbers = list(map(_unpacked, some))
        least = min((exponent for _, exponent in numbers), default=0)
        total = sum(number << exponent - least for number, exponent in numbers)
        return (_packed(total, least) if some else None,)


_NAN, _PLUS, _MINUS = b"?", b"+", b"-"
_SPECIAL: Final = {_NAN: math.nan, _PLUS: math.inf, _MINUS: -math.inf}
"""What sums with such values come to. No number is packed into one byte."""


def _packed(number: int, exponent: int) -> bytes:
    """Return a whole number times a power of two as bytes, equal numbers as equal ones.

    >>> _unpacked(_packed(12, -3)), _packed(0, 5)
    ((3, -1), b'')
    """
    if not number:
        return b""
    zeros = (number & -number).bit_length() - 1
    number >>= zeros
    size = number.bit_length() // 8 + 1
    return (exponent + zeros).to_bytes(2, signed=True) + number.to_bytes(size, signed=True)


def _unpacked(packed: bytes) -> tuple[int, int]:
    return int.from_bytes(packed[2:], signed=True), int.from_bytes(packed[:2], signed=True)


def _packed_float(value: float | None) -> bytes | None:
    if value is None:
        return None
    if not math.isfinite(value):
        return _NAN if math.isnan(value) else _PLUS if value > 0 else _MINUS
    number, unit = value.as_integer_ratio()
    return _packed(number, 1 - unit.bit_length())


@attrs.frozen
class _PackedDecimal:
    """Packs a decimal as how often it has the unit of its last place."""

    scale: int

    def __call__(self, value: decimal.Decimal | None) -> bytes | None:
        return None if value is None else _packed(int(value.scaleb(self.scale, _EXACT)), 0)


def _float_of(packed: bytes | None) -> float | None:
    """Return the float next to a packed number."""
    if packed is None or packed in _SPECIAL:
        return None if packed is None else _SPECIAL[packed]
    number, exponent = _unpacked(packed)
    try:
        return number / (1 << -exponent) if exponent < 0 else float(number << exponent)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@attrs.frozen
class _DecimalOf:
    """Gives the decimal of a packed number; it has to fit its type."""

    dtype: DType

    def __call__(self, packed: bytes | None) -> decimal.Decimal | None:
        if packed is None:
            return None
        number, exponent = _unpacked(packed)
        units = number << exponent
        if abs(units) >= 10**self.dtype.precision:
            msg = f"the sum does not fit {self.dtype}"
            raise OverflowError(msg)
        return decimal.Decimal(units).scaleb(-self.dtype.scale, _EXACT)


_EXACT: Final = decimal.Context(prec=80)


# -- functions of one value -------------------------------------------------------------------------------------------


@attrs.frozen
class _Each(TableFunction):
    """A function of one value, called for each."""

    function: Callable[[Any], Any]
    result: Field

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__).strip("_")

    def schema(self, arguments: Schema) -> Schema:
        del arguments
        return Schema((self.result,))

    def rows(self, *arguments: Any) -> Iterable[State]:
        return [(self.function(*arguments),)]

    def columns(self, *arguments: Any) -> tuple[Ints, Sequence[Column]]:
        (given,) = arguments
        column = given.to_arrow() if isinstance(given, ListColumn) else given
        made = [self.function(v) for v in _python(column)]
        return np.arange(len(made)), [pa.array(made, self.result.dtype.arrow)]


def _each(rows: Collection, function: Callable[[Any], Any], argument: str, result: Field) -> Collection:
    return apply_table(rows, _Each(function, result), [argument], keep=rows.schema.names)
