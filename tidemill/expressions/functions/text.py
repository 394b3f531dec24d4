"""Functions of strings: their entries in the registry, and their builders."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import brief
from tidemill.expressions.expr import Expr, Literal, call, operand
from tidemill.expressions.functions.patterns import like_complaint, matches_like, replacement_complaint
from tidemill.expressions.functions.registry import Function, all_of, either, fixed
from tidemill.expressions.functions.regular_expressions import pattern_complaint, read_pattern
from tidemill.expressions.functions.searches import Search, extracted, found, replaced
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import BINARY, BOOL, INT32, INT64, STRING

LONGEST_TEXT: Final = 2**28
"""Characters of what REPEAT, LPAD and RPAD make."""
TOO_LONG: Final = f"the text would have more than {LONGEST_TEXT:,} characters"

_string = fixed(STRING, result=STRING)
_string_test = fixed(STRING, STRING, result=BOOL)
_part = fixed(STRING, INT32, result=STRING)
_pad = fixed(STRING, INT32, STRING, result=STRING)
_to_the_end: Final = 2**31 - 1


def _check_extract(literals: Sequence[Any]) -> str | None:
    _, pattern, group = literals
    wrong = pattern_complaint(pattern)
    if wrong is None and not 0 <= group <= (groups := read_pattern(pattern).groups):
        return f"{brief(pattern)} has no group {group}: it has {groups}, and 0 is the whole match"
    return wrong


def _check_part(literals: Sequence[Any]) -> str | None:
    return (
        "parts are counted from 1, or from the end by negative numbers: there is no part 0"
        if literals[2] == 0
        else None
    )


def _unsure(search: Callable[..., Search]) -> Callable[[Sequence[Any]], bool]:
    return lambda literals: not search(*literals[1:]).is_sure


def _check_pad(literals: Sequence[Any]) -> str | None:
    _, length, filling = literals
    too_long = filling and length > LONGEST_TEXT
    return f"{length:,} characters are too many: expected at most {LONGEST_TEXT:,}" if too_long else None


# What they mean.


def part_of(text: str, start: int, length: int) -> str:
    """Return the part of a text from a place on, counted from 1, or from the end if negative."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def _padded(text: str, length: int, filling: str, *, left: bool) -> str:
    if length <= len(text):
        return text[: max(length, 0)]
    missing = length - len(text)
    more = (filling * (missing // len(filling) + 1))[:missing] if filling else ""
    return more + text if left else text + more


def _repeated(text: str, times: int) -> str:
    if len(text) * times > LONGEST_TEXT:
        raise FailureError(TOO_LONG)
    return text * times


def _locate(part: str, text: str, start: int) -> int:
    if start <= 0:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _split_part(text: str, delimiter: str, number: int) -> str:
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else number
    return parts[index] if -len(parts) <= index < len(parts) else ""


def _translate(text: str, characters: str, replacements: str) -> str:
    return text.translate(_translations(characters, replacements))


@functools.lru_cache(maxsize=256)
def _translations(characters: str, replacements: str) -> dict[int, str]:
    """Return what each character becomes; of one that is there twice the first place counts."""
    return {ord(c): replacements[i : i + 1] for i, c in reversed(list(enumerate(characters)))}


TEXT: Final = (
    Function("upper", _string, "a string", aliases=("ucase",), python=str.upper),
    Function("lower", _string, "a string", aliases=("lcase",), python=str.lower),
    Function("trim", _string, "a string", aliases=("btrim",), python=lambda a: a.strip(" ")),
    Function("ltrim", _string, "a string", python=lambda a: a.lstrip(" ")),
    Function("rtrim", _string, "a string", python=lambda a: a.rstrip(" ")),
    Function("initcap", _string, "a string",
             python=lambda a: " ".join(word[:1].title() + word[1:] for word in a.lower().split(" "))),
    Function("reverse", _string, "a string", python=lambda a: a[::-1]),
    Function("length", either(_string_length := fixed(STRING, result=INT32), fixed(BINARY, result=INT32)),
             "a string or a binary", aliases=("char_length", "character_length", "len"), python=len),
    Function("ascii", _string_length, "a string", python=lambda a: ord(a[0]) if a else 0),
    Function("chr", fixed(INT64, result=STRING), "a whole number", aliases=("char",),
             python=lambda n: "" if n < 0 else builtins.chr(n % 256)),
    Function("concat", all_of(STRING, STRING), "strings", python=lambda *parts: "".join(parts)),
    Function("concat_ws", all_of(STRING, STRING, least=2), "a separator and strings", nullable=lambda given: given[0],
             sees_null=True,
             python=lambda by, *parts: None if by is None else by.join(p for p in parts if p is not None)),
    Function("substring", fixed(STRING, INT32, INT32, result=STRING), "a string, a start and a length", literals=(1, 2),
             optional=(_to_the_end,), aliases=("substr",), python=part_of),
    Function("left", _part, "a string and a number of characters", literals=(1,), python=lambda a, n: a[: max(n, 0)]),
    Function("right", _part, "a string and a number of characters", literals=(1,),
             python=lambda a, n: a[max(len(a) - n, 0) :] if n > 0 else ""),
    Function("repeat", _part, "a string and a number of times", literals=(1,),
             can_fail=lambda literals: literals[1] > 1, python=_repeated),
    Function("lpad", _pad, "a string, a length and a filling", literals=(1, 2), optional=(" ",), check=_check_pad,
             python=lambda a, n, filling: _padded(a, n, filling, left=True)),
    Function("rpad", _pad, "a string, a length and a filling", literals=(1, 2), optional=(" ",), check=_check_pad,
             python=lambda a, n, filling: _padded(a, n, filling, left=False)),
    Function("replace", fixed(STRING, STRING, STRING, result=STRING), "a string, a part of it and a replacement",
             literals=(1, 2), optional=("",), python=lambda a, part, other: other.join(a.split(part)) if part else a),
    Function("translate", fixed(STRING, STRING, STRING, result=STRING), "a string, characters and replacements",
             literals=(1, 2), python=_translate),
    Function("locate", fixed(STRING, STRING, INT32, result=INT32), "a part, a string and a start", literals=(0, 2),
             optional=(1,), aliases=("position",), python=_locate),
    Function("split_part", fixed(STRING, STRING, INT32, result=STRING), "a string, a delimiter and a number",
             literals=(1, 2), check=_check_part, python=_split_part),
    Function("like", _string_test, "a string and a pattern", operator="Like", literals=(1,),
             check=lambda given: like_complaint(given[1]), python=matches_like),
    Function("starts_with", _string_test, "a string and a prefix", sql="STARTSWITH", literals=(1,),
             python=str.startswith),
    Function("ends_with", _string_test, "a string and a suffix", sql="ENDSWITH", literals=(1,), python=str.endswith),
    Function("contains", _string_test, "a string and a part of it", literals=(1,), python=lambda a, b: b in a),
    Function("regexp_like", _string_test, "a string and a pattern", operator="RegexpLike", literals=(1,),
             check=lambda given: pattern_complaint(given[1]), aliases=("rlike", "regexp"), can_fail=_unsure(found),
             python=lambda a, pattern: found(pattern)(a)),
    Function("regexp_replace", fixed(STRING, STRING, STRING, result=STRING), "a string, a pattern and a replacement",
             literals=(1, 2), check=lambda given: replacement_complaint(*given[1:]), can_fail=_unsure(replaced),
             python=lambda a, pattern, by: replaced(pattern, by)(a)),
    Function("regexp_extract", fixed(STRING, STRING, INT32, result=STRING), "a string, a pattern and a group",
             literals=(1, 2), optional=(1,), check=_check_extract, can_fail=_unsure(extracted),
             python=lambda a, pattern, group: extracted(pattern, group)(a)),
)  # fmt: skip


# Builders. A string is a column or SQL text only where the string itself is expected: all else has to be a literal.


def upper(value: Any) -> Expr:
    """Return the string in upper case."""
    return call("upper", operand(value))


def lower(value: Any) -> Expr:
    """Return the string in lower case."""
    return call("lower", operand(value))


def initcap(value: Any) -> Expr:
    """Return the string in lower case, but the first letter after each blank in upper case."""
    return call("initcap", operand(value))


def reverse(value: Any) -> Expr:
    """Return the string's characters in reverse."""
    return call("reverse", operand(value))


def length(value: Any) -> Expr:
    """Return the number of characters of a string or of bytes of a binary, an int32."""
    return call("length", operand(value))


def ascii(value: Any) -> Expr:  # noqa: A001 - SQL's name; reached as tm.ascii, and never star-exported
    """Return the code point of the string's first character, 0 where it has none; an int32."""
    return call("ascii", operand(value))


def chr(code: Any) -> Expr:  # noqa: A001 - see ascii
    """Return the Latin-1 character of a code, of which the last 8 bits count; of a negative one the empty string."""
    return call("chr", operand(code))


def concat(*values: Any) -> Expr:
    """Return the strings joined; NULL where one of them is."""
    return call("concat", *map(operand, values))


def concat_ws(separator: Any, *values: Any) -> Expr:
    """Return the strings that are not NULL joined; NULL only where the separator is, which as a string is a literal."""
    return call("concat_ws", separator, *map(operand, values))


def substring(value: Any, start: int, length: int = _to_the_end) -> Expr:
    """Return the part of a string that starts at a position counted from 1, or from the end if negative.

    ``start`` and ``length`` are literals.
    """
    return call("substring", operand(value), start, length)


def left(value: Any, count: int) -> Expr:
    """Return the string's first characters, so many as the literal ``count`` says."""
    return call("left", operand(value), count)


def right(value: Any, count: int) -> Expr:
    """Return the string's last characters, so many as the literal ``count`` says."""
    return call("right", operand(value), count)


def repeat(value: Any, times: int) -> Expr:
    """Return the string so many times over, as the literal ``times`` says: at most 2**28 characters."""
    return call("repeat", operand(value), times)


def lpad(value: Any, length: int, filling: str = " ") -> Expr:
    """Return the string brought to a length: filled up on the left, or cut off on the right.

    ``length`` and ``filling`` are literals.
    """
    return call("lpad", operand(value), length, filling)


def rpad(value: Any, length: int, filling: str = " ") -> Expr:
    """Return the string brought to a length: filled up on the right, or cut off there.

    ``length`` and ``filling`` are literals.
    """
    return call("rpad", operand(value), length, filling)


def trim(value: Any, characters: Any = None) -> Expr:
    """Return the string without blanks at either end, or without any of these characters there.

    ``characters`` are a column or SQL text: a literal is ``tm.lit("xy")``. SQL has ``TRIM(BOTH 'xy' FROM s)``.
    """
    return _trimmed("trim", value, characters)


def ltrim(value: Any, characters: Any = None) -> Expr:
    """Return the string without blanks at its beginning, or without any of these characters there: see `trim`."""
    return _trimmed("ltrim", value, characters)


def rtrim(value: Any, characters: Any = None) -> Expr:
    """Return the string without blanks at its end, or without any of these characters there: see `trim`."""
    return _trimmed("rtrim", value, characters)


def _trimmed(function: str, value: Any, characters: Any) -> Expr:
    return (
        call(function, operand(value))
        if characters is None
        else call(f"{function}_of", operand(value), operand(characters))
    )


def replace(value: Any, part: str, replacement: str = "") -> Expr:
    """Return the string with every occurrence of a part, a literal, replaced by another one."""
    return call("replace", operand(value), part, replacement)


def translate(value: Any, characters: str, replacements: str) -> Expr:
    """Return the string with each of the characters replaced by the one at its place, or left out if there is none.

    ``characters`` and ``replacements`` are literals.
    """
    return call("translate", operand(value), characters, replacements)


def instr(value: Any, part: str) -> Expr:
    """Return where a part, a literal, first begins, counted from 1; 0 where it does not occur."""
    return call("locate", part, operand(value), 1)


def locate(part: str, value: Any, start: int = 1) -> Expr:
    """Return where a part first begins at or after a position, counted from 1; 0 where it does not occur.

    ``part`` and ``start`` are literals.
    """
    return call("locate", part, operand(value), start)


def split_part(value: Any, delimiter: str, number: int) -> Expr:
    """Return the part of this number between delimiters, from the end if negative; empty where there is none.

    ``delimiter`` and ``number`` are literals.
    """
    return call("split_part", operand(value), delimiter, number)


def ilike(value: Any, pattern: Any) -> Expr:
    """Return whether the whole string matches a pattern, a literal, as in ``like``, whatever the case of letters."""
    given = resolve(pattern) if isinstance(pattern, Expr) else pattern
    text = given.value if isinstance(given, Literal) else given
    return call("like", lower(value), text.lower() if isinstance(text, str) else text)


def regexp_like(value: Any, pattern: str) -> Expr:
    """Return whether a regular expression, a literal in Java's language, matches anywhere. Letters are ASCII's.

    It takes time in proportion to the text. A pattern with look-around, back-references or possessive quantifiers, and
    one with ``$`` where a text ends in the end of a line, has a limit: after 10 million steps, and 100 for each
    character, the row is an error.
    """
    return call("regexp_like", operand(value), pattern)


def regexp_replace(value: Any, pattern: str, replacement: str) -> Expr:
    r"""Return the string with every match replaced; ``$1`` stands for the first group, ``\$`` for a dollar.

    ``pattern`` and ``replacement`` are literals.
    """
    return call("regexp_replace", operand(value), pattern, replacement)


def regexp_extract(value: Any, pattern: str, group: int = 1) -> Expr:
    """Return what a group of the first match took, 0 for the whole match; empty where nothing matches.

    ``pattern`` and ``group`` are literals.
    """
    return call("regexp_extract", operand(value), pattern, group)
