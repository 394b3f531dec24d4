r"""What is typed, answered as text: statements, and commands that begin with ``\``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from tidemill.boundary.results import Updates
from tidemill.errors import StateError, TidemillError, did_you_mean
from tidemill.shell.session import Answer, SqlSession
from tidemill.shell.text import is_complete, statements, words

SHOWN_ROWS: Final = 100
HELP: Final = r"""Statements end with a semicolon:
  CREATE TABLE, VIEW, MATERIALIZED VIEW; DROP     inputs, queries, results that are kept up to date
  DECLARE RECURSIVE VIEW v (a INT)                v may read itself; made by the CREATE VIEW of the last declared
  INSERT, UPDATE, DELETE, MERGE, COPY t FROM 'f'  an epoch each; BEGIN ... COMMIT makes several one
  SELECT                                          once, for the rows of this moment
  SUBSCRIBE view; UNSUBSCRIBE                     its rows, and what changes in them from then on
  EXPLAIN query                                   how it would be computed
Commands:
  \d [name]      tables and views, or the columns of one
  \timing        how long each statement takes
  \watch [secs]  the last query again and again, until Ctrl-C
  \i file        a script
  \save folder   statements and rows; \load folder takes them over
  \graph [file]  the dataflow, as an SVG file
  \metrics       rows held and time taken by each operator
  \q             the end"""


class Quit(Exception):  # noqa: N818 - no error
    r"""``\q`` was typed."""


@attrs.define(eq=False)
class Shell:
    """A session, and where its answers go."""

    session: SqlSession
    write: Callable[[str], object]
    """Takes a line, or several."""
    write_changes: Callable[[Updates], object] | None = None
    """Takes changes, where they are shown otherwise than as text."""
    limit: int = SHOWN_ROWS
    """Rows shown of a table."""
    timing: bool = False
    echo: bool = False
    """Whether a statement is written before its answers."""
    _last_query: str = attrs.field(default="", init=False)

    def wants_more(self, text: str) -> bool:
        """Return whether a statement that is being typed has not ended."""
        stripped = text.strip()
        return bool(stripped) and stripped[0] != "\\" and not is_complete(text, self.session.dialect_name)

    def feed(self, text: str) -> None:
        """Do what was typed, and show what it comes to; errors are raised."""
        if text.lstrip().startswith("\\"):
            for line in filter(None, map(str.strip, text.splitlines())):
                self._command(line)
            return
        for statement in statements(text, self.session.dialect_name):
            if self.echo:
                self.write(f"\n=> {statement.written()};")
            started = time.perf_counter()
            for answer in self.session.statement(statement):
                self.show(answer)
            if statement.word(0) in ("SELECT", "WITH", "VALUES"):
                self._last_query = statement.written()
            if self.timing:
                self.write(f"{(time.perf_counter() - started) * 1000:.1f} ms")

    def show(self, answer: Answer) -> None:
        """Write an answer."""
        if answer.text:
            self.write(answer.text)
        if isinstance(answer.table, Updates) and self.write_changes is not None:
            self.write_changes(answer.table)
        elif answer.table is not None:
            self.write(answer.table.to_text(limit=self.limit))

    def _command(self, line: str) -> None:
        name, _, rest = line[1:].partition(" ")
        if name not in _COMMANDS:
            msg = f"no command \\{name}: {did_you_mean(name, _COMMANDS)}; \\? tells them all"
            raise StateError(msg)
        _COMMANDS[name](self, rest.strip())

    def describe(self, name: str) -> None:
        """List tables and views, or the columns of one."""
        table = self.session.columns(words(name, self.session.dialect_name)) if name else self.session.listed()
        self.write(table.to_text(limit=1_000))

    def toggle_timing(self, _: str) -> None:
        """Tell from now on how long statements take, or no more."""
        self.timing = not self.timing
        self.write(f"timing is {'on' if self.timing else 'off'}")

    def watch(self, seconds: str) -> None:
        """Ask the last query again and again, until Ctrl-C."""
        if not self._last_query:
            msg = "nothing to watch: ask a query first"
            raise StateError(msg)
        try:
            pause = float(seconds or 2)
        except ValueError:
            pause = -1.0
        if not pause >= 0:
            msg = f"\\watch {seconds}: expected a number of seconds"
            raise StateError(msg)
        try:
            while True:
                self.feed(self._last_query)
                time.sleep(pause)
        except KeyboardInterrupt:
            self.write("")

    def script(self, file: str) -> None:
        """Do what a file says."""
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{file or 'no file'} cannot be read: {error}"
            raise StateError(msg) from error
        self.feed(text)

    def graph(self, file: str) -> None:
        """Write the dataflow as a picture."""
        place = Path(file or "dataflow.svg")
        try:
            place.write_text(self.session.dataflow.to_svg(), encoding="utf-8")
        except OSError as error:
            msg = f"{place} cannot be written: {error}"
            raise StateError(msg) from error
        self.write(str(place))

    def quit(self, _: str) -> None:
        """End."""
        raise Quit


_COMMANDS: Final[dict[str, Callable[[Shell, str], object]]] = {
    "d": Shell.describe,
    "dt": Shell.describe,
    "timing": Shell.toggle_timing,
    "watch": Shell.watch,
    "i": Shell.script,
    "save": lambda shell, folder: shell.write(shell.session.save(folder)),
    "load": lambda shell, folder: shell.write(shell.session.load(folder)),
    "graph": Shell.graph,
    "metrics": lambda shell, _: shell.write(repr(shell.session.run.metrics())),
    "q": Shell.quit,
    "?": lambda shell, _: shell.write(HELP),
    "h": lambda shell, _: shell.write(HELP),
}


def run_script(text: str, session: SqlSession, *, echo: bool = False) -> int:
    """Run a script, its answers on standard output; return the exit code: 1 if a statement failed, which ends it.

    With ``echo`` each statement is written before what it comes to.
    """
    shell = Shell(session, lambda line: sys.stdout.write(f"{line}\n"), limit=sys.maxsize, echo=echo)
    try:
        for part in _parts(text):
            shell.feed(part)
        if session.missing:
            msg = f"views are declared, and never made: {session.missing}"
            raise StateError(msg)
    except Quit:
        return 0
    except TidemillError as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        session.close()
    return 0


def _parts(text: str) -> list[str]:
    r"""Return a script in parts, each statements or commands: lines that begin with ``\`` are these."""
    parts: list[str] = []
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("\\"):
            parts += ["\n".join(lines), line]
            lines = [""] * (len(lines) + 1)  # errors count lines as the user does
        else:
            lines.append(line)
    return [p for p in [*parts, "\n".join(lines)] if p.strip()]
