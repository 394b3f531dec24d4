"""The passes a graph goes through before an engine runs it: functions graph -> graph, in a tuple read top to bottom.

Composites are lowered on the way, which is no pass to be chosen: first what knows them, then `lower`, then all passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeAlias

from tidemill.dataflow.collector import collector_paused
from tidemill.dataflow.composites import Composite, DeltaJoin, RangeJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.passes.arrangements import drop_null_keys, remove_duplicates, share_arrangements
from tidemill.dataflow.passes.columns import prune_columns
from tidemill.dataflow.passes.consolidations import consolidate_unions, drop_consolidations
from tidemill.dataflow.passes.filters import push_filters
from tidemill.dataflow.passes.fuse import fuse_linear
from tidemill.dataflow.passes.group_sides import group_each_side
from tidemill.dataflow.passes.lowering import has_composites, lower
from tidemill.dataflow.passes.one_row_joins import filter_by_one_row
from tidemill.dataflow.passes.range_joins import has_all_pairs, join_by_range
from tidemill.dataflow.passes.ranks import limit_ranks
from tidemill.dataflow.passes.row_keys import join_once
from tidemill.dataflow.passes.self_joins import frame_self_joins
from tidemill.dataflow.passes.stacked_joins import join_by_deltas, tops_stack
from tidemill.dataflow.passes.whole_partitions import group_whole_partitions
from tidemill.errors import UnknownNameError, did_you_mean

Pass: TypeAlias = Callable[[Graph], Graph]
"""Gives a graph that means the same. It may remove errors, never add one, and leaves the graph it is given alone."""

Passes: TypeAlias = bool | Iterable[str]
"""The users' choice: all or none, or the names of some."""

PASSES: Final[tuple[Pass, ...]] = (
    remove_duplicates,
    frame_self_joins,
    push_filters,
    filter_by_one_row,
    join_by_deltas,
    group_each_side,
    join_by_range,
    prune_columns,
    group_whole_partitions,
    limit_ranks,
    join_once,
    fuse_linear,
    drop_consolidations,
    share_arrangements,
    consolidate_unions,
    drop_null_keys,
)

KNOW_COMPOSITES: Final = frozenset(
    (
        remove_duplicates,
        frame_self_joins,
        push_filters,
        filter_by_one_row,
        join_by_deltas,
        group_each_side,
        limit_ranks,
        group_whole_partitions,
        join_once,
        prune_columns,
    )
)

_MAKE_COMPOSITES: Final = (filter_by_one_row, join_by_deltas)
"""Passes after which the graph may have composites though it had none, to be lowered."""
_MAKE_FOR: Final[dict[Pass, type[Composite]]] = {
    join_by_deltas: DeltaJoin,
    group_each_side: DeltaJoin,
    join_by_range: RangeJoin,
}
"""Passes that make a composite for engines that take it: lowered it would be what users did not write.

What groups each side is for those whose arrangements add rows up, as those of engines with delta joins do.
A delta join would be a chain with other arrangements, none of which others share.
"""


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


@collector_paused()
def optimised(graph: Graph, passes: Passes = True, takes: Collection[type[Composite]] = ()) -> Graph:
    """Return the graph after these passes, frozen, with the composites lowered that the engine does not take itself.

    Passes that know composites are done before they are lowered, too; those that make them of primitives only then, but
    for `join_by_range`, which has to see who else reads an arrangement. Where there is nothing to do it is the graph.
    """
    chosen = [one for one in passes_named(passes) if one not in _MAKE_FOR or _MAKE_FOR[one] in takes]
    graph.check()
    made = graph
    if has_composites(graph) or any(has_all_pairs(n) or tops_stack(n) for n in graph.nodes):
        for one in chosen:
            made = one(made) if one in KNOW_COMPOSITES else made
    if has_composites(made):
        made = lower(made, takes)
    for one in chosen:
        made = made if one in _MAKE_COMPOSITES else one(made)
    if made is not graph:
        made.freeze()
    return made
