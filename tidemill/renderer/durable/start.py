"""From a folder of state to what a run is made of: begun anew, or where the last run on the folder committed."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

import attrs

from tidemill.dataflow.fingerprint import are_same_functions, describe, difference, warn_of_unknown
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Watermark
from tidemill.dataflow.operator_prints import OperatorPrints, operator_prints
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import StateError, StepError
from tidemill.renderer.durable.definition import StateDefinition
from tidemill.renderer.durable.journal import replayed
from tidemill.renderer.durable.large_changes import LargeChange, LargeChanges
from tidemill.renderer.durable.migration import Migration, with_new
from tidemill.renderer.durable.migration_plan import MigrationPlan
from tidemill.renderer.durable.output_changes import OutputShapes
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
T = TypeVar("T")
Migrate: TypeAlias = Literal["auto", "ask", "refuse"]
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
        cls,
        graph: Graph,
        keep: int,
        passes: tuple[str, ...],
        in_memory: int,
        *,
        folder: Path | None,
        threads: int,
        kept: Collection[str] = (),
    ) -> Self:
        """Return that of a run at its start, with the contents of the inputs that are ``kept``."""
        frontiers = Frontiers(graph, keep)
        executor = EmbeddedExecutor(graph, frontiers.progress, threads=threads, kept=kept, keep=keep)
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
    migrate: Migrate = "refuse",
    keep_inputs: bool = False,
) -> State:
    """Return the state in a folder, which is this process's from now on; without one, that of a run that only spills.

    State of another version of the dataflow is made that of this one, or not, as ``migrate`` says (see `migration`);
    for that what inputs hold is kept, with ``keep_inputs``. The graph is taken after the passes that the state was
    saved with, unless the user chose others. What `Run.save`
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
    log = StepLog(local_folder(folder))
    try:
        passes = log.passes if log.passes is not None and plan.is_default else plan.passes
        graph, before = plan.after(passes), _definition(log)
        kept = kept_inputs(log, before, graph) if keep_inputs else ()
        state = State.of(graph, keep, passes, in_memory, folder=log.folder, threads=threads, kept=kept)
        executor, frontiers, spill_store = state.executor, state.frontiers, state.spill_store
        now, prints = definition_of(executor, before)
        description = functools.cache(lambda: tuple(describe(graph)))
        migration, changes = None, None
        if migrate != "refuse" and before is not None:
            is_same = now.is_same(before) or difference(log.base.graph, description()) is None
            changes = not is_same or not are_same_functions(log.base.functions, graph)
        if changes:
            assert before is not None
            migration = Migration(executor, frontiers, spill_store, before, now, log.folder)
            if migrate == "ask":
                _require_no_change(_plan(migration, log), log.folder)
            for node, unsure in prints.unsure.values():
                warn_of_unknown(str(log.folder), f"{node.where}: the function", unsure)
        log.begin(graph, description, keep, passes, now.listing, changes=changes)
        start = perf_counter()
        rows, worked = _recover(log, state, migration)
        if log.last.number:
            said = log.folder, log.last.step, log.steps_since_base, rows, perf_counter() - start
            _LOG.info("%s: goes on after step %s; %s steps of %s updates were repeated, in %.3f s", *said)
        else:
            _LOG.info("%s: a new state is begun", log.folder)
        parts = log, executor, frontiers, spill_store, state.large_changes
        recorder = StepRecorder(*parts, checkpoint_every=checkpoint_every, replayed=(rows, worked))
        if migration is not None:
            _commit(migration, log, recorder)
            changed = f"{len(now.keys) - len(migration.places)} operators are new"
            _LOG.info("%s: is of another version of the dataflow now; %s", log.folder, changed)
        elif not log.is_told:  # what is compared the next time
            recorder.checkpoint_soon()
        return attrs.evolve(state, recorder=recorder, steps=log.last.step, sources=log.last.sources)
    except BaseException:
        log.close()
        raise


def _definition(log: StepLog) -> StateDefinition | None:
    """Return what the state in a folder is of, if there is any that says so."""
    said = None if log.passes is None else log.base.definition
    return None if said is None else StateDefinition.listed(said)


def definition_of(executor: EmbeddedExecutor, before: StateDefinition | None) -> tuple[StateDefinition, OperatorPrints]:
    """Return what the state of an executor is of, and that in which functions are called as they were before."""
    prints = operator_prints(executor.graph, None if before is None else before.functions)
    return StateDefinition.of(executor.compiled, prints), prints


def kept_inputs(log: StepLog, before: StateDefinition | None, graph: Graph) -> list[str]:
    """Return the inputs whose contents are held: all new ones, and others if they were held from their start.

    Not those with a watermark, which are streams without end: what follows from them forgets.
    """
    streams = {node for watermark in graph.nodes if isinstance(watermark, Watermark) for node in watermark.inputs}
    names = [name for name, node in graph.inputs.items() if node not in streams]
    if log.passes is None:
        return names
    held = {} if before is None else {name: one.holder is not None for name, one in before.inputs.items()}
    return [] if before is None else [name for name in names if held.get(name, True)]


def _not_held(log: StepLog, state: State) -> set[str]:
    """Return the names of arrangements of what inputs held, where that is not held any more."""
    before = _definition(log)
    was = set() if before is None else {f"{one.holder}/spine" for one in before.inputs.values()}
    return was - state.spill_store.spines.keys()


def plan_of(plan: GraphPlan, folder: str | os.PathLike[str]) -> MigrationPlan:
    """Return what starting a graph on a folder comes to; nothing is changed."""
    path = local_folder(folder)

    def plan_from(log: StepLog) -> MigrationPlan:
        before = _definition(log)
        if before is None:
            msg = f"{path} holds state of an earlier version of tidemill: expected state that says what it is of"
            raise StateError(msg)
        graph = plan.after(log.base.passes if plan.is_default else plan.passes)
        kept = kept_inputs(log, before, graph)
        state = State.of(graph, log.base.keep, plan.passes, IN_MEMORY, folder=path, threads=1, kept=kept)
        now, _ = definition_of(state.executor, before)
        return _plan(Migration(state.executor, state.frontiers, state.spill_store, before, now, path), log)

    return _looked_at(path, plan_from)


def _plan(migration: Migration, log: StepLog) -> MigrationPlan:
    repeated = sum(event["rows"] for _, header, _ in log.records() for event in header["events"])
    return MigrationPlan.of(migration, log.checkpoint_content(), repeated)


def held_in(folder: str | os.PathLike[str]) -> str:
    """Return what a folder of state holds, for people to read."""
    return _looked_at(local_folder(folder), _held)


def _held(log: StepLog) -> str:
    saved, base, last = log.checkpoint_content(), log.base, log.last
    header: Mapping[str, Any] = {} if saved is None else saved.header
    if saved is not None:
        saved.arrays.close()
    size = sum(path.stat().st_size for path in log.folder.rglob("*") if path.is_file())
    steps = f"{last.step} steps, {log.steps_since_base} of them since the last checkpoint"
    lines = [
        f"{log.folder}: {steps}, {size / 1e6:,.1f} MB",
        *(f"  input {name!r}: up to {_times(t)}" for name, t in header.get("frontiers", {}).items()),
    ]
    before, rows = _definition(log), header.get("rows", {})
    titles = {} if before is None else before.titles_by()
    then = " at the checkpoint" if log.steps_since_base else ""
    lines += [f"  {rows.get(place, 0):>12,} rows{then}: {title}" for place, title in titles.items()]
    kept = "" if before is None else ", ".join(map(repr, before.kept))
    lines.append(f"  inputs whose rows are kept: {kept or 'none'}; written with keep={base.keep}")
    return "\n".join(lines)


def _times(frontier: Any) -> str:
    return str(Antichain(map(tuple, frontier))).removeprefix("Antichain") if frontier else "the end"


def _looked_at(path: Path, look: Callable[[StepLog], T]) -> T:
    """Return what is read in a folder of state: again, where a run that is on it made a checkpoint meanwhile."""
    if not path.is_dir():
        msg = f"{path} is not there: expected a folder of state"
        raise StateError(msg)
    while True:
        before = sorted(path.iterdir())
        try:
            return look(_begun(StepLog(path, owned=False)))
        except (StateError, OSError):
            if before == sorted(path.iterdir()):
                raise


def _begun(log: StepLog) -> StepLog:
    if log.passes is None:
        msg = f"{log.folder} holds nothing: expected a folder of state"
        raise StateError(msg)
    return log


def _require_no_change(plan: MigrationPlan, folder: Path) -> None:
    if plan.changes:
        msg = (
            f"{folder} holds the state of another version of this dataflow, and migrate='ask' was said: with "
            f"migrate='auto' it would be made that of this one, as follows\n{plan}"
        )
        raise StateError(msg)


def _commit(migration: Migration, log: StepLog, recorder: StepRecorder) -> None:
    """Have the state be that of the new version, and what its outputs changed by be read as changes."""
    saved, executor, frontiers = log.checkpoint_content(), migration.executor, migration.frontiers
    shapes = None if log.base.outputs is None else OutputShapes.read(log.base.outputs)
    changes = migration.changes(saved, log.entries, shapes) if log.last.step else {}
    if saved is not None:
        saved.arrays.close()
    recorder.migrate(changes)
    for name, block in changes.items():
        node = executor.graph.outputs[name]
        operator = executor.compiled.outputs[node]
        if node.changes is False:
            continue
        if block is None:
            _LOG.warning("%s: changes of %r begin with all that it holds: it had other columns", log.folder, name)
        operator.forget_unread(operator.spine.all_updates() if block is None else block)
        frontiers.read[node] = Antichain.minimum(frontiers.users)


def _restored(state: State, saved: Saved) -> State:
    """Return state as it was saved, of which no more is in memory than may be."""
    saved.restore(state.executor.compiled, state.frontiers, state.spill_store.make_room)
    state.executor.tidy()  # of the values of what was spilled meanwhile
    return attrs.evolve(state, steps=saved.steps, sources=saved.sources)


def _recover(log: StepLog, state: State, migration: Migration | None) -> tuple[int, float]:
    """Bring state to where the log ends; return how many rows were queued again, and the processor seconds it took."""
    spill_store, inputs = state.spill_store, state.executor.graph.inputs
    saved = log.checkpoint_content()
    if migration is not None:
        migration.require_inputs()
        if saved is not None:
            migration.restore(saved)
            migration.load()
            state.large_changes.restore(migration.large(saved), inputs)
    elif saved is not None:
        saved.restore(state.executor.compiled, state.frontiers)
        gone = _not_held(log, state)
        spill_store.restore(saved.header.get("cold", {}), lambda name: None if name in gone else name)
        state.large_changes.restore(saved.header.get("large", ()), inputs)
    if log.is_checkpointed and migration is None:  # else steps to come refer to files that nothing else does
        spill_store.may_sweep = True
        spill_store.sweep()
    rows, began = 0, process_time()
    for step, header, arrays in log.records():
        try:
            _replay(state, header, arrays)
        except StepError as error:
            msg = (
                f"{log.folder}: step {step} was taken and cannot be repeated ({error}): a function of the "
                "dataflow is not what it was, or gives something else each time"
            )
            if migration is not None:  # what is new fails
                msg = f"{log.folder}: what is new cannot take step {step} ({error}): the state is as it was"
            raise StateError(msg) from error
        except OSError as error:
            msg = f"{log.folder}: state could not be read or written ({error}): {advice(error)}"
            raise StateError(msg) from error
        rows += sum(event["rows"] for event in header["events"])
        spill_store.make_room()
        state.executor.tidy()
    worked = process_time() - began
    if migration is None:  # else what the state was is needed until it is committed
        spill_store.may_sweep = True
    if log.last.step:  # else what is complete from the start was not read by anybody
        for operator in state.executor.compiled.outputs.values():
            operator.forget_unread()
        state.frontiers.begin_reading()
    return rows, worked


def _replay(state: State, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Queue again what a record holds, and take its step."""
    executor, frontiers, large_changes = state.executor, state.frontiers, state.large_changes
    inputs = executor.graph.inputs
    said = with_new(header["frontiers"], inputs, frontiers.users)
    for change in replayed(header["events"], arrays, inputs):
        if change is None:
            executor.discard()
            large_changes.discard()
        elif isinstance(change[1], LargeChange):
            large_changes.queue(change[1])
        else:
            executor.queue(*change)
    move = frontiers.move({inputs[n]: Antichain(map(tuple, f)) for n, f in said.items()})
    large_changes.bring_in(large_changes.due(move.needed))
    executor.step(move.needed)
    executor.commit(move.since)
    frontiers.settle(move)


def local_folder(state: str | os.PathLike[str]) -> Path:
    """Return a folder of this machine, which stays the same where this process goes to another one."""
    text = os.fspath(state)
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        msg = f"state={text!r}: expected a folder of this machine, which the driver can lock and write"
        raise StateError(msg)
    return Path(rest if separator else text).absolute()
