"""Timestamps and their lattice: the product order on tuples of non-negative integers, and frontiers of them.

A time is a tuple, ``(epoch,)`` at its plainest. ``(1, 5)`` and ``(2, 3)`` are incomparable. Python's order of tuples is
a linear extension of the product order, and sweeps over times rely on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final, TypeAlias

from tidemill.errors import TimeError, brief

Time: TypeAlias = tuple[int, ...]

MAX_COORDINATE: Final = 2**62
"""Coordinates stay below this, so that the columns which hold them can be advanced without overflow."""


def less_equal(s: Time, t: Time) -> bool:
    """Return whether ``s <= t`` in the product order.

    >>> less_equal((1, 3), (2, 3)), less_equal((1, 5), (2, 3))
    (True, False)
    """
    return all(a <= b for a, b in zip(s, t, strict=True))


def lub(s: Time, t: Time) -> Time:
    """Return the least upper bound, the join of two times.

    >>> lub((3, 7), (4, 6))
    (4, 7)
    """
    return tuple(map(max, s, t))


def glb(s: Time, t: Time) -> Time:
    """Return the greatest lower bound, the meet of two times.

    >>> glb((3, 7), (4, 6))
    (3, 6)
    """
    return tuple(map(min, s, t))


def join_closure(times: Iterable[Time]) -> list[Time]:
    """Return every join of a non-empty subset of the times, in tuple order.

    One pass for each generator suffices: what is closed under joins with the earlier ones stays so. Cost: the size of
    the result for each time given; n incomparable times can have 2**n - 1 joins.

    >>> join_closure([(1, 0), (0, 1)])
    [(0, 1), (1, 0), (1, 1)]
    """
    closed: set[Time] = set()
    for t in times:
        closed |= {lub(t, c) for c in closed}
        closed.add(t)
    return sorted(closed)


def as_time(value: Any, coordinates: int) -> Time:
    """Return a user's time as a tuple of that many coordinates; a plain int is a time of one.

    >>> as_time(3, 1), as_time((0, 5), 2)
    ((3,), (0, 5))
    >>> as_time(3, 2)
    Traceback (most recent call last):
    ...
    tidemill.errors.TimeError: 3 is not a time here: expected a tuple of 2 non-negative integers
    """
    if type(value) is int and coordinates == 1 and 0 <= value < MAX_COORDINATE:  # nearly always
        return (value,)
    coords = value if isinstance(value, (tuple, list)) else (value,)
    if len(coords) == coordinates and all(map(_is_coordinate, coords)):
        return tuple(int(c) for c in coords)
    wanted = "a non-negative integer" if coordinates == 1 else f"a tuple of {coordinates} non-negative integers"
    if any(hasattr(c, "__index__") and c >= MAX_COORDINATE for c in coords):
        wanted += f" below 2**{MAX_COORDINATE.bit_length() - 1}"
    msg = f"{brief(value)} is not a time here: expected {wanted}"
    raise TimeError(msg)


def _is_coordinate(c: Any) -> bool:
    return hasattr(c, "__index__") and not isinstance(c, bool) and 0 <= c < MAX_COORDINATE


def shown(t: Time) -> int | Time:
    """Return a time as users see it: one of a single coordinate is a plain int."""
    return t[0] if len(t) == 1 else t


class Antichain:
    """A frontier: a set of mutually incomparable times. What is not beyond it is final.

    Made from any times; only the minimal ones are kept. Immutable, hashable, equal when the sets are. Iterates in
    tuple order, times of one coordinate as plain ints. The empty antichain has nothing beyond it: all is final.

    >>> Antichain([(3, 7), (5, 6), (5, 8)])
    Antichain((3, 7), (5, 6))
    >>> Antichain([3]).beyond((4,)), Antichain([3]).beyond((2,))
    (True, False)
    """

    __slots__ = ("elements",)

    elements: tuple[Time, ...]

    def __init__(self, times: Iterable[int | Time] = ()) -> None:
        elements = tuple([t if isinstance(t, tuple) else (t,) for t in times])
        if len(elements) > 1:  # few have
            minimal: list[Time] = []
            for t in sorted(set(elements)):  # in tuple order whatever lies below t has come before it
                if not any(less_equal(m, t) for m in minimal):
                    minimal.append(t)
            elements = tuple(minimal)
        object.__setattr__(self, "elements", elements)

    def __reduce__(self) -> tuple[type[Antichain], tuple[Any]]:
        return Antichain, (self.elements,)

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"an Antichain is immutable; make a new one instead of setting {name!r}"
        raise AttributeError(msg)

    @classmethod
    def minimum(cls, coordinates: int) -> Antichain:
        """Return the frontier at which nothing is final yet: the least time alone."""
        return cls([(0,) * coordinates])

    @classmethod
    def after(cls, t: Time) -> Antichain:
        """Return the frontier at which just the times up to ``t`` are final.

        >>> Antichain.after((3,)), Antichain.after((1, 4))
        (Antichain(4), Antichain((0, 5), (2, 0)))
        """
        return cls(tuple(c + 1 if i == j else 0 for j, c in enumerate(t)) for i in range(len(t)))

    def __iter__(self) -> Iterator[int | Time]:
        return map(shown, self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Antichain) and self.elements == other.elements

    def __hash__(self) -> int:
        return hash(self.elements)

    def __repr__(self) -> str:
        return "Antichain(" + ", ".join(str(shown(t)) for t in self.elements) + ")"

    def beyond(self, t: Time) -> bool:
        """Return whether ``t`` is beyond the frontier, so that something may still happen at it."""
        if len(self.elements) == 1 == len(t):  # the usual case
            return self.elements[0][0] <= t[0]
        return any(less_equal(f, t) for f in self.elements)

    def dominates(self, other: Antichain) -> bool:
        """Return whether this frontier is at or past ``other``: whatever ``other`` made final, it makes final too."""
        return all(other.beyond(f) for f in self.elements)

    def join(self, other: Antichain) -> Antichain:
        """Return the least frontier at or past both: a time is beyond it iff it is beyond both.

        >>> Antichain([(3, 7), (5, 6)]).join(Antichain([(4, 6)]))
        Antichain((4, 7), (5, 6))
        """
        if len(self.elements) == 1 == len(other.elements):  # nearly always, and then it mostly is one of the two
            joined = lub(self.elements[0], other.elements[0])
            return other if joined == other.elements[0] else self if joined == self.elements[0] else Antichain([joined])
        return Antichain(lub(s, t) for s in self.elements for t in other.elements)

    def meet(self, other: Antichain) -> Antichain:
        """Return the lower envelope: a time is beyond it iff it is beyond one of the two.

        >>> Antichain([(3, 7), (5, 6)]).meet(Antichain([(4, 6)]))
        Antichain((3, 7), (4, 6))
        """
        return self if other is self else Antichain(self.elements + other.elements)

    def advance(self, t: Time) -> Time:
        """Return the representative of ``t`` for readers at or beyond the frontier: the meet over f of ``t v f``.

        Sound (``advance(t) <= s`` iff ``t <= s``, for all ``s`` beyond the frontier) and canonical (two times that no
        such ``s`` can distinguish have the same one). Beyond an empty frontier nobody reads; ``t`` is left alone.
        Differential dataflow calls it ``advance_by``.

        >>> Antichain([(4, 8), (5, 3)]).advance((3, 7))
        (4, 7)
        """
        if not self.elements:
            return t
        return reduce(glb, (lub(t, f) for f in self.elements))


def common(frontiers: Iterable[Antichain]) -> Antichain | None:
    """Return the frontier that all of these are; None where they differ, or there are none.

    Cheap where it is one object, which is what inputs that move together get.

    >>> common([Antichain([3]), Antichain([3])]), common([Antichain([3]), Antichain([4])])
    (Antichain(3), None)
    """
    found: Antichain | None = None
    for frontier in frontiers:
        if found is None:
            found = frontier
        elif frontier is not found and frontier != found:
            return None
    return found
