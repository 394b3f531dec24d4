"""What a run needs to be asked why: outputs that hold what its inputs do, and somebody who finds reasons in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tidemill.boundary.rows import checked_rows
from tidemill.boundary.values import canonical
from tidemill.dataflow.nodes import Output
from tidemill.renderer.diagram.why import Why
from tidemill.renderer.runs.executor import Executor
from tidemill.renderer.runs.frontiers import Frontiers


@attrs.frozen
class Explainer:
    """Finds reasons: ``answer(what inputs hold, output, row, time=, is_there=)``; these outputs hold what inputs do."""

    answer: Callable[..., Why]
    kept_name: Callable[[str], str]


def reasons_of(explainer: Explainer, executor: Executor, frontiers: Frontiers, asked: tuple[Output, Any, Any]) -> Why:
    """Return why an output has a row at a time, or has it not."""
    node, row, at = asked
    (wanted,) = checked_rows(node.schema, [row], f"why({node.name!r}, ...)")
    time = frontiers.readable_time(node, at)
    outputs, given = frontiers.graph.outputs, {}
    for source in frontiers.progress.sources(node):
        kept = outputs[explainer.kept_name(source.name)]
        if time is not None:
            frontiers.readable_time(kept, time)
        given[source.name] = _canonical(executor.contents(kept, time).counts())
    is_there = _canonical(executor.contents(node, time).counts()).get(wanted, 0) > 0
    return explainer.answer(given, node.name, wanted, time=time, is_there=is_there)


def _canonical(counts: Mapping[Any, int]) -> dict[tuple[Any, ...], int]:
    """Return rows read out as those put in are written: with the one NaN, which equals itself."""
    return {canonical(row): count for row, count in counts.items()}
