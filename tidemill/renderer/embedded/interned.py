"""Letting go of interned values that nothing refers to: when they have become twice as many, and when it is asked for.

What is held refers to them by number. It is looked through column by column; of columns whose numbers stand for
themselves nothing is read. Values of updates that cancel are referred to until spines have merged them: where these are
many, they are merged first. So the cost is that of what is held, each time the number of values has doubled.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import numpy as np

from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.kernels.codec import interned_numbers, is_interned, is_long_decimal
from tidemill.renderer.embedded.kernels.long_decimals import large_numbers
from tidemill.renderer.embedded.kernels.sorting import parts
from tidemill.renderer.embedded.kernels.updates import Bools, Ints, UpdateArray
from tidemill.renderer.embedded.operators.input_output import OutputOperator
from tidemill.renderer.embedded.state import operators_of
from tidemill.renderer.embedded.trace.spine import Spine

_FEW: Final = 100_000
"""Values that are not looked at: some ten megabytes."""
_WORTH: Final = 4
"""Of this many values one has to be let go of, for merging to be worth it."""
_LOG: Final = logging.getLogger("tidemill.spines")


class InternedSweeper:
    """Lets go of a run's interned values between steps."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._lists = any(f.dtype.is_nested for node in compiled.graph.nodes for f in node.schema)

    def sweep_if_due(self) -> None:
        """Let go of values where they have become twice as many since that was done last."""
        interner = self._compiled.interner
        if interner.live <= max(_FEW, interner.room or 0):
            return
        if interner.room is None:  # these are what is held, as far as anybody knows
            interner.room = 2 * interner.live
            return
        before = interner.live
        unused = self._unused()
        if len(unused) * _WORTH < before and self._is_worth_merging(before):
            self.merge()
            unused = self._unused()
        self._release(unused)
        interner.room = 2 * interner.live + _FEW
        _LOG.debug("%s of %s interned values were let go of", before - interner.live, before)

    def sweep(self) -> None:
        """Let go of all values that nothing refers to, once everything is merged."""
        self.merge()
        self._release(self._unused())
        self._compiled.interner.room = 2 * self._compiled.interner.live + _FEW

    def merge(self) -> None:
        """Merge each arrangement into one batch."""
        for spine in self._spines():
            spine.exert()

    def _release(self, unused: Ints) -> None:
        """Let go of values, and of what is known by their numbers, which others get."""
        if not len(unused):
            return
        for operator in operators_of(self._compiled.root):
            operator.drop_derived()
        for spine in self._spines():
            spine.forget_keys()
        self._compiled.interner.release(unused)

    def _spines(self) -> Iterator[Spine]:
        for operator in operators_of(self._compiled.root):
            yield from operator.spines().values()
            for port in operator.ports:
                if port.index is not None:
                    yield port.index

    def _is_worth_merging(self, values: int) -> bool:
        """Return whether merging may release many of the values: some updates cancel, and not just a few.

        Few are worth it where there is little to merge: a single list may refer to any number of values.
        """
        cancelling = sum(int(np.count_nonzero(b[-1] < 0)) for s in self._spines() for b in s.arrays_in_memory())
        held = sum(s.in_memory for s in self._spines())
        return cancelling > 0 and (cancelling * _WORTH >= values or held <= values * _WORTH)

    def _unused(self) -> Ints:
        """Return the numbers of values to which nothing refers."""
        used = np.zeros(len(self._compiled.interner), np.bool_)
        for spine in self._spines():
            for updates in spine.arrays_in_memory():
                _mark_updates(used, spine, updates)
            if spine.spilled is not None:
                _mark_updates(used, spine, spine.spilled.updates_in_memory())
        for operator in operators_of(self._compiled.root):
            for port in operator.ports:
                for block in port.pending.arrays():  # nobody knows which are numbers: at worst too much is kept
                    _mark_any(used, block)
            if isinstance(operator, OutputOperator):
                for unread in operator.unread:
                    for codes, field in zip(unread.array, operator.schema, strict=False):
                        _mark(used, interned_numbers(codes, field.dtype))
        return self._compiled.interner.unused(used, lists=self._lists)


def _mark_updates(used: Bools, spine: Spine, updates: UpdateArray) -> None:
    for row, dtype in zip(updates, spine.layout.types, strict=False):
        if dtype is None:
            _mark_any(used, row)
        elif is_interned(dtype) or is_long_decimal(dtype):
            for part in parts(len(row)):
                _mark(used, interned_numbers(row[part], dtype))


def _mark_any(used: Bools, codes: Ints | UpdateArray) -> None:
    """Mark all that codes of unknown types may refer to."""
    every = codes.reshape(-1)
    for part in parts(len(every)):
        _mark(used, every[part])
        _mark(used, large_numbers(every[part]))


def _mark(used: Bools, numbers: Ints) -> None:
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(used)):
        numbers = numbers[(numbers >= 0) & (numbers < len(used))]
    used[numbers] = True
