"""The builder: turns what the user writes into nodes, entering scopes and sharing arrangements on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tidemill.boundary.rows import checked_batch, python_rows
from tidemill.collections.watermarks import Declared, declare
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Arrange, Enter, Input, Node, Output
from tidemill.dataflow.scopes import Scope
from tidemill.errors import GraphError, SchemaError
from tidemill.expressions.literals import table_called
from tidemill.expressions.schema import Field, Schema, SchemaLike
from tidemill.expressions.types import FLOAT64

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection
    from tidemill.collections.recursion import LetRec

__all__ = ["Builder"]


BETWEEN_LAYERS: Final = frozenset(
    ("arrange", "attempt", "collection", "current", "enter", "graph", "inside", "meeting_scope", "own", "watermarks")
)
"""What collections and engines use, and completion need not offer to users."""


class Builder:
    """A dataflow being built: its graph, and which of its blocks are open."""

    def __init__(self, name: str = "dataflow", time: str | Sequence[str] = "epoch") -> None:
        coordinates = (time,) if isinstance(time, str) else tuple(time)
        if not coordinates or len(set(coordinates)) < len(coordinates):
            msg = f"time={time!r}: expected one or more different names of coordinates"
            raise GraphError(msg)
        self._build_on(Graph(name, coordinates))

    def _build_on(self, graph: Graph) -> None:
        self.graph = graph
        self._open: list[Scope] = [graph.root]
        self.watermarks: dict[Input, Declared] = {}

    @property
    def name(self) -> str:
        """The dataflow's name, as errors and pictures give it."""
        return self.graph.name

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n not in BETWEEN_LAYERS]

    # -- what the user calls --------------------------------------------------------------------------------------

    def input(
        self,
        name: str,
        schema: SchemaLike,
        *,
        unique: bool = False,
        key: str | Sequence[str] | None = None,
        watermark: Any = None,
    ) -> Collection:
        """Return a collection fed from outside under this name.

        Columns are nullable unless declared ``not null``. ``unique=True`` checks, when a time closes, that every count
        is 0 or 1. ``key=[...]`` allows ``run.upsert(name, rows)`` and deletes by key.

        ``watermark=("ts", timedelta(minutes=5))`` says that rows come at most so long after rows with a later ``ts``:
        below the greatest one so far less the delay no more are expected, and those that come are late. With
        ``watermark="ts"`` only what `Run.watermark` tells counts. See `Collection.sort_buffer`. For times of one
        coordinate.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("routes")
        >>> flow.input("flights", {"origin": "string not null", "delay": "int64"})
        Collection(origin: string not null, delay: int64)
        """
        made = Schema.of(schema)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        positions = tuple(made.index(k) for k in keys)
        with self.attempt():
            node = self.graph.add(
                Input, scope=self.graph.root, name=_named(name, "input"), schema=made, unique=unique, key=positions
            )
            if watermark is not None:
                declare(self, node, watermark)
        return self.collection(node)

    def constant(self, schema: SchemaLike, rows: Any) -> Collection:
        """Return a collection of these rows, there from the least time on and never changing.

        Rows are whatever ``run.insert`` takes: tuples, rows whose values have names, tables.

        >>> import tidemill as tm
        >>> tm.Dataflow().constant({"airport": "string"}, [("JFK",), ("LGA",)])
        Collection(airport: string)
        """
        made = Schema.of(schema)
        checked = tuple(python_rows(checked_batch(made, rows, "constant")))
        return self.collection(self.graph.add(Input, scope=self.graph.root, name="constant", schema=made, rows=checked))

    def output(self, name: str, collection: Collection, *, changes: bool | int = True) -> None:
        """Make a collection an output: what runs can be asked for by this name.

        ``changes`` says what is kept of updates not yet read: True all of them at their exact times, False none, a
        number about so many (beyond it the oldest times are folded together; the net effect stays right).
        """
        if not isinstance(changes, int) or changes < 0:
            msg = f"output {name!r}: changes={changes!r}: expected True, False or a number of updates"
            raise GraphError(msg)
        node = self.own(collection, "output").node
        if node.scope is not self.graph.root:
            msg = (
                f"output {name!r}: {node.where} is inside the loop {node.scope.path}: "
                "return it from the body, or read the block's result, and use that"
            )
            raise GraphError(msg)
        self.graph.add(
            Output, scope=node.scope, inputs=(node,), name=_named(name, "output"), schema=node.schema, changes=changes
        )

    def letrec(self, name: str = "letrec", *, error_at: Any = ..., return_at: int | None = None) -> LetRec:
        """Return a block of mutually recursive bindings (SQL's WITH MUTUALLY RECURSIVE), to be used with ``with``.

        Bindings start empty. In each iteration they are updated in sequence, each seeing the most recent contents of
        the others; the block ends when an iteration changes nothing. ``error_at=n`` (default 10,000, None for no
        limit) raises ``IterationLimitError`` where iteration n still changed a binding; ``return_at=n`` makes
        the state after n iterations the result. Blocks nest and follow one another. Counts must settle for a fixed
        point to be reached: end bindings with ``distinct`` or an aggregate.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> one = flow.constant({"i": "int64"}, [(1,)])
        >>> with flow.letrec(error_at=100) as rec:
        ...     up = rec.declare("up", {"i": "int64"})
        ...     _ = rec.define("up", one.concat(up.filter("i < 3").select(i="i + 1")).distinct())
        >>> flow.output("up", rec["up"])
        >>> list(flow.start().snapshot("up"))
        [(1,), (2,), (3,)]
        """
        from tidemill.collections.loops import loop_limits  # noqa: PLC0415 - loops and recursion stand on the builder
        from tidemill.collections.recursion import LetRec  # noqa: PLC0415

        return LetRec(self, name, loop_limits(error_at, return_at))

    # -- what collections call ------------------------------------------------------------------------------------

    def own(self, collection: Any, what: str) -> Collection:
        """Return the collection if it is one, and of this dataflow."""
        from tidemill.collections.collection import Collection  # noqa: PLC0415 - a collection stands on its builder

        if not isinstance(collection, Collection):
            table = table_called(collection)
            hint = "; put its rows in by flow.input(...) or flow.constant(...), and use that" if table else ""
            msg = f"{what}: {table or repr(collection)} is not a collection of this dataflow{hint}"
            raise GraphError(msg)
        if collection.builder is not self:
            msg = (
                f"{what}: {collection.node.where} is of dataflow {collection.builder.name!r}, not of {self.name!r}: "
                "all collections that meet must be of one dataflow"
            )
            raise GraphError(msg)
        return collection

    def meeting_scope(self, nodes: Iterable[Node]) -> Scope:
        """Return the innermost of the nodes' scopes, into which the others can be entered."""
        scopes = [n.scope for n in nodes]
        deepest = max(scopes, key=lambda s: s.coordinates)
        for scope in scopes:
            if not deepest.within(scope):
                msg = (
                    f"collections of the {scope.kind} block {scope.name!r} ({scope.site.location}) and of "
                    f"{deepest.name!r} ({deepest.site.location}) cannot meet: neither block is inside the other; "
                    "return it from the body, or read the block's result, and use that"
                )
                raise GraphError(msg)
        return deepest

    def enter(self, node: Node, scope: Scope) -> Node:
        """Return the node as seen in a scope: itself, or brought in through each loop on the way."""
        if node.scope is scope:
            return node
        assert scope.parent is not None, "meeting_scope has found a scope inside the node's own"
        outside = self.enter(node, scope.parent)
        return self.graph.entered(outside, scope) or self.graph.add(
            Enter, scope=scope, inputs=(outside,), name=node.name, schema=node.schema
        )

    def arrange(self, node: Node, keys: tuple[int, ...]) -> Node:
        """Return the node arranged by key columns, once for all who ask; what was entered is arranged outside."""
        if isinstance(node, Arrange) and node.keys == keys:
            return node
        if isinstance(node, Arrange):
            return self.arrange(node.inputs[0], keys)
        if isinstance(node, Enter):
            return self.enter(self.arrange(node.inputs[0], keys), node.scope)
        return self.graph.arranged(node, keys) or self.graph.add(
            Arrange, scope=node.scope, inputs=(node,), name=node.name, schema=node.schema, keys=keys
        )

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Build in a scope: scopes opened meanwhile are inside it. Ends, if all went well, by closing the scope."""
        self._open.append(scope)
        try:
            yield
        finally:
            self._open.pop()
        self.graph.close(scope)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Build something; where that goes wrong, leave no trace of it."""
        mark, depth = self.graph.mark(), len(self._open)
        try:
            yield
        except BaseException:
            self.graph.truncate(mark)
            del self._open[depth:]
            raise

    @property
    def current(self) -> Scope:
        """The innermost scope that is being built."""
        return self._open[-1]

    def collection(self, node: Node) -> Collection:
        """Return the collection that a node gives."""
        from tidemill.collections.collection import Collection  # noqa: PLC0415

        return Collection(self, node)


def _named(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name:
        msg = f"{name!r} is not a name of an {what}: expected a non-empty string"
        raise GraphError(msg)
    return name


def same_schema(found: Schema, wanted: Schema, what: str) -> None:
    """Refuse two schemas that differ in more than whether NULL is allowed."""
    if [(f.name, f.dtype) for f in found] != [(f.name, f.dtype) for f in wanted]:
        pairs = [(f.dtype, w.dtype) for f, w in zip(found, wanted, strict=False)]
        decimals = any(w == FLOAT64 and f.is_decimal for f, w in pairs) or any(
            f == FLOAT64 and w.is_decimal for f, w in pairs
        )
        hint = "; in SQL text 0.1 is a decimal, and 0.1e0 a float64" if decimals else ""
        msg = f"{what}: the columns are {found}, expected {wanted}; select, rename or cast them to fit{hint}"
        raise SchemaError(msg)


def either_nullable(a: Schema, b: Schema) -> Schema:
    """Return the schema of rows that come from either of two alike."""
    return Schema(tuple(Field(x.name, x.dtype, x.nullable or y.nullable) for x, y in zip(a, b, strict=True)))


def all_nullable(schema: Schema) -> Schema:
    """Return the schema with NULL allowed everywhere."""
    return Schema(tuple(Field(f.name, f.dtype) for f in schema))
