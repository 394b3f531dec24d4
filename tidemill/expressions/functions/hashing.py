"""The hash of columns: its entry in the registry, and its builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import NULL, Function, Signature, never
from tidemill.expressions.functions.xxhash import xxhash64_of
from tidemill.expressions.types import INT64, DType

__all__ = ["HASHING", "hash64", "xxhash64"]


def _any(types: Sequence[DType]) -> Signature | None:
    return Signature(tuple(types), INT64) if types and NULL not in types else None


def _hash(types: Sequence[DType], *values: Any) -> int:
    return max(xxhash64_of(values, types), -(2**63) + 1)  # -2**63 is the engines' NULL


HASHING: Final = (
    Function("xxhash64", _any, "values of known types", "XXHASH64", nullable=never, aliases=("hash64",),
             python=_hash, sees_null=True, by_types=True),
)  # fmt: skip


def xxhash64(*values: Any) -> Expr:
    """Return Spark's 64-bit hash of the values in order, an int64. NULL leaves the hash as it was.

    A float64's NaNs hash alike, and so do 0.0 and -0.0; an int32 and an int64 do not, nor do decimals of different
    types. The one value that int64 has not here, -2**63, becomes -2**63 + 1.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import lit
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import to_sql
    >>> print(to_sql(bind(xxhash64("a", lit("x")), Schema.of({"a": "int64"}))))
    XXHASH64(a, 'x')
    """
    return call("xxhash64", *map(operand, values))


hash64 = xxhash64
