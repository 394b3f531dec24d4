"""The users' columns behind internal ones, such as the state of a sum, for errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs


def column_for(name: str) -> str:
    """Return the user's column that a value is for: inside of an expression it is named like that, with # after it.

    >>> column_for("total#"), column_for("total")
    ('total', 'total')
    """
    return name.rstrip("#") or name


@attrs.frozen
class Derivation:
    """A value that is computed from columns, as users know it: the function that it is of and the column it is for."""

    function: str
    name: str

    def __str__(self) -> str:
        return f"{self.function} AS {self.name}"


@attrs.frozen
class Origins:
    """The columns of a row that users know, and what is computed from the others."""

    row: tuple[str, ...]
    values: tuple[tuple[str, Derivation], ...]
    """Values by the column of a state that they are computed from; what is made of that on the way ends in its name."""

    def known(self, names: Sequence[str], row: Sequence[Any]) -> tuple[Any, ...]:
        """Return what users know of a row with columns of these names."""
        return tuple(v for n, v in zip(names, row, strict=True) if n in self.row)

    def value(self, columns: Iterable[str]) -> Derivation | None:
        """Return the value that is computed from these columns, if any is."""
        return next((value for c in columns for state, value in self.values if c.endswith(state)), None)
