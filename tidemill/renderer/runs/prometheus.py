"""Figures of a run in Prometheus' text format, which is a line a figure: too small a thing for a dependency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidemill.errors import TidemillError

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OF_OPERATORS: Final = {
    "records_in": ("records_in_total", "counter", "Updates that came to an operator."),
    "records_out": ("records_out_total", "counter", "Updates that an operator sent."),
    "seconds": ("seconds_total", "counter", "Seconds that an operator worked."),
    "late": ("late_total", "counter", "Rows that came when a watermark had passed them."),
    "state_rows": ("state_rows", "gauge", "Updates held in an operator's arrangements."),
    "waiting": ("waiting", "gauge", "Updates and pending times that wait for a later step."),
    "bytes": ("state_bytes", "gauge", "Memory that an operator's state takes."),
}
_OF_MEMORY: Final = {
    "interned": ("interned", "gauge", "Texts and other values that are held once each."),
    "interned_bytes": ("interned_bytes", "gauge", "Memory that these take."),
    "unread_bytes": ("unread_bytes", "gauge", "Memory of changes that nobody has read."),
    "held_bytes": ("held_bytes", "gauge", "Memory of arrangements."),
    "spilled_bytes": ("spilled_bytes", "gauge", "Files of arrangements on the disk."),
}


def prometheus_text(operators: Sequence[Any], memory: Any, labels: Mapping[str, Any]) -> str:
    """Return a run's `OperatorMetrics` and its `Memory`, each figure with these labels beside its own."""
    for label in labels:
        if not _LABEL.fullmatch(label) or label in {"operator", "kind", "name", "output"}:
            msg = f"to_prometheus({label}=...): expected a label of letters, digits and _, other than those of figures"
            raise TidemillError(msg)
    lines: list[str] = []
    for field, about in _OF_OPERATORS.items():
        own = [({"operator": o.id, "kind": o.kind, "name": o.name}, getattr(o, field)) for o in operators]
        lines += _family("operator", about, [({**labels, **which}, value) for which, value in own])
    for field, about in _OF_MEMORY.items():
        lines += _family("memory", about, [(labels, getattr(memory, field))])
    unread = memory.unread.items()
    about = ("unread", "gauge", "Updates of an output that nobody has read yet.")
    lines += _family("output", about, [({**labels, "output": name}, count) for name, count in unread])
    return "".join(f"{line}\n" for line in lines)


def _family(of: str, about: tuple[str, str, str], figures: Iterable[tuple[Mapping[str, Any], float]]) -> list[str]:
    name, kind, text = about
    full = f"tidemill_{of}_{name}"
    return [f"# HELP {full} {text}", f"# TYPE {full} {kind}", *(f"{full}{_labels(w)} {v}" for w, v in figures)]


def _labels(labels: Mapping[str, Any]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
