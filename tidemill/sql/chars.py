"""CHAR(n) of PostgreSQL and Materialize: a column holds texts filled up with blanks, and who reads it strips them.

Blanks at the end count for nothing where a value is compared, and go where it becomes text; results and LIKE see them.
What PostgreSQL makes of a value elsewhere depends on the place, so that elsewhere it is refused: a value is never one
of CHAR(n) without being known as that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from sqlglot import exp

from tidemill.dataflow.nodes import Node as GraphNode
from tidemill.errors import SqlError
from tidemill.expressions.expr import Call, Expr, Literal
from tidemill.sql.dialects import Dialect
from tidemill.sql.scopes import Names

_Type: Final = exp.DataType.Type
LENGTHS: Final[WeakKeyDictionary[GraphNode, dict[str, int]]] = WeakKeyDictionary()
"""The columns of CHAR(n) that tables and views have."""
_COMPARED: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In,
)  # fmt: skip
_OF_TEXT: Final = (exp.Is, exp.Cast, exp.TryCast, exp.DPipe, exp.Substring, exp.Trim, exp.StrPosition)
_FUNCTIONS: Final = frozenset((
    "ascii", "btrim", "char_length", "character_length", "count", "left", "length", "lower", "md5", "replace",
    "reverse", "right", "split_part", "string_agg", "string_to_array", "strpos", "substr", "substring", "translate",
    "upper",
))  # fmt: skip
"""Functions for which it becomes text."""
_NO_TEXTS: Final = frozenset(
    ("ascii", "char_length", "character_length", "count", "length", "string_to_array", "strpos")
)
"""Those that give something else."""


class CharParser(Protocol):
    """What is asked of the parser of a query's expressions."""

    names: Names
    scope: Any

    def unsupported(self, node: Any, why: str = "") -> Any:
        """Return the error for what is not supported."""


def length_of(node: exp.DataType, dialect: Dialect) -> int | None:
    """Return how long the texts of a type are that fills them up; None for other types."""
    given = node.expressions
    if dialect.name not in ("postgres", "materialize") or node.this not in (_Type.CHAR, _Type.BPCHAR):
        return None
    if not given:
        return 1 if node.this == _Type.CHAR else None
    return int(given[0].name) if len(given) == 1 and given[0].name.isdigit() and int(given[0].name) > 0 else None


def filled(text: Expr, length: int) -> Expr:
    """Return a text cut off, or filled up with blanks, as an explicit cast does."""
    return Call("rpad", (Call("left", (text, Literal(length))), Literal(length), Literal(" ")))


def stripped(value: Expr, names: Names) -> Expr:
    """Return a value as it is compared."""
    return value if names.char_length(value) is None else Call("rtrim", (value,))


def read(parser: CharParser, node: exp.Expression, value: Expr) -> Expr:
    """Return a value as the place reads it where it stands in the text."""
    if parser.names.char_length(value) is None:
        return value
    place, parent = node, node.parent
    while isinstance(parent, exp.Paren):
        place, parent = parent, parent.parent
    if isinstance(parent, exp.Filter | exp.WithinGroup):
        parent = parent.parent
    of = parent
    while isinstance(of, (exp.Order, exp.Distinct)) and isinstance(of.parent, exp.Expression) and of.arg_key != "order":
        of = of.parent  # of an aggregate
    name = of.name.lower() if isinstance(of, exp.Anonymous) else ""
    if isinstance(parent, _COMPARED):
        if all(_is_comparable(parser, one) for one in _operands(parent)):
            return Call("rtrim", (value,))
        why = ": a value of CHAR(n) is compared with others, and with texts that are written out or cast to TEXT"
        raise parser.unsupported(parent, f"{why}, since blanks count where it meets TEXT, and not where VARCHAR")
    to_bytes = isinstance(parent, exp.Cast) and parent.to.this == _Type.VARBINARY  # of the blanks too
    if (isinstance(parent, _OF_TEXT) and not to_bytes) or _is_sorted(parent) or name in _FUNCTIONS:
        return Call("rtrim", (value,))
    if _is_kept(place, parent) and not _is_written_out(value):
        return value
    if isinstance(parent, (exp.Like, exp.ILike)) and parent.this is place:
        return value
    raise parser.unsupported(node, ": of CHAR(n) here, where blanks may count or not: cast it to TEXT")


def _is_sorted(parent: Any) -> bool:
    """Return whether a value is what rows are sorted by, and not what comes of them, as that of an aggregate is."""
    of = parent.find_ancestor(exp.WithinGroup, exp.Select) if isinstance(parent, exp.Ordered) else parent
    return isinstance(parent, exp.Ordered) and not isinstance(of, exp.WithinGroup)


def _is_kept(place: exp.Expression, parent: Any) -> bool:
    """Return whether a value stays what it is: where it is selected, grouped, made distinct."""
    if isinstance(parent, exp.Alias):
        place, parent = parent, parent.parent
    if isinstance(parent, exp.Window):
        return place.arg_key == "partition_by"
    while isinstance(parent, (exp.Tuple, exp.Cube, exp.Rollup, exp.GroupingSets)):
        parent = parent.parent
    if isinstance(parent, exp.Select):
        return place.arg_key == "expressions"
    return isinstance(parent, exp.Group) or (isinstance(parent, exp.Distinct) and isinstance(parent.parent, exp.Select))


def _is_written_out(value: Expr) -> bool:
    """Return whether a value would become a literal, of which nobody knows that it is one of CHAR(n)."""
    inner = value.parts[0].parts[0] if isinstance(value, Call) else value
    while not isinstance(inner, Literal) and len(inner.parts) == 1:
        inner = inner.parts[0]
    return isinstance(inner, Literal)


def strip_literals(parser: CharParser, node: exp.Expression) -> None:
    """Strip what is written out and compared with a value of CHAR(n): it is one, too."""
    if not isinstance(node, _COMPARED) or not parser.names.lengths:
        return
    given = [_bare(one) for one in _operands(node)]
    if any(is_char(parser, one) for one in given):
        for one in given:
            if isinstance(one, exp.Literal) and one.is_string:
                one.set("this", one.name.rstrip(" "))


def _is_comparable(parser: CharParser, given: Any) -> bool:
    """Return whether it is known how a value of CHAR(n) is compared with another one: as that or as text."""
    node = _bare(given)
    is_text = isinstance(node, exp.Cast) and node.to.this == _Type.TEXT
    of_text = isinstance(node, (exp.DPipe, exp.Substring, exp.Trim)) or _name(node) in _FUNCTIONS - _NO_TEXTS
    known = not isinstance(node, exp.Expression) or isinstance(node, (exp.Literal, exp.Null))
    known = known or (isinstance(node, exp.Query) and isinstance(node.parent, exp.In))
    return known or is_text or of_text or is_char(parser, node)


def is_char(parser: CharParser, given: Any) -> bool:
    """Return whether a node is a value of CHAR(n): a column or a cast."""
    node = _bare(given)
    if isinstance(node, exp.Cast):
        return length_of(node.to, parser.names.dialect) is not None
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        with contextlib.suppress(SqlError):
            return parser.names.char_length(parser.names.find(parser.scope, node)) is not None
    return False


def _operands(node: Any) -> Iterator[Any]:
    """Iterate over what an operator is of."""
    for value in node.args.values() if isinstance(node, exp.Expression) else ():
        yield from value if isinstance(value, list) else [value]


def _bare(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _name(node: Any) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""
