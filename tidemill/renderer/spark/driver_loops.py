"""Loops taken in the driver: a round on few rows costs the embedded engine less than one of Spark's jobs.

Such a loop becomes a graph of its own, with an input for each collection that comes into it and an output for each that
leaves it. What comes in is brought to the driver, the embedded engine takes all rounds in one step, and what leaves is
DataFrames again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange, Enter, Input, Leave, Node, Output
from tidemill.dataflow.passes.rebuild import Copy
from tidemill.dataflow.progress import Progress
from tidemill.dataflow.scopes import Scope
from tidemill.renderer.embedded.compile import Compiled
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.operators.join import TooManyPairsError
from tidemill.renderer.embedded.state import operators_of
from tidemill.renderer.spark.failures import is_too_large_to_fetch
from tidemill.renderer.spark.frames import Frame
from tidemill.renderer.spark.live.state_frames import block_of, frame_of
from tidemill.renderer.spark.usage import Usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("tidemill.spark")
_STATE: Final = 8
"""How many updates a loop's operators may hold in the driver, and a join make, for each one that may come into it."""
_LOOK_EVERY: Final = 0.1
"""Seconds after which it is seen how many they hold: turns may take microseconds."""


N = TypeVar("N", Input, Output)


class _TooMuchError(Exception):
    """A loop holds more than the driver is to hold."""


def entering(scope: Scope, usage: Usage) -> dict[Node, list[Node]]:
    """Return the collections that come into a loop, each with the nodes by which it does: itself, its arrangements."""
    found: dict[Node, list[Node]] = defaultdict(list)
    for source in dict.fromkeys(n.inputs[0] for n in usage.nodes_of(scope, Enter)):
        found[source.inputs[0] if isinstance(source, Arrange) else source].append(source)
    return found


def left_in_driver(
    spark: SparkSession, graph: Graph, scope: Scope, usage: Usage, came: Mapping[Node, Frame], *, in_driver: int
) -> dict[Leave, Frame] | None:
    """Return the updates that leave a loop at the top level when these enter it; None where it grows too large.

    ``in_driver`` is how many may come into it.
    """
    loop = _Loop.of(graph, scope, usage)
    executor = EmbeddedExecutor(loop.graph, Progress(loop.graph))
    compiled = executor.compiled
    try:
        for source, node in loop.inputs.items():
            if source in came:
                compiled.inputs[node].ports[0].defer(_fetched(compiled, source, came[source]))
        compiled.schedule.asked = _limited(compiled, in_driver * _STATE)
        compiled.schedule.most_pairs = in_driver * _STATE
        executor.step(dict.fromkeys(loop.inputs.values(), Antichain()))
        found = {leave: compiled.outputs[output].unread_updates() for leave, output in loop.outputs.items()}
        return {n: _frame(spark, compiled, n, block) for n, block in found.items() if block.shape[1]}
    except (_TooMuchError, TooManyPairsError):
        _LOG.info("%s: the loop %r is too large for the driver, the executors take it", graph.name, scope.name)
        return None
    finally:
        executor.close()


@attrs.frozen
class _Loop:
    """A loop as a graph of its own: its inputs and outputs by the nodes that they stand for."""

    graph: Graph
    inputs: Mapping[Node, Input]
    outputs: Mapping[Leave, Output]

    @classmethod
    def of(cls, graph: Graph, scope: Scope, usage: Usage) -> _Loop:
        """Return a loop at the top level of a graph, with what outputs depend on."""
        copy = Copy(graph)
        made = copy.graph
        inputs: dict[Node, Input] = {}
        for node, arranged in entering(scope, usage).items():
            inputs[node] = _named_for(node, Input, made)
            copy.stands_for(inputs[node], node)
            for arrange in arranged:
                if arrange is not node:
                    copy.stands_for(copy.put(arrange), arrange)
        for node in graph.nodes:
            if node.scope.within(scope) and usage.is_used(node):
                copy.stands_for(copy.put(node), node)
        outputs: dict[Leave, Output] = {}
        for leave in usage.leaving(scope):
            left = copy.put(leave)
            outputs[leave] = _named_for(leave, Output, made, left)
        return cls(copy.finished(), inputs, outputs)


def _named_for(node: Node, kind: type[N], graph: Graph, *reads: Node) -> N:
    """Return a new input or output at the top level, with the rows of a node, by a name that no other has."""
    name = f"{node.name} {node.id}"
    made = kind(id=len(graph.nodes), name=name, scope=graph.root, schema=node.schema, site=node.site, inputs=reads)
    return graph.put(made)


def _fetched(compiled: Compiled, source: Node, frame: Frame) -> UpdateArray:
    try:
        return block_of(compiled, source.schema, frame)
    except Exception as error:
        if is_too_large_to_fetch(error):  # few updates, of long texts
            raise _TooMuchError from None
        raise


def _limited(compiled: Compiled, most: int) -> Callable[[], None]:
    """Return a check, to be called before each turn, that operators hold no more than ``most`` updates."""
    operators = list(operators_of(compiled.root))
    looked = 0.0

    def check() -> None:
        nonlocal looked
        if perf_counter() < looked + _LOOK_EVERY:
            return
        if sum(o.state_rows + sum(port.outstanding_size for port in o.ports) for o in operators) > most:
            raise _TooMuchError
        looked = perf_counter()

    return check


def _frame(spark: SparkSession, compiled: Compiled, node: Node, block: UpdateArray) -> Frame:
    return attrs.evolve(frame_of(spark, compiled, node.schema, block), depth=0)  # as good as cut off from its lineage
