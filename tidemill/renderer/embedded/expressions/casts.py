"""Casts of Arrow columns by Spark's ANSI rules, where Arrow's own differ: text forms, rounding, ranges.

A rule is a function of an array (never of a scalar); it raises a ``ValueError`` (``pa.ArrowInvalid`` is one) or an
``ArithmeticError`` where a value does not fit.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.reading import value_of_text
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.types import BOOL, FLOAT64, INT64, STRING, TIMESTAMP, DType
from tidemill.renderer.embedded.expressions.places import fewer_places, rounded

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


def _arrow_cast(to: DType, *, safe: bool = True) -> CastRule:
    options = pc.CastOptions.safe(to.arrow) if safe else pc.CastOptions.unsafe(to.arrow)
    call = pc.get_function("cast").call
    return lambda a: call((a,), options)


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
        return lambda a: by_distinct(a, lambda text: _read(text, to), to.arrow)
    convert = _arrow_cast(to)

    def cast(array: pa.Array) -> pa.Array:
        if pc.all(pc.match_substring_regex(array, plain)).as_py() is False:
            return by_distinct(array, lambda text: _read(text, to), to.arrow)
        return _not_reserved(convert(array), to)

    return cast


def _read(text: str, to: DType) -> Any:
    try:
        return value_of_text(text, to)
    except FailureError as failure:
        raise ValueError(failure) from None


# To strings.


def _double_text(value: float) -> str:
    """Return Java's text of a double: the shortest digits, an exponent below 0.001 and from ten million on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:  # noqa: PLR2004 - Java's limits
        # repr is positional here but for 0.0001 and below, which is out of these limits.
        return repr(value)
    # The fewest digits that read back, but at least one after the point.
    text = next(t for digits in range(1, 18) if float(t := f"{value:.{digits}e}") == value)
    mantissa, exponent = text.split("e")
    return f"{mantissa}E{int(exponent)}"


def _to_string(source: DType) -> CastRule:
    if source == FLOAT64:
        return lambda a: by_distinct(a, _double_text, pa.string())
    if source.is_decimal and source.scale > 6:  # noqa: PLR2004 - then Arrow may write an exponent
        return lambda a: by_distinct(a, lambda v: f"{v:f}", pa.string())
    if source == TIMESTAMP:
        return lambda a: pc.replace_substring_regex(a.cast(pa.string()), r"\.?0{1,6}$", "")
    if source.name in ("timestamptz", "time", "interval"):
        return lambda a: by_distinct(a, lambda v: cast_value(v, source, STRING), pa.string())
    return _arrow_cast(STRING)


# To decimals.


def _to_decimal(source: DType, to: DType) -> CastRule:
    if source == FLOAT64:
        return lambda a: by_distinct(a, lambda v: round_decimal(decimal.Decimal(repr(v)), to), to.arrow)
    if not source.is_decimal:
        wide = pa.decimal256(19 + to.scale, to.scale)
        return lambda a: a.cast(pa.int64()).cast(wide).cast(to.arrow)
    if to.scale >= source.scale:
        wider = pa.decimal256(76, to.scale)
        return lambda a: a.cast(wider).cast(to.arrow)
    return lambda a: rounded(a, to.scale).cast(to.arrow)


def round_decimal(value: decimal.Decimal, to: DType) -> decimal.Decimal:
    """Return a decimal with a type's places after the point; whether it fits, Arrow says."""
    with decimal.localcontext(prec=1000):
        return value.quantize(decimal.Decimal(1).scaleb(-to.scale), decimal.ROUND_HALF_UP)
