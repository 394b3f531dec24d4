"""GROUP BY: keys, sets of them, and expressions of groups checked and made columns of what grouping gives."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import attrs
from sqlglot import exp

from tidemill.expressions.aggregate_functions import Aggregate, count
from tidemill.expressions.expr import Call, Column, Expr, lit
from tidemill.expressions.schema import Field
from tidemill.expressions.structure import key
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.calls import WindowCall
from tidemill.sql.expressions import GROUPING, Expressions
from tidemill.sql.plan import Group, Named, Node, Project, SetOp, free
from tidemill.sql.scopes import Names, shown
from tidemill.sql.subqueries import applied
from tidemill.sql.trees import Sub, columns_of, is_null, mapped, walked

_MOST_SETS = 1000


@attrs.frozen(eq=False)
class Keys:
    """What is grouped by: expressions, and which of them are in each of the sets."""

    expressions: tuple[tuple[Expr, Any], ...]
    sets: tuple[frozenset[int], ...]


def keys_of(names: Names, node: exp.Group | None, parser: Expressions, items: Sequence[tuple[Expr, Any]]) -> Keys:
    """Return what a query groups by; ``items`` are what it selects, for GROUP BY 1."""
    found: dict[Hashable, int] = {}
    expressions: list[tuple[Expr, Any]] = []

    def place(one: exp.Expression) -> int:
        while isinstance(one, exp.Paren):
            one = one.this
        if isinstance(one, exp.Literal) and not one.is_string:
            number = int(one.name) if one.name.isdigit() else 0
            if not 1 <= number <= len(items):
                raise names.error(one, f"GROUP BY {one.name}: there are {len(items)} columns")
            expression = items[number - 1][0]
        else:
            expression = parser.expression(one)
        for part in walked(expression):
            if isinstance(part, (Aggregate, WindowCall)):
                kind = "an aggregate" if isinstance(part, Aggregate) else "a window call"
                raise names.error(one, f"{kind} in GROUP BY")
        at = found.setdefault(key(expression), len(expressions))
        if at == len(expressions):
            expressions.append((expression, one))
        return at

    def several(nodes: Iterable[exp.Expression]) -> list[frozenset[int]]:
        """Return the places of each of some, a tuple being one."""
        return [frozenset(place(e) for e in (n.expressions if isinstance(n, exp.Tuple) else [n])) for n in nodes]

    def sets_of(one: exp.Expression) -> list[frozenset[int]]:
        if isinstance(one, exp.Rollup):
            parts = several(one.expressions)
            return [frozenset().union(*parts[:n]) for n in range(len(parts), -1, -1)]
        if isinstance(one, exp.Cube):
            parts = several(one.expressions)
            if len(parts) > 10:  # noqa: PLR2004 - 1,024 sets
                raise names.error(one, f"CUBE of {len(parts)} expressions: expected at most 10")
            chosen = itertools.product((True, False), repeat=len(parts))
            return [frozenset().union(*(p for p, taken in zip(parts, some, strict=True) if taken)) for some in chosen]
        if isinstance(one, exp.GroupingSets):
            inner = (exp.Rollup, exp.Cube, exp.GroupingSets)
            return [s for e in one.expressions for s in (sets_of(e) if isinstance(e, inner) else several([e]))]
        if isinstance(one, exp.Tuple):
            return several([one])
        return [frozenset((place(one),))]

    if node is None:
        return Keys((), (frozenset(),))
    names.source.only(node, "expressions", "grouping_sets", "rollup", "cube", "all")
    if node.args.get("all"):
        plain = [(e, n) for e, n in items if not any(isinstance(p, Aggregate) for p in walked(e))]
        return Keys(tuple(plain), (frozenset(range(len(plain))),))
    given = [*node.expressions, *(node.args.get("grouping_sets") or ()), *(node.args.get("cube") or ())]
    with_rollup = [r for r in node.args.get("rollup") or () if not r.expressions]
    given += [r for r in node.args.get("rollup") or () if r.expressions]
    if not given:
        raise names.error(node.parent, "GROUP BY without anything to group by")
    if with_rollup:
        given = [exp.Rollup(expressions=given)]
    sets = [frozenset().union(*some) for some in _product(names, node, [sets_of(e) for e in given])]
    return Keys(tuple(expressions), tuple(sets))


def _product(names: Names, node: Any, each: list[list[frozenset[int]]]) -> Iterable[Iterable[frozenset[int]]]:
    number = 1
    for some in each:
        number *= len(some)
    if number > _MOST_SETS:
        raise names.error(node.parent, f"GROUP BY has {number:,} grouping sets: expected at most {_MOST_SETS:,}")
    return itertools.product(*each)


class Grouping:
    """The groups of one query: expressions of its rows become expressions of them."""

    def __init__(self, names: Names, plan: Node, keys: Keys) -> None:
        self.names = names
        self.own = {f.name for f in plan.columns}
        self.sets = keys.sets
        self.keys: list[Named] = []
        self._of_key: dict[Hashable, Expr] = {}
        self._place: dict[Hashable, int] = {}
        for place, (given, node) in enumerate(keys.expressions):
            plan, expression = applied(names, plan, given)
            self._place[key(given)] = place
            if is_null(expression):
                self._of_key[key(given)] = expression
                self.keys.append((names.field("key", INT64), expression.cast(INT64)))
                continue
            field, expression = names.column(expression, "key", node)
            self.keys.append((field, expression))
            self._of_key[key(given)] = Column(field.name)
        self.plan = plan
        self._aggregates: dict[Hashable, Named] = {}
        self._grouping: dict[tuple[int, ...], Field] = {}

    def expression(self, expression: Expr, node: Any) -> Expr:
        """Return an expression of rows as one of groups; `SqlError` for columns that are not the same in a group."""

        def replacement(part: Expr) -> Expr | None:
            found = self._of_key.get(key(part)) if self._of_key else None
            if found is not None:
                return found
            if isinstance(part, Aggregate):
                return self.aggregate(part, node)
            if isinstance(part, Call) and part.function == GROUPING:
                return self.grouping(part, node)
            if isinstance(part, Column) and part.name in self.own:
                raise self._ungrouped(part.name, node)
            if isinstance(part, Sub):
                kept = {f.name for f, e in self.keys if isinstance(e, Column)}
                for name in sorted(free(part.plan) & self.own - kept):
                    raise self._ungrouped(name, part.node)
            return None

        return mapped(expression, replacement)

    def _ungrouped(self, name: str, node: Any) -> Exception:
        column = shown(self.names.fields[name])
        hint = f"group by it too, or say which of its values, as in max({column})"
        return self.names.error(node, f"column `{column}` is neither in GROUP BY nor in an aggregate", hint)

    def aggregate(self, aggregate: Aggregate, node: Any) -> Expr:
        """Return the column that holds an aggregate."""
        names = self.names
        known = self._aggregates.get(key(aggregate))
        if known is not None:
            return Column(known[0].name)
        inside = columns_of(aggregate)
        if inside and not inside & self.own:
            raise names.error(node, "an aggregate of columns of a query around this one is not supported")
        if any(isinstance(p, (Aggregate, WindowCall)) for part in aggregate.parts for p in walked(part)):
            raise names.error(node, "an aggregate inside an aggregate", "compute the inner one in a subquery")
        self.plan, made = applied(names, self.plan, aggregate)
        assert isinstance(made, Aggregate)
        if isinstance(made.argument, Expr) and is_null(made.argument) and made.function in ("count", "count_distinct"):
            return lit(0)
        self._aggregates[key(aggregate)] = named = names.aggregate(made, node)
        return Column(named[0].name)

    def grouping(self, call: Call, node: Any) -> Expr:
        """Return the column that says which keys are not in a row's grouping set, a bit each."""
        places = tuple(self._place.get(key(e), -1) for e in call.args)
        if -1 in places:
            raise self.names.error(node, "GROUPING takes expressions of GROUP BY")
        if places not in self._grouping:
            self._grouping[places] = self.names.field("grouping", INT64, nullable=False)
        return Column(self._grouping[places].name)

    def made(self) -> Node:
        """Return the groups, once all that is asked of them is known."""
        aggregates = tuple(self._aggregates.values())
        if len(self.sets) == 1 and not self._grouping and len(self.sets[0]) == len(self.keys):
            return self._group(self.plan, tuple(self.keys), aggregates)
        parts = [self._part(chosen, aggregates) for chosen in self.sets]
        plan = parts[0]
        for other in parts[1:]:
            columns = tuple(attrs.evolve(f, nullable=True) for f in plan.columns)
            plan = SetOp(left=plan, right=other, operation="union", all_rows=True, columns=columns)
        for field in plan.columns if len(parts) > 1 else ():
            self.names.fields[field.name] = field
        return plan

    def _group(self, plan: Node, keys: tuple[Named, ...], aggregates: tuple[Named, ...]) -> Node:
        if not keys and not aggregates:
            aggregates = ((self.names.field("rows", INT64, nullable=False), count()),)
        return Group(input=plan, keys=keys, aggregates=aggregates)

    def _part(self, chosen: frozenset[int], aggregates: tuple[Named, ...]) -> Node:
        """Return the groups of one set: the other keys are NULL."""
        some = tuple(k for place, k in enumerate(self.keys) if place in chosen)
        fresh = tuple((self.names.again(f), e) for f, e in aggregates)
        group = self._group(self.plan, some, fresh)
        named: list[Named] = []
        for place, (field, _) in enumerate(self.keys):
            value: Expr = Column(field.name) if place in chosen else lit(None).cast(field.dtype)
            named.append((attrs.evolve(field, nullable=field.nullable or place not in chosen), value))
        named += [(field, Column(own.name)) for (field, _), (own, _) in zip(aggregates, fresh, strict=True)]
        for places, field in self._grouping.items():
            bits = sum(1 << i for i, place in enumerate(reversed(places)) if place not in chosen)
            named.append((field, lit(bits)))
        return Project(input=group, named=tuple(named))
