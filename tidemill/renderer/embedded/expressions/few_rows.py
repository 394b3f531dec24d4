"""Scalar expressions for a few rows: value by value in Python, where each kernel's call costs more than its work.

An expression of functions that are quick in Python is taken as its meaning in the registry, which kernels are tested
against. Where a row has no value, whoever asks goes on with kernels: these say which row it was, and why.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tidemill.boundary.rows import plain_values
from tidemill.errors import ExpressionError
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral, walk
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.functions.xxhash import is_word, xxhash64_of_words
from tidemill.expressions.intervals import INTERVALS
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.kernels.codec import Interner, decoder
from tidemill.renderer.embedded.kernels.updates import NULL, UpdateArray

FEW_ROWS: Final = 4
"""Up to how many rows Python beats kernels."""
_MANY: Final = 50
"""How many calls in an expression are too many to be quick in Python."""
_QUICK: Final = frozenset((
    "add", "and", "case", "coalesce", "date_trunc", "eq", "eq_null_safe", "field", "ge", "get", "gt", "in", "is_null",
    "le", "lt", "multiply", "named_struct", "ne", "negate", "not", "or", "size", "subtract", "xxhash64",
))  # fmt: skip

_NUMBERS: Final = frozenset(("int32", "int64", "float64"))

RowScalar: TypeAlias = Callable[[Sequence[Any]], Any]
"""Gives the value for a row; ``FailureError`` where it has none."""


def compile_row_scalar(bound: Bound) -> RowScalar | None:
    """Return a function of a row's values; None for an expression with functions that are not quick in Python.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> late = compile_row_scalar(bind(col("delay") + 1 > 60, Schema.of({"delay": "int64"})))
    >>> late((59,)), late((60,)), late((None,))
    (False, True, None)
    """
    calls = (part for part in walk(bound) if isinstance(part, BoundCall))
    some = list(itertools.islice(calls, _MANY))
    if len(some) == _MANY:
        return None
    parts = [part for part in some if part.columns()]  # what has none is computed but once
    if not all(map(_is_quick, parts)):
        return None
    if any(a.dtype in INTERVALS for part in parts for a in part.args):
        return None
    try:
        return _compile(bound)
    except ExpressionError:  # a constant without a value, which some rows may not need
        return None


def _is_quick(call: BoundCall) -> bool:
    if call.function == "cast":
        return {call.dtype.name, call.args[0].dtype.name} <= _NUMBERS
    return call.function in _QUICK


def _compile(bound: Bound) -> RowScalar:
    if isinstance(bound, BoundColumn):
        return operator.itemgetter(bound.index)
    if isinstance(bound, BoundLiteral) and type(bound.value) in _AS_THEY_ARE:
        as_it_is = bound.value
        return lambda _row: as_it_is
    if isinstance(bound, BoundLiteral) or not bound.columns():
        value = plain_values(compile_scalar(bound)([], 1))[0]
        return lambda _row: value
    if bound.function == "cast":
        given, to, value_of = bound.args[0].dtype, bound.dtype, _compile(bound.args[0])
        return lambda row: None if (v := value_of(row)) is None else cast_value(v, given, to)
    args, function = [_compile(a) for a in bound.args], FUNCTIONS[bound.function]
    if function.lazy:
        choose = function.python
        return lambda row: choose(*[functools.partial(a, row) for a in args])
    types, result = tuple(a.dtype for a in bound.args), bound.dtype
    return lambda row: function.value([a(row) for a in args], types, result)


_AS_THEY_ARE: Final = (bool, int, str)
"""Values that going through Arrow does not change."""


class FewRows:
    """The values that expressions use of a few rows, and what the expressions give for them.

    Expressions are compiled when there are first few rows.
    """

    def __init__(self, schema: Schema, expressions: Sequence[Bound], interner: Interner) -> None:
        self._schema, self._expressions, self._interner = schema, expressions, interner
        self._width = len(schema)

    @functools.cached_property
    def _scalars(self) -> list[RowScalar | None]:
        return [compile_row_scalar(e) for e in self._expressions]

    @functools.cached_property
    def is_quick(self) -> bool:
        """Whether all expressions are for Python."""
        return None not in self._scalars

    @functools.cached_property
    def _hashed(self) -> list[list[int] | None]:
        """The columns of expressions that are computed from the codes as they are, hashes of these."""
        return [_words_hashed(e) for e in self._expressions]

    @functools.cached_property
    def _used(self) -> list[tuple[int, Callable[[int], Any]]]:
        """The columns that the others read, and their decoders."""
        others = [e for e, words in zip(self._expressions, self._hashed, strict=True) if words is None]
        used = sorted({i for e in others for i in e.columns()})
        return [(i, decoder(self._schema.fields[i].dtype, self._interner)) for i in used]

    def values(self, updates: UpdateArray) -> list[list[Any]] | None:
        """Return the values of each expression for all rows; None where they are many, not quick, or one has none."""
        n = updates.shape[1]
        return self.of_lists(updates.tolist(), n) if n <= FEW_ROWS and self.is_quick else None

    def of_lists(self, updates: list[list[int]], count: int) -> list[list[Any]] | None:
        """Like `values`, for a few updates given as lists, where all expressions are for Python."""
        rows: list[list[Any]] = [[None] * self._width for _ in range(count)]
        for i, value_of in self._used:
            for row, code in zip(rows, updates[i], strict=True):
                if code != NULL:
                    row[i] = value_of(code)
        try:
            return [
                [scalar(row) for row in rows] if words is None else _hashes([updates[i] for i in words])
                for scalar, words in zip(self._scalars, self._hashed, strict=True)
                if scalar is not None
            ]
        except FailureError:
            return None


def _words_hashed(bound: Bound) -> list[int] | None:
    """Return the columns of which an expression is the hash, if their codes are the numbers that are hashed."""
    if not isinstance(bound, BoundCall) or bound.function != "xxhash64":
        return None
    columns = [a.index for a in bound.args if isinstance(a, BoundColumn) and is_word(a.dtype)]
    return columns if 0 < len(columns) == len(bound.args) else None


def _hashes(columns: list[list[int]]) -> list[int]:
    """Return the hashes of rows, whose codes are given by columns."""
    words = zip(*([None if c == NULL else c for c in column] for column in columns), strict=True)
    return [max(xxhash64_of_words(row), NULL + 1) for row in words]
