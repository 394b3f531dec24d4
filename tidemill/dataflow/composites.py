"""Composites: operators that can be made of primitives, and are until an engine says that it takes them itself.

Passes see them whole: a filter goes below a left join more easily than below the seven operators of its lowering.
`algorithms.lowering` says what each is made of; see there how to add one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, Literal

import attrs

from tidemill.dataflow.nodes import Node
from tidemill.expressions.aggregates import AggregateCall
from tidemill.expressions.bound import Bound
from tidemill.expressions.instants import shown_distance
from tidemill.expressions.ordering import OrderKey
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.windows.binding import BoundWindows
from tidemill.expressions.windows.bound import Windows
from tidemill.expressions.windows.in_order import Rendering


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Composite(Node):
    """An operator that stands for several. What it is made of is found by its class."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class PartneredJoin(Composite):
    """The base of joins that depend on whether a row has a partner: outer, semi and anti joins.

    ``on`` has the names of the key columns, left and right. A pair has the left columns followed by the right ones that
    are no keys; those among them whose names clash have ``suffix``. ``condition`` is of such pairs. A row has a partner
    if the counts of the other side's rows with its key add up to more than 0; with a condition, those of its pairs.
    """

    on: tuple[tuple[str, str], ...]
    condition: Bound | None = None
    nulls_equal: bool = False
    suffix: str = "_right"
    once: tuple[bool, bool] = (False, False)
    """Whether it is known that no key is there twice on the left, or on the right: its pairs say who has a partner."""
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        keys = ", ".join(a if a == b else f"{a} = {b}" for a, b in self.on)
        where = f" where {to_sql(self.condition)}" if self.condition is not None else ""
        once = [f", each once on the {side}" for side, known in zip(("left", "right"), self.once, strict=True) if known]
        return f"on {keys}{where}" + (", nulls equal" if self.nulls_equal else "") + "".join(once)


@attrs.frozen(eq=False, kw_only=True, repr=False)
class OuterJoin(PartneredJoin):
    """All pairs, and of the left side, the right one or both also the rows without a partner, NULL beside them.

    The keys' columns hold the key of whichever row there is.
    """

    how: Literal["left", "right", "full"]

    def describe(self) -> str:
        return f"{self.how} {super().describe()}"


@attrs.frozen(eq=False, kw_only=True, repr=False)
class SemiJoin(PartneredJoin):
    """The left rows that have a partner, each with its own count."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class AntiJoin(PartneredJoin):
    """The left rows that have no partner, each with its own count."""


CLOCKED: Final = "temporal_filter"
"""The name of filters that compare with a clock."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class ComparingFilter(Composite):
    """The base of filters that compare the left rows with the single right row, if there is one."""

    conditions: tuple[tuple[int, str, int], ...]
    """A left column, how it is to compare, and a right column of the same type."""
    predicate: Bound
    """The same, of a left row followed by a right one."""
    monotone: Literal["increasing", "decreasing"] | None = None
    """How the right values move, if they were declared to move in one way only."""
    arity: ClassVar[int | None] = 2

    @property
    def title(self) -> str:
        """The users' name for it, whatever passes make of it: dynamic_filter; with a clock, temporal_filter."""
        return CLOCKED if self.name == CLOCKED else "dynamic_filter"

    def describe(self) -> str:
        left, right = (source.schema.names for source in self.inputs)
        shown = " AND ".join(f"{left[l]} {comparison} {right[r]}" for l, comparison, r in self.conditions)
        return shown + (f", {self.monotone}" if self.monotone else "")


@attrs.frozen(eq=False, kw_only=True, repr=False)
class DynamicFilter(ComparingFilter):
    """The left rows for which all comparisons with the one row of the right side are true; none where it has no row."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class OrderedDynamicFilter(ComparingFilter):
    """A dynamic filter where times are of one coordinate: in order, so that an index by value can follow them."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class RangeJoin(Composite):
    """Pairs of rows of which a left column is less or greater than a right one: times joined, counts multiplied.

    With keys, of rows with equal ones; unless ``nulls_equal``, a key with a NULL in it matches nothing.
    """

    keys: tuple[tuple[int, int], ...] = ()
    """Left columns and the right ones that they are to be equal to."""
    nulls_equal: bool = False
    comparison: tuple[int, str, int]
    """A left column, how it is to compare, and a right column of the same type: numbers, dates or timestamps."""
    predicate: Bound
    """The same, of a left row followed by a right one."""
    output: tuple[int, ...]
    """Columns of the left row followed by the right row."""
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        (l, how, r), (left, right) = self.comparison, (source.schema.names for source in self.inputs)
        pairs = [(left[a], right[b]) for a, b in self.keys]
        on = "on " + "".join(f"{a}, " if a == b else f"{a} = {b}, " for a, b in pairs) if pairs else ""
        return f"{on}{left[l]} {how} {right[r]}"

    @property
    def has_one_index(self) -> bool:
        """Whether both sides are the same rows in the same order."""
        left, right = self.inputs
        return left is right and self.comparison[0] == self.comparison[2] and all(l == r for l, r in self.keys)


@attrs.frozen(eq=False, kw_only=True, repr=False)
class SetOperation(Composite):
    """SQL's set operations of two collections with the same columns; NULL is a value like any other.

    ``except_all``: the left counts lessened by the right ones, never below 0. ``except_distinct`` and ``intersect``:
    once each left row whose count is positive and that has none, or has one, on the right.
    """

    operation: Literal["except_all", "except_distinct", "intersect"]
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        return self.operation


@attrs.frozen(eq=False, kw_only=True, repr=False)
class TopK(Composite):
    """The first rows of each group in an order, as many as make ``count`` copies.

    Ties are broken by a fixed hash of some columns, then by the row.
    """

    keys: tuple[Bound, ...]
    order: tuple[OrderKey, ...]
    count: int
    hashed: tuple[int, ...] | None = None
    """Which columns the hash is over, if not over all: see `columns_before_added`."""

    def describe(self) -> str:
        by = ", ".join(to_sql(key) for key in self.keys)
        first = f"first {self.count} by {', '.join(key.describe() for key in self.order)}"
        return f"{first} of each {by}" if by else first


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Aggregate(Composite):
    """For each group one row: the keys, then the aggregates. Without keys there is one group, and always its row."""

    keys: tuple[Bound, ...]
    aggregates: tuple[AggregateCall, ...]
    hashed: tuple[int, ...] | None = None
    """Which columns the hash is over that breaks ties in orders, if not over all: see `columns_before_added`."""

    def describe(self) -> str:
        names = self.schema.names[len(self.keys) :]
        made = ", ".join(f"{a.describe()} AS {n}" for a, n in zip(self.aggregates, names, strict=True))
        return f"by {', '.join(to_sql(key) for key in self.keys)}: {made}" if self.keys else made


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Windowed(Composite):
    """Each row with the values of window calls over one partitioning and order; a row that is there n times is n rows.

    Ties in the order are broken by a fixed hash of what the row had before columns were added to it (see
    `columns_before_added`), then by the row.
    """

    bound: BoundWindows
    most: int | None = None
    """The greatest rank asked for, if rows beyond it were left out or, for calls that number rows, may be."""

    @property
    def keys(self) -> tuple[Bound, ...]:
        """The columns that the rows are partitioned by."""
        return tuple(key for _, key in self.bound.columns[: self.bound.keys])

    def describe(self) -> str:
        return self.bound.describe(self.scope.coordinates, self.most)

    def renderings(self) -> Iterator[tuple[str, Rendering]]:
        """Iterate over the names of calls, and how each is kept up to date where nobody leaves out passes."""
        return self.bound.renderings(self.scope.coordinates, self.most)

    def notes(self) -> Iterator[str]:
        return (f"{name}: {how}" for name, how in self.renderings())


@attrs.frozen(eq=False, kw_only=True, repr=False)
class TemporalFilter(Composite):
    """Each row at the times at which it is valid, in one of the user's coordinates: not before its own time.

    That is from ``valid_from`` on, until ``valid_to``, when it is there no more; NULL is no bound. A row that ends
    before it begins is an error.
    """

    valid_from: Bound | None
    valid_to: Bound | None
    coordinate: int = 0

    def describe(self) -> str:
        bounds = [
            f"{word} {to_sql(b)}" for word, b in (("from", self.valid_from), ("to", self.valid_to)) if b is not None
        ]
        return " ".join(bounds) + (f" in coordinate {self.coordinate}" if self.coordinate else "")


@attrs.frozen
class Lookup:
    """One step of a delta join: the rows of another relation that fit what was found so far."""

    relation: int
    port: int
    """The input that arranges the relation by just the columns that are asked for."""
    key: tuple[tuple[int, int], ...]
    """For each of its keys in order where the value is: in a relation found before, and in which of its columns."""
    own: tuple[int, ...]
    """Which columns of the relation itself these keys are."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class DeltaJoin(Composite):
    """Rows of three or more relations with equal keys: times joined, counts multiplied; nothing between is stored.

    Its inputs are arrangements: of each relation one for each set of columns by which it is looked up. A relation's
    columns are those that matter here, numbered in their order in ``columns``.
    """

    ports: tuple[tuple[int, ...], ...]
    """The inputs that are arrangements of each relation: the first of them brings its changes."""
    columns: tuple[tuple[int, ...], ...]
    """For each input, where in its rows its relation's columns are."""
    lookups: tuple[tuple[Lookup, ...], ...]
    """For changes of each relation, how rows of all others are found."""
    output: tuple[tuple[int, int], ...]
    """The columns of what it gives: a relation, and which of its columns."""
    nulls_equal: bool = False
    why: str = ""
    """Why it stands for a stack of joins, where users did not ask for it."""
    arity: ClassVar[int | None] = None

    def describe(self) -> str:
        names = [self.inputs[ports[0]].name for ports in self.ports]
        found = zip(names, self.lookups, strict=True)
        paths = ["->".join([name, *(names[lookup.relation] for lookup in path)]) for name, path in found]
        return ", ".join(paths) + (", nulls equal" if self.nulls_equal else "") + (self.why and f", since {self.why}")


@attrs.frozen(eq=False, kw_only=True, repr=False)
class SlidingWindows(Composite):
    """Rows that a sort buffer released, with the values of window calls, each once its frames are closed.

    The second input is the watermark. The rows have beside their own columns what the calls read, their partitioning
    first; what is left of them, and the values, is the output. A row's frames are closed when the ``closing`` calls are
    not NULL in it, and the watermark is greater than its value of ``column`` plus ``distance``.
    """

    keys: int
    windows: Windows
    closing: tuple[int, ...]
    """Which of the calls say whether frames are closed."""
    column: int
    """The column of the watermark: the first of the order."""
    distance: int
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        names = self.inputs[0].schema.names
        calls = self.windows.describe([f"`{name}`" for name in (*names, "hash")])
        dtype = self.inputs[0].schema.fields[self.column].dtype
        more = f" + {shown_distance(self.distance, dtype)}" if self.distance else ""
        partition = f" of each {', '.join(f'`{n}`' for n in names[: self.keys])}" if self.keys else ""
        return f"{calls}{partition}, once closed{more and ', ' + names[self.column] + more + ' < watermark'}"


@attrs.frozen(eq=False, kw_only=True, repr=False)
class ClosedSessions(Composite):
    """Rows that a sort buffer released, with the starts of their sessions, once these are over.

    The second input is the watermark. The rows begin with ``keys`` columns that they are partitioned by. In a session
    each row's value of ``column`` is no more than ``gap`` after the last one; NULL is in none. It is over when the
    watermark is greater than its last value plus ``gap``.
    """

    keys: int
    column: int
    gap: int
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        names, field = self.inputs[0].schema.names, self.inputs[0].schema.fields[self.column]
        partition = f" of each {', '.join(f'`{n}`' for n in names[: self.keys])}" if self.keys else ""
        return f"by `{field.name}`, {shown_distance(self.gap, field.dtype)} apart{partition}, once over"
