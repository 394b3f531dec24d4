"""Recursion: WITH MUTUALLY RECURSIVE, whose columns have types, and SQL's WITH RECURSIVE, as blocks of bindings."""

from __future__ import annotations

from typing import Any

import attrs
from sqlglot import exp

from tidemill.expressions.expr import Column, Expr
from tidemill.expressions.functions import NULL, widens
from tidemill.expressions.schema import Field
from tidemill.expressions.types import DType
from tidemill.sql.plan import (
    AtMostOne,
    Binding,
    Block,
    Distinct,
    Group,
    Join,
    Named,
    Node,
    Project,
    Recursive,
    SetOp,
    TopK,
    Window,
    free,
    nodes,
)
from tidemill.sql.scopes import Names, Relation, Scope, Visible
from tidemill.sql.syntax import LIMITS
from tidemill.sql.trees import is_null
from tidemill.sql.types import type_of


def refers_to(names: Names, node: exp.Expression, key: str) -> bool:
    """Return whether a name stands for a table somewhere in a query."""
    return any(
        isinstance(t.this, exp.Identifier) and len(t.parts) == 1 and names.dialect.key(t.this) == key
        for t in node.find_all(exp.Table)
    )


def _read(names: Names, block: Block, name: str, fields: tuple[Field, ...], keys: list[tuple[str, str]]) -> Relation:
    """Return what a binding holds where it is read."""
    own = tuple(names.field(f.name, f.dtype) for f in fields)
    plan = Recursive(block=block, name=name, names=tuple(f.name for f in fields), columns=own)
    visible = tuple(Visible(shown, key, Column(f.name)) for (shown, key), f in zip(keys, own, strict=True))
    return Relation(plan, visible)


def mutual_recursion(queries: Any, node: exp.With, scope: Scope | None) -> Any:
    """Return what reads queries in which the names of the bindings mean their fixed points."""
    names, dialect = queries.names, queries.names.dialect
    limits: dict[str, int | None] = dict(node.meta[LIMITS])
    if len(limits) > 1:
        raise names.error(node, "ERROR AT and RETURN AT exclude each other", "give one of them")
    block = Block(name="with mutually recursive", limits=limits)
    inner = queries
    declared: list[tuple[exp.CTE, str, tuple[Field, ...], list[tuple[str, str]]]] = []
    for cte in node.expressions:
        alias = cte.args["alias"]
        key = dialect.key(alias.this)
        if any(key == known for _, known, _, _ in declared):
            raise names.error(alias, f"binding `{key}` is there twice")
        columns = alias.args["columns"]
        fields = tuple(
            names.field(dialect.written(c.this), type_of(c.args["kind"], names.source, dialect)) for c in columns
        )
        keys = [(dialect.written(c.this), dialect.key(c.this)) for c in columns]
        for at, (_, one) in enumerate(keys):
            if any(one == other for _, other in keys[:at]):
                raise names.error(columns[at], f"column `{one}` of binding `{key}` is there twice")
        declared.append((cte, key, fields, keys))
        inner = inner.having(key, lambda k=key, f=fields, v=keys: _read(names, block, k, f, v))
    for cte, key, fields, keys in declared:
        found = inner(cte.this, scope)
        if len(found.columns) != len(fields):
            reason = f"binding `{key}` has {len(fields)} columns, and its query {len(found.columns)}"
            raise names.error(cte.this, reason)
        value = _assigned(names, found, fields, [k for k, _ in keys], cte.this)
        _closed(names, value, cte)
        block.bindings.append(Binding(name=key, fields=fields, value=value))
    return inner


@attrs.frozen(eq=False)
class Declared:
    """Views that DECLARE RECURSIVE VIEW names, until all of them are made; others between them may read them."""

    aliases: dict[str, exp.TableAlias] = attrs.field(factory=dict)
    created: list[tuple[str, exp.Create]] = attrs.field(factory=list)

    @property
    def missing(self) -> list[exp.TableAlias]:
        """Those that are still to be made."""
        made = dict(self.created)
        return [alias for key, alias in self.aliases.items() if key not in made]

    def relations(self, queries: Any) -> list[tuple[exp.Create, Relation | None]]:
        """Return the declared views with their rows, each of them once, and the others, which may be made then."""
        others = [_named(create) for key, create in self.created if key not in self.aliases]
        bindings = []
        for key, create in self.created:
            if key in self.aliases:
                rows = exp.Subquery(this=create.expression.copy())
                query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=rows), distinct=exp.Distinct())
                if others:
                    query.set("with_", exp.With(expressions=[o.copy() for o in others]))
                bindings.append(exp.CTE(this=query, alias=self.aliases[key]))
        with_ = exp.With(expressions=bindings, recursive=True)
        with_.meta[LIMITS] = {}
        made = mutual_recursion(queries, with_, None)
        return [(c, made.environment[key]() if key in self.aliases else None) for key, c in self.created]


def _named(create: exp.Create) -> exp.CTE:
    """Return a view as WITH has it."""
    target, columns = create.this, []
    if isinstance(target, exp.Schema):
        target, columns = target.this, [c.this if isinstance(c, exp.ColumnDef) else c for c in target.expressions]
    alias = exp.TableAlias(this=target.this.copy(), columns=[c.copy() for c in columns])
    return exp.CTE(this=create.expression.copy(), alias=alias)


def _closed(names: Names, value: Node, node: exp.Expression) -> None:
    if free(value):
        raise names.error(node, "a recursive query that reads columns of a query around it is not supported")


def _assigned(names: Names, found: Relation, fields: tuple[Field, ...], shown: list[str], node: Any) -> Node:
    """Return rows as what a binding's columns are declared to hold."""
    named: list[Named] = []
    for column, field, name in zip(found.columns, fields, shown, strict=True):
        given = names.type_of(column.expr, node)
        if names.char_length(column.expr) is not None:
            raise names.error(node, f"column `{name}` of CHAR(n) in recursion is not supported", "cast it to TEXT")
        if given != NULL and not widens(given, field.dtype) and not _both_numbers(given, field.dtype):
            reason = f"column `{name}` is declared {field.dtype}, and its query gives {given}"
            raise names.error(node, reason, "cast it in the query")
        expression: Expr = column.expr if given == field.dtype else column.expr.cast(field.dtype)
        named.append((names.again(field), expression))
    return Project(input=found.plan, named=tuple(named))


def _both_numbers(given: DType, wanted: DType) -> bool:
    """Return whether an assignment casts: among numbers, where what does not fit is an error of the row."""
    return given.is_numeric and wanted.is_numeric and not (given.name == "float64" and wanted.name != "float64")


def plain_recursion(queries: Any, cte: exp.CTE, key: str, scope: Scope | None) -> Relation:
    """Return the fixed point of WITH RECURSIVE: what begins it, and what each row adds."""
    names = queries.names
    union = cte.this
    while isinstance(union, (exp.Paren, exp.Subquery)) and not union.args.get("with_"):
        union = union.this
    if not isinstance(union, exp.Union):
        hint = "write WITH MUTUALLY RECURSIVE for other recursion"
        raise names.error(cte, f"recursive query `{key}` is no UNION of what begins it and what goes on", hint)
    names.source.only(union, "this", "expression", "distinct", "with_")
    if union.args.get("with_") is not None:
        raise names.error(union, "a WITH inside of a recursive query is not supported", "put it before")
    if refers_to(names, union.this, key):
        raise names.error(union.this, f"the first part of recursive query `{key}` reads `{key}` itself")
    begun = queries.named(queries(union.this, scope), cte.args["alias"])
    for column in begun.columns:
        if is_null(column.expr):
            raise names.error(union.this, f"column `{column.name}` begins as NULL, which has no type", "cast it")
    fields = tuple(names.field(c.name, names.type_of(c.expr, union.this)) for c in begun.columns)
    keys = [(c.name, c.key) for c in begun.columns]
    block = Block(name=key)
    inner = queries.having(key, lambda: _read(names, block, key, fields, keys))
    more = inner(union.expression, scope)
    if len(more.columns) != len(fields):
        raise names.error(union.expression, f"UNION of {len(fields)} columns with {len(more.columns)}")
    _linear(names, block, more.plan, key, union.expression)
    shown = [c.name for c in begun.columns]
    left = _assigned(names, begun, fields, shown, union.this)
    right = _assigned(names, more, fields, shown, union.expression)
    columns = tuple(names.again(f) for f in fields)
    value: Node = SetOp(left=left, right=right, operation="union", all_rows=True, columns=columns)
    if union.args.get("distinct"):
        value = Distinct(input=value)
    _closed(names, value, cte)
    block.bindings.append(Binding(name=key, fields=fields, value=value))
    return _read(names, block, key, fields, keys)


def _linear(names: Names, block: Block, plan: Node, key: str, node: Any) -> None:
    """Refuse a step that is more than a function of single rows: it would mean something else for all rows at once."""
    reads: dict[int, int] = {}
    hint = "WITH MUTUALLY RECURSIVE has recursion of any kind"
    for one in nodes(plan):
        below = [reads.get(id(i), 0) for i in one.inputs]
        reads[id(one)] = int(isinstance(one, Recursive) and one.block is block) + sum(below)
        kinds = (Group, Window, TopK, Distinct, AtMostOne)
        wrong = isinstance(one, kinds) and any(below)
        wrong |= isinstance(one, SetOp) and any(below) and one.operation != "union"
        wrong |= isinstance(one, Join) and one.how != "inner" and (below[1] > 0 or (one.how == "full" and any(below)))
        if wrong:
            what = type(one).__name__.lower()
            raise names.error(node, f"recursive query `{key}` reads itself below {what}", hint)
    if reads[id(plan)] > 1:
        raise names.error(node, f"recursive query `{key}` reads itself more than once", hint)
