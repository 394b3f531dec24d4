"""What a spine holds in memory at a moment: sorted batches, the tail, and what lies as it came."""

from __future__ import annotations

from typing import NamedTuple

from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.trace.batch import Batch
from tidemill.renderer.embedded.trace.merging import Merge


class View(NamedTuple):
    """What a spine holds in memory at a moment."""

    batches: tuple[Batch, ...]
    tail: Batch
    """As many columns as there is room for, not sorted; beyond ``tail_size`` they hold nothing."""
    tail_size: int
    merges: tuple[Merge, ...] = ()
    """Merges under way, each of two neighbours among the batches, at most one on each level of sizes."""
    unsorted: tuple[UpdateArray, ...] = ()
    """Large arrays as they came."""
    lost: int = 0
    """About how many fewer rows there are than when nothing lay so: of updates that are put there, or in the tail."""

    @property
    def size(self) -> int:
        return self.tail_size + self.sorted_size + self.unsorted_size

    @property
    def sorted_size(self) -> int:
        return sum([len(b.hashes) for b in self.batches])

    @property
    def unsorted_size(self) -> int:
        return sum([updates.shape[1] for updates in self.unsorted])
