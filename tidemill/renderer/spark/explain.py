"""The explanation of a graph on Spark, as text: the plan of each job of a rendering, without running any.

The step walks the graph as ever, but each job is noted instead of run, and its result replaced by a stand-in of ten
million rows, so that Spark plans as it does for large data. Loops end after their second round, which has what every
later one has: updates from the round before, and those stored by earlier rounds.
"""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.dataflow.composites import OrderedDynamicFilter
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Feedback, Input, Node, Reduce
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.operators.one_row import Move
from tidemill.renderer.spark import linear
from tidemill.renderer.spark.dynamic_filter import Moves
from tidemill.renderer.spark.frames import Frame, consolidated, materialised, planning
from tidemill.renderer.spark.large_windows import is_divisible, note_on_large_partitions
from tidemill.renderer.spark.session import check_session
from tidemill.renderer.spark.state import Round
from tidemill.renderer.spark.step import Step
from tidemill.renderer.spark.strategy import FAST

_ROWS: Final = 10_000_000
_COUNTS: Final = {"rows": _ROWS, "output": _ROWS, "kept": _ROWS, "pending": 0}

_HEAD: Final = f"""\
Spark's plan of each job, for {_ROWS:,} rows at several times wherever something comes in. Columns: c0, c1, ... are
those of a row, t0, ... of its time, d is its diff. MapInArrow is what comes in, as an input or from another job, by the
number of the node; or Python in the executors: `task` on rows, `run` a kernel on whole groups."""
_LOOPS: Final = """\
Jobs of loops are those of executors: where few updates come into one, up to `in_driver=`, the driver takes it."""


def explain(graph: Graph, spark: SparkSession) -> str:
    """Return the plans of the jobs that render a graph, each under the node it is for."""
    check_session(spark)
    jobs = _Jobs(spark)
    given: dict[Input, Frame | None] = {}
    for node in graph.inputs.values():
        schema = linear.schema_of_updates(node.schema, len(graph.coordinates))
        data = _stand_in(spark, f"input_{node.id}", schema)
        given[node] = Frame(data, len(node.schema), len(graph.coordinates), rows=_ROWS, cheap=True)
    with planning(jobs.noted):
        step = _Planned(spark, graph, given, jobs)
        step.run()
        for output in graph.outputs.values():
            jobs.at(output, ())
            if (change := step.deltas[output]) is not None:
                materialised(consolidated(change))
    return "\n".join([_HEAD, *([_LOOPS] if graph.scopes[1:] else []), *jobs.lines()])


class _Jobs:
    """The plans of the jobs that a step would run, of each node's latest round."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._plans: dict[tuple[Node, Round], list[str]] = {}
        self._at: tuple[Node, Round] | None = None

    def at(self, node: Node, now: Round) -> None:
        """Note the node and round of the jobs that follow."""
        self._at = node, now

    def noted(self, data: DataFrame) -> tuple[DataFrame, Mapping[str, int]]:
        """Note a job, and return a stand-in for its outcome."""
        assert self._at is not None
        node, now = self._at
        self._plans.setdefault(self._at, []).append(_plan(data))
        stands = "_".join([node.kind.lower(), str(node.id), *(["round", *map(str, now)] if now else [])])
        return _stand_in(self._spark, stands, data.schema), _COUNTS

    def say(self, text: str) -> None:
        """Note what there is to be said of the jobs that follow."""
        assert self._at is not None
        self._plans.setdefault(self._at, []).append("\n".join(textwrap.wrap(text, 118)))

    def lines(self) -> Iterator[str]:
        """Give the plans, each under its node."""
        latest = {node: now for node, now in self._plans}  # noqa: C416 - of a node's rounds the last
        for node, now in latest.items():
            name = "" if node.name == node.kind.lower() else f" {node.name!r}"
            which = "each later" if any(now) else "the first"
            loop = f", in {which} round of {node.scope.name!r}" if now else ""
            for plan in self._plans[node, now]:
                yield f"#{node.id} {node.kind}{name}{loop}:"
                yield textwrap.indent(plan, "  ")


class _Planned(Step):
    """A step that runs two rounds of each loop, and no others."""

    def __init__(self, spark: SparkSession, graph: Graph, given: Mapping[Input, Frame | None], jobs: _Jobs) -> None:
        self._jobs = jobs
        super().__init__(spark, graph, given, FAST)

    def _delta(self, node: Node, now: Round) -> Frame | None:
        self._jobs.at(node, now)
        return super()._delta(node, now)

    def of_reduce(self, node: Reduce, now: Round) -> Frame | None:
        """Say besides what becomes of large partitions, which only data can tell."""
        if not now and is_divisible(node) and self._inputs(node) != [None]:
            self._jobs.say(note_on_large_partitions())
        return super().of_reduce(node, now)

    def of_feedback(self, node: Feedback, now: Round) -> None:
        """Send a round's changes to the second one, from the first."""
        (frame,) = self._inputs(node)
        change = materialised(consolidated(frame)) if frame is not None else None
        if change is not None and now[-1] == 0:
            self._send_later(node.variable, (*now[:-1], 1), linear.moved(change, node.scope.coordinates - 1, 1))

    def of_dynamic_filter(self, node: OrderedDynamicFilter, _now: Round) -> Frame | None:
        """Return the left updates that pass as some value moves once: which one it is, is not known."""
        left, right = self._inputs(node)
        if right is not None:
            materialised(consolidated(right))
        value = (NULL,) * len(node.inputs[1].schema)
        return None if left is None else Moves(node, Interner(), None, [Move(0, None, value)]).filtered(left)

    def _by_round(self, frame: Frame | None) -> list[tuple[Round, Frame]]:
        """Return nothing: the rounds of updates are only known once they are computed."""
        del frame
        return []


def _stand_in(spark: SparkSession, name: str, schema: Any) -> DataFrame:
    """Return a DataFrame that is never computed and has a name in plans."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    rows.__name__ = name
    return spark.range(_ROWS).mapInArrow(rows, schema)


def _plan(data: DataFrame) -> str:
    """Return a plan as Spark prints it."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        data.explain()
    return text.getvalue().replace("== Physical Plan ==", "").strip("\n")
