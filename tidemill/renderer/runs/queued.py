"""Checked updates on their way to an input."""

from __future__ import annotations

from typing import Protocol

import attrs

from tidemill.boundary.rows import Batch
from tidemill.dataflow.lattice import Time


class Change(Protocol):
    """Something checked that is queued at an input: `Queued`, `Writes`, or what an engine has of its own."""

    def __len__(self) -> int: ...


@attrs.frozen
class Queued:
    """Checked updates to an input: one time and diff for all rows, or one for each."""

    batch: Batch
    times: Time | list[Time]
    diffs: int | list[int]

    def __len__(self) -> int:
        return len(self.batch)
