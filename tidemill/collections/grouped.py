"""Grouped collections: aggregates, and a user's own reduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.collections.aggregates import Aggregates, BoundAggregate, UserReduce, bind_aggregate, output_fields
from tidemill.collections.binding import Bound, BoundColumn, bind
from tidemill.collections.collection import Collection
from tidemill.collections.expressions import Expr, col, lit
from tidemill.collections.schema import Field, Schema, SchemaLike
from tidemill.dataflow.nodes import Map, Reduce
from tidemill.errors import GraphError, SchemaError

__all__ = ["Grouped"]


class Grouped:
    """A collection grouped by keys. Made by ``Collection.group_by``."""

    def __init__(self, collection: Collection, keys: list[tuple[str, Expr]]) -> None:
        self._collection = collection
        self._keys = [(name, bind(e, collection.schema)) for name, e in keys]

    def agg(self, **aggregates: Any) -> Collection:
        """Return for each group one row: the keys, then the aggregates, by name.

        A group has a row where its total count is not zero. Aggregates skip NULL; each takes ``.filter(condition)``.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> c = flow.constant({"k": "string", "x": "int64"}, [("a", 1), ("a", 5), ("b", None)])
        >>> flow.output("sums", c.group_by("k").agg(n=tm.count(), total=tm.sum("x"), big=tm.count().filter("x > 2")))
        >>> flow.start().snapshot("sums")
        k  n  total  big
        -  -  -----  ---
        a  2  6      1
        b  1  NULL   0
        """
        if not aggregates:
            msg = "agg() without aggregates: name at least one, as in agg(n=tm.count())"
            raise SchemaError(msg)
        schema = self._collection.schema
        columns: list[tuple[str, Bound]] = list(self._keys)
        bound: list[BoundAggregate] = []
        for name, aggregate in aggregates.items():
            one, argument = bind_aggregate(aggregate, name, schema, len(columns))
            if argument is not None:
                same = [i for i, (_, b) in enumerate(columns) if b == argument]
                if same:  # an argument that a column before it already holds is not carried twice
                    one, _ = bind_aggregate(aggregate, name, schema, same[0])
                else:
                    columns.append((f"{name}#", argument))
            bound.append(one)
        logic = Aggregates(tuple(bound), tuple(aggregates))
        keys = tuple(range(len(self._keys)))
        result = Schema((*_fields(self._keys), *output_fields(logic)))
        return self._reduce(self._projected(columns), keys, logic, result, scalar=not keys)

    def reduce(self, function: Callable[..., Any], schema: SchemaLike) -> Collection:
        """Return for each group the rows a Python function makes of it.

        ``function(key, rows)`` gets the key as a tuple and the group as a list of ``(row without key, count)``, sorted
        by row, no count zero; it returns ``(row, count)`` pairs, rows as tuples of ``schema`` (which has the key only
        if you put it there). It must be pure. It is not called for an empty group. A group with a negative count is an
        error. Cost: a change to a group gives the function the whole group again.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> c = flow.constant({"k": "int64", "v": "int64"}, [(0, 0), (1, 2), (1, 1)])
        >>> least = lambda key, rows: [((*key, rows[0][0][0], len(rows)), 1)]
        >>> flow.output("least", c.group_by("k").reduce(least, {"k": "int64", "least": "int64", "of": "int64"}))
        >>> flow.start().snapshot("least")
        k  least  of
        -  -----  --
        0  0      1
        1  1      2
        """
        if not callable(function):
            msg = f"reduce: {function!r} is not a function"
            raise GraphError(msg)
        whole = self._collection
        columns = [(name, b) for name, b in self._keys]
        plain = all(isinstance(b, BoundColumn) and b.name == name for name, b in columns)
        if plain:
            node, keys = whole.node, tuple(whole.schema.index(name) for name, _ in columns)
        else:
            taken = {name for name, _ in columns}
            rest = [(n, bind(col(n), whole.schema)) for n in whole.schema.names if n not in taken]
            node = self._projected([*columns, *rest])
            keys = tuple(range(len(columns)))
        arranged = whole.builder.arrange(node, keys)
        return self._reduce(arranged, keys, UserReduce(function), Schema.of(schema), scalar=False)

    def _projected(self, columns: list[tuple[str, Bound]]) -> Any:
        """Return a node with just these columns; a scalar count needs none of its input's, so it keeps a constant."""
        if not columns:
            columns = [("#", bind(lit(True), self._collection.schema))]
        node, schema, values = self._collection.node, Schema(_fields(columns)), tuple(b for _, b in columns)
        return self._collection.builder.graph.add(Map, scope=node.scope, inputs=(node,), schema=schema, columns=values)

    def _reduce(self, node: Any, keys: tuple[int, ...], logic: Any, schema: Schema, *, scalar: bool) -> Collection:
        builder = self._collection.builder
        made = builder.graph.add(
            Reduce, scope=node.scope, inputs=(node,), schema=schema, keys=keys, logic=logic, scalar=scalar
        )
        return Collection(builder, made)


def _fields(columns: list[tuple[str, Bound]]) -> tuple[Field, ...]:
    return tuple(Field(name, b.dtype, b.nullable) for name, b in columns)
