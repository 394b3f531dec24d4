"""Fingerprints: equal for graphs that are the same dataflow, whatever lines they were written on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any, Final

import attrs

from tidemill.dataflow.function_prints import FunctionPrint
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Inspect, Node
from tidemill.errors import StateError
from tidemill.expressions.bound import Bound
from tidemill.expressions.sql_text import to_sql
from tidemill.expressions.types import DType

_NOT_TOLD: Final = frozenset({*(f.name for f in attrs.fields(Node)), "version", "ignores_extra", "why"})
"""Fields left out: those that all nodes have, users' versions, which are kept elsewhere, and what is no state."""


def describe(graph: Graph) -> list[str]:
    """Return a line for the times and one for each node: all that its state depends on. Functions go by their names."""
    return [f"times {', '.join(graph.coordinates)}", *map(_line, graph.nodes)]


def difference(saved: Sequence[str], now: Sequence[str]) -> str | None:
    """Return where one description differs first from another, or None."""
    for was, is_ in zip(saved, now, strict=False):
        if was != is_:
            return f"saved: {was}; now: {is_}"
    if len(saved) != len(now):
        return f"saved: {len(saved) - 1} operators; now: {len(now) - 1}"
    return None


def _line(node: Node) -> str:
    reads = ", ".join(f"#{n.id}" for n in node.inputs)
    own = [f.name for f in attrs.fields(type(node)) if f.name not in _NOT_TOLD]
    fields = ", ".join(f"{name}={_value(getattr(node, name))}" for name in own)
    head = f"#{node.id} {node.kind} {node.name!r} in {node.scope.path} <- {reads}"
    return f"{head} {node.schema} [{node.describe()}] {fields}"


def _value(value: Any) -> str:
    """Return what a field says; a function by its name, for it has no better text that stays the same."""
    if isinstance(value, Node):
        return f"#{value.id}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ")"
    if isinstance(value, Bound):
        return to_sql(value)
    if attrs.has(type(value)):
        told = [f.name for f in attrs.fields(type(value)) if f.name != "version" and not _is_unused(value, f.name)]
        return "(" + ", ".join(_value(getattr(value, name)) for name in told) + ")"
    return getattr(value, "__qualname__", type(value).__qualname__) if callable(value) else repr(value)


def _is_unused(value: Any, field: str) -> bool:
    """Return whether state of format 5 does not have a field of a type, which says nothing here."""
    return isinstance(value, DType) and field in {"fields", "unknown"} and not getattr(value, field)


# -- users' functions -------------------------------------------------------------------------------------------------


def function_prints(graph: Graph) -> dict[str, Any]:
    """Return what is known of each function of the user's that state depends on, to be written down beside it."""
    prints = Prints()
    return {place: prints.of(function, version).listing() for place, _, function, version in functions_in_graph(graph)}


def require_same_functions(saved: Mapping[str, Any] | None, graph: Graph, where: str, else_do: str) -> dict[str, Any]:
    """Return `function_prints` of a graph; `StateError` where the state was made by other functions.

    ``saved`` is of the same graph, but for what functions do; None where nothing was written down. ``where`` is what
    holds the state, ``else_do`` what to do with functions that are to stay as they are now.
    """
    now: dict[str, Any] = {}
    prints, told = Prints(), set()
    for place, node, function, version in functions_in_graph(graph):
        its = prints.of(function, version)
        now[place] = its.listing()
        before = None if saved is None or place not in saved else FunctionPrint.listed(saved[place])
        name = f"{node.where}: the function {_value(function)!r}"
        different = None if before is None else before.difference(its)
        if different is not None:
            raise _changed(where, name, different, else_do)
        unsure = (*its.unknown, *(() if before is None else before.not_compared(its)))
        if version is None and unsure and id(function) not in told:
            told.add(id(function))
            warn_of_unknown(where, name, unsure)
    return now


def are_same_functions(functions: Mapping[str, Any] | None, graph: Graph) -> bool:
    """Return whether the functions of a graph that was described are what they were, as far as can be told."""
    prints, before = Prints(), functions or {}
    return not any(
        FunctionPrint.listed(before[place]).difference(prints.of(function, version))
        for place, _, function, version in functions_in_graph(graph)
        if place in before
    )


class Prints:
    """The digests of functions, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, FunctionPrint] = {}

    def of(self, function: Callable[..., Any], version: str | None) -> FunctionPrint:
        """Return the digest of one."""
        if id(function) not in self._known:
            self._known[id(function)] = FunctionPrint.of(function, version)
        return attrs.evolve(self._known[id(function)], version=version)


def _changed(where: str, name: str, different: str, else_do: str) -> StateError:
    is_told = different.startswith("it was version")
    same = (
        " If it gives the same as it did, start once more with the function as it was and version='1' beside it, as in "
        "map_rows(function, schema, version='1'): from then on that says whether it is the same"
    )
    return StateError(
        f"{where} holds what another version of a function gave: {name} is not what it was: {different}. What it gave "
        f"then would never be taken back: go on with the function as it was, or {else_do}.{'' if is_told else same}"
    )


def warn_of_unknown(where: str, name: str, unsure: Sequence[str]) -> None:
    """Warn of a function of which nobody can tell whether it is what it was."""
    msg = (
        f"{where}: {name}: nobody can tell whether {', '.join(unsure)} is what it was when this state was made; give "
        "it a version=, as in map_rows(function, schema, version='1'), and another one when it gives something else"
    )
    warnings.warn(msg, RuntimeWarning, stacklevel=2)


def functions_in_graph(graph: Graph) -> Iterator[tuple[str, Node, Callable[..., Any], str | None]]:
    """Iterate over the users' functions in a graph: a name of the place of each, its node, and its version."""
    for node in graph.nodes:
        if isinstance(node, Inspect):  # what it gives is of no matter
            continue
        own = [f.name for f in attrs.fields(type(node)) if f.name not in _NOT_TOLD]
        for number, (function, version) in enumerate(_in_fields(node, own)):
            yield f"{node.id}.{number}", node, function, version


def _in_fields(value: Any, names: Sequence[str]) -> Iterator[tuple[Any, str | None]]:
    for name in names:
        for function, version in functions_of(getattr(value, name)):
            yield function, getattr(value, "version", None) if version is None else version


def functions_of(value: Any) -> Iterator[tuple[Any, str | None]]:
    """Iterate over the users' functions that are in a field of ours, however deep, and their versions."""
    if isinstance(value, (Node, Bound, type)):
        return
    if isinstance(value, tuple):
        for one in value:
            yield from functions_of(one)
    elif isinstance(value, MethodType):
        yield from functions_of(value.__self__) if is_ours(value) else [(value, None)]
    elif attrs.has(type(value)) and is_ours(value):
        yield from _in_fields(value, [f.name for f in attrs.fields(type(value))])
    elif callable(value) and not is_ours(value):
        yield value, None


def is_ours(value: Any) -> bool:
    """Return whether something is of this package."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "tidemill"
