"""The closed set of primitive operators. Every dataflow is made of these; each engine knows each of them.

A node is data: what it reads, what its rows look like, where it lives, where the user wrote it. How it works is the
engines' business. What is composed of these is in `composites`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar, Protocol

import attrs

from tidemill.dataflow.origins import Origins
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.instants import shown_distance
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.table_functions import TableCall
from tidemill.expressions.windows.bound import RowCheck
from tidemill.site import Site


class ReduceLogic(Protocol):
    """The computation of a Reduce for each group, as far as a graph needs to know it."""

    def describe(self) -> str:
        """Return the computation in a few words."""
        ...


@attrs.frozen
class LoopLimits:
    """When a loop stops other than by itself. At most one of the two is given."""

    error_at: int | None = None
    return_at: int | None = None

    def describe(self) -> str:
        """Return the limit as the user writes it, or that there is none."""
        if self.error_at is not None:
            return f"error_at={self.error_at}"
        return f"return_at={self.return_at}" if self.return_at is not None else "no limit"


@attrs.frozen(eq=False, kw_only=True, repr=False, slots=False)  # with slots cached properties slow every attribute
class Node:
    """An operator. Nodes are compared by identity; ``id`` is their place in the order of making."""

    id: int
    name: str
    scope: Scope
    schema: Schema
    site: Site
    inputs: tuple[Node, ...] = ()
    origins: Origins | None = None
    """The columns to name in errors, where it works with columns that users do not know."""
    part_of: str | None = None
    """The name that users know, of the operator whose place it takes, or a part of it: errors are that operator's."""
    call: Node | None = None
    """That operator, as it was before it was lowered: pictures show it as one box."""

    arity: ClassVar[int | None] = 1
    """How many inputs it reads; None for any number but none."""

    @property
    def kind(self) -> str:
        """The name of its class, as engines and pictures call it."""
        return type(self).__name__

    def describe(self) -> str:
        """Return the node's parameters, in a few words."""
        return ""

    def notes(self) -> Iterator[str]:
        """Iterate over further notes on the node, each a line of its own."""
        return iter(())

    @cached_property
    def where(self) -> str:
        """Its name and the user's line, as errors give them."""
        return f"{self.title} ({self.site.location})"

    @property
    def called(self) -> str:
        """The users' name of its kind."""
        return self.kind

    @property
    def title(self) -> str:
        """The kind and the name of the operator that users know, as errors give them."""
        return f"{self.part_of or self.called} {self.name!r}"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id} {self.name!r} at {self.site}>"


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Input(Node):
    """Updates from outside; with ``rows``, a constant: these rows from the least time on, and nothing ever after."""

    unique: bool = False
    key: tuple[int, ...] = ()
    rows: tuple[tuple[Any, ...], ...] | None = None
    ignores_extra: bool = False
    """Whether columns that rows have besides the schema's are left out, and not refused."""
    arity: ClassVar[int | None] = 0

    def describe(self) -> str:
        if self.rows is not None:
            return f"constant, {len(self.rows)} rows"
        key = "key " + ", ".join(self.schema.names[i] for i in self.key) if self.key else ""
        return key or ("unique" if self.unique else "")


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Map(Node):
    """Each row becomes the values of the expressions, at the same time with the same count."""

    columns: tuple[Bound, ...]
    fails_as: tuple[tuple[str, str | None], ...] = ()
    """Of columns made of those of the Map that errors name, which of these may fail; None where several may."""

    @property
    def picked(self) -> tuple[int, ...] | None:
        """The columns that it picks, if it does nothing else."""
        found = tuple(c.index for c in self.columns if isinstance(c, BoundColumn))
        return found if len(found) == len(self.columns) else None

    def describe(self) -> str:
        pairs = zip(self.schema.names, map(to_sql, self.columns), strict=True)
        return ", ".join(name if name == sql.strip("`") else f"{sql} AS {name}" for name, sql in pairs)


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Filter(Node):
    """Keeps the rows for which the predicate is true (not false, not NULL)."""

    predicate: Bound

    def describe(self) -> str:
        return to_sql(self.predicate)


@attrs.frozen(eq=False, kw_only=True, repr=False)
class FlatMap(Node):
    """Each row becomes the rows that a user's or a table function makes of it; with ``single``, exactly one."""

    function: Callable[[Any], Any]
    single: bool = False
    version: str | None = None
    """The user's name for this version of the function, where its code does not say whether it is the same."""

    @property
    def called(self) -> str:
        """The users' name for it: map_rows or flat_map."""
        if isinstance(self.function, TableCall):
            return self.kind
        return "map_rows" if self.single else "flat_map"

    @property
    def title(self) -> str:
        """The users' name for its kind, and its own name where they gave it one."""
        named = self.part_of or isinstance(self.function, TableCall) or self.name != self.kind.lower()
        return f"{self.part_of or self.called} {self.name!r}" if named else self.called

    def describe(self) -> str:
        if isinstance(self.function, TableCall):
            return self.function.describe()
        return getattr(self.function, "__qualname__", type(self.function).__name__)


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Negate(Node):
    """The same rows with negated counts."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Concat(Node):
    """The sum of its inputs."""

    arity: ClassVar[int | None] = None


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Join(Node):
    """Pairs of rows with equal keys, of two arrangements: times joined, counts multiplied.

    ``output`` picks columns from the left row followed by the right row. Unless ``nulls_equal``, a key with a NULL in
    it matches nothing.
    """

    output: tuple[int, ...]
    nulls_equal: bool = False
    why: str = ""
    """The purpose for which a pass made it, if one did."""
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        left, right = self.inputs
        pairs = zip(_key_names(left), _key_names(right), strict=True)
        return "on " + ", ".join(a if a == b else f"{a} = {b}" for a, b in pairs) + (self.why and f": {self.why}")


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Reduce(Node):
    """For each key at each time, rows computed from the group's accumulated rows; an empty group gives none.

    With ``scalar`` there is one group, and it gives its row even when it is empty.
    """

    keys: tuple[int, ...]
    logic: ReduceLogic
    scalar: bool = False

    def describe(self) -> str:
        keys = ", ".join(self.inputs[0].schema.names[i] for i in self.keys)
        return f"by {keys}: {self.logic.describe()}" if keys else self.logic.describe()


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Threshold(Node):
    """Each row with a new count computed from its accumulated one; without a function, distinct."""

    function: Callable[[Any, int], int] | None = None
    version: str | None = None
    """As of `FlatMap`."""

    def describe(self) -> str:
        if self.function is None:
            return "distinct"
        if isinstance(self.function, RowCheck):
            return self.function.describe()
        return getattr(self.function, "__qualname__", "function")


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Consolidate(Node):
    """The same collection, at most one update for each row and time."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Arrange(Node):
    """The same collection, consolidated and indexed by key, for all who can use the index."""

    keys: tuple[int, ...]
    drops_nulls: bool = False
    """Whether rows with NULL in their keys may be left out: nobody asks for them."""

    def describe(self) -> str:
        by = "by " + ", ".join(self.schema.names[i] for i in self.keys)
        return f"{by}, not NULL" if self.drops_nulls else by


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Retime(Node):
    """Moves each update to a later user time: by fixed steps, by a monotone function, or to the time in a column."""

    steps: tuple[int, ...] | None = None
    function: Callable[[Any], Any] | None = None
    column: int | None = None
    """The column with the time to which earlier updates of a row move; with NULL there they stay."""
    since: int | None = None
    """A column whose value must not be after that of ``column``: a row where it is has an error."""
    coordinate: int = 0
    """Which of the user's coordinates ``column`` is about."""
    version: str | None = None
    """As of `FlatMap`: that of ``function``."""

    def describe(self) -> str:
        if self.steps is not None:
            return "by " + ", ".join(map(str, self.steps))
        if self.column is not None:
            since = "" if self.since is None else f", not before {self.schema.names[self.since]}"
            axis = f" in coordinate {self.coordinate}" if self.coordinate else ""
            return f"to {self.schema.names[self.column]}{since}{axis}"
        return getattr(self.function, "__qualname__", "function")


@attrs.frozen
class Mark:
    """The watermark of one input: the greatest value of a column over its updates, less a delay.

    Of the marks with one ``source`` the greatest counts, of different sources the least. A mark that is ``told`` may
    not go back.
    """

    source: int
    column: int
    delay: int
    """In the units of `tidemill.expressions.instants`."""
    told: bool


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Watermark(Node):
    """One row: the value below which no more rows are to come, by the updates up to now; none until all sources say."""

    marks: tuple[Mark, ...]
    arity: ClassVar[int | None] = None

    def describe(self) -> str:
        dtype = self.schema.fields[0].dtype
        sources: dict[int, list[str]] = {}
        for mark, node in zip(self.marks, self.inputs, strict=True):
            less = f" less {shown_distance(mark.delay, dtype)}" if mark.delay else ""
            said = f"as told by {node.name!r}" if mark.told else f"{node.name}.{node.schema.names[mark.column]}{less}"
            sources.setdefault(mark.source, []).append(said)
        each = [" or ".join(said) for said in sources.values()]
        return each[0] if len(each) == 1 else f"the least of {', '.join(each)}"


@attrs.frozen(eq=False, kw_only=True, repr=False)
class SortBuffer(Node):
    """Each row once the watermark, its second input, is greater than its value of a column plus an extra distance.

    A row moves to the first time from its own on at which that is so; what is below the watermark of the time before
    its own when it comes is late, and dropped if ``drops_late`` says so. NULL is less than all values.
    """

    column: int
    extra: int = 0
    drops_late: bool = True
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        field = self.schema.fields[self.column]
        more = f" + {shown_distance(self.extra, field.dtype)}" if self.extra else ""
        return f"{field.name}{more} < watermark" + ("" if self.drops_late else ", late ones too")


@attrs.frozen(eq=False, kw_only=True, repr=False)
class LateRows(Node):
    """The updates that a SortBuffer drops, at their own times: those below the watermark of the time before.

    With ``on_time`` the others.
    """

    column: int
    on_time: bool = False
    arity: ClassVar[int | None] = 2

    def describe(self) -> str:
        return f"{self.schema.names[self.column]} {'>=' if self.on_time else '<'} watermark before"


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Enter(Node):
    """Brings a collection, or an arrangement, into a loop: there from iteration 0, so visible in every one."""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Leave(Node):
    """Takes a collection out of its loop: the sum over all iterations, which is the loop's limit."""

    limits: LoopLimits = LoopLimits()

    def describe(self) -> str:
        return self.limits.describe() if self.limits.return_at is not None else ""


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Variable(Node):
    """A loop's variable: its contents after the previous iteration, empty in the first one. Its Feedback defines it."""

    arity: ClassVar[int | None] = 0


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Feedback(Node):
    """Sends changes, consolidated, to its Variable in the next iteration: the only edge that goes back."""

    variable: Variable
    limits: LoopLimits = LoopLimits()

    def describe(self) -> str:
        return f"to {self.variable.name}, {self.limits.describe()}"


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Inspect(Node):
    """The same collection; a user's function sees each update that passes."""

    function: Callable[[Any, Any, int], Any]


@attrs.frozen(eq=False, kw_only=True, repr=False)
class Output(Node):
    """A collection that can be read from a run, by name.

    ``changes`` says how much is kept of what was not read: all, nothing, or about that many updates.
    """

    changes: bool | int = True


def watermark_input(name: str) -> str:
    """Return the name of the input that takes what is told of another input's watermark."""
    return f"{name}.watermark"


def outside(node: Node) -> Node:
    """Return the node that another one is outside of loops, before it was entered."""
    while isinstance(node, Enter):
        (node,) = node.inputs
    return node


def arranged_keys(node: Node) -> tuple[int, ...]:
    """Return by which columns an arrangement is, however deep into loops it was brought."""
    arranged = outside(node)
    assert isinstance(arranged, Arrange)
    return arranged.keys


def _key_names(arranged: Node) -> Iterable[str]:
    return [arranged.schema.names[i] for i in arranged_keys(arranged)]
