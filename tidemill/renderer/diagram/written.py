"""How code is put together around a line of it: functions, blocks and statements, as far as its text can be had."""

from __future__ import annotations

import ast
import bisect
import functools
import warnings
from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from tidemill.site import Site

PartKind: TypeAlias = Literal["function", "block", "statement"]
_BLOCKS = (ast.For, ast.While, ast.With, ast.AsyncFor, ast.AsyncWith)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@attrs.frozen
class ProgramPart:
    """A part of a program, by what it is called where it has a name."""

    kind: PartKind
    name: str
    file: str
    first: int
    last: int

    @property
    def line(self) -> str:
        """Its first line, for people."""
        return str(Site(self.file, self.first))


def parts_around(site: Site) -> tuple[ProgramPart, ...]:
    """Return the functions, the blocks and the statement around a line, outermost first, of SQL the view, too."""
    try:
        tree = _parsed(site.file, site.lines)
    except (SyntaxError, ValueError, RecursionError):  # not Python: a template, or a notebook's magic
        tree = None
    found = [] if tree is None else _around(tree, site)
    if site.sql is not None and site.sql.view:
        found.append(ProgramPart("statement", site.sql.view, site.file, site.line, site.line))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _parsed(file: str, lines: tuple[str, ...]) -> ast.Module | None:
    with warnings.catch_warnings(action="ignore"):  # Python said them when it ran the program
        return ast.parse("".join(lines), file) if lines else None


def _around(tree: ast.AST, site: Site) -> list[ProgramPart]:
    found: list[ProgramPart] = []
    here: ast.AST | None = tree
    while here is not None:
        statements = _statements(here)
        place = bisect.bisect_right(statements, site.line, key=lambda n: n.lineno) - 1
        here = statements[place] if place >= 0 else None
        if here is None or site.line > (here.end_lineno or here.lineno):
            break
        if (part := _part(here, site)) is not None:
            found.append(part)
    return found


@functools.lru_cache(maxsize=1024)
def _statements(node: ast.AST) -> tuple[ast.stmt, ...]:
    """Return the statements directly inside of a node, with those of its branches, in the order of their lines."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found += _statements(child)
    return tuple(sorted(found, key=lambda n: n.lineno))


def _part(node: ast.AST, site: Site) -> ProgramPart | None:
    assert isinstance(node, ast.stmt)
    kind: PartKind = "statement"
    name = _target(node)
    if isinstance(node, _FUNCTIONS):
        kind, name = "function", node.name
    elif isinstance(node, _BLOCKS):
        kind, name = "block", _line_of(site, node.lineno)
    elif isinstance(node, ast.If | ast.Try | ast.ClassDef | ast.Match):
        return None
    return ProgramPart(kind, name, site.file, node.lineno, node.end_lineno or node.lineno)


def _line_of(site: Site, line: int) -> str:
    """Return the text of another line of a file."""
    return attrs.evolve(site, line=line, sql=None).source.rstrip(":")


def _target(node: ast.stmt) -> str:
    """Return the names that a statement gives values to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return ", ".join(dict.fromkeys(name for target in targets for name in _names(target)))


def _names(target: ast.AST | None) -> Iterator[str]:
    """Iterate over the names in a target; ``x`` for ``x[i]``, ``y`` for ``x.y``."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield target.attr
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _names(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _names(one)
