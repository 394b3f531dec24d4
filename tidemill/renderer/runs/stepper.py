"""What changes a run: queueing what was checked, taking steps whole or not at all, and what is done between them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

from tidemill.dataflow.nodes import Input
from tidemill.errors import StateError, StepError
from tidemill.renderer.runs.executor import Executor, Recorder, Spilling
from tidemill.renderer.runs.frontiers import Frontiers, Move
from tidemill.renderer.runs.interrupts import deferred, let_through
from tidemill.renderer.runs.lifecycle import Lifecycle
from tidemill.renderer.runs.progress import OperatorProgress, Watcher
from tidemill.renderer.runs.step_events import Listeners, StepEvents, StepInfo
from tidemill.renderer.runs.subscriptions import Subscriptions
from tidemill.renderer.runs.system_errors import advice
from tidemill.renderer.runs.writes import Change

SLOW: Final = 2.0
"""Seconds from which on a step is said to be slow."""
_MANY: Final = 100_000
"""Rows from which on a load is more than a detail."""
_LOADS: Final = logging.getLogger("tidemill.loads")
_STEPS: Final = logging.getLogger("tidemill.steps")


class Stepper:
    """An executor with what records its steps and bounds its memory, where there is such.

    A step is taken in this order: the executor works, the recorder writes down, the executor commits. What fails before
    it is written down is undone; what is cut off later closes the run (see `Lifecycle`).
    """

    def __init__(
        self,
        executor: Executor,
        frontiers: Frontiers,
        *,
        recorder: Recorder | None = None,
        spill_store: Spilling | None = None,
        steps: int = 0,
        sources: Mapping[str, int] | None = None,
    ) -> None:
        self.executor = executor
        self.frontiers = frontiers
        self.spill_store = spill_store
        self.steps = steps
        """How many were taken, by runs that this one goes on from too."""
        self.listeners = Listeners()
        on = "with flow.start()" if recorder is None else f"on {recorder.folder}, which goes on after the last step"
        self.began: float | None = None
        """When the step under way began; None between steps."""
        self.watcher: Watcher | None = None
        """What shows long steps, where anybody looks."""
        self.events: StepEvents | None = None
        """The log of what operators did in each step, where one is kept."""
        has_files = recorder is not None or spill_store is not None
        self.lifecycle = Lifecycle(
            frontiers.graph.name, f"start another {on}", self._release, self._standing, has_files=has_files
        )
        self._recorder = recorder
        self.subscriptions = Subscriptions(executor, frontiers, self.lifecycle, recorder)
        self._sources = dict(sources or {})
        """The last batch of each source that a step committed."""
        self._delivered: dict[str, int] = {}
        """The batch that the next step commits, while it is being delivered."""
        self._is_putting = False
        """Whether a batch is being put in: not the time for a step."""

    # -- for those who watch it ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The dataflow's name."""
        return self.frontiers.graph.name

    @property
    def is_over(self) -> bool:
        """Whether the run is closed."""
        return self.lifecycle.is_closed

    def progress(self) -> Sequence[OperatorProgress]:
        """Return what operators have done so far, in the step under way too; from another thread."""
        return self.executor.progress()

    # -- what is queued -----------------------------------------------------------------------------------------------

    def queue(self, node: Input, *changes: Change) -> None:
        """Take what was checked, in memory and on record, all of it or nothing."""
        count = sum(map(len, changes))
        if not count:
            return
        level = logging.INFO if count >= _MANY else logging.DEBUG
        if _LOADS.isEnabledFor(level):
            _LOADS.log(level, "%s: %s updates were put into %r", self.frontiers.graph.name, count, node.name)
        changes = tuple([change for change in changes if len(change)])
        if self._recorder is not None:
            self.lifecycle.change("rows were put in", lambda: self._queue_on_record(node, changes))
            return
        for change in changes:
            self.executor.queue(node, change)

    def _queue_on_record(self, node: Input, changes: Sequence[Change]) -> None:
        assert self._recorder is not None
        before, journal = self.executor.queued(node), self._recorder.journal()
        try:
            with let_through():
                for change in changes:
                    self.executor.queue(node, change)
            for change in changes:
                self._recorder.queued(node, change)
        except BaseException:
            self.executor.requeue(before)
            self._recorder.rewind(journal)
            self.lifecycle.undone()
            raise

    def discard(self) -> None:
        """Forget all that is queued, and have what was refused corrected at its times."""
        self.lifecycle.change("what was queued was discarded", self._discard)

    def _discard(self) -> None:
        self.frontiers.step_refused = True
        self.executor.discard()
        if self._recorder is not None:
            self._recorder.discarded()

    def deliver(self, source: str, batch: int, put: Callable[[], object], advance: Callable[[], object]) -> bool:
        """Put in a batch and take a step that commits its number; return False where that was done before."""
        self._require_no_delivery("deliver another one: deliver them one after the other")
        if batch <= self._sources.get(source, -1):
            return False
        queued, steps = self.executor.queued(), self.steps
        journal = None if self._recorder is None else self._recorder.journal()
        with deferred():
            self._delivered, self._is_putting = {source: int(batch)}, True
            try:
                with let_through():
                    put()
                self._is_putting = False
                with let_through():
                    advance()
            except BaseException:
                if self.steps == steps and not self.lifecycle.is_closed:
                    self.lifecycle.change("a batch was taken back", lambda: self._take_back(queued, journal))
                raise
            finally:
                self._delivered, self._is_putting = {}, False
        return True

    def _require_no_delivery(self, what: str) -> None:
        """Raise where a batch is being put in: what was queued before it may have to be brought back as it was."""
        if self._is_putting:
            msg = f"what puts in a delivered batch may not {what}"
            raise StepError(msg)

    def _take_back(self, queued: Any, journal: Any) -> None:
        self.executor.requeue(queued)
        if self._recorder is not None:
            self._recorder.rewind(journal)

    # -- steps --------------------------------------------------------------------------------------------------------

    def take(self, move: Move) -> None:
        """Take a step, and do what is to be done after it."""
        self.lifecycle.check()
        self._require_no_delivery("take a step: deliver() does, once for the batch")
        self.began, steps = perf_counter(), self.steps
        try:
            self.lifecycle.change("a step was made final", lambda: self._take(move))
        finally:
            seconds, self.began = perf_counter() - self.began, None
            if self.steps > steps and not self.lifecycle.is_closed:  # it may be Ctrl-C that came behind the step
                try:
                    self._tell(seconds)
                finally:
                    self._between_steps()

    def _take(self, move: Move) -> None:
        executor = self.executor
        try:
            began = process_time()
            with let_through():
                self._work(move)
                seconds = process_time() - began
                changes = self.subscriptions.collect() if self.subscriptions.windows else None
            if self._recorder is not None:
                sources = self._sources | self._delivered
                self._recorder.commit(move.inputs, sources, replayable=executor.is_replayable, seconds=seconds)
        except BaseException as error:
            self._undo(error)
            raise
        executor.commit(move.since)
        self.frontiers.settle(move)
        if changes is not None:
            self.subscriptions.publish(changes)
        self._sources |= self._delivered
        self.steps += 1

    def _work(self, move: Move) -> None:
        try:
            self.executor.step(move.needed)
        except OSError as error:
            if self.spill_store is None:
                raise
            outcome = f"the step was not taken and is queued still; {advice(error)}"
            msg = f"state could not be read or written ({error}): {outcome}"
            raise StateError(msg) from error

    def _undo(self, error: BaseException) -> None:
        """Have all as it was before the step; close a run that is not what its folder holds any more."""
        self.executor.rollback()
        if isinstance(error, StepError):
            self.frontiers.step_refused = True
        if self.events is not None:
            self.events.skip(self.executor.metrics())
        lost = None if self._recorder is None else self._recorder.lost(self.steps)
        if lost is not None:
            self.lifecycle.give_up(f"was closed: {lost}")
            return
        self.lifecycle.undone()
        if self.spill_store is not None:  # room on the disk may be what was wanting
            self.spill_store.sweep()

    def _between_steps(self) -> None:
        """Do what a step leaves to be done. It is taken, whatever becomes of this."""
        if self.spill_store is not None:
            self.spill_store.make_room()
        if self._recorder is not None:
            self._recorder.checkpoint_if_due()
        self.executor.tidy()

    def _standing(self) -> str:
        """Return what to say of the steps of a run that has to be closed."""
        return "" if self._recorder is None else f"; {self._recorder.standing(self.steps)}"

    def _tell(self, seconds: float) -> None:
        """Log the step that was taken, and tell those who follow the run."""
        level = logging.INFO if seconds >= SLOW else logging.DEBUG
        if _STEPS.isEnabledFor(level):
            _STEPS.log(level, "%s: step %s took %.3f s", self.frontiers.graph.name, self.steps, seconds)
        try:
            if self.events is not None or self.listeners:
                self._tell_listeners(seconds)
        finally:
            if self.subscriptions.windows:
                self.subscriptions.call()

    def _tell_listeners(self, seconds: float) -> None:
        graph, frontiers = self.frontiers.graph, self.frontiers
        outputs = {name: frontiers.of(output) for name, output in graph.outputs.items()}
        inputs = {name: frontiers.inputs[node] for name, node in graph.inputs.items()}
        info = StepInfo(self.steps, seconds, outputs, inputs)
        if self.events is not None:
            everywhere = {node.id: frontiers.of(node) for node in graph.nodes}
            self.events.log(info, self.executor.metrics(), self.executor.take_traces(), everywhere)
        self.listeners.tell(info)

    def log_events(self, limit: int, rows: int) -> None:
        """Keep a log of the last steps from now on, with the first updates of each operator; with 0, none any more."""
        self.events = StepEvents(limit, self.executor.metrics()) if limit else None
        self.executor.trace(on=limit > 0, rows=rows)

    # -- state --------------------------------------------------------------------------------------------------------

    def recorder_for(self, what: str) -> Recorder:
        """Return what records the steps; `StateError` with what it would be needed for, where nothing does."""
        if self._recorder is None:
            msg = f"{what} needs durable state: start the run with state='folder/', as in tm.Embedded(state='folder/')"
            raise StateError(msg)
        return self._recorder

    def save(self, path: Path, header: Mapping[str, Any]) -> None:
        """Write the whole state to a file, and where the run is."""
        self._require_no_delivery("save the state: do so after deliver()")
        said = {"read": self.frontiers.reading(), "sources": self._sources, "steps": self.steps}
        self.executor.save(path, {**header, **self.frontiers.saved(), **said})

    def checkpoint(self) -> None:
        """Write the whole state."""
        self._require_no_delivery("have the state written: do so after deliver()")
        with deferred():
            self.recorder_for("checkpoint").checkpoint()

    def close(self) -> None:
        """End the run, so that the next one on its folder opens soon."""
        if not self.lifecycle.is_closed:
            self.lifecycle.check()
        try:
            if self._recorder is not None and not self.lifecycle.is_closed:
                with deferred():
                    self._recorder.checkpoint_at_the_end()
        finally:  # Ctrl-C that came meanwhile leaves nothing locked
            self.lifecycle.close()

    def compact(self) -> int:
        """Merge every arrangement into one batch, those on the disk too; return how many updates were given up."""
        self._require_no_delivery("have it compacted: do so after deliver()")
        if self.spill_store is None:
            return self.executor.compact()
        before = self.executor.metrics().state_rows
        self.executor.compact()
        try:
            self.spill_store.merge()
        except OSError as error:
            msg = f"what is on the disk could not be merged ({error}): all of it is there still; {advice(error)}"
            raise StateError(msg) from error
        return before - self.executor.metrics().state_rows

    def spill(self) -> None:
        """Write all state that is in memory to the disk."""
        if self.spill_store is None:
            msg = "spill needs a place for state: start the run with tm.Embedded(in_memory=...) or state='folder/'"
            raise StateError(msg)
        try:
            self.spill_store.spill()
        except OSError as error:
            msg = f"the state could not be written ({error}): all of it is in memory still; {advice(error)}"
            raise StateError(msg) from error

    def _release(self) -> None:
        try:
            self.subscriptions.close()
            self.executor.close()
            if self.spill_store is not None:
                self.spill_store.close()
        finally:
            if self._recorder is not None:
                self._recorder.close()
