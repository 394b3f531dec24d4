"""Random conditions of AND, OR and NOT with operands that may be errors, and what they mean, by the definition alone.

Operands are taken from left to right, up to the one that decides: FALSE of AND, TRUE of OR. NULL decides nothing; what
is an error counts where nothing before it has decided.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st

from tidemill.errors import ExpressionError
from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.reference.expressions import evaluate

COLUMNS = {"k": "int64", "a": "int64", "b": "int64", "p": "bool", "s": "string"}
SCHEMA = Schema.of(COLUMNS)
_MOST = 2**63 - 1
SAFE = ("b <> 0", "b = 0", "b is null", "b is not null", "p", "a > 1", "a < b", "s is null", "s = 'x'", "k = 1")
RISKY = ("a / b > 1", "a div b = 1", "a % b < 2", "cast(s as int) > 0", f"a + {_MOST - 1} > 0")
GUARDED = (
    ("and", "b <> 0", "a / b > 1"),
    ("or", "b = 0", "a div b = 1"),
    ("and", "b is not null", "b <> 0", "a % b < 2"),
    ("or", "b is null", "b = 0", "a / b > 1"),
    ("and", "a < 2", f"a + {_MOST - 1} > 0"),
    ("or", "s is null", "s = 'x'", "cast(s as int) > 0"),
    ("and", ("not", ("or", "s = 'x'", "s is null")), "cast(s as int) > 0"),
    ("or", ("and", "b <> 0", "a / b > 1"), ("and", "p", "b <> 0", "a / b > 1")),  # Spark takes `a / b > 1` out
    ("and", ("or", "b = 0", "a / b > 1"), ("or", "p", "b = 0", "a / b > 1")),
)

Tree: TypeAlias = str | tuple[Any, ...]
"""A text without AND and OR, or a function's name and its operands."""

VALUES = {
    "k": st.sampled_from([0, 1, 2, None]), "a": st.integers(0, 4) | st.none(), "b": st.sampled_from([0, 1, 2, 3, None]),
    "p": st.sampled_from([True, False, None]), "s": st.sampled_from(["1", "0", "x", None]),
}  # fmt: skip
ROWS = st.lists(st.tuples(*VALUES.values()), min_size=1, max_size=8)


@attrs.frozen
class Failed:
    """What a condition is that is an error, with its text."""

    text: str


def text_of(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    if tree[0] == "not":
        return f"not ({text_of(tree[1])})"
    return "(" + f" {tree[0]} ".join(map(text_of, tree[1:])) + ")"


def meaning(tree: Tree, row: tuple[Any, ...]) -> bool | None | Failed:
    """Return what a condition is for a row."""
    if isinstance(tree, str):
        try:
            found: bool | None = evaluate(_bound(tree), row)
        except ExpressionError as error:
            return Failed(str(error))
        return found
    if tree[0] == "not":
        of = meaning(tree[1], row)
        return of if of is None or isinstance(of, Failed) else not of
    decisive = tree[0] == "or"
    known: bool | None = not decisive
    for operand in tree[1:]:
        value = meaning(operand, row)
        if value is decisive or isinstance(value, Failed):
            return value
        known = None if value is None else known
    return known


@functools.cache
def _bound(text: str) -> Any:
    return bind(expr(text), SCHEMA)


_leaves = st.sampled_from(SAFE) | st.sampled_from(GUARDED) | st.sampled_from(GUARDED) | st.sampled_from(RISKY)


def _composed(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(of, min_size=2, max_size=3)
    return st.tuples(st.just("not"), of) | st.builds(lambda f, o: (f, *o), st.sampled_from(["and", "or"]), several)


TREES: st.SearchStrategy[Tree] = st.recursive(_leaves, _composed, max_leaves=6)
