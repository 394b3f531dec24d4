"""How an error gets from an executor, as text in Spark's own error, back to the driver as an error of ours."""

from __future__ import annotations

import base64
import functools
import json
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from tidemill import errors
from tidemill.errors import ExpressionError, StepError, UserFunctionError

__all__ = [
    "TOO_MANY", "TaskError", "decoded_error", "has_lost_blocks", "is_worth_care", "missing_in_python",
    "overflowed_node", "with_encoded_errors",
]  # fmt: skip

TOO_MANY: Final = "tidemill: a count beyond 2**31 at node "
"""What the check of counts raises in Catalyst, followed by the node's number."""

_ENCODED: Final = re.compile(r"tidemill-error:([A-Za-z0-9+/=]+):")
_COUNT: Final = re.compile(re.escape(TOO_MANY) + r"(\d+)")
_OF_VALUES: Final = re.compile(
    r"\[[A-Z_]*(?:OVERFLOW|BY_ZERO|CAST_|OUT_OF_RANGE|OUT_OF_BOUNDS|INVALID_|MALFORMED|RAISED|DATETIME)[A-Z_.]*\]"
)
_MISSING: Final = re.compile(
    r"ModuleNotFoundError: (No module named '[\w.]+')"
    r"|\[(?:PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION|PYTHON_VERSION_MISMATCH)\] (.+)"
)
_LOST: Final = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND]"

Batches = Iterator[pa.RecordBatch]


class TaskError(Exception):
    """What a task raises for an error of ours, so that it can be read out of the text that the driver is given."""


def with_encoded_errors(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return the function of a task, its errors written so that `decoded_error` can read them."""

    @functools.wraps(function)
    def run(batches: Batches) -> Batches:
        try:
            yield from function(batches)
        except StepError as error:
            raise TaskError(_encoded(error)) from None

    return run


def decoded_error(error: BaseException) -> StepError | None:
    """Return the error of ours that a task raised, with the traceback of the user's function; None for any other."""
    found = _ENCODED.search(str(error))
    if found is None:
        return None
    content = json.loads(base64.b64decode(found[1]))
    kind: type[StepError] = getattr(errors, content["kind"])
    made = kind(*content["args"])
    if content["cause"]:
        made.__cause__ = TaskError(f"in an executor:\n{content['cause']}")
    return made


def overflowed_node(error: BaseException) -> int | None:
    """Return the number of the node at which counts became too large, where that is what failed."""
    found = _COUNT.search(str(error))
    return int(found[1]) if found else None


def missing_in_python(error: BaseException) -> str | None:
    """Return what the Python of the executors, or of this process, lacks, where that is why a step failed."""
    found = _MISSING.search(str(error))
    return (found[1] or found[2]) if found is not None else None


def has_lost_blocks(error: BaseException) -> bool:
    """Return whether a step failed since an executor went, and with it what it had of what was worked out before."""
    return _LOST in str(error)


def is_worth_care(error: BaseException) -> bool:
    """Return whether a step that failed like this may succeed on consolidated updates, or say better what is wrong."""
    ours = decoded_error(error)
    if ours is not None:
        return isinstance(ours, (ExpressionError, UserFunctionError))
    return bool(_OF_VALUES.search(str(error)))


def _encoded(error: StepError) -> str:
    cause: Any = error.__cause__
    text = "".join(traceback.format_exception(cause)) if cause is not None else ""
    content = {"kind": type(error).__name__, "args": list(error.args), "cause": text}
    return f"{error}\ntidemill-error:{base64.b64encode(json.dumps(content, default=repr).encode()).decode()}:"
