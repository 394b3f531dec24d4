"""A session: tables and views that are kept up to date, and one statement after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import numpy as np
from sqlglot import exp

from tidemill.boundary.results import Rows, Updates, arrow_table
from tidemill.collections.collection import Collection
from tidemill.errors import StateError, TidemillError, did_you_mean
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import to_sql
from tidemill.flow import Dataflow
from tidemill.renderer.runs.run import Engine, Run
from tidemill.shell.changes import RowChange, Target, counted, deleted, inserted, merged, updated
from tidemill.shell.files import copied, save, saved_rows, saved_script
from tidemill.shell.once import Table, collected, selected
from tidemill.shell.text import Words, statements
from tidemill.shell.waiting import Waiting
from tidemill.sql.chars import length_of
from tidemill.sql.clocks import NOW, reads_present
from tidemill.sql.dialects import Dialect, dialect_named
from tidemill.sql.syntax import parse
from tidemill.sql.types import type_of

_CHANGES: Final = {"INSERT": inserted, "UPDATE": updated, "DELETE": deleted, "MERGE": merged}
_QUERIES: Final = ("SELECT", "WITH", "VALUES", "PIVOT", "UNPIVOT")
_KNOWN: Final = (
    *_QUERIES, "CREATE", "DECLARE", "DROP", "INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "SUBSCRIBE",
    "UNSUBSCRIBE", "EXPLAIN", "SHOW", "DESCRIBE", "BEGIN", "START", "COMMIT", "ROLLBACK",
)  # fmt: skip


@attrs.frozen
class Answer:
    """What a statement comes to: a line of text, and rows or changes where there are some."""

    text: str = ""
    table: Rows | Updates | None = None
    subscription: str = ""
    """The view whose changes these are."""


@attrs.frozen
class Definition:
    """A table or view that was made."""

    kind: Literal["table", "view", "materialized view"]
    name: str
    text: str
    """The statement; recursive views that were made together have the text of all of them."""
    reads: frozenset[str]
    """What its tables are found by."""


@attrs.define(eq=False)
class SqlSession:
    """Tables and views of a dialect of SQL, kept up to date by one run after another.

    A statement that changes rows is an epoch of its own, but for those between BEGIN and COMMIT, which are one. A view
    made while there are rows is loaded with them: its dataflow is a new one then, and takes over what the tables hold.
    A query is computed once, for the contents of its tables. What fails leaves all as it was.

    >>> from tidemill.shell.session import SqlSession
    >>> session = SqlSession()
    >>> for answer in session.execute('''
    ...     CREATE TABLE sales (item STRING, amount INT);
    ...     CREATE MATERIALIZED VIEW totals AS SELECT item, sum(amount) AS total FROM sales GROUP BY item;
    ...     SUBSCRIBE totals;
    ...     INSERT INTO sales VALUES ('tea', 3), ('tea', 4);
    ... '''):
    ...     print(answer.table if answer.table is not None else answer.text)
    CREATE TABLE sales
    CREATE MATERIALIZED VIEW totals
    item  total
    ----  -----
    INSERT 2
    item  total  time  diff
    ----  -----  ----  ----
    tea   7      1     +1
    """

    dialect_name: str = "spark"
    engine: Engine | None = None
    definitions: dict[str, Definition] = attrs.field(factory=dict, init=False)
    """By what their names are found by, in the order in which they were made."""
    subscribed: dict[str, str] = attrs.field(factory=dict, init=False)
    dialect: Dialect = attrs.field(init=False)
    _flow: Dataflow = attrs.field(init=False)
    _views: dict[str, Collection] = attrs.field(factory=dict, init=False)
    _run: Run | None = attrs.field(default=None, init=False)
    _epoch: int = attrs.field(default=0, init=False)
    """How many epochs there were, counted on from run to run."""
    _waiting: Waiting = attrs.field(factory=Waiting, init=False)
    _pending: list[RowChange] | None = attrs.field(default=None, init=False)
    """Between BEGIN and COMMIT, what changes."""

    def __attrs_post_init__(self) -> None:
        self.dialect = dialect_named(self.dialect_name)
        self._flow = Dataflow("session")

    def execute(self, text: str) -> Iterator[Answer]:
        """Do what each statement says, and return what it comes to; the first that fails ends it by its error."""
        for statement in statements(text, self.dialect_name):
            yield from self.statement(statement)

    def statement(self, statement: Words) -> Iterator[Answer]:
        """Do what one statement says."""
        first = statement.word(0)
        if first in (*_QUERIES, "("):
            yield Answer(table=self._query(statement))
        elif first in _CHANGES:
            yield from self._changed(first, statement)
        elif first in ("CREATE", "DECLARE", "DROP"):
            yield from self._defined(statement)
        elif first in _OTHERS:
            yield from _OTHERS[first](self, statement)
        else:
            raise statement.error(f"statement {first}: {did_you_mean(first, _KNOWN)}")

    @property
    def in_transaction(self) -> bool:
        """Whether BEGIN waits for its COMMIT."""
        return self._pending is not None

    # -- tables and views --------------------------------------------------------------------------------------------

    def _defined(self, statement: Words) -> Iterator[Answer]:
        if self._pending is not None:
            raise statement.error("tables and views are made outside of transactions", "COMMIT or ROLLBACK first")
        if statement.word(0) == "DROP":
            yield self._dropped(statement)
            return
        if statement.word(0) == "DECLARE":
            yield self._declared(statement)
            return
        words = ["CREATE"]
        while statement.word(len(words)) in ("TABLE", "VIEW", "MATERIALIZED", "LOCAL"):
            words.append(statement.word(len(words)))
        name, _ = statement.name(len(words))
        answer = f"{' '.join(words)} {name}"
        if not self._waiting.declared or words[-1] != "VIEW":
            self._require_made(statement, [self._key(name)])
            self._create(statement.text)
            yield Answer(answer)
            return
        self._require_new(statement, name, self._waiting.created)
        self._reads(statement.text)  # errors of syntax are this statement's
        waiting = self._waiting.with_created(self._key(name), name, statement)
        if not waiting.missing:
            self._create(waiting.text)
            made = ", ".join(waiting.created.values())
            waiting, answer = Waiting(), f"{answer}: {made} are made" if len(waiting.created) > 1 else answer
        self._waiting = waiting
        yield Answer(f"{answer} waits for {waiting.missing}" if waiting.missing else answer)

    def _declared(self, statement: Words) -> Answer:
        """Take note of a view that is to be recursive, which is made when all those are that were declared."""
        source, (tree,) = parse(statement.text, self.dialect_name)
        alias = tree.expressions[0] if isinstance(tree, exp.Declare) else None
        if not isinstance(alias, exp.TableAlias):
            raise statement.error("statement DECLARE is not supported", "but DECLARE RECURSIVE VIEW name (column type)")
        for column in alias.args["columns"]:
            type_of(column.args["kind"], source, self.dialect)
        name = statement.name(3)[0]
        self._require_new(statement, name, self._waiting.names)
        self._waiting = self._waiting.with_declared(self._key(name), name, statement)
        return Answer(f"DECLARE RECURSIVE VIEW {name} waits for {self._waiting.missing}")

    def _require_new(self, statement: Words, name: str, waiting: Mapping[str, str]) -> None:
        if self._key(name) in (*self.definitions, *waiting):
            raise statement.error(f"`{name}` is there already", "give it another name, or DROP that one")

    def _require_made(self, statement: Words, names: Iterable[str]) -> None:
        """Refuse a statement that needs views which wait for others, whose names are found by these."""
        for key in names:
            if key in self._waiting.names:
                waits = f"view `{self._waiting.names[key]}` waits for {self._waiting.missing}"
                raise statement.error(waits, "DROP VIEW of one of them forgets them all")

    def _create(self, text: str) -> None:
        """Make what a text creates: a table, a view, or recursive views."""
        reads = self._reads(text)
        frozen, started = self._flow.graph.frozen, self._run is not None
        flow, views = self._again(self.definitions) if frozen else (self._flow, dict(self._views))
        before = set(flow.graph.inputs), set(flow.graph.outputs)
        made = _added(flow, text, self.dialect_name, views)
        inputs, outputs = set(flow.graph.inputs) - before[0], set(flow.graph.outputs) - before[1]
        keys = {self.dialect.key_of(name): name for name in inputs or made}
        reads = reads - set(keys)
        found = {}
        for key, name in keys.items():
            kind: Any = "table" if inputs else "materialized view" if name in outputs else "view"
            found[key] = Definition(kind, name, text, reads)
        if started and outputs:
            self._replace(flow)
        self._flow, self._views = flow, views | made
        self.definitions |= found

    def _again(self, definitions: dict[str, Definition]) -> tuple[Dataflow, dict[str, Collection]]:
        """Return a dataflow of these statements that was not started."""
        flow = Dataflow("session")
        views: dict[str, Collection] = {}
        for text in _texts(definitions.values()):
            views |= _added(flow, text, self.dialect_name, views)
        return flow, views

    def _dropped(self, statement: Words) -> Answer:
        at = 3 if statement.word(1) == "MATERIALIZED" else 2
        if_exists = statement[at : len(statement)].starts("IF", "EXISTS")
        at += 2 * if_exists
        name = statement[at : statement.name(at)[1]].written()
        key = self._key(name)
        if key in self._waiting.names:
            forgotten, self._waiting = self._waiting, Waiting()
            return Answer(f"DROP VIEW {', '.join(forgotten.names.values())}")
        if key not in self.definitions:
            if if_exists:
                return Answer(f"there is no {name}")
            raise statement.error(f"no {name}: {did_you_mean(key, self.definitions)}")
        found = self.definitions[key]
        together = {k: d.name for k, d in self.definitions.items() if d.text == found.text}
        if readers := [d.name for d in self.definitions.values() if not d.reads.isdisjoint(together)]:
            names = ", ".join(together.values())
            raise statement.error(f"`{names}` is read by {', '.join(readers)}", "drop these first")
        rest = {k: d for k, d in self.definitions.items() if k not in together}
        flow, views = self._again(rest)
        if self._run is not None:
            self._replace(flow)
        self._flow, self._views, self.definitions = flow, views, rest
        for one in together:
            self.subscribed.pop(one, None)
        return Answer(f"DROP {found.kind.upper()} {', '.join(together.values())}")

    def _replace(self, flow: Dataflow) -> None:
        """Start a dataflow with the rows that the tables have, in the place of the run before it."""
        before, run = self._run, flow.start(self.engine, progress=False)
        try:
            if self._epoch:
                run.advance_to(self._epoch)
            for name in flow.graph.inputs:
                if before is not None and name in before.graph.inputs:
                    run.insert(name, before.snapshot(name))
            run.advance()
            self._epoch += 1
            _read(run)
        except BaseException:
            run.close()
            raise
        self._run = run
        if before is not None:
            before.close()

    def _reads(self, text: str, *, with_names: bool = True) -> frozenset[str]:
        """Return what the names of tables in a text are found by, by default names of WITH too; and of its clock."""
        source, trees = parse(text, self.dialect_name)
        for kind in (kind for tree in trees for kind in tree.find_all(exp.DataType)):
            if length_of(kind, self.dialect) is not None:  # which rows that are kept would have to know
                raise source.error(kind, "CHAR(n) is of scripts, and not of the shell", "write VARCHAR(n) or TEXT")
        clock = [NOW] if any(map(reads_present, trees)) else []
        names = (
            ".".join(self.dialect.written(part) for part in table.parts)
            for tree in trees
            for table in tree.find_all(exp.Table)
        )
        ctes = [] if with_names else [cte for tree in trees for cte in tree.find_all(exp.CTE)]
        own = [self.dialect.key(cte.args["alias"].this) for cte in ctes]
        return frozenset(map(self.dialect.key_of, (*names, *clock))).difference(own)

    def _key(self, written: str) -> str:
        """Return what a name as it is written is found by."""
        parts = []
        for part in written.split("."):
            quoted = part[:1] in ('"', "`")
            parts.append(part[1:-1] if quoted else part.lower() if self.dialect.folds else part)
        return self.dialect.key_of(".".join(parts))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def target(self, words: Words, name: str) -> Target:
        """Return the table of this name; for `tidemill.shell.changes`."""
        found = self.definitions.get(self._key(name))
        if found is None:
            tables = [d.name for d in self.definitions.values() if d.kind == "table"]
            raise words.error(f"no table {name}: {did_you_mean(name, tables)}")
        if found.kind != "table":
            raise words.error(f"`{found.name}` is a {found.kind}: only tables are changed")
        node: Any = self._flow.graph.inputs[found.name]
        return Target(found.name, name, node.schema, node.key or None)

    def same_name(self, one: str, other: str) -> bool:
        """Return whether a name as it is written is this one."""
        return self._key(one) == self.dialect.key_of(other)

    def ask(self, text: str, finish: Callable[[Collection], Collection]) -> Rows:
        """Return what a query gives for the rows of this moment."""
        return collected(text, self.dialect_name, self._tables(text), finish)

    def _query(self, statement: Words) -> Rows:
        self._require_made(statement, self._reads(statement.text, with_names=False))
        return selected(statement.text, self.dialect_name, self._tables(statement.text))

    def _tables(self, text: str) -> dict[str, Table]:
        """Return what the names in a query mean now."""
        needed = set(self._reads(text))
        for key, one in reversed(self.definitions.items()):
            if key in needed and not self._is_kept(one):
                needed |= one.reads
        texts = {d.text for k, d in self.definitions.items() if k in needed and not self._is_kept(d)}
        found: dict[str, Table] = {}
        for key, one in self.definitions.items():
            if one.text not in texts:
                schema = self.schema(one)
                found[one.name] = Table(schema, self._contents(one.name, schema) if key in needed else None)
            elif all(table.view != one.text for table in found.values()):  # once for those that were made together
                found[one.name] = Table(view=one.text)
        return found

    def _is_kept(self, one: Definition) -> bool:
        """Return whether there are contents to read: a view's are those before the transaction."""
        return one.kind == "table" or (one.kind == "materialized view" and not self._pending)

    def schema(self, one: Definition) -> Schema:
        """Return the columns of a table or view."""
        inputs: dict[str, Any] = dict(self._flow.graph.inputs)
        return inputs[one.name].schema if one.kind == "table" else self._views[one.name].schema

    def _contents(self, name: str, schema: Schema) -> Any:
        stored = self._live().snapshot(name)
        ours = [change for change in self._pending or () if change.table == name]
        if not ours:
            return stored
        key = self._flow.graph.inputs[name].key or None
        rows = list(stored)
        for change in ours:
            given = list(change.rows)
            if key is None and change.comes:
                rows += given
                continue
            gone = Counter(repr(_at(row, key)) for row in given)
            left = []
            for row in rows:
                one = repr(_at(row, key))
                if gone[one]:
                    gone[one] -= 1
                else:
                    left.append(row)
            rows = left
            rows += given if change.comes else []
        return arrow_table(schema, rows)

    def _live(self) -> Run:
        """Return the run of the tables and views there are."""
        if self._run is None:
            self._replace(self._flow)
        assert self._run is not None
        return self._run

    def _changed(self, first: str, statement: Words) -> Iterator[Answer]:
        changes = _CHANGES[first](statement, self)
        self._check_keys(first, statement, changes)
        numbers = counted(changes)
        number = numbers[True] if first == "INSERT" else max(numbers[True], numbers[False])
        if first == "MERGE":
            number = sum(numbers.values())
        answers = self._put([self._fitted(change) for change in changes])
        yield Answer(f"{first} {number}")
        yield from answers

    def _check_keys(self, first: str, statement: Words, changes: Sequence[RowChange]) -> None:
        """Refuse a statement that would give two rows one key; that INSERT puts a row in another's place is meant."""
        key = None if not changes else self._flow.graph.inputs[changes[0].table].key
        if not key:
            return
        gone = {_at(row, key) for change in changes if not change.comes for row in change.rows}
        come = [_at(row, key) for change in changes if change.comes for row in change.rows]
        if len(set(come)) < len(come):
            raise statement.error(f"two rows of `{changes[0].table}` would have the same key", "one row has a key")
        moved = set(come) - gone
        if first == "UPDATE" and moved:
            name = changes[0].table
            found = self.ask(f"SELECT * FROM {self._quoted(name)}", lambda query: query)
            if moved & {_at(row, key) for row in found}:
                raise statement.error(f"a row of `{name}` has the new key already", "delete that row before")

    def _fitted(self, change: RowChange) -> RowChange:
        """Return rows that come as the types of the table's columns have them, where these are kept as larger ones."""
        checks: Any = self._flow.graph.read_as.get(change.table)
        if checks is None or not change.comes:
            return change
        values = dict(zip(checks.schema.names, map(to_sql, checks.columns), strict=True))
        schema = self._flow.graph.inputs[change.table].schema
        text = f"SELECT * FROM {self._quoted(change.table)}"
        tables = {change.table: Table(schema, change.rows)}
        return RowChange(change.table, collected(text, self.dialect_name, tables, lambda rows: rows.select(**values)))

    def _quoted(self, name: str) -> str:
        """Return a name as it is written in the dialect."""
        quote = "`" if self.dialect_name == "spark" else '"'
        return ".".join(f"{quote}{part}{quote}" for part in name.split("."))

    def _put(self, changes: Sequence[RowChange]) -> list[Answer]:
        """Make changes an epoch, or put them to those of the transaction; return what is told of it."""
        if self._pending is not None:
            self._pending.extend(changes)
            return []
        run = self._live()
        try:
            for change in changes:
                (run.insert if change.comes else run.delete)(change.table, change.rows)
            run.advance()
            self._epoch += 1
        except TidemillError:
            run.discard()
            raise
        found = _read(run)
        return [Answer(f"{n}:", found[n], n) for n in self.subscribed.values() if len(found[n])]

    # -- the others ----------------------------------------------------------------------------------------------------

    def begin(self, statement: Words) -> Iterator[Answer]:
        """Begin a transaction."""
        if self._pending is not None:
            raise statement.error("a transaction in a transaction", "COMMIT or ROLLBACK first")
        self._pending = []
        yield Answer("BEGIN")

    def commit(self, statement: Words) -> Iterator[Answer]:
        """Make what changed since BEGIN one epoch."""
        if self._pending is None:
            raise statement.error("no transaction", "BEGIN begins one")
        changes, self._pending = self._pending, None
        answers = self._put(changes) if changes else []
        yield Answer("COMMIT")
        yield from answers

    def rollback(self, statement: Words) -> Iterator[Answer]:
        """Forget what changed since BEGIN."""
        if self._pending is None:
            raise statement.error("no transaction", "BEGIN begins one")
        self._pending = None
        yield Answer("ROLLBACK")

    def subscribe(self, statement: Words) -> Iterator[Answer]:
        """Give a view's rows, and from now on what changes in it; a query becomes a view of its own."""
        rest = statement[1 + (statement.word(1) == "TO") : len(statement)]
        if rest.word(0) in ("(", *_QUERIES):
            number = 1
            while self._key(f"subscription_{number}") in self.definitions:
                number += 1
            query = rest.inside() if rest.word(0) == "(" else rest
            made = f"CREATE MATERIALIZED VIEW subscription_{number} AS {query.written()}"
            self._require_made(query, self._reads(query.written(), with_names=False))
            self._create(made)
            found = self.definitions[self._key(f"subscription_{number}")]
        else:
            found = self._named(rest)
        if found.kind == "view":
            raise rest.error(f"`{found.name}` is a view that is not kept", "make it a MATERIALIZED VIEW")
        self.subscribed[self._key(found.name)] = found.name
        yield Answer(f"{found.name}:", self._live().snapshot(found.name), found.name)

    def unsubscribe(self, statement: Words) -> Iterator[Answer]:
        """Tell no more what changes in a view, or in any."""
        rest = statement[1 : len(statement)]
        names = [self._named(rest).name] if len(rest) else list(self.subscribed.values())
        for name in names:
            self.subscribed.pop(self.dialect.key_of(name), None)
        yield Answer(f"UNSUBSCRIBE {', '.join(names)}")

    def _named(self, words: Words) -> Definition:
        name = words.written()
        found = self.definitions.get(self._key(name))
        if found is None:
            self._require_made(words, [self._key(name)])
            known = [d.name for d in self.definitions.values()]
            raise words.error(f"no table or view {name}: {did_you_mean(name, known)}")
        return found

    def explain(self, statement: Words) -> Iterator[Answer]:
        """Give a query's plan, and its operators."""
        query = statement[1 : len(statement)]
        if not len(query):
            raise statement.error("EXPLAIN of nothing", "write a query behind it")
        self._require_made(statement, self._reads(query.alone(), with_names=False))
        yield Answer(self._flow.explain_sql(query.alone(), self.dialect_name, tables=self._views))

    def show(self, statement: Words) -> Iterator[Answer]:
        """Give all tables and views."""
        if statement.word(1) not in ("TABLES", "VIEWS", "ALL", ""):
            raise statement.error(f"SHOW {statement.word(1)} is not there", "SHOW TABLES is")
        yield Answer(table=self.listed())

    def describe(self, statement: Words) -> Iterator[Answer]:
        """Give the columns of one."""
        rest = statement[1 + (statement.word(1) in ("TABLE", "VIEW")) : len(statement)]
        yield Answer(table=self.columns(rest))

    def listed(self) -> Rows:
        """Return all tables and views, with how many rows they have."""
        run = self._live() if self.definitions else None
        rows: list[tuple[Any, ...]] = [
            (d.name, d.kind, None if d.kind == "view" or run is None else len(run.snapshot(d.name)))
            for d in self.definitions.values()
        ]
        rows += self._waiting.listed()
        return _rows({"name": "string", "kind": "string", "rows": "int64"}, rows)

    def columns(self, words: Words) -> Rows:
        """Return the columns of a table or view."""
        found = self._named(words)
        schema = self.schema(found)
        node: Any = self._flow.graph.inputs.get(found.name) if found.kind == "table" else None
        key = () if node is None or node.key is None else node.key
        rows = [(f.name, str(f.dtype), f.nullable, i in key) for i, f in enumerate(schema)]
        return _rows({"column": "string", "type": "string", "nullable": "bool", "key": "bool"}, rows)

    def copy(self, statement: Words) -> Iterator[Answer]:
        """Take rows from a file, or write them to one."""
        copy = copied(statement)
        if copy.source is None:
            query = copy.what.inside().written() if copy.what.word(0) == "(" else f"SELECT * FROM {copy.what.written()}"
            yield Answer(f"COPY {copy.write(self._query(statements(query, self.dialect_name)[0]))}")
            return
        target = self.target(copy.what, copy.what.written())
        rows = copy.read(target.schema)
        answers = self._put([self._fitted(RowChange(target.name, rows))])
        yield Answer(f"COPY {rows.num_rows}")
        yield from answers

    def save(self, folder: str | Path) -> str:
        """Write the session's statements and the rows of its tables into a folder that is not there yet."""
        if self._pending is not None:
            msg = "a transaction is open: COMMIT or ROLLBACK, then save"
            raise StateError(msg)
        texts = [*_texts(self.definitions.values()), self._waiting.text]
        script = "".join(f"{text.strip()};\n\n" for text in texts if text)
        return save(folder, script, [self._live().snapshot(d.name) for d in self._stored()])

    def load(self, folder: str | Path) -> str:
        """Take over what was saved; the session has to be empty."""
        if self.definitions or self._waiting.names:
            msg = "this session has tables or views already: load into an empty one"
            raise StateError(msg)
        for _ in self.execute(saved_script(folder)):
            pass
        stored = self._stored()
        self._put([RowChange(d.name, saved_rows(folder, i)) for i, d in enumerate(stored)])
        return f"{len(self.definitions)} definitions from {folder}"

    def _stored(self) -> list[Definition]:
        return [d for d in self.definitions.values() if d.kind == "table"]

    @property
    def dataflow(self) -> Dataflow:
        """The dataflow of the tables and views there are."""
        return self._flow

    @property
    def run(self) -> Run:
        """The run that keeps them up to date, until the next of them is made."""
        return self._live()

    @property
    def missing(self) -> str:
        """What views that were declared as recursive wait for; empty where none do."""
        return self._waiting.missing

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.close()


_OTHERS: Final[dict[str, Callable[[SqlSession, Words], Iterator[Answer]]]] = {
    "BEGIN": SqlSession.begin,
    "START": SqlSession.begin,
    "COMMIT": SqlSession.commit,
    "END": SqlSession.commit,
    "ROLLBACK": SqlSession.rollback,
    "SUBSCRIBE": SqlSession.subscribe,
    "UNSUBSCRIBE": SqlSession.unsubscribe,
    "EXPLAIN": SqlSession.explain,
    "SHOW": SqlSession.show,
    "DESCRIBE": SqlSession.describe,
    "DESC": SqlSession.describe,
    "COPY": SqlSession.copy,
}


def _added(flow: Dataflow, text: str, dialect: str, views: dict[str, Collection]) -> dict[str, Collection]:
    """Put a CREATE statement to a dataflow; of a table, whose rows can be asked for then, and a view return it."""
    before = set(flow.graph.inputs)
    made: Any = flow.sql(text, dialect, tables=views)
    for name in set(flow.graph.inputs) - before:
        flow.output(name, Collection(flow, flow.graph.inputs[name]))
    return dict(made)


def _texts(definitions: Iterable[Definition]) -> list[str]:
    """Return what definitions are made by, those that are made together once."""
    return list(dict.fromkeys(one.text for one in definitions))


def _read(run: Run) -> dict[str, Updates]:
    """Return what changed in each output; what nobody subscribed to is not kept."""
    return {name: run.changes(name) for name in run.graph.outputs}


def _at(row: tuple[Any, ...], key: tuple[int, ...] | None) -> tuple[Any, ...]:
    return row if key is None else tuple(row[i] for i in key)


def _rows(schema: dict[str, str], rows: list[tuple[Any, ...]]) -> Rows:
    """Return rows as results are shown, in this order."""
    made = Schema.of(schema)
    return Rows(made, arrow_table(made, rows), np.ones(len(rows), np.int64), None, is_sorted=True)
