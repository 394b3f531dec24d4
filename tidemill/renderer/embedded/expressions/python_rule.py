"""Functions without a kernel, by their meaning in Python: once per distinct value, or row by row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill.boundary.rows import plain_values
from tidemill.expressions.bound import BoundCall, BoundLiteral
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions import values as meanings
from tidemill.renderer.embedded.expressions.kernels import Apply, FailureError, by_distinct, spread


def python_rule(bound: BoundCall) -> Apply:
    """Return what a function does to arrays, as its entry in the registry means it."""
    varying = [i for i, a in enumerate(bound.args) if not isinstance(a, BoundLiteral)]
    function = FUNCTIONS[bound.function]
    null = any(isinstance(a, BoundLiteral) and a.value is None for a in bound.args)
    if function.sees_null or function.lazy or null or len(varying) != 1 or bound.args[varying[0]].dtype.is_nested:
        return _of_rows(bound)
    return _of_distinct(bound, varying[0])


def _of_distinct(bound: BoundCall, at: int) -> Apply:
    """Return the function of the one argument that varies, of values that are not NULL."""
    function, result = FUNCTIONS[bound.function], bound.dtype
    before, after = (
        [a.value for a in args if isinstance(a, BoundLiteral)] for args in (bound.args[:at], bound.args[at:])
    )
    call = function.python
    if function.by_types:
        call = functools.partial(call, tuple(a.dtype for a in bound.args))
    if before:
        call = functools.partial(call, *before)
    to_be_fitted = result.is_decimal or (result.is_integer and function.can_fail)

    def convert(value: Any) -> Any:
        try:
            found = call(value, *after)
            return meanings.fitted(found, result) if to_be_fitted else found
        except meanings.FailureError as failure:
            raise FailureError(bound, str(failure)) from None

    return lambda *arrays: by_distinct(arrays[at], convert, result.arrow)


def _of_rows(bound: BoundCall) -> Apply:
    value, to = _row_function(bound), bound.dtype.arrow

    def apply(*arrays: Any) -> pa.Array:
        columns = [plain_values(a) for a in spread(arrays)]
        return pa.array([value(row) for row in zip(*columns, strict=True)], to)

    return apply


def _row_function(bound: BoundCall) -> Callable[[tuple[Any, ...]], Any]:
    function, types = FUNCTIONS[bound.function], tuple(a.dtype for a in bound.args)

    def value(row: tuple[Any, ...]) -> Any:
        try:
            if function.lazy:
                return function.python(*(lambda v=v: v for v in row))
            return function.value(row, types, bound.dtype)
        except meanings.FailureError as failure:
            raise FailureError(bound, str(failure)) from None

    return value
