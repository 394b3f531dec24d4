"""Functions of strings over Arrow columns; where no kernel does what Spark does, Python once per distinct string."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.arrow_arrays import arrow_scalar
from tidemill.expressions.bound import BoundCall
from tidemill.expressions.functions.patterns import like_to_re2
from tidemill.expressions.functions.searches import Search, ends_in_a_line_end, extracted, found, replaced
from tidemill.expressions.functions.text import LONGEST_TEXT, TOO_LONG
from tidemill.expressions.types import STRING
from tidemill.renderer.embedded.expressions.kernels import Apply, FailureError, Rule, kernel, literal, plain
from tidemill.renderer.embedded.expressions.python_rule import python_rule

# Letters.


def _letter_case(bound: BoundCall) -> Apply:
    """Arrow changes characters one for one, Java and Python also "ß" to "SS": beyond ASCII, ask Python."""
    compute, is_ascii, one_by_one = kernel(f"ascii_{bound.function}"), kernel("string_is_ascii"), python_rule(bound)

    def apply(value: pa.Array) -> pa.Array:
        return compute(value) if pc.all(is_ascii(value)).as_py() is not False else one_by_one(value)

    return apply


def _length(bound: BoundCall) -> Apply:
    return kernel("utf8_length" if bound.args[0].dtype == STRING else "binary_length")


# Parts and wholes.


def _concat(_bound: BoundCall) -> Apply:
    join, nothing = kernel("binary_join_element_wise", pc.JoinOptions("emit_null")), arrow_scalar("", pa.string())
    return lambda *values: join(*values, nothing)


def _concat_ws(_bound: BoundCall) -> Apply:
    join, none, every = kernel("binary_join_element_wise", pc.JoinOptions("skip")), kernel("is_null"), kernel("and")
    choose, nothing = kernel("if_else"), arrow_scalar("", pa.string())

    def apply(separator: Any, *values: Any) -> Any:
        # Arrow leaves out rows without any string.
        empty = functools.reduce(every, [none(v) for v in values])
        return join(choose(empty, nothing, values[0]), *values[1:], separator)

    return apply


def _substring(bound: BoundCall) -> Apply:
    start, length = literal(bound, 1), literal(bound, 2)
    first = start - 1 if start > 0 else start
    stop: int | None = first + max(length, 0)
    if first < 0 and stop is not None and stop >= 0:
        stop = None  # counted from the end and past it
    return _slice(first, stop)


def _slice(first: int, stop: int | None) -> Apply:
    compute = kernel("utf8_slice_codeunits", pc.SliceOptions(first, stop, 1))
    return lambda value, *_literals: compute(value)


def _left(bound: BoundCall) -> Apply:
    return _slice(0, max(literal(bound, 1), 0))


def _right(bound: BoundCall) -> Apply:
    count = literal(bound, 1)
    return _slice(-count, None) if count > 0 else _slice(0, 0)


def _repeat(bound: BoundCall) -> Apply:
    compute, length, times = kernel("binary_repeat"), kernel("utf8_length"), max(literal(bound, 1), 0)

    def apply(value: pa.Array, _times: Any) -> pa.Array:
        if times > 1 and (pc.max(length(value)).as_py() or 0) * times > LONGEST_TEXT:
            raise FailureError(bound, TOO_LONG)
        return compute(value, arrow_scalar(times, pa.int64()))

    return apply


def _pad(bound: BoundCall) -> Apply:
    width, filling = max(literal(bound, 1), 0), literal(bound, 2)
    cut = _slice(0, width)
    if not filling:
        return cut
    if len(filling) > 1:
        return python_rule(bound)
    fill = kernel(f"utf8_{bound.function}", pc.PadOptions(width, filling))
    return lambda value, *_literals: fill(cut(value))


def _replace(bound: BoundCall) -> Apply:
    part, replacement = literal(bound, 1), literal(bound, 2)
    if not part:
        return lambda value, *_literals: value
    compute = kernel("replace_substring", pc.ReplaceSubstringOptions(part, replacement))
    return lambda value, *_literals: compute(value)


def _locate(bound: BoundCall) -> Apply:
    part, start, one_by_one = literal(bound, 0), literal(bound, 2), python_rule(bound)
    if start != 1 or not part:
        return one_by_one
    is_ascii, first = kernel("string_is_ascii"), kernel("find_substring", pc.MatchSubstringOptions(part))

    def apply(_part: Any, value: pa.Array, _start: Any) -> pa.Array:
        # Arrow counts in bytes.
        if pc.all(is_ascii(value)).as_py() is not False:
            return pc.add(first(value), arrow_scalar(1, pa.int32()))
        return one_by_one(_part, value, _start)

    return apply


# Patterns.


def _test(name: str) -> Rule:
    def rule(bound: BoundCall) -> Apply:
        matches = kernel(name, pc.MatchSubstringOptions(literal(bound, 1)))
        return lambda value, _pattern: matches(value)

    return rule


def _like(bound: BoundCall) -> Apply:
    pattern = literal(bound, 1)
    if "\\" not in pattern:
        return _test("match_like")(bound)
    matches = kernel("match_substring_regex", pc.MatchSubstringOptions(like_to_re2(pattern)))  # Arrow misreads some
    return lambda value, _pattern: matches(value)


def _searched(search: Callable[..., Search]) -> Rule:
    """Return the rule of a search by a pattern and what else is a literal."""

    def rule(bound: BoundCall) -> Apply:
        question = search(*(literal(bound, i) for i in range(1, len(bound.args))))
        in_re2, one_by_one = question.in_re2, python_rule(bound)
        if in_re2 is None:
            return one_by_one
        if not question.at_end:
            return lambda value, *_literals: in_re2(value)

        def apply(value: pa.Array, *literals: Any) -> pa.Array:
            at_end = ends_in_a_line_end(value)
            if not pc.any(at_end).as_py():
                return in_re2(value)
            return pc.if_else(at_end, one_by_one(pc.if_else(at_end, value, None), *literals), in_re2(value))

        return apply

    return rule


_BLANK: Final = pc.TrimOptions(" ")

TEXT_RULES: Final[dict[str, Rule]] = {
    "upper": _letter_case,
    "lower": _letter_case,
    "reverse": plain("utf8_reverse"),
    "length": _length,
    "trim": plain("utf8_trim", _BLANK),
    "ltrim": plain("utf8_ltrim", _BLANK),
    "rtrim": plain("utf8_rtrim", _BLANK),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "substring": _substring,
    "left": _left,
    "right": _right,
    "repeat": _repeat,
    "lpad": _pad,
    "rpad": _pad,
    "replace": _replace,
    "locate": _locate,
    "like": _like,
    "starts_with": _test("starts_with"),
    "ends_with": _test("ends_with"),
    "contains": _test("match_substring"),
    "regexp_like": _searched(found),
    "regexp_replace": _searched(replaced),
    "regexp_extract": _searched(extracted),
}
