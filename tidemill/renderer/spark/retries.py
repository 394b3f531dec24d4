"""Steps tried again: with care where Spark's error may be none, and anew where executors were lost on the way."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from tidemill.dataflow.graph import Graph
from tidemill.errors import EngineError, TidemillError
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.failures import (
    OTHER_DISKS,
    decoded_error,
    has_lost_blocks,
    is_of_floats,
    is_overflow,
    is_worth_care,
    missing_in_python,
    overflowed_node,
    unread_state,
)
from tidemill.renderer.spark.native import adds_floats
from tidemill.renderer.spark.sent_functions import error_of_function
from tidemill.renderer.spark.strategy import CAREFUL, FAST, KERNELS_FOR_FLOATS, Strategy

T = TypeVar("T")
_LOG: Final = logging.getLogger("tidemill.spark")

TRIES: Final = 3
"""How often a step is tried before lost executors are an error."""

_WORKERS: Final = (
    "the Python of Spark's executors, in which your functions and tidemill's kernels run, has to have what is here: "
    f"Python {sys.version_info.major}.{sys.version_info.minor}, tidemill with its dependencies, the modules that your "
    "functions import. Install them there, over Spark Connect on the server's side, or send them: tm.ship(spark); "
    "PYSPARK_PYTHON says which Python it is"
)
_LOST: Final = (
    "executors went, and with them what Spark's localCheckpoint kept there: where an input's DataFrame is one that was "
    "cut off from its past like this, make it anew, or write and read it; else find out in Spark's logs why executors "
    f"go, which they did in each of {TRIES} attempts"
)


def retried(graph: Graph, take: Callable[[Strategy], T]) -> T:
    """Return the result of a step, computed fast; then in other ways where Spark raised what may be no error."""
    strategy = FAST
    with translated_errors(graph):
        while strategy is not CAREFUL:
            try:
                return _in_spite_of_losses(take, strategy)
            except TidemillError:
                raise
            except Exception as error:
                if not is_worth_care(error):
                    raise
                strategy = _after(strategy, error, graph)
                _LOG.info("%s: a step is tried again, %s: %s", graph.name, strategy.name, type(error).__name__)
        return _in_spite_of_losses(take, CAREFUL)


@contextlib.contextmanager
def translated_errors(graph: Graph) -> Iterator[None]:
    """Within the block, raise our own errors for those of Spark whose meaning is known."""
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        if (ours := decoded_error(error)) is not None:
            raise ours from ours.__cause__
        if (node := overflowed_node(error)) is not None:
            raise failures.too_many(graph.nodes[node]) from None
        if is_overflow(error):  # taken with care, so not of an expression
            raise failures.count_overflow() from error
        if has_lost_blocks(error):
            raise EngineError(_LOST) from error
        if (file := unread_state(error)) is not None:
            msg = f"{file}: an executor did not find it: {OTHER_DISKS}"
            raise EngineError(msg) from error
        if (lack := missing_in_python(error)) is not None:
            msg = f"{lack}: {_WORKERS}"
            raise EngineError(msg) from error
        if (told := error_of_function(graph, error)) is not None:
            raise told from error
        raise


def _after(strategy: Strategy, error: Exception, graph: Graph) -> Strategy:
    """Return the strategy to try after one that ended in an error, which may be that floats are too far apart."""
    of_floats = is_of_floats(error) or (is_overflow(error) and any(map(adds_floats, graph.nodes)))
    return KERNELS_FOR_FLOATS if of_floats and strategy is FAST else CAREFUL


def _in_spite_of_losses(take: Callable[[Strategy], T], strategy: Strategy) -> T:
    """Take a step; again from its beginning where executors were lost, and checkpointed blocks with them."""
    for attempt in range(1, TRIES):
        try:
            return take(strategy)
        except Exception as error:
            if not has_lost_blocks(error):
                raise
            _LOG.warning("executors were lost, and results with them: the step is tried again (%s)", attempt)
    return take(strategy)
