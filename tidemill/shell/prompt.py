"""The shell at a terminal: history, completion, statements over several lines, changes in colours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tidemill.boundary.results import Updates
from tidemill.errors import TidemillError
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.sql_aggregates import AGGREGATES
from tidemill.shell.session import SqlSession
from tidemill.shell.shell import Quit, Shell

KEYWORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "ON", "USING", "UNION",
    "ALL", "WITH", "MUTUALLY", "RECURSIVE", "INSERT INTO", "VALUES", "UPDATE", "SET", "DELETE FROM", "MERGE INTO",
    "CREATE", "TABLE", "VIEW", "MATERIALIZED", "DROP", "PRIMARY KEY", "NOT", "NULL", "DISTINCT", "CASE", "WHEN", "THEN",
    "ELSE", "END", "OVER", "PARTITION BY", "ROWS BETWEEN", "PRECEDING", "FOLLOWING", "CURRENT ROW", "BEGIN", "COMMIT",
    "ROLLBACK", "SUBSCRIBE", "UNSUBSCRIBE", "EXPLAIN", "COPY", "SHOW TABLES", "DESCRIBE",
)  # fmt: skip


def prompt(session: SqlSession, greeting: str) -> int:
    """Read statements from a terminal until its end; return the exit code."""
    try:
        import prompt_toolkit  # noqa: PLC0415 - only for those who have it
    except ImportError:
        msg = "the prompt needs prompt_toolkit: pip install 'tidemill[shell]'; scripts do without: tidemill sql file"
        raise ModuleNotFoundError(msg, name="prompt_toolkit") from None
    shell = Shell(session, lambda line: sys.stdout.write(f"{line}\n"), write_changes=_write_changes)
    reader: Any = prompt_toolkit.PromptSession(
        history=prompt_toolkit.history.FileHistory(str(_history())),
        completer=completer(session),
        complete_while_typing=False,
        key_bindings=_bindings(shell),
        multiline=True,
        prompt_continuation=lambda width, *_: " " * (width - 3) + "-> ",
    )
    sys.stdout.write(f"{greeting}\n")
    try:
        while True:
            try:
                shell.feed(reader.prompt("tidemill*> " if session.in_transaction else "tidemill=> "))
            except KeyboardInterrupt:
                continue
            except (EOFError, Quit):
                return 0
            except TidemillError as error:
                sys.stdout.write(f"{error}\n")
    finally:
        session.close()


def _history() -> Path:
    place = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tidemill"
    place.mkdir(parents=True, exist_ok=True)
    return place / "history"


def _bindings(shell: Shell) -> Any:
    """Return what Enter does: it ends a statement with a semicolon, and begins a line before."""
    from prompt_toolkit.key_binding import KeyBindings  # noqa: PLC0415 - see prompt

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if shell.wants_more(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return bindings


def candidates(session: SqlSession) -> Iterator[str]:
    """Return what may stand next: names of tables and columns, then words of SQL."""
    names: dict[str, None] = {}
    for one in session.definitions.values():
        names[one.name] = None
        names.update(dict.fromkeys(session.schema(one).names))
    yield from names
    yield from KEYWORDS
    yield from sorted({*FUNCTIONS, *AGGREGATES})


def completer(session: SqlSession) -> Any:
    """Return what completes the word before the cursor."""
    from prompt_toolkit.completion import Completer, Completion  # noqa: PLC0415 - see prompt

    class Names(Completer):  # type: ignore[misc, unused-ignore]
        def get_completions(self, document: Any, _event: Any) -> Iterator[Any]:
            word = document.get_word_before_cursor()
            for one in dict.fromkeys(candidates(session)):
                if word and one.lower().startswith(word.lower()):
                    yield Completion(one, start_position=-len(word))

    return Names()


def _write_changes(updates: Updates) -> None:
    """Write changes, those that come in green and those that go in red; their signs say it too."""
    from prompt_toolkit import print_formatted_text  # noqa: PLC0415 - see prompt

    colours = {"+": "ansigreen", "-": "ansired"}
    head, rule, *lines = updates.to_text(limit=100).split("\n")
    print_formatted_text(f"{head}\n{rule}")
    for line in lines:
        sign = line.rsplit(" ", 1)[-1][:1]
        print_formatted_text(_coloured(line, colours.get(sign, "")))


def _coloured(line: str, colour: str) -> Any:
    from prompt_toolkit.formatted_text import FormattedText  # noqa: PLC0415 - see prompt

    return FormattedText([(colour, line)])
