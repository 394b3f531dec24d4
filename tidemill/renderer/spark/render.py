"""A whole history at once: DataFrames of updates in, DataFrames of updates out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Mapping
from typing import Any, Final

import attrs
import networkx as nx
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.update_tables import Names
from tidemill.dataflow.composites import Composite, PartneredJoin
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import (
    Arrange,
    Concat,
    Consolidate,
    Filter,
    FlatMap,
    Input,
    Join,
    Map,
    Negate,
    Output,
    Reduce,
    Threshold,
    watermark_input,
)
from tidemill.errors import UnknownNameError, did_you_mean
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.dataframes import Given, check_capitals, checked_inputs, given, guarded_inputs
from tidemill.renderer.spark.frames import DIFF, Frame, columns, computed
from tidemill.renderer.spark.join import NotOfRowsError
from tidemill.renderer.spark.keyed import KeyedRound
from tidemill.renderer.spark.retries import retried, translated_errors
from tidemill.renderer.spark.scalars import cannot_fail
from tidemill.renderer.spark.session import check_session
from tidemill.renderer.spark.step import COMPOSITES, JOINS, Step
from tidemill.renderer.spark.strategy import CAREFUL, Strategy
from tidemill.renderer.spark.types import struct


def render(  # noqa: PLR0917 - as tidemill.render has them
    plan: Callable[[frozenset[type[Composite]]], Graph],
    spark: SparkSession,
    frames: Mapping[str, Any],
    time: str | None,
    diff: str,
    in_driver: int,
) -> dict[str, DataFrame]:
    """Return the contents of each output, from the graph as planned where these composites are not lowered.

    See ``tidemill.render``. Where all are rows, joins are first tried as Spark has them.
    """
    graph = plan(COMPOSITES | JOINS)
    joins = [node for node in graph.nodes if isinstance(node, PartneredJoin)]
    if joins:
        said = {name for frame in frames.values() for name in getattr(frame, "columns", ())}
        if said.isdisjoint([*Names.of(graph.coordinates, time, diff).times, diff]) and not graph.scopes[1:]:
            with contextlib.suppress(NotOfRowsError):
                return _rendered(graph, spark, frames, time, diff, in_driver)
        graph = plan(COMPOSITES)
    return _rendered(graph, spark, frames, time, diff, in_driver)


def _rendered(  # noqa: PLR0917 - as above
    graph: Graph, spark: SparkSession, frames: Mapping[str, Any], time: str | None, diff: str, in_driver: int
) -> dict[str, DataFrame]:
    check_session(spark)
    for name in frames:
        if name not in graph.inputs:
            msg = f"no input {name!r}: {did_you_mean(name, graph.inputs)}"
            raise UnknownNameError(msg)
    told = {watermark_input(name) for name in graph.inputs}
    untold = {n: spark.createDataFrame([], struct(i.schema)) for n, i in graph.inputs.items() if n in told}
    frames = {**untold, **frames}
    for name in graph.inputs:
        if name not in frames:
            msg = f"no DataFrame for the input {name!r}: frames has {list(frames)}; give an empty one if need be"
            raise UnknownNameError(msg)
    named = Names.of(graph.coordinates, time, diff)
    sensitive = str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    for node in (*graph.inputs.values(), *graph.outputs.values()):
        named.check(node.schema, node.where)
        check_capitals(named, node.schema, node.where, sensitive=sensitive)
    with translated_errors(graph):
        typed = {node: given(node, frames[name], named) for name, node in graph.inputs.items()}
    said = {name for frame in frames.values() for name in frame.columns}
    inserted = {node for name, node in graph.inputs.items() if diff not in frames[name].columns}
    inputs = _Inputs(graph, typed, named, inserted, at_once=said.isdisjoint(named.times))
    rows = said.isdisjoint([*named.times, named.diff])
    sure = {o for o in graph.outputs.values() if rows and _is_sure(graph, o, typed)}

    def take(strategy: Strategy) -> dict[Output, Frame | None]:
        step = Step(spark, graph, _promised(inputs.to(strategy)), strategy)
        step.as_they_come, step.loops_in_driver = rows, in_driver
        step.run()
        found = {}
        for output in graph.outputs.values():
            change = step.deltas[output]
            lazy = output in sure and strategy is not CAREFUL
            found[output] = change if change is None or (lazy and change.inserted) else computed(change)
        return found

    outputs = retried(graph, take)
    return {node.name: _named(spark, node, frame, named) for node, frame in outputs.items()}


_ROW_BY_ROW: Final = (Input, Map, Filter, Concat, Arrange, Join, PartneredJoin)
"""Operators whose rows come from rows, each there once, without sums and users' functions."""
_IN_ONE_PASS: Final = (*_ROW_BY_ROW, FlatMap, Negate, Consolidate, Reduce, Threshold, Output)


class _Inputs:
    """The updates of inputs: checked as they are read where nobody has to know their number, else by a job before."""

    def __init__(
        self, graph: Graph, typed: Mapping[Input, Given], named: Names, inserted: Container[Input], *, at_once: bool
    ) -> None:
        """Prepare for them: ``inserted`` are those with rows only, ``at_once`` says that all are at time 0."""
        self._typed = typed
        self._named = named
        self._inserted = inserted
        self._read_once = at_once and all(
            isinstance(n, _IN_ONE_PASS) and not (isinstance(n, Input) and n.unique) for n in graph.nodes
        )
        self._checked: dict[Input, Frame | None] | None = None

    def to(self, strategy: Strategy) -> dict[Input, Frame | None]:
        """Return them for a step."""
        if self._read_once and strategy is not CAREFUL:
            return self._noted(guarded_inputs(self._typed, self._named))
        if self._checked is None:
            self._checked = self._noted(checked_inputs({n: g.updates for n, g in self._typed.items()}, self._named))
        return self._checked

    def _noted(self, frames: Mapping[Input, Frame | None]) -> dict[Input, Frame | None]:
        return {n: f and attrs.evolve(f, inserted=n in self._inserted) for n, f in frames.items()}


def _promised(inputs: dict[Input, Frame | None]) -> dict[Input, Frame | None]:
    """Return updates of inputs that have no row twice where that is promised."""
    for node, frame in inputs.items():
        if node.unique and frame is not None:
            check_unique(node, frame)
    return inputs


def _is_sure(graph: Graph, output: Output, data: Mapping[Input, Given]) -> bool:
    """Return whether an output of rows has no errors, as far as the schemas tell: then nothing need be computed."""
    for node in (graph.nodes[i] for i in nx.ancestors(graph.digraph(), output.id)):
        if not isinstance(node, _ROW_BY_ROW):
            return False
        if isinstance(node, Input) and (node.unique or _may_lack_values(node, data)):
            return False
        expressions = node.columns if isinstance(node, Map) else [node.predicate] if isinstance(node, Filter) else []
        if isinstance(node, PartneredJoin) and node.condition is not None:
            expressions = [node.condition]
        if not all(map(cannot_fail, expressions)):
            return False
    return True


def _may_lack_values(node: Input, data: Mapping[Input, Given]) -> bool:
    """Return whether a column that has to have values may have NULL, for all that Spark says."""
    if node not in data:  # a constant, which is checked
        return False
    return any(may and not f.nullable for f, may in zip(node.schema, data[node].nullable, strict=True))


def _named(spark: SparkSession, node: Output, frame: Frame | None, named: Names) -> DataFrame:
    schema = node.schema
    if frame is None:
        whole = Schema((*schema, *(Field(name, INT64) for name in (*named.times, named.diff))))
        return spark.createDataFrame([], struct(whole))
    return frame.data.toDF(*schema.names, *named.times, named.diff)


def check_unique(node: Input, frame: Frame) -> None:
    """Raise where a row's count is not 0 or 1 at some time, naming both. One job."""
    if frame.coordinates > 1:
        keyed = KeyedRound(node, frame.coordinates, (), Antichain.minimum(frame.coordinates), Antichain())
        keyed.once(frame, None).change.data.count()  # type: ignore[union-attr]  # raises what the kernel finds
        return
    row = columns(frame.width)
    window = Window.partitionBy(*row).orderBy("t0").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    summed = frame.data.groupBy(*row, "t0").agg(F.sum(DIFF).alias("n"))
    running = summed.select(*row, "t0", F.sum("n").over(window).alias("n"))
    for *shown, time, count in running.filter(~F.col("n").isin(0, 1)).limit(1).collect():
        raise failures.not_unique(node, tuple(shown), count, (time,))
