"""The fluent `Collection`: what a user composes dataflows from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Never

from tidemill.collections import loops
from tidemill.collections import set_operations as relational
from tidemill.collections.base import as_version
from tidemill.collections.builder import either_nullable, same_schema
from tidemill.collections.hints import missing_attribute
from tidemill.collections.join_methods import JoinMethods
from tidemill.collections.on_close import with_calls_on_close
from tidemill.collections.sessions import with_sessions
from tidemill.collections.time_methods import TimeMethods
from tidemill.collections.windows import with_window_calls
from tidemill.dataflow.nodes import (
    Concat,
    Consolidate,
    FlatMap,
    Inspect,
    Negate,
    Threshold,
)
from tidemill.errors import GraphError, SchemaError, did_you_mean
from tidemill.expressions import aggregate_functions
from tidemill.expressions.binding import bind, bind_predicate
from tidemill.expressions.bound import Bound
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr
from tidemill.expressions.schema import Schema, SchemaLike
from tidemill.expressions.sql_text import as_expr, to_sql
from tidemill.expressions.structure import output_name
from tidemill.expressions.windows.calls import calls_in
from tidemill.expressions.windows.sessions import sessions_in

if TYPE_CHECKING:
    from tidemill.collections.grouped import Grouped

__all__ = ["Collection"]


class Collection(JoinMethods, TimeMethods):
    """A multiset of rows that changes: a function from times to multisets. Operators map its changes to changes.

    Made by ``flow.input`` and ``flow.constant`` and by the methods here; never changed by them.
    """

    if not TYPE_CHECKING:  # which know what there is

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_"):  # what others look for, and what is not there yet
                raise AttributeError(name)
            raise missing_attribute(self, name, self.schema.names)

    # -- linear operators: row by row, at the row's own time, counts kept -------------------------------------------

    def select(self, *columns: Any, **expressions: Any) -> Collection:
        """Return the rows with just these columns and expressions, in this order.

        A string that names a column is that column; any other string is SQL text. A positional expression without a
        name is named after its text. Counts of rows that become equal add up. A value that cannot be computed
        (overflow, division by zero) fails the step with ``ExpressionError``.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"origin": "string", "delay": "int64"}, [("JFK", 90), ("LGA", None)])
        >>> flow.output("late", flights.select("origin", hours="delay / 60", late=tm.col("delay") > 15))
        >>> flow.start().snapshot("late")
        origin  hours  late
        ------  -----  ----
        JFK     1.5    True
        LGA     NULL   NULL
        """
        named = [_named_expression(c, self.schema) for c in columns]
        named += [(name, as_expr(e, self.schema)) for name, e in expressions.items()]
        if not named:
            msg = "select() without columns: name at least one"
            raise SchemaError(msg)
        rows, named = self._with_window_calls(named)
        return rows.map_columns([(name, bind(e, rows.schema)) for name, e in named])

    def with_columns(self, *columns: Any, emit: Any = "on_update", **expressions: Any) -> Collection:
        """Return the rows with these columns added, replacing those of the same name.

        Expressions are as for `select`; all of them see the row as it was. Window calls may be in them, and by
        themselves: a row that is there n times is n rows then, and a row with a negative count is an error. Cost: a
        change computes anew the partitions that it touches.

        With ``emit="on_close"`` rows with window calls come once and for all, each at the first time at which the row
        and the last row of its frames have been released by a watermark (see `sort_buffer`), which all windows are to
        be ordered by; and what no frame to come looks at is forgotten. See docs/on-close.md.

        >>> import tidemill as tm
        >>> c = tm.Dataflow().input("flights", {"origin": "string", "delay": "int64"})
        >>> c.with_columns(delay="delay / 60", late="delay > 15")
        Collection(origin: string, delay: float64, late: bool)
        >>> by_delay = tm.Window.partition_by("origin").order_by("delay")
        >>> c.with_columns(place=tm.rank().over(by_delay), more=tm.col("delay") - tm.lag("delay").over(by_delay))
        Collection(origin: string, delay: int64, place: int64 not null, more: int64)
        """
        named = [_named_expression(c, self.schema) for c in columns]
        named += [(name, as_expr(e, self.schema)) for name, e in expressions.items()]
        if emit not in ("on_update", "on_close"):
            known = did_you_mean(str(emit), ["on_update", "on_close"])
            msg = f"with_columns(emit={emit!r}): {known}; a column called emit is added by select, or renamed"
            raise SchemaError(msg)
        rows, named = self._with_window_calls(named) if emit == "on_update" else with_calls_on_close(self, named)
        bound: dict[str, Bound] = dict(zip(self.schema.names, self._columns(self.schema.names), strict=True))
        bound |= {name: bind(e, rows.schema) for name, e in named}
        return rows.map_columns(list(bound.items()))

    def filter(self, *predicates: Any) -> Collection:
        """Return the rows for which all predicates are true (not false, not NULL), with their counts.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"origin": "string", "delay": "int64"}, [("JFK", 90), ("JFK", 5), ("LGA", None)])
        >>> flow.output("late", flights.filter("delay > 15", tm.col("origin") == "JFK"))
        >>> flow.start().snapshot("late")
        origin  delay
        ------  -----
        JFK     90
        """
        result = self
        for predicate in predicates:
            result = result.filter_by(bind_predicate(predicate, self.schema, "filter"))
        return result

    def rename(self, names: Mapping[str, str] | None = None, /, **renamed: str) -> Collection:
        """Return the same rows with columns renamed, given as old name -> new name.

        >>> import tidemill as tm
        >>> tm.Dataflow().input("flights", {"origin": "string", "delay": "int64"}).rename(delay="minutes")
        Collection(origin: string, minutes: int64)
        """
        changes = {**(names or {}), **renamed}
        for old in changes:
            self.schema.index(old)
        pairs = zip((changes.get(n, n) for n in self.schema.names), self._columns(self.schema.names), strict=True)
        return self.map_columns(list(pairs))

    def drop(self, *names: str) -> Collection:
        """Return the rows without these columns. Counts of rows that become equal add up."""
        for name in names:
            self.schema.index(name)
        kept = [n for n in self.schema.names if n not in names]
        if not kept:
            msg = "drop() would leave no column: keep at least one"
            raise SchemaError(msg)
        return self.select(*kept)

    def fill_null(self, value: Any) -> Collection:
        """Return the rows with NULL replaced: by one value in all columns of its type, or by a mapping column -> value.

        A number fits all columns of numbers.
        """
        return relational.fill_null(self, value)

    def map_rows(
        self, function: Callable[[Any], Any], schema: SchemaLike, *, version: str | int | None = None
    ) -> Collection:
        """Return one row for each row: what a Python function makes of it.

        The function gets a named tuple and returns a tuple of the declared schema; what has names, as a dict or the
        named tuple itself, goes by these. If it raises, or returns what does not fit, the step fails with
        ``UserFunctionError``. Cost: a Python call for each update; `select` computes whole columns.

        It must be deterministic, and give the same for the same row at any time, in any process: to take a row away it
        is called again. If it gives something else then, what it gave before stays for ever, and what it gives now has
        the count -1. Runs warn of it where they can be sure: it is called twice for some of the rows that go; and an
        output is looked through for negative counts that have no other reason, as behind inputs with a key. So no
        clock, no chance, no counter, and nothing that changes outside of the row: join what changes as a collection.

        Nor may the function be another when a run goes on from a folder or a saved state. That is looked at: its code,
        constants, defaults, the variables around it, the globals it refers to, and the functions and classes of your
        own modules that it uses. Where a ``version`` is given there and here, that alone decides: for functions of what
        cannot be compared, such as a loaded model, and for those that were rewritten and give the same.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"origin": "string", "delay": "int64"}, [("JFK", 90)])
        >>> words = flights.map_rows(lambda f: (f"{f.origin}, {f.delay} minutes late",), {"text": "string"})
        >>> flow.output("words", words)
        >>> list(flow.start().snapshot("words"))
        [('JFK, 90 minutes late',)]
        """
        called = as_version(version)
        checked = _callable(function, "map_rows")
        return self._add(FlatMap, schema=Schema.of(schema), function=checked, single=True, version=called)

    def flat_map(
        self, function: Callable[[Any], Iterable[Any]], schema: SchemaLike, *, version: str | int | None = None
    ) -> Collection:
        """Return the rows that a Python function makes of each row: any number, as tuples of the schema.

        Otherwise as `map_rows`, so deterministic too; the function may be a generator.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> lines = flow.constant({"line": "string"}, [("to be or",), ("not to be",)])
        >>> words = lines.flat_map(lambda row: [(word,) for word in row.line.split()], {"word": "string"})
        >>> flow.output("words", words.count())
        >>> list(flow.start().snapshot("words"))
        [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
        """
        called = as_version(version)
        return self._add(FlatMap, schema=Schema.of(schema), function=_callable(function, "flat_map"), version=called)

    def concat(self, *others: Collection) -> Collection:
        """Return the sum of the collections: counts add up (SQL's UNION ALL).

        Columns go by name and must agree in type; they come in the order of this collection.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> a = flow.constant({"x": "int64"}, [(1,), (2,)])
        >>> b = flow.constant({"x": "int64"}, [(2,), (3,)])
        >>> flow.output("sum", a.concat(b))
        >>> list(flow.start().snapshot("sum"))
        [(1,), (2,), (2,), (3,)]
        """
        parts = [self, *(self.builder.own(o, "concat") for o in others)]
        parts = [parts[0], *(p.aligned_to(self.schema, "concat") for p in parts[1:])]
        schema = self.schema
        for part in parts[1:]:
            schema = either_nullable(schema, part.schema)
        scope = self.builder.meeting_scope(p.node for p in parts)
        nodes = tuple(self.builder.enter(p.node, scope) for p in parts)
        return Collection(self.builder, self.builder.graph.add(Concat, scope=scope, inputs=nodes, schema=schema))

    def negate(self) -> Collection:
        """Return the same rows with negated counts; ``a.concat(b.negate())`` is the difference, which may go below 0.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("owed", flow.constant({"x": "int64"}, [(1,), (2,), (2,)]).negate())
        >>> flow.start().snapshot("owed").counts()
        {(1,): -1, (2,): -2}
        """
        return self._add(Negate)

    def consolidate(self) -> Collection:
        """Return the same collection with at most one update for each row and time.

        Outputs are consolidated anyway; this is for functions that see single updates, as in `inspect`.
        """
        return self._add(Consolidate)

    def inspect(self, function: Callable[[Any, Any, int], Any]) -> Collection:
        """Return the same collection; ``function(row, time, diff)`` gets its updates, in any order and number.

        Inside loops, times have one more coordinate per loop: its iteration. What the function returns is of no matter.
        It may see an update more than once, updates of a step that is not taken in the end, and those of steps that
        a run repeats as it goes on from a folder: for looking, not for effects elsewhere (`Run.changes`,
        `Run.to_changelog`).

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> x = flow.input("x", {"i": "int64"})
        >>> flow.output("x", x.inspect(lambda row, time, diff: print(row, "at", time, "by", diff)))
        >>> with flow.start() as run:
        ...     run.insert("x", [(7,)])
        ...     run.advance()
        (7,) at 0 by 1
        """
        return self._add(Inspect, function=_callable(function, "inspect"))

    # -- counting and grouping ----------------------------------------------------------------------------------------

    def distinct(self) -> Collection:
        """Return each row with a positive count, once. Negative counts give nothing.

        Cost: the counts of all rows are kept.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("once", flow.constant({"x": "int64"}, [(1,), (2,), (2,)]).distinct())
        >>> list(flow.start().snapshot("once"))
        [(1,), (2,)]
        """
        return self._add(Threshold)

    def threshold(self, function: Callable[[Any, int], int], *, version: str | int | None = None) -> Collection:
        """Return each row with the count ``function(row, count)``, which must give 0 for a count of 0.

        The row is a tuple, the count may be negative; the function must be pure. ``version`` is as for `map_rows`.
        Cost: the counts of all rows are kept.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> x = flow.constant({"x": "int64"}, [(1,), (2,), (2,), (2,)])
        >>> flow.output("twice", x.threshold(lambda row, count: int(count >= 2)))
        >>> list(flow.start().snapshot("twice"))
        [(2,)]
        """
        return self._add(Threshold, function=_callable(function, "threshold"), version=as_version(version))

    def count(self, name: str = "count") -> Collection:
        """Return each row once, with its count in one more column.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("counts", flow.constant({"x": "int64"}, [(1,), (2,), (2,)]).count())
        >>> list(flow.start().snapshot("counts"))
        [(1, 1), (2, 2)]
        """
        return self.group_by(*self.schema.names).agg(**{name: aggregate_functions.count()})

    def group_by(self, *keys: Any, **expressions: Any) -> Grouped:
        """Return the rows grouped by columns or expressions; continue with ``agg`` or ``reduce``.

        NULL is a key like any other here, and NaN equals NaN.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"origin": "string", "delay": "int64"}, [("JFK", 10), ("JFK", 95), ("LGA", 70)])
        >>> flow.output("delays", flights.group_by("origin", late="delay > 60").agg(n=tm.count()))
        >>> list(flow.start().snapshot("delays"))
        [('JFK', False, 1), ('JFK', True, 1), ('LGA', True, 1)]
        """
        from tidemill.collections.grouped import Grouped  # noqa: PLC0415 - grouped collections make collections

        named = [_named_expression(k, self.schema) for k in keys]
        named += [(name, as_expr(e, self.schema)) for name, e in expressions.items()]
        return Grouped(self, named)

    def agg(self, *unnamed: Any, **aggregates: Any) -> Collection:
        """Return one row with the aggregates over all rows; always one, even where there are no rows.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("n", flow.constant({"i": "int64"}, []).agg(n=tm.count(), most=tm.max("i")))
        >>> list(flow.start().snapshot("n"))
        [(0, None)]
        """
        from tidemill.collections.grouped import Grouped  # noqa: PLC0415

        return Grouped(self, []).agg(*unnamed, **aggregates)

    # -- recursion --------------------------------------------------------------------------------------------------

    def iterate(
        self,
        body: Callable[[Collection], Collection],
        *,
        error_at: Any = ...,
        return_at: int | None = None,
        name: str = "iterate",
    ) -> Collection:
        """Return the fixed point of ``body``, applied repeatedly, starting from this collection.

        Collections from outside can be used inside the body as they are: they enter the loop by themselves.
        ``error_at=n`` (default 10,000, None for no limit) raises ``IterationLimitError`` where iteration
        n still changed the result; ``return_at=n`` returns the state after n iterations. For a fixed point to be
        reached, counts must settle: end the body with ``distinct`` or an aggregate. Cost: a change costs what it
        changes, summed over the iterations.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> edges = flow.constant({"a": "int64", "b": "int64"}, [(1, 2), (2, 3), (3, 1), (4, 5)])
        >>> start = flow.constant({"at": "int64"}, [(1,)])
        >>> reached = start.iterate(
        ...     lambda here: here.join(edges, on={"at": "a"}).select(at="b").concat(start).distinct()
        ... )
        >>> flow.output("reached", reached)
        >>> list(flow.start().snapshot("reached"))
        [(1,), (2,), (3,)]
        """
        limits = loops.loop_limits(error_at, return_at)
        with self.builder.attempt():
            return loops.iterate(self, body, limits, name)

    # -- for the modules beside this one, and lowerings -------------------------------------------------------------

    def aligned_to(self, schema: Schema, what: str) -> Collection:
        """Return the same rows with columns in the order of a schema that must otherwise agree."""
        result = self
        if self.schema.names != schema.names and set(self.schema.names) == set(schema.names):
            result = self.select(*schema.names)
        same_schema(result.schema, schema, what)
        return result

    def _with_window_calls(self, named: list[tuple[str, Expr]]) -> tuple[Collection, list[tuple[str, Expr]]]:
        node, named = with_window_calls(self.builder.graph, self.node, named)
        return with_sessions(Collection(self.builder, node), named)


def _named_expression(value: Any, schema: Schema) -> tuple[str, Expr]:
    """Return a positional expression with its name: its own, or a column's, or its text."""
    expression = as_expr(value, schema)
    name = output_name(expression)
    if name is not None:
        return name, expression
    if calls_in(expression) or sessions_in(expression):
        return display(expression), expression
    return (value if isinstance(value, str) else to_sql(bind(expression, schema))), expression


def _callable(function: Any, what: str) -> Any:
    if not callable(function):
        msg = f"{what}: {function!r} is not a function"
        raise GraphError(msg)
    return function
