"""Whether engines agree: the same updates, fed in several ways, must give the same updates at every output."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import attrs

from tidemill.boundary.rows import python_rows
from tidemill.boundary.update_tables import Names, listed_updates, table_of_updates
from tidemill.dataflow.lattice import Antichain, Time, as_time, shown
from tidemill.dataflow.nodes import Input
from tidemill.dataflow.passes.pipeline import Passes
from tidemill.errors import StepError, UnknownNameError, brief, did_you_mean
from tidemill.flow import Dataflow
from tidemill.renderer.runs.run import Engine, Run
from tidemill.testing.batchings import (
    Batching,
    FeedAction,
    GivenUpdates,
    MoveAction,
    Plan,
    all_at_once,
    shuffled,
    time_by_time,
)

Row: TypeAlias = tuple[Any, ...]
Trace: TypeAlias = dict[tuple[Row, Time], int]

ENGINES: Final = {
    "reference": ("tidemill.renderer.reference", "Reference"),
    "embedded": ("tidemill.renderer.engines", "Embedded"),
    "spark": ("tidemill.testing.spark_engines", "SparkHistories"),
    "spark-live": ("tidemill.testing.spark_engines", "SparkLive"),
}
"""Where each engine is; it is imported when it is used."""
DEFAULT_BATCHINGS: tuple[Plan, ...] = (all_at_once, time_by_time, shuffled(0), shuffled(1))


def check_equivalent(
    flow: Dataflow,
    updates: Mapping[str, Any],
    *,
    engines: Sequence[str | Engine] = ("reference", "embedded"),
    batchings: Sequence[Plan] = DEFAULT_BATCHINGS,
    passes: Passes = False,
) -> None:
    """Check that all engines give the same from the same updates, however these are batched.

    ``updates`` maps inputs to ``(row, time, diff)`` triples, or tables of them, as ``run.update`` takes them; for an
    input with a key a positive diff is an upsert and a negative one a delete. Each engine gets them all at once, time
    by time, and shuffled: other batches, another order of arrival, other frontiers. In the end all inputs are closed,
    and for every output the consolidated updates are compared: equal as sets, so equal at every time. Where an output
    keeps not all its changes, its final contents are compared. A step that cannot be taken is an outcome, too: it has
    to be an error everywhere. Engines run the graph as it was built, or with ``passes`` what these make of it, where an
    engine takes them (the reference does not); since passes may remove errors, a step that the first engine cannot take
    is then no disagreement.

    Raises ``AssertionError`` with the smallest disagreement: output, row, time, and each engine's diff there.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow("counts")
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> check_equivalent(flow, {"x": [(("a",), 0, 1), (("b",), 2, 1), (("a",), 1, -1)]})
    """
    given = _given(flow, updates)
    scripts = [plan(given) for plan in batchings]
    first: _Outcome | None = None
    for script in scripts:
        of_script: list[_Outcome] = []
        for engine in engines:
            if getattr(engine_named(engine), "whole_histories", False) and not script.is_whole:
                continue
            outcome = _follow(flow, engine, script, passes)
            first = first or outcome
            if first.error is not None and passes:
                return
            _compare(first, outcome)
            of_script.append(outcome)
        _compare_errors(of_script)


@attrs.frozen
class _Outcome:
    """What came of a script: the updates of each output, its final contents, or an error."""

    engine: str
    batching: str
    traces: Mapping[str, Trace]
    contents: Mapping[str, dict[Row, int]]
    error: StepError | None = None

    @property
    def who(self) -> str:
        return f"{self.engine}, {self.batching}"


def engine_named(engine: str | Engine) -> Engine:
    """Return an engine by its name: ``reference``, ``embedded`` or ``spark``; an engine itself is given back."""
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        msg = f"no engine {engine!r}: {did_you_mean(engine, ENGINES)}; or give the engine itself"
        raise UnknownNameError(msg)
    module, name = ENGINES[engine]
    made: Engine = getattr(importlib.import_module(module), name)()
    return made


def _given(flow: Dataflow, updates: Mapping[str, Any]) -> GivenUpdates:
    inputs = flow.graph.inputs
    for name in updates:
        if name not in inputs:
            msg = f"no input {name!r}: {did_you_mean(name, inputs)}"
            raise UnknownNameError(msg)
    coordinates = len(flow.graph.coordinates)
    named = Names.of(flow.graph.coordinates, None, "diff")
    given = {n: _triples(node, updates.get(n, ()), named) for n, node in inputs.items()}
    triples = {n: [(row, as_time(t, coordinates), d) for row, t, d in of] for n, of in given.items()}
    return GivenUpdates(triples, frozenset(n for n, node in inputs.items() if node.key), coordinates)


def _triples(node: Input, updates: Any, named: Names) -> Iterable[Any]:
    table = table_of_updates(node.schema, updates, node.where, named)
    if table is None:
        return listed_updates(updates, node.where, node.schema, named)
    return zip(python_rows(table.rows), map(tuple, table.times.tolist()), table.diffs.tolist(), strict=True)


# Following a script.


def _follow(flow: Dataflow, engine: str | Engine, script: Batching, passes: Passes) -> _Outcome:
    name = engine if isinstance(engine, str) else type(engine).__name__
    outputs = flow.graph.outputs
    traces: dict[str, Trace] = {n: defaultdict(int) for n, node in outputs.items() if node.changes is True}
    try:
        with flow.start(engine_named(engine), keep=script.keep, passes=passes) as run:
            for action in script.actions:
                _act(run, action, traces)
            contents = {output: run.snapshot(output).counts() for output in outputs}
    except StepError as error:
        return _Outcome(name, script.name, {}, {}, error)
    consolidated = {n: {update: diff for update, diff in trace.items() if diff} for n, trace in traces.items()}
    return _Outcome(name, script.name, consolidated, contents)


def _act(run: Run, action: Any, traces: Mapping[str, Trace]) -> None:
    if isinstance(action, FeedAction):
        _feed(run, action)
    elif isinstance(action, MoveAction):
        _move(run, action)
    else:
        for output, trace in traces.items():
            _read(run, output, trace)


def _feed(run: Run, feed: FeedAction) -> None:
    if not run.graph.inputs[feed.input].key:
        run.update(feed.input, [(row, shown(time), diff) for row, time, diff in feed.updates])
        return
    for row, time, diff in feed.updates:
        (run.upsert if diff > 0 else run.delete)(feed.input, [row], time=shown(time))


def _move(run: Run, move: MoveAction) -> None:
    if move.input is None:
        run.advance_to(move.to) if move.to.elements else run.close_inputs()
        return
    stepper, node = run._stepper, run.graph.inputs[move.input]  # noqa: SLF001 - watermarks move apart from inputs, too
    frontiers = stepper.frontiers
    stepper.take(frontiers.advanced_to(move.to, [node]) if move.to.elements else frontiers.closed([node]))


def _read(run: Run, output: str, trace: Trace) -> None:
    changes = run.changes(output)
    seen = set()
    for row, shown_time, diff in changes:
        time = as_time(shown_time, len(run.graph.coordinates))
        where = f"output {output!r}, row {brief(row)} at {shown(time)}"
        assert diff != 0, f"{where}: an update with the diff 0"
        assert (row, time) not in seen, f"{where}: two updates in one reading; they have to be consolidated"
        assert _within(changes.lower, time, changes.upper), f"{where}: not in [{changes.lower}, {changes.upper})"
        seen.add((row, time))
        trace[row, time] += diff


def _within(lower: Antichain, time: Time, upper: Antichain) -> bool:
    return lower.beyond(time) and not upper.beyond(time)


# Comparing.


def _compare(first: _Outcome, other: _Outcome) -> None:
    if (first.error is None) != (other.error is None):
        failed, fine = (first, other) if first.error else (other, first)
        msg = f"({failed.who}) cannot take a step, ({fine.who}) can: {type(failed.error).__name__}: {failed.error}"
        raise AssertionError(msg) from failed.error
    _compare_traces(first, other)
    for output, rows in first.contents.items():
        _compare_contents(output, first.who, rows, other.who, other.contents[output])
        if output in other.traces:
            summed: dict[Row, int] = defaultdict(int)
            for (row, _), diff in other.traces[output].items():
                summed[row] += diff
            in_sum = {row: count for row, count in summed.items() if count}
            contents = other.contents[output]
            _compare_contents(output, f"changes of {other.who}", in_sum, f"snapshot of {other.who}", contents)


def _compare_traces(first: _Outcome, other: _Outcome) -> None:
    differences = [
        (time, place, repr(row), output, row)
        for place, output in enumerate(first.traces)
        for row, time in {**first.traces[output], **other.traces[output]}
        if first.traces[output].get((row, time)) != other.traces[output].get((row, time))
    ]
    if differences:
        time, _, _, output, row = min(differences, key=lambda d: d[:3])
        here, there = (o.traces[output].get((row, time), 0) for o in (first, other))
        msg = (
            f"output {output!r}, row {brief(row)} at time {shown(time)}: "
            f"{here:+d} by ({first.who}), {there:+d} by ({other.who})"
            + (f"; and {len(differences) - 1} more" if len(differences) > 1 else "")
        )
        raise AssertionError(msg)


def _compare_contents(output: str, who: str, rows: dict[Row, int], by: str, others: dict[Row, int]) -> None:
    for row in sorted({**rows, **others}, key=repr):
        if rows.get(row) != others.get(row):
            here, there = rows.get(row, 0), others.get(row, 0)
            msg = f"output {output!r}, row {brief(row)} in the end: {here} by ({who}), {there} by ({by})"
            raise AssertionError(msg)


def _compare_errors(outcomes: list[_Outcome]) -> None:
    """Of one script also the kind of error is compared; other scripts may meet other errors first."""
    for first, other in pairwise(outcomes):
        if type(first.error) is not type(other.error):
            msg = (
                f"({first.who}) raises {type(first.error).__name__}: {first.error}, "
                f"but ({other.who}) {type(other.error).__name__}: {other.error}"
            )
            raise AssertionError(msg)
