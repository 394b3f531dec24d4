"""From plans to collections, by the public API; what several read is made once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import attrs

from tidemill.collections.collection import Collection, Grouped
from tidemill.collections.recursion import LetRec, one_row_a_key
from tidemill.collections.table_functions import apply_table
from tidemill.expressions.expr import Alias, Call, Column, Expr, col, lit
from tidemill.expressions.functions import common_type
from tidemill.expressions.schema import Field, Schema, unused_name
from tidemill.expressions.sort_keys import SortKey
from tidemill.expressions.types import FLOAT64
from tidemill.expressions.windows.functions import rank
from tidemill.expressions.windows.specification import Window as WindowOf
from tidemill.sql import plan as p
from tidemill.sql.describe import written
from tidemill.sql.scopes import Names, shown
from tidemill.sql.trees import columns_of, renamed

if TYPE_CHECKING:
    from tidemill.collections.building import Building

_TAKEN = ("self", "emit", "k")
"""Names that methods of collections give a meaning of their own."""


@attrs.frozen(eq=False)
class Rows:
    """A collection, and which of its columns holds each column of a plan."""

    collection: Collection
    at: Mapping[str, str]

    def over(self, expression: Expr) -> Expr:
        """Return an expression over the collection's own columns."""
        names: dict[str, Expr] = {n: col(self.at[n]) for n in columns_of(expression) if n in self.at}
        return renamed(expression, names)

    def column(self, name: str) -> Expr:
        """Return a column of the plan."""
        return col(self.at[name])


class Lowering:
    """Makes collections of the plans of one statement."""

    def __init__(self, flow: Building, names: Names, roots: Sequence[p.Node]) -> None:
        self.flow = flow
        self.names = names
        self.made: dict[int, Rows] = {}
        self.kept: list[p.Node] = []
        self.blocks: dict[int, LetRec] = {}
        self.needed = p.needed(roots)
        self.reads: Counter[str] = Counter()
        for root in roots:
            for node in p.nodes(root):
                for e in node.expressions:
                    self.reads.update(columns_of(e))
                if isinstance(node, (p.Distinct, p.SetOp)):
                    self.reads.update(f.name for i in node.inputs for f in i.columns)

    def rows(self, root: p.Node) -> Rows:
        """Return what a plan gives."""
        todo = [root]
        while todo:
            node = todo[-1]
            missing = [n for n in node.inputs if id(n) not in self.made]
            if id(node) in self.made:
                todo.pop()
            elif missing:
                todo += missing
            else:
                with self.flow.graph.written(written(node.span, self.names.source.text)):
                    self.made[id(node)] = _RULES[type(node)](self, node)
                self.kept.append(node)
                todo.pop()
        return self.made[id(root)]

    def below(self, node: p.Node) -> list[Rows]:
        return [self.made[id(i)] for i in node.inputs]

    def picked(self, rows: Rows, fields: Sequence[Field]) -> Collection:
        """Return just these columns of the plan, under their own names."""
        names = _names([shown(f) for f in fields])
        given = [Alias(rows.column(f.name), n) for f, n in zip(fields, names, strict=True)]
        return rows.collection.select(*given)

    def computed(self, rows: Rows, named: Sequence[tuple[str, str, Expr]], emit: str = "on_update") -> Rows:
        """Return the rows with further columns: the plan's name of each, the one it would like, and what it is."""
        if not named:
            return rows
        taken, at, given = [*rows.collection.schema.names, *_TAKEN], dict(rows.at), []
        for name, wish, expression in named:
            own = unused_name(wish, taken)
            taken.append(own)
            given.append(Alias(rows.over(expression), own))
            at[name] = own
        return Rows(rows.collection.with_columns(*given, emit=emit), at)

    # -- one rule a node ----------------------------------------------------------------------------------------------

    def get(self, node: p.Get) -> Rows:
        return Rows(node.collection, dict(zip((f.name for f in node.columns), node.names, strict=True)))

    def values(self, node: p.Values) -> Rows:
        names = _names([shown(f) for f in node.columns])
        schema = Schema(tuple(attrs.evolve(f, name=n) for f, n in zip(node.columns, names, strict=True)))
        made = self.flow.constant(schema, list(node.rows))
        return Rows(made, dict(zip((f.name for f in node.columns), names, strict=True)))

    def project(self, node: p.Project) -> Rows:
        (rows,) = self.below(node)
        at = {f.name: rows.at[e.name] for f, e in node.named if isinstance(e, Column)}
        new = [(f.name, shown(f), e) for f, e in node.named if not isinstance(e, Column)]
        made = self.computed(rows, new)
        return Rows(made.collection, {**{f: made.at[f] for f, _, _ in new}, **at})

    def filter(self, node: p.Filter) -> Rows:
        (rows,) = self.below(node)
        return Rows(rows.collection.filter(*map(rows.over, _guarded(self.names, node.conditions))), rows.at)

    def temporal(self, node: p.Temporal) -> Rows:
        (rows,) = self.below(node)
        begin, end = (None if e is None else rows.over(e) for e in (node.begin, node.end))
        clock = node.clock
        if clock is not None:
            (shown_by,) = clock.schema.names
            clock = clock.select(Alias(col(shown_by).cast(node.clock_type), shown_by))
        return Rows(rows.collection.temporal_filter(begin, end, clock=clock), rows.at)

    def group(self, node: p.Group) -> Rows:
        (rows,) = self.below(node)
        fields = [f for f, _ in (*node.keys, *node.aggregates)]
        names = _names([shown(f) for f in fields])
        at = dict(zip((f.name for f in fields), names, strict=True))
        keys = [(at[f.name], rows.over(e)) for f, e in node.keys]
        if not node.aggregates:
            return Rows(rows.collection.select(*(Alias(e, n) for n, e in keys)).distinct(), at)
        aggregates = {at[f.name]: rows.over(e) for f, e in node.aggregates}
        return Rows(Grouped(rows.collection, keys).agg(**aggregates), at)

    def window(self, node: p.Window) -> Rows:
        (rows,) = self.below(node)
        emit = "on_close" if node.on_close else "on_update"
        return self.computed(rows, [(f.name, shown(f), e) for f, e in node.calls], emit)

    def unnest(self, node: p.Unnest) -> Rows:
        (rows,) = self.below(node)
        kept = {n: at for n, at in rows.at.items() if n in {f.name for f in node.columns}}
        arguments = [(f"argument#{i}", "argument", a) for i, a in enumerate(node.arguments)]
        given = self.computed(rows, arguments)
        names = [given.at[n] for n, _, _ in arguments]
        some = given.collection
        may_be_null = [n for n in names if some.schema.field(n).nullable and not node.function.takes_null]
        missing = [col(n).is_null() for n in may_be_null]
        if missing:
            some = some.filter(*(~m for m in missing))
        taken = list(dict.fromkeys(kept.values()))
        own: list[str] = []
        for field in node.made:
            own.append(unused_name(shown(field), [*taken, *own]))
        made = apply_table(some, attrs.evolve(node.function, names=tuple(own)), names, keep=taken)
        if node.outer:
            empty: list[Expr] = list(missing)
            if node.nothing is not None:
                empty.append(Call("coalesce", (given.over(node.nothing), lit(False))))
            if empty:
                alone = given.collection.filter(reduce(lambda a, b: a | b, empty))
                nulls = (Alias(lit(None).cast(f.dtype), n) for f, n in zip(node.made, own, strict=True))
                made = made.concat(alone.select(*map(col, taken), *nulls))
        return Rows(made, {**kept, **dict(zip((f.name for f in node.made), own, strict=True))})

    def top_k(self, node: p.TopK) -> Rows:
        (rows,) = map(narrowed, self.below(node))  # what is not selected breaks no ties
        by = [attrs.evolve(k, expression=rows.over(k.expression)) for k in node.order]
        rows, keys = self.keyed(rows, [rows.over(k) if not isinstance(k, Column) else k for k in node.keys])
        if node.count == 0:
            return Rows(rows.collection.filter(lit(False)), rows.at)
        if node.ties and node.count is not None:
            window = WindowOf.partition_by(*map(col, keys)).order_by(*by)
            name = unused_name("rank", rows.collection.schema.names)
            ranked = rows.collection.with_columns(Alias(rank().over(window), name))
            kept = ranked.filter(col(name) <= node.count + node.offset).drop(name)
            return Rows(self.without(kept, rows.collection, keys, by, node.offset), rows.at)
        made = rows.collection
        if node.count is not None:
            made = self.first(made, keys, by, node.count + node.offset)
        return Rows(self.without(made, rows.collection, keys, by, node.offset), rows.at)

    def keyed(self, rows: Rows, keys: Sequence[Expr]) -> tuple[Rows, list[str]]:
        """Return the rows with keys as columns, and these columns' names."""
        new = [(f"key#{i}", "key", k) for i, k in enumerate(keys) if not isinstance(k, Column)]
        made = self.computed(rows, new)
        names = [made.at[k.name] if isinstance(k, Column) else made.at[f"key#{i}"] for i, k in enumerate(keys)]
        return made, names

    def first(self, rows: Collection, keys: Sequence[str], by: Sequence[SortKey], k: int) -> Collection:
        return rows.group_by(*map(col, keys)).top_k(k, order_by=list(by))

    def without(
        self, made: Collection, rows: Collection, keys: Sequence[str], by: Sequence[SortKey], offset: int
    ) -> Collection:
        return made.except_all(self.first(rows, keys, by, offset)) if offset else made

    def distinct(self, node: p.Distinct) -> Rows:
        (rows,) = self.below(node)
        made = self.picked(rows, node.columns).distinct()
        return Rows(made, dict(zip((f.name for f in node.columns), made.schema.names, strict=True)))

    def at_most_one(self, node: p.AtMostOne) -> Rows:
        (rows,) = self.below(node)
        rows, keys = self.keyed(rows, node.keys)
        return Rows(one_row_a_key(rows.collection, keys, node.what), rows.at)

    def set_op(self, node: p.SetOp) -> Rows:
        names = _names([shown(f) for f in node.columns])
        sides = []
        for rows, side in zip(self.below(node), node.inputs, strict=True):
            pairs = zip(side.columns, names, strict=True)
            sides.append(rows.collection.select(*(Alias(rows.column(f.name), n) for f, n in pairs)))
        left, right = sides
        if node.operation == "union":
            made = left.concat(right)
        elif node.operation == "except":
            made = left.except_all(right) if node.all_rows else left.except_distinct(right)
        else:
            made = left.except_all(left.except_all(right)) if node.all_rows else left.intersect(right)
        return Rows(made, dict(zip((f.name for f in node.columns), names, strict=True)))

    def recursive(self, node: p.Recursive) -> Rows:
        block = node.block
        if id(block) not in self.blocks:
            self.define(block)
        names = _names([_plain(n) for n in node.names])
        at = dict(zip((f.name for f in node.columns), names, strict=True))
        return Rows(Collection(self.flow, self.blocks[id(block)].node_of(node.name)), at)

    def define(self, block: p.Block) -> None:
        """Make the block of recursion, binding by binding."""
        with self.flow.letrec(block.name, **block.limits) as rec:
            self.blocks[id(block)] = rec
            for binding in block.bindings:
                names = _names([_plain(f.name) for f in binding.fields])
                pairs = zip(binding.fields, names, strict=True)
                rec.declare(binding.name, Schema(tuple(Field(n, f.dtype) for f, n in pairs)))
            for binding in block.bindings:
                rows = self.rows(binding.value)
                rec.define(binding.name, self.picked(rows, binding.value.columns))

    # -- joins --------------------------------------------------------------------------------------------------------

    def join(self, node: p.Join) -> Rows:
        keys, rest = [], []
        own = {f.name for f in node.left.columns}, {f.name for f in node.right.columns}
        for condition in node.conditions:
            pair = _pair(condition, *own)
            if pair is None or self.names.can_fail(condition):  # which would be computed for rows without a partner
                rest.append(condition)
            else:
                keys.append(pair)
        safe = any(null_safe for _, _, null_safe in keys)
        if safe and node.how == "full":
            rest += [Call("eq", (a, b)) for a, b, null_safe in keys if not null_safe]
            keys = [k for k in keys if k[2]]
        left, right = map(narrowed, self.below(node))
        if rest and node.how != "inner":  # then whole rows are told apart, by all columns that there are
            left, right = (narrowed(r, self.needed[id(i)]) for r, i in zip((left, right), node.inputs, strict=True))
        if safe and node.how != "full":
            filled = [right.over(b.is_not_null()) for _, b, null_safe in keys if not null_safe]
            right = Rows(right.collection.filter(*filled), right.at) if filled else right
        left, right, on = self.key_columns(left, right, keys, node)
        return self.joined(left, right, on, rest, node, nulls_equal=safe)

    def key_columns(
        self, left: Rows, right: Rows, keys: Sequence[tuple[Expr, Expr, bool]], node: p.Join
    ) -> tuple[Rows, Rows, dict[str, str]]:
        """Return both sides with the columns that they are joined by, and the names of these."""
        new: tuple[list[Any], list[Any]] = ([], [])
        wanted: list[tuple[str, str]] = []
        for i, (a, b, _) in enumerate(keys):
            types = [self.names.type_of(e, None) for e in (a, b)]
            common = common_type(types)
            assert common is not None, "a comparison that was bound"
            names: list[str] = []
            for side, (e, dtype) in enumerate(zip((a, b), types, strict=True)):
                kept = side == 0 and node.how != "full"
                rows, own = (left, right)[side], getattr(e, "name", "")
                alone = [*rows.at.values()].count(rows.at.get(own, "")) == 1  # no other name means the same column
                unread = node.how in ("semi", "anti") or (alone and self.reads[own] <= 1)
                same = node.how == "inner" and dtype != FLOAT64
                if (
                    isinstance(e, Column)
                    and dtype == common
                    and (kept or unread or same)
                    and rows.at[e.name] not in [rows.at.get(pair[side]) for pair in wanted]  # by whatever name
                ):
                    names.append(e.name)
                else:
                    name = f"key#{i}.{side}"
                    new[side].append((name, "key", e if dtype == common else e.cast(common)))
                    names.append(name)
            wanted.append((names[0], names[1]))
        left, right = (self.computed(rows, some) for rows, some in zip((left, right), new, strict=True))
        on = {left.at[a]: right.at[b] for a, b in wanted}
        return left, right, on

    def joined(
        self, left: Rows, right: Rows, on: dict[str, str], rest: Sequence[Expr], node: p.Join, *, nulls_equal: bool
    ) -> Rows:
        """Return the pairs, or the left rows, and where their columns are."""
        mine, others = left.collection.schema.names, right.collection.schema.names
        dropped = {r: l for l, r in on.items()}
        suffix = "_right"
        while any(n in mine and (n + suffix in mine or n + suffix in others) for n in others if n not in dropped):
            suffix += "#"
        where_at = {n: dropped[c] if c in dropped else c + suffix if c in mine else c for n, c in right.at.items()}
        at = {**where_at, **left.at}
        conditions = [Rows(left.collection, at).over(c) for c in _guarded(self.names, rest)]
        where = reduce(lambda a, b: a & b, conditions) if conditions else None
        how: Any = node.how
        if how == "inner" and not on:
            made = left.collection.cross_join(right.collection, suffix=suffix)
            return Rows(made.filter(*conditions) if conditions else made, at)
        if how in ("left", "full") and not on and where is None:
            where = lit(True)
        made = left.collection.join(
            right.collection, on=on or [], how=how, suffix=suffix, where=where, nulls_equal=nulls_equal
        )
        return Rows(made, left.at if how in ("semi", "anti") else at)


def narrowed(rows: Rows, needed: Container[str] | None = None) -> Rows:
    """Return the rows without columns of which the plan knows nothing: joins of joins would double them each time.

    Of those that it knows, only what is needed, if that is said.
    """
    at = {n: c for n, c in rows.at.items() if needed is None or n in needed}
    known = dict.fromkeys(at.values())
    if not known or len(known) == len(rows.collection.schema):
        return rows
    return Rows(rows.collection.select(*map(col, known)), at)


def _guarded(names: Names, conditions: Sequence[Expr]) -> list[Expr]:
    """Return conditions; those from the first that can fail on as one, so that the ones before it guard it."""
    at = next((i for i, c in enumerate(conditions) if names.can_fail(c)), len(conditions))
    if len(conditions) < 2 or at == len(conditions):  # noqa: PLR2004 - one guards another
        return list(conditions)
    return [Call("and", tuple(conditions))]


def _pair(condition: Expr, left: set[str], right: set[str]) -> tuple[Expr, Expr, bool] | None:
    """Return both sides of an equality between columns of two inputs, and whether NULL equals NULL in it."""
    if not isinstance(condition, Call) or condition.function not in ("eq", "eq_null_safe"):
        return None
    a, b = condition.args
    for x, y in ((a, b), (b, a)):
        mine, others = columns_of(x), columns_of(y)
        if mine and others and mine <= left and others <= right:
            return x, y, condition.function == "eq_null_safe"
    return None


def _plain(name: str) -> str:
    return re.sub(r"#\d+", "", name)


def _names(wishes: Sequence[str]) -> list[str]:
    """Return names that differ, each what it would be or nearly."""
    found: list[str] = []
    for wish in wishes:
        found.append(unused_name(wish, [*found, *_TAKEN]))
    return found


_RULES: dict[type[p.Node], Any] = {
    p.Get: Lowering.get, p.Values: Lowering.values, p.Project: Lowering.project, p.Filter: Lowering.filter,
    p.Group: Lowering.group, p.Window: Lowering.window, p.TopK: Lowering.top_k, p.Distinct: Lowering.distinct,
    p.AtMostOne: Lowering.at_most_one, p.SetOp: Lowering.set_op, p.Recursive: Lowering.recursive, p.Join: Lowering.join,
    p.Unnest: Lowering.unnest, p.Temporal: Lowering.temporal,
}  # fmt: skip
