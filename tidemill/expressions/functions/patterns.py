"""LIKE patterns and the replacements of regexp_replace, which are literals: how they are checked and read."""

from __future__ import annotations

import re

from tidemill.errors import brief
from tidemill.expressions.functions.regular_expressions import pattern_complaint, read_pattern, shown


def like_complaint(pattern: str) -> str | None:
    r"""Return what is wrong with a LIKE pattern; None if it is valid.

    >>> print(like_complaint("a_%"), like_complaint(r"a\b"), sep="; ")
    None; LIKE pattern 'a\\b' has a \ that escapes neither % nor _ nor \: double it
    """
    rest = pattern.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    return (
        f"LIKE pattern {brief(pattern)} has a \\ that escapes neither % nor _ nor \\: double it"
        if "\\" in rest
        else None
    )


def like_to_re2(pattern: str) -> str:
    r"""Return a LIKE pattern translated to a regular expression for RE2.

    >>> like_to_re2(r"a%\\_")
    '(?s)\\Aa.*\\x5c.\\z'
    """
    return "".join([r"(?s)\A", *({"%": ".*", "_": "."}.get(t) or shown(ord(t[-1])) for t in _tokens(pattern)), r"\z"])


def matches_like(text: str, pattern: str) -> bool:
    """Return whether a text matches a LIKE pattern: left to right, backtracking to the last ``%`` only."""
    tokens, place, token, retry, after_percent = _tokens(pattern), 0, 0, 0, -1
    while place < len(text):
        what = tokens[token] if token < len(tokens) else None
        if what == "%":
            token += 1
            retry, after_percent = place, token
        elif what is not None and (what == "_" or what[-1] == text[place]):
            place, token = place + 1, token + 1
        elif after_percent >= 0:
            retry += 1
            place, token = retry, after_percent
        else:
            return False
    return all(t == "%" for t in tokens[token:])


def _tokens(pattern: str) -> list[str]:
    return re.findall(r"\\.|.", pattern, re.DOTALL)


def read_replacement(text: str, groups: int) -> tuple[str | int, ...]:
    r"""Parse a replacement in Java's syntax into texts and group numbers: ``$1`` is a group, ``\$`` a dollar.

    >>> read_replacement(r"<$1\$>", 1)
    ('<', 1, '$>')
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        retry = text[position]
        if retry == "$":
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
        if retry == "\\":
            position += 1
            if position == len(text):
                msg = "it ends in a single \\"
                raise ValueError(msg)
            retry = text[position]
        parts[-1:] = [parts[-1] + retry] if parts and isinstance(parts[-1], str) else [*parts[-1:], retry]
        position += 1
    return tuple(parts)


def replacement_complaint(pattern: str, replacement: str) -> str | None:
    """Return what is wrong with a regular expression or its replacement; None if both are valid."""
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
