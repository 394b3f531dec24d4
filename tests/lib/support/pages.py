"""The code on pages of the documentation: run from top to bottom, and what it prints compared with what the page shows.

A block of ``python`` is run in the namespace of its page; a block of ``text`` right after it is what it prints. What is
in an HTML comment is run as well, and not shown. ``>>>`` in a block makes a doctest of it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^>>> ", re.MULTILINE)


def has_code(page: Path) -> bool:
    """Return whether there is something to run on a page."""
    return any(block["kind"] in {"python", "pycon"} for block in BLOCK.finditer(page.read_text()))


def ran(page: Path, namespace: dict[str, Any]) -> str:
    """Run the blocks of a page, and return its text with what they printed this time."""
    text, parts, end, printed = page.read_text(), [], 0, None
    for block in BLOCK.finditer(text):
        between = text[end : block.start()]
        parts.append(between)
        end = block.end()
        if block["kind"] == "text" and printed is not None and not between.strip():
            shown = re.sub(r"[ \t]+$", "", printed, flags=re.MULTILINE).strip("\n")
            parts.append(f"{block[0].partition(chr(10))[0]}\n{shown}\n```")
        else:
            parts.append(block[0])
        printed = None
        if block["kind"] in {"python", "pycon"}:
            line = text.count("\n", 0, block.start("text"))
            printed = _run(block["text"], page, line, namespace)
    return "".join([*parts, text[end:]])


def _run(code: str, page: Path, line: int, namespace: dict[str, Any]) -> str | None:
    if PROMPT.search(code):
        test = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), line)
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        failed = runner.run(test, out=said.append, clear_globs=False).failed
        assert not failed, "".join(said)
        namespace.update(test.globs)
        return None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"{page.stem}.py", "exec"), namespace)  # lines in messages are those of the block
    return printed.getvalue()
