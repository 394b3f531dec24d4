"""What is asked of regular expressions: whether one matches, what a group takes, a text with what matches replaced.

RE2 answers where it means the same, in time in proportion to the text. Where not, PCRE2 does, which tries one way after
the other: for so many steps a search and no more, which are the same on every machine, or the row is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import brief
from tidemill.expressions.functions.patterns import read_replacement
from tidemill.expressions.functions.regular_expressions import Pattern, read_pattern
from tidemill.expressions.functions.values import FailureError

_STEPS: Final = 10_000_000
_STEPS_A_CHARACTER: Final = 100
"""Steps of one search: some tenths of a second, and what a long text needs for being gone through."""
_MEMORY: Final = 256 << 10
"""KiB for the places that a search may have to go back to."""
_MOST_NAMED: Final = 9
"""RE2 has so many groups in what replaces a match."""


@attrs.frozen
class Search:
    """A question about a text."""

    in_re2: Callable[[pa.Array], pa.Array] | None
    """Its answers for texts, NULL for NULL; None where RE2 means something else."""
    at_end: bool
    """Whether that holds only for texts that do not end in the end of a line."""
    in_pcre: Callable[[str], Any]
    """Its answer for any one text; ``FailureError`` where it would take too long."""

    @property
    def is_sure(self) -> bool:
        """Whether there is an answer for every text."""
        return self.in_re2 is not None and not self.at_end

    def __call__(self, text: str) -> Any:
        """Return the answer for a text."""
        if self.in_re2 is None:
            return self.in_pcre(text)
        texts = pa.array([text])
        if self.at_end and ends_in_a_line_end(texts)[0].as_py():
            return self.in_pcre(text)
        return self.in_re2(texts)[0].as_py()


def ends_in_a_line_end(texts: pa.Array) -> pa.Array:
    """Return whether texts end so, as Java sees it."""
    return pc.match_substring_regex(texts, r"[\n\r\x{85}\x{2028}\x{2029}]\z")


@functools.lru_cache(maxsize=256)
def found(text: str) -> Search:
    """Return the search that says whether a pattern matches anywhere."""
    pattern, in_re2 = read_pattern(text), None
    if pattern.re2 is not None:
        in_re2 = functools.partial(pc.match_substring_regex, pattern=pattern.for_re2())
    return Search(in_re2, pattern.at_end, lambda given: _first(pattern, given, 0) is not None)


@functools.lru_cache(maxsize=256)
def extracted(text: str, group: int) -> Search:
    """Return the search for what a group of the first match takes; nothing where there is none."""
    pattern, in_re2 = read_pattern(text), None
    if pattern.re2 is not None and pattern.same_span and group in pattern.same_groups:
        take = functools.partial(pc.extract_regex, pattern=pattern.for_re2(named=group))

        def in_re2(texts: pa.Array) -> pa.Array:
            return pc.if_else(texts.is_null(), texts, pc.struct_field(take(texts), [0]).fill_null(""))

    def in_pcre(given: str) -> str:
        match = _first(pattern, given, 0)
        return (match.group(group) or "") if match else ""

    return Search(in_re2, pattern.at_end, in_pcre)


@functools.lru_cache(maxsize=256)
def replaced(text: str, replacement: str) -> Search:
    r"""Return the search that gives a text with every match replaced.

    Java looks one further after an empty match, and RE2 does not take one where another match has just ended.

    >>> replaced("a*", "x")("baac"), replaced("a*?", "x")("baac")
    ('xbxxcx', 'xbxaxaxcx')
    """
    pattern, in_re2 = read_pattern(text), None
    parts = read_replacement(replacement, pattern.groups)
    named = {p for p in parts if isinstance(p, int)}
    same = pattern.same_span and named <= pattern.same_groups and not pattern.may_be_empty
    if pattern.re2 is not None and same and max(named, default=0) <= _MOST_NAMED:
        by = "".join(rf"\{p}" if isinstance(p, int) else p.replace("\\", r"\\") for p in parts)
        in_re2 = functools.partial(pc.replace_substring_regex, pattern=pattern.for_re2(), replacement=by)
    return Search(in_re2, pattern.at_end, lambda given: _with_matches_replaced(pattern, parts, given))


def _with_matches_replaced(pattern: Pattern, parts: tuple[str | int, ...], text: str) -> str:
    made: list[str] = []
    position = copied = 0
    while position <= len(text) and (match := _first(pattern, text, position)):
        begin, end = match.span()
        made += [text[copied:begin], *((match.group(p) or "") if isinstance(p, int) else p for p in parts)]
        copied = end
        position = end + (begin == end)
    return "".join([*made, text[copied:]])


def pieces(pattern: str, text: str, most: int) -> tuple[str, ...]:
    """Return the parts of a text between matches, as Java's: none before an empty match at the beginning.

    With a positive ``most`` there are so many at most. Of an empty pattern they are the characters, as in Spark.

    >>> pieces("[,;]", "a,b;;", -1), pieces("", "ab", -1), pieces(",", "a,b,c", 2)
    (('a', 'b', '', ''), ('a', 'b'), ('a', 'b,c'))
    """
    if text and not pattern:
        last = (most if 0 < most < len(text) else len(text)) - 1
        return (*text[:last], text[last:])
    read, made = read_pattern(pattern), list[str]()
    position = copied = 0
    while position <= len(text) and len(made) != most - 1 and (match := _first(read, text, position)):
        begin, end = match.span()
        if end:
            made.append(text[copied:begin])
            copied = end
        position = end + (begin == end)
    return (*made, text[copied:])


def _first(pattern: Pattern, text: str, position: int) -> Any:
    """Return the first match from a position on, or None."""
    import pcre2  # noqa: PLC0415 - compiled: executors without it do all else

    most = _STEPS + (_STEPS_A_CHARACTER << len(text).bit_length())
    try:
        return _compiled(pattern.pcre, most).search(text, position)
    except pcre2.LibraryError as error:
        what = f"{_MEMORY >> 10} MiB" if "heap" in str(error) else f"{most:,} steps"
        msg = (
            f"the regular expression {brief(pattern.text)} needs more than {what} for {brief(text)}: do without "
            "look-around, back-references, possessive quantifiers, $ before a line's end, or repetition in repetition"
        )
        raise FailureError(msg) from None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str, most: int) -> Any:
    import pcre2  # noqa: PLC0415 - as above

    # To go on to the next position is part of the pattern: steps are counted for each attempt.
    limits = f"(*LIMIT_MATCH={most})(*LIMIT_HEAP={_MEMORY})"
    return pcre2.compile(rf"{limits}\G(?s:.)*?\K(?:{pattern})", pcre2.ASCII, jit=False)
