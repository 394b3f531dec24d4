"""Shared parts of the rules of scalar functions: kernels of ``pyarrow.compute`` as functions, failures, constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.arrow_arrays import arrow_scalar, numbers_of, plain_array, truths_of
from tidemill.expressions.bound import BoundCall, BoundLiteral

# What a function of the registry does to its arguments' values: arrays or, for constants, scalars; at least one array.
Apply: TypeAlias = Callable[..., Any]
# From the bound call, for its types and literals, to that.
Rule: TypeAlias = Callable[[BoundCall], Apply]


class FailureError(Exception):
    """A kernel refused a batch. Which row it was is looked for afterwards: there mostly is none."""

    def __init__(self, bound: BoundCall, reason: str) -> None:
        self.bound = bound
        self.reason = reason


def kernel(name: str, options: pc.FunctionOptions | None = None) -> Apply:
    """Return a kernel as a function of its arguments, without pyarrow's look-up on every call."""
    call = pc.get_function(name).call
    return lambda *values: call(values, options)


def plain(name: str, options: pc.FunctionOptions | None = None) -> Rule:
    """Return a rule: one kernel that cannot fail and does the same for every type."""
    apply = kernel(name, options)
    return lambda _bound: apply


def checked(bound: BoundCall, apply: Apply, reason: str = "") -> Apply:
    """Return the function with refusals turned into what they mean: Arrow's, and ours by ``ArithmeticError``."""

    def run(*values: Any) -> Any:
        try:
            return apply(*values)
        except (pa.ArrowInvalid, ArithmeticError) as error:
            zero = "divide by zero" in str(error) or isinstance(error, ZeroDivisionError)
            raise FailureError(bound, reason or ("division by zero" if zero else "overflow")) from None

    return run


def literal(bound: BoundCall, position: int) -> Any:
    """Return the value of an argument that has to be a literal."""
    found = bound.args[position]
    assert isinstance(found, BoundLiteral)
    return found.value


def spread(values: tuple[Any, ...]) -> list[pa.Array]:
    """Return arrays and scalars as arrays of one length."""
    n = max(len(v) for v in values if isinstance(v, pa.Array))
    return [v if isinstance(v, pa.Array) else pa.repeat(v, n) for v in values]


def by_distinct(array: pa.Array, convert: Callable[[Any], Any], to: pa.DataType) -> pa.Array:
    """Return the array mapped by a Python function that is called once for each distinct value."""
    is_float = pa.types.is_float64(array.type)
    # By bits, or else 0.0 and -0.0 would count as one.
    encoded = (array.view(pa.int64()) if is_float else array).dictionary_encode()
    values = encoded.dictionary.view(pa.float64()) if is_float else encoded.dictionary
    made = pa.array([convert(v) for v in values.to_pylist()], to)
    if isinstance(made, pa.ChunkedArray):
        msg = "the values do not fit in one array"
        raise pa.ArrowCapacityError(msg)
    return made.take(encoded.indices)


def numbers(array: pa.Array, to: pa.DataType | None = None) -> np.ndarray[Any, Any]:
    """Return an array as NumPy's, with zeros where it is NULL."""
    return numbers_of(array if to is None else array.view(to))


def with_nulls(values: np.ndarray[Any, Any], like: list[pa.Array], to: pa.DataType) -> pa.Array:
    """Return NumPy's values as an array of a type, NULL where one of the arguments is."""
    nulls = [truths_of(array.is_null()) for array in like if array.null_count]
    return plain_array(to, values, np.logical_or.reduce(nulls) if nulls else None)


FALSE: Final = arrow_scalar(False, pa.bool_())
TRUE: Final = arrow_scalar(True, pa.bool_())
NO_BOOL: Final = arrow_scalar(None, pa.bool_())
ONE: Final = arrow_scalar(1, pa.int64())
