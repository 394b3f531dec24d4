"""Sums and products, of decimals and integers, in 64 bits: on codes, where the values there are leave room for results.

The types of exact products have 30 digits and more, the values mostly few. From the least and the greatest value of
each column follows between which bounds every result is: where these fit a code and the type's digits, nothing can
overflow, and whole columns are added and multiplied as they are. Where they do not, whoever asks goes on with decimals
of 128 bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.errors import ExpressionError
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral, walk
from tidemill.expressions.types import DType
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.interner import SHORT
from tidemill.renderer.embedded.kernels.long_decimals import unscaled
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray

_FEW: Final = 48
"""Rows of which a call of NumPy's costs more than its work."""
_MANY: Final = 50
"""So many calls in an expression are not looked at."""

OnCodes: TypeAlias = Callable[[UpdateArray], "Ints | None"]
"""Gives the codes of an expression for the rows of updates; None where they may be too large."""


class _Numbers(NamedTuple):
    """Whole numbers, all of a column or one, and bounds that none is beyond."""

    values: Any
    least: int
    greatest: int


class _TooLargeError(Exception):
    """Results may not fit."""


class _Rows:
    """The codes of rows, each column looked through once."""

    def __init__(self, updates: UpdateArray) -> None:
        self._updates = updates
        self._known: dict[int, _Numbers] = {}
        self.null: Any = None
        """Where one of the columns that were asked for is NULL, if anywhere."""

    def column(self, index: int) -> _Numbers:
        found = self._known.get(index)
        if found is None:
            codes = self._updates[index]
            least, greatest = _ends(codes)
            if least == NULL:
                null = codes == NULL
                self.null = null if self.null is None else self.null | null
                codes = np.where(null, 0, codes)
                least, greatest = _ends(codes)
            found = self._known[index] = _fitting(codes, least, greatest, SHORT)
        return found


def _ends(codes: Ints) -> tuple[int, int]:
    """Return the least and the greatest code: of a few, Python finds them sooner."""
    if len(codes) > _FEW:
        return int(codes.min()), int(codes.max())
    numbers = codes.tolist()
    return min(numbers), max(numbers)


_Node: TypeAlias = Callable[[_Rows], _Numbers]


def compile_on_codes(bound: Bound) -> OnCodes | None:
    """Return what computes an expression on codes; None where it has more than sums and products of exact numbers.

    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> from tidemill.expressions.binding import bind
    >>> price = bind(expr("price * (1 - discount)"), Schema.of({"price": "decimal(15,2)", "discount": "decimal(15,2)"}))
    >>> compute = compile_on_codes(price)
    >>> compute(np.array([[1050, 2**60], [10, 20]])[:, :1]), compute(np.array([[1050, 2**60], [10, 20]]))
    (array([94500]), None)
    """
    some = list(itertools.islice((part for part in walk(bound) if isinstance(part, BoundCall)), _MANY))
    if not some or len(some) == _MANY or not _is_exact(bound.dtype) or not bound.columns():
        return None
    node = _compile(bound)
    if node is None:
        return None

    def run(updates: UpdateArray) -> Ints | None:
        if not updates.shape[1]:
            return None
        rows = _Rows(updates)
        try:
            found: Ints = node(rows).values
        except _TooLargeError:
            return None
        return found if rows.null is None else np.where(rows.null, NULL, found)

    return run


def _compile(bound: Bound) -> _Node | None:
    if not _is_exact(bound.dtype):
        return None
    if isinstance(bound, BoundColumn):
        index = bound.index
        return lambda rows: rows.column(index)
    if isinstance(bound, BoundLiteral) or not bound.columns():
        return _constant(bound)
    of = _RULES.get(bound.function)
    args = [_compile(a) for a in bound.args] if of is not None else [None]
    known = [a for a in args if a is not None]
    return of(bound, known) if of is not None and len(known) == len(args) else None


def _is_exact(dtype: DType) -> bool:
    return dtype.is_decimal or dtype.is_integer


def _constant(bound: Bound) -> _Node | None:
    try:
        (value,) = compile_scalar(bound)([], 1).to_pylist()
    except ExpressionError:
        return None
    if value is None:
        return None
    number = unscaled(value, bound.dtype.scale) if bound.dtype.is_decimal else value
    if abs(number) >= SHORT:
        return None
    return lambda _rows: _Numbers(number, number, number)


def _sum(bound: BoundCall, args: list[_Node]) -> _Node | None:
    scale, limit = bound.dtype.scale, _limit(bound.dtype)
    if scale != max(a.dtype.scale for a in bound.args):
        return None  # it is rounded
    (x, y), (x_unit, y_unit) = args, (10 ** (scale - a.dtype.scale) for a in bound.args)
    minus = bound.function == "subtract"

    def run(rows: _Rows) -> _Numbers:
        a, b = _times(x(rows), x_unit), _times(y(rows), y_unit)
        if minus:
            least, greatest = a.least - b.greatest, a.greatest - b.least
        else:
            least, greatest = a.least + b.least, a.greatest + b.greatest
        _fitting(None, least, greatest, limit)
        return _Numbers(a.values - b.values if minus else a.values + b.values, least, greatest)

    return run


def _product(bound: BoundCall, args: list[_Node]) -> _Node | None:
    limit = _limit(bound.dtype)
    if bound.dtype.scale != sum(a.dtype.scale for a in bound.args):
        return None  # it is rounded
    x, y = args

    def run(rows: _Rows) -> _Numbers:
        a, b = x(rows), y(rows)
        ends = [one * other for one in (a.least, a.greatest) for other in (b.least, b.greatest)]
        least, greatest = min(ends), max(ends)
        _fitting(None, least, greatest, limit)
        return _Numbers(a.values * b.values, least, greatest)

    return run


def _negated(_bound: BoundCall, args: list[_Node]) -> _Node:
    (x,) = args

    def run(rows: _Rows) -> _Numbers:
        a = x(rows)
        return _Numbers(-a.values, -a.greatest, -a.least)

    return run


def _cast(bound: BoundCall, args: list[_Node]) -> _Node | None:
    (x,), limit = args, _limit(bound.dtype)
    places = bound.dtype.scale - bound.args[0].dtype.scale
    if places < 0:
        return None  # it is rounded

    def run(rows: _Rows) -> _Numbers:
        a = _times(x(rows), 10**places)
        return _fitting(a.values, a.least, a.greatest, limit)

    return run


def _times(numbers: _Numbers, unit: int) -> _Numbers:
    if unit == 1:
        return numbers
    least, greatest = numbers.least * unit, numbers.greatest * unit
    _fitting(None, least, greatest, SHORT)
    return _Numbers(numbers.values * unit, least, greatest)


def _limit(dtype: DType) -> int:
    """Return a number that all results of a type that fit are below."""
    if dtype.is_integer:
        return 1 << 31 if dtype.name == "int32" else SHORT
    digits: int = 10**dtype.precision
    return min(digits, SHORT)


def _fitting(values: Any, least: int, greatest: int, limit: int) -> _Numbers:
    """Return numbers, if none can be too large."""
    if least <= -limit or greatest >= limit:
        raise _TooLargeError
    return _Numbers(values, least, greatest)


_RULES: Final[dict[str, Callable[[BoundCall, list[_Node]], _Node | None]]] = {
    "add": _sum,
    "subtract": _sum,
    "multiply": _product,
    "negate": _negated,
    "cast": _cast,
}
