"""The one exception tree. Every message says what was given, what was expected, where, and what to do."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Self

from tidemill.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ClosedRunError", "CountOverflowError", "EmptyFrameWarning", "EngineError", "ExpressionError", "GraphError",
    "IterationLimitError", "MissedChangesError", "NegativeCountError", "NegativeCountWarning", "ReentrantUseError",
    "RowError", "SchemaError", "SqlError", "StateError", "StepError", "TidemillError", "TimeError",
    "UnknownColumnError", "UnknownNameError", "UserFunctionError", "ViewError",
]  # fmt: skip


class TidemillError(Exception):
    """The root of everything that tidemill raises on purpose.

    What the text says is there as data too, where it applies, else None: ``operator`` with its kind and name, ``site``,
    the user's line it is of, ``column``, ``row`` (for an error of a group its key) and ``time``, as users write it.
    Long values are cut in the text, not in the data.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("x", flow.input("x", {"s": "string", "i": "int64"}))
    >>> with flow.start() as run:
    ...     try:
    ...         run.insert("x", [("a", 1), ("b", "2")])
    ...     except TidemillError as error:
    ...         error.operator, error.column, error.row
    ("Input 'x'", 'i', ('b', '2'))
    """

    operator: str | None = None
    site: Site | None = None
    column: str | None = None
    row: Any = None
    time: Any = None

    def __init__(self, *args: object) -> None:
        super().__init__(*(_cut(a) if isinstance(a, str) else a for a in args))

    def about(self, **data: Any) -> Self:
        """Return this error with what is known of where it comes from; what it says already stays."""
        for name, value in data.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self


class GraphError(TidemillError):
    """A dataflow was built wrongly: it fails where it is built, with the user's line, not where it runs."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.site = Site.here()

    def __str__(self) -> str:
        text = super().__str__()
        if self.site is None or not self.site.is_known or self.site.location in text:
            return text
        return f"{text} ({self.site.location})"


class SchemaError(GraphError):
    """Types, columns or schemas that do not fit together."""


class UnknownColumnError(SchemaError):
    """A column name that the schema does not have."""


class SqlError(TidemillError):
    r"""SQL text that is wrong, or asks for what is not supported.

    ``line`` and ``column``, counted from 1, say where, and the message shows the place; ``hint`` says what to do, where
    that is known.

    >>> print(SqlError("no table `u`", "select *\nfrom u", 14, hint="there are: `t`"))
    no table `u`: there are: `t` (line 2, column 6)
      from u
           ^
    """

    column: int | None = None  # type: ignore[assignment] # a place in the text; those of data have a name

    def __init__(self, reason: str, text: str = "", start: int | None = None, *, hint: str | None = None) -> None:
        self.reason, self.text, self.start, self.hint = reason, text, start, hint
        said = reason if hint is None else f"{reason}: {hint}"
        self.line: int | None = None
        if start is not None:
            before = text.rfind("\n", 0, start) + 1
            self.line, self.column = text.count("\n", 0, start) + 1, start - before + 1
            said = f"{_cut(said)} (line {self.line}, column {self.column})\n{_pointed(text, before, start)}"
        super().__init__(said)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sql_error, (self.reason, self.text, self.start, self.hint)


def _sql_error(reason: str, text: str, start: int | None, hint: str | None) -> SqlError:
    return SqlError(reason, text, start, hint=hint)


_WIDTH = 100


def _pointed(text: str, before: int, start: int) -> str:
    """Return a line of a text, or as much of it as fits, and below it a mark at the place."""
    line = text[before:].split("\n", 1)[0]
    first = max(0, start - before - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = line[first : first + _WIDTH].replace("\t", " ")
    return f"  {shown}\n  {' ' * (start - before - first)}^"


class UnknownNameError(TidemillError):
    """An input, output or binding name that the dataflow does not have."""


class RowError(TidemillError):
    """Rows of the wrong arity or type, or with a null where none may be. The whole batch was refused.

    ``row_index`` is the offending row's place in the batch, from 0, where there is one.
    """

    row_index: int | None = None


class TimeError(TidemillError):
    """A time before the frontier, of the wrong shape, or compacted away."""


class MissedChangesError(TidemillError):
    """A subscriber was so far behind that changes are not there any more: begin again with the contents."""


class ClosedRunError(TidemillError):
    """The run was closed and holds no state any more; or it is that of the process from which this one was forked."""


class ReentrantUseError(TidemillError):
    """A function in the dataflow, or whatever else a step calls, used the run whose step it is."""


class EngineError(TidemillError):
    """An engine that cannot be used here: a package or Java is missing, or a session has other settings."""


class StateError(TidemillError):
    """A saved state that is damaged, of another dataflow, in use elsewhere, or cannot be read or written."""


class ViewError(TidemillError):
    """A source, a view or its table that is not as `Views` needs it."""


class StepError(TidemillError):
    """A step could not be taken. The run is as it was before; the queued updates are still there."""


class NegativeCountError(StepError):
    """A row whose count is negative (or above 1 for a unique input) where that has no meaning."""


class NegativeCountWarning(UserWarning):
    """Rows whose count is negative, as that of one deleted and never inserted, are left out of what is read."""


class EmptyFrameWarning(UserWarning):
    """A window's frame that begins behind its end, and so is empty in every row: most databases refuse it."""


class CountOverflowError(StepError):
    """A row's count, or a sum that an operator keeps, beyond 64 bits: as in a loop that adds its rows to themselves."""


class IterationLimitError(StepError):
    """A loop that still changed after as many iterations as it was allowed."""


class ExpressionError(StepError):
    """A scalar expression had no value for a row: overflow, division by zero, a cast that does not fit.

    ``sql`` is the part of the expression that failed, ``reason`` what happened and ``row_index`` the first offending
    row's place in the batch, where that is known.

    >>> print(ExpressionError("division by zero", "delay / n"))
    division by zero in `delay / n`
    """

    def __init__(self, reason: str, sql: str, row_index: int | None = None) -> None:
        super().__init__(reason, sql, row_index)  # so that the error can be pickled
        self.reason, self.sql = _cut(reason), _cut(sql)
        self.row_index = row_index

    def __str__(self) -> str:
        return f"{self.reason} in `{self.sql}`"


class UserFunctionError(StepError):
    """A user's function raised, or returned something other than it declared."""


_MOST_SHOWN = 200
_MOST_SAID = 4_000


def _cut(text: str) -> str:
    """Return a message without its middle, if it is long: the end often says what to do."""
    if len(text) <= _MOST_SAID:
        return text
    half = _MOST_SAID // 2
    return f"{text[:half]} ... ({len(text):,} characters) ... {text[-half:]}"


def brief(value: Any, most: int = _MOST_SHOWN) -> str:
    """Return a value as messages and logs show it: as ``repr`` does, cut where that is long.

    >>> print(brief(("ab", None)), brief("a" * 1000, 5), brief(list(range(10**6)), 3))
    ('ab', None) 'aaaaa'... (1,000 characters) [0, 1, 2, 3, 4, ... (1,000,000 values)]
    """
    if isinstance(value, (str, bytes)):
        of = "characters" if isinstance(value, str) else "bytes"
        return repr(value) if len(value) <= most else f"{value[:most]!r}... ({len(value):,} {of})"
    if type(value) in (tuple, list):
        return _brief_parts(value, most)
    if isinstance(value, int) and value.bit_length() > 4 * most:
        return f"a whole number of {value.bit_length():,} bits"
    text = repr(value)  # of objects of the user's, too
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _brief_parts(values: tuple[Any, ...] | list[Any], most: int) -> str:
    parts: list[str] = []
    room = most * 5
    for value in values:
        if room <= 0:
            parts.append(f"... ({len(values):,} values)")
            break
        parts.append(brief(value, most))
        room -= len(parts[-1]) + 2
    text = ", ".join(parts)
    if isinstance(values, list):
        return f"[{text}]"
    return f"({text},)" if len(values) == 1 else f"({text})"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a closing hint for an unknown name: the nearest known ones, or all of them.

    >>> did_you_mean("orign", ["origin", "dest"])
    "did you mean 'origin'?"
    >>> did_you_mean("ORIGIN", ["origin", "dest"])
    "did you mean 'origin'? Upper and lower case are different here"
    >>> did_you_mean("x", ["a", "b"])
    "there are: 'a', 'b'"
    """
    names = list(known)
    by_case = [n for n in names if n.lower() == str(name).lower() and n != name]
    if by_case:
        return f"did you mean {by_case[0]!r}? Upper and lower case are different here"
    near = difflib.get_close_matches(str(name), names, n=3)
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    return "there are: " + (", ".join(repr(n) for n in names) or "none")
