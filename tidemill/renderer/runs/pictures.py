"""What pictures of a run show: its graph with what every operator did and where it is, and what it did step by step.

All of it comes from figures, frontiers and the log of step events; nothing here asks an engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations_with_replacement
from typing import Any, Final

from tidemill.boundary.html import shown_line
from tidemill.boundary.results import Rows
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time, less_equal, shown
from tidemill.dataflow.nodes import Node
from tidemill.renderer.diagram.explorer_page import History
from tidemill.renderer.diagram.scene import Figures, Scene, scene_of
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.step_events import OperatorWork, StepEvent

READABLE: Final = 200_000
"""Updates held by an output up to which its rows are read for a page."""
MOST_RECORDS: Final = 100
"""Rows of an output that a page has."""
_EXACT: Final = 2**53
"""The largest whole number up to which JavaScript represents all of them."""


def frontier_text(frontier: Antichain) -> str:
    """Return a frontier for people.

    >>> frontier_text(Antichain([3])), frontier_text(Antichain([(0, 2), (4, 0)])), frontier_text(Antichain())
    ('3', '(0, 2) (4, 0)', 'closed')
    """
    return " ".join(str(shown(t)) for t in frontier.elements) or "closed"


def too_many(held: int) -> dict[str, Any]:
    """Return what a page has of an output that holds so many updates that reading them would take long."""
    return {"note": f"{held:,} updates are held: too many to be read for this page; run.snapshot reads them"}


def run_scene(graph: Graph, metrics: Metrics, frontiers: Frontiers, shares: Mapping[int, float] | None = None) -> Scene:
    """Return the scene of a run as it is now, coloured by operators' shares of the time where these are given."""
    held = {o.id: o for o in metrics}
    figures = {}
    for node in graph.nodes:
        did = held[node.id]
        share = None if shares is None else shares.get(node.id, 0.0)
        where = frontier_text(frontiers.of(node))
        figures[node.id] = Figures(did.records_out, did.state_rows, where, did.seconds, share)
    return scene_of(graph, figures)


def history_of(
    events: Iterable[StepEvent], frontiers: Frontiers, outputs: Mapping[str, Rows], large: Mapping[str, int]
) -> History:
    """Return what a page has of a run: its steps, where it is, and what its outputs hold.

    Of ``large`` ones it is only said how many updates they hold.
    """
    graph = frontiers.graph
    records = {graph.outputs[name].id: records_of(rows) for name, rows in outputs.items()}
    records |= {graph.outputs[name].id: too_many(held) for name, held in large.items()}
    return History(
        steps=[_step(event) for event in events],
        frontiers=_frontiers({node.id: frontiers.of(node) for node in graph.nodes}),
        now=_last_closed(frontiers),
        records=records,
    )


def records_of(rows: Rows) -> dict[str, Any]:
    """Return the first rows of an output as the page has them."""
    (columns, lines), size = rows._head(MOST_RECORDS), rows._size()  # noqa: SLF001 - as notebooks show it
    notes = [f"the first {len(lines):,} of {size:,} rows"] if size > len(lines) else []
    if left_out := rows._left_out():  # noqa: SLF001 - as notebooks say it
        notes.append(left_out)
    return {"columns": columns, "rows": [[*map(shown_line, line)] for line in lines], "note": "; ".join(notes)}


def updates_on_record(events: Iterable[StepEvent], node: Node, up_to: Time | None) -> dict[str, Any]:
    """Return the last updates of an operator that are logged, up to a time of the user's, as the page has them."""
    found, sent = [], 0
    for event in events:
        work = event.operators.get(node.id)
        if work is not None:
            times = [t for t in work.times if up_to is None or less_equal(t[: len(up_to)], up_to)]
            sent += sum(work.times[t] for t in times)
            found += [line for line in work.rows if line[1] in times]
    last = found[-MOST_RECORDS:]
    lines = [[*map(shown_line, row), str(shown(time)), f"{diff:+,}"] for row, time, diff in last]
    until = "" if up_to is None else f" up to {shown(up_to)}"
    note = f"the last {len(last):,} updates on record, of {sent:,} sent{until}; the rows that it holds are not read"
    return {"columns": [*node.schema.names, "time", "diff"], "rows": lines, "note": note}


def _step(event: StepEvent) -> dict[str, Any]:
    return {
        "number": event.info.number,
        "seconds": round(event.info.seconds, 6),
        "operators": {id_: _work(work) for id_, work in event.operators.items()},
        "frontiers": _frontiers(event.frontiers),
    }


def _work(work: OperatorWork) -> dict[str, Any]:
    return {
        "in": work.records_in,
        "out": work.records_out,
        "seconds": round(work.seconds, 7),
        "rounds": work.rounds,
        "times": [[_coordinates(time), count] for time, count in work.times.items()],
        "rows": [[[*map(shown_line, row)], _coordinates(time), diff] for row, time, diff in work.rows],
        "held": work.state_rows,
        "waiting": work.waiting,
    }


def _frontiers(of: Mapping[int, Antichain]) -> dict[str, Any]:
    """Return the frontier that most operators have, and those of others: mostly there are none."""
    most = Counter(of.values()).most_common(1)
    common = most[0][0] if most else Antichain()
    others = {id_: _elements(frontier) for id_, frontier in of.items() if frontier is not common and frontier != common}
    return {"common": _elements(common), "others": others}


def _elements(frontier: Antichain) -> list[list[int | str]]:
    return [_coordinates(time) for time in frontier.elements]


def _coordinates(time: Time) -> list[int | str]:
    """Return a time as the page has it: as text what JavaScript would round, such as nanoseconds of these days."""
    return [c if -_EXACT <= c <= _EXACT else str(c) for c in time]


def _last_closed(frontiers: Frontiers) -> list[int | str] | None:
    """Return the last time that an input has closed; None where none has closed any.

    With several coordinates there is no last one: then as late as two elements of a frontier, or of two, allow in each.
    """
    inputs = {frontier for frontier in frontiers.inputs.values() if frontier.elements}
    elements = [time for frontier in inputs for time in frontier.elements]
    found: Time | None = None
    for one, other in combinations_with_replacement(elements, 2):
        time = tuple(max(0, max(pair) - 1) for pair in zip(one, other, strict=True))
        is_closed = not all(frontier.beyond(time) for frontier in inputs)
        if is_closed and (found is None or time > found):
            found = time
    return None if found is None else _coordinates(found)
