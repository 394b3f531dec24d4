"""What is told to those who follow a run: a callback after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from tidemill.dataflow.lattice import Antichain


@attrs.frozen
class StepInfo:
    """A step that was taken: its number in the run, its seconds, the frontiers of outputs and of inputs after it."""

    number: int
    seconds: float
    frontiers: Mapping[str, Antichain]
    inputs: Mapping[str, Antichain]


Callback: TypeAlias = Callable[[StepInfo], object]


class Listeners:
    """The callbacks of a run."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callback] = {}

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> Callable[[], None]:
        """Call it from now on; returns a function that ends it."""
        token = object()
        self._callbacks[token] = callback

        def stop() -> None:
            self._callbacks.pop(token, None)

        return stop

    def tell(self, info: StepInfo) -> None:
        """Call them all, and only then raise what the first of them raised."""
        first: Exception | None = None
        for callback in list(self._callbacks.values()):
            try:
                callback(info)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are called too
                first = first or error
        if first is not None:
            first.add_note("raised by a callback of run.on_step; the step itself was taken")
            raise first
