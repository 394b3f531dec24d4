"""Watermarks: which inputs have one, and which collections still do after what was done to their rows."""

from __future__ import annotations

from typing import Any

from tidemill.collections.builder import Builder, DeclaredWatermark
from tidemill.dataflow import nodes
from tidemill.dataflow.nodes import Node
from tidemill.errors import GraphError, SchemaError, brief
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.instants import require_instant, units_of
from tidemill.expressions.schema import Field, Schema

_ONE_TIME = "watermarks are for times of one coordinate, and the dataflow's are {}, which are in no single order"


def declare(builder: Builder, node: nodes.Input, given: Any) -> None:
    """Give an input the watermark that a user asks for: a column and a delay, or a column alone."""
    what = f"input {node.name!r}, watermark={brief(given)}"
    coordinates = builder.graph.coordinates
    if len(coordinates) != 1:
        raise GraphError(f"{what}: {_ONE_TIME.format(coordinates)}")
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2  # noqa: PLR2004
    name = given[0] if is_pair else given
    if not isinstance(name, str):
        msg = f"{what}: expected a column and a delay, as in ('ts', timedelta(minutes=5)), or a column alone"
        raise GraphError(msg)
    column = node.schema.index(name)
    dtype = node.schema.fields[column].dtype
    require_instant(dtype, what)
    delay = units_of(given[1], dtype, what) if is_pair else None
    told = builder.graph.add(
        nodes.Input,
        scope=builder.graph.root,
        name=nodes.watermark_input(node.name),
        schema=Schema((Field("watermark", dtype, nullable=False),)),
    )
    builder.watermarks[node] = DeclaredWatermark(column, delay, told)


def sort_buffer(builder: Builder, node: Node, column: str) -> Node:
    """Return the rows in the order of a column, as the watermark releases them."""
    mark = watermark_of(builder, node, column, "sort_buffer")
    return released(builder, node, mark, node.schema.index(column))


def released(builder: Builder, node: Node, mark: Node, column: int) -> Node:
    """Return rows as a watermark passes the values of a column, without late ones."""
    return builder.add(nodes.SortBuffer, node, mark, column=column)


def held_back(builder: Builder, node: Node, mark: Node, column: int, extra: int) -> Node:
    """Return rows as a watermark passes the values of a column plus an extra distance, or has passed them already."""
    return builder.add(nodes.SortBuffer, node, mark, column=column, extra=extra, drops_late=False)


def late_rows(builder: Builder, node: Node, column: str) -> Node:
    """Return the updates that a sort buffer drops."""
    mark = watermark_of(builder, node, column, "late_rows")
    return builder.add(nodes.LateRows, node, mark, column=node.schema.index(column))


def on_time(builder: Builder, node: Node, column: str) -> Node:
    """Return the updates that are not late, as they come."""
    mark = watermark_of(builder, node, column, "on_time")
    return builder.add(nodes.LateRows, node, mark, column=node.schema.index(column), on_time=True)


def watermark(builder: Builder, node: Node, column: str) -> Node:
    """Return the watermark of a column, as a collection of one row."""
    return watermark_of(builder, node, column, "watermark")


def watermark_of(builder: Builder, node: Node, column: str, what: str) -> Node:
    """Return the watermark of a collection's column; ``GraphError`` where it has none, with the reason."""
    if not isinstance(column, str):
        msg = f"{what}({column!r}): expected the name of the column that the watermark is of"
        raise SchemaError(msg)
    graph, position = builder.graph, node.schema.index(column)
    head = f"{what}({column!r}) of {node.where}"
    if len(graph.coordinates) != 1:
        raise GraphError(f"{head}: {_ONE_TIME.format(graph.coordinates)}")
    if node.scope is not graph.root:
        msg = f"{head} is inside the loop {node.scope.path}, whose rounds are at one time: sort rows before the loop"
        raise GraphError(msg)
    sources = dict.fromkeys(_sources(builder, node, position, head))
    inputs: list[Node] = []
    marks: list[nodes.Mark] = []
    for number, source in enumerate(sources):
        declared = builder.watermarks[source]
        if declared.delay is not None:
            inputs.append(source)
            marks.append(nodes.Mark(number, declared.column, declared.delay, told=False))
        inputs.append(declared.told)
        marks.append(nodes.Mark(number, 0, 0, told=True))
    schema = Schema((Field("watermark", node.schema.fields[position].dtype, nullable=False),))
    return graph.add(nodes.Watermark, scope=graph.root, inputs=tuple(inputs), schema=schema, marks=tuple(marks))


def _sources(builder: Builder, node: Node, column: int, head: str) -> list[nodes.Input]:
    """Return the inputs whose watermarks those of a column are, which it comes from unchanged."""
    if isinstance(node, nodes.Input):
        declared = builder.watermarks.get(node)
        if declared is None:
            what = f"input {node.name!r}" if node.rows is None else "the constant"
            hint = "open it with flow.input(..., watermark=(column, delay)), or watermark=column and run.watermark(...)"
            raise GraphError(f"{head}: {what} has no watermark: {hint}")
        if declared.column != column:
            own, asked = (repr(node.schema.names[i]) for i in (declared.column, column))
            msg = f"{head}: the watermark of input {node.name!r} is of {own}, not of {asked}"
            raise GraphError(msg)
        return [node]
    if isinstance(node, nodes.LateRows) and node.on_time:
        return _sources(builder, node.inputs[0], column, head)
    if isinstance(node, (nodes.Filter, nodes.Consolidate, nodes.Inspect)):
        return _sources(builder, node.inputs[0], column, head)
    if isinstance(node, nodes.Concat):
        return [found for source in node.inputs for found in _sources(builder, source, column, head)]
    if isinstance(node, nodes.Map):
        picked = node.columns[column]
        if isinstance(picked, BoundColumn):
            return _sources(builder, node.inputs[0], picked.index, head)
        msg = f"{head}: {node.schema.names[column]!r} is computed by {node.where}: a watermark is of an input's column"
        raise GraphError(msg)
    msg = (
        f"{head}: {node.where} may give rows below its inputs' watermark at any time, so there is none behind it: only "
        "select, with_columns and filter that keep the column, and concat, leave a watermark; use it before"
    )
    raise GraphError(msg)
