"""What a run is, beneath the methods that users call, and that one call is done after the other."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from tidemill.boundary.feeds import Fed
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Input, Output
from tidemill.errors import UnknownNameError, did_you_mean
from tidemill.renderer.runs.executor import DataFrames
from tidemill.renderer.runs.intake import Intake
from tidemill.renderer.runs.reasons import Explainer
from tidemill.renderer.runs.stepper import Stepper

P = ParamSpec("P")
R = TypeVar("R")
AnyRun = TypeVar("AnyRun", bound="RunBase")


def alone(method: Callable[Concatenate[AnyRun, P], R]) -> Callable[Concatenate[AnyRun, P], R]:
    """Return a method that waits for other threads to be done with the run, and is refused where it is closed."""

    @functools.wraps(method)
    def waits(run: AnyRun, /, *args: P.args, **kwargs: P.kwargs) -> R:
        lifecycle = run._stepper.lifecycle  # noqa: SLF001 - a part of the class
        lifecycle.check_process()  # before the lock, which a thread may hold that a forked child has not got
        with run._lock:  # noqa: SLF001
            lifecycle.check()
            return method(run, *args, **kwargs)

    return waits


class RunBase:
    """A dataflow at work, by its stepper: what is run, how far it is, and the inputs and outputs by their names."""

    def __init__(self, stepper: Stepper, *, passes: Sequence[str] = (), dataframes: DataFrames | None = None) -> None:
        self._lock = threading.RLock()
        self.executor = stepper.executor
        self.graph: Graph = stepper.frontiers.graph
        """What is run: as the passes left it."""
        self.passes = tuple(passes)
        """The names of the passes that it went through."""
        self.keep = stepper.frontiers.keep
        self._stepper = stepper
        self._frontiers = stepper.frontiers
        self._dataframes = dataframes
        self._intake = Intake(stepper, dataframes)
        self._inputs, self._outputs = self.graph.inputs, self.graph.outputs
        self._explainer: Explainer | None = None
        self._fed: dict[Output, Fed] = {}

    def _input(self, name: str) -> Input:
        if name in self._inputs:
            return self._inputs[name]
        msg = f"no input {name!r}: {did_you_mean(name, self._inputs)}"
        raise UnknownNameError(msg)

    def _output(self, name: str) -> Output:
        if name in self._outputs:
            return self._outputs[name]
        msg = f"no output {name!r}: {did_you_mean(name, self._outputs)}"
        raise UnknownNameError(msg)
