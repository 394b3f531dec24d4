"""Window calls as engines are given them: columns by position, types, and frames that fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tidemill.expressions.aggregates import BoundAggregate
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.schema import Field
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.types import FLOAT64, INT64, DType
from tidemill.expressions.windows.frames import Frame
from tidemill.expressions.windows.functions import BELOW_ONE

Argument: TypeAlias = int | BoundLiteral
"""An argument of a call: a column of the rows, or one value for all of them."""

ColumnText: TypeAlias = Callable[[int], str]
"""What a column is called in a text."""


@attrs.frozen
class RankingCall:
    """A function of where a row is in its partition: row_number, rank, dense_rank, percent_rank, cume_dist, ntile."""

    function: str
    buckets: Argument | None = None
    """What ntile shares the rows out to."""

    @property
    def output(self) -> DType:
        """The type of the values."""
        return FLOAT64 if self.function in ("percent_rank", "cume_dist") else INT64

    @property
    def nullable(self) -> bool:
        """Whether a row can have NULL here."""
        return self.buckets is not None

    @property
    def by_row(self) -> bool:
        """Whether rows that are peers can have different values, depending on their order."""
        return self.function in ("row_number", "ntile")

    def describe(self, text: ColumnText) -> str:
        """Return the call as SQL has it."""
        return f"{self.function}({_text(self.buckets, text)})"


@attrs.frozen
class OffsetCall:
    """The value in the row so many rows before (lag) or after (lead), or the default where there is no such row."""

    function: str
    column: int
    offset: Argument
    default: Argument
    output: DType
    ignore_nulls: bool = False
    nullable = True
    by_row = True

    def describe(self, text: ColumnText) -> str:
        """Return the call as SQL has it."""
        default = "" if isinstance(self.default, BoundLiteral) and self.default.value is None else self.default
        more = "" if default == "" else f", {_text(self.default, text)}"
        return f"{self.function}({text(self.column)}, {_text(self.offset, text)}{more}){_nulls(self.ignore_nulls)}"


@attrs.frozen
class ValueCall:
    """The value in the first, the last or the nth row of the frame, which may pass over those with NULL."""

    function: str
    column: int
    frame: Frame
    output: DType
    n: Argument | None = None
    ignore_nulls: bool = False
    nullable = True
    by_row = True

    def describe(self, text: ColumnText) -> str:
        """Return the call as SQL has it."""
        n = "" if self.n is None else f", {_text(self.n, text)}"
        return f"{self.function}({text(self.column)}{n}){_nulls(self.ignore_nulls)} {self.frame}"


@attrs.frozen
class AggregateCall:
    """An aggregate of the frame's rows; where it is distinct, of one row for each value."""

    aggregate: BoundAggregate
    frame: Frame
    distinct: bool = False

    @property
    def function(self) -> str:
        """The aggregate's name."""
        return self.aggregate.function

    @property
    def output(self) -> DType:
        """The type of the values."""
        return self.aggregate.output

    @property
    def nullable(self) -> bool:
        """Whether a row can have NULL here."""
        return self.aggregate.function not in ("count", "list")

    @property
    def by_row(self) -> bool:
        """Whether rows that are peers can have different values, depending on their order."""
        return self.aggregate.function == "list" or (self.frame.mode == "rows" and not self.frame.whole)

    def describe(self, text: ColumnText) -> str:
        """Return the call as SQL has it."""
        column = "*" if self.aggregate.column is None else text(self.aggregate.column)
        condition = "" if self.aggregate.condition is None else f" WHERE {text(self.aggregate.condition)}"
        distinct = "DISTINCT " if self.distinct else ""
        return f"{self.aggregate.function}({distinct}{column}){condition} {self.frame}"


BoundWindowCall: TypeAlias = RankingCall | OffsetCall | ValueCall | AggregateCall


def _text(argument: Argument | None, text: ColumnText) -> str:
    if argument is None:
        return ""
    return text(argument) if isinstance(argument, int) else to_sql(argument)


def _nulls(ignored: bool) -> str:
    return " IGNORE NULLS" if ignored else ""


@attrs.frozen
class CallLabel:
    """The names of a user's call, for the errors of an operator that computes something for it."""

    function: str
    name: str
    keys: int
    """How many columns the call's rows are partitioned by: the first ones."""


@attrs.frozen
class Windows:
    """What a keyed operator computes for each partition: its rows, each with the calls' values at its end.

    A row that is there n times is n rows, one after another, and each has values of its own. Rows with equal ``order``
    are peers. ``ties`` tell apart any two rows that are; without them no call depends on the order of peers. Where the
    first of them is a column behind the last one of the rows, that is the hash of ``hash_columns``: it is worked out of
    ties alone.
    """

    order: tuple[OrderColumn, ...]
    ties: tuple[OrderColumn, ...]
    calls: tuple[BoundWindowCall, ...]
    names: tuple[str, ...]
    row: tuple[int, ...]
    """Which of the columns are those of the rows that calls are for; all others were computed from them."""
    carried: tuple[int, ...] = ()
    """Which of the others come out again, too."""
    in_order: bool = True
    """Whether an engine that can keeps large partitions in their order, and computes what a change reaches only."""
    only_in_order: bool = False
    """Whether an engine that cannot is to refuse."""
    label: CallLabel | None = None
    """The user's call that this is computed for, where it is not one of these."""
    hashed: tuple[int, ...] | None = None
    """Which of the columns the hash that breaks ties is over, if not over the rows' own."""

    @property
    def hash_columns(self) -> tuple[int, ...]:
        """The columns that the hash is over, in their order."""
        return self.row if self.hashed is None else self.hashed

    def kept(self, keys: int) -> tuple[int, ...]:
        """Return which of the columns come out again: the partitioning's, which are the first, and the rows' own."""
        return (*range(keys), *self.own(keys), *self.carried)

    def own(self, keys: int) -> tuple[int, ...]:
        """Return which of the columns are the rows' own, without the partitioning's."""
        return tuple(i for i in self.row if i >= keys)

    def named(self, call: int) -> tuple[str, str]:
        """Return a call's function and the name of its column, as users know them."""
        label = self.label
        return (self.calls[call].function, self.names[call]) if label is None else (label.function, label.name)

    def partitioned_by(self, keys: int) -> int:
        """Return how many of the keys users partition by."""
        return keys if self.label is None else self.label.keys

    def describe(self, texts: Sequence[str] | None = None) -> str:
        """Return the calls with their columns' names, and the order; what they read as given, or by its number."""
        text: ColumnText = "#{}".format if texts is None else texts.__getitem__
        calls = ", ".join(f"{c.describe(text)} AS {n}" for c, n in zip(self.calls, self.names, strict=True))
        return calls + (f" by {', '.join(text(o.column) + o.direction for o in self.order)}" if self.order else "")


def value_fields(windows: Windows) -> tuple[Field, ...]:
    """Return the columns that hold the calls' values, in their order."""
    pairs = zip(windows.names, windows.calls, strict=True)
    return tuple(Field(name, call.output, call.nullable) for name, call in pairs)


MOST_COPIES: Final = 1 << 24
"""How often a row may be there: each copy is a row of its own, in order, with values of its own."""


def too_many_copies(count: int) -> str:
    """Return what is wrong with a row that is there too often."""
    return f"the row is there {count} times, each of them a row of its own: at most {MOST_COPIES} are supported"


class CallError(Exception):
    """A call has no value for a row: which call of its `Windows`, which row (as the engine has it), and why."""

    def __init__(self, call: int, row: Any, reason: str) -> None:
        super().__init__(call, row, reason)
        self.call = call
        self.row = row
        self.reason = reason


@attrs.frozen
class RowCheck:
    """What rows go through before sums over their order: each row with its count, as it is, or an error.

    Who sees partitions whole sees there that a row's count is negative or too much, or that a call has no value for the
    row.
    """

    windows: Windows
    keys: int
    """How many of the rows' columns, which come first, are the partitioning."""

    def describe(self) -> str:
        """Return what is checked, in a few words."""
        return "no negative counts" + "".join(f", {self._name(c)} of at least 1" for c in self.at_least_one)

    @property
    def at_least_one(self) -> dict[int, int]:
        """The calls, by number, that take a number of at least 1 from the rows, and the column that has it."""
        numbers = {
            i: call.buckets if isinstance(call, RankingCall) else call.n if isinstance(call, ValueCall) else None
            for i, call in enumerate(self.windows.calls)
        }
        return {i: number for i, number in numbers.items() if isinstance(number, int)}

    def _name(self, call: int) -> str:
        return f"{self.windows.calls[call].function} AS {self.windows.names[call]}"

    def key(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Return the partition that a row is in."""
        return tuple(row[: self.keys])

    def own(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Return what of a row is the row that calls are for."""
        return tuple(row[i] for i in self.windows.row)

    def __call__(self, row: Sequence[Any], count: int) -> int:
        """Return the row's count; `CallError` where it is too much, or a call has no value for the row."""
        if count > MOST_COPIES:
            raise CallError(0, tuple(row), too_many_copies(count))
        for call, column in self.at_least_one.items() if count else ():
            number = row[column]
            if number is not None and number < 1:
                raise CallError(call, tuple(row), f"{number}: {BELOW_ONE}")
        return count
