"""Conditions on the present time in WHERE, as temporal filters: a row is there from one time on, to another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, Final

import attrs
from sqlglot import exp

from tidemill.expressions.expr import Call, Expr, lit
from tidemill.expressions.types import DATE, INT64, TIMESTAMP, DType
from tidemill.sql.expressions import Expressions, chain
from tidemill.sql.plan import Filter, Get, Node, Temporal
from tidemill.sql.scopes import Names, Relation

NOW: Final = "now"
"""The table whose only row is the present time."""
_LOGICAL: Final = ("mz_now",)
_NAMES: Final = {
    "now": TIMESTAMP, "current_timestamp": TIMESTAMP, "localtimestamp": TIMESTAMP, "current_date": DATE,
    "curdate": DATE, "mz_now": INT64,
}  # fmt: skip
_CLASSES: Final[dict[type, DType]] = {
    exp.CurrentTimestamp: TIMESTAMP,
    exp.CurrentDate: DATE,
    exp.Localtimestamp: TIMESTAMP,
}
_MIRRORED: Final[dict[type, Any]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}


@attrs.frozen(eq=False)
class Bounds:
    """From when on a row is there, and to when: of the clock of this type, or of the dataflow's own times."""

    dtype: DType
    is_logical: bool
    begins: list[Expr] = attrs.field(factory=list)
    ends: list[Expr] = attrs.field(factory=list)


def reads_present(query: exp.Expression) -> bool:
    """Return whether a query or statement asks for the present time."""
    return any(_present(node) in (DATE, TIMESTAMP) for node in query.find_all(exp.Expression))


def fix(query: exp.Expression, present: dt.datetime) -> None:
    """Write the present time for all calls of it in a query that is asked once; ages of one moment are those today."""
    for node in [*query.find_all(exp.Expression)]:
        is_age = isinstance(node, exp.Anonymous) and node.name.lower() == "age" and len(node.expressions) == 1
        dtype = DATE if is_age else _present(node)
        if dtype not in (DATE, TIMESTAMP):
            continue
        kind = exp.DataType.Type.DATE if dtype == DATE else exp.DataType.Type.TIMESTAMPNTZ
        text = exp.Literal.string(str(present.date() if dtype == DATE else present))
        written = exp.Cast(this=text, to=exp.DataType(this=kind))
        for one in (written, text):
            one.meta.update(node.meta)
        if is_age:
            node.set("expressions", [written, *node.expressions])
        else:
            node.replace(written)


def split(condition: exp.Expression) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """Return the parts of a condition that compare with the present time, and the others."""
    parts: list[exp.Expression] = []
    for one in chain(condition, exp.And):
        bare = one.unnest()
        if isinstance(bare, exp.Between) and _is_present(bare.this):
            parts += [
                kind(this=bare.this, expression=bare.args[end]) for kind, end in ((exp.GTE, "low"), (exp.LTE, "high"))
            ]
        else:
            parts.append(one)
    clocked = [p for p in parts if type(p.unnest()) in _MIRRORED and any(map(_is_present, _sides(p)))]
    return clocked, [p for p in parts if all(p is not c for c in clocked)]


def _sides(node: exp.Expression) -> Iterator[exp.Expression]:
    bare = node.unnest()
    return iter((bare.this, bare.expression))


def _present(node: exp.Expression) -> DType | None:
    """Return the type of the present time, if a node is a call for it."""
    if isinstance(node, exp.Anonymous):
        return None if node.expressions else _NAMES.get(node.name.lower())
    return _CLASSES.get(type(node))


def _is_present(node: exp.Expression) -> bool:
    """Return whether a node is the present time, or so long before or after it."""
    bare: Any = node.unnest()
    return _present(bare.this.unnest() if isinstance(bare, (exp.Add, exp.Sub)) else bare) is not None


def clocked(names: Names, plan: Node, parser: Expressions, nodes: list[exp.Expression], environment: Any) -> Node:
    """Return the rows while conditions on the present time are true; NULL is never true."""
    by: dict[tuple[DType, bool], Bounds] = {}
    for node in nodes:
        _read(names, parser, node, by)
    for bounds in by.values():
        known = tuple(e.is_not_null() for e in (*bounds.begins, *bounds.ends))
        plan = Filter(input=plan, conditions=known)
        begin, end = _one("greatest", bounds.begins), _one("least", bounds.ends)
        if begin is not None and end is not None:
            plan = Filter(input=plan, conditions=(begin < end,))
        clock = None if bounds.is_logical else _clock(names, nodes[0], bounds.dtype, environment)
        plan = Temporal(input=plan, begin=begin, end=end, clock=clock, clock_type=bounds.dtype)
    return plan


def _one(function: str, several: list[Expr]) -> Expr | None:
    if not several:
        return None
    return several[0] if len(several) == 1 else Call(function, tuple(several))


def _clock(names: Names, node: Any, dtype: DType, environment: Any) -> Any:
    made = environment.get(names.dialect.key_of(NOW))
    found: Relation | None = None if made is None else made()
    if found is None or len(found.columns) != 1 or not isinstance(found.plan, Get):
        hint = f"give it, as in tables={{'{NOW}': clock}}, or CREATE TABLE {NOW} (t TIMESTAMP NOT NULL)"
        raise names.error(
            node, f"the present time is the only row of a table `{NOW}` of one column: there is none", hint
        )
    (field,) = found.plan.columns
    if field.dtype not in (TIMESTAMP, dtype):
        raise names.error(node, f"table `{NOW}` shows {field.dtype}: expected {TIMESTAMP}")
    return found.plan.collection


def _read(names: Names, parser: Expressions, node: exp.Expression, by: dict[tuple[DType, bool], Bounds]) -> None:
    """Put what one comparison says to the bounds of its clock."""
    bare: Any = node.unnest()
    kind: Any = type(bare)
    present, other = bare.this.unnest(), bare.expression.unnest()
    if not _is_present(present):
        kind, present, other = _MIRRORED[kind], other, present
    if _is_present(other):
        raise names.error(node, "the present time is compared with itself")
    value = parser.expression(other)
    call = present
    if isinstance(present, (exp.Add, exp.Sub)):  # now() - x < y: now() < y + x
        call, shift = present.this.unnest(), parser.expression(present.expression)
        value = Call("subtract" if isinstance(present, exp.Add) else "add", (value, shift))
    dtype = _present(call)
    assert dtype is not None, "a call of the present time"
    given = names.type_of(value, node)
    if dtype != INT64 and given in (DATE, TIMESTAMP):
        value = value if given == dtype else value.cast(dtype) if dtype == TIMESTAMP else value
        dtype = TIMESTAMP if given == TIMESTAMP else dtype
    elif not (dtype == INT64 and given.is_integer):
        raise names.error(node, f"the present time, of {dtype}, is compared with {given}")
    is_logical = call.name.lower() in _LOGICAL
    bounds = by.setdefault((dtype, is_logical), Bounds(dtype, is_logical))
    after = _after(value, dtype)
    if kind in (exp.GTE, exp.EQ):
        bounds.begins.append(value)
    if kind is exp.GT:
        bounds.begins.append(after)
    if kind is exp.LT:
        bounds.ends.append(value)
    if kind in (exp.LTE, exp.EQ):
        bounds.ends.append(after)


def _after(value: Expr, dtype: DType) -> Expr:
    """Return the moment after a moment, of those that the type has."""
    if dtype == DATE:
        return Call("date_add", (value, lit(1)))
    if dtype == TIMESTAMP:
        return Call("timestamp_micros", (Call("unix_micros", (value,)) + 1,))
    return value.cast(INT64) + 1
