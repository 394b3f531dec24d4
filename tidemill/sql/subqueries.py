"""Subqueries in expressions and in FROM, as joins: values, three-valued marks, semi and anti joins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tidemill.expressions.aggregate_functions import count, first
from tidemill.expressions.aggregate_functions import max as max_of
from tidemill.expressions.aggregate_functions import min as min_of
from tidemill.expressions.expr import Call, Column, Expr, lit
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import BOOL, INT64
from tidemill.expressions.windows.calls import WindowCall
from tidemill.sql.decorrelate import Unnested, can_fail, grouped, unnested, when_empty
from tidemill.sql.plan import AtMostOne, Distinct, Filter, Group, Join, Node, Project, TopK, free
from tidemill.sql.scopes import Names
from tidemill.sql.syntax import start_of
from tidemill.sql.trees import Sub, is_larger, is_null, mapped, renamed, subqueries, walked

NULL = lit(None)
_MOST_PARTS = 1000
"""Of conditions and values that are written over what lies below projections, each of which may double them."""


def applied(names: Names, plan: Node, expression: Expr) -> tuple[Node, Expr]:
    """Return the rows with the values of all subqueries in an expression, and the expression over these."""
    known: set[int] = set()
    for sub, guard in _guarded(expression, ()):
        if id(sub.own) in known:
            continue
        known.add(id(sub.own))
        operands = []
        for operand in sub.operands:
            plan, value = applied(names, plan, operand)
            operands.append(value)
        asking = Filter(input=plan, conditions=guard) if guard and free(sub.plan) else plan
        before = plan
        plan, value = resolved(names, plan, attrs.evolve(sub, operands=tuple(operands)), asking)
        if plan is not before and plan.span is None:
            plan = attrs.evolve(plan, span=names.source.span(sub.node))
        expression = swapped(expression, sub, value)
    return plan, expression


def _guarded(expression: Expr, guard: tuple[Expr, ...]) -> Iterator[tuple[Sub, tuple[Expr, ...]]]:
    """Iterate over the subqueries in an expression, each with what CASE has to find for it to be asked."""
    plain = resolve(expression)
    if isinstance(plain, Sub):
        yield plain, guard
        return
    if not isinstance(plain, Call) or plain.function != "case":
        for part in plain.parts:
            yield from _guarded(part, guard)
        return
    before = guard
    *branches, default = plain.args
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        yield from _guarded(condition, before)
        is_known = not subqueries(condition) and not any(isinstance(p, WindowCall) for p in walked(condition))
        yield from _guarded(value, (*before, condition) if is_known else before)
        if is_known:
            before = (*before, Call("not", (Call("coalesce", (condition, lit(False))),)))
    yield from _guarded(default, before)


def swapped(expression: Expr, sub: Sub, value: Expr) -> Expr:
    """Return an expression with a value in the place of a subquery."""
    return mapped(expression, lambda e: value if isinstance(e, Sub) and e.own is sub.own else None)


def filtered_by(names: Names, plan: Node, condition: Expr, node: Any) -> Node:
    """Return the rows for which a condition with subqueries is true."""
    negated = isinstance(condition, Call) and condition.function == "not"
    inner = condition.args[0] if isinstance(condition, Call) and negated else condition
    if isinstance(inner, Sub) and inner.kind != "scalar" and not any(subqueries(o) for o in inner.operands):
        pairs = list(zip(inner.operands, inner.values, strict=True)) if inner.kind == "compare" else []
        plain = inner.comparison == "eq" and not any(is_null(x) for pair in pairs for x in pair)
        known = not any(names.typed(x, None)[1].nullable for pair in pairs for x in pair) if plain and negated else True
        if plain and known:
            equal: list[Expr] = [Call("eq", pair) for pair in pairs]
            for one in equal:
                names.condition(one, inner.node, "IN")
            made = partnered(names, plan, inner.plan, "anti" if negated else "semi", equal)
            return attrs.evolve(made, span=names.source.span(inner.node))
    kept = plan.columns
    plan, condition = applied(names, plan, condition)
    condition = names.condition(condition, node, "WHERE")
    return Filter(input=plan, conditions=(condition,), columns=kept)


def partnered(names: Names, plan: Node, sub: Node, how: str, equal: list[Expr]) -> Node:
    """Return the rows with or without a partner in a subquery."""
    conditions, rows = list(equal), sub
    while free(rows):
        if isinstance(rows, Project):
            inside: dict[str, Expr] = {f.name: e for f, e in rows.named}
            below = [renamed(c, inside) for c in conditions]
            if is_larger(below, _MOST_PARTS):
                break
            conditions = below
        elif isinstance(rows, Filter):
            conditions = [*rows.conditions, *conditions]
        elif not isinstance(rows, Distinct) and not (isinstance(rows, TopK) and _keeps_one(rows) and not equal):
            break
        rows = rows.input
    if free(rows):
        made = unnested(names, plan, sub)
        rows, conditions = made.plan, [*made.conditions, *equal]
    return Join(left=plan, right=rows, how=how, conditions=tuple(conditions))


def _keeps_one(node: TopK) -> bool:
    return not node.keys and not node.offset and node.count != 0


def joined_laterally(names: Names, left: Node, right: Node, how: str, conditions: list[Expr]) -> Node:
    """Return the pairs of each row with those of a subquery that reads its columns."""
    made = unnested(names, left, right)
    rows = joined(names, left, made.plan, how, [*made.conditions, *conditions])
    return attrs.evolve(rows, columns=(*left.columns, *right.columns))


def joined(names: Names, left: Node, right: Node, how: str, conditions: list[Expr]) -> Node:
    """Return a join; columns that it can make NULL are known to be so from now on."""
    if how in ("left", "full"):
        for field in (*right.columns, *(left.columns if how == "full" else ())):
            names.fields[field.name] = attrs.evolve(field, nullable=True)
    return Join(left=left, right=right, how=how, conditions=tuple(conditions))


def resolved(names: Names, plan: Node, sub: Sub, asking: Node | None = None) -> tuple[Node, Expr]:
    """Return the rows with the value of a subquery; those that ask for it may be fewer."""
    asking = plan if asking is None else asking
    if sub.kind == "scalar":
        return _scalar(names, plan, sub, asking)
    if sub.kind == "exists":
        return _exists(names, plan, sub.plan, asking)
    for pair in zip(sub.operands, sub.values, strict=True):
        if not any(map(is_null, pair)):
            names.condition(Call(sub.comparison, pair), sub.node, "a comparison with a subquery")
    if len(sub.operands) == 1:
        return _compared(names, plan, sub, asking)
    if sub.comparison != "eq":
        raise names.error(sub.node, "rows are compared with ANY by = and with ALL by <> only")
    return _row_compared(names, plan, sub, asking)


# -- scalar subqueries ------------------------------------------------------------------------------------------------


def _scalar(names: Names, plan: Node, sub: Sub, asking: Node) -> tuple[Node, Expr]:
    (value,) = sub.values
    whole = _aggregated(sub.plan, value)
    if whole is not None:
        group, value, conditions = whole
        plan, empty = _beside_group(names, plan, group, asking)
        value = renamed(value, empty)
        if conditions:
            both = [names.condition(renamed(c, empty), sub.node, "HAVING") for c in conditions]
            value = Call("case", (both[0] if len(both) == 1 else Call("and", tuple(both)), value, NULL))
        return plan, value
    if is_null(value):
        return plan, value
    single = _is_single(sub.plan)
    if not free(sub.plan):
        rows = sub.plan if single else AtMostOne(input=sub.plan, keys=(), what=_called(names, sub))
        field = (
            names.again(names.fields[value.name])
            if isinstance(value, Column)
            else names.column(value, "value", sub.node)[0]
        )
        field = names.field(field.name, field.dtype)
        one = Group(input=rows, keys=(), aggregates=((field, first(value, order_by=[value])),))
        return joined(names, plan, one, "inner", []), Column(field.name)
    made = unnested(names, asking, sub.plan, derive=single)
    rows = made.plan
    if not single:
        rows = AtMostOne(input=rows, keys=tuple(made.at.values()), what=_called(names, sub))
    return joined(names, plan, rows, "left", made.conditions), value


def _called(names: Names, sub: Sub) -> str:
    text, start = names.source.text, start_of(sub.node) or 0
    return f"the scalar subquery at line {text.count(chr(10), 0, start) + 1}"


def _is_single(plan: Node) -> bool:
    """Return whether a plan has one row at most, or one for each value of outer columns."""
    while isinstance(plan, (Project, Filter, Distinct)):
        plan = plan.input
    return isinstance(plan, TopK) and not plan.keys and plan.count in (0, 1) and not plan.ties


def _aggregated(plan: Node, value: Expr) -> tuple[Group, Expr, list[Expr]] | None:
    """Return the one group that a plan computes its row of, the value over it, and conditions of the row."""
    conditions: list[Expr] = []
    while isinstance(plan, (Project, Filter)):
        if isinstance(plan, Filter):
            conditions = [*plan.conditions, *conditions]
        else:
            inside: dict[str, Expr] = {f.name: e for f, e in plan.named}
            value, conditions = renamed(value, inside), [renamed(c, inside) for c in conditions]
            if is_larger([value, *conditions], _MOST_PARTS):
                return None
        plan = plan.input
    return (plan, value, conditions) if isinstance(plan, Group) and not plan.keys else None


def _beside_group(names: Names, plan: Node, group: Group, asking: Node) -> tuple[Node, dict[str, Expr]]:
    """Return the rows beside the aggregates of their group, and what these are, also where there is no group."""
    if not free(group):
        return joined(names, plan, group, "inner", []), {}
    made = _of_group(names, asking, group)
    values: dict[str, Expr] = {f.name: when_empty(e, Column(f.name)) for f, e in group.aggregates}
    return joined(names, plan, made.plan, "left", made.conditions), values


def _of_group(names: Names, plan: Node, group: Group) -> Unnested:
    """Return the aggregates of a group for all values of the outer columns that have one."""
    safe = not can_fail(names, group)
    # The arguments of the aggregates may read outer columns too: below, they are columns of the rows.
    below = _with_outer(group)
    made = unnested(names, plan, below, derive=safe)
    over, keys = grouped(names, group, made.plan, made.at)
    return Unnested(over, keys, made.derived)


def _with_outer(group: Group) -> Node:
    """Return a group's rows; if its aggregates alone read outer columns, so that the rows seem to read them too."""
    missing = sorted(free(group) - free(group.input))
    if not missing:
        return group.input
    always = tuple(Call("or", (Call("is_null", (Column(m),)), lit(True))) for m in missing)
    return Filter(input=group.input, conditions=always)


# -- marks ------------------------------------------------------------------------------------------------------------


def _exists(names: Names, plan: Node, sub: Node, asking: Node) -> tuple[Node, Expr]:
    if not free(sub):
        number = names.field("rows", INT64, nullable=False)
        counted = Group(input=sub, keys=(), aggregates=((number, count()),))
        return joined(names, plan, counted, "inner", []), Call("gt", (Column(number.name), lit(0)))
    made = unnested(names, asking, sub)
    return _marked(names, plan, made, [], [])


def _marked(names: Names, plan: Node, made: Unnested, values: list[Expr], conditions: list[Expr]) -> tuple[Node, Expr]:
    """Return the rows beside a mark that is not NULL where there is a row with these values."""
    keys = [names.column(v, "value", None) for v in values]
    mark = names.field("found", BOOL, nullable=False)
    fields = [f for f, _ in keys]
    fields += [names.fields[c.name] for c in made.at.values() if isinstance(c, Column)]
    passed = tuple((f, e) for f, e in keys) + tuple((f, Column(f.name)) for f in fields[len(keys) :])
    rows = Project(input=made.plan, named=passed)
    once = Distinct(input=rows)
    named = (*((f, Column(f.name)) for f in once.columns), (mark, lit(True)))
    marked = Project(input=once, named=named)
    equal = [Call("eq", (c, Column(f.name))) for c, f in zip(conditions, fields, strict=False)]
    found = joined(names, plan, marked, "left", [*made.conditions, *equal])
    return found, Call("not", (Call("is_null", (Column(mark.name),)),))


def _compared(names: Names, plan: Node, sub: Sub, asking: Node) -> tuple[Node, Expr]:
    """Return whether some row of a subquery compares: true, false, or NULL where a NULL leaves it open."""
    (x,), (y,) = sub.operands, sub.values
    known = not is_null(x) and not is_null(y)
    total, valued = names.field("rows", INT64), names.field("values", INT64)
    aggregates = [(total, count())]
    if not is_null(y):
        aggregates.append((valued, count(y)))
    ends = []
    if known and sub.comparison != "eq":
        dtype = names.typed(y, sub.node)[1].dtype
        ends = [names.field("least", dtype), names.field("most", dtype)]
        aggregates += zip(ends, (min_of(y), max_of(y)), strict=True)
    group = Group(input=sub.plan, keys=(), aggregates=tuple(aggregates))
    made = unnested(names, asking, sub.plan) if free(sub.plan) else Unnested(sub.plan, {}, derived=True)
    if made.at:
        over, keys = grouped(names, group, made.plan, made.at)
        plan = joined(names, plan, over, "left", Unnested(over, keys, made.derived).conditions)
    else:
        plan = joined(names, plan, group, "inner", [])
    none = Call("eq", (Call("coalesce", (Column(total.name), lit(0))), lit(0)))
    missing = lit(True) if is_null(y) else Call("lt", (Column(valued.name), Column(total.name)))
    match: Expr = lit(False)
    if known and sub.comparison == "eq":
        filled = Filter(input=made.plan, conditions=(y.is_not_null(),))
        plan, match = _marked(names, plan, attrs.evolve(made, plan=filled), [y], [x])
    elif known:
        match = _beyond(sub.comparison, x, *(Column(f.name) for f in ends))
    open_ = Call("or", (x.is_null() if not is_null(x) else lit(True), missing))
    return plan, Call("case", (none, lit(False), match, lit(True), open_, NULL, lit(False)))


def _beyond(comparison: str, x: Expr, least: Expr, most: Expr) -> Expr:
    """Return whether a value compares with the least or the greatest of several, as it then does with some."""
    if comparison == "ne":
        return Call("or", (Call("ne", (x, least)), Call("ne", (x, most))))
    return Call(comparison, (x, most if comparison in ("lt", "le") else least))


def _row_compared(names: Names, plan: Node, sub: Sub, asking: Node) -> tuple[Node, Expr]:
    """Return whether a row is one of a subquery's; NULL where only NULLs stand against it."""
    pairs = list(zip(sub.operands, sub.values, strict=True))
    equal = [Call("eq", p) for p in pairs if not any(map(is_null, p))]
    maybe = [Call("or", (Call("eq", p), p[0].is_null(), p[1].is_null())) for p in pairs if not any(map(is_null, p))]
    match: Expr = lit(False)
    if len(equal) == len(pairs):
        plan, match = _exists(names, plan, Filter(input=sub.plan, conditions=tuple(equal)), asking)
    possible = Filter(input=sub.plan, conditions=tuple(maybe)) if maybe else sub.plan
    plan, open_ = _exists(names, plan, possible, asking)
    return plan, Call("case", (match, lit(True), open_, NULL, lit(False)))
