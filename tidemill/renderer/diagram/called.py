"""What users call what they wrote: ``left join customers``, ``group by origin``, ``window by tailnum``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tidemill.dataflow import nodes
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.site import Site

_WORDS: Final = {
    "Map": "select",
    "Threshold": "",
    "FlatMap": "flat_map",
    "SetOperation": "",
    "TopK": "",
    "Join": "join",
    "OuterJoin": "join",
    "SemiJoin": "semijoin",
    "AntiJoin": "antijoin",
    "RangeJoin": "join",
    "DeltaJoin": "join",
}
"""How kinds are called where that is not by their own name; those without a word by what they do."""
_JOINS: Final = {"Join", "OuterJoin", "SemiJoin", "AntiJoin", "RangeJoin"}
_ROW_BY_ROW: Final = (nodes.Consolidate, nodes.Filter, nodes.Map)
_LONGEST: Final = 60


def operator_title(node: Node) -> str:
    """Return what to call an operator."""
    if isinstance(node, nodes.Input | nodes.Output | nodes.Variable | nodes.Inspect):
        return node.name
    if node.kind in _JOINS:
        return _join_title(node.kind, node.describe(), [node])
    return _title(node.called, node.describe(), node)


def call_title(graph: Graph, call: Sequence[Node]) -> str:
    """Return what to call a call, of its operators."""
    own = [n for n in call if not _only_arranges(n)]
    told = next((n for n in reversed(own) if n.call is not None), None)
    main = told or next((n for n in reversed(own) if not isinstance(n, nodes.Map)), result_of(graph, call))
    if main.call is not None:
        kind, does = main.part_of or main.called, main.call.describe()
    else:
        kind, does = main.called, main.describe()
    if kind in _JOINS:
        return _join_title(kind, does, call)
    return operator_title(main) if main.call is None else _title(kind, does, main)


def call_word(graph: Graph, call: Sequence[Node]) -> str:
    """Return what kind of call it is, in a word or two."""
    if isinstance(call[0], nodes.Input | nodes.Output) and len(call) == 1:
        return call[0].kind.lower()
    found = re.match(r"(left|right|full) join|\w+", call_title(graph, call))
    return found[0] if found else call[-1].kind.lower()


def result_of(graph: Graph, call: Sequence[Node]) -> Node:
    """Return the operator of a call whose rows others read, arranged or not; the last of several."""
    inside = set(call)
    read = [n for n in call if any(reader not in inside for reader, _ in graph.consumers(n))]
    result = (read or [call[-1]])[-1]
    while _only_arranges(result) and result.inputs[0] in inside:
        result = result.inputs[0]
    return result


def _join_title(kind: str, does: str, call: Sequence[Node]) -> str:
    how = does.split(" ", maxsplit=1)[0] + " " if kind == "OuterJoin" else ""
    return f"{how}{_WORDS[kind]} {_right_of(call)}".rstrip()


def _title(kind: str, does: str, node: Node) -> str:
    if kind in {"Aggregate", "Reduce"}:
        keys, colon, made = does.partition(": ")
        return _short(f"group {keys}" if colon and keys.startswith("by ") else made or does or "aggregate")
    if kind == "Windowed":
        by = re.search(r" of each (.*), [^,]*$", does)  # and then how it is kept up to date
        return _short(f"window by {by[1]}" if by else f"window {does}")
    word = _WORDS.get(kind, kind.lower())
    own = node.name if node.name not in {node.kind.lower(), kind.lower()} and node.call is None else ""
    return _short(f"{word} {own if own and not does else does}".strip()) or kind.lower()


def _right_of(call: Sequence[Node]) -> str:
    """Return the name of what a join adds to its first input."""
    inside = set(call)
    join = next((n for n in call if n.kind in _JOINS and len(n.inputs) > 1), None)
    node = None if join is None else join.inputs[1]
    while node in inside:
        assert node is not None
        node = node.inputs[0]
    return "" if join is None or node is None else _name_of(node, join.site)


def _name_of(node: Node, site: Site) -> str:
    """Return the name that users gave to what a node passes on, other than in the line of who reads it."""
    while True:
        while isinstance(node, nodes.Enter) or _only_arranges(node):  # the line is its first reader's
            node = node.inputs[0]
        if isinstance(node, nodes.Input | nodes.Variable):
            return node.name
        if isinstance(node, nodes.Leave):
            return node.inputs[0].scope.name
        is_named = node.site not in {site, node.inputs[0].site} and node.site.sql is None
        from_line = re.match(r"(\w+) = ", node.site.source) if is_named else None
        if from_line:
            return from_line[1]
        if not isinstance(node, _ROW_BY_ROW):
            return ""
        node = node.inputs[0]


def _only_arranges(node: Node) -> bool:
    return isinstance(node, nodes.Arrange) or node.part_of == "Arrange"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
