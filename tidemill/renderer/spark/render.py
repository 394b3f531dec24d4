"""A whole history at once: DataFrames of updates in, DataFrames of updates out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Input, Output
from tidemill.errors import UnknownNameError, did_you_mean
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.spark.dataframes import Names, checked_inputs, typed_updates
from tidemill.renderer.spark.frames import Frame, consolidated, materialised, names
from tidemill.renderer.spark.retries import retried, translated_errors
from tidemill.renderer.spark.session import check_session
from tidemill.renderer.spark.step import Step
from tidemill.renderer.spark.strategy import Strategy
from tidemill.renderer.spark.types import struct
from tidemill.renderer.spark.unique import check_unique

__all__ = ["render"]


def render(
    graph: Graph, spark: SparkSession, frames: Mapping[str, Any], time: str | None, diff: str
) -> dict[str, DataFrame]:
    """Return each output's consolidated updates. See ``tidemill.render``."""
    check_session(spark)
    for name in frames:
        if name not in graph.inputs:
            msg = f"no input {name!r}: {did_you_mean(name, graph.inputs)}"
            raise UnknownNameError(msg)
    for name in graph.inputs:
        if name not in frames:
            msg = f"no DataFrame for the input {name!r}: frames has {list(frames)}; give an empty one if need be"
            raise UnknownNameError(msg)
    named = Names.of(graph.coordinates, time, diff)
    sensitive = str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    for node in (*graph.inputs.values(), *graph.outputs.values()):
        named.check(node.schema, node.where, sensitive=sensitive)
    with translated_errors(graph):
        typed = {node: typed_updates(node, frames[name], named) for name, node in graph.inputs.items()}
        inputs = checked_inputs(typed, named)
    outputs = retried(graph, lambda strategy: _step(spark, graph, inputs, strategy))
    return {node.name: _named(spark, node, frame, named) for node, frame in outputs.items()}


def _step(
    spark: SparkSession, graph: Graph, inputs: dict[Input, Frame | None], strategy: Strategy
) -> dict[Output, Frame | None]:
    known = dict(inputs)
    for node, frame in inputs.items():
        if node.unique and frame is not None:
            check_unique(node, frame)
            known[node] = attrs.evolve(frame, consolidated=frame.consolidated or frame.diffs == (1, 1))
    step = Step(spark, graph, known, strategy)
    step.run()
    found = {}
    for output in graph.outputs.values():
        change = step.deltas[output]
        found[output] = materialised(consolidated(change)) if change is not None else None
    return found


def _named(spark: SparkSession, node: Output, frame: Frame | None, named: Names) -> DataFrame:
    schema = node.schema
    wanted = [*schema.names, *named.times, named.diff]
    if frame is None:
        whole = Schema((*schema, *(Field(name, INT64) for name in (*named.times, named.diff))))
        return spark.createDataFrame([], struct(whole))
    inside = names(frame.width, frame.coordinates)
    return frame.data.select(*inside).toDF(*wanted)
