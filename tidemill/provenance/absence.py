"""Why a row is not there: backwards from the output, what each operator would have needed, until something is missing.

What is known of a row is some of its columns: an operator that computes others says nothing of where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Never, TypeAlias

from tidemill.boundary.values import canonical
from tidemill.dataflow import composites, nodes
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import brief
from tidemill.expressions.bound import Bound, BoundColumn, BoundLiteral
from tidemill.provenance.kept import observed_name, with_every_node_observed, with_one_output
from tidemill.provenance.validity import by_clock, is_validity
from tidemill.renderer.diagram.reason import Reason, Row
from tidemill.renderer.engines import Embedded

Known = dict[int, Any]
"""The known part of a row: values by column."""
Partnered: TypeAlias = composites.SemiJoin | composites.AntiJoin | composites.SetOperation
Asking: TypeAlias = Generator[tuple[Node, Known], Reason, Reason]
"""A search for a reason, which asks on its way for those of other rows."""

_SHOWN: Final = 3
_NULL_KEY: Final = "NULL in a key matches nothing, unless nulls_equal=True"
_REFUSED: Final[dict[type[Node], str]] = {
    nodes.Filter: "which the condition refuses",
    composites.ComparingFilter: "which the condition refuses",
    nodes.Negate: "which it takes away",
    nodes.Threshold: "of which its function leaves none",
    composites.TopK: "which others come before",
    composites.Windowed: "with other values added",
}


def absence(graph: Graph, given: Mapping[str, Mapping[Row, int]], output: str, row: Row) -> Reason:
    """Return the reason why an output lacks a row, when the inputs hold the given rows.

    What the output does not depend on is not run: it may have an error there that the asked run never met.
    """
    graph = with_one_output(graph, output)
    with Embedded(threads=1).start(GraphPlan.of(with_every_node_observed(graph), None), 0) as run:
        for name, rows in given.items():
            least: Any = (0,) * len(graph.coordinates) if len(graph.coordinates) > 1 else 0
            run.update(name, [(of, least, count) for of, count in rows.items() if count])
        run.close_inputs()
        search = _Search(graph, lambda node: run.snapshot(observed_name(node)).counts())
        node = graph.outputs[output]
        return search.of(node.inputs[0], dict(enumerate(row)))


class _Search:
    """The rows of operators in the end, and the searches made already."""

    def __init__(self, graph: Graph, contents: Callable[[Node], Mapping[Row, int]]) -> None:
        self._graph = graph
        self._by_clock = by_clock(graph)
        self._read = contents
        self._contents: dict[Node, list[Row]] = {}
        self._asked: set[tuple[Node, tuple[Any, ...]]] = set()

    def of(self, node: Node, known: Known) -> Reason:
        """Return why a node holds no row of which this is known; or that it does.

        A chain of what is missing may be longer than functions may call each other, so who asks waits in a list.
        """
        waiting = [self._of(node, known)]
        reason: Reason | None = None
        while True:
            try:
                question = next(waiting[-1]) if reason is None else waiting[-1].send(reason)
            except StopIteration as found:
                reason = found.value
                waiting.pop()
                if not waiting:
                    assert reason is not None
                    return reason
            else:
                waiting.append(self._of(*question))
                reason = None

    def _of(self, node: Node, known: Known) -> Asking:
        there = self._with(node, known)
        if there:
            return _found(node, f"{_number(there)} with {_shown(node, known)}: {_some(there)}")
        key = (node, tuple(sorted(known.items(), key=lambda one: one[0])))
        if key in self._asked:
            return _found(node, f"none with {_shown(node, known)}, as above", is_repeated=True)
        self._asked.add(key)
        return (yield from self._missing(node, known))

    def _missing(self, node: Node, known: Known) -> Asking:
        is_distinct = isinstance(node, nodes.Threshold) and node.function is None
        if is_distinct or isinstance(node, (nodes.Arrange, nodes.Consolidate, nodes.Enter, nodes.Leave)):
            return (yield node.inputs[0], known)
        line = f"none with {_shown(node, known)}"
        if isinstance(node, nodes.Input):
            what = "constant" if node.rows is not None else f"input {node.name!r}"
            return Reason(f"{what} has no row with {_shown(node, known)}")
        if isinstance(node, nodes.Variable):
            return (yield _body(self._graph, node), known)
        if node in self._by_clock:
            return (yield from self._clocked(node, known, line))
        ways: list[tuple[tuple[type[Node], ...], Callable[[Any, Known, str], Asking]]] = [
            ((nodes.Concat,), self._alternatives),
            ((nodes.Join,), self._pair),
            ((composites.DeltaJoin,), self._several),
            ((composites.OuterJoin,), self._outer),
            ((composites.SemiJoin, composites.AntiJoin, composites.SetOperation), self._partnered),
            ((composites.Aggregate, nodes.Reduce), self._group),
            ((nodes.Map,), self._computed),
            ((nodes.FlatMap,), self._made),
        ]
        way = next((way for kinds, way in ways if isinstance(node, kinds)), self._through)
        return (yield from way(node, known, line))

    def _through(self, node: Node, known: Known, line: str) -> Asking:
        """Operators that let rows through, or do not, and may add columns to them."""
        (source, *_) = node.inputs
        width = len(source.schema.names)
        same = {c: v for c, v in known.items() if c < width} if source.schema.names == node.schema.names[:width] else {}
        there = self._with(source, same)
        if not there:
            return _found(node, line, ((yield source, same),))
        why = next((text for kind, text in _REFUSED.items() if isinstance(node, kind)), "of which it makes others")
        why = "not valid then" if is_validity(node) else why
        reads = f"{line}; reads {_number(there)} like that"
        if not isinstance(node, composites.ComparingFilter):
            return _found(node, f"{reads}, {why}: {_some(there)}")
        right = node.inputs[1]
        if not self._with(right, {}):
            return _found(node, f"{reads}, and no row to compare with: {_some(there)}", ((yield right, {}),))
        return _found(node, f"{reads}, {why}: {_some(there)}, compared with {_some(self._with(right, {}))}")

    def _clocked(self, node: Node, known: Known, line: str) -> Asking:
        """Return which rows are not valid at what a clock shows, of all operators that this is made of."""
        whole = self._by_clock[node]
        same = {c: v for c, v in known.items() if c < len(whole.rows.schema)}
        there, shown = self._with(whole.rows, same), self._with(whole.clock, {})
        if not there:
            return (yield whole.rows, same)
        reads = f"{line}; reads {_number(there)} like that"
        if not shown:
            nothing = yield whole.clock, {}
            return _found(node, f"{reads}, and the clock shows nothing: {_some(there)}", (nothing,), words=whole.words)
        return _found(node, f"{reads}, not valid at {_some(shown)}: {_some(there)}", words=whole.words)

    def _computed(self, node: nodes.Map, known: Known, line: str) -> Asking:
        wanted: Known = {}
        for column, value in known.items():
            expression: Bound = node.columns[column]
            if isinstance(expression, BoundColumn):
                if expression.index in wanted and not _same(wanted[expression.index], value):
                    return _found(node, f"{line}: two columns are always equal")
                wanted[expression.index] = value
            elif isinstance(expression, BoundLiteral) and not _same(expression.value, value):
                return _found(node, f"{line}: column {node.schema.names[column]!r} is always {expression.value!r}")
        (source,) = node.inputs
        there = self._with(source, wanted)
        if not there:
            below = yield source, wanted
            return below if node.picked is not None else _found(node, line, (below,))
        return _found(node, f"{line}; reads {_number(there)} that give other values: {_some(there)}")

    def _made(self, node: nodes.FlatMap, known: Known, line: str) -> Asking:
        """Return the other rows that a function made; of which row it would make this one, only it could say."""
        del known
        (source,) = node.inputs
        there = self._with(source, {})
        if not there:
            return _found(node, line, ((yield source, {}),))
        return _found(node, f"{line}; makes others of {_number(there)}: {_some(there)}")

    def _alternatives(self, node: nodes.Concat, known: Known, line: str) -> Asking:
        """Return why none of several inputs has it; more rows of an input that is taken away would be no help."""
        start = _start_of_iterate(node)
        first = [] if start is None else self._with(start, known)
        if first:
            lost = yield node.inputs[1], known
            return _found(node, f"{line}; in the first iteration there is {_some(first)}", (lost,))
        sources = [s for s in node.inputs if not (_only_raises(s) or self._takes_nothing(s, known))]
        reasons: list[Reason] = []
        for source in dict.fromkeys(sources):
            reasons.append((yield source, known))  # noqa: PERF401 - no comprehension may ask
        return reasons[0] if len(reasons) == 1 else _found(node, line, tuple(reasons))

    def _takes_nothing(self, node: Node, known: Known) -> bool:
        return isinstance(node, nodes.Negate) and not self._with(node.inputs[0], known)

    def _pair(self, node: nodes.Join, known: Known, line: str) -> Asking:
        left, right = node.inputs
        width = len(left.schema.names)
        picked = [(node.output[c], v) for c, v in known.items()]
        of_left = {c: v for c, v in picked if c < width}
        of_right = {c - width: v for c, v in picked if c >= width}
        if not node.nulls_equal and any(
            side.get(key, key) is None
            for side, n in ((of_left, left), (of_right, right))
            for key in nodes.arranged_keys(n)
        ):
            return _found(node, f"{line}; {_NULL_KEY}")
        for a, b in zip(nodes.arranged_keys(left), nodes.arranged_keys(right), strict=True):  # equal on both sides
            if a in of_left:
                of_right.setdefault(b, of_left[a])
            elif b in of_right:
                of_left[a] = of_right[b]
        missing = yield from self._lacking((left, of_left), (right, of_right))
        if missing:
            return _found(node, line, missing)
        keys = list(zip(nodes.arranged_keys(left), nodes.arranged_keys(right), strict=True))
        lefts, rights = self._with(left, of_left), self._with(right, of_right)
        if len(rights) <= len(lefts):
            alone = yield from self._partners(rights, left, [(b, a) for a, b in keys], of_left, node)
        else:
            alone = yield from self._partners(lefts, right, keys, of_right, node)
        return _found(node, line, alone)

    def _lacking(self, *sides: tuple[Node, Known]) -> Generator[tuple[Node, Known], Reason, tuple[Reason, ...]]:
        """Return why those sides lack a row that do, of what is known of each side's row."""
        found: list[Reason] = []
        for side, known in sides:
            if not self._with(side, known):
                found.append((yield side, known))
        return tuple(found)

    def _partners(
        self,
        rows: list[Row],
        other: Node,
        keys: list[tuple[int, int]],
        of_other: Known,
        node: nodes.Join | Partnered,
    ) -> Generator[tuple[Node, Known], Reason, tuple[Reason, ...]]:
        """Return what rows of one side would need on the other, of the first of them."""
        found: list[Reason] = []
        for row in rows[:_SHOWN]:
            if not getattr(node, "nulls_equal", True) and any(row[own] is None for own, _ in keys):
                found.append(Reason(f"{row} is there, and {_NULL_KEY}"))
                continue
            partner = yield other, {**of_other, **{theirs: row[own] for own, theirs in keys}}
            found.append(Reason(f"{row} is there, and would need a partner", (partner,)))
        if len(rows) > _SHOWN:
            found.append(Reason(f"{len(rows) - _SHOWN} other rows would, too"))
        return tuple(found)

    def _several(self, node: composites.DeltaJoin, known: Known, line: str) -> Asking:
        """Return which of several relations lack a row; keys that they share are known of all if they are of one."""
        values = {node.output[place]: value for place, value in known.items()}
        equal = {
            (before, (lookup.relation, own))
            for path in node.lookups
            for lookup in path
            for before, own in zip(lookup.key, lookup.own, strict=True)
        }
        for _ in node.ports:  # as many times as a value may have to be handed on
            for one, other in equal:
                for a, b in ((one, other), (other, one)):
                    if a in values:
                        values.setdefault(b, values[a])
        sides: list[tuple[Node, Known]] = []
        for relation, (port, *_) in enumerate(node.ports):
            own = {node.columns[port][c]: value for (of, c), value in values.items() if of == relation}
            sides.append((node.inputs[port], own))
        missing = yield from self._lacking(*sides)
        if not missing:
            line += "; rows of all are there, and do not fit together"
        return _found(node, line, missing)

    def _outer(self, node: composites.OuterJoin, known: Known, line: str) -> Asking:
        """Return what a pair lacks; or of a row with NULL beside it, that side, or the partners that it has."""
        left, right = node.inputs
        width = len(left.schema.names)
        keys = [(left.schema.index(a), right.schema.index(b)) for a, b in node.on]
        others = [c for c in range(len(right.schema.names)) if c not in {b for _, b in keys}]
        beside_left = {others[c - width]: v for c, v in known.items() if c >= width}
        beside_right = {c: v for c, v in known.items() if c < width and c not in {a for a, _ in keys}}
        of_left = {c: v for c, v in known.items() if c < width}
        of_right = {b: known[a] for a, b in keys if a in known} | beside_left
        by_key = {a: known[a] for a, _ in keys if a in known}
        back = [(b, a) for a, b in keys]
        if node.how != "right" and all(v is None for v in beside_left.values()):
            asked, of_asked, other, by = left, of_left, right, keys
        elif node.how != "left" and all(v is None for v in beside_right.values()):
            asked, of_asked, other, by = right, of_right, left, back
        else:
            missing = yield from self._lacking((left, of_left), (right, of_right))
            is_null = not node.nulls_equal and None in by_key.values()
            why = _NULL_KEY if is_null else "rows of both are there, and do not fit"
            return _found(node, line if missing else f"{line}; {why}", missing)
        there = self._with(asked, of_asked)
        if not there:
            return _found(node, line, ((yield asked, of_asked),))
        return _found(node, f"{line}; {self._against(there, other, by)}")

    def _partnered(self, node: Partnered, known: Known, line: str) -> Asking:
        left, right = node.inputs
        of_left = {c: v for c, v in known.items() if c < len(left.schema.names)}
        there = self._with(left, of_left)
        if not there:
            return _found(node, line, ((yield left, of_left),))
        if isinstance(node, composites.SetOperation):
            keys = [(c, c) for c in range(len(left.schema.names))]
        else:
            keys = [(left.schema.index(a), right.schema.index(b)) for a, b in node.on]
        if isinstance(node, composites.SemiJoin) or (
            isinstance(node, composites.SetOperation) and node.operation == "intersect"
        ):
            return _found(node, line, (yield from self._partners(there, right, keys, {}, node)))
        return _found(node, f"{line}; {self._against(there, right, keys)}")

    def _against(self, rows: list[Row], other: Node, keys: list[tuple[int, int]]) -> str:
        """Return how many rows of the other side match the first of these rows, and some of them."""
        row = rows[0]
        partners = self._with(other, {b: row[a] for a, b in keys})
        return f"{row} has {_number(partners)} against it: {_some(partners)}"

    def _group(self, node: composites.Aggregate | nodes.Reduce, known: Known, line: str) -> Asking:
        """Return the lack of a group: rows, or these values."""
        (source,) = node.inputs
        if isinstance(node, composites.Aggregate):
            places = [b.index if isinstance(b, BoundColumn) else None for b in node.keys]
        else:
            names = [source.schema.names[k] for k in node.keys]
            is_first = list(node.schema.names[: len(names)]) == names  # a user's own function may give what it likes
            places = list(node.keys) if is_first else []
        keys = {c: v for c, v in known.items() if c < len(places)}
        others = self._with(node, keys)
        if others:
            return _found(node, f"{line}; the group{'s have' if node.keys and not keys else ' has'} {_some(others)}")
        wanted = {place: known[c] for c, place in enumerate(places) if place is not None and c in known}
        there = self._with(source, wanted)
        if there:
            return _found(node, f"{line}; no such group or value comes of {_number(there)}: {_some(there)}")
        return _found(node, line, ((yield source, wanted),))

    def _with(self, node: Node, known: Known) -> list[Row]:
        if node not in self._contents:
            self._contents[node] = [canonical(row) for row, count in self._read(node).items() if count > 0]
        return [row for row in self._contents[node] if all(_same(row[c], v) for c, v in known.items())]


def _only_raises(node: Node) -> bool:
    """Return whether rows reach a function that says it never returns: to be refused, as an algorithm's bad input."""
    said: Mapping[str, Any] = getattr(node.function, "__annotations__", {}) if isinstance(node, nodes.FlatMap) else {}
    return said.get("return") in (Never, "Never")


def _start_of_iterate(node: nodes.Concat) -> Node | None:
    """Return where a loop begins, of the node that stands for the variable of ``iterate`` inside; None for others."""
    is_iterate = len(node.inputs) == 2 and node.scope.kind == "iterate"  # noqa: PLR2004
    return node.inputs[0] if is_iterate and isinstance(node.inputs[1], nodes.Variable) else None


def _body(graph: Graph, variable: nodes.Variable) -> Node:
    """Return what defines a binding; of ``iterate`` without what is added there and taken away again."""
    (source,) = graph.feedback_of(variable).inputs
    is_iterate = isinstance(source, nodes.Concat) and variable.scope.kind == "iterate"
    return source.inputs[0] if is_iterate else source


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


def _found(
    node: Node, finding: str, children: tuple[Reason, ...] = (), *, is_repeated: bool = False, words: str = ""
) -> Reason:
    what = node.describe()
    name = f"input {node.name!r}" if isinstance(node, nodes.Input) and node.rows is None else node.kind
    text = words or (node.name if is_validity(node) else f"{name}{f' [{what}]' if what else ''}")
    return Reason(text, children, operator=node.id, site=node.site, finding=finding, is_repeated=is_repeated)


def _shown(node: Node, known: Known) -> str:
    return (
        ", ".join(f"{node.schema.names[c].rstrip('#')} = {brief(v)}" for c, v in sorted(known.items())) or "any values"
    )


def _number(rows: list[Row]) -> str:
    return f"{len(rows)} row{'s' * (len(rows) != 1)}"


def _some(rows: list[Row], most: int = _SHOWN) -> str:
    return ", ".join(map(str, rows[:most])) + (", ..." if len(rows) > most else "")
