"""From a folder of state to what a run is made of: begun anew, or where the last run on the folder committed."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Self

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import StateError, StepError
from tidemill.renderer.durable.journal import replayed
from tidemill.renderer.durable.large_changes import LargeChange, LargeChanges
from tidemill.renderer.durable.recorder import StepRecorder
from tidemill.renderer.durable.spill_store import SpillStore
from tidemill.renderer.durable.step_log import StepLog
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.state import Saved
from tidemill.renderer.runs.executor import DataFrames, Executor
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.stepper import Stepper
from tidemill.renderer.runs.system_errors import advice

_LOG: Final = logging.getLogger("tidemill.state")
IN_MEMORY: Final = 20_000_000
"""How many updates are held in memory, unless told otherwise, where there is a disk for others."""


@attrs.frozen
class State:
    """What a run with spilled or durable state is made of."""

    executor: EmbeddedExecutor
    frontiers: Frontiers
    passes: tuple[str, ...]
    spill_store: SpillStore
    large_changes: LargeChanges
    recorder: StepRecorder | None = None
    """None where the state is not durable, only spilled."""
    steps: int = 0
    sources: Mapping[str, int] = {}
    """The last batch of each source that was committed."""

    @classmethod
    def of(
        cls, graph: Graph, keep: int, passes: tuple[str, ...], in_memory: int, *, folder: Path | None, threads: int
    ) -> Self:
        """Return that of a run at its start."""
        frontiers = Frontiers(graph, keep)
        executor = EmbeddedExecutor(graph, frontiers.progress, threads=threads)
        spill_store = SpillStore(executor, in_memory, folder)
        return cls(executor, frontiers, passes, spill_store, LargeChanges(executor, spill_store.store))

    def run(self, executor: Executor, dataframes: DataFrames | None = None) -> Run:
        """Return a run on the executor, or on one around it."""
        stepper = Stepper(
            executor,
            self.frontiers,
            recorder=self.recorder,
            spill_store=self.spill_store,
            steps=self.steps,
            sources=self.sources,
        )
        return Run(stepper, passes=self.passes, dataframes=dataframes)

    def close(self) -> None:
        """Let go of it, where no run is made of it after all."""
        self.spill_store.close()
        if self.recorder is not None:
            self.recorder.close()


def open_state(
    plan: GraphPlan,
    keep: int,
    folder: str | os.PathLike[str] | None,
    *,
    checkpoint_every: int,
    in_memory: int,
    threads: int = 1,
    saved: Saved | None = None,
) -> State:
    """Return the state in a folder, which is this process's from now on; without one, that of a run that only spills.

    The graph is taken after the passes that the state was saved with, unless the user chose others. What `Run.save`
    wrote is not brought into a folder: that has a state of its own.
    """
    if folder is None:
        state = State.of(plan.after(), keep, plan.passes, in_memory, folder=None, threads=threads)
        return state if saved is None else _restored(state, saved)
    if saved is not None:
        msg = (
            f"load({str(saved.path)!r}, ...): a run with state={os.fspath(folder)!r} goes on with what is in that "
            "folder: load without state=, or start the flow on the folder, without load"
        )
        raise StateError(msg)
    log = StepLog(_local(folder))
    try:
        passes = log.passes if log.passes is not None and plan.is_default else plan.passes
        state = State.of(plan.after(passes), keep, passes, in_memory, folder=log.folder, threads=threads)
        executor, frontiers, spill_store = state.executor, state.frontiers, state.spill_store
        log.begin(executor.graph, keep, passes)
        start = perf_counter()
        rows = _recover(log, state)
        if log.last.number:
            said = log.folder, log.last.step, log.steps_since_base, rows, perf_counter() - start
            _LOG.info("%s: goes on after step %s; %s steps of %s updates were repeated, in %.3f s", *said)
        else:
            _LOG.info("%s: a new state is begun", log.folder)
        changes, kept = state.large_changes, {"checkpoint_every": checkpoint_every, "replayed_rows": rows}
        recorder = StepRecorder(log, executor, frontiers, spill_store, changes, **kept)
        if not log.knows_functions:  # versions of them, above all: what is compared the next time
            recorder.checkpoint_soon()
        return attrs.evolve(state, recorder=recorder, steps=log.last.step, sources=log.last.sources)
    except BaseException:
        log.close()
        raise


def _restored(state: State, saved: Saved) -> State:
    """Return state as it was saved, of which no more is in memory than may be."""
    saved.restore(state.executor.compiled, state.frontiers, state.spill_store.make_room)
    state.executor.tidy()  # of the values of what was spilled meanwhile
    return attrs.evolve(state, steps=saved.steps, sources=saved.sources)


def _recover(log: StepLog, state: State) -> int:
    """Bring state to where the log ends, and return how many rows were queued again for that."""
    spill_store, inputs = state.spill_store, state.executor.graph.inputs
    saved = log.checkpoint_content()
    if saved is not None:
        saved.restore(state.executor.compiled, state.frontiers)
        state.executor.restored()
        spill_store.store.restore(saved.header.get("cold", {}), spill_store.spines)
        state.large_changes.restore(saved.header.get("large", ()), inputs)
    if log.is_checkpointed:  # else steps to come refer to files that nothing else does
        spill_store.may_sweep = True
        spill_store.sweep()
    rows = 0
    for step, header, arrays in log.records():
        try:
            _replay(state, header, arrays)
        except StepError as error:
            msg = (
                f"{log.folder}: step {step} was taken and cannot be repeated ({error}): a function of the "
                "dataflow is not what it was, or gives something else each time"
            )
            raise StateError(msg) from error
        except OSError as error:
            msg = f"{log.folder}: state could not be read or written ({error}): {advice(error)}"
            raise StateError(msg) from error
        rows += sum(event["rows"] for event in header["events"])
        spill_store.make_room()
        state.executor.tidy()
    spill_store.may_sweep = True
    if log.last.step:  # else what is complete from the start was not read by anybody
        for operator in state.executor.compiled.outputs.values():
            operator.forget_unread()
        state.frontiers.begin_reading()
    return rows


def _replay(state: State, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Queue again what a record holds, and take its step."""
    executor, frontiers, large_changes = state.executor, state.frontiers, state.large_changes
    inputs = executor.graph.inputs
    for change in replayed(header["events"], arrays, inputs):
        if change is None:
            executor.discard()
            large_changes.discard()
        elif isinstance(change[1], LargeChange):
            large_changes.queue(change[1])
        else:
            executor.queue(*change)
    move = frontiers.move({inputs[n]: Antichain(map(tuple, f)) for n, f in header["frontiers"].items()})
    large_changes.bring_in(large_changes.due(move.needed))
    executor.step(move.needed)
    executor.commit(move.since)
    frontiers.settle(move)


def _local(state: str | os.PathLike[str]) -> Path:
    """Return a folder of this machine, which stays the same where this process goes to another one."""
    text = os.fspath(state)
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        msg = f"state={text!r}: expected a folder of this machine, which the driver can lock and write"
        raise StateError(msg)
    return Path(rest if separator else text).absolute()
