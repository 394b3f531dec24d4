"""Hashes of values and the digits of bytes: their entries in the registry, and their builders."""

from __future__ import annotations

import base64 as base64_module
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import (
    Function,
    Signature,
    TypeRule,
    always,
    as_columns,
    either,
    fixed,
    never,
)
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.functions.xxhash import xxhash64_of
from tidemill.expressions.types import BINARY, INT32, INT64, STRING, DType


def _any(types: Sequence[DType]) -> Signature | None:
    held = as_columns(types)
    return Signature(tuple(held), INT64) if held else None


def _hash(types: Sequence[DType], *values: Any) -> int:
    return max(xxhash64_of(values, types), -(2**63) + 1)  # -2**63 is the engines' NULL


def _of_bytes(*more: DType, result: DType = STRING) -> TypeRule:
    return either(fixed(BINARY, *more, result=result), fixed(STRING, *more, result=result))


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _digest(name: str) -> Callable[[Any], str]:
    return lambda value: hashlib.new(name, _bytes(value), usedforsecurity=False).hexdigest()


_SHA2: Final = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _check_bits(literals: Sequence[Any]) -> str | None:
    return None if literals[1] in _SHA2 else f"there is no SHA-2 of {literals[1]} bits: expected 224, 256, 384 or 512"


def _hex(value: Any) -> str:
    return f"{value % 2**64:X}" if isinstance(value, int) else _bytes(value).hex().upper()


def _unhex(digits: str) -> bytes | None:
    try:
        return binascii.unhexlify(digits.zfill(len(digits) + len(digits) % 2))
    except ValueError:
        return None


def _unbase64(text: str) -> bytes:
    try:
        return base64_module.b64decode("".join(text.split()), validate=True)
    except ValueError:
        reason = "the text is not in base 64"
        raise FailureError(reason) from None


_TEXT: Final = "a string or a binary"

HASHING: Final = (
    Function("md5", _of_bytes(), _TEXT, python=_digest("md5")),
    Function("sha1", _of_bytes(), _TEXT, aliases=("sha",), python=_digest("sha1")),
    Function("sha2", _of_bytes(INT32), _TEXT + " and a number of bits", literals=(1,), check=_check_bits,
             python=lambda value, bits: _digest(_SHA2[bits])(value)),
    Function("crc32", _of_bytes(result=INT64), _TEXT, python=lambda value: binascii.crc32(_bytes(value))),
    Function("hex", either(fixed(INT64, result=STRING), _of_bytes()), "a whole number, a string or a binary",
             python=_hex),
    Function("unhex", fixed(STRING, result=BINARY), "a string", nullable=always, python=_unhex),
    Function("base64", _of_bytes(), _TEXT, python=lambda value: base64_module.b64encode(_bytes(value)).decode()),
    Function("unbase64", fixed(STRING, result=BINARY), "a string", can_fail=True, python=_unbase64),
    Function("xxhash64", _any, "values of known types", nullable=never, aliases=("hash64",), python=_hash,
             sees_null=True, by_types=True),
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


def md5(value: Any) -> Expr:
    """Return the MD5 of a string's bytes in UTF-8, or of a binary, in hexadecimal digits."""
    return call("md5", operand(value))


def sha1(value: Any) -> Expr:
    """Return the SHA-1 of a string or a binary, in hexadecimal digits."""
    return call("sha1", operand(value))


def sha2(value: Any, bits: int) -> Expr:
    """Return the SHA-2 of a string or a binary, in hexadecimal digits.

    ``bits`` is a literal: 224, 256, 384 or 512; 0 is 256.
    """
    return call("sha2", operand(value), bits)


def crc32(value: Any) -> Expr:
    """Return the checksum CRC-32 of a string or a binary, an int64."""
    return call("crc32", operand(value))


def hex(value: Any) -> Expr:  # noqa: A001 - SQL's name; reached as tm.hex, and never star-exported
    """Return a whole number, the bits of a negative one, or the bytes of a string or a binary in hexadecimal digits."""
    return call("hex", operand(value))


def unhex(value: Any) -> Expr:
    """Return the bytes of hexadecimal digits, NULL where there are others."""
    return call("unhex", operand(value))


def base64(value: Any) -> Expr:
    """Return the bytes of a string or a binary in base 64."""
    return call("base64", operand(value))


def unbase64(value: Any) -> Expr:
    """Return the bytes of a text in base 64; an error for any other text."""
    return call("unbase64", operand(value))
