"""A run on the embedded engine that survives its process: each step is written down before it counts as taken."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import attrs

from tidemill.boundary.results import Updates
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input
from tidemill.dataflow.passes.pipeline import Passes, optimised, passes_named
from tidemill.errors import ClosedRunError, StateError, StepError, UnknownNameError, did_you_mean
from tidemill.renderer.durable.changelog import Changelog, Moves, show
from tidemill.renderer.durable.journal import Journal, replay
from tidemill.renderer.durable.large_change import LargeChange
from tidemill.renderer.durable.spill_store import Memory
from tidemill.renderer.durable.step_log import StepLog
from tidemill.renderer.embedded.run import EmbeddedRun
from tidemill.renderer.embedded.state import restore, save
from tidemill.renderer.runs.run import Queued
from tidemill.renderer.runs.writes import Writes

__all__ = ["DurableRun"]

_ROWS: Final = 1_000_000
"""Rows to be taken in again after a crash, at most: beyond it there is a checkpoint, if the state is not larger."""


class DurableRun(EmbeddedRun):
    """See `Run`. With a folder for state, a step is taken when what was put in for it is on the disk.

    A run on the same folder goes on after the last step that was taken: with what was put in before that step, at times
    still open too, and without what was put in later. ``changes`` begin there; what must not miss any is written by
    `to_changelog`. A step that cannot be written down is not taken (``StateError``), and may be tried again.
    """

    def __init__(  # noqa: PLR0917 - made by its engine alone
        self,
        graph: Graph,
        keep: int,
        passes: Passes,
        state: str | os.PathLike[str] | None,
        checkpoint_every: int,
        in_memory: int,
    ) -> None:
        self._log: StepLog | None = None
        """None until the run is where the log ends, too: what is repeated is not written down again."""
        self._journal = Journal()
        self._after: Mapping[Input, Antichain] = {}
        self._sources: dict[str, int] = {}
        self._delivering: tuple[str, int] | None = None
        self._putting = False
        self._deliveries = threading.RLock()
        self._changelogs: dict[str, Changelog] = {}
        self._moves: Moves = ()
        self._waiting_large: list[LargeChange] = []
        """Large changes that no step has taken yet."""
        self._repeating = True
        """Whether steps are repeated that were taken before, or that of constants, before there is a folder: here."""
        self._logged: list[str] = []
        """Files of large changes that the log refers to since its base."""
        self._checkpoint_every = checkpoint_every
        self._rows_since = 0
        names = [p.__name__ for p in passes_named(passes)]
        log = None if state is None else StepLog(_local(state))
        try:
            if log is not None and log.passes is not None and passes is True:
                names = list(log.passes)  # all there were when it was begun
            super().__init__(optimised(graph, names), keep, names)
            self._memory = Memory(self, in_memory, None if log is None else log.folder)
            self._repeating = False
            if log is not None:
                log.begin(self.graph, keep, self.passes)
                self._recover(log)
        except BaseException:
            if log is not None:
                log.close()
            raise
        self._log = log

    # -- what there is more than in other runs -----------------------------------------------------------------------

    def deliver(self, source: str, batch: int, put: Callable[[Self], object], *, advance_to: Any = None) -> bool:
        """Take a numbered batch of a source exactly once: call ``put(run)``, which puts it in, and take a step.

        For sources that deliver again what may have got lost: their batches have numbers that grow, and the step
        commits the batch with its number. Returns False, and does nothing, where this number or a later one of the
        source has been committed. Where anything fails, what ``put`` put in is taken back. The step is ``advance()``,
        or ``advance_to(advance_to)``.
        """
        with self._deliveries:
            self._check_open()
            if batch <= self._sources.get(source, -1):
                return False
            before, taken = self._waiting(), self._steps
            self._delivering = (source, int(batch))
            try:
                self._put(put)
                if advance_to is None:
                    self.advance()
                else:
                    self.advance_to(advance_to)
            except BaseException:
                if self._steps == taken and not self._closed:
                    self._put_back(before)
                raise
            finally:
                self._delivering = None
            return True

    def to_changelog(self, path: str | os.PathLike[str], *, outputs: Sequence[str] | None = None) -> None:
        """Write the updates of outputs (all, or those named) to Parquet files from now on, each exactly once.

        A folder for each output, in it a file for each step that changes it, ``step-0000000012.parquet`` by the number
        of the step, with the columns of ``run.changes(name).to_arrow()``. Files appear whole, and only when their step
        is committed; a run that goes on after a crash shows what was committed and not shown yet, and goes on writing
        without being told again. ``outputs=[]`` ends it. The folder belongs to this run's state: ``StateError`` where
        it is another's.

        Cost: a file and its way to the disk for each step and output that changes. An output whose changes nobody reads
        in other ways had better be declared with ``changes=False``: they are kept in memory until they are read.
        """
        self._check_open()
        log = self._need_log("to_changelog")
        names = list(self._outputs) if outputs is None else list(outputs)
        for name in names:
            if name not in self._outputs:
                msg = f"no output {name!r}: {did_you_mean(name, self._outputs)}"
                raise UnknownNameError(msg)
            self._updates_of(name).to_arrow()  # where columns clash with those of time and diff, it is said at once
        key = str(Path(path).resolve())
        changelog = Changelog(Path(key), tuple(names))
        if names:
            changelog.claim(log.last.id)
        changelogs = {**self._changelogs, key: changelog}
        self._follow({k: c for k, c in changelogs.items() if c.outputs})

    def checkpoint(self) -> None:
        """Write the whole state, so that the next run on this folder need not repeat the steps before.

        This is done by itself after many steps or rows. Not while updates are queued that no step has taken yet. The
        state is compacted first, so what nobody can ask about is given up, in memory too. Cost: the size of the state.
        """
        self._check_open()
        log = self._need_log("checkpoint")
        if self._journal.rows:
            msg = "updates are queued that no step has taken yet: advance (or discard) before the checkpoint"
            raise StateError(msg)
        super().compact()

        def saved(path: Path) -> None:
            self._flushed()
            save(self, path, **self._on_disk())

        with self._beginning_anew(log):
            log.checkpoint(saved)
        self._sweep()
        self._journal.clear()
        self._rows_since = 0

    def compact(self) -> int:
        """Merge every arrangement into one batch, those on the disk too; see `EmbeddedRun.compact`."""
        self._check_open()
        before = self.metrics().state_rows
        super().compact()
        try:
            self._memory.merge()
        except OSError as error:
            msg = f"what is on the disk could not be merged ({error}): all of it is there still; make room on the disk"
            raise StateError(msg) from error
        return before - self.metrics().state_rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """See `EmbeddedRun.save`. Large changes that wait come into the driver's memory for it."""
        self._check_open()
        DurableRun._close_large(self, self._waiting_large[:])
        super().save(path)

    def spill(self) -> None:
        """Write all state that is in memory to the disk, from where it is read again by key.

        This is done by itself where more updates than ``in_memory`` are held. Cost: the size of what is in memory.
        """
        self._check_open()
        try:
            self._memory.spill()
        except OSError as error:
            msg = f"the state could not be written ({error}): all of it is in memory still; make room on the disk"
            raise StateError(msg) from error

    # -- taking a step ----------------------------------------------------------------------------------------------

    def _queue(self, node: Input, queued: Queued) -> None:
        super()._queue(node, queued)
        if self._log is not None:
            self._journal.queued(node, queued)

    def _write(self, node: Input, writes: Writes) -> None:
        super()._write(node, writes)
        if self._log is not None:
            self._journal.written(node, writes)

    def _queue_large(self, change: LargeChange) -> None:
        """Take a large change at an open time."""
        if change.node.key:
            change = attrs.evolve(change, number=self._keyed(change.node).number())
        self._hold(change)
        if self._log is not None:
            self._journal.queued_large(change)

    def _hold(self, change: LargeChange) -> None:
        self._waiting_large.append(change)
        names = [f.name for f in change.files]
        self._logged += names
        self._memory.store.pin(names)

    def _step(self, frontiers: Mapping[Input, Antichain]) -> None:
        self._close_large([c for c in self._waiting_large if not frontiers[c.node].beyond(c.time)])
        try:
            super()._step(frontiers)
        except OSError as error:
            msg = f"state could not be read or written ({error}): the step was not taken and is queued still; make room"
            raise StateError(msg) from error

    def _close_large(self, changes: Sequence[LargeChange]) -> None:
        """Have large changes whose time closes wait in memory, as others do."""
        for change in changes:
            folder = self._memory.store.folder
            if change.node.key:
                self._keyed(change.node).write(change.writes(folder), change.number)
            else:
                super()._queue(change.node, change.queued(folder))
            self._waiting_large.remove(change)

    def _discard(self) -> None:
        super()._discard()
        self._waiting_large = []
        if self._log is not None:
            self._journal.discarded()

    def _move(self, moved: Mapping[Input, Antichain]) -> None:
        if self._putting:
            msg = "what puts in a delivered batch may not take a step: deliver() does, once for the batch"
            raise StepError(msg)
        taken = self._steps
        self._after = {**self._frontiers, **moved}
        try:
            super()._move(moved)
        except BaseException:
            self._check_owner(taken)
            if not self._closed and self._steps == taken:  # room on the disk may be what was wanting
                self._memory.sweep()
            raise
        self._memory.make_room()
        self._checkpoint_at_times()

    def _write_down(self) -> None:
        sources = self._sources if self._delivering is None else self._sources | dict([self._delivering])
        if self._log is not None:
            self._commit(self._log, sources)
        self._sources = sources

    def _commit(self, log: StepLog, sources: Mapping[str, int]) -> None:
        step = log.last.step + 1
        try:
            self._flushed()
            show(self._moves)  # what could not be shown before: readers see the steps in their order
            updates = {n: self._updates_of(n) for c in self._changelogs.values() for n in c.outputs}
            moves = tuple(m for c in self._changelogs.values() for m in c.write(step, updates))
        except OSError as error:
            msg = f"the changes of step {step} could not be written ({error}): it was not taken and is queued still"
            raise StateError(msg) from error
        listed = {path: list(c.outputs) for path, c in self._changelogs.items()}
        rest = {"sources": sources, "changelogs": listed, "shown": moves}
        self._interrupts.hold()  # else the run might not know whether its step is on the disk, and close
        if self._is_recorded():
            events, arrays = self._journal.record()
            frontiers = {node.name: frontier.elements for node, frontier in self._after.items()}
            log.commit(events, arrays, frontiers, **rest)
            self._rows_since += self._journal.rows
        else:
            with self._beginning_anew(log):
                log.commit_state(lambda path: save(self, path, **self._on_disk(), at=self._after), **rest)
            self._rows_since = 0
        self._journal.clear()
        self._moves = moves
        try:
            show(moves)
            self._moves = ()
        except OSError as error:  # committed all the same: tried again with the next step, or by the next run
            warnings.warn(f"changes of step {step} are not shown yet: {error}", RuntimeWarning, stacklevel=2)

    def _flushed(self) -> None:
        """Return when all that others wrote is on the disk."""
        error = None
        try:
            self._memory.flushed()
        except OSError as found:
            error = found
        doubtful = self._memory.doubtful
        lost = {c.node.name for c in self._waiting_large if doubtful.intersection(f.name for f in c.files)}
        if lost:
            msg = (
                f"a large change of {', '.join(map(repr, sorted(lost)))} may not be on the disk, which could not write "
                "it: run.discard() what waits, and put it in again"
            )
            raise StateError(msg) from error
        if error is not None:
            raise error

    @contextlib.contextmanager
    def _beginning_anew(self, log: StepLog) -> Iterator[None]:
        """Within the block a checkpoint is put in place; where it surely was not, what it refers to may go."""
        base, number = self._memory.base, log.last.number
        try:
            yield
        except BaseException:
            if log.last.number == number and log.lost is None:
                self._memory.base = base
            raise

    def _on_disk(self) -> dict[str, Any]:
        """Return what a checkpoint has to say of the state that is in other files."""
        return {"cold": self._memory.listing(), "large": [change.listing() for change in self._waiting_in_files()]}

    def _waiting_in_files(self) -> list[LargeChange]:
        """Return the large changes that wait when the current step is taken."""
        return self._waiting_large

    def _sweep(self) -> None:
        """Remove the files that nothing refers to, now that the log begins anew."""
        self._memory.store.unpin(self._logged)
        self._logged = [f.name for change in self._waiting_large for f in change.files]
        self._memory.store.pin(self._logged)
        self._memory.began_anew()

    def _is_recorded(self) -> bool:
        """Return whether the current step can be repeated from what was put in; if not, the state itself is written."""
        return True

    def _check_owner(self, taken: int) -> None:
        """Close the run where what it holds may not be what was committed."""
        log = self._log
        if log is not None and (log.lost is not None or (log.last.step > self._steps == taken)):
            self._stepping = False
            self.close()

    def _checkpoint_at_times(self) -> None:
        log = self._log
        if log is None or self._closed or self._journal.rows:
            return
        steps = log.last.step - log.base.step
        rows = self._rows_since
        if steps < self._checkpoint_every and (rows <= _ROWS or rows <= self.metrics().state_rows):
            return
        try:
            self.checkpoint()
        except StateError as error:  # the step was taken, and the next one tries again
            warnings.warn(f"no checkpoint: {error}", RuntimeWarning, stacklevel=3)

    # -- going on ---------------------------------------------------------------------------------------------------

    def _recover(self, log: StepLog) -> None:
        """Come to where the log ends."""
        if log.checkpoint_file is not None:
            header = restore(self, log.checkpoint_file)
            self._memory.restore(header.get("cold", {}))
            for listing in header.get("large", ()):
                change = LargeChange.of(listing, self._inputs)
                self._hold(change)
                if change.node.key:
                    self._keyed(change.node).number_after(change.number)
        if log.last.number == log.base.number:  # else steps to come refer to files that nothing else does
            self._memory.swept = True
            self._memory.sweep()
        self._steps = log.base.step
        self._repeating = True
        for step, header, arrays in log.records():
            try:
                replay(header["events"], arrays, self._inputs, _Again(self))
                self._move({self._inputs[n]: Antichain(map(tuple, f)) for n, f in header["frontiers"].items()})
            except StepError as error:
                msg = (
                    f"{log.folder}: step {step} was taken and cannot be repeated ({error}): a function of the "
                    "dataflow is not what it was, or gives something else each time"
                )
                raise StateError(msg) from error
            self._rows_since += sum(event["rows"] for event in header["events"])
        self._repeating = False
        self._journal.clear()
        self._memory.swept = True
        for output, operator in self.compiled.outputs.items():
            operator.unread = []
            self._read[output] = self._output_frontier(output)
        self._sources = dict(log.last.sources)
        show(log.last.shown)
        changelogs = Changelog.all_of(log.last.changelogs)
        for changelog in changelogs.values():
            changelog.claim(log.last.id)
            changelog.sweep()
        self._follow(changelogs)

    def _follow(self, changelogs: dict[str, Changelog]) -> None:
        self._changelogs = changelogs
        followed = {name for c in changelogs.values() for name in c.outputs}
        for output, operator in self.compiled.outputs.items():
            operator.has_followers = output.name in followed

    def _updates_of(self, name: str) -> Updates:
        """Return the updates of an output in the current step."""
        node = self._outputs[name]
        operator = self.compiled.outputs[node]
        return self._updates(operator.schema, operator.step_updates(), operator.frontier.lower, operator.frontier.upper)

    # -- putting in, or not -------------------------------------------------------------------------------------------

    def _put(self, put: Callable[[Self], object]) -> None:
        self._putting = True
        try:
            put(self)
        finally:
            self._putting = False

    def _waiting(self) -> tuple[Any, ...]:
        ports = {o.ports[0]: o.ports[0].pending.state for o in self.compiled.inputs.values()}
        return ports, self._journal.mark(), self._waiting_large[:]

    def _put_back(self, waiting: tuple[Any, ...]) -> None:
        ports, mark, self._waiting_large = waiting
        for port, state in ports.items():
            port.rollback(state)
        self._journal.put_back(mark)

    def _need_log(self, what: str) -> StepLog:
        if self._log is None:
            msg = f"{what} needs durable state: start the run with state='folder/'"
            raise StateError(msg)
        return self._log

    def _check_open(self) -> None:
        if self._closed and self._log is not None and self._log.lost is not None:
            msg = f"this run of {self.graph.name!r} was closed: {self._log.lost}; start another on {self._log.folder}"
            raise ClosedRunError(msg)
        super()._check_open()

    def _release(self) -> None:
        try:
            super()._release()
            self._memory.close()
        finally:
            if self._log is not None:
                self._log.close()


class _Again:
    """What puts into a run again what its journal held."""

    def __init__(self, run: DurableRun) -> None:
        self._run = run

    def again_queued(self, name: str, queued: Queued) -> None:
        self._run._queue(self._run._inputs[name], queued)  # noqa: SLF001 - the same module

    def again_written(self, name: str, writes: Writes) -> None:
        self._run._write(self._run._inputs[name], writes)  # noqa: SLF001

    def again_queued_large(self, change: LargeChange) -> None:
        self._run._queue_large(change)  # noqa: SLF001

    def again_discarded(self) -> None:
        self._run.discard()


def _local(state: str | os.PathLike[str]) -> Path:
    text = os.fspath(state)
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        msg = f"state={text!r}: expected a folder of this machine, which the driver can lock and write"
        raise StateError(msg)
    return Path(rest if separator else text)
