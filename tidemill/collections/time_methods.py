"""A collection's methods that are about when its rows are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidemill.collections import watermarks
from tidemill.collections.base import CollectionBase, as_version
from tidemill.collections.temporal import temporal_filter
from tidemill.dataflow.lattice import as_time
from tidemill.dataflow.nodes import Retime

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["TimeMethods"]


class TimeMethods(CollectionBase):
    """Methods of `Collection`."""

    def delay(
        self, by: int | tuple[int, ...] | Callable[[Any], Any], *, version: str | int | None = None
    ) -> Collection:
        """Return the collection with updates moved forward in user time: by epochs, or to the time a function gives.

        The function maps a time to one not before it and must be monotone; with several coordinates times are tuples.
        Iterations are not moved. The ``version`` of a function is as for `map_rows`. Cost: updates are held as state
        until their time comes.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> today = flow.input("x", {"i": "int64"})
        >>> flow.output("a week", today.concat(today.delay(7).negate()))
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,)])
        ...     run.advance_to(10)
        ...     list(run.changes("a week"))
        [((1,), 0, 1), ((1,), 7, -1)]
        """
        users = len(self.builder.graph.coordinates)
        if callable(by):
            return self._add(Retime, function=by, version=as_version(version))
        return self._add(Retime, steps=as_time(by, users))

    def temporal_filter(
        self,
        valid_from: Any = None,
        valid_to: Any = None,
        *,
        clock: Collection | None = None,
        coordinate: str | None = None,
    ) -> Collection:
        """Return the rows while they are valid: at the user times t with ``valid_from <= t < valid_to``.

        Both are columns or expressions, of integers, as times are. A row is not there before its own time, however
        early it is valid; NULL is no bound, so without a ``valid_from`` it is there from its own time on, and without
        a ``valid_to`` for ever. A row with ``valid_to`` before ``valid_from`` fails the step with
        ``ExpressionError``. With several coordinates, ``coordinate`` names the one that is meant; the others are not
        restricted.

        With a ``clock``, rows are compared with what it shows instead: a collection of one column and at most one row,
        that the user changes. Bounds are of a type that compares with it, such as timestamps; without its row nothing
        is valid, and a row that ends before it begins never is.

        Cost: what brings and takes away a row is held as state until its time comes, and then is all that is touched.
        With a clock, all rows are kept, in order of their bounds, and a change of the clock looks at those whose bounds
        it passes.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> calls = flow.input("calls", {"who": "string", "start": "int64", "end": "int64"})
        >>> flow.output("on the line", calls.temporal_filter("start", "end").select("who"))
        >>> with flow.start() as run:
        ...     run.insert("calls", [("ann", 1, 3), ("bob", 2, None)])
        ...     run.advance_to(10)
        ...     list(run.changes("on the line"))
        [(('ann',), 1, 1), (('bob',), 2, 1), (('ann',), 3, -1)]

        The last 24 hours, by a clock:

        >>> flow = tm.Dataflow()
        >>> events = flow.input("events", {"what": "string", "ts": "timestamp"})
        >>> clock = flow.input("clock", {"now": "timestamp"}, unique=True)
        >>> recent = events.temporal_filter("ts", "ts + interval 24 hours", clock=clock)
        >>> flow.output("recent", recent.select("what"))
        """
        return temporal_filter(self._itself, valid_from, valid_to, clock, coordinate)

    def sort_buffer(self, column: str) -> Collection:
        """Return the rows in the order of a column, each once the watermark has passed its value.

        The collection is an input opened with ``watermark=``, or what select, filter and concat make of such inputs
        without computing the column anew; of several inputs the least watermark counts. A row moves to the first time,
        from its own on, at which its value is less than the watermark. So what comes later never lies before what has
        come, and a row that is deleted before it was released never appears. Rows and deletions that are below the
        watermark of the time before their own are late: dropped, counted (``late`` in `Run.metrics`), and given by
        `late_rows` to those who ask. NULL is less than all values. Cost: the rows that wait are held.

        >>> import tidemill as tm
        >>> from datetime import timedelta
        >>> flow = tm.Dataflow()
        >>> flights = flow.input("flights", {"minute": "int64", "flight": "string"}, watermark=("minute", 10))
        >>> flow.output("sorted", flights.sort_buffer("minute"))
        >>> flow.output("late", flights.late_rows("minute"))
        >>> with flow.start() as run:
        ...     run.insert("flights", [(5, "B6 2"), (3, "AA 1"), (14, "UA 7")])
        ...     run.advance()
        ...     run.insert("flights", [(2, "DL 9"), (17, "B6 4")])
        ...     run.advance()
        ...     list(run.changes("sorted")), list(run.changes("late"))
        ([((3, 'AA 1'), 0, 1), ((5, 'B6 2'), 1, 1)], [((2, 'DL 9'), 1, 1)])
        """
        return self.builder.collection(watermarks.sort_buffer(self.builder, self.node, column))

    def late_rows(self, column: str) -> Collection:
        """Return the rows and deletions that `sort_buffer` of the column drops, at the times at which they came."""
        return self.builder.collection(watermarks.late_rows(self.builder, self.node, column))
