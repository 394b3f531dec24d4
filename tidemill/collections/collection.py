"""The fluent `Collection`: what a user composes dataflows from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tidemill.collections import joins, loops, relational
from tidemill.collections.binding import Bound, BoundColumn, bind
from tidemill.collections.builder import either_nullable, same_schema
from tidemill.collections.expressions import Expr, as_expr, output_name
from tidemill.collections.schema import Field, Schema, SchemaLike
from tidemill.collections.types import BOOL
from tidemill.dataflow.lattice import as_time
from tidemill.dataflow.nodes import (
    Concat,
    Consolidate,
    Filter,
    FlatMap,
    Inspect,
    Map,
    Negate,
    Node,
    Retime,
    Threshold,
)
from tidemill.errors import GraphError, SchemaError

if TYPE_CHECKING:
    from tidemill.collections.builder import Builder
    from tidemill.collections.grouped import Grouped

__all__ = ["Collection"]

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


class Collection:
    """A multiset of rows that changes: a function from times to multisets. Operators map its changes to changes.

    Made by ``flow.input`` and ``flow.constant`` and by the methods here; never changed by them.
    """

    def __init__(self, builder: Builder, node: Node) -> None:
        self._builder = builder
        self._node = node

    @property
    def builder(self) -> Builder:
        return self._builder

    @property
    def node(self) -> Node:
        """The node of the graph that gives this collection."""
        return self._node

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""
        schema = self.node.schema
        assert isinstance(schema, Schema)
        return schema

    def __repr__(self) -> str:
        return f"Collection{self.schema}"

    # -- linear operators: row by row, at the row's own time, counts kept -------------------------------------------

    def select(self, *columns: Any, **expressions: Any) -> Collection:
        """Return each row as these columns and expressions, in this order.

        A string that names a column is that column, any other string SQL text. A positional expression that is neither
        a column nor has a name is named by its text. Counts of rows that become equal add up.

        >>> import tidemill as tm
        >>> c = tm.Dataflow().input("flights", {"origin": "string", "delay": "int64"})
        >>> c.select("origin", hours="delay / 60", late=tm.col("delay") > 15)
        Collection(origin: string, hours: float64, late: bool)
        """
        named = [_named_expression(c, self.schema) for c in columns]
        named += [(name, as_expr(e, self.schema)) for name, e in expressions.items()]
        if not named:
            msg = "select() without columns: name at least one"
            raise SchemaError(msg)
        return self._map([(name, bind(e, self.schema)) for name, e in named])

    def with_columns(self, *columns: Any, **expressions: Any) -> Collection:
        """Return each row with these columns added, or put in the place of those of the same name."""
        named = [_named_expression(c, self.schema) for c in columns]
        named += [(name, as_expr(e, self.schema)) for name, e in expressions.items()]
        bound: dict[str, Bound] = dict(zip(self.schema.names, self._columns(self.schema.names), strict=True))
        bound |= {name: bind(e, self.schema) for name, e in named}
        return self._map(list(bound.items()))

    def filter(self, *predicates: Any) -> Collection:
        """Return the rows for which all predicates are true (not false, not NULL)."""
        result = self
        for predicate in predicates:
            bound = bind(as_expr(predicate, self.schema), self.schema)
            if bound.dtype != BOOL:
                msg = f"filter: {bound.sql()} is of type {bound.dtype}: expected bool"
                raise SchemaError(msg)
            result = result._add(Filter, predicate=bound)
        return result

    def rename(self, names: Mapping[str, str] | None = None, /, **renamed: str) -> Collection:
        """Return the same rows with columns renamed, given as old name -> new name."""
        changes = {**(names or {}), **renamed}
        for old in changes:
            self.schema.index(old)
        pairs = zip((changes.get(n, n) for n in self.schema.names), self._columns(self.schema.names), strict=True)
        return self._map(list(pairs))

    def drop(self, *names: str) -> Collection:
        """Return the rows without these columns."""
        for name in names:
            self.schema.index(name)
        kept = [n for n in self.schema.names if n not in names]
        if not kept:
            msg = "drop() would leave no column: keep at least one"
            raise SchemaError(msg)
        return self.select(*kept)

    def fill_null(self, value: Any) -> Collection:
        """Return the rows with NULL replaced: by a value where it fits the column, or by a mapping column -> value."""
        return relational.fill_null(self, value)

    def map_rows(self, function: Callable[[Any], Any], schema: SchemaLike) -> Collection:
        """Return each row as what a Python function makes of it.

        The function gets a named tuple and returns a tuple of the declared schema; it must be pure. Checked at run time.
        """
        return self._add(FlatMap, schema=Schema.of(schema), function=_callable(function, "map_rows"), single=True)

    def flat_map(self, function: Callable[[Any], Iterable[Any]], schema: SchemaLike) -> Collection:
        """Return for each row the rows that a Python function makes of it: any number, as tuples of the schema."""
        return self._add(FlatMap, schema=Schema.of(schema), function=_callable(function, "flat_map"))

    def concat(self, *others: Collection) -> Collection:
        """Return the sum of the collections: counts add up. Columns go by name and must agree in type."""
        parts = [self, *(self.builder.own(o, "concat") for o in others)]
        parts = [parts[0], *(p.aligned_to(self.schema, "concat") for p in parts[1:])]
        schema = self.schema
        for part in parts[1:]:
            schema = either_nullable(schema, part.schema)
        scope = self.builder.meeting_scope(p.node for p in parts)
        nodes = tuple(self.builder.enter(p.node, scope) for p in parts)
        return Collection(self.builder, self.builder.graph.add(Concat, scope=scope, inputs=nodes, schema=schema))

    def negate(self) -> Collection:
        """Return the same rows with negated counts."""
        return self._add(Negate)

    def consolidate(self) -> Collection:
        """Return the same collection with at most one update for each row and time."""
        return self._add(Consolidate)

    def inspect(self, function: Callable[[Any, Any, int], Any]) -> Collection:
        """Return the same collection; ``function(row, time, diff)`` sees its updates, in no promised order or number."""
        return self._add(Inspect, function=_callable(function, "inspect"))

    def delay(self, by: int | tuple[int, ...] | Callable[[Any], Any]) -> Collection:
        """Return each update moved forward in user time: by a number of epochs, or to the time a function says.

        The function maps a time to one not before it and must be monotone; with several coordinates times are tuples.
        Iterations are not moved.
        """
        users = len(self.builder.graph.coordinates)
        if callable(by):
            return self._add(Retime, function=by)
        return self._add(Retime, steps=as_time(by, users))

    # -- joins ------------------------------------------------------------------------------------------------------

    def join(
        self,
        other: Collection,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: JoinKind = "inner",
        suffix: str = "_right",
        where: Any = None,
        nulls_equal: bool = False,
    ) -> Collection:
        """Return the pairs of rows whose keys are equal: the left columns, then the right ones without the right keys.

        ``on`` is a column, a list of them, or a mapping left -> right. Clashing names on the right get ``suffix``. ``where``
        adds any further condition on the pair. A NULL key matches nothing unless ``nulls_equal``. Counts multiply, and
        times are joined. ``how`` is inner, left, right, full (those coalesce the keys), semi or anti (left rows that
        have, or have not, a partner with a positive count; kept with their own count).

        Cost: an arrangement of each side, shared; a change costs its matches.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.input("flights", {"origin": "string", "carrier": "string"})
        >>> airlines = flow.input("airlines", {"code": "string", "name": "string"})
        >>> flights.join(airlines, on={"carrier": "code"})
        Collection(origin: string, carrier: string, name: string)
        """
        return joins.join(self, self.builder.own(other, "join"), on, how, suffix, where, nulls_equal)

    def semijoin(self, other: Collection, *, on: Any, nulls_equal: bool = False) -> Collection:
        """Return the rows that have a partner in ``other`` with a positive count, each with its own count."""
        return self.join(other, on=on, how="semi", nulls_equal=nulls_equal)

    def antijoin(self, other: Collection, *, on: Any, nulls_equal: bool = False) -> Collection:
        """Return the rows that have no partner in ``other`` with a positive count, each with its own count."""
        return self.join(other, on=on, how="anti", nulls_equal=nulls_equal)

    def cross_join(self, other: Collection, *, suffix: str = "_right") -> Collection:
        """Return all pairs of rows. Cost: every change meets the whole other side."""
        return joins.join(self, self.builder.own(other, "cross_join"), (), "inner", suffix, None, False)

    def arrange_by(self, *keys: str) -> Collection:
        """Return the same collection, indexed by key; all joins and reduces on that key share the one index."""
        positions = tuple(self.schema.index(k) for k in keys)
        return Collection(self.builder, self.builder.arrange(self.node, positions))

    # -- counting and grouping ----------------------------------------------------------------------------------------

    def distinct(self) -> Collection:
        """Return each row whose count is positive, once. Negative counts give nothing."""
        return self._add(Threshold)

    def threshold(self, function: Callable[[Any, int], int]) -> Collection:
        """Return each row with the count ``function(row, count)``, which must give 0 for a count of 0."""
        return self._add(Threshold, function=_callable(function, "threshold"))

    def count(self, name: str = "count") -> Collection:
        """Return each row, once, with its count in a further column."""
        from tidemill.collections.aggregates import count  # noqa: PLC0415 - aggregates stand beside collections

        return self.group_by(*self.schema.names).agg(**{name: count()})

    def group_by(self, *keys: Any, **expressions: Any) -> Grouped:
        """Return the rows grouped by columns or expressions; continue with ``agg`` or ``reduce``.

        NULL is a key like any other here, and NaN equals NaN.
        """
        from tidemill.collections.grouped import Grouped  # noqa: PLC0415 - grouped collections make collections

        named = [_named_expression(k, self.schema) for k in keys]
        named += [(name, as_expr(e, self.schema)) for name, e in expressions.items()]
        return Grouped(self, named)

    def agg(self, **aggregates: Any) -> Collection:
        """Return one row with the aggregates over all rows; always one, even where there are no rows (SQL's scalar aggregate).

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("n", flow.input("x", {"i": "int64"}).agg(n=tm.count(), most=tm.max("i")))
        >>> with flow.start() as run:
        ...     run.advance()
        ...     list(run.snapshot("n"))
        [(0, None)]
        """
        from tidemill.collections.grouped import Grouped  # noqa: PLC0415

        return Grouped(self, []).agg(**aggregates)

    def except_all(self, other: Collection) -> Collection:
        """Return the rows with counts lessened by those in ``other``, never below nothing (SQL's EXCEPT ALL)."""
        return relational.except_all(self, self.builder.own(other, "except_all"))

    def except_distinct(self, other: Collection) -> Collection:
        """Return once each row that is here and not in ``other`` (SQL's EXCEPT)."""
        return relational.except_distinct(self, self.builder.own(other, "except_distinct"))

    def intersect(self, other: Collection) -> Collection:
        """Return once each row that is both here and in ``other`` (SQL's INTERSECT)."""
        return relational.intersect(self, self.builder.own(other, "intersect"))

    # -- recursion ------------------------------------------------------------------------------------------------------

    def iterate(
        self,
        body: Callable[[Collection], Collection],
        *,
        error_at: Any = ...,
        return_at: int | None = None,
        name: str = "iterate",
    ) -> Collection:
        """Return the limit of ``body`` applied again and again, beginning with this collection.

        Inside the body, collections from outside are entered by themselves. ``error_at=n`` (10,000 unless told otherwise,
        None for no limit) raises where iteration n still changed the result; ``return_at=n`` returns the state after n
        iterations. For a fixed point to be reached, counts must settle: end the body with ``distinct`` or an aggregate.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> edges = flow.constant({"a": "int64", "b": "int64"}, [(1, 2), (2, 3), (3, 1), (4, 5)])
        >>> start = flow.constant({"at": "int64"}, [(1,)])
        >>> reached = start.iterate(
        ...     lambda here: here.join(edges, on={"at": "a"}).select(at="b").concat(start).distinct()
        ... )
        >>> flow.output("reached", reached)
        >>> with flow.start() as run:
        ...     run.advance()
        ...     sorted(run.snapshot("reached"))
        [(1,), (2,), (3,)]
        """
        return loops.iterate(self, body, loops.loop_limits(error_at, return_at), name)

    # -- for the modules beside this one ----------------------------------------------------------------------------

    def aligned_to(self, schema: Schema, what: str) -> Collection:
        """Return the same rows with columns in the order of a schema that must otherwise agree."""
        result = self
        if self.schema.names != schema.names and set(self.schema.names) == set(schema.names):
            result = self.select(*schema.names)
        same_schema(result.schema, schema, what)
        return result

    def _columns(self, names: Iterable[str]) -> list[Bound]:
        return [self._column(self.schema.index(n)) for n in names]

    def _column(self, index: int) -> Bound:
        field = self.schema.fields[index]
        return BoundColumn(index, field.name, field.dtype, field.nullable)

    def _map(self, named: list[tuple[str, Bound]]) -> Collection:
        schema = Schema(tuple(Field(name, b.dtype, b.nullable) for name, b in named))
        return self._add(Map, schema=schema, columns=tuple(b for _, b in named))

    def _add(self, kind: type[Node], *, schema: Schema | None = None, **fields: Any) -> Collection:
        node = self.node
        made = self.builder.graph.add(
            kind, scope=node.scope, inputs=(node,), schema=self.schema if schema is None else schema, **fields
        )
        return Collection(self.builder, made)


def _named_expression(value: Any, schema: Schema) -> tuple[str, Expr]:
    """Return a positional expression with its name: its own, or a column's, or its text."""
    expression = as_expr(value, schema)
    name = output_name(expression)
    if name is not None:
        return name, expression
    return (value if isinstance(value, str) else bind(expression, schema).sql()), expression


def _callable(function: Any, what: str) -> Any:
    if not callable(function):
        msg = f"{what}: {function!r} is not a function"
        raise GraphError(msg)
    return function
