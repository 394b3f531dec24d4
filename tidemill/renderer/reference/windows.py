"""The meaning of window calls: for each row, the value of each call, straight from SQL's definition."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from tidemill.boundary.values import canonical_float
from tidemill.expressions.binding import bind
from tidemill.expressions.functions.date_values import moved
from tidemill.expressions.functions.values import FailureError, row_order, value_order
from tidemill.expressions.intervals import Interval
from tidemill.expressions.ordering import hash_of_row
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.bound import (
    MOST_COPIES,
    AggregateCall,
    Argument,
    BoundWindowCall,
    CallError,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
    too_many_copies,
)
from tidemill.expressions.windows.frames import Frame, Offset
from tidemill.expressions.windows.functions import BELOW_ONE
from tidemill.renderer.reference.aggregates import aggregate
from tidemill.renderer.reference.expressions import evaluate
from tidemill.renderer.reference.ordering import in_order
from tidemill.renderer.reference.traces import Contents, Row

Places: TypeAlias = list[int]


def with_hash(windows: Windows, schema: Schema, rows: Contents) -> Contents:
    """Return rows with the hash that breaks ties at the end, where it is no column of theirs."""
    if all(o.column < len(schema) for o in windows.ties):
        return rows
    tie = bind(hash_of_row(schema, windows.hash_columns), schema)
    return {(*row, evaluate(tie, row)): count for row, count in rows.items()}


def with_values(windows: Windows, rows: Contents) -> Contents:
    """Return a partition's rows, each copy with its calls' values at its end; `CallError` where there is none."""
    for row, count in rows.items():
        if count > MOST_COPIES:
            raise CallError(0, row, too_many_copies(count))
    partition = _Partition(windows, rows)
    columns = [[partition.value(call, i) for i in range(len(partition.rows))] for call in range(len(windows.calls))]
    return Counter((*row, *values) for row, *values in zip(partition.rows, *columns, strict=True))


class _Partition:
    """The rows of a partition in their order, a row that is there n times being n rows."""

    def __init__(self, windows: Windows, rows: Contents) -> None:
        self._windows = windows
        self.rows = [r for r in in_order(rows, (*windows.order, *windows.ties)) for _ in range(rows[r])]
        sorted_by = [row_order(r[o.column] for o in windows.order) for r in self.rows]
        self._group = [0]  # the number of each row's peer group
        for i in range(1, len(self.rows)):
            self._group.append(self._group[-1] + (sorted_by[i] != sorted_by[i - 1]))

    def value(self, number: int, i: int) -> Any:
        """Return the value of a call in a row."""
        call = self._windows.calls[number]
        try:
            return self._value(call, i)
        except OverflowError:
            raise CallError(number, self.rows[i], "overflow") from None
        except _BelowOneError as error:
            raise CallError(number, self.rows[i], str(error)) from None

    def _value(self, call: BoundWindowCall, i: int) -> Any:
        if isinstance(call, RankingCall):
            return self._ranking(call, i)
        if isinstance(call, OffsetCall):
            return self._offset(call, i)
        frame = [j for j in range(len(self.rows)) if self._in_frame(call.frame, i, j)]
        if isinstance(call, ValueCall):
            return self._nth(call, i, frame)
        assert isinstance(call, AggregateCall)
        return self._aggregate(call, [self.rows[j] for j in frame])

    # -- functions ---------------------------------------------------------------------------------------------------

    def _ranking(self, call: RankingCall, i: int) -> Any:  # noqa: PLR0911 - one line a function
        count = len(self.rows)
        before = self._group.index(self._group[i])  # the rows before the first peer
        if call.function == "row_number":
            return i + 1
        if call.function == "rank":
            return before + 1
        if call.function == "dense_rank":
            return self._group[i] + 1
        if call.function == "percent_rank":
            return before / (count - 1) if count > 1 else 0.0
        if call.function == "cume_dist":
            return (before + self._group.count(self._group[i])) / count
        buckets = _at_least_one(self._argument(call.buckets, i))
        if buckets is None:
            return None
        sizes = [count // buckets + (bucket < count % buckets) for bucket in range(min(buckets, count))]
        return next(b + 1 for b in range(len(sizes)) if i < sum(sizes[: b + 1]))

    def _offset(self, call: OffsetCall, i: int) -> Any:
        offset = self._argument(call.offset, i)
        if offset is None:
            return None
        if offset == 0:
            return self.rows[i][call.column]
        after = (offset > 0) == (call.function == "lead")
        others = self.rows[i + 1 :] if after else self.rows[:i][::-1]
        values = [r[call.column] for r in others if not (call.ignore_nulls and r[call.column] is None)]
        return values[abs(offset) - 1] if abs(offset) <= len(values) else self._argument(call.default, i)

    def _nth(self, call: ValueCall, i: int, frame: Places) -> Any:
        values = [self.rows[j][call.column] for j in frame]
        if call.ignore_nulls:
            values = [v for v in values if v is not None]
        n = 1 if call.n is None else _at_least_one(self._argument(call.n, i))
        if n is None or n > len(values):
            return None
        return values[-1 if call.function == "last_value" else n - 1]

    @staticmethod
    def _aggregate(call: AggregateCall, frame: Sequence[Row]) -> Any:
        rows, column = Counter(frame), call.aggregate.column
        if call.distinct and column is not None:
            rows = Counter({row[column]: row for row in frame}.values())
        return aggregate(call.aggregate, rows)

    def _argument(self, argument: Argument | None, i: int) -> Any:
        assert argument is not None
        return self.rows[i][argument] if isinstance(argument, int) else argument.value

    # -- frames ------------------------------------------------------------------------------------------------------

    def _in_frame(self, frame: Frame, i: int, j: int) -> bool:
        """Return whether row j is in the frame of row i."""
        after_start = frame.start is None or self._distance(frame, i, j, frame.start) >= 0
        before_end = frame.end is None or self._distance(frame, i, j, frame.end) <= 0
        return after_start and before_end and not self._excluded(frame, i, j)

    def _excluded(self, frame: Frame, i: int, j: int) -> bool:
        peer = self._group[i] == self._group[j]
        return {
            "no others": False,
            "current row": i == j,
            "group": peer,
            "ties": peer and i != j,
        }[frame.exclusion]

    def _distance(self, frame: Frame, i: int, j: int, offset: Offset) -> int:
        """Return whether row j is before (negative), at, or after (positive) the place that an offset from i names."""
        if frame.mode == "range" and offset != 0:
            return self._distance_in_range(i, j, offset)
        assert isinstance(offset, int)
        if frame.mode == "rows":
            return _compared(j, i + offset)
        return _compared(self._group[j], self._group[i] + offset)

    def _distance_in_range(self, i: int, j: int, offset: Offset) -> int:
        (by,) = self._windows.order
        here, there = self.rows[i][by.column], self.rows[j][by.column]
        if here is None:  # its peers, the other rows without a value, are all that there is at any distance
            return _compared(self._group[j], self._group[i])
        if there is None:
            return -1 if by.nulls_first else 1
        return -_from(there, here, -offset) if by.descending else _from(there, here, offset)


def _from(value: Any, origin: Any, offset: Offset) -> int:
    """Return whether a value is less than (negative), equal to, or more than another one that is moved."""
    if isinstance(offset, Interval):
        try:
            place = moved(_midnight(origin), offset.dtype, offset.amount)
        except FailureError:  # beyond all dates
            return 1 if offset.amount < 0 else -1
        return _compared(_midnight(value), place)
    if isinstance(value, float):
        return _compared(value_order(value), value_order(canonical_float(origin + offset)))
    with decimal.localcontext(prec=200):
        return _compared(value, origin + offset)


def _midnight(moment: dt.date) -> dt.datetime:
    """Return the timestamp that a date stands for, and a timestamp as it is."""
    return moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time())


def _compared(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _at_least_one(number: int | None) -> int | None:
    if number is not None and number < 1:
        msg = f"{number}: {BELOW_ONE}"
        raise _BelowOneError(msg)
    return number


class _BelowOneError(Exception):
    pass
