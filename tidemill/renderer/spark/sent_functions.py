"""Users' functions that cannot go to executors, or that end the Python there: which, and what is to be done.

Spark says what happened and not to which operator. A function that cannot be pickled is found by pickling each of the
graph's; a worker that has gone cannot say what it ran, so that all that it may have run are named.
"""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pyspark import cloudpickle

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.errors import EngineError, TidemillError, UserFunctionError
from tidemill.renderer.runs.failures import of_node
from tidemill.renderer.spark.tasks import detached

_Function: TypeAlias = tuple[Node, str, Any]
"""A node, and the user's function that it calls, in words and itself."""

_UNMADE: Final = re.compile(r"in read_command\n.*?^(\w[\w.]*: [^\n]*)", re.DOTALL | re.MULTILINE)
"""How a worker says that it could not make a function of what was sent."""
_ENDED: Final = re.compile(
    r"Python worker exited unexpectedly[^.\n]*|^SystemExit[^\n]*|^KeyboardInterrupt|ExecutorLostFailure[^\n]*",
    re.MULTILINE,
)
_TO_SEND: Final = (
    "Executors get functions pickled, with what these refer to: refer to values, and make what is of one process "
    "alone, as locks, connections, open files and Spark sessions are, within the function, or in one that it calls "
    "with functools.cache around it"
)
_TO_STAY: Final = (
    "It called os._exit or sys.exit, or crashed in native code, or the system stopped it for want of memory: try it on "
    "few rows with an engine in this process, have fewer rows in a partition or give executors more memory "
    "(spark.executor.memoryOverhead); the executor's log says more, with spark.python.worker.faulthandler.enabled=true "
    "the line too"
)


def error_of_function(graph: Graph, error: BaseException) -> TidemillError | None:
    """Return the error of ours that says of which function Spark's error is; None where it is of none."""
    functions = _functions(graph)
    if isinstance(error, pickle.PickleError):
        return next(
            (_unsent(*one, why) for one in functions if (why := _unpicklable(detached(one[0]))) is not None), None
        )
    text = str(error)
    if (found := _UNMADE.search(text)) is not None:
        ill = [one for one in functions if not _is_made_here(one[0])]
        return _of_one(ill or functions, f"cannot be made in the executors' Python ({found[1]})", _TO_SEND)
    if (found := _ENDED.search(text)) is not None:
        return _of_one(functions, f"ended the executors' Python ({found[0].strip()})", _TO_STAY)
    return None


def _unsent(node: Node, name: str, function: Any, why: str) -> TidemillError:
    held = _held(function)
    because = f", because of {held!r}" if held else ""
    msg = f"{node.where}: {name} cannot be sent to Spark's executors{because} ({why}). {_TO_SEND}"
    return of_node(node, UserFunctionError(msg))


def _of_one(functions: Sequence[_Function], what: str, to_do: str) -> TidemillError:
    """Return the error of a function that is one of these."""
    if not functions:
        return EngineError(f"tidemill's kernels: one {what}. {to_do}")
    if len(functions) > 1:
        names = "; ".join(f"{node.where}: {name}" for node, name, _ in functions)
        return UserFunctionError(f"{names}: one of these {what}. {to_do}")
    ((node, name, _),) = functions
    return of_node(node, UserFunctionError(f"{node.where}: {name} {what}. {to_do}"))


def _functions(graph: Graph) -> list[_Function]:
    """Return the nodes that call users' functions, with these."""
    found = []
    for node in graph.nodes:
        function = getattr(node.logic if isinstance(node, Reduce) else node, "function", None)
        if callable(function) and not str(getattr(function, "__module__", "")).startswith("tidemill."):
            name = getattr(function, "__qualname__", type(function).__name__)
            found.append((node, f"the function {name!r}", function))
    return found


def _unpicklable(what: Any) -> str | None:
    """Return why something cannot be pickled; None where it can."""
    try:
        cloudpickle.dumps(what)
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        return f"{type(error).__name__}: {error}"
    return None


def _is_made_here(node: Node) -> bool:
    try:
        cloudpickle.loads(cloudpickle.dumps(detached(node)))
    except Exception:  # noqa: BLE001 - whatever users' classes raise
        return False
    return True


def _held(function: Any) -> str | None:
    """Return the name of what a function refers to that cannot be pickled, where it is found."""
    try:
        seen = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return None
    return next((n for n, v in {**seen.nonlocals, **seen.globals}.items() if _unpicklable(v) is not None), None)
