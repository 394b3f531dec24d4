r"""Patterns that are literals of expressions: LIKE's, and regular expressions in Java's language, which is Spark's.

A regular expression has to mean the same everywhere: what Java, Python and RE2 all have is taken, with Java's meaning,
and the rest refused when the expression is built. Letters and digits (``\w \d \s \b (?i)``) are ASCII's.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Final

import attrs

__all__ = [
    "Pattern",
    "like_complaint",
    "pattern_complaint",
    "read_pattern",
    "read_replacement",
    "replaced_matches",
    "replacement_complaint",
]


def like_complaint(pattern: str) -> str | None:
    r"""Return what is wrong with a LIKE pattern, if anything is.

    >>> print(like_complaint("a_%"), like_complaint(r"a\b"), sep="; ")
    None; LIKE pattern 'a\\b' has a \ that escapes neither % nor _ nor \: double it
    """
    rest = pattern.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    return f"LIKE pattern {pattern!r} has a \\ that escapes neither % nor _ nor \\: double it" if "\\" in rest else None


@attrs.frozen
class Pattern:
    """A regular expression: compiled for Python, and as text for RE2 where that means the same (else None)."""

    python: re.Pattern[str]
    re2: str | None


_TOKEN: Final = re.compile(
    r"""(?P<escape> \\ (?: [dDwWsSbBntrfA] | [^A-Za-z0-9] | [1-9] | x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} ))
      | (?P<group> \( (?: \? (?: : | = | ! | <= | <! ) )? (?!\?) )
      | (?P<set> \[ \^? (?: \\[dDwWsSntrf] | \\[^A-Za-z0-9] | \\x[0-9a-fA-F]{2} | \\u[0-9a-fA-F]{4} | [^][\\&~|-]
                       | -(?!-) | &(?!&) | ~(?!~) | \|(?!\|) )+ \] )
      | (?P<repeat> (?: [*+?] | \{\d{1,3} (?: , (?:\d{1,3})? )? \} ) [?+]? )
      | (?P<close> \) )
      | (?P<end> \$ )
      | (?P<any> \. )
      | (?P<plain> [^][\\{}()*+?$] )""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_LINE_ENDS: Final = r"\n\r\u0085\u2028\u2029"
_JAVA_END: Final = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)(?!(?<=\r)\n\Z)"


@functools.lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    r"""Return a regular expression; ``ValueError`` says what is not understood.

    >>> read_pattern("[a-c]+").re2, read_pattern("a$").re2
    ('[a-c]+', None)
    >>> read_pattern(r"\p{Lu}")
    Traceback (most recent call last):
    ...
    ValueError: it has '\\p{Lu}' at 0
    """
    flags = _FLAGS.match(text)
    letters = flags[1] if flags else ""
    position = flags.end() if flags else 0
    python, re2, plain = [], [], not letters
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            msg = f"it has {text[position:]!r} at {position}"
            raise ValueError(msg)
        found, kind = token[0], token.lastgroup
        translated = found
        if kind == "any":
            translated = "." if "s" in letters else f"[^{_LINE_ENDS}]"
        elif kind == "end":
            translated = _JAVA_END
        elif kind == "escape" and found[1].isdigit():
            translated = f"(?:{found})"  # apart from digits after it
        python.append(translated)
        re2.append(_for_re2(found, kind, translated))
        plain = plain and _in_re2(found, kind)
        position = token.end()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            options = re.ASCII | (re.IGNORECASE if "i" in letters else 0) | (re.DOTALL if "s" in letters else 0)
            compiled = re.compile("".join(python), options)
        except (re.error, Warning) as error:
            raise ValueError(str(error)) from None
    return Pattern(compiled, "".join(re2) if plain else None)


def _for_re2(found: str, kind: str | None, translated: str) -> str:
    if kind == "any":
        return r"[^\n\r\x{85}\x{2028}\x{2029}]"
    return {r"\s": r"[\t\n\x0b\f\r ]", r"\S": r"[^\t\n\x0b\f\r ]"}.get(found, translated)


def _in_re2(found: str, kind: str | None) -> bool:
    """Return whether RE2 knows a token and takes it as Java does."""
    if kind == "escape":
        return found in (r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\n", r"\t", r"\r") or (
            not found[1].isalnum() and found.isascii()
        )
    if kind == "group":
        return found in ("(", "(?:")
    if kind == "set":
        return found.isascii() and not re.search(r"\\[sSuxf]|^\[\^?[-&~|]", found)
    if kind == "repeat":
        return not (len(found) > 1 and found.endswith("+"))
    return kind in ("any", "plain", "close")


def pattern_complaint(pattern: str) -> str | None:
    """Return why a text is no regular expression, if it is none."""
    try:
        read_pattern(pattern)
    except ValueError as error:
        return (
            f"{pattern!r} is no regular expression that every engine reads: {error}. Use . ^ $ | ( ) (?: ) [ ] * + "
            r"? {n,m}, \d \w \s \b, look-around and (?i) (?s) at the start"
        )
    return None


def read_replacement(text: str, groups: int) -> tuple[str | int, ...]:
    r"""Return a replacement in Java's form as texts and numbers of groups: ``$1`` a group, ``\$`` a dollar.

    >>> read_replacement(r"<$1\$>", 1)
    ('<', 1, '$>')
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        mark = text[position]
        if mark == "$":
            digits = re.match(r"\d+", text[position + 1 :])
            number = digits[0] if digits else ""
            while len(number) > 1 and int(number) > groups:
                number = number[:-1]
            if not number or int(number) > groups:
                msg = f"${digits[0] if digits else ''} is no group"
                raise ValueError(msg)
            parts.append(int(number))
            position += 1 + len(number)
            continue
        if mark == "\\":
            position += 1
            if position == len(text):
                msg = "it ends in a single \\"
                raise ValueError(msg)
            mark = text[position]
        parts[-1:] = [parts[-1] + mark] if parts and isinstance(parts[-1], str) else [*parts[-1:], mark]
        position += 1
    return tuple(parts)


def replaced_matches(pattern: re.Pattern[str], parts: tuple[str | int, ...], text: str) -> str:
    r"""Return a text with every match replaced, as Java finds matches: after an empty one it looks one further.

    >>> replaced_matches(re.compile("a*?"), ("x",), "baac"), re.sub("a*?", "x", "baac")
    ('xbxaxaxcx', 'xbxxxxxcx')
    """
    found: list[str] = []
    position = copied = 0
    while position <= len(text) and (match := pattern.search(text, position)):
        found += [text[copied : match.start()], *((match[p] or "") if isinstance(p, int) else p for p in parts)]
        copied = match.end()
        position = copied + (match.start() == copied)
    return "".join([*found, text[copied:]])


def replacement_complaint(pattern: str, replacement: str) -> str | None:
    """Return what is wrong with a pattern and what it is replaced by, if anything is."""
    wrong = pattern_complaint(pattern)
    if wrong:
        return wrong
    groups = read_pattern(pattern).python.groups
    try:
        read_replacement(replacement, groups)
    except ValueError as error:
        return f"{replacement!r} cannot replace {pattern!r}, which has {groups} groups: {error}; \\$ is a dollar"
    return None
