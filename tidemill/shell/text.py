"""Statements as words: where one ends, and which clauses it has. What clauses say is left as it was written."""

from __future__ import annotations

import functools
from typing import Any, Final

import attrs
from sqlglot import TokenType
from sqlglot.dialects.dialect import Dialect as Grammar
from sqlglot.errors import SqlglotError

from tidemill.errors import SqlError

_DEEPER: Final = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.CASE: 1, TokenType.END: -1}


@attrs.frozen
class Words:
    """Part of a text, as the words in it with how deep each stands in parentheses and CASE."""

    text: str
    words: tuple[tuple[Any, int], ...]

    def __len__(self) -> int:
        return len(self.words)

    def word(self, place: int) -> str:
        """Return the word at a place in capitals, with the quotes around it; empty behind the end."""
        if place >= len(self.words):
            return ""
        token = self.words[place][0]
        written: str = self.text[token.start : token.end + 1]
        return " ".join(written.upper().split())

    def starts(self, *words: str) -> bool:
        """Return whether these are the first words."""
        return all(self.word(i) == w for i, w in enumerate(words))

    def __getitem__(self, part: slice) -> Words:
        return Words(self.text, self.words[part])

    @property
    def start(self) -> int | None:
        """Where in the text the first word begins."""
        return self.words[0][0].start if self.words else None

    def written(self) -> str:
        """Return the text from the first word to the last."""
        return self.text[self.words[0][0].start : self.words[-1][0].end + 1] if self.words else ""

    def alone(self) -> str:
        """Return the text with blanks for what is before it, so that errors point to where it is written."""
        before = self.text[: self.start or 0]
        return "".join(c if c == "\n" else " " for c in before) + self.written()

    def name(self, place: int) -> tuple[str, int]:
        """Return the name that begins at a place as it is written, dots and quotes included, and where it ends."""
        end = place + 1
        while self.word(end) == "." and end + 1 < len(self.words):
            end += 2
        return self[place:end].written(), end

    def at(self, *keywords: str) -> int | None:
        """Return the first place at which these words stand, outside of parentheses."""
        found = (i for i, (_, deep) in enumerate(self.words) if deep == 0 and self[i:].starts(*keywords))
        return next(found, None)

    def clauses(self, *keywords: str) -> dict[str, Words]:
        """Return what follows each of the keywords that is there, up to the next one; they come in this order."""
        found: dict[str, Words] = {}
        places = [(i, k) for k in keywords if (i := self.at(*k.split())) is not None]
        for (place, keyword), (end, _) in zip(places, [*places[1:], (len(self.words), "")], strict=True):
            found[keyword] = self[place + len(keyword.split()) : end]
        return found

    def split(self, *separators: str) -> list[Words]:
        """Return what stands between these words, outside of parentheses."""
        found, start = [], 0
        for i, (_, deep) in enumerate(self.words):
            if deep == 0 and self.word(i) in separators:
                found.append(self[start:i])
                start = i + 1
        return [*found, self[start : len(self.words)]]

    def inside(self) -> Words:
        """Return what stands between the parentheses around it."""
        return Words(self.text, tuple((token, deep - 1) for token, deep in self.words[1:-1]))

    def error(self, reason: str, hint: str | None = None) -> SqlError:
        """Return the error that points here."""
        return SqlError(reason, self.text, self.start, hint=hint)


def words(text: str, dialect: str) -> Words:
    """Return the words of a text; `SqlError` where they cannot be told apart, as behind a quote that never ends."""
    try:
        tokens = _tokenizer(dialect).tokenize(text)
    except SqlglotError as error:
        msg = f"not SQL as it is read here: {error.__cause__ or error}"
        raise SqlError(msg, text, len(text)) from None
    found, deep = [], 0
    for token in tokens:
        step = _DEEPER.get(token.token_type, 0)
        found.append((token, deep))
        deep += step
        if step < 0:
            found[-1] = (token, deep)
    return Words(text, tuple(found))


@functools.cache
def _tokenizer(dialect: str) -> Any:
    """Return what finds the tokens of a dialect; EXPLAIN and the like are words before others."""
    grammar = Grammar.get_or_raise(dialect)
    plain = type("Plain", (grammar.tokenizer_class,), {"COMMANDS": set()})
    return plain(dialect=grammar)


def statements(text: str, dialect: str) -> list[Words]:
    """Return the statements of a text, without the semicolons between them; places are those in the whole text."""
    parts, start = [], 0
    whole = words(text, dialect).words
    for i, (token, _) in enumerate(whole):
        if token.token_type == TokenType.SEMICOLON:
            parts.append(whole[start:i])
            start = i + 1
    parts.append(whole[start:])
    return [words(_kept(text, part), dialect) for part in parts if part]


def _kept(text: str, part: tuple[tuple[Any, int], ...]) -> str:
    """Return a statement's text with blanks for what is before it, so that errors count lines as the user does."""
    start: int = part[0][0].start
    end: int = part[-1][0].end + 1
    line_start = text.rfind("\n", 0, start) + 1
    return "\n" * text.count("\n", 0, start) + " " * (start - line_start) + text[start:end]


def is_complete(text: str, dialect: str) -> bool:
    """Return whether a text ends with a statement's semicolon."""
    try:
        found = words(text, dialect)
    except SqlError:
        return False
    return bool(found.words) and found.words[-1][0].token_type == TokenType.SEMICOLON
