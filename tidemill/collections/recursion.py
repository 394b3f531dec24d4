"""Mutual recursion as the user writes it: ``letrec`` blocks of several bindings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ClassVar, Never, Self

from tidemill.collections.builder import Builder
from tidemill.collections.collection import Collection, own
from tidemill.collections.loops import inside, leave, loop_limits
from tidemill.collections.sets import aligned
from tidemill.completion import OfUsers
from tidemill.dataflow.nodes import Feedback, LoopLimits, Node, Variable
from tidemill.errors import GraphError, SchemaError, UnknownNameError, brief, did_you_mean
from tidemill.expressions.aggregate_functions import count
from tidemill.expressions.expr import col
from tidemill.expressions.schema import Schema, SchemaLike, unused_name


def letrec(builder: Builder, name: str = "letrec", *, error_at: Any = ..., return_at: int | None = None) -> LetRec:
    """Return a block of mutually recursive bindings; see ``Dataflow.letrec``."""
    return LetRec(builder, name, loop_limits(error_at, return_at))


class LetRec(OfUsers):
    """A block of mutually recursive bindings. Made by ``flow.letrec(...)`` and used with ``with``; see there.

    ``declare`` gives a handle: the binding's most recent contents at that point of the block, which is the last
    iteration's before its ``define`` and this iteration's after it. ``previous(name)`` is always the last iteration's.
    Outside, ``rec[name]`` is the fixed point.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> edges = flow.constant({"a": "int64", "b": "int64"}, [(1, 2), (2, 3), (3, 4)])
    >>> hop = lambda to: edges.join(to, on={"b": "a"}).select("a", b="b_right")
    >>> with flow.letrec("walks") as rec:
    ...     odd, even = (rec.declare(name, edges.schema) for name in ("odd", "even"))
    ...     _ = rec.define("odd", edges.concat(hop(even)).distinct())
    ...     _ = rec.define("even", hop(odd).distinct())
    >>> flow.output("even", rec["even"])
    >>> list(flow.start().snapshot("even"))
    [(1, 3), (2, 4)]
    """

    _between_layers: ClassVar[frozenset[str]] = frozenset(("builder", "node_of"))

    def __init__(self, builder: Builder, name: str, limits: LoopLimits) -> None:
        self._builder = builder
        self._limits = limits
        self._name = name
        self._variables: dict[str, Variable] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._defined: dict[str, Node] = {}
        self._left: dict[str, Node] = {}
        self._context = ExitStack()

    def __repr__(self) -> str:
        states = {n: "" if n in self._defined else ", not defined yet" for n in self._variables}
        bindings = (f"{n}{v.schema}{states[n]}" for n, v in self._variables.items())
        return f"LetRec({', '.join([repr(self._name), *bindings])})"

    def __enter__(self) -> Self:
        self._context.enter_context(self._builder.attempt())
        self._scope = self._builder.graph.scope("letrec", self._name, self._builder.current)
        self._context.enter_context(self._builder.inside(self._scope))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, error, trace)

    def declare(self, name: str, schema: SchemaLike, *, key: str | Sequence[str] | None = None) -> Collection:
        """Return a handle for a binding of this name and schema, to be defined later in the block.

        A column declared ``not null`` cannot be defined by one that may be NULL. With ``key``, a column or several, the
        binding has at most one row for each key, in every iteration: more are an error of the step
        (``UserFunctionError``) that names the binding and the key. Cost of the check: a count for each key.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> prices = flow.input("prices", {"item": "string", "price": "int64"})
        >>> with flow.letrec("offers") as rec:
        ...     _ = rec.declare("best", prices.schema, key="item")
        ...     _ = rec.define("best", prices)
        >>> flow.output("best", rec["best"])
        >>> with flow.start() as run:
        ...     run.insert("prices", [("tea", 3), ("tea", 4)])
        ...     run.advance()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        tidemill.errors.UserFunctionError: ...binding 'best' of 'offers' has 2 rows of key ('tea',), not one: ...
        """
        if name in self._variables:
            msg = f"binding {name!r} of {self._scope.name!r} is declared twice: declare each once"
            raise GraphError(msg)
        self._variables[name] = self._builder.graph.add(
            Variable, scope=self._scope, name=name, schema=Schema.of(schema)
        )
        if key is not None:
            self._keys[name] = (key,) if isinstance(key, str) else tuple(key)
            self._variables[name].schema.project(self._keys[name])
        return LiveBinding(self, name)

    def define(self, name: str, value: Collection) -> Collection:
        """Define a binding's value in each iteration; return its handle, which from here on means this iteration's."""
        variable = self._variable(name)
        if name in self._defined:
            msg = f"binding {name!r} of {self._scope.name!r} is defined twice: define each once"
            raise GraphError(msg)
        what = f"binding {name!r}"
        rows = aligned(self._builder, own(self._builder, value, what).node, variable.schema, what)
        for declared, found in zip(variable.schema, rows.schema, strict=True):
            if found.nullable and not declared.nullable:
                msg = (
                    f"{what}: column {found.name!r} is declared not null and can be NULL: declare it without "
                    "`not null`, or give it a value with coalesce"
                )
                raise SchemaError(msg)
        if name in self._keys:
            checked = Collection(self._builder, rows)
            key = self._keys[name]
            hint = f": it is declared with key={list(key)!r}: declare it without, or define it by an aggregate, "
            hint += "top_k(1) or distinct"
            rows = one_row_a_key(checked, key, f"{what} of {self._scope.name!r}", hint).node
        inner = self._builder.enter(inside(self._scope, rows, name), self._scope)
        self._builder.add(Feedback, inner, name=name, schema=variable.schema, variable=variable, limits=self._limits)
        self._defined[name] = inner
        return LiveBinding(self, name)

    def previous(self, name: str) -> Collection:
        """Return what a binding held after the last iteration, wherever in the block this stands."""
        return Collection(self._builder, self._variable(name))

    def __getitem__(self, name: str) -> Collection:
        self._variable(name)
        return LiveBinding(self, name)

    def node_of(self, name: str) -> Node:
        """Return what the binding's handle means at this point."""
        if self._builder.graph.is_closed(self._scope) and name in self._defined:
            if name not in self._left:
                self._left[name] = leave(self._builder, self._defined[name], self._limits, name)
            return self._left[name]
        return self._defined.get(name, self._variables[name])

    @property
    def builder(self) -> Builder:
        """The dataflow that the block is part of."""
        return self._builder

    def _variable(self, name: str) -> Variable:
        if name not in self._variables:
            msg = f"{self._scope.name!r} has no binding {name!r}: {did_you_mean(name, self._variables)}"
            raise UnknownNameError(msg)
        return self._variables[name]


class LiveBinding(Collection):
    """The live handle of a letrec binding: which node it stands for depends on where in the block it is used."""

    def __init__(self, block: LetRec, name: str) -> None:
        self._block = block
        self._name = name

    @property
    def builder(self) -> Builder:
        """The dataflow that the block is part of."""
        return self._block.builder

    @property
    def node(self) -> Node:
        """What the binding means here and now."""
        return self._block.node_of(self._name)


def one_row_a_key(rows: Collection, key: Sequence[str], what: str, hint: str = "") -> Collection:
    """Return the rows; where a key has more of them than one, the step fails. ``what`` is who says so.

    Without columns in the key it is all rows of which there may be one. Cost: a count for each key.
    """
    number = unused_name("rows", rows.schema.names)

    def refuse(counted: Any) -> Never:
        *values, found = counted
        of_key = f" of key {brief(tuple(values))}" if values else ""
        msg = f"{what} has {found} rows{of_key}, not one{hint}"
        raise ValueError(msg)

    refuse.__qualname__ = "at most one row"  # as errors name it
    counts = rows.group_by(*key).agg(**{number: count()})
    wrong = counts.filter(~col(number).isin([0, 1]))
    return rows.concat(wrong.flat_map(refuse, rows.schema))
