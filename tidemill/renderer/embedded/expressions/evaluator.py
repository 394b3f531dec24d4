"""Scalar expressions over Arrow columns: a bound tree becomes closures over ``pyarrow.compute`` kernels.

All that can be decided once is decided when compiling; running costs one kernel call or a few per node, on one row as
on a million. The meaning is that of ``renderer/reference/expressions.py``, against which this is tested.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import arrow_scalar, bool_array, int64_array, truths_of
from tidemill.errors import ExpressionError, brief
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral, walk
from tidemill.expressions.functions import values as meanings
from tidemill.expressions.intervals import INTERVALS
from tidemill.expressions.recursion_guard import recursion_guard
from tidemill.expressions.rewriting import can_fail
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.types import BINARY, BOOL, STRING
from tidemill.renderer.embedded.expressions.casts import cast_rule
from tidemill.renderer.embedded.expressions.dates import DATE_RULES
from tidemill.renderer.embedded.expressions.kernels import Apply, FailureError, Rule, kernel, spread
from tidemill.renderer.embedded.expressions.lists import NESTED_RULES
from tidemill.renderer.embedded.expressions.numbers import NUMBER_RULES
from tidemill.renderer.embedded.expressions.operators import OPERATOR_RULES
from tidemill.renderer.embedded.expressions.python_rule import python_rule
from tidemill.renderer.embedded.expressions.text import TEXT_RULES
from tidemill.renderer.embedded.kernels.hashing import xxhash64_columns

Columns: TypeAlias = Callable[[int], pa.Array]
"""Gives a column by its index; called only for columns that the expression uses."""

CompiledScalar: TypeAlias = Callable[[Columns | Sequence[pa.Array], int], pa.Array]

_invert = kernel("invert")
_TOO_MUCH: Final = "this text and those of other rows add up to more than 2 GiB: take fewer rows in a step"

# What a node compiles to.
_Node: TypeAlias = Callable[[Columns, int], Any]


def compile_scalar(bound: Bound) -> CompiledScalar:
    """Return a function from columns (a sequence, or a callable by index) and a number of rows to the array of values.

    It raises ``ExpressionError`` with the first offending row's index. Operands of AND and OR are evaluated on all
    rows; only where one fails are they evaluated anew, each on the rows for which none before it decides. The function
    compiles the expression when it is first called: in a large graph few operators have rows to begin with.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> late = compile_scalar(bind(col("delay") / 60 > 1, Schema.of({"delay": "int64"})))
    >>> late([pa.array([59, 61, None])], 3).to_pylist()
    [False, True, None]
    """
    dtype = bound.dtype.arrow

    @functools.cache
    def compiled() -> list[_Node]:
        nodes = [recursion_guard(_compile)(bound, _CHOICES)]
        if can_fail(bound) and any(isinstance(part, BoundCall) and part.function in _GUARDS for part in walk(bound)):
            nodes.append(recursion_guard(_compile)(bound, {**_CHOICES, **_GUARDS}))
        return nodes

    @recursion_guard
    def run(columns: Columns | Sequence[pa.Array], n: int) -> pa.Array:
        if n == 0:
            return pa.array([], dtype)
        get = columns if callable(columns) else columns.__getitem__
        failure = None
        for node in compiled():
            try:
                return _array(node(get, n), n)
            except FailureError as one:
                failure = one
        assert failure is not None, "there is a node, and it failed"
        raise _first_error(compiled()[-1], get, n, failure)

    return run


def _first_error(node: _Node, columns: Columns, n: int, failure: FailureError) -> ExpressionError:
    """Bisect for the first row that fails; evaluated alone, it also says exactly what failed, if that is no sum."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _failure(node, columns, low, middle) else (middle, high)
    failure = _failure(node, columns, low, high) or failure
    return ExpressionError(failure.reason, to_sql(failure.bound), low)


def _failure(node: _Node, columns: Columns, low: int, high: int) -> FailureError | None:
    try:
        node(lambda i: columns(i).slice(low, high - low), high - low)
    except FailureError as failure:
        return failure
    return None


# Compiling.


def _compile(bound: Bound, lazy: _Lazy) -> _Node:
    """Return a function that evaluates a tree; arguments that may fail are evaluated only on rows that need them."""
    if isinstance(bound, BoundColumn):
        index = bound.index
        return lambda columns, _n: columns(index)
    if isinstance(bound, BoundLiteral):
        if bound.dtype in INTERVALS:
            return lambda _columns, _n: None  # the rule of what it is added to knows it
        scalar = arrow_scalar(bound.value, bound.dtype.arrow)
        return lambda _columns, _n: scalar
    if bound.function == "in" and "in" in lazy and any(map(can_fail, bound.args[1:])):
        bound = _equal_to_any(bound)
    args = [_compile(a, lazy) for a in bound.args]
    return _call(bound, args, lazy) if bound.columns() else _constant(bound, args, lazy)


def _equal_to_any(bound: BoundCall) -> BoundCall:
    """Return an IN as the OR of comparisons that it is."""
    value, *options = bound.args
    return BoundCall("or", tuple(BoundCall("eq", (value, option), BOOL) for option in options), BOOL)


def _constant(bound: BoundCall, args: list[_Node], lazy: _Lazy) -> _Node:
    """Evaluate once, on one row; an error is kept for the rows that need the value."""
    node = _call(bound, [lambda c, _n, a=a: _repeated(a(c, 1)) for a in args], lazy)  # type: ignore[misc]
    try:
        scalar = node(_no_columns, 1)[0]
    except FailureError:
        return lambda columns, _n: node(columns, 1)[0]
    return lambda _columns, _n: scalar


def _repeated(scalar: Any) -> Any:
    return None if scalar is None else pa.repeat(scalar, 1)


def _no_columns(index: int) -> pa.Array:
    raise AssertionError(index)


def _call(bound: BoundCall, args: list[_Node], lazy: _Lazy) -> _Node:
    by_need = lazy.get(bound.function)
    if by_need is not None and any(map(can_fail, bound.args[1:])):
        return by_need(bound, args)
    apply = _cast(bound) if bound.function == "cast" else RULES.get(bound.function, python_rule)(bound)
    if bound.dtype in (STRING, BINARY):
        apply = _in_parts(bound, apply)
    if len(args) == 1:
        (x,) = args
        return lambda columns, n: apply(x(columns, n))
    if len(args) == 2:  # noqa: PLR2004 - most functions have two arguments, and this is quicker
        x, y = args
        return lambda columns, n: apply(x(columns, n), y(columns, n))
    return lambda columns, n: apply(*[a(columns, n) for a in args])


# What need not evaluate all of its arguments: each one on the rows it is for.


def _lazy_case(_bound: BoundCall, args: list[_Node]) -> _Node:
    conditions, values = args[:-1:2], [*args[1:-1:2], args[-1]]

    def run(columns: Columns, n: int) -> pa.Array:
        left, pieces = np.arange(n), []
        for condition, value in zip(conditions, values, strict=False):
            hits = truths_of(_evaluate(condition, columns, left))
            pieces.append((left[hits], _evaluate(value, columns, left[hits])))
            left = left[~hits]
            if not len(left):
                break
        else:
            pieces.append((left, _evaluate(values[-1], columns, left)))
        return _gather(pieces)

    return run


def _lazy_coalesce(_bound: BoundCall, args: list[_Node]) -> _Node:
    def run(columns: Columns, n: int) -> pa.Array:
        left, pieces = np.arange(n), []
        for arg in args:
            values = _evaluate(arg, columns, left)
            hits = np.ones(len(left), bool) if arg is args[-1] else truths_of(values.is_valid())
            pieces.append((left[hits], values.filter(bool_array(hits))))
            left = left[~hits]
            if not len(left):
                break
        return _gather(pieces)

    return run


def _lazy_logic(bound: BoundCall, args: list[_Node]) -> _Node:
    """AND and OR: NULL does not decide, and neither does an error, which is the row's then."""
    combine, decisive = RULES[bound.function](bound), bound.function == "or"

    def run(columns: Columns, n: int) -> pa.Array:
        left, pieces = np.arange(n), []
        result = pa.nulls(0)
        for i, arg in enumerate(args):
            values = _evaluate(arg, columns, left)
            result = combine(result, values) if i else values
            decided = truths_of(result if decisive else _invert(result))
            pieces.append((left[decided], result.filter(bool_array(decided))))
            left, result = left[~decided], result.filter(bool_array(~decided))
            if not len(left):
                break
        return _gather([*pieces, (left, result)])

    return run


def _evaluate(node: _Node, columns: Columns, rows: np.ndarray[Any, Any]) -> pa.Array:
    """Return a node's values for some of the rows; for none of them nothing is evaluated."""
    if not len(rows):
        return pa.nulls(0)
    indices = int64_array(rows)
    return _array(node(functools.cache(lambda i: columns(i).take(indices)), len(rows)), len(rows))


def _array(values: Any, n: int) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.repeat(values, n)


def _gather(pieces: list[tuple[np.ndarray[Any, Any], pa.Array]]) -> pa.Array:
    """Return the values of all pieces in the order of their rows."""
    known = [(rows, values) for rows, values in pieces if len(rows)]
    if len(known) == 1:
        return known[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in known]), kind="stable")
    return pa.concat_arrays([values for _, values in known]).take(int64_array(order))


_Lazy: TypeAlias = Mapping[str, Callable[[BoundCall, list[_Node]], _Node]]
"""Functions that are to evaluate arguments by need, where one after the first may fail."""

_CHOICES: Final[_Lazy] = {"case": _lazy_case, "coalesce": _lazy_coalesce}
_GUARDS: Final[_Lazy] = {"and": _lazy_logic, "or": _lazy_logic, "in": _lazy_logic}


# Rules.


def _in_parts(bound: BoundCall, apply: Apply) -> Apply:
    """Return the function of fewer rows at a time where Arrow sees that its 2 GiB for an array may not do."""

    def run(*values: Any) -> Any:
        try:
            return apply(*values)
        except pa.ArrowCapacityError:
            return halves(*values)

    def halves(*values: Any) -> pa.Array:
        n = max(len(v) for v in values if isinstance(v, pa.Array))
        if n > 1:
            ends = ((0, n // 2), (n // 2, n - n // 2))
            parts = [run(*(v.slice(*e) if isinstance(v, pa.Array) else v for v in values)) for e in ends]
            with contextlib.suppress(pa.ArrowInvalid):
                return pa.concat_arrays(parts)
        raise FailureError(bound, _TOO_MUCH)

    return run


def _cast(bound: BoundCall) -> Apply:
    convert, to = cast_rule(bound.args[0].dtype, bound.dtype), bound.dtype

    def apply(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, meanings.FailureError):
            given = value[0].as_py()
            text = brief(given) if isinstance(given, (str, bytes)) else str(given)
            raise FailureError(bound, f"{text} does not fit {to}") from None

    return apply


def _xxhash64(_bound: BoundCall) -> Apply:
    def apply(*values: Any) -> pa.Array:
        hashes = xxhash64_columns(spread(values))
        return int64_array(np.maximum(hashes, -(2**63) + 1))  # -2**63 is the engines' NULL

    return apply


# The functions that have kernels; the others are what they mean in Python. A rule takes the bound call, for its types,
# and returns the function.
RULES: Final[dict[str, Rule]] = {
    **OPERATOR_RULES, **NUMBER_RULES, **TEXT_RULES, **DATE_RULES, **NESTED_RULES, "xxhash64": _xxhash64,
}  # fmt: skip
