"""FROM: tables, subqueries, joins of all kinds, LATERAL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from sqlglot import exp

from tidemill.errors import did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.expr import Call, Column, Expr
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.types import INT32
from tidemill.expressions.windows.calls import WindowCall
from tidemill.sql import pivots, tables
from tidemill.sql.chars import stripped
from tidemill.sql.expressions import Expressions
from tidemill.sql.plan import Filter, Join, Node, Project, TopK, Values, free, read
from tidemill.sql.scopes import Item, Names, Relation, Scope, Visible
from tidemill.sql.subqueries import filtered_by, joined, joined_laterally, resolved, swapped
from tidemill.sql.syntax import COMMA
from tidemill.sql.trees import renamed, subqueries, walked

Environment = Mapping[str, Callable[[], Relation]]
"""What tables' names mean: each gives the relation anew."""

_KINDS: Final = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "cross", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right", ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi", ("LEFT", "ANTI"): "anti", ("", "SEMI"): "semi", ("", "ANTI"): "anti",
}  # fmt: skip
_METHODS: Final = {"": {*_KINDS.values()}, "NATURAL": {*_KINDS.values()}, "ASOF": {"inner", "left"}}
HIDDEN: Final = "hidden"
"""Whether * leaves out the columns of a LATERAL VIEW, in its meta data."""


def fresh(names: Names, relation: Relation) -> Relation:
    """Return the same rows with columns of new names, so that a plan may be read twice."""
    kept = {f.name: names.again(f) for f in relation.plan.columns}
    named = tuple((new, Column(old)) for old, new in kept.items())
    plan = Project(input=relation.plan, named=named)
    new_names: dict[str, Expr] = {old: Column(new.name) for old, new in kept.items()}
    columns = tuple(attrs.evolve(c, expr=renamed(c.expr, new_names)) for c in relation.columns)
    return Relation(plan, columns)


def one_row(names: Names) -> Node:
    """Return one row, of which no column is seen."""
    return Values(rows=((0,),), columns=(names.field("nothing", INT32, nullable=False),))


class Sources:
    """Reads the FROM of one query."""

    def __init__(self, names: Names, environment: Environment, parent: Scope | None, query: Any) -> None:
        self.names = names
        self.environment = environment
        self.parent = parent
        self.query = query
        self.has_comma = False

    def item(self, select: exp.Expression) -> Item | None:
        """Return what the FROM of a query gives; None where it has none."""
        source = select.args.get("from_")
        if source is None:
            return None
        self.names.source.only(source, "this")
        found = self._with_joins(source.this)
        for join in select.args.get("joins") or ():
            found = self._join(found, join)
        for lateral in select.args.get("laterals") or ():
            made = self._called(found, lateral, outer=False)
            found = attrs.evolve(made, star=found.star) if lateral.meta.get(HIDDEN) else made
        return found

    def _with_joins(self, node: Any, left: Item | None = None) -> Item:
        found = self._one(node, left)
        for pivot in node.args.get("pivots") or ():
            parser = Expressions(self.names, Scope(found, self.parent), self.query)
            made = pivots.unpivoted if pivot.args.get("unpivot") else pivots.pivoted
            found = self._aliased(made(self.names, parser, found, pivot), pivot.args.get("alias"), None)
        for join in node.args.get("joins") or ():
            found = self._join(found, join)
        return found

    def _one(self, node: Any, left: Item | None) -> Item:
        if tables.is_call(node):
            name = node.this.name.lower() if isinstance(node, exp.Table) else ""
            return self._in_windows(node) if name in tables.WINDOWS else self._called(None, node, outer=False)
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Subquery):
            self.names.source.only(node, "this", "alias", "joins", "pivots")
            if isinstance(node.this, (exp.Table, exp.Subquery)) and not node.args.get("alias"):
                return self._with_joins(node.this)
            return self._aliased(self.query(node, self.parent), node.args.get("alias"), None)
        if isinstance(node, exp.Lateral):
            self.names.source.only(node, "this", "alias")
            return self._aliased(self.query(node.this, Scope(left, self.parent)), node.args.get("alias"), None)
        if isinstance(node, exp.Values):
            return self._aliased(self.query(node, self.parent), node.args.get("alias"), None)
        raise self.names.error(node, f"{type(node).__name__.upper()} in FROM is not supported")

    # -- table functions ----------------------------------------------------------------------------------------------

    def _called(self, left: Item | None, node: Any, *, outer: bool, made: Any = None) -> Item:
        """Return rows beside those that a table function makes of each; without any, those that it makes alone."""
        alias = node.args.get("alias")
        if made is None:
            made = self._meant(left, node)
        call, keeps = made
        item = left or Item(one_row(self.names), (), ())
        plan, columns = tables.beside(self.names, item.plan, call, outer=outer or keeps)
        own = self._aliased(Relation(plan, columns), alias, columns[0].key if alias is None else None)
        if alias is not None and alias.this is not None and not alias.args.get("columns") and self._names_its_column:
            dialect = self.names.dialect
            first = Visible(dialect.written(alias.this), dialect.key(alias.this), columns[0].expr)
            star = (first, *columns[1:])
            own = Item(plan, star, ((dialect.key(alias.this), star),))
        return Item(plan, (*item.star, *own.star), (*item.qualified, *own.qualified))

    @property
    def _names_its_column(self) -> bool:
        """Whether the alias of a function's table names its column too."""
        return self.names.dialect.folds

    def _meant(self, left: Item | None, node: Any) -> tuple[tables.MadeTable, bool]:
        """Return what a call means, and whether it keeps rows for which it gives nothing."""
        parser = Expressions(self.names, self.parent if left is None else Scope(left, self.parent), self.query)
        found = tables.called(self.names, parser, node)
        for argument in found[0].arguments:
            refuse_aggregates(self.names, argument, node, "FROM")
            if subqueries(argument):
                raise self.names.error(node, "a subquery in a call of a table function is not supported")
        return found

    def _in_windows(self, node: exp.Table) -> Item:
        """Return a table's rows in windows of time."""
        call = node.this
        first = call.expressions[0] if call.expressions else None
        if isinstance(first, exp.Column):
            first = exp.Table(this=first.this, db=first.args.get("table"), catalog=first.args.get("db"))
        if not isinstance(first, (exp.Table, exp.Subquery)):
            raise self.names.error(node, f"{call.name.upper()} takes a table first")
        keys = first.args.get("keys") or []
        first.set("keys", None)
        given = self._one(first, None)
        parser = Expressions(self.names, Scope(given, self.parent), self.query)
        columns = [parser.expression(k) for k in keys]
        found = tables.windows_of(self.names, parser, call, Relation(given.plan, given.star), columns)
        return self._aliased(found, node.args.get("alias"), given.qualified[0][0] if given.qualified else None)

    def _table(self, node: exp.Table) -> Item:
        self.names.source.only(node, "this", "alias", "db", "catalog", "joins", "pivots")
        key = ".".join(self.names.dialect.key(p) for p in node.parts)
        made = self.environment.get(key)
        if made is None:
            raise self.names.error(node, f"no table `{key}`", did_you_mean(key, self.environment))
        found = made()
        plan = attrs.evolve(found.plan, span=self.names.source.span(node))
        return self._aliased(attrs.evolve(found, plan=plan), node.args.get("alias"), key)

    def _aliased(self, relation: Relation, alias: Any, key: str | None) -> Item:
        """Return an item of FROM, under the name and with the names of columns that AS gives."""
        columns = relation.columns
        if alias is not None:
            self.names.source.only(alias, "this", "columns")
            columns = self.query.named(relation, alias).columns
            key = self.names.dialect.key(alias.this) if alias.this is not None else key
        return Item(relation.plan, columns, () if key is None else ((key, columns),))

    # -- joins --------------------------------------------------------------------------------------------------------

    def _join(self, left: Item, node: exp.Join) -> Item:
        self.names.source.only(node, "this", "on", "using", "kind", "side", "method")
        method = str(node.args.get("method") or "").upper()
        kind = _KINDS.get((str(node.side or "").upper(), str(node.kind or "").upper()))
        if kind is None or kind not in _METHODS.get(method, ()):
            words = " ".join(w for w in (method, node.side, node.kind) if w)
            raise self.names.error(node.this, f"{words} JOIN is not supported")
        on, using = node.args.get("on"), node.args.get("using")
        if node.meta.get(COMMA) or kind == "cross":
            kind, self.has_comma = "cross", self.has_comma or bool(node.meta.get(COMMA))
        elif kind in ("right", "full") and self.has_comma and self.names.dialect.name != "spark":
            hint = "it binds closer in some dialects: write parentheses, or CROSS JOIN in place of the comma"
            raise self.names.error(node.this, f"{kind.upper()} JOIN after a comma", hint)
        if (kind == "cross") != (on is None and not using and method != "NATURAL"):
            hint = "write CROSS JOIN for all pairs" if kind != "cross" else "leave the condition out, or write JOIN"
            reason = "a JOIN without ON or USING" if kind != "cross" else "a CROSS JOIN with a condition"
            raise self.names.error(node.this, reason, hint)
        lateral = isinstance(node.this, exp.Lateral)
        if tables.is_call(node.this) and kind in ("inner", "cross", "left"):
            made = self._meant(left, node.this) if self._is_lateral(node.this) else None
            if made is not None and read(made[0].arguments) & {f.name for f in left.plan.columns}:
                return self._beside(left, node, kind, made)
        right = self._with_joins(node.this, left if lateral else None)
        for key, _ in right.qualified:
            if any(key == known for known, _ in left.qualified):
                raise self.names.error(node.this, f"table `{key}` is twice in FROM", "give one of them another name")
        if method == "ASOF":
            return self._nearest(left, right, kind, node)
        return self._joined(left, right, kind, node, lateral=lateral)

    def _nearest(self, left: Item, right: Item, kind: str, node: exp.Join) -> Item:
        """Return what ASOF JOIN gives: beside each left row the one nearest to it, by the only inequality."""
        both = Item(left.plan, (*left.star, *right.star), (*left.qualified, *right.qualified))
        keys = [self.names.dialect.key(n) for n in node.args.get("using") or ()]
        pairs = [(self._key(left, k, node).expr, self._key(right, k, node)) for k in keys]
        if any(self.names.char_length(b.expr) is not None or self.names.char_length(a) is not None for a, b in pairs):
            raise self.names.error(node.this, "ASOF JOIN USING columns of CHAR(n) is not supported", "write ON")
        compared = [*["eq"] * (len(pairs) - 1), "ge"]
        conditions: list[Expr] = [Call(how, (a, b.expr)) for how, (a, b) in zip(compared, pairs, strict=False)]
        if (on := node.args.get("on")) is not None:
            parser = Expressions(self.names, Scope(both, self.parent), self.query)
            conditions = conjuncts(parser.expression(on))
        conditions = [self.checked(c, on or node.this, "ON") for c in conditions]
        own = {f.name for f in right.plan.columns}
        found = [k for c in conditions if (k := _nearest_by(c, {f.name for f in left.plan.columns}, own)) is not None]
        if len(found) != 1 or any(map(subqueries, conditions)):
            reason = "ASOF JOIN has one inequality between what is on its left and on its right, and equalities"
            raise self.names.error(node.this, reason)
        some = Filter(input=right.plan, conditions=tuple(conditions))
        one = TopK(input=some, keys=(), order=tuple(found), count=1)
        plan = joined_laterally(self.names, left.plan, one, kind, [])
        dropped = {id(b) for _, b in pairs}
        return Item(plan, tuple(c for c in both.star if id(c) not in dropped), both.qualified)

    def _is_lateral(self, node: Any) -> bool:
        """Return whether a call may read the columns to its left: not one whose first argument is a table."""
        return not (isinstance(node, exp.Table) and node.this.name.lower() in tables.WINDOWS)

    def _beside(self, left: Item, node: exp.Join, kind: str, made: Any) -> Item:
        """Return the left rows beside what a table function makes of them."""
        on = node.args.get("on")
        always = on is None or (isinstance(on, exp.Boolean) and on.this)
        if node.args.get("using") or node.args.get("method") or (kind == "left" and not always):
            reason = "a table function of columns on its left is joined ON TRUE alone"
            raise self.names.error(node.this, reason, "put the condition into a subquery: LATERAL (SELECT ... WHERE)")
        found = self._called(left, node.this, outer=kind == "left", made=made)
        if always:
            return found
        parser = Expressions(self.names, Scope(found, self.parent), self.query)
        conditions = [self.checked(c, on, "ON") for c in conjuncts(parser.expression(on))]
        return attrs.evolve(found, plan=filtered(self.names, found.plan, conditions, node))

    def _joined(self, left: Item, right: Item, kind: str, node: exp.Join, *, lateral: bool) -> Item:
        using = node.args.get("using") or ()
        keys = [self.names.dialect.key(n) for n in using]
        if node.args.get("method"):
            keys = [c.key for c in left.star if any(c.key == d.key for d in right.star)]
        pairs = [(self._key(left, k, node), self._key(right, k, node)) for k in dict.fromkeys(keys)]
        both = Item(left.plan, (*left.star, *right.star), (*left.qualified, *right.qualified))
        conditions: list[Expr] = [
            Call("eq", (stripped(a.expr, self.names), stripped(b.expr, self.names))) for a, b in pairs
        ]
        for a, b in pairs:
            lengths = [self.names.char_length(c.expr) for c in (a, b)]
            if any(lengths) and (kind == "full" or not all(lengths)):
                what = "FULL JOIN USING" if kind == "full" else f"JOIN with `{a.name}` of another type"
                raise self.names.error(
                    node.this, f"{what} of columns of CHAR(n) is not supported", "write ON and casts"
                )
        for one in conditions:
            self.names.condition(one, node.this, "JOIN")
        if (on := node.args.get("on")) is not None:
            parser = Expressions(self.names, Scope(both, self.parent), self.query)
            conditions = [self.checked(c, on, "ON") for c in conjuncts(parser.expression(on))]
        plan = self._plan(left, right, kind, conditions, node, lateral=lateral)
        if isinstance(plan, Join):
            plan = attrs.evolve(plan, span=self.names.source.span(node))
        if kind in ("semi", "anti"):
            return Item(plan, left.star, left.qualified)
        if not pairs:
            return Item(plan, both.star, both.qualified)
        merged = {}
        for a, b in pairs:
            kept = {"inner": a.expr, "left": a.expr, "right": b.expr}.get(kind)
            merged[id(a)] = Visible(a.name, a.key, Call("coalesce", (a.expr, b.expr)) if kept is None else kept)
        own = {id(b) for _, b in pairs}
        if self.names.dialect.keys_in_place:
            star = [merged.get(id(c), c) for c in both.star if id(c) not in own]
        else:
            star = [*merged.values(), *(c for c in both.star if id(c) not in own and id(c) not in merged)]
        return Item(plan, tuple(star), both.qualified)

    def _key(self, item: Item, key: str, node: exp.Join) -> Visible:
        found = [c for c in item.star if c.key == key]
        if len(found) != 1:
            at = next((n for n in node.args.get("using") or () if self.names.dialect.key(n) == key), node.this)
            reason = f"column `{key}` of USING is ambiguous" if found else f"no column `{key}` to join by"
            raise self.names.error(at, reason, None if found else did_you_mean(key, [c.key for c in item.star]))
        return found[0]

    def checked(self, condition: Expr, node: Any, what: str) -> Expr:
        """Return a condition, which has no aggregates and no window calls."""
        refuse_aggregates(self.names, condition, node, what)
        return condition if subqueries(condition) else self.names.condition(condition, node, what)

    def _plan(
        self, left: Item, right: Item, kind: str, conditions: list[Expr], node: exp.Join, *, lateral: bool
    ) -> Node:
        names = self.names
        if lateral and free(right.plan) & {f.name for f in left.plan.columns}:
            if kind not in ("inner", "cross", "left"):
                raise names.error(node.this, f"{kind.upper()} JOIN LATERAL of columns on its left is not supported")
            if any(subqueries(c) for c in conditions):
                raise names.error(node.this, "a subquery in the ON of JOIN LATERAL is not supported")
            return joined_laterally(names, left.plan, right.plan, "left" if kind == "left" else "inner", conditions)
        if kind in ("inner", "cross"):
            plan: Node = Join(left=left.plan, right=right.plan, how="inner", conditions=())
            return filtered(names, plan, conditions, node)
        a, b = (right.plan, left.plan) if kind == "right" else (left.plan, right.plan)
        a, b, conditions = self._without_subqueries(a, b, conditions, node)
        return joined(names, a, b, "left" if kind == "right" else kind, conditions)

    def _without_subqueries(
        self, left: Node, right: Node, conditions: list[Expr], node: exp.Join
    ) -> tuple[Node, Node, list[Expr]]:
        """Return both sides of an outer join with the values of subqueries in ON, each of columns of one side."""
        made = []
        for given in conditions:
            condition = given
            for sub in subqueries(condition):
                asked = read([sub])
                side = right if asked & {f.name for f in right.columns} else left
                if asked & {f.name for f in left.columns} and side is right:
                    reason = "a subquery in the ON of an outer join that asks for columns of both sides"
                    raise self.names.error(sub.node or node.this, f"{reason} is not supported")
                rows, value = resolved(self.names, side, sub)
                left, right = (left, rows) if side is right else (rows, right)
                condition = swapped(condition, sub, value)
            made.append(self.names.condition(condition, node.args.get("on"), "ON"))
        return left, right, made


def _nearest_by(condition: Expr, left: set[str], right: set[str]) -> SortKey | None:
    """Return the order in which the nearest rows of the right side come first, by an inequality with the left one."""
    if not isinstance(condition, Call) or condition.function not in ("lt", "le", "gt", "ge"):
        return None
    a, b = condition.args
    is_below = condition.function in ("gt", "ge")
    for x, y, descending in ((a, b, is_below), (b, a, not is_below)):
        if (read([x]) & left) and (read([y]) & right) and not read([x]) & right and not read([y]) & left:
            return SortKey(y, descending, nulls_first=False)
    return None


def conjuncts(condition: Expr) -> list[Expr]:
    """Return the conditions that all have to be true for this one to be."""
    if isinstance(condition, Call) and condition.function == "and":
        return [c for p in condition.args for c in conjuncts(p)]
    return [condition]


def filtered(names: Names, plan: Node, conditions: list[Expr], node: Any) -> Node:
    """Return the rows for which conditions are true, those with subqueries after the others."""
    simple = tuple(c for c in conditions if not subqueries(c))
    if simple:
        span = names.source.span(node)
        plan = Filter(input=plan, conditions=simple, span=span)
    for condition in conditions:
        if subqueries(condition):
            plan = filtered_by(names, plan, condition, node)
    return plan


def refuse_aggregates(names: Names, expression: Expr, node: Any, where: str) -> None:
    """Raise for aggregates and window calls where there may be none."""
    for part in walked(expression):
        if isinstance(part, WindowCall):
            raise names.error(node, f"a window call in {where}", "compute it in a subquery, or write QUALIFY")
        if isinstance(part, Aggregate):
            raise names.error(node, f"an aggregate in {where}", "conditions on groups go into HAVING")
