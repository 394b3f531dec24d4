"""The explorer's page: one HTML file with all that it needs, which opens from a disk without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

import attrs

from tidemill.errors import StateError
from tidemill.renderer.diagram.layout import LoopLayout, Rectangle
from tidemill.renderer.diagram.measures import lines_of, title_of
from tidemill.renderer.diagram.scene import DrawnOperator, Scene
from tidemill.renderer.diagram.svg import DirectionOrAuto, chosen_layout


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


def data_of(scene: Scene, history: History = _NONE, direction: DirectionOrAuto = "auto") -> str:
    """Return what the explorer shows, as JSON."""
    layout, chosen = chosen_layout(scene, direction)
    data = {
        "name": scene.name,
        "coordinates": scene.coordinates,
        "down": chosen == "down",
        "operators": [_operator(o) for o in scene.operators],
        "loops": [{"id": s.id, "title": title_of(s), "parent": s.parent, "line": s.line} for s in scene.loops],
        "layout": _layout(layout),
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
        data=data.replace("<", "\\u003c"),  # nothing in a script of the page may end it
    )
    return made.encode(errors="replace").decode()


def page_script() -> str:
    """Return the explorer's code."""
    return page_file("picture.js") + page_file("explorer.js")


def page_file(name: str) -> str:
    """Return the text of a file of the page."""
    return (files("tidemill.renderer.diagram") / "page" / name).read_text(encoding="utf-8")


def _operator(operator: DrawnOperator) -> dict[str, Any]:
    figures = operator.figures
    return {
        "id": operator.id,
        "kind": operator.kind,
        "name": operator.name,
        "does": operator.does,
        "schema": operator.schema,
        "line": operator.line,
        "source": operator.source,
        "loop": operator.loop,
        "reads": operator.reads,
        "back": operator.back_to,
        "role": operator.role,
        "lines": lines_of(operator),
        "records": None if figures is None else figures.records,
        "held": None if figures is None else figures.state_rows,
        "seconds": None if figures is None else figures.seconds,
    }


def _layout(layout: LoopLayout) -> dict[str, Any]:
    return {
        "id": layout.loop.id,
        "across": layout.across,
        "along": layout.along,
        "border": _rectangle(layout.border),
        "title": _rectangle(layout.title),
        "bands": layout.bands or [(0, 0)],
        "boxes": [[b.operator.id, *_rectangle(b.at)] for b in layout.boxes],
        "loops": [[u, v, layout.layer_at(v), _layout(inner)] for u, v, inner in layout.loops],
        "edges": [[e.source, e.target, int(e.is_feedback), [c for p in e.points for c in p]] for e in layout.edges],
    }


def _rectangle(at: Rectangle) -> tuple[float, float, float, float]:
    return at.u, at.v, at.across, at.along


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
