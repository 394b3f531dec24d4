"""Unnesting of arbitrary queries, after Neumann and Kemper: a subquery for all values of outer columns at once.

A plan that reads columns of queries around it is pushed down to where it does, with columns that hold these values:
those of a *domain*, the different values that there are outside, or what is equal to them anyway, where that is so.
Also then the domain is joined with what the subquery joins, if it is small: it is asked for less than there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs

from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.expr import Call, Column, Expr, lit
from tidemill.expressions.schema import Field
from tidemill.expressions.windows.calls import WindowCall
from tidemill.sql.plan import (
    AtMostOne,
    Distinct,
    Filter,
    Get,
    Group,
    Join,
    Named,
    Node,
    Project,
    SetOp,
    Temporal,
    TopK,
    Unnest,
    Window,
    free,
    nodes,
    read,
)
from tidemill.sql.rewrite import gathered, picks
from tidemill.sql.scopes import Names
from tidemill.sql.trees import columns_of, mapped, renamed

At: TypeAlias = "dict[str, Expr]"
"""The columns that hold the values of outer columns, by these."""

COUNTS: Final = ("count", "count_distinct")


class NeedsDomainError(Exception):
    """Equalities do not say what the values of the outer columns are."""


@attrs.frozen(eq=False)
class Unnested:
    """A plan for all values of the outer columns that it read."""

    plan: Node
    at: At
    derived: bool
    """Whether the values are those that something is equal to, none of them NULL, and not those there are outside."""

    @property
    def conditions(self) -> list[Expr]:
        """What is to hold between the outer columns and the plan's."""
        return [Call("eq" if self.derived else "eq_null_safe", (Column(f), c)) for f, c in self.at.items()]


def unnested(names: Names, outer: Node, plan: Node, *, derive: bool = True) -> Unnested:
    """Return a plan for all values of the columns of ``outer``, and of queries around, that it reads.

    Without ``derive``, and where the plan may fail for some row, only for values that there are.
    """
    asked = tuple(sorted(free(plan)))
    if derive and not can_fail(names, plan):
        try:
            return Unnested(*_Push(names, asked, None, plan, _few(names, outer, asked)).push(plan), derived=True)
        except NeedsDomainError:
            pass
    named = tuple((names.again(names.fields[f]), Column(f)) for f in asked)
    domain = Distinct(input=Project(input=outer, named=named))
    return Unnested(*_Push(names, asked, domain, plan).push(plan), derived=False)


def _few(names: Names, outer: Node, asked: tuple[str, ...]) -> Node | None:
    """Return the values that outer columns can have, each once, if they are few, as far as one can tell.

    That is what a table has where a value of it is picked, of the columns or of what they have to be equal to.
    """
    relations, conditions = gathered(outer)
    equal: dict[str, set[str]] = {f: {f} for f in asked}
    for condition in conditions:
        if isinstance(condition, Call) and condition.function == "eq":
            a, b = (c.name if isinstance(c, Column) else "" for c in condition.args)
            if a and b and names.fields[a].dtype == names.fields[b].dtype:
                for one, other in ((a, b), (b, a)):
                    equal.get(one, set()).add(other)
    for relation in relations:
        own = {f.name for f in relation.columns}
        alone = [c for c in conditions if (r := columns_of(c)) and r <= own and not names.can_fail(c)]
        found = [sorted(equal[f] & own) for f in asked]
        if isinstance(relation, Get) and all(found) and any(map(picks, alone)):
            rows = Filter(input=relation, conditions=tuple(alone))
            named = tuple((names.again(names.fields[one]), Column(one)) for one, *_ in found)
            return Distinct(input=Project(input=rows, named=named))
    return None


def can_fail(names: Names, plan: Node) -> bool:
    """Return whether some row may be an error in a plan."""
    for node in nodes(plan):
        if isinstance(node, (AtMostOne, Unnest)):  # a table function may be asked for too much
            return True
        for e in node.expressions:
            parts = [p for p in (e.argument, e.condition) if isinstance(p, Expr)] if isinstance(e, Aggregate) else [e]
            if (isinstance(e, Aggregate) or not _has_calls(e)) and any(names.can_fail(p) for p in parts):
                return True
    return False


def _has_calls(expression: Expr) -> bool:
    found = []
    mapped(expression, lambda e: found.append(e) if isinstance(e, WindowCall) else None)
    return bool(found)


class _Push:
    """One way down through a plan."""

    def __init__(
        self, names: Names, asked: tuple[str, ...], domain: Node | None, root: Node, few: Node | None = None
    ) -> None:
        self.names = names
        self.asked = asked
        self.domain = domain
        self.few = few
        self.known: dict[int, tuple[Node, At]] = {}
        self.open: dict[int, set[str]] = {}
        for node in nodes(root):
            below = {f.name for i in node.inputs for f in i.columns}
            inner = set().union(*(self.open.get(id(i), set()) for i in node.inputs)) if node.inputs else set()
            self.open[id(node)] = inner | (read(node.expressions) - below)

    def is_open(self, node: Node) -> bool:
        """Return whether a node reads outer columns."""
        return not self.open[id(node)].isdisjoint(self.asked)

    def push(self, node: Node) -> tuple[Node, At]:
        """Return the node with columns for the outer columns' values."""
        if id(node) not in self.known:
            rule = _RULES.get(type(node)) if self.is_open(node) else None
            self.known[id(node)] = self.beside_domain(node) if rule is None else rule(self, node)
        return self.known[id(node)]

    def beside_domain(self, node: Node) -> tuple[Node, At]:
        """Return the rows of a node for each of the domain."""
        domain, at = self.fresh_domain()
        return Join(left=domain, right=node, how="inner", conditions=()), at

    def fresh_domain(self) -> tuple[Node, At]:
        if self.domain is None:
            raise NeedsDomainError
        named = tuple((self.names.again(f), Column(f.name)) for f in self.domain.columns)
        fresh = Project(input=self.domain, named=named)
        return fresh, {o: Column(f.name) for o, f in zip(self.asked, fresh.columns, strict=True)}

    def fields(self, at: At) -> tuple[Field, ...]:
        return tuple(self.names.fields[c.name] for c in at.values() if isinstance(c, Column))

    def same(self, a: At, b: At) -> list[Expr]:
        return [Call("eq_null_safe", (a[f], b[f])) for f in self.asked]

    def filter(self, node: Filter) -> tuple[Node, At]:
        if self.domain is None and not self.is_open(node.input):
            return self.derived(node)
        return self.alike(node)

    def derived(self, node: Filter) -> tuple[Node, At]:
        """Return the rows with what the outer columns are to be equal to."""
        own = {f.name for f in node.input.columns}
        equal: dict[str, Expr] = {}
        rest: list[Expr] = []
        for condition in node.conditions:
            column, other = self.equality(condition, own)
            if column is None or column in equal or other is None:
                rest.append(condition)
            else:
                equal[column] = other
        if set(equal) != set(self.asked):
            raise NeedsDomainError
        named = [(self.names.again(self.names.fields[f], nullable=False), equal[f]) for f in self.asked]
        at: At = {f: Column(field.name) for f, (field, _) in zip(self.asked, named, strict=True)}
        passed = [(f, Column(f.name)) for f in node.input.columns]
        alone = [c for c in rest if read([c]).isdisjoint(self.asked)]  # by which the rows' own joins are ordered
        own_rows = self.of_few(node.input, equal)
        if alone:
            own_rows = Filter(input=own_rows, conditions=tuple(alone))
        rows = Project(input=own_rows, named=(*passed, *named))
        maybe = [at[f] for f in self.asked if self.names.typed(equal[f], None)[1].nullable]
        known = [Call("not", (Call("is_null", (c,)),)) for c in maybe]
        conditions = (*known, *(renamed(c, at) for c in rest if all(c is not one for one in alone)))
        return Filter(input=rows, conditions=conditions, columns=(*node.columns, *(f for f, _ in named))), at

    def of_few(self, rows: Node, equal: dict[str, Expr]) -> Node:
        """Return the rows for values that there can be, if these are few."""
        if self.few is None:
            return rows
        few = Project(input=self.few, named=tuple((self.names.again(f), Column(f.name)) for f in self.few.columns))
        pairs = zip(few.columns, (equal[f] for f in self.asked), strict=True)
        conditions = tuple(Call("eq", (Column(f.name), e)) for f, e in pairs)
        return Join(left=few, right=rows, how="inner", conditions=conditions)

    def equality(self, condition: Expr, own: set[str]) -> tuple[str | None, Expr | None]:
        """Return the outer column that a condition says is equal to something of the rows' own, and that."""
        if isinstance(condition, Call) and condition.function == "eq":
            for a, b in (condition.args, condition.args[::-1]):
                if isinstance(a, Column) and a.name in self.asked and (cols := columns_of(b)) and cols <= own:
                    same = self.names.typed(b, None)[1].dtype == self.names.fields[a.name].dtype
                    if same and not self.names.can_fail(b):
                        return a.name, b
        return None, None

    def project(self, node: Project) -> tuple[Node, At]:
        below, at = self.push(node.input)
        named = [(f, renamed(e, at)) for f, e in node.named]
        passed = [(self.names.again(f), Column(f.name)) for f in self.fields(at)]  # another may read what is below, too
        made = Project(input=below, named=(*named, *passed))
        return made, {o: Column(f.name) for o, (f, _) in zip(at, passed, strict=True)}

    def alike(self, node: Any) -> tuple[Node, At]:
        """Return the same of rows that have the outer columns' values, which are keys besides where there are keys."""
        below, at = self.push(node.input)
        made = node.with_expressions(lambda e: renamed(e, at))
        keys = {"keys": (*made.keys, *at.values())} if isinstance(made, (TopK, AtMostOne)) else {}
        return attrs.evolve(made, input=below, columns=(*node.columns, *self.fields(at)), **keys), at

    def join(self, node: Join) -> tuple[Node, At]:
        left, right = self.is_open(node.left), self.is_open(node.right)
        if node.how == "inner" and not left and not right:
            rows = attrs.evolve(node, conditions=())
            self.open[id(rows)] = set()
            return self.filter(Filter(input=rows, conditions=node.conditions))
        if node.how == "inner" and not left:
            below, at = self.push(node.right)
            conditions = tuple(renamed(c, at) for c in node.conditions)
            columns = (*node.columns, *self.fields(at))
            return attrs.evolve(node, right=below, conditions=conditions, columns=columns), at
        first, at = self.push(node.left)
        given = [renamed(c, at) for c in node.conditions]
        second = node.right
        if right or node.how == "full":
            second, other = self.push(node.right)
            given += self.same(at, other)
        columns = (*node.columns, *self.fields(at))
        if node.how != "full":
            return attrs.evolve(node, left=first, right=second, conditions=tuple(given), columns=columns), at
        both = (*columns, *self.fields(other))
        pairs = attrs.evolve(node, left=first, right=second, conditions=tuple(given), columns=both)
        merged = [(self.names.again(self.names.fields[f]), Call("coalesce", (at[f], other[f]))) for f in self.asked]
        named = (*((f, Column(f.name)) for f in node.columns), *merged)
        whole = Project(input=pairs, named=named)
        return whole, {f: Column(field.name) for f, (field, _) in zip(self.asked, merged, strict=True)}

    def group(self, node: Group) -> tuple[Node, At]:
        if not node.keys and self.domain is None:
            raise NeedsDomainError
        below, at = self.push(node.input)
        made, keys = grouped(self.names, node, below, at)
        if node.keys:
            return made, keys
        domain, outer = self.fresh_domain()
        fresh = [self.names.again(f) for f in node.columns]
        aggregates = tuple((f, e) for f, (_, e) in zip(fresh, made.aggregates, strict=True))
        made = attrs.evolve(made, aggregates=aggregates, columns=(*fresh, *self.fields(keys)))
        rows = Join(left=domain, right=made, how="left", conditions=tuple(self.same(outer, keys)))
        empty = [when_empty(e, Column(f.name)) for f, e in aggregates]
        named: list[Named] = list(zip(node.columns, empty, strict=True))
        named += [(f, Column(f.name)) for f in self.fields(outer)]
        return Project(input=rows, named=tuple(named)), outer

    def window(self, node: Window) -> tuple[Node, At]:
        below, at = self.push(node.input)

        def parted(part: Expr) -> Expr | None:
            if not isinstance(part, WindowCall):
                return None
            inner = mapped_inside(part, at)
            window = attrs.evolve(inner.window, partition=(*inner.window.partition, *at.values()))
            return attrs.evolve(inner, window=window)

        calls = tuple((f, mapped(e, parted)) for f, e in node.calls)
        return Window(input=below, calls=calls, columns=(*node.columns, *self.fields(at))), at

    def set_op(self, node: SetOp) -> tuple[Node, At]:
        sides = []
        for side in node.inputs:
            below, at = self.push(side)
            named = tuple((f, Column(f.name)) for f in (*side.columns, *self.fields(at)))
            sides.append(Project(input=below, named=named))
        fields = tuple(self.names.again(self.names.fields[f]) for f in self.asked)
        left, right = sides
        made = attrs.evolve(node, left=left, right=right, columns=(*node.columns, *fields))
        return made, {o: Column(f.name) for o, f in zip(self.asked, fields, strict=True)}


def mapped_inside(call: WindowCall, at: At) -> WindowCall:
    """Return a window call with others in the place of columns in it."""
    made = renamed(call, at)
    assert isinstance(made, WindowCall)
    return made


def grouped(names: Names, node: Group, below: Node, at: At) -> tuple[Group, At]:
    """Return the groups of other rows, which have further columns that are keys then."""
    more = [(names.again(names.fields[c.name]), c) for c in at.values() if isinstance(c, Column)]
    keys = (*((f, renamed(e, at)) for f, e in node.keys), *more)
    aggregates = tuple((f, renamed(e, at)) for f, e in node.aggregates)
    columns = (*node.columns, *(f for f, _ in more))
    made = Group(input=below, keys=keys, aggregates=aggregates, columns=columns)
    return made, {o: Column(f.name) for o, (f, _) in zip(at, more, strict=True)}


def when_empty(aggregate: Expr, value: Expr) -> Expr:
    """Return an aggregate's value where a group without rows has none: a count of nothing is 0."""
    assert isinstance(aggregate, Aggregate)
    if aggregate.function == "list":
        return Call("list_or_empty", (value,))
    return Call("coalesce", (value, lit(0))) if aggregate.function in COUNTS else value


_RULES: Final[dict[type[Node], Callable[[_Push, Any], tuple[Node, At]]]] = {
    Filter: _Push.filter, Project: _Push.project, Join: _Push.join, Group: _Push.group, Window: _Push.window,
    SetOp: _Push.set_op, **dict.fromkeys((Unnest, Temporal, TopK, Distinct, AtMostOne), _Push.alike),
}  # fmt: skip
