"""The passes a graph goes through before an engine runs it: functions graph -> graph, in a tuple read top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.passes.arrangements import share_arrangements
from tidemill.dataflow.passes.columns import prune_columns
from tidemill.dataflow.passes.consolidations import drop_consolidations
from tidemill.dataflow.passes.duplicates import remove_duplicates
from tidemill.dataflow.passes.filters import push_filters
from tidemill.dataflow.passes.fuse import fuse_linear
from tidemill.errors import UnknownNameError, did_you_mean

__all__ = ["PASSES", "Pass", "Passes", "optimised", "passes_named"]

Pass: TypeAlias = Callable[[Graph], Graph]
"""Gives a graph that means the same. It may remove errors, never add one, and leaves the graph it is given alone."""

Passes: TypeAlias = bool | Iterable[str]
"""What users say: all or none, or the names of some."""

PASSES: Final[tuple[Pass, ...]] = (
    remove_duplicates,
    push_filters,
    prune_columns,
    fuse_linear,
    drop_consolidations,
    share_arrangements,
)


def passes_named(passes: Passes) -> tuple[Pass, ...]:
    """Return the passes that a user asked for, in the order in which they are done.

    >>> [p.__name__ for p in passes_named(["drop_consolidations", "remove_duplicates"])]
    ['remove_duplicates', 'drop_consolidations']
    """
    if isinstance(passes, bool):
        return PASSES if passes else ()
    known = {p.__name__: p for p in PASSES}
    names = [passes] if isinstance(passes, str) else list(passes)
    for name in names:
        if name not in known:
            msg = f"no pass {name!r}: {did_you_mean(str(name), known)}"
            raise UnknownNameError(msg)
    return tuple(p for p in PASSES if p.__name__ in names)


def optimised(graph: Graph, passes: Passes = True) -> Graph:
    """Return the graph after these passes, frozen; the graph itself where there are none."""
    chosen = passes_named(passes)
    graph.check()
    for one in chosen:
        graph = one(graph)
    if chosen:
        graph.freeze()
    return graph
