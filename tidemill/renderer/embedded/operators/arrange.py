"""Arrange: the index of a collection by key, one for all its readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange
from tidemill.renderer.embedded.kernels.memory import stack
from tidemill.renderer.embedded.kernels.updates import NULL, Rows, UpdateArray
from tidemill.renderer.embedded.operator_registry import operator_of
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine

R = TypeVar("R", UpdateArray, Rows)

LARGE: Final = 1 << 14
"""Of more updates, it is worth something not to consolidate them, if no reader needs that."""
_SORTED: Final = 1 << 12
"""More updates are passed on in the order of their keys' hashes."""


@operator_of(Arrange)
class ArrangeOperator(Operator):
    """Arrange. Consolidates a round's updates, adds them to its spine and passes them on.

    Where only joins read it, many updates are added as they come, unless they seem to repeat: joins are bilinear, and
    merging adds up what is equal. Many are passed on as they lie in the spine, in the order of their keys' hashes.
    """

    consolidated = True

    def __init__(self, node: Arrange, region: Region) -> None:
        self.schema = node.schema
        super().__init__(node, region, (len(self.schema),))
        self.keys = node.keys
        self.drops_nulls = node.drops_nulls
        types = [f.dtype for f in self.schema]
        layout = UpdateLayout(node.keys, types, node.scope.coordinates, self.schedule.users)
        self.spine = Spine(layout, self.since, self.schedule.transaction)
        self.before = self.spine.view
        """The view of the spine before the latest updates."""
        self.readers: list[Operator] = []
        self.holds_input = False
        """Whether it is where an input's contents are found."""
        self.may_repeat = False
        """Whether no reader needs many updates to be consolidated."""
        self.few_are_consolidated = False
        """Whether few updates come consolidated, if many may not."""

    @property
    def takes_rows(self) -> bool:  # type: ignore[override]
        return self.may_repeat

    def run(self) -> None:
        port = self.ports[0]
        as_they_are = self.may_repeat and (self.few_are_consolidated or port.size > LARGE)
        updates = port.take_rows() if as_they_are else port.take_consolidated()
        if updates is not None and self.drops_nulls:
            updates = _without_nulls(updates, self.keys)
        if updates is None:
            return
        if len(updates[-1]) > _SORTED:
            self.before, batch = self.spine.append_rows(list(updates))
            assert batch is not None  # they are more than a tail has
            updates = batch.array
        else:
            updates = stack(updates) if isinstance(updates, list) else updates
            self.before = self.spine.append(updates)
        self.spine.check_counts(updates)
        self.emit(updates, self.region.now)

    def since(self) -> Antichain:
        """Return the meet of the frontiers of all readers, so that none asks about times before it."""
        since = self.frontier.lower
        for reader in self.readers:
            since = since.meet(reader.frontier.lower)
        return self.schedule.kept(since) if since.elements or self.holds_input else since

    def spines(self) -> dict[str, Spine]:
        return {"spine": self.spine}


def _without_nulls(updates: R, keys: Sequence[int]) -> R | None:
    """Return the updates with no NULL in their keys, if there are any."""
    null = [there for key in keys if np.count_nonzero(there := updates[key] == NULL)]
    if not null:
        return updates
    kept = ~np.logical_or.reduce(null)
    left = [row[kept] for row in updates] if isinstance(updates, list) else updates[:, kept]
    return left if len(left[-1]) else None
