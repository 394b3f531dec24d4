"""What users call: a query as a collection, a script as tables that are inputs and views, plans as text."""

from __future__ import annotations

import contextlib
import datetime as dt
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from typing import Any, Final

import attrs
from sqlglot import exp

from tidemill.collections.building import Building
from tidemill.collections.collection import Collection, own
from tidemill.collections.recursion import one_row_a_key
from tidemill.dataflow.graph import explain
from tidemill.dataflow.nodes import Node as GraphNode
from tidemill.errors import GraphError, SchemaError, SqlError, TidemillError
from tidemill.expressions.expr import Alias, Column, Expr, col
from tidemill.expressions.recursion_guard import recursion_guard
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.types import STRING
from tidemill.sql import chars, clocks
from tidemill.sql.costs import cost
from tidemill.sql.describe import described, written
from tidemill.sql.dialects import Dialect, dialect_named
from tidemill.sql.expressions import Expressions
from tidemill.sql.lower import Lowering
from tidemill.sql.plan import Get, Named, Node, Project
from tidemill.sql.queries import Queries
from tidemill.sql.recursion import Declared
from tidemill.sql.rewrite import Rewriter
from tidemill.sql.scopes import Names, Relation, Visible, shown
from tidemill.sql.syntax import Source, parse, start_of
from tidemill.sql.trees import is_null
from tidemill.sql.types import checked, type_of

QUERIES: Final = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)
_TOO_DEEP: Final = "the text is nested too deeply"


def sql(
    flow: Building,
    text: str,
    dialect: str = "spark",
    tables: Mapping[str, Collection] | None = None,
    present: dt.datetime | None = None,
) -> Collection | dict[str, Collection]:
    """Return a query's collection, or the views of a script by name; see ``Dataflow.sql``.

    ``present`` is the time in UTC of a query that is asked once.
    """
    with _all_or_nothing(flow):
        return _Script(flow, text, dialect_named(dialect), tables or {}, present).made()


def in_order(
    flow: Building, text: str, dialect: str, tables: Mapping[str, Collection], present: dt.datetime
) -> tuple[Collection, list[SortKey]]:
    """Return a query's collection, what ORDER BY says of each row in columns behind its own, and how these sort."""
    with _all_or_nothing(flow):
        script = _Script(flow, text, dialect_named(dialect), tables, present)
        script.order = []
        made: Any = script.made()
        return made, script.order


def explain_sql(
    flow: Building, text: str, dialect: str = "spark", tables: Mapping[str, Collection] | None = None
) -> str:
    """Return the plans of a text, and the operators that it would add; see ``Dataflow.explain_sql``."""
    found: list[str] = []
    before = len(flow.graph.nodes)

    def describe() -> None:
        with _all_or_nothing(flow):
            script = _Script(flow, text, dialect_named(dialect), tables or {})
            script.made()
            for name, plan in script.plans:
                shown_plan = described(plan, text)
                found.append(f"{name}:\n{shown_plan}" if name else shown_plan)
            found.append("operators:\n" + "\n".join(_new_operators(flow, before)))
            raise _EnoughError

    # Nothing stays, so a dataflow that was started may be asked, too.
    frozen, flow.graph.frozen = flow.graph.frozen, False
    try:
        with contextlib.suppress(_EnoughError):
            describe()
    finally:
        flow.graph.frozen = frozen
    return "\n\n".join(found)


def _new_operators(flow: Building, before: int) -> Iterator[str]:
    """Iterate over the lines of operators that were added, each with what a change costs in it."""
    numbered = {str(n.id): n for n in flow.graph.nodes[before:]}
    for line in explain(flow.graph).splitlines():
        number = re.match(r" *#(\d+) ", line)
        if number and number[1] in numbered:
            said = cost(numbered[number[1]])
            yield f"{line}\n{' ' * number.end()}{said}" if said else line


class _EnoughError(Exception):
    """What was wanted is known, and nothing is to stay."""


@contextmanager
def _all_or_nothing(flow: Building) -> Iterator[None]:
    """Build something; where it goes wrong, leave no trace, and say so by a `SqlError` if it is the text's fault."""
    with flow.attempt():
        try:
            yield
        except RecursionError:
            raise SqlError(_TOO_DEEP) from None


def graph_tables(flow: Building) -> dict[str, Collection]:
    """Return the inputs of a dataflow, and its outputs, as tables."""
    found: dict[str, GraphNode] = {name: node.inputs[0] for name, node in flow.graph.outputs.items()}
    found |= flow.graph.inputs
    found |= flow.graph.read_as
    return {name: Collection(flow, node) for name, node in found.items()}


class _Script:
    """One text that is being made into collections."""

    def __init__(
        self,
        flow: Building,
        text: str,
        dialect: Dialect,
        tables: Mapping[str, Collection],
        present: dt.datetime | None = None,
    ) -> None:
        self.flow = flow
        self.dialect = dialect
        self.source, self.statements = _parsed(text, dialect.name)
        self.names = Names(self.source, dialect)
        self.plans: list[tuple[str, Node]] = []
        self.environment: dict[str, Callable[[], Relation]] = {}
        self.views: dict[str, Collection] = {}
        self.declared_views = Declared()
        self.order: list[SortKey] | None = None
        """How a query's rows sort, if that is asked for."""
        for name, collection in graph_tables(flow).items():
            self.add(name, collection)
        for name, collection in tables.items():
            self.add(name, own(flow, collection, f"tables[{name!r}]"))
        if present is not None and dialect.key_of(clocks.NOW) not in self.environment:
            for statement in self.statements:
                clocks.fix(statement, present)

    def add(self, name: str, collection: Collection) -> None:
        """Let a name mean a collection from here on."""
        self.environment[self.dialect.key_of(name)] = lambda: self.table(name, collection)

    def table(self, name: str, collection: Collection) -> Relation:
        """Return a collection's rows, its columns under names that are new."""
        lengths = chars.LENGTHS.get(collection.node, {})
        fields = tuple(
            self.names.with_length(self.names.field(f.name, f.dtype, nullable=f.nullable), lengths.get(f.name))
            for f in collection.schema
        )
        plan = Get(name=name, collection=collection, names=collection.schema.names, columns=fields)
        pairs = zip(collection.schema.names, fields, strict=True)
        return Relation(plan, tuple(Visible(n, self.dialect.key_of(n), Column(f.name)) for n, f in pairs))

    def made(self) -> Collection | dict[str, Collection]:
        """Return what the text stands for."""
        if len(self.statements) == 1 and isinstance(self.statements[0], QUERIES):
            with self.placed(self.statements[0]):
                return self.collection("", self.statements[0])
        for statement in self.statements:
            with self.placed(statement):
                self.statement(statement)
        for alias in self.declared_views.missing:
            hint = f"write CREATE VIEW {alias.this.name} AS ... behind it"
            raise self.names.error(alias, f"view `{alias.this.name}` is declared, and never made", hint)
        return self.views

    def placed(self, node: exp.Expression) -> AbstractContextManager[None]:
        """Have what is made meanwhile point to a statement, but what points to a part of it."""
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        made = self.dotted(target) if isinstance(node, exp.Create) and isinstance(target, exp.Table) else ""
        return self.flow.graph.written(written(self.source.span(node), self.source.text, made))

    def statement(self, node: exp.Expression) -> None:
        """Do what a statement of a script says."""
        if isinstance(node, QUERIES):
            raise self.names.error(node, "a query in a script has no name", "write CREATE VIEW name AS before it")
        alias = node.expressions[0] if isinstance(node, exp.Declare) else None
        if isinstance(alias, exp.TableAlias):
            if self.dialect.key(alias.this) in self.declared_views.aliases:
                raise self.names.error(node, f"view `{alias.this.name}` is declared twice", "leave one out")
            self.declared_views.aliases[self.dialect.key(alias.this)] = alias
            return
        if not isinstance(node, exp.Create):
            word = str(node.this if isinstance(node, exp.Command) else type(node).__name__).upper()
            what = "CREATE of this form" if word == "CREATE" else f"statement {word}"
            hint = "a script has CREATE TABLE, CREATE VIEW, CREATE MATERIALIZED VIEW and DECLARE RECURSIVE VIEW"
            raise SqlError(f"{what} is not supported", self.source.text, start_of(node), hint=hint)
        self.source.only(node, "this", "kind", "expression", "properties")
        kind = str(node.args["kind"]).upper()
        if kind == "TABLE" and node.expression is None:
            self.create_table(node)
        elif kind == "VIEW" and node.expression is not None:
            self.create_views(node)
        else:
            instead = "give the view another word: CREATE VIEW" if kind == "TABLE" else None
            raise self.names.error(node, f"CREATE {kind} of this form is not supported", instead)

    def create_views(self, node: exp.Create) -> None:
        """Make a view; of those that were declared as recursive, all at once, when the last one comes."""
        declared = self.declared_views
        if not declared.aliases:
            self.create_view(node)
            return
        key = self.dialect.key_of(self.dotted(self.target(node)))
        if isinstance(node.this, exp.Schema) and key in declared.aliases:
            raise self.names.error(node, "the columns of a declared view are named where it is declared")
        if key in dict(declared.created):
            raise self.names.error(self.target(node), f"view `{key}` is made twice", "give one of them another name")
        declared.created.append((key, node))
        if declared.missing:
            return
        self.declared_views = Declared()
        queries = Queries(self.names, dict(self.environment))
        rewriter, found = Rewriter(self.names), declared.relations(queries)
        several = [(c, *self.planned(c, r, rewriter, self.dotted(self.target(c)))) for c, r in found if r is not None]
        lowering = Lowering(self.flow, self.names, [plan for _, plan, _ in several])
        for create, plan, names in several:
            self.create_view(create, self.lowered(lowering, plan, names, create))
        for create, relation in found:
            if relation is None:
                self.create_view(create)

    def target(self, node: exp.Create) -> Any:
        """Return the name that a statement gives."""
        return node.this.this if isinstance(node.this, exp.Schema) else node.this

    def create_view(self, node: exp.Create, made: Collection | None = None) -> None:
        """Make a view, and of a materialized one an output."""
        properties = node.args["properties"].expressions if node.args.get("properties") else []
        for one in properties:
            if not isinstance(one, exp.MaterializedProperty):
                raise self.names.error(node, f"CREATE VIEW with `{one.sql()}` is not supported")
        target, columns = self.target(node), list(node.this.expressions) if isinstance(node.this, exp.Schema) else []
        name = self.named(target)
        given = [c.this if isinstance(c, exp.ColumnDef) else c for c in columns]
        self.views[name] = made = self.collection(name, node.expression, given) if made is None else made
        self.add(name, made)
        if properties:
            try:
                self.flow.output(name, made)
            except SqlError:
                raise
            except TidemillError as error:
                raise self.names.error(target, str(error.args[0])) from None

    def dotted(self, node: exp.Table) -> str:
        """Return a name as users know it."""
        return ".".join(self.dialect.written(part) for part in node.parts)

    def named(self, node: exp.Table) -> str:
        """Return the name that a statement gives, which has to be new."""
        self.source.only(node, "this", "db", "catalog")
        name = self.dotted(node)
        known = {self.dialect.key_of(n) for n in (*self.views, *self.flow.graph.inputs, *self.flow.graph.outputs)}
        if self.dialect.key_of(name) in known:
            raise self.names.error(node, f"`{name}` is there already", "give it another name")
        return name

    def create_table(self, node: exp.Create) -> None:
        """Make an input of a table."""
        if not isinstance(node.this, exp.Schema):
            raise self.names.error(node, "CREATE TABLE without columns")
        name = self.named(node.this.this)
        fields: list[Field] = []
        keys: list[list[str]] = []
        unique: list[list[str]] = []
        watermarks: list[exp.WatermarkColumnConstraint] = []
        for one in node.this.expressions:
            if isinstance(one, exp.ColumnDef):
                fields.append(self.column(one, keys, unique))
            elif isinstance(one, exp.WatermarkColumnConstraint):
                watermarks.append(one)
            elif isinstance(one, exp.UniqueColumnConstraint) and isinstance(one.this, exp.Schema):
                unique.append([self.dialect.written(e) for e in one.this.expressions])
            elif isinstance(one, exp.PrimaryKey):
                keys.append(
                    [self.dialect.written(e.this if isinstance(e, exp.Ordered) else e) for e in one.expressions]
                )
            else:
                raise self.names.error(one, f"`{one.sql()}` in CREATE TABLE is not supported")
        if len(keys) > 1:
            raise self.names.error(node.this, f"table `{name}` has two primary keys")
        chosen = self.declared(fields, keys[0] if keys else [], f"the primary key of `{name}`", node.this)
        alone = [self.declared(fields, one, f"UNIQUE of `{name}`", node.this) for one in unique]
        fields = [attrs.evolve(f, nullable=f.nullable and f.name not in chosen) for f in fields]
        try:
            watermark = self.watermark(fields, watermarks, node.this)
            made = self.flow.input(name, Schema(tuple(fields)), key=chosen or None, watermark=watermark)
            made = self.on_time(made, watermark, node)
            for one in alone:
                made = _unique(made, one, name)
        except SqlError:
            raise
        except TidemillError as error:
            raise self.names.error(node.this, str(error.args[0])) from None
        self.add(name, self.checked_columns(name, made, node, [*keys, *unique]))

    def checked_columns(self, name: str, made: Collection, node: exp.Create, keys: list[list[str]]) -> Collection:
        """Return a table's rows with what its columns are given as their types have it: what its name means."""
        declared = [c for c in node.this.expressions if isinstance(c, exp.ColumnDef)]
        pairs = [*zip(self.flow.graph.inputs[name].schema, declared, strict=True)]
        values = {f.name: checked(col(f.name), c.args["kind"], self.dialect) for f, c in pairs}
        smaller = {n: v for n, v in values.items() if not isinstance(v, Column)}
        lengths = {f.name: n for f, c in pairs if (n := chars.length_of(c.args["kind"], self.dialect)) is not None}
        for one in lengths:
            if any(self.dialect.key_of(one) in map(self.dialect.key_of, some) for some in keys):
                raise self.names.error(
                    node.this, f"key `{one}` of CHAR(n) is not supported", "write VARCHAR(n) or TEXT"
                )
        if not smaller:
            return made
        given = Collection(self.flow, self.flow.graph.inputs[name])
        plain = given.with_columns(**smaller)
        self.flow.graph.read_as[name] = plain.node
        found = plain if made.node is given.node else made.with_columns(**smaller)
        if lengths:
            chars.LENGTHS[plain.node] = chars.LENGTHS[found.node] = lengths
        return found

    def on_time(self, rows: Collection, watermark: Any, node: exp.Create) -> Collection:
        """Return a table's rows, without those that are late if WITH (on_time = true) says so."""
        properties = node.args["properties"].expressions if node.args.get("properties") else []
        for one in properties:
            is_set = type(one) is exp.Property and one.name.lower() == "on_time"
            if not (is_set and isinstance(one.args["value"], exp.Boolean) and one.args["value"].this):
                hint = "but WITH (on_time = true)"
                raise self.names.error(node, "CREATE TABLE with properties is not supported", hint)
            if watermark is None:
                raise self.names.error(node.this, "WITH (on_time = true) is for a table with WATERMARK FOR")
        return rows.on_time(watermark if isinstance(watermark, str) else watermark[0]) if properties else rows

    def declared(self, fields: list[Field], names: list[str], what: str, node: Any) -> list[str]:
        """Return the columns that a constraint is about, by their own names."""
        by_key = {self.dialect.key_of(f.name): f.name for f in fields}
        for name in names:
            if self.dialect.key_of(name) not in by_key:
                raise self.names.error(node, f"no column `{name}` for {what}")
        return [by_key[self.dialect.key_of(name)] for name in names]

    def watermark(self, fields: list[Field], given: list[exp.WatermarkColumnConstraint], node: Any) -> Any:
        """Return what WATERMARK FOR says: a column, and how long after later rows its rows may come."""
        if not given:
            return None
        if len(given) > 1:
            raise self.names.error(node, "a table has one WATERMARK")
        (one,) = given
        says = one.expression
        (name,) = self.declared(fields, [self.dialect.written(one.this.this)], "WATERMARK", node)
        late = says.this if isinstance(says, exp.Sub) else says
        if not isinstance(late, exp.Column) or self.dialect.key(late.this) != self.dialect.key_of(name):
            raise self.names.error(one, f"WATERMARK FOR {name} is AS {name}, or AS {name} - INTERVAL ...")
        parser = Expressions(self.names, None, Queries(self.names, {}))
        return (name, parser.expression(says.expression)) if isinstance(says, exp.Sub) else name

    def column(self, node: exp.ColumnDef, keys: list[list[str]], unique: list[list[str]]) -> Field:
        """Return a column that CREATE TABLE declares; if it is a key, or unique, that is put to the others."""
        self.source.only(node, "this", "kind", "constraints")
        name, nullable = self.dialect.written(node.this), True
        if node.args.get("kind") is None:
            raise self.names.error(node, f"column `{name}` has no type")
        for constraint in node.args.get("constraints") or ():
            kind = constraint.kind
            if isinstance(kind, exp.PrimaryKeyColumnConstraint):
                keys.append([name])
            elif isinstance(kind, exp.UniqueColumnConstraint):
                unique.append([name])
            elif isinstance(kind, exp.NotNullColumnConstraint):
                nullable = bool(kind.args.get("allow_null"))
            else:
                raise self.names.error(node, f"`{constraint.sql()}` of column `{name}` is not supported")
        is_char = chars.length_of(node.args["kind"], self.dialect) is not None
        return Field(name, STRING if is_char else type_of(node.args["kind"], self.source, self.dialect), nullable)

    # -- queries ------------------------------------------------------------------------------------------------------

    def collection(self, name: str, node: exp.Expression, renamed: list[exp.Identifier] | None = None) -> Collection:
        """Return what a query gives, under the names that it selects."""
        relation = _bound(Queries(self.names, dict(self.environment)), node)
        plan, names = self.planned(node, relation, Rewriter(self.names), name, renamed)
        return self.lowered(Lowering(self.flow, self.names, [plan]), plan, names, node)

    def planned(
        self,
        node: exp.Expression,
        relation: Relation,
        rewriter: Rewriter,
        name: str = "",
        renamed: list[exp.Identifier] | None = None,
    ) -> tuple[Node, list[str]]:
        """Return the plan of a query, and the names of what it selects."""
        names = [c.name for c in relation.columns]
        if renamed:
            if len(renamed) != len(names):
                raise self.names.error(renamed[0], f"{len(renamed)} names for {len(names)} columns")
            names = [self.dialect.written(r) for r in renamed]
        seen: set[str] = set()
        for one, column in zip(names, relation.columns, strict=True):
            if self.dialect.key_of(one) in seen:
                raise self.names.error(node, f"two columns are called `{one}`", "give one of them another name by AS")
            seen.add(self.dialect.key_of(one))
            if is_null(column.expr):
                hint = "say of which, as in CAST(NULL AS BIGINT)"
                raise self.names.error(node, f"column `{one}` is NULL and has no type", hint)
        values = [c.expr for c in relation.columns]
        if self.order is not None:
            self.order += relation.order
            values += [k.expression for k in relation.order]
            for i in range(len(relation.order)):
                names.append(unused_name(f"__order_{i}", names))
        named = tuple(self.selected(value, n, node) for n, value in zip(names, values, strict=True))
        plan = rewriter.plan(Project(input=relation.plan, named=named))
        for field, value in zip(plan.columns, values, strict=True):
            self.names.with_length(field, self.names.char_length(value))
        self.plans.append((name, plan))
        return plan, names

    def lowered(self, lowering: Lowering, plan: Node, names: list[str], node: exp.Expression) -> Collection:
        """Return what a plan gives."""
        try:
            rows = lowering.rows(plan)
        except (SchemaError, GraphError) as error:
            if self.flow.graph.frozen:  # which is no fault of the text
                raise
            raise self.names.error(node, str(error.args[0])) from None
        chosen = zip(plan.columns, names, strict=True)
        made = rows.collection.select(*(Alias(col(rows.at[f.name]), n) for f, n in chosen))
        columns = zip(plan.columns, names, strict=True)
        if lengths := {n: self.names.lengths[f.name] for f, n in columns if f.name in self.names.lengths}:
            chars.LENGTHS[made.node] = lengths
        return made

    def selected(self, expression: Expr, name: str, node: exp.Expression) -> Named:
        """Return a column of the result, under its own name also where plans are shown."""
        field, made = self.names.column(expression, name, node)
        if shown(field) != name:
            field = self.names.field(name, field.dtype, nullable=field.nullable)
        return field, made


def _unique(rows: Collection, names: list[str], table: str) -> Collection:
    """Return the rows of a table; two with the same values, none of them NULL, are an error of the step."""
    what = f"UNIQUE ({', '.join(names)}) of table {table}:"
    filled = [col(n).is_not_null() for n in names if rows.schema.field(n).nullable]
    if not filled:
        return one_row_a_key(rows, names, what)
    missing = reduce(operator.or_, (~f for f in filled))
    return one_row_a_key(rows.filter(*filled), names, what).concat(rows.filter(missing))


@recursion_guard
def _parsed(text: str, grammar: str) -> tuple[Source, list[exp.Expression]]:
    return parse(text, grammar)


@recursion_guard
def _bound(queries: Queries, node: exp.Expression) -> Relation:
    return queries(node, None)
