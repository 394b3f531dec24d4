"""How wide text is in the sans-serif faces that viewers have: near enough to make room for it."""

from __future__ import annotations

import functools
from typing import Final

_WIDTHS: Final = (
    dict.fromkeys("ijl|.,:;'!", 0.26)
    | dict.fromkeys('frtI()[]{} -/`"', 0.36)
    | dict.fromkeys("mwMW%@…⟳", 0.88)
    | dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ<>=+&~", 0.7)
)
_ORDINARY: Final = 0.57
_WIDE: Final = 0x2E80
"""From here on characters are about as wide as they are high."""


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """Return about how wide a text is.

    >>> text_width("ill", 10) < text_width("www", 10)
    True
    """
    return size * sum([_WIDTHS.get(c, _ORDINARY if ord(c) < _WIDE else 1.0) for c in text])


def clipped(text: str, size: float, most: float) -> str:
    """Return a text, or as much of its beginning as is not wider than ``most``.

    >>> clipped("international", 10, 40)
    'intern…'
    """
    text = text if text.isprintable() else "".join([c if c.isprintable() else " " for c in text])
    if text_width(text, size) <= most:
        return text
    room = most - text_width("…", size)
    end = 0
    while (room := room - text_width(text[end], size)) >= 0:
        end += 1
    return text[:end].rstrip() + "…"


def wrapped(text: str, size: float, widest: float, most: int) -> list[str]:
    """Return a text in lines that are not wider than ``widest``, of which there are at most so many.

    >>> wrapped("no row of an international airport", 10, 65, 3)
    ['no row of an', 'international', 'airport']
    >>> wrapped("no row of an international airport", 10, 65, 2)
    ['no row of an', 'internationa…']
    """
    lines: list[str] = []
    words = text.split(" ")
    while words:
        line = words.pop(0)
        is_last = len(lines) == most - 1
        while words and (is_last or text_width(f"{line} {words[0]}", size) <= widest):
            line = f"{line} {words.pop(0)}"
        lines.append(clipped(line, size, widest))
    return lines
