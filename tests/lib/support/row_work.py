"""How many rows the embedded engine goes through, counted: figures that need no quiet machine.

Counted, only while a `RowWork` is entered, are the rows that some kernels and NumPy functions are given or give, and the
lengths of the arrays whose methods go through all of them. So whatever a step does with all of the state is seen,
wherever that is. The product knows nothing of it: functions are replaced from outside, methods seen by a profile hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from tidemill.renderer.embedded.kernels import updates
from tidemill.renderer.embedded.trace.merging import Merge
from tidemill.renderer.embedded.trace.spine import Spine

PACKAGE: Final = "tidemill.renderer.embedded"
SORTS: Final = {"sort", "argsort", "partition", "argpartition"}
SCANS: Final = {
    "all", "any", "argmax", "argmin", "astype", "choose", "compress", "copy", "cumsum", "max", "min", "nonzero",
    "repeat", "sum", "tolist",
}  # fmt: skip


class Rows(NamedTuple):
    """How many rows there were, or may be, of each kind."""

    hashed: float = 0
    sorted: float = 0
    gathered: float = 0
    """Found in spines, or laid out range by range."""
    scanned: float = 0
    """Gone through by other methods of arrays, or put side by side in a new array."""
    merged: float = 0
    """Of batches, in whatever way: not among the others, as it is work that belongs to many steps."""

    def times(self, factor: float) -> Rows:
        """Return these figures times a number."""
        return Rows(*(figure * factor for figure in self))


class RowWork:
    """Counts rows within its ``with`` blocks. ``rows`` says how many there have been."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(Rows._fields, 0)
        self._merging = False
        self._undo = ExitStack()

    @property
    def rows(self) -> Rows:
        return Rows(**self._counts)

    def __enter__(self) -> RowWork:
        self._replace_kernel("hashed", "hashed", lambda result, *_: len(result))
        self._replace_kernel("hash_places", "hashed", lambda result, *_: len(result[0]))
        self._replace_kernel("expand", "gathered", lambda result, *_: len(result[0]))
        self._replace(Spine, "find", "gathered", lambda result, *_: len(result[0]))
        self._replace(np, "concatenate", "scanned", lambda result, *_: result.shape[-1])
        self._replace(np, "stack", "scanned", lambda result, *_: result.shape[-1])
        self._replace(np, "lexsort", "sorted", lambda result, *_: len(result))
        self._undo.enter_context(patch.object(Merge, "work", self._merge(Merge.work)))
        self._undo.callback(sys.setprofile, sys.getprofile())
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *of_exception: object) -> None:
        self._undo.close()

    def _replace(self, owner: Any, name: str, kind: str, rows: Callable[..., int]) -> None:
        """Have the calls of a function counted: so many rows as its result and its arguments say."""
        self._undo.enter_context(patch.object(owner, name, self._counting(getattr(owner, name), kind, rows)))

    def _replace_kernel(self, name: str, kind: str, rows: Callable[..., int]) -> None:
        """Have the calls of a kernel counted, whichever module has imported it."""
        kernel = getattr(updates, name)
        counting = self._counting(kernel, kind, rows)
        for module in [m for at, m in sys.modules.items() if at.startswith(PACKAGE)]:
            if getattr(module, name, None) is kernel:
                self._undo.enter_context(patch.object(module, name, counting))

    def _counting(self, function: Callable[..., Any], kind: str, rows: Callable[..., int]) -> Callable[..., Any]:
        @wraps(function)
        def counting(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._count(kind, rows(result, *args))
            return result

        return counting

    def _merge(self, work: Callable[..., None]) -> Callable[..., None]:
        """Have rows that are merged counted as such, by what the merge has got on."""

        @wraps(work)
        def merging(merge: Merge, effort: int) -> None:
            before = 0 if merge.result else sum(merge._progress[:2])
            self._merging = True
            work(merge, effort)
            self._merging = False
            whole = len(merge.older.hashes) + len(merge.newer.hashes)
            self._count("merged", (whole if merge.result else sum(merge._progress[:2])) - before)

        return merging

    def _seen(self, _frame: Any, event: str, called: Any) -> None:
        if event != "c_call":
            return
        of = getattr(called, "__self__", None)
        if isinstance(of, np.ndarray) and of.ndim:
            kind = "sorted" if called.__name__ in SORTS else "scanned" if called.__name__ in SCANS else None
            if kind is not None:
                self._count(kind, of.shape[-1])

    def _count(self, kind: str, rows: int) -> None:
        if not self._merging:
            self._counts[kind] += rows
