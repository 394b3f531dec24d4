"""Early stop: where in a frame without a bound an edit ceases to matter, because it is not the extreme or cancels out.

The value of such a frame depends on the summary of all rows up to some place. Where that is the same before an edit and
after it, so it is for all rows beyond that look at this place: all but some, whose frames end before it, and the peers
of the row there, where frames leave out peers. The summaries of chunks say where, not the rows one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall, ValueCall
from tidemill.renderer.embedded.kernels.updates import Codes, Ints
from tidemill.renderer.embedded.windows.chunks import Edits, edited
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.renderer.embedded.windows.summaries import Summarise, Summary, together

_ADDED_UP: Final = ("known", "whole", "squares", "floats", "floats squared")
"""What differs by some rows, differs by all more of them."""
_ENDS: Final = {"first_value": "first", "nth_value": "first", "last_value": "last"}


def decisive(call: BoundWindowCall, types: Sequence[DType]) -> tuple[Summary, ...] | None:
    """Return the summaries of the rows up to a bound that decide a call's value.

    () for frames that have no bound, or two; None where that is not known.
    """
    if not isinstance(call, AggregateCall | ValueCall):
        return ()
    frame = call.frame
    if frame.start is not None and frame.end is not None:
        return ()
    if isinstance(call, ValueCall):
        n = call.n.value if isinstance(call.n, BoundLiteral) else 1
        return (Summary(_ENDS[call.function] + " known" * call.ignore_nulls, call.column, n or 1),)
    column = call.aggregate.column
    return None if column is None else _of_aggregate(call.function, column, types[column])


def _of_aggregate(function: str, column: int, dtype: DType) -> tuple[Summary, ...] | None:
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
    return None if found is None else tuple(Summary(kind, column) for kind in found)


class _Open(NamedTuple):
    """A summary that differs before edits and after, so far."""

    wanted: Summary
    old: Any
    new: Any


class EarlyStop(NamedTuple):
    """Finds the places beyond which edits do not matter, for summaries that decide values."""

    decisive: tuple[Summary, ...]
    summarise: Summarise
    backwards: bool
    """Whether frames go on to the last row, so that edits matter to rows before them."""

    def place(self, index: OrderIndex, edits: Edits, limit: int) -> int | None:
        """Return the place where edits have ceased to matter, up to a limit; None where they go on to.

        The limit is where further edits are: what beats a change may be what goes with them.
        """
        if self._differs_for_good(edits):
            return None
        low, high = edits.places.item(0), edits.ends.item(-1)
        before = index.cut(low, high)
        after = edited(before, edits._replace(places=edits.places - low))
        differing = self._differing(index, before, after, (low, high))
        if not differing:
            return low if self.backwards else high
        for start, codes, of_part in index.walk(low if self.backwards else high, back=self.backwards):
            if start + codes.shape[1] <= limit if self.backwards else start >= limit:
                return None
            still = self._with(differing, [of_part(some.wanted, self.summarise) for some in differing])
            if not still:
                count = self._least(differing, codes)
                place = start + codes.shape[1] - count if self.backwards else start + count
                return place if (place >= limit if self.backwards else place <= limit) else None
            differing = still
        return None

    def _differs_for_good(self, edits: Edits) -> bool:
        """Return whether something is added up to which rows that come add other than those that go take away."""
        for wanted in self.decisive:
            if wanted.kind in _ADDED_UP:
                gone, come = (self._of_rows(wanted, edits, edits.copies * sign) for sign in (-1, 1))
                if gone != come:
                    return True
        return False

    def _of_rows(self, wanted: Summary, edits: Edits, copies: Ints) -> Any:
        some = (copies > 0).nonzero()[0]
        if not len(some):
            return together(wanted, ())
        return self.summarise(wanted, edits.rows[wanted.column].take(some).repeat(copies.take(some)))

    def _differing(self, index: OrderIndex, before: Codes, after: Codes, places: tuple[int, int]) -> list[_Open]:
        """Return what differs after the last edit, of what is not added up."""
        found: list[_Open] = []
        for wanted in self.decisive:
            if wanted.kind in _ADDED_UP:
                continue
            old, new = (self.summarise(wanted, some[wanted.column]) for some in (before, after))
            if old == new:
                continue
            if self.backwards:
                beside = index.behind(places[1], wanted, self.summarise)
            else:
                beside = index.before(places[0], wanted, self.summarise)
            found.append(_Open(wanted, self._joined(wanted, beside, old), self._joined(wanted, beside, new)))
        return [some for some in found if some.old != some.new]

    def _joined(self, wanted: Summary, inside: Any, outside: Any) -> Any:
        """Return the summary of rows, some of which had one already."""
        return together(wanted, (outside, inside) if self.backwards else (inside, outside))

    def _with(self, differing: list[_Open], more: Sequence[Any]) -> list[_Open]:
        """Return what still differs with more rows, whose summaries are given."""
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
            if self._with(differing, [self.summarise(one.wanted, some[one.wanted.column]) for one in differing]):
                low = count + 1
            else:
                high = count
        return low
