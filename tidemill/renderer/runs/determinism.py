"""Users' functions that are not deterministic: a row is retracted that is not the one that was inserted.

Sure signs alone are told: a function that gives two results for one row in a moment, and a negative count where there
is no other way to one. A count that is negative since somebody deleted what was not there looks the same elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from tidemill.dataflow.composites import Aggregate, TopK, Windowed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Filter,
    FlatMap,
    Input,
    Inspect,
    Join,
    Map,
    Node,
    Output,
    Reduce,
    Retime,
    Threshold,
)
from tidemill.errors import brief
from tidemill.expressions.aggregates import UserReduce
from tidemill.expressions.table_functions import TableCall
from tidemill.expressions.windows.bound import RowCheck

_KEEPS_SIGN = (Arrange, Concat, Consolidate, Filter, FlatMap, Inspect, Join, Map, Output, Retime)
"""Operators whose counts are negative only where an input's is."""
_POSITIVE = (Aggregate, TopK, Windowed)
"""Operators whose counts are positive, whatever comes to them."""


def suspects(graph: Graph) -> Mapping[Output, Sequence[FlatMap]]:
    """Return the outputs in which only a function that is not deterministic can cause a negative count, with these."""
    found: dict[Node, tuple[FlatMap, ...] | None] = {}  # None where there may be other reasons
    for node in graph.nodes:
        found[node] = _suspects(node, [found.get(source) for source in node.inputs])
    outputs = {output: found[output] for output in graph.outputs.values()}
    return {output: functions for output, functions in outputs.items() if functions}


def _is_positive(node: Threshold) -> bool:
    return node.function is None or isinstance(node.function, RowCheck)


def _suspects(node: Node, before: Sequence[tuple[FlatMap, ...] | None]) -> tuple[FlatMap, ...] | None:
    if isinstance(node, Input):
        return () if node.key or node.unique or node.rows is not None else None
    if isinstance(node, _POSITIVE) or (isinstance(node, Threshold) and _is_positive(node)):
        return ()
    if isinstance(node, Reduce) and not isinstance(node.logic, UserReduce):
        return ()
    if not isinstance(node, _KEEPS_SIGN):
        return None
    merged: tuple[FlatMap, ...] = (node,) if _is_of_user(node) else ()
    for functions in before:
        if functions is None:
            return None
        merged = (*functions, *(f for f in merged if f not in functions))
    return merged


def _is_of_user(node: Node) -> TypeGuard[FlatMap]:
    """Return whether a node has a function of the user's; others are tidemill's own."""
    return isinstance(node, FlatMap) and not isinstance(node.function, TableCall)


def functions_before(node: Node) -> list[FlatMap]:
    """Return the users' functions that what comes to a node went through, the nearest first."""
    found: list[FlatMap] = []
    seen, coming = {node}, list(node.inputs)
    while coming:
        one = coming.pop(0)
        if one in seen:
            continue
        seen.add(one)
        if _is_of_user(one):
            found.append(one)
        coming += one.inputs
    return found


def warn_of_ghosts(output: Output, functions: Sequence[FlatMap], row: tuple[object, ...], count: int) -> None:
    """Tell that contents have a negative count, which only these functions can have brought about."""
    named = " or ".join(f"the function {f.describe()!r} of {f.where}" for f in functions)
    msg = (
        f"{output.where}: row {brief(row)} has the count {count}, since {named} gave something else for a row that was "
        "deleted than when it was inserted: make it depend on its row alone, and begin with a new "
        "run"
    )
    warnings.warn(msg, RuntimeWarning, stacklevel=6)


def warn_of_two_results(node: FlatMap, row: tuple[object, ...]) -> None:
    """Tell that a function gave two results for one row."""
    msg = (
        f"{node.where}: the function {node.describe()!r} gives something else each time, as for row {brief(row)}: rows "
        "that it made are not taken away when theirs is deleted; make it depend on its row alone, and begin with a new "
        "run"
    )
    warnings.warn(msg, RuntimeWarning, stacklevel=6)
