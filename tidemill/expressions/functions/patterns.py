"""Patterns that are literals of expressions: LIKE's, and what matches of regular expressions are replaced by."""

from __future__ import annotations

import re

from tidemill.errors import brief
from tidemill.expressions.functions.regular_expressions import pattern_complaint, read_pattern, shown


def like_complaint(pattern: str) -> str | None:
    r"""Return what is wrong with a LIKE pattern, if anything is.

    >>> print(like_complaint("a_%"), like_complaint(r"a\b"), sep="; ")
    None; LIKE pattern 'a\\b' has a \ that escapes neither % nor _ nor \: double it
    """
    rest = pattern.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    return (
        f"LIKE pattern {brief(pattern)} has a \\ that escapes neither % nor _ nor \\: double it"
        if "\\" in rest
        else None
    )


def like_in_re2(pattern: str) -> str:
    r"""Return a LIKE pattern as a regular expression for RE2.

    >>> like_in_re2(r"a%\\_")
    '(?s)\\Aa.*\\x5c.\\z'
    """
    return "".join([r"(?s)\A", *({"%": ".*", "_": "."}.get(t) or shown(ord(t[-1])) for t in _tokens(pattern)), r"\z"])


def is_like(text: str, pattern: str) -> bool:
    """Return whether a text is as a LIKE pattern says: what stands after a ``%`` is looked for from left to right."""
    tokens, place, token, mark, begin = _tokens(pattern), 0, 0, 0, -1
    while place < len(text):
        what = tokens[token] if token < len(tokens) else None
        if what == "%":
            token += 1
            mark, begin = place, token
        elif what is not None and (what == "_" or what[-1] == text[place]):
            place, token = place + 1, token + 1
        elif begin >= 0:
            mark += 1
            place, token = mark, begin
        else:
            return False
    return all(t == "%" for t in tokens[token:])


def _tokens(pattern: str) -> list[str]:
    return re.findall(r"\\.|.", pattern, re.DOTALL)


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


def replacement_complaint(pattern: str, replacement: str) -> str | None:
    """Return what is wrong with a pattern and what it is replaced by, if anything is."""
    wrong = pattern_complaint(pattern)
    if wrong:
        return wrong
    groups = read_pattern(pattern).groups
    try:
        read_replacement(replacement, groups)
    except ValueError as error:
        return (
            f"{brief(replacement)} cannot replace {brief(pattern)}, which has {groups} groups: {error}; \\$ is a dollar"
        )
    return None
