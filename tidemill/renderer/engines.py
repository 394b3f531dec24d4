"""The engine in this process, and how its runs are made: anew, in a folder of state, or from a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.passes.pipeline import Passes
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.errors import EngineError, StateError
from tidemill.late import Late
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.run import Engine, Run
from tidemill.renderer.runs.stepper import Stepper

if TYPE_CHECKING:
    from tidemill.renderer.durable import reading
    from tidemill.renderer.durable import start as starts
    from tidemill.renderer.embedded import state as states
else:
    reading = Late("tidemill.renderer.durable.reading")
    starts = Late("tidemill.renderer.durable.start")
    states = Late("tidemill.renderer.embedded.state")

_LOG: Final = logging.getLogger("tidemill.state")


def _at_least_one(_: Any, __: Any, threads: int | None) -> None:
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        msg = f"threads={threads!r}: expected how many threads may work side by side, 1 or more"
        raise ValueError(msg)


@attrs.frozen
class Embedded:
    """The engine that ``flow.start()`` uses unless told otherwise: columns in NumPy, in this process.

    With ``state``, a folder of this machine, a run is durable: a step is taken when what was put in for it is on the
    disk, and a run on the same folder, in this process or a later one, goes on after the last step that was taken.
    After ``checkpoint_every`` steps what is new of the state is written, so that going on repeats no more than these.

    At most ``in_memory`` updates of state, or so, are held in memory (of 8 bytes for each value, time and count): with
    ``state`` 20 million if nothing is said, else all. The rest is on the disk, in ``state`` or a temporary folder, in
    sorted files of which the rows of a key are read alone.

    With ``state`` what inputs hold is kept, so that what is new in a later version of the dataflow can be loaded from
    it (see ``migrate`` of `Dataflow.start`); not with ``keep_inputs=False``, for those who can bring rows again.

    Large batches are sorted and looked up in so many ``threads`` side by side, as many as there are processors if
    nothing is said. What comes out is the same; 1 is for those who have other work for their processors.

    >>> import tempfile, tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> folder = tempfile.TemporaryDirectory()
    >>> with flow.start(tm.Embedded(state=folder.name)) as run:
    ...     run.insert("x", [("a",)])
    ...     run.advance()
    >>> with flow.start(tm.Embedded(state=folder.name)) as run:
    ...     list(run.snapshot("n")), run.frontier("x")
    ([('a', 1)], Antichain(1))
    >>> folder.cleanup()
    """

    state: str | os.PathLike[str] | None = None
    checkpoint_every: int = attrs.field(default=1000, kw_only=True)
    in_memory: int | None = attrs.field(default=None, kw_only=True)
    threads: int | None = attrs.field(default=None, kw_only=True, validator=_at_least_one)
    keep_inputs: bool = attrs.field(default=True, kw_only=True)

    def start(self, plan: GraphPlan, keep: int, migrate: starts.Migrate = "auto") -> Run:
        """Return a run of the graph, which goes on where the last one on the folder ``state`` committed."""
        return self._run(plan, keep, None, migrate)

    def load(self, plan: GraphPlan, saved: states.Saved) -> Run:
        """Return a run that goes on from what was saved by one after the passes of the plan."""
        return self._run(plan, 0, saved)

    def _run(self, plan: GraphPlan, keep: int, saved: states.Saved | None, migrate: starts.Migrate = "refuse") -> Run:
        from tidemill.renderer.embedded.compile import FACTORIES  # noqa: PLC0415 - slow to import
        from tidemill.renderer.embedded.kernels.threads import processors  # noqa: PLC0415

        plan = plan.taking(FACTORIES.composites)
        threads = processors() if self.threads is None else self.threads
        if self.state is None and self.in_memory is None:
            return _started(plan, keep, saved, threads=threads)
        from tidemill.renderer.durable.start import IN_MEMORY, open_state  # noqa: PLC0415 - as below

        in_memory = IN_MEMORY if self.in_memory is None else self.in_memory
        state = open_state(
            plan,
            keep,
            self.state,
            checkpoint_every=self.checkpoint_every,
            in_memory=in_memory,
            threads=threads,
            saved=saved,
            migrate=migrate,
            keep_inputs=self.keep_inputs,
        )
        try:
            state.large_changes.bring_in(state.large_changes.pending[:])  # which Spark would leave on the disk
            return state.run(state.executor)
        except BaseException:
            state.close()
            raise


def load(path: Path, graph: Graph, passes: Passes | None, engine: Engine) -> Run:
    """Return a run of a frozen graph that goes on from a saved state, after the passes it was saved with."""
    load_by: Callable[[GraphPlan, states.Saved], Run] | None = getattr(engine, "load", None)
    if load_by is None:
        msg = f"load({str(path)!r}, ...): {engine!r} does not go on from saved state: expected tm.Embedded or tm.Spark"
        raise EngineError(msg)
    from tidemill.renderer.embedded.state import read  # noqa: PLC0415 - slow to import

    try:
        saved = read(path)
    except FileNotFoundError as error:
        msg = f"{path} is not there: expected a file written by run.save(path)"
        raise StateError(msg) from error
    names = tuple(saved.header["passes"])
    plan = GraphPlan.of(graph, passes)
    if not plan.is_default and plan.passes != names:
        msg = (
            f"{path} was saved after the passes {_listed(names)}, and passes={passes!r} asks for "
            f"{_listed(plan.passes)}: the state is that of the graph as they leave it; load it without passes=, or "
            "start anew"
        )
        raise StateError(msg)
    run = load_by(attrs.evolve(plan, passes=names), saved)
    _LOG.info("%s: goes on from what was saved there", path)
    return run


def read_state(folder: str | os.PathLike[str]) -> reading.ReadState:
    """Return what is in a folder of state, to be read while a run of any process goes on with it, or none does.

    Outputs are read as of the last step that was taken, by their names; the dataflow is not needed. Nobody waits:
    neither who reads for steps, nor steps for who reads.

    >>> import tempfile, tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> folder = tempfile.TemporaryDirectory()
    >>> with flow.start(tm.Embedded(state=folder.name)) as run:
    ...     state = tm.read_state(folder.name)
    ...     run.insert("x", [("a",), ("a",)])
    ...     run.advance()
    ...     list(state.snapshot("n")), state.step, state.frontier("n")
    ([('a', 2)], 1, Antichain(1))
    >>> folder.cleanup()
    """
    from tidemill.renderer.durable.reading import ReadState  # noqa: PLC0415 - slow to import

    path = Path(folder)
    if not path.is_dir():
        msg = f"read_state({os.fspath(folder)!r}): no such folder: expected that of a run, as in tm.Embedded(state=...)"
        raise StateError(msg)
    return ReadState(path)


def read_changelog(folder: str | os.PathLike[str]) -> pa.Table:
    """Return what `Run.to_changelog` has written for an output: an Arrow table with columns of times and diffs.

    ``folder`` is the output's, in that of the changelog. While a run writes there, it is whole steps that are read.

    >>> import tempfile, tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> folder = tempfile.TemporaryDirectory()
    >>> with flow.start(tm.Embedded(state=folder.name + "/state")) as run:
    ...     run.to_changelog(folder.name + "/log", keep=2)
    ...     for _ in range(8):
    ...         run.insert("x", [("a",)])
    ...         run.advance()
    >>> tm.read_changelog(folder.name + "/log/n").to_pylist()[:2]
    [{'k': 'a', 'n': 5, 'time': 4, 'diff': 1}, {'k': 'a', 'n': 5, 'time': 5, 'diff': -1}]
    >>> folder.cleanup()
    """
    from tidemill.renderer.durable.changelog_files import read_files  # noqa: PLC0415 - slow to import

    return read_files(Path(folder))


def _started(plan: GraphPlan, keep: int, saved: states.Saved | None, *, threads: int) -> Run:
    from tidemill.renderer.embedded.executor import EmbeddedExecutor  # noqa: PLC0415 - slow to import

    graph = plan.after()
    frontiers = Frontiers(graph, keep)
    executor = EmbeddedExecutor(graph, frontiers.progress, threads=threads)
    if saved is None:
        return Run(Stepper(executor, frontiers), passes=plan.passes)
    saved.restore(executor.compiled, frontiers)
    return Run(Stepper(executor, frontiers, steps=saved.steps, sources=saved.sources), passes=plan.passes)


def _listed(passes: tuple[str, ...]) -> str:
    return ", ".join(passes) or "(none)"
