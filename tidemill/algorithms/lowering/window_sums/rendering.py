"""Window calls rendered as sums over an order, put together beside the rows that they are for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

import attrs

from tidemill.algorithms.lowering.window_sums.bounds import frame_intervals, in_order_of_rows
from tidemill.algorithms.lowering.window_sums.orders import COPY, ROW, Orders
from tidemill.algorithms.lowering.window_sums.places import (
    ask_offset,
    finished_ranking,
    partition_sums,
    ranking_sums,
    value_at_offset,
)
from tidemill.algorithms.lowering.window_sums.summaries import Summary, summary
from tidemill.algorithms.prefix_sums.interval_sum import sums_between
from tidemill.algorithms.prefix_sums.order_sums import OrderSums
from tidemill.algorithms.prefix_sums.prefix_sum import sums_before_rows
from tidemill.collections.collection import Collection, JoinKind
from tidemill.dataflow.origins import Derivation, column_for
from tidemill.dataflow.passes.row_keys import row_key
from tidemill.expressions.windows.binding import BoundWindows
from tidemill.expressions.windows.bound import AggregateCall, OffsetCall, RankingCall, RowCheck, ValueCall, value_fields
from tidemill.expressions.windows.bound import BoundWindowCall as Call
from tidemill.expressions.windows.frames import Frame


def by_prefix_sums(bound: BoundWindows, wide: Collection) -> Collection:
    """Return the rows, which have the columns that calls are computed from, with the calls' values after them.

    Values are in columns named ``call`` and the call's name.
    """
    check = RowCheck(bound.windows, bound.keys)
    if check.at_least_one or row_key(wide.node) is None:  # rows with a key have no negative counts
        wide = wide.threshold(check)
    rendering = _Rendering(Orders(wide, bound.windows, bound.keys), bound)
    return rendering.rows().select(*wide.schema.names, *rendering.fields)


@attrs.frozen
class _Framed:
    """Calls over one frame, summed up in one order."""

    frame: Frame
    by_row: bool
    """Whether the sums are in the order of rows, for peers have an order that matters, or sums of their own."""
    calls: tuple[str, ...]
    last_rows: bool = False
    """Whether their sums are prefix sums, of the last rows alone."""

    @property
    def each_row(self) -> bool:
        """Whether peers may have different frames."""
        return not self.frame.whole and self.frame.mode == "rows"

    @property
    def up_to_row(self) -> bool:
        """Whether the sums are prefix sums up to rows, or to peer groups."""
        so_far = self.frame.start is None and self.frame.end == 0 and self.by_row == self.each_row
        return self.last_rows or so_far

    @property
    def never_empty(self) -> bool:
        """Whether each row's frame has the row itself in it."""
        start, end = (b if isinstance(b, int) else None for b in (self.frame.start, self.frame.end))
        return (self.frame.start is None or start == 0) and (self.frame.end is None or end == 0)


@attrs.frozen
class _Result:
    """Values to be joined to the rows by a key, and what is done with them then."""

    values: Collection
    key: list[str]
    finished: Callable[[Collection], Collection]
    everywhere: bool = True
    """Whether there are values for each row."""

    @property
    def by_copy(self) -> bool:
        """Whether copies of a row have values of their own."""
        return COPY in self.key


class _Rendering:
    """The rows of a window, to which the values of calls are added one frame after another."""

    def __init__(self, orders: Orders, bound: BoundWindows) -> None:
        self._orders = orders
        fields = value_fields(bound.windows)
        self.fields = {f"call {f.name}": attrs.evolve(f, name=f"call {f.name}") for f in fields}
        self._calls: dict[str, Call] = dict(zip(self.fields, bound.windows.calls, strict=True))
        self._known = {
            name: Derivation(call.function, column_for(own))
            for name, own, call in zip(self.fields, bound.windows.names, bound.windows.calls, strict=True)
        }
        self._summaries: dict[str, Summary] = {}
        self._ask()

    def _ask(self) -> None:
        """Ask for the sums of all calls."""
        orders = self._orders
        for name, call in self._calls.items():
            if isinstance(call, OffsetCall):
                ask_offset(orders, call, name)
            elif not isinstance(call, RankingCall):
                found = self._summaries[name] = summary(call, orders.names)
                orders.ask(name, found.combination, by_row=found.by_row)

    def rows(self) -> Collection:
        """Return the rows with the calls' values; if any has values by copy, a row for each copy."""
        orders, results = self._orders, [*self._results()]
        rows = orders.with_peers
        if any(r.by_copy for r in results):
            results.sort(key=lambda r: not (r.by_copy and r.everywhere))
            rows = orders.copies
            if results[0].by_copy and results[0].everywhere:  # it knows of all copies
                first = results.pop(0)
                rows = orders.with_places.distinct()
                rows = first.finished(rows.join(first.values, on=[*orders.parts, ROW], nulls_equal=True))
        for result in results:
            how: JoinKind = "inner" if result.everywhere else "left"
            rows = result.finished(rows.join(result.values, on=result.key, how=how, nulls_equal=True))
        return rows

    def _results(self) -> Iterator[_Result]:
        """Give the values of all calls, or what they are computed from, where calls have that in common."""
        orders = self._orders
        for name, call in self._calls.items():
            if isinstance(call, RankingCall):
                key = orders.key(by_row=call.by_row)
                finish = functools.partial(finished_ranking, call=call, name=name, names=orders.names)
                yield _Result(ranking_sums(orders, call), key, finish)
            elif isinstance(call, OffsetCall):
                yield _Result(value_at_offset(orders, call, name), orders.key(by_row=True), lambda rows: rows)
        for framed in self._frames():
            order = orders.order(*framed.calls, by_row=framed.by_row)
            sums, key = self._sums(order, framed)
            finish = functools.partial(self._with_sums, order=order, framed=framed)
            everywhere = framed.never_empty or framed.last_rows
            states = order.at_rows if framed.up_to_row else order.states
            yield _Result(sums.select(*key, *states.flat), key, finish, everywhere)

    def _frames(self) -> Iterable[_Framed]:
        """Return the calls that have a frame, those together that share one and the order."""
        found: dict[tuple[Frame, bool, bool], list[str]] = {}
        for name, one in self._summaries.items():
            call = self._calls[name]
            assert isinstance(call, (AggregateCall, ValueCall))
            found.setdefault((call.frame, one.by_row, one.last_rows), []).append(name)
        return [_Framed(frame, by_row, tuple(names), last) for (frame, by_row, last), names in found.items()]

    def _with_sums(self, rows: Collection, order: OrderSums, framed: _Framed) -> Collection:
        """Return rows, with the states of sums beside them, with the values of the calls in their place."""
        states = order.at_rows if framed.up_to_row else order.states
        keep = [n for n in rows.schema.names if n not in states.flat]
        row = [self._orders.names[i] for i in self._orders.windows.row]
        return order.finished(rows, keep, at_rows=framed.up_to_row, row=row, known=self._known)

    def _sums(self, order: OrderSums, framed: _Framed) -> tuple[Collection, list[str]]:
        """Return the states of sums over a frame, and the columns that say for which rows."""
        orders, frame = self._orders, framed.frame
        if frame.whole:
            return partition_sums(order), [*orders.parts]
        key = orders.key(by_row=framed.each_row)
        if framed.up_to_row:
            return sums_before_rows(order, COPY if framed.by_row else None, inclusive=True), key
        intervals = frame_intervals(orders, frame)
        if framed.by_row and not framed.each_row:
            intervals = in_order_of_rows(order, intervals)
        return sums_between(order, intervals, key), key
