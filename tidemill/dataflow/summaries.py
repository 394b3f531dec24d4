"""Path summaries: how the time of a record changes on its way from one node to another."""

from __future__ import annotations

import attrs

from tidemill.dataflow.lattice import Antichain, Time


@attrs.frozen
class PathSummary:
    """The effect of a path on times: keep the first ``kept`` coordinates, and add ``added`` to them, zero-extended.

    Entering a scope appends a coordinate at 0, leaving it drops the last one, a feedback edge adds 1 to the last one.
    All paths through nested scopes are compositions of these, and every composition has this form: coordinates beyond
    the scopes that the path never left start anew.

    >>> enter, back, leave = PathSummary.enter(1), PathSummary.delay((0, 1)), PathSummary.leave(2)
    >>> enter.then(back).apply((4,))
    (4, 1)
    >>> enter.then(back).then(leave) == PathSummary.identity(1)
    True
    """

    kept: int
    added: Time

    @classmethod
    def identity(cls, coordinates: int) -> PathSummary:
        """Return the summary of staying where one is: every time, of that many coordinates, is kept."""
        return cls(coordinates, (0,) * coordinates)

    @classmethod
    def delay(cls, added: Time) -> PathSummary:
        """Return the summary of an edge that adds to each coordinate."""
        return cls(len(added), added)

    @classmethod
    def enter(cls, coordinates: int) -> PathSummary:
        """Return the summary of entering a scope from times of that many coordinates."""
        return cls(coordinates, (0,) * (coordinates + 1))

    @classmethod
    def leave(cls, coordinates: int) -> PathSummary:
        """Return the summary of leaving a scope whose times have that many coordinates."""
        return cls(coordinates - 1, (0,) * (coordinates - 1))

    def apply(self, t: Time) -> Time:
        """Return the least time at which a record of time ``t`` can arrive."""
        return tuple((t[i] if i < self.kept else 0) + a for i, a in enumerate(self.added))

    def apply_to(self, frontier: Antichain) -> Antichain:
        """Return the frontier that one at the start of the path becomes at its end."""
        return Antichain(self.apply(t) for t in frontier.elements)

    def before(self, frontier: Antichain) -> Antichain:
        """Return the start frontier of a loop-free path: what arrives beyond ``frontier`` at its end set out beyond it.

        >>> PathSummary.delay((2,)).before(Antichain([5]))
        Antichain(3)
        """
        return Antichain(tuple(max(0, c - a) for c, a in zip(t, self.added, strict=True)) for t in frontier.elements)

    def then(self, after: PathSummary) -> PathSummary:
        """Return the summary of this path followed by another."""
        kept = min(self.kept, after.kept)
        return PathSummary(kept, tuple((self.added[i] if i < after.kept else 0) + a for i, a in enumerate(after.added)))

    def of_outermost(self, coordinates: int) -> PathSummary:
        """Return what the path does to the first ``coordinates`` coordinates, which it never leaves."""
        return PathSummary(coordinates, self.added[:coordinates])

    def less_equal(self, other: PathSummary) -> bool:
        """Return whether this path is never later than the other, whatever the time it starts with."""
        return self.kept <= other.kept and all(a <= b for a, b in zip(self.added, other.added, strict=True))
