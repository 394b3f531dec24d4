"""Sums of whole numbers over frames bounded by value, where many rows change: old sums, and what edits add to each.

A bound by value stays where it is, whatever rows come and go. So an edit adds what it puts in, or takes out, to the
sums of the rows whose frames have its value in the order, and changes nothing else: a running sum over all edits has
what they add to every row, exactly, for whole numbers are. Only the rows before the edits are looked at, and only of
those to which edits add something are the sums worked out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import float_codes
from tidemill.renderer.embedded.kernels.exact_quotients import quotients
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, first_numbers, largest
from tidemill.renderer.embedded.windows.edits import ManyEdits, places_from
from tidemill.renderer.embedded.windows.many_places import Check, places_where_tied
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.ranges import plus
from tidemill.renderer.embedded.windows.sums_by_value import sums_by_value

__all__ = ["ChangedSums", "SumsByDelta"]

BLOCK: Final = 1 << 16
"""Rows that are looked at at a time, so that they stay in fast memory; more where edits are near one another."""


_Bounds: TypeAlias = tuple[int, int]
"""From beyond one distance on, up to another."""


class _Sum(NamedTuple):
    """A column that is added up over frames, or None for the number of rows in them."""

    column: int | None
    bounds: _Bounds


class _Call(NamedTuple):
    """What `Sum` says, with two bounds."""

    function: str
    column: int | None
    bounds: _Bounds

    @property
    def sums(self) -> list[_Sum]:
        """What its values are, or what they are quotients of."""
        total, count = _Sum(self.column, self.bounds), _Sum(None, self.bounds)
        return {"sum": [total], "count": [count]}.get(self.function, [total, count])

    def codes(self, sums: dict[_Sum, _Sums]) -> list[Ints]:
        """Return the codes of its values: of rows before, after, and of those that come."""
        if self.function != "avg":
            return [*sums[self.sums[0]]]
        totals, counts = (sums[some] for some in self.sums)
        return [
            float_codes(quotients(total, np.maximum(count, 1))) for total, count in zip(totals, counts, strict=True)
        ]


class _Sums(NamedTuple):
    """Sums over the frames of rows that may change, before and after, and over those of rows that come."""

    old: Ints
    new: Ints
    of_new: Ints


class SumsByDelta:
    """Calls that are all sums, counts or averages of whole numbers over RANGE frames with two bounds."""

    def __init__(self, by: OrderColumn, calls: Sequence[_Call], kept: Ints) -> None:
        self._by, self._calls, self._kept = by, calls, kept
        lows, highs = zip(*(call.bounds for call in calls), strict=True)
        self._low, self._high = min(lows), max(highs)
        self._sums = list(dict.fromkeys(some for call in calls for some in call.sums))

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], kept: Ints) -> SumsByDelta | None:
        """Return what works all calls out, of rows of which some codes come out again; None where it cannot."""
        calls = sums_by_value(windows, types) or []
        bounded = [
            _Call(function, column, (low, high))
            for function, column, low, high in calls
            if low is not None and high is not None
        ]
        return SumsByDelta(windows.order[0], bounded, kept) if 0 < len(bounded) == len(calls) else None

    def edits(self, rows: OrderedPartition, new: Codes, copies: Ints, check: Check) -> ManyEdits | None:
        """Return what `edits_of` does, with how the output changes: all is looked up at once, and cut out once.

        None where some rows have no place in the order, or no number, and where a sum may be too large.
        """
        if (new[self._by.column] == NULL).any():
            return None
        front, first, back = self._looked_up(rows, _numbers(new, self._by))
        places, changes = np.empty_like(first), list[ChangedSums]()
        for some in self._blocks(_numbers(new, self._by), back - front):
            stretch = _Stretch.of(rows, front[some], back[some], self._by)
            if stretch is None:
                return None
            places[some], there = stretch.places(rows, new[:, some], first[some])
            check(some, there)
            made = ManyEdits(places[some], new[:, some], copies[some])
            changed = self._changed(_Cut.of(stretch, made, self._by))
            if changed is None:
                return None
            changes.append(changed)
        return ManyEdits(places, new, copies, changes)

    def _looked_up(self, rows: OrderedPartition, numbers: Ints) -> Codes:
        """Return for rows with these numbers where the rows begin, and end, in whose frames they may be.

        Between these two, the first place at which there is no lower number.
        """
        low, high = self._low, self._high
        asked = np.concatenate(
            (plus(plus(numbers, -high), low), plus(numbers, -1), plus(plus(numbers, -low - 1), high))
        )
        order = asked.argsort(kind="stable")
        asked, places = asked.take(order), np.empty_like(asked)
        # Where the order falls, the rows' own numbers are one less; none is less than the least.
        found = rows.places_of_numbers(plus(asked, -1) if self._by.descending else asked, right=True)
        places[order] = np.where(asked == NULL, 0, found) if self._by.descending else found
        return places.reshape(3, -1)

    def _blocks(self, numbers: Ints, widths: Ints) -> Iterator[slice]:
        """Iterate over rows, so many at a time, that no row's frame has both of these and of others.

        Given how many rows are to be looked at for each.
        """
        back = plus(plus(numbers, -self._low - 1), self._high)
        begins = np.concatenate(([0], (back[:-1] < numbers[1:]).nonzero()[0] + 1, [len(numbers)]))
        looked_at = np.concatenate(([0], widths.cumsum())).take(begins)
        at = 0
        while at < len(begins) - 1:
            then = max(int(looked_at.searchsorted(looked_at[at] + BLOCK, "right")) - 1, at + 1)
            yield slice(begins.item(at), begins.item(then))
            at = then

    def _changed(self, cut: _Cut) -> ChangedSums | None:
        """Return how the rows of a cut change; None as `edits`."""
        # A count, too, is of numbers that are there.
        amounts = cut.amounts({*(call.column for call in self._calls), *(some.column for some in self._sums)})
        if amounts is None:
            return None
        frames = {bounds: _Frames.of(cut, bounds) for bounds in {some.bounds for some in self._sums}}
        more = [frames[some.bounds].more(amounts[some.column].added) for some in self._sums]
        own = cut.differing(more)
        around = {bounds: of_rows.around(own) for bounds, of_rows in frames.items()}
        sums: dict[_Sum, _Sums] = {}
        for some, of_rows in zip(self._sums, more, strict=True):
            amount, (start, end) = amounts[some.column], around[some.bounds]
            old = amount.before.take(end)
            old -= amount.before.take(start)
            sums[some] = _Sums(old, old + of_rows.take(own), frames[some.bounds].of_new(amount))
        values = zip(*(call.codes(sums) for call in self._calls), strict=True)
        changed = ChangedSums(cut, self._kept, own, own.searchsorted(cut.gone), *values)
        return changed.without_equal() if any(call.function == "avg" for call in self._calls) else changed


class ChangedSums(NamedTuple):
    """Rows of a cut that go, and rows that come, not put together yet: where they are, and their values."""

    cut: _Cut
    kept: Ints
    """Which of their codes come out again."""
    own: Ints
    """The places of the cut's own rows that go; all but those taken out come again."""
    gone: Ints
    """Which of these are taken out."""
    old: Sequence[Ints]
    """The calls' values of these rows, before and after."""
    new: Sequence[Ints]
    of_put_in: Sequence[Ints]
    """Those of the rows that are put in."""

    def without_equal(self) -> ChangedSums:
        """Return what there is without rows that stay, and have the values that they had, as averages may be."""
        differs = np.zeros(len(self.own), np.bool_)
        differs[self.gone] = True
        for old, new in zip(self.old, self.new, strict=True):
            differs |= old != new
        if differs.all():
            return self
        own = self.own.compress(differs)
        stay = [[values.compress(differs) for values in some] for some in (self.old, self.new)]
        return self._replace(own=own, gone=own.searchsorted(self.cut.gone), old=stay[0], new=stay[1])

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows go, and how many come."""
        return len(self.own), len(self.own) - len(self.gone) + len(self.cut.come)

    def write(self, gone: Codes, come: Codes) -> None:
        """Write them, above their values."""
        width, cut = len(self.kept), self.cut
        for source, row in zip(self.kept.tolist(), gone, strict=False):
            cut.codes[source].take(self.own, out=row, mode="clip")
        for values, row in zip(self.old, gone[width:], strict=True):
            row[:] = values
        stays, own = first_numbers(len(self.own)), self.own
        if len(self.gone):
            stays = np.delete(stays, self.gone)
            own = own.take(stays)
        before = own.searchsorted(cut.edits_at.take(cut.come))
        put_in = before + first_numbers(len(before))
        if len(put_in):
            stays = np.insert(stays, before, 0)  # and there any number, of what is written over
        if len(self.own):
            for given, row in zip((*gone[:width], *self.new), come, strict=True):
                given.take(stays, out=row, mode="clip")
        for source, row in zip(self.kept.tolist(), come, strict=False):
            row[put_in] = cut.edits.rows[source].take(cut.come)
        for values, row in zip(self.of_put_in, come[width:], strict=True):
            row[put_in] = values


class _Amounts(NamedTuple):
    """What is added up: for the rows of a cut, the sums before each and of all; and what each edit adds."""

    before: Ints
    added: Ints


class _Stretch(NamedTuple):
    """Rows around edits, one after another, as they are before these."""

    codes: Codes
    numbers: Ints
    """The numbers of their places in the order, which never fall."""
    more: Ints
    """By how much the places of each edit are greater among them than in the partition."""

    @staticmethod
    def of(rows: OrderedPartition, front: Ints, back: Ints, by: OrderColumn) -> _Stretch | None:
        """Return the rows from some places up to others, for each edit; None where some have no place in the order."""
        begins, first, end = _joined(front, back)
        codes = rows.spans(first, end)
        if codes.shape[1] and NULL in (codes.item(by.column, 0), codes.item(by.column, -1)):
            return None
        lengths = end - first
        return _Stretch(codes, _numbers(codes, by), (lengths.cumsum() - lengths - first).take(begins.cumsum() - 1))

    def places(self, rows: OrderedPartition, new: Codes, first: Ints) -> tuple[Ints, Bools]:
        """Return what `places_where_tied` does, of the edits' rows."""
        at = first + self.more
        inside = (at < len(self.numbers)).nonzero()[0]
        return places_where_tied(rows, new, first, inside, self.codes.take(at.take(inside), axis=1))


class _Cut(NamedTuple):
    """A stretch of rows with their edits. Places are those in it."""

    codes: Codes
    numbers: Ints
    gone: Ints
    """The places of those that are taken out."""
    edits: ManyEdits
    edits_at: Ints
    """The places of the edits."""
    edited: Ints
    """Their numbers in the order."""
    come: Ints
    """For each row that is put in, its edit."""

    @staticmethod
    def of(stretch: _Stretch, edits: ManyEdits, by: OrderColumn) -> _Cut:
        at = edits.places + stretch.more
        gone = places_from(at, np.maximum(-edits.copies, 0))
        come = first_numbers(len(at)).repeat(np.maximum(edits.copies, 0))
        return _Cut(stretch.codes, stretch.numbers, gone, edits, at, _numbers(edits.rows, by), come)

    def amounts(self, columns: Collection[int | None]) -> dict[int | None, _Amounts] | None:
        """Return what is added up, of columns, and of rows; None where there are no numbers, or sums too large."""
        copies, found = self.edits.copies, dict[int | None, _Amounts]()
        most = len(self.numbers) + int(np.abs(copies).sum())
        for column in columns:
            if column is None:
                found[None] = _Amounts(first_numbers(len(self.numbers) + 1), copies)
                continue
            given, edited = self.codes[column], self.edits.rows[column]
            if max(largest(given), largest(edited)) * most > INT64_LIMIT:  # NULL is the largest
                return None
            before = np.zeros(len(given) + 1, np.int64)
            given.cumsum(out=before[1:])
            found[column] = _Amounts(before, edited * copies)
        return found

    def differing(self, more: Sequence[Ints]) -> Ints:
        """Return the places of rows that are taken out, or to some of whose sums something is added."""
        differs = more[0] != 0
        for of_rows in more[1:]:
            differs |= of_rows != 0
        differs[self.gone] = True
        places: Ints = differs.nonzero()[0]
        return places


class _Frames(NamedTuple):
    """Frames with two bounds, of a cut's rows and of those that come: places among its rows, and edits."""

    numbers: Ints
    bounds: _Bounds
    enters: Ints
    """For each edit the first place at which frames have it."""
    leaves: Ints
    """And the one from which on they do not have it any more."""
    start_of_new: Ints
    end_of_new: Ints
    first_edit: Ints
    """In frames of those that come."""
    end_of_edits: Ints

    @staticmethod
    def of(cut: _Cut, bounds: _Bounds) -> _Frames:
        numbers, edited = cut.numbers, cut.edited
        enters, leaves = (numbers.searchsorted(plus(edited, -far - 1), "right") for far in reversed(bounds))
        new = edited.take(cut.come)
        of_new = (some.searchsorted(plus(new, far), "right") for some in (numbers, edited) for far in bounds)
        return _Frames(numbers, bounds, enters, leaves, *of_new)

    def more(self, added: Ints) -> Ints:
        """Return by how much more the sum of each row is after the edits, which add so much each."""
        at = np.concatenate((self.enters, self.leaves))
        order = at.argsort(kind="stable")  # of two that ascend
        sums = np.concatenate((added, -added)).take(order).cumsum()
        bounds = np.concatenate(([0], at.take(order), [len(self.numbers)]))
        by_row: Ints = np.concatenate(([0], sums)).repeat(bounds[1:] - bounds[:-1])
        return by_row

    def around(self, own: Ints) -> tuple[Ints, Ints]:
        """Return from where to where the frames of some rows go."""
        numbers = self.numbers
        alone = not np.count_nonzero(numbers[1:] == numbers[:-1])
        of_own = numbers.take(own)
        start, end = (
            own + (1 + far) if alone and far in (-1, 0) else numbers.searchsorted(plus(of_own, far), "right")
            for far in self.bounds
        )
        return start, end

    def of_new(self, amount: _Amounts) -> Ints:
        """Return the sums of the rows that come."""
        before, edits_before = amount.before, np.concatenate(([0], amount.added.cumsum()))
        of_rows: Ints = before.take(self.end_of_new) - before.take(self.start_of_new)
        return of_rows + edits_before.take(self.end_of_edits) - edits_before.take(self.first_edit)


def _numbers(codes: Codes, by: OrderColumn) -> Ints:
    """Return the values of the order, or what they are below zero where it falls: no code is NULL turned round."""
    found: Ints = -codes[by.column] if by.descending else codes[by.column]
    return found


def _joined(starts: Ints, ends: Ints) -> tuple[Bools, Ints, Ints]:
    """Return where stretches that do not touch those before begin, and from where to where these and those go.

    Neither starts nor ends ever fall.
    """
    begins = np.concatenate(([True], starts[1:] > ends[:-1]))
    first = begins.nonzero()[0]
    return begins, starts.take(first), ends.take(np.append(first[1:], len(starts)) - 1)
