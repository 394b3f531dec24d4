"""Digests of the code of Python functions, the same in another process and in another version of Python.

Bytecode is another one in each version of Python. So where there is the source, it is the syntax tree that counts, but
for what changes nothing: lines and files, comments, documentation, annotations of parameters. A tree is believed only
where compiling it gives the bytecode at hand: a file may have been edited since the function was made.
"""

from __future__ import annotations
import __future__

import ast
import functools
import hashlib
import linecache
import operator
import sys
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, Final, TypeAlias

import attrs

_FUTURES: Final = functools.reduce(
    operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)
_LEFT_OUT: Final = frozenset({"ctx", "kind", "returns", "type_comment"})
"""Parts of any tree that change nothing."""
_BY_VALUE: Final = frozenset({"defaults", "kw_defaults"})
"""Parts of a function's tree that were computed when it was made."""
_Place: TypeAlias = tuple[str, int]
"""The name and the first line of a definition."""


def digest(*parts: str | bytes) -> str:
    """Return a digest of parts in their order."""
    made = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(b"%d:" % len(encoded))
        made.update(encoded)
    return made.hexdigest()[:32]


@attrs.frozen
class CodeDigest:
    """The digest of a function's code."""

    tree: str | None
    """The digest of its syntax tree; None where there is no source."""
    python: str
    """The Python whose bytecode it is."""
    bytecode: str
    """The digest of that."""

    @classmethod
    def of(cls, code: CodeType, module: Mapping[str, Any]) -> CodeDigest:
        """Return that of the code of a function with these globals."""
        return cls(_tree_of(code, dict(module)), sys.implementation.cache_tag or sys.version, _bytecode(code))

    def differs(self, other: CodeDigest) -> bool | None:
        """Return whether this is other code; None where nobody can tell: of another Python, without source."""
        of_one_python = self.python == other.python
        if of_one_python and self.bytecode == other.bytecode:
            return False
        if self.tree is not None and other.tree is not None:
            return self.tree != other.tree
        return True if of_one_python else None


def _bytecode(code: CodeType) -> str:
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_FUTURES)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = digest(*map(_constant, code.co_consts))
    return digest(repr(numbers), repr(names), code.co_code, constants, code.co_exceptiontable)


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _bytecode(value)
    if isinstance(value, tuple):
        return digest("tuple", *map(_constant, value))
    if isinstance(value, frozenset):  # which has another order in each process
        return digest("set", *sorted(map(_constant, value)))
    return f"{type(value).__name__} {value!r}"


# -- syntax trees -----------------------------------------------------------------------------------------------------


def _tree_of(code: CodeType, module: dict[str, Any]) -> str | None:
    """Return the digest of the syntax tree that this is the code of; None where it is not found."""
    source = linecache.getlines(code.co_filename, module)
    found = _definition(code, "".join(source))
    if found is None and source:  # of a module that was read again since
        linecache.checkcache(code.co_filename)
        found = _definition(code, "".join(linecache.getlines(code.co_filename, module)))
    if found is None:
        return None
    body = _undocumented(found.body) if isinstance(found.body, list) else [found.body]
    return digest(*_shown(found.args, _LEFT_OUT | _BY_VALUE), *_shown(body))


def _definition(code: CodeType, source: str) -> Any:
    """Return the tree that defines a function, of its file; None where it is not the one that was compiled."""
    trees, codes = _definitions(source, code.co_filename, code.co_flags & _FUTURES)
    place, wanted = (code.co_name, code.co_firstlineno), _bytecode(code)
    same = next((c for c in codes.get(place, ()) if _bytecode(c) == wanted), None)
    found = trees.get(place, [])
    if same is None or len(found) == 1:
        return found[0] if same is not None else None
    ranges = [p for p in same.co_positions() if None not in p and p[2:] != (0, 0)]
    lambdas = [node for node in found if ranges and all(_holds(node.body, r) for r in ranges)]
    return max(lambdas, key=lambda node: (node.lineno, node.col_offset), default=None)


@functools.lru_cache(maxsize=64)
def _definitions(source: str, file: str, flags: int) -> tuple[dict[_Place, list[Any]], dict[_Place, list[CodeType]]]:
    """Return the trees and the code of a file's definitions, by their places; none where it is no Python."""
    trees: dict[_Place, list[Any]] = {}
    codes: dict[_Place, list[CodeType]] = {}
    try:
        tree, compiled = ast.parse(source, file), compile(source, file, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):  # it was edited, or never was
        return trees, codes
    for node in ast.walk(tree):
        if (place := _place(node)) is not None:
            trees.setdefault(place, []).append(node)
    for code in with_inner(compiled):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return trees, codes


def with_inner(code: CodeType) -> Iterator[CodeType]:
    """Iterate over code and that of all definitions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from with_inner(constant)


def _place(node: Any) -> _Place | None:
    """Return the name and the first line that the code of a definition has; None of anything else."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return None


def _holds(node: Any, place: tuple[Any, ...]) -> bool:
    line, end, at, last = place
    return bool((node.lineno, node.col_offset) <= (line, at) and (end, last) <= (node.end_lineno, node.end_col_offset))


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0].value if isinstance(body[0], ast.Expr) else None
    return body[1:] if isinstance(first, ast.Constant) and isinstance(first.value, str) else body


def _shown(part: Any, left_out: frozenset[str] = _LEFT_OUT) -> Iterator[str]:
    """Return a tree as text that all versions of Python give: what is empty, as what some do not have, is left out."""
    if isinstance(part, list):
        for one in part:
            yield from _shown(one, left_out)
        yield "]"
    elif isinstance(part, ast.JoinedStr):
        yield "JoinedStr"
        yield from _shown(_joined(part.values))
    elif isinstance(part, ast.AST):
        yield type(part).__name__
        out = left_out | {"annotation"} if isinstance(part, ast.arg) else left_out
        for name in part._fields:
            value = getattr(part, name, None)
            if name == "body" and isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                value = _undocumented(part.body)
            if name not in out and value is not None and value != []:
                yield name
                yield from _shown(value)
        yield ")"
    else:
        yield _constant(part)


def _joined(pieces: list[ast.expr]) -> list[Any]:
    """Return the pieces of an f-string: texts side by side are one, for versions cut them otherwise."""
    found: list[Any] = []
    for piece in pieces:
        text = piece.value if isinstance(piece, ast.Constant) else None
        if isinstance(text, str) and found and isinstance(found[-1], str):
            found[-1] += text
        elif text != "":
            found.append(piece if text is None else text)
    return found
