"""Bound trees: typed expressions over the columns of a schema, the form that engines evaluate.

They are immutable, hashable and comparable by value. Every conversion stands in a tree as a call of ``cast``, whether
the user asked for it or one type widens to another. ``sql_text.to_sql`` prints them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from tidemill.expressions.types import DType

__all__ = ["Bound", "BoundCall", "BoundColumn", "BoundLiteral"]


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
    """Tell 0.0 from -0.0 and take NaN for equal to itself: two equal trees have to mean the same."""
    return type(value).__name__, repr(value)


@attrs.frozen
class BoundLiteral:
    """A value of a type, or NULL of a type."""

    value: Any = attrs.field(eq=_literal_key)
    dtype: DType

    @property
    def nullable(self) -> bool:
        """Whether the value may be NULL."""
        return self.value is None

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on: none."""
        return frozenset()


@attrs.frozen
class BoundCall:
    """A function of the registry, or ``cast`` to the node's own type."""

    function: str
    args: tuple[Bound, ...]
    dtype: DType
    nullable: bool = True

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the value depends on."""
        return frozenset().union(*(a.columns() for a in self.args))


Bound: TypeAlias = BoundColumn | BoundLiteral | BoundCall
