"""Scopes: where a node lives, and so how many coordinates its times have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from tidemill.site import Site


@attrs.frozen(eq=False)
class Scope:
    """A region of a dataflow.

    Each one but the outermost is a loop, and adds to times the coordinate that counts its iterations.
    """

    id: int
    name: str
    kind: Literal["flow", "iterate", "letrec"]
    parent: Scope | None
    coordinates: int
    """How many coordinates times have here: the user's, and one for each loop around."""
    site: Site

    def __iter__(self) -> Iterator[Scope]:
        """Iterate from this scope outwards."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def within(self, other: Scope) -> bool:
        """Return whether this scope is the other one or lies inside it."""
        return any(s is other for s in self)

    @property
    def path(self) -> str:
        """The names from the outermost loop to this one, as in ``/trim/propagate``."""
        names = [s.name for s in self if s.parent is not None]
        return "/" + "/".join(reversed(names))

    def __repr__(self) -> str:
        return f"Scope({self.path})"
