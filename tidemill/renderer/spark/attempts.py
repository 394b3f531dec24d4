"""Taking a step, and taking it again where Spark's first answer is not the last word."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidemill.dataflow.graph import Graph
from tidemill.errors import TidemillError
from tidemill.renderer import failures
from tidemill.renderer.spark.failures import may_be_ours, node_of, sent

__all__ = ["attempted"]

T = TypeVar("T")


def attempted(graph: Graph, take: Callable[[bool], T]) -> T:
    """Return what a step gives; taken with care where Spark raised what may be no error, or what we can say better."""
    try:
        return take(False)
    except TidemillError:
        raise
    except Exception as error:
        if (ours := sent(error)) is not None and not may_be_ours(error):
            raise ours from ours.__cause__
        if not may_be_ours(error):
            raise
    try:
        return take(True)
    except TidemillError:
        raise
    except Exception as error:
        if (ours := sent(error)) is not None:
            raise ours from ours.__cause__
        if (place := node_of(error)) is not None:
            raise failures.too_many(graph.nodes[place]) from None
        raise
