"""``%%tidemill``: SQL in the cells of a notebook. What is subscribed to is a table that stays up to date."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from tidemill.boundary.results import Rows, Updates
from tidemill.errors import SqlError
from tidemill.shell.session import Answer, SqlSession
from tidemill.shell.shell import Shell

_USAGE = "%%tidemill [--dialect NAME] [--graph] [--new]"


class Cells:
    """The session of a notebook, and the tables of its subscriptions that are on screen."""

    def __init__(self) -> None:
        self.session = SqlSession()
        self._handles: dict[str, Any] = {}

    def magic(self, line: str, cell: str | None = None) -> None:
        r"""Run a cell's statements, or the line's: ``%tidemill \d``. Options stand in a cell's first line."""
        from IPython import display as shown  # noqa: PLC0415 - there is one, or nobody could call

        display: Any = shown.display

        options = [] if cell is None else shlex.split(line)
        self._prepared(options)
        shell = Shell(self.session, lambda text: sys.stdout.write(f"{text}\n"))
        text = line if cell is None else cell
        if text.lstrip().startswith("\\"):
            shell.feed(text)
        else:
            for answer in self.session.execute(text):
                self._show(answer, display)
        if "--graph" in options:
            display(self.session.dataflow)

    def _prepared(self, options: list[str]) -> None:
        known = iter(options)
        dialect, is_new = self.session.dialect_name, False
        for option in known:
            if option == "--dialect":
                dialect = next(known, "")
            elif option == "--new":
                is_new = True
            elif option != "--graph":
                msg = f"{option!r} is no option of {_USAGE}"
                raise SqlError(msg)
        if is_new or (dialect != self.session.dialect_name and not self.session.definitions):
            self.session.close()
            self.session, self._handles = SqlSession(dialect), {}
        elif dialect != self.session.dialect_name:
            msg = f"this session speaks {self.session.dialect_name}: begin another with --new --dialect {dialect}"
            raise SqlError(msg)

    def _show(self, answer: Answer, display: Any) -> None:
        if isinstance(answer.table, Updates) and answer.subscription in self._handles:
            self._handles[answer.subscription].update(self.session.run.snapshot(answer.subscription))
        elif isinstance(answer.table, Rows) and answer.subscription:
            handle = display(answer.table, display_id=True)
            if handle is not None:  # outside of a notebook it is printed once
                self._handles[answer.subscription] = handle
        elif answer.table is not None:
            display(answer.table)
        elif answer.text:
            sys.stdout.write(f"{answer.text}\n")


def register(ipython: Any) -> None:
    """Make ``%tidemill`` and ``%%tidemill`` known; ``tidemill_session`` is the session in the notebook's names."""
    cells = Cells()
    ipython.register_magic_function(cells.magic, "line_cell", "tidemill")
