"""Tables as HTML, for notebooks: static, everything escaped; and values as text."""

from __future__ import annotations

import decimal
import html
from collections.abc import Sequence
from typing import Any

_LONGEST = 200


def html_table(columns: Sequence[str], lines: Sequence[tuple[Any, ...]], total: int, caption: str) -> str:
    """Return lines as an HTML table; ``total`` says how many there would be.

    >>> html_table(["a"], [("<b>",), (None,)], 3, "3 rows")
    '<table><caption>3 rows</caption><thead><tr><th>a</th></tr></thead><tbody><tr><td style="text-align: left">&lt;b&gt;</td></tr><tr><td style="text-align: left"><i>NULL</i></td></tr><tr><td colspan="1">… 1 more</td></tr></tbody></table>'
    """  # noqa: E501 - as it comes
    head = "".join(f"<th>{html.escape(str(c))}</th>" for c in columns)
    body = ["".join(map(_cell, line)) for line in lines]
    if total > len(lines):
        body.append(f'<td colspan="{len(columns)}">… {total - len(lines):,} more</td>')
    rows = "".join(f"<tr>{cells}</tr>" for cells in body)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def shown_value(value: Any) -> str:
    """Return a value's text: Python's, but NULL for what is missing, and lists in brackets.

    >>> shown_value((1, None, ("a",)))
    '[1, NULL, [a]]'
    """
    if isinstance(value, tuple):
        return "[" + ", ".join(map(shown_value, value)) + "]"
    return "NULL" if value is None else str(value)


def shown_line(value: Any) -> str:
    r"""Return a value's text on one line of a terminal: of a long one the beginning, what cannot be printed escaped.

    >>> print(shown_line("one\ntwo \x1b[31m"))
    one\ntwo \x1b[31m
    """
    text = _clipped(shown_value(value))
    return text if text.isprintable() else "".join([c if c.isprintable() else repr(c)[1:-1] for c in text])


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _cell(value: Any) -> str:
    number = isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
    shown = "<i>NULL</i>" if value is None else html.escape(_clipped(shown_value(value)))
    return f'<td style="text-align: {"right" if number else "left"}">{shown}</td>'
