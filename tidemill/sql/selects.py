"""SELECT: its clauses in the order in which they mean something."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import attrs
from sqlglot import exp

from tidemill.errors import SchemaError, SqlError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.expr import Call, Column, Expr, lit
from tidemill.expressions.schema import Field
from tidemill.expressions.sort_keys import SortKey, asc
from tidemill.expressions.structure import key, resolve
from tidemill.expressions.types import INT32
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.bound import value_fields
from tidemill.expressions.windows.calls import WindowCall
from tidemill.sql import clocks, tables
from tidemill.sql.expressions import GROUPING, Expressions
from tidemill.sql.grouping import Grouping, keys_of
from tidemill.sql.plan import Distinct, Group, Named, Node, Project, TopK, Window
from tidemill.sql.scopes import Item, Names, Relation, Scope, Visible
from tidemill.sql.sources import HIDDEN, Environment, Sources, conjuncts, filtered, one_row, refuse_aggregates
from tidemill.sql.subqueries import applied
from tidemill.sql.syntax import ON_CLOSE
from tidemill.sql.trees import Sub, is_larger, is_null, mapped, walked

_KNOWN = (
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "windows", "distinct", "order", "limit",
    "offset", "with_", "hint", "laterals",
)  # fmt: skip
_MOST_PARTS = 100_000


def _before_star(node: exp.Column) -> exp.Column:
    """Return what stands before the star of ``s.*`` as a column."""
    parts = [part.copy() for part in reversed(node.parts[:-1])]
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), parts, strict=False)))


@attrs.define(eq=False)
class Selected:
    """A column of the result: its name, what it is found by, what it is, and its node."""

    name: str
    key: str
    expr: Expr
    node: Any


@attrs.frozen
class Limits:
    """Which rows of an order are wanted."""

    count: int | None
    offset: int = 0
    ties: bool = False

    @property
    def cuts(self) -> bool:
        """Whether not all rows are wanted."""
        return self.count is not None or self.offset > 0


def limits_of(names: Names, node: exp.Expression) -> Limits:
    """Return what LIMIT, OFFSET and FETCH say."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count, ties, skipped = None, False, 0
    if isinstance(limit, exp.Fetch):
        names.source.only(limit, "direction", "count", "limit_options")
        options = limit.args.get("limit_options")
        if options is not None:
            names.source.only(options, "rows", "with_ties")
            ties = bool(options.args.get("with_ties"))
        count = 1 if limit.args.get("count") is None else _number(names, limit.args["count"])
    elif limit is not None:
        names.source.only(limit, "expression", "offset")
        count = _number(names, limit.expression)
        offset = limit.args.get("offset") or offset
    if offset is not None:
        found = _number(names, offset.expression if isinstance(offset, exp.Offset) else offset)
        skipped = found or 0
    return Limits(count, skipped, ties)


def _number(names: Names, node: Any) -> int | None:
    if isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Null) or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
        return None
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    raise names.error(node, "LIMIT and OFFSET take a number that is written out")


def cut(plan: Node, order: Sequence[SortKey], limits: Limits) -> Node:
    """Return the rows that LIMIT and OFFSET leave."""
    by = tuple(order) or (asc(lit(1)),)
    return TopK(input=plan, keys=(), order=by, count=limits.count, offset=limits.offset, ties=limits.ties)


class Select:
    """Reads one SELECT."""

    def __init__(self, names: Names, environment: Environment, parent: Scope | None, query: Any) -> None:
        self.names = names
        self.environment = environment
        self.parent = parent
        self.query = query

    def relation(self, node: exp.Select) -> Relation:
        """Return the rows of a SELECT."""
        names = self.names
        names.source.only(node, *_KNOWN)
        if not node.expressions:
            raise names.error(node, "SELECT without columns")
        self.generated(node)
        item = Sources(names, self.environment, self.parent, self.query).item(node) or Item(one_row(names), (), ())
        aliases: dict[str, Expr] = {}
        inner = Scope(item, self.parent)
        windows = {names.dialect.key(w.this): w for w in node.args.get("windows") or ()}
        parsers = [Expressions(names, scope, self.query) for scope in (inner, attrs.evolve(inner, aliases=aliases))]
        for parser in parsers:
            parser.windows = windows
        plain, named = parsers
        dialect = names.dialect
        items = self.items(node, item, named if dialect.aliases_in_having else plain, aliases)
        plan = self.where(node, item.plan, named if dialect.aliases_in_where else plain)
        outputs = {i.key: i.expr for i in items}
        having = self.clause(node, "having", named if dialect.aliases_in_having else plain)
        qualify = self.clause(node, "qualify", named)
        order = self.order(node, items, outputs, named if dialect.aliases_in_having else plain)
        on = self.distinct_on(node, named, outputs)
        everything = [i.expr for i in items] + having + qualify + [k.expression for k, _ in order] + on
        if node.args.get("group") is not None or having or any(map(_has_aggregate, everything)):
            keys = keys_of(names, node.args.get("group"), named, [(i.expr, i.node) for i in items])
            grouping = Grouping(names, plan, keys)
            for one in items:
                one.expr = grouping.expression(one.expr, one.node)
            having = [grouping.expression(e, node.args["having"]) for e in having]
            qualify = [grouping.expression(e, node.args["qualify"]) for e in qualify]
            order = [(attrs.evolve(k, expression=grouping.expression(k.expression, n)), n) for k, n in order]
            on = [grouping.expression(e, node) for e in on]
            groups = attrs.evolve(grouping.made(), span=names.source.span(node.args.get("group")))
            plan = filtered(names, groups, self.conditions(having, node.args.get("having")), node)
        is_grouped = isinstance(plan, Group)
        plan, replace = self.windowed(plan, items, qualify, order, on)
        if node.meta.get(ON_CLOSE):
            if not isinstance(plan, Window) or is_grouped:
                reason = "EMIT ON WINDOW CLOSE is for SELECTs with OVER and without GROUP BY"
                raise names.error(node, reason, "rows alone are released in order by `sort_buffer`")
            plan = attrs.evolve(plan, on_close=True, calls=tuple((f, self.in_time(e)) for f, e in plan.calls))
        for one in items:
            one.expr = replace(one.expr)
        order = [(attrs.evolve(k, expression=replace(k.expression)), n) for k, n in order]
        conditions = self.conditions([replace(e) for e in qualify], node.args.get("qualify"))
        plan = filtered(names, plan, conditions, node)
        return self.projected(plan, items, order, [replace(e) for e in on], node)

    def generated(self, node: exp.Select) -> None:
        """Let a table function that stands as a column be a LATERAL VIEW."""
        found = False
        for place, one in enumerate(node.expressions):
            call = one.this if isinstance(one, exp.Alias) else one
            if not (isinstance(call, exp.Anonymous) and call.name.lower() in tables.SELECTED):
                continue
            if any(node.args.get(k) for k in ("group", "having", "qualify")) or found:
                reason = f"{call.name.upper()} beside others, or with groups, is not supported as a column"
                raise self.names.error(call, reason, "write it in FROM, as in LATERAL VIEW")
            found = True
            table, value = (exp.to_identifier(name, quoted=True) for name in ("(made)", "value"))
            alias = exp.TableAlias(this=table, columns=[value])
            view = exp.Lateral(this=call, view=True, alias=alias)
            view.meta.update(call.meta, **{HIDDEN: True})
            written = exp.to_identifier(self.names.source.written(one), quoted=True)
            column = exp.Column(this=value.copy(), table=table.copy())
            made = exp.Alias(this=column, alias=one.args["alias"] if isinstance(one, exp.Alias) else written)
            made.meta.update(one.meta)
            node.append("laterals", view)
            node.expressions[place] = made

    def items(self, node: exp.Select, item: Item, parser: Expressions, aliases: dict[str, Expr]) -> list[Selected]:
        """Return the columns that are selected, with those that * stands for."""
        found: list[Selected] = []
        for one in node.expressions:
            star = one.this if isinstance(one, exp.Column) else one.expression if isinstance(one, exp.Dot) else one
            if isinstance(star, exp.Star):
                found += self.star(star, one, item, parser)
                continue
            inner, name = one, None
            if isinstance(one, exp.Alias):
                inner, name = one.this, one.args["alias"]
            elif isinstance(one, exp.Column):
                name = one.this
            elif isinstance(one, exp.Dot) and isinstance(one.expression, exp.Identifier):
                name = one.expression
            expression = parser.expression(inner)
            if name is not None:
                shown, by = self.names.dialect.written(name), self.names.dialect.key(name)
            else:
                shown = self.names.source.written(one)
                by = self.names.dialect.key_of(shown)
            if isinstance(one, exp.Alias):
                if is_larger([expression], _MOST_PARTS):
                    reason = f"`{shown}` has more than {_MOST_PARTS:,} parts, with what it reads by name"
                    raise self.names.error(one, reason, "compute a part of it in a subquery")
                aliases.setdefault(by, expression)
            found.append(Selected(shown, by, expression, one))
        return found

    def star(self, star: exp.Star, one: exp.Expression, item: Item, parser: Expressions) -> list[Selected]:
        """Return the columns that * stands for: those of FROM, of one table of it, or the fields of a struct."""
        names = self.names
        names.source.only(star, "except_")
        columns = item.star
        if isinstance(one, exp.Column):
            names.source.only(one, "this", "table", "db")
            qualifier = ".".join(names.dialect.key(p) for p in one.parts[:-1])
            known = dict(item.qualified)
            columns = known.get(qualifier) or self.fields(_before_star(one), parser)
            if not columns:
                raise names.error(one, f"no table `{qualifier}` in FROM", did_you_mean(qualifier, known))
        elif isinstance(one, exp.Dot) and not (columns := self.fields(one.this, parser)):
            raise names.error(one, ".* of what is no struct")
        left_out = {}
        for name in star.args.get("except_") or ():
            identifier = name.this if isinstance(name, exp.Column) else name
            left_out[names.dialect.key(identifier)] = identifier
        for by, identifier in left_out.items():
            if not any(c.key == by for c in columns):
                known_names = [c.key for c in columns]
                raise names.error(identifier, f"no column `{by}` to leave out", did_you_mean(by, known_names))
        if not columns:
            raise names.error(one, "* without FROM, or of no columns")
        return [Selected(c.name, c.key, c.expr, one) for c in columns if c.key not in left_out]

    def fields(self, node: exp.Expression, parser: Expressions) -> tuple[Visible, ...]:
        """Return the fields of a struct as columns; nothing of what is none."""
        try:
            struct = parser.expression(node)
        except SqlError:
            return ()
        names = [name for name, _ in parser.type_of(struct, node).fields or ()]
        return tuple(Visible(name, self.names.dialect.key_of(name), struct.field(name)) for name in names)

    def where(self, node: exp.Select, plan: Node, parser: Expressions) -> Node:
        """Return the rows that WHERE leaves."""
        where = node.args.get("where")
        if where is None:
            return plan
        present, others = clocks.split(where.this)
        conditions = [c for one in others for c in conjuncts(parser.expression(one))]
        for condition in conditions:
            refuse_aggregates(self.names, condition, where.this, "WHERE")
        plan = filtered(self.names, plan, self.conditions(conditions, where), where.this)
        return clocks.clocked(self.names, plan, parser, present, self.environment)

    def conditions(self, conditions: list[Expr], node: Any) -> list[Expr]:
        """Return conditions, once they are known to be some; those with subqueries when these are joined."""
        at = None if node is None else node.this
        what = "" if node is None else type(node).__name__.upper()
        return [c if _has_subquery(c) else self.names.condition(c, at, what) for c in conditions]

    def clause(self, node: exp.Select, name: str, parser: Expressions) -> list[Expr]:
        """Return the conditions of HAVING or QUALIFY."""
        found = node.args.get(name)
        if found is None:
            return []
        conditions = conjuncts(parser.expression(found.this))
        if name == "having":
            for condition in conditions:
                if any(isinstance(p, WindowCall) for p in walked(condition)):
                    raise self.names.error(found.this, "a window call in HAVING", "write QUALIFY, or use a subquery")
        return conditions

    def order(
        self, node: exp.Expression, items: list[Selected], outputs: dict[str, Expr], parser: Expressions
    ) -> list[tuple[SortKey, Any]]:
        """Return what ORDER BY says, over the rows that are selected from."""
        order = node.args.get("order")
        found = []
        for one in () if order is None else order.expressions:
            self.names.source.only(one, "this", "desc", "nulls_first")
            inner = one.this
            if isinstance(inner, exp.Literal) and not inner.is_string:
                number = int(inner.name) if inner.name.isdigit() else 0
                if not 1 <= number <= len(items):
                    raise self.names.error(inner, f"ORDER BY {inner.name}: there are {len(items)} columns")
                expression = items[number - 1].expr
            else:
                output = self.output(inner, outputs)
                expression = parser.expression(inner) if output is None else output
            by = parser.ordering(expression, inner)
            how = SortKey(by, bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
            found.append((how, inner))
        return found

    def output(self, node: exp.Expression, outputs: dict[str, Expr]) -> Expr | None:
        """Return the selected column that a bare name means."""
        bare = isinstance(node, exp.Column) and len(node.parts) == 1 and isinstance(node.this, exp.Identifier)
        return outputs.get(self.names.dialect.key(node.this)) if bare else None

    def distinct_on(self, node: exp.Select, parser: Expressions, outputs: dict[str, Expr]) -> list[Expr]:
        """Return the expressions of DISTINCT ON."""
        distinct = node.args.get("distinct")
        on = None if distinct is None else distinct.args.get("on")
        if on is None:
            return []
        given = on.expressions if isinstance(on, exp.Tuple) else [on]
        return [e if (e := self.output(one, outputs)) is not None else parser.expression(one) for one in given]

    def windowed(
        self, plan: Node, items: list[Selected], qualify: list[Expr], order: list[tuple[SortKey, Any]], on: list[Expr]
    ) -> tuple[Node, Any]:
        """Return the rows with the values of window calls, and what puts these in the calls' places."""
        names = self.names
        found: dict[Hashable, Expr] = {}
        calls: list[Named] = []
        places: list[Any] = []
        given = [(i.expr, i.node) for i in items] + [(e, None) for e in (*qualify, *on)]
        for expression, node in [*given, *((k.expression, n) for k, n in order)]:
            for part in walked(expression, into=lambda e: not isinstance(e, WindowCall)):
                if isinstance(part, WindowCall) and key(part) not in found:
                    plan, call = applied(names, plan, part)
                    assert isinstance(call, WindowCall)
                    field = self.call_field(call, node)
                    calls.append((field, call))
                    places.append(node)
                    found[key(part)] = Column(field.name)

        def replace(expression: Expr) -> Expr:
            return mapped(expression, lambda e: found.get(key(e)) if isinstance(e, WindowCall) else None)

        if calls:
            plan = Window(input=plan, calls=tuple(calls), span=names.source.span_of(places))
        return plan, replace

    def in_time(self, call: Expr) -> Expr:
        """Return a call with NULLs first, as watermarks have it, if what comes first in its order is never NULL."""
        if not isinstance(call, WindowCall) or not call.window.order:
            return call
        first, *rest = call.window.order
        plain = resolve(first.expression)
        if isinstance(plain, Column) and not self.names.fields[plain.name].nullable and not first.descending:
            first = attrs.evolve(first, nulls_first=True)
        return attrs.evolve(call, window=attrs.evolve(call.window, order=(first, *rest)))

    def call_field(self, call: WindowCall, node: Any) -> Field:
        names = self.names
        schema = names.schema([call])
        try:
            (bound,) = bind_windows([("call", call)], schema)
        except SchemaError as error:
            raise names.error(node, str(error.args[0])) from None
        (made,) = value_fields(bound.windows)
        return names.field(call.name, made.dtype, nullable=made.nullable)

    def projected(
        self, plan: Node, items: list[Selected], order: list[tuple[SortKey, Any]], on: list[Expr], node: exp.Select
    ) -> Relation:
        """Return the selected columns, each row once if so asked, and of these as many as are wanted."""
        names = self.names
        limits = limits_of(names, node)
        asked = [key(i.expr) for i in items]
        for one in items:
            plan, one.expr = applied(names, plan, one.expr)
        named: dict[str, Named] = {}
        places: dict[Hashable, Expr] = {}

        def column(expression: Expr, name: str, at: Any) -> Expr:
            if is_null(expression):
                return expression
            found = places.get(key(expression))
            if found is None:
                field, made = names.column(expression, name, at)
                if field.name in named or not any(f.name == field.name for f in plan.columns):
                    field = names.again(field) if isinstance(expression, Column) else field
                named[field.name] = field, made
                found = places[key(expression)] = Column(field.name)
            return found

        visible = tuple(Visible(i.name, i.key, column(i.expr, i.name, i.node)) for i in items)
        distinct, chosen = node.args.get("distinct"), len(named)
        keys = []
        for how, at in order:
            same = key(how.expression)
            if same in asked:  # with its subqueries, which are joined once
                keys.append(attrs.evolve(how, expression=visible[asked.index(same)].expr))
                continue
            plan, expression = applied(names, plan, how.expression)
            keys.append(attrs.evolve(how, expression=column(expression, "order", at)))
        if distinct is not None and not on and len(named) > chosen:
            raise names.error(node.args["order"], "ORDER BY of a SELECT DISTINCT is by what it selects")
        on = [column(e, "on", node) for e in on]
        keys = [k for k in keys if not is_null(k.expression)]
        if not named:
            field = names.field("nothing", INT32, nullable=False)
            named[field.name] = field, lit(0).cast(INT32)
        span = names.source.span_of([i.node for i in items])
        made: Node = Project(input=plan, named=tuple(named.values()), span=span)
        if on:
            by = tuple(keys) or (asc(lit(1)),)
            made = TopK(input=made, keys=tuple(on), order=by, count=1)
        elif distinct is not None:
            made = Distinct(input=made)
        if limits.ties and not keys:
            raise names.error(node.args["limit"], "FETCH ... WITH TIES without ORDER BY")
        if limits.cuts:
            made = cut(made, keys, limits)
            made = attrs.evolve(made, span=names.source.span(node.args.get("order") or node.args.get("limit")))
        return Relation(made, visible, tuple(keys))


def _has_aggregate(expression: Expr) -> bool:
    """Return whether there is an aggregate of groups in an expression."""
    return any(isinstance(p, Aggregate) or (isinstance(p, Call) and p.function == GROUPING) for p in walked(expression))


def _has_subquery(expression: Expr) -> bool:
    return any(isinstance(p, Sub) for p in walked(expression))
