"""The hash of rows whose codes say what they stand for: worked out of the codes, without columns of Arrow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tidemill.expressions.bound import Bound, BoundCall, BoundColumn
from tidemill.renderer.embedded.kernels import hashing
from tidemill.renderer.embedded.kernels.codec import float_values, is_long_decimal
from tidemill.renderer.embedded.kernels.updates import NULL, Ints, UpdateArray

_HALF: Final = np.uint64(2**32 - 1)


def compile_hash_on_codes(bound: Bound) -> Callable[[UpdateArray], Ints] | None:
    """Return what computes the hash of a row from codes; None for another expression, and for texts and the like.

    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> from tidemill.expressions.binding import bind
    >>> compute = compile_hash_on_codes(bind(expr("xxhash64(a)"), Schema.of({"a": "int64"})))
    >>> compute(np.array([[1, -(2**63)]]))
    array([-7001672635703045582,                   42])
    """
    if not isinstance(bound, BoundCall) or bound.function != "xxhash64":
        return None
    columns: list[tuple[int, _Hash]] = []
    for arg in bound.args:
        kind = "short decimal" if arg.dtype.is_decimal and not is_long_decimal(arg.dtype) else arg.dtype.name
        if not isinstance(arg, BoundColumn) or kind not in _HASHES:
            return None
        columns.append((arg.index, _HASHES[kind]))

    def run(updates: UpdateArray) -> Ints:
        hashes = np.full(updates.shape[1], hashing.SEED, np.uint64)
        for index, hash_of in columns:
            codes = updates[index]
            found = hash_of(codes, hashes)
            null = codes == NULL
            hashes = np.where(null, hashes, found) if np.count_nonzero(null) else found
        return np.maximum(hashes.view(np.int64), NULL + 1)

    return run


_Hash = Callable[[Ints, Any], Any]


def _of_half(codes: Ints, seeds: Any) -> Any:
    return hashing.hash_int(codes.view(np.uint64) & _HALF, seeds)


def _of_word(codes: Ints, seeds: Any) -> Any:
    return hashing.hash_long(codes.view(np.uint64), seeds)


def _of_float(codes: Ints, seeds: Any) -> Any:
    return hashing.hash_long(hashing.float_bits(float_values(codes)), seeds)


_HASHES: Final[dict[str, _Hash]] = {
    "bool": _of_half, "int32": _of_half, "date": _of_half, "int64": _of_word, "timestamp": _of_word,
    "short decimal": _of_word, "float64": _of_float,
}  # fmt: skip
