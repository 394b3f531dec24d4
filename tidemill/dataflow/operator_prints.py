"""Digests of what operators compute: each of its own definition and its inputs', whatever these are called and where.

Two operators with one print hold the same state, be they of two versions of a program. A print has neither ids nor
names nor lines; columns go by what they are computed from, so that one more of them changes nothing for what does not
read it. Operators of a loop change with all that the loop repeats. Functions go by their code, or by what the user
calls its version: a renamed one is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from tidemill.dataflow.code_digests import digest
from tidemill.dataflow.fingerprint import Prints, functions_in_graph, is_ours
from tidemill.dataflow.function_prints import FunctionPrint
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Feedback, Filter, Input, Inspect, Leave, Map, Node, Variable
from tidemill.dataflow.passes.bounds import forgetting
from tidemill.dataflow.scopes import Scope
from tidemill.expressions.bound import BoundCall, BoundColumn, BoundLiteral, walk
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType

_NOT_TOLD: Final = frozenset({*(f.name for f in attrs.fields(Node)), "version", "ignores_extra", "fails_as", "changes"})
"""Fields that make no state or are told otherwise."""


@attrs.frozen
class OperatorPrints:
    """The prints of a graph's nodes."""

    keys: Mapping[Node, str]
    """The contents of each one's state."""
    functions: Mapping[str, Any]
    """The digest of each user's function, by its name in prints: to be written down with them."""
    unsure: Mapping[str, tuple[Node, tuple[str, ...]]]
    """Functions of which nobody can tell whether they are what they were: where each is, and what of it."""


def operator_prints(graph: Graph, known: Mapping[str, Any] | None = None) -> OperatorPrints:
    """Return the prints of a frozen graph. ``known`` is what was written down of the functions of the one before."""
    functions = _Functions(graph, known or {})
    walk_ = _PrintWalk(graph, functions.name_of)
    return OperatorPrints(walk_.keys(), functions.listings, functions.unsure)


@attrs.frozen
class _RowsPrint:
    """The prints of a collection: of its rows, and of each of their columns."""

    rows: str
    columns: tuple[str, ...]

    @property
    def whole(self) -> str:
        return digest("rows", self.rows, *self.columns)


class _PrintWalk:
    """A way through a graph, in the order of ids."""

    def __init__(self, graph: Graph, function: Callable[[Any, str | None], str]) -> None:
        self._graph = graph
        self._function = function
        self._of: dict[Node, _RowsPrint] = {}
        self._loops: dict[Scope, str] = {}
        self._forgets = forgetting(graph)
        variables: dict[Scope, int] = {}
        self._numbers: dict[Node, int] = {}
        self._ends: dict[Scope, list[Feedback]] = {}
        for node in graph.nodes:
            if isinstance(node, Variable):
                self._numbers[node] = variables[node.scope] = variables.get(node.scope, -1) + 1
            elif isinstance(node, Feedback):
                self._ends.setdefault(node.scope, []).append(node)

    def keys(self) -> dict[Node, str]:
        for node in self._graph.nodes:
            self._of[node] = self._rows(node)
        return {node: self._key(node) for node in self._graph.nodes}

    def _key(self, node: Node) -> str:
        loops = [self._loop(scope) for scope in node.scope if scope.parent is not None]
        read = [self._of[source].whole for source in node.inputs]
        forgotten = [
            self._forgets[node, port].describe(source.schema.names)
            for port, source in enumerate(node.inputs)
            if (node, port) in self._forgets
        ]
        return digest(node.kind, *self._types(node), self._of[node].whole, *read, *forgotten, *loops)

    def _loop(self, scope: Scope) -> str:
        """Return what all operators of a loop have in common: what it repeats."""
        if scope not in self._loops:
            ends = sorted(self._ends.get(scope, ()), key=lambda node: self._numbers[node.variable])
            self._loops[scope] = digest("loop", *(self._of[end].whole for end in ends))
        return self._loops[scope]

    def _rows(self, node: Node) -> _RowsPrint:
        read = [self._of[source] for source in node.inputs]
        if isinstance(node, Inspect):
            return read[0]
        if isinstance(node, Map):
            columns = tuple(self._expression(c, read[0].columns) for c in node.columns)
            return _RowsPrint(read[0].rows, columns)
        if isinstance(node, Filter):
            return _RowsPrint(
                digest("filter", read[0].rows, self._expression(node.predicate, read[0].columns)), read[0].columns
            )
        if isinstance(node, Input) and node.rows is None:
            keys = [node.schema.names[i] for i in node.key]
            rows = digest("input", node.name, *keys, *map(str, self._graph.coordinates))
            return _RowsPrint(rows, tuple(digest(rows, f.name, str(f.dtype), str(f.nullable)) for f in node.schema))
        said = _Said(self._function, getattr(node, "version", None))
        if isinstance(node, Variable):
            said.text("variable", str(self._numbers[node]), str(node.scope.coordinates))
        elif isinstance(node, Feedback):
            said.text(str(self._numbers[node.variable]))
            said.value(node.limits)
        else:
            own = (f.name for f in attrs.fields(type(node)) if f.name not in _NOT_TOLD)
            for name in own:
                said.value(getattr(node, name))
        if isinstance(node, Leave):
            said.text(self._loop(node.inputs[0].scope))
        names = [str(source.schema.names) for source in node.inputs] if said.uses_names else []
        rows = digest(node.kind, *said.parts, *names, *self._types(node), *(r.whole for r in read))
        return _RowsPrint(rows, tuple(digest(rows, str(i)) for i in range(len(node.schema))))

    def _types(self, node: Node) -> list[str]:
        return [f"{f.dtype} {f.nullable}" for f in node.schema] + [str(node.scope.coordinates)]

    def _expression(self, bound: Any, columns: tuple[str, ...]) -> str:
        """Return an expression over columns; of one alone, that."""
        if isinstance(bound, BoundColumn):
            return columns[bound.index]
        return digest("expression", *(_said_of(part, columns) for part in walk(bound)))


def _said_of(part: Any, columns: tuple[str, ...] | None) -> str:
    """Return what a part of an expression says, without those in it; columns as their prints, or by their places."""
    if isinstance(part, BoundColumn):
        return f"#{part.index} {part.dtype} {part.nullable}" if columns is None else columns[part.index]
    if isinstance(part, BoundLiteral):
        return f"literal {type(part.value).__name__} {part.value!r} {part.dtype}"
    return f"call {part.function} {len(part.args)} {part.dtype} {part.nullable}"


class _Said:
    """The contents of a node's fields, one after the other."""

    def __init__(self, function: Callable[[Any, str | None], str], version: str | None) -> None:
        self.parts: list[str] = []
        self.uses_names = False
        """Whether there is anything that may be the name of a column."""
        self._function = function
        self._version = version

    def text(self, *parts: str) -> None:
        self.parts += parts

    def value(self, value: Any) -> None:
        """Say a value of ours, however deep: the user's functions by what `_Functions` calls them."""
        if isinstance(value, (BoundColumn, BoundLiteral, BoundCall)):
            self.text("expression", *(_said_of(part, None) for part in walk(value)), ")")
        elif isinstance(value, (DType, Enum)) or value is None or isinstance(value, (bool, int, float, bytes)):
            self.text(f"{type(value).__name__} {value!r}")
        elif isinstance(value, str):
            self.uses_names = True
            self.text(f"str {value!r}")
        elif isinstance(value, Schema):
            self.uses_names = True
            self.text(str(value))
        elif isinstance(value, (tuple, list)):
            self.text("(")
            for one in value:
                self.value(one)
            self.text(")")
        elif isinstance(value, (dict, Mapping)):
            self.value(tuple((k, value[k]) for k in sorted(value, key=repr)))
        elif isinstance(value, (set, frozenset)):
            self.value(tuple(sorted(value, key=repr)))
        elif attrs.has(type(value)) and is_ours(value) and not isinstance(value, type):
            self._ours(value)
        elif callable(value) and not is_ours(value):
            self.uses_names = True  # it is given rows by the names of their columns
            self.text("function", self._function(value, self._version))
        elif callable(value):
            self.text(_name(value), "(")
            self.value(getattr(value, "__self__", None))
            self.value(tuple(cell.cell_contents for cell in getattr(value, "__closure__", None) or ()))
            self.text(")")
        else:
            self.text(f"{type(value).__qualname__} {value!r}")

    def _ours(self, value: Any) -> None:
        before = self._version
        self._version = getattr(value, "version", None) or before
        self.text(type(value).__qualname__, "(")
        for field in attrs.fields(type(value)):
            if field.name not in {"version", "depth", "_hash"}:
                self.text(field.name)
                self.value(getattr(value, field.name))
        self.text(")")
        self._version = before


class _Functions:
    """The name in prints of each user's function: as before, where it is the one that it was."""

    def __init__(self, graph: Graph, known: Mapping[str, Any]) -> None:
        self.listings: dict[str, Any] = {}
        self.unsure: dict[str, tuple[Node, tuple[str, ...]]] = {}
        self._names: dict[tuple[int, str | None], str] = {}
        self._held: list[Any] = []
        prints, before = Prints(), {n: (l["name"], FunctionPrint.listed(l)) for n, l in known.items()}
        found = []
        for _, node, function, version in functions_in_graph(graph):
            self._held.append(function)
            found.append((node, function, version, _name(function), prints.of(function, version)))
        claimed: set[str] = set()
        for exactly in (True, False):
            for node, function, version, name, its in found:
                if (id(function), version) in self._names:
                    continue
                same = [
                    n for n, (said, old) in before.items() if _is_same(old, its, exactly=exactly, named=said == name)
                ]
                if not exactly:
                    same = [n for n in same if n not in claimed] if len(same) == 1 else []
                elif not same:
                    continue
                key = same[0] if same else digest(json.dumps(its.listing(), sort_keys=True))
                claimed.add(key)
                self._names[id(function), version] = key
                self.listings[key] = {**its.listing(), "name": name}
                unsure = (*its.unknown, *(before[key][1].not_compared(its) if same else ()))
                if version is None and unsure and same:
                    self.unsure[key] = node, unsure

    def name_of(self, function: Any, version: str | None) -> str:
        return self._names[id(function), version]


def _is_same(before: FunctionPrint, now: FunctionPrint, *, exactly: bool, named: bool) -> bool:
    """Return whether a function is what one was: by its code, or, not ``exactly``, by its version if it is named so."""
    if before.version is not None and now.version is not None and before.version != now.version:
        return False
    if exactly:
        return attrs.evolve(before, version=None).difference(attrs.evolve(now, version=None)) is None
    return named and before.difference(now) is None


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
