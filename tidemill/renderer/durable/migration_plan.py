"""What starting a changed dataflow on a folder of state comes to, before it is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

from tidemill.dataflow.nodes import FlatMap
from tidemill.renderer.durable.definition import StateDefinition
from tidemill.renderer.durable.loading import Loading
from tidemill.renderer.durable.migration import Migration
from tidemill.renderer.embedded.state import Saved

_ROWS_A_SECOND: Final = 1_000_000
"""Rows that an operator takes in, about, as it is loaded (``python -m benchmarks migrations``)."""
_CALLS_A_SECOND: Final = 90_000
"""Rows that a function is called for, likewise."""
_SHOWN: Final = 20


@attrs.frozen
class MigrationPlan:
    """What of the state in a folder a dataflow goes on with. Printed, it says so to people.

    Operators are told in the words of ``flow.explain()``, only those that hold anything.
    """

    folder: Path
    kept: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: int
    """How many rows are loaded into what is new."""
    bytes: int
    """About how large that becomes, at most."""
    seconds: float
    """About how long it takes."""
    repeated: int = 0
    """How many rows came in steps since the last checkpoint: these are taken again, as by every start."""

    @property
    def changes(self) -> bool:
        """Whether anything is loaded or dropped."""
        return bool(self.new or self.dropped)

    @classmethod
    def of(cls, migration: Migration, saved: Saved | None, repeated: int) -> MigrationPlan:
        """Return that of a migration from what was saved, with so many rows in steps since.

        ``StateError`` where it cannot be done.
        """
        now, before, places = migration.now, migration.before, migration.places
        titles, were = now.titles_by(), before.titles_by()
        kept = [title for place, title in titles.items() if place in places]
        new = [title for place, title in titles.items() if place not in places]
        dropped = [title for place, title in were.items() if place not in set(places.values())]
        migration.require_inputs()
        rows, size, functions = 0, 0, 0
        if saved is not None:
            migration.begin(saved)
            how = migration.loading()
            rows = _rows(how, before, now, saved)
            widths = [len(n.schema) + n.scope.coordinates + 1 for n in how.targets if str(n.id) in titles]
            size = 8 * rows * sum(widths)
            functions = sum(isinstance(node, FlatMap) for node in how.worked)
        kept_ones, new_ones, gone = (tuple(sorted(some)) for some in (kept, new, dropped))
        seconds = rows * (len(new) / _ROWS_A_SECOND + functions / _CALLS_A_SECOND)
        return cls(migration.folder, kept_ones, new_ones, gone, rows, size, seconds, repeated)

    def __str__(self) -> str:
        size = self.bytes / 1e6
        counts = f"{len(self.kept)} operators kept, {len(self.new)} new, {len(self.dropped)} dropped"
        head = f"{os.fspath(self.folder)}: {counts}"
        load = f"rows to load: {self.rows:,} (at most {size:,.1f} MB, about {self.seconds:,.1f} s)"
        again = f"and {self.repeated:,} that came since the last checkpoint are taken again, as by every start"
        lines = [head, load, *([again] if self.repeated else [])]
        for called, titles in (("new", self.new), ("dropped", self.dropped), ("kept", self.kept)):
            lines += [f"  {called}: {title}" for title in titles[:_SHOWN]]
            lines += [f"  and {len(titles) - _SHOWN} more"] if len(titles) > _SHOWN else []
        return "\n".join(lines)


def _rows(how: Loading, before: StateDefinition, now: StateDefinition, saved: Saved) -> int:
    """Return how many rows are read, by what is written down of how many each operator holds."""
    places, total = now.places_in(before), 0
    for node, holder in how.sources.items():
        place = places.get(str(holder.place))
        was = before.inputs.get(node.name)
        if place is None and was is not None:
            place = was.holder
        total += saved.header["rows"].get(place, 0)
    return total
