"""Binding: from calls over windows and a schema to what engines compute, and the columns that this reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.aggregate_functions import Aggregate, HashOfRow
from tidemill.expressions.aggregates import BoundAggregate, bind_aggregate
from tidemill.expressions.binding import bind, bind_with_default
from tidemill.expressions.bound import Bound, BoundCall, BoundLiteral
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.ordering import OrderColumn, OrderKey, bind_order, hash_of_row
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, to_sql
from tidemill.expressions.structure import replaced
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.bound import (
    AggregateCall,
    Argument,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
    value_fields,
)
from tidemill.expressions.windows.calls import RANKINGS, Strategy, WindowCall, holds_its_frame
from tidemill.expressions.windows.frames import Frame, offset_for
from tidemill.expressions.windows.functions import WindowFunction
from tidemill.expressions.windows.in_order import (
    GROUPED,
    IN_ORDER,
    NUMBERED,
    RECOMPUTED,
    SEVERAL_COORDINATES,
    SUMMED,
    Rendering,
    cost_of_group,
    costs_in_order,
    is_of_group,
    looks_at_all,
)


@attrs.frozen
class BoundWindows:
    """Calls over one partitioning and one order, and the rows that they are computed from."""

    columns: tuple[tuple[str, Bound], ...]
    """What the rows hold, with a name each: the partitioning's keys, the columns of the input, all that calls read."""
    keys: int
    """How many of the columns, which come first, are the partitioning."""
    windows: Windows
    strategy: Strategy = "auto"
    hold_frames: tuple[str, ...] = ()
    """The calls, by their columns' names, for which calls are recomputed though sums over the order were asked for."""

    @property
    def numbers_rows(self) -> bool:
        """Whether all that is asked for is the number of each row in an order: which a top-k gives its rows as well."""
        numbers = all(isinstance(c, RankingCall) and c.function == "row_number" for c in self.windows.calls)
        return numbers and bool(self.windows.order) and self.strategy == "auto"

    @property
    def without_hash(self) -> tuple[tuple[str, Bound], ...]:
        """The columns, but for the hash that breaks ties, where it is one for that alone: see `Windows`."""
        *others, (_, last) = self.columns
        ties, hashed = self.windows.ties, tuple(self.columns[i][1] for i in self.windows.hash_columns)
        is_hash = bool(ties) and ties[0].column == len(others) and isinstance(last, BoundCall) and last.args == hashed
        return tuple(others) if is_hash else self.columns

    @property
    def look_at_all(self) -> dict[str, str]:
        """The calls that need the whole partition at any change, by their columns' names, and why."""
        return looks_at_all(self.windows, [bound.dtype for _, bound in self.columns])

    def describe(self, coordinates: int = 1, most: int | None = None) -> str:
        """Return the calls with their columns' names, over what they are, and how they are kept up to date.

        At times of so many coordinates, and where no number of a row is asked for that is greater than ``most``.
        """
        partition = ", ".join(to_sql(bound) for _, bound in self.columns[: self.keys])
        shown = [to_sql(bound) for _, bound in self.columns]
        how = f"{self.strategy} (as asked)" if self.strategy != "auto" else self._chosen(coordinates)
        if self.hold_frames:
            how = f"recompute (not prefix_sum: sums would hold what frames do of {', '.join(self.hold_frames)})"
        if most is not None and self.numbers_rows:
            how = f"the first {most} by number (auto)"
        return self.windows.describe(shown) + (f" of each {partition}" if partition else "") + f", {how}"

    def _chosen(self, coordinates: int) -> str:
        """Return how calls are kept up to date where nothing was asked for."""
        in_order = any(one.how == IN_ORDER for _, one in self.renderings(coordinates))
        return "in order or recompute (auto)" if in_order else "recompute (auto)"

    def renderings(self, coordinates: int = 1, most: int | None = None) -> Iterator[tuple[str, Rendering]]:
        """Iterate over the names of calls, and how each is kept up to date: see `describe`."""
        calls = dict(zip(self.windows.names, self.windows.calls, strict=True))
        of_groups = {name for name, call in calls.items() if self.strategy == "auto" and is_of_group(call)}
        together = {name: call for name, call in calls.items() if name not in of_groups}
        whole = {name: reason for name, reason in self.look_at_all.items() if name in together}
        if coordinates > 1:
            whole = dict.fromkeys(together, SEVERAL_COORDINATES)
        costs = costs_in_order(together)
        for name, call in calls.items():
            if most is not None and self.numbers_rows:
                yield name, Rendering(NUMBERED, f"the first {most} rows at most")
            elif self.strategy == "prefix_sum":
                yield name, Rendering(SUMMED, "the logarithm of its partition for each value it changes", asked=True)
            elif self.hold_frames:
                names = ", ".join(self.hold_frames)
                yield name, Rendering(RECOMPUTED, f"its partition, since sums would hold all that frames do of {names}")
            elif self.strategy == "recompute":
                yield name, Rendering(RECOMPUTED, "its partition", asked=True)
            elif name in of_groups:
                yield name, Rendering(GROUPED, cost_of_group(call))
            elif whole:
                reason = whole.get(name, f"it is computed with {', '.join(whole)}")
                yield name, Rendering(RECOMPUTED, f"its partition, since {reason}")
            else:
                yield name, Rendering(IN_ORDER, costs[name], asked=self.strategy == "ordered")


def bind_windows(
    calls: Iterable[tuple[str, WindowCall]], schema: Schema, hashed: tuple[int, ...] | None = None
) -> list[BoundWindows]:
    """Return calls, given with their columns' names, bound: those of one partitioning, order and strategy together.

    Each is bound to the rows with the values of those before it. What breaks ties is the hash of the rows without them,
    or of some columns.
    """
    tie = tuple(range(len(schema))) if hashed is None else hashed
    groups: dict[Any, list[tuple[str, WindowCall]]] = {}
    for name, call in calls:
        partition = tuple(bind(as_expr(e, schema), schema) for e in call.window.partition)
        order = bind_order(call.window.order, schema) if call.window.order else ()
        groups.setdefault((partition, order, call.strategy), []).append((name, call))
    found: list[BoundWindows] = []
    for (partition, order, strategy), some in groups.items():
        widened = Schema((*schema, *(f for before in found for f in value_fields(before.windows))))
        bound = _Binder(widened, partition, order, tie).bound(some)
        hold_frames = tuple(name for name, call in some if strategy == "prefix_sum" and holds_its_frame(call))
        how: Strategy = "recompute" if hold_frames else strategy
        found.append(attrs.evolve(bound, strategy=how, hold_frames=hold_frames))
    return found


class _Binder:
    """The columns that calls of one partitioning and order read, collected while the calls are bound."""

    def __init__(
        self, schema: Schema, partition: tuple[Bound, ...], order: tuple[OrderKey, ...], hashed: tuple[int, ...]
    ) -> None:
        self._schema = schema
        self._tie = hash_of_row(schema, hashed)
        self._columns: list[tuple[str, Bound]] = [(f"key {i}", b) for i, b in enumerate(partition)]
        self._keys = len(partition)
        self._row = tuple(self._place(f"row {n}", bind(col(n), schema)) for n in schema.names)
        of_tie = tuple(self._row[i] for i in hashed)
        self._hashed = None if of_tie == self._row else of_tie
        self._sorted_by = order
        self._order = tuple(
            OrderColumn(self._place(f"order {i}", key.expression), key.descending, key.nulls_first)
            for i, key in enumerate(order)
        )

    def bound(self, calls: list[tuple[str, WindowCall]]) -> BoundWindows:
        found = tuple(self._call(name, call) for name, call in calls)
        ties = self._ties() if any(c.by_row for c in found) else ()
        found = tuple(self._in_order(c, ties) for c in found)
        names, hashed = tuple(name for name, _ in calls), self._hashed if ties else None
        windows = Windows(self._order, ties, found, names, self._row, hashed=hashed)
        return BoundWindows(tuple(self._columns), self._keys, windows)

    def _place(self, name: str, bound: Bound) -> int:
        """Return the column that holds an expression: one that is there already, or a new one."""
        for i, (_, there) in enumerate(self._columns):
            if there == bound:
                return i
        self._columns.append((name, bound))
        return len(self._columns) - 1

    def _ties(self) -> tuple[OrderColumn, ...]:
        """Return what tells any two rows apart: their hash and then, column by column, all of them."""
        tie = self._place("hash", bind(self._tie, self._schema))
        alike = {*range(self._keys), *(o.column for o in self._order)}  # among the peers of a partition
        return tuple(OrderColumn(c) for c in (tie, *self._row) if c not in alike)

    def _call(self, name: str, call: WindowCall) -> BoundWindowCall:
        if isinstance(call.function, Aggregate):
            return self._aggregate(name, call, call.function)
        assert isinstance(call.function, WindowFunction)
        if call.name in RANKINGS:
            buckets = [self._number(name, call.name, b) for b in call.function.arguments]
            return RankingCall(call.name, *buckets)
        value, *more = call.function.arguments
        expression = as_expr(value, self._schema)
        ignore_nulls = call.function.ignore_nulls
        if call.name in ("lag", "lead"):
            bound, instead = bind_with_default(expression, more[1], self._schema)
            column = self._place(f"value {name}", bound)
            offset = self._number(name, call.name, more[0])
            default = self._argument(f"default {name}", instead)
            return OffsetCall(call.name, column, offset, default, bound.dtype, ignore_nulls)
        bound = bind(expression, self._schema)
        column = self._place(f"value {name}", bound)
        n = self._number(name, call.name, more[0]) if more else None
        return ValueCall(call.name, column, self._frame(call), bound.dtype, n, ignore_nulls)

    def _number(self, name: str, function: str, value: Any) -> Argument:
        expression = as_expr(value, self._schema)
        try:
            return self._argument(f"number {name}", bind(expression, self._schema, expected=INT64))
        except SchemaError as error:
            msg = f"{name}: {function} takes a whole number of rows: {error.args[0]}"
            raise SchemaError(msg) from None

    def _argument(self, name: str, bound: Bound) -> Argument:
        return bound if isinstance(bound, BoundLiteral) else self._place(name, bound)

    def _frame(self, call: WindowCall) -> Frame:
        """Return the call's frame, with offsets in the type of what a RANGE is over."""
        frame = call.window.frame
        if frame.mode != "range" or not frame.offsets:
            return frame
        (by,) = self._sorted_by
        start, end = (
            o if o is None or o == 0 else offset_for(o, by.expression.dtype, to_sql(by.expression))
            for o in (frame.start, frame.end)
        )
        return attrs.evolve(frame, start=start, end=end)

    def _aggregate(self, name: str, call: WindowCall, given: Aggregate) -> AggregateCall:
        if isinstance(given.argument, Expr):
            tied = replaced(given.argument, lambda part: self._tie if isinstance(part, HashOfRow) else None)
            given = attrs.evolve(given, argument=tied)
        bound = bind_aggregate(given, name, self._schema)
        if bound.argument is None:
            return AggregateCall(BoundAggregate(bound.function, None, None, bound.output), self._frame(call))
        column = self._place(f"value {name}", bound.argument)
        condition = None if bound.condition is None else self._place(f"if {name}", bound.condition)
        aggregate = BoundAggregate(bound.function, column, bound.argument.dtype, bound.output, condition=condition)
        return AggregateCall(aggregate, self._frame(call), call.distinct)

    def _in_order(self, call: BoundWindowCall, ties: tuple[OrderColumn, ...]) -> BoundWindowCall:
        """Return a list with its order: the window's or, where it has none, that of the values."""
        if not isinstance(call, AggregateCall) or call.aggregate.function != "list":
            return call
        assert call.aggregate.column is not None
        order = (*self._order, *ties) if self._order else (OrderColumn(call.aggregate.column),)
        return attrs.evolve(call, aggregate=attrs.evolve(call.aggregate, order=order))
