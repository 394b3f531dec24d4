"""Comparisons of whole numbers, dates and times with constants: on the codes, without columns of Arrow's."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.functions.operators import MIRRORED
from tidemill.expressions.rewriting import conditions
from tidemill.renderer.embedded.kernels.codec import Interner, encoder
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Rows

Passing: TypeAlias = Callable[[Rows], Bools]
"""Marks the updates for whose rows a predicate is true."""


def compile_comparisons(bound: Bound, interner: Interner) -> Passing | None:
    """Return a function that marks the rows for which all of a few comparisons are true; None for any other predicate.

    >>> import numpy as np
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> from tidemill.expressions.binding import bind
    >>> passing = compile_comparisons(bind(expr("a < 3 and 1 <= a"), Schema.of({"a": "int64"})), Interner())
    >>> passing(np.array([[0, 1, 2, 3, -(2**63)]]))
    array([False,  True,  True, False, False])
    """
    tests: list[_Test] = []
    for condition in conditions(bound):
        test = _compared(condition, interner)
        if test is None:
            return None
        tests.append(test)

    def passing(updates: Rows) -> Bools:
        return functools.reduce(operator.and_, [_passed(updates, *test) for test in tests])

    return passing


_Test: TypeAlias = tuple[int, Callable[[Any, Any], Any], int]
"""A column, how it compares, and the code of the constant."""


def _passed(updates: Rows, index: int, compare: Callable[[Any, Any], Any], constant: int) -> Bools:
    codes = updates[index]
    passed: Bools = compare(codes, constant)
    if compare in _TRUE_OF_NULL:
        passed &= codes != NULL
    return passed


def _compared(condition: Bound, interner: Interner) -> _Test | None:
    """Return a comparison of a column with a constant; None for any other condition."""
    if not isinstance(condition, BoundCall) or condition.function not in _COMPARE:
        return None
    left, right = map(_narrow, condition.args)
    name = condition.function
    if isinstance(left, BoundLiteral):
        left, right, name = right, left, MIRRORED[name]
    if not isinstance(left, BoundColumn) or not isinstance(right, BoundLiteral) or right.value is None:
        return None
    both_whole = left.dtype.is_integer and right.dtype.is_integer
    if not both_whole and (left.dtype != right.dtype or left.dtype.name not in {"date", "timestamp"}):
        return None
    code = encoder(right.dtype, interner)(right.value)
    return None if code == NULL else (left.index, _COMPARE[name], code)


def _narrow(bound: Bound) -> Bound:
    """Return what a column is made of that was made wider to be compared: its codes are the same."""
    if not isinstance(bound, BoundCall) or bound.function != "cast" or bound.dtype.name != "int64":
        return bound
    (given,) = bound.args
    return given if given.dtype.name == "int32" else bound


_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {name: getattr(operator, name) for name in MIRRORED}
_TRUE_OF_NULL: Final = frozenset((operator.lt, operator.le, operator.ne))
"""Whose result is true for the code of NULL, which is less than any other."""
