"""Queries: SELECT, set operations, VALUES, and the WITH before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from sqlglot import exp

from tidemill.expressions.binding import bind
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.expr import Column, Expr
from tidemill.expressions.functions import NULL, common_type
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType
from tidemill.sql.expressions import Expressions
from tidemill.sql.plan import Distinct, Named, Node, Project, SetOp, Values
from tidemill.sql.recursion import mutual_recursion, plain_recursion, refers_to
from tidemill.sql.scopes import Item, Names, Relation, Scope, Visible
from tidemill.sql.selects import Select, Selected, cut, limits_of
from tidemill.sql.sources import Environment, fresh
from tidemill.sql.syntax import LIMITS
from tidemill.sql.trees import is_null

_OPERATIONS = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}


@attrs.frozen(eq=False)
class Queries:
    """Reads queries in which tables' names mean what an environment says."""

    names: Names
    environment: Environment

    def __call__(self, node: exp.Expression, scope: Scope | None) -> Relation:
        """Return the rows of a query; ``scope`` is that of the query around it."""
        with_ = node.args.get("with_")
        inner = self if with_ is None else self._with(with_, scope)
        if isinstance(node, exp.Select):
            return Select(inner.names, inner.environment, scope, inner).relation(node)
        if isinstance(node, exp.SetOperation):
            return inner.set_operation(node, scope)
        if isinstance(node, exp.Values):
            return inner.values(node, scope)
        if isinstance(node, exp.Subquery):
            self.names.source.only(node, "this", "with_", "alias", "order", "limit", "offset", "joins", "pivots")
            return inner.ordered(inner(node.this, scope), node, scope)
        if isinstance(node, exp.Paren):
            return inner(node.this, scope)
        raise self.names.error(node, f"{type(node).__name__.upper()} is no query", "expected SELECT or VALUES")

    def having(self, key: str, made: Callable[[], Relation]) -> Queries:
        """Return what reads queries in which one more name means something."""
        return Queries(self.names, {**self.environment, key: made})

    def _with(self, node: exp.With, scope: Scope | None) -> Queries:
        names = self.names
        names.source.only(node, "expressions", "recursive")
        if LIMITS in node.meta:
            blocks: Queries = mutual_recursion(self, node, scope)
            return blocks
        inner = Queries(names, dict(self.environment))
        own: set[str] = set()
        for cte in node.expressions:
            names.source.only(cte, "this", "alias", "materialized")
            key = names.dialect.key(cte.args["alias"].this)
            if key in own:
                raise names.error(cte.args["alias"], f"`{key}` is twice in WITH", "give one of them another name")
            own.add(key)
            if node.args.get("recursive") and refers_to(names, cte.this, key):
                found = plain_recursion(inner, cte, key, scope)
            else:
                found = inner(cte.this, scope)
            inner.environment[key] = self._again(self.named(found, cte.args["alias"]))  # type: ignore[index]
        return inner

    def _again(self, relation: Relation) -> Callable[[], Relation]:
        return lambda: fresh(self.names, relation)

    def named(self, relation: Relation, alias: exp.TableAlias) -> Relation:
        """Return a relation with the names of columns that a table's alias gives."""
        given = alias.args.get("columns") or []
        if len(given) > len(relation.columns):
            raise self.names.error(given[0], f"{len(given)} names for {len(relation.columns)} columns")
        dialect = self.names.dialect
        pairs = zip(given, relation.columns, strict=False)
        columns = [Visible(dialect.written(g), dialect.key(g), c.expr) for g, c in pairs]
        return Relation(relation.plan, (*columns, *relation.columns[len(given) :]))

    def ordered(self, relation: Relation, node: exp.Expression, scope: Scope | None) -> Relation:
        """Return the rows that ORDER BY, LIMIT and OFFSET after a query leave."""
        limits = limits_of(self.names, node)
        order = node.args.get("order")
        if order is None and not limits.cuts:
            return relation
        select = Select(self.names, self.environment, scope, self)
        item = Item(relation.plan, relation.columns, ())
        items = [Selected(c.name, c.key, c.expr, node) for c in relation.columns]
        parser = Expressions(self.names, Scope(item, scope), self)
        keys = select.order(node, items, {c.key: c.expr for c in relation.columns}, parser)
        for how, at in keys:
            if not is_null(how.expression):
                self.names.typed(how.expression, at)
        by = [how for how, _ in keys if not is_null(how.expression)]
        if not limits.cuts:
            return attrs.evolve(relation, order=tuple(by))
        if limits.ties and not by:
            raise self.names.error(node.args["limit"], "FETCH ... WITH TIES without ORDER BY")
        return Relation(cut(relation.plan, by, limits), relation.columns, tuple(by))

    # -- set operations ------------------------------------------------------------------------------------------------

    def set_operation(self, node: exp.SetOperation, scope: Scope | None) -> Relation:
        """Return what UNION, INTERSECT or EXCEPT make of two queries, or of a long chain of them."""
        chain: list[exp.SetOperation] = []
        first: Any = node
        while isinstance(first, exp.SetOperation) and (first is node or not first.args.get("with_")):
            chain.append(first)
            first = first.this
        made = self(first, scope)
        for one in reversed(chain):
            self.names.source.only(one, "this", "expression", "distinct", "with_", "order", "limit", "offset")
            made = self.ordered(self._combined(one, made, self(one.expression, scope)), one, scope)
        return made

    def _combined(self, node: exp.SetOperation, left: Relation, right: Relation) -> Relation:
        names = self.names
        operation = _OPERATIONS[type(node)]
        if len(left.columns) != len(right.columns):
            reason = f"{operation.upper()} of {len(left.columns)} columns with {len(right.columns)}"
            raise names.error(node.expression, reason, "expected as many on both sides")
        return combined(names, operation, left, right, node.expression, all_rows=not node.args.get("distinct"))

    # -- VALUES --------------------------------------------------------------------------------------------------------

    def values(self, node: exp.Values, scope: Scope | None) -> Relation:
        """Return the rows of VALUES, whose columns are called col1, col2 and so on, or as the dialect has it."""
        names = self.names
        names.source.only(node, "expressions", "alias", "order", "limit", "offset", "with_")
        parser = Expressions(names, Scope(None, scope), self)
        rows = []
        for row in node.expressions:
            given = row.expressions if isinstance(row, exp.Tuple) else [row]
            if not given:
                raise names.error(row, "a row of VALUES without values")
            rows.append([parser.expression(e) for e in given])
            if len(given) != len(rows[0]):
                raise names.error(row, f"a row of VALUES has {len(given)} values, and the first one {len(rows[0])}")
        types = [common(names, [row[i] for row in rows], node) for i in range(len(rows[0]))]
        if NULL in types:
            raise names.error(node, "a column of VALUES is NULL in all rows and has no type", "cast one of them")
        base, start = ("column", 1) if names.dialect.folds else ("col", int(names.dialect.name == "spark"))
        fields = [names.field(f"{base}{i}", t) for i, t in enumerate(types, start)]
        made = tuple(tuple(self._literal(e, t, node) for e, t in zip(row, types, strict=True)) for row in rows)
        plan = Values(rows=made, columns=tuple(fields))
        visible = [Visible(f"{base}{i}", f"{base}{i}", Column(f.name)) for i, f in enumerate(fields, start)]
        return self.ordered(Relation(plan, tuple(visible)), node, scope)

    def _literal(self, expression: Expr, dtype: DType, node: exp.Expression) -> Any:
        bound = bind(expression.cast(dtype), Schema(()))
        if not isinstance(bound, BoundLiteral):
            raise self.names.error(node, "VALUES takes values that are written out", "write SELECT ... UNION ALL")
        return bound.value


def common(names: Names, expressions: list[Expr], node: Any) -> DType:
    """Return the type that all expressions widen to; unknown where all of them are a bare NULL."""
    types = [names.type_of(e, node) for e in expressions]
    found = common_type(types)
    if found is None:
        said = " and ".join(dict.fromkeys(str(t) for t in types))
        raise names.error(node, f"values of types {said} in one column", "cast one of them")
    return found


def combined(names: Names, operation: str, left: Relation, right: Relation, node: Any, *, all_rows: bool) -> Relation:
    """Return two relations of as many columns together, each column of the type that both widen to."""
    visible: list[Visible] = []
    sides: tuple[list[Named], list[Named]] = ([], [])
    fields = []
    for a, b in zip(left.columns, right.columns, strict=True):
        dtype = common(names, [a.expr, b.expr], node)
        if dtype == NULL:
            visible.append(a)
            continue
        lengths = {names.char_length(side.expr) for side in (a, b)}
        if len(lengths) > 1:
            hint = "cast both sides to TEXT, or to the same CHAR(n)"
            raise names.error(node, f"{operation.upper()} of CHAR(n) with another type is not supported", hint)
        nullable = False
        for one, named in zip((a, b), sides, strict=True):
            given = names.type_of(one.expr, node)
            field = names.field(a.name, dtype)
            made, bound = names.typed(one.expr if given == dtype else one.expr.cast(dtype), node)
            nullable = nullable or bound.nullable
            named.append((attrs.evolve(field, nullable=bound.nullable), made))
        out = names.with_length(names.field(a.name, dtype, nullable=nullable), *lengths)
        fields.append(out)
        visible.append(Visible(a.name, a.key, Column(out.name)))
    if not fields:
        raise names.error(node, "a set operation of columns that are all NULL and have no type", "cast one of them")
    inputs: list[Node] = [
        Project(input=r.plan, named=tuple(named)) for r, named in zip((left, right), sides, strict=True)
    ]
    every = all_rows or operation == "union"
    plan: Node = SetOp(left=inputs[0], right=inputs[1], operation=operation, all_rows=every, columns=tuple(fields))
    if operation == "union" and not all_rows:
        plan = Distinct(input=plan)
    return Relation(plan, tuple(visible))
