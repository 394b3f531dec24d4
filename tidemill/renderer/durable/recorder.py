"""Steps of a run, written down before they count as taken: the step log, its journal, changelogs and checkpoints."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.errors import StateError
from tidemill.renderer.durable.changelog import Changelogs
from tidemill.renderer.durable.journal import Journal
from tidemill.renderer.durable.kept_changes import KeptChanges
from tidemill.renderer.durable.large_changes import LargeChanges
from tidemill.renderer.durable.output_changes import OutputShapes, StepChanges
from tidemill.renderer.durable.spill_store import SpillStore
from tidemill.renderer.durable.step_log import StepLog
from tidemill.renderer.embedded.checkpoint import Checkpoint, settle, unstored
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.runs.executor import Cursor
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.interrupts import deferred, let_through
from tidemill.renderer.runs.system_errors import advice

_LOG: Final = logging.getLogger("tidemill.state")
_ROWS: Final = 1_000_000
"""Rows to be taken in again after a crash, at most: beyond it there is a checkpoint, if the state is not larger."""
_CHECKPOINT: Final = 100_000
"""Rows up to which a step is no load: a checkpoint takes as long beside its rows."""
_ROW_WRITTEN: Final = 4e-7
_WRITTEN: Final = 0.2
"""Processor seconds that a checkpoint takes for a row of state, and more than it takes beside its rows."""
_LOADED: Final = 3
"""A step of more than `_CHECKPOINT` rows, and this part of the state's, is a load: its checkpoint takes no longer than
its rows and what outputs changed by, which the end of the run would have made one of."""


class StepRecorder:
    """See `Recorder`. Beside an executor that is where the log ends."""

    def __init__(
        self,
        log: StepLog,
        executor: EmbeddedExecutor,
        frontiers: Frontiers,
        spill_store: SpillStore,
        large_changes: LargeChanges,
        *,
        checkpoint_every: int,
        replayed: tuple[int, float],
    ) -> None:
        self.folder = log.folder
        self._log = log
        self._executor = executor
        self._frontiers = frontiers
        self._spill_store = spill_store
        self._large_changes = large_changes
        self._checkpoint_every = checkpoint_every
        self._rows_since_base, self._seconds_since_base = replayed
        """What the steps since the last checkpoint took in, and the processor seconds that they worked."""
        self._made: Checkpoint | None = None
        """The checkpoint that is being committed."""
        self._journal = Journal()
        self._changes = StepChanges(executor, is_begun=log.last.step > 0)
        self._changelogs = Changelogs(executor, log.base.id, self._changes)
        self._changelogs.restore(log.last.changelogs, log.last.shown)
        self._kept = KeptChanges(log.folder, lambda: log.entries, OutputShapes.of(executor.graph))
        log.carry = self._kept.carried
        self.queued, self.discarded = self._journal.queued, self._journal.discarded
        self.journal, self.rewind = self._journal.mark, self._journal.rewind
        self.cursors, self.changes_since = self._kept.cursors, self._kept.changes_since
        self.keep_for = self._kept.keep_for

    # -- steps --------------------------------------------------------------------------------------------------------

    def commit(
        self,
        inputs: Mapping[Input, Antichain],
        sources: Mapping[str, int],
        *,
        replayable: bool,
        seconds: float,
        **rest: Any,
    ) -> None:
        log, step = self._log, self._log.last.step + 1
        try:
            self._large_changes.require_flushed()
            moves = self._changelogs.write(step)
        except OSError as error:
            outcome = f"it was not taken and is queued still; {advice(error)}"
            msg = f"the changes of step {step} could not be written ({error}): {outcome}"
            raise StateError(msg) from error
        rest |= {"sources": sources, "changelogs": self._changelogs.listing(), "shown": moves}
        if replayable and not self._is_load():
            events, arrays = self._journal.record()
            listing, packed = self._changes.record(self._executor.graph.outputs)
            frontiers = {node.name: frontier.elements for node, frontier in inputs.items()}
            changes = {"changes": listing, "upto": self._changes.frontiers()}
            log.commit(events, {**arrays, **packed}, frontiers, changes, **rest)
            self._rows_since_base += self._journal.rows
            self._seconds_since_base += seconds
        else:
            with self._checkpointing(), self._carrying_step():
                log.commit_state(lambda path: self._save(path, inputs), **rest)
            self._rows_since_base, self._seconds_since_base = 0, 0.0
            if replayable:
                self._checkpointed()
        self._changes.committed()
        self._journal.clear()
        self._changelogs.committed(moves)
        try:
            self._changelogs.publish()
        except OSError as error:  # committed all the same: tried again with the next step, or by the next run
            warnings.warn(f"changes of step {step} are not shown yet: {error}", RuntimeWarning, stacklevel=2)
            return
        try:
            self._changelogs.merge_older()
        except (OSError, pa.ArrowException) as error:  # all files are there
            warnings.warn(f"files of older changes were not merged: {error}", RuntimeWarning, stacklevel=2)

    def migrate(self, changes: Mapping[str, UpdateArray | None]) -> None:
        """Have the state on the disk be that of another version of the dataflow, in one commit, as a step.

        ``changes`` are those of outputs that are new or others, None for what nobody knows.
        """
        self._changelogs.require_known(changes)
        self._changes.begin_with(changes)
        cursors = self._kept.started_anew(changes)
        self.commit(self._frontiers.inputs, self._log.last.sources, replayable=False, seconds=0.0, cursors=cursors)
        self._spill_store.may_sweep = True
        self._checkpointed()

    def _is_load(self) -> bool:
        rows = self._journal.rows
        return rows > _CHECKPOINT and _LOADED * rows >= self._executor.metrics().state_rows

    def _checkpointed(self) -> None:
        if self._made is not None:
            self._made.committed(self._executor.compiled)
            self._made = None
        self._large_changes.checkpointed()
        self._spill_store.checkpointed()

    def lost(self, steps: int) -> str | None:
        if self._log.lost is None and self._log.last.step > steps:
            return f"step {self._log.last.step} was written down, and may not be on the disk"
        return self._log.lost

    def standing(self, steps: int) -> str:
        step = steps + 1
        if self._log.last.step > steps:
            return f"step {step} was taken"
        if self._log.lost is not None:
            return f"step {step} may be there or not, {self._log.lost}"
        return f"step {step} was not taken, and what was put in for it is to be put in again"

    def to_changelog(self, path: str | os.PathLike[str], outputs: Sequence[str], keep: int | None) -> None:
        before = self._changelogs.listing()
        with deferred():
            try:
                self._changelogs.write_to(path, outputs, keep)
                if self._changelogs.listing() != before:  # else it is said again, as by each run
                    # Now, not with the next step: that may be another process's.
                    self._log.note("no changes are written there", changelogs=self._changelogs.listing())
            except BaseException:
                self._changelogs.follow(before)
                raise

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        if self._journal.rows:
            msg = "updates are queued that no step has taken yet: advance (or discard) before the checkpoint"
            raise StateError(msg)
        with let_through():
            settle(self._executor.compiled)

        def flush_and_save(path: Path) -> Checkpoint:
            self._large_changes.require_flushed()
            return self._save(path, self._frontiers.inputs)

        with self._checkpointing():
            self._log.checkpoint(flush_and_save)
        self._checkpointed()
        self._journal.clear()
        self._rows_since_base, self._seconds_since_base = 0, 0.0

    def checkpoint_if_due(self) -> None:
        if self._journal.rows:
            return
        steps, rows = self._log.steps_since_base, self._rows_since_base
        if steps < self._checkpoint_every and (rows <= _ROWS or rows <= self._executor.metrics().state_rows):
            return
        with deferred():
            self.checkpoint_soon()

    def checkpoint_at_the_end(self) -> None:
        if self._journal.rows or self._log.lost is not None or self._log.is_checkpointed:
            return
        # What those who opened it have repeated in all, each what there was then, and the next one would.
        repeated = self._seconds_since_base * self._log.openings_since_base
        if repeated > _WRITTEN + _ROW_WRITTEN * unstored(self._executor.compiled):
            self.checkpoint_soon()

    def checkpoint_soon(self) -> None:
        """Write what is new of the state; warn where that fails, and is tried again."""
        try:
            self.checkpoint()
        except StateError as error:  # the step was taken, and the next one tries again
            warnings.warn(f"no checkpoint: {error}", RuntimeWarning, stacklevel=3)

    def _save(self, path: Path, inputs: Mapping[Input, Antichain]) -> Checkpoint:
        """Write the state where the inputs have these frontiers, but for what is in files already."""
        places = {name: node.id for name, node in self._executor.graph.outputs.items()}
        for_readers = {"outputs": places, "upto": self._changes.frontiers()}
        header = {"passes": self._log.base.passes, **self._frontiers.saved(inputs), **for_readers}
        spilled, large = self._spill_store.store.listing(), self._large_changes.listing()
        with let_through():
            self._made = Checkpoint.write(self._executor.compiled, path, header, spilled, large)
        return self._made

    @contextlib.contextmanager
    def _checkpointing(self) -> Iterator[None]:
        """Within the block a checkpoint is put in place; where it surely was not, what it refers to may go."""
        base, number, start = self._spill_store.store.base, self._log.last.number, perf_counter()
        try:
            yield
            last = self._log.last
            _LOG.info("%s: a checkpoint of step %s took %.3f s", self.folder, last.step, perf_counter() - start)
        except BaseException:
            if self._log.last.number == number and self._log.lost is None:
                self._spill_store.store.base = base
            raise

    @contextlib.contextmanager
    def _carrying_step(self) -> Iterator[None]:
        """Within the block the step at hand is in the checkpoint, and so are its changes among those that are kept."""
        self._log.carry = lambda base: self._kept.carried(base, self._changes)
        try:
            yield
        finally:
            self._log.carry = self._kept.carried

    # -- subscribers --------------------------------------------------------------------------------------------------

    def move_cursors(self, moves: Mapping[str, Cursor | None]) -> None:
        cursors = {n: c for n, c in self._log.last.cursors.items() if n not in moves}
        for name, cursor in moves.items():
            if cursor is not None:
                cursors[name] = cursor.output, None if cursor.upto is None else cursor.upto.elements
        told = ", ".join(map(repr, moves))
        with deferred():
            self._log.note(f"where {told} is was not written down", cursors=cursors)

    def close(self) -> None:
        try:
            self._changelogs.close()
            self._kept.close()
        finally:
            self._log.close()
