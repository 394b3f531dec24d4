"""From where on a change makes no difference to frames without a bound: what it does not beat, or adds nothing to.

A running value depends on what all rows up to some place come to. Where that is the same before a change and after it,
so it is for all rows behind that see beyond this place: those whose frames end before it are some more, and so are the
peers of the row there, where frames leave out peers. What is found out is what the parts of the order come to, not row
by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, ValueCall
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Codes
from tidemill.renderer.embedded.windows.digests import Digest, digest, together
from tidemill.renderer.embedded.windows.edits import Edit, edited
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

__all__ = ["Settling", "decisive"]

_ADDED_UP: Final = ("known", "whole", "squares", "floats", "floats squared")
"""What differs by some rows, differs by all more of them."""
_ENDS: Final = {"first_value": "first", "nth_value": "first", "last_value": "last"}


def decisive(call: BoundWindowCall, types: Sequence[DType]) -> tuple[Digest, ...] | None:
    """Return what of the rows up to a bound decides on a call's value, if the frame has a bound on one side only.

    () of other calls; None where that is not known.
    """
    if not isinstance(call, AggregateCall | ValueCall):
        return ()
    frame = call.frame
    if frame.start is not None and frame.end is not None:
        return ()
    if isinstance(call, ValueCall):
        n = call.n.value if isinstance(call.n, BoundLiteral) else 1
        return (Digest(_ENDS[call.function] + " known" * call.ignore_nulls, call.column, n or 1),)
    column = call.aggregate.column
    return None if column is None else _of_aggregate(call.function, column, types[column])


def _of_aggregate(function: str, column: int, dtype: DType) -> tuple[Digest, ...] | None:
    is_float = dtype.name == "float64"
    kinds = {
        "count": ("known",),
        "sum": ("floats" if is_float else "whole", "some"),
        "avg": ("floats" if is_float else "whole", "known"),
        "variance": ("floats", "floats squared", "known") if is_float else ("whole", "squares", "known"),
        "min": ("least",),
        "bool_and": ("least",),
        "max": ("greatest",),
        "bool_or": ("greatest",),
    }
    found = kinds.get("variance" if function == "stddev" else function)
    return None if found is None else tuple(Digest(kind, column) for kind in found)


class _Open(NamedTuple):
    """What differs before and after a change, so far."""

    wanted: Digest
    old: Any
    new: Any


class Settling(NamedTuple):
    """Finds places beyond which edits of a partition make no difference, for digests that decide."""

    decisive: tuple[Digest, ...]
    types: Sequence[DType]
    interner: Interner
    backwards: bool
    """Whether frames go on to the last row, so that edits make a difference to rows before them."""

    def place(self, rows: OrderedPartition, edits: Sequence[Edit], limit: int) -> int | None:
        """Return the place where edits have ceased to matter, up to a limit; None where they go on to.

        The limit is where further edits are: what beats a change may be what goes with them.
        """
        low, high = edits[0].place, edits[-1].end
        before = rows.cut(low, high)
        differing = self._differing(rows, before, edited(before, edits, low), (low, high))
        if differing is None:
            return None
        if not differing:
            return low if self.backwards else high
        for start, codes, of_part in rows.stretches(low if self.backwards else high, back=self.backwards):
            if start + codes.shape[1] <= limit if self.backwards else start >= limit:
                return None
            more = [of_part(some.wanted, self._made(some.wanted)) for some in differing]
            still = self._with(differing, more)
            if not still:
                count = self._least(differing, codes)
                place = start + codes.shape[1] - count if self.backwards else start + count
                return place if (place >= limit if self.backwards else place <= limit) else None
            differing = still
        return None

    def _made(self, wanted: Digest) -> Callable[[Any], Any]:
        return lambda codes: digest(wanted, codes, self.types[wanted.column], self.interner)

    def _differing(
        self, rows: OrderedPartition, before: Codes, after: Codes, places: tuple[int, int]
    ) -> list[_Open] | None:
        """Return what differs once all is edited; None where something does for good."""
        found: list[_Open] = []
        for wanted in self.decisive:
            made = self._made(wanted)
            old, new = made(before[wanted.column]), made(after[wanted.column])
            if old == new:
                continue
            if wanted.kind in _ADDED_UP:
                return None
            beside = rows.behind(places[1], wanted, made) if self.backwards else rows.before(places[0], wanted, made)
            found.append(_Open(wanted, self._joined(wanted, beside, old), self._joined(wanted, beside, new)))
        return [some for some in found if some.old != some.new]

    def _joined(self, wanted: Digest, inside: Any, outside: Any) -> Any:
        """Return what rows come to of which some were known already."""
        return together(wanted, (outside, inside) if self.backwards else (inside, outside))

    def _with(self, differing: list[_Open], more: Sequence[Any]) -> list[_Open]:
        """Return what still differs with more rows, of which it is given for each what they come to."""
        found: list[_Open] = []
        for (wanted, old, new), part in zip(differing, more, strict=True):
            with_old, with_new = self._joined(wanted, old, part), self._joined(wanted, new, part)
            if with_old != with_new:
                found.append(_Open(wanted, with_old, with_new))
        return found

    def _least(self, differing: list[_Open], codes: Codes) -> int:
        """Return with how many of some rows, the nearest ones, nothing differs any more."""
        low, high = 0, codes.shape[1]
        while low < high:
            count = (low + high) // 2
            some = codes[:, codes.shape[1] - count :] if self.backwards else codes[:, :count]
            if self._with(differing, [self._made(one.wanted)(some[one.wanted.column]) for one in differing]):
                low = count + 1
            else:
                high = count
        return low
