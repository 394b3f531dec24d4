"""From what the inputs hold to an answer."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Time
from tidemill.expressions.functions.values import row_order
from tidemill.provenance.absence import absence
from tidemill.provenance.derivation import derivation
from tidemill.provenance.subsets import Unit, multiset, sufficient_rows
from tidemill.provenance.validity import at_one_time
from tidemill.renderer.diagram.reason import Row
from tidemill.renderer.diagram.why import Why

MOST_EXPLAINED = 200
"""Of how many input rows at most a tree is made, by the specification, which is slow."""


def answer(
    graph: Graph, given: Mapping[str, Mapping[Row, int]], output: str, row: Row, *, time: Time | None, is_there: bool
) -> Why:
    """Return why an output of a dataflow has the row at a time, or has not, when its inputs hold what is given then."""
    graph = at_one_time(graph, time)
    if not is_there:
        return Why(output, row, is_there=False, tree=absence(graph, given, output, row))
    found = sufficient_rows(graph, given, output, row)
    rows = _listed(found.units)
    if len(found.units) > MOST_EXPLAINED:
        cause = f"too many rows to tell on what way it follows from them (more than {MOST_EXPLAINED})"
        return Why(output, row, is_there=True, rows=rows, is_minimal=found.is_minimal, cause=cause)
    tree = derivation(graph, multiset(found.units), output, row)
    return Why(output, row, is_there=True, rows=rows, is_minimal=found.is_minimal, tree=tree)


def _listed(units: list[Unit]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for unit in sorted(units, key=lambda u: (u.input, row_order(u.row))):
        found.setdefault(unit.input, []).extend([unit.row] * abs(unit.copies))
    return found
