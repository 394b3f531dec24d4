"""Arrange: the one index of a collection by key, for all who read it."""

from __future__ import annotations

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange
from tidemill.renderer.embedded.makers import operator_of
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine

__all__ = ["ArrangeOperator"]


@operator_of(Arrange)
class ArrangeOperator(Operator):
    """Arrange. Consolidates a round's updates, adds them to its spine and passes them on."""

    consolidated = True

    def __init__(self, node: Arrange, region: Region) -> None:
        self.schema = node.schema
        super().__init__(node, region, (len(self.schema),))
        self.keys = node.keys
        types = [f.dtype for f in self.schema]
        layout = UpdateLayout(node.keys, types, node.scope.coordinates, self.schedule.users)
        self.spine = Spine(layout, self.since, self.schedule.transaction)
        self.before = self.spine.view
        """The view of the spine before the latest updates."""
        self.readers: list[Operator] = []

    def run(self) -> None:
        updates = self.ports[0].take_consolidated()
        if updates is not None:
            self.before = self.spine.append(updates)
            self.spine.check_counts(updates)
            self.emit(updates, self.region.now)

    def since(self) -> Antichain:
        """Return the meet of the frontiers of all readers, so that none asks about times before it."""
        since = self.frontier.lower
        for reader in self.readers:
            since = since.meet(reader.frontier.lower)
        return since

    def spines(self) -> dict[str, Spine]:
        return {"spine": self.spine}
