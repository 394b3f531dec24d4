"""Where a dataflow meets the outside: inputs and outputs."""

from __future__ import annotations

import numpy as np

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input, Output
from tidemill.renderer.embedded.kernels.codec import Interner, encode
from tidemill.renderer.embedded.kernels.times import advance
from tidemill.renderer.embedded.kernels.updates import Block, consolidated, stacked
from tidemill.renderer.embedded.makers import operator_of
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs.queued import Queued

__all__ = ["InputOperator", "OutputOperator"]


class InputOperator(Operator):
    """Input: updates wait here until their times close. A constant's are there from the start."""

    consolidated = True

    def __init__(self, node: Input, region: Region, interner: Interner) -> None:
        self.schema = node.schema
        super().__init__(node, region, (len(self.schema),))
        self._interner = interner
        if node.rows:
            least = (0,) * self.schedule.users
            self.queue(Queued(list(node.rows), least, 1))

    def queue(self, queued: Queued) -> None:
        """Keep updates until their times close."""
        self.ports[0].defer(self._block(queued))

    def discard(self) -> None:
        """Forget the updates that wait."""
        self.ports[0].refill(None)

    def _block(self, queued: Queued) -> Block:
        k, users, n = len(self.schema), self.schedule.users, len(queued.batch)
        block = np.empty((k + users + 1, n), np.int64)
        block[:k] = encode(self.schema, queued.batch, self._interner)
        block[k : k + users] = np.array(queued.times, np.int64).reshape(-1, users).T
        block[-1] = queued.diffs
        return block

    def taken(self) -> Block | None:
        """Return the updates of the current step, for whoever takes them to see that they are emitted."""
        block = self.ports[0].take_consolidated()
        if block is not None:
            self.records_in += block.shape[1]
        return block

    def run(self) -> None:
        block = self.taken()
        if block is not None:
            self.emit(block, self.region.now)


@operator_of(Output)
class OutputOperator(Operator):
    """Output: keeps the contents, the updates that were not read yet, and, where told to, those of the current step."""

    def __init__(self, node: Output, region: Region) -> None:
        self.schema = node.schema
        super().__init__(node, region, (len(self.schema),))
        self.kept = self.frontier.settled
        """From where on times stay distinguishable for those who read the output."""
        types = [f.dtype for f in self.schema]
        columns = tuple(range(len(types)))
        users = self.schedule.users
        layout = UpdateLayout(columns, types, users, users)
        self.spine = Spine(layout, lambda: self.kept, self.schedule.transaction)
        self._changes = node.changes
        self.unread: list[Block] = []
        self.followed = False
        self._fresh: list[Block] = []
        self._room = int(node.changes)

    def run(self) -> None:
        block = self.ports[0].take_consolidated()
        if block is None:
            return
        self.spine.append(block)
        self.show(block)

    def show(self, block: Block) -> None:
        """Have these updates of the current step read by those who follow the output."""
        self.records_out += block.shape[1]
        if self.followed or self._changes is not False:
            self.schedule.transaction.join(self, len(self.unread))
        if self._changes is not False:
            self.unread.append(block)
        if self.followed:
            self._fresh.append(block)

    def unread_together(self) -> Block:
        """Return the updates that were not read yet."""
        return self._together(self.unread)

    def fresh(self) -> Block:
        """Return the updates of the current step, where they are followed."""
        return self._together(self._fresh)

    def _together(self, blocks: list[Block]) -> Block:
        if not blocks:
            return np.empty((len(self.schema) + self.schedule.users + 1, 0), np.int64)
        return blocks[0] if len(blocks) == 1 else consolidated(stacked(blocks))

    def commit(self) -> None:
        self._fresh = []
        if self._changes is not True and sum(b.shape[1] for b in self.unread) > self._room:
            self.unread = [self._folded(stacked(self.unread))]
            self._room = max(int(self._changes), 2 * self.unread[0].shape[1])  # what did not fold is not tried again

    def rollback(self, state: int) -> None:
        self._fresh = []
        del self.unread[state:]

    def _folded(self, block: Block) -> Block:
        return consolidated(advance(block, len(self.schema), self.schedule.users, self.kept))

    def since(self) -> Antichain:
        return self.kept

    def stores(self) -> dict[str, Spine]:
        return {"spine": self.spine}
