"""A run's methods that answer: what there is, what changed, how far it is, and what it took."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.boundary.feeds import Fed
from tidemill.boundary.results import Rows, Updates, following
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Output
from tidemill.errors import EngineError, TidemillError, TimeError, UnknownNameError, did_you_mean
from tidemill.renderer.diagram.why import Why
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.reasons import Explainer, reasons_of
from tidemill.renderer.runs.run_base import RunBase, alone
from tidemill.renderer.runs.step_info import StepInfo

if TYPE_CHECKING:
    from tidemill.notebook.live_table import Live


class RunReading(RunBase):
    """Methods of `Run`."""

    @alone
    def snapshot(self, name: str, *, at: Any = None) -> Rows:
        """Return an output's contents at its last complete time, or at an earlier one not compacted away.

        With times of several coordinates ``at`` has to be given, until the inputs are closed.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start(keep=1) as run:
        ...     run.update("x", [((7,), 0, 2), ((7,), 1, -1)])
        ...     run.advance_to(2)
        ...     list(run.snapshot("x")), list(run.snapshot("x", at=0))
        ([(7,)], [(7,), (7,)])
        """
        node = self._output(name)
        return self.executor.contents(node, self._frontiers.readable_time(node, at))

    @alone
    def changes(self, name: str, *, since: Any = None) -> Updates:
        """Return the updates of an output that became complete since they were last asked for, at their exact times.

        With ``since=t``: all updates at complete times other than those up to ``t``, whatever was read before; as far
        back as ``keep`` reaches.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     run.update("x", [((7,), 0, 2), ((7,), 1, -1)])
        ...     run.advance_to(2)
        ...     run.changes("x")
        ...     len(run.changes("x"))
        i  time  diff
        -  ----  ----
        7  0     +2
        7  1     -1
        0
        """
        node = self._output(name)
        upper = self._frontiers.of(node)
        if since is not None:
            time = self._frontiers.distinguishable_time(node, since)
            found = self.executor.changed_since(node, time, self._frontiers.since[node], upper)
        elif node.changes is False:
            msg = f"{node.where} keeps no changes: declare it with changes=True, or ask with since="
            raise TimeError(msg)
        else:
            found = self.executor.take_unread(node, self._frontiers.read[node], upper)
            self._frontiers.read[node] = upper
        return following(found, self._fed.setdefault(node, Fed(functools.partial(self._counts_before, node))))

    @alone
    def _counts_before(self, node: Output, frontier: Antichain) -> dict[tuple[Any, ...], int]:
        """Return an output's contents at the last time before a frontier that it had."""
        at = frontier.elements[0][0] - 1 if frontier.elements else None
        try:
            return self.executor.contents(node, self._frontiers.readable_time(node, at)).counts()
        except TimeError as error:
            msg = f"{error}; or call to_feed before the run goes on, on all changes one after the other"
            raise TimeError(msg) from None

    @alone
    def why(self, name: str, row: Any, *, at: Any = None) -> Why:
        """Return why an output has a row, or why it has not, at its last complete time or at an earlier one.

        For a row that is there: input rows from which alone it follows, found by leaving out others and seeing that it
        is there still, until (within bounds) none can be left out; and on what way it follows from them, operator by
        operator, with the iterations of loops. It is one reason of several that there may be, and a least one: of a sum
        the rows that come to it, of a row of a top-k that row alone. For a row that is not there: backwards from the
        output what each operator had, and which input rows are missing. Printed it is a tree, in notebooks a picture.

        Needs a run started with ``why=True``. Cost: a run on the embedded engine, in this process, of the rows near to
        the one asked for, in the worst case of all; and some hundreds of steps of it. User functions are called again.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> edges = flow.input("edges", {"a": "string", "b": "string"})
        >>> roots = flow.input("roots", {"at": "string"})
        >>> flow.output("hops", tm.graphs.bfs(edges, roots))
        >>> run = flow.start(why=True)
        >>> run.insert("roots", [("x",)])
        >>> run.insert("edges", [("x", "y"), ("y", "w"), ("w", "x"), ("z", "w")])
        >>> run.advance()
        >>> run.why("hops", ("w", 2)).rows
        {'edges': [('x', 'y'), ('y', 'w')], 'roots': [('x',)]}
        """
        node = self._output(name)
        if self._explainer is None:
            msg = f"why({name!r}, ...): this run keeps no inputs to look for reasons in: start it with why=True"
            raise EngineError(msg)
        return reasons_of(self._explainer, self.executor, self._frontiers, (node, row, at))

    def explain_by(self, answer: Callable[..., Why], kept_name: Callable[[str], str]) -> None:
        """Have `why` answered, from outputs that hold what inputs do. Called by whoever started the run so."""
        self._explainer = Explainer(answer, kept_name)
        kept = set(map(kept_name, self._inputs))
        self._outputs = {name: output for name, output in self._outputs.items() if name not in kept}

    @alone
    def frontier(self, name: str) -> Antichain:
        """Return the frontier of an output, or of an input: what is not beyond it is final.

        Of an output and an input of one name, the output's.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("later", flow.input("x", {"i": "int64"}).delay(2))
        >>> with flow.start() as run:
        ...     run.advance_to(3)
        ...     run.frontier("x"), run.frontier("later")
        (Antichain(3), Antichain(5))
        """
        node = self._outputs.get(name) or self._inputs.get(name)
        if node is None:
            msg = f"no output or input {name!r}: {did_you_mean(name, [*self._outputs, *self._inputs])}"
            raise UnknownNameError(msg)
        return self._frontiers.of(node)

    @alone
    def on_step(self, callback: Callable[[StepInfo], object]) -> Callable[[], None]:
        """Call a function with a `StepInfo` after each step that was taken; returns a function that ends this.

        What it raises comes out of ``advance`` after the step, which is done all the same, and the other callbacks.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("x", flow.input("x", {"i": "int64"}))
        >>> with flow.start() as run:
        ...     stop = run.on_step(lambda step: print(step.number, step.frontiers))
        ...     run.advance_to(3)
        ...     stop()
        ...     run.advance_to(4)
        1 {'x': Antichain(3)}
        """
        if not callable(callback):
            msg = f"on_step({callback!r}): expected a function, which is called with a StepInfo after each step"
            raise TidemillError(msg)
        return self._stepper.listeners.add(callback)

    @alone
    def live(self, name: str, *, limit: int = 20) -> Live:
        """Display an output's contents in a notebook, as a table that is refreshed after each step.

        Needs IPython (``pip install 'tidemill[notebook]'``), and times of one coordinate. Each refreshing costs a
        `snapshot`; ``limit`` rows are shown.
        """
        from tidemill.notebook.live_table import Live  # noqa: PLC0415 - for notebooks alone

        return Live(self, self._output(name).name, limit)

    @alone
    def metrics(self) -> Metrics:
        """Return figures for each operator: records in and out, state rows, batches, seconds, bytes; and of memory.

        Printed it is a table, and `to_pandas` makes a DataFrame of it. ``memory`` has what all of it takes: interned
        values, changes that nobody has read, what is held and what is on the disk.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flow.output("odd", flow.input("x", {"i": "int64"}).select(odd="i % 2 = 1").distinct())
        >>> with flow.start() as run:
        ...     run.insert("x", [(1,), (2,), (3,)])
        ...     run.advance()
        ...     [(o.kind, o.records_out) for o in run.metrics()]
        ...     run.metrics().memory.unread
        [('Input', 3), ('Map', 3), ('Threshold', 2), ('Output', 2)]
        {'odd': 2}
        """
        return Metrics(self.executor.metrics(), self.executor.memory())

    @alone
    def to_changelog(self, path: str | os.PathLike[str], *, outputs: Sequence[str] | None = None) -> None:
        """Write the updates of outputs (all, or those named) to Parquet files from now on, each exactly once.

        A folder for each output, of its name (with percent codes and a digest where that is no name for a folder, or
        differs from another output's in case alone), in it a file for each step that changes it, such as
        ``step-0000000012.parquet`` by the number of the step, with the columns of ``run.changes(name).to_arrow()``.
        What outputs hold before any step, as of constants, is in the files of the first step, if that is still to come.
        Files appear whole, and only when their step is committed; a run that goes on after a crash shows what was
        committed and not shown yet, and goes on writing without being told again. ``outputs=[]`` ends it. The folder
        belongs to this run's state: ``StateError`` where it is another's.

        Cost: a file and its way to the disk for each step and output that changes. An output whose changes nobody reads
        in other ways had better be declared with ``changes=False``: they are kept in memory until they are read.
        """
        names = [self._output(name).name for name in (self._outputs if outputs is None else outputs)]
        self._stepper.recorder_for("to_changelog").to_changelog(path, names)
