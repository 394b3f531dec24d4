"""Updates of a spine that are not in its batches: spilled ones, and those that its operator holds itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from tidemill.renderer.embedded.kernels.updates import Codes, Ints, UpdateArray
from tidemill.renderer.embedded.trace.merging import View
from tidemill.renderer.embedded.trace.stored_order import StoredOrder

Range: TypeAlias = tuple[int, int | None]
"""A half-open range of numbers in an order; None is no upper end."""


class Spilled(Protocol):
    """Updates that belong to a spine and are not in its memory: older ones, kept elsewhere, and read by key."""

    @property
    def size(self) -> int: ...

    @property
    def batches(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def on_disk(self) -> Mapping[str, int]: ...

    def find(self, keys: Codes) -> tuple[Ints, UpdateArray]:
        """Return all updates with one of these keys, as a spine does."""

    def loaded(self, keys: Codes) -> View:
        """Return what is in memory once all updates with one of these keys are."""

    def loaded_between(self, ranges: Sequence[Range]) -> View:
        """Return what is in memory once all updates are whose number in the spine's order is in these ranges."""

    def in_order(self, keys: Codes, most: int) -> dict[int, StoredOrder]:
        """Return how the rows lie of those keys that lie in the order of the spine, by the number of the key.

        Not those of which more than one row in ``most`` is no more, or is not in that order.
        """

    def count(self, keys: Codes) -> Ints:
        """Return about how many updates each key has."""

    def all_updates(self) -> UpdateArray: ...

    def updates_in_memory(self) -> UpdateArray:
        """Return the updates that were read and are still in memory."""

    def forget_keys(self) -> None:
        """Forget which keys were read: their codes may be those of others from now on."""

    def clear(self) -> None: ...


class Beside(Protocol):
    """Updates that belong to a spine and that its operator holds in memory itself, in a form of its own.

    The spine has them saved, restored and spilled with its own; by key it does not find them.
    """

    @property
    def size(self) -> int: ...

    @property
    def cached(self) -> int:
        """How many rows are held that the spine has, too."""

    @property
    def bytes(self) -> int: ...

    def arrays(self) -> Iterator[UpdateArray]: ...

    @property
    def parts(self) -> int:
        """How many keys there are."""

    def forget(self, is_gone: Callable[[tuple[int, ...]], bool]) -> None:
        """Hold keys no more that nobody asks for."""

    def clear(self) -> None:
        """Hold nothing; what was held stays as it is, to be gone back to."""

    @property
    def state(self) -> Any:
        """All that is held between two steps."""

    @state.setter
    def state(self, state: Any) -> None: ...
