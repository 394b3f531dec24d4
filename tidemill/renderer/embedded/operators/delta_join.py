"""Delta join: each relation's changes look up all others, and nothing of what lies between is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.composites import DeltaJoin, Lookup
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.kernels.sorting import gathered
from tidemill.renderer.embedded.kernels.updates import NULL, Codes, Ints, UpdateArray, consolidated, largest, stacked
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.join import MANY, common_round, pairs_of_many
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.merging import View
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.runs import failures

BLOCK: Final = 1 << 15
"""How many combinations are followed up at once."""
FEW: Final = 16
"""Of so few combinations, counting what they would find takes about as long as finding it."""
_FITS: Final = 2**62 * (1 + 2**-50)
"""Products of counts that are not greater, as floats, fit 64 bits."""
BEYOND: Final = 2**62 + 2**61
"""Stands for products that do not: an error once such a combination is complete, which it need not become."""


class Found(NamedTuple):
    """Combinations of rows of some relations."""

    rows: dict[int, Codes]
    """For each relation its columns, a column for each combination."""
    times: UpdateArray
    """The joins of their times, and last the products of their counts."""

    def taken(self, at: Ints | None) -> Found:
        """Return some of them, or for None all."""
        if at is None:
            return self
        return Found({r: gathered(codes, at) for r, codes in self.rows.items()}, gathered(self.times, at))

    def blocks(self) -> Iterator[Found]:
        """Return them all, `BLOCK` at a time."""
        n = self.times.shape[1]
        if n <= BLOCK:
            yield self
            return
        for start in range(0, n, BLOCK):
            part = slice(start, start + BLOCK)
            yield Found({r: codes[:, part] for r, codes in self.rows.items()}, self.times[:, part])


class VisiblePart(NamedTuple):
    """The part of a relation that a change is joined with: its arrangement, less updates that are not to be seen."""

    spine: Spine
    view: View | None
    without: list[Spine]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be met."""
        in_memory = (self.spine.view if self.view is None else self.view).size
        return not in_memory and self.spine.spilled is None


class DeltaJoinOperator(Operator):
    """Delta join.

    All arrangements have this round's updates already. So that each combination of updates is met once, when the last
    of them comes, changes of a relation meet those before it as they are and those after it as they were. A round does
    all of that at once: what is found on the way belongs to no time of its own, so times of any shape will do.

    Many combinations are extended by the relation next that has the fewest rows for each, of those whose keys are
    known: in the order of the lookups, what one lacks altogether would be found out after all rows of those before it.
    """

    def __init__(self, node: DeltaJoin, region: Region, arrangements: tuple[ArrangeOperator, ...]) -> None:
        super().__init__(node, region, tuple(len(a.schema) for a in arrangements))
        self._join = node
        self._arrangements = arrangements
        self._columns = [np.array(places, np.int64) for places in node.columns]
        self._coordinates = node.scope.coordinates
        for place, port in enumerate(self.ports):
            port.index = self._index(place, self.schedule.transaction)

    def run(self) -> None:
        new = [port.take() for port in self.ports]
        found: list[UpdateArray] = []
        for relation, ports in enumerate(self._join.ports):
            updates = new[ports[0]]
            if updates is not None:
                self._extend(relation, updates, new, found)
        if found:
            updates = stacked(found)
            self.emit(updates, common_round(self.region, updates))

    def _extend(
        self, relation: int, updates: UpdateArray, new: list[UpdateArray | None], result: list[UpdateArray]
    ) -> None:
        """Add what a relation's changes make with the others."""
        port = self._join.ports[relation][0]
        width = len(self._arrangements[port].schema)
        found = Found({relation: updates.take(self._columns[port], axis=0)}, updates[width:])
        lookups = self._join.lookups[relation]
        visible = [self._visible(l, new[l.port], is_before=l.relation < relation) for l in lookups]
        if any(one.is_empty for one in visible):  # as in a load that all of them begin with
            return
        self._follow(found, list(zip(lookups, visible, strict=True)), result)

    def _follow(self, found: Found, steps: list[tuple[Lookup, VisiblePart]], result: list[UpdateArray]) -> None:
        """Add what combinations make with the relations that are left, a block at a time, so few are held at once."""
        if not steps:
            self._check(found)
            codes = np.stack([found.rows[r][c] for r, c in self._join.output])
            result.append(np.concatenate((codes, found.times)))
            return
        for block in found.blocks():
            for some, step in _fewest_first(block, steps):
                extended = self._looked_up(some, *steps[step])
                if extended.times.shape[1]:
                    self._follow(extended, [*steps[:step], *steps[step + 1 :]], result)

    def _visible(self, lookup: Lookup, new: UpdateArray | None, *, is_before: bool) -> VisiblePart:
        """Return what of a relation is to be seen: new updates only if it comes before the relation that changes."""
        spine, unmet = self._arrangements[lookup.port].spine, self.ports[lookup.port].index
        if not self.schedule.frontiers_differ:
            before = not is_before and new is not None
            return VisiblePart(spine, self._arrangements[lookup.port].before if before else None, [])
        without = []  # where frontiers differ, the arrangement holds updates that have not come here yet
        if unmet is not None and unmet.size:
            without.append(unmet)
        if new is not None and not is_before:
            without.append(self._index(lookup.port, Transaction()))
            without[-1].append(new)
        return VisiblePart(spine, None, without)

    def _looked_up(self, found: Found, lookup: Lookup, visible: VisiblePart) -> Found:
        """Return the combinations with the rows of one more relation that fit."""
        keys = _keys(found, lookup)
        if not self._join.nulls_equal and np.count_nonzero(keys == NULL):
            valid = (keys != NULL).all(axis=0).nonzero()[0]
            found, keys = found.taken(valid), gathered(keys, valid)
        parts = [self._joined(found, keys, lookup, visible.spine, visible.view)]
        for spine in visible.without:
            part = self._joined(found, keys, lookup, spine, None)
            np.negative(part.times[-1], out=part.times[-1])
            parts.append(part)
        if len(parts) > 1:  # what stands for a product cannot be subtracted from another
            for part in parts:
                self._check(part)
        return parts[0] if len(parts) == 1 else _sum(parts)

    def _joined(self, found: Found, keys: Codes, lookup: Lookup, spine: Spine, view: View | None) -> Found:
        if keys.shape[1] > MANY:
            mine, theirs, others = pairs_of_many(keys, None, spine, view)
        else:
            (mine, others), theirs = spine.find(keys, view), None
        if theirs is not None:
            others = gathered(others, theirs)
        found = found.taken(mine)
        times = others[len(self._arrangements[lookup.port].schema) :]
        joined = found.times.copy()
        shared = len(times) - 1  # an arrangement from outside a loop has fewer coordinates: 0 in the others
        np.maximum(joined[:shared], times[:-1], out=joined[:shared])
        joined[-1] = _products(joined[-1], times[-1])
        return Found({**found.rows, lookup.relation: others.take(self._columns[lookup.port], axis=0)}, joined)

    def _check(self, found: Found) -> None:
        if largest(found.times[-1]) >= BEYOND:
            raise failures.too_many(self.node)

    def _index(self, port: int, transaction: Transaction) -> Spine:
        """Return a spine for updates of one input."""
        of = self._arrangements[port]
        layout = UpdateLayout(of.keys, [f.dtype for f in of.schema], self._coordinates, self.schedule.users)
        return Spine(layout, self.since, transaction)


def _products(counts: Ints, others: Ints) -> Ints:
    """Return products of counts, `BEYOND` for those that 64 bits do not hold.

    Every count is 1 or more, or -1 or less, so what is complete is beyond if a part of it is: as in a chain of joins,
    whatever the order in which rows are met here.
    """
    products: Ints = counts * others
    if largest(counts) > COUNT_LIMIT or largest(others) > COUNT_LIMIT:
        sizes = np.abs(counts.astype(np.float64)) * np.abs(others.astype(np.float64))
        return np.where(sizes > _FITS, np.where((counts < 0) == (others < 0), BEYOND, -BEYOND), products)
    return products


def _fewest_first(found: Found, steps: list[tuple[Lookup, VisiblePart]]) -> Iterator[tuple[Found, int]]:
    """Give combinations with the step that is best taken next: of those whose keys are known, with the fewest rows."""
    known = [0] if found.times.shape[1] <= FEW else _known(found, steps)
    if len(known) == 1:
        yield found, known[0]
        return
    counts = [visible.spine.count(_keys(found, lookup)) for lookup, visible in (steps[i] for i in known)]
    best = np.argmin(counts, axis=0)
    if (best == best[0]).all():
        yield found, known[int(best[0])]
        return
    for place, step in enumerate(known):
        some = (best == place).nonzero()[0]
        if len(some):
            yield found.taken(some), step


def _known(found: Found, steps: list[tuple[Lookup, VisiblePart]]) -> list[int]:
    """Return the steps whose keys are known: the first one's are, since they are in an order in which all are."""
    return [i for i, (lookup, _) in enumerate(steps) if all(r in found.rows for r, _ in lookup.key)]


def _keys(found: Found, lookup: Lookup) -> Codes:
    return np.stack([found.rows[r][c] for r, c in lookup.key])


def _sum(parts: list[Found]) -> Found:
    """Return the combinations of all parts, without those that cancel out."""
    order = list(parts[0].rows)
    both = np.concatenate([np.concatenate((*(p.rows[r] for r in order), p.times)) for p in parts], axis=1)
    both = consolidated(both)
    rows, at = {}, 0
    for relation in order:
        width = len(parts[0].rows[relation])
        rows[relation] = both[at : at + width]
        at += width
    return Found(rows, both[at:])


@FACTORIES(DeltaJoin)
def _delta_join(node: DeltaJoin, region: Region, made: CompileContext) -> Operator:
    return DeltaJoinOperator(node, region, tuple(map(made.arrangement, node.inputs)))
