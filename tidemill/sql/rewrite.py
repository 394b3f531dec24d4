"""Rewrites of plans: comma joins and conditions become joins by equal columns. None of them adds an error of a row.

An outer join becomes an inner one where a condition drops the rows that lack a partner.

What may fail is evaluated after what cannot, in the order in which it was written; other conditions go to where the
columns that they read come together. Passes of the library do the rest: filters further down, columns that nobody
reads, limits to ranks, filters by one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from tidemill.expressions.expr import Call, Cast, Column, Expr
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.structure import key, resolve
from tidemill.sql.plan import Block, Filter, Join, Node, Project, Recursive, nodes
from tidemill.sql.scopes import Names
from tidemill.sql.trees import columns_of, renamed

_PARTNERED = ("left", "semi", "anti")
"""Joins whose right rows are there as partners alone."""


class Rewriter:
    """Rewrites the plans of one statement, each node once."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.made: dict[int, Node] = {}
        self.graphs: dict[int, tuple[list[Node], list[Expr]]] = {}
        self.joins: dict[int, Join] = {}
        self.readers: Counter[int] = Counter()
        self.kept: list[Node] = []
        """The nodes that are known by their identity: they live as long."""
        self.blocks: set[int] = set()

    def plan(self, root: Node) -> Node:
        """Return a plan that means the same."""
        for node in nodes(root):
            self.readers.update(map(id, node.inputs))
            self.kept.append(node)
        todo = [root]
        while todo:
            node = todo[-1]
            if id(node) in self.made:
                todo.pop()
                continue
            if isinstance(node, Recursive):
                self.block(node.block)
            below = self.relations(node)
            missing = [n for n in below if id(n) not in self.made]
            if missing:
                todo += missing
                continue
            self.made[id(node)] = self.rewritten(node)
            self.kept.append(node)
            todo.pop()
        return self.made[id(root)]

    def block(self, block: Block) -> None:
        """Rewrite what a block of bindings computes."""
        if id(block) not in self.blocks:
            self.blocks.add(id(block))
            block.bindings[:] = [attrs.evolve(b, value=self.plan(b.value)) for b in block.bindings]

    def relations(self, node: Node) -> Sequence[Node]:
        """Return what a node is made of: of filters and inner joins, what these join."""
        if isinstance(node, Join) and node.how in _PARTNERED:
            return self.narrowed(node).inputs
        return self.gathered(node)[0] if _is_graph(node) else node.inputs

    def narrowed(self, node: Join) -> Join:
        """Return a join with what it asks of its right rows alone asked before, where it orders their own joins."""
        if id(node) not in self.joins:
            own = {f.name for f in node.right.columns}
            conditions = [c for one in node.conditions for c in factored(one)]
            alone = [c for c in conditions if (r := columns_of(c)) and r <= own and not self.names.can_fail(c)]
            rest = tuple(c for c in conditions if all(c is not one for one in alone))
            right = _filtered(node.right, alone, node.span)
            self.joins[id(node)] = attrs.evolve(node, right=right, conditions=rest)
            self.kept.append(node)
        return self.joins[id(node)]

    def gathered(self, node: Node) -> tuple[list[Node], list[Expr]]:
        """Return what filters and inner joins join, and all their conditions, the inner ones first."""
        if id(node) not in self.graphs:
            relations, given = gathered(node)
            conditions = [c for one in given for c in factored(one)]
            self.graphs[id(node)] = [self.asked_below(r, conditions) for r in relations], conditions
            self.kept.append(node)
        return self.graphs[id(node)]

    def asked_below(self, relation: Node, conditions: list[Expr]) -> Node:
        """Return a relation with what can be asked of its input's columns asked of these; it is taken out.

        That is what is asked of columns that a projection passes on, and of those that a join has of its left side.
        """
        passed: dict[str, Expr] = {}
        if self.readers[id(relation)] > 1:  # which is computed once for all
            return relation
        if isinstance(relation, Project):
            passed = {f.name: e for f, e in relation.named if isinstance(e, Column)}
        elif isinstance(relation, Join) and relation.how in _PARTNERED:
            passed = {f.name: Column(f.name) for f in relation.left.columns}
        below = [c for c in conditions if (r := columns_of(c)) and r <= passed.keys() and not self.names.can_fail(c)]
        if not below:
            return relation
        conditions[:] = [c for c in conditions if all(c is not b for b in below)]
        if isinstance(relation, Project):
            return attrs.evolve(relation, input=_filtered(relation.input, [renamed(c, passed) for c in below], None))
        assert isinstance(relation, Join)
        return attrs.evolve(relation, left=_filtered(relation.left, below, None))

    def rewritten(self, node: Node) -> Node:
        if _is_graph(node):
            relations, conditions = self.gathered(node)
            return self.ordered([self.made[id(r)] for r in relations], conditions, node)
        if isinstance(node, Join):
            join = self.narrowed(node) if node.how in _PARTNERED else node
            asked = tuple(c for one in join.conditions for c in factored(one))
            return attrs.evolve(join, left=self.made[id(join.left)], right=self.made[id(join.right)], conditions=asked)
        inputs = [self.made[id(i)] for i in node.inputs]
        if len(inputs) == 1:
            return attrs.evolve(node, input=inputs[0])  # type: ignore[call-arg]
        return attrs.evolve(node, left=inputs[0], right=inputs[1]) if inputs else node  # type: ignore[call-arg]

    def ordered(self, relations: list[Node], given: list[Expr], node: Node) -> Node:
        """Return relations joined one after another, with each condition where it can be.

        Next is what is connected to those before, and of these what has conditions of its own, which leaves less rows;
        least where one of them asks for a value that is written out.
        """
        failing = [c for c in given if self.names.can_fail(c)]
        free = {id(c): (c, columns_of(c)) for c in given if not self.names.can_fail(c)}
        sides: list[tuple[Node, set[str]]] = []
        for relation in relations:
            own = {f.name for f in relation.columns}
            mine = [c for c, read in free.values() if read and read <= own]
            sides.append((_filtered(relation, mine, node.span), own))
            for condition in mine:
                del free[id(condition)]
        current, known = sides.pop(0)
        while sides:
            near = [i for i, (_, own) in enumerate(sides) if any(_connects(c, known, own) for c, _ in free.values())]
            at = min(near, key=lambda i: _rank(sides[i][0]), default=0)
            side, own = sides.pop(at)
            known = known | own
            now = [c for c, read in free.values() if read <= known]
            for condition in now:
                del free[id(condition)]
            current = Join(left=current, right=side, how="inner", conditions=tuple(now))
        rest = [*(c for c, _ in free.values()), *failing]
        made = _filtered(current, rest, node.span)
        return attrs.evolve(made, columns=node.columns, span=node.span) if isinstance(made, (Filter, Join)) else made


def _is_graph(node: Node) -> bool:
    return isinstance(node, Filter) or (isinstance(node, Join) and node.how == "inner")


def gathered(node: Node) -> tuple[list[Node], list[Expr]]:
    """Return what filters and inner joins join, and their conditions as they are written, the inner ones first."""
    relations: list[Node] = []
    conditions: list[tuple[int, Expr]] = []
    todo = [(node, 0)]
    while todo:
        part, depth = todo.pop()
        if isinstance(part, Join) and part.how in ("left", "full"):
            part = _without_lone_rows(part, [c for _, c in conditions])
        if isinstance(part, Filter):
            conditions += [(depth, c) for c in part.conditions]
            todo.append((part.input, depth + 1))
        elif isinstance(part, Join) and part.how == "inner":
            conditions += [(depth, c) for c in part.conditions]
            todo += [(part.right, depth + 1), (part.left, depth + 1)]
        else:
            relations.append(part)
    ordered = sorted(conditions, key=lambda pair: -pair[0])
    return relations, [c for _, c in ordered]


def _without_lone_rows(join: Join, conditions: list[Expr]) -> Join:
    """Return an outer join as one of less rows, where conditions are true for none that lack a partner."""
    left, right = ({f.name for f in side.columns} for side in join.inputs)
    needs_left = any(rejects_nulls(c, left) for c in conditions)
    needs_right = any(rejects_nulls(c, right) for c in conditions)
    if join.how == "left":
        return attrs.evolve(join, how="inner") if needs_right else join
    if needs_left and needs_right:
        return attrs.evolve(join, how="inner")
    if needs_right:
        return attrs.evolve(join, how="left", left=join.right, right=join.left)
    return attrs.evolve(join, how="left") if needs_left else join


def rejects_nulls(condition: Expr, names: set[str]) -> bool:
    """Return whether a condition cannot be true where all of some columns are NULL."""
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        several = any if condition.function == "and" else all
        return several(rejects_nulls(p, names) for p in condition.args)
    if isinstance(condition, Call) and condition.function == "not":
        (inner,) = condition.args
        if isinstance(inner, Call) and inner.function == "is_null":
            return _is_null_with(inner.args[0], names)
    return _is_null_with(condition, names)


def _is_null_with(expression: Expr, names: set[str]) -> bool:
    """Return whether an expression is NULL where all of some columns are."""
    plain = resolve(expression)
    if isinstance(plain, Column):
        return plain.name in names
    if isinstance(plain, Call) and plain.function == "in":
        return _is_null_with(plain.args[0], names)
    if isinstance(plain, Call):
        function = FUNCTIONS.get(plain.function)
        if function is None or function.sees_null or function.lazy:
            return False
    return isinstance(plain, (Call, Cast)) and any(_is_null_with(p, names) for p in plain.parts)


def _filtered(node: Node, conditions: list[Expr], span: tuple[int, int] | None) -> Node:
    if not conditions:
        return node
    return Filter(input=node, conditions=tuple(conditions), span=span)


def _rank(node: Node) -> int:
    """Return a number that is less where conditions of their own leave less of rows, as far as one can tell."""
    while isinstance(node, Project):
        node = node.input
    return 2 if not isinstance(node, Filter) else 0 if any(map(picks, node.conditions)) else 1


def picks(condition: Expr) -> bool:
    """Return whether a condition asks for a value that is written out, or for one of several."""
    plain = resolve(condition)
    if not isinstance(plain, Call) or plain.function not in ("eq", "in"):
        return False
    return sum(bool(columns_of(part)) for part in plain.parts) == 1


def _connects(condition: Expr, known: set[str], own: set[str]) -> bool:
    if not isinstance(condition, Call) or condition.function not in ("eq", "eq_null_safe"):
        return False
    a, b = (columns_of(p) for p in condition.args)
    return bool(a and b) and ((a <= known and b <= own) or (b <= known and a <= own))


def factored(condition: Expr) -> list[Expr]:
    """Return conditions that all have to be true; those that stand in all terms of an OR are taken out of it."""
    if not isinstance(condition, Call):
        return [condition]
    if condition.function == "and":
        return [c for p in condition.args for c in factored(p)]
    if condition.function != "or":
        return [condition]
    terms = [factored(p) for p in _terms(condition)]
    common = {key(c): c for c in terms[0]}
    for term in terms[1:]:
        have = {key(c) for c in term}
        common = {k: c for k, c in common.items() if k in have}
        if not common:
            return [condition]
    left: list[list[Expr]] = []
    for term in terms:
        rest = [c for c in term if key(c) not in common]
        if not rest:
            return list(common.values())
        left.append(rest)
    parts = tuple(r[0] if len(r) == 1 else Call("and", tuple(r)) for r in left)
    return [*common.values(), Call("or", parts)]


def _terms(condition: Call) -> list[Expr]:
    found: list[Expr] = []
    for part in condition.args:
        found += _terms(part) if isinstance(part, Call) and part.function == "or" else [part]
    return found
