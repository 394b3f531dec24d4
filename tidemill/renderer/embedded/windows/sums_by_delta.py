"""Sums of whole numbers over frames bounded by value, where many rows change: old sums, and what edits add to each.

A bound by value stays where it is, whatever rows come and go. So an edit adds what it puts in, or takes out, to the
sums of the rows whose frames have its value in the order, and changes nothing else: a running sum over all edits has
what they add to every row, exactly, for whole numbers are. Only the rows before the edits are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from tidemill.boundary.values import INT64_LIMIT
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import DType
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.embedded.kernels.codec import float_codes
from tidemill.renderer.embedded.kernels.exact_quotients import quotients
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, first_numbers, largest
from tidemill.renderer.embedded.windows.edits import ManyEdits, places_from
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition
from tidemill.renderer.embedded.windows.ranges import plus
from tidemill.renderer.embedded.windows.sums_by_value import sums_by_value

__all__ = ["ChangedSums", "SumsByDelta"]

BLOCK: Final = 1 << 15
"""Rows that are looked at at a time, so that they stay in fast memory; more where edits are near one another."""


class _Call(NamedTuple):
    """What `Sum` says, with two bounds."""

    function: str
    column: int | None
    low: int
    high: int


class SumsByDelta:
    """Calls that are all sums, counts or averages of whole numbers over RANGE frames with two bounds."""

    def __init__(self, by: OrderColumn, calls: Sequence[_Call], kept: Ints) -> None:
        self._by, self._calls, self._kept = by, calls, kept
        self._low, self._high = min(call.low for call in calls), max(call.high for call in calls)

    @staticmethod
    def of(windows: Windows, types: Sequence[DType], kept: Ints) -> SumsByDelta | None:
        """Return what works all calls out, of rows of which some codes come out again; None where it cannot."""
        calls = sums_by_value(windows, types) or []
        bounded = [
            _Call(function, column, low, high)
            for function, column, low, high in calls
            if low is not None and high is not None
        ]
        return SumsByDelta(windows.order[0], bounded, kept) if 0 < len(bounded) == len(calls) else None

    def changed(self, rows: OrderedPartition, edits: ManyEdits) -> list[ChangedSums] | None:
        """Return how rows change, some at a time; None where some have no place in the order, or no number.

        And where a sum may be too large.
        """
        if (edits.rows[self._by.column] == NULL).any():
            return None
        found = []
        for some, around in self._blocks(rows, edits):
            cut = _Cut.of(rows, some, around, self._by)
            changed = None if cut is None else self._changed(cut)
            if changed is None:
                return None
            found.append(changed)
        return found

    def _blocks(self, rows: OrderedPartition, edits: ManyEdits) -> Iterator[tuple[ManyEdits, _Around]]:
        """Iterate over edits, so many at a time, that no row's frame has both of these and of others."""
        numbers, low, high = _numbers(edits.rows, self._by), self._low, self._high
        before, behind = plus(numbers, -high - 1), plus(numbers, -low - 1)
        asked = np.concatenate((before, behind, plus(plus(numbers, -high), low), plus(behind, high)))
        order = asked.argsort(kind="stable")
        asked, places = asked.take(order), np.empty_like(asked)
        # Where the order falls, the rows' own numbers are one less; none is less than the least.
        found = rows.places_of_numbers(plus(asked, -1) if self._by.descending else asked, right=True)
        places[order] = np.where(asked == NULL, 0, found) if self._by.descending else found
        around = _Around(*places.reshape(4, -1))
        begins = (plus(behind[:-1], high) < numbers[1:]).nonzero()[0] + 1
        begins = np.concatenate(([0], begins, [len(numbers)]))
        looked_at = np.concatenate(([0], (around.end - around.first).cumsum())).take(begins)
        at = 0
        while at < len(begins) - 1:
            then = max(int(looked_at.searchsorted(looked_at[at] + BLOCK, "right")) - 1, at + 1)
            start, stop = begins.item(at), begins.item(then)
            yield edits.part(start, stop), _Around(*(of[start:stop] for of in around))
            at = then

    def _changed(self, cut: _Cut) -> ChangedSums | None:
        """Return how the rows of a cut change; None as `changed`."""
        amounts = cut.amounts([call.column for call in self._calls])
        if amounts is None:
            return None
        frames: dict[tuple[int, int], _Frames] = {}
        old, new = np.empty((2, len(self._calls), len(cut.own)), np.int64)
        come = np.empty((len(self._calls), len(cut.come)), np.int64)
        for number, call in enumerate(self._calls):
            bounds = call.low, call.high
            if bounds not in frames:
                frames[bounds] = _Frames.of(cut, *bounds)
            sums = frames[bounds].sums(amounts[None if call.function == "count" else call.column], cut.own)
            counts = frames[bounds].sums(amounts[None], cut.own) if call.function == "avg" else sums
            for row, total, count in zip((old, new, come), sums, counts, strict=True):
                row[number] = float_codes(quotients(total, np.maximum(count, 1))) if call.function == "avg" else total
        return _differing(cut, self._kept, old, new, come)


class ChangedSums(NamedTuple):
    """Rows of a cut that go, and rows that come, not put together yet: where they are, and where their values."""

    cut: _Cut
    kept: Ints
    """Which of their codes come out again."""
    old: Codes
    """The calls' values of the cut's own rows, before and after."""
    new: Codes
    of_put_in: Codes
    """Those of the rows that are put in."""
    goes: Ints
    """Which of its own rows go."""
    comes: Ints
    """Which of them come; of those put in any number."""
    put_in: Ints
    """The places of those put in among those that come."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows go, and how many come."""
        return len(self.goes), len(self.comes)

    def write(self, gone: Codes, come: Codes) -> None:
        """Write them, above their values."""
        self._write(gone, self.goes, self.old)
        if len(self.comes) > len(self.put_in):
            self._write(come, self.comes, self.new)
        width = len(self.kept)
        for source, row in zip(self.kept.tolist(), come, strict=False):
            row[self.put_in] = self.cut.edits.rows[source].take(self.cut.come)
        come[width:, self.put_in] = self.of_put_in

    def _write(self, out: Codes, own: Ints, values: Codes) -> None:
        places = self.cut.own.take(own)
        for source, row in zip(self.kept.tolist(), out, strict=False):
            self.cut.codes[source].take(places, out=row, mode="clip")
        for of_call, row in zip(values, out[len(self.kept) :], strict=True):
            of_call.take(own, out=row, mode="clip")


def _differing(cut: _Cut, kept: Ints, old: Codes, new: Codes, of_put_in: Codes) -> ChangedSums:
    """Return the rows that go, or have other values afterwards, and those that come, or have them, in order."""
    differs = (old != new).any(axis=0)
    differs[cut.gone] = True
    goes = differs.nonzero()[0]
    differs[cut.gone] = False
    comes = differs.nonzero()[0]
    before = cut.own.take(comes).searchsorted(cut.edits_at.take(cut.come))
    put_in = before + first_numbers(len(before))
    return ChangedSums(cut, kept, old, new, of_put_in, goes, np.insert(comes, before, 0), put_in)


class _Around(NamedTuple):
    """Where the rows begin and end whose frames have edited ones, for each edit, and those that these frames have."""

    low: Ints
    high: Ints
    first: Ints
    end: Ints


class _Amounts(NamedTuple):
    """What is added up: for the rows of a cut, the sums before each and of all; and what each edit adds."""

    before: Ints
    added: Ints


class _Cut(NamedTuple):
    """Rows around edits, one after another, as they are before these. Places are those among them."""

    codes: Codes
    numbers: Ints
    """The numbers of their places in the order, which never fall."""
    own: Ints
    """The places of those whose frames have edited rows."""
    gone: Ints
    """Which of these are taken out."""
    edits: ManyEdits
    edits_at: Ints
    """The places of the edits."""
    edited: Ints
    """Their numbers in the order."""
    come: Ints
    """For each row that is put in, its edit."""

    @staticmethod
    def of(rows: OrderedPartition, edits: ManyEdits, around: _Around, by: OrderColumn) -> _Cut | None:
        """Return the rows around edits; None where some have no place in the order."""
        begins, first, end = _joined(around.first, around.end)
        codes = rows.spans(first, end)
        if codes.shape[1] and NULL in (codes.item(by.column, 0), codes.item(by.column, -1)):
            return None
        lengths = end - first
        shift = (lengths.cumsum() - lengths - first).take(begins.cumsum() - 1)
        _, low, high = _joined(around.low + shift, around.high + shift)
        own, at = places_from(low, high - low), edits.places + shift
        gone = own.searchsorted(places_from(at, np.maximum(-edits.copies, 0)))
        come = first_numbers(len(at)).repeat(np.maximum(edits.copies, 0))
        return _Cut(codes, _numbers(codes, by), own, gone, edits, at, _numbers(edits.rows, by), come)

    def amounts(self, columns: Sequence[int | None]) -> dict[int | None, _Amounts] | None:
        """Return what is added up, of columns, and of rows; None where there are no numbers, or sums too large."""
        copies = self.edits.copies
        found: dict[int | None, _Amounts] = {None: _Amounts(first_numbers(len(self.numbers) + 1), copies)}
        most = len(self.numbers) + int(np.abs(copies).sum())
        for column in columns:
            if column is None or column in found:
                continue
            given, edited = self.codes[column], self.edits.rows[column]
            if max(largest(given), largest(edited)) * most > INT64_LIMIT:  # NULL is the largest
                return None
            before = np.zeros(len(given) + 1, np.int64)
            given.cumsum(out=before[1:])
            found[column] = _Amounts(before, edited * copies)
        return found


class _Frames(NamedTuple):
    """Frames with two bounds, of a cut's own rows and of those that come: places among its rows, and edits."""

    start: Ints
    end: Ints
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
    def of(cut: _Cut, low: int, high: int) -> _Frames:
        """Return frames from the rows beyond one distance on up to those at another."""
        numbers, edited = cut.numbers, cut.edited
        alone = not np.count_nonzero(numbers[1:] == numbers[:-1])
        own = numbers.take(cut.own)
        start, end = (
            cut.own + (1 + far) if alone and far in (-1, 0) else numbers.searchsorted(plus(own, far), "right")
            for far in (low, high)
        )
        enters, leaves = (numbers.searchsorted(plus(edited, -far - 1), "right") for far in (high, low))
        new = edited.take(cut.come)
        of_new = (some.searchsorted(plus(new, far), "right") for some in (numbers, edited) for far in (low, high))
        return _Frames(start, end, enters, leaves, *of_new)

    def sums(self, amounts: _Amounts, own: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the sums of a cut's own rows, before and after, and those of the ones that come."""
        before, added = amounts
        old = before.take(self.end) - before.take(self.start)
        more = np.zeros(len(before), np.int64)
        np.add.at(more, self.enters, added)
        np.subtract.at(more, self.leaves, added)
        edits_before = np.concatenate(([0], added.cumsum()))
        come = before.take(self.end_of_new) - before.take(self.start_of_new)
        come += edits_before.take(self.end_of_edits) - edits_before.take(self.first_edit)
        return old, old + more.cumsum().take(own), come


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
