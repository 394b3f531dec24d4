"""What a folder of views has done: the refresh under way, and the history of those that are done."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tidemill.dataflow.fingerprint import describe, function_prints
from tidemill.dataflow.graph import Graph
from tidemill.renderer.embedded.whole_file import put_in_place, sync_folder

_BLOCK: Final = 1 << 16
"""Bytes of the history that are read at once, from its end."""


@attrs.frozen
class Written:
    """What a refresh did to a view's sink."""

    way: str
    """``overwrite``, ``merge``, ``changelog``, or ``""`` where nothing changed."""
    rows: int
    """How many rows the view has."""
    changed: int
    """How many updates the refresh brought."""
    seconds: float
    sink: Any = None
    """The state of the sink afterwards: see `Sink.state`."""
    said: Any = None
    """Which table it is, whether it is a changelog, and by which key it is merged."""
    number: int = 0
    """The refresh that wrote to it last."""
    paces: Mapping[str, float] = attrs.field(factory=dict)
    """By ways, how many times as long as it is usual each took when it was gone last: see `Sink.seconds`."""


@attrs.frozen
class Refresh:
    """A refresh that is done: printed it is a table."""

    number: int
    at: str
    """When it ended, UTC."""
    seconds: float
    versions: Mapping[str, Any]
    """The version of each source that it read up to."""
    read: Mapping[str, int]
    """How many rows came from each source, or went."""
    views: Mapping[str, Written]
    run: str
    """The folder of the run's state."""
    epoch: int
    """What changed before it is in the sinks."""
    dataflow: str
    """What tells the dataflow from another: see `digest_of`."""

    @property
    def is_new(self) -> bool:
        """Whether there was anything to do."""
        return any(self.read.values()) or any(w.way for w in self.views.values())

    def __str__(self) -> str:
        lines = [f"refresh {self.number}, {self.at}, {self.seconds:.2f} s" + ("" if self.is_new else ": nothing new")]
        lines += [f"  source {n}: {k:,} rows, {_brief(self.versions[n])}" for n, k in self.read.items()]
        for name, view in self.views.items():
            how = f"{view.way} in {view.seconds:.2f} s" if view.way else "as it was"
            lines.append(f"  view {name}: {view.changed:,} changes, {view.rows:,} rows, {how}")
        return "\n".join(lines)

    @classmethod
    def read_from(cls, line: bytes) -> Refresh:
        """Return what a line of the history says."""
        told = json.loads(line)
        return cls(**{**told, "views": {name: Written(**w) for name, w in told["views"].items()}})


def digest_of(graph: Graph, views: Sequence[Any]) -> str:
    """Return what tells a dataflow and what is said of its views from others."""
    said = json.dumps([describe(graph), function_prints(graph), views])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _brief(version: Any) -> str:
    at = version["at"]
    if not isinstance(at, dict):
        return f"version {at}"
    return f"offsets {at['offsets']}" if "offsets" in at else f"{len(at)} files"


class RefreshJournal:
    """The files of a folder of views: its name, the plan of the refresh under way, a line for each that is done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan, self._history, self._name = (folder / n for n in ("plan.json", "history.jsonl", "name"))

    def name(self) -> str:
        """Return what tells this folder from all others, made once."""
        if not self._name.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            put_in_place(self._name, lambda file: file.write(uuid.uuid4().hex.encode()), new=True)
        return self._name.read_text()

    def plan(self) -> Mapping[str, Any] | None:
        """Return the refresh under way: its ``number``, ``run``, and the versions ``since`` which it reads and up to.

        One that is ``refused`` was read and not written: the next one begins where it ended, and has it ``behind`` it.
        """
        try:
            plan: Mapping[str, Any] = json.loads(self._plan.read_text())
        except FileNotFoundError:
            return None
        last = self.last()
        return None if last is not None and plan["number"] <= last.number else plan

    def state(self) -> tuple[Refresh | None, Mapping[str, Any] | None]:
        """Return the last refresh that is done, and the one under way."""
        return self.last(), self.plan()

    def give_up(self, plan: Mapping[str, Any]) -> None:
        """Have a refresh not be under way, of which nothing was taken; one that was refused before it is again."""
        if plan["behind"] is None:
            self._plan.unlink(missing_ok=True)
        else:
            self.begin(plan["behind"])

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Write down what a refresh will read, before anything is read."""
        put_in_place(self._plan, lambda file: file.write(json.dumps(plan).encode()))

    def refuse(self, plan: Mapping[str, Any]) -> None:
        """Write down that the sources were read but nothing written, for what was read is not as it should be."""
        self.begin({**plan, "behind": None, "refused": True})

    def done(self, refresh: Refresh) -> None:
        """Write down a refresh: from here on it is not done again."""
        _, end = self._tail()
        with self._history.open("ab") as file:
            file.truncate(end)  # what a crash left of a line
            file.write(json.dumps(attrs.asdict(refresh)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)
        self._plan.unlink(missing_ok=True)

    def last(self) -> Refresh | None:
        """Return the last refresh that is done. Cost: that of its line, however many there are."""
        line, _ = self._tail()
        return Refresh.read_from(line) if line else None

    def history(self) -> list[Refresh]:
        """Return the refreshes that are done, oldest first."""
        if not self._history.exists():
            return []
        with self._history.open("rb") as file:
            return [Refresh.read_from(line) for line in file if line.endswith(b"\n")]

    def _tail(self) -> tuple[bytes, int]:
        """Return the last whole line, read from the end of the file, and where it ends."""
        text = b""
        if not self._history.exists():
            return text, 0
        with self._history.open("rb") as file:
            begin = file.seek(0, os.SEEK_END)
            while begin and text.count(b"\n") < 2:  # noqa: PLR2004 - the end of the line, and that of the one before
                begin, end = max(begin - _BLOCK, 0), begin
                file.seek(begin)
                text = file.read(end - begin) + text
        whole = text[: text.rfind(b"\n") + 1]
        return whole[whole.rfind(b"\n", 0, -1) + 1 :], begin + len(whole)
