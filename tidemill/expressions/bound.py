"""Bound expressions: typed trees over the columns of a schema, the form that engines evaluate.

They are immutable, hashable and comparable by value. Every conversion is an explicit ``cast`` call, whether the user
wrote it or a type is widened to another. ``sql_text.to_sql`` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs

from tidemill.expressions.types import DType


@attrs.frozen
class BoundColumn:
    """A column by its position."""

    index: int
    name: str
    dtype: DType
    nullable: bool = True

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on."""
        return frozenset((self.index,))


def _literal_key(value: Any) -> tuple[str, str]:
    """Tell 0.0 from -0.0 and let NaN equal itself: equal trees have to mean the same."""
    return type(value).__name__, repr(value)


@attrs.frozen
class BoundLiteral:
    """A value of a type, or a typed NULL."""

    value: Any = attrs.field(eq=_literal_key)
    dtype: DType

    @property
    def nullable(self) -> bool:
        """Whether the value may be NULL."""
        return self.value is None

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on: none."""
        return frozenset()


@attrs.frozen(eq=False)
class BoundCall:
    """A call of a registered function, or ``cast`` to the call's own ``dtype``.

    Trees may be deep: comparing, hashing, walking and pickling them does not recurse.
    """

    function: str
    args: tuple[Bound, ...]
    dtype: DType
    nullable: bool = True
    depth: int = attrs.field(init=False, repr=False)
    """How deeply calls are nested, this one included."""
    _hash: int = attrs.field(init=False, repr=False)

    @depth.default
    def _depth(self) -> int:
        return 1 + max([a.depth for a in self.args if isinstance(a, BoundCall)], default=0)

    @_hash.default
    def _hash_of_all(self) -> int:
        return hash((self.function, self.args, self.dtype, self.nullable))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundCall):
            return NotImplemented
        todo: list[tuple[Bound, Bound]] = [(self, other)]
        while todo:
            a, b = todo.pop()
            if a is b:
                continue
            if not isinstance(a, BoundCall) or not isinstance(b, BoundCall):
                if a != b:
                    return False
                continue
            if (a._hash, a.function, a.dtype, a.nullable) != (b._hash, b.function, b.dtype, b.nullable):
                return False
            if len(a.args) != len(b.args):
                return False
            todo.extend(zip(a.args, b.args, strict=True))
        return True

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on."""
        return frozenset(part.index for part in walk(self) if isinstance(part, BoundColumn))

    def __reduce__(self) -> tuple[Any, ...]:
        flat = [(p.function, len(p.args), p.dtype, p.nullable) if isinstance(p, BoundCall) else p for p in walk(self)]
        return _from_flat, (flat,)


Bound: TypeAlias = BoundColumn | BoundLiteral | BoundCall


def walk(bound: Bound) -> Iterator[Bound]:
    """Iterate over a tree in preorder: each call before its arguments, arguments from left to right."""
    todo = [bound]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, BoundCall):
            todo.extend(reversed(part.args))


def rebuilt(bound: Bound, leaf: Callable[[BoundColumn | BoundLiteral], Bound]) -> Bound:
    """Return the tree with each column and literal replaced by what ``leaf`` returns for it."""
    made: list[Bound] = []
    for part in reversed(list(walk(bound))):  # each call after its arguments, these from right to left
        if isinstance(part, BoundCall):
            args = tuple(made.pop() for _ in part.args)
            same = all(a is b for a, b in zip(args, part.args, strict=True))
            made.append(part if same else attrs.evolve(part, args=args))
        else:
            made.append(leaf(part))
    return made.pop()


def _from_flat(flat: list[Any]) -> Bound:
    """Return the tree whose nodes these are in preorder, each call given by its fields and its number of arguments."""
    made: list[Bound] = []
    for part in reversed(flat):
        if isinstance(part, tuple):
            function, count, dtype, nullable = part
            made.append(BoundCall(function, tuple(made.pop() for _ in range(count)), dtype, nullable))
        else:
            made.append(part)
    return made.pop()
