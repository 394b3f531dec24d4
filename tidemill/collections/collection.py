"""The fluent `Collection` that users compose dataflows from, and `Grouped`, its rows in groups.

Each method wraps a function of nodes; those are in the modules beside this one, by theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Never, overload

from tidemill.collections import aggregates as groups
from tidemill.collections import joins, loops, selection, sets, watermarks
from tidemill.collections.builder import Builder, Monotone, Named
from tidemill.collections.dynamic_filters import HOW, dynamic_filter
from tidemill.collections.hints import missing_attribute, unnamed_aggregates
from tidemill.collections.temporal import temporal_filter
from tidemill.completion import OfUsers
from tidemill.dataflow.lattice import as_time
from tidemill.dataflow.nodes import Consolidate, FlatMap, Inspect, Negate, Node, Reduce, ReduceLogic, Retime, Threshold
from tidemill.errors import GraphError, SchemaError
from tidemill.expressions import aggregate_functions
from tidemill.expressions.binding import bind, bind_predicate
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.expressions.literals import table_called
from tidemill.expressions.schema import Schema, SchemaLike
from tidemill.expressions.sql_text import to_sql

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


def own(builder: Builder, collection: Any, what: str) -> Collection:
    """Return the collection if it is one, and of this dataflow; ``what`` is for the error."""
    if not isinstance(collection, Collection):
        table = table_called(collection)
        hint = "; put its rows in by flow.input(...) or flow.constant(...), and use that" if table else ""
        msg = f"{what}: {table or repr(collection)} is not a collection of this dataflow{hint}"
        raise GraphError(msg)
    if collection.builder is not builder:
        msg = (
            f"{what}: {collection.node.where} is of dataflow {collection.builder.graph.name!r}, not of "
            f"{builder.graph.name!r}: all collections that meet must be of one dataflow"
        )
        raise GraphError(msg)
    return collection


def as_version(given: str | int | None) -> str | None:
    """Return what a user calls a version of a function; `GraphError` where that is no text or number."""
    if given is not None and (not isinstance(given, (str, int)) or isinstance(given, bool)):
        msg = f"version={given!r}: expected a text or a whole number, another one whenever the function gives another"
        raise GraphError(msg)
    return None if given is None else str(given)


class Collection(OfUsers):
    """A multiset of rows that changes: a function from times to multisets. Operators map its changes to changes.

    Made by ``flow.input`` and ``flow.constant`` and by the methods here; never changed by them.
    """

    _between_layers: ClassVar[frozenset[str]] = frozenset(("builder", "filter_by", "map_columns", "node", "reduce_by"))

    def __init__(self, builder: Builder, node: Node) -> None:
        self._builder = builder
        self._node = node

    @property
    def builder(self) -> Builder:
        """The dataflow that it is part of."""
        return self._builder

    @property
    def node(self) -> Node:
        """The node of the graph that gives this collection."""
        return self._node

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""
        return self.node.schema

    def __repr__(self) -> str:
        return f"Collection{self.schema}"

    if not TYPE_CHECKING:  # which know what there is

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_"):  # what others look for, and what is not there yet
                raise AttributeError(name)
            raise missing_attribute(self, name, self.schema.names)

    def _made(self, function: Callable[..., Node], *arguments: Any, **options: Any) -> Collection:
        """Return what a function makes of this collection's node."""
        return Collection(self.builder, function(self.builder, self.node, *arguments, **options))

    def _add(self, kind: type[Node], **fields: Any) -> Collection:
        return Collection(self.builder, self.builder.add(kind, self.node, **fields))

    def _other(self, other: Any, what: str) -> Node:
        return own(self.builder, other, what).node

    def _named(self, positional: Iterable[Any], by_name: Mapping[str, Any]) -> Named:
        return selection.named_expressions(positional, by_name, self.schema)

    def map_columns(self, named: Iterable[tuple[str, Bound]]) -> Collection:
        """Return each row as the values of these bound expressions. For lowerings."""
        return self._made(Builder.map, named)

    def filter_by(self, predicate: Bound) -> Collection:
        """Return the rows for which a bound predicate is true. For lowerings."""
        return self._made(Builder.filter, predicate)

    def reduce_by(
        self, keys: tuple[int, ...], logic: ReduceLogic, schema: Schema, *, scalar: bool = False
    ) -> Collection:
        """Return what a logic makes of the rows that have the same in some columns; with ``scalar``, of all rows."""
        return self._add(Reduce, schema=schema, keys=keys, logic=logic, scalar=scalar)

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
        return self._made(selection.select, self._named(columns, expressions))

    def with_columns(self, *columns: Any, emit: Any = "on_update", **expressions: Any) -> Collection:
        """Return the rows with these columns added, replacing those of the same name.

        Expressions are as for `select`; all of them see the row as it was. Window calls may be in them, and by
        themselves: a row that is there n times is n rows then, and a row with a negative count is an error. Cost:
        most calls what a change reaches, the others the partitions that it touches; `Dataflow.explain` says which.

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
        return self._made(selection.with_columns, self._named(columns, expressions), emit)

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
        return self._made(selection.rename, {**(names or {}), **renamed})

    def drop(self, *names: str) -> Collection:
        """Return the rows without these columns. Counts of rows that become equal add up."""
        return self._made(selection.drop, names)

    def fill_null(self, value: Any) -> Collection:
        """Return the rows with NULL replaced: by one value in all columns of its type, or by a mapping column -> value.

        A number fits all columns of numbers.
        """
        return self._made(selection.fill_null, value)

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

        Columns go by name and come in the order of this collection. Types that differ become the one that loses
        nothing of either (int32 beside int64 or float64, whole numbers beside decimals, NULL beside anything).

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> a = flow.constant({"x": "int64"}, [(1,), (2,)])
        >>> b = flow.constant({"x": "int64"}, [(2,), (3,)])
        >>> flow.output("sum", a.concat(b))
        >>> list(flow.start().snapshot("sum"))
        [(1,), (2,), (2,), (3,)]
        """
        return self._made(sets.concat, [self._other(other, "concat") for other in others])

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

    # -- beside another collection -----------------------------------------------------------------------------------

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
        """Return the pairs of rows with equal keys: the left columns, then the right ones without the right keys.

        ``on`` is a column, a list of them, or a mapping left -> right. Clashing names on the right get ``suffix``.
        ``where`` adds any further condition on the pair; with ``on=[]`` it is all there is. A NULL key matches nothing
        unless ``nulls_equal``. Counts multiply, and times are joined. ``how`` is

        - inner: the pairs alone;
        - left, right, full: also rows of that side, or of both, without a partner, NULL in the other's columns; the
          key columns hold the key of whichever row there is;
        - semi, anti: left rows with, or without, a partner of positive count; each with its own count.

        Cost: an arrangement of each side, shared; a change costs its matches.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"carrier": "string", "dest": "string"}, [("UA", "LAX"), ("XX", "SFO")])
        >>> airlines = flow.constant({"code": "string", "name": "string"}, [("UA", "United"), ("AA", "American")])
        >>> flow.output("named", flights.join(airlines, on={"carrier": "code"}, how="full"))
        >>> flow.start().snapshot("named")
        carrier  dest  name
        -------  ----  --------
        AA       NULL  American
        UA       LAX   United
        XX       SFO   NULL
        """
        right = self._other(other, "join")
        return self._made(joins.join, right, on=on, how=how, suffix=suffix, where=where, nulls_equal=nulls_equal)

    def semijoin(self, other: Collection, *, on: Any, nulls_equal: bool = False) -> Collection:
        """Return the rows with a partner of positive count in ``other``, each with its own count.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"carrier": "string", "dest": "string"}, [("UA", "LAX"), ("XX", "SFO")])
        >>> airlines = flow.constant({"carrier": "string"}, [("UA",), ("UA",)])
        >>> flow.output("known", flights.semijoin(airlines, on="carrier"))
        >>> list(flow.start().snapshot("known"))
        [('UA', 'LAX')]
        """
        return self.join(other, on=on, how="semi", nulls_equal=nulls_equal)

    def antijoin(self, other: Collection, *, on: Any, nulls_equal: bool = False) -> Collection:
        """Return the rows without a partner of positive count in ``other``, each with its own count.

        Unless ``nulls_equal``, a row with NULL in its key has no partner and so is among them (SQL's NOT EXISTS).

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"carrier": "string", "dest": "string"}, [("UA", "LAX"), (None, "SFO")])
        >>> airlines = flow.constant({"carrier": "string"}, [("UA",), (None,)])
        >>> flow.output("unknown", flights.antijoin(airlines, on="carrier"))
        >>> list(flow.start().snapshot("unknown"))
        [(None, 'SFO')]
        """
        return self.join(other, on=on, how="anti", nulls_equal=nulls_equal)

    def cross_join(self, other: Collection, *, suffix: str = "_right") -> Collection:
        """Return all pairs of rows, counts multiplied.

        Cost: every change meets the whole other side; a range of it where a filter like ``x < y`` of plain columns
        follows, on the embedded engine outside of loops.
        """
        right = self._other(other, "cross_join")
        return self._made(joins.inner_join, right, [], suffix, nulls_equal=False)

    @overload
    def dynamic_filter(
        self, column: str, comparison: str, right: Collection, /, *, monotone: Monotone | None = None
    ) -> Collection: ...

    @overload
    def dynamic_filter(
        self, conditions: Sequence[tuple[str, str, str]], right: Collection, /, *, monotone: Monotone | None = None
    ) -> Collection: ...

    def dynamic_filter(self, *condition: Any, monotone: Monotone | None = None) -> Collection:
        """Return the rows with ``column`` as it is to compare with the one value of ``right``: = <> < <= > or >=.

        ``right`` is a collection of at most one row, such as an aggregate without keys; two are an error when the time
        closes. Where it has one column, that is compared with. For several conditions at once, each a tuple of a column
        of these rows, a comparison and a column of ``right``, give a list of them. Nothing passes while there is no
        right row, and a NULL on either side compares with nothing.

        ``monotone`` declares that the right values only ever rise ("increasing") or fall ("decreasing"), as a max over
        what is only inserted does: rows that they have passed are not kept then, and values that go back are an error.
        That is where rows are kept in order, as said below; elsewhere it changes nothing, and goes unchecked.

        Cost: the rows between the old value and the new, where times are of one coordinate, outside of loops, on the
        embedded engine; the rows are kept in order of each column that is compared. Else every change of the right side
        meets all rows.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> bids = flow.input("bids", {"who": "string", "amount": "int64"})
        >>> flow.output("above", bids.dynamic_filter("amount", ">", bids.agg(mean=tm.avg("amount"))))
        >>> with flow.start() as run:
        ...     run.insert("bids", [("ann", 10), ("ben", 20), ("cem", 30)])
        ...     run.advance()
        ...     run.insert("bids", [("dot", 100)])
        ...     run.advance()
        ...     run.changes("above")
        who  amount  time  diff
        ---  ------  ----  ----
        cem  30      0     +1
        cem  30      1     -1
        dot  100     1     +1
        """
        if len(condition) not in (2, 3):
            msg = f"dynamic_filter was given {len(condition)} arguments: expected {HOW}"
            raise SchemaError(msg)
        *said, right = condition
        return self._made(dynamic_filter, said, self._other(right, "dynamic_filter"), monotone)

    def arrange_by(self, *keys: str) -> Collection:
        """Return the same collection, indexed by key; all joins and reduces on that key share the one index."""
        positions = tuple(self.schema.index(k) for k in keys)
        return self._made(Builder.arrange, positions)

    def except_all(self, other: Collection) -> Collection:
        """Return the rows with their counts in ``other`` subtracted, never below 0 (SQL's EXCEPT ALL)."""
        return self._set_operation("except_all", other)

    def except_distinct(self, other: Collection) -> Collection:
        """Return once each row that is here and not in ``other`` (SQL's EXCEPT). NULL equals NULL."""
        return self._set_operation("except_distinct", other)

    def intersect(self, other: Collection) -> Collection:
        """Return once each row that is both here and in ``other`` (SQL's INTERSECT). NULL equals NULL."""
        return self._set_operation("intersect", other)

    def _set_operation(self, operation: str, other: Collection) -> Collection:
        right = self._other(other, operation)
        return Collection(self.builder, sets.set_operation(self.builder, operation, self.node, right))

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
        return Grouped(self, self._named(keys, expressions))

    def agg(self, *unnamed: Any, **aggregates: Any) -> Collection:
        """Return one row with the aggregates over all rows; always one, even where there are no rows.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("n", flow.constant({"i": "int64"}, []).agg(n=tm.count(), most=tm.max("i")))
        >>> list(flow.start().snapshot("n"))
        [(0, None)]
        """
        return Grouped(self, []).agg(*unnamed, **aggregates)

    # -- time ----------------------------------------------------------------------------------------------------------

    def delay(
        self, by: int | tuple[int, ...] | Callable[[Any], Any], *, version: str | int | None = None
    ) -> Collection:
        """Return the collection with updates moved forward in user time: by epochs, or to the time a function gives.

        The function maps a time to one not before it and must be monotone; with several coordinates times are tuples.
        Iterations are not moved. The ``version`` of a function is as for `map_rows`. Cost: updates are held as state
        until their time comes.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> today = flow.input("x", {"i": "int64"})
        >>> flow.output("a week", today.concat(today.delay(7).negate()))
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,)])
        ...     run.advance_to(10)
        ...     list(run.changes("a week"))
        [((1,), 0, 1), ((1,), 7, -1)]
        """
        if callable(by):
            return self._add(Retime, function=by, version=as_version(version))
        return self._add(Retime, steps=as_time(by, len(self.builder.graph.coordinates)))

    def temporal_filter(
        self,
        valid_from: Any = None,
        valid_to: Any = None,
        *,
        clock: Collection | None = None,
        coordinate: str | None = None,
    ) -> Collection:
        """Return the rows while they are valid: at the user times t with ``valid_from <= t < valid_to``.

        Both are columns or expressions, of integers, as times are. A row is not there before its own time, however
        early it is valid; NULL is no bound, so without a ``valid_from`` it is there from its own time on, and without
        a ``valid_to`` for ever. A row with ``valid_to`` before ``valid_from`` fails the step with
        ``ExpressionError``. With several coordinates, ``coordinate`` names the one that is meant; the others are not
        restricted.

        With a ``clock``, rows are compared with what it shows instead: a collection of one column and at most one row,
        that the user changes. Bounds are of a type that compares with it, such as timestamps; without its row nothing
        is valid, and a row that ends before it begins never is. Of a clock that never goes back, a `watermark` or an
        input declared ``monotone="increasing"``, rows that are over are forgotten.

        Cost: what brings and takes away a row is held as state until its time comes, and then is all that is touched.
        With a clock, all rows are kept, in order of their bounds, and a change of the clock looks at those whose bounds
        it passes.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> calls = flow.input("calls", {"who": "string", "start": "int64", "end": "int64"})
        >>> flow.output("on the line", calls.temporal_filter("start", "end").select("who"))
        >>> with flow.start() as run:
        ...     run.insert("calls", [("ann", 1, 3), ("bob", 2, None)])
        ...     run.advance_to(10)
        ...     list(run.changes("on the line"))
        [(('ann',), 1, 1), (('bob',), 2, 1), (('ann',), 3, -1)]

        The last 24 hours, by a clock:

        >>> flow = tm.Dataflow()
        >>> events = flow.input("events", {"what": "string", "ts": "timestamp"})
        >>> clock = flow.input("clock", {"now": "timestamp"}, unique=True)
        >>> recent = events.temporal_filter("ts", "ts + interval 24 hours", clock=clock)
        >>> flow.output("recent", recent.select("what"))
        """
        shown = None if clock is None else self._other(clock, "temporal_filter")
        return self._made(temporal_filter, valid_from, valid_to, shown, coordinate)

    def sort_buffer(self, column: str) -> Collection:
        """Return the rows in the order of a column, each once the watermark has passed its value.

        The collection is an input opened with ``watermark=``, or what select, filter and concat make of such inputs
        without computing the column anew; of several inputs the least watermark counts. A row moves to the first time,
        from its own on, at which its value is less than the watermark. So what comes later never lies before what has
        come, and a row that is deleted before it was released never appears. Rows and deletions that are below the
        watermark of the time before their own are late: dropped, counted (``late`` in `Run.metrics`), and given by
        `late_rows` to those who ask. NULL is less than all values. Cost: the rows that wait are held.

        >>> import tidemill as tm
        >>> from datetime import timedelta
        >>> flow = tm.Dataflow()
        >>> flights = flow.input("flights", {"minute": "int64", "flight": "string"}, watermark=("minute", 10))
        >>> flow.output("sorted", flights.sort_buffer("minute"))
        >>> flow.output("late", flights.late_rows("minute"))
        >>> with flow.start() as run:
        ...     run.insert("flights", [(5, "B6 2"), (3, "AA 1"), (14, "UA 7")])
        ...     run.advance()
        ...     run.insert("flights", [(2, "DL 9"), (17, "B6 4")])
        ...     run.advance()
        ...     list(run.changes("sorted")), list(run.changes("late"))
        ([((3, 'AA 1'), 0, 1), ((5, 'B6 2'), 1, 1)], [((2, 'DL 9'), 1, 1)])
        """
        return self._made(watermarks.sort_buffer, column)

    def late_rows(self, column: str) -> Collection:
        """Return the rows and deletions that `sort_buffer` of the column drops, at the times at which they came."""
        return self._made(watermarks.late_rows, column)

    def on_time(self, column: str) -> Collection:
        """Return the rows as they come, without those that are late by a column's watermark, as `late_rows` gives them.

        What follows from these rows forgets what no row to come can change any more: groups by the column or by what
        rises with it (``date_trunc('hour', ts)``), distinct rows, windows of such partitions, rows of joins whose
        partners would be late. What came out stays. So endless streams run in bounded memory; see docs/on-close.md.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> trips = flow.input("trips", {"minute": "int64", "n": "int64"}, watermark=("minute", 10)).on_time("minute")
        >>> flow.output("by hour", trips.group_by(hour="minute div 60").agg(n=tm.sum("n")))
        >>> with flow.start() as run:
        ...     run.insert("trips", [(50, 2), (65, 3), (131, 1)])
        ...     run.advance()
        ...     run.insert("trips", [(59, 1), (122, 4)])
        ...     run.advance()
        ...     list(run.snapshot("by hour"))
        [(0, 2), (1, 3), (2, 5)]
        """
        return self._made(watermarks.on_time, column)

    def watermark(self, column: str) -> Collection:
        """Return the watermark of a column: one row, with a value that only ever rises; none until it is known.

        So it is a clock by what has come, for `temporal_filter` and `dynamic_filter`, which forget what it has passed.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> trips = flow.input("trips", {"minute": "int64 not null"}, watermark=("minute", 0)).on_time("minute")
        >>> recent = trips.temporal_filter(valid_to="minute + 10", clock=trips.watermark("minute"))
        >>> flow.output("recent", recent)
        >>> with flow.start() as run:
        ...     run.insert("trips", [(50,), (55,), (61,)])
        ...     run.advance()
        ...     list(run.snapshot("recent"))
        [(55,), (61,)]
        """
        return self._made(watermarks.watermark, column)

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

        def of_nodes(here: Node) -> Node:
            return self._other(body(Collection(self.builder, here)), f"the body of iterate {name!r}")

        with self.builder.attempt():
            return self._made(loops.iterate, of_nodes, limits, name)


_AGGREGATES: Final = {
    **{name: f"{name}('x')" for name in ("sum", "min", "max", "avg", "stddev", "variance", "count_distinct")},
    "count": "count()", "size": "count()", "mean": "avg('x')", "nunique": "count_distinct('x')",
    **{name: f"{name}('x', order_by='t')" for name in ("first", "last")},
    "collect_list": "collect_list('x')", "collect_set": "collect_set('x')",
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

    def __init__(self, collection: Collection, keys: Named) -> None:
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
        return self._made(groups.aggregate, aggregates)

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
        return self._made(groups.top_k, k, order_by)

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
        return self._made(groups.reduce, _callable(function, "reduce"), Schema.of(schema), as_version(version))

    def _made(self, function: Callable[..., Node], *arguments: Any) -> Collection:
        rows = self._collection
        return Collection(rows.builder, function(rows.builder, rows.node, self._keys, *arguments))


def _callable(function: Any, what: str) -> Any:
    if not callable(function):
        msg = f"{what}: {function!r} is not a function"
        raise GraphError(msg)
    return function
