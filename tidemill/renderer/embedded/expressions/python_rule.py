"""Functions without a kernel, by their meaning in Python: once per distinct value, or row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from tidemill.expressions.bound import BoundCall, BoundLiteral
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions import values as meanings
from tidemill.renderer.embedded.expressions.casts import by_distinct
from tidemill.renderer.embedded.expressions.kernels import Apply, FailureError, spread

__all__ = ["python_rule"]


def python_rule(bound: BoundCall) -> Apply:
    """Return what a function does to arrays, as its entry in the registry means it."""
    value, to = _row_function(bound), bound.dtype.arrow
    varying = [i for i, a in enumerate(bound.args) if not isinstance(a, BoundLiteral)]
    if len(varying) != 1 or bound.args[varying[0]].dtype.is_list or FUNCTIONS[bound.function].sees_null:
        return lambda *arrays: pa.array([value(row) for row in zip(*map(_listed, spread(arrays)), strict=True)], to)
    (at,) = varying
    given: list[Any] = [a.value if isinstance(a, BoundLiteral) else None for a in bound.args]
    return lambda *arrays: by_distinct(arrays[at], lambda one: value([*given[:at], one, *given[at + 1 :]]), to)


def _row_function(bound: BoundCall) -> Callable[[Iterable[Any]], Any]:
    function, types = FUNCTIONS[bound.function], tuple(a.dtype for a in bound.args)

    def value(row: Iterable[Any]) -> Any:
        try:
            if function.lazy:
                return function.python(*(lambda v=v: v for v in row))
            return function.value(tuple(row), types, bound.dtype)
        except meanings.FailureError as failure:
            raise FailureError(bound, str(failure)) from None

    return value


def _listed(array: pa.Array) -> list[Any]:
    """Return the values, lists among them as tuples."""
    return [_plain(v) for v in array.to_pylist()]


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
