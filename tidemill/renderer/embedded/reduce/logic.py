"""The logic of a Reduce: the interface for its operator, and the registry of implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Reduce
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Codes, Ints, Rows
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator
from tidemill.renderer.embedded.operators.interesting_times import InterestingTimes
from tidemill.renderer.embedded.operators.keyed import Stored
from tidemill.renderer.embedded.schedule import Schedule
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.runs.registry import Registry


class DesiredOutput(NamedTuple):
    """The rows that a Reduce should give: the interesting time that each is at (ascending), its codes, its count."""

    at: Ints
    codes: Codes
    counts: Ints


class Logic(Protocol):
    """The computation of a Reduce, and the state it needs of its input."""

    consolidates: bool
    """Whether its new updates are to be consolidated first; what keeps sums, or consolidates by itself, need not."""
    keyed_output: bool
    """Whether its rows begin with the key."""

    def gather(self, keys: Codes, owner: Ints, new: Rows) -> list[Stored]:
        """Store the new updates; return all updates of these keys, stored and new, with the numbers of their keys."""

    def desired(self, keys: Codes, interesting: InterestingTimes, seen: list[Stored]) -> DesiredOutput:
        """Return the rows that should be there at each interesting time."""

    def spines(self) -> dict[str, Spine]: ...

    def drop_derived(self) -> None: ...


class LogicContext(NamedTuple):
    """The context of a logic: when and on what it works."""

    schedule: Schedule
    since: Callable[[], Antichain]
    interner: Interner
    arranged: ArrangeOperator | None
    """The arrangement that the Reduce reads, if it reads one."""


LogicMaker: TypeAlias = Callable[[Reduce, LogicContext], Logic]

LOGICS: Final = Registry[LogicMaker]("embedded engine")
"""For each class of what a Reduce can compute, a function that makes the logic of the node."""
