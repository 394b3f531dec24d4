"""Random queries over small tables full of NULLs, whose answers DuckDB and SQLite can judge."""

from __future__ import annotations

import random
from typing import Any

TABLES = {
    "t": {"a": "int64", "b": "int64", "s": "string"},
    "u": {"a": "int64", "c": "int64"},
    "v": {"k": "int64", "x": "int64", "s": "string"},
}
_TEXTS = ("x", "xy", "z")
Columns = dict[str, list[str]]
"""Columns that an expression may read, by type: their names with qualifiers."""


def history(rng: random.Random, batches: int = 4, size: int = 6) -> list[dict[str, Any]]:
    """Return batches of rows to insert and to delete, by table."""
    there: dict[str, list[Any]] = {name: [] for name in TABLES}
    found = []
    for _ in range(batches):
        changes = {}
        for name, columns in TABLES.items():
            coming = [tuple(_value(rng, t) for t in columns.values()) for _ in range(rng.randint(0, size))]
            leaving = rng.sample(there[name], min(len(there[name]), rng.randint(0, size // 2)))
            for row in leaving:
                there[name].remove(row)
            there[name] += coming
            changes[name] = (coming, leaving)
        found.append(changes)
    return found


def _value(rng: random.Random, dtype: str) -> Any:
    if rng.random() < 0.2:
        return None
    return rng.choice(_TEXTS) if dtype == "string" else rng.randint(0, 4)


class Queries:
    """Draws queries; ``sqlite`` leaves out what SQLite does not have."""

    def __init__(self, rng: random.Random, *, sqlite: bool = False, deep: int = 3) -> None:
        self.rng = rng
        self.sqlite = sqlite
        self.deep = deep
        self.number = 0
        self.tables = dict(TABLES)

    def query(self) -> str:
        """Return a query."""
        before = self.recursion() if self.rng.random() < 0.1 else ""
        text, columns = self.select(self.deep, {}, self.rng.randint(1, 3))
        if self.rng.random() < 0.2:
            other, _ = self.select(self.deep - 1, {}, len(columns), types=columns)
            text = f"{text} {self.operation()} {other}"
        elif self.rng.random() < 0.1:
            by = ", ".join(f"{i + 1} nulls {self.rng.choice(['first', 'last'])}" for i in range(len(columns)))
            text = f"{text} order by {by} limit {self.rng.randint(0, 4)}"
        return before + text

    def recursion(self) -> str:
        """Return a WITH RECURSIVE, whose name is a table from here on."""
        r, u = {"int": ["r0.p", "r0.q"]}, {"int": ["u0.a", "u0.c"]}
        first, _ = self.select(1, {}, 2, types=["int", "int"])
        step = (
            f"select {self.rng.choice(r['int'])}, {self.rng.choice(u['int'])} from r0 {self.rng.choice(['', 'left '])}"
        )
        step += f"join u u0 on r0.q = u0.a where {self.condition(0, _both(r, u))}"
        self.tables["r0"] = {"p": "int64", "q": "int64"}
        return f"with recursive r0(p, q) as ({first} union {step}) "

    def operation(self) -> str:
        several = ["union", "union all", "intersect", "except"]
        return self.rng.choice(several if self.sqlite else [*several, "intersect all", "except all"])

    def fresh(self, base: str) -> str:
        self.number += 1
        return f"{base}{self.number}"

    # -- FROM ----------------------------------------------------------------------------------------------------------

    def source(self, depth: int, outer: Columns) -> tuple[str, Columns]:
        """Return an item of FROM and its columns."""
        name = self.fresh("q")
        if depth > 1 and self.rng.random() < 0.25:
            text, types = self.rows(depth - 1, {}, 2)
            found: Columns = {}
            for i, t in enumerate(types):
                found.setdefault(t, []).append(f"{name}.c{i}")
            return f"({text}) {name}", found
        table = self.rng.choice(list(self.tables))
        found = {}
        for column, dtype in self.tables[table].items():
            found.setdefault("text" if dtype == "string" else "int", []).append(f"{name}.{column}")
        return f"{table} {name}", found

    def sources(self, depth: int, outer: Columns) -> tuple[str, Columns]:
        text, columns = self.source(depth, outer)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            other, more = self.source(depth, outer)
            how = self.rng.choice(
                [",", "join", "left join", "left join", "cross join", "full join", "right join", "lateral"]
            )
            both = _both(columns, more)
            if how == "lateral" and not self.sqlite and depth > 1:
                name = self.fresh("l")
                inner, types = self.select(depth - 1, columns, 1)
                kind = self.rng.choice(["cross join lateral", "left join lateral"])
                text += f" {kind} ({inner}) {name}" + (" on true" if "left" in kind else "")
                columns = _both(columns, {types[0]: [f"{name}.c0"]})
                continue
            if how in (",", "lateral"):
                how = "cross join"
            text += f" {how} {other}"
            if how != "cross join":
                a, b = self.rng.choice(columns["int"] if columns.get("int") else ["1"]), None
                b = self.rng.choice(more["int"]) if more.get("int") else "1"
                condition = f"{a} = {b}"
                if self.rng.random() < 0.3:
                    condition += f" and {self.condition(0, both)}"
                elif self.rng.random() < 0.15 and "full" not in how:
                    condition = self.condition(0, both)
                text += f" on {condition}"
            columns = both
        return text, columns

    def rows(self, depth: int, outer: Columns, width: int, *, types: list[str] | None = None) -> tuple[str, list[str]]:
        """Return a SELECT or several of them together, and the types of the columns."""
        text, found = self.select(depth, outer, width, types=types)
        if self.rng.random() < 0.2:
            other, _ = self.select(depth, outer, width, types=found)
            text = f"{text} {self.operation()} {other}"
        return text, found

    # -- SELECT --------------------------------------------------------------------------------------------------------

    def select(
        self, depth: int, outer: Columns, width: int, *, types: list[str] | None = None
    ) -> tuple[str, list[str]]:
        """Return a SELECT of so many columns, and their types."""
        rng = self.rng
        source, columns = self.sources(depth, outer)
        inner = _both(columns, outer)
        where = f" where {self.condition(depth - 1, inner)}" if rng.random() < (0.9 if outer else 0.6) else ""
        wanted = types or [rng.choice(["int", "int", "text"]) for _ in range(width)]
        grouped = rng.random() < 0.3
        if grouped:
            keys = [rng.choice(columns["int"])] if columns.get("int") and rng.random() < 0.8 else []
            items = [self.of_group(depth, columns, keys, t) for t in wanted]
            tail = f" group by {', '.join(keys)}" if keys else ""
            if keys and not self.sqlite and rng.random() < 0.15:
                tail = f" group by {rng.choice([f'rollup ({keys[0]})', f'grouping sets (({keys[0]}), ())'])}"
            if rng.random() < 0.3:
                tail += f" having {self.aggregate(columns)} {self.comparison()} {rng.randint(0, 4)}" if keys else ""
            if not keys and not any("(" in i for i in items):
                items[0] = self.aggregate(columns) if wanted[0] == "int" else "max('x')"
        else:
            items, tail = [self.value(depth - 1, inner, t) for t in wanted], ""
        distinct = "distinct " if rng.random() < 0.15 else ""
        chosen = [f"{i} as c{n}" for n, i in enumerate(items)]
        return f"select {distinct}{', '.join(chosen)} from {source}{where}{tail}", wanted

    def of_group(self, depth: int, columns: Columns, keys: list[str], dtype: str) -> str:
        if dtype == "text":
            return f"{self.rng.choice(['min', 'max'])}({self.rng.choice(columns.get('text') or [chr(39) + 'x' + chr(39)])})"
        if self.rng.random() < 0.1:
            return self.over(keys, [self.aggregate(columns)])
        if keys and self.rng.random() < 0.4:
            if depth > 1 and self.rng.random() < 0.3:
                return self.scalar(depth - 1, {"int": keys})
            return self.rng.choice(keys)
        return self.aggregate(columns)

    def over(self, keys: list[str], values: list[str]) -> str:
        """Return a window call that gives rows of the same key the same value."""
        rng, value = self.rng, self.rng.choice(values)
        by = f"partition by {rng.choice(keys)} " if keys and rng.random() < 0.6 else ""
        order = rng.choice([*keys, *values]) + rng.choice(["", " desc"]) + f" nulls {rng.choice(['first', 'last'])}"
        ends = rng.choice(
            ["1 preceding and current row", "1 following and unbounded following", "current row and 2 following"]
        )
        frame = rng.choice(["", "", f" groups between {ends}", f" groups between {ends} exclude current row"])
        if "count(distinct" in value or "filter" in value:
            value = "count(*)" if not keys else keys[0]
        plain = rng.choice(["rank()", "dense_rank()", "cume_dist()"])
        call, frame = rng.choice([
            (plain, ""), (f"sum({value})", frame), ("count(*)", frame.split(" exclude")[0]), (f"max({value})", frame),
            (f"min({value})", frame),
        ])  # fmt: skip
        return f"{call} over ({by}order by {order}{frame})"

    def aggregate(self, columns: Columns) -> str:
        ints = columns.get("int") or ["1"]
        column = self.rng.choice(ints)
        made = self.rng.choice([
            "count(*)", f"count({column})", f"sum({column})", f"min({column})", f"max({column})",
            f"count(distinct {column})", f"coalesce(sum({column}), 7)",
        ])  # fmt: skip
        if self.rng.random() < 0.1 and "distinct" not in made and "coalesce" not in made:
            made += f" filter (where {self.rng.choice(ints)} > {self.rng.randint(0, 3)})"
        return made

    # -- expressions ---------------------------------------------------------------------------------------------------

    def comparison(self) -> str:
        return self.rng.choice(["=", "<>", "<", "<=", ">", ">="])

    def value(self, depth: int, columns: Columns, dtype: str) -> str:  # noqa: PLR0911 - one line a kind
        rng = self.rng
        draw = rng.random()
        if dtype == "text":
            return rng.choice(columns.get("text") or ["'x'"])
        ints = columns.get("int") or ["2"]
        if depth > 0 and draw < 0.15:
            return self.scalar(depth, columns)
        if draw > 0.95 and columns.get("int"):
            return self.over(ints, ints)
        if draw < 0.25:
            return (
                f"case when {self.condition(depth - 1, columns)} then {rng.choice(ints)} else {rng.randint(0, 3)} end"
            )
        if draw < 0.35:
            return f"{rng.choice(ints)} + {rng.randint(0, 3)}"
        if draw < 0.4:
            return f"coalesce({rng.choice(ints)}, {rng.randint(5, 9)})"
        if draw < 0.5 and depth > 0:
            return (
                f"case when {self.mark(depth, columns)} then 1 when not ({self.mark(depth, columns)}) then 2 else 3 end"
            )
        return rng.choice(ints)

    def scalar(self, depth: int, outer: Columns) -> str:
        """Return a scalar subquery of one row at most."""
        if self.rng.random() < 0.15:  # a CTE that reads outer columns, and is read twice
            name = self.fresh("w")
            text, _ = self.rows(depth - 1, outer, 1, types=["int"])
            how = self.rng.choice(["join", "left join"])
            on = f"x.c0 {self.comparison()} y.c0"
            return f"(with {name} as ({text}) select {self.aggregate({'int': ['x.c0', 'y.c0']})} from {name} x {how} {name} y on {on})"
        source, columns = self.sources(depth, outer)
        inner = _both(columns, outer)
        where = f" where {self.condition(depth - 1, inner)}"
        if self.rng.random() < 0.7:
            made = self.aggregate(columns)
            having = f" having {self.aggregate(columns)} > {self.rng.randint(0, 2)}" if self.rng.random() < 0.2 else ""
            return f"(select {made} from {source}{where}{having})"
        column = self.rng.choice(columns.get("int") or ["1"])
        return f"(select {column} from {source}{where} order by 1 nulls first limit 1)"

    def mark(self, depth: int, columns: Columns) -> str:
        """Return a condition with a subquery."""
        rng = self.rng
        draw = rng.random()
        ints = columns.get("int") or ["2"]
        not_ = rng.choice(["", "not "])
        if draw < 0.35:
            text, _ = self.rows(depth, columns, 1)
            return f"{not_}exists ({text})"
        if draw < 0.75 or self.sqlite:
            if rng.random() < 0.2:
                text, _ = self.select(depth, columns, 2, types=["int", "int"])
                return f"({rng.choice(ints)}, {rng.choice(ints)}) {not_}in ({text})"
            text, _ = self.rows(depth, columns, 1, types=["int"])
            made = f"{rng.choice(ints)} {not_}in ({text})"
            return f"({made}) is {not_}null" if rng.random() < 0.1 else made
        text, _ = self.select(depth, columns, 1, types=["int"])
        return f"{rng.choice(ints)} {self.comparison()} {rng.choice(['any', 'all'])} ({text})"

    def condition(self, depth: int, columns: Columns) -> str:  # noqa: PLR0911 - one line a kind
        rng = self.rng
        draw = rng.random()
        ints = columns.get("int") or ["2"]
        if depth > 0 and draw < 0.3:
            return self.mark(depth, columns)
        if draw < 0.4:
            return f"({self.condition(depth - 1, columns)} {rng.choice(['and', 'or'])} {self.condition(depth - 1, columns)})"
        if draw < 0.5:
            return f"{rng.choice(ints)} is {rng.choice(['', 'not '])}null"
        if draw < 0.55 and columns.get("text"):
            return f"{rng.choice(columns['text'])} {rng.choice(['= ', '<> ', 'like '])}'{rng.choice(_TEXTS)}'"
        if draw < 0.57:
            return f"{rng.choice(ints)} is {rng.choice(['', 'not '])}distinct from {rng.choice(ints)}"
        if draw < 0.62:
            return f"not ({self.condition(depth - 1, columns)})"
        other = rng.choice(ints) if rng.random() < 0.7 else str(rng.randint(0, 4))
        if depth > 0 and rng.random() < 0.15:
            other = self.scalar(depth, columns)
        return f"{rng.choice(ints)} {self.comparison()} {other}"


def _both(a: Columns, b: Columns) -> Columns:
    return {t: [*a.get(t, ()), *b.get(t, ())] for t in {**a, **b}}
