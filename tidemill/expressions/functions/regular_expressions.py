r"""Regular expressions in Java's language, which is Spark's: what is understood, and how two engines are told.

A regular expression has to mean the same everywhere: what Java, RE2 and PCRE2 all have is taken, with Java's meaning,
and the rest refused when the expression is built. Letters and digits (``\w \d \s \b (?i)``) are ASCII's.

RE2 takes time in proportion to the text, so it gets what it takes as Java does; PCRE2, which looks back, gets the rest.
Characters and sets are spelled out as ranges, so that what an engine has of its own (Unicode, lines) has no say.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import brief

_Ranges: TypeAlias = list[tuple[int, int]]


@attrs.frozen
class Pattern:
    """A regular expression as its engines get it."""

    text: str
    groups: int
    pcre: str
    re2: tuple[str | int, ...] | None
    """For RE2, with the numbers of groups where these begin; None where it has none of what is meant."""
    at_end: bool
    """For RE2 ``$`` is the very end: Java also has it before the end of a last line."""
    same_span: bool
    """Whether RE2 finds the same part of the text; else only whether there is one, as where loops go round empty."""
    same_groups: frozenset[int]
    """The groups that take the same in RE2, if the span is the same: those that are in no loop."""
    may_be_empty: bool

    def for_re2(self, named: int | None = None) -> str:
        """Return the text for RE2, with all groups; or with the one of this number alone, called g; 0 is the whole."""
        assert self.re2 is not None
        others = "(" if named is None else "(?:"
        text = "".join(p if isinstance(p, str) else "(?P<g>" if p == named else others for p in self.re2)
        return f"(?P<g>{text})" if named == 0 else text


_TOKEN: Final = re.compile(
    r"""(?P<escape> \\ (?: [dDwWsSbBntrfA] | [^A-Za-z0-9] | [1-9] | x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} ))
      | (?P<group> \( (?: \? (?: : | = | ! | <= | <! ) )? (?!\?) )
      | (?P<set> \[ \^? (?: \\[dDwWsSntrf] | \\[^A-Za-z0-9] | \\x[0-9a-fA-F]{2} | \\u[0-9a-fA-F]{4} | [^][\\&~|-]
                       | -(?!-) | &(?!&) | ~(?!~) | \|(?!\|) )+ \] )
      | (?P<repeat> (?: [*+?] | \{\d{1,3} (?: , (?:\d{1,3})? )? \} ) [?+]? )
      | (?P<close> \) )
      | (?P<end> \$ )
      | (?P<begin> \^ )
      | (?P<any> \. )
      | (?P<either> \| )
      | (?P<plain> [^][\\{}()*+?$] )""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_LINE_ENDS: Final = "\\n\\r\u0085\u2028\u2029"
_JAVA_END: Final = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\z)(?!(?<=\r)\n\z)"
_LONGEST: Final = 50_000
_MOST_NESTED: Final = 200
"""PCRE2 takes 250 levels of groups."""
_LAST: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_CLASSES: Final[dict[str, _Ranges]] = {
    "d": [(48, 57)], "w": [(48, 57), (65, 90), (95, 95), (97, 122)], "s": [(9, 13), (32, 32)],
}  # fmt: skip
_CONTROLS: Final = {"n": 10, "t": 9, "r": 13, "f": 12}


@attrs.define
class _Open:
    """A group that is being read, or the whole pattern."""

    number: int | None = None
    is_looking: bool = False
    empty: bool = False
    """Whether one of the alternatives before may match nothing."""
    so_far: bool = True
    """Whether the one that is being read may."""
    inside: set[int] = attrs.field(factory=set)
    """The numbers of groups in it."""
    before: bool = True
    """Whether all that came before the last part may."""
    last_empty: bool = True
    last_inside: frozenset[int] = frozenset()
    """Of the last part: whether it may match nothing, and the groups in it."""

    def add(self, *, empty: bool, inside: frozenset[int] = frozenset()) -> None:
        """Take a part."""
        self.before, self.last_empty, self.last_inside = self.so_far, empty, inside
        self.so_far = self.so_far and empty
        self.inside |= inside


@functools.lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    r"""Return a regular expression; ``ValueError`` says what is not understood.

    >>> read_pattern("[a-c]+$").for_re2(), read_pattern("(?=a)").re2
    ('[a-c]+\\z', None)
    >>> read_pattern(r"\p{Lu}")
    Traceback (most recent call last):
    ...
    ValueError: it has '\\p{Lu}' at 0
    """
    if len(text) > _LONGEST:
        msg = f"it has {len(text):,} characters, more than {_LONGEST:,}"
        raise ValueError(msg)
    flags = _FLAGS.match(text)
    reader = _Reader(flags[1] if flags else "")
    position = flags.end() if flags else 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            msg = f"it has {brief(text[position:])} at {position}"
            raise ValueError(msg)
        reader.read(str(token.lastgroup), token[0])
        position = token.end()
    return reader.finished(text)


@attrs.define
class _Reader:
    """Reads a pattern token by token, and writes it for each engine."""

    flags: str
    python: list[str] = attrs.field(factory=list)
    pcre: list[str] = attrs.field(factory=list)
    re2: list[str | int] = attrs.field(factory=list)
    in_re2: bool = True
    at_end: bool = False
    same_span: bool = True
    groups: int = 0
    looped: set[int] = attrs.field(factory=set)
    open: list[_Open] = attrs.field(factory=lambda: [_Open()])

    def read(self, kind: str, found: str) -> None:
        """Take a token."""
        self.python.append(f"(?:{found})" if kind == "escape" and found[1].isdigit() else found)  # apart from digits
        getattr(self, f"_{kind}")(found)

    def finished(self, text: str) -> Pattern:
        """Return the pattern, if it is one: Python's complaints are those that Java would have."""
        import pcre2  # noqa: PLC0415 - compiled: executors without it do all else

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                re.compile("".join(self.python))
                pcre = "".join(self.pcre)
                pcre2.compile(pcre, pcre2.ASCII, jit=False)
            except (re.error, pcre2.LibraryError, pcre2.PatternError, Warning) as error:
                raise ValueError(str(error)) from None
        whole = self.open[0]
        same = frozenset(range(self.groups + 1)) - self.looped
        re2 = tuple(self.re2) if self.in_re2 else None
        found = Pattern(text, self.groups, pcre, re2, self.at_end, self.same_span, same, whole.empty or whole.so_far)
        return found if re2 is None or _compiles(found.for_re2()) else attrs.evolve(found, re2=None)

    def _add(self, text: str, *, empty: bool = False, in_re2: str | None = None) -> None:
        """Add what stands for itself."""
        self.pcre.append(text)
        self.re2.append(text if in_re2 is None else in_re2)
        self.open[-1].add(empty=empty)

    def _plain(self, found: str) -> None:
        self._add(self._character(ord(found)))

    def _character(self, code: int) -> str:
        if code in _SURROGATES:
            msg = f"it has half a character, \\u{code:04x}: write the character itself"
            raise ValueError(msg)
        if "i" in self.flags and chr(code).isascii() and chr(code).isalpha():
            return f"[{chr(code).lower()}{chr(code).upper()}]"
        return shown(code)

    def _escape(self, found: str) -> None:
        letter = found[1]
        if letter in "bBA":
            self._add(found, empty=True)
            self.in_re2 = self.in_re2 and letter != "B"  # within a character of several bytes too
        elif letter.lower() in _CLASSES:
            self._add(_set(_class(letter)))
        elif letter.isdecimal() and letter.isascii():
            if "i" in self.flags:
                msg = f"it goes back to a group by {found} under (?i), where engines differ"
                raise ValueError(msg)
            self._add(f"(?:{found})", empty=True)
            self.in_re2 = False
        else:
            self._add(self._character(_code(found)))

    def _set(self, found: str) -> None:
        ranges = list(_ranges(found[2 if found[1] == "^" else 1 : -1]))
        if any(low in _SURROGATES or high in _SURROGATES for low, high in ranges):
            msg = f"it has half a character in {found}"
            raise ValueError(msg)
        if "i" in self.flags:
            ranges += [*_moved(ranges, 65, 32), *_moved(ranges, 97, -32)]
        self._add(_set(ranges, negated=found[1] == "^"))

    def _any(self, _found: str) -> None:
        self._add("(?s:.)" if "s" in self.flags else f"[^{_LINE_ENDS}]")

    def _end(self, _found: str) -> None:
        self._add(_JAVA_END, empty=True, in_re2=r"\z")
        self.at_end = True

    def _begin(self, _found: str) -> None:
        self._add(r"\A", empty=True)

    def _either(self, found: str) -> None:
        self.pcre.append(found)
        self.re2.append(found)
        here = self.open[-1]
        here.empty, here.so_far = here.empty or here.so_far, True

    def _group(self, found: str) -> None:
        group = _Open(is_looking=found not in ("(", "(?:"))
        if found == "(":
            self.groups += 1
            group.number = self.groups
            group.inside.add(self.groups)
        self.pcre.append(found)
        self.re2.append(found if group.number is None else group.number)
        self.in_re2 = self.in_re2 and not group.is_looking
        self.open.append(group)
        if len(self.open) > _MOST_NESTED:
            msg = f"its groups are nested more than {_MOST_NESTED} deep"
            raise ValueError(msg)

    def _close(self, found: str) -> None:
        if len(self.open) == 1:
            msg = "unbalanced parenthesis"
            raise ValueError(msg)
        self.pcre.append(found)
        self.re2.append(found)
        group = self.open.pop()
        empty = group.empty or group.so_far or group.is_looking
        self.open[-1].add(empty=empty, inside=frozenset(group.inside))

    def _repeat(self, found: str) -> None:
        self.pcre.append(found)
        self.re2.append(found)
        self.in_re2 = self.in_re2 and not (len(found) > 1 and found.endswith("+"))  # what never gives back
        here = self.open[-1]
        if found[0] != "?":
            self.looped |= here.last_inside
            self.same_span = self.same_span and not here.last_empty
        if found[0] in "*?" or re.match(r"\{0+[,}]", found):
            here.so_far = here.before


def _compiles(text: str) -> bool:
    """Return whether RE2 takes a pattern: some would be too large for it."""
    try:
        pc.match_substring_regex(pa.array([""]), text)
    except pa.ArrowInvalid:
        return False
    return True


# Characters and sets of them.


def shown(code: int) -> str:
    """Return a character as it stands for itself in every pattern."""
    return rf"\x{code:02x}" if chr(code).isascii() and not chr(code).isalnum() else chr(code)


def _code(found: str) -> int:
    """Return the character that an escape stands for."""
    if found[1] in "xu":
        return int(found[2:], base=16)  # noqa: FURB166 - there is no such prefix
    return _CONTROLS.get(found[1], ord(found[1]))


def _class(letter: str) -> _Ranges:
    ranges = _CLASSES[letter.lower()]
    if letter.islower():
        return ranges
    begins = [0, *(high + 1 for _, high in ranges)]
    return list(zip(begins, [*(low - 1 for low, _ in ranges), _LAST], strict=True))


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over what is in a set."""
    parts = re.findall(r"\\x..|\\u....|\\.|.", text, re.DOTALL)
    position = 0
    while position < len(parts):
        part = parts[position]
        if part[0] == "\\" and part[1:].lower() in _CLASSES:
            yield from _class(part[1])
            position += 1
            continue
        low = high = _code(part) if part[0] == "\\" else ord(part)
        if parts[position + 1 : position + 2] == ["-"] and position + 2 < len(parts):
            last = parts[position + 2]
            high = _code(last) if last[0] == "\\" else ord(last)
            position += 2
        yield low, high
        position += 1


def _moved(ranges: Iterable[tuple[int, int]], first: int, by: int) -> _Ranges:
    """Return the part of ranges that is among the 26 letters from the first one on, in the other case."""
    shared = ((max(low, first), min(high, first + 25)) for low, high in ranges)
    return [(low + by, high + by) for low, high in shared if low <= high]


def _set(ranges: _Ranges, *, negated: bool = False) -> str:
    inside = (shown(low) if low == high else f"{shown(low)}-{shown(high)}" for low, high in ranges)
    return f"[{'^' * negated}{''.join(inside)}]"


def pattern_complaint(pattern: str) -> str | None:
    """Return why a text is no regular expression, if it is none."""
    try:
        read_pattern(pattern)
    except ValueError as error:
        return (
            f"{brief(pattern)} is no regular expression that every engine reads: {error}. Use . ^ $ | ( ) (?: ) [ ] * "
            r"+ ? {n,m}, \d \w \s \b, look-around and (?i) (?s) at the start"
        )
    return None
