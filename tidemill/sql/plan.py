"""Logical plans: few frozen nodes over named columns. A column's name is unique in a whole statement.

Nodes are compared by identity: a node that two others read is computed once. What a node reads of columns that nothing
below it gives comes from a query around it, until `decorrelate` has made joins of all subqueries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs

from tidemill.expressions.expr import Column, Expr
from tidemill.expressions.schema import Field
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.types import DType
from tidemill.sql.trees import Sub, walked

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection
    from tidemill.sql.table_functions import Numbered

Named: TypeAlias = "tuple[Field, Expr]"
"""A column, and what it is computed by."""
_AS_MADE: Final[Any] = None


@attrs.frozen(eq=False, kw_only=True)
class Node:
    """Rows."""

    columns: tuple[Field, ...] = _AS_MADE
    """Its columns, if they are others than it makes; those below it are not seen above, but where a node says so."""
    span: tuple[int, int] | None = None
    """Where in the text what it stands for begins and ends."""

    def __attrs_post_init__(self) -> None:
        if self.columns is None:
            object.__setattr__(self, "columns", _columns_made(self))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What it reads."""
        return tuple(value for value in self._values if isinstance(value, Node))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """What it computes of its inputs' columns."""
        return tuple(_expressions_in(self._values))

    @property
    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in attrs.fields(type(self)))

    def with_expressions(self, replacement: Callable[[Expr], Expr]) -> Self:
        """Return the node with others in the place of what it computes."""
        fields = zip(attrs.fields(type(self)), self._values, strict=True)
        return attrs.evolve(self, **{f.name: _replaced(value, replacement) for f, value in fields})


def _columns_made(node: Any) -> tuple[Field, ...]:
    """Return the columns that a node makes, those of its inputs first."""
    if isinstance(node, (Project, Group)):
        pairs = node.named if isinstance(node, Project) else (*node.keys, *node.aggregates)
        return tuple(field for field, _ in pairs)
    inputs = node.inputs[:1] if isinstance(node, Join) and node.how in ("semi", "anti") else node.inputs
    own = node.made if isinstance(node, Unnest) else [field for field, _ in getattr(node, "calls", ())]
    return (*(field for one in inputs for field in one.columns), *own)


def _expressions_in(value: Any) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, SortKey):
        yield value.expression
    elif isinstance(value, tuple):
        for one in value:
            yield from _expressions_in(one)


def _replaced(value: Any, replacement: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, Expr):
        return replacement(value)
    if isinstance(value, SortKey):
        return attrs.evolve(value, expression=replacement(value.expression))
    return tuple(_replaced(one, replacement) for one in value) if isinstance(value, tuple) else value


@attrs.frozen(eq=False, kw_only=True)
class Get(Node):
    """The rows of a collection: a table, or what a binding of a recursive block holds at that point."""

    name: str
    collection: Collection
    names: tuple[str, ...]
    """The collection's own names of the columns."""


@attrs.frozen(eq=False, kw_only=True)
class Values(Node):
    """Rows that are written in the text."""

    rows: tuple[tuple[Any, ...], ...]

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return ()


@attrs.frozen(eq=False, kw_only=True)
class OneInput(Node):
    """A node with one input."""

    input: Node


@attrs.frozen(eq=False, kw_only=True)
class Project(OneInput):
    """Each row as the values of expressions."""

    named: tuple[Named, ...]


@attrs.frozen(eq=False, kw_only=True)
class Filter(OneInput):
    """The rows for which all conditions are true; a later one is not looked at where an earlier one is false."""

    conditions: tuple[Expr, ...]


@attrs.frozen(eq=False, kw_only=True)
class Temporal(OneInput):
    """The rows from one moment on, to another, as a clock shows them, or the dataflow's own times do."""

    begin: Expr | None
    end: Expr | None
    clock: Collection | None
    clock_type: DType


@attrs.frozen(eq=False, kw_only=True)
class Join(Node):
    """Pairs of rows: how is inner, left or full; or the left rows with or without a partner: semi, anti."""

    left: Node
    right: Node
    how: str
    conditions: tuple[Expr, ...]


@attrs.frozen(eq=False, kw_only=True)
class Group(OneInput):
    """One row for each group, its keys and aggregates; without keys one row in any case."""

    keys: tuple[Named, ...]
    aggregates: tuple[Named, ...]


@attrs.frozen(eq=False, kw_only=True)
class Window(OneInput):
    """The rows with the values of window calls behind them."""

    calls: tuple[Named, ...]
    on_close: bool = False
    """Whether rows come once and for all, when the watermark has passed all that their values depend on."""


@attrs.frozen(eq=False, kw_only=True)
class Unnest(OneInput):
    """Each row beside those that a table function makes of it; none of them where an argument is NULL."""

    function: Numbered
    arguments: tuple[Expr, ...]
    made: tuple[Field, ...]
    outer: bool = False
    """Whether a row for which there are none is kept, beside NULLs."""
    nothing: Expr | None = None
    """The condition under which there are none, but for arguments that are NULL."""


@attrs.frozen(eq=False, kw_only=True)
class TopK(OneInput):
    """The rows of each group from a place on, so many, in an order."""

    keys: tuple[Expr, ...]
    order: tuple[SortKey, ...]
    count: int | None
    offset: int = 0
    ties: bool = False


@attrs.frozen(eq=False, kw_only=True)
class Distinct(OneInput):
    """Each row once."""


@attrs.frozen(eq=False, kw_only=True)
class AtMostOne(OneInput):
    """The rows, of which no two may have the same keys: it is an error of the step if they do."""

    keys: tuple[Expr, ...]
    what: str


@attrs.frozen(eq=False, kw_only=True)
class SetOp(Node):
    """Two inputs by the places of their columns: union, intersect or except, all of them or each row once."""

    left: Node
    right: Node
    operation: str
    all_rows: bool


@attrs.frozen(eq=False, kw_only=True)
class Block:
    """A block of mutually recursive bindings. What reads one of them outside of the block means its fixed point."""

    name: str
    limits: dict[str, int | None] = attrs.field(factory=dict)
    bindings: list[Binding] = attrs.field(factory=list)


@attrs.frozen(eq=False, kw_only=True)
class Binding:
    """A binding: its name, its columns, and what it is computed by in each iteration."""

    name: str
    fields: tuple[Field, ...]
    value: Node


@attrs.frozen(eq=False, kw_only=True)
class Recursive(Node):
    """What a binding of a block holds, at the point of the text where it is read."""

    block: Block
    name: str
    names: tuple[str, ...]


def nodes(root: Node) -> Iterator[Node]:
    """Iterate over a plan, each node once, its inputs before it, and what blocks are made of before who reads them."""
    seen: set[int] = set()
    todo: list[tuple[Node, bool]] = [(root, False)]
    while todo:
        node, ready = todo.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            below = node.inputs
            if isinstance(node, Recursive):
                below = tuple(b.value for b in node.block.bindings)
            todo.extend((n, False) for n in reversed(below))


def read(expressions: Iterable[Expr]) -> set[str]:
    """Return the names of the columns that expressions read, subqueries in them those that are not their own."""
    found: set[str] = set()
    for expression in expressions:
        for part in walked(expression):
            if isinstance(part, Column):
                found.add(part.name)
            elif isinstance(part, Sub):
                found |= free(part.plan)
    return found


def free(root: Node) -> set[str]:
    """Return the names of the columns that a plan reads and that nothing in it gives."""
    known: dict[int, set[str]] = {}
    for node in nodes(root):
        below = {f.name for i in node.inputs for f in i.columns}
        open_ = set().union(*(known.get(id(i), set()) for i in node.inputs)) if node.inputs else set()
        known[id(node)] = open_ | (read(node.expressions) - below)
    return known[id(root)]


def needed(roots: Iterable[Node]) -> dict[int, set[str]]:
    """Return for each node the names of the columns that those who read it need, themselves or to pass them on."""
    ordered = {id(node): node for root in roots for node in nodes(root)}
    found: dict[int, set[str]] = {at: set() for at in ordered}
    for root in roots:
        found[id(root)] = {f.name for f in root.columns}
    for node in reversed(ordered.values()):
        wanted = read(node.expressions)
        if isinstance(node, (Distinct, SetOp)):
            wanted |= {f.name for one in node.inputs for f in one.columns}
        elif not isinstance(node, (Project, Group)):
            wanted |= found[id(node)]
        for one in node.inputs:
            found[id(one)] |= wanted
        if isinstance(node, Recursive):
            for binding in node.block.bindings:
                found[id(binding.value)] |= {f.name for f in binding.value.columns}
    return found
