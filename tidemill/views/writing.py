"""How a view's sink takes what a refresh changed: the way that costs least, said beforehand and measured afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.collections.collection import Collection
from tidemill.errors import ViewError
from tidemill.views.journal import Refresh, Written
from tidemill.views.stores import Sink

Way: TypeAlias = Literal["auto", "merge", "overwrite", "changelog"]
WAYS: Final = ("auto", "merge", "overwrite", "changelog")
DIFF: Final = "__diff"
"""What the column of diffs is called among the view's own."""
TIME: Final = "__time"
CHANGE: Final = "_change"
REFRESH: Final = "_refresh"


@attrs.frozen
class DeclaredView:
    """A collection under a name, and where it is written to."""

    name: str
    collection: Collection
    to: Sink | None
    key: tuple[str, ...]
    write: Way
    is_sql: bool = False

    def __attrs_post_init__(self) -> None:
        where = f"view {self.name!r}"
        if self.write not in WAYS:
            msg = f"{where}: write={self.write!r}: expected one of {', '.join(WAYS)}"
            raise ViewError(msg)
        self.collection.schema.project(self.key)
        if taken := {DIFF, TIME, CHANGE, REFRESH} & set(self.collection.schema.names):
            msg = f"{where}: columns called {', '.join(sorted(taken))} are tidemill's own here: call them otherwise"
            raise ViewError(msg)
        if self.to is None:
            return
        if self.write not in {"auto", *self.to.ways}:
            msg = f"{where}: write={self.write!r}: {self.to} takes {', '.join(sorted(self.to.ways))}"
            raise ViewError(msg)
        if self.write == "merge" and not self.key:
            msg = f"{where}: write='merge' needs key=[...], the columns that tell its rows apart"
            raise ViewError(msg)

    def costs(self, rows: int, changed: int, history: Sequence[Refresh]) -> dict[str, float]:
        """Return the ways that it may be written by, with about how many seconds each takes, by those it took last."""
        assert self.to is not None
        if self.write != "auto":
            ways: list[str] = [self.write]
        else:
            ways = ["overwrite", *(["merge"] if self.key and "merge" in self.to.ways else [])]
        return {way: self._seconds(self.to, way, rows, changed, history) for way in ways}

    def _seconds(self, to: Sink, way: str, rows: int, changed: int, history: Sequence[Refresh]) -> float:
        usual = to.seconds(way, rows, changed)
        for refresh in reversed(history):
            was = refresh.views.get(self.name)
            if was is not None and was.way == way:
                return usual * was.seconds / to.seconds(way, was.rows, was.changed)
        return usual


@attrs.frozen
class Due:
    """A refresh that a sink is to be brought up to."""

    number: int
    owner: str
    changes: pa.Table
    """What it changed in the view: its columns, and how many of each row came or went."""
    contents: Callable[[], pa.Table]
    """Reads all that the view holds."""
    is_again: bool
    """Whether a sink that is there already has what it should: it was planned so, and nobody asks for it anew."""


def write(view: DeclaredView, due: Due, history: Sequence[Refresh], *, anew: bool) -> Written:
    """Bring a view's sink up to a refresh, unless it is there already; return what was done."""
    was = history[-1].views.get(view.name) if history else None
    changed, more = due.changes.num_rows, pc.sum(due.changes[DIFF]).as_py() or 0
    rows = due.contents().num_rows if was is None or anew else was.rows + more
    to, said = view.to, [repr(view.to), view.write == "changelog", list(view.key)]
    done = Written("", rows, changed, 0.0, None, said, 0)
    if to is None:
        return done
    reached = to.refresh(f"{due.owner}:{view.name}")
    if reached == due.number and due.is_again:  # by a refresh that was cut off behind it
        return attrs.evolve(done, way="again", sink=to.state(), number=reached)
    began, costs = time.perf_counter(), {"overwrite": 0.0}
    if was is not None and was.said == said and was.number == reached and not anew:  # it has what was written last
        to.require_own(was.sink)
        if not changed:
            return attrs.evolve(done, sink=was.sink, number=was.number)
        costs = view.costs(rows, changed, history)
    way = min(costs, key=lambda w: costs[w])
    _write(view, to, way, due)
    return attrs.evolve(done, way=way, seconds=time.perf_counter() - began, sink=to.state(), number=due.number)


def _write(view: DeclaredView, to: Sink, way: str, due: Due) -> None:
    to_whom = f"{due.owner}:{view.name}", due.number
    if way == "changelog":
        to.append(_logged(_repeated(due.changes), due.number), *to_whom)
    elif way == "merge" and not any(due.changes[k].null_count for k in view.key):  # NULL finds no row
        to.merge(_by_key(view, due.changes), view.key, *to_whom)
    else:
        table = due.contents()
        if view.key:
            _require_unique(view, table)
        if view.write == "changelog":
            table = _logged(table.append_column(DIFF, pa.repeat(1, table.num_rows)), due.number)
        to.overwrite(table, *to_whom)


def _repeated(changes: pa.Table) -> pa.Table:
    """Return updates as rows, each as often as its diff says."""
    times = pc.abs(changes[DIFF]).to_numpy()
    return changes if (times == 1).all() else changes.take(np.arange(changes.num_rows).repeat(times))


def _logged(updates: pa.Table, number: int) -> pa.Table:
    """Return rows of a changelog: ``_change`` is insert or delete, ``_refresh`` the number of the refresh."""
    change = pc.if_else(pc.greater(updates[DIFF], 0), "insert", "delete")
    table = updates.drop_columns([DIFF]).append_column(CHANGE, change)
    return table.append_column(REFRESH, pa.repeat(number, updates.num_rows))


def _by_key(view: DeclaredView, changes: pa.Table) -> pa.Table:
    """Return one row for each key that changed: what it is now, or what it was where it is gone."""
    came = changes.filter(pc.greater(changes[DIFF], 0))
    went = changes.filter(pc.less(changes[DIFF], 0))
    _require_unique(view, came)
    keys = list(view.key)
    numbered = went.select(keys).append_column(DIFF, pa.array(np.arange(went.num_rows)))
    gone = went.take(numbered.join(came.select(keys), keys, join_type="left anti")[DIFF])
    parts = [
        table.drop_columns([DIFF]).append_column(CHANGE, pa.repeat(kind, table.num_rows))
        for table, kind in ((came, "upsert"), (gone, "delete"))
    ]
    return pa.concat_tables(parts)


def _require_unique(view: DeclaredView, table: pa.Table) -> None:
    how = (DIFF, "sum") if DIFF in table.column_names else ([], "count_all")
    counts = table.group_by(list(view.key)).aggregate([how])
    repeated = counts.filter(pc.greater(counts[counts.column_names[-1]], 1))
    if repeated.num_rows:
        twice = repeated.slice(0, 1).select(list(view.key)).to_pylist()[0]
        msg = f"view {view.name!r}: two rows have the key {twice}: key= names columns that tell its rows apart"
        raise ViewError(msg)


def choices(view: DeclaredView, rows: int, changed: int, history: Sequence[Refresh]) -> Mapping[str, float]:
    """Return about how many seconds each way would take for so many changes; nothing where there is no sink."""
    return {} if view.to is None else view.costs(rows, changed, history)
