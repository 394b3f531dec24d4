"""PIVOT, which makes columns of rows, and UNPIVOT, which makes rows of columns, behind a table in FROM."""

from __future__ import annotations

from itertools import product
from typing import Any

import attrs
from sqlglot import exp

from tidemill.expressions.aggregate_functions import Aggregate, count
from tidemill.expressions.expr import Call, Column, Expr, lit
from tidemill.sql import tables
from tidemill.sql.decorrelate import COUNTS
from tidemill.sql.expressions import Expressions
from tidemill.sql.plan import Filter, Group, Named, read
from tidemill.sql.scopes import Item, Names, Relation, Visible
from tidemill.sql.trees import is_null

_NAMING = ("identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "columns")


def pivoted(names: Names, parser: Expressions, item: Item, node: exp.Pivot) -> Relation:
    """Return rows of groups with aggregates of each of some values of columns as columns."""
    names.source.only(node, "expressions", "fields", "alias", "group", *_NAMING)
    is_spark = names.dialect.name == "spark"
    fields = node.args.get("fields") or ()
    for field in fields:
        if not isinstance(field, exp.In) or not field.expressions:
            hint = "list the values, as in ON column IN ('a', 'b')"
            raise names.error(field, "the columns of a PIVOT without IN depend on the rows", hint)
        if not isinstance(field.this, exp.Column):
            raise names.error(field, "PIVOT is by columns", "compute what it is by in a subquery")
    if not fields or (len(fields) > 1 and is_spark):
        raise names.error(node, "PIVOT is by values of one column that are written out: FOR column IN (...)")
    columns = [parser.expression(field.this) for field in fields]
    used = set(read(columns))
    named: list[Named] = []
    visible: list[Visible] = []
    for values in product(*(field.expressions for field in fields)):
        by, conditions = [], []
        for column, value in zip(columns, values, strict=True):
            given, alias = _unaliased(value)
            if given.find(exp.Column, exp.Query):
                reason = f"PIVOT is by values: `{names.source.written(given)}` is no value that is written out"
                raise names.error(given, reason, "write IN (1, 'a') and so on")
            constant = parser.expression(given)
            by.append(_shown(names, given) if alias is None else alias.name)
            test = column.is_null() if is_null(constant) else column == constant
            conditions.append(names.condition(test, value, "PIVOT"))
        is_value = conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions))
        for one in node.expressions:
            made = parser.expression(one.this if isinstance(one, exp.Alias) else one)
            if not isinstance(made, Aggregate):
                raise names.error(one, f"`{names.source.written(one)}` is no aggregate, and PIVOT takes such")
            used |= read([made])
            condition = is_value if made.condition is None else made.condition & is_value
            field, aggregate = names.aggregate(attrs.evolve(made, condition=condition), one)
            named.append((field, aggregate))
            last = one.args["alias"].name if isinstance(one, exp.Alias) else names.source.written(one)
            is_plain = len(node.expressions) == 1 and (is_spark or not isinstance(one, exp.Alias))
            shown = "_".join(by if is_plain else [*by, last])
            result: Expr = Column(field.name)
            if is_spark and made.function in COUNTS:  # which counts nothing where there is no row
                some = names.aggregate(count().filter(is_value), one)
                named.append(some)
                result = Call("case", (Column(some[0].name) > 0, result, lit(None)))
            visible.append(Visible(shown, names.dialect.key_of(shown), result))
    kept = _kept(names, parser, item, node, used)
    keys = tuple((names.again(names.fields[c.expr.name]), c.expr) for c in kept)  # type: ignore[attr-defined]
    group = Group(input=item.plan, keys=keys, aggregates=tuple(named))
    of_key = [Visible(c.name, c.key, Column(f.name)) for c, (f, _) in zip(kept, keys, strict=True)]
    return Relation(group, (*of_key, *visible))


def _unaliased(node: Any) -> tuple[Any, exp.Identifier | None]:
    """Return what a node names, and the name."""
    return (node.this, node.args["alias"]) if isinstance(node, (exp.PivotAlias, exp.Alias)) else (node, None)


def _shown(names: Names, value: exp.Expression) -> str:
    """Return what the column of a value without a name is called: a literal, of whatever type, by what it says."""
    literal = value.this if isinstance(value, exp.Cast) else value
    return literal.name if isinstance(literal, exp.Literal) else names.source.written(value)


def _kept(names: Names, parser: Expressions, item: Item, node: exp.Pivot, used: set[str]) -> list[Visible]:
    """Return the columns that groups are by: those of GROUP BY or, without one, all that are not read."""
    group = node.args.get("group")
    if group is None:
        return [c for c in item.star if isinstance(c.expr, Column) and c.expr.name not in used]
    names.source.only(group, "expressions")
    return [_column(names, parser, item, one) for one in group.expressions]


def _column(names: Names, parser: Expressions, item: Item, node: exp.Expression) -> Visible:
    """Return the column that a node names."""
    found = parser.expression(node)
    for column in item.star:
        if isinstance(found, Column) and isinstance(column.expr, Column) and column.expr.name == found.name:
            return column
    raise names.error(node, f"`{names.source.written(node)}` is no column of the table", "compute it in a subquery")


def unpivoted(names: Names, parser: Expressions, item: Item, node: exp.Pivot) -> Relation:
    """Return a row for each of some columns of each row, with the column's name and value, unless that is NULL."""
    names.source.only(node, "expressions", "fields", "alias", "unpivot", "include_nulls", *_NAMING)
    fields: Any = node.args.get("fields") or ()
    within: Any = fields[0] if len(fields) == 1 else None
    if within is None or not within.expressions or len(node.expressions) != 1:
        raise names.error(node, "UNPIVOT is of columns that are written out: UNPIVOT (value FOR name IN (a, b))")
    parts = [_unaliased(one) for one in within.expressions]
    columns = [_column(names, parser, item, one) for one, _ in parts]
    shown = [c.name if alias is None else alias.name for c, (_, alias) in zip(columns, parts, strict=True)]
    made = tables.each(names, node, [c.expr for c in columns], ("pos", "value"), first=0)
    plan, (place, value) = tables.beside(names, item.plan, made, outer=False)
    if not node.args.get("include_nulls"):
        plan = Filter(input=plan, conditions=(value.expr.is_not_null(),))
    cases = [part for i, name in enumerate(shown[:-1]) for part in (place.expr == i, lit(name))]
    added = [(within.this, Call("case", (*cases, lit(shown[-1])))), (node.expressions[0], value.expr)]
    gone = {id(c) for c in columns}
    new = [Visible(_name(names, n), names.dialect.key(_identifier(n)), expression) for n, expression in added]
    return Relation(plan, (*(c for c in item.star if id(c) not in gone), *new))


def _identifier(node: Any) -> Any:
    return node.this if isinstance(node, exp.Column) else node


def _name(names: Names, node: Any) -> str:
    return names.dialect.written(_identifier(node))
