"""The explorer's page: one HTML file with all that it needs, which opens from a disk without a network."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

import attrs

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Node
from tidemill.errors import StateError
from tidemill.renderer.diagram.called import operator_title
from tidemill.renderer.diagram.levels import DrawnGroup, levels_of
from tidemill.renderer.diagram.scene import DrawnOperator, Scene


@attrs.frozen
class History:
    """What a run did, step by step, as the page has it: see ``explorer.js``."""

    steps: Sequence[Mapping[str, Any]] = ()
    frontiers: Mapping[str, Any] | None = None
    """Where operators are now."""
    now: Sequence[int | str] | None = None
    """The last time that any input has closed: what all of them are to pass."""
    records: Mapping[int, Mapping[str, Any]] = attrs.field(factory=dict)
    """Records of some operators, by their ids."""


_NONE: Final = History()
SCRIPTS: Final = ("layers.js", "layout.js", "tree.js", "times.js", "view.js", "picture.js", "panel.js", "explorer.js")
"""The files of the explorer's code, in order."""


def data_of(scene: Scene, graph: Graph, history: History = _NONE) -> str:
    """Return what the explorer shows, as JSON."""
    texts: dict[str, int] = {}
    columns: dict[tuple[str, ...], int] = {}
    data = {
        "name": scene.name,
        "coordinates": scene.coordinates,
        "operators": [_operator(o, n, texts, columns) for o, n in zip(scene.operators, graph.nodes, strict=True)],
        "groups": [_group(g, texts) for g in levels_of(graph)],
        "texts": list(texts),
        "columns": list(columns),
        "steps": list(history.steps),
        "frontiers": history.frontiers,
        "now": history.now,
        "records": history.records,
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def page_of(data: str, title: str) -> str:
    """Return the page that shows this."""
    made = Template(page_file("page.html")).substitute(
        title=escape(title),
        css=page_file("explorer.css"),
        js=page_script(),
        data=base64.b64encode(zlib.compress(data.encode(errors="replace"), 6)).decode(),
    )
    return made.encode(errors="replace").decode()


def page_script() -> str:
    """Return the explorer's code."""
    return "".join(page_file(name) for name in SCRIPTS)


def page_file(name: str) -> str:
    """Return the text of a file of the page."""
    return (files("tidemill.renderer.diagram") / "page" / name).read_text(encoding="utf-8")


def _operator(
    operator: DrawnOperator, node: Node, texts: dict[str, int], columns: dict[tuple[str, ...], int]
) -> dict[str, Any]:
    figures = operator.figures
    return {
        "id": operator.id,
        "kind": operator.kind,
        "name": operator.name,
        "title": operator_title(node),
        "does": _number(operator.does, texts),
        "schema": _number(operator.schema, texts),
        "columns": columns.setdefault(node.schema.names, len(columns)),
        "line": _number(operator.line, texts),
        "source": _number(operator.source, texts),
        "reads": operator.reads,
        "back": operator.back_to,
        "role": operator.role,
        "records": None if figures is None else figures.records,
        "held": None if figures is None else figures.state_rows,
        "seconds": None if figures is None else round(figures.seconds, 7),
    }


def _group(group: DrawnGroup, texts: dict[str, int]) -> dict[str, Any]:
    return {
        "id": group.id,
        "kind": group.kind,
        "title": group.title,
        "line": _number(group.line, texts),
        "parent": group.parent,
        "operators": group.operators,
        "result": group.result,
    }


def _number(text: str, texts: dict[str, int]) -> int:
    """Return the number of a text among those that the page has: many operators have the same columns and line."""
    return texts.setdefault(text, len(texts))


_FORMAT: Final = "tidemill record 2"


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
