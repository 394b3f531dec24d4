"""Where in the user's code something was written, so that errors and pictures can point there."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Final

import attrs

_PACKAGE: Final = f"{Path(__file__).absolute().parents[0]}{os.sep}"
_BLOCKS: Final = contextlib.__file__
"""Through which the end of a `with` comes to us."""


@attrs.frozen
class SqlPlace:
    """A place in a text of SQL: a line, from 1 on, what stands there, and the view or table that it makes."""

    line: int
    text: str
    view: str


@attrs.frozen
class Site:
    """A file and a line of the user's; ``In [3]`` stands for the file of a notebook's cell."""

    file: str
    line: int
    sql: SqlPlace | None = None
    """Of what is made of SQL, where in that text."""

    @classmethod
    def here(cls, sql: SqlPlace | None = None) -> Site:
        """Return the innermost place on the stack that lies outside tidemill."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads every source file; this is 1000x cheaper
        while frame is not None and _inside(frame.f_code.co_filename):
            frame = frame.f_back
        return cls("<unknown>", 0) if frame is None else cls(_named(frame.f_code.co_filename), frame.f_lineno, sql)

    @property
    def source(self) -> str:
        """The text of the line, of SQL what stands there, or an empty string where it cannot be had."""
        return linecache.getline(self._read_as, self.line).strip() if self.sql is None else self.sql.text

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines of the file or the cell; none where they cannot be had."""
        return tuple(linecache.getlines(self._read_as))

    @property
    def _read_as(self) -> str:
        """The file, or what IPython made up for a cell, and gave its text."""
        made = (made for made, cell in _cells().items() if self.file == f"In [{cell}]") if self.is_cell else ()
        return next(iter(made), self.file)

    def __str__(self) -> str:
        return self.location if self.is_cell else f"{self.file.rpartition(os.sep)[2]}:{self.line}{self._in_sql}"

    @property
    def is_cell(self) -> bool:
        """Whether this is a cell of a notebook, which stands for a file."""
        return self.file.startswith("In [")

    @property
    def is_known(self) -> bool:
        """Whether there is a file or a cell that a reader could look at, rather than a prompt."""
        return not self.file.startswith("<")

    @property
    def location(self) -> str:
        """The whole path and the line, as terminals and editors make links of it; of a notebook the cell."""
        place = f"{self.file}, line {self.line}" if self.is_cell else f"{self.file}:{self.line}"
        return place + self._in_sql

    @property
    def _in_sql(self) -> str:
        return "" if self.sql is None else f", SQL line {self.sql.line}"


def warn_at_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost place on the stack that lies outside tidemill."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - as above
    level = 1
    while frame is not None and _inside(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _named(filename: str) -> str:
    """Return a file's name, or which cell of a notebook it is: IPython makes up a file for each."""
    cells = _cells()
    return f"In [{cells[filename]}]" if filename in cells else filename


def _cells() -> Mapping[str, int]:
    """Return the number of the cell for which IPython made up each file."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    found: Mapping[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return found


def _inside(filename: str) -> bool:
    return filename.startswith((_PACKAGE, _BLOCKS, "<attrs generated", "<frozen"))
