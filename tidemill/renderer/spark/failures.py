"""Errors on their way from executors to the driver: as text in Spark's own, from which ours are made again."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import functools
import json
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from tidemill import errors
from tidemill.errors import ExpressionError, StepError, UserFunctionError, brief
from tidemill.renderer.spark.exact_floats import OUTSIDE
from tidemill.site import Site

TOO_MANY: Final = "tidemill: a count beyond 2**31 at node "
"""The error that the check of counts raises in Catalyst, followed by the node's number."""

OTHER_DISKS: Final = (
    "some executors have other disks; give tm.Spark a state= on one that they all share with this process, or an "
    "in_driver= that no change goes beyond"
)
"""Why a file of state is not where it should be, and what to do."""

_ENCODED: Final = re.compile(r"tidemill-error:([A-Za-z0-9+/=]+):")
_COUNT: Final = re.compile(re.escape(TOO_MANY) + r"(\d+)")
_OF_VALUES: Final = re.compile(
    r"\[[A-Z_]*(?:OVERFLOW|BY_ZERO|CAST_|PARSE_|OUT_OF_RANGE|OUT_OF_BOUNDS|INVALID_|MALFORMED|RAISED|DATETIME"
    r"|DATATYPE_MISMATCH)[A-Z_.]*\]"  # functions take fewer types in an older Spark
    r"|RuntimeException: tidemill: "  # what we raise, in a session in which that has no class
)
_MISSING: Final = re.compile(
    r"ModuleNotFoundError: (No module named '[\w.]+')"
    r"|\[(?:PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION|PYTHON_VERSION_MISMATCH)\] (.+)"
)
_MOST_FETCHED: Final = "spark.driver.maxResultSize"
_UNREAD: Final = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\].*? file (file:.*?/cold/[^/]+\.parquet)"
    r"|StateError: (\S*?/cold/[^/]+\.pages) is missing"
)
_LOST: Final = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND]"

Batches = Iterator[pa.RecordBatch]


class TaskError(Exception):
    """Raised in a task for an error of ours, whose encoding the text of Spark's error will contain."""


def with_encoded_errors(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return a task that raises its errors encoded, so that `decoded_error` can read them."""

    @functools.wraps(function)
    def run(batches: Batches) -> Batches:
        try:
            yield from function(batches)
        except StepError as error:
            raise TaskError(_encoded(error)) from None

    return run


def decoded_error(error: BaseException) -> StepError | None:
    """Return the error of ours that a task raised, with the traceback of the user's function; None of any other."""
    found = _ENCODED.search(str(error))
    if found is None:
        return None
    content = json.loads(base64.b64decode(found[1]))
    kind: type[StepError] = getattr(errors, content["kind"])
    made = kind(*content["args"]).about(**{name: _untagged(v) for name, v in content["about"].items()})
    if content["cause"]:
        made.__cause__ = TaskError(f"in an executor:\n{content['cause']}")
    return made


def overflowed_node(error: BaseException) -> int | None:
    """Return the number of the node whose counts became too large, where that is the error."""
    found = _COUNT.search(str(error))
    return int(found[1]) if found else None


def is_overflow(error: BaseException) -> bool:
    """Return whether Spark added up to more than 64 bits hold."""
    return "[ARITHMETIC_OVERFLOW]" in str(error)


def is_of_floats(error: BaseException) -> bool:
    """Return whether floats were too far apart, or not finite, for Catalyst to add them up."""
    return OUTSIDE in str(error)


def missing_in_python(error: BaseException) -> str | None:
    """Return what the Python of the executors, or of this process, lacks, where that is the error."""
    found = _MISSING.search(str(error))
    return (found[1] or found[2]) if found is not None else None


def unread_state(error: BaseException) -> str | None:
    """Return the file of a run's state that an executor did not find, where that is the error."""
    found = _UNREAD.search(str(error))
    return (found[1] or found[2]) if found is not None else None


def is_too_large_to_fetch(error: BaseException) -> bool:
    """Return whether what was to be collected on the driver has more bytes than Spark's setting allows."""
    return _MOST_FETCHED in str(error)


def has_lost_blocks(error: BaseException) -> bool:
    """Return whether a step failed because an executor was lost, and with it checkpointed blocks."""
    return _LOST in str(error)


def is_worth_care(error: BaseException) -> bool:
    """Return whether a step with this error may succeed when taken with care, or say better what is wrong."""
    ours = decoded_error(error)
    if ours is not None:
        return isinstance(ours, (ExpressionError, UserFunctionError))
    return bool(_OF_VALUES.search(str(error)))


_MOST_SENT: Final = 100_000
"""Longer values of a row are cut: executors write what is sent into their logs, once for each attempt."""
_DATA: Final = ("operator", "site", "column", "row", "time")
_TAGGED: Final[dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "tuple": (tuple, lambda v: [_tagged(x) for x in v], lambda v: tuple([_untagged(x) for x in v])),
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "site": (Site, lambda v: [v.file, v.line], lambda v: Site(*v)),
}
"""Types that JSON has no value for, and how they are written and read. A datetime is a date, so it comes first."""


def _tagged(value: Any) -> Any:
    if isinstance(value, (str, bytes)) and len(value) > _MOST_SENT:
        return brief(value)
    for tag, (kind, write, _) in _TAGGED.items():
        if isinstance(value, kind):
            return {tag: write(value)}
    return value


def _untagged(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((tag, written),) = value.items()
    return _TAGGED[tag][2](written)


def _encoded(error: StepError) -> str:
    cause: Any = error.__cause__
    text = "".join(traceback.format_exception(cause)) if cause is not None else ""
    about = {name: _tagged(getattr(error, name)) for name in _DATA if getattr(error, name) is not None}
    content = {"kind": type(error).__name__, "args": list(error.args), "cause": text, "about": about}
    return f"{error}\ntidemill-error:{base64.b64encode(json.dumps(content, default=repr).encode()).decode()}:"
