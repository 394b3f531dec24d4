"""What names mean: the columns of FROM's items, of queries around, of CTEs; and the types of expressions over them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from sqlglot import exp

from tidemill.errors import SchemaError, SqlError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.aggregates import bind_aggregate
from tidemill.expressions.binding import bind, bind_predicate
from tidemill.expressions.bound import Bound
from tidemill.expressions.expr import Call, Column, Expr, Literal
from tidemill.expressions.functions import NULL
from tidemill.expressions.rewriting import can_fail
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.types import DType
from tidemill.sql.dialects import Dialect
from tidemill.sql.plan import Node
from tidemill.sql.syntax import Source
from tidemill.sql.trees import columns_of, is_null

_NUMBERED = re.compile(r"#\d+")
_QUOTED = re.compile(r"`([A-Za-z_]\w*)#\d+`")


@attrs.frozen(eq=False)
class Visible:
    """A column that a name can mean."""

    name: str
    key: str
    expr: Expr
    """A column of the plan, or a bare NULL, which has no type yet."""


@attrs.frozen(eq=False)
class Relation:
    """Rows with named columns: a table, a query, or what FROM gives."""

    plan: Node
    columns: tuple[Visible, ...]
    order: tuple[SortKey, ...] = ()
    """What ORDER BY says, over the plan's columns."""


@attrs.frozen(eq=False)
class Item:
    """What FROM gives: its rows, its columns without a qualifier, and with the qualifiers they have."""

    plan: Node
    star: tuple[Visible, ...]
    qualified: tuple[tuple[str, tuple[Visible, ...]], ...]


@attrs.frozen(eq=False)
class Scope:
    """The columns that names can mean in a query, then those of queries around it."""

    item: Item | None
    parent: Scope | None = None
    aliases: dict[str, Expr] = attrs.field(factory=dict)
    """What SELECT has named so far, which other names hide."""
    before: dict[str, Expr] = attrs.field(factory=dict)
    """What SELECT names, where that hides other names."""


class Names:
    """The columns of a statement, each of a name of its own, and what is known of them."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self.source = source
        self.dialect = dialect
        self.fields: dict[str, Field] = {}
        self._numbers: dict[str, int] = {}
        self.lengths: dict[str, int] = {}
        """Of columns of CHAR(n) how long they are, in dialects in which blanks at their end count for nothing."""
        self._failing: dict[int, tuple[Expr, bool]] = {}

    def field(self, name: str, dtype: DType, *, nullable: bool = True) -> Field:
        """Return a new column."""
        base = _NUMBERED.sub("", name) or "column"
        number = self._numbers[base] = self._numbers.get(base, 0) + 1
        made = Field(f"{base}#{number}", dtype, nullable)
        self.fields[made.name] = made
        return made

    def again(self, field: Field, *, nullable: bool | None = None) -> Field:
        """Return a new column like another."""
        made = self.field(field.name, field.dtype, nullable=field.nullable if nullable is None else nullable)
        return self.with_length(made, self.lengths.get(field.name))

    def with_length(self, field: Field, length: int | None) -> Field:
        """Return a column, which is one of CHAR(n) if it has a length."""
        if length is not None:
            self.lengths[field.name] = length
        return field

    def char_length(self, expression: Expr) -> int | None:
        """Return the length of a value of CHAR(n): of a column, or of a cast, which alone fills up."""
        if isinstance(expression, Column):
            return self.lengths.get(expression.name)
        if isinstance(expression, Call) and expression.function == "rpad" and self.dialect.folds:
            length = expression.args[1]
            return length.value if isinstance(length, Literal) else None
        return None

    def schema(self, expressions: Iterable[Expr]) -> Schema:
        """Return the schema of all columns that expressions read."""
        names = dict.fromkeys(n for e in expressions for n in sorted(columns_of(e)))
        return Schema(tuple(self.fields[n] for n in names))

    def typed(self, expression: Expr, node: Any) -> tuple[Expr, Bound]:
        """Return an expression that has a type, bound over the columns it reads; a bare NULL is an error."""
        return self._checked(expression, node, lambda e: bind(e, self.schema([e])))

    def condition(self, expression: Expr, node: Any, what: str) -> Expr:
        """Return a condition, once it is known to be one."""
        return self._checked(expression, node, lambda e: bind_predicate(e, self.schema([e]), what))[0]

    def _checked(self, expression: Expr, node: Any, check: Callable[[Expr], Bound]) -> tuple[Expr, Bound]:
        try:
            return expression, check(expression)
        except SchemaError as error:
            raise self.error(node, plain(error)) from None

    def column(self, expression: Expr, name: str, node: Any) -> tuple[Field, Expr]:
        """Return a new column that an expression computes; a column stays what it is."""
        if isinstance(expression, Column):
            return self.fields[expression.name], expression
        made, bound = self.typed(expression, node)
        field = self.field(name, bound.dtype, nullable=bound.nullable)
        return self.with_length(field, self.char_length(expression)), made

    def aggregate(self, aggregate: Aggregate, node: Any) -> tuple[Field, Aggregate]:
        """Return a new column that an aggregate of groups computes."""
        try:
            bound = bind_aggregate(aggregate, aggregate.function, self.schema([aggregate]))
        except SchemaError as error:
            raise self.error(node, str(error.args[0])) from None
        return self.field(aggregate.function, bound.output, nullable=bound.nullable), aggregate

    def type_of(self, expression: Expr, node: Any) -> DType:
        """Return the type of an expression; that of a bare NULL is unknown."""
        if isinstance(expression, Column) and expression.name in self.fields:
            return self.fields[expression.name].dtype
        return NULL if is_null(expression) else self.typed(expression, node)[1].dtype

    def can_fail(self, expression: Expr) -> bool:
        """Return whether some row may be an error; what is no expression of one row is taken for one."""
        if isinstance(expression, Column):
            return False
        if id(expression) not in self._failing:
            try:
                found = can_fail(bind_any(expression, self.schema([expression])))
            except SchemaError:
                found = True
            self._failing[id(expression)] = expression, found
        return self._failing[id(expression)][1]

    def error(self, node: Any, reason: str, hint: str | None = None) -> SqlError:
        """Return the error that points to a node."""
        return self.source.error(node, self.dialect.named(plain(reason)), hint)

    def find(self, scope: Scope | None, node: exp.Column) -> Expr:
        """Return what a name means, a column or a field of one; `SqlError` where that is nothing, or several things."""
        self.source.only(node, "this", "table", "db", "catalog")
        parts, around = node.parts, scope
        while around is not None:
            for n in range(len(parts), 0, -1):
                found = self._column_in(around, parts[:n], node)
                if found is not None and (n == len(parts) or self.type_of(found, node).fields):
                    return functools.reduce(
                        lambda of, part: self.field_of(of, self.type_of(of, node), part, node), parts[n:], found
                    )
            around = around.parent
        raise self._unknown(scope, node, ".".join(map(self.dialect.key, parts[:-1])), self.dialect.key(node.this))

    def field_of(self, struct: Expr, dtype: DType, name: Any, node: Any) -> Expr:
        """Return a field of a struct of a type; its name matches as those of columns do."""
        known, key = [n for n, _ in dtype.fields], self.dialect.key(name)
        same = [n for n in known if n == self.dialect.written(name)]
        found = same or [n for n in known if self.dialect.key_of(n) == key]
        if len(found) != 1:
            reason = f"no field `{name.name}`" if not found else f"field `{name.name}` is ambiguous"
            raise self.error(node, reason, did_you_mean(key, known) if known else "it is of no struct")
        return struct.field(found[0])

    def _column_in(self, scope: Scope, parts: Sequence[Any], node: exp.Column) -> Expr | None:
        """Return the column of a name in a scope, around which nobody looks yet."""
        qualifier, key = ".".join(map(self.dialect.key, parts[:-1])), self.dialect.key(parts[-1])
        if not qualifier and key in scope.before:
            return scope.before[key]
        found = _matches(scope.item, qualifier, key)
        if len(found) > 1:
            of = f" of `{qualifier}`" if qualifier else ""
            raise self.error(node, f"column `{parts[-1].name}`{of} is ambiguous", "say of which table, as in t.x")
        if found:
            return found[0].expr
        return None if qualifier else scope.aliases.get(key)

    def _unknown(self, scope: Scope | None, node: exp.Column, qualifier: str, key: str) -> SqlError:
        known: list[str] = []
        tables: list[str] = []
        while scope is not None:
            for of, columns in () if scope.item is None else scope.item.qualified:
                tables.append(of)
                known += [c.name for c in columns if not qualifier or _is_of(of, qualifier)]
            known += scope.aliases
            scope = scope.parent
        if qualifier and not any(_is_of(t, qualifier) for t in tables):
            return self.error(node, f"no table `{qualifier}` in FROM", did_you_mean(qualifier, tables))
        where = f" in `{qualifier}`" if qualifier else ""
        return self.error(
            node, f"no column `{self.dialect.written(node.this)}`{where}", did_you_mean(key, dict.fromkeys(known))
        )


def bind_any(expression: Expr, schema: Schema) -> Bound:
    """Return an expression bound, whether or not it is a condition that is NULL alone."""
    try:
        return bind(expression, schema)
    except SchemaError:
        return bind_predicate(expression, schema, "")


def plain(reason: SchemaError | str) -> str:
    """Return what an error of the library says, with columns by the names that users know."""
    said = reason if isinstance(reason, str) else str(reason.args[0])
    return _NUMBERED.sub("", _QUOTED.sub(r"\1", said))


def shown(field: Field) -> str:
    """Return a column's name as users know it."""
    return _NUMBERED.sub("", field.name)


def _is_of(qualifier: str, asked: str) -> bool:
    return qualifier == asked or qualifier.endswith("." + asked)


def _matches(item: Item | None, qualifier: str, key: str) -> list[Visible]:
    if item is None:
        return []
    if not qualifier:
        return [c for c in item.star if c.key == key]
    sources = [columns for of, columns in item.qualified if _is_of(of, qualifier)]
    return [c for columns in sources for c in columns if c.key == key]
