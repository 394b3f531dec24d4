"""What is told of steps: to callbacks, and in the log of what every operator did in each, and held afterwards.

Pictures, progress and time travel read the log and nothing else of an engine. It is off unless asked for, and bounded.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import attrs

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.errors import TimeError
from tidemill.renderer.runs.metrics import Metrics, OperatorMetrics


@attrs.frozen
class StepInfo:
    """A step that was taken: its number in the run, its seconds, the frontiers of outputs and of inputs after it."""

    number: int
    seconds: float
    frontiers: Mapping[str, Antichain]
    inputs: Mapping[str, Antichain]


Callback: TypeAlias = Callable[[StepInfo], object]


class Listeners:
    """The callbacks of a run."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callback] = {}

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> Callable[[], None]:
        """Call it from now on; returns a function that ends it."""
        token = object()
        self._callbacks[token] = callback

        def stop() -> None:
            self._callbacks.pop(token, None)

        return stop

    def tell(self, info: StepInfo) -> None:
        """Call them all, and only then raise what the first of them raised."""
        first: Exception | None = None
        for callback in list(self._callbacks.values()):
            try:
                callback(info)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are called too
                first = first or error
        if first is not None:
            first.add_note("raised by a callback of run.on_step; the step itself was taken")
            raise first


@attrs.define
class OperatorTrace:
    """What an engine notes of one operator in a step, while events are logged."""

    rounds: set[Time] = attrs.field(factory=set)
    """The rounds in which it had work: for each loop around it, outermost first, an iteration."""
    times: dict[Time, int] = attrs.field(factory=dict)
    """How many updates it emitted at each time: the user's coordinates, then the loops'."""

    rows: list[tuple[tuple[Any, ...], Time, int]] = attrs.field(factory=list)
    """The first updates that it emitted, as many as are asked for: rows, times and diffs."""

    def emitted(self, time: Time, count: int) -> None:
        """Add updates emitted at a time."""
        self.times[time] = self.times.get(time, 0) + count


@attrs.frozen
class OperatorWork:
    """What one operator did in a step, and what it holds after it."""

    records_in: int
    records_out: int
    seconds: float
    rounds: int
    """In how many rounds it had work: outside of loops, in one at most."""
    times: Mapping[Time, int]
    """How many updates it emitted at each time: the user's coordinates, then an iteration for each loop around it.

    Empty for what Spark's executors did, where only records are counted.
    """
    rows: Sequence[tuple[tuple[Any, ...], Time, int]]
    """The first of the updates that it emitted, as many as `Run.log_events` was told to keep: rows, times, diffs."""
    state_rows: int
    batches: int
    waiting: int


@attrs.frozen
class StepEvent:
    """A step that was taken, operator by operator."""

    info: StepInfo
    """Its number and seconds, and the frontiers of inputs and outputs after it."""
    operators: Mapping[int, OperatorWork]
    """Those that had work, by their ids in the graph (`Run.graph`)."""
    frontiers: Mapping[int, Antichain]
    """The frontier of every operator after the step, in user coordinates: where what may still come begins."""


class StepEvents(Sequence[StepEvent]):
    """The last steps of a run, oldest first, while it goes on: a sequence that grows to its limit and moves along.

    What operators did in steps that were taken, one after the other, adds up to what `Run.metrics` gained by them.
    """

    def __init__(self, limit: int, before: Metrics) -> None:
        self._events: deque[StepEvent] = deque(maxlen=limit)
        self._before = before

    @property
    def limit(self) -> int:
        """How many steps are kept."""
        assert self._events.maxlen is not None
        return self._events.maxlen

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> StepEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StepEvent]: ...
    def __getitem__(self, index: int | slice) -> StepEvent | Sequence[StepEvent]:
        if isinstance(index, slice):
            return list(self._events)[index]
        try:
            return self._events[index]
        except IndexError:
            msg = f"events[{index}]: the last steps are on record, at most {self.limit}, now {len(self)}: expected less"
            raise IndexError(msg) from None

    def __iter__(self) -> Iterator[StepEvent]:
        return iter(self._events)

    def __repr__(self) -> str:
        steps = (
            f"steps {self._events[0].info.number} to {self._events[-1].info.number}" if self._events else "no step yet"
        )
        return f"StepEvents({steps}, limit={self.limit})"

    def skip(self, after: Metrics) -> None:
        """Leave out what was done since the last step: that was for one that was not taken."""
        self._before = after

    def log(
        self, info: StepInfo, after: Metrics, traces: Mapping[int, OperatorTrace], frontiers: Mapping[int, Antichain]
    ) -> None:
        """Add a step: the figures after it, and what the engine noted of operators."""
        untraced = OperatorTrace()
        found = {}
        for old, new in zip(self._before, after, strict=True):
            trace = traces.get(new.id, untraced)
            if trace.rounds or trace.times or (old.records_in, old.records_out) != (new.records_in, new.records_out):
                found[new.id] = _work(old, new, trace)
        self._events.append(StepEvent(info, found, frontiers))
        self._before = after


def _work(old: OperatorMetrics, new: OperatorMetrics, trace: OperatorTrace) -> OperatorWork:
    return OperatorWork(
        records_in=new.records_in - old.records_in,
        records_out=new.records_out - old.records_out,
        seconds=new.seconds - old.seconds,
        rounds=len(trace.rounds),
        times=dict(sorted(trace.times.items())),
        rows=tuple(trace.rows),
        state_rows=new.state_rows,
        batches=new.batches,
        waiting=new.waiting,
    )


def require_limits(limit: Any, rows: Any) -> None:
    """Raise `TimeError` where a log cannot have so many steps, or so many updates for each operator and step."""
    for name, given, what in ("limit", limit, "steps"), ("rows", rows, "updates for each operator and step"):
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            msg = f"{name}={given!r}: expected a number of {what}, 0 or more"
            raise TimeError(msg)
    if limit > sys.maxsize:
        msg = f"limit={limit}: more steps than a log can have; for all of them, limit={10**9}"
        raise TimeError(msg)
