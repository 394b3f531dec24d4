"""Taking a step, and taking it again where Spark's first answer is not the last word, or executors went on the way."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from tidemill.dataflow.graph import Graph
from tidemill.errors import EngineError, TidemillError
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.failures import blocks_lost, may_be_ours, node_of, sent, unfit

__all__ = ["attempted", "in_our_words"]

T = TypeVar("T")

TRIES: Final = 3
"""How often a step is taken before losing executors is an error."""

_WORKERS: Final = (
    "the Python of Spark's executors, in which your functions and tidemill's kernels run, has to have what is here: "
    f"Python {sys.version_info.major}.{sys.version_info.minor}, tidemill with its dependencies, the modules that your "
    "functions import. Install them there, over Spark Connect on the server's side; PYSPARK_PYTHON says which it is"
)
_LOST: Final = (
    "executors went, and with them what Spark's localCheckpoint kept there: where an input's DataFrame is one that was "
    "cut off from its past like this, make it anew, or write and read it; else find out in Spark's logs why executors "
    f"go, which they did in each of {TRIES} attempts"
)


def attempted(graph: Graph, take: Callable[[bool], T]) -> T:
    """Return what a step gives; taken with care where Spark raised what may be no error, or what we can say better."""
    with in_our_words():
        return _attempted(graph, take)


@contextlib.contextmanager
def in_our_words() -> Iterator[None]:
    """Within the block, what Spark raises for want of what it takes to work is raised as `EngineError`."""
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        if blocks_lost(error):
            raise EngineError(_LOST) from error
        if (lack := unfit(error)) is not None:
            msg = f"{lack}: {_WORKERS}"
            raise EngineError(msg) from error
        raise


def _attempted(graph: Graph, take: Callable[[bool], T]) -> T:
    try:
        return _in_spite_of_losses(take, False)
    except TidemillError:
        raise
    except Exception as error:
        if (ours := sent(error)) is not None and not may_be_ours(error):
            raise ours from ours.__cause__
        if not may_be_ours(error):
            raise
    try:
        return _in_spite_of_losses(take, True)
    except TidemillError:
        raise
    except Exception as error:
        if (ours := sent(error)) is not None:
            raise ours from ours.__cause__
        if (place := node_of(error)) is not None:
            raise failures.too_many(graph.nodes[place]) from None
        raise


def _in_spite_of_losses(take: Callable[[bool], T], carefully: bool) -> T:
    """Take a step; from its beginning again where an executor went with what had been worked out so far."""
    for _ in range(TRIES - 1):
        try:
            return take(carefully)
        except Exception as error:
            if not blocks_lost(error):
                raise
    return take(carefully)
