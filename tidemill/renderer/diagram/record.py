"""The record of a run in a file: what its page shows, to be looked at later and elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tidemill.errors import StateError
from tidemill.renderer.diagram.explorer_page import page_of

_FORMAT: Final = "tidemill record 1"


def record_of(data: str, title: str) -> str:
    """Return the text of a record with the explorer's data."""
    return f'{{"format":{json.dumps(_FORMAT)},"title":{json.dumps(title)},"data":{data}}}\n'


def page_of_record(path: Path) -> str:
    """Return the page of a record; `StateError` where the file is none."""
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}): expected a file written by run.record(path)"
        raise StateError(msg) from error
    except (ValueError, RecursionError):
        record = None
    found = record.get("format") if isinstance(record, dict) else None
    if found != _FORMAT:
        what = f"is of format {found!r}" if found else "is no record of a run"
        msg = f"{path} {what}: expected {_FORMAT!r}, a file written by run.record(path)"
        raise StateError(msg)
    if "data" not in record or "title" not in record:
        msg = f"{path} has lost a part: expected a whole file written by run.record(path)"
        raise StateError(msg)
    return page_of(json.dumps(record["data"], separators=(",", ":"), ensure_ascii=False), str(record["title"]))
