"""Paths of files that users name."""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.errors import StateError


def file_path(path: str | os.PathLike[str], call: str, verb: str = "write") -> Path:
    """Return what was given as the path of a file; `StateError` where it can be none.

    >>> file_path(7, "save(7)")
    Traceback (most recent call last):
        ...
    tidemill.errors.StateError: save(7): expected the path of a file to write, a string or a Path
    """
    if isinstance(path, (str, os.PathLike)) and (text := os.fsdecode(path)) and "\0" not in text:
        return Path(text)
    msg = f"{call}: expected the path of a file to {verb}, a string or a Path"
    raise StateError(msg)
