"""The table of the reference engine's rules, and the two shapes that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from tidemill.dataflow.composites import TemporalFilter
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Node, Retime
from tidemill.errors import ExpressionError
from tidemill.expressions.bound import Bound
from tidemill.renderer.reference.expressions import evaluate
from tidemill.renderer.reference.traces import Contents, Row, Trace, consolidated
from tidemill.renderer.runs import failures
from tidemill.renderer.runs.registry import Registry

Updates: TypeAlias = Iterator[tuple[Row, Time, int]]
IsFinal: TypeAlias = Callable[[Time], bool]
Rule: TypeAlias = Callable[..., Trace]

RULES: Final = Registry[Rule]("reference engine")
"""For each class of nodes, what makes its trace of the node, which times are final, and its inputs' traces."""


def linear(*kinds: type[Node]) -> Callable[[Callable[..., Updates]], Callable[..., Updates]]:
    """Return the decorator of a rule ``(node, *sources)`` that says what becomes of one update."""

    def add(rule: Callable[..., Updates]) -> Callable[..., Updates]:
        RULES(*kinds)(lambda node, _final, *sources: consolidated(rule(node, *sources)))
        return rule

    return add


def by_contents(*kinds: type[Node]) -> Callable[[Callable[..., Updates]], Callable[..., Updates]]:
    """Return the decorator of a rule ``(node, final, *sources)`` that looks at whole contents at every final time."""

    def add(rule: Callable[..., Updates]) -> Callable[..., Updates]:
        RULES(*kinds)(lambda node, final, *sources: consolidated(rule(node, final, *sources)))
        return rule

    return add


def evaluated(node: Node, expression: Bound, row: Row, *, column: str | None = None, time: Time | None = None) -> Any:
    """Return an expression's value for a row; where it has none, the error names the node, the column and user time."""
    try:
        return evaluate(expression, row)
    except ExpressionError as error:
        at = None if time is None else shown(user_part(node, time))
        raise failures.expression_failed(node, row, error, column=column, time=at) from None


def user_part(node: Node, time: Time) -> Time:
    """Return a time without the iterations of the loops that a node is in."""
    *_, root = node.scope
    return time[: root.coordinates]


def check_counts(node: Node, key: Row, rows: Contents) -> None:
    """Refuse a group that holds a row with a negative count."""
    for row, count in rows.items():
        if count < 0:
            raise failures.negative_count(node, key, row, count)


def user_time_of_row(node: Retime | TemporalFilter, row: Row, user: Time, to: int | None, begin: int | None) -> Time:
    """Return the user time to which a row's update moves; NULL has it stay, an end before the beginning is an error."""
    if to is None:
        return user
    if begin is not None and to < begin:
        raise failures.ends_before_it_begins(node, row, begin, to, shown(user))
    i = node.coordinate
    return (*user[:i], max(user[i], to), *user[i + 1 :])
