"""Whole traces as plain dicts, and the one formula behind every operator.

A collection is the set of its updates, consolidated. Its contents at ``t`` are the sum of the updates at times up to
``t``; and from the contents at every time the updates follow, by Moebius inversion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from tidemill.dataflow.lattice import Antichain, Time, join_closure, less_equal

Row: TypeAlias = tuple[Any, ...]
Contents: TypeAlias = dict[Row, int]
"""A multiset: each row with its count, which is not zero."""
Trace: TypeAlias = dict[tuple[Row, Time], int]
"""A collection: for each row and time the diff, which is not zero."""


def consolidated(updates: Iterable[tuple[Row, Time, int]]) -> Trace:
    """Return the updates with equal rows and times added up, and without those that cancel.

    >>> consolidated([(("a",), (0,), 1), (("b",), (0,), 2), (("a",), (0,), -1)])
    {(('b',), (0,)): 2}
    """
    trace: Trace = defaultdict(int)
    for row, time, diff in updates:
        trace[row, time] += diff
    return {update: diff for update, diff in trace.items() if diff}


def contents(trace: Trace, at: Time) -> Contents:
    """Return the contents of a collection at a time."""
    found: Contents = defaultdict(int)
    for (row, time), diff in trace.items():
        if less_equal(time, at):
            found[row] += diff
    return {row: count for row, count in found.items() if count}


def at_every_time(
    function: Callable[..., Contents],
    *inputs: Trace,
    also: Iterable[Time] = (),
    final: Callable[[Time], bool] = lambda _: True,
) -> Trace:
    """Return the collection that at every final time holds ``function`` of what the inputs hold.

    It can change only at joins of their update times (and of the times given in ``also``). Those are visited in tuple
    order, a linear extension, so that at each one everything earlier is known, and the difference is what is missing.

    >>> both = lambda rows: {("both",): 1} if len(rows) == 2 else {}
    >>> at_every_time(both, {(("a",), (1, 0)): 1, (("b",), (0, 1)): 1})
    {(('both',), (1, 1)): 1}
    """
    result: Trace = {}
    times = join_closure([*(time for trace in inputs for _, time in trace), *also])
    for t in filter(final, times):
        wanted = function(*(contents(trace, t) for trace in inputs))
        so_far = contents(result, t)
        for row in {**wanted, **so_far}:
            if difference := wanted.get(row, 0) - so_far.get(row, 0):
                result[row, t] = difference
    return result


def by_key(trace: Trace, columns: tuple[int, ...]) -> dict[Row, Trace]:
    """Return a trace as one for each key."""
    groups: dict[Row, Trace] = defaultdict(dict)
    for (row, time), diff in trace.items():
        groups[tuple(row[i] for i in columns)][row, time] = diff
    return dict(groups)


def complete(trace: Trace, frontier: Antichain, users: int) -> Trace:
    """Return the updates whose user time is not beyond the frontier: those that are final."""
    return {(row, time): diff for (row, time), diff in trace.items() if not frontier.beyond(time[:users])}


def triples(trace: Trace) -> Iterator[tuple[Row, Time, int]]:
    """Iterate over ``(row, time, diff)``."""
    return ((row, time, diff) for (row, time), diff in trace.items())
