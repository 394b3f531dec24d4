"""Casts of Arrow columns by Spark's ANSI rules, where Arrow's own differ: text forms, rounding, ranges.

A rule is a function of an array (never of a scalar); it raises a ``FailureError`` or an ``pa.ArrowInvalid`` where a
value does not fit.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.types import BOOL, FLOAT64, INT64, STRING, TIMESTAMP, DType
from tidemill.renderer.embedded.expressions.decimals import fewer_places, rounded
from tidemill.renderer.embedded.expressions.kernels import by_distinct

CastRule: TypeAlias = Callable[[pa.Array], pa.Array]

# The forms in which Arrow reads text as Spark does.
_FORMS: Final = {
    "int64": r"^-?[0-9]+$",
    "int32": r"^-?[0-9]+$",
    "float64": r"^-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$",
    "date": r"^(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"
    r"( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?$",
}


def cast_rule(source: DType, to: DType) -> CastRule:  # noqa: PLR0911 - one line a family of casts
    """Return the function that casts arrays of one type to another."""
    if source == to:
        return lambda a: a
    if source == STRING:
        return _from_string(to)
    if to == STRING:
        return _to_string(source)
    if to == BOOL:
        zero = pa.scalar(0).cast(source.arrow) if not source.is_decimal else pa.scalar(decimal.Decimal(0), source.arrow)
        return lambda a: pc.not_equal(a, zero)
    if to.is_decimal:
        return _to_decimal(source, to)
    if to.is_integer and source == FLOAT64:
        return lambda a: _not_reserved(_arrow_cast(to)(pc.trunc(a)), to)
    if to.is_integer and source.is_decimal:
        return lambda a: _not_reserved(_arrow_cast(to)(fewer_places(a, 0, "towards_zero")), to)
    if source.is_decimal:
        return lambda a: a.cast(pa.string()).cast(pa.float64())  # Arrow's direct cast does not round correctly
    return _arrow_cast(to, safe=source == INT64 and to.is_integer)


def _arrow_cast(to: DType, *, safe: bool = True) -> CastRule:
    options = pc.CastOptions.safe(to.arrow) if safe else pc.CastOptions.unsafe(to.arrow)
    call = pc.get_function("cast").call
    return lambda a: call((a,), options)


def _one_by_one(source: DType, to: DType) -> CastRule:
    """Return the cast as it is defined, once for each distinct value."""
    return lambda a: by_distinct(a, lambda v: cast_value(v, source, to), to.arrow)


def _not_reserved(result: pa.Array, to: DType) -> pa.Array:
    """Refuse -2**63: the engines keep it for NULL."""
    if to == INT64:
        pc.negate_checked(result)
    return result


# From strings.


def _from_string(to: DType) -> CastRule:
    """Read what is in the plainest form by Arrow, and all else as it is read one by one."""
    if to.name == "binary":
        return _arrow_cast(to)
    plain = _FORMS.get(to.name)
    if plain is None:
        return _one_by_one(STRING, to)
    convert, one_by_one = _arrow_cast(to), _one_by_one(STRING, to)

    def cast(array: pa.Array) -> pa.Array:
        if pc.all(pc.match_substring_regex(array, plain)).as_py() is False:
            return one_by_one(array)
        return _not_reserved(convert(array), to)

    return cast


# To strings.


def _to_string(source: DType) -> CastRule:
    if source == TIMESTAMP:
        return lambda a: pc.replace_substring_regex(a.cast(pa.string()), r"\.?0{1,6}$", "")
    may_have_exponent = source.is_decimal and source.scale > 6  # noqa: PLR2004 - as Arrow writes it
    if may_have_exponent or source.name in ("float64", "timestamptz", "time", "interval"):
        return _one_by_one(source, STRING)
    return _arrow_cast(STRING)


# To decimals.


def _to_decimal(source: DType, to: DType) -> CastRule:
    if source == FLOAT64:
        return _one_by_one(source, to)
    if not source.is_decimal:
        wide = pa.decimal256(19 + to.scale, to.scale)
        return lambda a: a.cast(pa.int64()).cast(wide).cast(to.arrow)
    if to.scale >= source.scale:
        wider = pa.decimal256(76, to.scale)
        return lambda a: a.cast(wider).cast(to.arrow)
    return lambda a: rounded(a, to.scale).cast(to.arrow)
