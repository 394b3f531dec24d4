"""Grouped collections: aggregates, and a user's own reduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Never

from tidemill.collections.aggregate_expressions import aggregate_expressions
from tidemill.collections.base import as_version
from tidemill.collections.collection import Collection
from tidemill.collections.hints import missing_attribute, unnamed_aggregates
from tidemill.dataflow.added_columns import columns_before_added
from tidemill.dataflow.composites import TopK
from tidemill.dataflow.nodes import Reduce
from tidemill.errors import GraphError, SchemaError
from tidemill.expressions.aggregates import UserReduce
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.expr import Expr, col
from tidemill.expressions.ordering import bind_order
from tidemill.expressions.schema import Schema, SchemaLike
from tidemill.expressions.sql_text import to_sql

__all__ = ["Grouped"]


_AGGREGATES: Final = {
    **{name: f"{name}('x')" for name in ("sum", "min", "max", "avg", "stddev", "variance", "count_distinct")},
    "count": "count()", "size": "count()", "mean": "avg('x')", "nunique": "count_distinct('x')",
    **{name: f"{name}('x', order_by='t')" for name in ("first", "last")},
    "collect_list": "list('x')", "collect_set": "list('x')",
}  # fmt: skip
"""Methods of groups elsewhere, and the aggregates that they are here."""


class Grouped:
    """The rows of a collection in groups that have the same keys. Made by ``Collection.group_by``, to be continued.

    ``agg`` computes aggregates of each group, ``top_k`` gives its first rows in an order, ``reduce`` what a Python
    function makes of it.

    >>> import tidemill as tm
    >>> flights = tm.Dataflow().input("flights", {"origin": "string", "delay": "int64"})
    >>> flights.group_by("origin", late="delay > 15")
    Grouped(Collection(origin: string, delay: int64) by origin, delay > 15 AS late)
    """

    def __init__(self, collection: Collection, keys: list[tuple[str, Expr]]) -> None:
        self._collection = collection
        self._keys = [(name, bind(e, collection.schema)) for name, e in keys]

    def __repr__(self) -> str:
        keys = (
            name if isinstance(b, BoundColumn) and b.name == name else f"{to_sql(b)} AS {name}"
            for name, b in self._keys
        )
        return f"Grouped({self._collection!r} by {', '.join(keys) or 'nothing'})"

    if not TYPE_CHECKING:  # which know what there is

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_"):  # what others look for, and what is not there yet
                raise AttributeError(name)
            if name in _AGGREGATES:
                msg = f"Grouped has no {name!r}: here it is agg(n=tm.{_AGGREGATES[name]})"
                raise AttributeError(msg)
            raise missing_attribute(self, name)

    def agg(self, *unnamed: Any, **aggregates: Any) -> Collection:
        """Return for each group one row: the keys, then the aggregates, by name.

        Aggregates may stand in expressions, with keys and with each other, and in SQL text: ``"sum(x) / count(*)"`` is
        ``tm.sum("x") / tm.count()``. A group has a row where its total count is not zero. Aggregates skip
        NULL, but for ``tm.first``, ``tm.last`` and ``tm.list``, to which it is a value; each takes
        ``.filter(condition)``, in SQL ``FILTER (WHERE condition)``.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> c = flow.constant({"k": "string", "x": "int64"}, [("a", 1), ("a", 5), ("b", None)])
        >>> sums = c.group_by("k").agg(n=tm.count(), mean=tm.sum("x") / tm.count(), big="count(*) filter (where x > 2)")
        >>> flow.output("sums", sums)
        >>> flow.start().snapshot("sums")
        k  n  mean  big
        -  -  ----  ---
        a  2  3.0   1
        b  1  NULL  0
        """
        if unnamed:
            raise SchemaError(unnamed_aggregates(unnamed))
        if not aggregates:
            msg = "agg() without aggregates: name at least one, as in agg(n=tm.count())"
            raise SchemaError(msg)
        return aggregate_expressions(self._collection, self._keys, aggregates)

    def top_k(self, k: int, *, order_by: Any) -> Collection:
        """Return the first k rows of each group, as whole rows; a row with count n is n rows.

        ``order_by`` is a column, an expression, ``tm.asc(...)`` or ``tm.desc(...)``, SQL text such as
        ``"x desc nulls first"``, or a list of them. Ties are broken by a fixed hash of what the row had before columns
        were added to it, then by the row, so the result does not depend on the order of arrival. A row with a negative
        count is an error. Cost: at top level a change costs the logarithm of the group's size, and k.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> c = flow.constant({"k": "string", "x": "int64"}, [("a", 3), ("a", 1), ("a", 2), ("b", None)])
        >>> flow.output("least", c.group_by("k").top_k(2, order_by="x"))
        >>> flow.start().snapshot("least")
        k  x
        -  ----
        a  1
        a  2
        b  NULL
        """
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            msg = f"top_k: k={k!r}: expected a number of rows, at least 1"
            raise SchemaError(msg)
        whole = self._collection
        made = whole.builder.graph.add(
            TopK,
            scope=whole.node.scope,
            inputs=(whole.node,),
            schema=whole.schema,
            keys=tuple(bound for _, bound in self._keys),
            order=bind_order(order_by, whole.schema),
            count=k,
            hashed=columns_before_added(whole.node),
        )
        return whole.builder.collection(made)

    def reduce(
        self, function: Callable[..., Any], schema: SchemaLike, *, version: str | int | None = None
    ) -> Collection:
        """Return the rows that a Python function makes of each group.

        ``function(key, rows)`` gets the key as a tuple and the group as a list of ``(row without key, count)``, sorted
        by row, no count zero; it returns ``(row, count)`` pairs, rows as tuples of ``schema`` (which has the key only
        if you put it there). It is not called for an empty group. A group with a negative count is an error. Cost: a
        change to a group calls the function with the whole group again.

        It must be deterministic, and depend on the key and the rows alone: a run that goes on from a folder calls it
        again for what it was called for before, and may only find the same. ``version`` is as for `map_rows`.

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
        names = [name for name, _ in self._keys]
        if not all(isinstance(b, BoundColumn) and b.name == name for name, b in self._keys):
            rest = [(n, bind(col(n), whole.schema)) for n in whole.schema.names if n not in names]
            whole = whole.map_columns([*self._keys, *rest])
        keys = tuple(whole.schema.index(name) for name in names)
        arranged = whole.builder.arrange(whole.node, keys)
        made = whole.builder.graph.add(
            Reduce,
            scope=arranged.scope,
            inputs=(arranged,),
            schema=Schema.of(schema),
            keys=keys,
            logic=UserReduce(function, as_version(version)),
        )
        return whole.builder.collection(made)
