"""Scalar expressions over Arrow columns: a bound tree becomes closures over ``pyarrow.compute`` kernels.

All that can be decided once is decided when compiling; running costs one kernel call or a few per node, on one row as
on a million. The meaning is that of ``renderer/reference/scalar.py``, against which this is tested.
"""

from __future__ import annotations

import decimal
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.collections.binding import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.collections.functions import FUNCTIONS, widens
from tidemill.collections.types import FLOAT64, INT64
from tidemill.errors import ExpressionError
from tidemill.renderer.embedded.scalar_casts import by_distinct, cast_rule, round_decimal

__all__ = ["Columns", "CompiledScalar", "compile_scalar"]

Columns: TypeAlias = Callable[[int], pa.Array]
"""Gives a column by its index; called only for columns that the expression uses."""

CompiledScalar: TypeAlias = Callable[[Columns | Sequence[pa.Array], int], pa.Array]

# What a node compiles to, and what a function of the registry does to its arguments' values: arrays or, for constants,
# scalars, but at least one array.
_Node: TypeAlias = Callable[[Columns, int], Any]
_Apply: TypeAlias = Callable[..., Any]


class _FailureError(Exception):
    """A kernel refused a batch. Which row it was is looked for afterwards: there mostly is none."""

    def __init__(self, bound: BoundCall, reason: str) -> None:
        self.bound = bound
        self.reason = reason


def compile_scalar(bound: Bound) -> CompiledScalar:
    """Return a function from columns (a sequence, or a callable by index) and a number of rows to the array of values.

    It raises ``ExpressionError`` with the first offending row's index.

    >>> from tidemill.collections.binding import bind
    >>> from tidemill.collections.expressions import col
    >>> from tidemill.collections.schema import Schema
    >>> late = compile_scalar(bind(col("delay") / 60 > 1, Schema.of({"delay": "int64"})))
    >>> late([pa.array([59, 61, None])], 3).to_pylist()
    [False, True, None]
    """
    node, dtype = _compile(bound), bound.dtype.arrow

    def run(columns: Columns | Sequence[pa.Array], n: int) -> pa.Array:
        if n == 0:
            return pa.array([], dtype)
        get = columns if callable(columns) else columns.__getitem__
        try:
            values = node(get, n)
        except _FailureError:
            raise _first_error(node, get, n) from None
        return values if isinstance(values, pa.Array) else pa.repeat(values, n)

    return run


def _first_error(node: _Node, columns: Columns, n: int) -> ExpressionError:
    """Bisect for the first row that fails; evaluated alone, it also says exactly what failed."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _failure(node, columns, low, middle) else (middle, high)
    failure = _failure(node, columns, low, high)
    assert failure is not None
    return ExpressionError(failure.reason, failure.bound.sql(), low)


def _failure(node: _Node, columns: Columns, low: int, high: int) -> _FailureError | None:
    try:
        node(lambda i: columns(i).slice(low, high - low), high - low)
    except _FailureError as failure:
        return failure
    return None


# Compiling.


def _compile(bound: Bound) -> _Node:
    if isinstance(bound, BoundColumn):
        index = bound.index
        return lambda columns, _n: columns(index)
    if isinstance(bound, BoundLiteral):
        scalar = pa.scalar(bound.value, bound.dtype.arrow)
        return lambda _columns, _n: scalar
    if not bound.columns():
        return _constant(bound)
    return _call(bound, [_compile(a) for a in bound.args])


def _constant(bound: BoundCall) -> _Node:
    """Evaluate once, on one row; an error is kept for the rows that need the value."""
    args = [_compile(a) for a in bound.args]
    node = _call(bound, [lambda c, _n, a=a: pa.repeat(a(c, 1), 1) for a in args])  # type: ignore[misc]
    try:
        scalar = node(_no_columns, 1)[0]
    except _FailureError:
        return lambda columns, _n: node(columns, 1)[0]
    return lambda _columns, _n: scalar


def _no_columns(index: int) -> pa.Array:
    raise AssertionError(index)


def _call(bound: BoundCall, args: list[_Node]) -> _Node:
    lazy = _LAZY.get(bound.function)
    if lazy is not None and any(_can_fail(a) for a in bound.args[1:]):
        return lazy(args)
    apply = _cast(bound) if bound.function == "cast" else _RULES[bound.function](bound)
    if len(args) == 1:
        (x,) = args
        return lambda columns, n: apply(x(columns, n))
    if len(args) == 2:  # noqa: PLR2004 - most functions have two arguments, and this is quicker
        x, y = args
        return lambda columns, n: apply(x(columns, n), y(columns, n))
    return lambda columns, n: apply(*[a(columns, n) for a in args])


def _can_fail(bound: Bound) -> bool:
    """Return whether some row may be an error: then CASE has to keep other branches' rows away."""
    if not isinstance(bound, BoundCall):
        return False
    if bound.function == "cast":
        own = not widens(bound.args[0].dtype, bound.dtype)
    else:
        never = bound.dtype == FLOAT64 and bound.function in ("add", "subtract", "multiply", "negate", "abs")
        own = FUNCTIONS[bound.function].can_fail and not never
    return own or any(_can_fail(a) for a in bound.args)


# CASE and COALESCE where a branch may fail: evaluate each on the rows it is for.


def _lazy_case(args: list[_Node]) -> _Node:
    conditions, values = args[:-1:2], [*args[1:-1:2], args[-1]]

    def run(columns: Columns, n: int) -> pa.Array:
        left, pieces = np.arange(n), []
        for condition, value in zip(conditions, values, strict=False):
            hits = _evaluate(condition, columns, left).fill_null(_FALSE).to_numpy(zero_copy_only=False)
            pieces.append((left[hits], _evaluate(value, columns, left[hits])))
            left = left[~hits]
            if not len(left):
                break
        else:
            pieces.append((left, _evaluate(values[-1], columns, left)))
        return _gather(pieces)

    return run


def _lazy_coalesce(args: list[_Node]) -> _Node:
    def run(columns: Columns, n: int) -> pa.Array:
        left, pieces = np.arange(n), []
        for arg in args:
            values = _evaluate(arg, columns, left)
            hits = np.ones(len(left), bool) if arg is args[-1] else values.is_valid().to_numpy(zero_copy_only=False)
            pieces.append((left[hits], values.filter(pa.array(hits))))
            left = left[~hits]
            if not len(left):
                break
        return _gather(pieces)

    return run


def _evaluate(node: _Node, columns: Columns, rows: np.ndarray[Any, Any]) -> pa.Array:
    """Return a node's values for some of the rows; for none of them nothing is evaluated."""
    if not len(rows):
        return pa.nulls(0)
    indices = pa.array(rows)
    values = node(functools.cache(lambda i: columns(i).take(indices)), len(rows))
    return values if isinstance(values, pa.Array) else pa.repeat(values, len(rows))


def _gather(pieces: list[tuple[np.ndarray[Any, Any], pa.Array]]) -> pa.Array:
    """Return the values of all pieces in the order of their rows."""
    known = [(rows, values) for rows, values in pieces if len(rows)]
    if len(known) == 1:
        return known[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in known]), kind="stable")
    return pa.concat_arrays([values for _, values in known]).take(pa.array(order))


_LAZY: Final[dict[str, Callable[[list[_Node]], _Node]]] = {
    "case": _lazy_case,
    "coalesce": _lazy_coalesce,
}


# Kernels.


def _kernel(name: str, options: pc.FunctionOptions | None = None) -> _Apply:
    """Return a kernel as a function of its arguments, without pyarrow's look-up on every call."""
    call = pc.get_function(name).call
    return lambda *values: call(values, options)


def _plain(name: str, options: pc.FunctionOptions | None = None) -> Callable[[BoundCall], _Apply]:
    """A rule: one kernel that cannot fail and does the same for every type."""
    apply = _kernel(name, options)
    return lambda _bound: apply


def _checked(bound: BoundCall, apply: _Apply) -> _Apply:
    """Return the function with Arrow's refusals turned into what they mean."""

    def run(*values: Any) -> Any:
        try:
            return apply(*values)
        except pa.ArrowInvalid as error:
            reason = "division by zero" if "divide by zero" in str(error) else "overflow"
            raise _FailureError(bound, reason) from None

    return run


_if_else = _kernel("if_else")
_coalesce = _kernel("coalesce")
_invert = _kernel("invert")
_is_null = _kernel("is_null", pc.NullOptions())
_is_valid = _kernel("is_valid")
_is_nan = _kernel("is_nan")
_any_of = _kernel("or")
_all_of = _kernel("and")
_equal = _kernel("equal")
_less = _kernel("less")
_less_equal = _kernel("less_equal")
_greater_equal = _kernel("greater_equal")
_add, _subtract, _multiply = (_kernel(f"{name}_checked") for name in ("add", "subtract", "multiply"))
_divide = _kernel("divide_checked")
_FALSE: Final = pa.scalar(False)
_TRUE: Final = pa.scalar(True)
_NO_BOOL: Final = pa.scalar(None, pa.bool_())
_ONE: Final = pa.scalar(1)

# Comparison.


def _float_equal(a: Any, b: Any) -> Any:
    return _any_of(_equal(a, b), _all_of(_is_nan(a), _is_nan(b)))


def _float_ge(a: Any, b: Any) -> Any:
    return _any_of(_greater_equal(a, b), _is_nan(a))


# For floats: NaN equals itself and is greater than every number.
_FLOAT_COMPARISON: Final[dict[str, _Apply]] = {
    "eq": _float_equal,
    "ne": lambda a, b: _invert(_float_equal(a, b)),
    "ge": _float_ge,
    "le": lambda a, b: _float_ge(b, a),
    "lt": lambda a, b: _invert(_float_ge(a, b)),
    "gt": lambda a, b: _invert(_float_ge(b, a)),
}
# Where the right side is a number, one kernel does: only `greater` and `greater_equal` have to be asked the other way.
_FLOAT_NUMBER_COMPARISON: Final[dict[str, _Apply]] = {
    "eq": _equal,
    "ne": _kernel("not_equal"),
    "ge": lambda a, b: _invert(_less(a, b)),
    "le": _less_equal,
    "lt": _less,
    "gt": lambda a, b: _invert(_less_equal(a, b)),
}
_COMPARISON: Final[dict[str, _Apply]] = {
    "eq": _equal,
    "ne": _kernel("not_equal"),
    "ge": _greater_equal,
    "le": _less_equal,
    "lt": _less,
    "gt": _kernel("greater"),
}


def _comparison(bound: BoundCall, function: str = "") -> _Apply:
    name = function or bound.function
    left, right = bound.args[0], bound.args[1]
    if left.dtype != FLOAT64:
        return _COMPARISON[name]
    is_number = isinstance(right, BoundLiteral) and right.value is not None and not math.isnan(right.value)
    return _FLOAT_NUMBER_COMPARISON[name] if is_number else _FLOAT_COMPARISON[name]


def _eq_null_safe(bound: BoundCall) -> _Apply:
    equal = _comparison(bound, "eq")

    def apply(a: Any, b: Any) -> Any:
        return _coalesce(equal(a, b), _all_of(_is_null(a), _is_null(b)))

    return apply


def _in(bound: BoundCall) -> _Apply:
    # Arrow's look-up goes by bits for floats, and would tell 0.0 from -0.0.
    if bound.args[0].dtype != FLOAT64 and all(isinstance(a, BoundLiteral) for a in bound.args[1:]):
        return _in_literals(bound)
    equal = _FLOAT_COMPARISON["eq"] if bound.args[0].dtype == FLOAT64 else _equal
    either = _kernel("or_kleene")

    def apply(value: Any, *options: Any) -> Any:
        return functools.reduce(either, [equal(value, o) for o in options])

    return apply


def _in_literals(bound: BoundCall) -> _Apply:
    options = [a.value for a in bound.args[1:] if isinstance(a, BoundLiteral)]
    wanted = pa.array([o for o in options if o is not None], bound.args[0].dtype.arrow)
    look_up = _kernel("is_in", pc.SetLookupOptions(wanted))
    if None in options:
        return lambda value, *_options: _if_else(look_up(value), _TRUE, _NO_BOOL)
    return lambda value, *_options: _if_else(_is_valid(value), look_up(value), _NO_BOOL)


def _extreme(function: str) -> Callable[[BoundCall], _Apply]:
    """Pairwise, since Arrow's own kernels let any number win over NaN."""

    def rule(bound: BoundCall) -> _Apply:
        better = (_FLOAT_COMPARISON if bound.dtype == FLOAT64 else _COMPARISON)[function]

        def pick(a: Any, b: Any) -> Any:
            return _if_else(_coalesce(better(b, a), _is_null(a)), b, a)

        return lambda *values: functools.reduce(pick, values)

    return rule


def _case(_bound: BoundCall) -> _Apply:
    def apply(*values: Any) -> Any:
        result = values[-1]
        for i in range(len(values) - 3, -1, -2):
            result = _if_else(_coalesce(values[i], _FALSE), values[i + 1], result)
        return result

    return apply


# Arithmetic.


def _arithmetic(kernel: _Apply) -> Callable[[BoundCall], _Apply]:
    def rule(bound: BoundCall) -> _Apply:
        if bound.dtype.is_decimal:
            return _checked(bound, _decimal_rule(bound, kernel))
        if bound.dtype == FLOAT64:
            return kernel
        return _checked(bound, _not_reserved(bound, kernel))

    return rule


def _not_reserved(bound: BoundCall, kernel: _Apply) -> _Apply:
    """Refuse -2**63 as a result: the engines keep it for NULL."""
    last = bound.args[-1]
    adds_some = bound.function == "add" and isinstance(last, BoundLiteral) and (last.value or 0) >= 0
    if bound.dtype != INT64 or adds_some:
        return kernel

    def apply(a: Any, b: Any) -> Any:
        result = kernel(a, b)
        _subtract(result, _ONE)  # overflows for exactly that value
        return result

    return apply


def _decimal_rule(bound: BoundCall, kernel: _Apply) -> _Apply:
    """Arrow has Spark's rules up to 38 digits; beyond, compute with twice as many and round."""
    a, b = (arg.dtype for arg in bound.args)
    to = bound.dtype.arrow
    probe = (pa.array([], pa.decimal256(t.precision, t.scale)) for t in (a, b))
    try:
        exact = kernel(*probe).type
    except pa.ArrowInvalid:
        return _decimal_by_row(bound)  # 77 digits: more than Arrow has
    if exact.precision <= to.precision:
        return kernel
    wide = [pa.decimal256(t.precision, t.scale) for t in (a, b)]
    round_to = _kernel("round", pc.RoundOptions(to.scale, "half_towards_infinity"))

    def apply(x: Any, y: Any) -> Any:
        return round_to(kernel(x.cast(wide[0]), y.cast(wide[1]))).cast(to)

    return apply


def _decimal_by_row(bound: BoundCall) -> _Apply:
    """Python's decimals, row by row: for the few types whose exact result Arrow cannot hold."""
    operate = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}[bound.function]

    def exact(x: decimal.Decimal | None, y: decimal.Decimal | None) -> decimal.Decimal | None:
        return None if x is None or y is None else round_decimal(operate(x, y), bound.dtype)

    def apply(x: Any, y: Any) -> Any:
        n = max(len(v) for v in (x, y) if isinstance(v, pa.Array))
        columns = [v.to_pylist() if isinstance(v, pa.Array) else [v.as_py()] * n for v in (x, y)]
        with decimal.localcontext(prec=100):
            return pa.array(map(exact, *columns), bound.dtype.arrow)

    return apply


def _int_divide(bound: BoundCall) -> _Apply:
    return _checked(bound, _divide)


def _modulo(bound: BoundCall) -> _Apply:
    if bound.dtype == FLOAT64:
        return _checked(bound, _float_modulo)

    def apply(a: Any, b: Any) -> Any:
        return _subtract(a, _multiply(_divide(a, b), b))

    if bound.dtype == INT64:
        return _checked(bound, apply)
    # -2**31 % -1 is 0, but its quotient is no int32.
    return _checked(bound, lambda a, b: apply(a.cast(pa.int64()), b.cast(pa.int64())).cast(pa.int32()))


def _float_modulo(a: Any, b: Any) -> Any:
    valid = _divide(a, b).is_valid()  # raises for a zero
    with np.errstate(invalid="ignore"):
        result = np.fmod(_numbers(a), _numbers(b))
    return pa.array(result, mask=~valid.to_numpy(zero_copy_only=False))


def _numbers(value: Any) -> Any:
    """Return floats as NumPy's, a NULL among them as NaN."""
    if isinstance(value, pa.Array):
        return value.to_numpy(zero_copy_only=False)
    return value.as_py() if value.is_valid else math.nan


def _unary_number(name: str) -> Callable[[BoundCall], _Apply]:
    kernel = _kernel(name)
    return lambda bound: _checked(bound, kernel)


def _cast(bound: BoundCall) -> _Apply:
    convert, to = cast_rule(bound.args[0].dtype, bound.dtype), bound.dtype

    def apply(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError):
            given = value[0].as_py()
            text = repr(given) if isinstance(given, (str, bytes)) else str(given)
            raise _FailureError(bound, f"{text} does not fit {to}") from None

    return apply


# Strings.


def _letter_case(ascii_kernel: str, change: Callable[[str], str]) -> Callable[[BoundCall], _Apply]:
    """Arrow changes characters one for one, Java and Python also "ß" to "SS": beyond ASCII, ask Python."""
    kernel, is_ascii = _kernel(ascii_kernel), _kernel("string_is_ascii")

    def apply(value: pa.Array) -> pa.Array:
        if pc.all(is_ascii(value)).as_py() is not False:
            return kernel(value)
        return by_distinct(value, change, pa.string())

    return lambda _bound: apply


def _concat(_bound: BoundCall) -> _Apply:
    join, nothing = _kernel("binary_join_element_wise", pc.JoinOptions("emit_null")), pa.scalar("")
    return lambda *values: join(*values, nothing)


def _substring(bound: BoundCall) -> _Apply:
    start, length = (a.value for a in bound.args[1:] if isinstance(a, BoundLiteral))
    if start is None or length is None:
        return _all_null
    first = start - 1 if start > 0 else start
    stop: int | None = first + max(length, 0)
    if first < 0 and stop is not None and stop >= 0:
        stop = None  # counted from the end and past it
    kernel = _kernel("utf8_slice_codeunits", pc.SliceOptions(first, stop, 1))
    return lambda value, *_literals: kernel(value)


def _pattern_test(kernel: str) -> Callable[[BoundCall], _Apply]:
    def rule(bound: BoundCall) -> _Apply:
        pattern = bound.args[1]
        assert isinstance(pattern, BoundLiteral)
        if pattern.value is None:
            return _all_null_bool
        matches = _kernel(kernel, pc.MatchSubstringOptions(pattern.value))
        return lambda value, _pattern: matches(value)

    return rule


def _all_null(value: pa.Array, *_literals: Any) -> pa.Array:
    return pa.nulls(len(value), pa.string())


def _all_null_bool(value: pa.Array, _pattern: Any) -> pa.Array:
    return pa.nulls(len(value), pa.bool_())


def _length(bound: BoundCall) -> _Apply:
    return _kernel("utf8_length" if bound.args[0].dtype.name == "string" else "binary_length")


_BLANK: Final = pc.TrimOptions(" ")

# What each function of the registry does; a rule takes the bound call, for its types, and returns the function.
_RULES: Final[dict[str, Callable[[BoundCall], _Apply]]] = {
    "add": _arithmetic(_add),
    "subtract": _arithmetic(_subtract),
    "multiply": _arithmetic(_multiply),
    "divide": lambda bound: _checked(bound, _divide),
    "int_divide": _int_divide,
    "modulo": _modulo,
    "negate": _unary_number("negate_checked"),
    "abs": _unary_number("abs_checked"),
    **dict.fromkeys(_COMPARISON, _comparison),
    "eq_null_safe": _eq_null_safe,
    "in": _in,
    "and": _plain("and_kleene"),
    "or": _plain("or_kleene"),
    "not": _plain("invert"),
    "is_null": _plain("is_null", pc.NullOptions()),
    "case": _case,
    "coalesce": _plain("coalesce"),
    "least": _extreme("lt"),
    "greatest": _extreme("gt"),
    "upper": _letter_case("ascii_upper", str.upper),
    "lower": _letter_case("ascii_lower", str.lower),
    "trim": _plain("utf8_trim", _BLANK),
    "ltrim": _plain("utf8_ltrim", _BLANK),
    "rtrim": _plain("utf8_rtrim", _BLANK),
    "length": _length,
    "concat": _concat,
    "substring": _substring,
    "like": _pattern_test("match_like"),
    "starts_with": _pattern_test("starts_with"),
    "ends_with": _pattern_test("ends_with"),
    "contains": _pattern_test("match_substring"),
}
