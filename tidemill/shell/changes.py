"""INSERT, UPDATE, DELETE and MERGE as rows that come and go: each asks one query, whose text is cut from theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import attrs

from tidemill.boundary.results import Rows
from tidemill.collections.collection import Collection
from tidemill.errors import SqlError
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.schema import Field, Schema
from tidemill.shell.text import Words

_NOTHING: Final = ("NULL", "DEFAULT")


@attrs.frozen
class RowChange:
    """Rows of a table that come, or that go; ``rows`` is what ``run.insert`` takes."""

    table: str
    rows: Any
    comes: bool = True


@attrs.frozen
class Target:
    """The table that a statement changes: its name, and as it is written; its columns and key."""

    name: str
    written: str
    schema: Schema
    key: tuple[int, ...] | None


class Contents(Protocol):
    """What statements are asked of: a session."""

    def target(self, words: Words, name: str) -> Target:
        """Return the table of this name."""

    def ask(self, text: str, finish: Callable[[Collection], Collection]) -> Rows:
        """Return what a query gives now."""

    def same_name(self, one: str, other: str) -> bool:
        """Return whether two names as written are one."""


def inserted(statement: Words, contents: Contents) -> list[RowChange]:
    """Return the rows of ``INSERT INTO table [(columns)] query``."""
    start = 2 + (statement.word(2) == "TABLE")
    name, at = statement.name(start)
    target = contents.target(statement[start:at], name)
    rest, names = statement[at : len(statement)], list(target.schema.names)
    if rest.word(0) == "(" and rest.word(1) not in ("SELECT", "VALUES", "WITH", "("):
        end = next(i for i in range(1, len(rest)) if rest.word(i) == ")" and rest.words[i][1] == 0)
        names = [_column(part, target, contents) for part in rest[: end + 1].inside().split(",")]
        rest = rest[end + 1 : len(rest)]
    if not len(rest):
        raise statement.error("INSERT without rows", "write VALUES (...) or a query behind it")
    text, given = _values(rest, names) if rest.word(0) == "VALUES" else (rest.alone(), names)

    def finish(query: Collection) -> Collection:
        if len(query.schema) != len(given):
            reason = f"{len(query.schema)} values for {len(given)} columns of `{target.name}`"
            raise rest.error(reason, f"expected {', '.join(given)}")
        at = dict(zip(given, query.schema.fields, strict=True))
        return query.select(**{f.name: _assigned(at.get(f.name), f) for f in target.schema})

    places = ", ".join(f"value_{i}" for i in range(len(given)))  # since a query may name two of its columns alike
    try:
        rows = contents.ask(f"SELECT * FROM ({text}) AS inserted ({places})", finish)
    except SqlError:  # errors point to the text as it is written
        rows = contents.ask(text, finish)
    return [RowChange(target.name, rows)]


def deleted(statement: Words, contents: Contents) -> list[RowChange]:
    """Return the rows of ``DELETE FROM table [AS alias] [USING others] [WHERE condition]``."""
    clauses = statement.clauses("DELETE FROM", "USING", "WHERE")
    target, matching = _matching(clauses["DELETE FROM"], clauses.get("USING"), clauses.get("WHERE"), contents)
    return [RowChange(target.name, contents.ask(matching.rows(), lambda query: query), comes=False)]


def updated(statement: Words, contents: Contents) -> list[RowChange]:
    """Return the rows of ``UPDATE table [AS alias] SET column = value, ... [FROM others] [WHERE condition]``."""
    clauses = statement.clauses("UPDATE", "SET", "FROM", "WHERE")
    if "SET" not in clauses:
        raise statement.error("UPDATE without SET", "write UPDATE table SET column = value WHERE ...")
    target, matching = _matching(clauses["UPDATE"], clauses.get("FROM"), clauses.get("WHERE"), contents)
    return _replaced(target, contents, matching, clauses["SET"])


def merged(statement: Words, contents: Contents) -> list[RowChange]:
    """Return the rows of ``MERGE INTO table USING source ON condition WHEN [NOT] MATCHED [AND ...] THEN ...``."""
    first, *cases = statement.split("WHEN")
    clauses = first.clauses("MERGE INTO", "USING", "ON")
    if len(clauses) != 3 or not cases:  # noqa: PLR2004 - those three
        raise statement.error("MERGE of another form", "write MERGE INTO t USING s ON ... WHEN MATCHED THEN ...")
    target, matching = _matching(clauses["MERGE INTO"], clauses["USING"], clauses["ON"], contents)
    found: list[RowChange] = []
    before: dict[bool, list[str]] = {True: [], False: []}
    for case in cases:
        matched = case.word(0) != "NOT"
        head, action = _then(case[1 if matched else 2 : len(case)])
        condition = head[1 : len(head)].written() if len(head) else "TRUE"
        where = " AND ".join([f"({condition})", *(f"NOT coalesce(({c}), FALSE)" for c in before[matched])])
        before[matched].append(condition)
        narrowed = attrs.evolve(matching, where=f"({matching.where}) AND {where}")
        if matched and action.starts("UPDATE", "SET"):
            found += _replaced(target, contents, narrowed, action[2 : len(action)])
        elif matched and action.starts("DELETE"):
            found.append(RowChange(target.name, contents.ask(narrowed.rows(), lambda query: query), comes=False))
        elif not matched and action.starts("INSERT"):
            rest = f" FROM {matching.others} WHERE NOT EXISTS (SELECT 1 FROM {matching.source} WHERE {matching.where})"
            found.append(_inserted_by(action, target, contents, f"{rest} AND {where}"))
        else:
            reason = f"MERGE with {action.word(0) or 'nothing'} here"
            raise action.error(reason, "expected UPDATE SET, DELETE or INSERT")
    gone: set[str] = set()
    for change in found:
        if not change.comes:
            here = set(map(repr, change.rows))  # copies of a row meet the same cases
            if here & gone:
                raise statement.error("a row of the table matches several rows, in several cases")
            gone |= here
    return [*(c for c in found if not c.comes), *(c for c in found if c.comes)]


def _then(case: Words) -> tuple[Words, Words]:
    head, *rest = case.split("THEN")
    if head.word(0) == "MATCHED":
        head = head[1 : len(head)]
    if len(rest) != 1:
        raise case.error("expected one THEN", "write WHEN MATCHED [AND condition] THEN ...")
    return head, rest[0]


def _inserted_by(action: Words, target: Target, contents: Contents, rest: str) -> RowChange:
    """Return the rows of ``INSERT [(columns)] VALUES (values)`` in a MERGE."""
    clauses = action.clauses("INSERT", "VALUES")
    if "VALUES" not in clauses:
        raise action.error("INSERT without VALUES", "write INSERT (columns) VALUES (values)")
    columns, values = clauses["INSERT"], clauses["VALUES"].inside().split(",")
    names = list(target.schema.names)
    if len(columns):
        names = [_column(part, target, contents) for part in columns.inside().split(",")]
    if len(values) != len(names):
        raise clauses["VALUES"].error(f"{len(values)} values for {len(names)} columns")
    chosen = {n: v for n, v in zip(names, values, strict=True) if v.written().upper() not in _NOTHING}
    text = f"SELECT {', '.join(f'({v.written()}) AS __set_{i}' for i, v in enumerate(chosen.values())) or 1}{rest}"

    def finish(query: Collection) -> Collection:
        at = dict(zip(chosen, query.schema.fields, strict=False))
        return query.select(**{f.name: _assigned(at.get(f.name), f) for f in target.schema})

    return RowChange(target.name, contents.ask(text, finish))


def _replaced(target: Target, contents: Contents, matching: Matching, assignments: Words) -> list[RowChange]:
    """Return the rows that are replaced, and those in their places."""
    chosen: dict[str, Words] = {}
    for part in assignments.split(","):
        equals = part.at("=")
        if not equals:
            raise part.error("expected column = value")
        name = _column(part[:equals], target, contents)
        if name in chosen:
            raise part.error(f"column `{name}` is set twice")
        chosen[name] = part[equals + 1 : len(part)]
    known = {n: v for n, v in chosen.items() if v.written().upper() not in _NOTHING}
    width = len(target.schema)

    def finish(query: Collection) -> Collection:
        own, given = query.schema.fields[:width], query.schema.fields[width:]
        at = dict(zip(known, given, strict=True))
        old = {f"old {f.name}": col(f.name) for f in own}
        new = {
            f"new {to.name}": _assigned(at.get(to.name), to) if to.name in chosen else col(f.name)
            for f, to in zip(own, target.schema, strict=True)
        }
        return query.select(**old, **new).distinct()

    pairs = contents.ask(matching.rows([v.written() for v in known.values()]), finish)
    new_rows = {repr(row[:width]): row[width:] for row in pairs}
    if len(new_rows) < len(pairs):
        raise assignments.error("a row of the table matches several rows, and would become several")
    old_rows = list(contents.ask(matching.rows(), lambda query: query))
    return [
        RowChange(target.name, old_rows, comes=False),
        RowChange(target.name, [new_rows[repr(row)] for row in old_rows]),
    ]


def _assigned(given: Field | None, to: Field) -> Expr:
    """Return a value as a column's: numbers widen, text is read; else the column takes what is exactly one of it."""
    if given is None:
        return lit(None).cast(to.dtype)
    value: Expr = col(given.name)
    to_float = to.dtype.name.startswith("float") and not given.dtype.name.startswith("float")
    to_decimal = to.dtype.is_decimal
    from_text = given.dtype.name == "string" and to.dtype.name != "string"
    return value.cast(to.dtype) if to_float or to_decimal or from_text else value


def _values(rest: Words, names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the text of VALUES without the columns that are NULL in all rows, which have no type; and the others."""
    rows = [row.inside().split(",") if row.word(0) == "(" else [row] for row in rest[1 : len(rest)].split(",")]
    for row in rows:
        if len(row) != len(names):
            raise row[0].error(f"{len(row)} values for {len(names)} columns", f"expected {', '.join(names)}")
    texts = [["NULL" if v.written().upper() in _NOTHING else v.written() for v in row] for row in rows]
    kept = [i for i in range(len(names)) if any(row[i].upper() != "NULL" for row in texts)]
    text = ", ".join("(" + ", ".join([row[i] for i in kept] or ["0"]) + ")" for row in texts)
    return f"VALUES {text}", [names[i] for i in kept] or ["nothing"]


@attrs.frozen
class Matching:
    """Which rows of a table a statement is about: those that meet a condition, together with rows of others or not."""

    alias: str
    """What the table's columns are found by."""
    source: str
    """The table as an item of FROM."""
    others: str
    where: str

    def rows(self, values: Sequence[str] = ()) -> str:
        """Return the query for the rows, each as often as it is there; with values one for each match."""
        more = "".join(f", ({v}) AS __set_{i}" for i, v in enumerate(values))
        if self.others and not values:
            where = f"EXISTS (SELECT 1 FROM {self.others} WHERE {self.where})"
            return f"SELECT {self.alias}.* FROM {self.source} WHERE {where}"
        others = f", {self.others}" if self.others else ""
        return f"SELECT {self.alias}.*{more} FROM {self.source}{others} WHERE {self.where}"


def _matching(table: Words, others: Words | None, where: Words | None, contents: Contents) -> tuple[Target, Matching]:
    """Return the table that is meant, and which of its rows."""
    name, at = table.name(0)
    target = contents.target(table, name)
    alias = table[at + (table.word(at) == "AS") : len(table)].written() or name
    source = name if alias == name else f"{name} AS {alias}"
    return target, Matching(alias, source, others.written() if others else "", where.written() if where else "TRUE")


def _column(words: Words, target: Target, contents: Contents) -> str:
    """Return the column of a table that a name means."""
    name = words[len(words) - 1 : len(words)].written()
    found = [c for c in target.schema.names if contents.same_name(name, c)]
    if not found:
        raise words.error(f"`{target.name}` has no column {name}", f"it has {', '.join(target.schema.names)}")
    return found[0]


def counted(changes: Sequence[RowChange]) -> Counter[bool]:
    """Return how many rows come, and how many go."""
    found: Counter[bool] = Counter()
    for change in changes:
        found[change.comes] += len(change.rows)
    return found
