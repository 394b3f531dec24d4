"""Which modules and packages of tidemill import which, read from the source: lazy imports and those for types count."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import attrs
import networkx as nx

import tidemill

ROOT = Path(tidemill.__file__).parent
TOP = "tidemill"
"""The package `tidemill/__init__.py` makes, as what imports from it is called."""


@attrs.frozen
class Import:
    """A module, what it imports (of tidemill a module, of others the dotted name), where, and whether for types alone."""

    module: str
    imported: str
    place: str
    for_types: bool


@functools.cache
def modules() -> dict[str, Path]:
    """Return the path of each module, by its name below ``tidemill``: ``renderer.spark.join``."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts) or TOP] = path
    return found


def package(module: str) -> str:
    """Return the part of tidemill a module belongs to, as the table of layers calls it: ``renderer/spark``."""
    first, *more = module.split(".")
    if first == "renderer" and more and (ROOT / first / more[0]).is_dir():
        return f"{first}/{more[0]}"
    return first


@functools.cache
def all_imports() -> tuple[Import, ...]:
    """Return what every module imports, of tidemill and of others."""
    return tuple(found for module, path in modules().items() for found in _imports(module, path))


def own_imports() -> list[Import]:
    """Return what every module imports of tidemill."""
    return [i for i in all_imports() if i.imported in modules() and i.imported != i.module]


def circles(edges: set[tuple[str, str]]) -> set[frozenset[str]]:
    """Return the largest groups whose members all reach each other."""
    graph = nx.DiGraph(edges)
    return {frozenset(group) for group in nx.strongly_connected_components(graph) if len(group) > 1}


def _imports(module: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    for_types = {node for block in ast.walk(tree) if _is_for_types(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: relative imports are not used"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            place = f"tidemill/{path.relative_to(ROOT).as_posix()}:{node.lineno}"
            yield Import(module, _imported(name), place, node in for_types)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imported(name: str) -> str:
    """Return the module of tidemill that a dotted name lies in, or the name where it lies elsewhere."""
    top, _, below = name.partition(".")
    if top != "tidemill":
        return f"{name}."
    while below and below not in modules():
        below = below.rpartition(".")[0]
    return below or TOP
